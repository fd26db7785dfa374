"""Kendall's τ_b and τ_c of two samples with their test, and the sign test, equal to SciPy's.

SciPy's statistics take longer to import than a small run takes in all; they are imported where a sample is small
and without ties, so that its test is exact, or where pairs are many.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .weighted_coefficients import RankedPairs

Floats = NDArray[np.float64]

# SciPy's limits: the sizes of samples without ties for which it takes the exact test.
_EXACT_POINTS, _EXACT_DISCORDANT = 33, 1
# The number of pairs from which on SciPy's binomial test is faster than whole numbers.
_MANY_PAIRS = 2000


class Kendall(NamedTuple):
    """A coefficient and the two-sided p-value of "no association"."""

    statistic: float
    pvalue: float


def correlate_kendall(x: Floats, y: Floats, variant: Literal["b", "c"] = "b") -> Kendall:
    """Compute Kendall's τ_b or τ_c.

    Args:
        x, y: shape (n_points,), without NaN; two points at least, and neither side constant.
        variant: `b` (Kendall 1945) or `c` (Stuart 1953).
    """
    pairs = RankedPairs(x, y).pairs()
    tau = float((pairs.tau_b if variant == "b" else pairs.tau_c)[0])
    surplus, total = float(pairs.surplus[0]), float(pairs.total[0])
    if not pairs.tied_x[0] and not pairs.tied_y[0]:
        fewest = (total - abs(surplus)) / 2
        if len(x) <= _EXACT_POINTS or fewest <= _EXACT_DISCORDANT:
            from scipy import stats

            return Kendall(tau, float(stats.kendalltau(x, y, variant=variant).pvalue))
    from scipy.special import ndtr

    return Kendall(tau, 2 * float(ndtr(-abs(surplus) / np.sqrt(_variance(x, y)))))


def _variance(x: Floats, y: Floats) -> float:
    """Return the variance of concordant less discordant pairs under no association (Kendall 1970, equation 4.8)."""
    n = len(x)
    sums: list[tuple[float, float, float]] = []
    for values in (x, y):
        ties = np.unique(values, return_counts=True)[1].astype(np.float64)
        twos = ties * (ties - 1)
        sums.append((twos.sum() / 2, (twos * (ties - 2)).sum(), (twos * (2 * ties + 5)).sum()))
    (pairs_x, threes_x, spread_x), (pairs_y, threes_y, spread_y) = sums
    m = n * (n - 1.0)
    return (
        (m * (2 * n + 5) - spread_x - spread_y) / 18
        + 2 * pairs_x * pairs_y / m
        + (threes_x * threes_y / (9 * m * (n - 2)) if n > 2 else 0.0)
    )


def sign_test(n_wins: int, n_pairs: int) -> float:
    """Return the two-sided p-value of the binomial test against one half."""
    if n_pairs > _MANY_PAIRS:
        from scipy import stats

        return float(stats.binomtest(n_wins, n_pairs, 0.5).pvalue)
    fewest = min(n_wins, n_pairs - n_wins)
    term = total = 1
    for k in range(fewest):
        term = term * (n_pairs - k) // (k + 1)
        total += term
    return min(1.0, 2 * total / 2**n_pairs)
