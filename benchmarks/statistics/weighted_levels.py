"""Every coefficient at every level as a statistic of images' weights, for intervals and curves.

`panels` and `intervals` call `prepare_at_level`. With weights of one it gives the values of
`levels.correlate_at_level`, and its replicates are those of samples of images.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from .coefficients import PAIR_COEFFICIENTS
from .detection import DETECTION_COEFFICIENTS, is_detection, prepare_detection
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
    """Return coefficients at a level as a statistic of their images' weights.

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
    column = level_column(level)
    if column is None:
        return _prepare_pooled(scores, ratings, coefficients, unit)
    groups = group_indices(keys[column])
    if level == "system":
        return _prepare_systems(scores, ratings, groups, coefficients, unit)
    # Points with weights of their own, as in a permutation test, change an image's value too.
    if level == "by_image" and all((unit[g] == unit[g[0]]).all() for g in groups):
        return _prepare_images(scores, ratings, keys, groups, coefficients, unit)
    return _prepare_groups(scores, ratings, groups, coefficients, unit)


def _prepare_groups(
    scores: Floats,
    ratings: Floats,
    groups: Sequence[NDArray[np.intp]],
    coefficients: Sequence[str],
    unit: Ints,
) -> Statistic:
    """Return the mean over groups of points, each of which is evaluated anew."""
    threshold = _tie_threshold([(scores[g], ratings[g]) for g in groups], coefficients)
    by_group = [
        _prepare_pooled(scores[g], ratings[g], coefficients, unit[g], threshold) for g in groups
    ]

    def statistic(weights: Floats) -> Floats:
        values = np.stack([group(weights) for group in by_group])
        defined = ~np.isnan(values)
        with np.errstate(all="ignore"):
            return np.where(defined, values, 0).sum(axis=0) / defined.sum(axis=0)

    return statistic


def _tie_threshold(groups: Sequence[tuple[Floats, Floats]], coefficients: Sequence[str]) -> float:
    """Return acc_eq's threshold of the whole sample; NaN where it is not requested or there is none."""
    if "acc_eq" not in coefficients or all(len(x) < 2 for x, _ in groups):
        return float("nan")
    if any(np.isinf(x).any() for x, _ in groups):
        return float("nan")
    calibration = calibrate_ties(groups)
    return calibration.threshold if calibration else float("nan")


def _prepare_pooled(
    scores: Floats,
    ratings: Floats,
    coefficients: Sequence[str],
    unit: Ints,
    threshold: float | None = None,
) -> Statistic:
    """Return coefficients of all points together.

    Args:
        threshold: acc_eq's, of the groups that these points are one of; None where they are no group.
    """
    is_group = threshold is not None
    if threshold is None:
        threshold = _tie_threshold([(scores, ratings)], coefficients)
    finite = not np.isinf(scores).any()
    plain = [
        c
        for c in coefficients
        if c not in (*PAIR_COEFFICIENTS, *SYSTEM_COEFFICIENTS, *DETECTION_COEFFICIENTS)
        and (finite or c != "pearson")
    ]
    detected = [c for c in coefficients if c in DETECTION_COEFFICIENTS and is_detection(ratings)]
    detection = prepare_detection(scores, ratings, detected, unit) if detected else None
    plain_statistic = prepare_coefficients(scores, ratings, plain, unit) if plain else None
    has_pairs = bool(set(coefficients) & set(PAIR_COEFFICIENTS))
    ranked = RankedPairs(scores, ratings, unit) if has_pairs else None
    acc_eq = None if np.isnan(threshold) else _prepare_acc_eq(scores, ratings, unit, threshold)

    def statistic(weights: Floats) -> Floats:
        values = dict.fromkeys(coefficients, np.full(weights.shape[1], np.nan))
        if plain_statistic is not None:
            values |= dict(zip(plain, plain_statistic(weights), strict=True))
        if detection is not None:
            values |= dict(zip(detected, detection(weights), strict=True))
        if acc_eq is not None:
            values["acc_eq"] = acc_eq(weights)[0]
        if ranked is not None:
            pairs = ranked.pairs(weights)
            values |= _pair_coefficients(pairs)
            if not is_group:  # in a group equal scores have an accuracy
                values |= {
                    name: np.where(pairs.is_constant, np.nan, values[name])
                    for name in TIE_COEFFICIENTS
                    if name in values
                }
        return np.stack([values[c] for c in coefficients])

    return statistic


def _pair_coefficients(pairs: WeightedPairs) -> dict[str, Floats]:
    with np.errstate(all="ignore"):
        values = {
            "tau_a": pairs.surplus / pairs.total,
            "gamma": pairs.surplus / (pairs.concordant + pairs.discordant),
            "pairwise_accuracy": (pairs.concordant + pairs.tied_both) / pairs.total,
        }
    return {
        name: np.where(
            (pairs.n < 2) | (pairs.is_constant & (name not in TIE_COEFFICIENTS)), np.nan, value
        )
        for name, value in values.items()
    }


