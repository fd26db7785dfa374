"""Correlation at a level: pooled, within each image or system and averaged, or between systems' means.

`evaluation` calls `correlate_at_level`, and `panels` and `intervals` call `prepare_at_level`: with weights of one it
gives the same values, and its replicates are those of samples of images. The levels are those of mt-metrics-eval:
`pooled` is its average_by=none, `by_image` item, `by_system` sys, and `system` its system level. Groups without a
value are left out of the average and counted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .coefficients.coefficient import (
    Coefficient,
    CoefficientValue,
    DifferenceCoefficient,
    RatingCoefficient,
    SystemCoefficient,
    TieCoefficient,
    correlate,
    find_coefficient,
    undefined_reason,
)
from .rated_points import RatedPoints, SystemMeans
from .remarks import Note, Remark, Undefined, remark
from .weighted_pairs import Floats, Ints, Statistic, check_weights

LEVELS = ("pooled", "by_image", "by_system", "system")
_COLUMNS = {"by_image": "image_id", "by_system": "system", "system": "system"}

#: The reasons between systems' means, by those between points.
_SYSTEM_REASONS = {
    Undefined.CONSTANT_SCORES: Undefined.CONSTANT_MEAN_SCORES,
    Undefined.CONSTANT_RATINGS: Undefined.CONSTANT_MEAN_RATINGS,
}


def level_column(level: str) -> str | None:
    """Return the column by which a level groups data points; None where it does not."""
    return _COLUMNS.get(level)


def group_indices(keys: pd.Series) -> list[NDArray[np.intp]]:
    """Return the indices of each key's points."""
    codes, unique = pd.factorize(keys)
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.searchsorted(codes[order], np.arange(1, len(unique))))


def correlate_at_level(
    level: str, scores: Floats, ratings: Floats, keys: pd.DataFrame, coefficient: str
) -> CoefficientValue:
    """Compute a coefficient at a level.

    Args:
        level: one of `LEVELS`.
        scores, ratings: shape (n_points,), paired.
        keys: columns `image_id` and `system` of the points.
        coefficient: the name of a coefficient of ratings, or of systems.

    Returns:
        The coefficient; of `by_image` and `by_system` its mean over the groups in which it is
        defined (a `DifferenceCoefficient`: that of their pairs together), without a p-value; the
        remarks count groups, and those in which it is not defined.
        NaN with a reason where a score is NaN, all scores or all ratings are equal, or no group has
        a value.
    """
    column = level_column(level)
    if column is None:
        return correlate(scores, ratings, coefficient)
    # Of all points, before groups: one NaN would leave every mean undefined.
    if reason := undefined_reason(scores, ratings):
        return CoefficientValue.undefined(reason)

    coefficient_object = find_coefficient(coefficient)
    groups = group_indices(keys[column])
    if level == "system" and len(groups) < 2:
        return CoefficientValue.undefined(remark(Undefined.ONE_SYSTEM))
    if isinstance(coefficient_object, RatingCoefficient):
        level_reason = coefficient_object.level_reason(level)
        if level_reason is not None:
            return CoefficientValue.undefined(remark(level_reason))
    if level == "system":
        return _correlate_systems(scores, ratings, keys, groups, coefficient_object)
    name = column.removesuffix("_id")
    if isinstance(coefficient_object, TieCoefficient):
        return _average_with_ties(scores, ratings, groups, coefficient_object, name)
    if isinstance(coefficient_object, DifferenceCoefficient):
        return _join_pairs(scores, ratings, groups, coefficient_object, name)
    return average_over_groups(scores, ratings, groups, coefficient, name)


def _correlate_systems(
    scores: Floats,
    ratings: Floats,
    keys: pd.DataFrame,
    groups: Sequence[NDArray[np.intp]],
    coefficient: Coefficient,
) -> CoefficientValue:
    """Correlate systems' mean scores with their mean ratings."""
    if np.isinf(scores).any():
        return CoefficientValue.undefined(remark(Undefined.INFINITE_SCORE))
    if isinstance(coefficient, SystemCoefficient):
        return coefficient.value(scores, ratings, keys)

    # A coefficient of ratings sees systems as points: their mean scores and mean ratings.
    mean_scores = _group_means(scores, groups)
    mean_ratings = _group_means(ratings, groups)
    result = correlate(mean_scores, mean_ratings, coefficient.name)
    n_systems = remark(Note.SYSTEMS, n_systems=len(groups))
    if result.reason in _SYSTEM_REASONS:
        return CoefficientValue.undefined(remark(_SYSTEM_REASONS[result.reason]), n_systems)
    return result.with_remarks(n_systems)


