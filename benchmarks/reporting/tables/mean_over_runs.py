"""The mean of each metric over the datasets of several runs, which no run has computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from ...evaluation.overview import MEAN
from ...evaluation.wording import left_out_words, mean_words
from ...runs.tables import MISSING, Cell, coefficient_cell
from ...scoring.catalog import METRIC_KINDS
from ...scoring.corpus_scores import PLAIN_PROTOCOL
from ...statistics.coefficients.coefficient import find_coefficient
from ...statistics.joint_mean import JOINT_KEY, find_common_metrics, rescale
from .coefficient_column import CoefficientColumn
from .named_run import ColumnKey
from .table_rows import RowDraft

MEAN_COLUMN = CoefficientColumn(
    head=MEAN,
    latex=MEAN,
    dataset=MEAN,
    dimension="",
    coefficient=MEAN,
    protocol=PLAIN_PROTOCOL,
    revision="",
)


def add_mean_over_runs(
    columns: dict[ColumnKey, CoefficientColumn], drafts: Sequence[RowDraft]
) -> str:
    """Add the mean over the datasets that all metrics of several runs have; it has no interval and no rank.

    Returns:
        its note; empty where there is no such mean, or the runs have one.
    """
    datasets = [key.dataset for key in columns]
    # Of a dataset with several columns, the mean could take any.
    has_several_columns = len(set(datasets)) < len(datasets)
    if MEAN in datasets or has_several_columns:
        return ""

    # Two runs may have a metric of one spec, so that its place in the list is its name here.
    own_drafts: dict[str, RowDraft] = {}
    for index, draft in enumerate(drafts):
        if draft.kind in METRIC_KINDS and not draft.source:
            own_drafts[str(index)] = draft

    # Only coefficients with a value of chance can be put on the mean's scale.
    key_by_dataset: dict[str, ColumnKey] = {}
    for key in columns:
        if find_coefficient(key.coefficient).chance is not None:
            key_by_dataset[key.dataset] = key

    nothing = Cell(MISSING)
    values: dict[str, dict[str, float]] = {}
    for dataset, key in key_by_dataset.items():
        values[dataset] = {}
        for name, draft in own_drafts.items():
            values[dataset][name] = draft.cells.get(key, nothing).value

    common_datasets, metrics = find_common_metrics(values)
    if len(common_datasets) < 2:
        return ""

    mean_key = ColumnKey(MEAN, tuple(common_datasets), "", MEAN)
    columns[mean_key] = MEAN_COLUMN
    # The mean is printed as a value of this coefficient is.
    _, like_coefficient = JOINT_KEY
    for name in metrics:
        rescaled: list[float] = []
        for dataset in common_datasets:
            coefficient = key_by_dataset[dataset].coefficient
            rescaled.append(rescale(values[dataset][name], coefficient))
        own_drafts[name].cells[mean_key] = coefficient_cell(fmean(rescaled), like_coefficient)

    left_out: list[str] = []
    for dataset, key in key_by_dataset.items():
        has_numbers = not all(math.isnan(value) for value in values[dataset].values())
        if dataset not in common_datasets and has_numbers:
            left_out.append(columns[key].over)

    common_keys = [key_by_dataset[dataset] for dataset in common_datasets]
    titles = [columns[key].over for key in common_keys]
    coefficients = [key.coefficient for key in common_keys]
    words = mean_words(titles, coefficients) + left_out_words(left_out)
    return f"mean: {words}. Of several runs it has no interval and no rank."
