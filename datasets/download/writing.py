"""Writing files to a data folder: a file whole or not at all, and one run at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

from ..errors import unwritable

#: What helps where a file cannot be written.
REMEDY = "set data.root=DIR"
#: Takes a line that a person may want to read while something goes on.
Note = Callable[[str], None]


def silent(*_: object) -> None:
    """Ignore a note or a step of progress."""


@contextmanager
def arriving(path: Path) -> Generator[Path]:
    """A temporary file that takes the name `path` when the block ends well, and goes if it does not.

    Raises:
        InputError: where there is no room or no right to write; what was at `path` is untouched.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        temporary.replace(path)
    except OSError as error:
        raise unwritable(path, error, REMEDY) from error
    finally:
        if temporary.exists():
            temporary.unlink()


def write(chunks: Iterable[bytes], path: Path) -> None:
    """Write a file to the disk itself, so that no crash after a renaming leaves an empty file."""
    with path.open("wb") as stream:
        for chunk in chunks:
            stream.write(chunk)
        stream.flush()
        os.fsync(stream.fileno())


@contextmanager
def locked(root: Path, note: Note = silent, remedy: str = REMEDY) -> Generator[None]:
    """Keep other captau runs from writing to a folder, which is made if need be; wait in turn.

    Args:
        root: the folder.
        note: called with a line if another run is writing there.
        remedy: what helps where the folder cannot be written.

    Raises:
        InputError: where the folder cannot be made or written to.
    """
    from filelock import FileLock, Timeout

    try:
        root.mkdir(parents=True, exist_ok=True)
        lock = FileLock(root / ".captau.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            note(f"another captau is writing to {root}; waiting for it")
            lock.acquire()
    except OSError as error:
        raise unwritable(root, error, remedy) from error
    try:
        yield
    finally:
        lock.release()
