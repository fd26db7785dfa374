"""Knowledge of mere wording, from references alone: embeddings of one image's references differ by it.

`recipe.py` compares captions along these axes as well; `in_domain_rater/background.py` learns its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from ...base import Floats
from ..common.text_states import TextStates, normalise

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
