"""captau's own rater: a formula of similarities and of what fools them, for captions of kinds that nobody has rated.

    cosine to the references' centroid + ½ the same along the axes of `SameImage` + recall of the references' tokens
    - ½ nearness to other images - ¼ agreement of the references - repeated words - excess of words

Nothing in it is learned from ratings. The axes, on which mere wording counts less, and the other images are those of
the references that it was made with; the weights are round numbers, chosen once (docs/captau_rater.md). A caption that
is near many images says little of this one, and where references agree, any caption of the image is near them. The last
two terms answer captions that say everything: all references in a row, or a list of their words.
`captau train rater=captau` makes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from ...datasets.errors import InputError
from ..base import Floats
from ..neural.models import resolve
from ..neural.store import Array
from ..progress import progress_counter
from ..rows import Rows
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
#: The most images that are kept, 768 bytes each, and how many of them, the nearest, count.
MAX_IMAGES, N_NEAREST = 10_000, 10
#: Two sets of references whose centroids are as near as this are one image's.
_SAME_COSINE = 0.999

#: The terms of the formula with their weights.
TERMS = {
    "centroid": 1.0,
    "same_image_centroid": 0.5,
    "recall": 1.0,
    "other_images": -0.5,
    "agreement": -0.25,
    "repetition": -1.0,
    "excess": -1.5,
}
#: What is added to the sum, and by what it is then divided, so that scores lie in 0 to 1.
ORIGIN, RANGE = 0.5, 2.75
#: Words from so many letters on are counted as repeated; so large a share of them may be.
REPEATED_LETTERS, FREE_REPETITION = 4, 0.1
#: How many times as long as the longest reference a caption may be.
FREE_LENGTH = 1.75
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")

Halves = NDArray[np.float16]


@dataclass(frozen=True)
class SameImage:
    """Axes on which references of one image agree and those of different images differ.

    Each axis is stretched by √(v / (1 + v)), v being the variance between images where wording has variance
    1, so that a cosine along them counts what is seen more than how it is said.

    Attributes:
        mean: of the references' embeddings, shape (width,).
        axes: as columns, shape (width, width).
        images: the references' centroids along the axes, of length 1, shape (n_images, width).
        agreement: of the references of an image, on average, shape (1,). All are float16, as the file has them.
    """

    mean: Halves
    axes: Halves
    images: Halves
    agreement: Halves

    @classmethod
    def learn(cls, texts: TextStates, images: Sequence[Sequence[int]]) -> SameImage:
        """Learn from the references of each image, given by their numbers among the texts."""
        sentences = texts.sentences[:, -1].astype(np.float64)
        by_image = [sentences[list(image)] for image in images]
        mean, axes, variances = analyse_discriminants(by_image, SPHERICAL_SHARE)
        axes = axes * np.sqrt(variances / (1 + variances))
        axes /= np.abs(axes).max()  # float16 has no room above 65,504, and cosines have no scale
        agreements = [measure_agreement(texts) for texts in by_image if len(texts) > 1]
        centroids = np.stack([references.mean(0) for references in by_image[:MAX_IMAGES]])
        arrays = (
            mean,
            axes,
            normalise((centroids - mean) @ axes),
            np.array([np.mean(agreements or [0.0])]),
        )
        return cls(*(np.ascontiguousarray(array, dtype=np.float16) for array in arrays))

    def project(self, sentences: Array) -> Array:
        """Return embeddings, shape (n, width), along the axes, of length 1 each."""
        return normalise((sentences - self.mean.astype(np.float32)) @ self.axes.astype(np.float32))

    def nearness(self, projected: Array, centroids: Array) -> Array:
        """Return the mean cosine of captions to the nearest other images, shape (n,).

        Args:
            projected: the captions along the axes, shape (n, width).
            centroids: their references' centroids along the axes, by which an image knows itself, shape (n, width).
        """
        images = self.images.astype(np.float32).T
        cosines = projected @ images
        cosines[centroids @ images > _SAME_COSINE] = -1.0
        n_nearest = min(N_NEAREST, cosines.shape[1])
        return np.sort(np.partition(cosines, -n_nearest)[:, -n_nearest:]).mean(1)


def measure_agreement(references: Floats | Array) -> float:
    """Return the mean cosine of references, shape (n, width), to the centroid of the others; NaN for one alone."""
    if len(references) < 2:
        return float("nan")
    others = normalise(references.sum(0) - references)
    return float((others * references).sum(1).mean())


def measure_repetition(caption: str) -> float:
    """Return which share of a caption's longer words were said before, beyond what is usual."""
    words = [w for w in _WORD.findall(caption.lower()) if len(w) >= REPEATED_LETTERS]
    return max(0.0, 1 - len(set(words)) / len(words) - FREE_REPETITION) if words else 0.0


def measure_excess(caption: str, references: Sequence[str]) -> float:
    """Return the logarithm of how many times too long a caption is; 0 where it is not."""
    longest = max(len(_WORD.findall(text)) for text in references)
    n_words = len(_WORD.findall(caption))
    return float(np.log(max(n_words / (FREE_LENGTH * max(longest, 1)), 1.0)))


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


