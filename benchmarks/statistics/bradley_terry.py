"""Strengths of systems from comparisons of two: Bradley–Terry models with ties, Elo ratings, and agreement of orders.

`evaluation.systems.preference_ranking` fits a whole block of bootstrap replicates at once with `fit_strengths`.

With strengths λ and d = λ_i - λ_j, `davidson` (Davidson 1970) makes i win with a probability in proportion to
exp(d / 2), j to exp(-d / 2), and a tie to ν; `rao_kupper` (Rao and Kupper 1967) makes i win with probability
1 / (1 + θ exp(-d)) and j with 1 / (1 + θ exp(d)), the rest being ties. Without ties both are Bradley and Terry's 1952.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from .weighted_pairs import Floats, Ints

TIE_MODELS = ("davidson", "rao_kupper")
#: Newton steps; a dozen are enough where there is a maximum.
MAX_STEPS = 100
#: The largest step of a log strength at once.
MAX_STEP = 1.0
#: A gradient per comparison at which a fit is finished.
TOLERANCE = 1e-10
#: Less information than this about a direction: the likelihood grows along it without end.
MIN_INFORMATION = 1e-6
#: The change of an Elo rating after a game that was as good as lost, and the ratings' start.
ELO_K = 32.0
ELO_START = 1000.0
#: The decimals to which a difference of strengths is settled.
DECIMALS = 9


@dataclass(frozen=True)
class Strengths:
    """Fits of several samples, at their limit where the likelihood grows with the strengths without end.

    Attributes:
        differences: the row's log strength less the column's, shape (n_systems, n_systems, n_samples): infinite where
            one is above the other without bound, NaN where the comparisons do not tell.
        tie: ν of `davidson` or θ of `rao_kupper`, shape (n_samples,); NaN without a maximum.
    """

    differences: Floats
    tie: Floats

    @property
    def values(self) -> Floats:
        """Log strengths with mean 0, shape (n_systems, n_samples); NaN below one without bound and above another."""
        with np.errstate(invalid="ignore"):
            return self.differences.mean(axis=1)


def fit_strengths(
    wins: Floats, ties: Floats, model: str = "davidson", start: Strengths | None = None
) -> Strengths:
    """Fit strengths to samples of comparisons by maximum likelihood, with Newton's method.

    Where systems can be parted into two groups of which one never wins or ties against the other (Ford 1957), the
    other's strengths are infinite in comparison, and each group is fitted by itself, with the same parameter of ties.
    Where ties grow with the strengths for ever, as of two systems of which one never wins, the signs of such
    differences follow from the wins and ties alone, see `_order_of_ties`.

    Args:
        wins: how often the row's system beats the column's, shape (n_systems, n_systems, n_samples).
        ties: how often the two tie, symmetric, of the same shape.
        model: one of `TIE_MODELS`.
        start: the fit of one similar sample, to begin with.

    Raises:
        ValueError: on another model.
    """
    if model not in TIE_MODELS:
        raise ValueError(f"no model '{model}'")

    wins = np.moveaxis(wins, 2, 0)
    ties = np.moveaxis(ties, 2, 0)
    reaches = _close(wins + ties > 0)
    is_mutual = reaches & reaches.transpose(0, 2, 1)

    model_class = _Davidson if model == "davidson" else _RaoKupper
    likelihood = model_class(
        np.where(is_mutual, wins, 0.0), np.where(is_mutual, ties, 0.0), is_mutual
    )
    values, tie = likelihood.maximise(start)
    # Newton's method leaves noise, which would make two equal systems differ by 1e-13.
    differences = np.round(values[:, :, None] - values[:, None, :], DECIMALS) + 0.0
    differences = np.where(is_mutual, differences, np.nan)
    is_endless = np.isnan(tie)
    if is_endless.any():
        order = _order_of_ties(wins[is_endless], ties[is_endless])
        differences[is_endless] = np.where(is_mutual[is_endless], order, np.nan)

    index = np.arange(wins.shape[1])
    differences[:, index, index] = 0.0
    differences[reaches & ~is_mutual] = np.inf
    differences[reaches.transpose(0, 2, 1) & ~is_mutual] = -np.inf
    return Strengths(np.moveaxis(differences, 0, 2), tie)


def _close(beats: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Say which systems lead to which others by a chain of wins and ties, shape (n_samples, n, n); each to itself."""
    n_systems = beats.shape[1]
    reaches = beats | np.eye(n_systems, dtype=bool)
    for k in range(n_systems):
        reaches |= reaches[:, :, k, None] & reaches[:, k, None, :]
    return reaches


