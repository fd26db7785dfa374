"""Intervals of accuracies and McNemar's test, against statsmodels and every swap looked at."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import captau
from captau.benchmarks.statistics.coefficients.accuracy import Accuracy
from captau.benchmarks.statistics.preferences import (
    McNemar,
    PairOutcomes,
    calibrate_pairs,
    judge_differences,
    mcnemar,
    mean_interval,
    pair_differences,
    wilson_interval,
)
from captau.benchmarks.statistics.remarks import Note, remark
from tests.conftest import run_captau

NAN = float("nan")


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-2, 2)), min_size=1, max_size=12))
@example([(-1, -1), (2, 0)])  # the second tie gains what the first loses
def test_the_threshold_of_ties_is_the_smallest_of_the_best(pairs) -> None:
    """Every threshold that could be, tried in turn."""
    differences, strengths = np.array(pairs, dtype=float).T

    def count_right(threshold: float) -> int:
        signs = np.where(np.abs(differences) <= threshold, 0, np.sign(differences))
        return int((signs == np.sign(strengths)).sum())

    candidates = [0.0, *np.unique(np.abs(differences)).tolist()]
    best = max(map(count_right, candidates))
    expected = min(t for t in candidates if count_right(t) == best)
    assert calibrate_pairs(differences, strengths) == expected
    assert calibrate_pairs(np.append(differences, math.inf), np.append(strengths, 1)) == expected


def test_outcomes_worked_by_hand() -> None:
    scores = pd.Series({"low": 1.0, "also": 1.0, "high": 2.0, "none": NAN, "inf": math.inf})
    pairs = pd.DataFrame(
        [
            ("high", "low", 1),
            ("high", "low", -2),
            ("low", "also", 1),
            ("low", "none", 1),
            ("inf", "inf", -1),
            ("low", "inf", -1),
            ("high", "low", 0),
        ],
        columns=["item_a", "item_b", "strength"],
    )
    differences = pair_differences(scores, pairs)
    assert differences.tolist() == pytest.approx([1, 1, 0, NAN, 0, -math.inf, 1], nan_ok=True)
    outcomes = judge_differences(differences, pairs["strength"].to_numpy(dtype=float))
    assert outcomes.values[:6].tolist() == pytest.approx([1, 0, 0.5, NAN, 0.5, 1], nan_ok=True)
    assert outcomes.is_counted.tolist() == [True] * 6 + [False]
    assert outcomes.threshold == 0


@pytest.mark.parametrize(
    ("ties", "values", "is_counted", "threshold"),
    [
        # Worked by hand: with a threshold of 1 three pairs are right, with 0 one, with 3 two.
        ("half", [1, 0, 0, 0.5, NAN], [True, False, False, True, True], 0),
        ("drop", [1, 0, 0, 0.5, NAN], [True, False, False, False, True], 0),
        ("calibrated", [1, 1, 1, 0, NAN], [True] * 5, 1),
    ],
)
def test_each_rule_of_ties_worked_by_hand(ties, values, is_counted, threshold) -> None:
    differences, strengths = np.array([3, 1, 1, 0, NAN]), np.array([2.0, 0, 0, -1, 1])
    outcomes = judge_differences(differences, strengths, ties)
    np.testing.assert_array_equal(outcomes.values, values)
    assert outcomes.is_counted.tolist() == is_counted
    assert outcomes.threshold == threshold


def test_wilson_of_a_published_example() -> None:
    """Newcombe 1998, Table I: 81 of 263, .2553 to .3662; 0 of 20, 0 to .1611."""
    assert [round(x, 4) for x in wilson_interval(81 / 263, 263)] == [0.2553, 0.3662]
    assert [round(x, 4) for x in wilson_interval(0.0, 20)] == [0.0, 0.1611]


@pytest.mark.dev
@settings(max_examples=60)
@given(n=st.integers(1, 400), data=st.data())
def test_wilson_is_statsmodels(n: int, data: st.DataObject) -> None:
    from statsmodels.stats.proportion import proportion_confint

    won = data.draw(st.integers(0, n))
    wanted = proportion_confint(won, n, method="wilson")
    assert wilson_interval(won / n, n) == pytest.approx(wanted, abs=1e-12)


def test_intervals_of_nothing() -> None:
    assert all(map(math.isnan, wilson_interval(NAN, 0)))
    assert all(map(math.isnan, mean_interval([], [])))


def test_of_mean_worked_by_hand() -> None:
    """.5 in .2 to .9 and .7 in .3 to .8: .6, .25 below (.3 and .4: .5 / 2), and √(.4² + .1²)/2 above."""
    low, high = mean_interval([0.5, 0.7], [(0.2, 0.9), (0.3, 0.8)])
    assert (low, high) == (pytest.approx(0.35), pytest.approx(0.6 + math.sqrt(0.17) / 2))
    assert mean_interval([0.5], [(0.2, 0.9)]) == (pytest.approx(0.2), pytest.approx(0.9))


def test_mcnemar_of_no_pairs() -> None:
    test = mcnemar(np.array([NAN, 1.0]), np.array([1.0, NAN]))
    assert (test.n_pairs, test.first_better, test.second_better) == (0, 0, 0)
    assert np.isnan([test.difference, test.exact, test.asymptotic]).all()


def test_mcnemar_worked_by_hand() -> None:
    """The first alone is right twice, the second never: of four ways two are as far apart."""
    found = mcnemar(np.array([1.0, 1, 1, 0]), np.array([0.0, 0, 1, 0]))
    assert found == McNemar(4, 2, 0, 0.5, 0.5, found.asymptotic)
    assert found.asymptotic == pytest.approx(0.15729920705028513)  # χ² = 4 / 2 with one degree


@pytest.mark.dev
@settings(max_examples=60)
@given(pairs=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=60))
def test_mcnemar_is_statsmodels(pairs: list[tuple[int, int]]) -> None:
    from statsmodels.stats.contingency_tables import mcnemar as of_statsmodels

    first, second = np.array(pairs, dtype=float).T
    table = [[int(((first == i) & (second == j)).sum()) for j in (1, 0)] for i in (1, 0)]
    found = mcnemar(first, second)
    assert (found.first_better, found.second_better) == (table[0][1], table[1][0])
    exact = of_statsmodels(table, exact=True).pvalue
    assert found.exact == pytest.approx(min(exact, 1), abs=1e-12)
    if table[0][1] + table[1][0]:
        wanted = of_statsmodels(table, exact=False, correction=False).pvalue
        assert found.asymptotic == pytest.approx(wanted, abs=1e-12)
    else:
        assert (found.exact, found.asymptotic) == (1, 1)


thirds = st.sampled_from([0.0, 0.5, 1.0])


@settings(max_examples=60)
@given(pairs=st.lists(st.tuples(thirds, thirds), min_size=1, max_size=9))
def test_with_ties_every_swap_counts(pairs: list[tuple[float, float]]) -> None:
    first, second = np.array(pairs).T
    d = first - second
    sums = [abs(np.dot(signs, d)) for signs in product((1, -1), repeat=len(d))]
    found = mcnemar(first, second)
    assert found.exact == pytest.approx(np.mean([s >= abs(d.sum()) for s in sums]), abs=1e-12)
    back = mcnemar(second, first)
    assert (back.exact, back.asymptotic) == (found.exact, found.asymptotic)
    assert back.difference == -found.difference


@settings(max_examples=60)
@given(
    answers=st.lists(st.tuples(thirds, thirds, st.integers(0, 7)), min_size=1, max_size=30),
)
def test_answers_to_the_same_captions_are_swapped_together(
    answers: list[tuple[float, float, int]],
) -> None:
    """Every swap of pairs of captions is looked at."""
    first, second, captions = np.array(answers).T
    sums = pd.Series(first - second).groupby(captions).sum().to_numpy()
    swapped = [abs(np.dot(signs, sums)) for signs in product((1, -1), repeat=len(sums))]
    found = mcnemar(first, second, captions.astype(np.int64))
    assert found.n_pairs == len(sums)
    assert found.exact == pytest.approx(np.mean([s >= abs(sums.sum()) for s in swapped]), abs=1e-9)
    assert found.difference == pytest.approx((first - second).mean())


def count_swaps(sums: list[int]) -> float:
    """Return the share of swaps with a sum as far from 0, counted in whole numbers of any size."""
    ways = {0: 1}
    for value in sums:
        more: dict[int, int] = {}
        for total, count in ways.items():
            more[total + value] = more.get(total + value, 0) + count
            more[total - value] = more.get(total - value, 0) + count
        ways = more

    far = sum(count for total, count in ways.items() if abs(total) >= abs(sum(sums)))
    return float(Fraction(far, 2 ** len(sums)))


@pytest.mark.parametrize("n_better", [330, 420, 599])
def test_the_digits_of_the_smallest_p_values_hold(n_better: int) -> None:
    """Six hundred images, whose sums are 1/2 to 5/2 and mostly positive: p-values of 3e-2, 2e-19 and 1e-172."""
    halves = [1 + number % 5 for number in range(600)]
    for number in range(n_better, 600):
        halves[number] *= -1
    sums = np.array(halves) / 2
    assert mcnemar(sums, np.zeros(600)).exact == pytest.approx(count_swaps(halves), rel=1e-11)


def test_raters_who_agree_on_one_pair_are_no_proof() -> None:
    """Worked by hand: ten raters of one pair are one coin, which falls on either side; of two pairs, 2 of 4 ways."""
    right, wrong = np.ones(20), np.zeros(20)
    assert mcnemar(right, wrong).exact == pytest.approx(2 / 2**20)
    assert mcnemar(right[:10], wrong[:10], np.zeros(10, dtype=np.int64)).exact == 1
    assert mcnemar(right, wrong, np.repeat([0, 1], 10)).exact == 0.5
    outcomes = PairOutcomes(right, np.ones(20, dtype=bool))
    assert Accuracy().value(outcomes).p_value == pytest.approx(2 / 2**20)
    assert Accuracy().value(outcomes, images=np.repeat([0, 1], 10)).p_value == 0.5


def test_outcomes_without_a_threshold_tie_equal_scores_alone() -> None:
    outcomes = PairOutcomes(np.ones(2), np.ones(2, dtype=bool))
    accuracy = Accuracy().value(outcomes, "calibrated")
    assert accuracy.remarks == (remark(Note.TIED_IF_EQUAL),)


def test_undefined_outcomes_are_left_out() -> None:
    found = mcnemar(np.array([1.0, NAN, 1]), np.array([0.0, 1, NAN]))
    assert (found.n_pairs, found.first_better) == (1, 1)
    none = mcnemar(np.array([NAN]), np.array([1.0]))
    assert none.n_pairs == 0
    assert math.isnan(none.exact)


def test_the_demo_has_intervals_by_dimension() -> None:
    found = captau.bench(
        "demo",
        "rouge_1",
        protocol={"coefficients": "accuracy"},
        statistics={"interval": "fisher", "level": 0.9},
    ).correlations
    found = found[found["metric"] == "rouge_1"]
    one = found[found["dimension"] == "colour"].iloc[0]
    assert (one["ci_low"], one["ci_high"]) == wilson_interval(one["value"], one["n_ratings"], 0.9)
    assert one["note"].endswith("Wilson interval")
    assert (found["ci_low"] < found["value"]).all()
    assert (found["ci_high"] > found["value"]).all()
    mean = found[found["dimension"] == "mean"].iloc[0]
    assert mean["ci_high"] - mean["ci_low"] < one["ci_high"] - one["ci_low"]


def test_compare_tests_preferences(tmp_path) -> None:
    assert (
        run_captau(
            "compare",
            "metrics=[rouge_1,rouge_l]",
            "protocol.coefficients=[accuracy]",
            "tests=[mcnemar]",
            "statistics.replicates=100",
            f"output_dir={tmp_path}",
        )
        == 0
    )
    frame = pd.read_csv(tmp_path / "significance.csv")
    frame = frame[frame["test"] == "mcnemar"].set_index("dimension")
    assert list(frame.index) == ["colour", "relation", "object", "unrelated", "mean"]
    demo = captau.load("demo")
    scores = pd.read_parquet(tmp_path / "scores.parquet").set_index("item_id")
    for dimension in ("colour", "mean"):
        pairs = demo.preferences[demo.preferences["winner"] != "tie"]
        if dimension != "mean":
            pairs = pairs[pairs["dimension"] == dimension]
        right = [
            judge_differences(
                pair_differences(scores.loc[scores["metric"] == m, "score"], pairs),
                pairs["strength"].to_numpy(),
            ).values
            for m in ("rouge_1", "rouge_l")
        ]
        wanted = mcnemar(*right)
        assert frame.loc[dimension, "p_value"] == pytest.approx(wanted.exact, abs=1e-12)
        assert f"{wanted.first_better} pairs and worse on" in frame.loc[dimension, "note"]
