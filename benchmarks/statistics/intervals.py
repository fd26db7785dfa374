"""Intervals of all coefficients of a dataset, the differences of its metrics, corrected p-values, and rank clusters.

`evaluation.measured_dataset` calls `measure_uncertainty` with the dataset's panels, or takes intervals by formula from
`fisher_intervals` and `wilson_intervals`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from .bootstrap import Interval, StatisticsOptions, fisher_interval, resample, statistic_intervals
from .coefficients.coefficient import Coefficient, find_coefficient
from .levels import prepare_at_level
from .panels import Panel, RatingPanel
from .preferences import MEAN_DIMENSION, mean_interval, wilson_interval
from .remarks import Note, remark
from .significance import MetricDifference, PreparedMetric, compare_metrics
from .weighted_pairs import Floats, Ints, Statistic


def correct_p_values(p_values: ArrayLike, correction: str) -> Floats:
    """Correct p-values for their number; NaN stays NaN and does not count.

    Args:
        p_values: shape (n,).
        correction: `holm`, of the chance of any false finding (Holm 1979); `bh`, of the share of false ones among the
            findings (Benjamini and Hochberg 1995); `by`, of that share however the tests depend on each other
            (Benjamini and Yekutieli 2001); or `none`.
    """
    corrected = np.array(p_values, dtype=np.float64)
    defined = np.flatnonzero(~np.isnan(corrected))
    order = defined[np.argsort(corrected[defined], kind="stable")]

    # A corrected p is never below that of a smaller p (Holm) or above that of a larger one (Benjamini and Hochberg).
    if correction in ("bh", "by"):
        places = np.arange(1, len(order) + 1)
        stepped = corrected[order] * (len(order) / places)
        if correction == "by":
            stepped *= (1 / places).sum()
        corrected[order] = np.minimum(1, np.minimum.accumulate(stepped[::-1])[::-1])
    elif correction == "holm":
        stepped = corrected[order] * np.arange(len(order), 0, -1)
        corrected[order] = np.minimum(1, np.maximum.accumulate(stepped))

    return corrected


def p_value_column(correction: str) -> str:
    """Return the column of a table of differences with the p-values by a correction of `StatisticsOptions`."""
    return "p_value" if correction == "none" else f"p_{correction}"


def fill_corrected_p_values(table: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return a table of differences whose columns `p_holm` and `p_bh` are filled in.

    Args:
        table: column `p_value`.
        by: the columns within whose values p-values are corrected.
    """
    for _, index in table.groupby(list(by), sort=False).groups.items():
        for correction in ("holm", "bh"):
            p_values = correct_p_values(table.loc[index, "p_value"], correction)
            table.loc[index, p_value_column(correction)] = p_values
    return table


def rank_clusters(
    values: Mapping[str, float], p_values: Mapping[frozenset[str], float], alpha: float
) -> dict[str, int]:
    """Return the rank clusters that WMT prints (mt-metrics-eval's definition), of metrics tested against one another.

    From the best metric down, a metric that is significantly worse than one of the present rank begins a
    new rank. Metrics that share a rank were tested, and do not differ significantly.

    Args:
        values: each metric's coefficient; an undefined one has no rank.
        p_values: of every two metrics, two-sided and corrected; NaN where no test ran, see `cluster_ranks`.
        alpha: the p-value up to which a difference is significant.
    """
    defined = {metric: value for metric, value in values.items() if not np.isnan(value)}
    ordered = sorted(defined, key=lambda metric: -defined[metric])

    matrix = np.full((len(ordered), len(ordered)), np.nan)
    for (i, a), (j, b) in combinations(enumerate(ordered), 2):
        matrix[i, j] = p_values[frozenset((a, b))]

    ranks: dict[str, int] = {}
    for metric, rank in zip(ordered, cluster_ranks(matrix, alpha), strict=True):
        # A metric that no test compared with every other one has none.
        if rank is not None:
            ranks[metric] = rank
    return ranks


