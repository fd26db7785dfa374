"""A metric as one more rater: by hand, and against scikit-learn and krippendorff."""

from __future__ import annotations

import krippendorff
import numpy as np
import pytest

from captau.benchmarks.statistics.metric_as_rater import MEASURES, meet_metric, meet_people
from captau.benchmarks.statistics.rater_agreement import krippendorff_alpha, percent_agreement
from captau.benchmarks.statistics.rating_table import RatingTable
from tests.benchmarks.statistics.rating_matrices import table_of_matrix

LEVELS = np.array([1.0, 2.0, 3.0, 5.0])
KAPPA_WEIGHTS = {"cohen_kappa": 0, "cohen_kappa_linear": 1, "cohen_kappa_quadratic": 2}
ALPHA_LEVELS = ("nominal", "ordinal", "interval")


def drawn(n_items=50, n_raters=4):
    """Ratings with gaps, answers, and images of two items each."""
    rng = np.random.default_rng(1)
    quality = rng.integers(0, 4, n_items)
    ratings = LEVELS[np.clip(quality[:, None] + rng.integers(-1, 2, (n_items, n_raters)), 0, 3)]
    ratings[:, 2:][rng.random((n_items, n_raters - 2)) < 0.4] = np.nan
    answers = LEVELS[np.clip(quality + rng.integers(-1, 3, n_items), 0, 3)]
    return ratings, answers, np.arange(n_items) // 2


def of_metric(ratings, answers, image):
    return meet_metric(table_of_matrix(ratings), answers, LEVELS, image, image.max() + 1)


def test_yes_and_no_by_hand():
    # Of four captions people call two good; the metric three, among them both.
    table = RatingTable(
        np.arange(4), np.zeros(4, dtype=int), np.array([1.0, 1, 0, 0]), np.arange(4)
    )
    answers = np.array([1.0, 1, 1, 0])
    values = meet_metric(table, answers, np.array([0.0, 1.0]), np.arange(4), 4).values
    # 3 of 4 are equal, 2 by chance: (.75 - .5) / .5.
    assert values["percent_agreement"] == 0.75
    assert values["cohen_kappa"] == pytest.approx(0.5)
    # Eight answers, five yes and three no: D_o = 2/8, D_e = 30/56; 1 - .25 · 56 / 30.
    assert values["krippendorff_alpha_nominal"] == pytest.approx(1 - 0.25 * 56 / 30)


@pytest.mark.dev
@pytest.mark.parametrize("name", KAPPA_WEIGHTS)
def test_kappa_is_that_of_scikit_learn(name):
    from sklearn.metrics import cohen_kappa_score

    ratings, answers, image = drawn()
    item, rater = np.nonzero(~np.isnan(ratings))
    # Its weights are of the places of labels: with 4 among them, places are as far apart as levels.
    power = KAPPA_WEIGHTS[name]
    weights = {0: None, 1: "linear", 2: "quadratic"}[power]
    expected = cohen_kappa_score(
        answers[item].astype(int),
        ratings[item, rater].astype(int),
        weights=weights,
        labels=[1, 2, 3, 4, 5],
    )
    assert of_metric(ratings, answers, image).values[name] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("level", ALPHA_LEVELS)
def test_alpha_is_that_of_the_krippendorff_package_with_one_more_rater(level):
    ratings, answers, image = drawn()
    everyone = np.column_stack([ratings, answers])
    name = f"krippendorff_alpha_{level}"
    with_metric = of_metric(ratings, answers, image).values[name]
    assert with_metric == pytest.approx(
        krippendorff.alpha(everyone.T, level_of_measurement=level), abs=1e-12
    )

    table = table_of_matrix(ratings)
    people = meet_people(table, LEVELS, image, image.max() + 1).values[name]
    assert people == pytest.approx(krippendorff_alpha(table, level).value, abs=1e-12)


def test_equal_answers_are_those_of_the_raters_measure():
    ratings, answers, image = drawn()
    table = table_of_matrix(ratings)
    people = meet_people(table, LEVELS, image, image.max() + 1)
    assert people.values["percent_agreement"] == pytest.approx(percent_agreement(table).value)

    shares = [np.mean(row[~np.isnan(row)] == a) for row, a in zip(ratings, answers, strict=True)]
    metric = of_metric(ratings, answers, image).values["percent_agreement"]
    assert metric == pytest.approx(np.mean(shares))


def test_a_weight_of_two_is_the_image_twice():
    ratings, answers, image = drawn()
    weights = np.ones((25, 1))
    weights[3] = 2
    weights[5] = 0
    weighted = of_metric(ratings, answers, image).of_sample(weights)[:, 0]

    kept = np.concatenate([np.flatnonzero(image != 5), np.flatnonzero(image == 3)])
    copied = of_metric(ratings[kept], answers[kept], image[kept]).values

    assert weighted == pytest.approx(list(copied.values()), abs=1e-12)


def test_a_metric_that_always_answers_alike_has_no_kappa():
    ratings, answers, image = drawn()
    values = of_metric(ratings, np.full(len(answers), 3.0), image).values
    assert list(values) == list(MEASURES)
    assert np.isnan([values[name] for name in KAPPA_WEIGHTS]).all()
    assert not np.isnan(values["krippendorff_alpha_ordinal"])
