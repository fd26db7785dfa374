"""Captioning systems compared by people's preferences: Bradley–Terry strengths with intervals and tests.

`captau rank` calls `rank_by_preferences`, and prints it with `preference_tables`; `statistics.bradley_terry` has the
models, `system_battles` the counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from ...runs.frames import make_frame
from ...runs.results import ORDER_COLUMNS
from ...statistics.bootstrap import (
    Interval,
    StatisticsOptions,
    jackknife,
    resample,
    resampling_interval,
    two_sided_p_value,
)
from ...statistics.bradley_terry import (
    ORDER_MEASURES,
    Strengths,
    compare_orders,
    draw_systems,
    fit_strengths,
)
from ...statistics.significance import MetricDifference, PairedTest
from ...statistics.weighted_pairs import Floats, Statistic
from ..evaluation_set import EvaluationSet
from ..wording import join_notes
from . import system_ranking
from .system_battles import Battles, BattleSet, unbounded_reason


@dataclass(frozen=True)
class PreferenceRanking(system_ranking.SystemRanking):
    """People's comparison of systems two at a time.

    Attributes:
        battles: the comparisons.
        fits: the strengths, by dimension.
        wins: columns `WIN_COLUMNS`.
        elo: columns `ELO_COLUMNS`.
        orders: columns `ORDER_COLUMNS`: each metric's and floor's means per system against people's order.
        means: of metrics and floors, by name and system, more is better.
    """

    battles: BattleSet
    fits: Mapping[str, Strengths]
    wins: pd.DataFrame
    elo: pd.DataFrame
    orders: pd.DataFrame
    means: Mapping[str, pd.Series]


@dataclass(frozen=True)
class _Resampled:
    """Values with their replicates.

    Attributes:
        values: shape (n_values,).
        replicates: shape (n_values, n_replicates); without columns where nothing is resampled.
        left_out: the jackknife's values, for BCa alone.
        n_images: the number of images that a replicate draws.
    """

    values: Floats
    replicates: Floats
    left_out: Floats | None
    n_images: int

    @classmethod
    def draw(
        cls,
        statistic: Statistic,
        n_images: int,
        options: StatisticsOptions,
        advance: Callable[[], None] | None,
    ) -> _Resampled:
        """Compute the values and, where the options resample, their replicates over images."""
        values = statistic(np.ones((n_images, 1)))[:, 0]
        if not options.uses_resampling or n_images < 2:
            return cls(values, np.empty((len(values), 0)), None, n_images)

        (replicates,) = resample(
            [statistic], n_images, options.replicates, options.seed, advance=advance
        )
        left_out = jackknife(statistic, n_images) if options.interval == "bca" else None

        return cls(values, replicates, left_out, n_images)

    def split(self, sizes: Sequence[int]) -> list[_Resampled]:
        """Cut the values into parts of the given sizes, in order."""
        parts: list[_Resampled] = []
        for stop, size in zip(np.cumsum(sizes).tolist(), sizes, strict=True):
            rows = slice(stop - size, stop)
            left_out = None if self.left_out is None else self.left_out[rows]
            part = _Resampled(
                values=self.values[rows],
                replicates=self.replicates[rows],
                left_out=left_out,
                n_images=self.n_images,
            )
            parts.append(part)

        return parts

    def interval(self, row: int, options: StatisticsOptions) -> Interval:
        """Return the interval of a value; an end is infinite where a tail of the replicates is."""
        if not self.replicates.size:
            return Interval()
        value = float(self.values[row])
        replicates = self.replicates[row]
        # Infinite values have no mean, on which BCa's acceleration rests.
        left_out = None if self.left_out is None else self.left_out[row]
        if left_out is not None:
            left_out = np.where(np.isfinite(left_out), left_out, np.nan)

        # Quantiles lie between two replicates: a number that is greater than all others stands for infinity.
        largest = 2 * np.abs(np.append(replicates[np.isfinite(replicates)], 1.0)).max()
        bounded = np.clip(replicates, -largest, largest)
        interval = resampling_interval(
            np.clip(value, -largest, largest), bounded, self.n_images, options, left_out
        )

        limit = largest / 2
        low = -np.inf if interval.low < -limit else interval.low
        high = np.inf if interval.high > limit else interval.high

        return replace(interval, low=low, high=high)


def rank_by_preferences(
    selection: EvaluationSet,
    scores: Mapping[str, pd.Series],
    statistics: StatisticsOptions,
    tie_model: str,
    advance: Callable[[], None] | None = None,
) -> PreferenceRanking:
    """Compare systems by people's preferences, and the orders that metrics make with people's.

    People's ties count, whatever `protocol.ties` says of metrics; grades do not.

    Args:
        selection: the items, each with a system.
        scores: by metric and item id, more is better.
        statistics: how intervals and tests are made; without resampling there are neither.
        tie_model: one of `bradley_terry.TIE_MODELS`.
        advance: called after each block of replicates.

    Raises:
        InputError: where an item has no system, no comparison is of two systems, or systems never meet.
    """
    system_ranking.check_systems(selection)
    battles = BattleSet.make(selection)
    systems = battles.systems
    dataset = selection.name
    ones = np.ones((battles.n_images, 1))
    fits: list[Strengths] = []
    wins: list[pd.DataFrame] = []
    elo: list[pd.DataFrame] = []
    for of_dimension in battles.by_dimension:
        fits.append(fit_strengths(*of_dimension.count(ones), tie_model))
        wins.append(of_dimension.win_rows(dataset))
        elo.append(of_dimension.elo_rows(dataset, statistics.seed))
    means = battles.means(selection.items, scores)

    # All are one statistic, so that each replicate draws its images once for all of them.
    statistic = _join_statistics(battles, fits, means, tie_model)
    sample = _Resampled.draw(statistic, battles.n_images, statistics, advance)
    strengths, differences, means_by_metric = _split_sample(sample, battles, list(means))
    system_rows, tests = _compare_all(
        dataset,
        battles,
        fits,
        strengths=strengths,
        differences=differences,
        statistics=statistics,
    )

    return PreferenceRanking(
        systems=system_rows.astype({"rank": "Int64"}),
        tests=tests,
        n_images=battles.n_images,
        battles=battles,
        fits=dict(zip(strengths, fits, strict=True)),
        wins=_join(wins),
        elo=_join(elo),
        orders=_order_rows(dataset, strengths, means_by_metric, statistics),
        means={m: pd.Series(part.values, list(systems)) for m, part in means_by_metric.items()},
    )


def _split_sample(
    sample: _Resampled, battles: BattleSet, metrics: Sequence[str]
) -> tuple[dict[str, _Resampled], dict[str, _Resampled], dict[str, _Resampled]]:
    """Return systems' strengths and their differences by dimension, and systems' means by metric; see `_join_statistics`."""
    dimensions = [b.dimension for b in battles.by_dimension]
    n_systems = len(battles.systems)
    n_pairs = n_systems * (n_systems - 1) // 2
    parts = sample.split([n_systems, n_pairs] * len(dimensions) + [n_systems] * len(metrics))

    n_values = 2 * len(dimensions)
    strengths = dict(zip(dimensions, parts[:n_values:2], strict=True))
    differences = dict(zip(dimensions, parts[1:n_values:2], strict=True))
    means = dict(zip(metrics, parts[n_values:], strict=True))
    return strengths, differences, means


def _compare_all(
    dataset: str,
    battles: BattleSet,
    fits: Sequence[Strengths],
    strengths: Mapping[str, _Resampled],
    differences: Mapping[str, _Resampled],
    statistics: StatisticsOptions,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows of `systems.csv` and of `system_tests.csv`, a dimension after the other; see `_compare`."""
    system_rows: list[pd.DataFrame] = []
    tests: list[pd.DataFrame] = []
    for of_dimension, fit in zip(battles.by_dimension, fits, strict=True):
        rows, dimension_tests = _compare(
            dataset,
            of_dimension,
            fit,
            strengths=strengths[of_dimension.dimension],
            differences=differences[of_dimension.dimension],
            statistics=statistics,
        )
        system_rows.append(rows)
        tests.append(dimension_tests)

    return _join(system_rows), _join(tests)


