"""The choice of images to have rated next, and of how many: strata, their shares of the ratings, and sizes of samples.

Images are drawn at random within strata, so that each image's probability is known and any choice can be weighed back
(`prediction_powered`). Of one stratum this is plain random choice. With `stratified`, strata are of like scores and get
their share of the ratings, which takes the scores' share out of the error. With `guided`, strata are those in which metrics
disagree little or much, and where a pilot's errors or the disagreement are larger, more is rated (Neyman 1934; Zrnic and
Candès 2024, Active statistical inference).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .distributions import mid_ranks, student_quantile
from .weighted_pairs import Floats, Ints, Mask

#: The ways to choose images.
CHOICES = ("random", "stratified", "guided")
#: The most strata, and the least images that are to be rated in each.
STRATA = 5
RATED_IN_STRATUM = 10
#: A stratum gets at least this share of what it would get by its size alone.
LEAST_SHARE = 0.5
#: The ratings by which a stratum's own error is drawn towards that of all.
SHRINKAGE = 10.0
#: A difference of so many standard errors is found at any power, and the noncentral t overflows far beyond it.
CERTAIN = 30.0


def stratify(values: Floats, n_rated: int) -> Ints:
    """Return the stratum of each image by its value, as many images in each.

    Args:
        values: shape (n_images,); equal ones may fall into two strata.
        n_rated: the images that are to be rated; a stratum has `RATED_IN_STRATUM` of them or more.
    """
    n_strata = max(1, min(STRATA, n_rated // RATED_IN_STRATUM))
    # Of equal values the first has the lower place.
    places = np.empty(len(values), dtype=np.int64)
    places[np.argsort(values, kind="stable")] = np.arange(len(values))
    return (places * n_strata // len(values)).astype(np.int64)


def normal_scores(scores: Floats) -> Floats:
    """Return each metric's ranks as normal quantiles, shape (n_images, n_metrics), so that metrics compare."""
    from scipy.special import ndtri

    shares = (mid_ranks(scores) - 0.5) / len(scores)
    return np.asarray(ndtri(shares), dtype=np.float64)


def measure_errors(strata: Ints, rated: Ints, residuals: Floats) -> Floats:
    """Return each stratum's error in a pilot, drawn towards that of all where the pilot has few of its images.

    Args:
        strata: of each image, shape (n_images,).
        rated: the pilot's images, shape (n_rated,).
        residuals: what metrics leave unexplained of their ratings, shape (n_rated,).
    """
    n_strata = int(strata.max()) + 1
    counts = np.bincount(strata[rated], minlength=n_strata)
    squares = np.bincount(strata[rated], weights=residuals**2, minlength=n_strata)
    overall = float(np.mean(residuals**2))
    return np.sqrt((squares + SHRINKAGE * overall) / (counts + SHRINKAGE))


def allocate(strata: Ints, errors: Floats, n_rated: int, least: Ints) -> Ints:
    """Return how many images of each stratum are rated: in proportion to its size and error.

    Args:
        strata: of each image, shape (n_images,).
        errors: of each stratum, shape (n_strata,).
        n_rated: the images in all.
        least: those of each stratum that are rated already.
    """
    sizes = np.bincount(strata, minlength=len(errors)).astype(np.float64)
    if not errors.any():
        errors = np.ones(len(errors))
    shares = sizes * errors / (sizes @ errors)
    # A wrong guess of the errors may cost only so much.
    shares = np.maximum(shares, LEAST_SHARE * sizes / sizes.sum())
    shares = shares / shares.sum()

    counts = np.maximum(np.floor(shares * n_rated).astype(np.int64), least)
    counts = np.minimum(np.maximum(counts, 2), sizes.astype(np.int64))
    while counts.sum() < min(n_rated, int(sizes.sum())):
        # The stratum that is farthest below its share gets the next one.
        lacks = np.where(counts < sizes, shares * n_rated - counts, -np.inf)
        counts[int(np.argmax(lacks))] += 1

    return counts


def draw(strata: Ints, counts: Ints, is_rated: Mask, seed: int) -> Ints:
    """Draw images of each stratum at random, beside those that are rated already.

    Args:
        strata: of each image, shape (n_images,).
        counts: the images of each stratum, shape (n_strata,), those that are rated already among them.
        is_rated: whether each image is rated already, drawn at random as well.
        seed: of the draw.

    Returns:
        the new images in a random order.
    """
    rng = np.random.default_rng(seed)
    drawn: list[Ints] = []
    for stratum, count in enumerate(counts):
        is_inside = strata == stratum
        n_new = max(0, int(count) - int((is_inside & is_rated).sum()))
        drawn.append(rng.permutation(np.flatnonzero(is_inside & ~is_rated))[:n_new])

    return rng.permutation(np.concatenate(drawn))


def error_of(n_rated: int, *, residual: float, ratings: float, n_captions: int) -> float:
    """Return the standard error of a mean of n rated captions among N.

    Args:
        n_rated: n.
        residual: the variance of what metrics leave unexplained of a rating.
        ratings: the variance of ratings; 0 where the interval speaks of the given captions alone.
        n_captions: N.
    """
    return float(
        np.sqrt(max(0.0, residual * (1 / n_rated - 1 / n_captions)) + ratings / n_captions)
    )


def captions_for_width(
    error: Callable[[int], float], width: float, level: float, n_captions: int
) -> int | None:
    """Return the least number of rated captions whose interval is no wider; None where no number is enough.

    Args:
        error: the standard error by the number of rated captions.
        width: from the interval's low end to its high end.
        level: of the interval.
        n_captions: all captions.
    """

    def is_enough(n: int) -> bool:
        quantile = student_quantile(0.5 + level / 2, max(1, n - 2))
        return 2 * quantile * error(n) <= width

    return _least(is_enough, n_captions)


def captions_for_difference(
    error: Callable[[int], float], difference: float, power: float, level: float, n_captions: int
) -> int | None:
    """Return the least number of rated images that show a difference; None where no number is enough.

    Args:
        error: the standard error of the difference by the number of rated images.
        difference: the true one.
        power: the probability with which its interval is to be without 0.
        level: of the interval.
        n_captions: all images.
    """
    from scipy.stats import nct

    def is_enough(n: int) -> bool:
        if not error(n):
            return True
        freedom = max(1, n - 2)
        quantile = student_quantile(0.5 + level / 2, freedom)
        shift = difference / error(n)
        if shift > CERTAIN:
            return True
        return float(nct.sf(quantile, freedom, shift)) >= power

    return _least(is_enough, n_captions)


def _least(is_enough: Callable[[int], bool], max_number: int) -> int | None:
    """Return the least number from 3 on that is enough, where all above are as well."""
    if not is_enough(max_number):
        return None

    low = 3
    high = max_number
    while low < high:
        middle = (low + high) // 2
        if is_enough(middle):
            high = middle
        else:
            low = middle + 1
    return low
