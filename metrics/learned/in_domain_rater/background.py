"""Knowledge from the captions of other images, without any rating, about a candidate and its references.

Two things are learned, from the training images' references only:

- which differences are mere wording: embeddings of one image's references differ by noise, those of
  different images by content. Probabilistic linear discriminant analysis (Prince and Elder 2007; the
  two-covariance form) finds directions in which the noise has variance 1, and gives the likelihood ratio of
  the candidate being one more caption of the image against its being any image's;
- what else people say of such an image: an embedding is smoothed, by the mean of the images near it.

An image that has one of the row's own texts among its references is no neighbour of that row. So neither a
training row's own image, nor the image that a candidate was borrowed from, is of any help.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ....datasets.own_references import comparison_form
from ...base import Floats
from ...neural.store import Array, key_of
from ...rows import Rows
from ..captau_rater.same_image import analyse_discriminants
from ..common.text_states import TextStates, normalise

#: Lower temperatures make the weight of a neighbour fall faster with its cosine. Vectors use the first.
TEMPERATURES = (0.05, 0.1)
#: The share of a spherical covariance in that of wording, which few captions determine poorly.
SPHERICAL_SHARE = 0.3
_CHUNK = 1024


@dataclass(frozen=True)
class Background:
    """Statistics of the training images' references; the arrays are saved under these names.

    Attributes:
        centroids: of each image's references at the encoder's last layer, of length 1, shape (n_images, width).
        captions: hashes of their texts, shape (n_images, most captions), padded with 0.
        means: of all references by layer, shape (4, width).
        axes: their columns are axes along which wording has variance 1 and no covariance,
            shape (4, width, width).
        variances: between images along each axis, shape (4, width).
    """

    centroids: NDArray[np.float32]
    captions: NDArray[np.int64]
    means: Floats
    axes: Floats
    variances: Floats

    NAMES: ClassVar[tuple[str, ...]] = (
        *(f"same_image_{layer}_{name}" for layer in range(4) for name in ("ratio", "near", "far")),
        *(f"smoothed_{t:g}_{side}" for t in TEMPERATURES for side in ("both", "left", "right")),
    )

    @classmethod
    def learn(cls, texts: TextStates, rows: Rows) -> Background:
        """Learn from the references of rows: of each image, those of its first row."""
        images, first = np.unique(rows.frame["image_id"].to_numpy(dtype=np.str_), return_index=True)
        references = [texts.references[i] for i in first]
        hashes = [sorted({_hash(text) for text in rows.references[i]}) for i in first]
        captions = np.zeros((len(images), max(map(len, hashes))), dtype=np.int64)
        for row, image_hashes in zip(captions, hashes, strict=True):
            row[: len(image_hashes)] = image_hashes
        sentences = texts.sentences.astype(np.float64)
        centroids = np.stack([sentences[own, -1].mean(0) for own in references])
        statistics = [
            analyse_discriminants([sentences[own, layer] for own in references], SPHERICAL_SHARE)
            for layer in range(4)
        ]
        means, axes, variances = map(np.stack, zip(*statistics, strict=True))
        return cls(normalise(centroids).astype(np.float32), captions, means, axes, variances)

    def compare(self, texts: TextStates, rows: Rows) -> tuple[Floats, Array]:
        """Compare each row's candidate with its references.

        Returns:
            values of `NAMES`, shape (n_rows, len(NAMES)); product and absolute difference of the smoothed
            embeddings, shape (n_rows, 2 × width), float32.
        """
        # In 64 bits, since temperatures would magnify differences of rounding from batch to batch.
        sentences = texts.sentences.astype(np.float64)
        candidates = sentences[np.array(texts.candidates)]
        references = np.stack([sentences[own].mean(0) for own in texts.references])
        counts = np.array([len(own) for own in texts.references])[:, None]
        ratios = [
            self._compare_images(candidates[:, layer], references[:, layer], counts, layer)
            for layer in range(4)
        ]
        last_candidates, last_references = candidates[:, -1], normalise(references[:, -1])
        own_images = self._find_own_images(rows)
        chunks = [slice(start, start + _CHUNK) for start in range(0, len(rows), _CHUNK)]
        parts = [
            self._compare_smoothed(last_candidates[c], last_references[c], own_images[c])
            for c in chunks
        ]
        smoothed, vectors = map(np.concatenate, zip(*parts, strict=True))
        return np.hstack([*ratios, smoothed]), vectors

    def _compare_images(
        self, candidates: Floats, references: Floats, counts: Array, layer: int
    ) -> Floats:
        """Return the log likelihood ratio of one image against two, and two cosines, shape (n, 3).

        In the second cosine, axes that separate images well count more than in the first.
        """
        variance = self.variances[layer]
        x = (candidates - self.means[layer]) @ self.axes[layer]
        y = (references - self.means[layer]) @ self.axes[layer]
        # The posterior of the image given its references: mean along the axes, and variance.
        precision = counts * variance + 1
        posterior, spread = counts * variance / precision * y, variance / precision + 1
        ratio = (np.log(variance + 1) - np.log(spread)).sum(1) + (
            x**2 / (variance + 1) - (x - posterior) ** 2 / spread
        ).sum(1)
        share = np.sqrt(variance / (1 + variance))
        near, far = (
            (normalise(x * weight) * normalise(y * weight)).sum(1) for weight in (share, share**2)
        )
        return np.column_stack([ratio / 2, near, far])

    def _compare_smoothed(
        self, candidates: Floats, references: Floats, own_images: list[list[int]]
    ) -> tuple[Floats, Array]:
        """Return cosines of smoothed with smoothed or raw embeddings, and products and differences."""
        scores = [side @ self.centroids.T for side in (candidates, references)]
        for row, images in enumerate(own_images):
            for side in scores:
                side[row, images] = -np.inf
        cosines: list[Floats] = []
        vectors: list[Floats] = []
        for temperature in TEMPERATURES:
            x = self._smooth(candidates, scores[0], temperature)
            y = self._smooth(references, scores[1], temperature)
            pairs = ((x, y), (x, references), (candidates, y))
            cosines += [(a * b).sum(1) for a, b in pairs]
            vectors += [x * y, np.abs(x - y)]
        return np.column_stack(cosines), np.hstack(vectors[:2]).astype(np.float32)

    def _smooth(self, vectors: Floats, scores: Floats, temperature: float) -> Floats:
        """Return the weighted mean of each vector's neighbours; without any, the vector itself."""
        top = scores.max(1, keepdims=True)
        is_alone = np.isneginf(top)
        weights = np.exp((scores - np.where(is_alone, 0, top)) / temperature)
        return normalise(np.where(is_alone, vectors, weights @ self.centroids))

    def _find_own_images(self, rows: Rows) -> list[list[int]]:
        """Return, for each row, the images that have one of its texts among their references."""
        owners: dict[int, list[int]] = {}
        for image, hashes in enumerate(self.captions.tolist()):
            for number in filter(None, hashes):
                owners.setdefault(number, []).append(image)
        return [
            [image for text in {c, *rs} for image in owners.get(_hash(text), ())]
            for c, rs in zip(rows.captions, rows.references, strict=True)
        ]


def _hash(text: str) -> int:
    """Return the hash of a caption's normal form; never 0, which pads."""
    return int.from_bytes(key_of(comparison_form(text))[:7], "little") + 1
