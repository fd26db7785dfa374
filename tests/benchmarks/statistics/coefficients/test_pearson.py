"""Pearson's r of weighted samples, where sums lose digits, overflow, or have nothing to vary."""

from __future__ import annotations

import numpy as np
from scipy import stats

from captau.benchmarks.statistics.coefficients.pearson import Moments


def test_pearson_where_sums_cancel():
    """Without the point that is far off, the rest is lost in sums that were made with it."""
    x, y = np.array([1e9, 1.0, 2.0, 4.0]), np.array([1e9, 3.0, 1.0, 2.0])
    found = Moments(x, y).pearson(np.array([[1.0, 0], [1, 1], [1, 1], [1, 2]]))
    wanted = [stats.pearsonr(x, y).statistic]
    wanted.append(stats.pearsonr([1, 2, 4, 4], [3, 1, 2, 2]).statistic)
    # 2.0 of 1e9 has nine digits less than float64 holds; standardised data have no more.
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_pearson_of_scores_whose_differences_overflow():
    x, y = np.array([1.0, -1.0, 0.5]), np.array([3.0, 1.0, 2.5])
    np.testing.assert_allclose(Moments(1e308 * x, y).pearson(), Moments(x, y).pearson())


def test_scores_far_from_zero_are_summed_by_unit(monkeypatch):
    """The mean is taken off first, so that nothing is left to the slow way, point by point."""
    monkeypatch.delattr(Moments, "_pearson_by_point")
    x, y = np.array([1.0, 2.0, 4.0]), np.array([3.0, 1.0, 2.0])
    found = Moments(x + 1e6, y).pearson()
    np.testing.assert_allclose(found, [stats.pearsonr(x, y).statistic], atol=1e-9)


def test_a_replicate_without_the_only_score_that_differs_is_undefined():
    """0.1 is no float, so that the mean of three is not the number itself."""
    x, y = [0.1, 0.1, 0.1, 5.0], [1.0, 2, 4, 3]
    weights = np.array([[1, 1], [1, 1], [1, 1], [0, 1]])
    for sides in ((x, y), (y, x)):
        assert np.isnan(Moments(*sides).pearson(weights)).tolist() == [True, False]
