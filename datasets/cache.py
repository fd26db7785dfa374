"""The user's cache folder: what is computed or downloaded once and may be thrown away at any time."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import platformdirs

from .paths import expand_home

#: A temporary file this old, in seconds, is of a killed run: writing one takes moments.
STALE = 3600.0

_keeps = [True]


def cache_root(root: str | Path | None = None) -> Path:
    """Return the cache folder: `root`, else the environment's `CAPTAU_CACHE`, else the user's."""
    folder = root or os.environ.get("CAPTAU_CACHE")
    if folder:
        return expand_home(folder)

    return platformdirs.user_cache_path("captau")


def cache_folder(*parts: str) -> Path:
    """Return a folder inside the cache folder, such as `cache_folder("meteor")`; it need not exist."""
    return cache_root().joinpath(*parts)


def keep(choice: bool) -> None:
    """`cache.use=`: whether features that models computed may be kept for the next run."""
    _keeps[0] = choice


def keeps() -> bool:
    """Tell whether features may be kept."""
    return _keeps[0]


@contextmanager
def replacing(path: Path, *, survives_power_loss: bool = False) -> Generator[BinaryIO]:
    """Give a written file the name `path` if the block ends without an error, and delete it otherwise.

    Two processes may write at once: each has a temporary file of its own, in the folder of `path`.

    Args:
        path: the file.
        survives_power_loss: whether the file and its name are on the disk itself when the block has ended, as something
            that is acknowledged has to be; what can be computed again need not.

    Raises:
        OSError: where the folder cannot be written.
    """
    # `tempfile` would make it this user's alone, and folders may be shared.
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as stream:
            yield stream
            if survives_power_loss:
                stream.flush()
                os.fsync(stream.fileno())
        temporary.replace(path)
        if survives_power_loss:
            store_names(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def store_names(folder: Path) -> None:
    """Make the names in a folder survive a power failure; Windows opens no folders.

    Raises:
        OSError: where the disk fails.
    """
    if os.name != "posix":
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:  # a folder that the user may enter and not list
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sweep(folder: Path) -> None:
    """Remove what killed runs left behind; by age, for the folder may be shared between machines."""
    for path in folder.glob(".*.tmp"):
        try:
            if time.time() - path.stat().st_mtime > STALE:
                path.unlink()
        except FileNotFoundError:  # another run was quicker
            continue
