"""Weights of scores, learned from which of two captions of an image people prefer.

They are meant for judgements of another kind than those that they were learned from. So they follow neither
how strict raters are nor which scale they use: only preferences within an image count, every dataset counts
the same, and how far the weights may differ is chosen by leaving out one dataset after another. The raters
`captau` and `combination` call `learn_weights`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
import scipy

from ....datasets.errors import InputError
from ...base import Floats
from .recipe import Examples, Ints, correlate_with_ratings
from .training import TrainingSession

#: The greatest scaled weight: where all preferences can be met, the loss has no minimum.
_GREATEST_WEIGHT = 1000.0


@dataclass(frozen=True)
class ScoredExamples:
    """Examples and the scores to be weighted, shape (n, n_scores)."""

    examples: Examples
    scores: Floats

    @cached_property
    def differences(self) -> Floats:
        """Winners' scores less losers', shape (n_pairs, n_scores)."""
        pairs = derive_preferences(self.examples)
        return self.scores[pairs[:, 0]] - self.scores[pairs[:, 1]]

    def split_by_dataset(self) -> list[ScoredExamples]:
        """Split the examples by dataset.

        Raises:
            InputError: if no caption of a dataset is preferred to another of its image.
        """
        names = self.examples.rows.frame["dataset"].astype(str).to_numpy()
        parts: list[ScoredExamples] = []
        for name in np.unique(names).tolist():
            index = np.flatnonzero(names == name)
            parts.append(ScoredExamples(self.examples.take(index), self.scores[index]))
            if not len(parts[-1].differences):
                raise InputError(
                    f"dataset {name}: no caption is rated higher than another of its image; there is "
                    f"nothing to learn"
                )
        return parts


def learn_weights(
    train: ScoredExamples,
    validation: ScoredExamples,
    strengths: Sequence[float],
    session: TrainingSession,
) -> tuple[Floats, float]:
    """Learn weights w ≥ 0 of P(a preferred to b) = 1/(1 + exp(f(b) - f(a))) with f = Σ_k w_k m_k.

    Each score m_k is divided by s_k, the root mean square of its differences over preferences. With
    u = s w the weights of scores so scaled, the mean log loss over preferences is minimised, each
    dataset counting the same, plus λ Σ_k (u_k - ū)²: the greater λ, the more equal the weights.

    The chosen λ is the one whose weights, trained on all datasets but one, agree best with the one
    left out, on average; the validation rows are trained on as well then. With a single dataset, it
    is the one that agrees best with the validation rows.

    Args:
        strengths: the candidates for λ; the last is taken where none can be judged.

    Returns:
        The weights, shape (n_scores,), and λ.

    Raises:
        InputError: if no caption is preferred to another of its image.
    """
    if train.examples.rows.frame["dataset"].nunique() == 1:
        parts = train.split_by_dataset()
        agreements = [
            _agreement(
                validation.scores @ fit_weights([parts[0].differences], s), validation.examples
            )
            for s in strengths
        ]
    else:
        examples = Examples.join([train.examples, validation.examples])
        joined = ScoredExamples(examples, np.concatenate([train.scores, validation.scores]))
        parts = joined.split_by_dataset()
        agreements = [_cross_validate(parts, s) for s in strengths]
    is_defined = not np.isnan(agreements).all()
    best = int(np.nanargmax(agreements)) if is_defined else len(agreements) - 1
    session.history += [
        {
            "stage": f"strength {strength:g}",
            "epoch": 1,
            "steps": 1,
            "learning_rate": float("nan"),
            "loss": float("nan"),
            "validation": agreement,
            "best": i == best,
        }
        for i, (strength, agreement) in enumerate(zip(strengths, agreements, strict=True))
    ]
    return fit_weights([part.differences for part in parts], strengths[best]), strengths[best]


def derive_preferences(examples: Examples) -> Ints:
    """Return the examples' preferences, and those that mean ratings of captions of an image imply.

    Args:
        examples: of one dataset.

    Returns:
        rows of winner and loser, shape (n_pairs, 2).
    """
    ratings = examples.mean_ratings
    pairs = [examples.preferences.reshape(-1, 2)]
    for index in pd.Series(np.arange(len(examples))).groupby(examples.image_ids).indices.values():
        # An undefined rating is not greater than any.
        winners, losers = np.nonzero(ratings[index][:, None] > ratings[index][None, :])
        pairs.append(np.stack([index[winners], index[losers]], axis=1))
    return np.concatenate(pairs).astype(np.intp)


def _cross_validate(parts: list[ScoredExamples], strength: float) -> float:
    """Return the mean agreement with each dataset of weights trained on the others."""
    agreements: list[float] = []
    for part in parts:
        differences = [other.differences for other in parts if other is not part]
        weights = fit_weights(differences, strength)
        agreements.append(_agreement(part.scores @ weights, part.examples))
    return float(np.mean(agreements))


def _agreement(predictions: Floats, examples: Examples) -> float:
    """Return pooled τ_c with the ratings; without any, the share of preferences met, ties counting half."""
    index = np.flatnonzero(examples.has_rating)
    if len(index):
        return correlate_with_ratings(predictions[index], examples.take(index), "tau_c")
    margins = predictions[examples.preferences[:, 0]] - predictions[examples.preferences[:, 1]]
    if not len(margins):
        return float("nan")
    return float((margins > 0).mean() + (margins == 0).mean() / 2)


def fit_weights(differences: list[Floats], strength: float) -> Floats:
    """Fit the weights of metrics, shape (n_metrics,), to each dataset's winners less losers.

    Raises:
        InputError: if no metric tells winners from losers.
    """
    scales = np.mean([np.sqrt((d**2).mean(axis=0)) for d in differences], axis=0)
    is_used = scales > 0
    if not is_used.any():
        raise InputError("no metric differs between the preferred captions and the others")
    x = np.concatenate([d[:, is_used] / scales[is_used] for d in differences])
    shares = np.concatenate([np.full(len(d), 1 / len(d) / len(differences)) for d in differences])

    def objective(u: Floats) -> tuple[float, Floats]:
        margins = x @ u
        deviations = u - u.mean()
        loss = shares @ np.logaddexp(0, -margins) + strength * deviations @ deviations
        gradient = -x.T @ (shares / (1 + np.exp(np.minimum(margins, 500.0))))
        return float(loss), gradient + 2 * strength * deviations

    n = int(is_used.sum())
    minimum = scipy.optimize.minimize(
        objective,
        np.ones(n),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, _GREATEST_WEIGHT)] * n,
        options={"ftol": 1e-12, "gtol": 1e-8, "maxiter": 1000},
    )
    weights = np.zeros(len(scales))
    weights[is_used] = minimum.x / scales[is_used]
    return weights
