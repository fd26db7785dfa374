"""Captioning systems compared by people's ratings: means with intervals, tests, and how often each is best.

`captau rank` calls these; Kasai et al. 2022, Tables 2 and 3 are such comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ....datasets.errors import Lack, unknown
from ....datasets.schema import Card, cluster_of
from ...runs.frames import make_frame, records_of
from ...runs.tables import AnyCell, TableNote, count_cell, format_number
from ...scoring.corpus_scores import SystemPanel, compare_on_images
from ...statistics.bootstrap import (
    Interval,
    StatisticsOptions,
    number_images,
    smallest_p_value,
)
from ...statistics.intervals import correct_p_values, rank_clusters
from ...statistics.significance import MetricDifference
from ...statistics.weighted_pairs import Floats, Statistic
from ..evaluation_set import EvaluationSet
from ..pair_tests import PairTests, SmallestPValue, Standing
from ..verdicts import lead_words
from ..wording import join_notes, list_words

SYSTEM_COLUMNS = (
    "dataset",
    "dimension",
    "system",
    "value",
    "ci_low",
    "ci_high",
    "rank",
    "n_items",
    "n_judgements",
    "note",
)
SYSTEM_TEST_COLUMNS = (
    "dataset",
    "dimension",
    "system_a",
    "system_b",
    "difference",
    "ci_low",
    "ci_high",
    "p_value",
    "p_corrected",
)
BEST_WORST_COLUMNS = ("dataset", "dimensions", "system", "best", "worst")
#: The note of a system that has a value and no rank.
UNTESTED = "no rank: no test compares it with every other system"
#: The dimension that `rank.weights` adds.
WEIGHTED = "weighted"
#: The head of the column that says how far a metric's order of systems is people's.
SAME_ORDER = "same order %"


@dataclass(frozen=True)
class SystemRanking:
    """People's comparison of the systems of a dataset.

    Attributes:
        systems: columns `SYSTEM_COLUMNS`; within a dimension the best system first. Values are on the
            scale of the ratings: on a dimension of faults the least is best.
        tests: columns `SYSTEM_TEST_COLUMNS`, of every two systems; empty without resampling.
        n_images: the number of images that tests draw.
    """

    systems: pd.DataFrame
    tests: pd.DataFrame
    n_images: int


def weigh_dimensions(selection: EvaluationSet, weights: Mapping[str, float]) -> pd.DataFrame:
    """Return the weighted sum of each item's ratings: columns `item_id, value`.

    Penalties are stored as negative numbers and faults count negative, so that a positive weight subtracts them. An
    item that lacks one of the dimensions has no sum.

    Args:
        selection: the items; `protocol.ratings` says how an item's ratings become one.
        weights: by dimension.

    Raises:
        InputError: where the dataset has no such dimension.
    """
    dimensions = selection.caption_set.dimensions
    for dimension in weights:
        if dimension not in dimensions:
            raise unknown(f"dimension of dataset {selection.name}", dimension, dimensions)

    sums = pd.Series(0.0, index=selection.items["item_id"])
    for dimension, weight in weights.items():
        # An item that lacks a dimension has no sum.
        sums = sums + _mean_of_items(selection, dimension) * weight
    return pd.Series(sums, name="value").dropna().rename_axis("item_id").reset_index()


def _mean_of_items(selection: EvaluationSet, dimension: str) -> pd.Series:
    """Return each item's rating, the mean where it has several data points; by item id, in the items' order."""
    means = selection.points(dimension).groupby("item_id", sort=False)["value"].mean()
    return means.reindex(selection.items["item_id"])


def rank_systems(
    selection: EvaluationSet,
    points: Mapping[str, pd.DataFrame],
    statistics: StatisticsOptions,
    advance: Callable[[], None] | None = None,
) -> SystemRanking:
    """Compare the mean ratings of systems, with intervals and paired tests over resampled images.

    Args:
        selection: the items, each with a system.
        points: by dimension, columns `item_id, value`.
        statistics: how intervals and tests are made; without resampling there are neither, and ranks are those
            of the means.
        advance: called at each of `count_steps(replicates, n_systems)` steps.

    Raises:
        InputError: where an item has no system.
    """
    check_systems(selection)
    means = {d: _MeanRatings.from_points(selection, table) for d, table in points.items()}
    systems = list(dict.fromkeys(selection.items["system"]))
    _, n_images = number_images(cluster_of(selection.items))

    intervals: Mapping[str, Mapping[str, Interval]] = {}
    differences: Sequence[MetricDifference] = ()
    # One image resampled is always itself.
    if statistics.uses_resampling and n_images > 1:
        corpus: dict[str, Statistic] = {}
        for system in systems:
            corpus[system] = _stack([ratings.statistic(system) for ratings in means.values()])
        panel = SystemPanel.from_statistics(corpus, tuple(means), n_images)
        comparison = compare_on_images(panel, statistics, advance)
        intervals = comparison.intervals
        differences = comparison.differences

    tests = make_tests(selection.name, means, differences, statistics.correction)

    table = _make_system_rows(selection.name, means, systems, intervals, tests, statistics)
    # Last, since ranks and tests need more to be better on every dimension.
    _restore_signs(table, selection, "value")
    _restore_signs(tests, selection, "difference")

    return SystemRanking(table.astype({"rank": "Int64"}), tests, n_images)


def _make_system_rows(
    dataset: str,
    means: Mapping[str, _MeanRatings],
    systems: Sequence[str],
    intervals: Mapping[str, Mapping[str, Interval]],
    tests: pd.DataFrame,
    statistics: StatisticsOptions,
) -> pd.DataFrame:
    """Return the rows of `systems.csv`, a dimension after the other, the best system first.

    Args:
        dataset: its name.
        means: by dimension.
        systems: their names.
        intervals: by system and dimension.
        tests: columns `SYSTEM_TEST_COLUMNS`, of all dimensions.
        statistics: the level.
    """
    rows: list[dict[str, Any]] = []
    for dimension, ratings in means.items():
        values = {system: ratings.mean(system) for system in systems}
        # Systems without ratings come last.
        best_first = sorted(systems, key=lambda s: -np.nan_to_num(values[s], nan=-np.inf))
        ranks = rank_values(values, tests[tests["dimension"] == dimension], statistics)
        for system in best_first:
            interval = intervals.get(system, {}).get(dimension, Interval())
            note = "undefined: no ratings"
            if not np.isnan(values[system]):
                note = join_notes(interval.note, UNTESTED if system not in ranks else "")

            row = {
                "dataset": dataset,
                "dimension": dimension,
                "system": system,
                "value": values[system],
                "ci_low": interval.low,
                "ci_high": interval.high,
                "rank": ranks.get(system),
                **ratings.counts(system),
                "note": note,
            }
            rows.append(row)

    return make_frame(rows, SYSTEM_COLUMNS)


def _restore_signs(table: pd.DataFrame, selection: EvaluationSet, column: str) -> None:
    """Turn a column and its interval back to the stored sign where `EvaluationSet.points` turned faults."""
    is_fault = table["dimension"].isin(selection.caption_set.card.faults)
    # The ends change places with the sign; 0.0 less a zero is no -0.0.
    turned = 0.0 - table.loc[is_fault, [column, "ci_high", "ci_low"]].to_numpy(dtype=np.float64)

    table.loc[is_fault, [column, "ci_low", "ci_high"]] = turned


def leading_dimension(dimensions: Sequence[str], card: Card) -> str:
    """Return the dimension by which tables order systems.

    It is the sum that `rank.weights` asks for, else the card's total, else `overall`, else the first one.
    """
    for dimension in (WEIGHTED, *card.totals, "overall"):
        if dimension in dimensions:
            return dimension
    return dimensions[0]


def check_systems(selection: EvaluationSet) -> None:
    """Raise LackingError where an item has no system, or there is one system alone."""
    systems = selection.items["system"]
    if systems.isna().any() or systems.nunique() < 2:
        problem = "one system alone" if systems.notna().all() else "items whose system is not known"
        raise selection.lacking(
            Lack.SYSTEM,
            f"it has {problem}; captau rank compares captioning systems "
            "(dataset=file names their columns: file.system=COLUMN of ratings, file.system_a= and "
            "file.system_b= of pairs)",
        )


@dataclass(frozen=True)
class _MeanRatings:
    """The ratings of one dimension, summed by system and image.

    Attributes:
        sums, counts_by_image: by system, shape (n_images,).
        n_items: by system.
    """

    sums: Mapping[str, Floats]
    counts_by_image: Mapping[str, Floats]
    n_items: Mapping[str, int]

    @classmethod
    def from_points(cls, selection: EvaluationSet, points: pd.DataFrame) -> _MeanRatings:
        """Sum data points, columns `item_id, value`."""
        items = selection.items
        image, n_images = number_images(cluster_of(items))
        index = pd.Index(items["item_id"]).get_indexer(pd.Index(points["item_id"]))
        systems = items["system"].to_numpy()[index]
        values = points["value"].to_numpy(dtype=np.float64)

        sums: dict[str, Floats] = {}
        counts: dict[str, Floats] = {}
        n_items: dict[str, int] = {}
        for system in dict.fromkeys(items["system"]):
            is_own = systems == system
            images = image[index[is_own]]
            sums[system] = np.bincount(images, values[is_own], n_images).astype(np.float64)
            counts[system] = np.bincount(images, minlength=n_images).astype(np.float64)
            n_items[system] = len(np.unique(index[is_own]))

        return cls(sums, counts, n_items)

    def statistic(self, system: str) -> Statistic:
        """Return a system's mean as a function of the images' weights, shape (1, n)."""
        sums = self.sums[system]
        counts = self.counts_by_image[system]

        def mean(weights: Floats) -> Floats:
            # A resample without any image of a system has no mean.
            with np.errstate(invalid="ignore", divide="ignore"):
                return ((sums @ weights) / (counts @ weights))[None]

        return mean

    def mean(self, system: str) -> float:
        """Return a system's mean; NaN where it has no rating."""
        ones = np.ones((len(self.sums[system]), 1))
        return float(self.statistic(system)(ones)[0, 0])

    def counts(self, system: str) -> dict[str, int]:
        """Return how many items of a system are rated, and by how many data points."""
        n_judgements = int(self.counts_by_image[system].sum())
        return {"n_items": self.n_items[system], "n_judgements": n_judgements}


