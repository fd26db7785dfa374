"""Systems beside one another: intervals of corpus scores, and which systems differ.

Images are drawn, as in `bootstrap`; a metric's score of the drawn ones comes from what its corpus score
sums (`Metric.pooled`), and every system meets the same draws.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ...metrics.base import CorpusResampler
from ..statistics.bootstrap import (
    Interval,
    StatisticsOptions,
    jackknife,
    resample,
    resampling_interval,
)
from ..statistics.significance import (
    Mask,
    MetricDifference,
    Panel,
    PreparedMetric,
    compare_metrics,
    correct_p_values,
)
from ..statistics.weighted_coefficients import Floats, Statistic
from .corpus_scores import SystemScores

COLUMNS = (
    "references",
    "metric",
    "system_a",
    "system_b",
    "score_a",
    "score_b",
    "difference",
    "ci_low",
    "ci_high",
    "p_value",
    "p_holm",
    "p_bh",
    "n_images",
    "replicates",
    "note",
)


@dataclass(frozen=True)
class SystemPanel(Panel):
    """Systems' captions of the same images, in the same order.

    Attributes:
        specs: the metrics.
        corpus: of each system, its corpus scores by the images' weights, in the metrics' order.
    """

    specs: tuple[str, ...]
    corpus: Mapping[str, Statistic]

    @classmethod
    def of(
        cls,
        pooled: Mapping[str, Mapping[str, CorpusResampler]],
        specs: tuple[str, ...],
        n_images: int,
    ) -> SystemPanel:
        """From each system's corpus scores by metric."""
        each = np.arange(n_images)
        return cls(
            image=each,
            n_images=n_images,
            item=each,
            system=None,
            drops_undefined=False,
            specs=specs,
            corpus={
                system: _stacked([of[spec] for spec in specs]) for system, of in pooled.items()
            },
        )

    @property
    def metrics(self) -> tuple[str, ...]:
        return tuple(self.corpus)

    @property
    def keys(self) -> list[tuple[str, str]]:
        return [("", spec) for spec in self.specs]

    def defined_points(self, metric: str) -> Mask:
        return np.ones(self.n_images, dtype=bool)

    def _prepared(self, values: Any, keep: Mask, unit: Any) -> Statistic:
        return self.corpus[values[0]]

    def standardise(self, a: str, b: str, keep: Mask) -> SystemPanel:
        return self


def _stacked(pooled: list[CorpusResampler]) -> Statistic:
    return lambda weights: np.stack([one(weights) for one in pooled])


def compare_systems(
    trials: Sequence[SystemScores],
    options: StatisticsOptions,
    advance: Callable[[], None] | None = None,
) -> tuple[list[SystemScores], list[MetricDifference]]:
    """Systems scored on the same images, each with its intervals, and the differences of every two.

    A metric that is undefined for one of them, or of a program that would have to run for every draw,
    has neither.
    """
    specs = [spec for spec in trials[0].corpus if all(spec in one.pooled for one in trials)]
    n_images = len(trials[0].items)
    if n_images < 2 or not specs:
        note = f"no interval: too few images ({n_images}); two are needed" if specs else ""
        return [replace(t, intervals={s: Interval(note=note) for s in specs}) for t in trials], []
    panel = SystemPanel.of({one.system: one.pooled for one in trials}, tuple(specs), n_images)
    everything = np.ones(n_images, dtype=bool)
    prepared = {
        system: PreparedMetric.prepare(panel, system, everything) for system in panel.metrics
    }
    found = resample(
        [one.statistic for one in prepared.values()],
        n_images,
        options.replicates,
        options.seed,
        advance=advance,
    )
    drawn = dict(zip(prepared, found, strict=True))
    with_intervals = [
        replace(
            one,
            intervals=_intervals(panel, prepared[one.system], drawn[one.system], options),
            drawn=dict(zip(specs, drawn[one.system], strict=True)),
        )
        for one in trials
    ]
    return with_intervals, compare_metrics(panel, panel.metrics, prepared, drawn, options)


def _intervals(
    panel: SystemPanel, one: PreparedMetric, drawn: Floats, options: StatisticsOptions
) -> dict[str, Interval]:
    """A system's, by metric."""
    left_out: Sequence[Floats | None] = [None] * len(panel.specs)
    if options.interval == "bca":
        left_out = list(jackknife(one.statistic, panel.n_images))
    return {
        spec: resampling_interval(float(value), row, options, out)
        for spec, value, row, out in zip(panel.specs, one.values, drawn, left_out, strict=True)
    }


def make_difference_table(
    found: Mapping[str, list[MetricDifference]], options: StatisticsOptions
) -> pd.DataFrame:
    """Differences of systems by set of references, columns `COLUMNS`.

    p-values are corrected within a set and a metric.
    """
    rows = pd.DataFrame(
        [
            {
                "references": references,
                "metric": d.coefficient,
                "system_a": d.metric_a,
                "system_b": d.metric_b,
                "score_a": d.value_a,
                "score_b": d.value_b,
                "difference": d.value_a - d.value_b,
                "ci_low": d.result.interval.low,
                "ci_high": d.result.interval.high,
                "p_value": d.result.p_value,
                "n_images": d.n_images,
                "replicates": options.replicates,
                "note": d.result.note.replace("a coefficient is", "a score is"),
            }
            for references, differences_ in found.items()
            for d in differences_
        ],
        columns=pd.Index(COLUMNS),
    )
    for _, index in rows.groupby(["references", "metric"], sort=False).groups.items():
        for name in ("holm", "bh"):
            rows.loc[index, f"p_{name}"] = correct_p_values(rows.loc[index, "p_value"], name)
    return rows
