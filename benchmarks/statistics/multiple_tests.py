"""Corrections of p-values for the number of tests, and the rank clusters that WMT prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from .weighted_pairs import Floats


def correct_p_values(p_values: ArrayLike, correction: str) -> Floats:
    """Correct p-values for their number; NaN stays NaN and does not count.

    Args:
        p_values: shape (n,).
        correction: `holm` (Holm 1979: the chance of any false finding), `bh` (Benjamini and Hochberg
            1995: the share of false ones among the findings), or `none`.
    """
    corrected = np.array(p_values, dtype=np.float64)
    defined = np.flatnonzero(~np.isnan(corrected))
    order = defined[np.argsort(corrected[defined], kind="stable")]
    if correction == "bh":
        stepped = corrected[order] * (len(order) / np.arange(1, len(order) + 1))
        corrected[order] = np.minimum(1, np.minimum.accumulate(stepped[::-1])[::-1])
    elif correction == "holm":
        stepped = corrected[order] * np.arange(len(order), 0, -1)
        corrected[order] = np.minimum(1, np.maximum.accumulate(stepped))
    return corrected


def p_value_column(correction: str) -> str:
    """Return the column of a table of differences with the p-values by a correction of `StatisticsOptions`."""
    return "p_value" if correction == "none" else f"p_{correction}"


def fill_corrected_p_values(table: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return a table of differences whose columns `p_holm` and `p_bh` are filled in.

    Args:
        table: column `p_value`.
        by: the columns within whose values p-values are corrected.
    """
    for _, index in table.groupby(list(by), sort=False).groups.items():
        for correction in ("holm", "bh"):
            p_values = correct_p_values(table.loc[index, "p_value"], correction)
            table.loc[index, p_value_column(correction)] = p_values
    return table


def rank_clusters(
    values: Mapping[str, float], p_values: Mapping[frozenset[str], float], alpha: float
) -> dict[str, int]:
    """Return the rank clusters that WMT prints (mt-metrics-eval's definition).

    From the best metric down, a metric that is significantly worse than one of the present rank begins a
    new rank. Metrics that share a rank do not differ significantly.

    Args:
        values: each metric's coefficient; an undefined one has no rank.
        p_values: of every two metrics, two-sided and corrected.
        alpha: the p-value up to which a difference is significant.
    """
    defined = {metric: value for metric, value in values.items() if not np.isnan(value)}
    ordered = sorted(defined, key=lambda metric: -defined[metric])

    def differs(i: int, first: int) -> bool:
        pairs = (frozenset((ordered[i], better)) for better in ordered[first:i])
        return any(p_values[pair] <= alpha for pair in pairs)

    return dict(zip(ordered, cluster_ranks(len(ordered), differs), strict=True))


def cluster_ranks(n: int, differs: Callable[[int, int], bool]) -> list[int]:
    """Return the ranks of `rank_clusters` for metrics or systems numbered from the best down.

    Args:
        n: their number.
        differs: called with `i` and `first`: whether `i` differs significantly from one of those from `first` to
            before `i`.
    """
    ranks: list[int] = []
    first = 0
    for i in range(n):
        if differs(i, first):
            first = i
        ranks.append(ranks[-1] + (first == i) if ranks else 1)
    return ranks
