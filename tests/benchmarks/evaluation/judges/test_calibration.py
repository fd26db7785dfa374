"""The calibration of a metric on made-up captions: worked by hand, with its refusals and reasons."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from captau.benchmarks.evaluation.judges.calibration import (
    MEASURES,
    CalibrationChoices,
    LabelledScores,
    calibrate_scores,
    draw_first_half,
    require_both_kinds,
    undefined_calibration,
)
from captau.benchmarks.evaluation.judges.further_answers import (
    measure_repeats,
    measure_unlabelled,
)
from captau.benchmarks.statistics.bootstrap import StatisticsOptions
from tests.conftest import says

PLAIN = StatisticsOptions(interval="none")


def choices(**changes: Any) -> CalibrationChoices:
    options: dict[str, Any] = {
        "choose": "youden",
        "precision": 0.8,
        "rule": "logistic",
        "n_bins": 2,
        "statistics": PLAIN,
    }
    return CalibrationChoices(**{**options, **changes})


def labelled(sign: float = 1.0) -> tuple[LabelledScores, np.ndarray]:
    """Two halves of six captions.

    On the first half a threshold of 4 has TPR 1 and TNR 3/4, and 6 TPR 1/2 and TNR 1, which is less together. On the second half 4 gives a yes to 4, 5 and 9, of which 5 and 9 are good, and a no to 1, 2 and 3, of
    which 3 is good.
    """
    first = [(1, 0), (2, 0), (3, 0), (4, 1), (5, 0), (6, 1)]
    second = [(1, 0), (2, 0), (3, 1), (4, 0), (5, 1), (9, 1)]
    scores, is_good = np.array([*first, *second], dtype=float).T
    in_first = np.arange(12) < 6
    return LabelledScores(scores, is_good, np.arange(12), sign), in_first


def test_a_threshold_of_the_first_half_is_measured_on_the_second() -> None:
    calibration = calibrate_scores(*labelled(), choices())
    assert calibration.threshold == 4
    values = {m.measure: m.value for m in calibration.measures}
    assert list(values) == list(MEASURES)
    expected = {
        "threshold": 4,
        "tpr": 2 / 3,
        "tnr": 2 / 3,
        "precision": 2 / 3,
        "npv": 2 / 3,
        "accuracy": 4 / 6,
        "kappa": 1 / 3,
        "auroc": 8 / 9,
        "brier_base": (4 / 9 + 1 / 9) / 2,
        "share_good": 0.5,
        "share_yes": 0.5,
    }
    assert {name: values[name] for name in expected} == pytest.approx(expected)
    counts = {m.measure: m.n_items for m in calibration.measures}
    assert (counts["tpr"], counts["tnr"], counts["precision"], counts["kappa"]) == (3, 3, 3, 6)
    assert [(b["bin"], b["n_items"], b["share_good"]) for b in calibration.bins] == [
        (1, 3, pytest.approx(1 / 3)),
        (2, 3, pytest.approx(2 / 3)),
    ]
    assert [(row["tpr"], row["fpr"]) for row in calibration.roc[:4]] == [
        (0, 0),
        (pytest.approx(1 / 3), 0),
        (pytest.approx(2 / 3), 0),
        (pytest.approx(2 / 3), pytest.approx(1 / 3)),
    ]


def test_a_given_threshold_is_measured_on_both_halves() -> None:
    calibration = calibrate_scores(*labelled(), choices(), threshold=5)
    values = {m.measure: (m.value, m.n_items) for m in calibration.measures}
    # Good captions are 3, 4, 5, 6 and 9, of which three reach 5; of the bad ones 5 alone does.
    assert values["tpr"] == (pytest.approx(3 / 5), 5)
    assert values["tnr"] == (pytest.approx(6 / 7), 7)
    assert values["precision"] == (pytest.approx(3 / 4), 4)
    assert values["brier"][1] == 6


def test_lower_scores_may_be_better() -> None:
    """The metric's own scores are those of `labelled` below 0; its threshold is on its own scale."""
    chosen = calibrate_scores(*labelled(-1.0), choices())
    assert chosen.value("threshold") == -4
    given = calibrate_scores(*labelled(-1.0), choices(), threshold=-5)
    assert given.threshold == 5
    assert given.value("tpr") == pytest.approx(3 / 5)


def test_the_other_rules_of_a_threshold() -> None:
    """At a precision of 1 a threshold of 6 keeps one of two good ones; κ is 2/3 at 4, and 4/7 at 6."""
    scores, in_first = labelled()
    precise = calibrate_scores(scores, in_first, choices(choose="precision", precision=1.0))
    assert precise.threshold == 6
    assert calibrate_scores(scores, in_first, choices(choose="kappa")).threshold == 4

    never = LabelledScores(-scores.scores, scores.is_good, scores.image)
    none = calibrate_scores(never, in_first, choices(choose="precision", precision=0.9))
    assert math.isnan(none.threshold)
    assert none.measures[0].note == (
        "undefined: no threshold reaches a precision of 0.9 on the first half"
    )


def test_what_is_undefined_has_its_reason() -> None:
    scores, in_first = labelled()
    constant = LabelledScores(np.ones(12), scores.is_good, scores.image)
    reasons = {m.note for m in calibrate_scores(constant, in_first, choices()).measures}
    assert reasons == {"undefined: all scores of the first half are equal"}

    beyond = calibrate_scores(scores, in_first, choices(), threshold=20)
    notes = {m.measure: m.note for m in beyond.measures if m.note}
    assert notes["threshold"] == "every caption gets a no: scores are from 1 to 9"
    assert notes["precision"] == "undefined: no caption gets a yes"
    assert notes["kappa"] == "undefined: every caption gets the same answer"
    assert beyond.value("tpr") == 0
    assert beyond.value("tnr") == 1

    odds = calibrate_scores(scores, in_first, choices(rule="none"))
    assert math.isnan(odds.value("brier"))
    assert "5 of 6 scores are no probabilities" in next(
        m.note for m in odds.measures if m.measure == "brier"
    )
    nothing = undefined_calibration(7, "reason")
    assert {(m.n_items, m.note) for m in nothing.measures} == {(7, "undefined: reason")}