def _group_means(values: Floats, groups: Sequence[NDArray[np.intp]]) -> Floats:
    """Return each group's mean, rounded so that equal means are tied, whatever the order of their parts."""
    size = float(np.abs(values).max()) or 1.0  # numbers are divided by it, so that none overflows
    return np.round([math.fsum(values[g] / size) / len(g) for g in groups], 12) * size


def average_over_groups(
    scores: Floats,
    ratings: Floats,
    groups: Sequence[NDArray[np.intp]],
    coefficient: str,
    name: str,
) -> CoefficientValue:
    """Average a coefficient over the groups in which it is defined.

    Args:
        scores, ratings: shape (n_points,), paired.
        groups: indices of the points of each image or system.
        name: the word for a group, for its remarks.
    """
    # Groups count alike, however many points they have, as in the papers that average over images.
    by_group = [correlate(scores[group], ratings[group], coefficient) for group in groups]
    undefined = [result for result in by_group if not result.is_defined]
    reasons = Counter(result.reason for result in undefined)
    phrases = _count_reasons(reasons)

    if sum(reasons.values()) == len(groups):
        return CoefficientValue.undefined(
            remark(Undefined.NO_GROUP, n_groups=len(groups), group=name, reasons=phrases)
        )
    # Undefined groups are left out of the mean, and counted in the remarks.
    mean = float(np.nanmean([result.value for result in by_group]))
    return CoefficientValue(mean, remarks=_group_remarks(len(groups), reasons, name))


def _average_with_ties(
    scores: Floats,
    ratings: Floats,
    groups: Sequence[NDArray[np.intp]],
    coefficient: TieCoefficient,
    name: str,
) -> CoefficientValue:
    """Average a coefficient that counts ties over the groups of two points or more."""
    parts = _split_groups_of_pairs(scores, ratings, groups)
    if not parts:
        return CoefficientValue.undefined(remark(Undefined.SMALL_GROUPS, group=name))
    reasons = Counter[Undefined | None]({Undefined.SMALL_GROUP: len(groups) - len(parts)})
    remarks = _group_remarks(len(groups), reasons, name)
    return coefficient.measure_groups(parts).with_remarks(*remarks)


def _split_groups_of_pairs(
    scores: Floats, ratings: Floats, groups: Sequence[NDArray[np.intp]]
) -> list[RatedPoints]:
    """Return the points of each group that has a pair: two points or more."""
    parts: list[RatedPoints] = []
    for group in groups:
        if len(group) > 1:
            parts.append(RatedPoints.unweighted(scores[group], ratings[group]))
    return parts


def _join_pairs(
    scores: Floats,
    ratings: Floats,
    groups: Sequence[NDArray[np.intp]],
    coefficient: DifferenceCoefficient,
    name: str,
) -> CoefficientValue:
    """Return a coefficient of differences over the pairs of all groups together."""
    if np.isinf(scores).any():
        return CoefficientValue.undefined(remark(Undefined.INFINITE_SCORE))
    parts = _split_groups_of_pairs(scores, ratings, groups)
    if not parts:
        return CoefficientValue.undefined(remark(Undefined.SMALL_GROUPS, group=name))

    sums: list[Floats] = []
    for compute_sums, part in zip(coefficient.prepare_sums(parts), parts, strict=True):
        sums.append(compute_sums(part.sample))
    value = float(coefficient.of_sums(np.sum(sums, axis=0))[0])
    if math.isnan(value):
        return CoefficientValue.undefined(remark(Undefined.NO_DIFFERENCES, group=name))

    remarks = [remark(Note.PAIRS_WITHIN_GROUPS, n_groups=len(parts), group=name)]
    # A group of one point has no pair, and so no part in the value.
    n_small = len(groups) - len(parts)
    if n_small:
        phrases = _count_reasons(Counter({Undefined.SMALL_GROUP: n_small}))
        remarks.append(remark(Note.UNDEFINED_GROUPS, n_groups=n_small, reasons=phrases))
    return CoefficientValue(value, remarks=tuple(remarks))


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
    phrases: list[str] = []
    for reason, count in reasons.most_common():
        if not reason or not count:
            continue
        # Of a group it is no matter how many points there are.
        if reason == Undefined.TOO_FEW_POINTS:
            reason = Undefined.SMALL_GROUP
        phrases.append(f"{reason.value} ({count})")
    return ", ".join(phrases)


