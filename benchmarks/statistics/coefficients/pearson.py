"""Pearson's r, and Spearman's ρ, which is r of mid-ranks.

The value of a sample and its p-value are those of SciPy but for the last bits, and so are those of weighted samples.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..bootstrap import MIN_IMAGES
from ..distributions import mid_ranks
from ..rated_points import RatedPoints, SystemMeans
from ..remarks import Undefined, remark
from ..weighted_pairs import Floats, check_pairing, check_units, check_weights
from .coefficient import (
    RESAMPLING_TESTS,
    CoefficientValue,
    PreparedCoefficient,
    RatingCoefficient,
    register,
)

#: From here on the squares of scores overflow; Pearson's r of scaled scores is the same.
LARGE = 1e150
#: Where a smaller share of a sum of squares remains after taking the mean off, Pearson's r is computed again,
#: point by point, since the difference has lost its digits.
MIN_SPREAD_SHARE = 1e-4


class Moments:
    """Paired values and their sums by unit, for Pearson's r.

    Args:
        x, y: shape (n_points,), finite.
        unit: the unit whose weight each point takes, shape (n_points,); None gives each point its own.

    Raises:
        ValueError: on unequal lengths, NaN, or an infinite value.
    """

    def __init__(self, x: ArrayLike, y: ArrayLike, unit: ArrayLike | None = None) -> None:
        values_x, values_y = check_pairing(x, y)
        if np.isinf(values_x).any() or np.isinf(values_y).any():
            raise ValueError("an infinite value has no mean")
        self._unit = check_units(unit, len(values_x))
        self.n_units = int(self._unit.max(initial=-1)) + 1
        self._x = _standard(values_x)
        self._y = _standard(values_y)

        columns = (
            np.ones(len(values_x)),
            self._x,
            self._y,
            self._x**2,
            self._y**2,
            self._x * self._y,
        )
        sums = [np.bincount(self._unit, column, minlength=self.n_units) for column in columns]
        self._sums = np.stack(sums)

    def pearson(self, weights: ArrayLike | None = None) -> Floats:
        """Compute Pearson's r of weighted samples, shape (n_replicates,).

        Args:
            weights: shape (n_units, n_replicates); None: every point once.

        Raises:
            ValueError: on negative weights or another shape.
        """
        checked = check_weights(weights, self.n_units)
        # Not by BLAS, whose last bit may depend on how many threads and columns there are.
        n, x, y, xx, yy, xy = np.einsum("su,ub->sb", self._sums, checked)
        with np.errstate(all="ignore"):
            spread_x = xx - x**2 / n
            spread_y = yy - y**2 / n
            r = (xy - x * y / n) / np.sqrt(spread_x) / np.sqrt(spread_y)
            # NaN of an empty sample is doubtful as well.
            doubtful = ~((spread_x > MIN_SPREAD_SHARE * xx) & (spread_y > MIN_SPREAD_SHARE * yy))

        for replicate in np.flatnonzero(doubtful):
            r[replicate] = self._pearson_by_point(checked[self._unit, replicate])

        return np.clip(r, -1, 1)

    def _pearson_by_point(self, weights: Floats) -> float:
        """Compute r of a replicate point by point, with the means taken off first."""
        is_drawn = weights > 0
        x = self._x[is_drawn]
        y = self._y[is_drawn]
        weights = weights[is_drawn]
        if not len(x) or np.ptp(x) == 0 or np.ptp(y) == 0:
            return float("nan")

        x = _standard(x)
        y = _standard(y)
        x = x - np.average(x, weights=weights)
        y = y - np.average(y, weights=weights)
        root = np.sqrt((weights * x**2).sum()) * np.sqrt((weights * y**2).sum())
        return float((weights * x * y).sum() / root) if root > 0 else float("nan")


def _standard(values: Floats) -> Floats:
    """Centre values on 0 and scale them to a size whose squares neither overflow nor vanish."""
    largest = np.abs(values).max(initial=0)
    scaled = values / largest if largest > 0 else values
    centred = scaled - scaled.mean() if len(scaled) else scaled
    spread = np.abs(centred).max(initial=0)
    return centred / spread if spread > 0 else centred


def _pearson_by_column(x: Floats, y: Floats) -> Floats:
    """Compute Pearson's r of each column."""
    with np.errstate(all="ignore"):
        x = x - x.mean(axis=0)
        y = y - y.mean(axis=0)
        return (x * y).sum(axis=0) / np.sqrt((x**2).sum(axis=0)) / np.sqrt((y**2).sum(axis=0))


