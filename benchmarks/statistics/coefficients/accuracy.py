"""Accuracy on preference pairs, with the test of swapped captions."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..bootstrap import MIN_IMAGES
from ..preferences import PairOutcomes, sum_groups, swap_p_value
from ..remarks import Note, Undefined, remark
from ..weighted_pairs import Floats, Ints, Statistic, check_units, check_weights
from .coefficient import (
    RESAMPLING_TESTS,
    CoefficientValue,
    PreferenceCoefficient,
    register,
    threshold_note,
)


@register
class Accuracy(PreferenceCoefficient):
    """The share of pairs on which a metric agrees with people, under a rule of ties.

    The p-value is exact. Both captions of a pair are swapped, all pairs of an image together, in every possible way;
    it is the share of these ways in which the accuracy is at least as far from one half as it is. Where each image has
    one pair and none is tied, this is the binomial test. Under `calibrated`, where there are three answers, there is
    no p-value.
    """

    name = "accuracy"
    order = 14
    symbol = "acc. %"
    latex = r"acc.\ \%"
    words = "accuracy on preference pairs"
    tests = (*RESAMPLING_TESTS, "mcnemar")
    min_images = MIN_IMAGES
    is_smooth = True
    formula = "wilson"

    def chance_on(self, ratings: Floats, ties: str = "half") -> float:
        # With a third answer, the tie, the value depends on how often people tie and how often the metric does.
        return float("nan") if ties == "calibrated" else 0.5

    def value(
        self, outcomes: PairOutcomes, ties: str = "half", images: Ints | None = None
    ) -> CoefficientValue:
        counted = outcomes.values[outcomes.is_counted]
        n_pairs = len(counted)
        if not n_pairs:
            return CoefficientValue.undefined(remark(Undefined.NO_PREFERENCES))

        n_undefined = int(np.isnan(counted).sum())
        if n_undefined:
            counts = {"n_undefined": n_undefined, "n_pairs": n_pairs}
            return CoefficientValue.undefined(remark(Undefined.UNDEFINED_PAIRS, **counts))

        if ties == "calibrated":
            note = threshold_note(outcomes.threshold)
            return CoefficientValue(outcomes.accuracy, remarks=(note,))

        # 1 where the metric agrees with people, -1 where it does not, 0 of a tie.
        leads = 2 * counted - 1
        if images is not None:
            leads = sum_groups(leads, images[outcomes.is_counted])

        if ties == "drop":
            # Dropped ties are not in `counted`.
            code = Note.LEFT_OUT_TIES
            n_tied = int((outcomes.values == 0.5).sum())
        else:
            code = Note.HALF_COUNTED_PAIRS
            n_tied = int((counted == 0.5).sum())
        remarks = (remark(code, n_pairs=n_tied),) if n_tied else ()
        return CoefficientValue(outcomes.accuracy, swap_p_value(leads), remarks=remarks)

    def prepare(
        self,
        outcomes: ArrayLike,
        dimension: ArrayLike,
        unit: ArrayLike,
        n_dimensions: int,
        is_counted: NDArray[np.bool_] | None = None,
    ) -> Statistic:
        values = np.asarray(outcomes, dtype=np.float64)
        dimensions = np.asarray(dimension, dtype=np.int64)
        units = check_units(unit, len(values))
        n_units = int(units.max(initial=-1)) + 1
        pair_weights = np.ones(len(values))
        if is_counted is not None:
            pair_weights = np.asarray(is_counted, np.float64)

        # Sums over the pairs of each dimension and unit, shape (n_dimensions, n_units).
        cell = dimensions * n_units + units
        n_cells = n_dimensions * n_units
        shape = (n_dimensions, n_units)
        counted_values = np.where(pair_weights > 0, values, 0.0)
        wins = np.bincount(cell, counted_values, minlength=n_cells).reshape(shape)
        counts = np.bincount(cell, pair_weights, minlength=n_cells).reshape(shape)

        def statistic(weights: Floats) -> Floats:
            checked = check_weights(weights, n_units)
            with np.errstate(all="ignore"):
                n_pairs = np.einsum("cu,ub->cb", counts, checked)
                shares = np.einsum("cu,ub->cb", wins, checked) / n_pairs
            return np.vstack([shares, shares.mean(axis=0)])

        return statistic
