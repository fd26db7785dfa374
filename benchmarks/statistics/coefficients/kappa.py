"""Cohen's κ of a metric and people, where the metric answers on people's scale as one more rater does.

A judge that gives 1 to 5, or says yes or no, can be compared with a rater as raters are with each other. Unlike a
correlation, κ is lower where the answers are always one level too high.
"""

from __future__ import annotations

import numpy as np

from ..rated_points import RatedPoints, WeightedPoints
from ..remarks import Note, Undefined, remark
from ..weighted_pairs import Floats, check_weights
from .coefficient import CoefficientValue, PreparedCoefficient, RatingCoefficient, register

#: A smaller share of a mean square is its rounding error: all answers are equal.
ROUNDING_SHARE = 1e-12


@register
class Kappa(RatingCoefficient):
    """1 - the mean of (x - y)² / its expectation for independent answers: κ with quadratic weights (Cohen 1968).

    Of yes and no, which have a single distance, it is κ without weights (Cohen 1960). The distance of two answers is
    that of their numbers. A score that none of the ratings has is no answer on people's scale; with one such score
    there is no κ. Weighted samples keep the scale of the whole sample.
    """

    name = "kappa"
    order = 13
    symbol = "κ"
    latex = r"$\kappa$"
    words = r"Cohen's $\kappa$ with quadratic weights"
    source = "Cohen 1968"
    is_smooth = True
    permutation_reason = Undefined.SWAPPED_ANSWERS
    group_reason = Undefined.ANSWERS_OF_GROUPS
    system_reason = Undefined.MEANS_ARE_NO_ANSWERS

    def measure(self, points: RatedPoints) -> CoefficientValue:
        is_off_scale = ~np.isin(points.scores, points.ratings)
        if is_off_scale.any():
            n_off = int(is_off_scale.sum())
            n_points = len(points.scores)
            reason = remark(Undefined.OFF_SCALE, n_off=n_off, n_points=n_points)
            return CoefficientValue.undefined(reason)

        share_equal = float((points.scores == points.ratings).mean())
        equal = remark(Note.EQUAL_ANSWERS, share=100 * share_equal)
        return super().measure(points).with_remarks(equal)

    def prepare(self, points: RatedPoints) -> PreparedCoefficient:
        if not np.isin(points.scores, points.ratings).all():
            return lambda sample: sample.undefined

        # About the middle of the scale, where squares lose fewest digits.
        middle = (points.ratings.min() + points.ratings.max()) / 2
        x = points.scores - middle
        y = points.ratings - middle
        columns = (np.ones(len(x)), x, y, x**2, y**2, (x - y) ** 2)
        n_units = int(points.unit.max(initial=-1)) + 1
        sums = np.stack([np.bincount(points.unit, column, n_units) for column in columns])

        def of_sample(sample: WeightedPoints) -> Floats:
            weights = check_weights(sample.weights, n_units)
            n, sum_x, sum_y, sum_xx, sum_yy, sum_squares = np.einsum("su,ub->sb", sums, weights)
            with np.errstate(all="ignore"):
                return _compute(sum_x / n, sum_y / n, sum_xx / n, sum_yy / n, sum_squares / n)

        return of_sample


def _compute(
    mean_x: Floats, mean_y: Floats, square_x: Floats, square_y: Floats, observed: Floats
) -> Floats:
    """Return κ of means of samples, shape (n_replicates,); NaN where all answers of a side are equal."""
    variance_x = square_x - mean_x**2
    variance_y = square_y - mean_y**2
    expected = variance_x + variance_y + (mean_x - mean_y) ** 2

    # NaN of an empty sample varies on neither side.
    varies_x = variance_x > ROUNDING_SHARE * square_x
    varies_y = variance_y > ROUNDING_SHARE * square_y
    return np.where(varies_x & varies_y, 1 - observed / expected, np.nan)
