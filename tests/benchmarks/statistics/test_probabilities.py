"""Rules from scores to probabilities and their bins: worked by hand, and laws that hold of every rule."""

from __future__ import annotations

import numpy as np
import pytest

from captau.benchmarks.statistics.probabilities import (
    ProbabilityBins,
    brier_score,
    fit_rule,
    mean_statistic,
)


def test_isotonic_pools_what_falls() -> None:
    """Shares by score 1, 0, 1 of one, two and one captions: the first two are pooled to 1/3."""
    scores = np.array([1.0, 2.0, 2.0, 3.0])
    rule = fit_rule("isotonic", scores, np.array([1.0, 0.0, 0.0, 1.0]))
    assert rule(np.array([0.0, 1.0, 2.0, 2.5, 3.0, 9.0])) == pytest.approx(
        [1 / 3, 1 / 3, 1 / 3, 2 / 3, 1, 1]
    )


def test_logistic_is_platts() -> None:
    """The fit's conditions: residuals from Platt's targets, 3/4 and 1/5 of 2 good and 3 bad, sum to 0, also by score."""
    scores = np.array([0.0, 1.0, 2.0, 5.0, 7.0])
    is_good = np.array([0.0, 0.0, 1.0, 0.0, 1.0])
    probabilities = fit_rule("logistic", scores, is_good)(scores)
    residuals = np.where(is_good > 0, 3 / 4, 1 / 5) - probabilities
    assert residuals.sum() == pytest.approx(0, abs=1e-9)
    assert residuals @ scores == pytest.approx(0, abs=1e-9)
    assert (np.diff(probabilities) > 0).all()


def test_logistic_stays_finite_where_a_threshold_separates_all() -> None:
    scores = np.arange(40.0)
    probabilities = fit_rule("logistic", scores, (scores >= 20).astype(float))(scores)
    assert probabilities[0] < 0.1
    assert probabilities[-1] > 0.9
    assert ((probabilities > 0) & (probabilities < 1)).all()


def test_logistic_follows_scores_of_any_unit() -> None:
    rng = np.random.default_rng(2)
    scores = rng.normal(size=200)
    is_good = (scores + rng.normal(size=200) > 0).astype(float)
    plain = fit_rule("logistic", scores, is_good)(scores)
    moved = fit_rule("logistic", 1e6 + 1e-3 * scores, is_good)(1e6 + 1e-3 * scores)
    assert moved == pytest.approx(plain, abs=1e-5)


def test_none_takes_scores_as_they_are() -> None:
    scores = np.array([0.2, 0.4])
    assert fit_rule("none", scores, np.array([0.0, 1.0]))(scores) is scores


def test_bins_by_hand() -> None:
    """Quantiles of six probabilities in three bins are 0.1, 0.23…, 0.56…, 0.9."""
    probabilities = np.array([0.1, 0.2, 0.3, 0.4, 0.9, 0.9])
    is_good = np.array([0.0, 1.0, 0.0, 1.0, 1.0, 1.0])
    bins = ProbabilityBins.cut(probabilities, is_good, 3)
    assert bins.bin_of_item.tolist() == [0, 0, 1, 1, 2, 2]
    assert bins.predicted == pytest.approx([0.15, 0.35, 0.9])
    assert bins.observed == pytest.approx([0.5, 0.5, 1.0])
    assert bins.counts.tolist() == [2, 2, 2]
    assert (bins.low[0], bins.high[-1]) == (0.1, 0.9)
    assert bins.expected_error == pytest.approx((0.35 + 0.15 + 0.1) / 3)


def test_equal_probabilities_are_in_one_bin() -> None:
    probabilities = np.array([0.5] * 8 + [0.9, 0.9])
    bins = ProbabilityBins.cut(probabilities, np.ones(10), 10)
    assert bins.counts.tolist() == [8, 2]
    assert bins.predicted == pytest.approx([0.5, 0.9])


def test_brier_and_its_weighted_samples() -> None:
    probabilities = np.array([0.5, 1.0, 0.0])
    is_good = np.array([1.0, 1.0, 1.0])
    assert brier_score(probabilities, is_good) == pytest.approx((0.25 + 0 + 1) / 3)
    distances = (probabilities - is_good) ** 2
    statistic = mean_statistic(distances, np.array([0, 0, 1]), 2)
    weights = np.array([[1.0, 2.0, 0.0], [1.0, 0.0, 2.0]])
    assert statistic(weights) == pytest.approx(np.array([[1.25 / 3, 0.125, 1.0]]))
