"""A progress bar for what takes long within a metric."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

#: The bars on the screen, the latest last: a line is added to it, since two bars would overwrite
#: each other.
_shown: list[Progress] = []


@contextmanager
def draw_on(bar: Progress) -> Generator[None]:
    """A bar that metrics add their lines to while the block lasts."""
    _shown.append(bar)
    try:
        yield
    finally:
        _shown.remove(bar)


class Counter:
    """A line on a bar: called with how many more are done."""

    def __init__(self, bar: Progress, task: TaskID, description: str) -> None:
        self._bar, self._task, self._description = bar, task, description

    def __call__(self, more: int) -> None:
        self._bar.advance(self._task, more)

    def tell(self, said: str) -> None:
        """Say something beside the description."""
        self._bar.update(self._task, description=f"{self._description}, {said}")


@contextmanager
def progress_counter(description: str, total: int) -> Generator[Counter]:
    """A line on the bar that is draw_on, else a bar of its own where stderr is a terminal.

    Args:
        description: what is counted.
        total: how many there are.

    Yields:
        what to call with how many more are done.
    """
    own = not _shown
    if not own:
        bar = _shown[-1]
    else:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
            disable=not sys.stderr.isatty(),
        )
    task = bar.add_task(description, total=total)
    try:
        if own:
            bar.start()
        yield Counter(bar, task, description)
    finally:
        if own:
            bar.stop()
        else:
            bar.remove_task(task)


def advance_to(advance: Callable[[int], None]) -> Callable[[int], None]:
    """From what takes how many more are done, what takes how many are done in all."""
    before = 0

    def call(done: int) -> None:
        nonlocal before
        advance(done - before)
        before = done

    return call
