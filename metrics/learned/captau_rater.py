"""captau's own rater: a weighted mean of similarities, made to be used on captions of other kinds.

A caption is compared with its references twice: by a frozen sentence encoder's embeddings as they are, and
along the axes of `SameImage`, on which mere wording counts less. Each time there are three similarities
(`MEASURES`), the first of which is the plain cosine. Their weights are not negative and add up to 1; they are
learned from which of two captions of an image people prefer, in all datasets alike
(`combination.learn_weights`). So a score cannot fall far below the cosine's, and nothing of a dataset's
scale, strictness or vocabulary enters it.

No caption scores more than the best of its references does, and a copy of any reference scores as much as
that: so a copy is never beaten. docs/captau_rater.md has the figures. `captau train rater=captau` makes it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import linalg

from ...datasets.caption_texts import comparison_form
from ...datasets.errors import InputError
from ..base import Floats, Metric
from ..neural.models import resolve
from ..neural.store import Array
from ..progress import progress_counter
from ..registry import metric as make_metric
from ..rows import Rows
from .combination import ScoredExamples, learn_weights
from .common.encoder_recipe import EncoderRecipe, TextStates, normalise, weigh_tokens
from .common.recipe import (
    Examples,
    RaterModel,
    arrays_to_tensors,
    make_arrays,
    register_recipe,
    save_tensors,
)
from .common.training import TrainingSession
from .rater import Calibration

#: The share of a spherical covariance in that of wording, which few captions determine poorly.
SPHERICAL_SHARE = 0.7
#: The least variance between images, as a share of the wording's.
MIN_VARIANCE = 1e-6

Halves = NDArray[np.float16]


@dataclass(frozen=True)
class SameImage:
    """Axes on which references of one image agree and those of different images differ.

    Each axis is stretched by √(v / (1 + v)), v being the variance between images where wording has variance
    1, so that a cosine along them counts what is seen more than how it is said.

    Attributes:
        sentence_mean, token_mean: of the references' embeddings and of their tokens, shape (width,).
        axes: as columns, shape (width, width). All are float16, as the file has them.
    """

    sentence_mean: Halves
    token_mean: Halves
    axes: Halves

    @classmethod
    def learn(cls, texts: TextStates, images: Sequence[Sequence[int]]) -> SameImage:
        """Learn from the references of each image, given by their numbers among the texts."""
        numbers = sorted({number for image in images for number in image})
        tokens = np.concatenate([normalise(states[:, -1]) for states in texts.states(numbers)])
        sentences = texts.sentences[:, -1].astype(np.float64)
        mean, axes, variances = analyse_discriminants(
            [sentences[list(image)] for image in images], SPHERICAL_SHARE
        )
        axes = axes * np.sqrt(variances / (1 + variances))
        axes /= np.abs(axes).max()  # float16 has no room above 65,504, and cosines have no scale
        arrays = (mean, tokens.mean(0, dtype=np.float64), axes)
        return cls(*(np.ascontiguousarray(array, dtype=np.float16) for array in arrays))

    def project(self, sentences: Floats, tokens: Floats) -> tuple[Floats, Floats]:
        """Return embeddings and tokens, shape (n, width) each, along the axes, of length 1 each."""
        axes = self.axes.astype(np.float32)
        pairs = ((sentences, self.sentence_mean), (tokens, self.token_mean))
        first, second = (
            normalise((vectors - mean.astype(np.float32)) @ axes) for vectors, mean in pairs
        )
        return first, second


def analyse_discriminants(
    images: Sequence[Floats], spherical_share: float
) -> tuple[Floats, Floats, Floats]:
    """Find the axes on which images differ more than captions of one image.

    Probabilistic linear discriminant analysis (Prince and Elder 2007; the two-covariance form).

    Args:
        images: the embeddings of each image's captions, shape (n_captions, width) each.
        spherical_share: of the covariance within images, that is spherical.

    Returns:
        The mean, shape (width,); axes as columns, along which captions of one image have variance 1 and
        no covariance, shape (width, width); and the variance between images along each, shape (width,).
    """
    vectors = np.concatenate(images)
    mean = vectors.mean(0)
    levels = np.stack([image.mean(0) for image in images])
    gaps = np.concatenate([image - level for image, level in zip(images, levels, strict=True)])
    within = gaps.T @ gaps / max(len(vectors) - len(images), 1)
    total = (vectors - mean).T @ (vectors - mean) / len(vectors)
    size = len(mean)
    # Without two captions of an image, or two that differ, any direction is as good as another.
    level = float(np.trace(within) or np.trace(total) or 1.0) / size
    between = (levels - mean).T @ (levels - mean) / len(images)
    between -= within * len(images) / len(vectors)  # levels differ by noise as well
    within = (1 - spherical_share) * within + spherical_share * level * np.eye(size)
    variances, axes = cast("tuple[Floats, Floats]", linalg.eigh(between, within))
    return mean, axes, np.maximum(variances, MIN_VARIANCE)


WEIGHTS_FILE = "captau.safetensors"
#: The cosine to the nearest reference, that to the references' centroid, and the recall of the references'
#: tokens (as BERTScore matches them), averaged over the references.
MEASURES = ("cosine", "centroid", "recall")
SIMILARITIES = (*MEASURES, *(f"same_image_{name}" for name in MEASURES))


@register_recipe("captau")
@dataclass(frozen=True)
class Captau(EncoderRecipe):
    """Σ w_k m_k with w ≥ 0 and Σ w_k = 1, stretched so that the lowest of the training captions scores 0.

    Args:
        model: the sentence encoder: a folder, or a name as `sentence_cosine` takes it.
        metrics: further metrics to be weighted with the similarities, such as `refclipscore` where there are
            images; each is divided by its upper bound, which it must have.
        strengths: the candidates for λ, which holds the weights together; see `learn_weights`.
    """

    metrics: tuple[str, ...] = ()
    strengths: tuple[float, ...] = (0.003, 0.01, 0.03, 0.1, 1.0)

    file_format: ClassVar[str] = "3"

    def __post_init__(self) -> None:
        self.check_range("strengths", low=0)

    @property
    def needs(self) -> frozenset[str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """References, and the needs of the further metrics."""
        return frozenset({"references"}).union(*(m.needs for m in self.make_metrics()))

    @property
    def signature(self) -> str:
        """The encoder's weights, the further metrics, and versions of libraries."""
        return self._sign(*(metric.signature for metric in self.make_metrics()))

    def make_metrics(self) -> list[Metric]:
        """Make the further metrics; raise `InputError` if one cannot be weighted."""
        metrics = [make_metric(spec) for spec in self.metrics]
        for metric in metrics:
            low, high = metric.bounds
            if low is None or high is None or metric.depends_on_corpus:
                raise InputError(
                    f"rater.metrics: {metric.spec} has no bounds, or depends on the other rows; "
                    f"name metrics such as refclipscore, or none"
                )
        return metrics

    def select_layers(self, n_layers: int) -> tuple[int, ...]:
        """Return the last layer alone."""
        return (n_layers,)

    def compute_inputs(self, rows: Rows, texts: TextStates, same_image: SameImage) -> Floats:
        """Compute the similarities and the further metrics, each at most 1, shape (n, n_inputs)."""
        columns = [compute_similarities(texts, same_image)]
        for metric in self.make_metrics():
            scores = metric.score(rows) / float(metric.bounds[1] or 1)
            if np.isnan(scores).any():
                label = rows.label(int(np.flatnonzero(np.isnan(scores))[0]))
                raise InputError(
                    f"{label}: {metric.spec} is undefined; leave it out of rater.metrics"
                )
            columns.append(scores[:, None])
        return np.hstack(columns)

    def fit(self, train: Examples, validation: Examples, session: TrainingSession) -> RaterModel:
        """Learn the axes from references, then the weights from preferences within images.

        Raises:
            InputError: if there are no references, or no caption is preferred to another of its image.
        """
        examples = Examples.join([train, validation])
        texts = self.encode_texts(examples.rows, session.device)
        image_ids = examples.rows.frame["image_id"].to_numpy(dtype=np.str_)
        first_rows = np.unique(image_ids, return_index=True)[1]
        same_image = SameImage.learn(texts, [texts.references[row] for row in first_rows])
        inputs = self.compute_inputs(examples.rows, texts, same_image)
        weights, strength = learn_weights(
            ScoredExamples(train, inputs[: len(train)]),
            ScoredExamples(validation, inputs[len(train) :]),
            self.strengths,
            session,
        )
        weights /= weights.sum()
        origin = float((inputs @ weights).min())
        model = CaptauModel(self, same_image, weights, min(origin, 0.99), strength, session.device)
        scores = model.predict(examples.rows)
        model.calibration = Calibration.fit(examples, scores)
        return model

    def load(self, folder: Path) -> RaterModel:
        path = folder / WEIGHTS_FILE
        tensors, card = self.load_file(path, "inputs", "weights", "origin", "strength")
        if json.loads(card["inputs"]) != self.input_names:
            raise InputError(
                f"{path}: these are the weights of other inputs; train the rater again"
            )
        same_image = make_arrays(SameImage, path, tensors)
        weights = np.array(json.loads(card["weights"]))
        origin, strength = float(card["origin"]), float(card["strength"])
        calibration = Calibration.read(folder)
        return CaptauModel(
            self, same_image, weights, origin, strength, resolve("auto"), calibration
        )

    @property
    def input_names(self) -> list[str]:
        """The names of what is weighted."""
        return [*SIMILARITIES, *self.metrics]


