"""Charts of coefficients and of differences: their order, signs and numbers by hand, and their looks in golden files."""

from __future__ import annotations

import math
import sys
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from captau.benchmarks.reporting.charts import figure_files
from captau.benchmarks.reporting.charts.coefficient_charts import (
    category_charts,
    forest_charts,
    make_difference_chart,
    sensitivity_figure,
    significance_charts,
)
from captau.benchmarks.reporting.charts.figure_files import Chart, UnavailableChart
from captau.benchmarks.runs.tables import MISSING
from tests.benchmarks.printed import lines_of
from tests.benchmarks.reporting.described_figures import describe
from tests.benchmarks.reporting.test_drawn_figures import GOLDEN, compare

NAN = math.nan


class Part(SimpleNamespace):
    def label(self, metric: str) -> str:
        return metric.upper()

    def metric_kind(self, metric: str) -> str:
        kinds = {"ceiling_oracle": "people", "floor_random": "floor", "l": "learned", "g": "given"}
        return kinds.get(metric, "reference-based")


def part_of(rows: list[tuple[Any, ...]], **changes: Any) -> Any:
    columns = ["dimension", "coefficient", "metric", "value", "ci_low", "ci_high", "note"]
    frame = pd.DataFrame(rows, columns=columns).assign(n_items=1234, n_ratings=5678)
    names = {"title": "T", "dataset": "d", "protocol": "p"}
    return Part(correlations=frame, **(names | changes))


ROWS = [
    ("overall", "tau_c", "a", 0.1, 0.05, 0.2, ""),
    ("overall", "tau_c", "floor_random", 0.3, -0.1, 0.6, "by lot"),
    ("overall", "tau_c", "l", 0.5, NAN, NAN, ""),
    ("overall", "tau_c", "u", NAN, NAN, NAN, "undefined"),
    ("overall", "tau_c", "ceiling_oracle", 0.2, 0.1, 0.3, ""),
    ("overall", "tau_c", "g", 0.4, 0.3, 0.5, ""),
    ("mean", "accuracy", "a", 0.75, 0.7, 0.8, ""),
    ("fit", "accuracy", "a", 0.6, 0.5, 0.7, ""),
    ("fit", "accuracy", "g", 0.8, 0.7, 0.9, ""),
]


def test_metrics_stand_from_the_greatest_to_the_least_and_then_floors_and_ceilings() -> None:
    first, second = forest_charts(part_of(ROWS))
    assert (first.kind, first.name) == ("forest", "forest_d_p_overall_tau_c")
    assert (first.title, first.table.title) == ("T, overall: τ_c", "T, overall: τ_c ×100")
    assert first.table.columns == ["value", "from", "to", "items", "ratings", "remark"]
    sizes = ["1,234", "5,678"]
    assert lines_of(first.table) == [
        ("L", ["50.0", MISSING, MISSING, *sizes, ""]),
        ("G", ["40.0", "30.0", "50.0", *sizes, ""]),
        ("A", ["10.0", "5.0", "20.0", *sizes, ""]),
        ("U", [MISSING, MISSING, MISSING, *sizes, "undefined"]),
        ("CEILING_ORACLE", ["20.0", "10.0", "30.0", *sizes, ""]),
        ("FLOOR_RANDOM", ["30.0", "-10.0", "60.0", *sizes, "by lot"]),
    ]
    assert first.description == (
        "Points with intervals. From the greatest to the least: L 50.0, G 40.0, A 10.0."
    )
    assert (second.title, second.table.columns[4]) == ("T, mean: acc. %", "pairs")
    (third,) = category_charts(part_of(ROWS))
    assert (third.kind, third.title) == ("categories", "T, fit: acc. %")
    assert [label for label, _ in lines_of(third.table)] == ["G", "A"]
    nothing = part_of([ROWS[3]])
    with pytest.raises(UnavailableChart, match="no metric has a value here"):
        list(forest_charts(nothing))
    with pytest.raises(UnavailableChart, match="no preferences, or accuracy was not asked for"):
        list(category_charts(nothing))
    with figure_files.style():
        made = [describe(chart.draw()) for chart in (first, second)]
    compare("\n".join(made), GOLDEN / "forests.txt")


