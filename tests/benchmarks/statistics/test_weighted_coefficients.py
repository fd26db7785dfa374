"""Coefficients of weighted samples: SciPy's, of the sample in which points stand repeatedly."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from captau.benchmarks.statistics import pair_sums
from captau.benchmarks.statistics.coefficients import correlate
from captau.benchmarks.statistics.preferences import judge_differences, pair_differences
from captau.benchmarks.statistics.weighted_coefficients import (
    Moments,
    RankedPairs,
    prepare_accuracies,
    prepare_coefficients,
)

COEFFICIENTS = ["tau_c", "tau_b", "spearman", "pearson"]
#: Samples that a single example of hypothesis draws; 100 examples make 10,000.
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


@settings(max_examples=100)
@given(
    seed=st.integers(0, 2**32 - 1),
    levels_x=st.sampled_from([1, 2, 4, 20, None]),
    levels_y=st.sampled_from([2, 4, 20, None]),
    size=st.sampled_from([1e-6, 1.0, 1e6]),
)
def test_ten_thousand_samples_equal_scipy(seed, levels_x, levels_y, size):
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
        found = prepare_coefficients(x, y, COEFFICIENTS, unit)(weights)
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


@pytest.mark.parametrize("levels", [4, None])
def test_a_million_points(levels):
    rng = np.random.default_rng(0)
    x = rng.normal(size=1_000_000)
    y = x + rng.normal(size=len(x))
    y = np.digitize(y, [-1, 0, 1]).astype(float) if levels else y
    ranked = RankedPairs(x, y)
    assert ranked.pairs().n.tolist() == [len(x)]
    assert ranked.pairs().tau_b[0] == pytest.approx(stats.kendalltau(x, y).statistic, abs=1e-12)
    assert ranked.spearman()[0] == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)


def test_infinite_scores_have_a_rank():
    x, y = [1.0, math.inf, 2.0, -math.inf], [1.0, 3.0, 2.0, 2.0]
    found = prepare_coefficients(x, y, COEFFICIENTS[:3])(np.ones((4, 1)))[:, 0]
    wanted = [correlate(np.array(x), np.array(y), c).value for c in COEFFICIENTS[:3]]
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    assert np.isnan(prepare_coefficients(x, y, ["pearson"])(np.ones((4, 1)))).all()
    with pytest.raises(ValueError, match="an infinite value has no mean"):
        Moments(x, y)


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


@pytest.mark.parametrize(
    ("x", "y"), [([], []), ([1], [2]), ([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [4, 4, 4])]
)
def test_undefined_is_nan(x, y):
    found = prepare_coefficients(x, y, COEFFICIENTS)(np.ones((len(x), 2)))
    assert found.shape == (4, 2)
    assert np.isnan(found).all()


def test_a_replicate_without_the_only_score_that_differs_is_undefined():
    """0.1 is no float, so that the mean of three is not the number itself."""
    x, y = [0.1, 0.1, 0.1, 5.0], [1.0, 2, 4, 3]
    weights = np.array([[1, 1], [1, 1], [1, 1], [0, 1]])
    for sides in ((x, y), (y, x)):
        assert np.isnan(Moments(*sides).pearson(weights)).tolist() == [True, False]


def test_a_sample_of_no_weight_is_undefined():
    assert np.isnan(
        prepare_coefficients([1, 2, 3], [1, 2, 3], COEFFICIENTS)(np.zeros((3, 1)))
    ).all()


def test_misuse():
    for x, y in ([[1, 2], [1]], [[[1, 2]], [[1, 2]]]):
        with pytest.raises(ValueError, match="not paired"):
            RankedPairs(x, y)
    with pytest.raises(ValueError, match="NaN"):
        RankedPairs([1, math.nan], [1, 2])
    with pytest.raises(ValueError, match="no coefficient 'tau'"):
        prepare_coefficients([1, 2], [1, 2], ["tau"])
    with pytest.raises(ValueError, match="units of 2 points"):
        RankedPairs([1, 2], [1, 2], [0])
    for statistic in (RankedPairs([1, 2], [1, 2]).pairs, Moments([1, 2], [1, 2]).pearson):
        with pytest.raises(ValueError, match="negative"):
            statistic([[1.0], [-1.0]])
        with pytest.raises(ValueError, match="negative or NaN"):
            statistic([[1.0], [math.nan]])
        with pytest.raises(ValueError, match=r"\(2, n_replicates\) are expected"):
            statistic([[1.0]])


def test_accuracy_of_weighted_preferences():
    """A pair that is drawn twice counts twice; the last value is the mean of the dimensions."""
    right, dimension, unit = [1, 0.5, 0, 1], [0, 0, 1, 1], [0, 1, 1, 2]
    found = prepare_accuracies(right, dimension, unit, 2)(
        np.array([[1.0, 2, 0], [1, 1, 0], [1, 0, 1]])
    )
    first, second = [1.5 / 2, 2.5 / 3], [1 / 2, 0 / 1]
    np.testing.assert_allclose(found[0], [*first, math.nan])
    np.testing.assert_allclose(found[1], [*second, 1])
    np.testing.assert_allclose(found[2], [(0.75 + 0.5) / 2, (2.5 / 3 + 0) / 2, math.nan])


def test_accuracy_equals_that_of_the_benchmark():
    import captau

    demo = captau.load("demo")
    told = demo.preferences[demo.preferences["winner"] != "tie"]
    lengths = demo.items.set_index("item_id")["caption"].str.len().astype(float)
    a, b = (lengths.loc[told[side]].to_numpy() for side in ("item_a", "item_b"))
    right = np.where(told["winner"] == "a", a > b, b > a) + (a == b) / 2
    found = prepare_accuracies(right, np.zeros(len(told)), np.arange(len(told)), 1)(
        np.ones((len(told), 1))
    )
    assert found[0, 0] == pytest.approx(
        judge_differences(pair_differences(lengths, told), told["strength"].to_numpy()).accuracy,
        abs=1e-15,
    )


@pytest.mark.parametrize(("levels_x", "levels_y"), [(1, 1), (3, 4), (40, 9), (None, None)])
def test_sums_by_numpy_equal_those_of_compiled_loops(monkeypatch, levels_x, levels_y):
    """Parity: two ways of computing whole numbers; with Numba and without it, results are the same."""
    pytest.importorskip("numba")
    rng = np.random.default_rng(5)
    x, y = (rng.random(300) if n is None else rng.integers(0, n, 300) for n in (levels_x, levels_y))
    pairs = RankedPairs(x, y, rng.integers(0, 50, 300))
    weights = rng.integers(0, 4, (50, 64)).astype(float)
    by_numpy = pairs.pairs(weights)
    monkeypatch.setattr(pair_sums, "_COMPILED_WORK", 0)
    compiled = pairs.pairs(weights)
    for name, values in vars(by_numpy).items():
        assert np.array_equal(values, vars(compiled)[name]), name
