"""The report of a large set's scores: its table, its summary, and its files of percentiles and histograms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ...metrics.base import Metric, Unavailability
from ..evaluation.metric_reliability import UNKNOWN, Reliability
from ..options.large import LargeOptions
from ..reporting.corpus_score_tables import scale_note
from ..runs.tables import ResultTable, format_number
from ..scoring.catalog import metric_style
from ..scoring.unavailable_metrics import add_unavailable_rows

#: The percentiles that the table shows.
_TABLE_SHARES = ("5", "50", "95")


@dataclass(frozen=True)
class LargeScores:
    """A large set's scores.

    Attributes:
        corpus: the score of all captions, by metric.
        tables: tables to print.
        summary: a line below them.
    """

    corpus: dict[str, float]
    tables: list[ResultTable]
    summary: str


def report_scores(
    config: LargeOptions,
    record: Mapping[str, Any],
    reliability: Mapping[str, Reliability],
    *,
    is_new: bool,
) -> LargeScores:
    """Make the report of a record, be it of this run or of the one that it would repeat."""
    corpus = {spec: math.nan if v is None else v for spec, v in record["corpus"].items()}
    summary = f"{record['rows']:,} captions in {config.output}"
    if not is_new:
        summary = f"was done before: nothing to do; {summary}"
    if n_skipped := len(record["skipped"]):
        summary += f"; {n_skipped} of {record['shards']} shards were corrupt and left out"
    table = make_table(config.metrics, {**record, "corpus": corpus}, reliability)
    return LargeScores(corpus, [table], summary)


def make_table(
    metrics: Sequence[Metric], record: Mapping[str, Any], reliability: Mapping[str, Reliability]
) -> ResultTable:
    """Make the table of corpus scores.

    Args:
        metrics: the requested ones.
        record: of the run, as `distributions.json` has it.
        reliability: by spec; without any the table has no such column.
    """
    corpus, unavailable = record["corpus"], record["missing"]
    computed = {metric.spec: metric for metric in metrics if metric.spec in corpus}
    styles = {spec: metric_style(metric) for spec, metric in computed.items()}
    rows: list[tuple[str, list[str]]] = []
    for spec, style in sorted(styles.items(), key=lambda pair: pair[1].order):
        percentiles = record["distributions"][spec]["percentiles"]
        values = [corpus[spec], *(percentiles[share] for share in _TABLE_SHARES)]
        cells = [
            format_number(math.nan if v is None else v, style.scale, style.decimals) for v in values
        ]
        if reliability:
            cells.append(str(reliability.get(spec, UNKNOWN)))
        rows.append((style.label, cells))
    notes = [
        f"{record['rows']:,} captions. {scale_note(list(styles.values()))}. P5, P50, P95: percentiles of their "
        f"scores.",
        *(note for note in dict.fromkeys(style.note for style in styles.values()) if note),
        *(
            f"{styles[spec].label}: undefined for {count:,} captions."
            for spec, count in record["undefined"].items()
            if count
        ),
    ]
    if skipped := record["skipped"]:
        notes.append(f"{len(skipped):,} corrupt shards are left out; the first: {skipped[0]}.")
    columns = ["score", *(f"P{share}" for share in _TABLE_SHARES)]
    if reliability:
        columns.append("agreement with people")
    table = ResultTable("Corpus scores", "metric", columns, rows, notes=notes)
    missing = {
        metric: Unavailability.parse(unavailable[metric.spec])
        for metric in metrics
        if metric.spec in unavailable
    }
    return add_unavailable_rows(table, list(computed.values()), record["remarks"], missing)


def percentile_rows(distributions: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows of percentiles.csv."""
    rows = [
        {"metric": spec, "percentile": float(share), "value": value}
        for spec, distribution in distributions.items()
        for share, value in distribution["percentiles"].items()
    ]
    return pd.DataFrame(rows, columns=pd.Index(["metric", "percentile", "value"]))


def histogram_rows(distributions: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows of histograms.csv."""
    rows = [
        {"metric": spec, "low": low, "high": high, "count": count}
        for spec, distribution in distributions.items()
        for low, high, count in zip(
            distribution["edges"][:-1],
            distribution["edges"][1:],
            distribution["counts"],
            strict=True,
        )
    ]
    return pd.DataFrame(rows, columns=pd.Index(["metric", "low", "high", "count"]))
