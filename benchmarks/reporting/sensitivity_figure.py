"""The figure of `captau sensitivity`: coefficients by images, raters, references or caption length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from ..statistics.coefficients.registry import find_coefficient
from .figure_files import can_draw, files_of, legend, style

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
    if curves.empty or not can_draw():
        return {}
    from matplotlib.figure import Figure

    panels = list(curves.groupby(["dataset", "dimension", "coefficient", "kind"], sort=False))
    n_columns = min(2, len(panels))
    n_rows = -(-len(panels) // n_columns)
    with style():
        figure = Figure(figsize=(6 * n_columns, 4 * n_rows), layout="constrained")
        axes = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
        for axis in axes[len(panels) :]:
            axis.set_visible(False)
        for axis, (names, panel) in zip(axes, panels, strict=False):
            dataset, dimension, coefficient, kind = map(str, names)
            lines: dict[str, Any] = {}
            for metric, curve in panel.groupby("metric", sort=False):
                sizes = curve["size"]
                (lines[str(metric)],) = axis.plot(sizes, 100 * curve["value"], marker="o")
                axis.fill_between(sizes, 100 * curve["low"], 100 * curve["high"], alpha=0.15)
            axis.set_title(f"{dataset}, {dimension}")
            axis.set_xlabel(_X_LABELS[kind])
            axis.set_ylabel(f"{find_coefficient(coefficient).symbol} × 100")
            if kind == "images":
                axis.set_xscale("log")
            legend(axis, list(lines.values()), [labels[metric] for metric in lines])
        return files_of(figure, "sensitivity")
