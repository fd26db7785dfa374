"""Pairs of data points in weighted samples: ranked once, then counted for many replicates in one pass.

Intervals and tests evaluate coefficients again and again. Every data point belongs to a *unit* (an image, or
itself), a replicate gives every unit a weight (how often it was drawn), and a *statistic* maps
weights of shape (n_units, n_replicates) to values of shape (n_values, n_replicates).

`RankedPairs(x, y, unit).pairs(weights)` gives the counts of pairs behind Kendall's coefficients: concordant,
discordant, tied. A weighted sample is the sample in which each point stands as often as its weight says.

`PairSums` sums over pairs by NumPy or by the compiled loops of `_kernels`. Both ways give the same numbers: all sums
are of whole numbers held in float64, exact up to 2^53. NumPy serves small samples, for which importing Numba would
take longer than the sums, and installations without Numba.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

#: From weights of shape (n_units, n_replicates) to values of shape (n_values, n_replicates).
Statistic = Callable[[Floats], Floats]


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
    def is_constant(self) -> Mask:
        """Say of each sample whether one side has a single value."""
        return np.minimum(self.levels_x, self.levels_y) < 2


class RankedPairs:
    """Paired values, ranked once.

    Args:
        x, y: shape (n_points,), without NaN. The work grows with the logarithm of the number of
            different y: let the ratings be y.
        unit: the unit whose weight each point takes, shape (n_points,); None gives each point its own.

    Attributes:
        n_points, n_units: the number of points, and that of units.
        ties_x, ties_y: how many points share each of the different values, shape (n_values,).

    Raises:
        ValueError: on unequal lengths or NaN.
    """

    def __init__(self, x: ArrayLike, y: ArrayLike, unit: ArrayLike | None = None) -> None:
        values_x, paired_y = check_pairing(x, y)
        units = check_units(unit, len(values_x))
        _, ranks_x, ties_x = np.unique(values_x, return_inverse=True, return_counts=True)
        _, levels, ties_y = np.unique(paired_y, return_inverse=True, return_counts=True)
        order = np.lexsort((units, levels, ranks_x))
        ranks_x = ranks_x[order]
        levels = levels[order]
        units = units[order]

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
            n_levels=len(ties_y),
        )
        self.n_points = len(order)
        self.n_units = int(units.max(initial=-1)) + 1
        self.ties_x = ties_x.astype(np.float64)
        self.ties_y = ties_y.astype(np.float64)

    def pairs(self, weights: ArrayLike | None = None) -> WeightedPairs:
        """Count the pairs of weighted samples, in O(n log n_levels) each.

        Args:
            weights: whole numbers, shape (n_units, n_replicates); None: every point once.

        Raises:
            ValueError: on negative weights or another shape.
        """
        sums, levels = self._sums.compute(check_weights(weights, self.n_units))
        n = levels.sum(axis=0)

        # A sum of squares counts each pair twice, and each point with itself.
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
        product, squares_x, squares_y = self._sums.compute_ranks(
            check_weights(weights, self.n_units)
        )
        with np.errstate(all="ignore"):
            return np.clip(product / np.sqrt(squares_x) / np.sqrt(squares_y), -1, 1)


# The work, cells times binary digits of the levels times replicates, from which on Numba pays for its import.
_COMPILED_WORK = 300_000


@dataclass(frozen=True)
class _Digit:
    """One binary digit of the levels: the points that have it, and the points that lack it.

    Two points are told apart by the highest digit in which their levels differ: those that agree in all higher
    digits share a group. Points that lack the digit come by group, then by x.

    Attributes:
        low: the points that lack the digit.
        high: the points that have it.
        below, up_to: how many points of `low` come before those of the same group and x as each of `high`,
            and how many up to them.
        first, last: how many points of `low` come before the group of each of `high`, and up to its end.
    """

    low: Ints
    high: Ints
    below: Ints
    up_to: Ints
    first: Ints
    last: Ints


@dataclass(frozen=True)
class PairSums:
    """Cells of equal points, from which the sums for each replicate are made.

    Attributes:
        start: the first cell of each run of equal x, and the number of cells, shape (n_runs + 1,).
        unit: the unit whose weight a cell takes, shape (n_cells,).
        level: its y, from 1, ascending within a run, shape (n_cells,).
        count: the number of equal points that it stands for, shape (n_cells,).
        n_levels: the number of different y.
    """

    start: Ints
    unit: Ints
    level: Ints
    count: Floats
    n_levels: int

    def compute(self, weights: Floats) -> tuple[Floats, Floats]:
        """Sum the parts of Kendall's coefficients.

        Args:
            weights: shape (n_units, n_replicates).

        Returns:
            Shape (4, n_replicates): concordant less discordant weight; the sum of squares of the runs'
            weights; that of the weights of equal x and y; the number of runs that weigh something. And
            the weight of each level, shape (n_levels, n_replicates).
        """
        if self._is_compiled(weights.shape[1]):
            from ._kernels import pair_sums

            return pair_sums(self.start, self.unit, self.level, self.count, self.n_levels, weights)

        cell_weights = self._weigh_cells(weights)
        runs = np.add.reduceat(cell_weights, self.start[:-1])
        points = np.add.reduceat(cell_weights, self._first_cells)
        sums = [self._surplus(points), (runs**2).sum(axis=0), (points**2).sum(axis=0)]
        return np.stack([*sums, (runs > 0).sum(axis=0)]), self._sum_levels(cell_weights)

    def compute_ranks(self, weights: Floats) -> tuple[Floats, Floats, Floats]:
        """Sum the parts of Spearman's rho, of mid-ranks less their mean.

        Args:
            weights: shape (n_units, n_replicates).

        Returns:
            The sums of products of both ranks, of squares of those of x, and of squares of those of y, each of
            shape (n_replicates,).
        """
        if self._is_compiled(weights.shape[1]):
            return self._compute_compiled_ranks(weights)

        cell_weights = self._weigh_cells(weights)
        levels = self._sum_levels(cell_weights)
        n, ranks_y = _rank_levels(levels)
        runs = np.add.reduceat(cell_weights, self.start[:-1])
        products = np.add.reduceat(cell_weights * ranks_y[self.level - 1], self.start[:-1])
        ranks_x = np.cumsum(runs, axis=0) - (runs + n) / 2

        return (
            _sum_pairwise(ranks_x * products),
            _sum_pairwise(ranks_x**2 * runs),
            _sum_pairwise(ranks_y**2 * levels),
        )

    def _compute_compiled_ranks(self, weights: Floats) -> tuple[Floats, Floats, Floats]:
        from ._kernels import level_totals, rank_sums

        totals = level_totals(self.unit, self.level, self.count, self.n_levels, weights)
        levels = totals[1:]
        n, ranks_y = _rank_levels(levels)
        products, squares_x = rank_sums(
            self.start, self.unit, self.level, self.count, weights, n, ranks_y
        )
        return (
            _sum_pairwise(products),
            _sum_pairwise(squares_x),
            _sum_pairwise(ranks_y**2 * levels),
        )

    def _is_compiled(self, n_replicates: int) -> bool:
        work = len(self.unit) * self.n_levels.bit_length() * n_replicates
        return work > _COMPILED_WORK and find_spec("numba") is not None

    def _weigh_cells(self, weights: Floats) -> Floats:
        """Return the weight of each cell, shape (n_cells, n_replicates)."""
        return weights[self.unit] * self.count[:, None]

    def _sum_levels(self, cell_weights: Floats) -> Floats:
        """Return the weight of each level, shape (n_levels, n_replicates)."""
        order, first = self._levels
        return np.add.reduceat(cell_weights[order], first)

    def _surplus(self, points: Floats) -> Floats:
        """Sum the weights of concordant pairs less those of discordant ones, digit by digit of the levels."""
        surplus = np.zeros(points.shape[1])
        for digit in self._digits:
            totals = np.zeros((len(digit.low) + 1, points.shape[1]))
            np.cumsum(points[digit.low], axis=0, out=totals[1:])
            # Lower y at lower x, less lower y at higher x.
            difference = totals[digit.below]
            difference += totals[digit.up_to]
            difference -= totals[digit.first]
            difference -= totals[digit.last]
            surplus += np.einsum("pr,pr->r", points[digit.high], difference)
        return surplus

    @cached_property
    def _run(self) -> Ints:
        """The number of each cell's run."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))

    @cached_property
    def _first_cells(self) -> Ints:
        """The first cell of each point: cells of equal x and y are next to each other."""
        is_new = (np.diff(self._run, prepend=-1) > 0) | (np.diff(self.level, prepend=0) != 0)
        return np.flatnonzero(is_new)

    @cached_property
    def _levels(self) -> tuple[Ints, Ints]:
        """The cells by level, and where each level begins among them."""
        order = np.argsort(self.level, kind="stable")
        return order, np.searchsorted(self.level[order], np.arange(1, self.n_levels + 1))

    @cached_property
    def _digits(self) -> list[_Digit]:
        levels = self.level[self._first_cells] - 1
        runs = self._run[self._first_cells]

        digits: list[_Digit] = []
        for bit in range((self.n_levels - 1).bit_length()):
            groups = levels >> (bit + 1)
            keys = groups * len(self.start) + runs
            has_digit = (levels >> bit) & 1 == 1
            low = np.flatnonzero(~has_digit)
            high = np.flatnonzero(has_digit)
            low = low[np.argsort(keys[low], kind="stable")]
            digit = _Digit(
                low=low,
                high=high,
                below=np.searchsorted(keys[low], keys[high]),
                up_to=np.searchsorted(keys[low], keys[high], side="right"),
                first=np.searchsorted(groups[low], groups[high]),
                last=np.searchsorted(groups[low], groups[high], side="right"),
            )
            digits.append(digit)

        return digits


