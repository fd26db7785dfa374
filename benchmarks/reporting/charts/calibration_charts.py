"""The figures of `captau calibrate`: reliability diagrams and ROC curves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from ...runs.frames import groups_of
from ...runs.tables import format_number
from . import figure_files as figures
from .figure_files import SERIES

#: The most panels of a figure, and how many stand in a row; calibration.csv and bins.csv have all.
MOST_PANELS = 18
PANELS_IN_ROW = 3
#: How many characters of a metric's name a panel has room for.
LONG_NAME = 30


def reliability_figure(bins: pd.DataFrame, labels: Mapping[str, str]) -> dict[str, bytes]:
    """Draw the share of good captions over the probability that was predicted, a panel a dataset, dimension and metric.

    Args:
        bins: the rows of `bins.csv`.
        labels: the metrics' names.

    Returns:
        the figure as files by name; none without bins or matplotlib.
    """
    panels = list(groups_of(bins, "dataset", "dimension", "metric"))[:MOST_PANELS]
    if not panels or not figures.can_draw():
        return {}

    # All panels end at the same tenth, where rare good captions leave the rest of the square empty.
    ends = pd.concat([rows[["predicted", "share_good", "ci_high"]] for _, rows in panels])
    limit = math.ceil(10 * float(ends.max().max()) - 1e-9) / 10
    with figures.style():
        figure, axes = figures.make_panels(len(panels), PANELS_IN_ROW, 2.6, 2.6)
        for axis, ((dataset, dimension, metric), rows) in zip(axes, panels, strict=True):
            _draw_reliability(axis, rows, limit)
            axis.set_title(f"{_shorten(labels[metric])}\n{dataset}, {dimension}")
        return figures.files_of(figure, "reliability")


def _shorten(label: str) -> str:
    return label if len(label) <= LONG_NAME else f"{label[: LONG_NAME - 1]}…"


def _draw_reliability(axis: Any, rows: pd.DataFrame, limit: float) -> None:
    """Draw bins as points with their intervals, and the diagonal on which shares are what was predicted."""
    axis.plot([0, limit], [0, limit], color=figures.MUTED, linewidth=0.8, linestyle=":")
    axis.vlines(rows["predicted"], rows["ci_low"], rows["ci_high"], color=SERIES[0], linewidth=0.9)
    axis.plot(
        rows["predicted"],
        rows["share_good"],
        color=SERIES[0],
        marker="o",
        markersize=3.5,
        linewidth=1.0,
        linestyle="-",
    )
    axis.set_xlim(-0.02 * limit, 1.02 * limit)
    axis.set_ylim(-0.02 * limit, 1.02 * limit)
    axis.set_aspect("equal")
    axis.set_xlabel("probability of good")
    axis.set_ylabel("share of good captions")


def roc_figure(
    roc: pd.DataFrame, measures: pd.DataFrame, labels: Mapping[str, str]
) -> dict[str, bytes]:
    """Draw TPR over the share of bad captions that get a yes, a panel a dataset and dimension; a dot is the threshold.

    Args:
        roc: the rows of `roc.csv`.
        measures: the rows of `calibration.csv`.
        labels: the metrics' names.

    Returns:
        the figure as files by name; none without curves or matplotlib.
    """
    panels = list(groups_of(roc, "dataset", "dimension"))[:MOST_PANELS]
    if not panels or not figures.can_draw():
        return {}

    of_panel = dict(groups_of(measures, "dataset", "dimension"))
    with figures.style():
        figure, axes = figures.make_panels(len(panels), 2, 3.4, 3.9)
        for axis, ((dataset, dimension), rows) in zip(axes, panels, strict=True):
            measured = of_panel[dataset, dimension].set_index(["metric", "measure"])["value"]
            _draw_curves(axis, rows, measured, labels)
            axis.set_title(f"{dataset}, {dimension}")
        return figures.files_of(figure, "roc")


def _draw_curves(
    axis: Any, rows: pd.DataFrame, measured: pd.Series, labels: Mapping[str, str]
) -> None:
    """Draw the curves of a panel; those of the greatest areas in colour."""
    curves: dict[str, pd.DataFrame] = {}
    areas: dict[str, float] = {}
    for name, curve in rows.groupby("metric", sort=False):
        metric = str(name)
        curves[metric] = curve
        areas[metric] = float(measured.loc[metric, "auroc"])
    best = sorted(curves, key=lambda metric: -areas[metric])[: len(SERIES)]

    axis.plot([0, 1], [0, 1], color=figures.MUTED, linewidth=0.8, linestyle=":")
    handles: list[Any] = []
    names: list[str] = []
    for metric, curve in curves.items():
        if metric not in best:
            axis.plot(curve["fpr"], curve["tpr"], color=figures.MUTED, linewidth=0.5, linestyle="-")
    # The best curves are drawn last, above all others.
    for number, metric in enumerate(best):
        curve = curves[metric]
        (line,) = axis.plot(
            curve["fpr"], curve["tpr"], color=SERIES[number], linewidth=1.4, linestyle="-"
        )
        # At the threshold, 1 - TNR of the bad captions and TPR of the good ones get a yes.
        wrong = 1 - float(measured.loc[metric, "tnr"])
        axis.plot([wrong], [float(measured.loc[metric, "tpr"])], marker="o", color=SERIES[number])
        handles.append(line)
        names.append(f"{_shorten(labels[metric])} ({format_number(areas[metric], 100, 1)})")

    axis.set_xlim(-0.02, 1.02)
    axis.set_ylim(-0.02, 1.02)
    axis.set_aspect("equal")
    axis.set_xlabel("share of bad captions with a yes (1 − TNR)")
    axis.set_ylabel("TPR")
    n_columns = 2 if max(map(len, names)) < LONG_NAME else 1
    below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16), "ncols": n_columns}
    figures.legend(axis, handles, names, **below)