def significance(*rows: tuple[Any, ...]) -> pd.DataFrame:
    columns = ["dataset", "protocol", "dimension", "coefficient", "test", "metric_a", "metric_b"]
    columns += ["value_a", "value_b", "difference", "ci_low", "ci_high", "p_bh", "p_holm"]
    return pd.DataFrame(rows, columns=columns)


def pairs(
    test: str, dimension: str = "overall", coefficient: str = "tau_c", **names: str
) -> list[tuple[Any, ...]]:
    head = (names.get("dataset", "d"), names.get("protocol", "p"), dimension, coefficient, test)
    return [
        (*head, "a", "b", 0.1, 0.3, -0.2, -0.3, -0.1, 0.01, 0.05),
        (*head, "a", "u", 0.1, NAN, NAN, NAN, NAN, NAN, NAN),
        (*head, "b", "u", 0.3, NAN, NAN, NAN, NAN, NAN, NAN),
        (*head, "c", "a", 0.2, 0.1, 0.1, 0.0, 0.2, 0.051, 0.2),
    ]


def compared(rows: list[tuple[Any, ...]], statistics: dict[str, Any] | None = None) -> list[Chart]:
    config = {} if statistics is None else {"statistics": statistics}
    run = SimpleNamespace(
        run={"config": config}, significance=significance(*rows), has_file=lambda _: True
    )
    return list(significance_charts(part_of([], run=run)))


def test_differences_are_of_the_datasets_best_test() -> None:
    rows = [
        *pairs("williams"),
        *pairs("permutation"),
        *pairs("bootstrap", "recall"),
        *pairs("permutation", "recall"),
        *pairs("bootstrap", dataset="other"),
        *pairs("bootstrap", protocol="other"),
        *pairs("bootstrap", "fit", "accuracy"),
        *pairs("bootstrap", "mean", "accuracy"),
    ]
    made = compared(rows, {"correction": "holm", "level": 0.9})
    assert [(chart.title, chart.table.title.partition(" (")[2]) for chart in made] == [
        ("T, overall: differences of τ_c", "permutation, holm)"),
        ("T, recall: differences of τ_c", "bootstrap, holm)"),
        ("T, mean: differences of acc. %", "bootstrap, holm)"),
    ]
    assert {len(lines_of(chart.table)) for chart in made} == {4}
    assert made[0].name == "significance_d_p_overall_tau_c"
    assert made[0].description == (
        "Each row's value less each column's; coloured where p is below 0.1 (permutation, holm): blue where the row is "
        "better, orange where the column is. 1 of 4 pairs differ significantly."
    )
    run = SimpleNamespace(has_file=lambda name: name != "significance.csv")
    with pytest.raises(UnavailableChart, match="tests every two metrics; this is a run without"):
        list(significance_charts(part_of([], run=run)))


def test_differences_are_marked_below_the_level_alone() -> None:
    """By bh, and by a level of 5 %, where the run says nothing: b is better than a, and c's 0.051 is not below."""
    (chart,) = compared(pairs("bootstrap"))
    assert chart.table.columns == ["difference", "from", "to", "p"]
    assert chart.table.corner == "metrics"
    assert lines_of(chart.table) == [
        ("A − B", ["-20.0", "-30.0", "-10.0", "0.010"]),
        ("A − U", [MISSING] * 4),
        ("B − U", [MISSING] * 4),
        ("C − A", ["10.0", "0.0", "20.0", "0.051"]),
    ]
    assert "where p is below 0.05 (bootstrap, bh)" in chart.description
    assert chart.description.endswith("1 of 4 pairs differ significantly.")
    with figure_files.style():
        compare(describe(chart.draw()), GOLDEN / "differences_of_metrics.txt")


