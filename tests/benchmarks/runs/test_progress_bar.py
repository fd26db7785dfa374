"""Bars of steps, rows and bytes: totals, what is done and what they call it, on a bar that is not drawn."""

from __future__ import annotations

from typing import Any

import pytest

from captau.benchmarks.runs import progress_bar
from captau.benchmarks.runs.progress_bar import DownloadProgress, RowProgress, StepProgress


@pytest.fixture
def bar(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The bar of rich that a counter gets, and which nobody shows."""
    from rich.progress import Progress

    made = Progress(disable=True)
    monkeypatch.setattr(progress_bar, "make_bar", lambda *_, **__: made)
    return made


def state(bar: Any) -> list[tuple[str, float | None, float]]:
    return [(task.description, task.total, task.completed) for task in bar.tasks]


def test_steps_are_counted_and_added(bar: Any) -> None:
    progress = StepProgress(3)
    with progress.step("one"):
        assert state(bar) == [("one", 3, 0)]
    progress.advance()
    assert state(bar) == [("one", 3, 2)]
    progress.add_steps(4, "more")
    assert state(bar) == [("more", 7, 2)]


def test_a_bar_ends_full_where_nothing_failed(bar: Any) -> None:
    with StepProgress(3) as progress:
        progress.advance()
    assert state(bar) == [("", 3, 3)]
    progress.add_steps(4, "more")
    with pytest.raises(KeyError), progress:
        raise KeyError
    assert state(bar) == [("more", 7, 3)]


def test_a_bar_without_a_total_stays_as_it_is(bar: Any) -> None:
    with StepProgress(None) as progress:
        progress.advance()
    assert state(bar) == [("", None, 1)]


def test_steps_are_added_to_those_done_where_the_total_is_not_known(bar: Any) -> None:
    progress = StepProgress(None)
    assert state(bar) == [("", None, 0)]
    progress.advance()
    progress.add_steps(4, "known")
    assert state(bar) == [("known", 5, 1)]


def test_a_stage_counts_rows_from_those_done_with_their_rate(
    bar: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By hand: 3,000 rows in 2 seconds, and 4,000 in 4; the 5 of before do not count."""
    seconds = iter([100.0, 102.0, 104.0])
    monkeypatch.setattr(progress_bar.time, "monotonic", lambda: next(seconds))
    clock = bar.get_time
    bar.get_time = lambda: 0.0
    with RowProgress().stage("read", 2000, 5) as advance:
        assert state(bar) == [("read", 2000, 5)]
        advance(3000)
        assert (bar.tasks[0].completed, bar.tasks[0].fields["rate"]) == (3005, "1,500/s")
        advance(1000)
        assert (bar.tasks[0].completed, bar.tasks[0].fields["rate"]) == (4005, "1,000/s")
    assert state(bar) == []
    bar.get_time = clock


def test_a_stage_ends_with_its_line_where_it_fails(bar: Any) -> None:
    with pytest.raises(KeyError), RowProgress().stage("read", 2):
        raise KeyError
    assert state(bar) == []


def test_each_download_has_a_line_and_its_total_once_it_is_known(bar: Any) -> None:
    progress = DownloadProgress()
    progress("a.zip", 10, 0)
    progress("b.zip", 1, 4)
    progress("a.zip", 20, 50)
    assert state(bar) == [("a.zip", 50, 20), ("b.zip", 4, 1)]