def _correlate(x: Floats, y: Floats) -> CoefficientValue:
    """Return Pearson's r of points and the p-value of "no association", as `scipy.stats.pearsonr` does; NaN where rounding leaves nothing.

    Spearman's ρ of ranks has the same p-value. SciPy's statistics take long to import.
    """
    with np.errstate(all="ignore"):
        # Scaled to 1 at most, so that no square overflows or vanishes.
        first = x - x.mean()
        second = y - y.mean()
        first = first / np.abs(first).max()
        second = second / np.abs(second).max()
        # Not `first @ second`: the last bits of BLAS depend on its number of threads, which also busy a core as they wait.
        spread = np.sqrt((first**2).sum() * (second**2).sum())
        value = float(np.clip((first * second).sum() / spread, -1, 1))
    if np.isnan(value):
        return CoefficientValue.undefined(remark(Undefined.ROUNDING))

    # Without association, (1 - r) / 2 has a beta distribution, both of whose parameters are this one.
    shape = len(x) / 2 - 1
    if not shape:
        return CoefficientValue(value, 1.0)  # two points are always on a line

    from scipy.special import betainc

    p_value = 2 * betainc(shape, shape, (1 - abs(value)) / 2)
    return CoefficientValue(value, float(p_value))


@register
class Spearman(RatingCoefficient):
    """Pearson's r of mid-ranks."""

    name = "spearman"
    order = 5
    symbol = "ρ"
    latex = r"$\rho$"
    words = r"Spearman's $\rho$"
    source = "Spearman 1904"
    min_images = MIN_IMAGES
    is_smooth = True

    def prepare(self, points: RatedPoints) -> PreparedCoefficient:
        ranked = points.ranked
        return lambda sample: ranked.spearman(sample.weights)

    def measure(self, points: RatedPoints) -> CoefficientValue:
        return _correlate(mid_ranks(points.scores), mid_ranks(points.ratings))

    def of_means(self, means: SystemMeans) -> Floats:
        ranks_x = mid_ranks(means.x)
        ranks_y = mid_ranks(means.y)
        return _pearson_by_column(ranks_x, ranks_y)


@register
class Pearson(RatingCoefficient):
    """The covariance over both standard deviations; an infinite value has none."""

    name = "pearson"
    order = 6
    symbol = "r"
    latex = r"$r$"
    words = r"Pearson's $r$"
    source = "Pearson 1895"
    tests = (*RESAMPLING_TESTS, "williams")
    min_images = MIN_IMAGES
    is_smooth = True
    formula = "fisher"

    def prepare(self, points: RatedPoints) -> PreparedCoefficient:
        if not points.is_finite:
            return lambda sample: sample.undefined
        moments = Moments(points.scores, points.ratings, points.unit)
        return lambda sample: moments.pearson(sample.weights)

    def measure(self, points: RatedPoints) -> CoefficientValue:
        scores = points.scores
        if np.isinf(scores).any():
            return CoefficientValue.undefined(remark(Undefined.INFINITE_SCORE))

        largest = np.abs(scores).max()
        if largest > LARGE:
            scores = scores / largest
        return _correlate(scores, points.ratings)

    def of_means(self, means: SystemMeans) -> Floats:
        return _pearson_by_column(means.x, means.y)
