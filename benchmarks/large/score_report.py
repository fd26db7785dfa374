"""The report of a large set's scores: its table, and the rows of percentiles.csv and histograms.csv."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pandas as pd

from ...metrics.base import Metric, Unavailability
from ..evaluation.caption_ranges import CaptionRange
from ..evaluation.evidence import Evidence
from ..evaluation.reliability import MetricReliability, reliability_notes
from ..options.large import LargeOptions
from ..reporting.tables.corpus_score_tables import scale_note
from ..runs.frames import make_frame
from ..runs.tables import AnyCell, ResultTable, Row, TableNote, count_of, number_cell
from ..scoring.catalog import MetricStyle, metric_style, style_notes
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
    options: LargeOptions,
    record: Mapping[str, Any],
    evidence: Evidence | None,
    *,
    is_new: bool,
) -> LargeScores:
    """Make the report of a record, be it of this run or of the one that it would repeat."""
    corpus = {spec: math.nan if v is None else v for spec, v in record["corpus"].items()}
    summary = f"{count_of(record['rows'], 'caption')} in {options.output}"
    if not is_new:
        summary = f"was done before: nothing to do; {summary}"
    if n_skipped := len(record["skipped"]):
        summary += f"; {n_skipped} of {record['shards']} shards were corrupt and left out"

    table = make_table(options, {**record, "corpus": corpus}, evidence)
    return LargeScores(corpus, [table], summary)


def _find_reliability(
    metrics: Sequence[Metric], record: Mapping[str, Any], evidence: Evidence
) -> MetricReliability:
    """Return the metrics' correlations with people, as far as they apply to captions like the first rows'."""
    captions = CaptionRange.from_record(record["captions"], "distributions.json")
    reference_free = {metric.spec for metric in metrics if "references" not in metric.needs}
    return evidence.apply_to({"": captions}, reference_free).select(record["corpus"])


def make_table(
    options: LargeOptions, record: Mapping[str, Any], evidence: Evidence | None
) -> ResultTable:
    """Make the table of corpus scores.

    Args:
        options: the options of the run.
        record: of the run, as `distributions.json` has it.
        evidence: of the metrics' agreement with people; None leaves the column out.
    """
    metrics = options.metrics
    corpus, unavailable = record["corpus"], record["missing"]
    computed: list[Metric] = []
    styles: dict[str, MetricStyle] = {}
    missing: dict[Metric, Unavailability] = {}
    for metric in metrics:
        if metric.spec in corpus:
            computed.append(metric)
            styles[metric.spec] = metric_style(metric)

        if metric.spec in unavailable:
            missing[metric] = Unavailability(**unavailable[metric.spec])

    reliability = MetricReliability()
    if evidence is not None:
        reliability = _find_reliability(metrics, record, evidence)

    rows: list[Row] = []
    for spec, style in sorted(styles.items(), key=lambda pair: pair[1].order):
        percentiles = record["distributions"][spec]["percentiles"]
        cells: list[AnyCell] = []
        for value in (corpus[spec], *(percentiles[share] for share in _TABLE_SHARES)):
            # JSON has no NaN; a record that was read back has None there.
            number = math.nan if value is None else value
            cells.append(number_cell(number, style.scale, style.decimals))

        if evidence is not None:
            cells.append(reliability.cell(spec))

        rows.append(Row(style.label, cells))

    notes = _make_notes(record, styles)
    columns = ["score", *(f"P{share}" for share in _TABLE_SHARES)]
    if evidence is not None and options.trust is not None:
        columns.append("agreement with people")
        labels = {spec: style.label for spec, style in styles.items()}
        notes += reliability_notes(options.trust, reliability, labels)

    table = ResultTable("Corpus scores", "metric", columns, rows, notes=notes)
    return add_unavailable_rows(table, computed, record["remarks"], missing)


def _make_notes(record: Mapping[str, Any], styles: Mapping[str, MetricStyle]) -> list[str]:
    """Return the notes below the table, but for those of the metrics' agreement with people."""
    notes: list[str] = [
        f"{count_of(record['rows'], 'caption')}. {scale_note(list(styles.values()))}. P5, P50, P95: percentiles of their "
        f"scores.",
        *record.get("file_notes", ()),
    ]
    notes += style_notes(styles.values())
    for spec, count in record["undefined"].items():
        if count:
            label = styles[spec].label
            words = f"{label}: undefined for {count_of(count, 'caption')}."
            notes.append(TableNote(words, (label,)))

    images = record.get("images")
    if images is not None and images["captioned"] < images["referenced"]:
        notes.append(
            f"Captions of {images['captioned']:,} of {count_of(images['referenced'], 'image')} with references; images "
            f"without a caption enter no score."
        )

    if record.get("has_systems"):
        notes.append(
            "The column 'system' is ignored: all captions are scored as one set. Score each system by itself to compare "
            "them."
        )

    if repeated := record.get("repeated"):
        notes.append(
            f"{repeated:,} rows repeat the image and the caption of an earlier row. They are scored and counted again."
        )

    if skipped := record["skipped"]:
        notes.append(f"{len(skipped):,} corrupt shards are left out; the first: {skipped[0]}.")
    return notes


def percentile_rows(distributions: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows of percentiles.csv."""
    rows: list[tuple[str, float, float]] = []
    for spec, distribution in distributions.items():
        for share, value in distribution["percentiles"].items():
            rows.append((spec, float(share), value))

    return make_frame(rows, ["metric", "percentile", "value"])


def histogram_rows(distributions: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows of histograms.csv."""
    rows: list[tuple[str, float, float, int]] = []
    for spec, distribution in distributions.items():
        bins = pairwise(distribution["edges"])
        for (low, high), count in zip(bins, distribution["counts"], strict=True):
            rows.append((spec, low, high, count))

    return make_frame(rows, ["metric", "low", "high", "count"])