@register_recipe("captau")
@dataclass(frozen=True)
class Captau(EncoderRecipe):
    """Σ w_k t_k over the `TERMS`, shifted and scaled into 0 to 1.

    Args:
        model: the sentence encoder: a folder, or a name as `sentence_cosine` takes it.
    """

    file_format: ClassVar[str] = "4"
    needs: ClassVar[frozenset[str]] = frozenset({"references"})

    @property
    def signature(self) -> str:
        """The encoder's weights, and versions of libraries."""
        return self._sign()

    def select_layers(self, n_layers: int) -> tuple[int, ...]:
        """Return the last layer alone."""
        return (n_layers,)

    def fit(self, train: Examples, validation: Examples, session: TrainingSession) -> RaterModel:
        """Learn the axes and the other images from references; ratings serve the calibration alone."""
        examples = Examples.join([train, validation])
        texts = self.encode_texts(examples.rows, session.device)
        image_ids = examples.rows.frame["image_id"].to_numpy(dtype=np.str_)
        first_rows = np.unique(image_ids, return_index=True)[1]
        same_image = SameImage.learn(texts, [texts.references[row] for row in first_rows])
        model = CaptauModel(self, same_image, session.device)
        model.calibration = Calibration.fit(examples, model.predict(examples.rows))
        return model

    def load(self, folder: Path) -> RaterModel:
        path = folder / WEIGHTS_FILE
        tensors, card = self.load_file(path, "terms")
        if json.loads(card["terms"]) != TERMS:
            raise InputError(f"{path}: a rater with other weights; train it again")
        same_image = make_arrays(SameImage, path, tensors)
        return CaptauModel(self, same_image, resolve("auto"), Calibration.read(folder))


class CaptauModel(RaterModel):
    """The axes and the other images; `calibration` is of the scores, once they are calibrated."""

    def __init__(
        self,
        recipe: Captau,
        same_image: SameImage,
        device: str,
        calibration: Calibration | None = None,
    ) -> None:
        self.recipe = recipe
        self.same_image = same_image
        self.device = device
        self.calibration = calibration

    def predict(self, rows: Rows) -> Floats:
        """Return scores from 0 to 1, shape (n,); an empty caption has 0."""
        if not len(rows):
            return np.empty(0)
        texts = self.recipe.encode_texts(rows, self.device)
        terms = compute_terms(texts, rows, self.same_image)
        scores = np.clip((terms @ np.array([*TERMS.values()]) + ORIGIN) / RANGE, 0.0, 1.0)
        return np.where([bool(caption.strip()) for caption in rows.captions], scores, 0.0)

    def save(self, folder: Path) -> None:
        card = self.recipe.file_card | {"terms": json.dumps(TERMS)}
        save_tensors(folder / WEIGHTS_FILE, arrays_to_tensors(self.same_image), card)
        if self.calibration is not None:
            self.calibration.write(folder)


def compute_terms(texts: TextStates, rows: Rows, same_image: SameImage) -> Floats:
    """Compute the `TERMS` of each row, shape (n_rows, 7)."""
    terms = np.empty((len(rows), len(TERMS)))
    sentences = texts.sentences[:, -1]
    # Rows with the same references stand together, so that these are read once.
    order = sorted(range(len(rows)), key=texts.references.__getitem__)
    typical = float(same_image.agreement[0])
    with progress_counter("similarities, rows", len(order)) as advance:
        for own_references, group in groupby(order, key=texts.references.__getitem__):
            index = list(group)
            references = sentences[own_references]
            centroid = references.mean(0)
            agreement = measure_agreement(references)
            candidates = [texts.candidates[row] for row in index]
            along = same_image.project(np.vstack([sentences[candidates], centroid]))
            own = np.broadcast_to(along[-1], (len(index), along.shape[1]))
            terms[index, 0] = sentences[candidates] @ normalise(centroid)
            terms[index, 1] = along[:-1] @ along[-1]
            terms[index, 2] = compute_recalls(texts, candidates, own_references)
            terms[index, 3] = same_image.nearness(along[:-1], own)
            terms[index, 4] = typical if np.isnan(agreement) else agreement
            for row in index:
                caption = rows.captions[row]
                terms[row, 5] = measure_repetition(caption)
                terms[row, 6] = measure_excess(caption, rows.references[row])
            advance(len(index))
    return terms


def compute_recalls(
    texts: TextStates, candidates: Sequence[int], references: Sequence[int]
) -> list[float]:
    """Compute BERTScore's recall of the references' tokens, averaged over them, for each of some candidates."""
    states = [state[:, -1] for state in texts.states(references)]
    lengths = [len(state) for state in states]
    starts = np.cumsum([0, *lengths[:-1]])
    weights = np.concatenate([weigh_tokens(length) for length in lengths])
    weights /= np.repeat(np.add.reduceat(weights, starts), lengths) * len(references)
    tokens = normalise(np.concatenate(states))
    return [
        float((tokens @ normalise(state[:, -1]).T).max(1) @ weights)
        for state in texts.states(candidates)
    ]
