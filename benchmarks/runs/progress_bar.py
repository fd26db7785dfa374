"""A progress bar on stderr, where stderr is a terminal; elsewhere a line in the log every half minute."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Self

from ...metrics.progress import LoggedBar, make_bar, show_bar

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn


class _VisibleBar(ExitStack):
    """Base of bars that are visible as long as their context lasts."""

    _bar: Progress | LoggedBar

    def __enter__(self) -> Self:
        self.enter_context(show_bar(self._bar))
        return self


class StepProgress(_VisibleBar):
    """Counter of a run's steps.

    Args:
        total: the number of steps; None where it is not known.
    """

    def __init__(self, total: int | None) -> None:
        super().__init__()
        self._bar = make_bar(self._make_columns)
        self._task: Any = self._bar.add_task("", total=total)

    def __exit__(self, *exception: Any) -> bool | None:
        """Leave a full bar where nothing failed: steps that had no work, as to resample one image, are done as well."""
        task = self._bar.tasks[0]
        if exception[0] is None and task.total is not None:
            self._bar.update(self._task, completed=task.total)
        return super().__exit__(*exception)

    @staticmethod
    def _make_columns() -> list[ProgressColumn]:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

        description = TextColumn("{task.description}", markup=False)
        return [description, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()]

    def add_steps(self, steps: int, description: str) -> None:
        """Add steps to the total, each of which `advance` counts."""
        task = self._bar.tasks[0]
        total = task.completed if task.total is None else task.total
        self._bar.update(self._task, total=total + steps, description=description)

    def advance(self) -> None:
        """Count one step; from any thread."""
        self._bar.advance(self._task)

    @contextmanager
    def step(self, description: str) -> Generator[None]:
        """Count one step when the block ends, under its name while it lasts."""
        self._bar.update(self._task, description=description)
        yield
        self._bar.advance(self._task)


class RowProgress(_VisibleBar):
    """Counter of the rows of one stage after another, with their rate and the remaining time."""

    def __init__(self) -> None:
        super().__init__()
        self._bar = make_bar(self._make_columns)

    @staticmethod
    def _make_columns() -> list[ProgressColumn]:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

        description = TextColumn("{task.description}", markup=False)
        rate = TextColumn("{task.fields[rate]}", markup=False)
        return [description, BarColumn(), MofNCompleteColumn(), rate, TimeRemainingColumn()]

    @contextmanager
    def stage(self, name: str, total: int, done: int = 0) -> Generator[Callable[[int], None]]:
        """Show a stage's line while it lasts.

        Args:
            name: of the stage.
            total: the number of rows (or tasks), `done` of them before.

        Yields:
            A function that counts further rows.
        """
        task: Any = self._bar.add_task(name, total=total, completed=done, rate="")
        begun = time.monotonic()
        so_far = 0

        def advance(more: int) -> None:
            nonlocal so_far
            so_far += more
            rate = so_far / max(time.monotonic() - begun, 1e-9)
            self._bar.update(task, advance=more, rate=f"{rate:,.0f}/s")

        try:
            yield advance
        finally:
            self._bar.remove_task(task)


class DownloadProgress(_VisibleBar):
    """Counter of the bytes of downloads.

    It is called with what is being downloaded, the bytes that are here, and the bytes in all (0: not
    known), as `captau.datasets.download.fetch.fetch` does.
    """

    def __init__(self) -> None:
        super().__init__()
        self._bar = make_bar(
            self._make_columns,
            # What is printed meanwhile stands above the bar; into a pipe it goes as ever.
            redirect_stdout=sys.stdout.isatty(),
            counts_bytes=True,
        )
        self._tasks: dict[str, Any] = {}

    @staticmethod
    def _make_columns() -> list[ProgressColumn]:
        from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn

        description = TextColumn("{task.description}", markup=False)
        return [description, BarColumn(), DownloadColumn(), TransferSpeedColumn()]

    def __call__(self, name: str, done: int, total: int) -> None:
        if name not in self._tasks:
            self._tasks[name] = self._bar.add_task(name)
        self._bar.update(self._tasks[name], completed=done, total=total or None)
