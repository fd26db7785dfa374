"""Charts of systems: a user's own captions by corpus scores, differences and captions' scores; the figures of `captau rank`."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import pandas as pd

from ....metrics.base import Floats
from ...evaluation.systems.system_battles import BattleSet
from ...runs.frames import records_by
from ...runs.tables import ResultTable, Row, number_cell, p_value_cell
from ..run_parts import ScoredCaptions
from . import figure_files as figures
from .coefficient_charts import make_difference_chart
from .figure_files import SERIES, Chart, UnavailableChart
from .score_charts import make_violin_chart


def corpus_charts(part: ScoredCaptions) -> Iterator[Chart]:
    """Make for each metric a chart of the systems' corpus scores, the best system first."""
    for metric in part.metrics:
        order = [standing.label for standing in part.standings[metric]]
        # A metric that is undefined on all captions ranks no system.
        if order:
            yield _corpus_chart(part, metric, order)


def _corpus_chart(part: ScoredCaptions, metric: str, order: list[str]) -> Chart:
    label = part.label(metric)
    rows = [part.rows[system, metric] for system in order]
    columns = ("score", "ci_low", "ci_high")
    title = f"{part.title}: {label}"

    def draw() -> Any:
        figure, axis = figures.make_row_figure(order)
        factor = part.styles[metric]["scale"]
        for y, row in enumerate(rows):
            score = factor * float(row["score"])
            low = factor * float(row["ci_low"])
            high = factor * float(row["ci_high"])
            # Without resampling there is no interval.
            if np.isfinite(low):
                axis.plot([low, high], [y, y], color=SERIES[0], linestyle="-", linewidth=1.2)
            axis.plot(score, y, "o", color=SERIES[0], markersize=4.5, linestyle="none")
        axis.set_xlabel(label if factor == 1 else f"{label} ×{factor:g}")
        axis.set_title(title)
        return figure

    table_rows: list[Row] = []
    for system, row in zip(order, rows, strict=True):
        cells = [part.score_cell(float(row[column]), metric) for column in columns]
        table_rows.append(Row(system, cells))
    ranking = ", ".join(f"{row.label} {row.cells[0]}" for row in table_rows)
    description = f"Points with intervals. From the best to the worst: {ranking}."
    table = ResultTable(title, "system", ["score", "from", "to"], table_rows)
    name = figures.slug("forest", *part.file_words, metric)
    return Chart("forest", name, title, description, table, draw)


def difference_charts(part: ScoredCaptions) -> Iterator[Chart]:
    """Make for each tested metric a square of the differences of every two systems; of two systems a chart of all metrics.

    Raises:
        UnavailableChart: where there is one system, or nothing was tested.
    """
    if part.differences.empty:
        raise UnavailableChart("the run compares no two systems")

    if len(part.differences[["system_a", "system_b"]].drop_duplicates()) == 1:
        # A square of two systems has one number, and hides its interval.
        yield from _charts_of_two_systems(part)
        return

    for metric in part.metrics:
        rows = part.differences[part.differences["metric"] == metric]
        if len(rows):
            style = part.styles[metric]
            label = part.label(metric)
            scale = style["scale"]
            systems = [standing.label for standing in part.standings[metric]]
            yield make_difference_chart(
                rows.rename(columns={"system_a": "a", "system_b": "b"}),
                # A system is called by its own name.
                labels_by_name=dict(zip(systems, systems, strict=True)),
                number_format=(scale, style["decimals"]),
                level=1 - part.statistics.level,
                name=figures.slug("significance", *part.file_words, metric),
                title=f"{part.title}: differences of {label}",
                subject=label if scale == 1 else f"{label} ×{scale:g}",
                corner="systems",
                test=f"bootstrap, {part.statistics.correction}",
            )


#: The columns of a difference and of the ends of its interval.
_ENDS = ("difference", "ci_low", "ci_high")