def cluster_ranks(p_values: Floats, alpha: float) -> list[int | None]:
    """Return the ranks of `rank_clusters` for metrics or systems from the best down.

    Whatever has a rank was tested against all others with a rank: the one with the most untested differences, of
    several the worst, is left out in turn until none is untested.

    Args:
        p_values: of every two, shape (n, n), above the diagonal; NaN where no test ran.
        alpha: the p-value up to which a difference is significant.
    """
    is_untested = np.triu(np.isnan(p_values), 1)
    is_untested |= is_untested.T
    n_untested = is_untested.sum(axis=1)

    is_tested = np.ones(len(p_values), dtype=bool)
    while n_untested.any():
        # Of several the worst, which stands last: the order is from the best down.
        left_out = len(p_values) - 1 - int(np.argmax(n_untested[::-1]))
        is_tested[left_out] = False
        n_untested = np.where(is_tested, n_untested - is_untested[left_out], 0)

    ranks: list[int | None] = [None] * len(p_values)
    if is_tested.sum() == 1 < len(p_values):
        return ranks

    rank = 0
    first_of_rank = 0
    for i in np.flatnonzero(is_tested):
        better = np.flatnonzero(is_tested[first_of_rank:i]) + first_of_rank
        if not rank or (p_values[better, i] <= alpha).any():
            rank += 1
            first_of_rank = i
        ranks[i] = rank

    return ranks


#: A coefficient by its metric, dimension and name.
RowKey = tuple[str, str, str]


@dataclass(frozen=True)
class ExtraRow:
    """A row that is no metric's score on a panel's points, such as a ceiling.

    Attributes:
        key: its row.
        points: scores, ratings and items of each draw; its value is the mean over the draws.
    """

    key: RowKey
    points: Sequence[tuple[Floats, Floats, Ints]]

    def statistic(self, image_of_item: Ints) -> Statistic:
        """Return the mean over draws as a function of the weights of the items' images."""
        coefficient = self.key[2]
        draws: list[Statistic] = []
        for scores, ratings, item in self.points:
            draw = prepare_at_level(
                "pooled",
                scores,
                ratings,
                keys=pd.DataFrame(),  # `pooled` has no groups
                coefficients=[coefficient],
                unit=image_of_item[item],
            )
            draws.append(draw)

        return lambda weights: np.mean([draw(weights) for draw in draws], axis=0)


@dataclass(frozen=True)
class Uncertainty:
    """Intervals and differences of the metrics of a dataset.

    Attributes:
        options: the options that they were computed with.
        intervals: of every row, by its key.
        differences: of every two metrics.
        values: the metrics' coefficients of the sample itself, by row; without those that a gap makes undefined, and empty
            where nothing was resampled.
    """

    options: StatisticsOptions
    intervals: Mapping[RowKey, Interval]
    differences: Sequence[MetricDifference]
    values: Mapping[RowKey, float] = field(default_factory=dict[RowKey, float])

    def compute_ranks(self, values: Mapping[RowKey, float]) -> dict[RowKey, int]:
        """Compute rank clusters by `options.correction` at level 1 - `options.level`.

        Args:
            values: the coefficients of the metrics that compete.
        """
        differences_by_key: dict[tuple[str, str], list[MetricDifference]] = {}
        for difference in self.differences:
            # Ranks rest on a coefficient's first test, whichever others were asked for.
            if difference.test == find_coefficient(difference.coefficient).tests[0]:
                key = (difference.dimension, difference.coefficient)
                differences_by_key.setdefault(key, []).append(difference)

        ranks: dict[RowKey, int] = {}
        for (dimension, coefficient), differences in differences_by_key.items():
            uncorrected = [difference.result.p_value for difference in differences]
            corrected = correct_p_values(uncorrected, self.options.correction)
            p_values: dict[frozenset[str], float] = {}
            for difference, p_value in zip(differences, corrected, strict=True):
                p_values[frozenset((difference.metric_a, difference.metric_b))] = float(p_value)

            competing: dict[str, float] = {}
            for (metric, *row_key), value in values.items():
                if row_key == [dimension, coefficient]:
                    competing[metric] = value

            clusters = rank_clusters(competing, p_values, 1 - self.options.level)
            for metric, rank in clusters.items():
                ranks[metric, dimension, coefficient] = rank

        return ranks


