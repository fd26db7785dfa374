"""The part of a metric's agreement on preferences that is length's: its accuracy on pairs whose captions are about equally long.

`captau bench` writes it as `length.csv`. Pairs of like length are the first of the bands of `length_bands`, about the quarter
of the pairs whose captions differ least in their number of words; `captau sensitivity kind=length` has all bands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...datasets.errors import LackingError
from ..runs.frames import make_frame, records_of
from ..runs.tables import ResultTable, Row, number_cells
from ..statistics.bootstrap import StatisticsOptions
from ..statistics.preferences import MEAN_DIMENSION
from .judge_audit import PairLengths
from .judged_pairs import FLOORS, count_words
from .length_bands import BandAccuracy, compute_band_accuracies
from .measured_dataset import MeasuredDataset

#: `value` is the accuracy on all pairs, `like_length` on those of like length with its interval; `longer` is the share of the
#: pairs of all dimensions in which the metric prefers the caption with more words.
LENGTH_COLUMNS = (
    "dataset",
    "dimension",
    "metric",
    "value",
    "like_length",
    "ci_low",
    "ci_high",
    "longer",
    "note",
)
LENGTH = "floor_length"


@dataclass(frozen=True)
class LikeLength:
    """Metrics' accuracies on pairs of like length.

    Attributes:
        rows: columns `LENGTH_COLUMNS`.
        table: the same of the dimension that is the headline, as it is printed.
    """

    rows: pd.DataFrame
    table: ResultTable


def measure_like_length(
    measured: MeasuredDataset, labels: Mapping[str, str], statistics: StatisticsOptions
) -> LikeLength | None:
    """Measure metrics on pairs of like length.

    Args:
        measured: a dataset; it may have no preferences.
        labels: the metrics' names.
        statistics: the draws and level of intervals.

    Returns:
        None of a dataset without preferences, or whose pairs all differ equally in length.
    """
    selection = measured.selection
    if not selection.uses_preferences or selection.judged_pairs.frame.empty:
        return None

    scores = measured.scored.oriented
    try:
        accuracies = list(_like_length_accuracies(measured, statistics))
    except LackingError:
        return None

    lengths = PairLengths.of_selection(selection)
    longer: dict[str, float] = {}
    for metric, by_item in {**scores, LENGTH: count_words(selection.items)}.items():
        longer[metric] = float(lengths.audit(by_item)["value"].iloc[0])

    correlations = measured.correlations
    is_accuracy = correlations["coefficient"] == "accuracy"
    values = correlations[is_accuracy].set_index(["dimension", "metric"])["value"].to_dict()
    tails = [(1 - statistics.level) / 2, (1 + statistics.level) / 2]
    rows: list[dict[str, Any]] = []
    for accuracy in accuracies:
        has_interval = statistics.uses_resampling and not np.isnan(accuracy.drawn).any()
        low, high = np.quantile(accuracy.drawn, tails) if has_interval else (np.nan, np.nan)
        row = {
            "dataset": selection.name,
            "dimension": accuracy.dimension,
            "metric": accuracy.metric,
            "value": values.get((accuracy.dimension, accuracy.metric), np.nan),
            "like_length": accuracy.value,
            "ci_low": low,
            "ci_high": high,
            "longer": longer[accuracy.metric],
            "note": accuracy.note,
        }
        rows.append(row)

    frame = make_frame(rows, LENGTH_COLUMNS)
    return LikeLength(frame, _table(measured, frame, labels, statistics))


def _like_length_accuracies(
    measured: MeasuredDataset, statistics: StatisticsOptions
) -> Iterator[BandAccuracy]:
    """Yield the accuracies of the first band alone."""
    n_draws = statistics.replicates if statistics.uses_resampling else 1
    first = None
    for accuracy in compute_band_accuracies(
        measured.selection, measured.scored.oriented, n_draws, statistics.seed
    ):
        first = first or accuracy.band
        if accuracy.band is not first:
            return
        yield accuracy


def _table(
    measured: MeasuredDataset,
    frame: pd.DataFrame,
    labels: Mapping[str, str],
    statistics: StatisticsOptions,
) -> ResultTable:
    """Return the printed table, of the mean of the dimensions where there are several."""
    dimensions = list(dict.fromkeys(frame["dimension"]))
    dimension = MEAN_DIMENSION if MEAN_DIMENSION in dimensions else dimensions[0]
    printed = frame[frame["dimension"] == dimension]

    rows: list[Row] = []
    for row in records_of(printed):
        names = ("value", "like_length", "ci_low", "ci_high", "longer")
        cells = number_cells((row[name] for name in names), 100, 1)
        label = {**FLOORS, **labels}[str(row["metric"])]
        rows.append(Row(label, cells, spec=row["metric"]))

    band = str(printed["note"].iloc[0])
    level = f"{100 * statistics.level:g} %"
    notes = [
        f"Accuracies and shares ×100. like length: of the pairs whose captions differ least ({band}), where length helps "
        f"least; low, high: its {level} interval (percentile bootstrap over their images).",
        "prefers longer: the share of pairs in which the metric prefers the caption with more words. The row of the longer "
        "caption is what length alone gives.",
    ]
    return ResultTable(
        f"{measured.caption_set.card.title}: accuracy on pairs of like length",
        "metric",
        ["all pairs", "like length", "low", "high", "prefers longer"],
        rows,
        notes=notes,
        is_detail=True,
    )
