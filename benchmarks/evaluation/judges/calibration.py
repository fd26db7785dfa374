"""The worth of a metric's yes: errors, agreement, probabilities, and the share of bad captions that it stands for.

A metric says yes to a caption whose score reaches a threshold, as a judge does who keeps or flags captions. A threshold that was
chosen on the captions on which it is reported looks better than it is; so it is chosen on one half of the images and
reported on the other, and so are the probabilities that scores are mapped to:

    in_first = draw_first_half(image, n_images, seed=0)
    require_both_kinds(labelled, in_first, "thumb", "total")
    calibration = calibrate_scores(labelled, in_first, choices)
    calibration.measures, calibration.bins, calibration.roc
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ....datasets.errors import Lack, LackingError
from ...statistics.bootstrap import Interval, StatisticsOptions, resample, statistic_intervals
from ...statistics.clustered_shares import ClusteredShare
from ...statistics.coefficients.coefficient import RatingCoefficient, find_coefficient
from ...statistics.probabilities import ProbabilityBins, brier_score, fit_rule, mean_statistic
from ...statistics.rated_points import RatedPoints
from ...statistics.weighted_pairs import Floats, Ints, Mask, Statistic
from ..threshold_curves import ThresholdCurve

#: The fewest good and bad captions of a half: with fewer, a share moves by ten points with each caption.
LEAST_OF_A_KIND = 10
#: What is measured of yes and no.
ANSWER_MEASURES = ("tpr", "tnr", "precision", "npv", "accuracy")
#: What is measured of scores as probabilities.
PROBABILITY_MEASURES = ("brier", "brier_base", "calibration_error")
MEASURES = (
    "threshold",
    *ANSWER_MEASURES,
    "kappa",
    "auroc",
    *PROBABILITY_MEASURES,
    "share_good",
    "share_yes",
)


@dataclass(frozen=True)
class CalibrationChoices:
    """Options of the calibration of a metric.

    Attributes:
        choose: a rule of `THRESHOLD_RULES`.
        precision: that the rule `precision` asks for.
        rule: of `RULES`, from scores to probabilities.
        n_bins: the most bins of probability.
        statistics: the kind and level of intervals.
    """

    choose: str
    precision: float
    rule: str
    n_bins: int
    statistics: StatisticsOptions

    def share_interval(self, share: ClusteredShare) -> tuple[float, float]:
        """Return both ends of a share's interval; NaN where none is asked for."""
        if not self.statistics.uses_resampling:
            return math.nan, math.nan
        return share.interval(self.statistics.level)


@dataclass(frozen=True)
class LabelledScores:
    """A metric's scores of captions that people called good or bad.

    Attributes:
        scores: more is better, shape (n_items,).
        is_good: 1 or 0, shape (n_items,).
        image: the number of each caption's image, shape (n_items,).
        sign: 1, or -1 where the metric's own scores are better if they are lower.
    """

    scores: Floats
    is_good: Floats
    image: Ints
    sign: float = 1.0

    def part(self, is_in: Mask) -> LabelledScores:
        """Return some of the captions, shape (n_items,)."""
        return replace(
            self, scores=self.scores[is_in], is_good=self.is_good[is_in], image=self.image[is_in]
        )

    @property
    def is_constant(self) -> bool:
        """Tell whether all scores are equal."""
        return bool((self.scores == self.scores[0]).all())


#: The columns of `calibration.csv` and `metric_raters.csv`: the names, and a `Measure`.
MEASURE_COLUMNS = (
    "dataset",
    "dimension",
    "metric",
    "measure",
    "value",
    "ci_low",
    "ci_high",
    "n_items",
    "note",
)


@dataclass(frozen=True)
class Measure:
    """A row of `calibration.csv` or `metric_raters.csv`, without the names of its dataset and metric."""

    measure: str
    value: float
    ci_low: float = math.nan
    ci_high: float = math.nan
    n_items: int = 0
    note: str = ""


@dataclass(frozen=True)
class Calibration:
    """The worth of a metric's yes, as measured.

    Attributes:
        threshold: captions of this score or more get a yes; more is better. NaN where there is none.
        measures: in the order of `MEASURES`.
        bins: rows of `bins.csv` without names.
        roc: rows of `roc.csv` without names.
        bad_said_bad, good_said_bad: the shares of bad and of good captions that get a no; None where there are none.
    """

    threshold: float
    measures: list[Measure]
    bins: list[dict[str, Any]]
    roc: list[dict[str, Any]]
    bad_said_bad: ClusteredShare | None = None
    good_said_bad: ClusteredShare | None = None

    def value(self, measure: str) -> float:
        """Return the value of a measure."""
        values = {m.measure: m.value for m in self.measures}
        return values[measure]