def _stack(statistics: Sequence[Statistic]) -> Statistic:
    return lambda weights: np.concatenate([statistic(weights) for statistic in statistics])


def make_tests(
    dataset: str,
    dimensions: Iterable[str],
    differences: Sequence[MetricDifference],
    correction: str,
) -> pd.DataFrame:
    """Return the differences of systems, a dimension after the other, their p-values corrected within each."""
    rows: list[dict[str, Any]] = []
    for dimension in dimensions:
        of_dimension = [d for d in differences if d.coefficient == dimension]
        # Each dimension is a question of its own.
        corrected = correct_p_values([d.result.p_value for d in of_dimension], correction)
        for difference, p_corrected in zip(of_dimension, corrected, strict=True):
            row = {
                "dataset": dataset,
                "dimension": dimension,
                "system_a": difference.metric_a,
                "system_b": difference.metric_b,
                "difference": difference.value_a - difference.value_b,
                "ci_low": difference.result.interval.low,
                "ci_high": difference.result.interval.high,
                "p_value": difference.result.p_value,
                "p_corrected": p_corrected,
            }
            rows.append(row)

    return make_frame(rows, SYSTEM_TEST_COLUMNS)


def find_system_tests(
    tests: pd.DataFrame,
    dimension: str,
    statistics: StatisticsOptions,
    n_images: int,
    *,
    higher_is_better: bool = True,
    smallest: SmallestPValue = smallest_p_value,
) -> PairTests:
    """Return what the tests of every two systems found in a dimension.

    Args:
        tests: columns `SYSTEM_TEST_COLUMNS`.
        dimension: the dimension.
        statistics, n_images, higher_is_better, smallest: as in `PairTests.of_rows`.
    """
    return PairTests.of_rows(
        tests[tests["dimension"] == dimension],
        statistics,
        n_images,
        names=("system_a", "system_b"),
        p_value="p_corrected",
        higher_is_better=higher_is_better,
        smallest=smallest,
    )


