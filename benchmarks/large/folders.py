"""A folder of results, on this machine or in an object store; each file appears there whole."""

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
def alone(work: Path, output: str) -> Generator[None]:
    """While the block lasts no other run works in a folder; the system's lock goes with its process.

    Args:
        work: the folder of what is made on the way.
        output: where the run writes, for people.

    Raises:
        InputError: where another run does already.
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


class Folder:
    """Files by name.

    Args:
        place: a path, or a URL that fsspec opens.
    """

    def __init__(self, place: str) -> None:
        self.place = place.rstrip("/")
        self.local = None if is_url(place) else Path(place).expanduser()

    def _ask(self, name: str, do: Callable[[Any, str], Answer], size: int = 0) -> Answer:
        """What the store says: `do` is given its file system and the file's path in it."""
        with reporting_store_errors(f"{self.place}/{name}"):
            system, inside = open_file_system(self.place)
            return call_in_time(lambda: do(system, f"{inside}/{name}"), size)

    def prepare(self, name: str) -> None:
        """See to it that a folder is there, which is asked before anything is computed."""
        if self.local is not None:
            (self.local / name).mkdir(parents=True, exist_ok=True)
            return
        self.write(f"{name}/.probe", b"")
        self.remove(f"{name}/.probe")

    def write(self, name: str, content: bytes) -> None:
        """Write one file whole; a store shows what is put there when it is."""
        if self.local is not None:
            write_file(self.local / name, content)
            return
        self._ask(name, lambda system, path: system.pipe_file(path, content), len(content))

    def take(self, name: str, source: Path) -> None:
        """Put a file of this machine there."""
        if self.local is not None:
            with source.open("rb") as read, replacing(self.local / name) as stream:
                shutil.copyfileobj(read, stream)
            return
        size = source.stat().st_size
        self._ask(name, lambda system, path: system.put_file(str(source), path), size)

    def read(self, name: str) -> bytes | None:
        """A file's content; None where there is none."""
        size = self.size(name)
        if size is None:
            return None
        if self.local is not None:
            return (self.local / name).read_bytes()
        return self._ask(name, lambda system, path: system.cat_file(path), size)

    def size(self, name: str) -> int | None:
        """How many bytes a file has; None where there is none."""
        if self.local is not None:
            path = self.local / name
            return path.stat().st_size if path.is_file() else None
        return self._ask(name, lambda s, path: int(s.size(path)) if s.exists(path) else None)

    def names(self, name: str) -> list[str]:
        """The files of a folder within."""
        if self.local is not None:
            return sorted(path.name for path in (self.local / name).iterdir())
        found = self._ask(name, lambda s, p: s.ls(p, detail=False) if s.isdir(p) else [])
        return sorted(path.rpartition("/")[2] for path in found)

    def remove(self, name: str) -> None:
        """Remove a file."""
        if self.local is not None:
            (self.local / name).unlink(missing_ok=True)
            return
        self._ask(name, lambda system, path: system.rm_file(path))
