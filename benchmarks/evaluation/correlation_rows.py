"""Rows of `correlations.csv`: each metric's coefficients with ratings and preferences, and people's ceilings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ...metrics.base import Floats
from ..statistics.coefficients import Coefficient, correlate, preference_accuracy
from ..statistics.intervals import ExtraRow
from ..statistics.preferences import MEAN_DIMENSION
from ..statistics.rating_table import RatingTable
from ..statistics.remarks import Note, Remark, Undefined, remark
from ..statistics.virtual_raters import CEILINGS, compute_ceilings
from .evaluation_set import EvaluationSet
from .judged_pairs import GRADED_COEFFICIENTS, JudgedPairs, both_orders
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
    if len(selection.judged_pairs.frame) or selection.uses_preferences:
        rows += _pair_rows(selection, selection.judged_pairs.differences(scores))
    if not rows:
        selection.require_ratings(
            "it has preferences and no ratings; set protocol.coefficients=[accuracy]"
        )
    return _complete(rows, selection, metric, note)


def pair_floor_rows(
    selection: EvaluationSet, floor: str, differences: Floats, note: str
) -> list[Row]:
    """Return the rows of a floor of preferences.

    Args:
        differences: as `JudgedPairs.floors` returns them.
    """
    return _complete(_pair_rows(selection, differences), selection, floor, note)


def _complete(rows: list[Row], selection: EvaluationSet, metric: str, note: str) -> list[Row]:
    names = _names(selection, metric)
    return [{**names, **row, "note": join_notes(row["note"], note)} for row in rows]


def _pair_rows(selection: EvaluationSet, differences: Floats) -> list[Row]:
    """Return the accuracy on each dimension of preferences and their mean, and coefficients of graded ones."""
    judged = selection.judged_pairs
    is_gap = np.isnan(differences)
    if selection.protocol.undefined == "drop":
        judged, differences = judged.without(is_gap), differences[~is_gap]
    rows = _accuracy_rows(selection, judged, differences) if selection.uses_preferences else []
    coefficients = [c for c in selection.rating_coefficients if c in GRADED_COEFFICIENTS]
    for dimension in judged.graded_dimensions if coefficients else ():
        pairs = judged.frame[judged.frame["dimension"] == dimension]
        x = both_orders(differences[pairs.index])
        y = both_orders(judged.strengths[pairs.index])
        for name in coefficients:
            # Points that stand there twice have no p-value.
            coefficient = replace(correlate(x, y, name), p_value=float("nan"))
            coefficient = coefficient.with_remarks(remark(Note.BOTH_ORDERS))
            rows.append(_pair_row(dimension, name, coefficient, pairs))
    return rows


def _accuracy_rows(selection: EvaluationSet, judged: JudgedPairs, differences: Floats) -> list[Row]:
    rows: list[Row] = []
    counted: list[pd.DataFrame] = [judged.frame.iloc[:0]]
    everything = selection.judged_pairs
    for number, outcomes in enumerate(judged.outcomes(differences)):
        dimension = judged.dimensions[number]
        accuracy = preference_accuracy(outcomes, judged.ties)
        if n_tied := judged.n_tied[dimension]:
            accuracy = accuracy.with_remarks(remark(Note.TIED_PAIRS, n_pairs=n_tied))
        n_pairs = int((everything.dimension == number).sum())
        if n_dropped := n_pairs - len(outcomes.values):
            counts = {"n_dropped": n_dropped, "n_pairs": n_pairs}
            accuracy = accuracy.with_remarks(remark(Note.DROPPED_PAIRS, **counts))
        counted.append(judged.frame[judged.dimension == number][outcomes.is_counted])
        rows.append(_pair_row(dimension, "accuracy", accuracy, counted[-1]))
    mean = _mean_accuracy({row["dimension"]: row["value"] for row in rows})
    return [*rows, _pair_row(MEAN_DIMENSION, "accuracy", mean, pd.concat(counted))]


def _pair_row(dimension: str, coefficient: str, result: Coefficient, pairs: pd.DataFrame) -> Row:
    n_items = pd.concat([pairs["item_a"], pairs["item_b"]]).nunique()
    cells = _cells(result, n_items, len(pairs))
    return {"dimension": dimension, "coefficient": coefficient, **cells}


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
