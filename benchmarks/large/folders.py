"""A folder of results, on this machine or in an object store, in which each file appears whole."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock, Timeout

from ...datasets.cache import replacing
from ...datasets.errors import InputError
from ...datasets.shards.object_store import (
    call_in_time,
    is_url,
    open_file_system,
    reporting_store_errors,
)
from ..runs.output_folder import write_file

Answer = TypeVar("Answer")


@contextmanager
def lock_folder(work: Path, output: str) -> Generator[None]:
    """Keep other runs out of a folder while the block lasts; the system's lock goes with its process.

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
        self.local = None if is_url(location) else Path(location).expanduser()

    def _call(self, name: str, call: Callable[[Any, str], Answer], size: int = 0) -> Answer:
        """Return the store's answer to a call, which takes its file system and the file's path in it."""
        with reporting_store_errors(f"{self.location}/{name}"):
            system, folder = open_file_system(self.location)
            return call_in_time(lambda: call(system, f"{folder}/{name}"), size)

    def prepare(self, name: str) -> None:
        """Make a folder below, or check that the store takes files, before anything is computed."""
        if self.local is not None:
            (self.local / name).mkdir(parents=True, exist_ok=True)
            return
        self.write(f"{name}/.probe", b"")
        self.remove(f"{name}/.probe")

    def write(self, name: str, content: bytes) -> None:
        """Write a file whole."""
        if self.local is not None:
            write_file(self.local / name, content)
            return
        self._call(name, lambda system, path: system.pipe_file(path, content), len(content))

    def copy_in(self, name: str, source: Path) -> None:
        """Copy a file of this machine into the folder."""
        if self.local is not None:
            with source.open("rb") as content, replacing(self.local / name) as stream:
                shutil.copyfileobj(content, stream)
            return
        size = source.stat().st_size
        self._call(name, lambda system, path: system.put_file(str(source), path), size)

    def read(self, name: str) -> bytes | None:
        """Return a file's content; None where there is no such file."""
        size = self.size(name)
        if size is None:
            return None
        if self.local is not None:
            return (self.local / name).read_bytes()
        return self._call(name, lambda system, path: system.cat_file(path), size)

    def size(self, name: str) -> int | None:
        """Return how many bytes a file has; None where there is no such file."""
        if self.local is not None:
            path = self.local / name
            return path.stat().st_size if path.is_file() else None
        return self._call(name, lambda s, path: int(s.size(path)) if s.exists(path) else None)

    def list_names(self, name: str) -> list[str]:
        """Return the sorted names of the files in a folder below."""
        if self.local is not None:
            return sorted(path.name for path in (self.local / name).iterdir())
        paths = self._call(name, lambda s, p: s.ls(p, detail=False) if s.isdir(p) else [])
        return sorted(path.rpartition("/")[2] for path in paths)

    def remove(self, name: str) -> None:
        """Remove a file."""
        if self.local is not None:
            (self.local / name).unlink(missing_ok=True)
            return
        self._call(name, lambda system, path: system.rm_file(path))
