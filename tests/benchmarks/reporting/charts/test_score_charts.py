"""Charts of scores: their numbers and groups by hand, and their looks in golden files."""

from __future__ import annotations

import math
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from captau.benchmarks.evaluation.probes.faults import CONTROLS, FAULTS
from captau.benchmarks.reporting.charts import figure_files
from captau.benchmarks.reporting.charts.figure_files import Chart, UnavailableChart
from captau.benchmarks.reporting.charts.score_charts import (
    draw_curves,
    make_violin_chart,
    metric_correlation_charts,
    probe_figure,
    select_ratings,
    threshold_figure,
)
from captau.benchmarks.runs.tables import MISSING
from tests.benchmarks.printed import lines_of
from tests.benchmarks.reporting.described_figures import describe
from tests.benchmarks.reporting.test_drawn_figures import GOLDEN, compare

NAN = math.nan


def violins(corner: str, n_lost: int = 0, **groups: list[float]) -> Chart:
    arrays = {name: np.array(values, dtype=float) for name, values in groups.items()}
    names = {"name": "n", "title": "T", "corner": corner}
    return make_violin_chart(arrays, **names, n_lost=n_lost)


def test_quarters_of_scores_by_group() -> None:
    """Of 1, 2, 3, 4 and 10 the quarters are 2, 3 and 4, and the mean is 4; of nothing there are none."""
    chart = violins("rating", 2, one=[1, 2, 3, 4, 10], none=[], two=[0.5] * 1000)
    assert (chart.kind, chart.name, chart.title) == ("scores", "n", "T")
    assert chart.description == (
        "Violins of the scores of each rating, with their means. Medians: 3 at one, 0.5 at two."
    )
    table = chart.table
    assert (table.title, table.corner) == ("T", "rating")
    assert table.columns == ["n", "25 %", "median", "75 %", "mean"]
    assert lines_of(table) == [
        ("one", ["5", "2", "3", "4", "4"]),
        ("none", ["0", *[MISSING] * 4]),
        ("two", ["1,000", *["0.5"] * 4]),
    ]
    assert table.notes == ["2 of 1,007 scores are not finite and left out."]
    assert violins("system", a=[1.0]).table.notes == []


@pytest.mark.parametrize("corner", ["rating", "system"])
def test_violins(corner: str) -> None:
    chart = violins(corner, a=[], b=[1, 2, 3], c=[2, 2, 5, 6])
    empty = violins(corner, a=[])
    with figure_files.style():
        made = [describe(chart.draw()), describe(empty.draw())]
    compare("\n".join(made), GOLDEN / f"violins_by_{corner}.txt")


def curve(metric: str, *points: tuple[float, float]) -> pd.DataFrame:
    frame = pd.DataFrame(points, columns=["recall", "precision"])
    return frame.assign(metric=metric, dataset="d", dimension="p")


def test_the_best_six_curves_have_colours_and_the_others_one_line_in_the_legend() -> None:
    """By their areas g is the best and b the seventh; c and b are grey, and drawn first."""
    areas = dict(zip("abcdefgh", (0.8, 0.3, 0.2, 0.7, 0.6, 0.5, 0.9, 0.4), strict=True))
    rows = pd.concat([curve(m, (0, 1), (a, 0.5)) for m, a in areas.items()])
    figure, axis = figure_files.make_figure(3, 2)
    draw_curves(axis, rows, areas, {m: m.upper() for m in areas})
    legend = axis.get_legend()
    names = [f"{m.upper()} (AUC {100 * areas[m]:.1f})" for m in "gadefh"]
    assert [text.get_text() for text in legend.get_texts()] == [*names, "2 more"]
    assert [line.get_xdata()[1] for line in axis.lines] == [areas[m] for m in "bchfedag"]
    colours = [line.get_color() for line in axis.lines]
    assert colours == [*[figure_files.MUTED] * 2, *reversed(figure_files.SERIES)]
    compare(describe(figure), GOLDEN / "eight_curves.txt")


def test_one_grey_curve_has_its_name_and_a_line_says_what_keeping_all_is_worth() -> None:
    areas = dict(zip("abcdefg", (0.8, 0.3, 0.2, 0.7, 0.6, 0.5, 0.9), strict=True))
    rows = pd.concat([curve(m, (0, 1), (a, 0.5)) for m, a in areas.items()])
    _, axis = figure_files.make_figure(3, 2)
    draw_curves(axis, rows, areas, {m: m.upper() for m in areas}, share_good=0.125)
    names = [f"{m.upper()} (AUC {100 * areas[m]:.1f})" for m in "gadefbc"]
    texts = [text.get_text() for text in axis.get_legend().get_texts()]
    assert texts == [*names, "all kept (precision 12.5)"]
    assert axis.get_lines()[-1].get_ydata()[0] == 0.125


