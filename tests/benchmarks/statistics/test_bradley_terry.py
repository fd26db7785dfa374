"""Bradley–Terry with ties: worked by hand, against statsmodels and SciPy; Elo's dependence on order; orders of systems."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy

from captau.benchmarks.statistics.bradley_terry import (
    TIE_MODELS,
    compare_orders,
    draw_systems,
    elo_ratings,
    find_groups,
    fit_strengths,
)

INF = math.inf


def counts(*rows: list[float]) -> np.ndarray:
    """One sample, shape (n_systems, n_systems, 1)."""
    return np.array(rows, dtype=float)[:, :, None]


def drawn(seed: int, n_systems: int = 5, mean: float = 8) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    wins = rng.poisson(mean, size=(n_systems, n_systems)).astype(float)
    ties = np.triu(rng.poisson(mean / 2, size=wins.shape), 1).astype(float)
    np.fill_diagonal(wins, 0)
    return wins, ties + ties.T


def test_two_systems_by_hand():
    """Of 13 comparisons 6 won, 3 lost, 4 tied: both models meet the three shares.

    Davidson: d = ln(6 / 3), ν = 4 / √(6·3). Rao and Kupper: e^d / θ = 6 / 7 and e^-d / θ = 3 / 10.
    """
    wins, ties = counts([0, 6], [3, 0]), counts([0, 4], [4, 0])
    davidson = fit_strengths(wins, ties, "davidson")
    assert davidson.values[:, 0] == pytest.approx([np.log(2) / 2, -np.log(2) / 2], abs=1e-9)
    assert davidson.tie[0] == pytest.approx(4 / np.sqrt(18), abs=1e-9)
    rao_kupper = fit_strengths(wins, ties, "rao_kupper")
    d = np.log((6 / 7) / (3 / 10)) / 2
    assert rao_kupper.values[:, 0] == pytest.approx([d / 2, -d / 2], abs=1e-9)
    assert rao_kupper.tie[0] == pytest.approx(np.sqrt(70 / 18), abs=1e-9)


@pytest.mark.parametrize(("model", "tie"), [("davidson", 0.0), ("rao_kupper", 1.0)])
def test_two_systems_without_ties_by_hand(model, tie):
    """6 of 8 won: d = ln(6 / 2), and the ties' parameter is that of models without ties."""
    fitted = fit_strengths(counts([0, 6], [2, 0]), counts([0, 0], [0, 0]), model)
    assert fitted.values[:, 0] == pytest.approx([np.log(3) / 2, -np.log(3) / 2], abs=1e-9)
    assert fitted.tie[0] == tie


@pytest.mark.parametrize("model", TIE_MODELS)
def test_three_systems_in_a_circle_are_equal(model):
    """Each beats the next twice as often as it loses to it, so that none is better."""
    wins = counts([0, 4, 2], [2, 0, 4], [4, 2, 0])
    assert fit_strengths(wins, 0 * wins, model).values[:, 0] == pytest.approx([0, 0, 0], abs=1e-9)


@pytest.mark.dev
@pytest.mark.parametrize("model", TIE_MODELS)
def test_without_ties_both_models_are_a_logistic_regression(model):
    """statsmodels' binomial GLM on the difference of two indicators (Bradley and Terry 1952)."""
    import statsmodels.api as sm

    wins, ties = drawn(0)
    first, second = np.triu_indices(len(wins), 1)
    design = np.zeros((len(first), len(wins)))
    design[np.arange(len(first)), first], design[np.arange(len(first)), second] = 1, -1
    answers = np.column_stack([wins[first, second], wins[second, first]])
    glm = sm.GLM(answers, design[:, 1:], family=sm.families.Binomial()).fit(tol=1e-12)
    expected = np.append(0, glm.params)
    fit = fit_strengths(wins[:, :, None], 0 * ties[:, :, None], model)
    assert fit.values[:, 0] == pytest.approx(expected - expected.mean(), abs=1e-8)


@pytest.mark.parametrize("model", TIE_MODELS)
@pytest.mark.parametrize("seed", range(3))
def test_the_likelihood_with_ties_is_maximised(model, seed):
    """SciPy's minimiser on the likelihood as the papers write it."""
    wins, ties = drawn(seed)
    n = len(wins)

    def loss(parameters: np.ndarray) -> float:
        worth, tie = np.exp(parameters[:n]), np.exp(parameters[n])
        i, j = worth[:, None], worth[None]
        if model == "davidson":
            total = i + j + tie * np.sqrt(i * j)
            win, draw = i / total, tie * np.sqrt(i * j) / total
        else:
            win = i / (i + tie * j)
            draw = (tie**2 - 1) * i * j / ((i + tie * j) * (j + tie * i))
        mask = ~np.eye(n, dtype=bool)
        return -float((wins * np.log(win))[mask].sum() + (ties * np.log(draw))[mask].sum() / 2)

    fit = fit_strengths(wins[:, :, None], ties[:, :, None], model)
    start = np.append(np.zeros(n), 0.3)
    bounds = [(-3.0, 3.0)] * n + [(0.01 if model == "rao_kupper" else -3.0, 3.0)]
    best = scipy.optimize.minimize(
        loss, start, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-15, "gtol": 1e-9}
    ).x
    assert fit.values[:, 0] == pytest.approx(best[:n] - best[:n].mean(), abs=1e-4)
    assert fit.tie[0] == pytest.approx(np.exp(best[n]), abs=1e-4)
    assert loss(np.append(fit.values[:, 0], np.log(fit.tie[0]))) <= loss(best) + 1e-9


