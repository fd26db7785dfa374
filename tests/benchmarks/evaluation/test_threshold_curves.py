"""Conditions, good captions, curves and their rows: worked by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from captau.benchmarks.evaluation.threshold_curves import (
    Condition,
    Conjunction,
    ThresholdCurve,
    curve_names,
    describe_good,
    mark_good_captions,
    metric_curve,
)
from captau.datasets.schema import Scale
from tests.conftest import says


@pytest.mark.parametrize(
    ("text", "dimension", "sign", "number", "met"),
    [
        ("correct>=2", "correct", ">=", 2.0, [False, True, True]),
        ("correct > 2", "correct", ">", 2.0, [False, False, True]),
        (" made up <= 2.0 ", "made up", "<=", 2.0, [True, True, False]),
        ("x<.5e", "", "", 0.0, None),
        ("x<+2.", "x", "<", 2.0, [True, False, False]),
        ("x<=-.5", "x", "<=", -0.5, [False, False, False]),
        ("x=2", "", "", 0.0, None),
    ],
)
def test_a_condition_is_read_and_compared(
    text: str, dimension: str, sign: str, number: float, met: list[bool] | None
) -> None:
    if met is None:
        with says(f"good is '{text}': '{text}' is not a condition on a dimension"):
            Conjunction.parse(text, "good")
        return
    (condition,) = Conjunction.parse(text, "good").conditions
    assert condition == Condition(dimension, sign, number)
    assert condition.compare(np.array([1, 2, 3])).tolist() == met


def test_a_conjunction_is_named_by_its_conditions() -> None:
    both = Conjunction.parse("a >= 1  and b<2.5", "good")
    assert str(both) == "a>=1 and b<2.5"
    assert curve_names(both, ["a", "b"]) == ["a>=1 and b<2.5"]
    assert curve_names(0.5, ("a", "b")) == ["a", "b"]
    assert describe_good(both, 1, 2000) == (
        "1 of 2,000 rated captions is good: most of their ratings are a>=1, and most are b<2.5."
    )


def test_what_is_good_is_said_in_a_sentence() -> None:
    five = Scale(1, 5, 1)
    assert describe_good(0.75, 1200, 2000, scale=five) == (
        "1,200 of 2,000 rated captions are good: most of their ratings are at least 4 on the scale from 1 to 5."
    )
    assert describe_good(0.75, 2, 3, scale=five, is_fault=True) == (
        "2 of 3 rated captions are good: most of their ratings are at most 2 on the scale from 1 to 5."
    )


@pytest.mark.parametrize(
    ("good", "scale", "is_fault", "limit"),
    [
        pytest.param(0.5, Scale(0, 1, 1), False, "at least 1", id="yes or no"),
        pytest.param(0.5, Scale(0, 1), False, "at least 0.5", id="without steps"),
        pytest.param(0.5, Scale(1, 4, 1), False, "at least 3", id="between two grades"),
        pytest.param(0.5, Scale(1, 4, 1), True, "at most 2", id="a fault between two"),
        pytest.param(0.0, Scale(1, 5, 1), False, "at least 1", id="all"),
        pytest.param(0.7, Scale(0, 10, 1), False, "at least 7", id="a share that is not exact"),
    ],
)
def test_the_limit_of_what_is_good_is_a_grade_of_the_scale(
    good: float, scale: Scale, is_fault: bool, limit: str
) -> None:
    """The ratings that the sentence names are those that count as good."""
    sentence = describe_good(good, 1, 2, scale=scale, is_fault=is_fault)
    assert f"most of their ratings are {limit} on the scale" in sentence
    number = float(limit.split()[-1])
    rated = ratings(
        **{
            str(grade): [grade]
            for grade in np.arange(scale.low, scale.high + 0.5, scale.step or 0.5)
        }
    )
    faults = ["d"] if is_fault else []
    if good == 0:
        return
    marked = mark_good_captions(rated, "d", {"d": scale}, good, "made", faults)
    expected = [
        float(grade) <= number if is_fault else float(grade) >= number for grade in marked.index
    ]
    assert marked.tolist() == expected


def ratings(**values: list[float]) -> pd.DataFrame:
    rows = [(item, "d", value) for item, of_item in values.items() for value in of_item]
    return pd.DataFrame(rows, columns=pd.Index(["item_id", "dimension", "value"]))


def test_a_caption_is_good_where_more_than_half_of_its_ratings_are() -> None:
    """On a scale from 1 to 5 half is 3."""
    table = ratings(a=[3, 2], b=[3, 3, 2], c=[2.9], d=[3])
    good = mark_good_captions(table, "d", {"d": Scale(1, 5)}, 0.5, "mine")
    assert good.to_dict() == {"a": 0.0, "b": 1.0, "c": 0.0, "d": 1.0}
    # As a fault 4 is a quarter of the way from the upper end.
    good = mark_good_captions(
        ratings(a=[4], b=[4.1], c=[1]), "d", {"d": Scale(1, 5)}, 0.25, "mine", ["d"]
    )
    assert good.to_dict() == {"a": 1.0, "b": 0.0, "c": 1.0}


@pytest.mark.parametrize(
    ("good", "said"),
    [
        (0.0, "dataset mine, d: every caption is good at good=0 of the scale"),
        (1.0, "dataset mine, d: no caption is good at good=1 of the scale"),
        (Conjunction.parse("d>=1", "good"), "every caption is good at good='d>=1'; set good= to"),
        (
            Conjunction.parse("d>=6", "good"),
            "no caption is good at good='d>=6'; set good= to other",
        ),
        (Conjunction.parse("e>=6", "good"), "dimension of dataset mine in good"),
    ],
)
def test_all_or_none_is_refused(good: Any, said: str) -> None:
    with says(said):
        mark_good_captions(ratings(a=[2], b=[3]), "d", {"d": Scale(1, 5)}, good, "mine")


def test_a_curve_serves_equal_scores_together() -> None:
    """In descending order: 3 good; 2 good, 2 bad; 1 bad; 0 good."""
    scores = np.array([2.0, 0.0, 3.0, 1.0, 2.0])
    is_good = np.array([1.0, 1.0, 1.0, 0.0, 0.0])
    curve = ThresholdCurve.compute(scores, is_good)
    np.testing.assert_allclose(curve.thresholds, [3, 2, 1, 0])
    np.testing.assert_allclose(curve.precision, [1, 2 / 3, 1 / 2, 3 / 5])
    np.testing.assert_allclose(curve.recall, [1 / 3, 2 / 3, 2 / 3, 1])
    np.testing.assert_array_equal(curve.n_served, [1, 3, 4, 5])
    assert curve.auc == pytest.approx((1 + 2 / 3 + 3 / 5) / 3)
    assert curve.recall_at(0.6) == (1.0, 0.0)
    assert curve.recall_at(0.61) == (2 / 3, 2.0)
    assert curve.recall_at(1.0) == (1 / 3, 3.0)
    assert all(map(math.isnan, curve.recall_at(1.1)))


def test_a_metric_has_its_curve_and_a_row() -> None:
    is_good = pd.Series([1, 0, 1])
    rows, row = metric_curve(np.array([0.2, 0.1, 0.3]), is_good, 1.0)
    assert rows == [
        {"threshold": 0.3, "precision": 1.0, "recall": 0.5, "n_kept": 1, "n_items": 3},
        {"threshold": 0.2, "precision": 1.0, "recall": 1.0, "n_kept": 2, "n_items": 3},
        {"threshold": 0.1, "precision": 2 / 3, "recall": 1.0, "n_kept": 3, "n_items": 3},
    ]
    assert row == {
        "auc": 1.0, "wanted_precision": 1.0, "recall": 1.0, "threshold": 0.2, "n_good": 2,
        "n_items": 3, "note": "",
    }  # fmt: skip
    _, row = metric_curve(np.array([0.1, 0.3, 0.2]), is_good, 0.9)
    assert row["note"] == "no threshold reaches the wanted precision"
    rows, row = metric_curve(np.array([0.1, math.inf, math.nan]), is_good, 0.9)
    assert rows == []
    assert row["note"] == "undefined: 2 of 3 captions have no finite score"
    assert all(math.isnan(row[name]) for name in ("auc", "recall", "threshold"))
    assert (row["wanted_precision"], row["n_good"], row["n_items"]) == (0.9, 2, 3)


def test_a_curve_by_hand():
    """Scores .9 good, .8 bad, .8 good, .1 bad: thresholds .9, .8, .1."""
    curve = ThresholdCurve.compute(np.array([0.9, 0.8, 0.8, 0.1]), np.array([1.0, 0.0, 1.0, 0.0]))
    assert curve.thresholds.tolist() == [0.9, 0.8, 0.1]
    np.testing.assert_allclose(curve.precision, [1, 2 / 3, 2 / 4])
    np.testing.assert_allclose(curve.recall, [1 / 2, 1, 1])
    assert curve.n_served.tolist() == [1, 3, 4]
    assert curve.auc == pytest.approx(1 / 2 * 1 + 1 / 2 * 2 / 3)
    assert curve.recall_at(0.6) == (1.0, 0.8)
    assert curve.recall_at(0.9) == (0.5, 0.9)


def test_a_precision_that_is_not_reached():
    curve = ThresholdCurve.compute(np.array([1.0, 0.0]), np.array([0.0, 1.0]))
    assert np.isnan(curve.recall_at(0.8)).all()


@pytest.mark.dev
@given(
    st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=40).filter(
        lambda rows: any(good for _, good in rows)
    )
)
def test_as_scikit_learn_has_it(rows):
    from sklearn import metrics

    scores = np.array([s for s, _ in rows], dtype=float)
    good = np.array([g for _, g in rows], dtype=float)
    curve = ThresholdCurve.compute(scores, good)
    precision, recall, thresholds = metrics.precision_recall_curve(good, scores)
    # It goes from the least threshold on, and adds a point without captions.
    np.testing.assert_allclose(curve.thresholds, thresholds[::-1])
    np.testing.assert_allclose(curve.precision, precision[:-1][::-1])
    np.testing.assert_allclose(curve.recall, recall[:-1][::-1])
    assert curve.auc == pytest.approx(metrics.average_precision_score(good, scores))


def ext_ratings() -> pd.DataFrame:
    """Three raters' levels of four captions; `d` was not rated for helpfulness."""
    levels = {
        ("a", "correct"): (2, 2, 0),
        ("a", "helpful"): (0, 2, 2),
        ("b", "correct"): (2, 2, 2),
        ("b", "helpful"): (2, 0, 0),
        ("c", "correct"): (0, 0, 2),
        ("c", "helpful"): (2, 2, 2),
        ("d", "correct"): (2, 2, 2),
    }
    rows = [
        (item, dimension, value) for (item, dimension), values in levels.items() for value in values
    ]
    return pd.DataFrame(rows, columns=pd.Index(["item_id", "dimension", "value"]))