def test_a_panel_has_the_curves_of_a_dataset_and_dimension(drawn_figures: list[str]) -> None:
    rows = pd.concat([curve("a", (0, 1), (1, 0.5)), curve("b", (0, 1)).assign(dimension="q")])
    recalls = pd.DataFrame(
        {"dataset": "d", "dimension": ["p", "q"], "metric": ["a", "b"], "auc": [0.75, 0.5]}
    )
    files = threshold_figure(rows, recalls, {"a": "A", "b": "_B"})
    assert list(files) == ["precision_recall.svg", "precision_recall.png"]
    compare(drawn_figures[0], GOLDEN / "curves_by_dimension.txt")
    assert threshold_figure(rows.iloc[:0], recalls, {}) == {}


def test_faults_that_a_metric_notices_are_blue_and_controls_that_it_punishes_red(
    drawn_figures: list[str],
) -> None:
    """A control has no share that is good; two thirds of the others are shaded by a third."""
    (fault, other), control = list(FAULTS)[:2], next(iter(CONTROLS))
    rows = [
        *(("a", fault, 0.75, 0.7), ("a", control, 0.9, 0.6), ("b", control, 0.4, 0.3)),
        *(("b", fault, 0.0, 0.0), ("b", other, NAN, NAN)),
    ]
    frame = pd.DataFrame(rows, columns=["metric", "fault", "value", "ci_low"])
    assert list(probe_figure(frame, {"a": "A", "b": "B"}, "T")) == ["probes.svg", "probes.png"]
    compare(drawn_figures[0], GOLDEN / "faults_and_controls.txt")
    assert probe_figure(frame.iloc[4:], {}, "T") == {}


def test_without_matplotlib_nothing_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    recalls = pd.DataFrame({"dataset": ["d"], "dimension": ["p"], "metric": ["a"], "auc": [0.5]})
    assert threshold_figure(curve("a", (0, 1)), recalls, {"a": "A"}) == {}
    row = {"metric": ["a"], "fault": [next(iter(FAULTS))], "value": [1.0], "ci_low": [NAN]}
    assert probe_figure(pd.DataFrame(row), {"a": "A"}, "T") == {}


class Part(SimpleNamespace):
    def label(self, metric: str) -> str:
        return metric.upper()

    def people(self, dimension: str) -> pd.Series:
        return pd.Series([1.0, 2, 3, NAN], index=list("wxyz"), name="value").rename_axis("item_id")


def scored(metrics: list[str], scales: list[str]) -> Any:
    oriented = pd.DataFrame(
        {"a": [1.0, 2, 3, 4], "b": [1.0, 2, 4, 3], "c": [4.0, 3, 2, 1], "d": [1.0] * 4},
        index=list("wxyz"),
    )
    return Part(
        metrics=["gone", *metrics],
        oriented=oriented,
        scales=dict.fromkeys(scales),
        items=oriented,
        title="T",
        file_words=("d", "p"),
    )


def test_every_two_metrics_are_compared() -> None:
    """By hand: ρ of 1 2 3 4 with 1 2 4 3 is 0.8, with 4 3 2 1 it is -1; of equal scores there is none."""
    (chart,) = metric_correlation_charts(scored(["a", "b", "c", "d"], ["p"]))
    assert (chart.kind, chart.name) == ("correlations", "correlations_d_p")
    assert chart.title == "T: Spearman's ρ of every two metrics"
    assert chart.table.title == "T: Spearman's ρ of every two metrics ×100"
    assert chart.table.columns == ["A", "B", "C", "D", "people: p"]
    assert lines_of(chart.table)[:2] == [
        ("A", ["100.0", "80.0", "-100.0", MISSING, "100.0"]),
        ("B", ["80.0", "100.0", "-80.0", MISSING, "98.2"]),
    ]
    assert chart.description == (
        "Spearman's rank correlation over 4 items, in shades from red (−1) to blue (1). Most alike: A and B, 80.0; "
        "least: A and C, -100.0."
    )
    with figure_files.style():
        compare(describe(chart.draw()), GOLDEN / "correlations.txt")
    (alone,) = metric_correlation_charts(scored(["a"], ["p"]))
    assert alone.description.endswith("to blue (1).")
    with pytest.raises(UnavailableChart, match="one metric alone has nothing to be compared with"):
        list(metric_correlation_charts(scored(["a"], [])))


def test_ratings_of_a_chart_are_single_ones_or_means() -> None:
    ratings = pd.DataFrame({"item_id": ["w", "w", "x"], "dimension": ["p", "q", "p"], "value": [1, 2, 3]})  # fmt: skip
    for choice, expected in (
        ("per_rating", [("w", 1), ("x", 3)]),
        ("mean", [("w", 1.0), ("x", 2.0), ("y", 3.0)]),
    ):
        run = SimpleNamespace(run={"protocols": {"d": {"ratings": choice}}})
        points = select_ratings(Part(run=run, dataset="d", ratings=ratings), "p")  # type: ignore[arg-type]
        assert list(points.columns) == ["item_id", "value"]
        assert list(points.itertuples(index=False, name=None)) == expected
