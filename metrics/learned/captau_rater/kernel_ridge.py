"""Ridge regression in the space of a Laplacian kernel, on landmarks (Williams and Seeger 2001).

k(x, z) = exp(−|x − z| / s), s being `width` times the median distance of rows from the landmarks. Inputs
are standardised and clipped; a second group of inputs may weigh less than the first. Of f = Σ w_j k(z_j, ·)
over landmarks z_j, the squared error and `penalty` times f's squared norm w'Kw are least; where all rows
are landmarks, that is kernel ridge regression.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from ...base import Floats
from ...neural.store import Array

#: Standard deviations that an input may lie from its mean.
CLIP = 4.0
#: What the penalty is chosen among, by cross-validation over images.
PENALTIES = tuple(float(p) for p in np.geomspace(0.03, 10, 6))
FOLDS = 5
#: Added to the diagonal, as a share of its mean: landmarks may be equal, which must not be divided by.
LEAST = 1e-10
_CHUNK = 4096


@dataclass(frozen=True)
class KernelRidge:
    """A fitted regression; all arrays are float32 or float64 as they are saved.

    Attributes:
        mean, scale: of the inputs; an input's deviation, infinite where it never changes, shape (width,).
        shares: how much each counts, shape (width,).
        landmarks: standardised rows, shape (m, width).
        weights: of the kernels with each, shape (m,).
        numbers: the mean target, and s.
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
            kernel = _kernel(_distances(standard, self.landmarks), self.numbers[1])
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
    distances = _distances(standard, marks)
    spread = width * max(float(np.median(distances)), 1e-6)
    kernel = _kernel(distances, spread)
    among = kernel[chosen]
    every = kernel.T @ kernel
    _, group = np.unique(groups, return_inverse=True)
    fold = rng.permutation(group.max() + 1)[group] % FOLDS
    errors = np.zeros(len(PENALTIES))
    for index in range(FOLDS):
        out = fold == index
        if out.any() and not out.all():
            level = targets[~out].mean()
            gram = every - kernel[out].T @ kernel[out]
            along = kernel[~out].T @ (targets[~out] - level)
            for number, penalty in enumerate(PENALTIES):
                found = kernel[out] @ _solved(gram, among, along, penalty) + level
                errors[number] += ((found - targets[out]) ** 2).sum()
    level = targets.mean()
    penalty = PENALTIES[int(np.argmin(errors))]
    weights = _solved(every, among, kernel.T @ (targets - level), penalty)
    return KernelRidge(mean, scale, shares, marks, weights, np.array([level, spread]))


def spread_of(inputs: Array) -> tuple[Floats, Floats]:
    """Inputs' means and deviations, infinite where one never changes, but for rounding: it tells nothing."""
    mean = inputs.mean(0, dtype=np.float64)
    deviation = inputs.std(0, dtype=np.float64)
    return mean, np.where(deviation < 1e-6 * np.maximum(1.0, np.abs(mean)), np.inf, deviation)


def _solved(gram: Floats, among: Floats, along: Floats, penalty: float) -> Floats:
    """Weights of landmarks, shape (m,): of least squared error, `gram` being of rows' kernels with these."""
    matrix = gram + penalty * among
    matrix[np.diag_indices(len(matrix))] += LEAST * matrix.diagonal().mean()
    return cast("Floats", linalg.solve(matrix, along, assume_a="pos", overwrite_a=True))


def _kernel(distances: Floats, spread: float) -> Floats:
    return np.exp(-distances / spread)


def _standard(inputs: Array, mean: Floats, scale: Floats, shares: Floats) -> NDArray[np.float32]:
    """Inputs of mean 0 and deviation 1, clipped, and times their shares."""
    return (np.clip((inputs - mean) / scale, -CLIP, CLIP) * shares).astype(np.float32)


def _distances(rows: NDArray[np.float32], marks: NDArray[np.float32]) -> Floats:
    """Distances, shape (n_rows, n_marks)."""
    left, right = rows.astype(np.float64), marks.astype(np.float64)
    found = (left**2).sum(1)[:, None] + (right**2).sum(1) - 2 * left @ right.T
    return np.sqrt(np.maximum(found, 0.0))
