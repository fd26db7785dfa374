"""Bradley–Terry strengths with features held equal: a planted bias is found and taken out, and none is invented."""

from __future__ import annotations

import numpy as np
import pytest

from captau.benchmarks.statistics.bradley_terry import fit_strengths
from captau.benchmarks.statistics.controlled_strengths import ControlledStrengths, fit_controlled

STRENGTHS = np.array([0.5, 0.0, -0.5])
#: The mean number of words of each system's captions: the weakest one writes most.
MEAN_WORDS = np.array([10.0, 15.0, 25.0])


def simulate(rng: np.random.Generator, bias: float, tie: float = 0.5) -> ControlledStrengths:
    """Draw 900 comparisons of 300 images by Davidson's model, in which a word is worth `bias`."""
    image = np.repeat(np.arange(300), 3)
    first = np.tile([0, 1, 2], 300)
    second = np.tile([1, 2, 0], 300)
    words = MEAN_WORDS + rng.normal(scale=5, size=(300, 3))
    difference = words[image, first] - words[image, second]
    eta = STRENGTHS[first] - STRENGTHS[second] + bias * difference
    weights = np.stack([np.exp(eta / 2), np.exp(-eta / 2), np.full(900, tie)])
    shares = np.cumsum(weights / weights.sum(axis=0), axis=0)
    drawn = (rng.random(900) > shares).sum(axis=0)
    signs = np.array([1.0, -1.0, 0.0])[np.minimum(drawn, 2)]
    fit = fit_controlled(first, second, signs, difference[:, None], image)
    assert fit is not None
    return fit


@pytest.mark.parametrize("bias", [0.0, 0.04])
def test_a_bias_is_found_where_there_is_one(bias: float) -> None:
    """60 draws of 95 % intervals: 53 to 60 hold the truth (binomial, 99.8 %), for the bias and for each strength."""
    rng = np.random.default_rng(3)
    n_bias = 0
    n_strengths = np.zeros(3)
    for _ in range(60):
        fit = simulate(rng, bias)
        share, low, high = fit.win_share(0, 10.0, 0.95)
        assert low < share < high
        n_bias += low <= 1 / (1 + np.exp(-10 * bias)) <= high
        intervals = fit.strength_intervals(0.95)
        n_strengths += (intervals[:, 0] <= STRENGTHS) & (intervals[:, 1] >= STRENGTHS)
    assert n_bias >= 53
    assert (n_strengths >= 53).all()


def test_the_planted_bias_turns_the_order_and_is_taken_out() -> None:
    """A word is worth 0.1: the weakest system's 15 more words count 1.5 and it wins; at equal length the strongest does."""
    rng = np.random.default_rng(4)
    fit = simulate(rng, 0.1)
    assert np.argsort(-fit.strengths).tolist() == [0, 1, 2]
    assert fit.difference_p_value(0, 2) < 0.05
    share, low, _ = fit.win_share(0, 10.0, 0.95)
    assert low > 0.5
    assert share == pytest.approx(1 / (1 + np.exp(-1)), abs=0.08)


def test_a_feature_that_says_nothing_leaves_davidsons_strengths() -> None:
    """A feature that is as often positive as negative for each outcome of each two systems has the term 0."""
    first = np.array([0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 2, 2] * 5)
    second = np.array([1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 0, 0] * 5)
    signs = np.array([1, 1, 0, 0, 1, 1, -1, -1, 1, 1, 1, 1] * 5, dtype=float)
    feature = np.tile([1.0, -1.0], 30)
    fit = fit_controlled(first, second, signs, feature[:, None], np.arange(60))
    assert fit is not None
    assert fit.terms[0] == pytest.approx(0, abs=1e-8)

    wins = np.zeros((3, 3, 1))
    ties = np.zeros((3, 3, 1))
    for a, b, sign in zip(first, second, signs, strict=True):
        if sign > 0:
            wins[a, b] += 1
        elif sign < 0:
            wins[b, a] += 1
        else:
            ties[a, b] += 1
            ties[b, a] += 1
    plain = fit_strengths(wins, ties).values[:, 0]
    np.testing.assert_allclose(fit.strengths, plain, atol=1e-6)


def test_what_has_no_bound_is_told() -> None:
    """The longer caption always wins, or one system does, or all captions are of one length."""
    first = np.tile([0, 1], 20)
    second = 1 - first
    length = np.tile([1.0, -1.0, -1.0, 1.0], 10)
    images = np.arange(40)
    assert fit_controlled(first, second, np.sign(length), length[:, None], images) is None
    always = np.where(first == 0, 1.0, -1.0)
    mixed = np.sin(images * 1.7)[:, None]
    assert fit_controlled(first, second, always, mixed, images) is None
    assert fit_controlled(first, second, np.sign(length), np.zeros((40, 1)), images) is None
