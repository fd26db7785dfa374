"""Corpus scores, percentiles and histograms of a large set, of what the tasks of its parts return."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...metrics.base import Metric
from .exact import DigitCounts, add_digit_counts, add_sums, compute_percentiles, sum_to_float
from .part_scores import add_counts
from .stage_runner import StageRunner

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