def _join_statistics(
    battles: BattleSet,
    fits: Sequence[Strengths],
    means: Mapping[str, Statistic],
    tie_model: str,
) -> Statistic:
    """Return systems' strengths and their differences by dimension, then systems' means by metric, as one statistic."""
    first, second = np.triu_indices(len(battles.systems), 1)

    def statistic(weights: Floats) -> Floats:
        values: list[Floats] = []
        for b, fit in zip(battles.by_dimension, fits, strict=True):
            strengths = fit_strengths(*b.count(weights), tie_model, fit)
            values.append(strengths.values)
            values.append(strengths.differences[first, second])
        for mean in means.values():
            values.append(mean(weights))

        return np.concatenate(values)

    return statistic


def _join(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(tables, ignore_index=True)


def _compare(
    dataset: str,
    battles: Battles,
    fit: Strengths,
    strengths: _Resampled,
    differences: _Resampled,
    statistics: StatisticsOptions,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows of `systems.csv`, the best system first, and of `system_tests.csv`, of one dimension."""
    systems = battles.systems
    tested = _test_differences(battles, differences, statistics)
    tests = system_ranking.make_tests(dataset, [battles.dimension], tested, statistics.correction)

    # A system is the better, the more systems it is above without bound; infinite leads count as a million.
    leads = np.clip(np.nan_to_num(fit.differences[:, :, 0], nan=0.0), -1e6, 1e6).sum(axis=1)
    order = dict(zip(systems, leads.tolist(), strict=True))
    is_finite = bool(np.isfinite(strengths.values).all())
    reason = "" if is_finite else unbounded_reason(battles)
    ranks: dict[str, int] = {}
    if is_finite or len(tests):
        ranks = system_ranking.rank_values(order, tests, statistics)

    rows: list[dict[str, Any]] = []
    for i in np.argsort(-leads, kind="stable"):
        interval = strengths.interval(int(i), statistics)
        unranked = system_ranking.UNTESTED if len(tests) and systems[i] not in ranks else ""
        row = {
            "dataset": dataset,
            "dimension": battles.dimension,
            "system": systems[i],
            "value": strengths.values[i],
            "ci_low": interval.low,
            "ci_high": interval.high,
            "rank": ranks.get(systems[i]),
            "n_items": int(battles.n_items[i]),
            "n_judgements": int(battles.n_judgements[i]),
            "note": join_notes(reason or interval.note, unranked),
        }
        rows.append(row)

    return make_frame(rows, system_ranking.SYSTEM_COLUMNS), tests


def _test_differences(
    battles: Battles, differences: _Resampled, statistics: StatisticsOptions
) -> list[MetricDifference]:
    """Return the difference of every two systems' strengths, with its test; none where nothing is resampled."""
    tested: list[MetricDifference] = []
    if not differences.replicates.size:
        return tested

    for row, (a, b) in enumerate(combinations(battles.systems, 2)):
        test = PairedTest(
            two_sided_p_value(differences.replicates[row], battles.n_images, statistics),
            differences.interval(row, statistics),
        )
        difference = MetricDifference(
            dimension="",
            # `make_tests` groups by coefficient.
            coefficient=battles.dimension,
            metric_a=a,
            metric_b=b,
            test="bootstrap",
            value_a=float(differences.values[row]),
            value_b=0.0,
            result=test,
            n_points=len(battles.signs),
            n_images=battles.n_images,
        )
        tested.append(difference)

    return tested


def _order_rows(
    dataset: str,
    by_people: Mapping[str, _Resampled],
    by_metric: Mapping[str, _Resampled],
    statistics: StatisticsOptions,
) -> pd.DataFrame:
    """Return how far each metric's means per system are in people's order; intervals over systems and images.

    Intervals are percentile ones whatever `statistics.interval` is: the others are of resampled images alone, and here
    systems are resampled as well.
    """
    percentile = replace(statistics, interval="percentile")
    rows: list[dict[str, Any]] = []
    for dimension, people in by_people.items():
        n_systems, n_replicates = people.replicates.shape
        drawn = draw_systems(n_systems, n_replicates, statistics.seed)
        ones = np.ones((n_systems, 1))

        for metric, sample in by_metric.items():
            values = compare_orders(people.values[:, None], sample.values[:, None], ones)
            replicates = compare_orders(people.replicates, sample.replicates, drawn)

            for measure in ORDER_MEASURES:
                value = float(values[measure][0])
                interval = Interval()
                if n_replicates:
                    interval = resampling_interval(
                        value, replicates[measure], people.n_images, percentile
                    )
                row = {
                    "dataset": dataset,
                    "dimension": dimension,
                    "metric": metric,
                    "coefficient": measure,
                    "value": value,
                    "ci_low": interval.low,
                    "ci_high": interval.high,
                    "n_systems": n_systems,
                }
                rows.append(row)

    return make_frame(rows, ORDER_COLUMNS)