def _charts_of_two_systems(part: ScoredCaptions) -> Iterator[Chart]:
    """Make a chart with a row a metric, the difference of the two systems with its interval, for each scale of metrics."""
    tested = part.differences["metric"].tolist()
    metrics_by_scale: dict[float, list[str]] = {}
    for metric in part.metrics:
        if metric in tested:
            metrics_by_scale.setdefault(part.styles[metric]["scale"], []).append(metric)

    for scale, metrics in metrics_by_scale.items():
        yield _chart_of_two_systems(part, scale, metrics)


def _chart_of_two_systems(part: ScoredCaptions, scale: float, metrics: list[str]) -> Chart:
    """Make the chart of metrics that tables print on one scale."""
    row_by_metric = records_by(part.differences, "metric")
    rows = [row_by_metric[metric] for metric in metrics]
    first, second = rows[0]["system_a"], rows[0]["system_b"]
    labels: list[str] = []
    table_rows: list[Row] = []
    for metric, row in zip(metrics, rows, strict=True):
        style = part.styles[metric]
        label = part.label(metric)
        if not style["higher_is_better"]:
            label += " (less is better)"
        labels.append(label)
        numbers = [number_cell(float(row[column]), scale, style["decimals"]) for column in _ENDS]
        table_rows.append(Row(label, [*numbers, p_value_cell(float(row["p"]))]))

    level = 1 - part.statistics.level
    test = f"bootstrap, {part.statistics.correction}"
    unit = "" if scale == 1 else f" ×{scale:g}"
    title = f"{part.title}: {first} less {second}"

    def draw() -> Any:
        figure, axis = figures.make_row_figure(labels)
        for height, row in enumerate(rows):
            value, low, high = (scale * float(row[column]) for column in _ENDS)
            colour = SERIES[0] if row["p"] < level else figures.MUTED
            if np.isfinite(low) and np.isfinite(high):
                axis.plot([low, high], [height] * 2, color=colour, linestyle="-", linewidth=1.2)
            axis.plot(value, height, "o", color=colour, markersize=4.5, linestyle="none")
        axis.axvline(0, color=figures.MUTED, linewidth=0.8, linestyle=":")
        axis.set_xlabel(f"{first} less {second}{unit}")
        axis.set_title(title)
        return figure

    n_significant = sum(row["p"] < level for row in rows)
    description = (
        f"The score of {first} less that of {second}, with intervals; coloured where p is below {level:.2g} ({test}), "
        f"which it is by {n_significant} of {len(metrics)} metrics."
    )
    words = ["systems"] if scale != 1 else ["systems", "as_computed"]
    return Chart(
        "significance",
        figures.slug("significance", *part.file_words, *words),
        title,
        description,
        ResultTable(
            f"{title}{unit} ({test})", "metric", ["difference", "from", "to", "p"], table_rows
        ),
        draw,
    )


def system_violin_charts(part: ScoredCaptions) -> Iterator[Chart]:
    """Make for each metric violins of the captions' scores by system."""
    for metric in part.metrics:
        scores = part.scores[metric]
        finite = scores[np.isfinite(scores)]
        systems = part.items["system"].loc[finite.index]
        label = part.label(metric)
        scores_by_system: dict[str, Floats] = {}
        for system in part.systems:
            scores_by_system[system] = finite[systems == system].to_numpy(dtype=float)

        yield make_violin_chart(
            scores_by_system,
            name=figures.slug("scores", *part.file_words, metric),
            title=f"{part.title}: captions' {label}",
            corner="system",
            n_lost=len(scores) - len(finite),
        )


#: The most systems whose names a figure has room for.
MAX_DRAWN_SYSTEMS = 200


