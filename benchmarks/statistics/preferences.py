"""Preferences: which of two captions a metric prefers, with intervals, and McNemar's test of two metrics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Of intervals, where nothing else is said.
CONFIDENCE = 0.95
#: What `dimension` says for the average over the categories of preferences.
MEAN_CATEGORY = "mean"


def pair_outcomes(scores: pd.Series, preferences: pd.DataFrame) -> Floats:
    """Of each pair: 1 where the preferred caption has the greater score, 0 the lesser, 1/2 a tie.

    Args:
        scores: by item id, more is better.
        preferences: columns `item_a, item_b, winner`; a winner each.

    Returns:
        shape (n_pairs,); NaN where a score is undefined.
    """
    left, right = (np.asarray(scores.loc[preferences[s]], float) for s in ("item_a", "item_b"))
    # Compared, not subtracted: two infinite scores are tied, and their difference is NaN.
    won = np.where(preferences["winner"] == "a", left > right, right > left)
    found = np.where(left == right, 0.5, won.astype(float))
    return np.where(np.isnan(left) | np.isnan(right), np.nan, found)


def wilson_interval(
    accuracy: float, n_pairs: int, confidence: float = CONFIDENCE
) -> tuple[float, float]:
    """Wilson's interval of a share (1927); half counts of ties are taken as they are.

    Ties have less spread than a coin's heads and tails, so that of many the interval is too wide.
    """
    if not n_pairs or math.isnan(accuracy):
        return math.nan, math.nan
    z = float(scipy.stats.norm.ppf((1 + confidence) / 2))
    shrink = 1 + z**2 / n_pairs
    centre = (accuracy + z**2 / (2 * n_pairs)) / shrink
    variance = accuracy * (1 - accuracy) / n_pairs + z**2 / (4 * n_pairs**2)
    half = z * math.sqrt(variance) / shrink
    return max(0.0, centre - half), min(1.0, centre + half)


def mean_interval(
    accuracies: Sequence[float], intervals: Sequence[tuple[float, float]]
) -> tuple[float, float]:
    """The interval of a mean of independent shares from theirs (Zou and Donner 2008, MOVER)."""
    if not accuracies:
        return math.nan, math.nan
    below = math.hypot(*(a - low for a, (low, _) in zip(accuracies, intervals, strict=True)))
    above = math.hypot(*(high - a for a, (_, high) in zip(accuracies, intervals, strict=True)))
    mean, n = sum(accuracies) / len(accuracies), len(accuracies)
    return mean - below / n, mean + above / n


def add_wilson_intervals(
    rows: Sequence[dict[str, Any]], confidence: float
) -> Sequence[dict[str, Any]]:
    """Rows of `correlations.csv` where every accuracy that has no interval yet has Wilson's.

    The last row of a metric is the mean of its categories.
    """
    by_metric: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row["coefficient"] == "accuracy" and not math.isnan(row["value"]):
            by_metric.setdefault(row["metric"], []).append(row)
    for lacking in by_metric.values():
        parts: list[tuple[float, tuple[float, float]]] = []
        for row in lacking:
            if not math.isnan(row.get("ci_low", math.nan)):
                continue
            found = (
                mean_interval([a for a, _ in parts], [i for _, i in parts])
                if row["dimension"] == MEAN_CATEGORY
                else wilson_interval(row["value"], row["n_ratings"], confidence)
            )
            parts.append((row["value"], found))
            note = "; ".join(n for n in (row["note"], "Wilson interval") if n)
            row |= {"ci_low": found[0], "ci_high": found[1], "note": note}
    return rows


@dataclass(frozen=True)
class McNemar:
    """Two metrics on the same pairs.

    Attributes:
        n_pairs: pairs on which both have an outcome.
        first_better, second_better: pairs on which the one does better than the other; a tie is
            better than wrong and worse than right.
        difference: the first's accuracy less the second's.
        exact: two-sided p-value of "equally good", by all swaps of the two metrics' outcomes.
        asymptotic: the same by the χ² distribution.
    """

    n_pairs: int
    first_better: int
    second_better: int
    difference: float
    exact: float
    asymptotic: float


def mcnemar(first: Floats, second: Floats) -> McNemar:
    """McNemar's test (1947) of two metrics' `outcomes`, ties counting half.

    With d the difference of a pair's outcomes, it asks whether Σd is 0. Without ties the exact
    p-value is the binomial one and the asymptotic one is χ² = (b - c)² / (b + c), without continuity
    correction; with ties χ² = (Σd)² / Σd².

    Args:
        first, second: shape (n_pairs,), of the same pairs in one order; pairs that are NaN in one
            of them are left out.

    Returns:
        p-values of 1 where the metrics never differ, and NaN where no pair is left.
    """
    both = ~(np.isnan(first) | np.isnan(second))
    d = (first - second)[both]
    if not len(d):
        return McNemar(0, 0, 0, math.nan, math.nan, math.nan)
    total = abs(float(d.sum()))
    squares = float((d**2).sum())
    exact = asymptotic = 1.0
    if squares:
        asymptotic = float(scipy.stats.chi2.sf(total**2 / squares, 1))
    if total:
        # Each whole difference is ±1 and each half one ±1/2, by a fair coin.
        whole, half = int((np.abs(d) == 1).sum()), int((np.abs(d) == 0.5).sum())
        heads = np.arange(whole + 1)
        # The half ones have to make up for what the whole ones lack: (2k - half) / 2 >= lack.
        lack = total - (2 * heads - whole)
        chance = scipy.stats.binom.sf(np.ceil(lack + half / 2) - 1, half, 0.5)
        exact = min(1.0, 2 * float(scipy.stats.binom.pmf(heads, whole, 0.5) @ chance))
    return McNemar(
        len(d), int((d > 0).sum()), int((d < 0).sum()), float(d.mean()), exact, asymptotic
    )
