"""Accuracy on preference pairs, with the sign test."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..preferences import PairOutcomes, mcnemar
from ..remarks import Note, Undefined, remark
from ..weighted_pairs import Floats, Ints, Statistic, check_units, check_weights
from .coefficient import (
    RESAMPLING_TESTS,
    CoefficientValue,
    PreferenceCoefficient,
    register,
    threshold_note,
)

# The number of pairs from which on SciPy's binomial test is faster than whole numbers.
_MANY_PAIRS = 2000


@register
class Accuracy(PreferenceCoefficient):
    """The share of pairs on which a metric agrees with people, under a rule of ties.

    The p-value is the binomial test's against one half. Where pairs of captions have several answers, it is that of
    swapping the captions of each pair, all of its answers at once. Under `calibrated`, where there are three answers,
    there is none.
    """

    name = "accuracy"
    order = 12
    symbol = "acc. %"
    latex = r"acc.\ \%"
    words = "accuracy on preference pairs"
    tests = (*RESAMPLING_TESTS, "mcnemar")
    formula = "wilson"

    def value(
        self, outcomes: PairOutcomes, ties: str = "half", captions: Ints | None = None
    ) -> CoefficientValue:
        counted = outcomes.values[outcomes.is_counted]
        n_pairs = len(counted)
        if not n_pairs:
            return CoefficientValue.undefined(remark(Undefined.NO_PREFERENCES))
        if n_undefined := int(np.isnan(counted).sum()):
            counts = {"n_undefined": n_undefined, "n_pairs": n_pairs}
            return CoefficientValue.undefined(remark(Undefined.UNDEFINED_PAIRS, **counts))
        if ties == "calibrated":
            note = threshold_note(outcomes.threshold)
            return CoefficientValue(outcomes.accuracy, remarks=(note,))
        own_captions = None if captions is None else captions[outcomes.is_counted]
        if own_captions is None or len(np.unique(own_captions)) == n_pairs:
            p_value = sign_test(round(counted.sum()), n_pairs)
        else:
            p_value = mcnemar(counted, 1 - counted, own_captions).exact
        n_tied = int(((outcomes.values if ties == "drop" else counted) == 0.5).sum())
        code = Note.LEFT_OUT_TIES if ties == "drop" else Note.HALF_COUNTED_PAIRS
        remarks = (remark(code, n_pairs=n_tied),) if n_tied else ()
        return CoefficientValue(outcomes.accuracy, p_value, remarks=remarks)

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
                n_pairs = np.einsum("cu,ub->cb", count, checked)
                shares = np.einsum("cu,ub->cb", wins, checked) / n_pairs
            return np.vstack([shares, shares.mean(axis=0)])

        return statistic


def sign_test(n_wins: int, n_pairs: int) -> float:
    """Return the two-sided p-value of the binomial test against one half, equal to SciPy's."""
    if n_pairs > _MANY_PAIRS:
        from scipy import stats

        return float(stats.binomtest(n_wins, n_pairs, 0.5).pvalue)
    fewest = min(n_wins, n_pairs - n_wins)
    term = total = 1
    for k in range(fewest):
        term = term * (n_pairs - k) // (k + 1)
        total += term
    return min(1.0, 2 * total / 2**n_pairs)
