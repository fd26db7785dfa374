"""Selection of metrics: fits against scikit-learn and NumPy, and partial correlations by regression."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from captau.benchmarks.statistics.metric_selection import CrossValidation, partial_correlation


def made(n_images: int = 40, seed: int = 0):
    """Two metrics that each know a part, one that knows nothing, and one that repeats the first."""
    rng = np.random.default_rng(seed)
    image = np.repeat(np.arange(n_images), 4)
    a, b, noise = rng.normal(size=(3, len(image)))
    ratings = a + 0.5 * b + rng.normal(0, 0.5, len(image))
    return [a, 10 * b + 3, noise, 2 * a - 1], ratings, image


@pytest.mark.dev
def test_r2_and_tau_are_those_of_scikit_learn_on_the_same_folds():
    from sklearn.linear_model import LinearRegression
    from sklearn.metrics import r2_score

    scores, ratings, image = made()
    fit = CrossValidation.prepare(scores, ratings, image, seed=0)
    ones = np.ones(40)
    for chosen in ([0], [0, 1], [1, 2], [0, 1, 2]):
        x = np.stack([scores[c] for c in chosen], axis=1)
        predicted, plain = np.zeros(len(ratings)), np.zeros(len(ratings))
        for fold in range(5):
            held = fit.fold[image] == fold
            model = LinearRegression().fit(x[~held], ratings[~held])
            predicted[held] = model.predict(x[held])
            plain[held] = ratings[~held].mean()
        wanted = 1 - ((ratings - predicted) ** 2).sum() / ((ratings - plain) ** 2).sum()
        assert fit.r2(chosen, ones) == pytest.approx(wanted, abs=1e-9)
        assert fit.r2(chosen, ones) == pytest.approx(r2_score(ratings, predicted), abs=0.01)
        tau = stats.kendalltau(predicted, ratings).statistic
        assert fit.tau(chosen, ones) == pytest.approx(tau, abs=1e-9)


@pytest.mark.parametrize("scale", [1, 0.01])
def test_r2_and_tau_are_those_of_least_squares_on_the_other_folds(scale):
    """By NumPy on the raw columns; the scale of ratings moves neither."""
    scores, ratings, image = made(20)
    ratings = scale * ratings
    scores[0] = 100 + 0.5 * scores[0]  # far from 0, as a metric of a scale of 100 may be
    fit = CrossValidation.prepare(scores, ratings, image, seed=1)
    x = np.stack([np.ones(len(ratings)), scores[0], scores[2]], axis=1)
    predicted, plain = np.zeros(len(ratings)), np.zeros(len(ratings))
    for fold in range(5):
        is_held = fit.fold[image] == fold
        weights = np.linalg.lstsq(x[~is_held], ratings[~is_held])[0]
        predicted[is_held], plain[is_held] = x[is_held] @ weights, ratings[~is_held].mean()
    errors, distances = (((ratings - y) ** 2).sum() for y in (predicted, plain))
    assert fit.r2([0, 2], np.ones(20)) == pytest.approx(1 - errors / distances, abs=1e-9)
    tau = stats.kendalltau(predicted, ratings).statistic
    assert fit.tau([0, 2], np.ones(20)) == pytest.approx(tau, abs=1e-9)


def test_folds_divide_images():
    scores, ratings, image = made()
    fit = CrossValidation.prepare(scores, ratings, image, seed=3)
    assert np.bincount(fit.fold).tolist() == [8] * 5
    assert not np.array_equal(
        fit.fold, CrossValidation.prepare(scores, ratings, image, seed=4).fold
    )


def test_weights_are_repeated_images():
    scores, ratings, image = made(12)
    weights = np.array([2.0, 0, 1, 1, 3, 1, 0, 1, 1, 1, 2, 1])
    fit = CrossValidation.prepare(scores, ratings, image, seed=0)
    place = np.concatenate(
        [np.tile(np.flatnonzero(image == i), int(w)) for i, w in enumerate(weights)]
    )
    # The same columns, repeated, in the same folds.
    repeated = CrossValidation(
        fit.columns[place], image[place], fit.grams * weights[:, None, None], fit.fold
    )
    ones = np.ones(12)
    assert fit.r2([0, 1], weights) == pytest.approx(repeated.r2([0, 1], ones), abs=1e-12)
    assert fit.tau([0, 1], weights) == pytest.approx(repeated.tau([0, 1], ones), abs=1e-9)


@pytest.mark.parametrize("criterion", ["r2", "tau_b"])
def test_selection_takes_what_adds_most(criterion):
    scores, ratings, image = made(200)
    path = CrossValidation.prepare(scores, ratings, image, seed=0).select(criterion, np.ones(200))
    order = [metric for metric, _ in path]
    assert {order[0], order[1]} in ({0, 1}, {3, 1})
    assert sorted(order) == [0, 1, 2, 3]
    reached = [value for _, value in path]
    assert reached[1] > reached[0] + 0.05
    assert reached[3] == pytest.approx(reached[1], abs=0.01)  # a copy and noise add nothing


def test_partial_correlation_is_that_of_residuals():
    rng = np.random.default_rng(0)
    z = rng.normal(size=300)
    x, y = z + rng.normal(size=300), 2 * z + rng.normal(size=300)
    left = [v - np.poly1d(np.polyfit(z, v, 1))(z) for v in (x, y)]
    assert partial_correlation(x, y, z) == pytest.approx(stats.pearsonr(*left).statistic, abs=1e-12)
    assert partial_correlation(x, y, np.ones(300)) == pytest.approx(stats.pearsonr(x, y).statistic)
    assert math.isnan(partial_correlation(z, y, z))
