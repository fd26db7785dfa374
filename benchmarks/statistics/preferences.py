"""Preferences: outcomes of pairs of captions under each rule of ties, Wilson's interval of accuracies, and McNemar's test of two metrics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .distributions import normal_quantile, normal_share

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: The default level of intervals.
CONFIDENCE = 0.95
#: The `dimension` of the average over the dimensions of preferences.
MEAN_DIMENSION = "mean"


#: What becomes of ties: `Protocol.ties`.
TIE_POLICIES = ("half", "drop", "calibrated")


@dataclass(frozen=True)
class PairOutcomes:
    """A metric's judgements of pairs, compared with people's.

    Attributes:
        values: right 1, wrong 0, a metric's tie 1/2, shape (n_pairs,); NaN where a score is undefined.
        is_counted: whether a pair counts for the accuracy, shape (n_pairs,).
        threshold: the greatest difference of scores that is a tie.
    """

    values: Floats
    is_counted: NDArray[np.bool_]
    threshold: float = 0.0

    @property
    def accuracy(self) -> float:
        """The mean of the pairs that count; NaN where there are none, or one is undefined."""
        counted = self.values[self.is_counted]
        return float(counted.mean()) if len(counted) else math.nan


def pair_differences(scores: pd.Series, preferences: pd.DataFrame) -> Floats:
    """Return the first caption's score less the second's; NaN where one is undefined.

    Args:
        scores: by item id, more is better.
        preferences: columns `item_a, item_b`.

    Returns:
        Shape (n_pairs,).
    """
    a = np.asarray(scores.loc[preferences["item_a"]], float)
    b = np.asarray(scores.loc[preferences["item_b"]], float)
    # Two infinite scores are tied, and their difference is NaN.
    with np.errstate(invalid="ignore"):
        return np.where(a == b, 0.0, a - b)


def judge_differences(differences: Floats, strengths: Floats, ties: str = "half") -> PairOutcomes:
    """Hold differences of scores against people's preferences.

    Args:
        differences: shape (n_pairs,), more favours the first caption; NaN where undefined.
        strengths: shape (n_pairs,), positive where people prefer the first caption, 0 where they tie.
        ties: `half` leaves out the pairs that people tie and counts a metric's tie half, which is what breaking
            ties at random gives on average (Hessel et al. 2021, section 4.2); `drop` leaves out the metric's ties
            too; `calibrated` asks the metric to tie where people do, with the threshold of `calibrate_pairs`.
    """
    is_undefined = np.isnan(differences)
    threshold = 0.0
    if ties == "calibrated":
        threshold = calibrate_pairs(differences[~is_undefined], strengths[~is_undefined])

    signs = np.where(np.abs(differences) <= threshold, 0.0, np.sign(differences))
    values = (signs == np.sign(strengths)).astype(np.float64)

    is_counted = np.ones(len(values), dtype=bool)
    if ties != "calibrated":
        is_counted = strengths != 0
        if ties == "drop":
            # An undefined score stays, so that it is noticed.
            is_counted &= (signs != 0) | is_undefined
        values[signs == 0] = 0.5

    return PairOutcomes(np.where(is_undefined, np.nan, values), is_counted, threshold)


def calibrate_pairs(differences: Floats, strengths: Floats) -> float:
    """Return the threshold of ties that agrees best with people's preferences and ties.

    That of acc_eq (Deutsch et al. 2023, "Ties Matter") on pairs that people judged as pairs: among 0 and the sizes
    of all finite differences the smallest of those that do best.

    Args:
        differences, strengths: shape (n_pairs,); neither is NaN.
    """
    sizes = np.abs(differences)
    # What is gained where a pair becomes a tie.
    gains = (strengths == 0).astype(np.int64)
    gains -= (np.sign(differences) == np.sign(strengths)) & (strengths != 0)

    order = np.argsort(sizes, kind="stable")
    sizes = sizes[order]
    totals = np.cumsum(gains[order])

    # Equal sizes become ties together, so that the total counts after the last of them.
    is_last = np.append(sizes[1:] > sizes[:-1], True)[: len(sizes)] & np.isfinite(sizes)
    thresholds = np.append(0.0, sizes[is_last])
    at_zero = int(totals[sizes == 0][-1]) if (sizes == 0).any() else 0
    return float(thresholds[np.argmax(np.append(at_zero, totals[is_last]))])


def wilson_interval(
    accuracy: float, n_pairs: float, confidence: float = CONFIDENCE
) -> tuple[float, float]:
    """Return Wilson's interval of a share (1927); half counts of ties are taken as they are.

    Ties have less spread than a coin's heads and tails, so that the interval is too wide where there are many.
    """
    if not n_pairs or math.isnan(accuracy):
        return math.nan, math.nan

    z = normal_quantile((1 + confidence) / 2)
    shrink = 1 + z**2 / n_pairs
    centre = (accuracy + z**2 / (2 * n_pairs)) / shrink
    variance = accuracy * (1 - accuracy) / n_pairs + z**2 / (4 * n_pairs**2)
    half = z * math.sqrt(variance) / shrink
    # A share of nought or one has an end there, which rounding would miss by a last digit.
    low = 0.0 if accuracy <= 0 else max(0.0, centre - half)
    high = 1.0 if accuracy >= 1 else min(1.0, centre + half)
    return low, high


def mean_interval(
    accuracies: Sequence[float], intervals: Sequence[tuple[float, float]]
) -> tuple[float, float]:
    """Return the interval of a mean of independent shares from theirs (Zou and Donner 2008, MOVER)."""
    if not accuracies:
        return math.nan, math.nan

    lower_parts: list[float] = []
    upper_parts: list[float] = []
    for accuracy, (low, high) in zip(accuracies, intervals, strict=True):
        lower_parts.append(accuracy - low)
        upper_parts.append(high - accuracy)

    n = len(accuracies)
    mean = sum(accuracies) / n
    return mean - math.hypot(*lower_parts) / n, mean + math.hypot(*upper_parts) / n


@dataclass(frozen=True)
class McNemar:
    """Result of McNemar's test of two metrics on the same pairs.

    Attributes:
        n_pairs: pairs on which both have an outcome, answers to the same captions being one pair.
        first_better, second_better: pairs on which that metric does better; a tie is better than
            wrong and worse than right.
        difference: the first's accuracy less the second's.
        exact: two-sided p-value of "equally good", by all swaps of the two metrics' outcomes.
        asymptotic: the same by the χ² distribution.
    """

    n_pairs: int
    first_better: int
    second_better: int
    difference: float
    exact: float
    asymptotic: float


def mcnemar(first: Floats, second: Floats, groups: Ints | None = None) -> McNemar:
    """Test the outcomes of two metrics (`PairOutcomes.values`) with McNemar's test (1947), ties counting half.

    With d the difference of a pair's outcomes, it asks whether Σd is 0. Without ties the exact
    p-value is the binomial one and the asymptotic one is χ² = (b - c)² / (b + c), without continuity
    correction; with ties χ² = (Σd)² / Σd². Several answers to a pair of captions are not independent: the d of a
    group are added up first, so that a swap of the two metrics swaps all of them.

    Args:
        first, second: shape (n_answers,), of the same answers in the same order; those that are NaN in
            either are left out.
        groups: shape (n_answers,), the number of the group that each answer swaps with, such as its pair of captions;
            by default each has its own.

    Returns:
        The test; p-values of 1 where the metrics never differ, and NaN where no pair is left.
    """
    both = ~(np.isnan(first) | np.isnan(second))
    d = (first - second)[both]
    if not len(d):
        return McNemar(
            n_pairs=0,
            first_better=0,
            second_better=0,
            difference=math.nan,
            exact=math.nan,
            asymptotic=math.nan,
        )

    # The mean over answers, before those of a group are added up.
    difference = float(d.mean())
    if groups is not None:
        d = sum_groups(d, groups[both])

    asymptotic = 1.0
    squares = float((d**2).sum())
    if squares:
        # The tail of χ² with one degree of freedom.
        asymptotic = 2 * normal_share(-abs(float(d.sum())) / math.sqrt(squares))

    return McNemar(
        n_pairs=len(d),
        first_better=int((d > 0).sum()),
        second_better=int((d < 0).sum()),
        difference=difference,
        exact=swap_p_value(d),
        asymptotic=asymptotic,
    )


def sum_groups(values: Floats, groups: Ints) -> Floats:
    """Add up the values of each group, shape (n_groups,)."""
    _, group = np.unique(groups, return_inverse=True)
    return np.asarray(np.bincount(group, values), dtype=np.float64)


def swap_p_value(differences: Floats) -> float:
    """Return the chance that signs thrown by a fair coin make a sum as far from 0 as that of the differences.

    Args:
        differences: shape (n,), multiples of 1/2.
    """
    from scipy.special import bdtrc, betaln

    halves = np.rint(2 * differences).astype(np.int64)
    total = abs(int(halves.sum()))
    if not total:
        return 1.0

    sizes, counts = np.unique(np.abs(halves[halves != 0]), return_counts=True)
    # The chances of the sums of all but the smallest, from the least sum on.
    chances = np.ones(1)
    for size, n in zip(sizes[:0:-1].tolist(), counts[:0:-1].tolist(), strict=True):
        heads = np.arange(n + 1)
        log_ways = -betaln(heads + 1, n - heads + 1) - math.log(n + 1)
        coin_chances = np.exp(log_ways - n * math.log(2))
        # One head more for one tail less moves a sum by twice the size.
        chances = _add_throws(chances, coin_chances, 2 * size)

    (indices,) = np.nonzero(chances)
    # The smallest have to make up for what these lack.
    lack = (total - (indices - len(chances) // 2)) / sizes[0]
    fewest = np.clip(np.ceil((lack + counts[0]) / 2), 0, counts[0] + 1)
    tail = bdtrc(fewest - 1, counts[0], 0.5)
    return min(1.0, 2 * float(chances[indices] @ tail))


def _add_throws(chances: Floats, coin_chances: Floats, step: int) -> Floats:
    """Return the chances of sums to which the throws of coins of one size are added.

    Fourier transforms would be quicker for many sums, but their rounding is far more than the chance of a far sum.

    Args:
        chances: of sums, from the least sum on.
        coin_chances: of each number of heads, shape (n + 1,).
        step: by how much a head moves the sum.
    """
    joined = np.zeros(len(chances) + step * (len(coin_chances) - 1))
    # Sums that are a whole number of steps apart do not mix with the others.
    for offset in range(min(step, len(chances))):
        joined[offset::step] = np.convolve(chances[offset::step], coin_chances)

    return joined
