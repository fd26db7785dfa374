"""Commands that run while one call of the file system fails, or whose process is killed at that call.

A small library in C (failing_calls.c), which is loaded before the system's, sees every call that opens a file for writing,
writes, stores, renames, makes or removes below a watched folder: those of Python, and those of PyArrow, DuckDB and SQLite.
Each command runs in a process that is forked with everything imported, so that a case costs a fraction of a second.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

#: What the calls fail with in turn: no room, a broken disk, no more file descriptors.
ERRORS = (errno.ENOSPC, errno.EIO, errno.EMFILE)
#: A command that takes longer hangs.
_SECONDS = 120
_ROOT = str(Path(__file__).parents[1])
_SOURCE = Path(__file__).with_suffix(".c")

# What the processes have imported when they are forked.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(
    [
        __name__,
        "matplotlib.figure",
        "pandas",
        "pyarrow.parquet",
        "captau.benchmarks.cli.hydra_runner",
        "captau.benchmarks.commands.bench",
        "captau.benchmarks.commands.calibrate",
        "captau.benchmarks.commands.estimate",
        "captau.benchmarks.commands.rank",
        "captau.benchmarks.commands.score",
        "captau.benchmarks.commands.table",
        "captau.server.challenge.site_opening",
        "captau.server.challenge.web.app",
        "captau.server.collect.web.app",
        "captau.server.collect.web.site",
        "uvicorn",
    ]
)


@dataclass(frozen=True)
class Call:
    """A call that changed a file.

    Attributes:
        name: `create`, `open`, `write`, `fsync`, `truncate`, `rename`, `mkdir`, `rmdir` or `unlink`; `mark` for what the
            program said meanwhile.
        path: below the watched folder, `.` for that itself; of a mark its text.
        target: the new path of a rename.
        offset: where a write begins, or the length to which a file is cut.
        content: what was written, where calls are recorded.
    """

    name: str
    path: str
    target: str = ""
    offset: int = 0
    content: bytes = b""

    def __str__(self) -> str:
        return f"{self.name} {self.path}"


@dataclass(frozen=True)
class Outcome:
    """What became of a process.

    Attributes:
        status: the exit status; minus the number of the signal that killed it.
        stderr: the lines that it printed there.
        calls: the counted calls; only the marks and calls that succeeded where they are recorded.
    """

    status: int
    stderr: list[str]
    calls: list[Call]


@dataclass(frozen=True)
class Watch:
    """The calls that a process watches.

    Attributes:
        folder: the watched folder.
        failing: the number of the call that fails, from 0; None for none.
        error: what it fails with, as in `errno`; None kills the process instead.
        records: whether the calls are recorded with what they wrote, and none fails.
    """

    folder: Path
    failing: int | None = None
    error: int | None = None
    records: bool = False

    @property
    def log(self) -> Path:
        """The file that the calls are written to."""
        return self.folder.with_name(f"{self.folder.name}.calls")

    @property
    def stderr(self) -> Path:
        """The file for what the process prints."""
        return self.folder.with_name(f"{self.folder.name}.stderr")

    def begin(self) -> None:
        """Watch the calls of this process from now on, as long as it lives."""
        failing = -1 if self.failing is None else self.failing
        status = ctypes.CDLL(None).captau_watch(
            os.fsencode(self.folder),
            os.fsencode(self.log),
            ctypes.c_int(self.records),
            ctypes.c_long(failing),
            ctypes.c_int(self.error or 0),
        )
        if status:
            raise RuntimeError(f"{self.folder} cannot be watched")


def mark(text: str) -> None:
    """Write a line of one's own among the calls, such as that something was acknowledged."""
    ctypes.CDLL(None).captau_mark(text.encode())


def run_command(
    words: Sequence[str], folder: Path, failing: int | None = None, error: int | None = None
) -> Outcome:
    """Run a command in a process of its own, in which one call on a folder fails.

    Args:
        words: the command and its options.
        folder: the watched folder.
        failing: the number of the call that fails, from 0; None for none.
        error: what it fails with, as in `errno`; None kills the process instead.
    """
    return run_function(_run_words, (list(words),), Watch(folder, failing, error))


def run_function(function: Callable[..., int], arguments: tuple[Any, ...], watch: Watch) -> Outcome:
    """Run a function of a module in a process of its own while calls are watched; it returns the exit status."""
    _start_server()
    process: Any = _processes.Process(target=_run_watched, args=(function, arguments, watch))
    # The process imports this module by its name, which pytest knows without a folder on the path.
    sys.path.append(_ROOT)
    try:
        process.start()
    finally:
        sys.path.remove(_ROOT)
    process.join()
    status = process.exitcode
    process.close()
    return Outcome(
        status=status,
        stderr=watch.stderr.read_text(encoding="utf-8").splitlines(),
        calls=list(_read_calls(watch.log.read_bytes(), has_content=watch.records)),
    )


@functools.cache
def _start_server() -> None:
    """Compile the library, and start the process that is forked, which loads it; skip the test where this cannot be."""
    if sys.platform != "linux":
        pytest.skip("calls are watched on Linux alone")
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler to make calls fail with")

    library = Path(tempfile.mkdtemp(prefix="captau-failing-calls-")) / "failing_calls.so"
    flags = ["-O1", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl", "-lpthread"]
    compiled = subprocess.run([compiler, *flags], capture_output=True, text=True, check=False)
    if compiled.returncode:
        pytest.skip(f"the library that makes calls fail does not compile: {compiled.stderr[:500]}")

    # The server of forks starts with the first process, and keeps the library.
    loaded_before = os.environ.get("LD_PRELOAD")
    os.environ["LD_PRELOAD"] = str(library)
    sys.path.append(_ROOT)
    try:
        process: Any = _processes.Process(target=_forget_library)
        process.start()
        process.join()
    finally:
        sys.path.remove(_ROOT)
        _set_preload(loaded_before)
    shutil.rmtree(library.parent)


def _set_preload(value: str | None) -> None:
    if value is None:
        os.environ.pop("LD_PRELOAD", None)
    else:
        os.environ["LD_PRELOAD"] = value


def _forget_library() -> None:
    """Do nothing: the first process starts the server of forks."""


def _run_words(words: list[str]) -> int:
    """Run a command, and return its exit status."""
    from captau.benchmarks.cli.main import main

    try:
        main(words)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def _run_watched(function: Callable[..., int], arguments: tuple[Any, ...], watch: Watch) -> None:
    # Processes that this one starts are not watched, and do not find the library any more.
    _set_preload(None)
    signal.alarm(_SECONDS)
    # They stay open as long as the process lives.
    sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = watch.stderr.open("w", encoding="utf-8")
    watch.begin()
    status = 70
    try:
        status = function(*arguments)
    except BaseException:
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(status)


def _read_calls(log: bytes, *, has_content: bool) -> Iterator[Call]:
    """Read the calls of a log, each a line with fields between tabs, and the bytes of a recorded write."""
    start = 0
    while start < len(log):
        end = log.index(b"\n", start)
        name, path, target, offset, length = log[start:end].decode("utf-8", "replace").split("\t")
        start = end + 1
        content = b""
        if has_content and name == "write":
            content = log[start : start + int(length)]
            start += int(length)
        yield Call(name=name, path=path, target=target, offset=int(offset), content=content)