def rank_values(
    values: Mapping[str, float], tests: pd.DataFrame, statistics: StatisticsOptions
) -> dict[str, int]:
    """Return each rated system's rank; systems that share one do not differ significantly.

    Without tests the means alone decide, and equal ones share a rank.
    """
    # Without tests nothing can be said to be level, so that ranks are those of the means.
    if not len(tests):
        rated = pd.Series(values).dropna()
        ranks = rated.rank(method="min", ascending=False)
        return {str(system): int(rank) for system, rank in ranks.items()}

    p_values: dict[frozenset[str], float] = {}
    for row in records_of(tests):
        p_values[frozenset((row["system_a"], row["system_b"]))] = row["p_corrected"]

    return rank_clusters(values, p_values, 1 - statistics.level)


def count_best_worst(selection: EvaluationSet, dimensions: Sequence[str]) -> pd.DataFrame:
    """Count how often each system is the best, or the worst, of its image in every dimension; ties count.

    As Table 3 of Kasai et al. 2022.

    Args:
        selection: the items, each with a system.
        dimensions: those in which a system has to be best at once.

    Returns:
        Columns `BEST_WORST_COLUMNS`.
    """
    items = selection.items
    is_best = np.ones(len(items), dtype=bool)
    is_worst = np.ones(len(items), dtype=bool)
    for dimension in dimensions:
        values = _mean_of_items(selection, dimension).reset_index(drop=True)
        by_image = values.groupby(items["image_id"])
        is_best &= (values == by_image.transform("max")).to_numpy()
        is_worst &= (values == by_image.transform("min")).to_numpy()

    of_items = pd.DataFrame({"system": items["system"], "best": is_best, "worst": is_worst})
    counts = of_items.groupby("system", sort=False).sum().reset_index()
    counts = counts.assign(dataset=selection.name, dimensions="+".join(dimensions))

    return counts[list(BEST_WORST_COLUMNS)]


