"""Hydra's configuration: YAML by group, and the names that packages of others add to a group."""

from __future__ import annotations

from functools import cache
from importlib import resources
from importlib.metadata import entry_points

#: Entry-point groups of packages that bring datasets or metrics; each entry is named as what it brings.
PLUGINS = {"dataset": "captau.datasets", "metric": "captau.metrics"}


def group(name: str) -> list[str]:
    """Return the names in a config group, such as `dataset`, plugins' included; empty for an unknown group."""
    folder = resources.files(__name__) / name
    if not folder.is_dir():
        return []
    files = [f.name.removesuffix(".yaml") for f in folder.iterdir() if f.name.endswith(".yaml")]
    return sorted({*files, *plugin_names(name)})


@cache
def plugin_names(name: str) -> frozenset[str]:
    """Return the names that other packages' entry points add to a config group; installed packages are read once."""
    return frozenset(entry_points(group=PLUGINS[name]).names if name in PLUGINS else ())