def prepare_at_level(
    level: str,
    scores: Floats,
    ratings: Floats,
    keys: pd.DataFrame,
    coefficients: Sequence[str],
    unit: Ints,
) -> Statistic:
    """Return coefficients at a level as a statistic of their images' weights.

    At level `by_image` an image that is drawn twice counts twice in the average.

    Args:
        level, scores, ratings, keys: as in `correlate_at_level`; scores without NaN.
        coefficients: the names of coefficients; a value each, in their order. One of systems is NaN in samples in
            which an image stands twice, and at other levels than `system`.
        unit: the number of each point's image, shape (n_points,).

    Raises:
        ValueError: on unequal lengths or NaN.
    """
    coefficient_objects = [find_coefficient(name) for name in coefficients]
    points = RatedPoints(scores, ratings, unit)
    if not len(scores):
        # All scores of a metric may be undefined, and left out.
        return lambda weights: np.full((len(coefficients), weights.shape[1]), np.nan)

    # Most coefficients share their work; each of the others, by its row, has a statistic of its own.
    shared: dict[int, RatingCoefficient] = {}
    separate: dict[int, Statistic] = {}
    for row, coefficient in enumerate(coefficient_objects):
        if isinstance(coefficient, SystemCoefficient):
            if level == "system" and points.is_finite:
                separate[row] = _without_repeats(coefficient.prepare(points, keys))
        elif isinstance(coefficient, DifferenceCoefficient) and level in ("by_image", "by_system"):
            if points.is_finite:
                separate[row] = _prepare_joined_pairs(level, points, keys, coefficient)
        elif isinstance(coefficient, RatingCoefficient) and not coefficient.level_reason(level):
            shared[row] = coefficient
    statistic = _prepare(level, points, keys, list(shared.values()))

    def with_separate(weights: Floats) -> Floats:
        values = np.full((len(coefficient_objects), weights.shape[1]), np.nan)
        values[list(shared)] = statistic(weights)
        for row, of_sample in separate.items():
            values[row] = of_sample(weights)
        return values

    return statistic if len(shared) == len(coefficient_objects) else with_separate


def _without_repeats(statistic: Statistic) -> Statistic:
    """Return a statistic that is NaN of all samples where an image stands twice in one of them.

    Of resamples, those that happen to repeat no image would be no fair selection.
    """

    def of_samples(weights: Floats) -> Floats:
        if not np.isin(weights, (0, 1)).all():
            return np.full(weights.shape[1], np.nan)
        return statistic(weights)

    return of_samples


def _prepare_joined_pairs(
    level: str, points: RatedPoints, keys: pd.DataFrame, coefficient: DifferenceCoefficient
) -> Statistic:
    """Return a coefficient of differences over the pairs of all groups, shape (n_replicates,).

    The pairs of an image that is drawn twice count twice.
    """
    groups = _split_points(points, group_indices(keys[_COLUMNS[level]]))
    if level == "by_image" and _are_of_one_unit(groups):
        # Each image's sums are computed once, as its weight only multiplies them.
        images = [RatedPoints.unweighted(group.scores, group.ratings) for group in groups]
        by_image: list[Floats] = []
        for compute_sums, image in zip(coefficient.prepare_sums(images), images, strict=True):
            by_image.append(compute_sums(image.sample)[:, 0])
        sums_by_image = np.stack(by_image)
        units = np.array([group.unit[0] for group in groups])

        def of_images(weights: Floats) -> Floats:
            checked = check_weights(weights, int(units.max(initial=-1)) + 1)[units]
            return coefficient.of_sums(np.einsum("gs,gb->sb", sums_by_image, checked))

        return of_images

    prepared = coefficient.prepare_sums(groups)

    def of_groups(weights: Floats) -> Floats:
        by_group: list[Floats] = []
        for compute_sums, group in zip(prepared, groups, strict=True):
            by_group.append(compute_sums(group.weigh(weights)))
        return coefficient.of_sums(np.sum(by_group, axis=0))

    return of_groups


