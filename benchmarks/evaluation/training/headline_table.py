"""The short table of `captau train`: how raters agree with people on each dataset that they were tested on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...runs.tables import AnyCell, ResultTable, Row, count_cell, number_cell
from ...statistics.coefficients.coefficient import find_coefficient
from ..measured_dataset import MeasuredDataset
from .rater_training import TrainedRater


def headline_table(measured: Sequence[MeasuredDataset], target: str | None) -> ResultTable:
    """Return a row a dataset: its headline coefficient, the mean over the seeds where there are several.

    Args:
        measured: the datasets, with the raters of all seeds.
        target: the dimension that was learned, where the user names it; else the headline's is shown.
    """
    rows: list[Row] = []
    n_raters = 0
    for dataset in measured:
        dimension, coefficient = dataset.headline
        if (target, coefficient) in dataset.columns:
            dimension = str(target)
        values = _values_of(dataset, dimension, coefficient)
        n_raters = len(values)

        cells: list[AnyCell] = [find_coefficient(coefficient).symbol]
        cells.append(number_cell(float(np.mean(values)), 100, 1))
        if len(values) > 1:
            cells.append(number_cell(float(np.std(values, ddof=1)), 100, 1))
        cells.append(count_cell(len(dataset.items)))
        rows.append(Row(f"{dataset.selection.name}, {dimension}", cells))

    columns = ["coefficient", "value", "captions"]
    notes = ["×100; correlations.csv has the intervals."]
    if n_raters > 1:
        columns = ["coefficient", "mean", "std", "captions"]
        notes = [f"×100; the mean and standard deviation of {n_raters} seeds."]
    title = "Agreement with people on images that the rater has not seen"
    return ResultTable(title, "dataset, dimension", columns, rows, notes=notes)


def _values_of(dataset: MeasuredDataset, dimension: str, coefficient: str) -> list[float]:
    """Return the raters' coefficients, one a seed; NaN where one is undefined."""
    labels = [m.spec for m in dataset.scored.metrics if isinstance(m, TrainedRater)]
    rows = dataset.correlations
    rows = rows[(rows["dimension"] == dimension) & (rows["coefficient"] == coefficient)]
    by_metric = rows.set_index("metric")["value"]
    return [float(by_metric.get(label, float("nan"))) for label in labels]