def _order_of_ties(wins: Floats, ties: Floats) -> Floats:
    """Return infinite differences of strengths where the likelihood grows with strengths and ties without end.

    Along such a direction, in units of the logarithm of the ties' parameter, a win parts two systems by 1 or more, and a
    tie by 1 at most. A difference is infinite where all directions give it one sign: where the shortest chain of
    these bounds is negative.

    Args:
        wins, ties: as in `fit_strengths`, shape (n_samples, n_systems, n_systems).

    Returns:
        Infinite or NaN, of the same shape.
    """
    bounds = np.where(ties > 0, 1.0, np.inf)
    bounds[wins > 0] = -1.0
    for k in range(bounds.shape[1]):
        bounds = np.minimum(bounds, bounds[:, :, k, None] + bounds[:, k, None, :])
    is_above = bounds < 0
    order = np.where(is_above, np.inf, np.nan)
    return np.where(is_above.transpose(0, 2, 1), np.where(is_above, np.nan, -np.inf), order)


def find_groups(comparisons: Floats) -> list[list[int]]:
    """Return the groups of systems that meet each other, directly or through others.

    Args:
        comparisons: how often two systems meet, symmetric, shape (n_systems, n_systems).
    """
    n_groups, labels = connected_components(comparisons > 0, directed=False)
    return [np.flatnonzero(labels == group).tolist() for group in range(n_groups)]


class _Model:
    """Newton's method for a batch of samples; subclasses have the likelihood of their ties.

    Methods work with the logarithm of the ties' parameter, of ν or of θ, one a sample.

    Args:
        wins: how often the row's system beats the column's, shape (n_samples, n_systems, n_systems).
        ties: how often the two tie, symmetric, of the same shape.
        is_mutual: whether two systems are of one group, whose strengths have mean 0, of the same shape.

    Attributes:
        n: the number of comparisons of each sample, shape (n_samples,).
        has_ties: whether a sample has ties at all, shape (n_samples,).
        no_ties: the logarithm of the ties' parameter of samples without ties, which stays there.
        tie_start: the same of samples with ties, before the first step.
    """

    no_ties: float
    tie_start: float

    def __init__(self, wins: Floats, ties: Floats, is_mutual: NDArray[np.bool_]) -> None:
        self.wins = wins
        self.ties = ties
        self.is_mutual = is_mutual
        self.n = (wins + wins.transpose(0, 2, 1) + ties).sum(axis=(1, 2)) / 2
        self.has_ties = ties.any(axis=(1, 2))

    def gradient(self, strengths: Floats, tie: Floats) -> tuple[Floats, Floats]:
        """Return the log likelihood's gradient and its negative Hessian.

        Args:
            strengths: shape (n_samples, n_systems).
            tie: the logarithm of the ties' parameter, shape (n_samples,).

        Returns:
            Shapes (n_samples, n_systems + 1) and (n_samples, n_systems + 1, n_systems + 1); the ties' parameter
            is the last row and column.
        """
        raise NotImplementedError

    def maximise(self, start: Strengths | None) -> tuple[Floats, Floats]:
        """Return the strengths and the ties' parameter (ν or θ itself) where the likelihood is greatest.

        Args:
            start: the fit of one similar sample, to begin with.

        Returns:
            Shapes (n_samples, n_systems) and (n_samples,); NaN where there is no maximum.
        """
        n_samples, n_systems, _ = self.wins.shape
        strengths = np.zeros((n_samples, n_systems))
        tie = np.where(self.has_ties, self.tie_start, self.no_ties)
        if start is not None and np.isfinite(start.values[:, 0]).all():
            group_sizes = self.is_mutual.sum(axis=2)
            strengths += start.values[:, 0]
            strengths -= (self.is_mutual @ strengths[:, :, None])[:, :, 0] / group_sizes
            # 0 is Davidson's ν, and 1 Rao and Kupper's θ, of a sample without ties.
            start_tie = float(start.tie[0])
            if start_tie not in (0.0, 1.0):
                tie = np.where(self.has_ties, np.log(start_tie), self.no_ties)

        for _ in range(MAX_STEPS):
            gradient, curvature = self._newton(strengths, tie)
            # A finished sample stays, since one without a maximum would go on until its curvature is 0.
            is_moving = np.abs(gradient).max(axis=1) > TOLERANCE * self.n
            if not is_moving.any():
                break

            step = np.zeros_like(gradient)
            step[is_moving] = np.linalg.solve(
                curvature[is_moving], gradient[is_moving][:, :, None]
            )[:, :, 0]
            step *= (MAX_STEP / np.maximum(np.abs(step).max(axis=1), MAX_STEP))[:, None]
            strengths = strengths + step[:, :-1]
            tie = self.move_tie(tie, step[:, -1])

        gradient, curvature = self._newton(strengths, tie)
        is_maximum = np.abs(gradient).max(axis=1) <= TOLERANCE * self.n
        is_maximum &= np.linalg.eigvalsh(curvature)[:, 0] > MIN_INFORMATION
        strengths[~is_maximum] = np.nan
        return strengths, np.where(is_maximum, np.exp(tie), np.nan)

    def _newton(self, strengths: Floats, tie: Floats) -> tuple[Floats, Floats]:
        """Return `gradient` without its free directions: groups' mean strengths, and ties of samples that have none."""
        gradient, curvature = self.gradient(strengths, tie)
        curvature[:, :-1, :-1] += self.is_mutual
        gradient[~self.has_ties, -1] = 0.0
        curvature[~self.has_ties, -1, :] = curvature[~self.has_ties, :, -1] = 0.0
        curvature[~self.has_ties, -1, -1] = 1.0
        return gradient, curvature

    def move_tie(self, tie: Floats, step: Floats) -> Floats:
        """Return the logarithm of the ties' parameter after a step."""
        return tie + step


