"""Protocols, intervals, corrections and ranks in words, for tables, reports and citations."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from ..scoring.protocol import Protocol
from ..statistics.bootstrap import StatisticsOptions

#: Names of the bootstrap intervals.
INTERVAL_LABELS = {"percentile": "percentile", "bca": "BCa"}
#: Names of the corrections of p-values for the number of comparisons.
CORRECTION_LABELS = {"holm": "Holm", "bh": "Benjamini-Hochberg", "none": "no correction"}


def join_notes(*notes: str) -> str:
    """Join the notes that are not empty."""
    return "; ".join(note for note in notes if note)


def synthetic_note(subject: str) -> str:
    """Return the warning that belongs to every number of synthetic data.

    Args:
        subject: whom the numbers might be taken to describe, in the plural.
    """
    return (
        f"SYNTHETIC data: it only shows that captau works, and says nothing about real {subject}."
    )


def interval_words(statistics: StatisticsOptions) -> str:
    """Describe an interval: its level, kind and replicates."""
    method = "Fisher's formula, data points taken as independent"
    if statistics.uses_resampling:
        kind = INTERVAL_LABELS[statistics.interval]
        method = f"{kind} bootstrap over images, {statistics.replicates:,} replicates"
    return f"{100 * statistics.level:g} % interval ({method})"


def rank_words(statistics: StatisticsOptions) -> str:
    """Describe rank number_images: the test, its level and its correction."""
    return (
        "metrics that share a rank do not differ significantly (paired bootstrap over images, "
        f"level {100 * (1 - statistics.level):g} %, {CORRECTION_LABELS[statistics.correction]})"
    )


def describe_protocol(protocol: Protocol) -> str:
    """Describe in one line the choices of a protocol that move numbers."""
    parts = [f"ratings {protocol.ratings}"] if protocol.dimension else []
    parts.append(f"references {protocol.references}" + (f" k={protocol.k}" if protocol.k else ""))
    parts.append(f"corpus {protocol.corpus}")
    if protocol.level != "pooled":
        parts.append(f"level {protocol.level}")
    if protocol.systems:
        parts.append(f"systems {', '.join(protocol.systems)}")
    if protocol.split:
        parts.append(f"split {protocol.split}")
    return ", ".join(parts)


def level_notes(correlations: pd.DataFrame, labels: Mapping[str, str], level: str) -> list[str]:
    """Return the notes of defined coefficients on groups, systems and thresholds, each once.

    Args:
        correlations: rows of `correlations.csv`.
        labels: the metrics' names in tables.
        level: of the coefficients.
    """
    metrics_by_note: dict[tuple[str, str, str], list[str]] = {}
    for row in correlations[correlations["value"].notna()].to_dict("records"):
        has_level = row["coefficient"] == "acc_eq" or level != "pooled"
        if has_level and row["coefficient"] != "accuracy" and row["note"]:
            key = (row["dimension"], row["coefficient"], row["note"])
            metrics_by_note.setdefault(key, []).append(labels[row["metric"]])
    n_metrics = correlations["metric"].nunique()
    coefficients_by_note: dict[tuple[str, str], list[str]] = {}
    for (dimension, coefficient, note), metrics in metrics_by_note.items():
        prefix = "" if len(metrics) == n_metrics else f"{', '.join(metrics)}, "
        coefficients_by_note.setdefault((prefix, note), []).append(f"{dimension} {coefficient}")
    return [
        f"{prefix}{', '.join(coefficients)}: {note}."
        for (prefix, note), coefficients in coefficients_by_note.items()
    ]