@pytest.mark.parametrize("model", TIE_MODELS)
@pytest.mark.parametrize("first", [0, 2])
def test_samples_are_fitted_alike_alone_and_together_and_from_a_start(first, model):
    samples = [drawn(seed) for seed in range(4)]
    samples[2] = samples[2][0], 0 * samples[2][1]  # one without ties
    wins, ties = (np.stack(side, axis=2) for side in zip(*samples, strict=True))
    start = fit_strengths(wins[:, :, [first]], ties[:, :, [first]], model)
    together = fit_strengths(wins, ties, model, start)
    for index in range(4):
        alone = fit_strengths(wins[:, :, index : index + 1], ties[:, :, index : index + 1], model)
        assert together.values[:, index] == pytest.approx(alone.values[:, 0], abs=1e-8)
        assert together.tie[index] == pytest.approx(alone.tie[0], abs=1e-8)


@pytest.mark.parametrize("model", TIE_MODELS)
def test_a_system_that_never_loses_is_infinitely_above_the_others(model):
    """Ford 1957: the likelihood grows with its strength for ever, and the other two are equal; a tie ends that."""
    wins, none = counts([0, 3, 2], [0, 0, 1], [0, 1, 0]), np.zeros((3, 3, 1))
    fit = fit_strengths(wins, none, model)
    assert fit.differences[0, :, 0].tolist() == [0, INF, INF]
    assert fit.differences[:, 0, 0].tolist() == [0, -INF, -INF]
    assert fit.differences[1, 2, 0] == pytest.approx(0, abs=1e-9)
    assert fit.values[:, 0].tolist() == [INF, -INF, -INF]
    tied = none.copy()
    tied[0, 1] = tied[1, 0] = 1
    assert np.isfinite(fit_strengths(wins, tied, model).differences).all()


@pytest.mark.parametrize("model", TIE_MODELS)
def test_of_two_systems_one_that_only_wins_and_ties_is_infinitely_above(model):
    """With 93 wins and 5 ties, strength and ties' parameter can grow together for ever; one loss stops them."""
    ties = counts([0, 5], [5, 0])
    fit = fit_strengths(counts([0, 93], [0, 0]), ties, model)
    assert fit.differences[0, 1, 0] == INF
    assert np.isnan(fit.tie[0])
    assert np.isfinite(fit_strengths(counts([0, 93], [1, 0]), ties, model).differences).all()
    # Ties alone tell nothing.
    assert np.isnan(fit_strengths(counts([0, 0], [0, 0]), ties, model).differences[0, 1, 0])


@pytest.mark.parametrize("model", TIE_MODELS)
def test_what_the_comparisons_do_not_tell_is_undefined(model):
    """By hand: A beats B and C, which never meet; and a chain of three has a middle without a limit of its mean."""
    wins = counts([0, 2, 2], [0, 0, 0], [0, 0, 0])
    fit = fit_strengths(wins, 0 * wins, model)
    assert fit.differences[0, 1:, 0].tolist() == [INF, INF]
    assert np.isnan(fit.differences[1, 2, 0])
    chain = counts([0, 1, 0], [0, 0, 1], [0, 0, 0])
    fit = fit_strengths(chain, 0 * chain, model)
    assert fit.differences[0, 2, 0] == INF
    np.testing.assert_array_equal(fit.values[:, 0], [INF, math.nan, -INF])


@pytest.mark.parametrize("model", TIE_MODELS)
def test_limits_are_those_of_vanishing_losses(model):
    """A and B, with ties, never lose to C and D: with ε losses all is finite, and nears the limit as ε does 0."""
    wins = counts([0, 6, 2, 1], [3, 0, 0, 4], [0, 0, 0, 2], [0, 0, 1, 0])
    ties = counts([0, 4, 0, 0], [4, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0])
    limit = fit_strengths(wins, ties, model).differences[:, :, 0]
    few = wins.copy()
    few[2:, :2] = 1e-5
    near = fit_strengths(few, ties, model).differences[:, :, 0]
    assert np.isposinf(limit[:2, 2:]).all()
    assert (near[:2, 2:] > 10).all()
    assert limit[0, 1] == pytest.approx(near[0, 1], abs=1e-4)
    assert limit[2, 3] == pytest.approx(near[2, 3], abs=1e-4)


def test_an_unknown_model():
    with pytest.raises(ValueError, match="no model 'glicko'"):
        fit_strengths(np.zeros((2, 2, 1)), np.zeros((2, 2, 1)), "glicko")


def test_groups_that_never_meet():
    meetings = np.zeros((5, 5))
    meetings[0, 1] = meetings[1, 0] = meetings[3, 4] = meetings[4, 3] = 1
    assert find_groups(meetings) == [[0, 1], [2], [3, 4]]


def test_elo_by_hand_depends_on_the_order():
    """Two games of equals at 1000: a win then a loss. The first moves 16 points; the second more than as many back."""
    first, second = np.array([0, 0]), np.array([1, 1])
    ratings = elo_ratings(first, second, np.array([1.0, 0.0]), np.array([[0, 1], [1, 0]]))
    expected = 1 / (1 + 10 ** (-32 / 400))
    assert ratings[:, 0] == pytest.approx([1016 - 32 * expected, 984 + 32 * expected])
    assert ratings[:, 1] == pytest.approx(ratings[::-1, 0])
    assert ratings[0, 0] < 1000 < ratings[0, 1]


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
