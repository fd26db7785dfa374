"""Kendall's τ_c, τ_b and τ_a, and Goodman and Kruskal's γ: concordant pairs less discordant ones, over some total.

The four are 0 in the same samples, so that the test of τ_b, which equals SciPy's, is theirs. SciPy's statistics take
longer to import than a small run takes in all; they are imported where a sample is small and without ties, so that
its test is exact.
"""

from __future__ import annotations

import numpy as np

from ..bootstrap import MIN_IMAGES
from ..rated_points import RatedPoints
from ..weighted_pairs import Floats, RankedPairs, WeightedPairs
from .coefficient import PairCoefficient, register

# SciPy's limits: the sizes of samples without ties for which it takes the exact test.
_EXACT_POINTS = 33
_EXACT_DISCORDANT = 1


def kendall_p_value(points: RatedPoints) -> float:
    """Return the two-sided p-value of "no association" by Kendall's test; neither side is constant."""
    pairs = points.sample.pairs
    surplus = float(pairs.surplus[0])
    total = float(pairs.total[0])

    if not pairs.tied_x[0] and not pairs.tied_y[0]:
        fewest = (total - abs(surplus)) / 2
        if len(points.scores) <= _EXACT_POINTS or fewest <= _EXACT_DISCORDANT:
            from scipy import stats

            return float(stats.kendalltau(points.scores, points.ratings).pvalue)

    from scipy.special import ndtr

    return 2 * float(ndtr(-abs(surplus) / np.sqrt(_variance(points.ranked))))


def _variance(ranked: RankedPairs) -> float:
    """Return the variance of concordant less discordant pairs under no association (Kendall 1970, equation 4.8)."""
    n = ranked.n_points
    pairs_x, threes_x, spread_x = _sum_ties(ranked.ties_x)
    pairs_y, threes_y, spread_y = _sum_ties(ranked.ties_y)

    m = n * (n - 1.0)
    of_threes = 0.0
    if n > 2:
        of_threes = threes_x * threes_y / (9 * m * (n - 2))
    return (m * (2 * n + 5) - spread_x - spread_y) / 18 + 2 * pairs_x * pairs_y / m + of_threes


def _sum_ties(ties: Floats) -> tuple[float, float, float]:
    """Sum t (t - 1) / 2, t (t - 1) (t - 2) and t (t - 1) (2t + 5) over the numbers t of equal values."""
    twos = ties * (ties - 1)
    return twos.sum() / 2, (twos * (ties - 2)).sum(), (twos * (2 * ties + 5)).sum()


class KendallCoefficient(PairCoefficient):
    """A coefficient that is 0 where as many pairs are concordant as discordant: Kendall's test is its own."""

    def p_value(self, points: RatedPoints) -> float:
        return kendall_p_value(points)


@register
class TauC(KendallCoefficient):
    """2 surplus m / (n² (m - 1)), m the smaller number of different values: for scales of few levels."""

    name = "tau_c"
    min_images = MIN_IMAGES
    is_smooth = True
    order = 1
    symbol = "τ_c"
    latex = r"$\tau_c$"
    words = r"Kendall's $\tau_c$"
    source = "Stuart 1953"

    def compute(self, pairs: WeightedPairs) -> Floats:
        m = np.minimum(pairs.levels_x, pairs.levels_y)
        return 2 * pairs.surplus / (pairs.n**2 * (m - 1) / m)


@register
class TauB(KendallCoefficient):
    """Surplus / √((total - tied_x) (total - tied_y))."""

    name = "tau_b"
    min_images = MIN_IMAGES
    is_smooth = True
    order = 2
    symbol = "τ_b"
    latex = r"$\tau_b$"
    words = r"Kendall's $\tau_b$"
    source = "Kendall 1945"

    def compute(self, pairs: WeightedPairs) -> Floats:
        tau = pairs.surplus / np.sqrt(pairs.total - pairs.tied_x)
        return np.clip(tau / np.sqrt(pairs.total - pairs.tied_y), -1, 1)


@register
class TauA(KendallCoefficient):
    """Surplus / all pairs."""

    name = "tau_a"
    is_smooth = True
    order = 3
    symbol = "τ_a"
    latex = r"$\tau_a$"
    words = r"Kendall's $\tau_a$"
    source = "Kendall 1938"

    def compute(self, pairs: WeightedPairs) -> Floats:
        return pairs.surplus / pairs.total


@register
class Gamma(KendallCoefficient):
    """Surplus / pairs that are tied on neither side; where both sides vary there is one."""

    name = "gamma"
    is_smooth = True
    order = 4
    symbol = "γ"
    latex = r"$\gamma$"
    words = r"Goodman and Kruskal's $\gamma$"
    source = "Goodman and Kruskal 1954"

    def compute(self, pairs: WeightedPairs) -> Floats:
        return pairs.surplus / (pairs.concordant + pairs.discordant)
