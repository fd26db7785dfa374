"""A metric that answers on people's scale, measured as one more rater: Cohen's κ, Krippendorff's α and equal answers.

    meeting = meet_metric(table, answers, levels, image_of_item, n_images)
    meeting.values["krippendorff_alpha_ordinal"]            # the metric being one more rater
    meet_people(table, levels, image_of_item, n_images).values["krippendorff_alpha_ordinal"]

All measures are functions of how often two answers meet on an item, counted image by image, so that resampling images
weighs these counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .rating_table import Floats, Ints, RatingTable

KAPPAS = {"cohen_kappa": 0, "cohen_kappa_linear": 1, "cohen_kappa_quadratic": 2}
ALPHAS = ("krippendorff_alpha_nominal", "krippendorff_alpha_ordinal", "krippendorff_alpha_interval")
#: The measures, in the order of the values of `MeetingAnswers.of_sample`.
MEASURES = (*KAPPAS, *ALPHAS, "percent_agreement")
#: A smaller share of disagreement by chance is rounding error: there is no chance to disagree.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class MeetingAnswers:
    """Counts of meetings of two answers, image by image.

    Attributes:
        levels: the answers, ascending, shape (n_levels,).
        crosses: pairs of answers that κ compares, one of either side, shape (n_images, n_levels²).
        coincidences: α's: ordered pairs of an item's answers over the number of its answers less one, shape as `crosses`.
        equal: the sum over an image's items of the share of equal pairs, shape (n_images,).
        n_items: the number of an image's items that have a pair, shape (n_images,).
    """

    levels: Floats
    crosses: Floats
    coincidences: Floats
    equal: Floats
    n_items: Floats

    @property
    def n_images(self) -> int:
        return len(self.n_items)

    @property
    def values(self) -> dict[str, float]:
        """The value of each of `MEASURES`; NaN where it is undefined."""
        column = self.of_sample(np.ones((self.n_images, 1)))[:, 0]
        return dict(zip(MEASURES, column.tolist(), strict=True))

    def of_sample(self, weights: Floats) -> Floats:
        """Return the measures of samples of images, shape (n_measures, n_samples).

        Args:
            weights: how often each image is in a sample, shape (n_images, n_samples).
        """
        n_levels = len(self.levels)
        shape = (n_levels, n_levels, weights.shape[1])
        crosses = (self.crosses.T @ weights).reshape(shape)
        coincidences = (self.coincidences.T @ weights).reshape(shape)

        with np.errstate(invalid="ignore", divide="ignore"):
            rows = [_kappa(crosses, self._distances(power)) for power in KAPPAS.values()]
            rows += _alphas(coincidences, self.levels)
            rows.append((self.equal @ weights) / (self.n_items @ weights))
        return np.stack(rows)

    def _distances(self, power: int) -> Floats:
        """Return the distance of every two levels; with power 0 it is 1 between any two."""
        distances = np.abs(self.levels[:, None] - self.levels)
        return np.where(distances > 0, distances**power, 0.0)


def meet_metric(
    table: RatingTable, answers: Floats, levels: Floats, image_of_item: Ints, n_images: int
) -> MeetingAnswers:
    """Let a metric's answer meet every rating of its item, and be one more rating of it for α.

    Args:
        table: the ratings, an item with one rating or more.
        answers: one an item, each of them a level, shape (table.n_items,).
        levels: all levels, ascending.
        image_of_item: shape (table.n_items,).
        n_images: the number of images.
    """
    answer = np.searchsorted(levels, answers)
    rating = np.searchsorted(levels, table.value)
    answer_to_rating = answer[table.item]
    # The cells of a table of answers by ratings, row by row.
    cells = answer_to_rating * len(levels) + rating
    size = len(levels) ** 2
    crosses = _count(image_of_item[table.item], cells, n_images, size)

    is_equal = (answer_to_rating == rating).astype(np.float64)
    n_equal = np.bincount(table.item, weights=is_equal, minlength=table.n_items)
    shares = n_equal / table.count

    everyone = _level_counts(table, rating, len(levels))
    everyone[np.arange(table.n_items), answer] += 1
    return MeetingAnswers(
        levels=levels,
        crosses=crosses,
        coincidences=_coincidences(everyone, image_of_item, n_images),
        equal=np.bincount(image_of_item, shares, minlength=n_images).astype(np.float64),
        n_items=np.bincount(image_of_item, minlength=n_images).astype(np.float64),
    )


def meet_people(
    table: RatingTable, levels: Floats, image_of_item: Ints, n_images: int
) -> MeetingAnswers:
    """Let each rating meet each other rating of its item, in both orders; see `meet_metric`.

    Args:
        table: the ratings; items with a single one have no pair and do not count.
        levels, image_of_item, n_images: as in `meet_metric`.
    """
    counts = _level_counts(table, np.searchsorted(levels, table.value), len(levels))
    has_pair = table.count > 1
    counts = counts[has_pair]
    image = image_of_item[has_pair]
    n_ratings = table.count[has_pair]

    size = len(levels) ** 2
    crosses = np.zeros((n_images, size))
    np.add.at(crosses, image, _ordered_pairs(counts).reshape(len(counts), size))
    n_equal = (counts * (counts - 1)).sum(axis=1)
    shares = n_equal / (n_ratings * (n_ratings - 1.0))
    return MeetingAnswers(
        levels=levels,
        crosses=crosses,
        coincidences=_coincidences(counts, image, n_images),
        equal=np.bincount(image, shares, minlength=n_images).astype(np.float64),
        n_items=np.bincount(image, minlength=n_images).astype(np.float64),
    )


def _count(image: Ints, cell: Ints, n_images: int, size: int) -> Floats:
    """Count cells image by image, shape (n_images, size)."""
    counts = np.bincount(image * size + cell, minlength=n_images * size)
    return counts.reshape(n_images, size).astype(np.float64)


def _level_counts(table: RatingTable, rating: Ints, n_levels: int) -> Floats:
    """Count the ratings of each item at each level, shape (n_items, n_levels)."""
    return _count(table.item, rating, table.n_items, n_levels)


def _ordered_pairs(counts: Floats) -> Floats:
    """Count the ordered pairs of an item's answers, shape (n_items, n_levels, n_levels)."""
    pairs = counts[:, :, None] * counts[:, None, :]
    # No answer is a pair with itself.
    diagonal = np.arange(counts.shape[1])
    pairs[:, diagonal, diagonal] -= counts
    return pairs


