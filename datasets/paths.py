"""Paths that a user writes."""

from __future__ import annotations

from pathlib import Path

from .errors import InputError


def is_file(path: str | Path) -> bool:
    """Return whether a path is a file's; a text may be longer than the name of a file can be."""
    try:
        return Path(path).is_file()
    except OSError:
        return False


def exists(path: str | Path) -> bool:
    """Return whether there is something of a path; a text may be longer than the name of a file can be."""
    try:
        return Path(path).exists()
    except OSError:
        return False


def expand_home(path: str | Path) -> Path:
    """Return a path whose leading `~` or `~user` is spelt out.

    Raises:
        InputError: where the system knows no such user, or none for this process.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise InputError(
            f"{path}: no user has this home folder; write ./{path} for a file"
        ) from error
