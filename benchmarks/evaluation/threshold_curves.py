"""Precision and recall of filtering captions by a metric, threshold by threshold.

Levinboim et al. 2021, section 6.2: a caption is served where its score is above a threshold; precision
is the share of good ones among those served, recall the share of the good ones that are served
(equations 2 and 3). `captau thresholds` and the charts of reports call `good_captions` and `metric_curve`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...datasets.errors import InputError
from ...datasets.schema import Scale
from ...metrics.base import Floats

Row = dict[str, Any]


@dataclass(frozen=True)
class ThresholdCurve:
    """Precision and recall by threshold: captions with a score of at least the threshold are served.

    Attributes:
        thresholds: the distinct scores, in descending order, shape (n,).
        precision, recall: shape (n,).
        n_served: the number of captions served, shape (n,).
    """

    thresholds: Floats
    precision: Floats
    recall: Floats
    n_served: Floats

    @classmethod
    def of(cls, scores: Floats, is_good: Floats) -> ThresholdCurve:
        """Compute the curve of finite scores.

        Args:
            scores: shape (n,), finite; more is better.
            is_good: shape (n,), 1 where the caption is good and 0 elsewhere; one good one at least.
        """
        order = np.argsort(-scores, kind="stable")
        ranked = scores[order]
        last = np.flatnonzero(np.append(np.diff(ranked) != 0, True))  # equal scores go together
        hits = np.cumsum(is_good[order])[last]
        n_served = (last + 1).astype(np.float64)
        return cls(ranked[last], hits / n_served, hits / is_good.sum(), n_served)

    @property
    def auc(self) -> float:
        """Σ (Rₙ - Rₙ₋₁) Pₙ, the area under the curve in steps (average precision)."""
        return float(np.diff(self.recall, prepend=0.0) @ self.precision)

    def recall_at(self, precision: float) -> tuple[float, float]:
        """Return the greatest recall at this precision or better, and its threshold.

        Both are NaN where no threshold reaches the precision.
        """
        reached = np.flatnonzero(self.precision >= precision)
        if not reached.size:
            return float("nan"), float("nan")
        return float(self.recall[reached[-1]]), float(self.thresholds[reached[-1]])

    def rows(self, n_items: int) -> list[Row]:
        """Return a row a threshold, columns as in `thresholds.csv`."""
        columns = zip(self.thresholds, self.precision, self.recall, self.n_served, strict=True)
        return [
            {"threshold": t, "precision": p, "recall": r, "n_kept": int(n), "n_items": n_items}
            for t, p, r, n in columns
        ]


def good_captions(
    ratings: pd.DataFrame, dimension: str, scale: Scale, least_share: float, dataset: str
) -> pd.Series:
    """Return by item id 1 where most of its ratings reach a share of the scale, else 0.

    Args:
        ratings: columns `item_id, dimension, value`.
        dimension, scale: the ratings that count, and their scale.
        least_share: of the scale, from 0 to 1.
        dataset: for the error message.

    Raises:
        InputError: where all are good, or none is.
    """
    ratings = ratings[ratings["dimension"] == dimension]
    is_high = scale.share(ratings["value"]) >= least_share - 1e-9
    share = is_high.groupby(ratings["item_id"], sort=False).mean()
    is_good = (share > 0.5).astype(float)
    if is_good.nunique() < 2:
        subject = "every caption is" if is_good.all() else "no caption is"
        raise InputError(
            f"dataset {dataset}, {dimension}: {subject} good at good={least_share:g} of the scale "
            f"{scale}; set good= between 0 and 1 to another share of it"
        )
    return is_good


def metric_curve(
    scores: Floats, is_good: pd.Series, wanted_precision: float
) -> tuple[list[Row], Row]:
    """Return the rows of a metric's curve, and its row in `recall.csv`, both without names.

    Args:
        scores: shape (n_items,).
        is_good: as `good_captions` returns it, in the same order.
        wanted_precision: the precision at which the recall is reported.
    """
    n_items = len(is_good)
    counts = {"n_good": int(is_good.sum()), "n_items": n_items}
    if n_undefined := int((~np.isfinite(scores)).sum()):
        undefined = {"auc": np.nan, "recall": np.nan, "threshold": np.nan}
        note = f"undefined: {n_undefined} of {n_items} captions have no finite score"
        return [], {**undefined, "wanted_precision": wanted_precision, **counts, "note": note}
    curve = ThresholdCurve.of(scores, is_good.to_numpy(dtype=np.float64))
    recall, threshold = curve.recall_at(wanted_precision)
    return curve.rows(n_items), {
        "auc": curve.auc,
        "wanted_precision": wanted_precision,
        "recall": recall,
        "threshold": threshold,
        **counts,
        "note": "no threshold reaches the wanted precision" if np.isnan(recall) else "",
    }


def calibrated_filter(scores: Floats, is_good: pd.Series, threshold: float) -> Row:
    """Return what a threshold that a rater's calibration names gives on these captions.

    Args:
        scores: shape (n_items,).
        is_good: as `good_captions` returns it, in the same order.
        threshold: captions of this score or more are served; NaN where there is none.

    Returns:
        The last three columns of `recall.csv`; precision is NaN where no caption is served.
    """
    goods = is_good.to_numpy(dtype=np.float64)
    is_served = scores >= threshold
    has_threshold = not np.isnan(threshold)
    return {
        "calibrated_threshold": threshold,
        "calibrated_precision": goods[is_served].mean() if is_served.any() else np.nan,
        "calibrated_recall": goods[is_served].sum() / goods.sum() if has_threshold else np.nan,
    }
