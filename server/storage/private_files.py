"""Files of a site that nobody but the user who runs it can open.

A database holds the secret that signs sessions. SQLite gives the files that it puts beside a database the
database's own mode, so that the database is made private before SQLite opens it; the umask covers all other files.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

_OWNER_ONLY_FOLDER = 0o700
_OWNER_ONLY_FILE = 0o600
#: What follows the name of a database in the names of files beside it.
_SIDECAR_ENDINGS = ("-wal", "-shm", "-journal", ".lock")


@contextmanager
def private_umask() -> Generator[None]:
    """Make every new file and folder of this process and its children the user's alone.

    The umask is the whole process's: a command sets it before it starts threads.
    """
    previous_umask = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(previous_umask)


def make_private_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing, that only the user can enter, even if it is there.

    Raises:
        OSError: if it cannot be made.
    """
    make_missing_folders(folder)
    with suppress(OSError):  # another user's, or a file system without permissions
        folder.chmod(_OWNER_ONLY_FOLDER)


def make_missing_folders(folder: Path) -> None:
    """Make a folder, and those above it, each the user's alone; leave those that are there as they are.

    Raises:
        OSError: if one cannot be made.
    """
    # With `parents=True` only the last folder would have this mode.
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=_OWNER_ONLY_FOLDER, exist_ok=True)
    if not folder.is_dir():
        raise NotADirectoryError(20, "Not a directory", str(folder))


def make_private_file(path: Path) -> None:
    """Make an empty file that only the user can open; leave one that is there as it is.

    Raises:
        OSError: if it cannot be made.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _OWNER_ONLY_FILE))


def database_files(path: Path) -> list[Path]:
    """Return an SQLite database's file and those beside it that are there."""
    sidecars = [path.with_name(f"{path.name}{ending}") for ending in _SIDECAR_ENDINGS]
    return [file for file in (path, *sidecars) if file.exists()]


def readable_by_others(files: Sequence[Path]) -> list[Path]:
    """Return the files that their mode lets other users of the machine read."""
    if os.name != "posix":
        return []
    reading_bits = stat.S_IRGRP | stat.S_IROTH
    return [file for file in files if file.stat().st_mode & reading_bits]


def protect_files(files: Sequence[Path]) -> None:
    """Take files from all but their owner, where the file system has permissions."""
    for file in files:
        with suppress(OSError):
            file.chmod(_OWNER_ONLY_FILE)
