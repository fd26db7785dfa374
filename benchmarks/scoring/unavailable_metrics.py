"""Metrics that cannot be computed here: tables list them with the reason, and the others stand."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ...datasets.errors import InputError, Lack, LackingError
from ...datasets.schema import CaptionSet
from ...metrics.base import Metric, Unavailability
from ...metrics.rows import Rows
from ..runs.results import make_correlations, missing_note
from ..runs.tables import MISSING, ResultTable, Row, TableNote
from .catalog import metric_style
from .protocol import Protocol

logger = logging.getLogger(__name__)

#: Metrics and why they cannot be computed.
UnavailableMetrics = Mapping[Metric, Unavailability]


def check_works_without_references(metrics: Sequence[Metric]) -> None:
    """Check that one of the metrics at least needs no references, as there are none.

    Raises:
        InputError: where there are metrics, and all of them need references.
    """
    if metrics and all("references" in metric.needs for metric in metrics):
        raise InputError(
            f"metric {metrics[0].spec} needs references; give references=FILE, which is the same file where its rows hold both"
        )


def find_unavailable(
    metrics: Sequence[Metric],
    items: pd.DataFrame,
    *,
    needs_one: bool = True,
    is_one_of_several: bool = False,
) -> dict[Metric, Unavailability]:
    """Return those metrics that cannot be computed for these items, with the reasons.

    Args:
        metrics: all that are requested.
        items: as metrics take them.
        needs_one: whether there is nothing to do without a metric.
        is_one_of_several: whether the run has other datasets, see `Metric.find_unavailability`.

    Raises:
        LackingError: where that leaves none, and one is needed.
    """
    rows = Rows.from_items(items)
    reasons: dict[Metric, Unavailability] = {}
    for metric in metrics:
        reason = metric.find_unavailability(rows, is_one_of_several=is_one_of_several)
        if reason is not None:
            reasons[metric] = reason

    leaves_one = len(reasons) < len(metrics)
    if leaves_one or not metrics or not needs_one:
        return reasons

    if len(reasons) == 1:
        message = f"metric {metrics[0].spec} {reasons[metrics[0]]}"
        raise LackingError(Lack.METRICS, message)

    texts: list[str] = []
    for reason, specs in _group_by_reason(reasons).items():
        texts.append(f"{','.join(specs)}: {reason}")
    message = f"none of the metrics can be computed: {'. '.join(texts)}"
    raise LackingError(Lack.METRICS, message)


def split_available(
    metrics: Sequence[Metric],
    optional: frozenset[str],
    protocol: Protocol,
    caption_set: CaptionSet,
) -> tuple[list[Metric], dict[Metric, Unavailability]]:
    """Return the metrics that can be computed for a dataset or were named, and why the others cannot.

    Args:
        optional: the specs of those that a suite names; others fail where they are computed.
    """
    if not optional:
        return list(metrics), {}

    items = protocol.for_dataset(caption_set).select_items(caption_set)
    suite_metrics = [metric for metric in metrics if metric.spec in optional]
    # Whoever names a metric wants its error, which comes where it is computed.
    is_none_named = len(suite_metrics) == len(metrics)
    missing = find_unavailable(suite_metrics, items, needs_one=is_none_named)

    available = [metric for metric in metrics if metric not in missing]
    return available, missing


def record_reasons(missing: UnavailableMetrics) -> dict[str, dict[str, str]]:
    """Return the reasons by the metrics' specs, for run.json; `FinishedRun.find_reasons` reads them."""
    return {metric.spec: reason.record() for metric, reason in missing.items()}


def make_unavailable_rows(
    dataset: str,
    protocol: str,
    columns: Sequence[tuple[str, str]],
    missing: UnavailableMetrics,
) -> pd.DataFrame:
    """Make a row for each missing metric and each dimension and coefficient: NaN, with the reason."""
    rows: list[dict[str, Any]] = []
    for metric, reason in missing.items():
        for dimension, coefficient in columns:
            row = {
                "dataset": dataset,
                "protocol": protocol,
                "dimension": dimension,
                "coefficient": coefficient,
                "metric": metric.spec,
                "value": np.nan,
                "n_items": 0,
                "n_ratings": 0,
                "p_value": np.nan,
                "note": missing_note(reason),
            }
            rows.append(row)

    return make_correlations(rows)


def add_unavailable_rows(
    table: ResultTable,
    metrics: Sequence[Metric],
    remarks: Mapping[str, Sequence[str]],
    missing: UnavailableMetrics,
) -> ResultTable:
    """Return a table with a row for each missing metric below the others, and notes with the reasons.

    Args:
        table: whose first rows are those of `metrics`.
        remarks: what these remarked, by spec; equal remarks stand once, with all their labels.
    """
    labels_by_note: dict[str, list[str]] = {}
    for metric in metrics:
        label = metric_style(metric).label
        for text in remarks.get(metric.spec, ()):
            labels_by_note.setdefault(text, []).append(label)

    missing_rows: list[Row] = []
    for metric, reason in missing.items():
        label = metric_style(metric).label
        labels_by_note.setdefault(missing_note(reason), []).append(label)
        missing_rows.append(Row(label, [MISSING] * len(table.columns)))

    # Behind the metrics', and before rows of other kinds, such as what people reach.
    n_metrics = len(metrics)
    rows = [*table.rows[:n_metrics], *missing_rows, *table.rows[n_metrics:]]
    notes = list(table.notes)
    for text, labels in labels_by_note.items():
        words = f"{', '.join(labels)}: {text.removesuffix('.')}."
        notes.append(TableNote(words, tuple(labels)))
    return replace(table, rows=rows, notes=notes)


def warn_unavailable(missing: Sequence[UnavailableMetrics]) -> None:
    """Log a warning for each reason why metrics are missing from a run's datasets."""
    specs_by_reason: dict[Unavailability, list[str]] = {}
    for reasons in missing:
        for reason, specs in _group_by_reason(reasons).items():
            specs_by_reason.setdefault(reason, []).extend(specs)

    for reason, specs in specs_by_reason.items():
        # Several datasets may lack the same metric.
        distinct_specs = dict.fromkeys(specs)
        logger.warning("left out %s: %s", ",".join(distinct_specs), reason)


def _group_by_reason(missing: UnavailableMetrics) -> dict[Unavailability, list[str]]:
    """Return the specs of missing metrics by reason."""
    specs_by_reason: dict[Unavailability, list[str]] = {}
    for metric, reason in missing.items():
        specs_by_reason.setdefault(reason, []).append(metric.spec)
    return specs_by_reason