def draw_first_half(n_images: int, seed: int) -> Mask:
    """Draw the images of the first half, shape (n_images,); of an odd number it is the smaller half."""
    is_first = np.zeros(n_images, dtype=bool)
    # Images are drawn, not captions: captions of one image are alike.
    is_first[np.random.default_rng(seed).permutation(n_images)[: n_images // 2]] = True
    return is_first


def require_both_kinds(
    is_good: Floats, in_first: Mask, dataset: str, dimension: str, *, has_threshold: bool = False
) -> None:
    """Check that there are enough good and bad captions to speak of, in each half or in all.

    Args:
        is_good: 1 or 0, shape (n_items,).
        in_first: whether a caption is of the first half, shape (n_items,).
        dataset, dimension: for the message.
        has_threshold: whether thresholds are given, so that they are held against all captions.

    Raises:
        LackingError: where there are too few.
    """
    # A threshold is fitted on one half, and errors are measured on the other: both need both kinds.
    parts = {
        "the first half of the images has": in_first,
        "the second half of the images has": ~in_first,
    }
    remedy = "give a threshold of your own, which needs no halves (threshold=…), "
    if has_threshold:
        parts = {"there are": np.ones(len(is_good), dtype=bool)}
        remedy = ""
    for part, is_in in parts.items():
        for kind, count in _count_kinds(is_good[is_in]).items():
            if count < LEAST_OF_A_KIND:
                message = (
                    f"dataset {dataset}, {dimension}: {part} {count} {kind} captions, and {LEAST_OF_A_KIND} of each kind are the least to "
                    f"measure errors on; {remedy}set good= to another share of the scale, or rate more captions"
                )
                raise LackingError(Lack.VARIATION, message)


def _count_kinds(is_good: Floats) -> dict[str, int]:
    """Return the number of good and of bad captions."""
    n_good = int(is_good.sum())
    return {"good": n_good, "bad": len(is_good) - n_good}


def has_both_kinds(is_good: Floats) -> bool:
    """Tell whether there are enough good and bad captions to speak of."""
    return min(_count_kinds(is_good).values()) >= LEAST_OF_A_KIND


def calibrate_scores(
    labelled: LabelledScores,
    in_first: Mask,
    choices: CalibrationChoices,
    threshold: float | None = None,
) -> Calibration:
    """Measure what a metric's yes is worth.

    Args:
        labelled: finite scores of captions that people called good or bad.
        in_first: whether a caption is of the first half, on which a threshold and the rule of probabilities are
            fitted, shape (n_items,).
        choices: how.
        threshold: a given one, of the metric's own scores, which is reported on both halves; None chooses one.
    """
    fitted = labelled.part(in_first)
    held_out = labelled.part(~in_first)
    if threshold is not None:
        # Scores are oriented: greater is better, whatever the metric's own direction.
        cut = labelled.sign * threshold
        reported = labelled
    else:
        # What was fitted on the first half would look too good there.
        reported = held_out
        if fitted.is_constant:
            return undefined_calibration(
                len(reported.scores), "all scores of the first half are equal"
            )
        curve = ThresholdCurve.compute(fitted.scores, fitted.is_good)
        cut = curve.choose(choices.choose, choices.precision)
        if math.isnan(cut):
            reason = f"no threshold reaches a precision of {choices.precision:g} on the first half"
            return undefined_calibration(len(reported.scores), reason)

    says_yes = reported.scores >= cut
    shares = _answer_shares(reported, says_yes)
    own_threshold = labelled.sign * cut
    note = _threshold_note(reported, says_yes)
    measures = [Measure("threshold", own_threshold, n_items=len(reported.scores), note=note)]
    measures += [share_measure(name, shares[name], choices) for name in ANSWER_MEASURES]
    # The order of these is that of `MEASURES`, and of the rows of calibration.csv.
    measures += _agreement_measures(reported, says_yes, choices)
    has_halves = has_both_kinds(fitted.is_good) and has_both_kinds(held_out.is_good)
    if threshold is not None and not has_halves:
        # A given threshold needs no halves, so that they may be too small for probabilities.
        reason = f"a half of the images has fewer than {LEAST_OF_A_KIND} good or bad captions"
        probability_measures = _undefined_probabilities(reason, len(held_out.scores))
        bins: list[dict[str, Any]] = []
    else:
        probability_measures, bins = _measure_probabilities(fitted, held_out, choices)
    measures += probability_measures
    measures += [share_measure(name, shares[name], choices) for name in ("share_good", "share_yes")]
    return Calibration(
        threshold=cut,
        measures=measures,
        bins=bins,
        roc=_roc_rows(reported),
        bad_said_bad=shares["bad_said_bad"],
        good_said_bad=shares["good_said_bad"],
    )


def undefined_calibration(n_items: int, reason: str) -> Calibration:
    """Return the calibration of a metric of which nothing is defined."""
    note = f"undefined: {reason}"
    return Calibration(
        threshold=math.nan,
        measures=[Measure(name, math.nan, n_items=n_items, note=note) for name in MEASURES],
        bins=[],
        roc=[],
    )


def _answer_shares(reported: LabelledScores, says_yes: Mask) -> dict[str, ClusteredShare]:
    is_good = reported.is_good > 0
    is_right = says_yes == is_good
    everything = np.ones(len(is_good), dtype=bool)

    def share(hits: Mask, counted: Mask) -> ClusteredShare:
        return ClusteredShare.measure(hits[counted], reported.image[counted])

    return {
        "tpr": share(says_yes, is_good),
        "tnr": share(~says_yes, ~is_good),
        "precision": share(is_good, says_yes),
        "npv": share(~is_good, ~says_yes),
        "accuracy": share(is_right, everything),
        "share_good": share(is_good, everything),
        "share_yes": share(says_yes, everything),
        "bad_said_bad": share(~says_yes, ~is_good),
        "good_said_bad": share(~says_yes, is_good),
    }


def share_measure(name: str, share: ClusteredShare, choices: CalibrationChoices) -> Measure:
    """Return the measure of a share with its interval; `precision` and the others of yes and no may be of no caption."""
    if not share.n_items:
        answer = "yes" if name == "precision" else "no"
        return Measure(name, math.nan, note=f"undefined: no caption gets a {answer}")

    low, high = choices.share_interval(share)
    return Measure(name, share.value, low, high, share.n_items)


def _threshold_note(reported: LabelledScores, says_yes: Mask) -> str:
    """Say where a threshold lies beyond all scores."""
    if 0 < says_yes.sum() < len(says_yes):
        return ""

    own_scores = reported.sign * reported.scores
    lowest = own_scores.min()
    highest = own_scores.max()
    answer = "yes" if says_yes.any() else "no"
    scores = f"scores are from {lowest:.6g} to {highest:.6g}"
    if lowest == highest:
        scores = f"every score is {lowest:.6g}"
    return f"every caption gets a {answer}: {scores}"


def _agreement_measures(
    reported: LabelledScores, says_yes: Mask, choices: CalibrationChoices
) -> list[Measure]:
    """Return κ of yes and good, and the area under the ROC curve."""
    images, unit = np.unique(reported.image, return_inverse=True)
    measures: list[Measure] = []
    for name, values in (("kappa", says_yes.astype(np.float64)), ("auroc", reported.scores)):
        coefficient: Any = find_coefficient(name)
        defined = coefficient.value(values, reported.is_good)
        if math.isnan(defined.value):
            reason = (
                "every caption gets the same answer" if name == "kappa" else "all scores are equal"
            )
            measures.append(
                Measure(name, math.nan, n_items=len(values), note=f"undefined: {reason}")
            )
            continue

        points = RatedPoints(values, reported.is_good, unit.astype(np.int64))
        statistic = _statistic_of(coefficient, points)
        interval = _resampled_interval(statistic, defined.value, len(images), choices)
        measures.append(_resampled_measure(name, defined.value, interval, len(values)))

    return measures


def _statistic_of(coefficient: RatingCoefficient, points: RatedPoints) -> Statistic:
    prepared = coefficient.prepare(points)
    # A statistic has a row for each of its values, which is one here.
    return lambda weights: prepared(points.weigh(weights))[None, :]


def _resampled_interval(
    statistic: Statistic, value: float, n_images: int, choices: CalibrationChoices
) -> Interval:
    options = choices.statistics
    if not options.uses_resampling or n_images < 2:
        return Interval()

    replicates = resample([statistic], n_images, options.replicates, options.seed)[0]
    values = np.array([value])
    return statistic_intervals(statistic, values, replicates, n_images, options)[0]


def _resampled_measure(name: str, value: float, interval: Interval, n_items: int) -> Measure:
    return Measure(name, value, interval.low, interval.high, n_items, interval.note)


def _measure_probabilities(
    fitted: LabelledScores, held_out: LabelledScores, choices: CalibrationChoices
) -> tuple[list[Measure], list[dict[str, Any]]]:
    """Hold probabilities by the first half's rule against what people say of the second half."""
    n_items = len(held_out.scores)
    reason = _no_rule_reason(fitted, held_out, choices.rule)
    if reason:
        return _undefined_probabilities(reason, n_items), []

    if choices.rule == "none":
        probabilities = _as_probabilities(held_out)
    else:
        rule = fit_rule(choices.rule, fitted.scores, fitted.is_good)
        probabilities = rule(held_out.scores)

    images, unit = np.unique(held_out.image, return_inverse=True)
    measures: list[Measure] = []
    base = np.full(n_items, fitted.is_good.mean())
    for name, predicted in (("brier", probabilities), ("brier_base", base)):
        distances = (predicted - held_out.is_good) ** 2
        statistic = mean_statistic(distances, unit.astype(np.int64), len(images))
        value = brier_score(predicted, held_out.is_good)
        interval = _resampled_interval(statistic, value, len(images), choices)
        measures.append(_resampled_measure(name, value, interval, n_items))

    bins = ProbabilityBins.cut(probabilities, held_out.is_good, choices.n_bins)
    note = "no interval: resampling can only add to it"
    measures.append(Measure("calibration_error", bins.expected_error, n_items=n_items, note=note))
    return measures, _bin_rows(bins, held_out, choices)


def _undefined_probabilities(reason: str, n_items: int) -> list[Measure]:
    """Return the measures of probabilities without values."""
    note = f"undefined: {reason}"
    return [Measure(name, math.nan, n_items=n_items, note=note) for name in PROBABILITY_MEASURES]


def _no_rule_reason(fitted: LabelledScores, held_out: LabelledScores, rule: str) -> str:
    """Return the reason why scores cannot be mapped to probabilities; empty where they can."""
    if rule != "none":
        return "all scores of the first half are equal" if fitted.is_constant else ""

    probabilities = _as_probabilities(held_out)
    n_beyond = int(((probabilities < 0) | (probabilities > 1)).sum())
    if n_beyond:
        n_items = len(probabilities)
        return f"{n_beyond:,} of {n_items:,} scores are no probabilities; probabilities=logistic maps them"
    return ""


def _as_probabilities(labelled: LabelledScores) -> Floats:
    """Return scores as probabilities of a good caption; where lower ones are better, they are those of a bad one."""
    if labelled.sign > 0:
        return labelled.scores
    # More is better in `scores`: they are such probabilities with a minus before them.
    return 1 + labelled.scores


def _bin_rows(
    bins: ProbabilityBins, held_out: LabelledScores, choices: CalibrationChoices
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for number in range(len(bins.counts)):
        is_in = bins.bin_of_item == number
        share = ClusteredShare.measure(held_out.is_good[is_in], held_out.image[is_in])
        low, high = choices.share_interval(share)
        row = {
            "bin": number + 1,
            "low": bins.low[number],
            "high": bins.high[number],
            "predicted": bins.predicted[number],
            "share_good": share.value,
            "ci_low": low,
            "ci_high": high,
            "n_items": share.n_items,
            "n_images": share.n_images,
        }
        rows.append(row)

    return rows


def _roc_rows(reported: LabelledScores) -> list[dict[str, Any]]:
    """Return the ROC curve, from the threshold that keeps nothing to that which keeps all."""
    curve = ThresholdCurve.compute(reported.scores, reported.is_good)
    rows: list[dict[str, Any]] = [{"threshold": math.nan, "tpr": 0.0, "fpr": 0.0}]
    thresholds = (reported.sign * curve.thresholds).tolist()
    for threshold, tpr, fpr in zip(
        thresholds, curve.recall.tolist(), curve.false_positive_rate.tolist(), strict=True
    ):
        rows.append({"threshold": threshold, "tpr": tpr, "fpr": fpr})

    return rows
