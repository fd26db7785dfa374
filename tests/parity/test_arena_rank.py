"""Golden tier 2: arena-rank 0.1.1, `ContextualBradleyTerry(4, 2, reg=0)`, recorded on comparisons made here."""

from __future__ import annotations

import numpy as np

from captau.benchmarks.statistics.controlled_strengths import fit_controlled

#: Its ratings less their mean, its coefficients, and their standard errors by its sandwich.
RATINGS = [0.5545282645193116, 0.10808700093443206, -0.17252426821884514, -0.4900909972348985]
COEFFICIENTS = [0.04689524566756234, -0.09031147478892769]
ERRORS = [0.018164430508223858, 0.05957837883996265]


def test_equal_to_arena_rank() -> None:
    number = np.arange(600, dtype=np.int64)
    first = number % 4
    second = (first + 1 + (number // 4) % 3) % 4
    length = np.round(6 * np.sin(number * 1.3) + 3 * np.cos(number * 0.7))
    commas = np.round(2 * np.sin(number * 2.1))
    strengths = np.array([0.6, 0.1, -0.2, -0.5])
    eta = strengths[first] - strengths[second] + 0.05 * length - 0.1 * commas
    wins = (number * 0.6180339887498949) % 1 < 1 / (1 + np.exp(-eta))
    features = np.column_stack([length, commas]).astype(np.float64)

    fit = fit_controlled(first, second, np.where(wins, 1.0, -1.0), features, number)
    assert fit is not None
    np.testing.assert_allclose(fit.strengths, RATINGS, atol=1e-7)
    np.testing.assert_allclose(fit.terms, COEFFICIENTS, atol=1e-8)
    # It has no factor G / (G - 1) for few images.
    errors = np.sqrt(np.diag(fit.covariance)[4:] * 599 / 600)
    np.testing.assert_allclose(errors, ERRORS, rtol=1e-6)
