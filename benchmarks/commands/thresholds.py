"""`captau thresholds`: the captions that remain, and the good ones among them, when a metric filters captions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..evaluation.prepared_datasets import PreparedDataset, prepare_datasets
from ..evaluation.threshold_curves import (
    curve_names,
    describe_good,
    mark_good_captions,
    metric_curve,
)
from ..evaluation.wording import copies_note, join_notes
from ..options.analyses import ThresholdsOptions
from ..options.python_function import make_function
from ..reporting.charts.score_charts import threshold_figure
from ..reporting.run_results import Results
from ..runs.frames import make_frame, mean_of, records_of
from ..runs.progress_bar import StepProgress
from ..runs.results import RunClock
from ..runs.tables import ResultTable, Row, number_cell
from ..scoring.catalog import metric_labels
from ..scoring.unavailable_metrics import warn_unavailable

THRESHOLD_COLUMNS = (
    "dataset",
    "protocol",
    "dimension",
    "metric",
    "threshold",
    "precision",
    "recall",
    "n_kept",
    "n_items",
)
RECALL_COLUMNS = (
    "dataset",
    "protocol",
    "dimension",
    "metric",
    "auc",
    "wanted_precision",
    "recall",
    "threshold",
    "n_good",
    "n_items",
    "note",
)


def run(options: ThresholdsOptions) -> Results:
    """Compute each metric's precision and recall by threshold.

    Returns:
        `thresholds.csv`, the curves, and `recall.csv`, a row a metric.

    Raises:
        InputError: on an unknown name, missing or malformed data, or a dataset without ratings, or
            with good captions alone, or none.
    """
    clock = RunClock()
    curve_rows: list[dict[str, Any]] = []
    recall_rows: list[dict[str, Any]] = []
    with StepProgress(None) as progress:
        prepared_datasets = prepare_datasets(
            options.datasets, options.metrics, options.locations, progress
        )
        for prepared in prepared_datasets:
            scores = prepared.scores()
            for name in curve_names(options.good, prepared.selection.protocol.dimension):
                curves, recalls = _curves(prepared, scores, name, options)
                curve_rows += curves
                recall_rows += recalls

    labels = metric_labels(options.metrics)
    curves = make_frame(curve_rows, THRESHOLD_COLUMNS)
    recalls = make_frame(recall_rows, RECALL_COLUMNS)
    warn_unavailable([s.missing for s in prepared_datasets])

    measures = "how well metrics filter captions"
    record = prepared_datasets.record("thresholds", options.configuration, measures, clock)
    tables = _tables(recalls, labels, options, prepared_datasets)
    figure = threshold_figure(curves, recalls, labels)
    of_first_metric = recalls[recalls["metric"] == options.metrics[0].spec]
    return Results(
        {"thresholds.csv": curves, "recall.csv": recalls},
        record,
        tables=tables,
        figures=figure,
        objective=mean_of(of_first_metric["auc"]),
    )


def _curves(
    prepared: PreparedDataset,
    scores: Mapping[str, pd.Series],
    name: str,
    options: ThresholdsOptions,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rows of `thresholds.csv` and of `recall.csv` under one of `curve_names`."""
    selection = prepared.selection
    card = selection.caption_set.card
    is_good = mark_good_captions(
        selection.ratings,
        name,
        scales=card.scales,
        good=options.good,
        dataset=prepared.name,
        faults=card.faults,
    )

    curves: list[dict[str, Any]] = []
    recalls: list[dict[str, Any]] = []
    for metric, by_item in scores.items():
        names = selection.row_names(name) | {"metric": metric}
        column = by_item.loc[is_good.index].to_numpy(dtype=np.float64)
        rows, recall = metric_curve(column, is_good, options.precision)
        curves += [{**names, **row} for row in rows]

        note = join_notes(recall["note"], prepared.caveats.get(metric, ""))
        recalls.append({**names, **recall, "note": note})

    return curves, recalls


def _tables(
    recalls: pd.DataFrame,
    labels: Mapping[str, str],
    options: ThresholdsOptions,
    prepared_datasets: Sequence[PreparedDataset],
) -> list[ResultTable]:
    """Return a table a dataset and dimension."""
    selections = {prepared.name: prepared.selection for prepared in prepared_datasets}
    tables: list[ResultTable] = []
    columns = ["AUC", f"recall at precision {options.precision:g}", "threshold"]
    for (dataset, dimension), part in recalls.groupby(["dataset", "dimension"], sort=False):
        rows: list[Row] = []
        for row in part.to_dict("records"):
            # Downwards: the caption whose score the threshold is must stay above what is printed.
            threshold = np.floor(row["threshold"] * 1e4) / 1e4
            cells = [number_cell(row["auc"], 100, 1), number_cell(row["recall"], 100, 1)]
            cells.append(number_cell(float(threshold), 1, 4))
            rows.append(Row(labels[row["metric"]], cells))

        # The counts are the same in each row of a dataset and dimension.
        first = part.iloc[0]
        selection = selections[str(dataset)]
        definition = describe_good(
            options.good,
            first["n_good"],
            first["n_items"],
            scale=selection.caption_set.card.scales.get(str(dimension)),
            is_fault=dimension in selection.caption_set.card.faults,
        )
        chance = number_cell(first["n_good"] / first["n_items"], 100, 1)
        notes = [
            f"AUC and recall ×100; AUC is the area under precision over recall, {chance} where scores say nothing. "
            f"{definition} Captions with a score of at least the threshold are kept."
        ]
        for row in records_of(part):
            if row["note"]:
                notes.append(f"{labels[row['metric']]}: {row['note']}.")
        if note := copies_note(selection):
            notes.append(note)

        title = f"{dataset}, {dimension}: filtering captions"
        tables.append(ResultTable(title, "metric", columns, rows, notes=notes))

    return tables


thresholds = make_function(
    "thresholds",
    ThresholdsOptions,
    run,
    summary="Compute each metric's precision and recall by threshold",
    returns="`Results`, whose `frames` have `thresholds.csv`, the curves, and `recall.csv`, a row a metric.",
    raises="as in `captau.bench`, or on a dataset without ratings, or with good captions alone, or none.",
)
