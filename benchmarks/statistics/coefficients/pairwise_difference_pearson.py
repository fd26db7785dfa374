"""Pairwise difference Pearson: Pearson's r of the differences of two captions, over all pairs of one group.

The WMT metrics task compares a metric's differences with people's: each segment's translations in pairs, by how much
the scores of a pair differ and by how much its ratings do. A metric is rewarded for the size of a difference, which
`pairwise_accuracy` and `acc_eq` do not look at, and not for knowing which segments, or images, are easy.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..rated_points import RatedPoints, WeightedPoints
from ..weighted_pairs import Floats
from .coefficient import RESAMPLING_TESTS, DifferenceCoefficient, PreparedSums, register
from .pearson import Pearson

#: A smaller share of a sum of squares is its rounding error: the differences are all 0.
ROUNDING_SHARE = 1e-12


@register
class PairwiseDifferencePearson(Pearson, DifferenceCoefficient):
    """Σ dx dy / √(Σ dx² Σ dy²) over the ordered pairs of points of one group, dx and dy being their differences.

    It is `Pearson(pdp=True)` of google-research/mt-metrics-eval. As each pair stands in both orders, the differences
    have mean 0, and of all points together, or of systems' means, it is Pearson's r of the points themselves.
    """

    name = "pairwise_difference_pearson"
    order = 10
    symbol = "PDP"
    latex = "PDP"
    words = r"Pearson's $r$ of pairwise differences"
    source = "mt-metrics-eval"
    tests = RESAMPLING_TESTS
    formula = None

    def prepare_sums(self, groups: Sequence[RatedPoints]) -> list[PreparedSums]:
        scale_x = max(np.abs(group.scores).max(initial=0) for group in groups) or 1.0
        scale_y = max(np.abs(group.ratings).max(initial=0) for group in groups) or 1.0

        prepared: list[PreparedSums] = []
        for group in groups:
            # Differences from the group's first point, so that equal values give 0 exactly.
            x = group.scores / scale_x
            y = group.ratings / scale_y
            prepared.append(_prepare_sums(x - x[0], y - y[0], group))
        return prepared

    def of_sums(self, sums: Floats) -> Floats:
        spread_x, spread_y, products = sums
        with np.errstate(all="ignore"):
            values = products / np.sqrt(spread_x) / np.sqrt(spread_y)
        is_defined = (spread_x > 0) & (spread_y > 0)
        return np.where(is_defined, np.clip(values, -1, 1), np.nan)


def _prepare_sums(x: Floats, y: Floats, group: RatedPoints) -> PreparedSums:
    """Return Σ dx², Σ dy² and Σ dx dy over a group's pairs, shape (3, n_replicates).

    Over all pairs i < j, Σ (x_i - x_j) (y_i - y_j) = n Σ x y - Σ x Σ y; weights count a point several times.
    """
    n_units = int(group.unit.max(initial=-1)) + 1
    columns = (np.ones(len(x)), x, y, x**2, y**2, x * y)
    sums = np.stack([np.bincount(group.unit, column, minlength=n_units) for column in columns])

    def over_pairs(sample: WeightedPoints) -> Floats:
        n, sum_x, sum_y, xx, yy, xy = np.einsum("su,ub->sb", sums, sample.weights[:n_units])
        spread_x = n * xx - sum_x**2
        spread_y = n * yy - sum_y**2
        spread_x = np.where(spread_x > ROUNDING_SHARE * n * xx, spread_x, 0.0)
        spread_y = np.where(spread_y > ROUNDING_SHARE * n * yy, spread_y, 0.0)
        return np.stack([spread_x, spread_y, n * xy - sum_x * sum_y])

    return over_pairs
