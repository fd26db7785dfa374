"""Figures of ratings: distributions over each other, and differences between two groups of raters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...metrics.base import Floats
from ..evaluation.rating_distributions import RatingDistribution
from .figure_files import SERIES, can_draw, files_of, legend, style

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
    if not by_panel or not can_draw():
        return {}
    with style():
        figure, axes = _panels(len(by_panel))
        for axis, (title, members) in zip(axes, by_panel.items(), strict=True):
            labels = _draw_panel(axis, members)
            axis.set_title(f"{title}: {labels[0]}" if len(labels) == 1 else title)
        return files_of(figure, "rating_distribution")


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
        axis.set_xticks(np.linspace(0, 1, 6))
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
    if not histograms or not can_draw():
        return {}
    with style():
        figure, axes = _panels(len(histograms))
        for axis, (title, shares) in zip(axes, histograms.items(), strict=True):
            steps = np.array(sorted(shares))
            draw_histograms(axis, {"": (steps, 100 * np.array([shares[s] for s in steps]))})
            axis.set_xlim(-1.05, 1.05)
            axis.set_xlabel("difference of the mean ratings, in parts of the scale")
            axis.set_ylabel("% of items")
            axis.set_title(title)
        return files_of(figure, "stability")


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
        legend(axis, handles, list(series), **below)


def _panels(count: int) -> tuple[Any, list[Any]]:
    """Return a figure with so many panels, at most three a row, and their axes."""
    from matplotlib.figure import Figure

    n_columns = min(3, count)
    n_rows = -(-count // n_columns)
    size = (_PANEL[0] * n_columns, _PANEL[1] * n_rows)
    figure = Figure(figsize=size, layout="constrained")
    axes = list(figure.subplots(n_rows, n_columns, squeeze=False).ravel())
    for axis in axes[count:]:
        axis.set_visible(False)
    return figure, axes[:count]
