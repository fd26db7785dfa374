"""Statistics of images' weights: a replicate has the coefficient of the sample that it stands for."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from captau.benchmarks.statistics import weighted_levels
from captau.benchmarks.statistics.bootstrap import number_images
from captau.benchmarks.statistics.levels import LEVELS, correlate_at_level
from captau.benchmarks.statistics.weighted_levels import prepare_at_level

COEFFICIENTS = ["tau_c", "tau_b", "tau_a", "gamma", "spearman", "pearson", "pairwise_accuracy"]
drawn_points = st.lists(
    st.tuples(
        st.integers(-3, 3), st.integers(1, 3), st.sampled_from("abcd"), st.sampled_from("AB")
    ),
    min_size=2,
    max_size=16,
)


def made(points):
    scores, ratings, images, systems = map(list, zip(*points, strict=True))
    keys = pd.DataFrame({"image_id": images, "system": systems})
    unit, n_units = number_images(images)
    return np.array(scores, float), np.array(ratings, float), keys, unit, n_units


def expanded(scores, ratings, keys, unit, weights):
    """Every image as often as it weighs, each time as an image of its own."""
    parts = [(np.flatnonzero(unit == u), copy) for u, w in enumerate(weights) for copy in range(w)]
    place = np.concatenate([p for p, _ in parts]).astype(int)
    more = keys.iloc[place].reset_index(drop=True)
    copies = np.concatenate([np.full(len(p), copy) for p, copy in parts])
    more["image_id"] = [f"{i}/{c}" for i, c in zip(more["image_id"], copies, strict=True)]
    return scores[place], ratings[place], more


@settings(max_examples=150)
@given(points=drawn_points, level=st.sampled_from(LEVELS), data=st.data())
def test_a_replicate_is_its_sample(points, level, data):
    scores, ratings, keys, unit, n_units = made(points)
    weights = data.draw(st.lists(st.integers(0, 2), min_size=n_units, max_size=n_units))
    assume(sum(weights))
    statistic = prepare_at_level(level, scores, ratings, keys, COEFFICIENTS, unit)
    both = np.array([np.ones(n_units), weights]).T
    found = statistic(both)
    assert found.shape == (len(COEFFICIENTS), 2)
    for x, y, more, column in (
        (scores, ratings, keys, 0),
        (*expanded(scores, ratings, keys, unit, weights), 1),
    ):
        for coefficient, value in zip(COEFFICIENTS, found[:, column], strict=True):
            wanted = correlate_at_level(level, x, y, more, coefficient)
            grouped = coefficient == "pairwise_accuracy" and level.startswith("by_")
            if grouped and np.isnan(wanted.value):
                continue  # in a group it is defined even where all scores of all groups are equal
            assert value == pytest.approx(wanted.value, abs=1e-9, nan_ok=True), coefficient


@settings(max_examples=100)
@given(points=drawn_points, level=st.sampled_from(LEVELS))
def test_acc_eq_of_the_whole_sample(points, level):
    scores, ratings, keys, unit, n_units = made(points)
    wanted = correlate_at_level(level, scores, ratings, keys, "acc_eq")
    assume(not np.isnan(wanted.value))
    statistic = prepare_at_level(level, scores, ratings, keys, ["acc_eq"], unit)
    assert statistic(np.ones((n_units, 1)))[0, 0] == pytest.approx(wanted.value, abs=1e-9)


def test_acc_eq_keeps_its_threshold():
    """Threshold 1 of the whole (all right); image b alone would do as well with 0."""
    scores, ratings = np.array([1.0, 2, 5, 6, 9]), np.array([1.0, 1, 2, 2, 3])
    keys = pd.DataFrame({"image_id": list("aaabb"), "system": "A"})
    statistic = prepare_at_level(
        "pooled", scores, ratings, keys, ["acc_eq"], np.array([0, 0, 0, 1, 1])
    )
    # Of a twice and b once: 6 points of a in 15 pairs, all right with 1; scores 1 1 2 2 5 5 6 9.
    assert statistic(np.array([[1.0, 2, 0, 0], [1, 1, 1, 0]]))[0] == pytest.approx(
        [1, 1, 1, np.nan], nan_ok=True
    )
    other = prepare_at_level(
        "pooled",
        np.array([1.0, 2, 5, 6, 6.5]),
        ratings,
        keys,
        ["acc_eq"],
        np.array([0, 0, 0, 1, 1]),
    )
    # Here 1 makes a tie of 6 and 6.5, which people tell apart: b alone gets it wrong.
    assert other(np.array([[1.0, 0], [1, 1]]))[0] == pytest.approx([0.9, 0.0])


@pytest.mark.parametrize("max_counts", [1, 3 * 12 * 4])
def test_acc_eq_in_parts_is_that_of_all_replicates_at_once(max_counts, monkeypatch):
    rng = np.random.default_rng(0)
    scores, ratings, unit = np.arange(12.0), rng.integers(4, size=12).astype(float), np.arange(12)
    statistic = prepare_at_level("pooled", scores, ratings, pd.DataFrame(), ["acc_eq"], unit)
    weights = rng.integers(3, size=(12, 7)).astype(float)
    expected = statistic(weights)
    monkeypatch.setattr(weighted_levels, "MAX_COUNTS", max_counts)
    np.testing.assert_array_equal(statistic(weights), expected)


def test_systems_that_both_sides_tie_are_a_pair_in_order():
    """Worked by hand: A and B tie on both sides, C and D in scores alone, above both: 5 of 6 pairs agree, 4 untied."""
    scores, ratings = np.array([1.0, 1, 2, 2]), np.array([3.0, 3, 5, 6])
    keys = pd.DataFrame({"image_id": "a", "system": list("ABCD")})
    names = ["pairwise_accuracy", "tau_a", "gamma"]
    statistic = prepare_at_level("system", scores, ratings, keys, names, np.zeros(4, int))
    assert statistic(np.ones((1, 1)))[:, 0] == pytest.approx([5 / 6, 4 / 6, 1])


def test_infinite_scores_and_soft_pairwise_accuracy_are_undefined_not_wrong():
    scores, ratings = np.array([1.0, np.inf, 3, 4]), np.array([1.0, 2, 3, 4])
    keys = pd.DataFrame({"image_id": list("abab"), "system": list("AABB")})
    names = ["pearson", "acc_eq", "tau_b", "soft_pairwise_accuracy"]
    found = prepare_at_level("pooled", scores, ratings, keys, names, np.array([0, 1, 0, 1]))(
        np.ones((2, 1))
    )
    assert np.isnan(found[:, 0]).tolist() == [True, True, False, True]
    systems = prepare_at_level("system", scores, ratings, keys, names, np.array([0, 1, 0, 1]))
    assert np.isnan(systems(np.ones((2, 1)))).all()


@pytest.mark.parametrize("level", LEVELS)
def test_one_system_is_undefined_at_its_level_and_no_error(level):
    keys = pd.DataFrame({"image_id": ["a", "b", "c"], "system": "s"})
    scores, ratings = np.array([1.0, 3, 2]), np.array([1.0, 2, 3])
    found = prepare_at_level(level, scores, ratings, keys, ["tau_b", "acc_eq"], np.arange(3))
    values = found(np.ones((3, 1)))[:, 0]
    for coefficient, value in zip(("tau_b", "acc_eq"), values, strict=True):
        wanted = correlate_at_level(level, scores, ratings, keys, coefficient).value
        assert value == pytest.approx(wanted, nan_ok=True)
    assert np.isnan(values).all() == (level in ("system", "by_image"))
