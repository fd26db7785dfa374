"""The figure of `captau estimate`: each quantity with its interval by the ratings alone, and with the metrics' help."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ...evaluation.systems.estimated_ratings import DIFFERENCE, SHARE, WIN_RATE
from ...runs.frames import groups_of
from ...runs.tables import format_number
from . import figure_files as figures
from .figure_files import MUTED, SERIES

#: The most quantities of a panel; estimates.csv has all.
MOST_ROWS = 60
#: Each method's name in the legend, its colour, and how far it stands below the middle of its row.
_METHODS = {
    "classical": ("ratings alone", MUTED, -0.14),
    "powered": ("with the metrics' help", SERIES[0], 0.14),
}
#: The values at which neither of two systems is better.
_NEUTRAL = {DIFFERENCE: 0.0, WIN_RATE: 0.5}


def estimate_figure(estimates: pd.DataFrame, level: float) -> dict[str, bytes]:
    """Draw both intervals of each quantity, a panel for the systems and one for their differences.

    Args:
        estimates: the rows of `estimates.csv`.
        level: of the intervals.

    Returns:
        the figure as files by name; none without matplotlib, and none where every panel has more than `MOST_ROWS`.
    """
    # Shares, and differences of two, are drawn in per cent.
    is_of_shares = bool(estimates["quantity"].isin([SHARE, WIN_RATE]).any())
    factor = 100 if is_of_shares else 1
    unit = ", %" if is_of_shares else ""
    panels: list[tuple[str, pd.DataFrame]] = []
    for quantity, rows in groups_of(estimates, "quantity"):
        if len(rows) <= MOST_ROWS * len(_METHODS):
            panels.append((str(quantity), rows))
    if not panels or not figures.can_draw():
        return {}

    heights = [0.8 + 0.36 * len(rows) / len(_METHODS) for _, rows in panels]
    with figures.style():
        figure, axes = figures.make_stacked_panels(heights, width=5.4)
        handles: list[Any] = []
        for axis, (quantity, rows) in zip(axes, panels, strict=True):
            handles = _draw_rows(axis, quantity, rows, factor)
            axis.set_xlabel(f"{quantity}{unit} ({100 * level:g} % intervals)")

        names = [name for name, _, _ in _METHODS.values()]
        above = {"loc": "lower left", "bbox_to_anchor": (0, 1), "ncols": len(names)}
        figures.legend(axes[0], handles, names, **above)
        return figures.files_of(figure, "estimates")


def _draw_rows(axis: Any, quantity: str, rows: pd.DataFrame, factor: int) -> list[Any]:
    """Draw a row a quantity, the first on top, with what its ratings count as; return a handle a method."""
    handles: list[Any] = []
    for method, (_, colour, offset) in _METHODS.items():
        of_method = rows[rows["method"] == method]
        heights = np.arange(len(of_method)) + offset
        values = factor * of_method[["value", "ci_low", "ci_high"]]
        axis.hlines(heights, values["ci_low"], values["ci_high"], color=colour, linewidth=1.4)
        (points,) = axis.plot(
            values["value"], heights, color=colour, marker="o", markersize=4, linestyle="none"
        )
        handles.append(points)

    powered = rows[rows["method"] == "powered"]
    axis.set_yticks(range(len(powered)), powered["system"])
    axis.set_ylim(len(powered) - 0.5, -0.5)
    axis.tick_params(axis="y", length=0)
    axis.grid(False, axis="y")
    if quantity in _NEUTRAL:
        axis.axvline(factor * _NEUTRAL[quantity], color=MUTED, linewidth=0.8, linestyle=":")

    # In the coordinates of the axis' width, and of the rows' heights.
    beside = axis.get_yaxis_transform()
    counts = zip(powered["n_rated"], powered["effective_n"], strict=True)
    for height, (n_rated, effective_n) in enumerate(counts):
        text = f"{n_rated:,.0f} count as {format_number(effective_n, 1, 0)}"
        axis.text(1.02, height, text, transform=beside, va="center", fontsize=7)
    return handles
