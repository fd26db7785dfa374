"""Charts of scores: by rating, metric against metric, and precision over recall, also of `captau thresholds`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from ....datasets.errors import InputError
from ....metrics.base import Floats
from ...evaluation.probes.faults import CONTROLS
from ...evaluation.probes.noticed import is_weak, probe_cell
from ...evaluation.threshold_curves import (
    curve_names,
    describe_good,
    mark_good_captions,
    metric_curve,
)
from ...runs.frames import make_frame, records_of
from ...runs.tables import (
    MISSING,
    Cell,
    ResultTable,
    Row,
    count_cell,
    format_number,
    number_cell,
)
from ...statistics.rating_table import (
    nearest_level,
    scale_levels,
)
from ..run_parts import RunDataset, RunPart
from . import figure_files as figures
from .figure_files import SERIES, Chart, Square, UnavailableChart
from .rating_charts import coarsen_scale, rated_scales

#: How many points of a curve are drawn.
POINTS = 150
#: Why a dataset on which no metric could be computed has no chart of scores.
NO_SCORES = "no metric has scores here"
#: The text left of an axis of scores: its name, turned, and a tick.
_WIDE_TICK = ("0.00000",)


def violin_charts(part: RunDataset) -> Iterator[Chart]:
    """Draw each metric's scores by the level of the rating, a chart a dimension and metric.

    Raises:
        UnavailableChart: where no metric has scores.
    """
    if part.scores.empty:
        raise UnavailableChart(NO_SCORES)

    for dimension, scale in rated_scales(part).items():
        ratings = part.ratings.loc[part.ratings["dimension"] == dimension, "value"]
        coarse_scale = coarsen_scale(scale, ratings.to_numpy(dtype=float))
        points = select_ratings(part, dimension)
        level_indices = nearest_level(points["value"].to_numpy(dtype=float), coarse_scale)
        for metric in part.metrics:
            if metric not in part.scores:
                continue

            scores = part.scores[metric].loc[points["item_id"]].to_numpy(dtype=float)
            label = part.label(metric)
            finite = np.isfinite(scores)
            scores_by_level: dict[str, Floats] = {}
            for k, level in enumerate(scale_levels(coarse_scale)):
                scores_by_level[f"{level:g}"] = scores[finite & (level_indices == k)]

            yield make_violin_chart(
                scores_by_level,
                name=figures.slug("scores", *part.file_words, dimension, metric),
                title=f"{part.title}, {dimension}: {label} by rating",
                corner="rating",
                n_lost=int((~finite).sum()),
            )


def select_ratings(part: RunDataset, dimension: str) -> pd.DataFrame:
    """Return columns `item_id, value`: the single ratings, or each item's mean or median where the protocol takes it."""
    if part.run.run["protocols"][part.dataset]["ratings"] == "per_rating":
        return part.ratings[part.ratings["dimension"] == dimension][["item_id", "value"]]
    return part.people(dimension).dropna().rename("value").reset_index()


def make_violin_chart(
    scores_by_group: Mapping[str, Floats],
    *,
    name: str,
    title: str,
    corner: str,
    n_lost: int,
) -> Chart:
    """Make violins of scores, with a line through their means where groups are levels of a rating.

    Args:
        scores_by_group: finite scores by rating or system.
        name, title: of the chart; the title names the metric.
        corner: what groups are: `rating` or `system`.
        n_lost: how many scores are not finite.
    """
    rows: list[Row] = []
    for group_name, group in scores_by_group.items():
        values = [np.nan] * 4
        if len(group):
            values = [*np.quantile(group, [0.25, 0.5, 0.75]), group.mean()]
        numbers = [figures.short_cell(float(value)) for value in values]
        rows.append(Row(group_name, [count_cell(len(group)), *numbers]))

    total = sum(map(len, scores_by_group.values())) + n_lost
    notes = [f"{n_lost:,} of {total:,} scores are not finite and left out."] if n_lost else []

    medians: list[str] = []
    for row in rows:
        median = str(row.cells[2])
        if median != MISSING:
            medians.append(f"{median} at {row.label}")
    description = (
        f"Violins of the scores of each {corner}, with their means. Medians: {', '.join(medians)}."
    )
    columns = ["n", "25 %", "median", "75 %", "mean"]
    table = ResultTable(title, corner, columns, rows, notes=notes)
    draw = partial(_draw_violins, scores_by_group, title, corner)
    return Chart("scores", name, title, description, table, draw)


