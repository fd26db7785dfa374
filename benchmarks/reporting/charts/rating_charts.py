"""Charts of people: their ratings, how well they agree, and the figures of `captau agree`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ....datasets.schema import Scale
from ....metrics.base import Floats
from ...evaluation.people.rating_distributions import RatingDistribution
from ...evaluation.wording import MEASURE_LABELS
from ...runs.tables import AnyCell, ResultTable, Row, count_cell
from ...statistics.rater_agreement import compute_measures
from ...statistics.rating_table import (
    CEILINGS,
    AgreementMeasure,
    RatingTable,
    count_by_level,
    nearest_level,
    scale_levels,
)
from ..run_parts import RunDataset
from . import figure_files as figures
from .figure_files import SERIES, Chart, UnavailableChart

#: With more levels than this a scale is cut into ten.
MOST_LEVELS = 13

#: The measures of the figure: those whose greatest value is 1.
FIGURE_MEASURES = (
    "kendall_w",
    "fleiss_kappa",
    "cohen_kappa_quadratic",
    "krippendorff_alpha_ordinal",
    "krippendorff_alpha_interval",
    "icc1",
    "icc1k",
    "percent_agreement",
    "split_half",
    "leave_one_rater_out_tau_c",
    "leave_one_rater_out_spearman",
    "ceiling_one_vs_one",
    "ceiling_one_vs_rest",
    "ceiling_oracle",
)


def rating_charts(part: RunDataset) -> Iterator[Chart]:
    for dimension, scale in rated_scales(part).items():
        ratings = part.ratings[part.ratings["dimension"] == dimension]
        cut = coarsen_scale(scale, ratings["value"].to_numpy(dtype=float))
        levels = scale_levels(cut)
        item_counts = np.array(list(count_by_level(ratings, cut).values()))
        level_indices = nearest_level(ratings["value"].to_numpy(dtype=float), cut)
        rating_counts = np.bincount(level_indices, minlength=len(levels))
        title = f"{part.title}, {dimension}: how people rated"
        rows: list[Row] = []
        for level, *counts in zip(levels, rating_counts, item_counts, strict=True):
            cells: list[AnyCell] = []
            for count, total in zip(counts, (rating_counts.sum(), item_counts.sum()), strict=True):
                cells += [count_cell(int(count)), figures.percent_cell(count / total)]
            rows.append(Row(f"{level:g}", cells))
        columns = ["ratings", "% of ratings", "items by mean rating", "% of items"]
        commonest = levels[int(item_counts.argmax())]
        yield Chart(
            "ratings",
            figures.slug("ratings", part.dataset, part.protocol, dimension),
            title,
            f"Histograms: the share of ratings, and of items by their mean rating, at each of {len(levels)} "
            f"levels from {cut.low:g} to {cut.high:g}. Most items are nearest to {commonest:g}.",
            ResultTable(title, "level", columns, rows),
            _bars(part, dimension, levels, rating_counts, item_counts),
        )


def _bars(
    part: RunDataset, dimension: str, levels: Sequence[float], rating_counts: Any, item_counts: Any
) -> Callable[[], Any]:
    def draw() -> Any:
        figure, axis = figures.make_figure(3.9, 2.8)
        counts_by_label = {"ratings": rating_counts, "items, mean rating": item_counts}
        # Of one rating an item the two are one.
        if np.array_equal(rating_counts, item_counts):
            counts_by_label = {"ratings": rating_counts}

        series: dict[str, tuple[Floats, Floats]] = {}
        for label, counts in counts_by_label.items():
            series[label] = np.array(levels), 100 * counts / counts.sum()
        draw_histograms(axis, series)
        axis.set_xlabel("rating, to the nearest level")
        axis.set_ylabel("%")
        axis.set_title(f"{part.title}, {dimension}")
        return figure

    return draw


def rated_scales(part: RunDataset) -> dict[str, Scale]:
    if not part.scales:
        raise UnavailableChart("nobody rated these items; people preferred one of two")
    return part.scales


def coarsen_scale(scale: Scale, values: Floats) -> Scale:
    """Return a scale with few enough levels to show each.

    One with too many levels, or without any, is cut into ten. Where its values fill less than half of it, the part
    that they fill is cut into ten or fewer round steps.

    Args:
        scale: of ratings.
        values: the ratings, none of them NaN.
    """
    width = scale.high - scale.low
    if scale.step is not None and width / scale.step < MOST_LEVELS:
        return scale

    used_width = float(np.ptp(values)) if len(values) else 0.0
    # Values that are all but equal stay in one of the ten.
    if width / 1000 < used_width < width / 2:
        part = _cut_in_round_steps(float(values.min()), float(values.max()))
        if scale.low <= part.low and part.high <= scale.high:
            return part

    return Scale(scale.low, scale.high)


def _cut_in_round_steps(lowest: float, highest: float) -> Scale:
    """Return the least scale around two values that has ten or fewer steps of 1, 2 or 5 by a power of ten."""
    power = 10.0 ** math.floor(math.log10((highest - lowest) / 10))
    step = power
    # The last fits whatever the values are.
    for factor in (1, 2, 5, 10, 20):
        step = factor * power
        if math.ceil(highest / step) - math.floor(lowest / step) <= 10:
            break

    low = math.floor(lowest / step) * step
    high = math.ceil(highest / step) * step
    return Scale(round(low, 9), round(high, 9), step)


def agreement_charts(part: RunDataset) -> Iterator[Chart]:
    scales = rated_scales(part)
    tables: dict[str, RatingTable] = {}
    for dimension in scales:
        table = RatingTable.from_ratings(
            part.ratings, part.items.index, dimension, is_anonymous=part.has_anonymous_raters
        )
        if table.n_items:
            tables[dimension] = table
    if not tables:
        raise UnavailableChart("agreement needs items with two ratings; there are none")

    for dimension, table in tables.items():
        # As captau agree has them, whose seed and number of draws are the usual ones as well.
        measures, _ = compute_measures(table, scales[dimension])
        shown_measures = {name: measures[name] for name in FIGURE_MEASURES if name in measures}
        title = f"{part.title}, {dimension}: how well people agree"
        rows: list[Row] = []
        for name, measure in measures.items():
            numbers = [figures.percent_cell(measure.value), figures.percent_cell(measure.std)]
            n_items = count_cell(measure.n_items)
            rows.append(Row(MEASURE_LABELS[name], [*numbers, n_items, measure.note]))
        alpha = figures.percent_cell(measures["krippendorff_alpha_ordinal"].value)
        columns = ["value", "± over draws", "items", "remark"]
        yield Chart(
            "agreement",
            figures.slug("agreement", part.dataset, part.protocol, dimension),
            title,
            f"Points: measures of agreement. Krippendorff's α (ordinal) is {alpha}, of "
            f"{table.n_items:,} items with two ratings or more.",
            ResultTable(f"{title} ×100", "measure", columns, rows),
            _dots(part, dimension, shown_measures),
        )


def _dots(
    part: RunDataset, dimension: str, measures: Mapping[str, AgreementMeasure]
) -> Callable[[], Any]:
    def draw() -> Any:
        labels = [MEASURE_LABELS[name] for name in measures]
        figure, axis = figures.make_row_figure(labels)
        handles: dict[str, Any] = {}
        for y, (name, measure) in enumerate(measures.items()):
            ceiling = name in CEILINGS
            colour = figures.MUTED if ceiling else SERIES[0]
            (handle,) = axis.plot(
                100 * measure.value,
                y,
                "D" if ceiling else "o",
                color=colour,
                markersize=4.5,
                linestyle="none",
            )
            handles["what people reach" if ceiling else "agreement"] = handle
            if np.isfinite(measure.std):
                ends = 100 * np.array([measure.value - measure.std, measure.value + measure.std])
                axis.plot(ends, [y, y], color=colour, linestyle="-", linewidth=1.2)
        axis.set_xlabel("×100")
        lowest = min(0, *(100 * measure.value for measure in measures.values()))
        axis.set_xlim(lowest - 2, 102)
        axis.set_title(
            figures.fold_title(f"{part.title}, {dimension}: agreement of people", figure, labels)
        )
        if len(handles) > 1:
            figure.legend(
                list(handles.values()), list(handles), loc="outside lower center", ncols=2
            )
        return figure

    return draw


_PANEL = 3.9, 2.8


def distribution_figure(distributions: Sequence[RatingDistribution]) -> dict[str, bytes]:
    """Draw distributions of mean ratings over each other, a panel a dimension.

    Datasets share a panel where each has one group, else each has its own. Where the scales of a panel
    differ, they are set to 0–1, and areas are shares of items.

    Returns:
        the figure as files by name; none without matplotlib.
    """
    by_panel: dict[str, list[RatingDistribution]] = {}
    for distribution in distributions:
        panel = f"{distribution.dataset}, " if distribution.group else ""
        by_panel.setdefault(panel + distribution.dimension, []).append(distribution)
    if not by_panel or not figures.can_draw():
        return {}
    with figures.style():
        figure, axes = figures.make_panels(len(by_panel), 3, *_PANEL)
        for axis, (title, members) in zip(axes, by_panel.items(), strict=True):
            labels = _draw_panel(axis, members)
            axis.set_title(f"{title}: {labels[0]}" if len(labels) == 1 else title)
        return figures.files_of(figure, "rating_distribution")


def _draw_panel(axis: Any, distributions: Sequence[RatingDistribution]) -> list[str]:
    """Draw the histograms of a panel, and return their labels."""
    names = [d.group or d.dataset for d in distributions]
    is_normalised = len({d.scale for d in distributions}) > 1
    series: dict[str, tuple[Floats, Floats]] = {}
    for name, distribution in zip(names, distributions, strict=True):
        levels = np.array(list(distribution.counts), dtype=float)
        shares = np.array(list(distribution.counts.values()), dtype=float)
        shares = 100 * shares / max(distribution.n_items, 1)
        if is_normalised:
            levels = distribution.scale.share(levels)
            shares /= 100 * np.diff(levels).min()
        series[f"{name} ({distribution.n_items:,})"] = levels, shares
    draw_histograms(axis, series)
    if is_normalised:
        ticks = np.linspace(0, 1, 6)
        axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.set_xlabel("mean rating, scales set to 0–1" if is_normalised else "mean rating")
    axis.set_ylabel("density" if is_normalised else "% of items")
    return list(series)


def difference_figure(histograms: Mapping[str, Mapping[float, float]]) -> dict[str, bytes]:
    """Draw how far mean ratings of two groups of raters are apart (Levinboim et al. 2021, Figure 3).

    Args:
        histograms: by name, the share of items at each difference in parts of the scale's width.

    Returns:
        the figure as files by name; none without matplotlib.
    """
    if not histograms or not figures.can_draw():
        return {}
    with figures.style():
        figure, axes = figures.make_panels(len(histograms), 3, *_PANEL)
        for axis, (title, shares) in zip(axes, histograms.items(), strict=True):
            steps = np.array(sorted(shares))
            heights = 100 * np.array([shares[step] for step in steps])
            draw_histograms(axis, {"": (steps, heights)})
            axis.set_xlim(-1.05, 1.05)
            axis.set_xlabel("difference of the mean ratings, in parts of the scale")
            axis.set_ylabel("% of items")
            axis.set_title(title)
        return figures.files_of(figure, "stability")


def draw_histograms(axis: Any, series: Mapping[str, tuple[Floats, Floats]]) -> None:
    """Draw histograms over each other, their outlines in full colour.

    Args:
        axis: matplotlib's.
        series: by label, the levels in ascending order and their heights, of one length; a legend names
            them where there are two or more.
    """
    handles: list[Any] = []
    for number, (levels, heights) in enumerate(series.values()):
        step = np.diff(levels).min() if len(levels) > 1 else 1.0
        edges = np.append(levels - step / 2, levels[-1] + step / 2)
        colour, line = SERIES[number % len(SERIES)], "-" if number < len(SERIES) else "--"
        axis.stairs(heights, edges, fill=True, color=colour, alpha=0.18)
        handles.append(
            axis.stairs(heights, edges, color=colour, linewidth=1.3, linestyle=line, baseline=0)
        )
    longest = max((levels for levels, _ in series.values()), key=len)
    if len(longest) <= 6:
        axis.set_xticks(longest, [f"{level:.3g}" for level in longest])
    axis.grid(False, axis="x")
    axis.set_ylim(bottom=0)
    if len(series) > 1:
        below: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.2), "ncols": 2}
        figures.legend(axis, handles, list(series), **below)
