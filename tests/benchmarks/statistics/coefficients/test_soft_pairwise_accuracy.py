"""Soft pairwise accuracy draws as mt-metrics-eval does."""

from __future__ import annotations

import numpy as np

from captau.benchmarks.statistics.coefficients import soft_pairwise_accuracy as module


def test_soft_pairwise_accuracy_in_blocks_draws_as_at_once() -> None:
    cells = {"x": np.arange(12.0).reshape(6, 2) % 5}
    rng = np.random.default_rng(module.SEED)
    signs = 2 * np.rint(rng.random((module.PERMUTATIONS, 6), dtype=np.float32)) - 1
    d = cells["x"][:, 0] - cells["x"][:, 1]
    assert module._superiority_p_values(cells["x"])[0][0] == ((signs @ d) >= d.sum() - 1e-6).mean()
