"""A progress bar on stderr, where stderr is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)
from rich.progress import Progress as Bar

from ..metrics.progress import heard_by


class _Shown:
    """A bar that is there as long as its context lasts."""

    _bar: Bar

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()


class Progress(_Shown):
    """Counts steps of a run; silent where nobody looks.

    Args:
        total: how many steps there will be.
    """

    def __init__(self, total: int) -> None:
        self._bar = Bar(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
            disable=not sys.stderr.isatty(),
        )
        self._task = self._bar.add_task("", total=total)
        self._inner: TaskID | None = None

    @contextmanager
    def step(self, description: str) -> Generator[None]:
        """One step: its name is shown while it lasts, and below it how far long work inside is."""
        self._bar.update(self._task, description=description)
        with heard_by(self._hear):
            yield
        if self._inner is not None:
            self._bar.remove_task(self._inner)
            self._inner = None
        self._bar.advance(self._task)

    def _hear(self, what: str, done: int, total: int) -> None:
        if self._inner is None:
            self._inner = self._bar.add_task(what)
        self._bar.update(self._inner, description=what, completed=done, total=total)


class Download(_Shown):
    """Counts the bytes of downloads; silent where nobody looks.

    It is called with what is being downloaded, the bytes that are here, and the bytes in all (0: not
    known), as `captau.datasets.download.fetch` does.
    """

    def __init__(self) -> None:
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            console=Console(stderr=True),
            transient=True,
            disable=not sys.stderr.isatty(),
            # What is printed meanwhile stands above the bar; into a pipe it goes as ever.
            redirect_stdout=sys.stdout.isatty(),
        )
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, name: str, done: int, total: int) -> None:
        if name not in self._tasks:
            self._tasks[name] = self._bar.add_task(name)
        self._bar.update(self._tasks[name], completed=done, total=total or None)
