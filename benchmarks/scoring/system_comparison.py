"""Comparison of systems on the same images: intervals of corpus scores, and differences with tests.

Images are drawn, as in `bootstrap`; `Metric.corpus_resampler` gives a metric's score of the drawn ones, and every
system meets the same draws. `captau score` and challenge sites call `compare_systems`, and `captau rank`
`compare_on_images`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from ...metrics.base import CorpusResampler
from ..statistics.bootstrap import Interval, StatisticsOptions, resample, statistic_intervals
from ..statistics.multiple_tests import fill_corrected_p_values
from ..statistics.panels import Panel
from ..statistics.remarks import Note, Undefined, remark
from ..statistics.significance import MetricDifference, PreparedMetric, compare_metrics
from ..statistics.weighted_pairs import Floats, Ints, Mask, Statistic
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
    """Systems' captions of the same images, in the same order; the systems stand in a panel's metrics' place.

    Attributes:
        specs: the metrics, or names of other statistics.
        corpus: each system's statistics by the images' weights, in the same order.
    """

    specs: tuple[str, ...]
    corpus: Mapping[str, Statistic]

    @classmethod
    def from_resamplers(
        cls,
        resamplers: Mapping[str, Mapping[str, CorpusResampler]],
        specs: tuple[str, ...],
        n_images: int,
    ) -> SystemPanel:
        """Make a panel of each system's corpus resamplers by metric."""
        corpus = {s: _stack([by_metric[m] for m in specs]) for s, by_metric in resamplers.items()}
        return cls.from_statistics(corpus, specs, n_images)

    @classmethod
    def from_statistics(
        cls, corpus: Mapping[str, Statistic], specs: tuple[str, ...], n_images: int
    ) -> SystemPanel:
        """Make a panel of each system's statistics."""
        index = np.arange(n_images)
        return cls(
            image=index,
            n_images=n_images,
            item=index,
            system=None,
            drops_undefined=False,
            specs=specs,
            corpus=corpus,
        )

    @property
    def metrics(self) -> tuple[str, ...]:
        return tuple(self.corpus)

    @property
    def keys(self) -> list[tuple[str, str]]:
        return [("", spec) for spec in self.specs]

    @property
    def undefined_value(self) -> Undefined:
        return Undefined.UNDEFINED_SYSTEM_SCORE

    def find_coefficient(self, name: str) -> None:
        return None

    def defined_points(self, metric: str) -> Mask:
        return np.ones(self.n_images, dtype=bool)

    def prepare(self, metrics: Sequence[str], mask: Mask, units: Sequence[Ints]) -> Statistic:
        return self.corpus[metrics[0]]

    def standardise(self, a: str, b: str, mask: Mask) -> SystemPanel:
        return self


def _stack(resamplers: Sequence[CorpusResampler]) -> Statistic:
    return lambda weights: np.stack([resampler(weights) for resampler in resamplers])


def compare_systems(
    systems: Sequence[SystemScores],
    options: StatisticsOptions,
    advance: Callable[[], None] | None = None,
) -> tuple[list[SystemScores], list[MetricDifference]]:
    """Return systems with their intervals, and the differences of every two.

    A metric that is undefined for one of them, or of a program that would have to run for every draw,
    has neither.

    Args:
        systems: scored on the same images.
        options: the kind of intervals; they must resample.
        advance: called after each block of replicates.
    """
    specs = [spec for spec in systems[0].corpus if all(spec in s.resamplers for s in systems)]
    n_images = len(systems[0].items)
    if n_images < 2 or not specs:
        none = Interval(remarks=(remark(Note.TOO_FEW_IMAGES, n_images=n_images),))
        return [replace(system, intervals=dict.fromkeys(specs, none)) for system in systems], []
    resamplers = {system.system: system.resamplers for system in systems}
    panel = SystemPanel.from_resamplers(resamplers, tuple(specs), n_images)
    comparison = compare_on_images(panel, options, advance)
    measured = [
        replace(
            system,
            intervals=comparison.intervals[system.system],
            replicates=comparison.replicates[system.system],
        )
        for system in systems
    ]
    return measured, comparison.differences


@dataclass(frozen=True)
class SystemComparison:
    """Systems on the same resampled images.

    Attributes:
        intervals: by system and statistic.
        replicates: by system and statistic, shape (replicates,).
        differences: of every two systems; each names a statistic as its coefficient.
    """

    intervals: Mapping[str, Mapping[str, Interval]]
    replicates: Mapping[str, Mapping[str, Floats]]
    differences: list[MetricDifference]


def compare_on_images(
    panel: SystemPanel,
    options: StatisticsOptions,
    advance: Callable[[], None] | None = None,
) -> SystemComparison:
    """Compare systems by statistics of the same images.

    Args:
        panel: the systems and their statistics, of two images at least.
        options: the kind of intervals; they must resample.
        advance: called after each block of replicates.
    """
    names, n_images = panel.specs, panel.n_images
    all_points = np.ones(n_images, dtype=bool)
    prepared = {name: PreparedMetric.prepare(panel, name, all_points) for name in panel.metrics}
    samples = resample(
        [metric.statistic for metric in prepared.values()],
        *(n_images, options.replicates, options.seed),
        advance=advance,
    )
    replicates: dict[str, Floats] = dict(zip(prepared, samples, strict=True))
    intervals: dict[str, dict[str, Interval]] = {}
    for system, metric in prepared.items():
        values = metric.values, replicates[system]
        of_system = statistic_intervals(metric.statistic, *values, n_images, options)
        intervals[system] = dict(zip(names, of_system, strict=True))
    return SystemComparison(
        intervals,
        {s: dict(zip(names, values, strict=True)) for s, values in replicates.items()},
        compare_metrics(panel, panel.metrics, prepared, replicates, options),
    )


def make_difference_table(
    differences: Mapping[str, Sequence[MetricDifference]], options: StatisticsOptions
) -> pd.DataFrame:
    """Make the table of systems' differences by set of references, columns `COLUMNS`.

    p-values are corrected within a set and a metric.
    """
    rows = [
        {
            "references": references,
            "metric": difference.coefficient,
            "system_a": difference.metric_a,
            "system_b": difference.metric_b,
            "score_a": difference.value_a,
            "score_b": difference.value_b,
            "difference": difference.value_a - difference.value_b,
            "ci_low": difference.result.interval.low,
            "ci_high": difference.result.interval.high,
            "p_value": difference.result.p_value,
            "n_images": difference.n_images,
            "replicates": options.replicates,
            "note": difference.result.note,
        }
        for references, pairs in differences.items()
        for difference in pairs
    ]
    table = pd.DataFrame(rows, columns=pd.Index(COLUMNS))
    return fill_corrected_p_values(table, ("references", "metric"))
