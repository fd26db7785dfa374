"""METEOR's aligner in a process of its own, which loads Numba while captau reads captions and computes other metrics.

Only the command line starts it, early, with `start_ahead`: the process is forked, which is safe as long as captau has
no threads of its own. Wherever there is no such process, `metric` uses an `Aligner` of its own.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import sys
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ....datasets.cores import count_cores
from .index import read_verified_index
from .words import Ints

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

#: The process that was started and that no aligner uses yet.
_unused: list[AlignerProcess] = []


def start_ahead() -> None:
    """Start the process where that is safe, and where there are Numba and a core for it; else do nothing."""
    is_safe = sys.platform == "linux" and threading.active_count() == 1
    if is_safe and not _unused and count_cores() > 1 and find_spec("numba"):
        with contextlib.suppress(OSError):  # no process may be forked; captau aligns by itself
            _unused.append(AlignerProcess())


def take_started() -> AlignerProcess | None:
    """Return the process that was started, once."""
    return _unused.pop() if _unused else None


class AlignerProcess:
    """Aligner in a forked process; `load` comes first, and one thread at a time may use it.

    Attributes:
        pid: the number of the process.
    """

    def __init__(self) -> None:
        context = multiprocessing.get_context("fork")
        self._connection, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, self._connection), daemon=True)
        process.start()
        theirs.close()
        self.pid = process.pid

    def load(self, index: Path, language: str, *, is_normalised: bool) -> None:
        """Say which tables the aligner uses; the other arguments are as in `Aligner`.

        Raises:
            OSError: where the process has ended.
        """
        self._connection.send((index, language, is_normalised))

    def compute_statistics(self, candidates: Sequence[str], references: Sequence[str]) -> Ints:
        """Compute what `Aligner.compute_statistics` does.

        Raises:
            OSError, EOFError: where the process has ended.
        """
        self._connection.send((candidates, references))
        return self._connection.recv()


def _serve(connection: Connection, parents_end: Connection) -> None:
    """Align what comes until captau ends; a fault ends the process, and captau aligns by itself."""
    parents_end.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # captau itself says that it was stopped
    with contextlib.suppress(Exception):  # captau meets the same fault, and says so once
        kernel = threading.Thread(target=_import_kernel)
        kernel.start()
        from .alignment import Aligner

        path, language, is_normalised = connection.recv()
        aligner = Aligner(read_verified_index(path), language, is_normalised=is_normalised)
        kernel.join()
        while True:
            connection.send(aligner.compute_statistics(*connection.recv()))


def _import_kernel() -> None:
    # Numba loads SciPy for its linear algebra, of which METEOR has none; nothing else in this process uses it.
    sys.modules.setdefault("scipy", None)  # pyright: ignore[reportArgumentType]
    with contextlib.suppress(Exception):  # Numba may not be installed
        from . import _kernel as _kernel