def measure_uncertainty(
    panels: Sequence[Panel],
    metrics: Sequence[str],
    options: StatisticsOptions,
    tests: Sequence[str] = ("bootstrap",),
    *,
    extras: Mapping[str, Sequence[ExtraRow]] | None = None,
    advance: Callable[[], None] | None = None,
) -> Uncertainty:
    """Compute the intervals of all rows of panels, and compare every two metrics.

    Args:
        panels: the data points of each dimension, and the preferences.
        metrics: the metrics that compete for ranks, in those panels that have them.
        options: the kind of intervals; they must resample.
        tests: the tests of differences.
        extras: further rows that need an interval, by the dimension on whose images they rest.
        advance: called after each block of replicates and each pair of metrics.
    """
    intervals: dict[RowKey, Interval] = {}
    differences: list[MetricDifference] = []
    values: dict[RowKey, float] = {}
    for panel in panels:
        # All coefficients at once: they share the work, and are of the same replicates.
        whole = panel.with_unranked()
        prepared = _prepare_metrics(whole)
        values |= _values_by_row(whole, prepared)
        statistics = _statistics_of(whole, prepared, extras or {})
        if panel.n_images < 2:
            note = Interval(remarks=(remark(Note.TOO_FEW_IMAGES, n_images=panel.n_images),))
            for _, keys in statistics.values():
                intervals |= dict.fromkeys(keys, note)
            continue

        # All metrics at once, so that differences are of the same replicates.
        resampled = [statistic for statistic, _ in statistics.values()]
        samples = resample(
            resampled,
            n_units=panel.n_images,
            replicates=options.replicates,
            seed=options.seed,
            advance=advance,
        )
        replicates = dict(zip(statistics, samples, strict=True))

        intervals |= _find_intervals(whole, statistics, prepared, replicates, options)

        competing = [metric for metric in metrics if metric in panel.metrics]
        n_ranked = len(panel.keys)
        differences += compare_metrics(
            panel,
            competing,
            prepared={name: metric.with_first(n_ranked) for name, metric in prepared.items()},
            replicates={name: values[:n_ranked] for name, values in replicates.items()},
            options=options,
            tests=tests,
            advance=advance,
        )

    return Uncertainty(options, intervals, differences, values)


def _prepare_metrics(panel: Panel) -> dict[str, PreparedMetric]:
    """Prepare the metrics of a panel, each on its points; one that a gap makes undefined is absent."""
    prepared: dict[str, PreparedMetric] = {}
    for metric in panel.metrics:
        points = panel.comparable_points(metric)
        if points is not None:
            prepared[metric] = PreparedMetric.prepare(panel, metric, points)

    return prepared


def _values_by_row(panel: Panel, prepared: Mapping[str, PreparedMetric]) -> dict[RowKey, float]:
    """Return the coefficients of the prepared metrics of a panel."""
    values: dict[RowKey, float] = {}
    for name, metric in prepared.items():
        for key, value in zip(panel.keys, metric.values.tolist(), strict=True):
            values[name, *key] = value

    return values


