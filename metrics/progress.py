"""Progress of metrics and commands that take long.

A metric calls `progress_counter`; a run lends its own bar with `show_bar`, so that there is one bar on the
screen. Where stderr is no terminal, the log has a line every half minute instead.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, Task, TaskID

logger = logging.getLogger(__name__)

#: Seconds between two lines in the log.
LOG_SECONDS = 30.0
#: Bars on the screen, the latest last. Counters add a line to it: two bars would overwrite each other.
_bars: list[Progress] = []


@contextmanager
def show_bar(bar: Progress) -> Generator[None]:
    """Show a bar, or log its state, and let metrics add their lines to it while the block lasts."""
    _bars.append(bar)
    try:
        # rich before 14.3 ends a bar that is not drawn with an empty line.
        with _log_state(bar) if bar.disable else bar:
            yield
    finally:
        _bars.remove(bar)


@contextmanager
def _log_state(bar: Progress) -> Generator[None]:
    """Log what is done of a bar's tasks every half minute while the block lasts."""
    is_over = threading.Event()

    def log() -> None:
        while not is_over.wait(LOG_SECONDS):
            for task in bar.tasks:
                if not task.finished:
                    logger.info(describe_task(bar, task))

    thread = threading.Thread(target=log, name="captau-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def describe_task(bar: Progress, task: Task) -> str:
    """Return a line on a task: what is being done, how much is done, and the time left where it can be told."""
    from rich.filesize import decimal
    from rich.progress import DownloadColumn

    is_download = any(isinstance(column, DownloadColumn) for column in bar.columns)
    done, total = (
        "?" if n is None else decimal(int(n)) if is_download else f"{n:,.0f}"
        for n in (task.completed, task.total)
    )
    line = f"{task.description or 'working'}: {done} of {total} done"
    if not task.completed or not task.total or task.elapsed is None:
        return line
    # rich's own estimate looks at the last half minute only, in which a slow step may not end.
    seconds = task.elapsed * (task.total - task.completed) / task.completed
    hours, minutes = divmod(round(seconds / 60), 60)
    time_left = f"{hours} h {minutes} min" if hours else f"{minutes} min" if minutes else "1 min"
    return f"{line}, about {time_left} left"


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
    bar = _own_bar()
    with show_bar(bar):
        yield ProgressCounter(bar, bar.add_task(description, total=total), description)


def make_bar(*columns: ProgressColumn, redirect_stdout: bool = True) -> Progress:
    """Make a bar on stderr that goes when it is done; where stderr is no terminal, `show_bar` logs instead.

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
