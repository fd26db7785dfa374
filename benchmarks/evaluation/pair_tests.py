"""Findings of the tests of every two metrics, or systems, for the sentences that say who is ahead of whom.

A rank is no such finding: rank 2 says that a metric is worse than some metric of rank 1, and not than which. So a
sentence is made of the tests themselves, with the correction by which tables print them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

from ..runs.frames import records_of
from ..statistics.bootstrap import MAX_REPLICATES, StatisticsOptions, smallest_p_value
from ..statistics.coefficients.coefficient import find_coefficient
from ..statistics.intervals import p_value_column

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Standing:
    """The place of a metric or a system in a table that is sorted from the best to the worst.

    Attributes:
        label: its name in the table.
        value: what it is sorted by; more is better.
        rank: equal ranks are of those that do not differ significantly; None where no test ran.
        low: the lower end of the value's interval; NaN without one.
        is_own: whether it is the user's own.
        name: its name in tables of tests, where that is not the label.
        high: the upper end of the value's interval; NaN without one.
    """

    label: str
    value: float
    rank: int | None = None
    low: float = math.nan
    is_own: bool = False
    name: str = ""
    high: float = math.nan

    def is_beyond(self, chance: float) -> bool:
        """Say whether the value and its interval lie above what chance reaches; yes where that is not known."""
        # With NaN, which is what is not known, both comparisons are false.
        return not (self.value <= chance or self.low <= chance)

    def is_below(self, chance: float) -> bool:
        """Say whether the whole interval lies below what chance reaches; no where either is not known."""
        return self.high < chance

    @property
    def key(self) -> str:
        """The name by which tests are looked up."""
        return self.name or self.label


class Finding(Enum):
    """The difference of one metric, or system, from another, as far as it is known."""

    #: It is significantly better.
    AHEAD = auto()
    #: It is significantly worse.
    BEHIND = auto()
    #: The test found no difference, and could have.
    LEVEL = auto()
    #: No outcome of the test could have been significant.
    TOO_FEW = auto()
    #: No test ran.
    UNTESTED = auto()
    #: A test ran, and the ranks that are left of it do not say what it found.
    UNKNOWN = auto()


#: From a number of images, or None for any, and options to the least p-value of a test.
SmallestPValue = Callable[[int | None, StatisticsOptions], float]

_OPPOSITE = {Finding.AHEAD: Finding.BEHIND, Finding.BEHIND: Finding.AHEAD}


@dataclass(frozen=True)
class PairTests:
    """The findings of the tests of every two metrics, or systems.

    Attributes:
        findings: by the names of two, of the first less the second, both ways round; a pair that is absent was not
            tested.
        too_few: what there is too little of for any outcome to be significant, such as `too few images (5)`.
    """

    findings: Mapping[tuple[str, str], Finding] = field(
        default_factory=dict[tuple[str, str], Finding]
    )
    too_few: str = ""

    def find(self, first: str, second: str) -> Finding:
        """Return what is known of the first less the second."""
        return self.findings.get((first, second), Finding.UNTESTED)

    @classmethod
    def of_rows(
        cls,
        rows: pd.DataFrame,
        statistics: StatisticsOptions,
        n_images: int,
        *,
        names: tuple[str, str] = ("metric_a", "metric_b"),
        p_value: str | None = None,
        higher_is_better: bool = True,
        smallest: SmallestPValue = smallest_p_value,
    ) -> PairTests:
        """Return the findings of a table of differences.

        Args:
            rows: of one coefficient, or metric, and one test; `difference` is the first less the second.
            statistics: the level and the correction.
            n_images: the number of images that the test draws.
            names: the columns of the two names.
            p_value: the column of corrected p-values; None for that of the correction.
            higher_is_better: whether the better has the greater value.
            smallest: the least p-value that the test can have.
        """
        p_value = p_value or p_value_column(statistics.correction)
        alpha = 1 - statistics.level
        n_tests = int(rows[p_value].notna().sum())
        too_few = ""
        if n_tests:
            too_few = find_shortage(statistics, n_images, n_tests, smallest)

        findings: dict[tuple[str, str], Finding] = {}
        for row in records_of(rows):
            is_first_better = (row["difference"] > 0) == higher_is_better
            finding = Finding.TOO_FEW if too_few else Finding.LEVEL
            if math.isnan(row[p_value]):
                finding = Finding.UNTESTED
            elif row[p_value] <= alpha:
                finding = Finding.AHEAD if is_first_better else Finding.BEHIND

            findings |= _both_ways(row[names[0]], row[names[1]], finding)

        return cls(findings, too_few)

    @classmethod
    def of_significance(
        cls,
        rows: pd.DataFrame,
        column: tuple[str, str],
        statistics: StatisticsOptions,
        n_systems: int | None,
    ) -> PairTests:
        """Return the findings of a dataset's differences of metrics by the test on which ranks rest.

        Args:
            rows: columns `SIGNIFICANCE_COLUMNS`, of one dataset.
            column: the dimension and the coefficient.
            statistics: the level and the correction.
            n_systems: the number of systems, where these are what is correlated; None where captions are.
        """
        dimension, coefficient = column
        is_of_column = (rows["dimension"] == dimension) & (rows["coefficient"] == coefficient)
        is_ranking_test = rows["test"] == find_coefficient(coefficient).tests[0]
        of_column = rows[is_of_column & is_ranking_test]
        n_images = int(of_column["n_images"].max()) if len(of_column) else 0

        return cls.of_rows(of_column, statistics, n_images).on_few_systems(n_systems, statistics)

    @classmethod
    def of_ranks(
        cls,
        standings: Sequence[Standing],
        statistics: StatisticsOptions,
        n_images: int | None,
        n_systems: int | None = None,
    ) -> PairTests:
        """Return what ranks alone say, where a run kept no more of its tests.

        Those that share a rank do not differ significantly. Where one has a rank alone, the next is significantly worse.

        Args:
            standings: the best first.
            statistics: of the tests.
            n_images: the number of images that they drew; None where it is not known.
            n_systems: as in `of_significance`.
        """
        ranked = [standing for standing in standings if standing.rank is not None]
        n_pairs = len(ranked) * (len(ranked) - 1) // 2
        by_rank: dict[int, list[Standing]] = {}
        for standing in standings:
            if standing.rank is not None:
                by_rank.setdefault(standing.rank, []).append(standing)
        clusters = [by_rank[rank] for rank in sorted(by_rank)]

        too_few = ""
        if len(clusters) == 1 and n_pairs:
            too_few = find_shortage(statistics, n_images, n_pairs)

        findings: dict[tuple[str, str], Finding] = {}
        for first, second in combinations(ranked, 2):
            finding = Finding.UNKNOWN
            if first.rank == second.rank:
                finding = Finding.TOO_FEW if too_few else Finding.LEVEL
            findings |= _both_ways(first.key, second.key, finding)
        for cluster, next_cluster in pairwise(clusters):
            if len(cluster) == 1:
                findings |= _both_ways(cluster[0].key, next_cluster[0].key, Finding.AHEAD)

        return cls(findings, too_few).on_few_systems(n_systems, statistics)

    def on_few_systems(self, n_systems: int | None, statistics: StatisticsOptions) -> PairTests:
        """Return the findings, or that there are too few systems, where these are what is correlated.

        Such tests draw images and keep the systems. So few that all of them can agree by chance, as so few coins
        can fall alike, say nothing of other systems.

        Args:
            n_systems: the number of systems; None where captions are correlated.
            statistics: the level.
        """
        # That so many coins fall alike, on either side, has the probability 2 · 2⁻ⁿ.
        if n_systems is None or 2.0 ** (1 - n_systems) <= 1 - statistics.level:
            return self

        findings: dict[tuple[str, str], Finding] = {}
        for names, finding in self.findings.items():
            was_tested = finding is not Finding.UNTESTED
            findings[names] = Finding.TOO_FEW if was_tested else finding

        return replace(self, findings=findings, too_few=f"too few systems ({n_systems})")


def _both_ways(first: str, second: str, finding: Finding) -> dict[tuple[str, str], Finding]:
    return {(first, second): finding, (second, first): _OPPOSITE.get(finding, finding)}


def find_shortage(
    statistics: StatisticsOptions,
    n_images: int | None,
    n_tests: int,
    smallest: SmallestPValue = smallest_p_value,
) -> str:
    """Say what there is too little of for any of the tests to be significant; empty where one could be.

    Args:
        statistics: the level, the correction, and the number of replicates.
        n_images: the number of images that each replicate draws; None where it is not known.
        n_tests: the number of tests that p-values are corrected for.
        smallest: the least p-value that the test can have.
    """
    # Holm multiplies the least p-value by the number of tests; Benjamini and Hochberg may multiply it by 1.
    factor = n_tests if statistics.correction == "holm" else 1
    alpha = 1 - statistics.level
    if factor * smallest(n_images, statistics) <= alpha:
        return ""

    # Where the most replicates would not do either, it is images that are too few.
    most_replicates = replace(statistics, replicates=MAX_REPLICATES)
    if n_images is None or factor * smallest(n_images, most_replicates) <= alpha:
        return f"too few replicates ({statistics.replicates:,})"

    return f"too few images ({n_images:,})"