def test_scores_that_are_probabilities_are_taken_as_they_are() -> None:
    scores = np.array([0.2, 0.9, 0.1, 0.6])
    is_good = np.array([0.0, 1.0, 0.0, 1.0])
    in_first = np.array([True, True, False, False])
    of_good = LabelledScores(scores, is_good, np.arange(4))
    assert calibrate_scores(of_good, in_first, choices(rule="none")).value("brier") == (
        pytest.approx((0.1**2 + 0.4**2) / 2)
    )
    # The probability of a bad caption, which is better if it is lower, says the same.
    of_bad = LabelledScores(-(1 - scores), is_good, np.arange(4), sign=-1.0)
    assert calibrate_scores(of_bad, in_first, choices(rule="none")).value("brier") == (
        pytest.approx((0.1**2 + 0.4**2) / 2)
    )


def test_intervals_count_images() -> None:
    """Twice the same captions of the same images leave intervals as wide as they are."""
    rng = np.random.default_rng(3)
    is_good = (rng.random(120) < 0.5).astype(float)
    scores = rng.normal(size=120) + is_good
    image = np.arange(120)
    in_first = image % 2 == 0
    options = choices(statistics=StatisticsOptions(replicates=200))
    once = calibrate_scores(LabelledScores(scores, is_good, image), in_first, options)
    twice = calibrate_scores(
        LabelledScores(np.tile(scores, 2), np.tile(is_good, 2), np.tile(image, 2)),
        np.tile(in_first, 2),
        options,
    )
    for single, double in zip(once.measures, twice.measures, strict=True):
        assert double.value == pytest.approx(single.value, abs=0.02)
        if not math.isnan(single.ci_low):
            width = single.ci_high - single.ci_low
            assert single.ci_low < single.value < single.ci_high
            assert double.ci_high - double.ci_low == pytest.approx(width, abs=0.02)


def test_halves_are_of_images_and_need_both_kinds() -> None:
    is_first = draw_first_half(21, seed=4)
    assert is_first.sum() == 10
    assert (is_first == draw_first_half(21, seed=4)).all()
    assert (is_first != draw_first_half(21, seed=5)).any()

    is_good = np.array([1.0] * 30 + [0.0] * 30)
    in_first = np.tile([True, False, False], 20)
    require_both_kinds(is_good, in_first, "mine", "overall")
    message = (
        "dataset mine, overall: the first half of the images has 9 good captions, and 10 of each"
    )
    with says(message):
        require_both_kinds(is_good[3:], in_first[3:], "mine", "overall")


def test_repeats_by_hand() -> None:
    """Three repeats of four captions at a threshold of 1: the first two agree on three, each with the third on two and three."""
    repeats = [np.array(r, dtype=float) for r in ([1, 1, 0, 0], [1, 0, 0, 0], [1, 0, 0, 1])]
    agreement, kappa = measure_repeats(repeats, np.arange(4), 1.0, choices())
    assert agreement.value == pytest.approx((3 / 4 + 2 / 4 + 3 / 4) / 3)
    # κ of 2 and 1 yes of which 1 is common: (3/4 - 1/2) / (1/2); of 2 and 2 with 1: 0; of 1 and 2: as the first.
    assert kappa.value == pytest.approx((0.5 + 0 + 0.5) / 3)
    assert agreement.note == "3 repeats"

    repeats[0][3] = np.nan
    agreement, _ = measure_repeats(repeats, np.arange(4), 1.0, choices())
    assert agreement.n_items == 3
    assert agreement.note == "3 repeats; 1 captions left out without an answer in every repeat"
    nothing = measure_repeats([np.full(2, np.nan)] * 2, np.arange(2), 1.0, choices())
    assert {m.note for m in nothing} == {"undefined: no caption has an answer in every repeat"}


def test_unlabelled_captions_are_corrected() -> None:
    """A third of bad captions get a yes and a third of good ones a no; 5 of 10 get a no: (1/2 - 1/3) / (1/3) are bad."""
    calibration = calibrate_scores(*labelled(), choices())
    scores = np.array([1.0] * 5 + [8.0] * 5)
    said, corrected = measure_unlabelled(scores, np.arange(10), calibration, choices(), "mine")
    assert (said.value, said.note) == (0.5, "captions of mine")
    assert corrected.value == pytest.approx(0.5)
    assert math.isnan(corrected.ci_low)

    with_intervals = choices(statistics=StatisticsOptions())
    all_bad = np.zeros(10)
    _, corrected = measure_unlabelled(all_bad, np.arange(10), calibration, with_intervals, "mine")
    assert corrected.value == 1
    assert corrected.note == (
        "captions of mine; clipped from 2.000; the metric's errors leave every share possible"
    )
    assert (corrected.ci_low, corrected.ci_high) == (0, 1)

    scores[0] = np.nan
    said, corrected = measure_unlabelled(scores, np.arange(10), calibration, choices(), "mine")
    assert math.isnan(corrected.value)
    assert said.note == "undefined: 1 of 10 captions of mine have no finite score"
    nothing = undefined_calibration(7, "reason")
    _, corrected = measure_unlabelled(all_bad, np.arange(10), nothing, choices(), "mine")
    assert corrected.note == "undefined: the metric has no threshold"
