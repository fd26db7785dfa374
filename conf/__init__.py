"""Hydra's configuration: YAML by group, and the typed schemas that validate it."""

from __future__ import annotations

from importlib import resources


def group(name: str) -> list[str]:
    """The names in a config group, such as `dataset`; empty where there is no such group."""
    folder = resources.files(__name__) / name
    if not folder.is_dir():
        return []
    return sorted(
        f.name.removesuffix(".yaml") for f in folder.iterdir() if f.name.endswith(".yaml")
    )
