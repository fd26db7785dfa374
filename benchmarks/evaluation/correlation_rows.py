"""Rows of `correlations.csv`: each metric's coefficients with ratings and preferences, and what people reach.

Among them is the agreement between the words that metrics blame and those that people mark. There a word is a data
point, what people mark counts as -1 and blame lowers a word's score, as with every fault; images are resampled with
all of their words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from ...metrics.base import Floats
from ..runs.results import PEOPLE_SOURCE, make_disattenuated
from ..statistics.bootstrap import StatisticsOptions
from ..statistics.coefficients.accuracy import Accuracy
from ..statistics.coefficients.coefficient import (
    CoefficientValue,
    PreferenceCoefficient,
    correlate,
    find_coefficient,
)
from ..statistics.disattenuation import Disattenuation, disattenuate
from ..statistics.intervals import ExtraRow
from ..statistics.panels import Panel, RatingPanel, make_rating_panel
from ..statistics.preferences import MEAN_DIMENSION
from ..statistics.rating_table import CEILINGS, RatingTable, compute_ceilings
from ..statistics.remarks import Note, Remark, Undefined, remark
from .evaluation_set import EvaluationSet
from .judged_pairs import both_orders
from .wording import join_notes

Row = dict[str, Any]
#: How people stand in for metrics on preferences.
PAIR_CEILING_NOTES = {
    "ceiling_one_vs_one": Note.OTHER_RATERS,
    "ceiling_oracle": Note.MEAN_STRENGTH,
}


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
    """
    rows: list[Row] = []
    for dimension in selection.protocol.dimension:
        points = selection.points(dimension)
        rated = selection.data_points(scores, points)

        dropped: list[Remark] = []
        # Metrics with unlike gaps are correlated on unlike points, which each row has to say.
        if rated.n_dropped:
            counts = {"n_dropped": rated.n_dropped, "n_points": len(points)}
            dropped.append(remark(Note.DROPPED_POINTS, **counts))

        for coefficient in selection.measured_coefficients:
            correlation = rated.correlate(selection.protocol, coefficient).with_remarks(*dropped)
            row = _row(
                dimension,
                coefficient,
                correlation,
                n_items=rated.n_items,
                n_ratings=len(rated.scores),
            )
            rows.append(row)

    if selection.uses_preferences:
        rows += _preference_rows(selection, selection.judged_pairs.differences(scores))

    if selection.graded_coefficients:
        rows += _graded_rows(selection, scores)

    return _complete(rows, selection, metric, note)


def pair_floor_rows(
    selection: EvaluationSet, floor: str, differences: Floats, note: str
) -> list[Row]:
    """Return the rows of a floor of preferences.

    Args:
        differences: as `JudgedPairs.floors` returns them.
    """
    return _complete(_preference_rows(selection, differences), selection, floor, note)


def pair_ceiling_rows(selection: EvaluationSet) -> list[Row]:
    """Return the accuracy that people reach on each dimension of preferences, and the mean of the dimensions."""
    judged = selection.judged_pairs
    rows: list[Row] = []

    for ceiling, outcomes in selection.pair_ceilings.items():
        of_ceiling: list[Row] = []
        for number, dimension in enumerate(judged.dimensions):
            is_own = judged.dimension == number
            counted = outcomes.is_counted & is_own

            if counted.any():
                share = float(outcomes.values[counted].mean())
                result = CoefficientValue(share, remarks=(remark(PAIR_CEILING_NOTES[ceiling]),))
            else:
                result = CoefficientValue.undefined(remark(Undefined.NO_SECOND_RATING))

            of_ceiling.append(_pair_row(dimension, Accuracy.name, result, judged.frame[counted]))

        mean = _mean_accuracy({row["dimension"]: row["value"] for row in of_ceiling})
        counted_pairs = judged.frame[outcomes.is_counted]
        of_ceiling.append(_pair_row(MEAN_DIMENSION, Accuracy.name, mean, counted_pairs))
        rows += _complete(of_ceiling, selection, ceiling, "")

    return rows


def _complete(rows: list[Row], selection: EvaluationSet, metric: str, note: str) -> list[Row]:
    names = _names(selection, metric)
    completed: list[Row] = []
    for row in rows:
        completed.append({**names, **row, "note": join_notes(row["note"], note)})

    return completed


def _graded_rows(selection: EvaluationSet, scores: pd.Series) -> list[Row]:
    """Return coefficients of graded preferences, ties among them, with the differences of scores."""
    answers = selection.all_pairs
    differences = answers.differences(scores)
    if selection.protocol.undefined == "drop":
        is_gap = np.isnan(differences)
        answers = answers.without(is_gap)
        differences = differences[~is_gap]

    rows: list[Row] = []
    for dimension in answers.graded_dimensions:
        pairs = answers.frame[answers.frame["dimension"] == dimension]
        x = both_orders(differences[pairs.index])
        y = both_orders(answers.strengths[pairs.index])

        for name in selection.graded_coefficients:
            # Points that stand there twice have no p-value.
            coefficient = replace(correlate(x, y, name), p_value=float("nan"))
            coefficient = coefficient.with_remarks(remark(Note.BOTH_ORDERS))
            rows.append(_pair_row(dimension, name, coefficient, pairs))

    return rows


