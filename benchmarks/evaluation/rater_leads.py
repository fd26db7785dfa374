"""The lead of trained raters over the best of the metrics that stand beside them, dataset by dataset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from ...metrics.base import Metric
from ..runs.tables import ResultTable, format_number
from ..scoring.catalog import metric_style
from ..statistics.coefficients.registry import find_coefficient
from .measured_dataset import MeasuredDataset

LEAD_COLUMNS = ("coefficient", "rater", "best other", "its value", "lead", "interval")


def lead_table(measured: Sequence[MeasuredDataset], metrics: Sequence[Metric]) -> ResultTable:
    """Return the table of leads: the rater's coefficient less the greatest of the metrics' coefficients.

    Each dataset's first coefficient counts, and of preferences the mean accuracy of the dimensions.

    Args:
        measured: with differences, of raters and `metrics`.
        metrics: the others.
    """
    labels = {metric.spec: metric_style(metric).label for metric in metrics}
    rows: list[tuple[str, list[str]]] = []
    for dataset in measured:
        differences = dataset.differences
        if differences is None:
            continue
        is_rater = ~differences["metric_a"].isin(list(labels)) & differences["metric_b"].isin(
            list(labels)
        )
        grouped: Any = differences[is_rater].groupby(
            ["dimension", "coefficient", "metric_a"], sort=False
        )
        first = dataset.protocol.coefficients[0]
        for (dimension, coefficient, rater), group in grouped:
            if coefficient == first and find_coefficient(first).is_summary(dimension):
                label = f"{rater}: {dataset.selection.name}, {dimension}"
                rows.append((label, _lead_cells(group, coefficient, labels)))
    return ResultTable(
        "Lead over the best of the other metrics",
        "rater: dataset, dimension",
        list(LEAD_COLUMNS),
        rows,
        notes=[
            "×100. The interval is the paired bootstrap's over images; significance.csv has every two."
        ],
    )


def _lead_cells(group: pd.DataFrame, coefficient: str, labels: dict[str, str]) -> list[str]:
    best = group.sort_values("value_b", kind="stable").iloc[-1]
    numbers = [format_number(float(best[c]), 100, 2) for c in ("value_a", "value_b", "difference")]
    ends = [format_number(float(best[c]), 100, 2) for c in ("ci_low", "ci_high")]
    value, other_value, lead = numbers
    return [coefficient, value, labels[best["metric_b"]], other_value, lead, " to ".join(ends)]
