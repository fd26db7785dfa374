"""Packages of others that bring datasets or metrics, by the entry-point groups `captau.datasets` and `captau.metrics`."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import Any

from .errors import InputError


@cache
def _read_entry_points() -> Any:
    """Read the entry points of all that is installed, which takes about as long as those of one group."""
    return entry_points()


@cache
def import_plugins(group: str) -> None:
    """Import the modules that an entry-point group names, so that they register what they bring.

    Raises:
        InputError: where a module cannot be imported, or registers a name that is taken.
    """
    for entry in _read_entry_points().select(group=group):
        try:
            entry.load()
        except Exception as error:
            package = entry.dist.name if entry.dist else "a package"
            raise InputError(
                f"{package}: its entry point {entry.name} of {group} cannot be loaded "
                f"({type(error).__name__}: {error}); repair or uninstall {package}"
            ) from error
