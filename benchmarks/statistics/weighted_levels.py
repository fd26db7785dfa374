"""Every coefficient at every level as a statistic of images' weights, for intervals and curves.

`prepare_at` is to `weighted.prepare` what `levels.correlate_at_level` is to `correlation.correlate`: with
weights of one it gives the same values, and its replicates are those of samples of images.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from .coefficients import PAIR_COEFFICIENTS
from .levels import (
    SYSTEM_COEFFICIENTS,
    TIE_COEFFICIENTS,
    correlate_at_level,
    group_indices,
    level_column,
)
from .pair_counts import calibrate_ties, count_greater, count_pairs, first_beyond
from .weighted_coefficients import (
    Floats,
    Ints,
    RankedPairs,
    Statistic,
    WeightedPairs,
    check_weights,
    prepare_coefficients,
)

#: Cells × replicates that are counted at once at a threshold of ties.
MAX_COUNTS = 4_000_000


def prepare_at_level(
    level: str,
    scores: Floats,
    ratings: Floats,
    keys: pd.DataFrame,
    coefficients: Sequence[str],
    unit: Ints,
) -> Statistic:
    """Coefficients at a level as a statistic of their images' weights.

    `acc_eq` keeps the threshold of the whole sample: a replicate does not look for its own. At level
    `by_image` an image that is drawn twice counts twice in the average.

    Args:
        level, scores, ratings, keys: as in `levels.correlate_at_level`; scores without NaN.
        coefficients: any but `soft_pairwise_accuracy`, which is made of permutations itself and NaN
            here; a value each, in their order.
        unit: the number of each point's image, shape (n_points,).

    Raises:
        ValueError: on unequal lengths or NaN.
    """
    if level_column(level) is None:
        return _over_all(scores, ratings, coefficients, unit)
    groups = group_indices(keys[level_column(level)])
    if level == "system":
        return _of_systems(scores, ratings, groups, coefficients, unit)
    if level == "by_image":
        return _by_image(scores, ratings, keys, groups, coefficients, unit)
    return _of_groups(scores, ratings, groups, coefficients, unit)


def _of_groups(
    scores: Floats,
    ratings: Floats,
    groups: Sequence[NDArray[np.intp]],
    coefficients: Sequence[str],
    unit: Ints,
) -> Statistic:
    """The mean over groups of points, each of which is evaluated anew."""
    threshold = _threshold([(scores[g], ratings[g]) for g in groups], coefficients)
    each = [_over_all(scores[g], ratings[g], coefficients, unit[g], threshold) for g in groups]

    def statistic(weights: Floats) -> Floats:
        return _mean_of_defined(np.stack([one(weights) for one in each]))

    return statistic


def _mean_of_defined(values: Floats) -> Floats:
    """The mean along the first axis of what is not NaN; NaN where nothing is."""
    defined = ~np.isnan(values)
    with np.errstate(all="ignore"):
        return np.where(defined, values, 0).sum(axis=0) / defined.sum(axis=0)


def _threshold(groups: Sequence[tuple[Floats, Floats]], coefficients: Sequence[str]) -> float:
    """acc_eq's of the whole sample; NaN where it is not asked for or there is none."""
    if "acc_eq" not in coefficients or all(len(x) < 2 for x, _ in groups):
        return float("nan")
    if any(np.isinf(x).any() for x, _ in groups):
        return float("nan")
    found = calibrate_ties(groups)
    return found.threshold if found else float("nan")


