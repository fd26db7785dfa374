"""Coefficients against arithmetic on paper, their undefined cases, and the laws they keep."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from captau.benchmarks.statistics.bootstrap import TESTS
from captau.benchmarks.statistics.coefficients.coefficient import (
    CoefficientValue,
    are_of_preferences,
    coefficient_names,
    correlate,
    find_coefficient,
    list_coefficients,
    register,
)
from tests.conftest import says

OF_RATINGS = ("tau_c", "tau_b", "spearman", "pearson")
OF_PAIRS = ("tau_a", "gamma", "pairwise_accuracy", "acc_eq")


def value(x: list[float], y: list[float], coefficient: str) -> float:
    found = correlate(np.array(x, dtype=float), np.array(y, dtype=float), coefficient)
    assert found.note == ""
    return found.value


# Golden: worked here. Pairs of points (i, j) with i < j; C concordant, D discordant, n0 = n(n-1)/2,
# X and Y the pairs tied in x and in y. tau_b = (C - D) / sqrt((n0 - X)(n0 - Y)) (Kendall 1945);
# tau_c = 2 (C - D) m / (n^2 (m - 1)), m the lesser number of distinct values (Stuart 1953).
# Spearman's rho is Pearson's r of mid-ranks.
WORKED = [
    # n = 5, n0 = 10. (1,2) (1,3) (1,4) (1,5) concordant: C = 4. (2,4) (2,5) discordant: D = 2.
    # (2,3) tied in x: X = 1. (3,4) (3,5) (4,5) tied in y: Y = 3. 4 values of x, 3 of y: m = 3.
    # Mid-ranks of x 1 2.5 2.5 4 5, of y 1 5 3 3 3; about 3: -2 -.5 -.5 1 2 and -2 2 0 0 0;
    # their product sums to 4 - 1 = 3, their squares to 9.5 and 8.
    # About the means 2.4 and 2: -1.4 -.4 -.4 .6 1.6 and -1 1 0 0 0; 1.4 - .4 = 1, 5.2 and 2.
    (
        [1, 2, 2, 3, 4],
        [1, 3, 2, 2, 2],
        {
            "tau_b": (4 - 2) / math.sqrt((10 - 1) * (10 - 3)),
            "tau_c": 2 * (4 - 2) * 3 / (5**2 * (3 - 1)),
            "spearman": 3 / math.sqrt(9.5 * 8),
            "pearson": 1 / math.sqrt(5.2 * 2),
        },
    ),
    # n = 4, n0 = 6. (1,2) tied in y and (2,3) in x; the others are concordant: C = 4, D = 0, m = 3.
    # Mid-ranks 1 2.5 2.5 4 and 1.5 1.5 3 4; about 2.5: -1.5 0 0 1.5 and -1 -1 .5 1.5;
    # 1.5 + 2.25 = 3.75, 4.5 and 4.5.
    # About 2 and 1.75: -1 0 0 1 and -.75 -.75 .25 1.25; .75 + 1.25 = 2, 2 and 2.75.
    (
        [1, 2, 2, 3],
        [1, 1, 2, 3],
        {
            "tau_b": 4 / math.sqrt(5 * 5),
            "tau_c": 2 * 4 * 3 / (4**2 * 2),
            "spearman": 3.75 / 4.5,
            "pearson": 2 / math.sqrt(2 * 2.75),
        },
    ),
    # n = 4, n0 = 6, two values of x: m = 2. (1,3) concordant, (1,4) (2,3) (2,4) discordant;
    # (1,2) (3,4) tied in x: C = 1, D = 3, X = 2, Y = 0.
    # Mid-ranks 1.5 1.5 3.5 3.5 and 2 4 3 1; about 2.5: -1 -1 1 1 and -.5 1.5 .5 -1.5;
    # .5 - 1.5 + .5 - 1.5 = -2, 4 and 5.
    # About .5 and 3: -.5 -.5 .5 .5 and -1 3 0 -2; .5 - 1.5 + 0 - 1 = -2, 1 and 14.
    (
        [0, 0, 1, 1],
        [2, 6, 3, 1],
        {
            "tau_b": (1 - 3) / math.sqrt((6 - 2) * 6),
            "tau_c": 2 * (1 - 3) * 2 / (4**2 * 1),
            "spearman": -2 / math.sqrt(4 * 5),
            "pearson": -2 / math.sqrt(1 * 14),
        },
    ),
    # No ties, and all in order: each is 1. (n = 3: tau_c = 2 * 3 * 3 / (9 * 2).)
    ([1, 2, 3], [10, 20, 30], dict.fromkeys(OF_RATINGS, 1.0)),
    ([1, 2, 3], [30, 20, 10], dict.fromkeys(OF_RATINGS, -1.0)),
]


@pytest.mark.parametrize("case", range(len(WORKED)))
@pytest.mark.parametrize("coefficient", OF_RATINGS)
def test_worked_by_hand(case: int, coefficient: str) -> None:
    x, y, wanted = WORKED[case]
    assert value(x, y, coefficient) == pytest.approx(wanted[coefficient], abs=1e-14)
    assert value(y, x, coefficient) == pytest.approx(wanted[coefficient], abs=1e-14)


def test_p_values() -> None:
    """Of the 3! orders of three points two are as extreme: 1/3. Two points lie on a line: p = 1."""
    three = np.array([1.0, 2.0, 3.0])
    for coefficient in ("tau_b", "tau_c"):
        assert correlate(three, 2 * three, coefficient).p_value == pytest.approx(1 / 3)
    assert correlate(three[:2], three[:2], "pearson") == CoefficientValue(1.0, 1.0)


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("coefficient", [*OF_RATINGS, *OF_PAIRS])
@pytest.mark.parametrize(
    ("x", "y", "reason"),
    [
        ([], [], "too few data points (0); two are needed"),
        ([1], [1], "too few data points (1); two are needed"),
        ([1, NAN, NAN], [1, 2, 3], "2 of 3 data points have an undefined score"),
        ([1, 2, 3], [1, NAN, 3], "1 of 3 data points have an undefined rating"),
        ([2, 2, 2], [1, 2, 3], "all scores are equal"),
        ([1, 2, 3], [4, 4, 4], "all ratings are equal"),
        ([INF, INF, INF], [1, 2, 3], "all scores are equal"),
    ],
)
def test_undefined_says_why(x: list[float], y: list[float], reason: str, coefficient: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = correlate(np.array(x, dtype=float), np.array(y, dtype=float), coefficient)
    assert math.isnan(found.value)
    assert math.isnan(found.p_value)
    assert found.note == f"undefined: {reason}"


def test_infinite_scores_have_a_rank_and_no_mean() -> None:
    x, y = np.array([1.0, INF, 2.0]), np.array([1.0, 3.0, 2.0])
    assert [correlate(x, y, c).value for c in OF_RATINGS[:3]] == pytest.approx([1.0] * 3)
    found = correlate(x, y, "pearson")
    assert math.isnan(found.value)
    assert found.note.startswith("undefined: an infinite score")


def test_numbers_whose_squares_overflow() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        large, small = (
            correlate(np.array([1.0, -1.0, 1.5]) * size, np.array([1.0, 2.0, 3.0]), "pearson").value
            for size in (1e308, 1.0)
        )
    assert large == pytest.approx(small)


def test_misuse() -> None:
    two = np.array([1.0, 2.0])
    with pytest.raises(ValueError, match="not paired"):
        correlate(two, two[:1], "tau_b")
    with pytest.raises(ValueError, match="not paired"):
        correlate(two[None], two[None], "tau_b")
    with pytest.raises(ValueError, match="coefficient accuracy is not of scores and ratings"):
        correlate(two, two, "accuracy")


# Few distinct values, so that ties are the rule.
pairs = st.lists(st.tuples(st.integers(-4, 4), st.integers(1, 4)), min_size=2, max_size=25)
laws = settings(max_examples=40)


def both(points: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.array(points, dtype=float).T
    assume(np.ptp(x) > 0 and np.ptp(y) > 0)
    return x, y


@laws
@given(points=pairs, coefficient=st.sampled_from(OF_RATINGS), data=st.data())
def test_laws(points: list[tuple[int, int]], coefficient: str, data: st.DataObject) -> None:
    x, y = both(points)
    found = correlate(x, y, coefficient)
    assert -1 - 1e-12 <= found.value <= 1 + 1e-12
    assert math.isnan(found.p_value) or 0 <= found.p_value <= 1

    def same(a: np.ndarray, b: np.ndarray, sign: float = 1.0) -> None:
        assert correlate(a, b, coefficient).value == pytest.approx(sign * found.value, abs=1e-12)

    same(y, x)
    same(-x, y, -1.0)
    same(x, -y, -1.0)
    same(-x, -y)
    same(2.5 * x - 7, y)
    order = np.array(data.draw(st.permutations(range(len(x)))))
    same(x[order], y[order])
    if coefficient != "pearson":
        same(np.exp(x), y**3)


@laws
@given(points=pairs)
def test_the_taus_count_pairs(points: list[tuple[int, int]]) -> None:
    x, y = both(points)
    n = len(x)
    i, j = np.triu_indices(n, 1)
    dx, dy = np.sign(x[i] - x[j]), np.sign(y[i] - y[j])
    surplus = (dx * dy).sum()
    m = min(len(set(x)), len(set(y)))
    tau_b = surplus / math.sqrt((dx != 0).sum() * (dy != 0).sum())
    assert correlate(x, y, "tau_b").value == pytest.approx(tau_b, abs=1e-12)
    tau_c = 2 * surplus * m / (n**2 * (m - 1))
    assert correlate(x, y, "tau_c").value == pytest.approx(tau_c, abs=1e-12)


def test_coefficients_stand_in_the_fields_order() -> None:
    """A new coefficient may stand anywhere among these."""
    printed = [
        *("tau_c", "tau_b", "tau_a", "gamma", "spearman", "pearson"),
        *("pairwise_accuracy", "acc_eq", "soft_pairwise_accuracy", "pairwise_difference_pearson"),
        *("average_precision", "auroc", "kappa", "accuracy"),
    ]
    assert [name for name in coefficient_names() if name in printed] == printed


def test_each_says_how_it_is_printed_and_tested() -> None:
    for coefficient in list_coefficients():
        assert coefficient.symbol
        assert coefficient.latex
        assert coefficient.words
        assert set(coefficient.tests) <= set(TESTS)
        assert coefficient.bounds[1] == 1
        assert coefficient.is_signed == (coefficient.bounds == (-1, 1))
    assert find_coefficient("pearson").tests == ("bootstrap", "permutation", "williams")
    assert find_coefficient("accuracy").tests == ("bootstrap", "permutation", "mcnemar")


def test_docs_name_every_coefficient() -> None:
    text = (Path(__file__).parents[4] / "docs" / "kinds.md").read_text(encoding="utf-8")
    assert [name for name in coefficient_names() if f"`{name}`" not in text] == []


def test_accuracy_alone_is_of_preferences() -> None:
    names = coefficient_names()
    marked = [n for n, is_marked in zip(names, are_of_preferences(names), strict=True) if is_marked]
    assert marked == ["accuracy"]
    accuracy, tau = find_coefficient("accuracy"), find_coefficient("tau_b")
    assert [accuracy.is_summary(d) for d in ("mean", "style")] == [True, False]
    assert tau.is_summary("style")


def test_an_unknown_name_and_one_that_is_taken() -> None:
    with says("unknown coefficient 'tau_d'", "tau_"):
        find_coefficient("tau_d")
    with pytest.raises(ValueError, match="accuracy is registered twice"):
        register(type(find_coefficient("accuracy")))
