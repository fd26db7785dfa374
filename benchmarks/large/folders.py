"""A folder of results, on this machine or in an object store, in which each file appears whole."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from ...datasets.cache import replacing
from ...datasets.errors import InputError
from ...datasets.paths import expand_home
from ...datasets.shards.object_store import RemotePath, is_url
from ..runs.output_folder import write_file


@contextmanager
def lock_folder(work: Path, output: str) -> Generator[None]:
    """Keep other runs out of a folder while the block lasts; the system's lock goes with its process.

    The file of the lock is removed at the end.

    Args:
        work: the folder of intermediate files.
        output: where the run writes, for the message.

    Raises:
        InputError: where another run holds the lock.
    """
    lock = FileLock(work.with_name(f"{work.name}.lock"), timeout=0)
    try:
        lock.acquire()
    except Timeout as error:
        raise InputError(
            f"{output}: another run is writing there; wait for it, or name another output_dir="
        ) from error
    try:
        yield
    finally:
        Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()


class ResultFolder:
    """Files by name, in a folder or in an object store.

    Every method raises InputError where an object store cannot be reached.

    Args:
        location: a path, or a URL that fsspec opens.

    Attributes:
        local: the path; None for a URL.
    """

    def __init__(self, location: str) -> None:
        self.location = location.rstrip("/")
        self.local = None if is_url(location) else expand_home(location)
        self._root = self.local or RemotePath(location)

    def prepare(self, name: str) -> None:
        """Make a folder below, or check that the store takes files, before anything is computed."""
        folder = self._root / name
        if isinstance(folder, Path):
            folder.mkdir(parents=True, exist_ok=True)
        else:
            (folder / ".probe").write_bytes(b"")
            (folder / ".probe").unlink()

    def write(self, name: str, content: bytes) -> None:
        """Write a file whole."""
        path = self._root / name
        if isinstance(path, Path):
            write_file(path, content)
        else:
            path.write_bytes(content)

    def copy_in(self, name: str, source: Path) -> None:
        """Copy a file of this machine into the folder."""
        path = self._root / name
        if isinstance(path, Path):
            with source.open("rb") as content, replacing(path) as stream:
                shutil.copyfileobj(content, stream)
        else:
            path.copy_from(source)

    def read(self, name: str) -> bytes | None:
        """Return a file's content; None where there is no such file."""
        size = self.size(name)
        if size is None:
            return None
        path = self._root / name
        return path.read_bytes() if isinstance(path, Path) else path.read_bytes(size)

    def size(self, name: str) -> int | None:
        """Return how many bytes a file has; None where there is no such file."""
        path = self._root / name
        if isinstance(path, Path):
            return path.stat().st_size if path.is_file() else None
        return path.size() if path.exists() else None

    def list_names(self, name: str) -> list[str]:
        """Return the sorted names of the files in a folder below."""
        folder = self._root / name
        if isinstance(folder, Path):
            return sorted(path.name for path in folder.iterdir())
        return sorted(folder.list_names())

    def remove(self, name: str) -> None:
        """Remove a file."""
        (self._root / name).unlink()