def _preference_rows(selection: EvaluationSet, differences: Floats) -> list[Row]:
    """Return each coefficient on each dimension of preferences, and on the mean of the dimensions."""
    coefficients = map(find_coefficient, selection.preference_coefficients)
    rows: list[Row] = []
    for coefficient in coefficients:
        if isinstance(coefficient, PreferenceCoefficient):
            rows += _rows_of_preferences(selection, differences, coefficient)

    return rows


def _rows_of_preferences(
    selection: EvaluationSet, differences: Floats, coefficient: PreferenceCoefficient
) -> list[Row]:
    """Return a coefficient on each dimension of preferences, and the mean of the dimensions."""
    everything = selection.judged_pairs
    judged = everything
    if selection.protocol.undefined == "drop":
        is_gap = np.isnan(differences)
        judged = judged.without(is_gap)
        differences = differences[~is_gap]

    rows: list[Row] = []
    # An empty part first, as pandas joins no empty list.
    counted: list[pd.DataFrame] = [judged.frame.iloc[:0]]

    for number, outcomes in enumerate(judged.outcomes(differences)):
        dimension = judged.dimensions[number]
        is_own = judged.dimension == number
        images = judged.image[is_own]
        accuracy = coefficient.value(outcomes, judged.ties, images)
        if n_tied := judged.n_tied[dimension]:
            accuracy = accuracy.with_remarks(remark(Note.TIED_PAIRS, n_pairs=n_tied))

        # A pair that `undefined=drop` took away is missing from `judged`, but not from `everything`.
        n_pairs = int((everything.dimension == number).sum())
        if n_dropped := n_pairs - len(outcomes.values):
            counts = {"n_dropped": n_dropped, "n_pairs": n_pairs}
            accuracy = accuracy.with_remarks(remark(Note.DROPPED_PAIRS, **counts))

        counted_pairs = judged.frame[is_own][outcomes.is_counted]
        counted.append(counted_pairs)
        rows.append(_pair_row(dimension, coefficient.name, accuracy, counted_pairs))

    mean = _mean_accuracy({row["dimension"]: row["value"] for row in rows})
    return [*rows, _pair_row(MEAN_DIMENSION, coefficient.name, mean, pd.concat(counted))]


def _pair_row(
    dimension: str, coefficient: str, result: CoefficientValue, pairs: pd.DataFrame
) -> Row:
    n_items = pd.concat([pairs["item_a"], pairs["item_b"]]).nunique()
    return _row(dimension, coefficient, result, n_items, len(pairs))


def _mean_accuracy(by_dimension: Mapping[str, float]) -> CoefficientValue:
    undefined: list[str] = []
    for dimension, value in by_dimension.items():
        if np.isnan(value):
            undefined.append(dimension)
    # A mean over the others would be of another set of dimensions than that of the next metric.
    if undefined:
        reason = remark(Undefined.UNDEFINED_DIMENSIONS, dimensions=", ".join(undefined))
        return CoefficientValue.undefined(reason)

    if not by_dimension:
        return CoefficientValue.undefined(remark(Undefined.NO_PREFERENCES))

    mean = float(np.mean(list(by_dimension.values())))
    return CoefficientValue(mean, remarks=(remark(Note.MEAN_OF_DIMENSIONS),))


def ceiling_rows(selection: EvaluationSet) -> Ceilings:
    """Compute the agreement of people with people, where items have two ratings or more.

    Only where each rating is a data point: a metric that meets an item's mean rating has an
    easier task, and may well pass a person who meets single ratings.
    """
    protocol = selection.protocol
    coefficients = selection.rating_coefficients
    item_ids = selection.items["item_id"]

    by_dimension: dict[str, RatingTable] = {}
    for dimension in protocol.dimension:
        table = RatingTable.from_ratings(selection.ratings, item_ids, dimension)
        if table.n_items:
            by_dimension[dimension] = table

    if not by_dimension or not coefficients:
        return Ceilings([], {})
    if protocol.ratings != "per_rating":
        reason = "What people reach needs single ratings: protocol.ratings=per_rating."
        return Ceilings([], {}, reason)
    if protocol.level != "pooled":
        reason = "What people reach needs all ratings together: protocol.level=pooled."
        return Ceilings([], {}, reason)

    rows: list[Row] = []
    draws: dict[str, list[ExtraRow]] = {}
    for dimension, table in by_dimension.items():
        for coefficient in coefficients:
            for name, ceiling in compute_ceilings(table, coefficient).items():
                if not np.isnan(ceiling.value):
                    extra = ExtraRow((name, dimension, coefficient), ceiling.points)
                    draws.setdefault(dimension, []).append(extra)

                value = CoefficientValue(ceiling.value, remarks=ceiling.remarks)
                row = _row(dimension, coefficient, value, ceiling.n_items, ceiling.n_ratings)
                rows.append(_names(selection, name) | row)

    ceilings = list(CEILINGS)
    # All rows of one ceiling together, as those of a metric stand.
    rows.sort(key=lambda row: ceilings.index(row["metric"]))
    return Ceilings(rows, draws)


