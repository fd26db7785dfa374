"""Strengths of systems at equal length: a Bradley–Terry model with ties in which features of the captions have terms.

With strengths λ and the features x of a comparison's first caption less those of its second, η = λ_i - λ_j + β x; the first
wins with a probability in proportion to exp(η / 2), the second to exp(-η / 2), and a tie to ν (Davidson 1970). A caption
whose feature is greater by s, all else equal, wins 1 / (1 + exp(-β s)) of the decided comparisons. Covariances are
sandwiches whose residuals are summed by image, so that neither captions of an image nor raters need to be independent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, stdtr, stdtrit

from .weighted_pairs import Floats, Ints

#: Newton steps, the largest change in one, and the gradient per comparison at which a fit is finished.
MAX_STEPS = 60
MAX_STEP = 1.0
TOLERANCE = 1e-9
#: Strengths or terms beyond this have no bound.
MAX_VALUE = 15.0


@dataclass(frozen=True)
class ControlledStrengths:
    """A fit.

    Attributes:
        strengths: log strengths with mean 0, shape (n_systems,).
        terms: β by feature, in units of one feature, shape (n_features,).
        covariance: of strengths and then terms.
        freedom: images less one.
    """

    strengths: Floats
    terms: Floats
    covariance: Floats
    freedom: int

    def strength_intervals(self, level: float) -> Floats:
        """Return the ends of each strength's interval, shape (n_systems, 2)."""
        n_systems = len(self.strengths)
        errors = np.sqrt(np.diag(self.covariance)[:n_systems])
        reach = stdtrit(self.freedom, 0.5 + level / 2) * errors
        return np.stack([self.strengths - reach, self.strengths + reach], axis=1)

    def difference_p_value(self, a: int, b: int) -> float:
        """Return the two-sided p-value of two systems' equal strength."""
        direction = np.zeros(len(self.covariance))
        direction[a] = 1.0
        direction[b] = -1.0
        error = float(np.sqrt(direction @ self.covariance @ direction))
        return float(2 * stdtr(self.freedom, -abs(self.strengths[a] - self.strengths[b]) / error))

    def win_share(self, feature: int, step: float, level: float) -> tuple[float, float, float]:
        """Return how often a caption wins whose feature is greater by a step, all else equal, with its interval."""
        # The terms stand behind the strengths.
        parameter = len(self.strengths) + feature
        error = float(np.sqrt(self.covariance[parameter, parameter]))
        reach = float(stdtrit(self.freedom, 0.5 + level / 2)) * error
        term = float(self.terms[feature])

        def share_at(effect: float) -> float:
            return float(expit(effect * step))

        return share_at(term), share_at(term - reach), share_at(term + reach)


def fit_controlled(
    first: Ints,
    second: Ints,
    signs: Floats,
    features: Floats,
    image: Ints,
) -> ControlledStrengths | None:
    """Fit strengths and terms by maximum likelihood; None where they have no bound, or comparisons do not tell them apart.

    Args:
        first, second: the systems of each comparison, shape (n,).
        signs: 1 where the first wins, -1 where the second does, 0 for a tie, shape (n,).
        features: of the first caption less those of the second, shape (n, n_features).
        image: of each comparison, shape (n,).
    """
    n_systems = int(max(first.max(), second.max())) + 1
    rows = np.arange(len(signs))
    design = np.zeros((len(signs), n_systems))
    design[rows, first] = 1.0
    design[rows, second] -= 1.0
    # Features of one spread, for Newton's steps.
    spread = features.std(axis=0)
    if not spread.all():
        return None
    design = np.column_stack([design, features / spread])

    has_ties = bool((signs == 0).any())
    optimum = _find_optimum(design, signs, n_systems, has_ties=has_ties)
    if optimum is None:
        return None
    values, tie = optimum

    gradients, curvature = _derive(design, signs, values, tie, n_systems, has_ties=has_ties)
    # Flat in some direction: comparisons do not tell strengths and terms apart.
    if np.linalg.eigvalsh(curvature)[0] < 1e-6:
        return None

    # By image: sums of gradients.
    n_images = int(image.max()) + 1
    by_image = np.zeros((n_images, gradients.shape[1]))
    np.add.at(by_image, image, gradients)
    n_used = len(np.unique(image))
    inverse = np.linalg.inv(curvature)
    covariance = inverse @ (by_image.T @ by_image) @ inverse * n_used / max(1, n_used - 1)

    scale = np.concatenate([np.ones(n_systems), 1 / spread])
    return ControlledStrengths(
        strengths=values[:n_systems] - values[:n_systems].mean(),
        terms=values[n_systems:] / spread,
        covariance=covariance[:-1, :-1] * np.outer(scale, scale),
        freedom=n_used - 1,
    )


def _find_optimum(
    design: Floats, signs: Floats, n_systems: int, *, has_ties: bool
) -> tuple[Floats, float] | None:
    """Return the parameters of the greatest likelihood, and log ν, by Newton's method; None where they have no bound."""
    values = np.zeros(design.shape[1])
    tie = -1.0 if has_ties else -np.inf
    for _ in range(MAX_STEPS):
        gradients, curvature = _derive(design, signs, values, tie, n_systems, has_ties=has_ties)
        gradient = gradients.sum(axis=0)
        if np.abs(gradient).max() <= TOLERANCE * len(signs):
            return values, tie

        step = np.linalg.lstsq(curvature, gradient, rcond=None)[0]
        step = step * (MAX_STEP / max(MAX_STEP, float(np.abs(step).max())))
        values = values + step[:-1]
        tie = tie + step[-1] if has_ties else tie
        if np.abs(values).max() > MAX_VALUE:
            return None

    return None


def _derive(
    design: Floats, signs: Floats, values: Floats, tie: float, n_systems: int, *, has_ties: bool
) -> tuple[Floats, Floats]:
    """Return each comparison's gradient, shape (n, n_parameters), and the negative Hessian; log ν is the last parameter."""
    half = design @ values / 2
    nu = np.exp(tie)
    total = np.exp(half) + np.exp(-half) + nu
    expected = (np.exp(half) - np.exp(-half)) / total / 2
    draw = nu / total

    of_eta = signs / 2 - expected
    of_tie = (signs == 0) - draw
    gradients = np.column_stack([design * of_eta[:, None], of_tie * has_ties])

    variance = (1 - draw) / 4 - expected**2
    n_parameters = design.shape[1] + 1
    curvature = np.zeros((n_parameters, n_parameters))
    curvature[:-1, :-1] = design.T @ (design * variance[:, None])
    # The mean of strengths is free.
    curvature[:n_systems, :n_systems] += len(signs) / n_systems**2
    if has_ties:
        cross = -design.T @ (expected * draw)
        curvature[:-1, -1] = cross
        curvature[-1, :-1] = cross
        curvature[-1, -1] = float((draw * (1 - draw)).sum())
    else:
        curvature[-1, -1] = 1.0
    return gradients, curvature
