"""Shares of captions with intervals that count images: captions of an image are alike, and say less than as many of others.

The variance of a share is that of its images' sums (linearised, as of a ratio), and Wilson's interval is taken for the number of
independent captions that would have this variance (Korn and Graubard 1998). `correct_share` corrects the share of bad captions
that a judge finds for its errors (Rogan and Gladen 1978).

A judge's few errors say little of how alike the captions of an image are: five errors on five images look independent, by luck
as well as by nature. The design effect, by which the number of captions is divided, is therefore drawn towards that of images
of one mind, as if `IMAGES_OF_ONE_MIND` images had shown it, and hardly so where many images say otherwise.
`scripts/checks/simulate_judges.py` has the coverage with and without this, and that of Clopper and Pearson's interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .distributions import normal_quantile, student_quantile
from .preferences import wilson_interval
from .weighted_pairs import Floats, Ints, Mask

#: The number of images of one mind that the design effect of a share is drawn towards; chosen by simulation.
IMAGES_OF_ONE_MIND = 2


@dataclass(frozen=True)
class ClusteredShare:
    """A share of captions.

    Attributes:
        value: the share; NaN of no captions.
        n_items: the number of captions that it is of.
        images: the numbers of the images that have one, ascending, shape (n_images,).
        sizes: how many captions of each of these images are counted, shape (n_images,).
        residuals: of each of these images, how much its captions move the share, shape (n_images,).
    """

    value: float
    n_items: int
    images: Ints
    sizes: Ints
    residuals: Floats

    @classmethod
    def measure(cls, hits: Floats | Mask, image: Ints) -> ClusteredShare:
        """Measure a share.

        Args:
            hits: 1 where a caption counts and 0 where it does not, or a number between, shape (n_items,).
            image: the number of each caption's image, shape (n_items,).
        """
        images, image_index, sizes = np.unique(image, return_inverse=True, return_counts=True)
        if not len(images):
            return cls(math.nan, 0, images.astype(np.int64), sizes, np.zeros(0))

        value = float(np.mean(hits))
        deviations = np.asarray(hits, dtype=np.float64) - value
        sums = np.bincount(image_index, deviations, len(images))
        return cls(value, len(hits), images.astype(np.int64), sizes, sums / len(hits))

    @property
    def n_images(self) -> int:
        """The number of images."""
        return len(self.images)

    @property
    def effective_n(self) -> float:
        """The number of independent captions whose share would have the same variance; NaN of fewer than two images.

        It is at most the number of captions. Where all captions or none count, the variance says nothing, and each image
        counts as one.
        """
        if self.n_images < 2:
            return math.nan

        spread = self.value * (1 - self.value)
        variance = self.n_images / (self.n_images - 1) * float(self.residuals @ self.residuals)
        if spread <= 0 or variance <= 0:
            return float(self.n_images)

        return min(spread / variance, float(self.n_items))

    def degrees_of_freedom(self) -> int:
        """Return the number of images less one."""
        return self.n_images - 1

    @property
    def cautious_n(self) -> float:
        """`effective_n` with its design effect drawn towards that of images of one mind; NaN of fewer than two images."""
        if math.isnan(self.effective_n):
            return math.nan

        design_effect = self.n_items / self.effective_n
        # Where all captions of an image share one fate, a caption counts for one over the size of its image.
        of_one_mind = float((self.sizes.astype(np.float64) ** 2).sum()) / self.n_items
        of_one_mind = max(of_one_mind, design_effect)

        # The images that the variance rests on: few where a few of them have all the errors.
        squares = self.residuals**2
        n_telling = 0.0
        if squares.any():
            n_telling = float(squares.sum() ** 2 / (squares**2).sum())

        total = n_telling * design_effect + IMAGES_OF_ONE_MIND * of_one_mind
        return self.n_items * (n_telling + IMAGES_OF_ONE_MIND) / total

    def interval(self, level: float) -> tuple[float, float]:
        """Return both ends of Wilson's interval for `cautious_n` captions; NaN where there is none."""
        if math.isnan(self.effective_n):
            return math.nan, math.nan

        # Few images: Student's t in place of the normal distribution, as a smaller number of captions.
        upper = (1 + level) / 2
        ratio = normal_quantile(upper) / student_quantile(upper, self.degrees_of_freedom())
        return wilson_interval(self.value, self.cautious_n * ratio**2, level)