def _names(selection: EvaluationSet, metric: str) -> Row:
    return {"dataset": selection.name, "protocol": selection.protocol.name, "metric": metric}


def _row(
    dimension: str, coefficient: str, correlation: CoefficientValue, n_items: int, n_ratings: int
) -> Row:
    return {
        "dimension": dimension,
        "coefficient": coefficient,
        "value": correlation.value,
        "n_items": n_items,
        "n_ratings": n_ratings,
        "p_value": correlation.p_value,
        "note": correlation.note,
    }


#: By metric, an array for each of the selection's items: a number for each of its words.
BlameByMetric = Mapping[str, Sequence[Floats]]


def word_dimension(dimension: str) -> str:
    """Return the name under which the words of a dimension stand in results."""
    return f"{dimension} of words"


def build_word_panels(selection: EvaluationSet, blame: BlameByMetric) -> list[RatingPanel]:
    """Join metrics' blame to the words that people marked, dimension by dimension."""
    if not blame:
        return []

    items = selection.items
    places = pd.Index(items["item_id"])
    panels: list[RatingPanel] = []

    for dimension, words in selection.words.groupby("dimension", sort=False):
        item_places = places.get_indexer(pd.Index(words["item_id"])).tolist()
        positions = words["position"].to_numpy(dtype=np.int64)
        # A word is an item of its own here, and a marked one a fault.
        word_ids = [str(number) for number in range(len(words))]
        marks = pd.DataFrame({"item_id": word_ids, "value": 0.0 - words["value"].to_numpy(float)})

        scores: dict[str, Floats] = {}
        for metric, item_blame in blame.items():
            word_places = zip(item_places, positions, strict=True)
            blamed = [-item_blame[item][position] for item, position in word_places]
            scores[metric] = np.array(blamed)

        panel = make_rating_panel(
            items=items.iloc[item_places].assign(item_id=word_ids),
            points=marks,
            scores=scores,
            dimension=word_dimension(str(dimension)),
            coefficients=selection.detection_coefficients,
            drop=False,
        )
        panels.append(panel)

    return panels


def word_rows(
    selection: EvaluationSet, panels: Sequence[RatingPanel], notes: Mapping[str, str]
) -> list[Row]:
    """Return each metric's coefficients on marked words.

    Args:
        selection: the items.
        panels: as `build_word_panels` makes them.
        notes: added to each row's own, by metric.
    """
    n_items = selection.words.groupby("dimension", sort=False)["item_id"].nunique()
    n_items.index = n_items.index.map(word_dimension)

    rows: list[Row] = []
    for panel in panels:
        for metric, scores in panel.scores.items():
            of_metric: list[Row] = []
            for coefficient in panel.coefficients:
                row = _row(
                    panel.dimension,
                    coefficient,
                    correlate(scores, panel.ratings, coefficient),
                    n_items=int(n_items[panel.dimension]),
                    n_ratings=len(scores),
                )
                of_metric.append(row)
            rows += _complete(of_metric, selection, metric, notes.get(metric, ""))

    return rows


def blamed_words(selection: EvaluationSet, blame: BlameByMetric) -> list[pd.DataFrame]:
    """Return the marked words, and those of each metric that blames words; columns `results.BLAME_COLUMNS`."""
    names = {"dataset": selection.name}
    parts: list[pd.DataFrame] = []
    if len(selection.words):
        parts.append(selection.words.assign(source=PEOPLE_SOURCE, **names))

    if not blame:
        return parts

    items = selection.items
    captions = [caption.split() for caption in items["caption"].tolist()]
    counts = [len(words) for words in captions]
    positions = [np.arange(count) for count in counts]
    all_words = list(chain.from_iterable(captions))
    for metric, item_blame in blame.items():
        columns = {
            **names,
            "item_id": np.repeat(items["item_id"].to_numpy(dtype=object), counts),
            "position": np.concatenate(positions),
            "word": all_words,
            "source": metric,
            "value": np.concatenate(item_blame),
        }
        parts.append(pd.DataFrame(columns))

    return parts


def disattenuated_rows(
    selection: EvaluationSet, panels: Sequence[Panel], statistics: StatisticsOptions
) -> pd.DataFrame:
    """Correct Pearson's r for the ratings' noise; columns `DISATTENUATED_COLUMNS`."""
    item_ids = selection.items["item_id"]
    corrections: list[Disattenuation] = []
    for panel in panels:
        if isinstance(panel, RatingPanel):
            table = RatingTable.from_ratings(selection.ratings, item_ids, panel.dimension)
            corrections += disattenuate(panel, table, selection.protocol.ratings, statistics)

    return make_disattenuated(selection.name, selection.protocol.name, corrections)
