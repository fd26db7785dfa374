"""The figures of `captau rank`: systems with their intervals, and who beats whom."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..evaluation.system_battles import BattleSet
from .figure_files import can_draw, files_of, style


def system_figure(systems: pd.DataFrame) -> dict[str, bytes]:
    """Draw mean ratings, or strengths, with intervals, a panel a dataset and dimension, the best system on top.

    Args:
        systems: the rows of `systems.csv`.

    Returns:
        the figure as files by name; none without matplotlib.
    """
    if not can_draw():
        return {}
    from matplotlib.figure import Figure

    panels = list(systems.groupby(["dataset", "dimension"], sort=False))
    n_columns = min(2, len(panels))
    n_rows = -(-len(panels) // n_columns)
    tallest = max(len(panel) for _, panel in panels)
    with style():
        size = (5 * n_columns, (0.35 * tallest + 1) * n_rows)
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
        for axis in axes[len(panels) :]:
            axis.set_visible(False)
        for axis, (names, panel) in zip(axes, panels, strict=False):
            heights = range(len(panel))
            axis.hlines(heights, panel["ci_low"], panel["ci_high"])
            axis.plot(panel["value"], heights, "o")
            axis.set_yticks(heights, panel["system"])
            axis.invert_yaxis()
            axis.locator_params(axis="x", nbins=5)
            axis.set_title(", ".join(map(str, names)))
            axis.set_xlabel("mean rating or log strength")
        return files_of(figure, "systems")


def win_figures(battles: BattleSet, dataset: str) -> dict[str, bytes]:
    """Draw how often the system of a row beats that of a column, ties counting half, a panel a dimension.

    Returns:
        the figure as files by name; none without matplotlib.
    """
    if not can_draw():
        return {}
    from matplotlib.figure import Figure

    panels = battles.by_dimension
    size = 0.35 * len(battles.systems) + 1.5
    with style():
        figure = Figure(figsize=(1.3 * size * len(panels), size), layout="constrained")
        for axis, part in zip(
            figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True
        ):
            wins, ties = part.totals
            order = np.argsort(-part.win_shares, kind="stable")
            with np.errstate(invalid="ignore"):
                shares = ((wins + ties / 2) / (wins + wins.T + ties))[np.ix_(order, order)]
            axis.imshow(shares, vmin=0, vmax=1, cmap="RdBu_r")
            names = [battles.systems[i] for i in order]
            axis.set_xticks(range(len(names)), names, rotation=90)
            axis.set_yticks(range(len(names)), names)
            axis.set_title(f"{dataset}, {part.dimension}")
            axis.grid(visible=False)
        figure.colorbar(figure.axes[0].images[0], ax=figure.axes, label="row beats column")
        return files_of(figure, f"wins-{dataset}")
