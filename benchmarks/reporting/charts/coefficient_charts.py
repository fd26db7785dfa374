"""Charts of coefficients: forests with intervals, significance of differences, and the figure of `captau sensitivity`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ....metrics.base import Floats
from ...evaluation.overview import MEAN, DatasetsOverview
from ...runs.frames import groups_of, make_frame
from ...runs.tables import (
    MISSING,
    AnyCell,
    ResultTable,
    Row,
    coefficient_cell,
    count_cell,
    format_number,
    number_cell,
    p_value_cell,
)
from ...scoring.catalog import METRIC_KINDS
from ...statistics.bootstrap import Interval
from ...statistics.coefficients.coefficient import are_of_preferences, find_coefficient
from ...statistics.intervals import p_value_column
from ...statistics.joint_mean import JOINT_KEY
from ...statistics.preferences import MEAN_DIMENSION
from ..run_parts import FLOORS_AND_CEILINGS, RunDataset
from . import figure_files as figures
from .figure_files import SERIES, Chart, Square, UnavailableChart

#: The most panels of the overview beside one another, which fill the width of a page, and the least width of one in inches.
_MOST_PANELS = 8
_PANEL_WIDTH = 0.85
#: The letters of a panel's title that have room on a line, per inch of its width.
_LETTERS_PER_INCH = 15
_VALUE_AND_ENDS = ("value", "ci_low", "ci_high")
#: Up to this a corrected p-value counts as significant, where the run says nothing else.
LEVEL = 0.95


def _are_overall(rows: pd.DataFrame) -> Any:
    """Tell which rows are of ratings, or of the mean over the dimensions of preferences."""
    return ~are_of_preferences(rows["coefficient"]) | (rows["dimension"] == MEAN_DIMENSION)


def forest_charts(part: RunDataset) -> Iterator[Chart]:
    rows = part.correlations
    yield from _forests(part, rows[_are_overall(rows)], "forest")


def category_charts(part: RunDataset) -> Iterator[Chart]:
    rows = part.correlations
    category_rows = rows[~_are_overall(rows)]
    if category_rows.empty:
        raise UnavailableChart("the dataset has no preferences, or accuracy was not asked for")
    yield from _forests(part, category_rows, "categories")


def _forests(part: RunDataset, rows: pd.DataFrame, kind: str) -> Iterator[Chart]:
    if rows["value"].isna().all():
        raise UnavailableChart("no metric has a value here")

    for (dimension, coefficient), of_column in groups_of(rows, "dimension", "coefficient"):
        yield _forest_chart(part, of_column, dimension, coefficient, kind)


def _forest_chart(
    part: RunDataset, rows: pd.DataFrame, dimension: str, coefficient: str, kind: str
) -> Chart:
    style = find_coefficient(coefficient)
    sign, factor = style.symbol, style.scale
    rows = _sort_for_forest(rows)
    labels = [part.label(metric) for metric in rows["metric"]]
    kinds = [part.metric_kind(metric) for metric in rows["metric"]]
    lines: list[Row] = []
    for label, row in zip(labels, rows.to_dict("records"), strict=True):
        cells: list[AnyCell] = []
        for name in _VALUE_AND_ENDS:
            cells.append(coefficient_cell(float(row[name]), coefficient))
        for name in ("n_items", "n_ratings"):
            cells.append(count_cell(int(row[name])))
        lines.append(Row(label, [*cells, row["note"]]))
    points = "pairs" if style.is_of_preferences else "ratings"
    title = f"{part.title}, {dimension}: {sign}"
    heads = ["value", "from", "to", "items", points, "remark"]
    table = ResultTable(figures.with_factor(title, sign), "metric", heads, lines)

    def draw() -> Any:
        figure, axis = figures.make_row_figure(labels)
        handles = _plot_intervals(axis, rows, kinds, factor)
        count = int((~rows["metric"].isin(FLOORS_AND_CEILINGS)).sum())
        if 0 < count < len(labels):
            axis.axhline(count - 0.5, color=figures.GRID, linewidth=0.8, linestyle="-")
        if style.is_of_preferences:
            axis.axvline(50, color=figures.MUTED, linewidth=0.8, linestyle=":")
        axis.set_xlabel(figures.with_factor(sign, sign))
        axis.set_title(f"{part.title}, {dimension}")
        if len(handles) > 1:
            order = [kind for kind in (*METRIC_KINDS, "floor", "people") if kind in handles]
            figure.legend(
                [handles[kind] for kind in order],
                order,
                loc="outside lower center",
                ncols=min(3, len(order)),
            )
        return figure

    ranked: list[str] = []
    for line, metric_kind in zip(lines, kinds, strict=True):
        value_text = str(line.cells[0])
        if metric_kind in METRIC_KINDS and value_text != MISSING:
            ranked.append(f"{line.label} {value_text}")
    ranking = f"From the greatest to the least: {', '.join(ranked)}." if ranked else "No value."
    name = figures.slug(kind, part.dataset, part.protocol, dimension, coefficient)
    return Chart(kind, name, title, f"Points with intervals. {ranking}", table, draw)


def _sort_for_forest(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the metrics from the greatest to the least, then floors and what people reach."""
    is_floor_or_ceiling = rows["metric"].isin(FLOORS_AND_CEILINGS)
    metrics = rows[~is_floor_or_ceiling]
    best_first = metrics.sort_values("value", ascending=False, kind="stable")
    # Bounds stand at the bottom, the least of them first.
    bounds = rows[is_floor_or_ceiling].sort_values("value", kind="stable")
    return pd.concat([best_first, bounds])


