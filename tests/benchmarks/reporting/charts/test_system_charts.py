"""Charts of systems: their order and numbers by hand, and their looks in golden files."""

from __future__ import annotations

import math
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from captau.benchmarks.evaluation.pair_tests import Standing
from captau.benchmarks.reporting.charts import figure_files
from captau.benchmarks.reporting.charts.figure_files import UnavailableChart
from captau.benchmarks.reporting.charts.system_charts import (
    corpus_charts,
    difference_charts,
    system_figure,
    system_violin_charts,
    win_figures,
)
from captau.benchmarks.runs.tables import Cell
from captau.benchmarks.statistics.bootstrap import StatisticsOptions
from tests.benchmarks.printed import lines_of
from tests.benchmarks.reporting.described_figures import describe
from tests.benchmarks.reporting.test_drawn_figures import GOLDEN, compare

NAN = math.nan


class Part(SimpleNamespace):
    def label(self, metric: str) -> str:
        return metric.upper()

    def score_cell(self, value: float, metric: str) -> Cell:
        return Cell(f"{metric} {value:g}", value, value)


def part_of(**changes: Any) -> Any:
    rows = {
        ("x", "m"): {"score": 0.5, "ci_low": 0.4, "ci_high": 0.75},
        ("y", "m"): {"score": 0.25, "ci_low": NAN, "ci_high": NAN},
        ("x", "n"): {"score": 2.0, "ci_low": 1.0, "ci_high": 3.0},
    }
    ids = list("abcd")
    made = {
        "metrics": ["m", "n", "none"],
        "systems": ["y", "x"],
        "standings": {
            "m": [Standing("x", 0.5), Standing("y", 0.25)],
            "n": [Standing("x", 2.0)],
            "none": [],
        },
        "rows": rows,
        "styles": {
            "m": {"scale": 100, "decimals": 1, "higher_is_better": True},
            "n": {"scale": 1, "decimals": 3, "higher_is_better": True},
        },
        "title": "T",
        "file_words": ("refs",),
        "scores": pd.DataFrame(
            {"m": [1.0, 2, NAN, 4], "n": [1.0, math.inf, 3, 4], "none": [NAN] * 4}, index=ids
        ),
        "items": pd.DataFrame({"system": ["x", "x", "y", "y"]}, index=ids),
        "differences": pd.DataFrame(
            [("m", "x", "y", 0.25, 0.1, 0.5, 0.09), ("m", "y", "z", 0.0, 0.0, 0.0, 0.11)],
            columns=["metric", "system_a", "system_b", "difference", "ci_low", "ci_high", "p"],
        ),
        "statistics": StatisticsOptions(level=0.9, correction="holm"),
    }
    return Part(**(made | changes))


def test_systems_stand_from_the_best_to_the_worst() -> None:
    first, second = corpus_charts(part_of())
    assert (first.kind, first.name, first.title) == ("forest", "forest_refs_m", "T: M")
    assert first.description == (
        "Points with intervals. From the best to the worst: x m 0.5, y m 0.25."
    )
    table = first.table
    assert (table.title, table.corner, table.columns) == ("T: M", "system", ["score", "from", "to"])
    assert lines_of(table) == [
        ("x", ["m 0.5", "m 0.4", "m 0.75"]),
        ("y", ["m 0.25", "m nan", "m nan"]),
    ]
    assert second.name == "forest_refs_n"
    with figure_files.style():
        made = [describe(chart.draw()) for chart in (first, second)]
    compare("\n".join(made), GOLDEN / "corpus_scores.txt")


def test_differences_of_systems_have_the_scale_of_their_metric() -> None:
    standings = {"m": [Standing(s, 0.0) for s in "xyz"]}
    (chart,) = difference_charts(part_of(standings=standings))
    assert (chart.name, chart.title) == ("significance_refs_m", "T: differences of M")
    assert chart.table.title == "T: differences of M (bootstrap, holm)"
    assert chart.table.corner == "systems"
    assert lines_of(chart.table) == [
        ("x − y", ["25.0", "10.0", "50.0", "0.090"]),
        ("y − z", ["0.0", "0.0", "0.0", "0.110"]),
    ]
    assert "coloured where p is below 0.1 (bootstrap, holm)" in chart.description
    assert "1 of 2 pairs differ" in chart.description
    # The key stands in as many lines as the square is narrow.
    label, _, key = chart.draw().axes[0].get_xlabel().partition("\n")
    assert label == "row less column: M ×100"
    assert " ".join(key.split()) == "blue: row better, orange: column better, p < 0.1"
    rows = part_of().differences.assign(metric="n")
    assert len(rows) == 2
    (plain,) = difference_charts(part_of(differences=rows, standings={"n": standings["m"]}))
    assert plain.draw().axes[0].get_xlabel().startswith("row less column: N\n")
    with pytest.raises(UnavailableChart, match="the run compares no two systems"):
        list(difference_charts(part_of(differences=rows.iloc[:0])))


