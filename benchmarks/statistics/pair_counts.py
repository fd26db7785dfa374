"""Coefficients that count pairs of data points: τ_a, γ, pairwise accuracy, and tie calibration.

`coefficients` and `levels` call `count_pairs` and `calibrate_ties`; `weighted_levels` the helpers of thresholds.

Two data points are concordant where scores and ratings put them in the same order, discordant where
they put them in opposite orders, and else tied in the scores, in the ratings, or in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .weighted_coefficients import RankedPairs

Floats = NDArray[np.float64]

#: Distinct scores × distinct ratings up to which thresholds are searched: 240 MB of counts.
MAX_CELLS = 10_000_000
#: Pairs × distinct ratings that are laid out at once.
MAX_PAIR_CELLS = 10_000_000
#: Means over groups that differ by no more are equal: their sums have rounding errors.
ROUNDING_ERROR = 1e-12


@dataclass(frozen=True)
class PairCounts:
    """Numbers of pairs; `tied_scores` and `tied_ratings` are tied on that side alone."""

    concordant: int
    discordant: int
    tied_scores: int
    tied_ratings: int
    tied_both: int

    @property
    def total(self) -> int:
        """All pairs, n (n - 1) / 2."""
        untied = self.concordant + self.discordant
        return untied + self.tied_scores + self.tied_ratings + self.tied_both

    @property
    def tau_a(self) -> float:
        """(C - D) / pairs (Kendall 1938)."""
        return (self.concordant - self.discordant) / self.total

    @property
    def gamma(self) -> float:
        """(C - D) / (C + D) (Goodman and Kruskal 1954).

        Where scores and ratings both vary, some pair is untied on both sides.
        """
        return (self.concordant - self.discordant) / (self.concordant + self.discordant)

    @property
    def accuracy(self) -> float:
        """(C + tied in both) / pairs: the share of pairs that scores and ratings order alike.

        Of systems' means it is the WMT metrics task's accuracy (Kocmi et al. 2021, section 4),
        `Agreement` in mt-metrics-eval.
        """
        return (self.concordant + self.tied_both) / self.total


def count_pairs(scores: Floats, ratings: Floats) -> PairCounts:
    """Count all pairs of n points, in O(n log n).

    Args:
        scores, ratings: shape (n_points,), paired, n_points at least 2, without NaN.
    """
    total = len(scores) * (len(scores) - 1) // 2
    pairs = RankedPairs(scores, ratings).pairs()
    counts = (pairs.surplus, pairs.tied_x, pairs.tied_y, pairs.tied_both)
    surplus, x, y, both = (int(count[0]) for count in counts)
    ordered = total - x - y + both
    return PairCounts((ordered + surplus) // 2, (ordered - surplus) // 2, x - both, y - both, both)


@dataclass(frozen=True)
class TieCalibration:
    """Pairwise accuracy with ties in the scores introduced.

    Attributes:
        value: in [0, 1].
        threshold: the greatest difference of two scores that counts as a tie.
    """

    value: float
    threshold: float


def calibrate_ties(groups: Sequence[tuple[Floats, Floats]]) -> TieCalibration | None:
    """Compute acc_eq with the threshold that maximises it (Deutsch et al. 2023, "Ties Matter").

    The accuracy of a group is (C + tied in both) / pairs, where scores that differ by the threshold
    or less are tied; its mean over the groups is maximised, over 0 and all differences of two scores of
    a group. Of thresholds that do equally well the smallest is taken.

    Every pair counts, and none is sampled. From one threshold to a greater one pairs tied in
    both can only become more and concordant ones fewer, which bounds the accuracy in between: where
    the bound is below the best of the edges, no pair is looked at.

    Args:
        groups: scores and ratings of each, finite; groups of fewer than two points do not count.

    Returns:
        None where there are too many distinct values (`MAX_CELLS`).

    Raises:
        ValueError: where no group has two points.
    """
    large = [(x, y) for x, y in groups if len(x) > 1]
    if not large:
        raise ValueError("no group of two points")
    if sum(len(np.unique(x)) * len(np.unique(y)) for x, y in large) > MAX_CELLS:
        return None
    cells = [_Cells(x, y) for x, y in large]
    # In units of the smallest weight, so that whole numbers are summed where groups are of one size.
    unit = min(1 / c.n_pairs for c in cells)
    weights = np.array([1 / c.n_pairs / unit for c in cells])
    spans = [(0.0, max(float(c.scores[-1] - c.scores[0]) for c in cells))]
    while sum(c.cost(*span) for c in cells for span in spans) > MAX_PAIR_CELLS:
        narrower = _narrow_spans(cells, weights, spans)
        if narrower == spans:
            break
        spans = narrower
    thresholds = [np.zeros(1)]
    values = [_bounds(cells, weights, np.zeros(1)).sum(axis=0)]
    for low, high in spans:
        pairs = [c.pairs(low, high) for c in cells]
        differences = np.concatenate([d for d, _ in pairs])
        gains = np.concatenate([w * g for w, (_, g) in zip(weights, pairs, strict=True)])
        order = np.argsort(differences, kind="stable")
        differences = differences[order]
        last = np.flatnonzero(np.diff(differences, append=np.inf))
        before = _bounds(cells, weights, np.array([low])).sum()
        thresholds.append(differences[last])
        values.append(before + np.cumsum(gains[order])[last])
    accuracies = np.concatenate(values) * unit / len(cells)
    best = int(np.argmax(accuracies >= accuracies.max() - ROUNDING_ERROR))
    return TieCalibration(float(accuracies[best]), float(np.concatenate(thresholds)[best]))


def _bounds(cells: Sequence[_Cells], weights: Floats, thresholds: Floats) -> Floats:
    """Count concordant pairs, and pairs tied in both, at each threshold; shape (2, n_thresholds)."""
    return np.array(
        [sum(w * c.counts(t) for w, c in zip(weights, cells, strict=True)) for t in thresholds]
    ).T


def _narrow_spans(
    cells: Sequence[_Cells], weights: Floats, spans: Sequence[tuple[float, float]]
) -> list[tuple[float, float]]:
    """Return the parts of spans of thresholds, open below, in which the best may lie; in order."""
    parts = [
        (float(a), float(b))
        for low, high in spans
        for a, b in pairwise(np.linspace(low, high, max(3, 65 // len(spans))))
        if a < b
    ]
    edges = np.unique(np.array(parts))
    concordant, tied = _bounds(cells, weights, edges)
    best = (concordant + tied).max()
    edge_index = {float(edge): index for index, edge in enumerate(edges)}
    narrowed: list[tuple[float, float]] = []
    for low, high in parts:
        if concordant[edge_index[low]] + tied[edge_index[high]] < best * (1 - ROUNDING_ERROR):
            continue
        if narrowed and narrowed[-1][1] == low:
            low = narrowed.pop()[0]
        narrowed.append((low, high))
    return narrowed


class _Cells:
    """Numbers of points of a group by score and rating.

    Args:
        scores, ratings: of the group's points.
    """

    def __init__(self, scores: Floats, ratings: Floats) -> None:
        self.n_pairs = len(scores) * (len(scores) - 1) // 2
        self.scores, rows = np.unique(scores, return_inverse=True)
        levels, columns = np.unique(ratings, return_inverse=True)
        shape = (len(self.scores), len(levels))
        self._counts = np.bincount(
            rows * shape[1] + columns, minlength=shape[0] * shape[1]
        ).reshape(shape)
        #: Points with a lesser score and this rating; those with a lesser score and a greater one.
        self._below = np.concatenate([np.zeros((1, shape[1]), int), self._counts.cumsum(axis=0)])
        self._below_greater = count_greater(self._below)
        self._tied_both = int((self._counts * (self._counts - 1) // 2).sum())

    def counts(self, threshold: float) -> Floats:
        """Count concordant pairs, and pairs tied in both, where the threshold makes ties."""
        far = first_beyond(self.scores, threshold)
        concordant = (self._counts * (self._below_greater[-1] - self._below_greater[far])).sum()
        within = (self._counts * (self._below[far] - self._below[1:])).sum()
        return np.array([concordant, within + self._tied_both], dtype=np.float64)

    def cost(self, low: float, high: float) -> int:
        """Return the number of cells that `pairs` would lay out."""
        reached = first_beyond(self.scores, high) - first_beyond(self.scores, low)
        return int(reached.sum()) * self._counts.shape[1]

    def pairs(self, low: float, high: float) -> tuple[Floats, Floats]:
        """Return the differences of all pairs of scores in low < difference <= high, and a tie's gain for each."""
        start, stop = first_beyond(self.scores, low), first_beyond(self.scores, high)
        lengths = stop - start
        lesser = np.repeat(np.arange(len(self.scores)), lengths)
        first = np.repeat(np.cumsum(lengths) - lengths, lengths)
        higher = np.arange(len(lesser)) - first + np.repeat(start, lengths)
        gain = self._counts - count_greater(self._counts)
        return (
            self.scores[higher] - self.scores[lesser],
            (self._counts[lesser] * gain[higher]).sum(axis=1).astype(np.float64),
        )


def first_beyond(scores: Floats, threshold: float) -> NDArray[np.intp]:
    """Return for each of ascending scores the index of the first that is further above it than the threshold."""
    m = len(scores)
    far = np.searchsorted(scores, scores + threshold, side="right")
    # The sum is rounded, and the difference counts.
    while (near := (far < m) & (scores[np.minimum(far, m - 1)] - scores <= threshold)).any():
        far += near
    while (beyond := scores[far - 1] - scores > threshold).any():
        far -= beyond
    return far


def count_greater(counts: NDArray[Any]) -> NDArray[Any]:
    """Sum along the second axis all that comes after."""
    return counts.sum(axis=1, keepdims=True) - counts.cumsum(axis=1)