def _plot_intervals(
    axis: Any, rows: pd.DataFrame, kinds: Sequence[str], factor: float
) -> dict[str, Any]:
    """Draw each row's value and interval; return a handle for the legend by metric kind."""
    handles: dict[str, Any] = {}
    for y, (row, metric_kind) in enumerate(zip(rows.to_dict("records"), kinds, strict=True)):
        value = factor * row["value"]
        low = factor * row["ci_low"]
        high = factor * row["ci_high"]
        if np.isnan(value):
            continue
        is_metric = metric_kind in METRIC_KINDS
        colour = SERIES[METRIC_KINDS.index(metric_kind)] if is_metric else figures.MUTED
        marker = {"people": "D", "floor": "s"}.get(metric_kind, "o")
        if not np.isnan(low):
            axis.plot([low, high], [y, y], color=colour, linestyle="-", linewidth=1.2)
        (handles[metric_kind],) = axis.plot(
            value, y, marker, color=colour, markersize=4.5, linestyle="none"
        )
    return handles


def make_overview_chart(overview: DatasetsOverview) -> Chart:
    """Make the figure of several datasets: a row a metric, a panel a dataset, and the joint mean last."""
    metrics = overview.metrics
    labels = [overview.styles[metric].label for metric in metrics]
    kinds = [overview.styles[metric].kind for metric in metrics]
    panels: list[tuple[str, str, Mapping[str, Any]]] = []
    symbols: list[str] = []
    for column in overview.columns:
        # A dataset on which no metric has a value gets no panel.
        if not np.isnan([column.value(metric) for metric in metrics]).all():
            symbol = find_coefficient(column.coefficient).symbol
            panels.append((column.title, column.coefficient, column.rows))
            symbols.append(symbol)

    if overview.joint.values:
        nothing = Interval()
        means: dict[str, dict[str, float]] = {}
        for metric, value in overview.joint.values.items():
            ends = overview.joint.intervals.get(metric, nothing)
            means[metric] = {"value": value, "ci_low": ends.low, "ci_high": ends.high}
        panels.append((MEAN, JOINT_KEY[1], means))
        symbols.append("")

    def draw() -> Any:
        # Rows of panels are as long as one another, and the longest fills the page.
        n_rows = -(-len(panels) // _MOST_PANELS)
        n_in_row = -(-len(panels) // n_rows)
        width = _PANEL_WIDTH if n_rows == 1 else _PANEL_WIDTH * _MOST_PANELS / n_in_row
        height = 0.75 + 0.17 * len(metrics)
        figure, axes = figures.make_panels(len(panels), n_in_row, width, height)
        for number, (axis, (title, coefficient, rows)) in enumerate(zip(axes, panels, strict=True)):
            frame = make_frame([rows.get(metric, {}) for metric in metrics], _VALUE_AND_ENDS)
            _plot_intervals(axis, frame, kinds, find_coefficient(coefficient).scale)
            lines = textwrap.wrap(title, width=int(_LETTERS_PER_INCH * width))
            axis.set_title("\n".join([*lines, symbols[number]]), fontsize=7)
            axis.set_ylim(len(metrics) - 0.5, -0.5)
            is_first = number % n_in_row == 0
            axis.set_yticks(range(len(metrics)), labels if is_first else [""] * len(labels))
            for tick, kind in zip(axis.get_yticklabels(), kinds, strict=True):
                tick.set_fontweight("bold" if kind == "given" else "normal")
            axis.tick_params(axis="y", length=0)
            axis.locator_params(axis="x", nbins=3)
        return figure

    table = overview.table()
    description = f"Points with intervals, a panel a dataset. {table.verdict}".strip()
    return Chart("overview", "overview", table.title, description, table, draw)


def significance_charts(part: RunDataset) -> Iterator[Chart]:
    if not part.run.has_file("significance.csv"):
        raise UnavailableChart(
            "captau compare tests every two metrics; this is a run without tests"
        )
    frame = part.run.significance
    frame = frame[(frame["dataset"] == part.dataset) & (frame["protocol"] == part.protocol)]
    frame = frame[_are_overall(frame)]
    for (dimension, coefficient), pairs in groups_of(frame, "dimension", "coefficient"):
        tests = set(pairs["test"])
        test = "bootstrap" if "bootstrap" in tests else sorted(tests)[0]
        yield _significance_chart(part, pairs[pairs["test"] == test], dimension, coefficient)


def _significance_chart(
    part: RunDataset, rows: pd.DataFrame, dimension: str, coefficient: str
) -> Chart:
    style = find_coefficient(coefficient)
    options = part.run.run["config"].get("statistics", {})
    p_value = p_value_column(options.get("correction", "bh"))
    level = 1 - options.get("level", LEVEL)
    test = rows["test"].iloc[0]
    values = dict(zip(rows["metric_a"], rows["value_a"], strict=True))
    values |= dict(zip(rows["metric_b"], rows["value_b"], strict=True))
    order = sorted(values, key=lambda metric: -np.nan_to_num(values[metric], nan=-np.inf))
    title = f"{part.title}, {dimension}: differences of {style.symbol}"
    return make_difference_chart(
        rows.rename(columns={p_value: "p", "metric_a": "a", "metric_b": "b"}),
        {metric: part.label(metric) for metric in order},
        (style.scale, style.decimals),
        level,
        name=figures.slug("significance", part.dataset, part.protocol, dimension, coefficient),
        title=title,
        subject=figures.with_factor(style.symbol, style.symbol),
        corner="metrics",
        test=f"{test}, {options.get('correction', 'bh')}",
    )


def make_difference_chart(
    rows: pd.DataFrame,
    labels_by_name: Mapping[str, str],
    number_format: tuple[float, int],
    level: float,
    *,
    name: str,
    title: str,
    subject: str,
    corner: str,
    test: str,
) -> Chart:
    """Make the square of the differences of every two metrics or systems.

    Args:
        rows: columns `a, b, difference, ci_low, ci_high, p`; p is corrected.
        labels_by_name: the metrics or systems from the best to the worst.
        number_format: factor and decimals of differences.
        level: the p-value below which a difference is significant.
        name, title: of the chart.
        subject: whose differences these are, with the factor.
        corner: the head of the table's first column.
        test: the test and its correction.
    """
    index_of = {key: index for index, key in enumerate(labels_by_name)}
    differences = np.full((len(index_of), len(index_of)), np.nan)
    p_values = np.full_like(differences, np.nan)
    cells: list[Row] = []
    for row in rows.to_dict("records"):
        a, b = index_of[row["a"]], index_of[row["b"]]
        differences[a, b], differences[b, a] = row["difference"], -row["difference"]
        p_values[a, b] = p_values[b, a] = row["p"]
        numbers = [number_cell(float(row[column]), *number_format) for column in _ENDS]
        numbers.append(p_value_cell(float(row["p"])))
        cells.append(Row(f"{labels_by_name[row['a']]} − {labels_by_name[row['b']]}", numbers))
    labels = list(labels_by_name.values())
    table = ResultTable(f"{title} ({test})", corner, ["difference", "from", "to", "p"], cells)

    def draw() -> Any:
        signs = np.where(p_values < level, np.sign(differences), 0.0)
        figure, axis = _draw_differences(labels, differences, signs, number_format)
        axis.set_title(figures.fold_title(title, figure, labels))
        key = f"blue: row better, orange: column better, p < {level:.2g}"
        folded_key = figures.fold_title(key, figure, labels)
        axis.set_xlabel(f"row less column: {subject}\n{folded_key}")
        # The lines below a small square would leave no room for it.
        n_lines = 1 + folded_key.count("\n")
        figure.set_figheight(figure.get_figheight() + _LINE_HEIGHT * n_lines)
        return figure

    n_significant = int((rows["p"] < level).sum())
    description = (
        f"Each row's value less each column's; coloured where p is below {level:.2g} ({test}): blue "
        f"where the row is better, orange where the column is. {n_significant} of {len(rows)} pairs differ "
        f"significantly."
    )
    return Chart("significance", name, title, description, table, draw)


def _draw_differences(
    labels: Sequence[str], differences: Floats, signs: Floats, number_format: tuple[float, int]
) -> tuple[Any, Any]:
    """Draw a square with a row and a column a label, coloured by signs; return figure and axis."""
    figure, axis = figures.make_square_figure(len(labels))

    def make_square(i: int, j: int) -> Square | None:
        text = format_number(float(differences[i, j]), *number_format)
        return Square(_DIFFER[int(signs[i, j])], text) if i != j else None

    squares: list[list[Square | None]] = []
    for i in range(len(labels)):
        squares.append([make_square(i, j) for j in range(len(labels))])
    figures.draw_squares(axis, squares)
    figures.label_squares(axis, labels, labels)
    return figure, axis


_ENDS = ("difference", "ci_low", "ci_high")
#: Of a line of text below an axis, in inches.
_LINE_HEIGHT = 0.15

#: Where the column is better, where nobody knows, where the row is better.
_DIFFER = {-1: "#f4c9a8", 0: figures.NEUTRAL, 1: "#a9cfee"}


#: By kind of curve, the name of its horizontal axis.
_X_LABELS = {
    "images": "number of images",
    "raters": "number of raters",
    "references": "number of references",
    "length": "words of the longest caption in the band",
}


def sensitivity_figure(rows: pd.DataFrame, labels: Mapping[str, str]) -> dict[str, bytes]:
    """Draw the curves, a panel a dataset, dimension, coefficient and kind.

    Args:
        rows: those of `sensitivity.csv`.
        labels: the metrics' names.

    Returns:
        the figure as files by name; none where there is no curve, or no matplotlib.
    """
    curves = rows[rows["kind"].isin(list(_X_LABELS)) & rows["value"].notna()]
    if curves.empty or not figures.can_draw():
        return {}
    panels = list(groups_of(curves, "dataset", "dimension", "coefficient", "kind"))
    with figures.style():
        figure, axes = figures.make_panels(len(panels), 2, 6, 4)
        for axis, (key, panel) in zip(axes, panels, strict=True):
            dataset, dimension, coefficient, kind = key
            lines: dict[str, Any] = {}
            for metric, curve in groups_of(panel, "metric"):
                sizes = curve["size"]
                (lines[metric],) = axis.plot(sizes, 100 * curve["value"], marker="o")
                axis.fill_between(sizes, 100 * curve["low"], 100 * curve["high"], alpha=0.15)
            axis.set_title(f"{dataset}, {dimension}")
            axis.set_xlabel(_X_LABELS[kind])
            axis.set_ylabel(f"{find_coefficient(coefficient).symbol} × 100")
            if kind == "images":
                axis.set_xscale("log")
                drawn_sizes = sorted(panel["size"].unique())
                axis.set_xticks(drawn_sizes, [f"{size:,.0f}" for size in drawn_sizes])
                axis.minorticks_off()
            outside = {"loc": "center left", "bbox_to_anchor": (1, 0.5), "handlelength": 3}
            names = [labels[metric] for metric in lines]
            figures.legend(axis, list(lines.values()), names, **outside)
        return figures.files_of(figure, "sensitivity")
