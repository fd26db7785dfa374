"""Coefficients of agreement between scores and ratings, with p-values; undefined is NaN and says why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from .pair_counts import calibrate_ties, count_pairs
from .preferences import pair_outcomes

Floats = NDArray[np.float64]

#: In the order in which the field prints them. `accuracy` is of preferences, the rest of ratings;
#: `soft_pairwise_accuracy` is of systems alone.
COEFFICIENTS = (
    "tau_c",
    "tau_b",
    "tau_a",
    "gamma",
    "spearman",
    "pearson",
    "pairwise_accuracy",
    "acc_eq",
    "soft_pairwise_accuracy",
    "accuracy",
)

#: From here on the squares of scores overflow; Pearson's r is the same of smaller ones.
LARGE = 1e150


@dataclass(frozen=True)
class Coefficient:
    """One coefficient: its value in its natural range, its two-sided p-value, and why it is NaN."""

    value: float
    p_value: float
    note: str = ""

    @classmethod
    def undefined(cls, reason: str) -> Coefficient:
        return cls(float("nan"), float("nan"), f"undefined: {reason}")


def correlate(scores: Floats, ratings: Floats, coefficient: str) -> Coefficient:
    """Agreement of scores with ratings, over all points.

    Args:
        scores, ratings: shape (n_points,), paired.
        coefficient: Kendall's `tau_c`, `tau_b` or `tau_a`, Goodman and Kruskal's `gamma`,
            `spearman`, `pearson`, `pairwise_accuracy` or `acc_eq`; see `pairs` for the last two.

    Returns:
        the coefficient in [-1, 1], of the two accuracies in [0, 1], and SciPy's p-value of "no
        association", which the accuracies lack; NaN with a reason where there are fewer than two
        points, a score or rating is NaN, either side is constant, a score is infinite and Pearson's r or a
        threshold of scores is asked for, or there is no value.

    Raises:
        ValueError: on another coefficient, or on unequal lengths.
    """
    if scores.shape != ratings.shape or scores.ndim != 1:
        raise ValueError(f"scores {scores.shape} and ratings {ratings.shape} are not paired")
    if coefficient not in (*_FUNCTIONS, *PAIR_COEFFICIENTS):
        raise ValueError(f"no coefficient '{coefficient}'")
    if reason := undefined_reason(scores, ratings):
        return Coefficient.undefined(reason)
    if coefficient == "pearson" and np.isinf(scores).any():
        return Coefficient.undefined("an infinite score, which has no mean")
    if coefficient in PAIR_COEFFICIENTS:
        return _of_pairs(scores, ratings, coefficient)
    if coefficient == "pearson" and (largest := np.abs(scores).max()) > LARGE:
        scores = scores / largest
    with np.errstate(all="ignore"):
        result = _FUNCTIONS[coefficient](scores, ratings)
    if np.isnan(result.statistic):
        return Coefficient.undefined("the numbers are too alike to compute with")
    return Coefficient(float(result.statistic), float(result.pvalue))


def undefined_reason(scores: Floats, ratings: Floats) -> str:
    """Why no coefficient of these points has a value; empty where they have."""
    if len(scores) < 2:
        return f"{len(scores)} data points; two are needed"
    for values, what in ((scores, "score"), (ratings, "rating")):
        if gaps := int(np.isnan(values).sum()):
            return f"{gaps} of {len(scores)} data points have an undefined {what}"
    for values, what in ((scores, "scores"), (ratings, "ratings")):
        if (values == values[0]).all():  # their range would be NaN where all are infinite
            return f"all {what} are equal"
    return ""


#: What is defined by numbers of pairs, and computed in `pairs`.
PAIR_COEFFICIENTS = ("tau_a", "gamma", "pairwise_accuracy", "acc_eq")


def _of_pairs(scores: Floats, ratings: Floats, coefficient: str) -> Coefficient:
    if coefficient == "acc_eq":
        return correlate_acc_eq([(scores, ratings)])
    counts = count_pairs(scores, ratings)
    if coefficient == "pairwise_accuracy":
        return Coefficient(counts.accuracy, float("nan"))
    value = counts.tau_a if coefficient == "tau_a" else counts.gamma
    # They are zero exactly where τ_b is, so that its test is theirs.
    return Coefficient(value, float(scipy.stats.kendalltau(scores, ratings).pvalue))


def correlate_acc_eq(groups: Sequence[tuple[Floats, Floats]]) -> Coefficient:
    """acc_eq, the mean over groups, with its threshold in the note; see `pairs.calibrate`."""
    if any(np.isinf(scores).any() for scores, _ in groups):
        return Coefficient.undefined("an infinite score, whose differences have no threshold")
    found = calibrate_ties(groups)
    if found is None:
        return Coefficient.undefined("too many distinct scores and ratings to find a threshold")
    note = "equal scores alone are tied"
    if found.threshold:
        note = f"scores that differ by {found.threshold:.6g} or less are tied"
    return Coefficient(found.value, float("nan"), note)


_FUNCTIONS: dict[str, Callable[[Floats, Floats], Any]] = {
    "tau_c": lambda x, y: scipy.stats.kendalltau(x, y, variant="c"),
    "tau_b": lambda x, y: scipy.stats.kendalltau(x, y, variant="b"),
    "spearman": lambda x, y: scipy.stats.spearmanr(x, y),
    "pearson": lambda x, y: scipy.stats.pearsonr(x, y),
}


def preference_accuracy(scores: pd.Series, preferences: pd.DataFrame) -> Coefficient:
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
        return Coefficient.undefined("no preferences")
    found = pair_outcomes(scores, decided)
    gaps = int(np.isnan(found).sum())
    if gaps:
        return Coefficient.undefined(f"{gaps} of {len(decided)} pairs have an undefined score")
    p_value = scipy.stats.binomtest(round(found.sum()), len(decided), 0.5).pvalue
    tied = int((found == 0.5).sum())
    note = f"{tied} tied pairs count half" if tied else ""
    return Coefficient(float(found.mean()), float(p_value), note)
