"""Kendall's coefficients and the sign test, against SciPy's (parity, tier 2)."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from captau.benchmarks.statistics.kendall import correlate_kendall, sign_test


@pytest.mark.parametrize("levels", [2, 5, None])
@pytest.mark.parametrize("n", [2, 3, 12, 34, 400])
@pytest.mark.parametrize("variant", ["b", "c"])
def test_kendalls_coefficients_and_p_values_equal_scipys(n, levels, variant):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=n) if levels is None else rng.integers(0, levels, n).astype(float)
        y = rng.integers(0, 4, n).astype(float) if seed % 2 else rng.normal(size=n)
        if np.ptp(x) == 0 or np.ptp(y) == 0:
            continue
        result, reference = (
            correlate_kendall(x, y, variant),
            stats.kendalltau(x, y, variant=variant),
        )
        assert result.statistic == reference.statistic
        assert result.pvalue == reference.pvalue


def test_kendalls_p_value_of_sorted_values_is_scipys_exact_one():
    x = np.arange(50.0)
    assert correlate_kendall(x, x) == tuple(stats.kendalltau(x, x))


@pytest.mark.parametrize("n_pairs", [1, 2, 17, 100, 1999, 2000, 2001])
def test_the_sign_test_equals_scipys_binomial_test(n_pairs):
    for n_wins in {0, 1, n_pairs // 3, n_pairs // 2, n_pairs - n_pairs // 3, n_pairs}:
        expected = stats.binomtest(n_wins, n_pairs, 0.5).pvalue
        assert sign_test(n_wins, n_pairs) == pytest.approx(expected, rel=1e-10)
