"""Ratings as the choices of a protocol have them: on a scale of each rater's own, and those that a choice leaves out."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ...datasets.errors import Lack, LackingError
from ...datasets.schema import CaptionSet

#: z-scores whose distance is at most this are one value. They have a standard deviation of 1, and are computed to about
#: 1e-15; two different ones of ratings on a scale of levels are much further apart.
Z_TOLERANCE = 1e-9


def merge_near(values: np.ndarray) -> np.ndarray:
    """Replace values that differ by rounding alone by the least of them, so that they are tied; shape (n_values,).

    In ascending order, each value that lies at most `Z_TOLERANCE` above the one before it belongs to that one. Rounding
    to decimals would part two values that lie at both sides of a half.
    """
    distinct, places = np.unique(values, return_inverse=True)
    is_first = np.diff(distinct, prepend=-np.inf) > Z_TOLERANCE
    group_of_distinct = np.cumsum(is_first) - 1
    least_of_group = distinct[is_first]
    merged = least_of_group[group_of_distinct]
    return merged[places]


def scale_by_rater(caption_set: CaptionSet, ratings: pd.DataFrame, scale: str) -> pd.DataFrame:
    """Return ratings on the scale that `rater_scale` names, without those that have no place on it.

    z-scores that are equal but for rounding are one value, so that equal ratings of equally strict raters stay
    tied (`merge_near`).

    Raises:
        LackingError: where z-scores are asked for and the dataset does not say who rated.
    """
    if scale == "none":
        return ratings
    if caption_set.card.anonymous_raters:
        raise LackingError(
            Lack.RATERS,
            f"protocol.rater_scale={scale} needs to know who rated, and its raters are anonymous; set "
            "protocol.rater_scale=none",
            caption_set.name,
        )

    by_rater = ratings.groupby(["dimension", "rater"], sort=False)["value"]
    centred = ratings["value"] - by_rater.transform("mean")
    scores = ratings.assign(value=centred / by_rater.transform("std", ddof=0))
    scores = scores[by_rater.transform("nunique") > 1]
    return scores.assign(value=merge_near(scores["value"].to_numpy(dtype=np.float64)))


@dataclass(frozen=True)
class LeftOutRatings:
    """The ratings that one choice of a protocol left out.

    Attributes:
        reason: why, behind their number.
        ratings: those that were left out, columns `RATING_COLUMNS`.
        among: all that there were before, those included.
    """

    reason: str
    ratings: pd.DataFrame
    among: pd.DataFrame

    def describe(self, dimensions: Collection[str]) -> str:
        """Say how many ratings of some dimensions were left out, and why; empty where none was."""
        n_left_out = int(self.ratings["dimension"].isin(dimensions).sum())
        n_before = int(self.among["dimension"].isin(dimensions).sum())
        if not n_left_out:
            return ""
        return f"{n_left_out:,} of {n_before:,} ratings {self.reason}"


@dataclass(frozen=True)
class ChangedRatings:
    """A dataset's ratings as a protocol has them, and those that its choices left out."""

    ratings: pd.DataFrame
    left_out: tuple[LeftOutRatings, ...]
