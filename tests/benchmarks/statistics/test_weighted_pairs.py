"""Coefficients of weighted samples: SciPy's, of the sample in which points stand repeatedly."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from captau.benchmarks.statistics import weighted_pairs
from captau.benchmarks.statistics.coefficients.coefficient import correlate
from captau.benchmarks.statistics.coefficients.kendall import TauB
from captau.benchmarks.statistics.coefficients.pearson import Moments
from captau.benchmarks.statistics.weighted_pairs import RankedPairs
from captau.datasets.errors import InputError
from tests.benchmarks.statistics.weighted_samples import prepare_pooled

COEFFICIENTS = ["tau_c", "tau_b", "spearman", "pearson"]
#: Samples that a single example of hypothesis draws, five weightings of each twenty; 100 examples make 10,000.
BATCH = 100


def of_scipy(x: np.ndarray, y: np.ndarray) -> list[float]:
    """NaN where SciPy warns that a side is constant."""
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return [math.nan] * 4
    return [
        stats.kendalltau(x, y, variant="c").statistic,
        stats.kendalltau(x, y, variant="b").statistic,
        stats.spearmanr(x, y).statistic,
        stats.pearsonr(x, y).statistic,
    ]


DRAWN = {
    "seed": st.integers(0, 2**32 - 1),
    "levels_x": st.sampled_from([1, 2, 4, 20, None]),
    "levels_y": st.sampled_from([2, 4, 20, None]),
    "size": st.sampled_from([1e-6, 1.0, 1e6]),
}


@settings(max_examples=8)
@given(**DRAWN)
def test_samples_equal_scipy(seed, levels_x, levels_y, size):
    compare_with_scipy(seed, levels_x, levels_y, size)


@pytest.mark.slow
@settings(max_examples=100)
@given(**DRAWN)
def test_ten_thousand_samples_equal_scipy(seed, levels_x, levels_y, size):
    compare_with_scipy(seed, levels_x, levels_y, size)


def compare_with_scipy(seed, levels_x, levels_y, size):
    """Parity (tier 2): SciPy on the expanded sample, with and without ties, weights from 0 to 3."""
    rng = np.random.default_rng(seed)

    def values(n, levels):
        return rng.normal(size=n) if levels is None else rng.integers(0, levels, n).astype(float)

    for _ in range(BATCH // 5):
        n = int(rng.integers(1, 30))
        x, y = size * values(n, levels_x), values(n, levels_y)
        unit = rng.integers(0, max(1, n // 2), n)
        weights = rng.integers(0, 4, (unit.max() + 1, 5))
        weights[:, 0] = 1
        found = prepare_pooled(x, y, COEFFICIENTS, unit)(weights)
        for column, weight in enumerate(weights.T):
            chosen = np.repeat(np.arange(n), weight[unit])
            wanted = of_scipy(x[chosen], y[chosen])
            np.testing.assert_allclose(found[:, column], wanted, rtol=0, atol=1e-12)


def test_pairs_are_counted():
    """All pairs of a weighted sample, one by one."""
    rng = np.random.default_rng(3)
    x, y, weight = rng.integers(0, 4, 12), rng.integers(0, 3, 12), rng.integers(0, 3, 12)
    found = RankedPairs(x, y).pairs(weight[:, None])
    chosen = np.repeat(np.arange(12), weight)
    i, j = np.triu_indices(len(chosen), 1)
    dx, dy = np.sign(x[chosen][i] - x[chosen][j]), np.sign(y[chosen][i] - y[chosen][j])
    assert found.n == len(chosen)
    assert RankedPairs(x, y).pairs().n.tolist() == [12]  # without weights each point stands once
    assert found.total == len(i)
    assert found.concordant == (dx * dy > 0).sum()
    assert found.discordant == (dx * dy < 0).sum()
    assert found.tied_x == (dx == 0).sum()
    assert found.tied_y == (dy == 0).sum()
    assert found.tied_both == ((dx == 0) & (dy == 0)).sum()
    assert (found.levels_x, found.levels_y) == (len(set(x[chosen])), len(set(y[chosen])))


@pytest.mark.parametrize("levels", [4, pytest.param(None, marks=pytest.mark.slow)])
def test_two_hundred_thousand_points(levels):
    rng = np.random.default_rng(0)
    x = rng.normal(size=200_000)
    y = x + rng.normal(size=len(x))
    y = np.digitize(y, [-1, 0, 1]).astype(float) if levels else y
    ranked = RankedPairs(x, y)
    assert ranked.pairs().n.tolist() == [len(x)]
    assert TauB().of_pairs(ranked.pairs())[0] == pytest.approx(
        stats.kendalltau(x, y).statistic, abs=1e-12
    )
    assert ranked.spearman()[0] == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)


def test_infinite_scores_have_a_rank():
    x, y = [1.0, math.inf, 2.0, -math.inf], [1.0, 3.0, 2.0, 2.0]
    found = prepare_pooled(x, y, COEFFICIENTS[:3])(np.ones((4, 1)))[:, 0]
    wanted = [correlate(np.array(x), np.array(y), c).value for c in COEFFICIENTS[:3]]
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    assert np.isnan(prepare_pooled(x, y, ["pearson"])(np.ones((4, 1)))).all()
    with pytest.raises(ValueError, match="an infinite value has no mean"):
        Moments(x, y)


@pytest.mark.parametrize(
    ("x", "y"), [([], []), ([1], [2]), ([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [4, 4, 4])]
)
def test_undefined_is_nan(x, y):
    found = prepare_pooled(x, y, COEFFICIENTS)(np.ones((len(x), 2)))
    assert found.shape == (4, 2)
    assert np.isnan(found).all()


def test_a_sample_of_no_weight_is_undefined():
    assert np.isnan(prepare_pooled([1, 2, 3], [1, 2, 3], COEFFICIENTS)(np.zeros((3, 1)))).all()


def test_misuse():
    for x, y in ([[1, 2], [1]], [[[1, 2]], [[1, 2]]]):
        with pytest.raises(ValueError, match="not paired"):
            RankedPairs(x, y)
    with pytest.raises(ValueError, match="NaN"):
        RankedPairs([1, math.nan], [1, 2])
    with pytest.raises(InputError, match="unknown coefficient 'tau'"):
        prepare_pooled([1, 2], [1, 2], ["tau"])
    with pytest.raises(ValueError, match="units of 2 points"):
        RankedPairs([1, 2], [1, 2], [0])
    for statistic in (RankedPairs([1, 2], [1, 2]).pairs, Moments([1, 2], [1, 2]).pearson):
        with pytest.raises(ValueError, match="negative"):
            statistic([[1.0], [-1.0]])
        with pytest.raises(ValueError, match="negative or NaN"):
            statistic([[1.0], [math.nan]])
        with pytest.raises(ValueError, match=r"\(2, n_replicates\) are expected"):
            statistic([[1.0]])


@pytest.mark.parametrize(("levels_x", "levels_y"), [(1, 1), (3, 4), (40, 9), (None, None)])
def test_sums_by_numpy_equal_those_of_compiled_loops(monkeypatch, levels_x, levels_y):
    """Parity: two ways of computing whole numbers; with Numba and without it, results are the same."""
    pytest.importorskip("numba")
    rng = np.random.default_rng(5)
    x, y = (rng.random(300) if n is None else rng.integers(0, n, 300) for n in (levels_x, levels_y))
    pairs = RankedPairs(x, y, rng.integers(0, 50, 300))
    weights = rng.integers(0, 4, (50, 64)).astype(float)
    by_numpy = pairs.pairs(weights)
    ranks_by_numpy = pairs.spearman(weights)
    monkeypatch.setattr(weighted_pairs, "_COMPILED_WORK", 0)
    compiled = pairs.pairs(weights)
    for name, values in vars(by_numpy).items():
        assert np.array_equal(values, vars(compiled)[name]), name
    assert np.array_equal(ranks_by_numpy, pairs.spearman(weights), equal_nan=True)
