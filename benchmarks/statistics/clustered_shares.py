"""Shares of captions with intervals that count images: captions of an image are alike, and say less than as many of others.

The variance of a share is that of its images' sums (linearised, as of a ratio), and Wilson's interval is taken for the number of
independent captions that would have this variance (Korn and Graubard 1998). `correct_share` corrects the share of bad captions
that a judge finds for its errors (Rogan and Gladen 1978).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtrit

from .preferences import wilson_interval
from .weighted_pairs import Floats, Ints, Mask


@dataclass(frozen=True)
class ClusteredShare:
    """A share of captions.

    Attributes:
        value: the share; NaN of no captions.
        n_items: the number of captions that it is of.
        images: the numbers of the images that have one, ascending, shape (n_images,).
        residuals: of each of these images, how much its captions move the share, shape (n_images,).
    """

    value: float
    n_items: int
    images: Ints
    residuals: Floats

    @classmethod
    def measure(cls, hits: Floats | Mask, image: Ints) -> ClusteredShare:
        """Measure a share.

        Args:
            hits: 1 where a caption counts and 0 where it does not, or a number between, shape (n_items,).
            image: the number of each caption's image, shape (n_items,).
        """
        images, image_index = np.unique(image, return_inverse=True)
        if not len(images):
            return cls(math.nan, 0, images.astype(np.int64), np.zeros(0))

        value = float(np.mean(hits))
        deviations = np.asarray(hits, dtype=np.float64) - value
        sums = np.bincount(image_index, deviations, len(images))
        return cls(value, len(hits), images.astype(np.int64), sums / len(hits))

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

    def interval(self, level: float) -> tuple[float, float]:
        """Return both ends of Wilson's interval; NaN where there is none."""
        if math.isnan(self.effective_n):
            return math.nan, math.nan

        # Few images: Student's t in place of the normal distribution, as a smaller number of captions.
        normal = float(ndtri((1 + level) / 2))
        student = float(stdtrit(self.degrees_of_freedom(), (1 + level) / 2))
        return wilson_interval(self.value, self.effective_n * (normal / student) ** 2, level)


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

    z = float(stdtrit(freedom, (1 + level) / 2))
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
