"""Ridge regression in the space of a Laplacian kernel, on landmarks (Williams and Seeger 2001).

k(x, z) = exp(−|x − z| / s), s being the median distance of rows from the landmarks. Inputs are standardised, clipped
and weighted by their shares. For f = Σ w_j k(z_j, ·) over landmarks z_j, the fit minimises the squared error plus
`penalty` times f's squared norm w'Kw; if all rows are landmarks, that is kernel ridge regression.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from ...base import Floats
from ...neural.store import Array

#: Standard deviations beyond which an input is clipped.
CLIP = 4.0
#: The most landmarks.
MAX_LANDMARKS = 2000
#: The candidates for the penalty, from which cross-validation over images chooses.
PENALTIES = tuple(float(p) for p in np.geomspace(0.03, 10, 6))
FOLDS = 5
#: Added to the diagonal, as a share of its mean: equal landmarks would make the matrix singular.
RIDGE = 1e-10
_CHUNK = 4096


@dataclass(frozen=True)
class KernelRidge:
    """A fitted regression; the arrays, float32 or float64, are saved under these names.

    Attributes:
        mean, scale: of the inputs; the deviation is infinite for an input that never changes,
            shape (width,).
        shares: weights of the standardised inputs, shape (width,).
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
        """Return predictions, shape (n,), from inputs of shape (n, width)."""
        predictions = np.empty(len(inputs))
        for start in range(0, len(inputs), _CHUNK):
            rows = slice(start, start + _CHUNK)
            standard = _standardise(inputs[rows], self.mean, self.scale, self.shares)
            kernel = _kernel(_distances(standard, self.landmarks), self.numbers[1])
            predictions[rows] = self.numbers[0] + kernel @ self.weights
        return predictions


def fit_kernel_ridge(
    inputs: Array,
    targets: Floats,
    groups: NDArray[Any],
    rng: np.random.Generator,
    *,
    shares: Floats,
    max_landmarks: int = MAX_LANDMARKS,
) -> KernelRidge:
    """Fit a regression, with the penalty of least squared error over folds of whole groups.

    Args:
        inputs: shape (n, width).
        targets: shape (n,).
        groups: the image of each row, shape (n,).
        rng: draws landmarks and folds.
        shares: weights of the standardised inputs, shape (width,).
        max_landmarks: the most rows that are landmarks.
    """
    mean, scale = compute_scaling(inputs)
    standard = _standardise(inputs, mean, scale, shares)

    marks = np.sort(rng.permutation(len(inputs))[:max_landmarks])
    distances = _distances(standard, standard[marks])
    spread = max(float(np.median(distances)), 1e-6)
    kernel = _kernel(distances, spread)
    mark_kernel = kernel[marks]
    gram = kernel.T @ kernel

    # All captions of an image are in one fold, so that none is predicted from another of its image.
    _, group = np.unique(groups, return_inverse=True)
    fold = rng.permutation(group.max() + 1)[group] % FOLDS
    errors = np.zeros(len(PENALTIES))
    for number in range(FOLDS):
        test = fold == number
        if not test.any() or test.all():
            continue

        level = targets[~test].mean()
        # The sum over the other folds is that of all rows less this one's.
        train_gram = gram - kernel[test].T @ kernel[test]
        moments = kernel[~test].T @ (targets[~test] - level)
        for i, penalty in enumerate(PENALTIES):
            weights = _solve(train_gram, mark_kernel, moments, penalty)
            errors[i] += ((kernel[test] @ weights + level - targets[test]) ** 2).sum()

    level = targets.mean()
    penalty = PENALTIES[int(np.argmin(errors))]
    weights = _solve(gram, mark_kernel, kernel.T @ (targets - level), penalty)
    numbers = np.array([level, spread])

    return KernelRidge(mean, scale, shares, standard[marks], weights, numbers)


def compute_scaling(inputs: Array) -> tuple[Floats, Floats]:
    """Return inputs' means and deviations, infinite for an input that never changes but for rounding."""
    mean = inputs.mean(0, dtype=np.float64)
    deviation = inputs.std(0, dtype=np.float64)
    is_constant = deviation < 1e-6 * np.maximum(1.0, np.abs(mean))
    return mean, np.where(is_constant, np.inf, deviation)


def _solve(gram: Floats, mark_kernel: Floats, moments: Floats, penalty: float) -> Floats:
    """Return the weights of landmarks, shape (m,), that minimise penalised squared error."""
    matrix = gram + penalty * mark_kernel
    matrix[np.diag_indices(len(matrix))] += RIDGE * matrix.diagonal().mean()
    return cast("Floats", linalg.solve(matrix, moments, assume_a="pos", overwrite_a=True))


def _kernel(distances: Floats, spread: float) -> Floats:
    return np.exp(-distances / spread)


def _standardise(inputs: Array, mean: Floats, scale: Floats, shares: Floats) -> NDArray[np.float32]:
    """Return inputs with mean 0 and deviation 1, clipped, and times their shares."""
    standard = np.clip((inputs - mean) / scale, -CLIP, CLIP)
    return (standard * shares).astype(np.float32)


def _distances(rows: NDArray[np.float32], marks: NDArray[np.float32]) -> Floats:
    """Return distances, shape (n_rows, n_marks)."""
    x = rows.astype(np.float64)
    z = marks.astype(np.float64)
    # |x - z|² = |x|² + |z|² - 2 x·z, which is below 0 by rounding where both are equal.
    squared = (x**2).sum(1)[:, None] + (z**2).sum(1) - 2 * x @ z.T

    return np.sqrt(np.maximum(squared, 0.0))
