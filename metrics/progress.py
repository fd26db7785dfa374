"""Progress lines of metrics that take long.

A metric calls `progress_counter`; a run lends its own bar with `draw_on`, so that there is one bar on the
screen.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, TaskID

#: Bars on the screen, the latest last. Counters add a line to it: two bars would overwrite each other.
_bars: list[Progress] = []


@contextmanager
def draw_on(bar: Progress) -> Generator[None]:
    """Let metrics add their lines to a bar while the block lasts."""
    _bars.append(bar)
    try:
        yield
    finally:
        _bars.remove(bar)


class ProgressCounter:
    """A line on a bar; call it with how many more units are done."""

    def __init__(self, bar: Progress, task: TaskID, description: str) -> None:
        self._bar, self._task, self._description = bar, task, description

    def __call__(self, count: int) -> None:
        self._bar.advance(self._task, count)

    def add_detail(self, detail: str) -> None:
        """Show a detail behind the description, instead of the one before."""
        self._bar.update(self._task, description=f"{self._description}, {detail}")


@contextmanager
def progress_counter(description: str, total: int) -> Generator[ProgressCounter]:
    """Add a line to the run's bar, or draw a bar of its own if stderr is a terminal.

    Args:
        description: the units that are counted.
        total: how many units there are.
    """
    if _bars:
        bar = _bars[-1]
        task = bar.add_task(description, total=total)
        try:
            yield ProgressCounter(bar, task, description)
        finally:
            bar.remove_task(task)
        return
    with _own_bar() as bar:
        yield ProgressCounter(bar, bar.add_task(description, total=total), description)


def make_bar(*columns: ProgressColumn, redirect_stdout: bool = True) -> Progress:
    """Make a bar on stderr that goes when it is done; it is silent where stderr is no terminal.

    Args:
        columns: what stands on each line.
        redirect_stdout: whether what is printed meanwhile stands above the bar.
    """
    from rich.console import Console
    from rich.progress import Progress

    return Progress(
        *columns,
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=redirect_stdout,
        disable=not sys.stderr.isatty(),
    )


def _own_bar() -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    description = TextColumn("{task.description}", markup=False)
    return make_bar(description, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())


def advance_to(advance: Callable[[int], None]) -> Callable[[int], None]:
    """Turn a counter of further units into one that takes how many units are done in all."""
    done_before = 0

    def call(done: int) -> None:
        nonlocal done_before
        advance(done - done_before)
        done_before = done

    return call