def places_of(means: pd.Series, systems: Sequence[str]) -> list[AnyCell]:
    """Return each system's place by its mean, 1 for the greatest; systems with equal means share one."""
    places = means.rank(method="min", ascending=False)
    cells: list[AnyCell] = []
    for system in systems:
        rank = places[system]
        cells.append(count_cell(None if pd.isna(rank) else int(rank)))

    return cells


def interval_note(statistics: StatisticsOptions) -> TableNote:
    """Explain the intervals and ranks of a table of systems."""
    level = f"{100 * statistics.level:g} %"
    return TableNote(
        f"low, high: {level} intervals by resampling images; systems that share a rank do not differ significantly "
        "(system_tests.csv).",
        ("low", "high", "rank"),
        brief=f"Systems of one rank do not differ significantly; low, high: {level} intervals.",
    )


def same_order_note(dimension: str, n_dimensions: int) -> TableNote:
    """Explain the column `SAME_ORDER`, of the dimension that tables show of so many."""
    remark = " (metric_orders.csv has the other dimensions)" if n_dimensions > 1 else ""
    return TableNote(
        f"{SAME_ORDER}: the share of pairs of systems that a metric's means put in people's order by "
        f"{dimension}{remark}.",
        (SAME_ORDER,),
        brief=f"{SAME_ORDER}: pairs of systems that a metric puts in people's order by {dimension}.",
    )


def system_verdict(
    systems: pd.DataFrame,
    tests: PairTests,
    dimension: str,
    head: str,
    *,
    is_of_penalties: bool = False,
) -> str:
    """Say which system people rank first in a dimension, or which share the first place, and whether a lead is significant.

    Args:
        systems: columns `SYSTEM_COLUMNS`, the best first.
        tests: of every two systems in the dimension.
        dimension: the dimension.
        head: the name of the values.
        is_of_penalties: whether tables print the values with the other sign.
    """
    rows = systems[(systems["dimension"] == dimension) & systems["value"].notna()]
    standings: list[Standing] = []
    for system, value in zip(rows["system"], rows["value"], strict=True):
        standings.append(Standing(str(system), float(value)))
    if len(standings) < 2:
        return "People's judgements put the systems in no order."

    best = standings[0]
    value = -best.value if is_of_penalties else best.value
    reached = f"{head} {format_number(value, 1, 3)}"
    leaders = [standing.label for standing in standings if standing.value == best.value]
    if len(leaders) > 1:
        return f"{list_words(leaders)} share the first place ({reached})."

    return f"People put {best.label} first ({reached}){lead_words(standings, tests)}."