def _coincidences(counts: Floats, image: Ints, n_images: int) -> Floats:
    """Sum α's coincidences of items image by image, shape (n_images, n_levels²); each item has two answers at least."""
    size = counts.shape[1] ** 2
    shares = _ordered_pairs(counts) / (counts.sum(axis=1) - 1)[:, None, None]
    sums = np.zeros((n_images, size))
    np.add.at(sums, image, shares.reshape(len(counts), size))
    return sums


def _kappa(crosses: Floats, distances: Floats) -> Floats:
    """Return 1 - observed / expected distance of samples; NaN where one side gives a single answer.

    Args:
        crosses: shape (n_levels, n_levels, n_samples).
        distances: shape (n_levels, n_levels).
    """
    n = crosses.sum(axis=(0, 1))
    rows = crosses.sum(axis=1) / n
    columns = crosses.sum(axis=0) / n
    # k and l are the levels of either side, s is the sample.
    observed = np.einsum("kls,kl->s", crosses, distances) / n
    expected = np.einsum("ks,ls,kl->s", rows, columns, distances)

    # A side that gives a single answer has its whole share at one level.
    rows_vary = rows.max(axis=0) < 1 - _ROUNDING
    columns_vary = columns.max(axis=0) < 1 - _ROUNDING
    return np.where(rows_vary & columns_vary, 1 - observed / expected, np.nan)


def _alphas(coincidences: Floats, levels: Floats) -> list[Floats]:
    """Return nominal, ordinal and interval α of samples; NaN where all answers are equal.

    Args:
        coincidences: shape (n_levels, n_levels, n_samples).
        levels: shape (n_levels,).
    """
    totals = coincidences.sum(axis=1)
    n = totals.sum(axis=0)
    varies = totals.max(axis=0) < n * (1 - _ROUNDING)

    # The ordinal difference of two levels is that of their mid-ranks (Krippendorff 2011).
    ranks = np.cumsum(totals, axis=0) - totals / 2
    ordinal = (ranks[:, None] - ranks) ** 2
    # The interval difference is the same in each sample.
    squares_of_levels = (levels[:, None] - levels) ** 2
    interval = np.broadcast_to(squares_of_levels[:, :, None], ordinal.shape)
    nominal = np.where(interval > 0, 1.0, 0.0)

    alphas: list[Floats] = []
    for squares in (nominal, ordinal, interval):
        observed = (coincidences * squares).sum(axis=(0, 1)) / n
        products = totals[:, None] * totals
        expected = (products * squares).sum(axis=(0, 1)) / (n * (n - 1))
        alphas.append(np.where(varies, 1 - observed / expected, np.nan))
    return alphas