class _Davidson(_Model):
    no_ties = -np.inf
    tie_start = -1.0

    def gradient(self, strengths: Floats, tie: Floats) -> tuple[Floats, Floats]:
        half = (strengths[:, :, None] - strengths[:, None, :]) / 2
        nu = np.exp(tie)[:, None, None]
        total = np.exp(half) + np.exp(-half) + nu
        met = self.wins + self.wins.transpose(0, 2, 1) + self.ties
        win = np.exp(half) / total
        draw = nu / total

        # A win is worth 1/2 for the winner and -1/2 for the loser, a tie 0.
        expected = (win - win.transpose(0, 2, 1)) / 2
        variance = (1 - draw) / 4 - expected**2
        observed = (self.wins - self.wins.transpose(0, 2, 1)).sum(axis=2) / 2
        of_strengths = observed - (met * expected).sum(axis=2)
        of_tie = (self.ties - met * draw).sum(axis=(1, 2)) / 2
        gradient = np.concatenate([of_strengths, of_tie[:, None]], axis=1)

        cross = -(met * expected * draw).sum(axis=2)
        corner = (met * draw * (1 - draw)).sum(axis=(1, 2)) / 2
        return gradient, _curvature(met * variance, cross, corner)


class _RaoKupper(_Model):
    no_ties = 0.0
    tie_start = 0.5

    def gradient(self, strengths: Floats, tie: Floats) -> tuple[Floats, Floats]:
        # A tie is likely in proportion to a win of either; θ² - 1 is the rest.
        difference = strengths[:, :, None] - strengths[:, None, :]
        points = self.wins + self.ties
        miss = 1 / (1 + np.exp(difference - tie[:, None, None]))
        lost = points * miss
        spread = points * miss * (1 - miss)

        n_ties = self.ties.sum(axis=(1, 2)) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            growth = 1 / -np.expm1(-2 * tie)
        growth = np.where(self.has_ties, growth, 1.0)
        of_strengths = (lost - lost.transpose(0, 2, 1)).sum(axis=2)
        of_tie = 2 * n_ties * growth - lost.sum(axis=(1, 2))
        gradient = np.concatenate([of_strengths, of_tie[:, None]], axis=1)

        cross = -(spread - spread.transpose(0, 2, 1)).sum(axis=2)
        corner = spread.sum(axis=(1, 2)) + 4 * n_ties * growth * (growth - 1)
        return gradient, _curvature(spread + spread.transpose(0, 2, 1), cross, corner)

    def move_tie(self, tie: Floats, step: Floats) -> Floats:
        # θ stays above 1.
        return np.where(self.has_ties, np.maximum(tie + step, tie / 2), self.no_ties)


