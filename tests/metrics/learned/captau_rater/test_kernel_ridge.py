"""Kernel ridge regression on landmarks against the formula written out, with numpy's plain solver."""

from __future__ import annotations

import numpy as np
import pytest

from captau.metrics.learned.captau_rater import kernel_ridge
from captau.metrics.learned.captau_rater.kernel_ridge import KernelRidge, fit_kernel_ridge


def plain(inputs, targets, groups, rng, shares, max_landmarks):
    """Return landmarks, weights, level, spread, errors by penalty, and the right sides that were solved for."""
    mean, deviation = inputs.mean(0), inputs.std(0)
    is_constant = deviation < 1e-6 * np.maximum(1, np.abs(mean))
    z = np.where(is_constant, 0, (inputs - mean) / np.where(is_constant, 1, deviation))
    z = (np.clip(z, -4, 4) * shares).astype(np.float32).astype(float)
    marks = sorted(rng.permutation(len(z))[:max_landmarks])
    distances = np.sqrt(((z[:, None] - z[marks]) ** 2).sum(2))
    spread = max(np.median(distances), 1e-6)
    kernel = np.exp(-distances / spread)
    names = sorted(set(groups))
    order = rng.permutation(len(names))
    fold = np.array([order[names.index(g)] % 5 for g in groups])

    moments = []

    def solve(rows, level, penalty):
        matrix = kernel[rows].T @ kernel[rows] + penalty * kernel[marks]
        moments.append(kernel[rows].T @ (targets[rows] - level))
        matrix += 1e-10 * np.eye(len(matrix)) * np.diag(matrix).mean()
        return np.linalg.solve(matrix, moments[-1])

    penalties = 0.03 * (10 / 0.03) ** (np.arange(6) / 5)
    errors = np.zeros(6)
    for number in range(5):
        test = fold == number
        if test.any() and not test.all():
            level = targets[~test].mean()
            for i, penalty in enumerate(penalties):
                found = kernel[test] @ solve(~test, level, penalty) + level
                errors[i] += ((found - targets[test]) ** 2).sum()
    level = targets.mean()
    best = penalties[np.argmin(errors)]
    return z[marks], solve(np.ones(len(z), bool), level, best), level, spread, errors, moments


@pytest.mark.parametrize(
    ("seed", "n", "noise", "n_groups", "max_landmarks"),
    [(0, 30, 0.05, 12, 2000), (1, 30, 0.5, 30, 9), (2, 24, 2.0, 3, 30), (3, 12, 0.1, 1, 4)],
)
def test_the_fit_is_the_formula(seed, n, noise, n_groups, max_landmarks, monkeypatch):
    rng = np.random.default_rng(seed)
    inputs = np.column_stack([rng.normal(size=(n, 3)), np.full(n, 9.0)])
    inputs[0, 0] = 40.0  # more than four deviations
    targets = np.sin(inputs[:, 1]) + noise * rng.normal(size=n)
    groups = np.array([f"i{k % n_groups}" for k in range(n)])
    shares = np.array([1.0, 0.7, 0.2, 1.0])
    solved, solve = [], kernel_ridge._solve
    monkeypatch.setattr(
        kernel_ridge, "_solve", lambda *words: solved.append(words[2]) or solve(*words)
    )
    fitted = fit_kernel_ridge(
        *(inputs, targets, groups, np.random.default_rng(7)),
        shares=shares,
        max_landmarks=max_landmarks,
    )
    marks, weights, level, spread, errors, moments = plain(
        inputs, targets, groups, np.random.default_rng(7), shares, max_landmarks
    )
    # Of each fold and penalty, and of the fit: the same rows in the same folds.
    np.testing.assert_allclose(solved, moments, atol=1e-5)
    np.testing.assert_allclose(fitted.landmarks, marks, atol=1e-6)
    np.testing.assert_allclose(fitted.weights, weights, atol=1e-5)
    np.testing.assert_allclose(fitted.numbers, [level, spread], rtol=1e-6)
    assert (fitted.mean.tolist(), fitted.shares is shares) == (inputs.mean(0).tolist(), True)
    assert fitted.scale[3] == np.inf
    # Predictions, a few rows at a time: the level and the kernels with the landmarks.
    monkeypatch.setattr(kernel_ridge, "_CHUNK", 7)
    z = np.clip((inputs - fitted.mean) / fitted.scale, -4, 4) * shares
    kernel = np.exp(-np.sqrt(((z[:, None] - marks) ** 2).sum(2)) / spread)
    np.testing.assert_allclose(fitted.predict(inputs), level + kernel @ weights, atol=1e-4)
    assert errors.any() == (n_groups > 1)


def test_inputs_that_never_change_but_for_rounding_are_constant():
    inputs = np.array([[0.0, 1e7, 3.0, 0.0], [1.9e-6, 1e7 + 19, 3.0, 4e-6]])
    mean, scale = kernel_ridge.compute_scaling(inputs)
    assert mean.tolist() == pytest.approx([0.95e-6, 1e7 + 9.5, 3, 2e-6])
    assert scale.tolist() == [np.inf, np.inf, np.inf, 2e-6]


def test_equal_rows_have_a_spread_all_the_same():
    fitted = fit_kernel_ridge(
        *(np.ones((4, 2)), np.array([0.0, 1, 2, 3]), np.arange(4), np.random.default_rng(0)),
        shares=np.ones(2),
    )
    assert fitted.numbers.tolist() == [1.5, 1e-6]
    assert fitted.predict(np.ones((1, 2))) == pytest.approx([1.5])


def test_a_prediction_by_hand():
    """x = 3 is (3 - 1) / 2 · ½ = ½ from the landmark 0, and ½ from 1: 10 + (2 - 4) · e^(-½ / ¼)."""
    fitted = KernelRidge(
        mean=np.array([1.0]),
        scale=np.array([2.0]),
        shares=np.array([0.5]),
        landmarks=np.array([[0.0], [1.0]], np.float32),
        weights=np.array([2.0, -4.0]),
        numbers=np.array([10.0, 0.25]),
    )
    found = fitted.predict(np.array([[3.0], [1.0], [99.0]]))
    far = 2 * np.exp(-2 / 0.25) - 4 * np.exp(-1 / 0.25)  # clipped at four deviations: 2
    expected = [10 - 2 * np.exp(-2), 10 + 2 - 4 * np.exp(-4), 10 + far]
    assert found == pytest.approx(expected)
