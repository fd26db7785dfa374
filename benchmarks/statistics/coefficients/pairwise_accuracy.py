"""Pairwise accuracy; acc_eq, the same with the threshold of ties that serves a metric best; and soft pairwise accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..rated_points import RatedPoints
from ..remarks import Note, Undefined, remark
from ..weighted_pairs import Floats, Statistic, WeightedPairs, check_weights
from .coefficient import (
    CoefficientValue,
    PairCoefficient,
    PreparedCoefficient,
    SystemCoefficient,
    TieCoefficient,
    register,
    threshold_note,
)

#: Distinct scores × distinct ratings up to which thresholds are searched: 240 MB of counts.
MAX_CELLS = 10_000_000
#: Pairs × distinct ratings that are laid out at once.
MAX_PAIR_CELLS = 10_000_000
#: Cells × replicates that are counted at once at a threshold of ties.
MAX_COUNTS = 4_000_000
#: Means over groups that differ by no more are equal: their sums have rounding errors.
ROUNDING_ERROR = 1e-12


@register
class PairwiseAccuracy(PairCoefficient, TieCoefficient):
    """(C + tied in both) / pairs: the share of pairs that scores and ratings order alike.

    Of systems' means it is the WMT metrics task's accuracy (Kocmi et al. 2021, section 4), `Agreement` in
    mt-metrics-eval.
    """

    name = "pairwise_accuracy"
    order = 7
    symbol = "same order %"
    latex = r"same order \%"
    words = "the share of pairs that are ordered alike"
    source = "Kocmi et al. 2021"
    is_smooth = True
    bounds = (0.0, 1.0)
    chance = 0.5

    def compute(self, pairs: WeightedPairs) -> Floats:
        return (pairs.concordant + pairs.tied_both) / pairs.total

    def prepare_groups(self, groups: Sequence[RatedPoints]) -> list[PreparedCoefficient]:
        _ = [group.ranked for group in groups]
        return [lambda sample: self.of_pairs(sample.pairs, is_group=True) for _ in groups]

    def measure_groups(self, groups: Sequence[RatedPoints]) -> CoefficientValue:
        return CoefficientValue(float(np.mean(self.group_values(groups))))


@register
class AccEq(TieCoefficient):
    """Pairwise accuracy, where scores are tied that differ by no more than the best threshold; see `calibrate_ties`.

    Weighted samples keep the threshold of the whole sample: a replicate does not look for its own.
    """

    name = "acc_eq"
    order = 8
    symbol = "acc_eq %"
    latex = r"acc$_{\mathrm{eq}}$ \%"
    words = r"pairwise accuracy with tie calibration (acc$_{\mathrm{eq}}$)"
    source = "Deutsch et al. 2023"
    is_smooth = True
    bounds = (0.0, 1.0)
    chance = None
    permutation_reason = Undefined.SWAPPED_THRESHOLD
    has_standing_note = True

    def measure(self, points: RatedPoints) -> CoefficientValue:
        return self.measure_groups([points])

    def measure_groups(self, groups: Sequence[RatedPoints]) -> CoefficientValue:
        if any(np.isinf(group.scores).any() for group in groups):
            return CoefficientValue.undefined(remark(Undefined.INFINITE_DIFFERENCE))
        calibration = calibrate_ties([(group.scores, group.ratings) for group in groups])
        if calibration is None:
            return CoefficientValue.undefined(remark(Undefined.TOO_MANY_VALUES))
        note = threshold_note(calibration.threshold)
        return CoefficientValue(calibration.value, remarks=(note,))

    def prepare(self, points: RatedPoints) -> PreparedCoefficient:
        (accuracy,) = self.prepare_groups([points])
        _ = points.ranked
        return lambda sample: np.where(sample.pairs.is_constant, np.nan, accuracy(sample))

    def prepare_groups(self, groups: Sequence[RatedPoints]) -> list[PreparedCoefficient]:
        threshold = _find_threshold([(group.scores, group.ratings) for group in groups])
        if threshold is None:
            return [lambda sample: sample.undefined for _ in groups]
        statistics = [_prepare_accuracy(group, threshold) for group in groups]
        return [lambda sample, s=statistic: s(sample.weights) for statistic in statistics]


def _find_threshold(groups: Sequence[tuple[Floats, Floats]]) -> float | None:
    """Return the best threshold of the whole sample; None where there is none."""
    scores_by_group = [x for x, _ in groups]
    if max(map(len, scores_by_group), default=0) < 2:
        return None
    if np.isinf(np.concatenate(scores_by_group)).any():
        return None
    calibration = calibrate_ties(groups)
    return calibration.threshold if calibration else None


def _prepare_accuracy(points: RatedPoints, threshold: float) -> Statistic:
    """Return pairwise accuracy where scores that differ by the threshold or less are tied."""
    from scipy.sparse import csr_matrix

    distinct, rows = np.unique(points.scores, return_inverse=True)
    levels, columns = np.unique(points.ratings, return_inverse=True)
    n_rows = len(distinct)
    n_levels = len(levels)
    n_units = int(points.unit.max(initial=-1)) + 1
    cells = csr_matrix(
        (np.ones(len(points.scores)), (rows * n_levels + columns, points.unit)),
        shape=(n_rows * n_levels, n_units),
    )
    beyond = first_beyond(distinct, threshold)

    def accuracy(weights: Floats) -> Floats:
        counts = np.asarray(cells @ weights).reshape(n_rows, n_levels, -1)
        below = np.concatenate([np.zeros((1, *counts.shape[1:])), counts.cumsum(axis=0)])
        higher = count_greater(below)
        concordant = (counts * (higher[-1] - higher[beyond])).sum(axis=(0, 1))
        tied = (counts * (below[beyond] - below[1:] + (counts - 1) / 2)).sum(axis=(0, 1))
        n = counts.sum(axis=(0, 1))
        with np.errstate(all="ignore"):
            return np.where(n > 1, (concordant + tied) / (n * (n - 1) / 2), np.nan)

    def statistic(weights: Floats) -> Floats:
        checked = check_weights(weights, n_units)
        step = max(1, MAX_COUNTS // max(1, n_rows * n_levels))
        starts = range(0, checked.shape[1], step)
        return np.concatenate([accuracy(checked[:, i : i + step]) for i in starts])

    return statistic


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

    n_cells = 0
    for x, y in large:
        n_cells += len(np.unique(x)) * len(np.unique(y))
    if n_cells > MAX_CELLS:
        return None

    cells = [PointCounts(x, y) for x, y in large]
    # In units of the smallest weight, so that whole numbers are summed where groups are of one size.
    unit = min(1 / c.n_pairs for c in cells)
    weights = np.array([1 / c.n_pairs / unit for c in cells])

    # A threshold of 0 may be the best, and is in no span, as these are open below.
    thresholds = [np.zeros(1)]
    values = [_bounds(cells, weights, np.zeros(1)).sum(axis=0)]
    for low, high in _find_spans(cells, weights):
        span_thresholds, span_values = _values_in_span(cells, weights, low, high)
        thresholds.append(span_thresholds)
        values.append(span_values)

    accuracies = np.concatenate(values) * unit / len(cells)
    best = int(np.argmax(accuracies >= accuracies.max() - ROUNDING_ERROR))
    return TieCalibration(float(accuracies[best]), float(np.concatenate(thresholds)[best]))


def _find_spans(cells: Sequence[PointCounts], weights: Floats) -> list[tuple[float, float]]:
    """Return spans of thresholds in which the best lies, narrow enough for all their pairs to be laid out."""
    ranges = [float(c.scores[-1] - c.scores[0]) for c in cells]
    spans = [(0.0, max(ranges))]
    while _count_pair_cells(cells, spans) > MAX_PAIR_CELLS:
        narrower = _narrow_spans(cells, weights, spans)
        if narrower == spans:
            break
        spans = narrower
    return spans


def _values_in_span(
    cells: Sequence[PointCounts], weights: Floats, low: float, high: float
) -> tuple[Floats, Floats]:
    """Return the differences of two scores in a span, and what is counted with each as the threshold."""
    differences_by_group: list[Floats] = []
    gains_by_group: list[Floats] = []
    for weight, group in zip(weights, cells, strict=True):
        group_differences, group_gains = group.pairs(low, high)
        differences_by_group.append(group_differences)
        gains_by_group.append(weight * group_gains)
    differences = np.concatenate(differences_by_group)
    gains = np.concatenate(gains_by_group)

    order = np.argsort(differences, kind="stable")
    differences = differences[order]
    # Equal differences become ties together.
    last = np.flatnonzero(np.diff(differences, append=np.inf))
    before = _bounds(cells, weights, np.array([low])).sum()
    return differences[last], before + np.cumsum(gains[order])[last]


def _count_pair_cells(cells: Sequence[PointCounts], spans: Sequence[tuple[float, float]]) -> int:
    """Count the pairs of cells whose differences lie in spans of thresholds."""
    cost = 0
    for low, high in spans:
        cost += sum(group.cost(low, high) for group in cells)
    return cost


def _bounds(cells: Sequence[PointCounts], weights: Floats, thresholds: Floats) -> Floats:
    """Count concordant pairs, and pairs tied in both, at each threshold; shape (2, n_thresholds)."""
    counts = np.zeros((len(thresholds), 2))
    for index, threshold in enumerate(thresholds):
        # One after another: NumPy's sum adds pairwise, which may move the last digit.
        for weight, group in zip(weights, cells, strict=True):
            counts[index] += weight * group.counts(threshold)
    return counts.T


def _narrow_spans(
    cells: Sequence[PointCounts], weights: Floats, spans: Sequence[tuple[float, float]]
) -> list[tuple[float, float]]:
    """Return the parts of spans of thresholds, open below, in which the best may lie; in order."""
    n_edges = max(3, 65 // len(spans))
    parts: list[tuple[float, float]] = []
    for low, high in spans:
        for a, b in pairwise(np.linspace(low, high, n_edges)):
            if a < b:
                parts.append((float(a), float(b)))

    edges = np.unique(np.array(parts))
    concordant, tied = _bounds(cells, weights, edges)
    best = (concordant + tied).max()
    edge_index = {float(edge): index for index, edge in enumerate(edges)}

    narrowed: list[tuple[float, float]] = []
    for low, high in parts:
        if concordant[edge_index[low]] + tied[edge_index[high]] < best * (1 - ROUNDING_ERROR):
            continue
        # Neighbours become one again.
        if narrowed and narrowed[-1][1] == low:
            low = narrowed.pop()[0]
        narrowed.append((low, high))

    return narrowed


class PointCounts:
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
        start = first_beyond(self.scores, low)
        stop = first_beyond(self.scores, high)
        lengths = stop - start
        lesser = np.repeat(np.arange(len(self.scores)), lengths)
        first = np.repeat(np.cumsum(lengths) - lengths, lengths)
        higher = np.arange(len(lesser)) - first + np.repeat(start, lengths)

        # A tie gains the pairs that are tied in ratings, and loses the concordant ones.
        gain = self._counts - count_greater(self._counts)
        gains = (self._counts[lesser] * gain[higher]).sum(axis=1).astype(np.float64)
        return self.scores[higher] - self.scores[lesser], gains


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


#: mt-metrics-eval's (pce.py); the same draws, so that results are comparable.
PERMUTATIONS = 1000
SEED = 4


@register
class SoftPairwiseAccuracy(SystemCoefficient):
    """One less the mean, over pairs of systems, of |p of ratings - p of scores|.

    p is the paired permutation test's of "the first is better" (Thompson et al. 2024, equation 3). Draws as in
    mt-metrics-eval; differences that are equal count as such, which its 4-byte sums may miss. An image's points of one
    system are averaged, and images that lack a system are left out and counted.
    """

    name = "soft_pairwise_accuracy"
    order = 9
    symbol = "SPA %"
    latex = r"SPA \%"
    words = "soft pairwise accuracy"
    source = "Thompson et al. 2024"
    bounds = (0.0, 1.0)
    chance = None

    def value(self, scores: Floats, ratings: Floats, keys: pd.DataFrame) -> CoefficientValue:
        systems = _SystemCells(RatedPoints.unweighted(scores, ratings), keys)
        counts = systems.counts(np.ones((1, 1)))
        n_images = len(counts)
        n_complete = int((counts > 0).all(axis=1).sum())
        if n_complete < 2:
            reason = remark(Undefined.NO_COMMON_IMAGES, n_images=n_complete)
            return CoefficientValue.undefined(reason)

        n_systems = counts.shape[1]
        remarks = [remark(Note.PERMUTED_SYSTEMS, n_systems=n_systems, permutations=PERMUTATIONS)]
        n_left_out = n_images - n_complete
        if n_left_out:
            counts_of_images = {"n_left_out": n_left_out, "n_images": n_images}
            remarks.append(remark(Note.INCOMPLETE_IMAGES, **counts_of_images))

        value = float(systems.accuracies(np.ones((1, 1)))[0])
        return CoefficientValue(value, remarks=tuple(remarks))

    def prepare(self, points: RatedPoints, keys: pd.DataFrame) -> Statistic:
        return _SystemCells(points, keys).accuracies


class _SystemCells:
    """Points by image and system, both in order of first appearance, which is that of the draws.

    Args:
        points: finite.
        keys: columns `image_id` and `system` of the points.
    """

    def __init__(self, points: RatedPoints, keys: pd.DataFrame) -> None:
        from scipy.sparse import csr_matrix

        self.points = points
        image, images = pd.factorize(keys["image_id"])
        system, systems = pd.factorize(keys["system"])
        self.shape = (len(images), len(systems))
        entries = image * len(systems) + system, np.arange(len(image))
        size = (len(images) * len(systems), len(image))
        self._cells = csr_matrix((np.ones(len(image)), entries), shape=size)

    def counts(self, weights: Floats) -> Floats:
        """Return the number of points of each image and system, shape (n_images, n_systems, n_samples)."""
        return self._sum(weights, np.ones(len(self.points.unit)))

    def _sum(self, weights: Floats, values: Floats) -> Floats:
        sums = self._cells @ (weights[self.points.unit] * values[:, None])
        return np.asarray(sums).reshape(*self.shape, -1)

    def accuracies(self, weights: Floats) -> Floats:
        """Return the soft pairwise accuracy of each sample; NaN with fewer than two images of all systems."""
        counts = self.counts(weights)
        is_complete = (counts > 0).all(axis=1)
        with np.errstate(invalid="ignore"):
            scores = self._sum(weights, self.points.scores) / counts
            ratings = self._sum(weights, self.points.ratings) / counts

        values = np.full(weights.shape[1], np.nan)
        # Samples with the same complete images, which as a rule are all, are evaluated together.
        patterns, of_pattern = np.unique(is_complete, axis=1, return_inverse=True)
        for number, pattern in enumerate(patterns.T):
            is_own = of_pattern.ravel() == number
            if pattern.sum() > 1:
                x = scores[pattern][:, :, is_own]
                y = ratings[pattern][:, :, is_own]
                # Ratings that no sample changes are tested once.
                is_same = np.ptp(y, axis=2).max() <= ROUNDING_ERROR * np.abs(y).max()
                p_scores, p_ratings = _superiority_p_values(x, y[:, :, :1] if is_same else y)
                values[is_own] = 1 - np.abs(p_scores - p_ratings).mean(axis=0)

        return values


def _superiority_p_values(*tables: Floats) -> list[Floats]:
    """Return the p-values of "the first is better" of each pair of systems, for each table and sample.

    Args:
        tables: of shape (n_images, n_systems, n_samples) each.

    Returns:
        Shape (n_pairs, n_samples) each.
    """
    rng = np.random.default_rng(SEED)
    n_images, n_systems, _ = tables[0].shape
    first, second = np.triu_indices(n_systems, 1)
    counts = [np.zeros((len(first), table.shape[2])) for table in tables]
    for _ in range(PERMUTATIONS // 100):  # 100 at a time: the draws are as those of all at once
        signs = 2 * np.rint(rng.random((100, n_images), dtype=np.float32)).astype(float) - 1
        for count, table in zip(counts, tables, strict=True):
            sums = table.sum(axis=0)
            permuted = (signs @ table.reshape(n_images, -1)).reshape(100, n_systems, -1)
            bound = sums[first] - sums[second] - 1e-9 * np.abs(table).sum(axis=(0, 1)) / n_systems
            count += (permuted[:, first] - permuted[:, second] >= bound).sum(axis=0)
    return [count / PERMUTATIONS for count in counts]
