"""Agreement between raters against arithmetic on paper, and the laws it keeps."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from captau.benchmarks.statistics.rating_table import (
    correlate_with_others,
    count_by_level,
    fleiss_kappa,
    kendall_w,
    make_virtual_raters,
)
from captau.datasets.schema import Scale
from captau.datasets.sources.flickr8k import load_flickr8k_expert


def of_raters(*raters: tuple[float, ...]) -> np.ndarray:
    """Shape (n_items, n_raters), from what each rater says of all items."""
    return np.array(raters, dtype=float).T


# Golden: worked here. R_i is item i's sum of mid-ranks, S the sum of squares of R_i about their
# mean, T the sum of t^3 - t over groups of t ties: W = 12 S / (m^2 (n^3 - n) - m T).
@pytest.mark.parametrize(
    ("ratings", "w"),
    [
        # R = 4 6 8 12 about 7.5: S = 12.25 + 2.25 + .25 + 20.25 = 35; W = 12 * 35 / (9 * 60).
        (of_raters((1, 2, 3, 4), (1, 3, 2, 4), (2, 1, 3, 4)), 7 / 9),
        # The same ranks of other ratings.
        (of_raters((1, 2, 3, 4), (10, 30, 20, 40), (-8, -9, 0, 1)), 7 / 9),
        # Ranks 1.5 1.5 3 and 1 2.5 2.5: R = 2.5 4 5.5 about 4: S = 4.5; T = 6 + 6;
        # W = 12 * 4.5 / (4 * 24 - 2 * 12) = 54 / 72.
        (of_raters((1, 1, 2), (1, 2, 2)), 3 / 4),
        # One rater gives all items the same: R = 3 4 5 about 4: S = 2; T = 24; 24 / (96 - 48).
        (of_raters((1, 2, 3), (5, 5, 5)), 1 / 2),
        (of_raters((1, 2, 3), (3, 2, 1)), 0),
        (of_raters((1, 2, 3), (1, 2, 3), (1, 2, 3)), 1),
        (of_raters((1, 1, 3), (1, 1, 3)), 1),
    ],
)
def test_kendall_w(ratings: np.ndarray, w: float) -> None:
    assert kendall_w(ratings) == pytest.approx(w, abs=1e-14)


@pytest.mark.parametrize("ratings", [of_raters((2, 2, 2), (3, 3, 3)), of_raters((1,), (2,))])
def test_kendall_w_of_nothing_but_ties(ratings: np.ndarray) -> None:
    assert math.isnan(kendall_w(ratings))


# Fleiss 1971 as Wikipedia, "Fleiss' kappa", works it: 10 subjects, 14 raters, 5 categories.
FLEISS = [
    (0, 0, 0, 0, 14),
    (0, 2, 6, 4, 2),
    (0, 0, 3, 5, 6),
    (0, 3, 9, 2, 0),
    (2, 2, 8, 1, 1),
    (7, 7, 0, 0, 0),
    (3, 2, 6, 3, 0),
    (2, 5, 3, 2, 2),
    (6, 5, 2, 1, 0),
    (0, 2, 2, 3, 7),
]


def test_fleiss_kappa_of_the_worked_example() -> None:
    ratings = np.array([np.repeat([1.0, 2, 3, 4, 5], counts) for counts in FLEISS])
    assert ratings.shape == (10, 14)
    assert round(fleiss_kappa(ratings), 3) == 0.210


@pytest.mark.parametrize(
    ("ratings", "kappa"),
    [
        # Two of two items agreed on, each category half of all: (1 - 1/2) / (1 - 1/2).
        (of_raters((1, 2), (1, 2)), 1),
        # Never agreed: (0 - 1/2) / (1 - 1/2).
        (of_raters((1, 2), (2, 1)), -1),
        # P = (1 + 0) / 2, shares 3/4 and 1/4: (1/2 - 10/16) / (1 - 10/16) = -2/6.
        (of_raters((1, 1), (1, 2)), -1 / 3),
    ],
)
def test_fleiss_kappa(ratings: np.ndarray, kappa: float) -> None:
    assert fleiss_kappa(ratings) == pytest.approx(kappa, abs=1e-14)


def test_fleiss_kappa_of_one_category() -> None:
    assert math.isnan(fleiss_kappa(np.ones((3, 2))))


def test_virtual_raters() -> None:
    ratings = np.array([[3, 1, 2], [1, 1, 4], [2, 2, 2]], dtype=float)
    before = ratings.copy()
    assert make_virtual_raters(ratings).tolist() == [[1, 2, 3], [1, 1, 4], [2, 2, 2]]
    assert (ratings == before).all()


def test_against_others() -> None:
    """One rater, repeated, against the two others end to end; tau_c = 2 (C - D) 2 / (16 * 1)."""
    ratings = of_raters((1, 2), (1, 2), (2, 1))
    # 1 2 1 2 against 1 2 2 1: (1,2) concordant, (3,4) discordant, the other four tied.
    assert correlate_with_others(ratings, 0).value == pytest.approx(0)
    assert correlate_with_others(ratings, 1).value == pytest.approx(0)
    # 2 1 2 1 against 1 2 1 2: (1,2) (1,4) (2,3) (3,4) discordant, the other two tied.
    assert correlate_with_others(ratings, 2).value == pytest.approx(-1)
    # 1 2 1 2 against itself: the same four concordant.
    assert correlate_with_others(of_raters((1, 2), (1, 2), (1, 2)), 0).value == pytest.approx(1)


tables = hnp.arrays(
    np.float64,
    st.tuples(st.integers(2, 8), st.integers(2, 5)),
    elements=st.integers(1, 4).map(float),
)
laws = settings(max_examples=80)


@laws
@given(ratings=tables, data=st.data())
def test_laws(ratings: np.ndarray, data: st.DataObject) -> None:
    w, kappa = kendall_w(ratings), fleiss_kappa(ratings)
    assert math.isnan(w) or -1e-12 <= w <= 1 + 1e-12
    assert math.isnan(kappa) or -1 - 1e-12 <= kappa <= 1 + 1e-12
    n, m = ratings.shape
    items = data.draw(st.permutations(range(n)))
    raters = data.draw(st.permutations(range(m)))
    mixed = ratings[items][:, raters]
    assert kendall_w(mixed) == pytest.approx(w, nan_ok=True)
    assert fleiss_kappa(mixed) == pytest.approx(kappa, nan_ok=True)
    # W knows ranks alone, kappa names of categories alone.
    assert kendall_w(ratings**3) == pytest.approx(w, nan_ok=True)
    assert fleiss_kappa(5 - ratings) == pytest.approx(kappa, nan_ok=True)
    # Raters who all say the same agree fully, unless they say one thing of all.
    same = np.repeat(ratings[:, :1], m, axis=1)
    if len(set(same[:, 0])) > 1:
        assert kendall_w(same) == pytest.approx(1)
        assert fleiss_kappa(same) == pytest.approx(1)
    ordered = make_virtual_raters(ratings)
    assert (np.diff(ordered, axis=1) >= 0).all()
    assert (np.sort(ratings, axis=1) == ordered).all()
    assert fleiss_kappa(ordered) == pytest.approx(kappa, nan_ok=True)


def test_raters_of_flickr8k_agree(data_root) -> None:
    """Golden: Scott et al. 2023, Table 3, Flickr8k, as printed.

    The columns of ExpertAnnotations.txt are sorted already: they are virtual raters, not people.
    """
    values = load_flickr8k_expert(data_root).ratings["value"].to_numpy(dtype=float)
    ratings = values.reshape(-1, 3)
    assert (make_virtual_raters(ratings) == ratings).all()
    found = [correlate_with_others(ratings, k).value for k in range(3)]
    found += [kendall_w(ratings), fleiss_kappa(ratings)]
    assert [round(100 * value, 1) for value in found] == [47.7, 54.8, 54.0, 84.0, 48.8]


def test_distribution_of_mean_ratings_by_hand():
    """Means 1, 1.5 (a half goes up), 2 and 5; then p-hat of Levinboim et al. 2021 in eighths."""
    ratings = pd.DataFrame(
        [("a", 1), ("a", 1), ("b", 1), ("b", 2), ("c", 2), ("d", 5)], columns=["item_id", "value"]
    )
    assert count_by_level(ratings, Scale(1, 5, 1)) == {1: 1, 2: 2, 3: 0, 4: 0, 5: 1}
    # 3 of 10 said yes: 0.3 × 8 = 2.4, so 2/8. 7 of 9: 6.2, so 6/8.
    answers = pd.DataFrame(
        {"item_id": ["a"] * 10 + ["b"] * 9, "value": [1] * 3 + [0] * 7 + [1] * 7 + [0] * 2}
    )
    found = count_by_level(answers, Scale(0, 1, 0.125))
    assert [level for level, n in found.items() if n] == [0.25, 0.75]
    assert len(found) == 9


def test_flickr8k_is_skewed_to_low_ratings(data_root):
    """Scott et al. 2023, section 2.1: the majority are 1's and 2's."""
    ratings = load_flickr8k_expert(data_root).ratings
    counts = count_by_level(ratings, Scale(1, 4, 1))
    assert counts == {1: 3315, 2: 1691, 3: 506, 4: 152}