def test_differences_of_systems() -> None:
    frame = pd.DataFrame(
        [("x", "y", 1.25, 0.5, 2.0, 0.0499), ("y", "z", -1.0, -2.0, 0.5, 0.3)],
        columns=["a", "b", "difference", "ci_low", "ci_high", "p"],
    )
    labels = {"z": "Z", "x": "X", "y": "Y"}
    words = {"name": "n", "title": "T", "subject": "S", "corner": "systems", "test": "t"}
    chart = make_difference_chart(frame, labels, (1.0, 2), 0.05, **words)
    assert lines_of(chart.table) == [
        ("X − Y", ["1.25", "0.50", "2.00", "0.050"]),
        ("Y − Z", ["-1.00", "-2.00", "0.50", "0.300"]),
    ]
    with figure_files.style():
        compare(describe(chart.draw()), GOLDEN / "differences_of_systems.txt")


@pytest.mark.parametrize(
    "title", ["T", "A dataset with a name, some dimension: differences of τ_c"]
)
def test_a_small_square_has_its_whole_title(title: str) -> None:
    """A title that is longer than the figure is wide stands in several lines, and no word is lost."""
    backend = pytest.importorskip("matplotlib.backends.backend_agg")
    row = ("x", "y", 1.25, 0.5, 2.0, 0.04)
    columns = pd.Index(["a", "b", "difference", "ci_low", "ci_high", "p"])
    frame = pd.DataFrame([row], columns=columns)
    labels = {"x": "X of a longer name", "y": "Y"}
    words = {"name": "n", "title": title, "subject": "S", "corner": "systems", "test": "t"}
    chart = make_difference_chart(frame, labels, (1.0, 2), 0.05, **words)
    with figure_files.style():
        figure = chart.draw()
        backend.FigureCanvasAgg(figure).draw()
        (axis,) = figure.axes
        shown = axis.get_title(loc="left")
        (drawn,) = [
            child for child in axis.get_children() if getattr(child, "get_text", str)() == shown
        ]
        box = drawn.get_window_extent()
    assert shown.split() == title.split()
    assert ("\n" in shown) == (len(title) > 1)
    assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
    assert box.y1 <= figure.bbox.y1


def test_curves_of_sensitivity_have_panels_by_what_is_changed(drawn_figures: list[str]) -> None:
    kinds = ("images", "raters", "references", "length", "power")
    rows = [
        (d, "overall", "tau_c", kind, metric, size, 0.1 * n, 0.1 * n - 0.05, 0.1 * n + 0.1)
        for d in ("d", "e")
        for kind in kinds
        for n, (metric, size) in enumerate((("_a", 10), ("b", 1000), ("_a", 1000), ("b", 10)))
        if d == "d" or kind == "images"
    ]
    columns = ["dataset", "dimension", "coefficient", "kind", "metric", "size", "value"]
    frame = pd.DataFrame(rows, columns=[*columns, "low", "high"])
    frame.loc[frame["kind"] == "length", "value"] = [NAN, 0.5, 0.5, 0.5]
    files = sensitivity_figure(frame, {"_a": "_A", "b": "B"})
    assert list(files) == ["sensitivity.svg", "sensitivity.png"]
    compare(drawn_figures[0], GOLDEN / "curves_of_sensitivity.txt")
    assert sensitivity_figure(frame[frame["kind"] == "power"], {}) == {}


def test_without_matplotlib_nothing_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    row = {"kind": ["images"], "value": [0.5], "dataset": ["d"], "dimension": ["overall"]}
    row |= {"coefficient": ["tau_c"], "metric": ["a"], "size": [1], "low": [0.1], "high": [0.9]}
    assert sensitivity_figure(pd.DataFrame(row), {"a": "A"}) == {}
