"""Quantiles, tails and ranks: by hand, from a published table, and against SciPy's (parity, tier 2)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special, stats

from captau.benchmarks.statistics.distributions import (
    mid_ranks,
    normal_quantile,
    normal_share,
    student_quantile,
)


def test_quantiles_of_fisher_and_yates_table():
    """Table III of Fisher and Yates 1963 has the two-sided 5 % points of t."""
    printed = {1: 12.706, 2: 4.303, 3: 3.182, 10: 2.228, 29: 2.045, 120: 1.980}
    for freedom, quantile in printed.items():
        assert round(student_quantile(0.975, freedom), 3) == quantile
    assert round(normal_quantile(0.975), 3) == 1.960


def test_students_quantile_of_one_degree_is_the_tangent():
    """Student's t with one degree of freedom is Cauchy's distribution."""
    for share in (0.001, 0.2, 0.5, 0.75, 0.999999):
        by_tangent = math.tan(math.pi * (share - 0.5))
        assert student_quantile(share, 1) == pytest.approx(by_tangent, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 9, 30, 99, 250, 499, 500, 501, 4999, 1_000_000])
def test_students_quantiles_equal_scipys(freedom: int):
    for share in (1e-6, 0.0005, 0.025, 0.16, 0.3, 0.5, 0.84, 0.975):
        below = special.stdtr(freedom, student_quantile(share, freedom))
        assert below == pytest.approx(share, abs=1e-13)
        assert student_quantile(share, freedom) == pytest.approx(
            special.stdtrit(freedom, share), rel=1e-8, abs=1e-15
        )


def test_the_ends_of_the_distributions_are_infinite():
    assert normal_quantile(0.0) == student_quantile(0.0, 7) == -math.inf
    assert normal_quantile(1.0) == student_quantile(1.0, 7) == math.inf


def test_normal_shares_equal_scipys_down_to_the_smallest():
    for value in (-37.0, -8.0, -1.5, 0.0, 0.3, 9.0):
        assert normal_share(value) == pytest.approx(special.ndtr(value), rel=1e-13)
    assert math.isnan(normal_share(math.nan))


def test_mid_ranks_by_hand():
    """Two values that share the places 2 and 3 have 2.5 each; a column with NaN has none."""
    assert mid_ranks(np.array([0.1, 0.5, 0.5, 0.9])).tolist() == [1.0, 2.5, 2.5, 4.0]
    ranks = mid_ranks(np.array([[3.0, 1.0], [3.0, math.nan]]))
    assert ranks[:, 0].tolist() == [1.5, 1.5]
    assert np.isnan(ranks[:, 1]).all()
    assert mid_ranks(np.empty(0)).shape == (0,)


@pytest.mark.parametrize("shape", [(1,), (50,), (50, 8), (1, 3)])
def test_mid_ranks_equal_scipys(shape: tuple[int, ...]):
    values = np.random.default_rng(0).integers(0, 6, size=shape).astype(np.float64)
    assert np.array_equal(mid_ranks(values), stats.rankdata(values, axis=0))