class CaptauModel(RaterModel):
    """The axes and the weights.

    Args:
        weights: of the inputs, not negative, with the sum 1, shape (n_inputs,).
        origin: the weighted mean that scores 0, below 1.
        strength: the λ that the weights were learned with.
        calibration: of the scores, once they are calibrated.
    """

    def __init__(
        self,
        recipe: Captau,
        same_image: SameImage,
        weights: Floats,
        origin: float,
        strength: float,
        device: str,
        calibration: Calibration | None = None,
    ) -> None:
        self.recipe = recipe
        self.same_image = same_image
        self.weights = weights
        self.origin = origin
        self.strength = strength
        self.device = device
        self.calibration = calibration

    def predict(self, rows: Rows) -> Floats:
        """Return scores from 0 to 1, shape (n,).

        Each reference of a row is scored as if it were its candidate. The greatest of these scores is the
        score of every copy of a reference, and the limit of every other candidate's.
        """
        if not len(rows):
            return np.empty(0)
        frame = rows.frame.copy(deep=False)
        frame["references"] = rows.references
        # Candidates of an image share its references, which are scored once.
        places: dict[tuple[Any, ...], int] = {}
        image = frame["image"] if "image" in frame.columns else [None] * len(frame)
        keys = [
            (str(path), *sorted(references))
            for path, references in zip(image, rows.references, strict=True)
        ]
        group = np.array([places.setdefault(key, len(places)) for key in keys])
        first_rows = np.unique(group, return_index=True)[1]
        of_references = frame.iloc[first_rows].reset_index(drop=True)
        of_references["caption"] = [sorted(set(rows.references[i])) for i in first_rows]
        of_references["group"] = of_references.index
        of_references = of_references.explode("caption", ignore_index=True)
        joined = Rows(
            pd.concat([frame, of_references], ignore_index=True), allows_gaps=rows.allows_gaps
        )
        texts = self.recipe.encode_texts(joined, self.device)
        means = self.recipe.compute_inputs(joined, texts, self.same_image) @ self.weights
        means, reference_means = means[: len(rows)], means[len(rows) :]
        best = np.full(len(first_rows), -np.inf)
        np.maximum.at(best, of_references["group"].to_numpy(), reference_means)
        limits = best[group]
        is_copy = np.array(
            [
                comparison_form(caption) in set(map(comparison_form, references))
                for caption, references in zip(rows.captions, rows.references, strict=True)
            ]
        )
        means = np.where(is_copy, limits, np.minimum(means, limits))
        return np.clip((means - self.origin) / (1 - self.origin), 0.0, 1.0)

    def save(self, folder: Path) -> None:
        card = self.recipe.file_card | {
            "inputs": json.dumps(self.recipe.input_names),
            "weights": json.dumps(self.weights.tolist()),
            "origin": repr(self.origin),
            "strength": repr(self.strength),
        }
        save_tensors(folder / WEIGHTS_FILE, arrays_to_tensors(self.same_image), card)
        if self.calibration is not None:
            self.calibration.write(folder)


