"""Coefficients of agreement between scores and ratings, with p-values; undefined ones are NaN with a reason.

`levels.correlate_at_level` and `rater_agreement` call `correlate`; benchmarks call `preference_accuracy`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from .detection import DETECTION_COEFFICIENTS, chance_level, is_detection, prepare_detection
from .kendall import correlate_kendall, sign_test
from .pair_counts import calibrate_ties, count_pairs
from .preferences import PairOutcomes, mcnemar
from .remarks import Note, Remark, Remarked, Undefined, remark

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
    *DETECTION_COEFFICIENTS,
    "accuracy",
)

#: Coefficients that are defined by numbers of pairs, and computed in `pair_counts`.
PAIR_COEFFICIENTS = ("tau_a", "gamma", "pairwise_accuracy", "acc_eq")
#: From here on the squares of scores overflow; Pearson's r of scaled scores is the same.
LARGE = 1e150

_CORRELATIONS: dict[str, Callable[[Floats, Floats], Any]] = {
    "tau_c": lambda x, y: correlate_kendall(x, y, "c"),
    "tau_b": lambda x, y: correlate_kendall(x, y, "b"),
    "spearman": lambda x, y: scipy.stats.spearmanr(x, y),
    "pearson": lambda x, y: scipy.stats.pearsonr(x, y),
}


@dataclass(frozen=True)
class Coefficient(Remarked):
    """A coefficient in its natural range, with its two-sided p-value; both are NaN where undefined."""

    value: float
    p_value: float = float("nan")

    @classmethod
    def undefined(cls, *remarks: Remark) -> Self:
        """Return NaN; the first remark is the reason."""
        return cls(float("nan"), remarks=remarks)

    @property
    def is_defined(self) -> bool:
        """Say whether there is a value."""
        return not np.isnan(self.value)


def correlate(scores: Floats, ratings: Floats, coefficient: str) -> Coefficient:
    """Correlate scores with ratings, over all points.

    Args:
        scores, ratings: shape (n_points,), paired.
        coefficient: Kendall's `tau_c`, `tau_b` or `tau_a`, Goodman and Kruskal's `gamma`,
            `spearman`, `pearson`, `pairwise_accuracy` or `acc_eq`; see `pair_counts` for the last two.
            `average_precision` and `auroc` are of ratings of 0 and 1, see `detection`.

    Returns:
        The coefficient in [-1, 1], the two accuracies and those of detection in [0, 1], and SciPy's p-value of
        "no association", which the accuracies and average precision lack; NaN with a reason where there are
        fewer than two points, a score or rating is NaN, either side is constant, a score is infinite and Pearson's r or a
        threshold of scores is requested, or there is no value.

    Raises:
        ValueError: on another coefficient, or on unequal lengths.
    """
    if scores.shape != ratings.shape or scores.ndim != 1:
        raise ValueError(f"scores {scores.shape} and ratings {ratings.shape} are not paired")
    if coefficient not in (*_CORRELATIONS, *PAIR_COEFFICIENTS, *DETECTION_COEFFICIENTS):
        raise ValueError(f"no coefficient '{coefficient}'")
    if reason := undefined_reason(scores, ratings):
        return Coefficient.undefined(reason)
    if coefficient == "pearson" and np.isinf(scores).any():
        return Coefficient.undefined(remark(Undefined.INFINITE_SCORE))
    if coefficient in PAIR_COEFFICIENTS:
        return _correlate_pairs(scores, ratings, coefficient)
    if coefficient in DETECTION_COEFFICIENTS:
        return _detect(scores, ratings, coefficient)
    if coefficient == "pearson" and (largest := np.abs(scores).max()) > LARGE:
        scores = scores / largest
    with np.errstate(all="ignore"):
        result = _CORRELATIONS[coefficient](scores, ratings)
    if np.isnan(result.statistic):
        return Coefficient.undefined(remark(Undefined.ROUNDING))
    return Coefficient(float(result.statistic), float(result.pvalue))


def undefined_reason(scores: Floats, ratings: Floats) -> Remark | None:
    """Return why no coefficient of these points has a value; None where they have one."""
    n_points = len(scores)
    if n_points < 2:
        return remark(Undefined.TOO_FEW_POINTS, n_points=n_points)
    for values, code in (
        (scores, Undefined.UNDEFINED_SCORES),
        (ratings, Undefined.UNDEFINED_RATINGS),
    ):
        if n_undefined := int(np.isnan(values).sum()):
            return remark(code, n_undefined=n_undefined, n_points=n_points)
    # Compared with the first, since the range of infinite values is NaN.
    if (scores == scores[0]).all():
        return remark(Undefined.CONSTANT_SCORES)
    return remark(Undefined.CONSTANT_RATINGS) if (ratings == ratings[0]).all() else None


def _correlate_pairs(scores: Floats, ratings: Floats, coefficient: str) -> Coefficient:
    if coefficient == "acc_eq":
        return correlate_acc_eq([(scores, ratings)])
    counts = count_pairs(scores, ratings)
    if coefficient == "pairwise_accuracy":
        return Coefficient(counts.accuracy)
    value = counts.tau_a if coefficient == "tau_a" else counts.gamma
    # They are zero exactly where τ_b is, so that its test is theirs.
    return Coefficient(value, correlate_kendall(scores, ratings).pvalue)


def _detect(scores: Floats, ratings: Floats, coefficient: str) -> Coefficient:
    if not is_detection(ratings):
        return Coefficient.undefined(remark(Undefined.NO_DETECTION))
    every_point = np.zeros(len(scores), dtype=np.int64)
    statistic = prepare_detection(scores, ratings, [coefficient], every_point)
    p_value = float("nan")
    if (
        coefficient == "auroc"
    ):  # it is one half exactly where τ_b is zero, so that its test is this one's
        p_value = correlate_kendall(scores, ratings).pvalue
    chance = remark(Note.CHANCE_LEVEL, chance=chance_level(ratings, coefficient))
    return Coefficient(float(statistic(np.ones((1, 1)))[0, 0]), p_value, remarks=(chance,))


def correlate_acc_eq(groups: Sequence[tuple[Floats, Floats]]) -> Coefficient:
    """Return acc_eq, the mean over groups, with a note of its threshold; see `pair_counts.calibrate_ties`."""
    if any(np.isinf(scores).any() for scores, _ in groups):
        return Coefficient.undefined(remark(Undefined.INFINITE_DIFFERENCE))
    calibration = calibrate_ties(groups)
    if calibration is None:
        return Coefficient.undefined(remark(Undefined.TOO_MANY_VALUES))
    return Coefficient(calibration.value, remarks=(_threshold_note(calibration.threshold),))


def preference_accuracy(
    outcomes: PairOutcomes, ties: str = "half", captions: NDArray[np.int64] | None = None
) -> Coefficient:
    """Return the share of pairs on which a metric agrees with people, under a rule of ties.

    The p-value is the binomial test's against one half. Where pairs of captions have several answers, it is that of
    swapping the captions of each pair, all of its answers at once. Under `calibrated`, where there are three answers,
    there is none.

    Args:
        outcomes: from `preferences.judge_differences`.
        ties: the rule by which they were made.
        captions: shape (n_answers,), the number of each answer's pair of captions; by default each has its own.
    """
    counted = outcomes.values[outcomes.is_counted]
    n_pairs = len(counted)
    if not n_pairs:
        return Coefficient.undefined(remark(Undefined.NO_PREFERENCES))
    if n_undefined := int(np.isnan(counted).sum()):
        return Coefficient.undefined(
            remark(Undefined.UNDEFINED_PAIRS, n_undefined=n_undefined, n_pairs=n_pairs)
        )
    if ties == "calibrated":
        return Coefficient(outcomes.accuracy, remarks=(_threshold_note(outcomes.threshold),))
    own_captions = None if captions is None else captions[outcomes.is_counted]
    if own_captions is None or len(np.unique(own_captions)) == n_pairs:
        p_value = sign_test(round(counted.sum()), n_pairs)
    else:
        p_value = mcnemar(counted, 1 - counted, own_captions).exact
    n_tied = int(((outcomes.values if ties == "drop" else counted) == 0.5).sum())
    note = Note.LEFT_OUT_TIES if ties == "drop" else Note.HALF_COUNTED_PAIRS
    remarks = (remark(note, n_pairs=n_tied),) if n_tied else ()
    return Coefficient(outcomes.accuracy, p_value, remarks=remarks)


def _threshold_note(threshold: float) -> Remark:
    if threshold:
        return remark(Note.TIED_WITHIN, threshold=threshold)
    return remark(Note.TIED_IF_EQUAL)
