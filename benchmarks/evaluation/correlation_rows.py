"""Rows of `correlations.csv`: each metric's coefficients with ratings and preferences, and people's ceilings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..statistics.coefficients import Coefficient, preference_accuracy
from ..statistics.intervals import ExtraRow
from ..statistics.preferences import MEAN_DIMENSION
from ..statistics.rating_table import RatingTable
from ..statistics.remarks import Note, Remark, Undefined, remark
from ..statistics.virtual_raters import CEILINGS, compute_ceilings
from .evaluation_set import EvaluationSet
from .wording import join_notes

Row = dict[str, Any]


@dataclass(frozen=True)
class Ceilings:
    """The agreement that people reach as if they were metrics.

    Attributes:
        rows: one a ceiling, dimension and coefficient, sorted by ceiling.
        draws: by dimension, the points whose intervals are bootstrapped beside the metrics'.
        remark: the reason why there are no rows; empty where there are, or nothing is rated twice.
    """

    rows: list[Row]
    draws: dict[str, list[ExtraRow]]
    remark: str = ""


def metric_rows(selection: EvaluationSet, metric: str, scores: pd.Series, note: str) -> list[Row]:
    """Correlate one metric's scores with ratings and preferences.

    Args:
        selection: the items.
        metric: the metric's name in the rows.
        scores: by item id, more is better.
        note: added to each row's own.

    Raises:
        InputError: where the protocol leaves nothing to correlate with.
    """
    rows: list[Row] = []
    for dimension in selection.protocol.dimension:
        points = selection.points(dimension)
        rated = selection.data_points(scores, points)
        dropped: list[Remark] = []
        if rated.n_dropped:
            counts = {"n_dropped": rated.n_dropped, "n_points": len(points)}
            dropped.append(remark(Note.DROPPED_POINTS, **counts))
        for coefficient in selection.rating_coefficients:
            correlation = rated.correlate(selection.protocol, coefficient)
            cells = _cells(correlation.with_remarks(*dropped), rated.n_items, len(rated.scores))
            rows.append({"dimension": dimension, "coefficient": coefficient, **cells})
    if selection.uses_preferences:
        rows += _accuracy_rows(selection, scores)
    if not rows:
        selection.require_ratings(
            "it has preferences and no ratings; set protocol.coefficients=[accuracy]"
        )
    names = _names(selection, metric)
    return [{**names, **row, "note": join_notes(row["note"], note)} for row in rows]


def _accuracy_rows(selection: EvaluationSet, scores: pd.Series) -> list[Row]:
    """Return the accuracy on each dimension of preferences, and the mean of the dimensions."""
    preferences = selection.preferences
    is_tie = preferences["winner"] == "tie"
    undefined_ids = scores.index[scores.isna()]
    is_gap = preferences[["item_a", "item_b"]].isin(undefined_ids).any(axis=1)
    left_out = is_tie | is_gap if selection.protocol.undefined == "drop" else is_tie
    rows: list[Row] = []
    for dimension in dict.fromkeys(preferences["dimension"]):
        in_dimension = preferences["dimension"] == dimension
        pairs = preferences[in_dimension & ~left_out]
        n_decided = int((in_dimension & ~is_tie).sum())
        n_ties, n_dropped = int((in_dimension & is_tie).sum()), n_decided - len(pairs)
        accuracy = preference_accuracy(scores, pairs)
        if n_ties:
            accuracy = accuracy.with_remarks(remark(Note.TIED_PAIRS, n_pairs=n_ties))
        if n_dropped:
            counts = {"n_dropped": n_dropped, "n_pairs": n_decided}
            accuracy = accuracy.with_remarks(remark(Note.DROPPED_PAIRS, **counts))
        rows.append(_accuracy_row(dimension, accuracy, pairs))
    mean = _mean_accuracy({row["dimension"]: row["value"] for row in rows})
    return [*rows, _accuracy_row(MEAN_DIMENSION, mean, preferences[~left_out])]


def _accuracy_row(dimension: str, accuracy: Coefficient, pairs: pd.DataFrame) -> Row:
    n_items = pd.concat([pairs["item_a"], pairs["item_b"]]).nunique()
    cells = _cells(accuracy, n_items, len(pairs))
    return {"dimension": dimension, "coefficient": "accuracy", **cells}


def _mean_accuracy(by_dimension: Mapping[str, float]) -> Coefficient:
    undefined = [dimension for dimension, value in by_dimension.items() if np.isnan(value)]
    if undefined:
        dimensions = ", ".join(undefined)
        return Coefficient.undefined(remark(Undefined.UNDEFINED_DIMENSIONS, dimensions=dimensions))
    if not by_dimension:
        return Coefficient.undefined(remark(Undefined.NO_PREFERENCES))
    mean = float(np.mean(list(by_dimension.values())))
    return Coefficient(mean, remarks=(remark(Note.MEAN_OF_DIMENSIONS),))


def ceiling_rows(selection: EvaluationSet) -> Ceilings:
    """Compute the agreement of people with people, where items have two ratings or more.

    Only where each rating is a data point: a metric that meets an item's mean rating has an
    easier task, and may well pass a person who meets single ratings.
    """
    protocol, coefficients = selection.protocol, selection.rating_coefficients
    by_dimension = {
        dimension: table
        for dimension in protocol.dimension
        if (table := _rating_table(selection, dimension)).n_items
    }
    if not by_dimension or not coefficients:
        return Ceilings([], {})
    if protocol.ratings != "per_rating":
        reason = "No ceilings: people meet single ratings, protocol.ratings=per_rating."
        return Ceilings([], {}, reason)
    if protocol.level != "pooled":
        reason = "No ceilings: they are of all ratings together, protocol.level=pooled."
        return Ceilings([], {}, reason)
    rows: list[Row] = []
    draws: dict[str, list[ExtraRow]] = {}
    for dimension, table in by_dimension.items():
        for coefficient in coefficients:
            for name, ceiling in compute_ceilings(table, coefficient).items():
                if not np.isnan(ceiling.value):
                    extra = ExtraRow((name, dimension, coefficient), ceiling.points)
                    draws.setdefault(dimension, []).append(extra)
                value = Coefficient(ceiling.value, remarks=ceiling.remarks)
                rows.append(
                    {
                        **_names(selection, name),
                        "dimension": dimension,
                        "coefficient": coefficient,
                        **_cells(value, ceiling.n_items, ceiling.n_ratings),
                    }
                )
    return Ceilings(sorted(rows, key=lambda row: list(CEILINGS).index(row["metric"])), draws)


def _rating_table(selection: EvaluationSet, dimension: str) -> RatingTable:
    return RatingTable.from_ratings(
        selection.caption_set.ratings, selection.items["item_id"], dimension
    )


def _names(selection: EvaluationSet, metric: str) -> Row:
    return {"dataset": selection.name, "protocol": selection.protocol.name, "metric": metric}


def _cells(correlation: Coefficient, n_items: int, n_ratings: int) -> Row:
    return {
        "value": correlation.value,
        "n_items": n_items,
        "n_ratings": n_ratings,
        "p_value": correlation.p_value,
        "note": correlation.note,
    }
