"""The figure of `captau rank`: systems' mean ratings with their intervals."""

from __future__ import annotations

import pandas as pd

from .figure_files import can_draw, files_of, style


def system_figure(systems: pd.DataFrame) -> dict[str, bytes]:
    """Draw mean ratings with intervals, a panel a dataset and dimension, the best system on top.

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
            axis.set_xlabel("mean rating")
        return files_of(figure, "systems")
