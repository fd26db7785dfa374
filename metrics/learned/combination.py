"""A non-negative combination of metrics, trained on which of two captions of an image people prefer.

`captau train rater=combination` makes it, of any metrics; docs/transfer.md compares one with captau's own
rater (`captau_rater/`), whose weights are learned alike.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ...datasets.cache import replacing
from ...datasets.errors import InputError
from ..base import Floats, Metric
from ..registry import metric as make_metric
from ..rows import Rows
from .common.preference_weights import ScoredExamples, learn_weights
from .common.recipe import Examples, RaterModel, Recipe, register_recipe
from .common.training import TrainingSession

WEIGHTS_FILE = "combination.json"


@register_recipe("combination")
@dataclass(frozen=True)
class Combination(Recipe):
    """f(c) = Σ_k w_k m_k(c) with w ≥ 0, by the loss of `common/preference_weights.py`.

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