def test_a_good_caption_of_two_dimensions_has_a_majority_in_each() -> None:
    """Ext-Good (Levinboim et al. 2021, section 6.2): different raters may make the two majorities."""
    good = Conjunction.parse("correct>=2 and helpful > 1", "good")
    assert str(good) == "correct>=2 and helpful>1"
    assert curve_names(good, ["correct", "helpful"]) == ["correct>=2 and helpful>1"]
    is_good = mark_good_captions(ext_ratings(), str(good), {}, good, "mine")
    assert is_good.to_dict() == {"a": 1.0, "b": 0.0, "c": 0.0}
    assert describe_good(good, 1, 3) == (
        "1 of 3 rated captions is good: most of their ratings are correct>=2, and most are helpful>1."
    )


def test_few_faults_are_good() -> None:
    """Of two raters who mark a fault as 1: none, both and one of them; a caption needs more than half without."""
    rows = [("a", "made up", v) for v in (0, 0)] + [("b", "made up", v) for v in (1, 1)]
    rows += [("c", "made up", v) for v in (0, 1)]
    ratings = pd.DataFrame(rows, columns=pd.Index(["item_id", "dimension", "value"]))
    scales = {"made up": Scale(0, 1, 1)}
    is_good = mark_good_captions(ratings, "made up", scales, 0.75, "mine", ("made up",))
    assert is_good.to_dict() == {"a": 1.0, "b": 0.0, "c": 0.0}
    assert describe_good(0.75, 1, 3, scale=scales["made up"], is_fault=True) == (
        "1 of 3 rated captions is good: most of their ratings are at most 0 on the scale from 0 to 1."
    )


@pytest.mark.parametrize("text", [">=2", "correct>=2 and >=1", "correct", "correct>=x", "a>=1 or"])
def test_a_conjunction_that_names_no_dimension_is_refused(text: str) -> None:
    with says(f"good is '{text}'", "is not a condition on a dimension"):
        Conjunction.parse(text, "good")
