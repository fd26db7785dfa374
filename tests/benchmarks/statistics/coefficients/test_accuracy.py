"""Accuracy on preferences worked by hand, its p-values, its undefined cases, and the laws that it keeps."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from captau.benchmarks.statistics.coefficients.accuracy import Accuracy
from captau.benchmarks.statistics.coefficients.coefficient import CoefficientValue
from captau.benchmarks.statistics.preferences import (
    PairOutcomes,
    judge_differences,
    pair_differences,
)
from captau.datasets.preferences import STRENGTHS

INF, NAN = float("inf"), float("nan")
laws = settings(max_examples=40)


def preferences(*rows: tuple[str, str, str]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=["item_a", "item_b", "winner"])


def accuracy(scores: pd.Series, rows: pd.DataFrame, ties: str = "half") -> CoefficientValue:
    strengths = rows["winner"].map(STRENGTHS).to_numpy(dtype=float)
    return Accuracy().value(
        judge_differences(pair_differences(scores, rows), strengths, ties), ties
    )


SCORES = pd.Series({"low": 0.1, "also_low": 0.1, "high": 0.9, "none": NAN})


def test_accuracy_worked_by_hand() -> None:
    """Right, right, wrong, tied; people's own tie does not count: (2 + 1/2) / 4."""
    told = preferences(
        ("high", "low", "a"),
        ("low", "high", "b"),
        ("high", "low", "b"),
        ("low", "also_low", "a"),
        ("high", "low", "tie"),
    )
    found = accuracy(SCORES, told)
    assert found.value == 2.5 / 4
    assert found.note == "1 tied pairs count half"
    # Without the metric's tie: 2 / 3.
    dropped = accuracy(SCORES, told, "drop")
    assert dropped.value == 2 / 3
    assert dropped.note == "1 pairs left out that the metric ties"
    # With a threshold of 0 the first two are right; one of 0.8 would tie all, and only people's tie were right.
    calibrated = accuracy(SCORES, told, "calibrated")
    assert calibrated.value == 2 / 5
    assert calibrated.note == "equal scores alone are tied"
    assert math.isnan(calibrated.p_value)


@laws
@given(
    st.lists(st.tuples(st.integers(-3, 3), st.integers(-2, 2)), min_size=1, max_size=12),
)
def test_calibrated_ties_are_the_best_of_all_thresholds(pairs: list[tuple[int, int]]) -> None:
    """Each threshold in turn, as in acc_eq (Deutsch et al. 2023); the smallest of the best."""
    differences, strengths = np.array(pairs, dtype=float).T
    thresholds = sorted({0.0, *np.abs(differences)})
    shares = [
        float(
            (np.where(abs(differences) <= t, 0, np.sign(differences)) == np.sign(strengths)).mean()
        )
        for t in thresholds
    ]
    outcomes = judge_differences(differences, strengths, "calibrated")
    assert outcomes.accuracy == max(shares)
    assert outcomes.threshold == thresholds[shares.index(max(shares))]


def test_accuracy_p_value() -> None:
    """Three of three under a fair coin, two-sided: 2 / 2^3."""
    found = accuracy(SCORES, preferences(*[("high", "low", "a")] * 3))
    assert found == CoefficientValue(1.0, 0.25)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([], "no preferences"),
        ([("high", "low", "tie")], "no preferences"),
        ([("high", "none", "a"), ("low", "high", "a")], "1 of 2 pairs have an undefined score"),
    ],
)
def test_accuracy_undefined_says_why(rows: list[tuple[str, str, str]], reason: str) -> None:
    found = accuracy(SCORES, preferences(*rows))
    assert math.isnan(found.value)
    assert math.isnan(found.p_value)
    assert found.note == f"undefined: {reason}"


@laws
@given(
    scores=st.lists(st.integers(-3, 3), min_size=2, max_size=6),
    told=st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 5), st.sampled_from("ab")), min_size=1
    ),
)
def test_accuracy_laws(scores: list[int], told: list[tuple[int, int, str]]) -> None:
    by_item = pd.Series(scores, index=[f"i{k}" for k in range(len(scores))], dtype=float)
    rows = preferences(*[(f"i{a}", f"i{b % len(scores)}", w) for a, b, w in told])
    found = accuracy(by_item, rows).value
    assert 0 <= found <= 1
    assert accuracy(-by_item, rows).value == pytest.approx(1 - found)
    assert accuracy(np.exp(by_item), rows).value == found
    swapped = rows.rename(columns={"item_a": "item_b", "item_b": "item_a"})
    assert accuracy(by_item, swapped).value == pytest.approx(1 - found)
    assert accuracy(0 * by_item, rows).value == 0.5


