"""A progress bar on stderr, where stderr is a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
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
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.progress import Progress as Bar

from ...metrics.progress import draw_on


class _Shown:
    """A bar that is there as long as its context lasts."""

    _bar: Bar

    def __enter__(self) -> Self:
        self._stack = ExitStack()
        self._stack.enter_context(self._bar)
        self._stack.enter_context(draw_on(self._bar))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()


class StepProgress(_Shown):
    """Counts steps of a run; silent where nobody looks.

    Args:
        total: how many steps there will be; None where that is not known.
    """

    def __init__(self, total: int | None) -> None:
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

    def add_steps(self, steps: int, description: str) -> None:
        """So many steps more than were known of, each told by `advance`."""
        total = self._bar.tasks[0].total or 0
        self._bar.update(self._task, total=total + steps, description=description)

    def advance(self) -> None:
        """One step is done; from any thread."""
        self._bar.advance(self._task)

    @contextmanager
    def step(self, description: str) -> Generator[None]:
        """One step: its name is shown while it lasts."""
        self._bar.update(self._task, description=description)
        yield
        self._bar.advance(self._task)


class RowProgress(_Shown):
    """Counts the rows of stage after stage, with their rate and the time that is left; silent likewise."""

    def __init__(self) -> None:
        self._bar = Bar(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}", markup=False),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
            disable=not sys.stderr.isatty(),
        )

    @contextmanager
    def stage(self, name: str, total: int, done: int = 0) -> Generator[Callable[[int], None]]:
        """A stage's line, while it lasts.

        Args:
            name: what is being done.
            total: how many rows (or tasks) there are, `done` of them before.

        Yields:
            what to call with how many more are done.
        """
        task = self._bar.add_task(name, total=total, completed=done, rate="")
        begun, so_far = time.monotonic(), 0

        def advance(more: int) -> None:
            nonlocal so_far
            so_far += more
            rate = so_far / max(time.monotonic() - begun, 1e-9)
            self._bar.update(task, advance=more, rate=f"{rate:,.0f}/s")

        try:
            yield advance
        finally:
            self._bar.remove_task(task)


class DownloadProgress(_Shown):
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
