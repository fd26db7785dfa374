"""The table of `captau train design=transfer`: learned from one dataset, tested on each.

Scott et al. 2023, Table 4, is such a table.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...runs.tables import AnyCell, ResultTable, Row, number_cell
from ...statistics.coefficients.coefficient import find_coefficient
from ..measured_dataset import MeasuredDataset
from .training_designs import TrainingJob


def transfer_table(jobs: Sequence[TrainingJob], measured: Sequence[MeasuredDataset]) -> ResultTable:
    """Return a row a dataset that was learned from, and a column a dataset that was tested.

    Args:
        jobs: of the design `transfer`; the jobs of several seeds are averaged.
        measured: of the datasets that were tested, with the raters of all jobs.
    """
    labels_of: dict[str, list[str]] = {}
    for job in jobs:
        learned_from = str(job.train.rows.frame["dataset"].iloc[0])
        labels_of.setdefault(learned_from, []).append(job.label)

    rows: list[Row] = []
    for learned_from, labels in labels_of.items():
        cells: list[AnyCell] = [_mean_headline(dataset, labels) for dataset in measured]
        rows.append(Row(learned_from, cells))

    headlines: list[str] = []
    for dataset in measured:
        dimension, coefficient = dataset.headline
        symbol = find_coefficient(coefficient).symbol
        headlines.append(f"{dataset.selection.name} {symbol}, {dimension}")

    notes = [f"×100, of test images: {'; '.join(headlines)}."]
    n_seeds = max(len(labels) for labels in labels_of.values())
    if n_seeds > 1:
        notes.append(f"Each value is the mean of {n_seeds} seeds.")

    title = "Learned from one dataset, tested on each"
    columns = [dataset.selection.name for dataset in measured]
    return ResultTable(title, "learned from", columns, rows, notes=notes)


def _mean_headline(dataset: MeasuredDataset, labels: Sequence[str]) -> AnyCell:
    """Return the mean of raters' headline coefficients, undefined if one of them is."""
    values: list[float] = []
    for label in labels:
        value = dataset.headline_value(label)
        values.append(float("nan") if value is None else value)

    return number_cell(float(np.mean(values)), 100, 1)