def system_figure(
    systems: pd.DataFrame, preference_datasets: Collection[str] = ()
) -> dict[str, bytes]:
    """Draw mean ratings, or strengths, with intervals, a panel a dataset and dimension, the best system on top.

    Args:
        systems: the rows of `systems.csv`.
        preference_datasets: the datasets whose values are log strengths; those of others are mean ratings.

    Returns:
        the figure as files by name; none without matplotlib, or of more than `MAX_DRAWN_SYSTEMS`.
    """
    panels = list(systems.groupby(["dataset", "dimension"], sort=False))
    tallest = max(len(panel) for _, panel in panels)
    if not figures.can_draw() or tallest > MAX_DRAWN_SYSTEMS:
        return {}

    height = 0.35 * tallest + 1
    with figures.style():
        figure, axes = figures.make_panels(len(panels), most_in_row=2, width=5, height=height)
        for axis, (names, panel) in zip(axes, panels, strict=True):
            heights = range(len(panel))
            # matplotlib leaves a gap where a value is NaN, and cannot draw an infinite one.
            finite = panel[["ci_low", "ci_high", "value"]]
            finite = finite.where(np.isfinite(finite))
            axis.hlines(heights, finite["ci_low"], finite["ci_high"])
            _draw_infinite_ends(axis, panel)
            axis.plot(finite["value"], heights, "o")
            axis.set_yticks(heights, panel["system"])
            axis.invert_yaxis()
            axis.locator_params(axis="x", nbins=5)
            axis.set_title(", ".join(map(str, names)))
            is_strength = names[0] in preference_datasets
            axis.set_xlabel("log strength" if is_strength else "mean rating")
        return figures.files_of(figure, "systems")


def _draw_infinite_ends(axis: Any, panel: pd.DataFrame) -> None:
    """Draw the ends of intervals that have no bound as arrows to the edge of the panel."""
    ends = panel[["ci_low", "ci_high", "value"]].to_numpy(dtype=float)
    finite = ends[np.isfinite(ends)]
    if not len(finite) or not np.isinf(ends[:, :2]).any():
        return

    spread = float(np.ptp(finite)) or 1.0
    left, right = float(finite.min()) - 0.2 * spread, float(finite.max()) + 0.2 * spread
    axis.set_xlim(left, right)
    for height, (low, high, value) in enumerate(ends):
        # An interval without a bound on one side starts at its other end, or at the value.
        if np.isneginf(low):
            start = high if np.isfinite(high) else value
            _draw_arrow(axis, start if np.isfinite(start) else right, left, height)
        if np.isposinf(high):
            start = low if np.isfinite(low) else value
            _draw_arrow(axis, start if np.isfinite(start) else left, right, height)


def _draw_arrow(axis: Any, start: float, end: float, height: float) -> None:
    arrow = {"arrowstyle": "->", "shrinkA": 0, "shrinkB": 0, "color": SERIES[0], "linewidth": 1.5}
    axis.annotate("", xy=(end, height), xytext=(start, height), arrowprops=arrow)


def win_figures(battles: BattleSet, dataset: str) -> dict[str, bytes]:
    """Draw how often the system of a row beats that of a column, ties counting half, a panel a dimension.

    Returns:
        the figure as files by name; none without matplotlib, or of more than `MAX_DRAWN_SYSTEMS`.
    """
    if not figures.can_draw() or len(battles.systems) > MAX_DRAWN_SYSTEMS:
        return {}

    panels = battles.by_dimension
    size = 0.35 * len(battles.systems) + 1.5
    with figures.style():
        figure, axes = figures.make_panels(
            len(panels), most_in_row=len(panels), width=1.3 * size, height=size
        )
        for axis, part in zip(axes, panels, strict=True):
            wins, ties = part.totals
            # The system that wins most often stands on top, and on the left.
            order = np.argsort(-part.win_shares, kind="stable")
            n_battles = wins + wins.T + ties
            # Two systems that never met have no share.
            with np.errstate(invalid="ignore"):
                shares = (wins + ties / 2) / n_battles
            axis.imshow(shares[np.ix_(order, order)], vmin=0, vmax=1, cmap="RdBu_r")
            names = [battles.systems[i] for i in order]
            axis.set_xticks(range(len(names)), names, rotation=90)
            axis.set_yticks(range(len(names)), names)
            axis.set_title(f"{dataset}, {part.dimension}")
            axis.grid(visible=False)
        figure.colorbar(figure.axes[0].images[0], ax=figure.axes, label="row beats column")
        return figures.files_of(figure, f"wins-{dataset}")
