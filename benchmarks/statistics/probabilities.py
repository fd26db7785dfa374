"""Scores as probabilities: the rule that maps them, its bins, and how far what it says is from what people say.

A rule is fitted on some captions and held against others. `logistic` is Platt's (1999), `isotonic` the nearest rule that never
falls (Zadrozny and Elkan 2002), and `none` takes scores that are probabilities as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
from scipy.special import expit

from .weighted_pairs import Floats, Ints, Statistic

#: From scores to probabilities of a good caption, shape (n_items,).
Rule = Callable[[Floats], Floats]
RULES = ("logistic", "isotonic", "none")
#: Newton steps, and the change at which a fit is finished.
MAX_STEPS = 100
TOLERANCE = 1e-12


def fit_rule(kind: str, scores: Floats, is_good: Floats) -> Rule:
    """Fit a rule from scores to probabilities.

    Args:
        kind: one of `RULES`.
        scores: shape (n_items,), finite, with two different ones at least.
        is_good: shape (n_items,), 1 where the caption is good and 0 elsewhere; both are there.
    """
    if kind == "logistic":
        return _fit_logistic(scores, is_good)
    if kind == "isotonic":
        return _fit_isotonic(scores, is_good)
    return lambda new_scores: new_scores


def _fit_logistic(scores: Floats, is_good: Floats) -> Rule:
    """Fit 1 / (1 + exp(-(a + b x))) by maximum likelihood, to targets that are a little inside of 0 and 1 (Platt 1999).

    The targets, (n_good + 1) / (n_good + 2) and 1 / (n_bad + 2), keep a finite fit where a threshold separates both.
    """
    centre = float(scores.mean())
    width = float(scores.std())
    x = np.column_stack([np.ones(len(scores)), (scores - centre) / width])
    n_good = float(is_good.sum())
    n_bad = len(is_good) - n_good
    target = np.where(is_good > 0, (n_good + 1) / (n_good + 2), 1 / (n_bad + 2))

    def loss(coefficients: Floats) -> float:
        line = x @ coefficients
        return float(np.logaddexp(0.0, line).sum() - target @ line)

    coefficients: Floats = np.array([np.log((n_good + 1) / (n_bad + 1)), 0.0])
    for _ in range(MAX_STEPS):
        expected = expit(x @ coefficients)
        gradient = x.T @ (target - expected)
        weights = expected * (1 - expected)
        curvature = x.T @ (weights[:, None] * x)
        step = np.asarray(np.linalg.solve(curvature, gradient), dtype=np.float64)

        # The likelihood is concave; half steps keep the first ones from leaping over its top.
        while loss(coefficients + step) > loss(coefficients) and np.abs(step).max() > TOLERANCE:
            step = step / 2
        coefficients = coefficients + step
        if np.abs(step).max() <= TOLERANCE:
            break

    intercept, slope = coefficients.tolist()
    return lambda new_scores: expit(intercept + slope * (new_scores - centre) / width)


def _fit_isotonic(scores: Floats, is_good: Floats) -> Rule:
    """Fit the non-decreasing shares that are nearest by squared distance, joined by straight lines between scores."""
    levels, level_of_score, counts = np.unique(scores, return_inverse=True, return_counts=True)
    shares = np.bincount(level_of_score, is_good) / counts
    fitted = scipy.optimize.isotonic_regression(shares, weights=counts.astype(np.float64)).x
    return lambda new_scores: np.interp(new_scores, levels, fitted)


@dataclass(frozen=True)
class ProbabilityBins:
    """Captions in bins of like probability, about equally many in each.

    Attributes:
        bin_of_item: the number of each caption's bin, shape (n_items,).
        low, high: the ends of each bin, shape (n_bins,).
        predicted: the mean probability in each, shape (n_bins,).
        observed: the share of good captions in each, shape (n_bins,).
        counts: of captions, shape (n_bins,).
    """

    bin_of_item: Ints
    low: Floats
    high: Floats
    predicted: Floats
    observed: Floats
    counts: Floats

    @classmethod
    def cut(cls, probabilities: Floats, is_good: Floats, n_bins: int) -> ProbabilityBins:
        """Cut captions at the quantiles of their probabilities; equal ones are in one bin, so that there may be fewer.

        Args:
            probabilities, is_good: shape (n_items,).
            n_bins: the most bins.
        """
        edges = np.quantile(probabilities, np.linspace(0, 1, n_bins + 1))
        bin_numbers = np.searchsorted(edges[1:-1], probabilities)
        # Bins between equal quantiles hold no caption and are left out.
        used, bin_of_item = np.unique(bin_numbers, return_inverse=True)
        counts = np.bincount(bin_of_item).astype(np.float64)
        return cls(
            bin_of_item=bin_of_item.astype(np.int64),
            low=edges[used],
            high=edges[used + 1],
            predicted=np.bincount(bin_of_item, probabilities) / counts,
            observed=np.bincount(bin_of_item, is_good) / counts,
            counts=counts,
        )

    @property
    def expected_error(self) -> float:
        """The mean distance of predicted and observed shares over captions: the expected calibration error."""
        distances = np.abs(self.predicted - self.observed)
        return float(distances @ self.counts / self.counts.sum())


def brier_score(probabilities: Floats, is_good: Floats) -> float:
    """Return the mean squared distance of probabilities from 1 of good captions and 0 of bad ones (Brier 1950)."""
    return float(np.mean((probabilities - is_good) ** 2))


def mean_statistic(values: Floats, unit: Ints, n_units: int) -> Statistic:
    """Return the mean of values as a function of the units' weights, shape (1, n_replicates)."""
    sums = np.bincount(unit, values, n_units)
    counts = np.bincount(unit, minlength=n_units).astype(np.float64)

    def statistic(weights: Floats) -> Floats:
        with np.errstate(all="ignore"):
            return (sums @ weights / (counts @ weights))[None, :]

    return statistic
