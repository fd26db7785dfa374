"""What the captions of other images tell, without any rating, of a candidate and its references.

Two things are learnt from the training images' references, and from these alone:

- which differences are mere wording: embeddings of one image's references differ by noise, those of
  different images by what is seen. Probabilistic linear discriminant analysis (Prince and Elder 2007; the
  two-covariance form) finds directions in which the noise has variance 1, and gives the likelihood ratio of
  the candidate being one more caption of the image against its being any image's;
- what else is said of such an image: an embedding is smoothed, by the mean of the images that lie near it.

An image that has one of the row's own texts among its references is no neighbour of that row. So neither a
training row's own image, nor the image that a candidate was borrowed from, is of any help.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from ...base import Floats
from ...neural.store import Array, key_of
from ...rows import Rows
from .similarities import Texts

#: How fast the weight of a neighbour falls with its cosine. Vectors are of the first.
TEMPERATURES = (0.05, 0.1)
#: The share of a round covariance in that of the wording, of which few captions tell too little.
ROUND = 0.3
#: The least variance between images, as a share of the wording's.
LEAST = 1e-6
_CHUNK = 1024


@dataclass(frozen=True)
class Background:
    """What is kept of the training images' references.

    Attributes:
        centroids: of each image's references at the encoder's last layer, of length 1, shape (n_images, width).
        captions: hashes of their texts, shape (n_images, most); 0 where an image has fewer.
        means: of all references by layer, shape (4, width).
        axes: in whose columns wording has variance 1 and no covariance, shape (4, width, width).
        variances: between images along each axis, shape (4, width).
    """

    centroids: NDArray[np.float32]
    captions: NDArray[np.int64]
    means: Floats
    axes: Floats
    variances: Floats

    NAMES: ClassVar[tuple[str, ...]] = (
        *(f"same_image_{layer}_{what}" for layer in range(4) for what in ("ratio", "near", "far")),
        *(f"smoothed_{t:g}_{what}" for t in TEMPERATURES for what in ("both", "left", "right")),
    )

    @classmethod
    def of(cls, texts: Texts, rows: Rows) -> Background:
        """What is told by the references of rows: of each image, those of its first row."""
        images, first = np.unique(rows.frame["image_id"].to_numpy(dtype=np.str_), return_index=True)
        owned = [texts.references[i] for i in first]
        hashes = [sorted({_hash(text) for text in rows.references[i]}) for i in first]
        captions = np.zeros((len(images), max(map(len, hashes))), dtype=np.int64)
        for place, own in zip(captions, hashes, strict=True):
            place[: len(own)] = own
        sentences = texts.sentences.astype(np.float64)
        centroids = np.stack([sentences[own, -1].mean(0) for own in owned])
        found = [_discriminant([sentences[own, layer] for own in owned]) for layer in range(4)]
        means, axes, variances = map(np.stack, zip(*found, strict=True))
        return cls(_unit(centroids).astype(np.float32), captions, means, axes, variances)

    @property
    def tensors(self) -> dict[str, NDArray[Any]]:
        return dict(vars(self))

    def compared(self, texts: Texts, rows: Rows) -> tuple[Floats, Array]:
        """Of each row's candidate and references:

        Returns:
            values of `NAMES`, shape (n_rows, len(NAMES)); product and absolute difference of both when
            smoothed, shape (n_rows, 2 × width), float32.
        """
        # In 64 bits, since temperatures would magnify what rounding differs by from batch to batch.
        sentences = texts.sentences.astype(np.float64)
        candidates = sentences[np.array(texts.candidates)]
        references = np.stack([sentences[own].mean(0) for own in texts.references])
        counts = np.array([len(own) for own in texts.references])[:, None]
        same = [self._same(candidates[:, i], references[:, i], counts, i) for i in range(4)]
        left, right = candidates[:, -1], _unit(references[:, -1])
        parts = [
            self._smoothed(left[here], right[here], self._own(rows, here))
            for here in (slice(s, s + _CHUNK) for s in range(0, len(left), _CHUNK))
        ]
        smoothed, vectors = map(np.concatenate, zip(*parts, strict=True))
        return np.hstack([*same, smoothed]), vectors

    def _same(self, candidate: Floats, references: Floats, counts: Array, layer: int) -> Floats:
        """The log likelihood ratio of one image against two, and cosines of what is told of the image.

        In the second cosine axes that tell images well apart count more than in the first.
        """
        variance = self.variances[layer]
        one = (candidate - self.means[layer]) @ self.axes[layer]
        other = (references - self.means[layer]) @ self.axes[layer]
        # What the references say of their image: its mean along the axes, and how sure that is.
        known = counts * variance + 1
        told, spread = counts * variance / known * other, variance / known + 1
        ratio = (np.log(variance + 1) - np.log(spread)).sum(1) + (
            one**2 / (variance + 1) - (one - told) ** 2 / spread
        ).sum(1)
        share = np.sqrt(variance / (1 + variance))
        near, far = (
            (_unit(one * weight) * _unit(other * weight)).sum(1) for weight in (share, share**2)
        )
        return np.column_stack([ratio / 2, near, far])

    def _smoothed(
        self, candidate: Floats, references: Floats, own: list[list[int]]
    ) -> tuple[Floats, Array]:
        """Cosines of the smoothed with the smoothed or the plain, and their product and difference."""
        scores = [side @ self.centroids.T for side in (candidate, references)]
        for index, images in enumerate(own):
            for side in scores:
                side[index, images] = -np.inf
        cosines: list[Floats] = []
        vectors: list[Floats] = []
        for temperature in TEMPERATURES:
            left = self._mean(candidate, scores[0], temperature)
            right = self._mean(references, scores[1], temperature)
            pairs = ((left, right), (left, references), (candidate, right))
            cosines += [(a * b).sum(1) for a, b in pairs]
            vectors += [left * right, np.abs(left - right)]
        return np.column_stack(cosines), np.hstack(vectors[:2]).astype(np.float32)

    def _mean(self, vectors: Floats, scores: Floats, temperature: float) -> Floats:
        """The weighted mean of neighbours; what has none stays what it is."""
        top = scores.max(1, keepdims=True)
        alone = np.isneginf(top)
        weights = np.exp((scores - np.where(alone, 0, top)) / temperature)
        return _unit(np.where(alone, vectors, weights @ self.centroids))

    def _own(self, rows: Rows, here: slice) -> list[list[int]]:
        """Images that have a text of the row among their references."""
        owners: dict[int, list[int]] = {}
        for image, hashes in enumerate(self.captions.tolist()):
            for number in filter(None, hashes):
                owners.setdefault(number, []).append(image)
        return [
            [image for text in {c, *rs} for image in owners.get(_hash(text), ())]
            for c, rs in zip(rows.captions[here], rows.references[here], strict=True)
        ]


def normalise_caption(text: str) -> str:
    """A caption without what its copies differ in: case, and what is no letter or figure."""
    return "".join(c for c in text.lower() if c.isalnum())


def _hash(text: str) -> int:
    """Never 0, which stands for no text."""
    return int.from_bytes(key_of(normalise_caption(text))[:7], "little") + 1


def _unit(vectors: Floats) -> Floats:
    """Of length 1; a vector of none, which tells nothing, stays one and is like no other."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def _discriminant(images: list[Floats]) -> tuple[Floats, Floats, Floats]:
    """Mean, axes and variances between images, of each image's vectors of shape (n_captions, width)."""
    every = np.concatenate(images)
    mean = every.mean(0)
    levels = np.stack([own.mean(0) for own in images])
    gaps = np.concatenate([own - level for own, level in zip(images, levels, strict=True)])
    within = gaps.T @ gaps / max(len(every) - len(images), 1)
    total = (every - mean).T @ (every - mean) / len(every)
    size = len(mean)
    # Without two captions of an image, or two that differ, any direction is as good as another.
    level = float(np.trace(within) or np.trace(total) or 1.0) / size
    between = (levels - mean).T @ (levels - mean) / len(images)
    between -= within * len(images) / len(every)  # what the levels differ by for noise alone
    within = (1 - ROUND) * within + ROUND * level * np.eye(size)
    variances, axes = cast("tuple[Floats, Floats]", linalg.eigh(between, within))
    return mean, axes, np.maximum(variances, LEAST)
