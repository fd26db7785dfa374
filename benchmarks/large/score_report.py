"""The report of a large set's scores: corpus scores, percentiles and histograms, of what the tasks of its parts return."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...metrics.base import Metric, Unavailability
from ..evaluation.caption_ranges import CaptionRange
from ..evaluation.caption_scores import Evidence, MetricReliability, reliability_notes
from ..options.large import LargeOptions
from ..reporting.tables.corpus_score_tables import scale_note
from ..runs.frames import make_frame
from ..runs.tables import AnyCell, ResultTable, Row, TableNote, count_of, number_cell
from ..scoring.catalog import metric_style
from ..scoring.unavailable_metrics import add_unavailable_rows
from .exact import DigitCounts, add_digit_counts, add_sums, compute_percentiles, sum_to_float
from .stage_runner import StageRunner
from .stages import add_counts

#: The percentiles that are reported.
SHARES = (0.0, 1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 100.0)
#: How many bins a histogram has.
BINS = 100
#: How many parts' scores a task of the stage `digits` reads.
_PARTS_PER_TASK = 25


@dataclass
class MetricTotal:
    """The sums and the range of a metric's scores, over the parts that were added.

    Attributes:
        sums: the exact sums of the summands of its corpus score; None where one is not finite.
        undefined: how many captions have no score.
        low, high: the least and the greatest score.
    """

    sums: list[int | None] | None = None
    undefined: int = 0
    low: float = math.inf
    high: float = -math.inf

    def add(self, part: Mapping[str, Any]) -> None:
        """Add a part's, as the stage `score` returns it."""
        part_sums = [None if text is None else int(text, 16) for text in part["sums"]]
        sums = self.sums or [0] * len(part_sums)
        self.sums = [add_sums(pair) for pair in zip(sums, part_sums, strict=True)]
        self.undefined += part["undefined"]
        if part["low"] is not None:
            self.low, self.high = min(self.low, part["low"]), max(self.high, part["high"])

    def corpus_score(self, metric: Metric) -> float:
        """Return the metric's corpus score; NaN where a caption has none."""
        sums = [sum_to_float(total) for total in self.sums or ()]
        return math.nan if any(map(math.isnan, sums)) else metric.corpus_score_from_sums(sums)

    def histogram_edges(self, metric: Metric) -> list[float]:
        """Return the edges of a histogram over the metric's bounds; none without a finite range of scores."""
        if not (math.isfinite(self.low) and math.isfinite(self.high)):
            return []
        low, high = metric.bounds
        low = self.low if low is None else min(low, self.low)
        high = self.high if high is None else max(high, self.high)
        return np.linspace(low, high if high > low else low + 1, BINS + 1).tolist()


def compute_distributions(
    runner: StageRunner,
    metrics: Sequence[Metric],
    totals: Mapping[str, MetricTotal],
    n_rows: int,
) -> dict[str, Any]:
    """Compute the percentiles and the histogram of each metric, by passes over the parts' scores.

    Args:
        runner: runs the stage `digits`.
        metrics: those that were computed.
        totals: theirs, by spec.
        n_rows: how many captions all parts have.

    Returns:
        By spec: `n`, `percentiles` by share, `edges` and `counts` of the histogram.
    """
    edges = {
        metric.spec: edges
        for metric in metrics
        if (edges := totals[metric.spec].histogram_edges(metric))
    }
    bins = {spec: [0] * BINS for spec in edges}
    sizes = {spec: n_rows - total.undefined for spec, total in totals.items()}

    def count_pass(
        position: int, prefixes: Mapping[str, Sequence[int]]
    ) -> Mapping[str, DigitCounts]:
        counts: defaultdict[str, DigitCounts] = defaultdict(dict)
        tasks = [
            {
                "id": f"{position}-{start}",
                "first": start,
                "end": start + _PARTS_PER_TASK,
                "position": position,
                "prefixes": prefixes,
                "edges": edges if position == 0 else {},
            }
            for start in range(0, len(runner.plan.parts), _PARTS_PER_TASK)
        ]
        for _, result in runner.run("digits", tasks):
            for spec, pairs in result["digits"].items():
                add_digit_counts(counts[spec], {prefix: dict(digits) for prefix, digits in pairs})
            for spec, part_bins in result["bins"].items():
                bins[spec] = add_counts(bins[spec], part_bins)
        return counts

    percentiles = compute_percentiles(sizes, SHARES, count_pass)
    return {
        spec: {
            "n": sizes[spec],
            "percentiles": dict(zip((f"{share:g}" for share in SHARES), values, strict=True)),
            "edges": edges.get(spec, []),
            "counts": bins.get(spec, []),
        }
        for spec, values in percentiles.items()
    }


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
    """Return the metrics' correlations with people, as far as they apply to captions like the first part's."""
    if "captions" not in record:  # of an earlier version, which measured none
        return MetricReliability()
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
    computed = {metric.spec: metric for metric in metrics if metric.spec in corpus}
    styles = {spec: metric_style(metric) for spec, metric in computed.items()}
    reliability = MetricReliability()
    if evidence is not None:
        reliability = _find_reliability(metrics, record, evidence)
    rows: list[Row] = []
    for spec, style in sorted(styles.items(), key=lambda pair: pair[1].order):
        percentiles = record["distributions"][spec]["percentiles"]
        values = [corpus[spec], *(percentiles[share] for share in _TABLE_SHARES)]
        cells: list[AnyCell] = [
            number_cell(math.nan if v is None else v, style.scale, style.decimals) for v in values
        ]
        if evidence is not None:
            cells.append(reliability.cell(spec))
        rows.append(Row(style.label, cells))
    notes: list[str] = [
        f"{count_of(record['rows'], 'caption')}. {scale_note(list(styles.values()))}. P5, P50, P95: percentiles of their "
        f"scores.",
        *(note for note in dict.fromkeys(style.note for style in styles.values()) if note),
        *(
            TableNote(
                f"{styles[spec].label}: undefined for {count_of(count, 'caption')}.",
                (styles[spec].label,),
            )
            for spec, count in record["undefined"].items()
            if count
        ),
    ]
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
    columns = ["score", *(f"P{share}" for share in _TABLE_SHARES)]
    if evidence is not None and options.trust is not None:
        columns.append("agreement with people")
        labels = {spec: style.label for spec, style in styles.items()}
        notes += reliability_notes(options.trust, reliability, labels)
    table = ResultTable("Corpus scores", "metric", columns, rows, notes=notes)
    missing = {
        metric: Unavailability(**unavailable[metric.spec])
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
    return make_frame(rows, ["metric", "percentile", "value"])


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
    return make_frame(rows, ["metric", "low", "high", "count"])
