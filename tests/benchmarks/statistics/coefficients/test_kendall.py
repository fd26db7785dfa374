"""Kendall's coefficients against SciPy's (parity, tier 2)."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from captau.benchmarks.statistics.coefficients.coefficient import correlate


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
            correlate(x, y, f"tau_{variant}"),
            stats.kendalltau(x, y, variant=variant),
        )
        assert result.value == reference.statistic
        assert result.p_value == reference.pvalue


def test_kendalls_p_value_of_sorted_values_is_scipys_exact_one():
    x = np.arange(50.0)
    result = correlate(x, x, "tau_b")
    assert (result.value, result.p_value) == tuple(stats.kendalltau(x, x))


@pytest.mark.parametrize("m", [2, 3, 5, 7])
def test_tau_c_is_no_more_than_1_where_equally_many_have_each_level(m):
    """Only then is the surplus n² (m - 1) / 2 m, a whole number, so that nothing is rounded."""
    for n in (m, 4 * m, 1001 * m):
        x = np.arange(float(n)) % m
        assert (correlate(x, x, "tau_c").value, correlate(x, -x, "tau_c").value) == (1, -1)
