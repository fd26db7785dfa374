"""Progress of metrics and commands that take long.

A metric calls `progress_counter`; a run lends its own bar with `show_bar`, so that there is one bar on the
screen. Where stderr is no terminal, the log has a line every half minute instead.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

logger = logging.getLogger(__name__)

#: Seconds between two lines in the log.
LOG_SECONDS = 30.0
#: Bars on the screen, the latest last. Counters add a line to it: two bars would overwrite each other.
_bars: list[Progress | LoggedBar] = []
#: Whether this process draws bars where stderr is a terminal.
_draws_bars = True


def draw_no_bars() -> None:
    """Let this process log its progress and draw no bar: one of several processes that share a terminal."""
    global _draws_bars
    _draws_bars = False


@dataclass
class LoggedTask:
    """One line of a `LoggedBar`, with the attributes of rich's tasks."""

    id: int
    description: str
    total: float | None
    completed: float = 0
    begun: float = field(default_factory=lambda: time.monotonic())

    @property
    def elapsed(self) -> float:
        """The seconds since the line was added."""
        return time.monotonic() - self.begun

    @property
    def finished(self) -> bool:
        """Tell whether all is done."""
        return self.total is not None and self.completed >= self.total


class LoggedBar:
    """Stand-in for rich's bar where stderr is no terminal: it counts, and rich need not be imported.

    Args:
        counts_bytes: whether lines count bytes.
    """

    def __init__(self, *, counts_bytes: bool = False) -> None:
        self.counts_bytes = counts_bytes
        self._tasks: dict[int, LoggedTask] = {}
        self._lock = threading.Lock()

    @property
    def tasks(self) -> list[LoggedTask]:
        """The lines."""
        with self._lock:
            return list(self._tasks.values())

    def add_task(
        self, description: str, *, total: float | None = 100, completed: float = 0, **_: Any
    ) -> Any:
        """Add a line, and return its number."""
        with self._lock:
            number = max(self._tasks, default=-1) + 1
            self._tasks[number] = LoggedTask(number, description, total, completed)
            return number

    def update(self, task_id: int, *, advance: float = 0, **changes: Any) -> None:
        """Change a line's attributes, but for those that only rich shows."""
        with self._lock:
            task = self._tasks[task_id]
            task.completed += advance
            for name in changes.keys() & {"description", "total", "completed"}:
                setattr(task, name, changes[name])

    def advance(self, task_id: int, advance: float = 1) -> None:
        """Count what is done."""
        self.update(task_id, advance=advance)

    def remove_task(self, task_id: int) -> None:
        """Remove a line."""
        with self._lock:
            del self._tasks[task_id]


@contextmanager
def show_bar(bar: Progress | LoggedBar) -> Generator[None]:
    """Show a bar, or log its state, and let metrics add their lines to it while the block lasts."""
    _bars.append(bar)
    try:
        with _log_state(bar) if isinstance(bar, LoggedBar) else bar:
            yield
    finally:
        _bars.remove(bar)


@contextmanager
def _log_state(bar: LoggedBar) -> Generator[None]:
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


def describe_task(bar: LoggedBar, task: LoggedTask) -> str:
    """Return a line on a task: what is being done, how much is done, and the time left where it can be told."""
    done = _format_count(bar, task.completed)
    total = _format_count(bar, task.total)
    line = f"{task.description or 'working'}: {done} of {total} done"
    if not task.completed or not task.total:
        return line

    # rich's own estimate looks at the last half minute only, in which a slow step may not end.
    seconds = task.elapsed * (task.total - task.completed) / task.completed
    hours, minutes = divmod(round(seconds / 60), 60)
    time_left = f"{max(minutes, 1)} min"
    if hours:
        time_left = f"{hours} h {minutes} min"

    return f"{line}, about {time_left} left"


def _format_count(bar: LoggedBar, count: float | None) -> str:
    """Return a number of units, or of bytes with their unit; `?` where it is not known."""
    if count is None:
        return "?"
    if not bar.counts_bytes:
        return f"{count:,.0f}"

    from rich.filesize import decimal

    return decimal(int(count))


class ProgressCounter:
    """A line on a bar; call it with how many more units are done."""

    def __init__(self, bar: Progress | LoggedBar, task: Any, description: str) -> None:
        self._bar = bar
        self._task = task
        self._description = description

    def __call__(self, count: int) -> None:
        self._bar.advance(self._task, count)

    def add_detail(self, detail: str) -> None:
        """Show a detail behind the description, instead of the one before."""
        self._bar.update(self._task, description=f"{self._description}, {detail}")


@contextmanager
def progress_counter(description: str, total: int | None) -> Generator[ProgressCounter]:
    """Add a line to the run's bar, or draw a bar of its own if stderr is a terminal.

    Args:
        description: the units that are counted.
        total: how many units there are; None where nobody can tell, and the bar only shows that work goes on.
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


@contextmanager
def patient_counter(
    description: str, total: int, *, patience: float = 1.0
) -> Generator[Callable[[], None]]:
    """Count units one by one on a line of `progress_counter` that appears only where the work lasts.

    Args:
        description: the units that are counted.
        total: how many units there are.
        patience: the seconds before the line appears, and between two changes of it.
    """
    with ExitStack() as stack:
        advance: ProgressCounter | None = None
        n_uncounted = 0
        last_change = time.monotonic()

        def count_one() -> None:
            nonlocal advance, n_uncounted, last_change
            n_uncounted += 1
            now = time.monotonic()
            if now - last_change < patience:
                return

            if advance is None:
                advance = stack.enter_context(progress_counter(description, total))
            advance(n_uncounted)
            n_uncounted = 0
            last_change = now

        yield count_one


def make_bar(
    make_columns: Callable[[], Sequence[ProgressColumn]],
    *,
    redirect_stdout: bool = True,
    counts_bytes: bool = False,
) -> Progress | LoggedBar:
    """Make a bar on stderr that goes when it is done; `show_bar` logs instead where stderr is no terminal, and after
    `draw_no_bars`.

    Args:
        make_columns: makes what stands on each line, for a terminal.
        redirect_stdout: whether what is printed meanwhile stands above the bar.
        counts_bytes: whether lines count bytes.
    """
    if not (_draws_bars and sys.stderr.isatty()):
        return LoggedBar(counts_bytes=counts_bytes)
    from rich.console import Console
    from rich.progress import Progress

    return Progress(
        *make_columns(),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=redirect_stdout,
    )


def _own_bar() -> Progress | LoggedBar:
    def make_columns() -> list[ProgressColumn]:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

        description = TextColumn("{task.description}", markup=False)
        return [description, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()]

    return make_bar(make_columns)


def advance_to(advance: Callable[[int], None]) -> Callable[[int], None]:
    """Turn a counter of further units into one that takes how many units are done in all."""
    done_before = 0

    def call(done: int) -> None:
        nonlocal done_before
        advance(done - done_before)
        done_before = done

    return call
