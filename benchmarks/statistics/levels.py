"""Correlation at a level: pooled, within each image or system and averaged, or between systems' means.

`evaluation` calls `correlate_at_level`. The levels are those of mt-metrics-eval: `pooled` is its
average_by=none, `by_image` item, `by_system` sys, and `system` its system level. Groups without a value are left
out of the average and counted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .coefficients import Coefficient, Floats, correlate, correlate_acc_eq, undefined_reason
from .detection import DETECTION_COEFFICIENTS
from .pair_counts import count_pairs
from .remarks import Note, Remark, Undefined, remark

LEVELS = ("pooled", "by_image", "by_system", "system")
_COLUMNS = {"by_image": "image_id", "by_system": "system", "system": "system"}
#: Coefficients that a group has even where its scores or ratings are all equal: ties count.
TIE_COEFFICIENTS = ("pairwise_accuracy", "acc_eq")
#: Coefficients of systems alone.
SYSTEM_COEFFICIENTS = ("soft_pairwise_accuracy",)

#: mt-metrics-eval's (pce.py); the same draws, so that results are comparable.
PERMUTATIONS, SEED = 1000, 4

#: The reasons between systems' means, by those between points.
_SYSTEM_REASONS = {
    Undefined.CONSTANT_SCORES: Undefined.CONSTANT_MEAN_SCORES,
    Undefined.CONSTANT_RATINGS: Undefined.CONSTANT_MEAN_RATINGS,
}


def level_column(level: str) -> str | None:
    """Return the column by which a level groups data points; None where it does not."""
    return _COLUMNS.get(level)


def correlate_at_level(
    level: str, scores: Floats, ratings: Floats, keys: pd.DataFrame, coefficient: str
) -> Coefficient:
    """Compute a coefficient at a level; see `coefficients.correlate` for the coefficients.

    Args:
        level: one of `LEVELS`.
        scores, ratings: shape (n_points,), paired.
        keys: columns `image_id` and `system` of the points.
        coefficient: a coefficient that `correlate` takes, or `soft_pairwise_accuracy` of systems.

    Returns:
        The coefficient; of `by_image` and `by_system` its mean over the groups in which it is
        defined, without a p-value; the remarks count groups, and those in which it is not defined.
        NaN with a reason where a score is NaN, all scores or all ratings are equal, or no group has
        a value.
    """
    column = level_column(level)
    if column is None:
        return correlate(scores, ratings, coefficient)
    if reason := undefined_reason(scores, ratings):
        return Coefficient.undefined(reason)
    groups = group_indices(keys[column])
    if level == "system":
        return _correlate_systems(scores, ratings, keys, groups, coefficient)
    name = column.removesuffix("_id")
    if coefficient in TIE_COEFFICIENTS:
        return _average_accuracy(scores, ratings, groups, coefficient, name)
    return average_over_groups(scores, ratings, groups, coefficient, name)


def _correlate_systems(
    scores: Floats,
    ratings: Floats,
    keys: pd.DataFrame,
    groups: Sequence[NDArray[np.intp]],
    coefficient: str,
) -> Coefficient:
    """Correlate systems' mean scores with their mean ratings."""
    if len(groups) < 2:
        return Coefficient.undefined(remark(Undefined.ONE_SYSTEM))
    if coefficient in DETECTION_COEFFICIENTS:  # a mean is neither 0 nor 1 but by accident
        return Coefficient.undefined(remark(Undefined.NO_DETECTION))
    if np.isinf(scores).any():
        return Coefficient.undefined(remark(Undefined.INFINITE_SCORE))
    if coefficient == "soft_pairwise_accuracy":
        return soft_pairwise_accuracy(scores, ratings, keys)
    result = correlate(_group_means(scores, groups), _group_means(ratings, groups), coefficient)
    n_systems = remark(Note.SYSTEMS, n_systems=len(groups))
    if result.reason in _SYSTEM_REASONS:
        return Coefficient.undefined(remark(_SYSTEM_REASONS[result.reason]), n_systems)
    return result.with_remarks(n_systems)


def soft_pairwise_accuracy(scores: Floats, ratings: Floats, keys: pd.DataFrame) -> Coefficient:
    """Compare how sure scores and ratings are which of two systems is better.

    One less the mean, over pairs of systems, of |p of ratings - p of scores|, where p is the paired
    permutation test's of "the first is better" (Thompson et al. 2024, equation 3). Draws as in
    mt-metrics-eval; differences that are equal count as such, which its 4-byte sums may miss.

    Args:
        scores, ratings: shape (n_points,), paired, finite.
        keys: columns `image_id` and `system`; an image's points of one system are averaged, and
            images that lack a system are left out and counted.
    """
    cells = pd.DataFrame(
        {"image": keys["image_id"].to_numpy(), "system": keys["system"].to_numpy()}
    ).assign(score=scores, rating=ratings)
    n_images = cells["image"].nunique()
    means = cells.groupby(["image", "system"], sort=False)[["score", "rating"]].mean().unstack()
    # In order of first appearance, which is that of the draws.
    images, systems = cells["image"].unique(), cells["system"].unique()
    means = means.reindex(images).dropna()
    if len(means) < 2:
        return Coefficient.undefined(remark(Undefined.NO_COMMON_IMAGES, n_images=len(means)))
    p_scores, p_ratings = _superiority_p_values(
        *(means[side][systems].to_numpy() for side in ("score", "rating"))
    )
    value = 1 - float(np.abs(p_scores - p_ratings).mean())
    remarks = [remark(Note.PERMUTED_SYSTEMS, n_systems=len(systems), permutations=PERMUTATIONS)]
    if n_left_out := n_images - len(means):
        remarks.append(remark(Note.INCOMPLETE_IMAGES, n_left_out=n_left_out, n_images=n_images))
    return Coefficient(value, remarks=tuple(remarks))


