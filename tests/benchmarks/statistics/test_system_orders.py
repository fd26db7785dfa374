"""Orders of systems in resampled sets of systems, against SciPy on the systems written out."""

from __future__ import annotations

import numpy as np
import pytest
import scipy

from captau.benchmarks.statistics.system_orders import compare_orders, draw_systems


def test_weights_are_systems_that_stand_there_as_often():
    rng = np.random.default_rng(0)
    x, y = (rng.integers(4, size=(7, 20)).astype(float) for _ in range(2))
    weights = draw_systems(7, 20, seed=1)
    assert (weights.sum(axis=0) == 7).all()
    orders = compare_orders(x, y, weights)
    for sample in range(20):
        index = np.repeat(np.arange(7), weights[:, sample].astype(int))
        a, b = x[index, sample], y[index, sample]
        assert orders["tau_b"][sample] == pytest.approx(scipy.stats.kendalltau(a, b).statistic)
        assert orders["spearman"][sample] == pytest.approx(scipy.stats.spearmanr(a, b).statistic)


def test_an_undefined_value_counts_only_where_it_is_drawn():
    x = np.array([[1.0, 1], [2, 2], [3, 3], [np.nan, np.nan]])
    y = np.array([[1.0, 1], [3, 3], [2, 2], [0, 0]])
    orders = compare_orders(x, y, np.array([[1.0, 1], [1, 1], [1, 1], [0, 1]]))
    assert orders["tau_b"][0] == pytest.approx(1 / 3)
    assert orders["pairwise_accuracy"][0] == pytest.approx(2 / 3)
    assert all(np.isnan(values[1]) for values in orders.values())
