"""Pairwise difference Pearson: worked by hand, as a loop over pairs, on samples of images, and where it is undefined."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from captau.benchmarks.statistics.coefficients.coefficient import correlate
from captau.benchmarks.statistics.levels import correlate_at_level, prepare_at_level
from captau.benchmarks.statistics.remarks import Undefined
from captau.benchmarks.statistics.weighted_pairs import Floats

NAME = "pairwise_difference_pearson"

points = st.lists(
    st.tuples(st.integers(-3, 3), st.integers(1, 4), st.sampled_from("abc"), st.sampled_from("xy")),
    min_size=2,
    max_size=14,
)


def keys_of(images: str, systems: str = "") -> pd.DataFrame:
    return pd.DataFrame({"image_id": list(images), "system": list(systems or "x" * len(images))})


def loop_over_pairs(scores: Floats, ratings: Floats, groups: pd.Series) -> float:
    """Return Pearson's r of the differences of every ordered pair of points of one group."""
    labels = groups.tolist()
    pairs = [(i, j) for i, j in product(range(len(scores)), repeat=2) if labels[i] == labels[j]]
    score_differences = [scores[i] - scores[j] for i, j in pairs]
    rating_differences = [ratings[i] - ratings[j] for i, j in pairs]
    return float(np.corrcoef(score_differences, rating_differences)[0, 1])


def test_worked_by_hand() -> None:
    """Image a: scores 1 2 4, ratings 1 1 2; image b: scores 9 7, ratings 3 5.

    Differences of a: 1 3 2 of scores, 0 1 1 of ratings; of b: -2 and 2. The products sum to 0 + 3 + 2 - 4 = 1,
    the squares to 1 + 9 + 4 + 4 = 18 and 0 + 1 + 1 + 4 = 6.
    """
    scores = np.array([1.0, 2, 4, 9, 7])
    ratings = np.array([1.0, 1, 2, 3, 5])
    result = correlate_at_level("by_image", scores, ratings, keys_of("aaabb"), NAME)
    assert result.value == pytest.approx(1 / np.sqrt(18 * 6))
    assert result.note == "pairs of data points of 2 images"
    assert np.isnan(result.p_value)


def test_an_image_of_equal_scores_counts() -> None:
    """Image b's scores are equal and its ratings are not: 1 · 1 of image a, squares 1 and 1 + 4."""
    scores = np.array([1.0, 2, 5, 5, 8])
    ratings = np.array([1.0, 2, 1, 3, 1])
    result = correlate_at_level("by_image", scores, ratings, keys_of("aabbc"), NAME)
    assert result.value == pytest.approx(1 / np.sqrt(1 * 5))
    note = "pairs of data points of 2 images; undefined in 1: fewer than two data points (1)"
    assert result.note == note


def test_of_all_points_it_is_pearson() -> None:
    scores = np.array([1.0, 2, 4, 9, 7])
    ratings = np.array([1.0, 1, 2, 3, 5])
    assert correlate(scores, ratings, NAME) == correlate(scores, ratings, "pearson")

    keys = keys_of("aaabb", "xyzxy")
    of_systems = correlate_at_level("system", scores, ratings, keys, NAME)
    assert of_systems == correlate_at_level("system", scores, ratings, keys, "pearson")


@pytest.mark.parametrize(
    ("scores", "images", "reason"),
    [
        ([1, 1, 2, 2], "aabb", Undefined.NO_DIFFERENCES),
        ([0.1, 0.1, 0.7, 0.7], "aabb", Undefined.NO_DIFFERENCES),
        ([1, 2, 3, 4], "abcd", Undefined.SMALL_GROUPS),
        ([1, 2, np.inf, 4], "aabb", Undefined.INFINITE_SCORE),
        ([1, 2, np.nan, 4], "aabb", Undefined.UNDEFINED_SCORES),
        ([3, 3, 3, 3], "aabb", Undefined.CONSTANT_SCORES),
    ],
)
def test_reasons(scores: list[float], images: str, reason: Undefined) -> None:
    x = np.array(scores, dtype=float)
    y = np.array([1.0, 2, 3, 5])
    result = correlate_at_level("by_image", x, y, keys_of(images), NAME)
    assert np.isnan(result.value)
    assert result.reason == reason

    if not np.isnan(x).any():
        statistic = prepare_at_level("by_image", x, y, keys_of(images), [NAME], np.arange(4))
        assert np.isnan(statistic(np.ones((4, 1)))).all()


