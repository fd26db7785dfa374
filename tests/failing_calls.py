"""Commands that run while one call of the file system fails, or whose process is killed at that call.

Every call by which Python opens a file for writing, writes, stores, renames, makes or removes is counted where it is of a
watched folder, and the one with a given number fails. Files that libraries write in other languages, as PyArrow and DuckDB
do, are not counted.
"""

from __future__ import annotations

import builtins
import errno
import io
import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: What the calls fail with in turn: no room, a broken disk, no more file descriptors.
ERRORS = (errno.ENOSPC, errno.EIO, errno.EMFILE)
#: A command that takes longer hangs.
_SECONDS = 120
_ROOT = str(Path(__file__).parents[1])

# A process that is forked for a command has these imported, so that a case costs a fraction of a second.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(
    [
        __name__,
        "matplotlib.figure",
        "pandas",
        "pyarrow.parquet",
        "captau.benchmarks.cli.hydra_runner",
        "captau.benchmarks.commands.bench",
        "captau.benchmarks.commands.rank",
        "captau.benchmarks.commands.score",
    ]
)


@dataclass(frozen=True)
class Outcome:
    """What became of a command.

    Attributes:
        status: the exit status; minus the number of the signal that killed it.
        stderr: the lines that it printed there.
        calls: the counted calls, each as its name and the path below the watched folder.
    """

    status: int
    stderr: list[str]
    calls: list[str]


class CallCounter:
    """Count the calls on files below a folder, and let one of them fail.

    Args:
        folder: the watched folder.
        log: the file that the calls are written to.
        failing: the number of the call that fails, from 0; None for none.
        error: what it fails with, as in `errno`; None kills the process instead.
    """

    def __init__(self, folder: Path, log: Path, failing: int | None, error: int | None) -> None:
        self._folder = os.path.realpath(folder)
        self._log = log.open("w", encoding="utf-8")
        self._failing = failing
        self._error = error
        self._n_calls = 0

    def is_watched(self, path: Any) -> bool:
        """Tell whether a path is in the watched folder."""
        if not isinstance(path, str | os.PathLike):
            return False
        real = os.path.realpath(os.fspath(path))
        return real == self._folder or real.startswith(f"{self._folder}/")

    def count(self, call: str, path: Any) -> None:
        """Count a call if it is of the folder, and let it fail where its turn has come."""
        if not self.is_watched(path):
            return

        shown = os.path.relpath(os.path.realpath(path), self._folder)
        self._log.write(f"{call} {shown}\n")
        self._log.flush()
        number = self._n_calls
        self._n_calls += 1
        if number != self._failing:
            return
        if self._error is None:
            os.kill(os.getpid(), signal.SIGKILL)
        else:
            raise OSError(self._error, os.strerror(self._error), os.fspath(path))

    def install(self) -> None:
        """Count Python's own calls from now on, as long as the process lives."""
        counter = self
        real_open = io.open

        class CountedFile(io.FileIO):
            """A file whose writes are counted."""

            def write(self, content: Any) -> int:
                counter.count("write", self.name)
                return super().write(content)

        def open_counted(
            file: Any, mode: str = "r", buffering: int = -1, *rest: Any, **named: Any
        ) -> Any:
            if not set(mode) & set("wax+") or not counter.is_watched(file):
                return real_open(file, mode, buffering, *rest, **named)

            counter.count("open", file)
            raw = CountedFile(os.fspath(file), mode.replace("b", "").replace("t", ""))
            stream: Any = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
            return stream if "b" in mode else io.TextIOWrapper(stream, *rest, **named)

        io.open = builtins.open = open_counted

        def count_first(name: str) -> None:
            real = getattr(os, name)

            def call(path: Any, *rest: Any, **named: Any) -> Any:
                counter.count(name, path)
                return real(path, *rest, **named)

            setattr(os, name, call)

        for name in ("rename", "replace", "mkdir", "rmdir", "unlink", "remove"):
            count_first(name)

        real_fsync = os.fsync

        def fsync(descriptor: Any) -> None:
            number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
            counter.count("fsync", Path(f"/proc/self/fd/{number}").readlink())
            real_fsync(descriptor)

        os.fsync = fsync


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
    printed = folder.with_name(f"{folder.name}.stderr")
    log = folder.with_name(f"{folder.name}.calls")
    process: Any = _processes.Process(
        target=_run_counted, args=(list(words), folder, log, printed, failing, error)
    )
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
        stderr=printed.read_text(encoding="utf-8").splitlines(),
        calls=log.read_text(encoding="utf-8").splitlines(),
    )


def _run_counted(
    words: list[str],
    folder: Path,
    log: Path,
    printed: Path,
    failing: int | None,
    error: int | None,
) -> None:
    from captau.benchmarks.cli.main import main

    signal.alarm(_SECONDS)
    # They stay open as long as the process lives.
    sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = printed.open("w", encoding="utf-8")
    CallCounter(folder, log, failing, error).install()
    status = 70
    try:
        main(words)
    except SystemExit as end:
        status = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(status)