def _draw_violins(scores_by_group: Mapping[str, Floats], title: str, corner: str) -> Any:
    groups = list(scores_by_group.values())
    are_levels = corner == "rating"
    figure, axis = figures.make_figure(2.9, 2.2 if are_levels else 2.6)
    # matplotlib draws no violin of nothing.
    filled = [k for k, group in enumerate(groups) if len(group)]
    if filled:
        filled_groups = [groups[k] for k in filled]
        drawn = axis.violinplot(filled_groups, filled, widths=0.9, showextrema=False, points=30)
        for body in drawn["bodies"]:
            body.set(facecolor=SERIES[0], edgecolor="none", alpha=0.35)
        axis.plot(
            filled,
            [float(group.mean()) for group in filled_groups],
            marker="o",
            color=figures.INK,
            markersize=2.5,
            linewidth=0.9,
            linestyle="-" if are_levels else "none",
        )
    tilt = {} if are_levels else {"rotation": 30, "ha": "right", "rotation_mode": "anchor"}
    axis.set_xticks(range(len(groups)), list(scores_by_group), **tilt)
    axis.set_xlim(-0.6, len(groups) - 0.4)
    axis.grid(False, axis="x")
    axis.set_xlabel(f"{corner}; points are means")
    axis.set_ylabel("score")
    axis.set_title(figures.fold_title(title, figure, _WIDE_TICK))
    return figure


def metric_correlation_charts(part: RunPart) -> Iterator[Chart]:
    """Draw how alike every two metrics and people's ratings order the items, in one chart.

    Raises:
        UnavailableChart: where there is nothing to compare.
    """
    metrics = [metric for metric in part.metrics if metric in part.oriented]
    columns = {part.label(metric): part.oriented[metric] for metric in metrics}
    for dimension in part.scales:
        columns[f"people: {dimension}"] = part.people(dimension)
    frame = pd.DataFrame(columns, index=part.items.index)
    if not metrics:
        raise UnavailableChart(NO_SCORES)
    if len(frame.columns) < 2:
        raise UnavailableChart("one metric alone has nothing to be compared with")

    # Spearman's ρ is Pearson's r of the ranks.
    matrix = frame.rank().corr().to_numpy()
    labels = [str(column) for column in frame.columns]
    rows: list[Row] = []
    for label, correlations in zip(labels, matrix, strict=True):
        rows.append(Row(label, [figures.percent_cell(float(value)) for value in correlations]))

    title = f"{part.title}: Spearman's ρ of every two metrics"
    # The metrics come first in the matrix, and people's ratings after them.
    extremes = _name_extremes(matrix[: len(metrics), : len(metrics)], labels)

    def draw() -> Any:
        figure, axis = figures.make_square_figure(len(labels))
        squares: list[list[Square]] = []
        for correlations in matrix:
            row_squares: list[Square] = []
            for value in correlations.tolist():
                row_squares.append(figures.shade_square(value, format_number(value, 100, 0)))
            squares.append(row_squares)
        figures.draw_squares(axis, squares)
        figures.label_squares(axis, labels, labels)
        axis.set_title(figures.fold_title(f"{part.title}: ρ ×100", figure, labels))
        return figure

    name = figures.slug("correlations", *part.file_words)
    description = f"Spearman's rank correlation over {len(frame):,} items, in shades from red (−1) to blue (1).{extremes}"
    table = ResultTable(f"{title} ×100", "", labels, rows)
    yield Chart("correlations", name, title, description, table, draw)


def _name_extremes(matrix: Floats, labels: Sequence[str]) -> str:
    """Name the two metrics that are most alike and the two that are least; empty without a correlation.

    Args:
        matrix: the correlations of every two metrics.
        labels: the metrics' names.
    """
    pairs: list[tuple[float, str, str]] = []
    for second in range(len(matrix)):
        for first in range(second):
            correlation = matrix[second, first]
            if np.isfinite(correlation):
                pairs.append((correlation, labels[second], labels[first]))

    if not pairs:
        return ""

    lowest, lowest_second, lowest_first = min(pairs)
    highest, highest_second, highest_first = max(pairs)
    return (
        f" Most alike: {highest_first} and {highest_second}, {figures.percent_cell(highest)}; "
        f"least: {lowest_first} and {lowest_second}, {figures.percent_cell(lowest)}."
    )