def _prepare_acc_eq(scores: Floats, ratings: Floats, unit: Ints, threshold: float) -> Statistic:
    """Return pairwise accuracy where scores that differ by the threshold or less are tied."""
    distinct, rows = np.unique(scores, return_inverse=True)
    levels, columns = np.unique(ratings, return_inverse=True)
    n_rows, n_levels, n_units = len(distinct), len(levels), int(unit.max(initial=-1)) + 1
    cells = scipy.sparse.csr_matrix(
        (np.ones(len(scores)), (rows * n_levels + columns, unit)),
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
        parts = [accuracy(checked[:, i : i + step]) for i in range(0, checked.shape[1], step)]
        return np.concatenate(parts)[None]

    return statistic


def _prepare_images(
    scores: Floats,
    ratings: Floats,
    keys: pd.DataFrame,
    groups: Sequence[NDArray[np.intp]],
    coefficients: Sequence[str],
    unit: Ints,
) -> Statistic:
    """Return the mean over images: an image's value does not change with its weight, its share does."""
    threshold = _tie_threshold([(scores[g], ratings[g]) for g in groups], coefficients)
    values = np.full((len(coefficients), len(groups)), np.nan)
    for row, coefficient in enumerate(coefficients):
        for column, group in enumerate(groups):
            x, y = scores[group], ratings[group]
            if coefficient == "pairwise_accuracy" and len(group) > 1:
                values[row, column] = count_pairs(x, y).accuracy
            elif coefficient == "acc_eq" and len(group) > 1 and not np.isnan(threshold):
                acc_eq = _prepare_acc_eq(x, y, np.zeros(len(x), int), threshold)
                values[row, column] = acc_eq(np.ones((1, 1)))[0, 0]
            elif coefficient not in (*TIE_COEFFICIENTS, *SYSTEM_COEFFICIENTS):
                correlation = correlate_at_level("pooled", x, y, keys, coefficient)
                values[row, column] = correlation.value
    units = np.array([unit[group[0]] for group in groups])
    defined = ~np.isnan(values)

    def statistic(weights: Floats) -> Floats:
        checked = check_weights(weights, int(units.max(initial=-1)) + 1)[units]
        with np.errstate(all="ignore"):
            return (np.where(defined, values, 0) @ checked) / (defined @ checked)

    return statistic


def _prepare_systems(
    scores: Floats,
    ratings: Floats,
    groups: Sequence[NDArray[np.intp]],
    coefficients: Sequence[str],
    unit: Ints,
) -> Statistic:
    """Return coefficients of systems' means over the images that are drawn."""
    n_units = int(unit.max(initial=-1)) + 1
    sums = [
        np.stack([np.bincount(unit[g], part[g], n_units) for g in groups])
        for part in (scores, ratings, np.ones(len(scores)))
    ]

    def statistic(weights: Floats) -> Floats:
        checked = check_weights(weights, n_units)
        total_x, total_y, count = (part @ checked for part in sums)
        with np.errstate(all="ignore"):
            x, y = _round_means(total_x / count), _round_means(total_y / count)
        pairs = _count_system_pairs(x, y)
        undefined = ~np.isfinite(x).all(axis=0) | pairs.is_constant
        values = _pair_coefficients(pairs) | {"tau_b": pairs.tau_b, "tau_c": pairs.tau_c}
        if "pearson" in coefficients:
            values["pearson"] = _pearson_by_column(x, y)
        if "spearman" in coefficients:
            ranks = (scipy.stats.rankdata(side, axis=0) for side in (x, y))
            values["spearman"] = _pearson_by_column(*ranks)
        if "acc_eq" in coefficients:
            values["acc_eq"] = np.array([_acc_eq(a, b) for a, b in zip(x.T, y.T, strict=True)])
        missing = np.full(x.shape[1], np.nan)
        return np.stack([np.where(undefined, np.nan, values.get(c, missing)) for c in coefficients])

    return statistic


def _count_system_pairs(x: Floats, y: Floats) -> WeightedPairs:
    """Count the pairs of systems in each column of two tables of means."""
    i, j = np.triu_indices(len(x), 1)
    dx, dy = np.sign(x[i] - x[j]), np.sign(y[i] - y[j])
    return WeightedPairs(
        n=np.full(x.shape[1], float(len(x))),
        surplus=(dx * dy).sum(axis=0),
        tied_x=(dx == 0).sum(axis=0).astype(float),
        tied_y=(dy == 0).sum(axis=0).astype(float),
        tied_both=((dx == 0) & (dy == 0)).sum(axis=0).astype(float),
        levels_x=_count_levels(x),
        levels_y=_count_levels(y),
    )


def _acc_eq(x: Floats, y: Floats) -> float:
    """Return acc_eq of few points; each replicate has its own threshold, which is quick to find."""
    calibration = calibrate_ties([(x, y)]) if len(x) > 1 and np.isfinite(x).all() else None
    return calibration.value if calibration else float("nan")


def _round_means(means: Floats) -> Floats:
    """Round systems' means as `levels` does, so that equal ones are tied."""
    size = np.maximum(np.abs(means).max(axis=0, initial=0), np.finfo(float).tiny)
    return np.round(means / size, 12) * size


def _count_levels(values: Floats) -> Floats:
    """Count the different values of each column."""
    return (np.diff(np.sort(values, axis=0), axis=0) > 0).sum(axis=0) + 1.0


def _pearson_by_column(x: Floats, y: Floats) -> Floats:
    """Compute Pearson's r of each column."""
    with np.errstate(all="ignore"):
        x, y = (v - v.mean(axis=0) for v in (x, y))
        return (x * y).sum(axis=0) / np.sqrt((x**2).sum(axis=0)) / np.sqrt((y**2).sum(axis=0))
