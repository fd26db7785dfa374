"""A non-negative combination of metrics, trained on which of two captions of an image people prefer.

Such weights are meant for judgements of another kind than those that they were learned from. So they follow neither how
strict raters are nor which scale they use: only preferences within an image count, every dataset counts the same, and how
far the weights may differ is chosen by leaving out one dataset after another (`learn_weights`).

`captau train rater=combination` makes it, of any metrics.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import scipy

from ...datasets.cache import replacing
from ...datasets.errors import InputError
from ..base import Floats, Metric
from ..registry import metric as make_metric
from ..rows import Rows
from .common.agreement import Correlate, correlate_with_ratings
from .common.examples import Examples, Ints
from .common.recipe import RaterModel, Recipe, register_recipe
from .common.training import TrainingSession

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
        agreements: list[float] = []
        for strength in strengths:
            weights = fit_weights([parts[0].differences], strength)
            predictions = validation.scores @ weights
            agreement = _agreement(predictions, validation.examples, session.correlate)
            agreements.append(agreement)
    else:
        # Where another dataset judges, the validation rows are free to be trained on.
        examples = Examples.join([train.examples, validation.examples])
        joined = ScoredExamples(examples, np.concatenate([train.scores, validation.scores]))
        parts = joined.split_by_dataset()
        agreements = [_cross_validate(parts, s, session.correlate) for s in strengths]

    is_defined = not np.isnan(agreements).all()
    best = int(np.nanargmax(agreements)) if is_defined else len(agreements) - 1
    for i, (strength, agreement) in enumerate(zip(strengths, agreements, strict=True)):
        session.history.append(
            {
                "stage": f"strength {strength:g}",
                "epoch": 1,
                "steps": 1,
                "learning_rate": float("nan"),
                "loss": float("nan"),
                "validation": agreement,
                "best": i == best,
            }
        )

    weights = fit_weights([part.differences for part in parts], strengths[best])
    return weights, strengths[best]


def derive_preferences(examples: Examples) -> Ints:
    """Return the examples' preferences, and those that mean ratings of captions of an image imply.

    Args:
        examples: of one dataset.

    Returns:
        rows of winner and loser, shape (n_pairs, 2).
    """
    ratings = examples.mean_ratings
    pairs = [examples.preferences.reshape(-1, 2)]
    rows_by_image = pd.Series(np.arange(len(examples))).groupby(examples.image_ids).indices
    for index in rows_by_image.values():
        # An undefined rating is not greater than any.
        winners, losers = np.nonzero(ratings[index][:, None] > ratings[index][None, :])
        pairs.append(np.stack([index[winners], index[losers]], axis=1))
    return np.concatenate(pairs).astype(np.intp)


def _cross_validate(
    parts: list[ScoredExamples], strength: float, correlate: Correlate | None
) -> float:
    """Return the mean agreement with each dataset of weights trained on the others."""
    agreements: list[float] = []
    for part in parts:
        differences = [other.differences for other in parts if other is not part]
        weights = fit_weights(differences, strength)
        agreements.append(_agreement(part.scores @ weights, part.examples, correlate))

    return float(np.mean(agreements))


def _agreement(predictions: Floats, examples: Examples, correlate: Correlate | None) -> float:
    """Return pooled τ_c with the ratings; without any, the share of preferences met, ties counting half."""
    index = np.flatnonzero(examples.has_rating)
    if len(index):
        rated = examples.take(index)
        return correlate_with_ratings(predictions[index], rated, "tau_c", correlate)

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
        gradient = -x.T @ (shares * scipy.special.expit(-margins))
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


WEIGHTS_FILE = "combination.json"


@register_recipe("combination")
@dataclass(frozen=True)
class Combination(Recipe):
    """f(c) = Σ_k w_k m_k(c) with w ≥ 0, by the loss of `learn_weights`.

    Args:
        metrics: their specs. None may depend on the other rows, as CIDEr's document frequencies do.
        roots: those metrics that enter by their square root, so that one more matching word counts more
            where few match; they must not be negative.
        strengths: the candidates for λ.
    """

    metrics: tuple[str, ...]
    roots: tuple[str, ...] = ()
    strengths: tuple[float, ...] = (0.003, 0.01, 0.03, 0.1, 1.0)

    needs: ClassVar[frozenset[str]] = frozenset({"references"})

    @property
    def signature(self) -> str:
        return "|".join(metric.signature for metric in self.make_metrics())

    def make_metrics(self) -> list[Metric]:
        """Make the metrics; raise `InputError` if they cannot be combined."""
        if not self.metrics or len(set(self.metrics)) < len(self.metrics):
            raise InputError("rater.metrics: one or more metrics are expected, each once")
        if unknown := [r for r in self.roots if r not in self.metrics]:
            raise InputError(f"rater.roots names {unknown[0]}, which is not among rater.metrics")
        if not self.strengths or not all(0 <= s < np.inf for s in self.strengths):
            raise InputError("rater.strengths: numbers from 0 on are expected")

        metrics = [make_metric(spec) for spec in self.metrics]
        for metric in metrics:
            if metric.depends_on_corpus or not metric.depends_only_on_content:
                hint = {"bertscore": "; padding=ignore helps"}.get(metric.name, "")
                raise InputError(
                    f"rater.metrics: the score of {metric.spec} depends on the other rows{hint}"
                )

        return metrics

    def compute_scores(self, rows: Rows) -> Floats:
        """Compute the metrics or their roots, shape (len(rows), n_metrics).

        Raises:
            InputError: if a metric that enters by its root is negative.
        """
        scores = np.stack([metric.score(rows) for metric in self.make_metrics()], axis=1)
        for spec in self.roots:
            column = scores[:, self.metrics.index(spec)]
            if (column < 0).any():
                raise InputError(f"rater.roots: {spec} has negative scores, which have no root")
            np.sqrt(column, out=column)

        return scores

    def fit(self, train: Examples, validation: Examples, session: TrainingSession) -> RaterModel:
        """Train on preferences within images; see `learn_weights`.

        Raises:
            InputError: if no caption is preferred to another of its image, a score is undefined, or a
                metric cannot be computed.
        """
        for metric in self.make_metrics():  # before anything is computed
            metric.check_rows(train.rows)
        weights, strength = learn_weights(
            ScoredExamples(train, self._compute_defined_scores(train.rows)),
            ScoredExamples(validation, self._compute_defined_scores(validation.rows)),
            self.strengths,
            session,
        )
        return CombinationModel(self, weights, strength)

    def _compute_defined_scores(self, rows: Rows) -> Floats:
        scores = self.compute_scores(rows)
        if np.isnan(scores).any():
            row, column = np.argwhere(np.isnan(scores))[0]
            raise InputError(
                f"{rows.label(int(row))}: {self.metrics[column]} is undefined; leave the metric out"
            )
        return scores

    def load(self, folder: Path) -> RaterModel:
        path = folder / WEIGHTS_FILE
        try:
            table: Any = json.loads(path.read_text(encoding="utf-8"))
            weights = np.array([float(table["weights"][m]) for m in self.metrics])
            if len(table["weights"]) != len(weights) or not (weights >= 0).all():
                raise ValueError("not the weights of these metrics")
            return CombinationModel(self, weights, float(table["strength"]))
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from error
        except (ValueError, LookupError, TypeError) as error:
            raise InputError(
                f"{path}: damaged, or of other metrics ({error}); train the rater again"
            ) from error


class CombinationModel(RaterModel):
    """Metrics and their weights, shape (n_metrics,)."""

    def __init__(self, recipe: Combination, weights: Floats, strength: float) -> None:
        self.recipe = recipe
        self.weights = weights
        self.strength = strength

    def predict(self, rows: Rows) -> Floats:
        """Return weighted sums, shape (n,); NaN where a metric is undefined."""
        return self.recipe.compute_scores(rows) @ self.weights

    def save(self, folder: Path) -> None:
        weights = dict(zip(self.recipe.metrics, self.weights.tolist(), strict=True))
        table = {"strength": self.strength, "weights": weights}
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(folder / WEIGHTS_FILE) as stream:
            stream.write(json.dumps(table, indent=1, ensure_ascii=False).encode())
