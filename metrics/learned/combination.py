"""A non-negative combination of metrics, trained on which of two captions of an image people prefer.

It is to be used on judgements of another kind than those that it was trained on. So nothing is learnt
of how strict raters are or which scale they use: only preferences within an image count, every
dataset counts the same, and how far the weights may leave equal ones is chosen by leaving out one
dataset after another. What was tried, and the figures: docs/transfer.md.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
import scipy

from ...datasets.cache import replacing
from ...datasets.errors import InputError
from ..base import Floats, Metric
from ..registry import metric as metric_of
from ..rows import Rows
from .captau_rater.similarities import SCENES
from .common.recipe import Examples, Ints, Model, Recipe, correlate_with_ratings, register_recipe

if TYPE_CHECKING:
    from .common.training import Session

_FILE = "combination.json"


@register_recipe("combination")
@dataclass(frozen=True)
class Combination(Recipe):
    """f(c) = Σ_k w_k m_k(c) with w ≥ 0; P(a preferred to b) = 1/(1 + exp(f(b) - f(a))).

    Each metric is divided by s_k, the root mean square of its differences over preferences. With
    u = s w the weights of metrics so scaled, what is minimised is the mean log loss over preferences,
    each dataset counting the same, plus λ Σ_k (u_k - ū)²: the greater λ, the more equal the weights.

    Args:
        metrics: their specs. None may depend on the other rows, as CIDEr's document frequencies do.
        roots: those of them whose square root is taken, so that one more matching word counts more where
            few match; they must not be negative.
        strengths: the λ to choose from.
    """

    metrics: tuple[str, ...]
    roots: tuple[str, ...] = ()
    strengths: tuple[float, ...] = (0.003, 0.01, 0.03, 0.1, 1.0)

    needs: ClassVar[frozenset[str]] = frozenset({"references"})

    @property
    def signature(self) -> str:
        return "|".join(m.signature for m in self.made())

    def made(self) -> list[Metric]:
        """The metrics.

        Raises:
            InputError: where they cannot be combined.
        """
        if not self.metrics or len(set(self.metrics)) < len(self.metrics):
            raise InputError("rater.metrics: one or more metrics are expected, each once")
        if unknown := [r for r in self.roots if r not in self.metrics]:
            raise InputError(f"rater.roots names {unknown[0]}, which is not among rater.metrics")
        if not self.strengths or not all(0 <= s < np.inf for s in self.strengths):
            raise InputError("rater.strengths: numbers from 0 on are expected")
        made = [metric_of(spec) for spec in self.metrics]
        for one in made:
            if one.depends_on_corpus or not one.depends_only_on_content:
                hint = {"bertscore": "; padding=ignore helps"}.get(one.name, "")
                raise InputError(
                    f"rater.metrics: the score of {one.spec} depends on the other rows{hint}"
                )
        return made

    def scores(self, rows: Rows) -> Floats:
        """What is combined, shape (len(rows), n_metrics).

        Raises:
            InputError: where a root is to be taken of a negative score.
        """
        table = np.stack([m.score(rows) for m in self.made()], axis=1)
        for spec in self.roots:
            column = table[:, self.metrics.index(spec)]
            if (column < 0).any():
                raise InputError(f"rater.roots: {spec} has negative scores, which have no root")
            np.sqrt(column, out=column)
        return table

    def fit(self, train: Examples, validation: Examples, session: Session) -> Model:
        """Train on the preferences, and on those that ratings of captions of one image imply.

        λ is the one whose weights, trained on all datasets but one, agree best with the one left out, on
        average; the validation rows are learnt from like the others then. With a single dataset it is
        the one that agrees best with the validation rows.

        Raises:
            InputError: where no caption is preferred to another of its image, a score is undefined, or
                SPICE's parser is neither here nor asked for.
        """
        self._check_parser()
        alone = train.rows.frame["dataset"].nunique() == 1
        parts = self._parts(train if alone else Examples.join([train, validation]))
        differences = [p.differences for p in parts]
        if alone:
            unseen = self._defined(validation.rows)
            found = [
                _agreement(unseen @ _weights(differences, s), validation) for s in self.strengths
            ]
        else:
            found = [_left_out(parts, s) for s in self.strengths]
        # Where no strength can be judged, the last.
        best = int(np.nanargmax(found)) if not np.isnan(found).all() else len(found) - 1
        session.history += [
            {
                "stage": f"strength {strength:g}",
                "epoch": 1,
                "steps": 1,
                "learning_rate": float("nan"),
                "loss": float("nan"),
                "validation": value,
                "best": i == best,
            }
            for i, (strength, value) in enumerate(zip(self.strengths, found, strict=True))
        ]
        chosen = self.strengths[best]
        return CombinationModel(self, _weights(differences, chosen), chosen)

    def _check_parser(self) -> None:
        """A default that few would guess to download so much does so only where it was asked to.

        Raises:
            InputError: where it would.
        """
        from ..neural.weights import may_download
        from ..text.spice import models as spice_models

        scenes = [m.spec for m in self.made() if m.name in SCENES]
        jars = spice_models.missing(spice_models.folder()) if scenes else []
        if jars and not may_download():
            raise InputError(
                f"rater.metrics: {scenes[0]} needs SPICE's parser, {sum(j.size for j in jars) / 1e6:.0f} MB "
                f"that are not on this machine; captau data fetch dataset={spice_models.NAME} gets them, "
                f"and so does weights.download=true here; or leave {scenes[0]} out of rater.metrics and rater.roots"
            )

    def _parts(self, examples: Examples) -> list[_Part]:
        names = examples.rows.frame["dataset"].astype(str).to_numpy()
        table = self._defined(examples.rows)
        parts: list[_Part] = []
        for name in np.unique(names).tolist():
            index = np.flatnonzero(names == name)
            part = examples.take(index)
            pairs = preferences(part)
            if not len(pairs):
                raise InputError(
                    f"dataset {name}: no caption is rated higher than another of its image; there is "
                    f"nothing to learn"
                )
            scores = table[index]
            parts.append(_Part(part, scores, scores[pairs[:, 0]] - scores[pairs[:, 1]]))
        return parts

    def _defined(self, rows: Rows) -> Floats:
        table = self.scores(rows)
        if np.isnan(table).any():
            row, column = np.argwhere(np.isnan(table))[0]
            raise InputError(
                f"{rows.label(int(row))}: {self.metrics[column]} is undefined; leave the metric out"
            )
        return table

    def load(self, folder: Path) -> Model:
        path = folder / _FILE
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
                f"{path}: damaged, or of other metrics ({error}); train the rater anew"
            ) from error


@dataclass(frozen=True)
class _Part:
    """One dataset: its scores, shape (n, n_metrics), and those of winners less those of losers."""

    examples: Examples
    scores: Floats
    differences: Floats


class CombinationModel(Model):
    """Metrics and their weights, shape (n_metrics,)."""

    def __init__(self, made: Combination, weights: Floats, strength: float) -> None:
        self.recipe = made
        self.weights = weights
        self.strength = strength

    def predict(self, rows: Rows) -> Floats:
        """NaN where a metric is undefined."""
        return self.recipe.scores(rows) @ self.weights

    def save(self, folder: Path) -> None:
        weights = dict(zip(self.recipe.metrics, self.weights.tolist(), strict=True))
        table = {"strength": self.strength, "weights": weights}
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(folder / _FILE) as stream:
            stream.write(json.dumps(table, indent=1, ensure_ascii=False).encode())


def preferences(examples: Examples) -> Ints:
    """The given ones, and of all captions of an image the one with the greater mean rating.

    Args:
        examples: of one dataset.

    Returns:
        winner and loser, shape (n_pairs, 2).
    """
    values = examples.mean_ratings
    found = [examples.preferences.reshape(-1, 2)]
    for index in pd.Series(np.arange(len(examples))).groupby(examples.image_ids).indices.values():
        # An undefined rating is not greater than any.
        first, second = np.nonzero(values[index][:, None] > values[index][None, :])
        found.append(np.stack([index[first], index[second]], axis=1))
    return np.concatenate(found).astype(np.intp)


def _left_out(parts: list[_Part], strength: float) -> float:
    """The mean agreement with each dataset of weights trained on the others."""
    values: list[float] = []
    for part in parts:
        weights = _weights([other.differences for other in parts if other is not part], strength)
        values.append(_agreement(part.scores @ weights, part.examples))
    return float(np.mean(values))


def _agreement(predicted: Floats, examples: Examples) -> float:
    """Pooled τ_c with the ratings, or where there are none the share of preferences met, ties half."""
    if any(len(r) for r in examples.ratings):
        index = np.flatnonzero([len(r) > 0 for r in examples.ratings])
        return correlate_with_ratings(predicted[index], examples.take(index), "tau_c")
    won = predicted[examples.preferences[:, 0]] - predicted[examples.preferences[:, 1]]
    return float((won > 0).mean() + (won == 0).mean() / 2) if len(won) else float("nan")


def _weights(differences: list[Floats], strength: float) -> Floats:
    """The weights of metrics, shape (n_metrics,), from each dataset's winners less losers.

    Raises:
        InputError: where no metric tells winners from losers.
    """
    scales = np.mean([np.sqrt((d**2).mean(axis=0)) for d in differences], axis=0)
    used = scales > 0
    if not used.any():
        raise InputError("no metric differs between the preferred captions and the others")
    x = np.concatenate([d[:, used] / scales[used] for d in differences])
    shares = np.concatenate([np.full(len(d), 1 / len(d) / len(differences)) for d in differences])

    def objective(u: Floats) -> tuple[float, Floats]:
        margins = x @ u
        apart = u - u.mean()
        loss = shares @ np.logaddexp(0, -margins) + strength * apart @ apart
        slope = -x.T @ (shares / (1 + np.exp(np.minimum(margins, 500.0)))) + 2 * strength * apart
        return float(loss), slope

    n = int(used.sum())
    # Where all preferences can be met, the loss has no minimum: the weights stop at this bound.
    found = scipy.optimize.minimize(
        objective,
        np.ones(n),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, 1000.0)] * n,
        options={"ftol": 1e-12, "gtol": 1e-8, "maxiter": 1000},
    )
    weights = np.zeros(len(scales))
    weights[used] = found.x / scales[used]
    return weights