def _find_intervals(
    panel: Panel,
    statistics: Mapping[str, tuple[Statistic, list[RowKey]]],
    prepared: Mapping[str, PreparedMetric],
    replicates: Mapping[str, Floats],
    options: StatisticsOptions,
) -> dict[RowKey, Interval]:
    """Return the interval of each row of a panel.

    Args:
        panel: the data points.
        statistics: as `_statistics_of` returns them.
        prepared: the metrics; their values are known, those of the other statistics are computed here.
        replicates: of each, shape (n_values, n_replicates).
        options: the kind of intervals.
    """
    intervals: dict[RowKey, Interval] = {}
    for name, (statistic, keys) in statistics.items():
        coefficients: list[Coefficient] = []
        min_units: list[int] = []
        for _, _, coefficient_name in keys:
            coefficient = find_coefficient(coefficient_name)
            coefficients.append(coefficient)
            min_units.append(coefficient.min_images)
        if name in prepared:
            values = prepared[name].values
        else:
            values = statistic(np.ones((panel.n_images, 1)))[:, 0]
        row_intervals = statistic_intervals(
            statistic,
            values=values,
            replicates=replicates[name],
            n_units=panel.n_images,
            options=options,
            min_units=min_units,
        )
        # A coefficient without a bootstrap has no value in samples with repeated images.
        for key, coefficient, interval in zip(keys, coefficients, row_intervals, strict=True):
            if "bootstrap" in coefficient.tests:
                intervals[key] = interval

    return intervals


def _statistics_of(
    panel: Panel,
    prepared: Mapping[str, PreparedMetric],
    extras: Mapping[str, Sequence[ExtraRow]],
) -> dict[str, tuple[Statistic, list[RowKey]]]:
    """Return what is resampled on a panel's images, each with the rows that it gives."""
    statistics: dict[str, tuple[Statistic, list[RowKey]]] = {}
    for name, metric in prepared.items():
        keys = [(name, dimension, coefficient) for dimension, coefficient in panel.keys]
        statistics[name] = (metric.statistic, keys)

    if isinstance(panel, RatingPanel):
        for extra in extras.get(panel.dimension, ()):
            # Several coefficients of one extra row: its name alone is not enough.
            name = " ".join(extra.key)
            statistics[name] = (extra.statistic(panel.image_of_item), [extra.key])

    return statistics


def fisher_intervals(rows: Iterable[Mapping[str, Any]], level: float) -> dict[RowKey, Interval]:
    """Return Fisher's interval of every Pearson's r; the other coefficients of ratings have none, accuracies Wilson's.

    Args:
        rows: `metric, dimension, coefficient, value, n_ratings`.
        level: of the intervals.
    """
    intervals: dict[RowKey, Interval] = {}
    for row in rows:
        key = (row["metric"], row["dimension"], row["coefficient"])
        formula = find_coefficient(row["coefficient"]).formula
        if formula == "fisher":
            intervals[key] = fisher_interval(float(row["value"]), int(row["n_ratings"]), level)
        elif formula is None:
            note = remark(Note.NO_FISHER, coefficient=row["coefficient"])
            intervals[key] = Interval(remarks=(note,))

    return intervals


def wilson_intervals(rows: Iterable[Mapping[str, Any]], level: float) -> dict[RowKey, Interval]:
    """Return Wilson's interval of every accuracy, and of a metric's mean of dimensions that of their mean.

    Args:
        rows: `metric, dimension, coefficient, value, n_ratings`; a metric's last row is its mean.
        level: of the intervals.
    """
    intervals: dict[RowKey, Interval] = {}
    accuracies: dict[tuple[str, str], list[float]] = {}
    ends: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in rows:
        has_formula = find_coefficient(row["coefficient"]).formula == "wilson"
        if not has_formula or math.isnan(row["value"]):
            continue

        # The row of the mean stands below those of its dimensions.
        of_dimensions = (row["metric"], row["coefficient"])
        if row["dimension"] == MEAN_DIMENSION:
            low, high = mean_interval(
                accuracies.get(of_dimensions, []), ends.get(of_dimensions, [])
            )
        else:
            low, high = wilson_interval(row["value"], row["n_ratings"], level)
            accuracies.setdefault(of_dimensions, []).append(row["value"])
            ends.setdefault(of_dimensions, []).append((low, high))

        key = (row["metric"], row["dimension"], row["coefficient"])
        intervals[key] = Interval(low, high, remarks=(remark(Note.WILSON),))

    return intervals