@dataclass(frozen=True)
class CorrectedShare:
    """The share of bad captions behind what a judge says.

    Attributes:
        value: from 0 to 1; NaN where the judge's answers have nothing to do with good and bad.
        unclipped: the same before it was clipped to 0 and 1.
        low, high: the interval, from 0 to 1.
        is_open: whether the judge's errors are too many, or known too little, to say anything; the interval is 0 to 1.
    """

    value: float
    unclipped: float
    low: float
    high: float
    is_open: bool

    @property
    def is_clipped(self) -> bool:
        """Tell whether the corrected share was outside of 0 and 1."""
        return self.value != self.unclipped and not math.isnan(self.unclipped)


def correct_share(
    said_bad: ClusteredShare,
    bad_said_bad: ClusteredShare,
    good_said_bad: ClusteredShare,
    level: float,
) -> CorrectedShare:
    """Correct the share of captions that a judge calls bad for its errors (Rogan and Gladen 1978).

    With q of all captions called bad, t of the bad ones and f of the good ones, the share θ of bad captions is
    (q - f) / (t - f). Its interval holds every θ for which q - θ t - (1 - θ) f differs from 0 by no more than chance
    (Fieller 1954). Shares are drawn a little towards one half before that, as Lang and Reiczigel (2014) do, since
    judges that were never seen to err do err.

    Args:
        said_bad: the share called bad among the captions whose share of bad ones is sought.
        bad_said_bad, good_said_bad: the same among bad and good captions that people judged, of the same images.
        level: of the interval.
    """
    slope = bad_said_bad.value - good_said_bad.value
    unclipped = (said_bad.value - good_said_bad.value) / slope if slope > 0 else math.nan
    value = min(max(unclipped, 0.0), 1.0) if slope > 0 else math.nan

    shares = (said_bad, bad_said_bad, good_said_bad)
    freedom = min(share.degrees_of_freedom() for share in shares)
    if freedom < 1:
        return CorrectedShare(value, unclipped, 0.0, 1.0, is_open=True)

    z = student_quantile((1 + level) / 2, freedom)
    q, variance_q = _draw_to_half(said_bad, z**2)
    t, variance_t = _draw_to_half(bad_said_bad, 2.0)
    f, variance_f = _draw_to_half(good_said_bad, 2.0)
    covariance = _covariance(bad_said_bad, good_said_bad, math.sqrt(variance_t * variance_f))

    # (q - f - θ (t - f))² ≤ z² (V(q) + θ² V(t) + (1 - θ)² V(f) + 2 θ (1 - θ) C(t, f)), as a quadratic in θ.
    square = (t - f) ** 2 - z**2 * (variance_t + variance_f - 2 * covariance)
    linear = (q - f) * (t - f) + z**2 * (covariance - variance_f)
    constant = (q - f) ** 2 - z**2 * (variance_q + variance_f)
    if square <= 0 or slope <= 0:
        return CorrectedShare(value, unclipped, 0.0, 1.0, is_open=True)

    reach = math.sqrt(max(0.0, linear**2 - square * constant))
    low = min(max((linear - reach) / square, 0.0), 1.0)
    high = min(max((linear + reach) / square, 0.0), 1.0)
    return CorrectedShare(value, unclipped, min(low, value), max(high, value), is_open=False)


def _draw_to_half(share: ClusteredShare, n_added: float) -> tuple[float, float]:
    """Return a share with so many captions added, of which half count, and its variance."""
    n = share.effective_n
    drawn = (n * share.value + n_added / 2) / (n + n_added)
    return drawn, drawn * (1 - drawn) / (n + n_added)


def _covariance(
    first_share: ClusteredShare, second_share: ClusteredShare, max_size: float
) -> float:
    """Return the covariance of two shares of captions of the same images, of no more than `max_size`."""
    common, first_index, second_index = np.intersect1d(
        first_share.images, second_share.images, return_indices=True
    )
    if len(common) < 2:
        return 0.0

    n_images = len(np.union1d(first_share.images, second_share.images))
    product = float(first_share.residuals[first_index] @ second_share.residuals[second_index])
    covariance = n_images / (n_images - 1) * product
    # No covariance is greater than the root of both variances, which were drawn to one half.
    return min(max(covariance, -max_size), max_size)