def test_two_systems_have_one_chart_of_all_metrics_with_intervals() -> None:
    """M is printed ×100 and N as computed, so that each scale has a chart; M's p is below .1."""
    differences = pd.DataFrame(
        [("m", "x", "y", 0.25, 0.1, 0.5, 0.09), ("n", "x", "y", -1.5, -2.0, 1.0, 0.5)],
        columns=["metric", "system_a", "system_b", "difference", "ci_low", "ci_high", "p"],
    )
    of_m, of_n = difference_charts(part_of(differences=differences))
    assert (of_m.name, of_m.title) == ("significance_refs_systems", "T: x less y")
    assert lines_of(of_m.table) == [("M", ["25.0", "10.0", "50.0", "0.090"])]
    assert of_m.description.endswith("(bootstrap, holm), which it is by 1 of 1 metrics.")
    assert of_n.name == "significance_refs_systems_as_computed"
    assert of_n.description.endswith("by 0 of 1 metrics.")
    with figure_files.style():
        (axis,) = of_m.draw().axes
        (other_axis,) = of_n.draw().axes
    assert axis.get_xlabel() == "x less y ×100"
    interval, point, _ = axis.lines
    assert (list(interval.get_xdata()), list(point.get_xdata())) == ([10, 50], [25])
    assert interval.get_color() != other_axis.lines[0].get_color()


def test_captions_scores_are_grouped_by_system() -> None:
    """Of m the third caption has no score, of n the second an infinite one."""
    m, n, none = system_violin_charts(part_of())
    assert (m.name, m.title) == ("scores_refs_m", "T: captions' M")
    assert m.table.corner == "system"
    assert [(label, cells[0], cells[4]) for label, cells in lines_of(m.table)] == [
        ("y", "1", "4"),
        ("x", "2", "1.5"),
    ]
    assert m.table.notes == ["1 of 4 scores are not finite and left out."]
    assert [(label, cells[0], cells[4]) for label, cells in lines_of(n.table)] == [
        ("y", "2", "3.5"),
        ("x", "1", "1"),
    ]
    assert none.table.notes == ["4 of 4 scores are not finite and left out."]


def systems(*counts: int) -> pd.DataFrame:
    rows = [
        ("d", f"p{k}", f"s{n}", 1.0 - n, 0.5 - n if n else NAN, 1.25 - n if n else math.inf)
        for k, count in enumerate(counts)
        for n in range(count)
    ]
    columns = ["dataset", "dimension", "system", "value", "ci_low", "ci_high"]
    return pd.DataFrame(rows, columns=columns)


def test_systems_have_a_panel_by_dimension(drawn_figures: list[str]) -> None:
    files = system_figure(systems(2, 4, 1))
    assert files == {"systems.svg": b"x", "systems.png": b"x"}
    compare(drawn_figures[0], GOLDEN / "systems.txt")


def test_more_than_two_hundred_systems_are_not_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(figure_files, "make_panels", lambda *_, **__: 1 / 0)
    assert system_figure(systems(1, 201)) == {}
    with pytest.raises(ZeroDivisionError):
        system_figure(systems(200, 1))
    battles: Any = SimpleNamespace(systems=range(201), by_dimension=[None])
    assert win_figures(battles, "d") == {}
    battles.systems = range(200)
    with pytest.raises(ZeroDivisionError):
        win_figures(battles, "d")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert system_figure(systems(1)) == {}
    assert win_figures(battles, "d") == {}


def test_ties_count_half_in_the_share_of_wins(drawn_figures: list[str]) -> None:
    """Of six comparisons a wins three and ties two with b: 4 of 6; nobody compares b with c."""
    wins = np.array([[0.0, 3, 0], [1, 0, 0], [4, 0, 0]])
    ties = np.array([[0.0, 2, 0], [2, 0, 0], [0, 0, 0]])
    part = SimpleNamespace(totals=(wins, ties), win_shares=np.array([0.4, 0.2, 1]), dimension="p")
    battles: Any = SimpleNamespace(systems=("a", "b", "c"), by_dimension=[part])
    assert list(win_figures(battles, "d")) == ["wins-d.svg", "wins-d.png"]
    assert f"(0.0, 1.0): nan 1 nan 0 nan {4 / 6:.4g} nan {2 / 6:.4g} nan" in drawn_figures[0]
    compare(drawn_figures[0], GOLDEN / "wins.txt")
