"""Hydra's configuration: YAML by group, and the names that packages of others and one's own files add to a group.

Of datasets, only those have a file whose usual protocol differs; `benchmarks.scoring.catalog` knows all names.
"""

from __future__ import annotations

import os
from functools import cache
from importlib import resources
from pathlib import Path

#: The entry-point group of packages that bring metrics; each entry is named as what it brings.
METRIC_PLUGINS = "captau.metrics"
#: The environment variable that names the folder of `--config-dir`; child processes inherit it.
CONFIG_DIR = "CAPTAU_CONFIG_DIR"
#: The config groups to which files of that folder can add names.
OWN_GROUPS = ("dataset", "experiment", "paper", "protocol", "suite")


def group(name: str) -> list[str]:
    """Return the names in a config group, such as `suite`, with those of packages and own files."""
    packaged = _packaged_metrics() if name == "metric" else ()
    return sorted({*shipped_names(name), *own_files(name), *packaged})


@cache
def shipped_names(name: str) -> frozenset[str]:
    """Return the names in a config group that captau brings itself; none for an unknown group."""
    folder = resources.files(__name__) / name
    files = folder.iterdir() if folder.is_dir() else ()
    names: set[str] = set()
    for file in files:
        if file.name.endswith(".yaml"):
            names.add(file.name.removesuffix(".yaml"))
    return frozenset(names)


def own_files(name: str) -> dict[str, Path]:
    """Return the files of a config group in the folder of `--config-dir`, by name."""
    folder = os.environ.get(CONFIG_DIR)
    if not folder or name not in OWN_GROUPS:
        return {}
    return {path.stem: path for path in sorted((Path(folder) / name).glob("*.yaml"))}


@cache
def _packaged_metrics() -> frozenset[str]:
    """Return the names of other packages' metrics; installed packages are read once."""
    from importlib.metadata import entry_points  # slow to import, and seldom needed

    return frozenset(entry_points(group=METRIC_PLUGINS).names)