def _curvature(between: Floats, cross: Floats, corner: Floats) -> Floats:
    """Join the negative Hessian of strengths, of strengths with the ties' parameter, and of that."""
    n_samples, n_systems, _ = between.shape
    matrix = np.empty((n_samples, n_systems + 1, n_systems + 1))
    matrix[:, :-1, :-1] = -between

    # A system does not meet itself, whatever `between` has there.
    index = np.arange(n_systems)
    off_diagonal = between.sum(axis=2) - between[:, index, index]
    matrix[:, index, index] = off_diagonal

    matrix[:, :-1, -1] = cross
    matrix[:, -1, :-1] = cross
    matrix[:, -1, -1] = corner
    return matrix


def elo_ratings(first: Ints, second: Ints, outcomes: Floats, orders: Ints) -> Floats:
    """Compute Elo ratings after all games, in several orders of the games.

    Args:
        first, second: the numbers of both systems of each game, shape (n_games,).
        outcomes: 1 where the first wins, 0 where the second does, 1/2 for a tie, shape (n_games,).
        orders: indices of games, shape (n_orders, n_games).

    Returns:
        Shape (n_systems, n_orders).
    """
    n_systems = int(max(first.max(initial=-1), second.max(initial=-1))) + 1
    ratings = np.full((n_systems, len(orders)), ELO_START)
    column = np.arange(len(orders))
    # Game by game, as each rests on the ratings before it, in all orders at once.
    for games in orders.T:
        i = first[games]
        j = second[games]
        expected = 1 / (1 + 10 ** ((ratings[j, column] - ratings[i, column]) / 400))
        change = ELO_K * (outcomes[games] - expected)
        ratings[i, column] += change
        ratings[j, column] -= change

    return ratings


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
    # Whatever is undefined of a system that is not drawn does not matter.
    x = np.where(weights > 0, x, 0.0)
    y = np.where(weights > 0, y, 0.0)

    i, j = np.triu_indices(len(x), 1)
    pairs = weights[i] * weights[j]
    with np.errstate(all="ignore"):
        sign_x = np.sign(x[i] - x[j])
        sign_y = np.sign(y[i] - y[j])
        tau = (pairs * sign_x * sign_y).sum(axis=0) / np.sqrt(
            (pairs * sign_x**2).sum(axis=0) * (pairs * sign_y**2).sum(axis=0)
        )
        alike = (pairs * (sign_x == sign_y)).sum(axis=0) / pairs.sum(axis=0)
        rho = _pearson(_mid_ranks(x, weights), _mid_ranks(y, weights), weights)

    is_undefined = ~np.isfinite(tau)  # NaN goes through every sum
    by_measure: dict[str, Floats] = {}
    for name, column in zip(ORDER_MEASURES, (rho, tau, alike), strict=True):
        by_measure[name] = np.where(is_undefined, np.nan, column)
    return by_measure


def _mid_ranks(values: Floats, weights: Floats) -> Floats:
    """Return each system's mean rank where each stands there as often as its weight says."""
    below = np.where(values[None] < values[:, None], weights[None], 0.0).sum(axis=1)
    equal = np.where(values[None] == values[:, None], weights[None], 0.0).sum(axis=1)
    return below + (equal + 1) / 2


def _pearson(x: Floats, y: Floats, weights: Floats) -> Floats:
    total = weights.sum(axis=0)
    x = x - (weights * x).sum(axis=0) / total
    y = y - (weights * y).sum(axis=0) / total
    spread = (weights * x**2).sum(axis=0) * (weights * y**2).sum(axis=0)
    return np.clip((weights * x * y).sum(axis=0) / np.sqrt(spread), -1, 1)
