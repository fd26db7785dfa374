"""Precision and recall of filtering captions by a metric, threshold by threshold.

Levinboim et al. 2021, section 6.2: a caption is served where its score is above a threshold; precision
is the share of good ones among those served, recall the share of the good ones that are served
(equations 2 and 3). `captau thresholds` and the charts of reports call `mark_good_captions` and `metric_curve`;
`captau calibrate` marks good captions alike, and chooses a threshold of the same curve.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ...datasets.errors import InputError, Lack, LackingError, unknown
from ...datasets.schema import Scale
from ...metrics.base import Floats
from ..runs.tables import TableNote

Row = dict[str, Any]

#: What a threshold is chosen for: the greatest TPR + TNR (Youden 1950), the greatest κ, or the greatest recall at a precision.
THRESHOLD_RULES = ("youden", "kappa", "precision")

_COMPARISONS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
_CONDITION = re.compile(
    r"(?P<dimension>.*?\S)\s*(?P<sign>>=|<=|>|<)\s*(?P<number>[-+]?(\d+\.?\d*|\.\d+))"
)


@dataclass(frozen=True)
class Condition:
    """A condition on a rating of one dimension, such as `correct>=2`; `sign` is one of >=, <=, >, <."""

    dimension: str
    sign: str
    number: float

    def __str__(self) -> str:
        return f"{self.dimension}{self.sign}{self.number:g}"

    def compare(self, values: Any) -> Any:
        """Tell of ratings, an array or a column, which meet the condition."""
        return _COMPARISONS[self.sign](values, self.number)


@dataclass(frozen=True)
class Conjunction:
    """Conditions that all have to hold for a good caption, each by a majority of its ratings."""

    conditions: tuple[Condition, ...]

    def __str__(self) -> str:
        return " and ".join(map(str, self.conditions))

    @classmethod
    def parse(cls, text: str, key: str) -> Conjunction:
        """Parse conditions with `and` between them.

        Raises:
            InputError: where one is none, or names no dimension.
        """
        conditions: list[Condition] = []
        for part in re.split(r"\s+and\s+", text.strip()):
            match = _CONDITION.fullmatch(part.strip())
            if match is None:
                raise InputError(
                    f"{key} is '{text}': '{part}' is not a condition on a dimension; a share of the scale, as "
                    f"0.5, or conditions, as 'correct>=1 and helpful>=1', are expected"
                )

            conditions.append(Condition(match["dimension"], match["sign"], float(match["number"])))

        return cls(tuple(conditions))


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
    def compute(cls, scores: Floats, is_good: Floats) -> ThresholdCurve:
        """Compute the curve of finite scores.

        Args:
            scores: shape (n,), finite; more is better.
            is_good: shape (n,), 1 where the caption is good and 0 elsewhere; one good one at least.
        """
        order = np.argsort(-scores, kind="stable")
        ranked = scores[order]
        # Equal scores are served together: a threshold stands at the last of each.
        last = np.flatnonzero(np.append(np.diff(ranked) != 0, True))
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

        # Recall only grows towards lower thresholds, so that the last one has the greatest.
        last = reached[-1]
        return float(self.recall[last]), float(self.thresholds[last])

    @property
    def false_positive_rate(self) -> Floats:
        """The share of the bad captions that are served, which is drawn against recall as the ROC curve, shape (n,)."""
        n_bad_served = np.rint(self.n_served * (1 - self.precision))
        return n_bad_served / n_bad_served[-1]

    def choose(self, rule: str, precision: float) -> float:
        """Return the threshold that a rule of `THRESHOLD_RULES` chooses, the highest of several; NaN where there is none.

        Args:
            rule: what it is chosen for.
            precision: that the rule `precision` asks for.
        """
        if rule == "precision":
            return self.recall_at(precision)[1]

        gain = self.recall - self.false_positive_rate
        if rule == "kappa":
            gain = self._kappa()
        # Gains that differ by rounding alone are equal.
        best = np.flatnonzero(gain >= gain.max() - 1e-12)[0]
        return float(self.thresholds[best])

    def _kappa(self) -> Floats:
        """Return Cohen's κ of being served and being good at each threshold, shape (n,)."""
        n = self.n_served[-1]
        n_good = np.rint(self.n_served * self.precision)
        share_good = n_good[-1] / n
        share_served = self.n_served / n
        observed = (n_good + (n - n_good[-1]) - (self.n_served - n_good)) / n
        expected = share_good * share_served + (1 - share_good) * (1 - share_served)
        return (observed - expected) / (1 - expected)

    def rows(self, n_items: int) -> list[Row]:
        """Return a row a threshold, columns as in `thresholds.csv`."""
        rows: list[Row] = []
        columns = zip(self.thresholds, self.precision, self.recall, self.n_served, strict=True)
        for threshold, precision, recall, n_served in columns:
            row = {
                "threshold": threshold,
                "precision": precision,
                "recall": recall,
                "n_kept": int(n_served),
                "n_items": n_items,
            }
            rows.append(row)

        return rows


def curve_names(good: float | Conjunction, dimensions: Iterable[str]) -> list[str]:
    """Return the names under which a dataset has curves: the dimensions, or a conjunction of several."""
    return [str(good)] if isinstance(good, Conjunction) else list(dimensions)