def test_large_scores_do_not_overflow() -> None:
    ratings = np.array([1.0, 1, 2, 3, 5])
    keys = keys_of("aaabb")
    small = correlate_at_level("by_image", np.array([1.0, 2, 4, 9, 7]), ratings, keys, NAME)
    scores = np.array([1.0, 2, 4, 9, 7]) * 1e250
    large = correlate_at_level("by_image", scores, ratings, keys, NAME)
    assert large.value == pytest.approx(small.value)


@settings(max_examples=60)
@given(drawn=points, level=st.sampled_from(["by_image", "by_system"]))
def test_it_is_that_of_a_loop_over_pairs(
    drawn: list[tuple[int, int, str, str]], level: str
) -> None:
    scores, ratings, keys = _arrays(drawn)
    result = correlate_at_level(level, scores, ratings, keys, NAME)
    assume(result.is_defined)
    column = "image_id" if level == "by_image" else "system"
    assert result.value == pytest.approx(loop_over_pairs(scores, ratings, keys[column]), abs=1e-9)

    unit, _ = pd.factorize(keys["image_id"])
    statistic = prepare_at_level(level, scores, ratings, keys, ["tau_b", NAME], unit)
    assert statistic(np.ones((unit.max() + 1, 1)))[1, 0] == pytest.approx(result.value)


@settings(max_examples=60)
@given(drawn=points, repeats=st.lists(st.integers(0, 3), min_size=3, max_size=3))
def test_a_weighted_sample_of_systems_is_one_with_repeated_points(
    drawn: list[tuple[int, int, str, str]], repeats: list[int]
) -> None:
    scores, ratings, keys = _arrays(drawn)
    unit, _ = pd.factorize(keys["image_id"])
    weights = np.array(repeats[: unit.max() + 1], dtype=float)
    rows = np.repeat(np.arange(len(scores)), weights[unit].astype(int))
    assume(len(rows) > 1)

    repeated = correlate_at_level(
        "by_system", scores[rows], ratings[rows], keys.iloc[rows].reset_index(drop=True), NAME
    )
    statistic = prepare_at_level("by_system", scores, ratings, keys, [NAME], unit)
    value = statistic(weights[:, None])[0, 0]
    assert value == pytest.approx(repeated.value, abs=1e-9, nan_ok=True)


def test_an_image_that_is_drawn_twice_counts_twice() -> None:
    """Image a gives products 5 and squares 14 and 2, image b -4, 4 and 4 (`test_worked_by_hand`)."""
    scores = np.array([1.0, 2, 4, 9, 7])
    ratings = np.array([1.0, 1, 2, 3, 5])
    unit = np.array([0, 0, 0, 1, 1])
    statistic = prepare_at_level("by_image", scores, ratings, keys_of("aaabb"), [NAME], unit)
    values = statistic(np.array([[2.0, 1, 0], [1, 0, 0]]))[0]
    expected = [6 / np.sqrt(32 * 8), 5 / np.sqrt(14 * 2), np.nan]
    assert values == pytest.approx(expected, nan_ok=True)


def _arrays(drawn: list[tuple[int, int, str, str]]) -> tuple[Floats, Floats, pd.DataFrame]:
    scores = np.array([score for score, _, _, _ in drawn], dtype=float)
    ratings = np.array([rating for _, rating, _, _ in drawn], dtype=float)
    images = "".join(image for _, _, image, _ in drawn)
    systems = "".join(system for _, _, _, system in drawn)
    return scores, ratings, keys_of(images, systems)
