"""The formula of captau's own rater: similarities and what fools them, for captions of kinds that nobody has rated.

    cosine to the references' centroid + ½ the same along the axes of `SameImage` + recall of the references' tokens
    - ½ nearness to other images - ¼ agreement of the references - repeated words - excess of words

Nothing in it is learned from ratings. The axes, on which mere wording counts less, and the other images are those of
the references that it was made with; the weights are round numbers, chosen once (docs/captau_rater.md). A caption that
is near many images says little of this one, and where references agree, any caption of the image is near them. The last
two terms answer captions that say everything: all references in a row, or a list of their words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import linalg

from ...base import Floats
from ...neural.store import Array
from ...progress import progress_counter
from ...rows import Rows
from ..common.encoder_recipe import TextStates, normalise, weigh_tokens

#: The share of a spherical covariance in that of wording, which few captions determine poorly.
SPHERICAL_SHARE = 0.7
#: The least variance between images, as a share of the wording's.
MIN_VARIANCE = 1e-6
#: The most images that are kept, 768 bytes each, and how many of them, the nearest, count.
MAX_IMAGES = 10_000
N_NEAREST = 10
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
ORIGIN = 0.5
RANGE = 2.75
#: Words from so many letters on are counted as repeated; so large a share of them may be.
REPEATED_LETTERS = 4
FREE_REPETITION = 0.1
#: How many times as long as the longest reference a caption may be.
FREE_LENGTH = 1.75
#: So many rows at a time are compared with the other images.
_CHUNK = 1024
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
    def learn(cls, texts: TextStates, image_ids: Sequence[str]) -> SameImage:
        """Learn from the references of each image's first row.

        Args:
            texts: of the rows.
            image_ids: of the rows.
        """
        first_rows = pd.Series(image_ids).drop_duplicates().index
        images = [texts.references[row] for row in first_rows]
        sentences = texts.sentences[:, -1].astype(np.float64)
        by_image = [sentences[list(references)] for references in images]

        mean, axes, variances = analyse_discriminants(by_image, SPHERICAL_SHARE)
        axes = axes * np.sqrt(variances / (1 + variances))
        axes /= np.abs(axes).max()  # float16 has no room above 65,504, and cosines have no scale

        centroids = np.stack([references.mean(0) for references in by_image[:MAX_IMAGES]])
        agreements = [measure_agreement(image) for image in by_image if len(image) > 1]
        mean_agreement = np.mean(agreements or [0.0])
        return cls(
            mean=_to_halves(mean),
            axes=_to_halves(axes),
            images=_to_halves(normalise((centroids - mean) @ axes)),
            agreement=_to_halves(np.array([mean_agreement])),
        )

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


def _to_halves(array: Floats | Array) -> Halves:
    """Return an array as float16, contiguous, as the file has it."""
    return np.ascontiguousarray(array, dtype=np.float16)


def measure_agreement(references: Floats | Array) -> float:
    """Return the mean cosine of references, shape (n, width), to the centroid of the others; NaN for one alone."""
    if len(references) < 2:
        return float("nan")
    others = normalise(references.sum(0) - references)
    return float((others * references).sum(1).mean())


def measure_repetition(caption: str) -> float:
    """Return which share of a caption's longer words were said before, beyond what is usual."""
    words = [word for word in _WORD.findall(caption.lower()) if len(word) >= REPEATED_LETTERS]
    if not words:
        return 0.0
    return max(0.0, 1 - len(set(words)) / len(words) - FREE_REPETITION)


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


def compute_terms(texts: TextStates, rows: Rows, same_image: SameImage) -> Floats:
    """Compute the `TERMS` of each row, shape (n_rows, 7)."""
    terms = np.empty((len(rows), len(TERMS)))
    sentences = texts.sentences[:, -1]
    candidates = np.array(texts.candidates)
    centroids = np.empty((len(rows), sentences.shape[1]), dtype=np.float32)

    # Rows with the same references stand together, so that these are read once.
    order = sorted(range(len(rows)), key=texts.references.__getitem__)
    typical = float(same_image.agreement[0])
    with progress_counter("similarities, rows", len(order)) as advance:
        for own_references, group in groupby(order, key=texts.references.__getitem__):
            index = list(group)
            references = sentences[own_references]
            centroids[index] = references.mean(0)

            agreement = measure_agreement(references)
            terms[index, 0] = sentences[candidates[index]] @ normalise(centroids[index[0]])
            terms[index, 2] = compute_recalls(texts, candidates[index].tolist(), own_references)
            terms[index, 4] = typical if np.isnan(agreement) else agreement

            for row in index:
                caption = rows.captions[row]
                terms[row, 5] = measure_repetition(caption)
                terms[row, 6] = measure_excess(caption, rows.references[row])
            advance(len(index))

    for start in range(0, len(rows), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        along = same_image.project(sentences[candidates[chunk]])
        along_centroids = same_image.project(centroids[chunk])
        terms[chunk, 1] = (along * along_centroids).sum(1)
        terms[chunk, 3] = same_image.nearness(along, along_centroids)

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

    recalls: list[float] = []
    for state in texts.states(candidates):
        cosines = tokens @ normalise(state[:, -1]).T
        recalls.append(float(cosines.max(1) @ weights))
    return recalls


def apply_formula(terms: Floats, captions: Sequence[str]) -> Floats:
    """Return scores from 0 to 1, shape (n,): Σ w_k t_k over the `TERMS`, shifted and scaled; an empty caption has 0."""
    weights = np.array(list(TERMS.values()))
    scores = np.clip((terms @ weights + ORIGIN) / RANGE, 0.0, 1.0)
    has_words = [bool(caption.strip()) for caption in captions]
    return np.where(has_words, scores, 0.0)