def mark_good_captions(
    ratings: pd.DataFrame,
    name: str,
    scales: Mapping[str, Scale],
    good: float | Conjunction,
    dataset: str,
    faults: Collection[str] = (),
) -> pd.Series:
    """Return by item id 1 where a caption is good, else 0.

    A caption is good where most of its ratings reach a share of the scale; or, of a conjunction, where
    most of its ratings meet each condition (Ext-Good of Levinboim et al. 2021, section 6.2). Captions
    without a rating of one of its dimensions are left out.

    Args:
        ratings: columns `item_id, dimension, value`.
        name: one of `curve_names`.
        scales: by dimension.
        good: the share, from 0 to 1, or the conjunction.
        dataset: for the error message.
        faults: the dimensions on which more is worse; the share is counted from their upper end.

    Raises:
        InputError: where a condition is on an unknown dimension.
        LackingError: where all are good, or none is.
    """
    if isinstance(good, Conjunction):
        rated = ratings["dimension"].unique()
        for condition in good.conditions:
            if condition.dimension not in rated:
                raise unknown(f"dimension of dataset {dataset} in good", condition.dimension, rated)

        majorities = [_majority(ratings, c.dimension, c.compare) for c in good.conditions]
        is_good = pd.concat(majorities, axis=1, join="inner").all(axis=1).astype(float)
        definition = f"good='{good}'"
        remedy = "set good= to other conditions"
    else:
        scale = scales[name]
        if name in faults:
            scale = replace(scale, low=scale.high, high=scale.low)
        # A share such as 0.7 of a scale is not exact; a rating just on it counts.
        is_good = _majority(ratings, name, lambda values: scale.share(values) >= good - 1e-9)
        definition = f"good={good:g} of the scale {scale}"
        remedy = "set good= between 0 and 1 to another share of it"

    if is_good.nunique() < 2:
        subject = "every caption is" if is_good.all() else "no caption is"
        message = f"dataset {dataset}, {name}: {subject} good at {definition}; {remedy}"
        raise LackingError(Lack.VARIATION, message)

    return is_good.astype(float)


def _majority(
    ratings: pd.DataFrame, dimension: str, condition: Callable[[pd.Series], pd.Series]
) -> pd.Series:
    """Return by item id whether more than half of its ratings of a dimension meet a condition."""
    ratings = ratings[ratings["dimension"] == dimension]
    return condition(ratings["value"]).groupby(ratings["item_id"], sort=False).mean() > 0.5


def describe_good(
    good: float | Conjunction,
    n_good: int,
    n_items: int,
    *,
    scale: Scale | None = None,
    is_fault: bool = False,
) -> TableNote:
    """Say in a sentence how many captions are good, and what that means.

    Args:
        good: the definition.
        n_good, n_items: how many captions are good, and how many are rated.
        scale: of the ratings; None where conditions on several dimensions say what is good.
        is_fault: whether more is worse on the dimension.
    """
    if isinstance(good, Conjunction):
        definition = ", and most are ".join(map(str, good.conditions))
    else:
        assert scale is not None, "a share is one of a scale"
        definition = _describe_share(good, scale, is_fault=is_fault)

    verb = "is" if n_good == 1 else "are"
    return TableNote(
        f"{n_good:,} of {n_items:,} rated captions {verb} good: most of their ratings are {definition}.",
        brief=f"{n_good:,} of {n_items:,} captions {verb} good: most ratings are {definition}.",
    )


def _describe_share(good: float, scale: Scale, *, is_fault: bool) -> str:
    """Say which ratings reach a share of a scale: `at least 3 on the scale from 1 to 5`."""
    worst, best = (scale.high, scale.low) if is_fault else (scale.low, scale.high)
    limit = worst + good * (best - worst)
    if scale.step is not None:
        # Where the limit lies between two grades, the better one is the first that reaches it.
        n_steps = math.ceil(good * (scale.high - scale.low) / scale.step - 1e-9)
        limit = worst + math.copysign(n_steps * scale.step, best - worst)
    word = "at most" if is_fault else "at least"
    return f"{word} {limit:g} on the scale from {scale.low:g} to {scale.high:g}"


def metric_curve(
    scores: Floats, is_good: pd.Series, wanted_precision: float
) -> tuple[list[Row], Row]:
    """Return the rows of a metric's curve, and its row in `recall.csv`, both without names.

    Args:
        scores: shape (n_items,).
        is_good: as `mark_good_captions` returns it, in the same order.
        wanted_precision: the precision at which the recall is reported.
    """
    n_items = len(is_good)
    counts = {"n_good": int(is_good.sum()), "n_items": n_items}
    if n_undefined := int((~np.isfinite(scores)).sum()):
        undefined = {"auc": np.nan, "recall": np.nan, "threshold": np.nan}
        note = f"undefined: {n_undefined} of {n_items} captions have no finite score"
        return [], {**undefined, "wanted_precision": wanted_precision, **counts, "note": note}

    curve = ThresholdCurve.compute(scores, is_good.to_numpy(dtype=np.float64))
    recall, threshold = curve.recall_at(wanted_precision)

    return curve.rows(n_items), {
        "auc": curve.auc,
        "wanted_precision": wanted_precision,
        "recall": recall,
        "threshold": threshold,
        **counts,
        "note": "no threshold reaches the wanted precision" if np.isnan(recall) else "",
    }