def precision_recall_charts(part: RunDataset) -> Iterator[Chart]:
    """Draw precision over recall of metrics as filters of captions, a chart a dimension.

    Raises:
        UnavailableChart: where no metric has scores, or no dimension tells good captions from bad ones.
    """
    if part.oriented.empty:
        raise UnavailableChart(NO_SCORES)

    reasons: list[str] = []
    scales = rated_scales(part)
    definition = part.good
    dimensions = curve_names(definition, scales)
    for dimension in dimensions:
        try:
            good = mark_good_captions(
                part.ratings,
                dimension,
                scales,
                good=definition,
                dataset=part.dataset,
                faults=part.faults,
            )
        except InputError as error:
            reasons.append(str(error))
            continue

        yield _precision_recall_chart(part, dimension, good)

    # Where some dimensions have a chart, the others are left out without a word.
    if reasons and len(reasons) == len(dimensions):
        raise UnavailableChart("; ".join(reasons))


def _precision_recall_chart(part: RunDataset, dimension: str, good: pd.Series) -> Chart:
    """Draw precision over recall of each metric on one dimension.

    Args:
        part: a dataset.
        dimension: its dimension.
        good: whether each caption is good, by item id.
    """
    rows: list[dict[str, Any]] = []
    cells: list[Row] = []
    areas: dict[str, float] = {}
    for metric in part.metrics:
        if metric not in part.oriented:
            continue

        scores = part.oriented[metric].loc[good.index].to_numpy(dtype=np.float64)
        curve, summary = metric_curve(scores, good, part.precision)
        if curve:
            places = np.linspace(0, len(curve) - 1, POINTS)
            # A short curve has each of its points once.
            indices = np.unique(places.round().astype(int))
            rows += [{"metric": metric, **curve[k]} for k in indices]
        areas[metric] = summary["auc"]

        # Rounded downwards, as in captau thresholds: the caption whose score the threshold is must stay above it.
        threshold = np.floor(summary["threshold"] * 1e4) / 1e4
        numbers = [
            figures.percent_cell(summary["auc"]),
            figures.percent_cell(summary["recall"]),
            number_cell(threshold, 1, 4),
        ]
        cells.append(Row(part.label(metric), [*numbers, summary["note"]]))

    frame = make_frame(rows, ["metric", "recall", "precision"])
    title = f"{part.title}, {dimension}: filtering captions"
    columns = ["AUC", f"recall at precision {part.precision:g}", "threshold", "remark"]

    # Stable, so that metrics of one area stay in their order; one without a value stands last.
    ranked = sorted(cells, key=lambda row: -_area_of(row))
    area_texts = ", ".join(f"{row.label} {row.cells[0]}" for row in ranked)
    share = describe_good(
        part.good,
        int(good.sum()),
        len(good),
        scale=rated_scales(part).get(dimension),
        is_fault=dimension in part.faults,
    )

    return Chart(
        "precision_recall",
        figures.slug("precision_recall", part.dataset, part.protocol, dimension),
        title,
        f"Precision over recall when captions are kept whose score is above a threshold. {share} "
        f"Area under the curve: {area_texts}.",
        ResultTable(f"{title} ×100", "metric", columns, cells, notes=[share]),
        _make_drawing(
            part, dimension, frame, areas, share_good=float(good.mean()), good=share.brief or share
        ),
    )


def _area_of(row: Row) -> float:
    """Return the area under a metric's curve as printed; less than any other where it has none."""
    cell = row.cells[0]
    if isinstance(cell, Cell) and cell.text != MISSING:
        return cell.printed
    return -np.inf


def _make_drawing(
    part: RunDataset,
    dimension: str,
    rows: pd.DataFrame,
    areas: dict[str, float],
    *,
    share_good: float,
    good: str,
) -> Callable[[], Any]:
    """Return a function that draws the curves of a dimension over a line at the share of good captions.

    Args:
        part: a dataset.
        dimension: its dimension.
        rows, areas: as in `draw_curves`.
        share_good: the share of good captions.
        good: what a good caption is.
    """

    def draw() -> Any:
        figure, axis = figures.make_figure(3.9, 3.2)
        labels = {metric: part.label(metric) for metric in part.metrics}
        draw_curves(axis, rows, areas, labels, share_good=share_good)
        definition = figures.fold_title(good, figure, _WIDE_TICK)
        axis.set_title(f"{part.title}, {dimension}\n{definition}")
        return figure

    return draw