def _over_all(
    scores: Floats,
    ratings: Floats,
    coefficients: Sequence[str],
    unit: Ints,
    threshold: float | None = None,
) -> Statistic:
    """Of all points together.

    Args:
        threshold: acc_eq's, of the groups that these points are one of; None: they are no group.
    """
    grouped = threshold is not None
    if threshold is None:
        threshold = _threshold([(scores, ratings)], coefficients)
    plain = [c for c in coefficients if c not in (*PAIR_COEFFICIENTS, *SYSTEM_COEFFICIENTS)]
    finite = not np.isinf(scores).any()
    usable = [c for c in plain if finite or c != "pearson"]
    inner = prepare_coefficients(scores, ratings, usable, unit) if usable else None
    ranked = (
        RankedPairs(scores, ratings, unit) if set(coefficients) & set(PAIR_COEFFICIENTS) else None
    )
    calibrated = None if np.isnan(threshold) else _at_threshold(scores, ratings, unit, threshold)

    def statistic(weights: Floats) -> Floats:
        nothing = np.full(weights.shape[1], np.nan)
        found = dict.fromkeys(coefficients, nothing)
        if inner is not None:
            found |= dict(zip(usable, inner(weights), strict=True))
        if calibrated is not None:
            found["acc_eq"] = calibrated(weights)[0]
        if ranked is not None:
            pairs = ranked.pairs(weights)
            found |= _of_pairs(pairs)
            if not grouped:  # in a group equal scores have an accuracy
                constant = np.minimum(pairs.levels_x, pairs.levels_y) < 2
                found |= {
                    name: np.where(constant, np.nan, found[name])
                    for name in TIE_COEFFICIENTS
                    if name in found
                }
        return np.stack([found[c] for c in coefficients])

    return statistic


def _of_pairs(pairs: WeightedPairs) -> dict[str, Floats]:
    constant = np.minimum(pairs.levels_x, pairs.levels_y) < 2
    with np.errstate(all="ignore"):
        values = {
            "tau_a": pairs.surplus / pairs.total,
            "gamma": pairs.surplus / (pairs.concordant + pairs.discordant),
            "pairwise_accuracy": (pairs.concordant + pairs.tied_both) / pairs.total,
        }
    return {
        name: np.where((pairs.n < 2) | (constant & (name not in TIE_COEFFICIENTS)), np.nan, found)
        for name, found in values.items()
    }