def compute_similarities(texts: TextStates, same_image: SameImage) -> Floats:
    """Compare each row's candidate with its references; columns `SIMILARITIES`, shape (n_rows, 6)."""
    similarities = np.empty((len(texts.candidates), len(SIMILARITIES)))
    # Rows with the same references stand together, so that these are read once.
    order = sorted(range(len(similarities)), key=texts.references.__getitem__)
    with progress_counter("similarities, rows", len(order)) as advance:
        for own_references, rows in groupby(order, key=texts.references.__getitem__):
            references = _project_texts(texts, own_references, same_image)
            for row in rows:
                candidates = _project_texts(texts, [texts.candidates[row]], same_image)
                pairs = zip(candidates, references, strict=True)
                similarities[row] = [value for pair in pairs for value in _compare(*pair)]
                advance(1)
    return similarities


@dataclass(frozen=True)
class _Texts:
    """Texts' embeddings, shape (n, width), and their tokens one after the other, all of length 1.

    Attributes:
        starts: the index of each text's first token, shape (n,).
        weights: of the tokens.
    """

    sentences: Array
    tokens: Array
    starts: Array
    weights: Floats


def _project_texts(
    texts: TextStates, numbers: Sequence[int], same_image: SameImage
) -> list[_Texts]:
    """Return some texts as the encoder has them, and along the axes of `same_image`."""
    states = [state[:, -1] for state in texts.states(numbers)]
    lengths = [len(state) for state in states]
    starts = np.cumsum([0, *lengths[:-1]])
    weights = np.concatenate([weigh_tokens(length) for length in lengths])
    sentences = normalise(np.stack([state.mean(0) for state in states]))
    tokens = normalise(np.concatenate(states))
    projected = same_image.project(sentences, tokens)
    return [_Texts(*pair, starts, weights) for pair in ((sentences, tokens), projected)]


def _compare(candidate: _Texts, references: _Texts) -> tuple[float, float, float]:
    """Return the `MEASURES` of a candidate, at most 1 each."""
    cosines = references.sentences @ candidate.sentences[0]
    centroid = normalise(references.sentences.mean(0)) @ candidate.sentences[0]
    best = (references.tokens @ candidate.tokens.T).max(1) * references.weights
    recalls = np.add.reduceat(best, references.starts) / np.add.reduceat(
        references.weights, references.starts
    )
    measures = (float(cosines.max()), float(centroid), float(recalls.mean()))
    return tuple(min(value, 1.0) for value in measures)  # pyright: ignore[reportReturnType]
