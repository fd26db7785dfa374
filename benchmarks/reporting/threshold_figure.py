"""The figure of precision over recall, of `captau thresholds` and of reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ..runs.tables import format_number
from .figure_files import MUTED, SERIES, can_draw, files_of, legend, style


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
    if not panels or not can_draw():
        return {}
    from matplotlib.figure import Figure

    areas_of: dict[Any, dict[str, float]] = {
        names: dict(zip(of_panel["metric"], of_panel["auc"], strict=True))
        for names, of_panel in recalls.groupby(["dataset", "dimension"], sort=False)
    }
    with style():
        figure = Figure(figsize=(6, 4 * len(panels)), layout="constrained")
        axes = figure.subplots(len(panels), 1, squeeze=False).ravel()
        for axis, (names, curves) in zip(axes, panels, strict=True):
            draw_curves(axis, curves, areas_of[names], labels)
            axis.set_title(", ".join(map(str, names)))
        return files_of(figure, "precision_recall")


def draw_curves(
    axis: Any, rows: pd.DataFrame, areas: Mapping[str, float], labels: Mapping[str, str]
) -> None:
    """Draw precision over recall on matplotlib's axis; the best curves in colour, by area.

    Args:
        axis: to draw on.
        rows: columns `metric, recall, precision`, in the curves' order; they may be a part of a curve's points.
        areas: under each metric's whole curve.
        labels: the metrics' names.
    """
    curves = {str(metric): curve for metric, curve in rows.groupby("metric", sort=False)}
    best = sorted(curves, key=lambda metric: -areas[metric])[: len(SERIES)]
    lines: dict[str, Any] = {}
    for metric in [m for m in curves if m not in best] + best[::-1]:
        options: dict[str, Any] = {"color": MUTED, "linewidth": 0.5}
        if metric in best:
            options = {"color": SERIES[best.index(metric)], "linewidth": 1.4}
        recall, precision = (curves[metric][column] for column in ("recall", "precision"))
        (lines[metric],) = axis.step(recall, precision, where="pre", linestyle="-", **options)
    handles = [lines[m] for m in best]
    names = [f"{labels[m]} (AUC {format_number(areas[m], 100, 1)})" for m in best]
    if muted := [lines[m] for m in curves if m not in best]:
        handles, names = [*handles, muted[0]], [*names, f"{len(muted)} more"]
    axis.set_xlabel("recall")
    axis.set_ylabel("precision")
    axis.set_ylim(0, 1.02)
    n_columns = 2 if max(map(len, names)) < 35 else 1  # two columns of long names leave no axes
    below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16), "ncols": n_columns}
    legend(axis, handles, names, **below)
