"""When a run of several datasets writes what is done: a killed run shall lose little, and a quick one write once."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, TypeVar

#: The most seconds of work that are not yet written when a dataset is done.
MOST_UNWRITTEN_SECONDS = 10.0

RunResults = TypeVar("RunResults")


class InterimResults(Generic[RunResults]):
    """The results of the datasets that are done, written while the others are measured; a context manager.

    They are written as soon as a dataset is done of which scores were computed. Where all scores were read back, a
    repeated run reads them back as well: then results are written once `MOST_UNWRITTEN_SECONDS` have passed, as every
    time writes the earlier datasets anew. Where the block fails or is interrupted, all that is done is written.

    Args:
        write: takes the results so far; None writes nothing.
    """

    def __init__(self, write: Callable[[RunResults], None] | None) -> None:
        self._write = write
        self._n_computed = 0
        self._last_written = time.monotonic()
        self._join_unwritten: Callable[[], RunResults] | None = None

    def offer(self, join: Callable[[], RunResults], n_computed: int) -> None:
        """Write the results so far, unless little would be lost without them.

        Args:
            join: returns the results so far.
            n_computed: how many columns of scores were computed so far.
        """
        self._join_unwritten = join
        seconds = time.monotonic() - self._last_written
        if n_computed > self._n_computed or seconds > MOST_UNWRITTEN_SECONDS:
            self._write_unwritten()
        self._n_computed = n_computed

    def _write_unwritten(self) -> None:
        if self._write is not None and self._join_unwritten is not None:
            self._write(self._join_unwritten())
        self._join_unwritten = None
        self._last_written = time.monotonic()

    def __enter__(self) -> InterimResults[RunResults]:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._write_unwritten()
