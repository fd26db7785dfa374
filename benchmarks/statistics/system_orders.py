"""Agreement of two orders of systems in many resampled sets of systems at once; `preference_ranking` calls it."""

from __future__ import annotations

import numpy as np

from .weighted_pairs import Floats

#: Spearman's ρ, Kendall's τ_b, and the share of pairs of systems that stand in the same order.
ORDER_MEASURES = ("spearman", "tau_b", "pairwise_accuracy")


def draw_systems(n_systems: int, n_samples: int, seed: int) -> Floats:
    """Draw systems with replacement, and return how often each is in a sample, shape (n_systems, n_samples)."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0, 2)))
    draws = rng.multinomial(n_systems, np.full(n_systems, 1 / n_systems), size=n_samples)
    return draws.T.astype(np.float64)


def compare_orders(x: Floats, y: Floats, weights: Floats) -> dict[str, Floats]:
    """Compute `ORDER_MEASURES` of two columns of systems' values in each sample.

    A system that is drawn twice is two systems with equal values, which `pairwise_accuracy` does not count as a pair.

    Args:
        x, y: shape (n_systems, n_samples).
        weights: how often each system is in a sample, of the same shape.

    Returns:
        By measure, shape (n_samples,); NaN where either side is constant or has an undefined value.
    """
    x, y = (np.where(weights > 0, side, 0.0) for side in (x, y))
    i, j = np.triu_indices(len(x), 1)
    pairs = weights[i] * weights[j]
    sign_x, sign_y = np.sign(x[i] - x[j]), np.sign(y[i] - y[j])
    with np.errstate(all="ignore"):
        tau = (pairs * sign_x * sign_y).sum(axis=0) / np.sqrt(
            (pairs * sign_x**2).sum(axis=0) * (pairs * sign_y**2).sum(axis=0)
        )
        alike = (pairs * (sign_x == sign_y)).sum(axis=0) / pairs.sum(axis=0)
        rho = _pearson(_mid_ranks(x, weights), _mid_ranks(y, weights), weights)
    is_undefined = ~np.isfinite(tau)  # NaN goes through every sum
    values = zip(ORDER_MEASURES, (rho, tau, alike), strict=True)
    return {name: np.where(is_undefined, np.nan, column) for name, column in values}


def _mid_ranks(values: Floats, weights: Floats) -> Floats:
    """Return each system's mean rank where each stands there as often as its weight says."""
    below = np.where(values[None] < values[:, None], weights[None], 0.0).sum(axis=1)
    equal = np.where(values[None] == values[:, None], weights[None], 0.0).sum(axis=1)
    return below + (equal + 1) / 2


def _pearson(x: Floats, y: Floats, weights: Floats) -> Floats:
    total = weights.sum(axis=0)
    x, y = (side - (weights * side).sum(axis=0) / total for side in (x, y))
    spread = (weights * x**2).sum(axis=0) * (weights * y**2).sum(axis=0)
    return np.clip((weights * x * y).sum(axis=0) / np.sqrt(spread), -1, 1)
