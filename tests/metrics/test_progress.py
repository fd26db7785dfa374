"""Long work within a metric is a line on the run's bar, and a bar of its own where there is none."""

from __future__ import annotations

import pytest
from rich.console import Console
from rich.progress import Progress

from captau.metrics.progress import draw_on, progress_counter


def test_a_line_on_the_bar_that_is_shown():
    bar = Progress(console=Console(quiet=True))
    bar.add_task("a run", total=2)
    with draw_on(bar):
        with progress_counter("captions", 10) as advance:
            advance(4)
            line = bar.tasks[-1]
            assert (line.description, line.completed, line.total) == ("captions", 4, 10)
        with pytest.raises(KeyError), progress_counter("more", 1):
            raise KeyError
    assert [task.description for task in bar.tasks] == ["a run"]


def test_nobody_looks(capsys):
    with progress_counter("captions", 10) as advance:
        advance(10)
    assert capsys.readouterr() == ("", "")