def _superiority_p_values(*tables: Floats) -> list[Floats]:
    """Return the p-values of "the first is better" of each pair of systems, for each table.

    Args:
        tables: of equal shape (n_images, n_systems).
    """
    rng = np.random.default_rng(SEED)
    n_images, n_systems = tables[0].shape
    first, second = np.triu_indices(n_systems, 1)
    counts = [np.zeros(len(first)) for _ in tables]
    for _ in range(PERMUTATIONS // 100):  # 100 at a time: the draws are as those of all at once
        signs = 2 * np.rint(rng.random((100, n_images), dtype=np.float32)).astype(float) - 1
        for count, table in zip(counts, tables, strict=True):
            sums, permuted = table.sum(axis=0), signs @ table
            bound = sums[first] - sums[second] - 1e-9 * np.abs(table).sum() / n_systems
            count += (permuted[:, first] - permuted[:, second] >= bound).sum(axis=0)
    return [count / PERMUTATIONS for count in counts]


def _group_means(values: Floats, groups: Sequence[NDArray[np.intp]]) -> Floats:
    """Return each group's mean, rounded so that equal means are tied, whatever the order of their parts."""
    size = float(np.abs(values).max()) or 1.0  # numbers are divided by it, so that none overflows
    return np.round([math.fsum(values[g] / size) / len(g) for g in groups], 12) * size


def group_indices(keys: pd.Series) -> list[NDArray[np.intp]]:
    """Return the indices of each key's points."""
    codes, unique = pd.factorize(keys)
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.searchsorted(codes[order], np.arange(1, len(unique))))


def average_over_groups(
    scores: Floats,
    ratings: Floats,
    groups: Sequence[NDArray[np.intp]],
    coefficient: str,
    name: str,
) -> Coefficient:
    """Average a coefficient over the groups in which it is defined.

    Args:
        scores, ratings: shape (n_points,), paired.
        groups: indices of the points of each image or system.
        name: the word for a group, for its remarks.
    """
    by_group = [correlate(scores[group], ratings[group], coefficient) for group in groups]
    reasons = Counter(result.reason for result in by_group if not result.is_defined)
    phrases = _count_reasons(reasons)
    if sum(reasons.values()) == len(groups):
        return Coefficient.undefined(
            remark(Undefined.NO_GROUP, n_groups=len(groups), group=name, reasons=phrases)
        )
    mean = float(np.nanmean([result.value for result in by_group]))
    return Coefficient(mean, remarks=_group_remarks(len(groups), reasons, name))


def _average_accuracy(
    scores: Floats,
    ratings: Floats,
    groups: Sequence[NDArray[np.intp]],
    coefficient: str,
    name: str,
) -> Coefficient:
    """Average an accuracy of `TIE_COEFFICIENTS` over the groups of two points or more."""
    parts = [(scores[group], ratings[group]) for group in groups if len(group) > 1]
    if not parts:
        return Coefficient.undefined(remark(Undefined.SMALL_GROUPS, group=name))
    if coefficient == "acc_eq":
        mean = correlate_acc_eq(parts)
    else:
        mean = Coefficient(float(np.mean([count_pairs(x, y).accuracy for x, y in parts])))
    reasons = Counter[Undefined | None]({Undefined.SMALL_GROUP: len(groups) - len(parts)})
    return mean.with_remarks(*_group_remarks(len(groups), reasons, name))


def _group_remarks(
    n_groups: int, reasons: Counter[Undefined | None], name: str
) -> tuple[Remark, ...]:
    """Count the groups that an average is over, and by reason those that it is not."""
    n_undefined = sum(reasons.values())
    mean = remark(Note.MEAN_OVER_GROUPS, n_groups=n_groups - n_undefined, group=name)
    if not n_undefined:
        return (mean,)
    phrases = _count_reasons(reasons)
    return mean, remark(Note.UNDEFINED_GROUPS, n_groups=n_undefined, reasons=phrases)


def _count_reasons(reasons: Counter[Undefined | None]) -> str:
    """Return reasons with their counts, the most frequent first."""
    small = Undefined.TOO_FEW_POINTS, Undefined.SMALL_GROUP
    return ", ".join(
        f"{(Undefined.SMALL_GROUP if reason in small else reason).value} ({count})"
        for reason, count in reasons.most_common()
        if reason and count
    )
