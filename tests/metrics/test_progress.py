"""A metric's progress is a line on the run's bar, or a bar of its own without one."""

from __future__ import annotations

import time

import pytest
from rich.console import Console
from rich.progress import Progress

from captau.metrics import progress
from captau.metrics.progress import (
    LoggedBar,
    describe_task,
    patient_counter,
    progress_counter,
    show_bar,
)


def test_metrics_add_a_line_to_the_runs_bar():
    bar = Progress(console=Console(quiet=True))
    bar.add_task("a run", total=2)
    with show_bar(bar):
        with progress_counter("captions", 10) as advance:
            advance(4)
            advance.add_detail("best 0.5")
            line = bar.tasks[-1]
            assert (line.description, line.completed, line.total) == ("captions, best 0.5", 4, 10)
        with pytest.raises(KeyError), progress_counter("more", 1):
            raise KeyError
    assert [task.description for task in bar.tasks] == ["a run"]


def test_a_line_of_quick_work_does_not_appear_and_one_of_long_work_counts_each_unit():
    bar = LoggedBar()
    with show_bar(bar):
        with patient_counter("quick", 2, patience=60) as count_one:
            count_one()
            assert bar.tasks == []
        with patient_counter("slow", 3, patience=0) as count_one:
            count_one()
            count_one()
            (line,) = bar.tasks
            assert (line.description, line.completed, line.total) == ("slow", 2, 3)
        assert bar.tasks == []


def test_units_that_came_quickly_are_counted_together():
    bar = LoggedBar()
    with show_bar(bar), patient_counter("captions", 9, patience=0.05) as count_one:
        count_one()
        count_one()
        time.sleep(0.06)
        count_one()
        assert bar.tasks[0].completed == 3


def test_nothing_is_drawn_without_a_terminal(capsys):
    with progress_counter("captions", 10) as advance:
        advance(10)
    assert capsys.readouterr() == ("", "")


def test_without_a_terminal_the_log_has_a_line_of_long_work(monkeypatch, caplog):
    monkeypatch.setattr(progress, "LOG_SECONDS", 0.02)
    with caplog.at_level("INFO", "captau"), progress_counter("captions", 10) as advance:
        advance(4)
        while not caplog.messages:
            time.sleep(0.01)
    assert caplog.messages[0].startswith("captions: 4 of 10 done")
    n_lines = len(caplog.messages)
    time.sleep(0.1)
    assert len(caplog.messages) == n_lines  # the work is over


@pytest.mark.parametrize(
    ("counts_bytes", "done", "total", "seconds", "line"),
    [
        (False, 250, 1000, 900, "captions: 250 of 1,000 done, about 15 min left"),
        (False, 250, 1000, 20, "captions: 250 of 1,000 done, about 1 min left"),
        (False, 250, None, None, "captions: 250 of ? done"),
        (
            True,
            5e6,
            3e8,
            7320,
            "captions: 5.0 MB of 300.0 MB done, about 2 h 2 min left",
        ),
    ],
)
def test_a_line_says_what_how_much_and_the_time_left(
    monkeypatch, counts_bytes, done, total, seconds, line
):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    bar = LoggedBar(counts_bytes=counts_bytes)
    bar.add_task("captions", total=total)
    (task,) = bar.tasks
    now[0] += (seconds or 0) * done / ((total or 0) - done)
    bar.update(task.id, completed=done)
    assert progress.describe_task(bar, task) == line


def test_work_of_unknown_length_has_a_line_without_a_total():
    bar = LoggedBar()
    with show_bar(bar), progress_counter("inner loops, compiled once", None):
        (task,) = bar.tasks
        assert describe_task(bar, task) == "inner loops, compiled once: 0 of ? done"
    assert bar.tasks == []