def _rank_levels(levels: Floats) -> tuple[Floats, Floats]:
    """Return the weight of all points, shape (n_replicates,), and the mid-rank of each level less their mean.

    Args:
        levels: the weight of each level, shape (n_levels, n_replicates).
    """
    n = levels.sum(axis=0)
    return n, np.cumsum(levels, axis=0) - (levels + n) / 2


def _sum_pairwise(values: Floats) -> Floats:
    """Sum over the first axis in pairs of pairs: a million plain steps would cost three digits."""
    return np.ascontiguousarray(values.T).sum(axis=1)


def check_weights(weights: ArrayLike | None, n_units: int) -> Floats:
    """Return weights as the kernels take them: float64, contiguous, shape (n_units, n_replicates).

    None makes one sample, in which every point stands once. There may be more units than a sample has points of: the
    weights of the last ones are not used.

    Raises:
        ValueError: on negative weights or another shape.
    """
    if weights is None:
        weights = np.ones((n_units, 1))
    checked = np.ascontiguousarray(weights, dtype=np.float64)

    if checked.ndim != 2 or len(checked) < n_units:
        raise ValueError(f"weights {checked.shape}; ({n_units}, n_replicates) are expected")
    # With a NaN among the weights their minimum is NaN, which no comparison holds of.
    if not checked.min(initial=0.0) >= 0:
        raise ValueError("a weight is negative or NaN")
    return checked[:n_units]


def check_pairing(x: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    """Return paired values as arrays.

    Raises:
        ValueError: on unequal lengths or NaN.
    """
    values_x = np.asarray(x, dtype=np.float64)
    values_y = np.asarray(y, dtype=np.float64)
    if values_x.shape != values_y.shape or values_x.ndim != 1:
        raise ValueError(f"{values_x.shape} and {values_y.shape} are not paired")
    if np.isnan(values_x).any() or np.isnan(values_y).any():
        raise ValueError("a value is NaN")
    return values_x, values_y


def check_units(unit: ArrayLike | None, n_points: int) -> Ints:
    """Return the unit of each point; None gives each its own.

    Raises:
        ValueError: on another number of units than points.
    """
    if unit is None:
        return np.arange(n_points, dtype=np.int64)
    units = np.asarray(unit, dtype=np.int64)
    if units.shape != (n_points,):
        raise ValueError(f"{units.shape} units of {n_points} points")
    return units