def test_infinite_scores_of_a_pair_are_tied() -> None:
    scores = pd.Series({"a": INF, "b": INF, "c": -INF})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = accuracy(scores, preferences(("a", "b", "a"), ("a", "c", "a")))
    assert (found.value, found.note) == (0.75, "1 tied pairs count half")


def test_accuracy_of_weighted_preferences():
    """A pair that is drawn twice counts twice; the last value is the mean of the dimensions."""
    right, dimension, unit = [1, 0.5, 0, 1], [0, 0, 1, 1], [0, 1, 1, 2]
    found = Accuracy().prepare(right, dimension, unit, 2)(
        np.array([[1.0, 2, 0], [1, 1, 0], [1, 0, 1]])
    )
    first, second = [1.5 / 2, 2.5 / 3], [1 / 2, 0 / 1]
    np.testing.assert_allclose(found[0], [*first, math.nan])
    np.testing.assert_allclose(found[1], [*second, 1])
    np.testing.assert_allclose(found[2], [(0.75 + 0.5) / 2, (2.5 / 3 + 0) / 2, math.nan])


def test_accuracy_equals_that_of_the_benchmark():
    import captau

    demo = captau.load("demo")
    told = demo.preferences[demo.preferences["winner"] != "tie"]
    lengths = demo.items.set_index("item_id")["caption"].str.len().astype(float)
    a, b = (lengths.loc[told[side]].to_numpy() for side in ("item_a", "item_b"))
    right = np.where(told["winner"] == "a", a > b, b > a) + (a == b) / 2
    found = Accuracy().prepare(right, np.zeros(len(told)), np.arange(len(told)), 1)(
        np.ones((len(told), 1))
    )
    assert found[0, 0] == pytest.approx(
        judge_differences(pair_differences(lengths, told), told["strength"].to_numpy()).accuracy,
        abs=1e-15,
    )


def p_value(right, wrong, tied=0, images=None):
    """Return the p-value of so many pairs of each outcome."""
    values = np.repeat([1.0, 0.0, 0.5], [right, wrong, tied])
    return Accuracy().value(PairOutcomes(values, np.ones(len(values), bool)), images=images).p_value


@pytest.mark.parametrize("n_pairs", [1, 2, 17, 100, 2001])
def test_the_p_value_of_separate_pairs_is_that_of_scipys_binomial_test(n_pairs):
    for n_wins in {0, 1, n_pairs // 3, n_pairs // 2, n_pairs - n_pairs // 3, n_pairs}:
        expected = stats.binomtest(n_wins, n_pairs, 0.5).pvalue
        assert p_value(n_wins, n_pairs - n_wins) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("n_tied", [0, 1, 48, 1000])
def test_tied_pairs_move_no_p_value(n_tied):
    """Worked by hand: of the 2^12 swaps of twelve pairs, all of them right, two are as far from one half."""
    assert p_value(12, 0, n_tied) == pytest.approx(2 / 2**12)
    # So it does not hang on whether a pair has one answer or two, which say the same.
    images = np.append(np.arange(12 + n_tied), 0)
    values = np.concatenate([np.ones(12), np.full(n_tied, 0.5), [1.0]])
    outcomes = PairOutcomes(values, np.ones(len(values), bool))
    assert Accuracy().value(outcomes, images=images).p_value == pytest.approx(2 / 2**12)


def test_a_share_of_ties_makes_no_decided_majority_look_like_chance():
    """43 of 50 decided pairs are right beside 450 ties; the p-value is that of 43 of 50, not of 268 of 500."""
    assert p_value(43, 7, 450) == pytest.approx(stats.binomtest(43, 50).pvalue, rel=1e-10)


def test_an_images_pairs_are_swapped_together():
    """By hand: sums 2, 1 and -1 of three images; of the 8 swaps those of sums ±2 and ±4 are as far from 0: 6."""
    images = np.array([0, 0, 1, 2])
    values = np.array([1.0, 1, 1, 0])
    found = Accuracy().value(PairOutcomes(values, np.ones(4, bool)), images=images)
    assert (found.value, found.p_value) == (0.75, pytest.approx(6 / 8))