def threshold_figure(
    rows: pd.DataFrame, recalls: pd.DataFrame, labels: Mapping[str, str]
) -> dict[str, bytes]:
    """Draw precision over recall, a panel a dataset and dimension.

    Args:
        rows: those of `thresholds.csv`.
        recalls: those of `recall.csv`, which have the areas under the curves.
        labels: the metrics' names.

    Returns:
        the figure as files by name; none without matplotlib.
    """
    panels: Sequence[Any] = list(rows.groupby(["dataset", "dimension"], sort=False))
    if not panels or not figures.can_draw():
        return {}

    areas_by_panel: dict[Any, dict[str, float]] = {}
    for names, summaries in recalls.groupby(["dataset", "dimension"], sort=False):
        areas_by_panel[names] = dict(zip(summaries["metric"], summaries["auc"], strict=True))

    with figures.style():
        figure, axes = figures.make_panels(len(panels), 1, 6, 4)
        for axis, (names, curves) in zip(axes, panels, strict=True):
            draw_curves(axis, curves, areas_by_panel[names], labels)
            axis.set_title(", ".join(map(str, names)))
        return figures.files_of(figure, "precision_recall")


def draw_curves(
    axis: Any,
    rows: pd.DataFrame,
    areas: Mapping[str, float],
    labels: Mapping[str, str],
    share_good: float | None = None,
) -> None:
    """Draw precision over recall on matplotlib's axis; the best curves in colour, by area.

    Args:
        axis: to draw on.
        rows: columns `metric, recall, precision`, in the curves' order; they may be a part of a curve's points.
        areas: under each metric's whole curve.
        labels: the metrics' names.
        share_good: the share of good captions, which is the precision of keeping all; None for no line there.
    """
    curves = {str(metric): curve for metric, curve in rows.groupby("metric", sort=False)}
    best = sorted(curves, key=lambda metric: -areas[metric])[: len(SERIES)]
    muted = [metric for metric in curves if metric not in best]
    lines: dict[str, Any] = {}
    # The best curve is drawn last, above all others.
    for metric in [*muted, *reversed(best)]:
        options: dict[str, Any] = {"color": figures.MUTED, "linewidth": 0.5}
        if metric in best:
            options = {"color": SERIES[best.index(metric)], "linewidth": 1.4}
        curve = curves[metric]
        # matplotlib returns a list of the lines drawn, here of one.
        (line,) = axis.step(
            curve["recall"], curve["precision"], where="pre", linestyle="-", **options
        )
        lines[metric] = line

    def label_of(metric: str) -> str:
        return f"{labels[metric]} (AUC {format_number(areas[metric], 100, 1)})"

    handles: list[Any] = []
    names: list[str] = []
    for metric in best:
        handles.append(lines[metric])
        names.append(label_of(metric))
    if muted:
        handles.append(lines[muted[0]])
        # One line that stands for one metric has its name.
        is_single = len(muted) == 1
        names.append(label_of(muted[0]) if is_single else f"{len(muted)} more")

    if share_good is not None:
        handles.append(axis.axhline(share_good, color=figures.MUTED, linewidth=0.8, linestyle=":"))
        names.append(f"all kept (precision {format_number(share_good, 100, 1)})")

    axis.set_xlabel("recall")
    axis.set_ylabel("precision")
    axis.set_ylim(0, 1.02)
    n_columns = 2 if max(map(len, names)) < 35 else 1  # two columns of long names leave no axes
    below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.2), "ncols": n_columns}
    figures.legend(axis, handles, names, **below)


def probe_figure(rows: pd.DataFrame, labels: Mapping[str, str], title: str) -> dict[str, bytes]:
    """Draw how often each metric notices each fault; weak cells have an exclamation mark.

    Args:
        rows: those of `probes.csv`.
        labels: the metrics' names.
        title: of the figure.

    Returns:
        the figure as files by name; none where there is no value, or no matplotlib.
    """
    measured = rows.dropna(subset=["value"])
    if measured.empty or not figures.can_draw():
        return {}
    faults = list(dict.fromkeys(measured["fault"]))
    cells = {(row["metric"], row["fault"]): row for row in records_of(measured)}

    def make_square(metric: str, fault: str) -> Square | None:
        row = cells.get((metric, fault))
        if row is None:
            return None
        shade = 2 * row["value"] - 1
        if fault in CONTROLS:
            # A control has no share that is good or bad in itself.
            shade = -1.0 if is_weak(row) else math.nan
        return figures.shade_square(shade, probe_cell(row).text)

    squares: list[list[Square | None]] = []
    for metric in labels:
        squares.append([make_square(metric, fault) for fault in faults])

    with figures.style():
        figure, axis = figures.make_figure(1.8 + 0.4 * len(faults), 1.5 + 0.28 * len(labels))
        figures.draw_squares(axis, squares)
        figures.label_squares(axis, list(labels.values()), faults)
        axis.set_title(f"{title}: faults noticed, in % of pairs")
        return figures.files_of(figure, "probes")
