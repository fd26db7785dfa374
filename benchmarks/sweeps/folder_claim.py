"""Claims on folders: one worker at a time, on this machine or another that shares the file system.

A claim is a file that its holder touches now and then: where the touching stopped, the holder is gone.
No locks of the operating system: those of a network file system cannot be relied on. And not filelock's soft locks,
which stay for good where their holder died on another machine.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
import threading
import time
from pathlib import Path

from ...datasets.errors import InputError
from ..runs.output_folder import is_process_alive

#: How often a holder touches its claim, and after how long without it the holder is gone, in seconds.
BEAT = 10.0
STALE = 120.0


class FolderInUseError(InputError):
    """Another process is at work in the folder."""


def machine_name() -> str:
    """Return this machine's name, and the namespace in which process numbers mean something."""
    try:
        space = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        space = ""
    return f"{socket.gethostname()} {space}".strip()


def claim_holder(folder: Path) -> str | None:
    """Describe the process at work in a folder; None where there is none."""
    return next((holder for path in _claims(folder).values() if (holder := _living(path))), None)


def _living(path: Path) -> str | None:
    """Describe the holder of a claim; None where it is gone."""
    try:
        text = path.read_text(encoding="utf-8")
        age = _now(path.parent) - path.stat().st_mtime
    except OSError:  # let go of meanwhile
        return None
    try:
        claim = json.loads(text)
        machine, process = str(claim["place"]), int(claim["process"])
    except (ValueError, LookupError, TypeError):
        return "another process" if age < STALE else None  # it is just writing its name
    if age >= STALE or (machine == machine_name() and not is_process_alive(process)):
        return None
    return f"process {process} on {machine.split()[0]}"


class FolderClaim:
    """A context in which this process alone works in a folder.

    Claims are numbered: a dead holder's claim is overtaken by the next number, which only one
    process can make.

    Raises:
        FolderInUseError: where another process is at work there.
        OSError: where the folder cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._over = threading.Event()

    def __enter__(self) -> FolderClaim:
        if holder := claim_holder(self.folder):
            raise FolderInUseError(f"{self.folder} is in use by {holder}")
        number = max(_claims(self.folder), default=0) + 1
        self._path = self.folder / f".claim.{number}"
        try:
            with self._path.open("x", encoding="utf-8") as stream:
                json.dump({"place": machine_name(), "process": os.getpid()}, stream)
        except FileExistsError as error:
            raise FolderInUseError(f"{self.folder} is in use by another process") from error
        for earlier, path in _claims(self.folder).items():
            if earlier < number:
                if holder := _living(path):  # made since we looked
                    self._path.unlink()
                    raise FolderInUseError(f"{self.folder} is in use by {holder}")
                path.unlink(missing_ok=True)
        threading.Thread(target=self._beat, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._path.unlink(missing_ok=True)

    def _beat(self) -> None:
        while not self._over.wait(BEAT):
            try:
                os.utime(self._path)
            except OSError:  # the folder was removed, or cannot be reached for now
                continue


def _claims(folder: Path) -> dict[int, Path]:
    by_number = {p.name.removeprefix(".claim."): p for p in folder.glob(".claim.*")}
    return {int(number): path for number, path in by_number.items() if number.isdigit()}


def _now(folder: Path) -> float:
    """Return the time by the file system's clock, which need not be this machine's."""
    try:
        with tempfile.TemporaryFile(dir=folder) as stream:
            return os.fstat(stream.fileno()).st_mtime
    except OSError:  # it may be read alone
        return time.time()
