"""Coefficients of weighted samples: prepared once, then evaluated for many replicates in one pass.

Intervals and tests evaluate them again and again. Every data point belongs to a *unit* (an image, or
itself), a replicate gives every unit a weight (how often it was drawn), and a *statistic* maps
weights of shape (n_units, n_replicates) to values of shape (n_values, n_replicates):

    statistic = prepare_coefficients(scores, ratings, ["tau_c", "tau_b", "pearson"], unit=image_of_point)
    statistic(np.ones((n_images, 1)))       # the coefficients of the sample itself
    statistic(counts)                       # of every replicate; NaN where undefined

`RankedPairs(x, y, unit).pairs(weights)` gives the counts of pairs behind Kendall's coefficients
(concordant, discordant, tied), for coefficients that are not here. `prepare_accuracies` is the same for
the accuracy on preference pairs. A weighted sample has the coefficients of the sample in which each
point stands as often as its weight says. An undefined value is NaN: with fewer than two points, or
one side constant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .pair_sums import PairSums

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

#: From weights of shape (n_units, n_replicates) to values of shape (n_values, n_replicates).
Statistic = Callable[[Floats], Floats]

#: Where a smaller share of a sum of squares remains after taking the mean off, Pearson's r is computed again,
#: point by point, since the difference has lost its digits.
MIN_SPREAD_SHARE = 1e-4


@dataclass(frozen=True)
class WeightedPairs:
    """Numbers of pairs of points of weighted samples; every field has shape (n_replicates,).

    Attributes:
        n: the number of points of a sample.
        surplus: concordant pairs less discordant ones.
        tied_x, tied_y, tied_both: pairs equal in x, in y, and in both; those count in all three.
        levels_x, levels_y: the numbers of different values.
    """

    n: Floats
    surplus: Floats
    tied_x: Floats
    tied_y: Floats
    tied_both: Floats
    levels_x: Floats
    levels_y: Floats

    @property
    def total(self) -> Floats:
        """All pairs, n (n - 1) / 2."""
        return self.n * (self.n - 1) / 2

    @property
    def concordant(self) -> Floats:
        return (self.total - self.tied_x - self.tied_y + self.tied_both + self.surplus) / 2

    @property
    def discordant(self) -> Floats:
        return self.concordant - self.surplus

    @property
    def tau_b(self) -> Floats:
        """Kendall 1945: surplus / √((total - tied_x) (total - tied_y))."""
        with np.errstate(all="ignore"):
            tau = self.surplus / np.sqrt(self.total - self.tied_x)
            return self._defined(tau / np.sqrt(self.total - self.tied_y))

    @property
    def tau_c(self) -> Floats:
        """Stuart 1953: 2 surplus m / (n² (m - 1)), m the smaller number of different values."""
        m = np.minimum(self.levels_x, self.levels_y)
        with np.errstate(all="ignore"):
            return self._defined(2 * self.surplus / (self.n**2 * (m - 1) / m))

    @property
    def is_constant(self) -> Mask:
        """Say of each sample whether one side has a single value."""
        return np.minimum(self.levels_x, self.levels_y) < 2

    def _defined(self, tau: Floats) -> Floats:
        return np.where(self.is_constant, np.nan, np.clip(tau, -1, 1))


class RankedPairs:
    """Paired values, ranked once.

    Args:
        x, y: shape (n_points,), without NaN. The work grows with the logarithm of the number of
            different y: let the ratings be y.
        unit: the unit whose weight each point takes, shape (n_points,); None gives each point its own.

    Raises:
        ValueError: on unequal lengths or NaN.
    """

    def __init__(self, x: ArrayLike, y: ArrayLike, unit: ArrayLike | None = None) -> None:
        left, right = _paired(x, y)
        units = _units(unit, len(left))
        ranks_x = np.unique(left, return_inverse=True)[1].astype(np.int64)
        values_y, levels = np.unique(right, return_inverse=True)
        order = np.lexsort((units, levels, ranks_x))
        ranks_x, levels, units = ranks_x[order], levels[order], units[order]
        # Points that are equal and of one unit make one cell.
        starts_cell = np.ones(len(order), dtype=bool)
        starts_cell[1:] = (np.diff(ranks_x) > 0) | (np.diff(levels) > 0) | (np.diff(units) > 0)
        first = np.flatnonzero(starts_cell)
        starts_run = np.flatnonzero(np.diff(ranks_x[first], prepend=-1) > 0)
        self._sums = PairSums(
            start=np.append(starts_run, len(first)).astype(np.int64),
            unit=units[first],
            level=levels[first].astype(np.int64) + 1,
            count=np.diff(np.append(first, len(order))).astype(np.float64),
            n_levels=len(values_y),
        )
        self.n_units = int(units.max(initial=-1)) + 1

    def pairs(self, weights: ArrayLike | None = None) -> WeightedPairs:
        """Count the pairs of weighted samples, in O(n log n_levels) each.

        Args:
            weights: whole numbers, shape (n_units, n_replicates); None: every point once.

        Raises:
            ValueError: on negative weights or another shape.
        """
        sums, levels = self._sums.compute(self._weights(weights))
        n = levels.sum(axis=0)
        return WeightedPairs(
            n=n,
            surplus=sums[0],
            tied_x=(sums[1] - n) / 2,
            tied_y=((levels**2).sum(axis=0) - n) / 2,
            tied_both=(sums[2] - n) / 2,
            levels_x=sums[3],
            levels_y=(levels > 0).sum(axis=0).astype(np.float64),
        )

    def spearman(self, weights: ArrayLike | None = None) -> Floats:
        """Compute Spearman's ρ of weighted samples, Pearson's r of their mid-ranks, shape (n_replicates,).

        Args:
            weights: as in `pairs`.

        Raises:
            ValueError: on negative weights or another shape.
        """
        product, squares_x, squares_y = self._sums.compute_ranks(self._weights(weights))
        with np.errstate(all="ignore"):
            return np.clip(product / np.sqrt(squares_x) / np.sqrt(squares_y), -1, 1)

    def _weights(self, weights: ArrayLike | None) -> Floats:
        return _weights_or_ones(weights, self.n_units)


class Moments:
    """Paired values and their sums by unit, for Pearson's r.

    Args:
        x, y: shape (n_points,), finite.
        unit: the unit whose weight each point takes, shape (n_points,); None gives each point its own.

    Raises:
        ValueError: on unequal lengths, NaN, or an infinite value.
    """

    def __init__(self, x: ArrayLike, y: ArrayLike, unit: ArrayLike | None = None) -> None:
        left, right = _paired(x, y)
        if np.isinf(left).any() or np.isinf(right).any():
            raise ValueError("an infinite value has no mean")
        self._unit = _units(unit, len(left))
        self.n_units = int(self._unit.max(initial=-1)) + 1
        self._x, self._y = _standard(left), _standard(right)
        columns = (np.ones(len(left)), self._x, self._y)
        columns += (self._x**2, self._y**2, self._x * self._y)
        self._sums = np.stack(
            [np.bincount(self._unit, column, minlength=self.n_units) for column in columns]
        )

    def pearson(self, weights: ArrayLike | None = None) -> Floats:
        """Compute Pearson's r of weighted samples, shape (n_replicates,).

        Args:
            weights: shape (n_units, n_replicates); None: every point once.

        Raises:
            ValueError: on negative weights or another shape.
        """
        checked = _weights_or_ones(weights, self.n_units)
        # Not by BLAS, whose last bit may depend on how many threads and columns there are.
        n, x, y, xx, yy, xy = np.einsum("su,ub->sb", self._sums, checked)
        with np.errstate(all="ignore"):
            spread_x, spread_y = xx - x**2 / n, yy - y**2 / n
            r = (xy - x * y / n) / np.sqrt(spread_x) / np.sqrt(spread_y)
            doubtful = ~((spread_x > MIN_SPREAD_SHARE * xx) & (spread_y > MIN_SPREAD_SHARE * yy))
        for replicate in np.flatnonzero(doubtful):
            r[replicate] = self._pearson_by_point(checked[self._unit, replicate])
        return np.clip(r, -1, 1)

    def _pearson_by_point(self, weights: Floats) -> float:
        """Compute r of a replicate point by point, with the means taken off first."""
        drawn = weights > 0
        x, y, weights = self._x[drawn], self._y[drawn], weights[drawn]
        if not len(x) or np.ptp(x) == 0 or np.ptp(y) == 0:
            return float("nan")
        x, y = (v - np.average(v, weights=weights) for v in (_standard(x), _standard(y)))
        root = np.sqrt((weights * x**2).sum()) * np.sqrt((weights * y**2).sum())
        return float((weights * x * y).sum() / root) if root > 0 else float("nan")


def prepare_coefficients(
    x: ArrayLike, y: ArrayLike, coefficients: Sequence[str], unit: ArrayLike | None = None
) -> Statistic:
    """Return coefficients of paired values as a statistic of their units' weights.

    Args:
        x, y: scores and ratings, shape (n_points,).
        coefficients: any of `tau_c`, `tau_b`, `spearman`, `pearson`; a value each, in their order.
            Pearson's r of an infinite value is NaN.
        unit: the unit whose weight each point takes, shape (n_points,); None gives each point its own.

    Raises:
        ValueError: on another coefficient, unequal lengths or NaN.
    """
    for coefficient in coefficients:
        if coefficient not in ("tau_c", "tau_b", "spearman", "pearson"):
            raise ValueError(f"no coefficient '{coefficient}'")
    ranked = RankedPairs(x, y, unit)
    finite = bool(np.isfinite(np.asarray(x)).all() and np.isfinite(np.asarray(y)).all())
    moments = Moments(x, y, unit) if finite and "pearson" in coefficients else None

    def statistic(weights: Floats) -> Floats:
        values: dict[str, Floats] = {"pearson": np.full(np.shape(weights)[1], np.nan)}
        if {"tau_b", "tau_c"} & set(coefficients):
            pairs = ranked.pairs(weights)
            values |= {"tau_b": pairs.tau_b, "tau_c": pairs.tau_c}
        if "spearman" in coefficients:
            values["spearman"] = ranked.spearman(weights)
        if moments is not None:
            values["pearson"] = moments.pearson(weights)
        return np.stack([values[coefficient] for coefficient in coefficients])

    return statistic


def prepare_accuracies(
    outcomes: ArrayLike,
    dimension: ArrayLike,
    unit: ArrayLike,
    n_dimensions: int,
    is_counted: ArrayLike | None = None,
) -> Statistic:
    """Return the accuracy in each dimension of preference pairs, and last their mean, as a statistic.

    Args:
        outcomes: a metric's outcome of each pair, right 1, wrong 0, tied 1/2, shape (n_pairs,).
        dimension: of each pair, from 0, shape (n_pairs,).
        unit: the unit whose weight each pair takes, shape (n_pairs,).
        n_dimensions: the number of dimensions.
        is_counted: whether a pair counts at all, shape (n_pairs,); None for every pair.
    """
    values = np.asarray(outcomes, dtype=np.float64)
    dimensions = np.asarray(dimension, dtype=np.int64)
    units = _units(unit, len(values))
    n_units = int(units.max(initial=-1)) + 1
    counts = np.ones(len(values)) if is_counted is None else np.asarray(is_counted, np.float64)
    wins, count = (
        np.bincount(
            dimensions * n_units + units, weights, minlength=n_dimensions * n_units
        ).reshape(n_dimensions, n_units)
        for weights in (np.where(counts > 0, values, 0.0), counts)
    )

    def statistic(weights: Floats) -> Floats:
        checked = check_weights(weights, n_units)
        with np.errstate(all="ignore"):
            shares = np.einsum("cu,ub->cb", wins, checked) / np.einsum("cu,ub->cb", count, checked)
        return np.vstack([shares, shares.mean(axis=0)])

    return statistic


def check_weights(weights: ArrayLike, n_units: int) -> Floats:
    """Return weights as the kernels take them: float64, contiguous, shape (n_units, n_replicates).

    There may be more units than a sample has points of: the weights of the last ones are not used.

    Raises:
        ValueError: on negative weights or another shape.
    """
    checked = np.ascontiguousarray(weights, dtype=np.float64)
    if checked.ndim != 2 or len(checked) < n_units:
        raise ValueError(f"weights {checked.shape}; ({n_units}, n_replicates) are expected")
    if not (checked >= 0).all():
        raise ValueError("a weight is negative or NaN")
    return checked[:n_units]


def _weights_or_ones(weights: ArrayLike | None, n_units: int) -> Floats:
    return check_weights(np.ones((n_units, 1)) if weights is None else weights, n_units)


def _paired(x: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    left, right = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if left.shape != right.shape or left.ndim != 1:
        raise ValueError(f"{left.shape} and {right.shape} are not paired")
    if np.isnan(left).any() or np.isnan(right).any():
        raise ValueError("a value is NaN")
    return left, right


def _units(unit: ArrayLike | None, n_points: int) -> Ints:
    if unit is None:
        return np.arange(n_points, dtype=np.int64)
    units = np.asarray(unit, dtype=np.int64)
    if units.shape != (n_points,):
        raise ValueError(f"{units.shape} units of {n_points} points")
    return units


def _standard(values: Floats) -> Floats:
    """Centre values on 0 and scale them to a size whose squares neither overflow nor vanish."""
    largest = np.abs(values).max(initial=0)
    scaled = values / largest if largest > 0 else values
    centred = scaled - scaled.mean() if len(scaled) else scaled
    spread = np.abs(centred).max(initial=0)
    return centred / spread if spread > 0 else centred
