"""Compiled inner loops over weighted pairs of values; `weighted_pairs.PairSums` prepares their arguments.

Kept apart because Numba may be missing and takes a moment to import: `PairSums` decides whether
this module is imported, and otherwise computes the same numbers with NumPy. The last axis
of every array is the replicate, so that one pass over the data serves many and the innermost loops
are vectorised. All sums are of whole numbers held in float64, exact up to 2^53.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numba.extending import register_jitable
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_compiled: Any = njit(cache=True, nogil=True, error_model="numpy")


@_compiled
def level_totals(unit: Ints, level: Ints, count: Floats, n_levels: int, weights: Floats) -> Floats:
    """Sum the weight of each level of y, shape (n_levels + 1, n_replicates); row 0 is empty."""
    totals = np.zeros((n_levels + 1, weights.shape[1]))
    for cell in range(len(unit)):
        row = weights[unit[cell]]
        total = totals[level[cell]]
        for lane in range(len(row)):
            total[lane] += count[cell] * row[lane]
    return totals


# Rows of the sums of `pair_sums`; those of squares are of the weights of runs (equal x) and of points (equal x and y).
_SURPLUS = 0
_RUN_SQUARES = 1
_POINT_SQUARES = 2
_N_RUNS = 3


# A Fenwick tree holds the weights of levels, shape (n_levels + 1, n_replicates), row 0 being empty. To add to a level, or to
# sum all levels up to one, takes O(log n_levels) steps.


@register_jitable
def _add_weight(tree: Floats, level: Any, weight: Floats) -> None:
    """Add a weight to a level of a Fenwick tree."""
    node = level
    while node < len(tree):
        branch = tree[node]
        for lane in range(len(weight)):
            branch[lane] += weight[lane]
        node += node & -node


@register_jitable
def _add_sum_up_to(total: Floats, tree: Floats, level: Any) -> None:
    """Add the weights of a Fenwick tree up to a level, which is included, to a total."""
    node = level
    while node > 0:
        branch = tree[node]
        for lane in range(len(total)):
            total[lane] += branch[lane]
        node &= node - 1


@register_jitable
def _separate_levels(tree: Floats) -> None:
    """Turn a Fenwick tree, in place, into the weights of its levels.

    A node holds its own level and the sums of its children. They are taken off from the highest node down, so that each
    child still has its whole sum.
    """
    n_levels = len(tree) - 1
    for node in range(n_levels, 0, -1):
        parent = node + (node & -node)
        if parent <= n_levels:
            for lane in range(tree.shape[1]):
                tree[parent, lane] -= tree[node, lane]


@_compiled
def pair_sums(
    start: Ints, unit: Ints, level: Ints, count: Floats, n_levels: int, weights: Floats
) -> tuple[Floats, Floats]:
    """Sum the parts of Kendall's coefficients, in O(n log n_levels).

    The points come in ascending order of x, and of y where x is equal. A Fenwick tree over the levels of y holds the
    weight of the points so far. With a new point, those below it in y are concordant, and those above it discordant.

    Args:
        start, unit, level, count, n_levels: the attributes of `PairSums`.
        weights: shape (n_units, n_replicates).

    Returns:
        What `PairSums.compute` returns.
    """
    lanes = weights.shape[1]
    sums = np.zeros((4, lanes))
    tree = np.zeros((n_levels + 1, lanes))
    below = np.zeros(lanes)
    run = np.zeros(lanes)
    point = np.zeros(lanes)
    surplus = np.zeros(lanes)
    for index in range(len(start) - 1):
        run[:] = 0.0
        cell, end = start[index], start[index + 1]
        while cell < end:
            # Weigh the point: its cells differ in their units alone.
            y = level[cell]
            point[:] = 0.0
            while cell < end and level[cell] == y:
                row = weights[unit[cell]]
                for lane in range(lanes):
                    point[lane] += count[cell] * row[lane]
                cell += 1

            # The surplus of points below y over points above it is (weight below y) + (weight up to y) - (all weight).
            # The tree also holds the earlier points of this run. They are below y and enter both sums, but have an equal
            # x and are no surplus: their weight is taken off twice.
            for lane in range(lanes):
                surplus[lane] = -below[lane] - 2 * run[lane]
            _add_sum_up_to(surplus, tree, y - 1)
            _add_sum_up_to(surplus, tree, y)

            for lane in range(lanes):
                sums[_SURPLUS, lane] += point[lane] * surplus[lane]
                sums[_POINT_SQUARES, lane] += point[lane] * point[lane]
                run[lane] += point[lane]
            _add_weight(tree, y, point)

        for lane in range(lanes):
            below[lane] += run[lane]
            sums[_RUN_SQUARES, lane] += run[lane] * run[lane]
            sums[_N_RUNS, lane] += run[lane] > 0

    _separate_levels(tree)
    return sums, tree[1:]


#: Sums are taken of so many runs at a time, and then in pairs of pairs: a million plain steps would cost three digits.
_RUNS_OF_PART = 128


@_compiled
def rank_sums(
    start: Ints, unit: Ints, level: Ints, count: Floats, weights: Floats, n: Floats, ranks_y: Floats
) -> Floats:
    """Sum, over the runs of equal x, the parts of Spearman's rho that take ranks of x.

    Args:
        start, unit, level, count: the attributes of `PairSums`.
        weights: shape (n_units, n_replicates).
        n: the weight of all points, shape (n_replicates,).
        ranks_y: the mid-rank of each level less their mean, shape (n_levels, n_replicates).

    Returns:
        Parts of the sums of products of both ranks and of squares of those of x, shape (2, n_parts, n_replicates).
    """
    lanes = weights.shape[1]
    n_runs = len(start) - 1
    parts = np.zeros((2, (n_runs + _RUNS_OF_PART - 1) // _RUNS_OF_PART, lanes))
    below = np.zeros(lanes)
    run = np.zeros(lanes)
    product = np.zeros(lanes)
    for index in range(n_runs):
        run[:] = 0.0
        product[:] = 0.0
        for cell in range(start[index], start[index + 1]):
            row = weights[unit[cell]]
            rank_y = ranks_y[level[cell] - 1]
            for lane in range(lanes):
                weight = count[cell] * row[lane]
                run[lane] += weight
                product[lane] += weight * rank_y[lane]
        part = index // _RUNS_OF_PART
        for lane in range(lanes):
            below[lane] += run[lane]
            # The mid-rank of a run lies half its weight before its end, and the mean of all ranks at n / 2.
            rank_x = below[lane] - (run[lane] + n[lane]) / 2
            parts[0, part, lane] += rank_x * product[lane]
            parts[1, part, lane] += rank_x * rank_x * run[lane]
    return parts
