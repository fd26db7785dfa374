"""Ridge regression in the space of a Gaussian kernel, on landmarks (Williams and Seeger 2001).

k(x, z) = exp(−|x − z|² / 2s²), s² being `width` times the median squared distance of rows from the
landmarks. Inputs are standardised and clipped; a second group of inputs may weigh less than the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base import Floats
from ..neural.store import Array

#: Standard deviations that an input may lie from its mean.
CLIP = 4.0
#: What the penalty is chosen among, by cross-validation over images.
PENALTIES = tuple(float(p) for p in np.geomspace(0.03, 30, 13))
FOLDS = 5
#: Landmarks' kernel directions weaker than this share of the strongest are noise of rounding.
LEAST = 1e-8
_CHUNK = 4096


@dataclass(frozen=True)
class KernelRidge:
    """A fitted regression; all arrays are float32 or float64 as they are saved.

    Attributes:
        mean, scale: of the inputs; an input's deviation, infinite where it never changes, shape (width,).
        shares: how much each counts, shape (width,).
        landmarks: standardised rows, shape (m, width).
        weights: of the kernels with each, shape (m,).
        numbers: the mean target, and 2s².
    """

    mean: Floats
    scale: Floats
    shares: Floats
    landmarks: NDArray[np.float32]
    weights: Floats
    numbers: Floats

    def predict(self, inputs: Array) -> Floats:
        """Predictions, shape (n,), of inputs of shape (n, width)."""
        out = np.empty(len(inputs))
        for start in range(0, len(inputs), _CHUNK):
            here = slice(start, start + _CHUNK)
            standard = _standard(inputs[here], self.mean, self.scale, self.shares)
            kernel = np.exp(-_distances(standard, self.landmarks) / self.numbers[1])
            out[here] = self.numbers[0] + kernel @ self.weights
        return out

    @property
    def tensors(self) -> dict[str, NDArray[Any]]:
        return dict(vars(self))


def fit(
    inputs: Array,
    targets: Floats,
    groups: NDArray[Any],
    rng: np.random.Generator,
    *,
    shares: Floats,
    landmarks: int,
    width: float,
) -> KernelRidge:
    """Fit; the penalty is the one of least squared error over folds of whole groups.

    Args:
        inputs: shape (n, width).
        targets: shape (n,).
        groups: the image of each row, shape (n,).
        rng: draws landmarks and folds.
        shares: what a standardised input is multiplied by, shape (width,).
        landmarks: at most so many rows.
        width: of the kernel.
    """
    mean, scale = spread_of(inputs)
    standard = _standard(inputs, mean, scale, shares)
    chosen = np.sort(rng.permutation(len(inputs))[:landmarks])
    marks = standard[chosen]
    squared = _distances(standard, marks)
    spread = 2 * width * max(float(np.median(squared)), 1e-12)
    kernel = np.exp(-squared / spread)
    values, vectors = np.linalg.eigh(kernel[chosen])
    strong = values > LEAST * values[-1]
    project = vectors[:, strong] / np.sqrt(values[strong])
    features = kernel @ project
    _, group = np.unique(groups, return_inverse=True)
    fold = rng.permutation(group.max() + 1)[group] % FOLDS
    errors = np.zeros(len(PENALTIES))
    for index in range(FOLDS):
        out = fold == index
        if out.any() and not out.all():
            level = targets[~out].mean()
            weights = _ridge(features[~out], targets[~out] - level, PENALTIES)
            gaps = features[out] @ weights + level - targets[out][:, None]
            errors += (gaps**2).sum(0)
    level = targets.mean()
    penalty = PENALTIES[int(np.argmin(errors))]
    weights = project @ _ridge(features, targets - level, (penalty,))[:, 0]
    return KernelRidge(mean, scale, shares, marks, weights, np.array([level, spread]))


def spread_of(inputs: Array) -> tuple[Floats, Floats]:
    """Inputs' means and deviations, infinite where one never changes, but for rounding: it tells nothing."""
    mean = inputs.mean(0, dtype=np.float64)
    deviation = inputs.std(0, dtype=np.float64)
    return mean, np.where(deviation < 1e-6 * np.maximum(1.0, np.abs(mean)), np.inf, deviation)


def _ridge(features: Floats, targets: Floats, penalties: tuple[float, ...]) -> Floats:
    """Weights for each penalty, shape (n_features, n_penalties)."""
    values, vectors = np.linalg.eigh(features.T @ features)
    along = vectors.T @ (features.T @ targets)
    return vectors @ (along[:, None] / (values[:, None] + np.array(penalties)))


def _standard(inputs: Array, mean: Floats, scale: Floats, shares: Floats) -> NDArray[np.float32]:
    """Inputs of mean 0 and deviation 1, clipped, and times their shares."""
    return (np.clip((inputs - mean) / scale, -CLIP, CLIP) * shares).astype(np.float32)


def _distances(rows: NDArray[np.float32], marks: NDArray[np.float32]) -> Floats:
    """Squared distances, shape (n_rows, n_marks)."""
    left, right = rows.astype(np.float64), marks.astype(np.float64)
    found = (left**2).sum(1)[:, None] + (right**2).sum(1) - 2 * left @ right.T
    return np.maximum(found, 0.0)
