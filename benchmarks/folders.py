"""A folder of results, on this machine or in an object store; each file appears there whole."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from ..datasets.cache import replacing
from ..datasets.shards import is_url, reaching, system_of
from .output import write_file


class Folder:
    """Files by name.

    Args:
        place: a path, or a URL that fsspec opens.
    """

    def __init__(self, place: str) -> None:
        self.place = place.rstrip("/")
        self.local = None if is_url(place) else Path(place).expanduser()

    def _system(self) -> tuple[Any, str]:
        return system_of(self.place)

    def prepare(self, name: str) -> None:
        """See to it that a folder is there, which is asked before anything is computed."""
        if self.local is not None:
            (self.local / name).mkdir(parents=True, exist_ok=True)
            return
        self.write(f"{name}/.probe", b"")
        self.remove(f"{name}/.probe")

    def write(self, name: str, content: bytes) -> None:
        """Write one file whole."""
        if self.local is not None:
            write_file(self.local / name, content)
            return
        with reaching(f"{self.place}/{name}"):
            system, inside = self._system()
            system.pipe_file(
                f"{inside}/{name}", content
            )  # stores show what is put there when it is whole

    def take(self, name: str, path: Path) -> None:
        """Put a file of this machine there."""
        if self.local is not None:
            with path.open("rb") as source, replacing(self.local / name) as stream:
                shutil.copyfileobj(source, stream)
            return
        with reaching(f"{self.place}/{name}"):
            system, inside = self._system()
            system.put_file(str(path), f"{inside}/{name}")

    def read(self, name: str) -> bytes | None:
        """A file's content; None where there is none."""
        if self.local is not None:
            path = self.local / name
            return path.read_bytes() if path.is_file() else None
        with reaching(f"{self.place}/{name}"):
            system, inside = self._system()
            path = f"{inside}/{name}"
            return system.cat_file(path) if system.exists(path) else None

    def size(self, name: str) -> int | None:
        """How many bytes a file has; None where there is none."""
        if self.local is not None:
            path = self.local / name
            return path.stat().st_size if path.is_file() else None
        with reaching(f"{self.place}/{name}"):
            system, inside = self._system()
            path = f"{inside}/{name}"
            return int(system.size(path)) if system.exists(path) else None

    def names(self, name: str) -> list[str]:
        """The files of a folder within."""
        if self.local is not None:
            return sorted(path.name for path in (self.local / name).iterdir())
        with reaching(f"{self.place}/{name}"):
            system, inside = self._system()
            if not system.isdir(f"{inside}/{name}"):
                return []
            return sorted(p.rpartition("/")[2] for p in system.ls(f"{inside}/{name}", detail=False))

    def remove(self, name: str) -> None:
        """Remove a file."""
        if self.local is not None:
            (self.local / name).unlink(missing_ok=True)
            return
        with reaching(f"{self.place}/{name}"):
            system, inside = self._system()
            system.rm_file(f"{inside}/{name}")
