"""A metric's progress is a line on the run's bar, or a bar of its own without one."""

from __future__ import annotations

import pytest
from rich.console import Console
from rich.progress import Progress

from captau.metrics.progress import draw_on, progress_counter


def test_metrics_add_a_line_to_the_runs_bar():
    bar = Progress(console=Console(quiet=True))
    bar.add_task("a run", total=2)
    with draw_on(bar):
        with progress_counter("captions", 10) as advance:
            advance(4)
            advance.add_detail("best 0.5")
            line = bar.tasks[-1]
            assert (line.description, line.completed, line.total) == ("captions, best 0.5", 4, 10)
        with pytest.raises(KeyError), progress_counter("more", 1):
            raise KeyError
    assert [task.description for task in bar.tasks] == ["a run"]


def test_nothing_is_drawn_without_a_terminal(capsys):
    with progress_counter("captions", 10) as advance:
        advance(10)
    assert capsys.readouterr() == ("", "")