def _at_threshold(scores: Floats, ratings: Floats, unit: Ints, threshold: float) -> Statistic:
    """Pairwise accuracy where scores that differ by the threshold or less are tied."""
    distinct, rows = np.unique(scores, return_inverse=True)
    levels, columns = np.unique(ratings, return_inverse=True)
    n_rows, n_levels, n_units = len(distinct), len(levels), int(unit.max(initial=-1)) + 1
    cells = scipy.sparse.csr_matrix(
        (np.ones(len(scores)), (rows * n_levels + columns, unit)),
        shape=(n_rows * n_levels, n_units),
    )
    far = first_beyond(distinct, threshold)

    def accuracy(weights: Floats) -> Floats:
        counts = np.asarray(cells @ weights).reshape(n_rows, n_levels, -1)
        below = np.concatenate([np.zeros((1, *counts.shape[1:])), counts.cumsum(axis=0)])
        higher = count_greater(below)
        concordant = (counts * (higher[-1] - higher[far])).sum(axis=(0, 1))
        tied = (counts * (below[far] - below[1:] + (counts - 1) / 2)).sum(axis=(0, 1))
        n = counts.sum(axis=(0, 1))
        with np.errstate(all="ignore"):
            return np.where(n > 1, (concordant + tied) / (n * (n - 1) / 2), np.nan)

    def statistic(weights: Floats) -> Floats:
        given = check_weights(weights, n_units)
        step = max(1, MAX_COUNTS // max(1, n_rows * n_levels))
        parts = [accuracy(given[:, i : i + step]) for i in range(0, given.shape[1], step)]
        return np.concatenate(parts)[None]

    return statistic


def _by_image(
    scores: Floats,
    ratings: Floats,
    keys: pd.DataFrame,
    groups: Sequence[NDArray[np.intp]],
    coefficients: Sequence[str],
    unit: Ints,
) -> Statistic:
    """An image's own value does not change with its weight; its part of the average does.

    Where its points have weights of their own, as in a permutation test, its value changes too.
    """
    if any((unit[g] != unit[g[0]]).any() for g in groups):
        return _of_groups(scores, ratings, groups, coefficients, unit)
    threshold = _threshold([(scores[g], ratings[g]) for g in groups], coefficients)
    values = np.full((len(coefficients), len(groups)), np.nan)
    for row, coefficient in enumerate(coefficients):
        for column, group in enumerate(groups):
            x, y = scores[group], ratings[group]
            if coefficient in TIE_COEFFICIENTS:
                if len(group) < 2:
                    continue
                if coefficient == "pairwise_accuracy":
                    values[row, column] = count_pairs(x, y).accuracy
                elif not np.isnan(threshold):
                    one = _at_threshold(x, y, np.zeros(len(x), int), threshold)
                    values[row, column] = one(np.ones((1, 1)))[0, 0]
            elif coefficient not in SYSTEM_COEFFICIENTS:
                found = correlate_at_level("pooled", x, y, keys, coefficient)
                values[row, column] = found.value
    units = np.array([unit[group[0]] for group in groups])
    defined = ~np.isnan(values)

    def statistic(weights: Floats) -> Floats:
        given = check_weights(weights, int(units.max(initial=-1)) + 1)[units]
        with np.errstate(all="ignore"):
            return (np.where(defined, values, 0) @ given) / (defined @ given)

    return statistic


def _of_systems(
    scores: Floats,
    ratings: Floats,
    groups: Sequence[NDArray[np.intp]],
    coefficients: Sequence[str],
    unit: Ints,
) -> Statistic:
    """Of systems' means over the images that are drawn."""
    n_units = int(unit.max(initial=-1)) + 1
    sums = [
        np.stack([np.bincount(unit[g], part[g], n_units) for g in groups])
        for part in (scores, ratings, np.ones(len(scores)))
    ]
    i, j = np.triu_indices(len(groups), 1)

    def statistic(weights: Floats) -> Floats:
        given = check_weights(weights, n_units)
        total_x, total_y, count = (part @ given for part in sums)
        with np.errstate(all="ignore"):
            x, y = _rounded(total_x / count), _rounded(total_y / count)
        missing = ~np.isfinite(x).all(axis=0)
        dx, dy = np.sign(x[i] - x[j]), np.sign(y[i] - y[j])
        pairs = WeightedPairs(
            n=np.full(x.shape[1], float(len(groups))),
            surplus=(dx * dy).sum(axis=0),
            tied_x=(dx == 0).sum(axis=0).astype(float),
            tied_y=(dy == 0).sum(axis=0).astype(float),
            tied_both=((dx == 0) & (dy == 0)).sum(axis=0).astype(float),
            levels_x=_levels(x),
            levels_y=_levels(y),
        )
        constant = missing | (np.minimum(pairs.levels_x, pairs.levels_y) < 2)
        found = _of_pairs(pairs) | {"tau_b": pairs.tau_b, "tau_c": pairs.tau_c}
        if "pearson" in coefficients:
            found["pearson"] = _pearson(x, y)
        if "spearman" in coefficients:
            found["spearman"] = _pearson(
                scipy.stats.rankdata(x, axis=0), scipy.stats.rankdata(y, axis=0)
            )
        if "acc_eq" in coefficients:
            found["acc_eq"] = np.array([_best(a, b) for a, b in zip(x.T, y.T, strict=True)])
        nothing = np.full(x.shape[1], np.nan)
        rows = [np.where(constant, nothing, found.get(c, nothing)) for c in coefficients]
        return np.stack(rows)

    return statistic


def _best(x: Floats, y: Floats) -> float:
    """acc_eq of few points, each replicate with its own threshold, which is quick to find."""
    found = calibrate_ties([(x, y)]) if len(x) > 1 and np.isfinite(x).all() else None
    return found.value if found else float("nan")


def _rounded(means: Floats) -> Floats:
    """As `kinds` rounds systems' means, so that equal ones are tied."""
    size = np.maximum(np.abs(means).max(axis=0, initial=0), np.finfo(float).tiny)
    return np.round(means / size, 12) * size


def _levels(values: Floats) -> Floats:
    """How many different values each column has."""
    return (np.diff(np.sort(values, axis=0), axis=0) > 0).sum(axis=0) + 1.0


def _pearson(x: Floats, y: Floats) -> Floats:
    """Of each column."""
    with np.errstate(all="ignore"):
        x, y = (v - v.mean(axis=0) for v in (x, y))
        return (x * y).sum(axis=0) / np.sqrt((x**2).sum(axis=0)) / np.sqrt((y**2).sum(axis=0))
