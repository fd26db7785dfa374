"""Coefficients of agreement between scores and ratings, with p-values; undefined is NaN and says why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

Floats = NDArray[np.float64]

#: In the order in which the field prints them. `accuracy` is of preferences, the rest of ratings.
COEFFICIENTS = ("tau_c", "tau_b", "spearman", "pearson", "accuracy")

#: From here on the squares of scores overflow; Pearson's r is the same of smaller ones.
LARGE = 1e150


@dataclass(frozen=True)
class Agreement:
    """One coefficient: its value in its natural range, its two-sided p-value, and why it is NaN."""

    value: float
    p_value: float
    note: str = ""

    @classmethod
    def undefined(cls, reason: str) -> Agreement:
        return cls(float("nan"), float("nan"), f"undefined: {reason}")


def correlate(scores: Floats, ratings: Floats, coefficient: str) -> Agreement:
    """Kendall's τ_c or τ_b, Spearman's ρ or Pearson's r.

    Args:
        scores, ratings: shape (n_points,), paired.
        coefficient: `tau_c`, `tau_b`, `spearman` or `pearson`.

    Returns:
        the coefficient in [-1, 1] and SciPy's p-value of "no association"; NaN with a reason where
        there are fewer than two points, a score or rating is NaN, either side is constant, a score is
        infinite and Pearson's r is asked for, or SciPy has no value.

    Raises:
        ValueError: on another coefficient, or on unequal lengths.
    """
    if scores.shape != ratings.shape or scores.ndim != 1:
        raise ValueError(f"scores {scores.shape} and ratings {ratings.shape} are not paired")
    if coefficient not in _FUNCTIONS:
        raise ValueError(f"no coefficient '{coefficient}'")
    if len(scores) < 2:
        return Agreement.undefined(f"{len(scores)} data points; two are needed")
    for values, what in ((scores, "score"), (ratings, "rating")):
        if gaps := int(np.isnan(values).sum()):
            return Agreement.undefined(
                f"{gaps} of {len(scores)} data points have an undefined {what}"
            )
    for values, what in ((scores, "scores"), (ratings, "ratings")):
        if (values == values[0]).all():  # their range would be NaN where all are infinite
            return Agreement.undefined(f"all {what} are equal")
    if coefficient == "pearson" and np.isinf(scores).any():
        return Agreement.undefined("an infinite score, which has no mean")
    if coefficient == "pearson" and (largest := np.abs(scores).max()) > LARGE:
        scores = scores / largest
    with np.errstate(all="ignore"):
        result = _FUNCTIONS[coefficient](scores, ratings)
    if np.isnan(result.statistic):
        return Agreement.undefined("the numbers are too alike to compute with")
    return Agreement(float(result.statistic), float(result.pvalue))


_FUNCTIONS: dict[str, Callable[[Floats, Floats], Any]] = {
    "tau_c": lambda x, y: stats.kendalltau(x, y, variant="c"),
    "tau_b": lambda x, y: stats.kendalltau(x, y, variant="b"),
    "spearman": lambda x, y: stats.spearmanr(x, y),
    "pearson": lambda x, y: stats.pearsonr(x, y),
}


def pairwise_accuracy(scores: pd.Series, preferences: pd.DataFrame) -> Agreement:
    """The share of pairs whose preferred caption has the greater score; a tied score counts half.

    Half is what breaking ties by lot gives on average (Hessel et al. 2021, section 4.2, break them
    by lot). Pairs on which people tied are left out. The p-value is the binomial test's against one
    half.

    Args:
        scores: by item id, more is better.
        preferences: columns `item_a, item_b, winner`.
    """
    decided = preferences[preferences["winner"] != "tie"]
    if decided.empty:
        return Agreement.undefined("no preferences")
    left, right = (np.asarray(scores.loc[decided[side]], float) for side in ("item_a", "item_b"))
    gaps = int((np.isnan(left) | np.isnan(right)).sum())
    if gaps:
        return Agreement.undefined(f"{gaps} of {len(decided)} pairs have an undefined score")
    # Compared, not subtracted: two infinite scores are tied, and their difference is NaN.
    won = int(np.where(decided["winner"] == "a", left > right, right > left).sum())
    tied = int((left == right).sum())
    p_value = stats.binomtest(round(won + tied / 2), len(decided), 0.5).pvalue
    note = f"{tied} tied pairs count half" if tied else ""
    return Agreement((won + tied / 2) / len(decided), float(p_value), note)
