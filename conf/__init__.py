"""Hydra's configuration: YAML by group, and the names that packages of others and one's own files add to a group."""

from __future__ import annotations

import os
from functools import cache
from importlib import resources
from importlib.metadata import entry_points
from pathlib import Path

#: Entry-point groups of packages that bring datasets or metrics; each entry is named as what it brings.
PLUGINS = {"dataset": "captau.datasets", "metric": "captau.metrics"}
#: The environment variable that names the folder of `--config-dir`; child processes inherit it.
CONFIG_DIR = "CAPTAU_CONFIG_DIR"
#: The config groups to which files of that folder can add names.
OWN_GROUPS = ("dataset", "experiment", "paper", "protocol", "suite")


def group(name: str) -> list[str]:
    """Return the names in a config group, such as `dataset`, with those of plugins and own files."""
    return sorted({*shipped_names(name), *own_files(name), *plugin_names(name)})


@cache
def shipped_names(name: str) -> frozenset[str]:
    """Return the names in a config group that captau brings itself; none for an unknown group."""
    folder = resources.files(__name__) / name
    files = folder.iterdir() if folder.is_dir() else ()
    return frozenset(f.name.removesuffix(".yaml") for f in files if f.name.endswith(".yaml"))


def own_files(name: str) -> dict[str, Path]:
    """Return the files of a config group in the folder of `--config-dir`, by name."""
    folder = os.environ.get(CONFIG_DIR)
    if not folder or name not in OWN_GROUPS:
        return {}
    return {path.stem: path for path in sorted((Path(folder) / name).glob("*.yaml"))}


@cache
def plugin_names(name: str) -> frozenset[str]:
    """Return the names that other packages' entry points add to a config group; installed packages are read once."""
    return frozenset(entry_points(group=PLUGINS[name]).names if name in PLUGINS else ())