def _prepare(
    level: str, points: RatedPoints, keys: pd.DataFrame, coefficients: Sequence[RatingCoefficient]
) -> Statistic:
    column = level_column(level)
    if column is None or not coefficients:
        return _prepare_pooled(points, coefficients)
    indices = group_indices(keys[column])
    if level == "system":
        return _prepare_systems(points, indices, coefficients)
    groups = _split_points(points, indices)
    if level == "by_image" and _are_of_one_unit(groups):
        return _prepare_images(groups, coefficients)
    return _prepare_groups(groups, coefficients)


def _split_points(points: RatedPoints, indices: Sequence[NDArray[np.intp]]) -> list[RatedPoints]:
    """Return the points of each group."""
    return [RatedPoints(points.scores[g], points.ratings[g], points.unit[g]) for g in indices]


def _are_of_one_unit(groups: Sequence[RatedPoints]) -> bool:
    """Say whether the points of each group share their weight.

    Points with weights of their own, as in a permutation test, change an image's value too.
    """
    return all((group.unit == group.unit[0]).all() for group in groups)


def _prepare_pooled(points: RatedPoints, coefficients: Sequence[RatingCoefficient]) -> Statistic:
    """Return coefficients of all points together."""
    prepared = [coefficient.prepare(points) for coefficient in coefficients]

    def statistic(weights: Floats) -> Floats:
        sample = points.weigh(weights)
        values = [compute(sample) for compute in prepared]
        return np.array(values).reshape(len(prepared), weights.shape[1])

    return statistic


def _prepare_groups(
    groups: Sequence[RatedPoints], coefficients: Sequence[RatingCoefficient]
) -> Statistic:
    """Return the mean over groups of points, each of which is evaluated anew."""
    prepared = [coefficient.prepare_groups(groups) for coefficient in coefficients]

    def statistic(weights: Floats) -> Floats:
        by_group: list[Floats] = []
        for index, group in enumerate(groups):
            sample = group.weigh(weights)
            values_of_group = [of_groups[index](sample) for of_groups in prepared]
            by_group.append(np.stack(values_of_group))
        values = np.stack(by_group)
        defined = ~np.isnan(values)
        with np.errstate(all="ignore"):
            return np.where(defined, values, 0).sum(axis=0) / defined.sum(axis=0)

    return statistic


def _prepare_images(
    groups: Sequence[RatedPoints], coefficients: Sequence[RatingCoefficient]
) -> Statistic:
    """Return the mean over images: an image's value does not change with its weight, its share does."""
    images = [RatedPoints.unweighted(group.scores, group.ratings) for group in groups]
    values = np.array([coefficient.group_values(images) for coefficient in coefficients])
    units = np.array([group.unit[0] for group in groups])
    defined = ~np.isnan(values)

    def statistic(weights: Floats) -> Floats:
        checked = check_weights(weights, int(units.max(initial=-1)) + 1)[units]
        with np.errstate(all="ignore"):
            return (np.where(defined, values, 0) @ checked) / (defined @ checked)

    return statistic


def _prepare_systems(
    points: RatedPoints,
    groups: Sequence[NDArray[np.intp]],
    coefficients: Sequence[RatingCoefficient],
) -> Statistic:
    """Return coefficients of systems' means over the images that are drawn."""
    n_units = int(points.unit.max(initial=-1)) + 1
    sums: list[Floats] = []
    for column in (points.scores, points.ratings, np.ones(len(points.scores))):
        by_system = [np.bincount(points.unit[g], column[g], n_units) for g in groups]
        sums.append(np.stack(by_system).astype(np.float64))

    def statistic(weights: Floats) -> Floats:
        checked = check_weights(weights, n_units)
        with np.errstate(all="ignore"):
            # An infinite score times 0, the weight of an image that is not drawn, is NaN.
            total_x, total_y, count = (part @ checked for part in sums)
            means = SystemMeans(_round_means(total_x / count), _round_means(total_y / count))
        undefined = ~np.isfinite(means.x).all(axis=0) | means.pairs.is_constant
        values = np.stack([coefficient.of_means(means) for coefficient in coefficients])
        return np.where(undefined, np.nan, values)

    return statistic


def _round_means(means: Floats) -> Floats:
    """Round systems' means as `_group_means` does, so that equal ones are tied."""
    size = np.maximum(np.abs(means).max(axis=0, initial=0), np.finfo(float).tiny)
    return np.round(means / size, 12) * size
