"""`captau complement`: metrics that agree with one another, and metrics that add to one another.

Correlations among metrics, correlations with ratings as they are and given a caption's length, what each metric adds to
the others, and forward selection of metrics by how well their linear combination predicts ratings of unseen images, with
bootstrap inclusion frequencies.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from ...datasets.errors import InputError
from ...metrics.base import Floats
from ..evaluation.metric_additions import addition_rows, make_addition_table
from ..evaluation.prepared_datasets import PreparedDataset, prepare_datasets
from ..evaluation.wording import copies_note, distinct_notes, join_notes, notes_by_subject
from ..options.analyses import ComplementOptions
from ..options.python_function import make_function
from ..reporting.run_results import Results
from ..runs.frames import groups_of, make_frame, mean_of, records_of
from ..runs.progress_bar import StepProgress
from ..runs.results import RunClock
from ..runs.tables import MISSING, AnyCell, ResultTable, Row, count_of, number_cell, number_cells
from ..scoring.catalog import metric_labels, metric_style
from ..scoring.unavailable_metrics import warn_unavailable
from ..statistics.bootstrap import number_images
from ..statistics.coefficients.coefficient import (
    CoefficientValue,
    correlate,
    find_coefficient,
    undefined_reason,
)
from ..statistics.distributions import mid_ranks
from ..statistics.metric_selection import FOLDS, CrossValidation, partial_correlation
from ..statistics.remarks import Remark, Undefined, remark

#: The criteria of selection, R² and Kendall's τ_b of predictions and ratings, as titles of tables name them.
CRITERIA = {"r2": "forward selection by R²", "tau_b": "forward selection by τ_b"}

COMPLEMENT_COLUMNS = (
    "dataset",
    "protocol",
    "dimension",
    "kind",
    "criterion",
    "step",
    "metric",
    "other",
    "coefficient",
    "value",
    "n_items",
    "note",
)
#: The name of a caption's number of words among the metrics.
LENGTH = "length"

Record = dict[str, Any]


def run(options: ComplementOptions) -> Results:
    """Compare metrics with one another.

    Returns:
        `complementarity.csv`, columns `COMPLEMENT_COLUMNS`.

    Raises:
        InputError: on an unknown name, missing or malformed data, a single metric, or a dataset
            without ratings.
    """
    clock = RunClock()
    if len(options.metrics) < 2:
        raise InputError("captau complement compares metrics; name two at least")

    rows: list[Record] = []
    tables: list[ResultTable] = []
    labels = {LENGTH: "words", **metric_labels(options.metrics)}
    own_metrics = [m.spec for m in options.metrics if metric_style(m).kind == "given"]
    with StepProgress(None) as progress:
        prepared_datasets = prepare_datasets(
            options.datasets, options.metrics, options.locations, progress
        )
        for prepared in prepared_datasets:
            scores = prepared.scores()
            for dimension in prepared.selection.protocol.dimension:
                names = prepared.selection.row_names(dimension)
                of_dimension: list[Record] = []
                for row in _dimension_rows(prepared, scores, dimension, options):
                    of_dimension.append(names | row)
                rows += of_dimension

                frame = make_frame(of_dimension, COMPLEMENT_COLUMNS)
                title = f"{prepared.name}, {dimension}"
                tables += _tables(frame, title, labels, own_metrics, options.draws)
                # Of all tables of a dimension the last has the note.
                last_table = tables.pop()
                tables.append(last_table.with_note(copies_note(prepared.selection)))

    warn_unavailable([s.missing for s in prepared_datasets])
    measures = "which metrics say the same, and which add something"
    record = prepared_datasets.record(
        "complement", options.configuration, measures, clock, seed=options.seed, draws=options.draws
    )
    frame = make_frame(rows, COMPLEMENT_COLUMNS)
    return Results(
        {"complementarity.csv": frame}, record, tables=tables, objective=_find_objective(frame)
    )


def _find_objective(rows: pd.DataFrame) -> float | None:
    """Return the greatest R² on unseen images of a selection by R²: the mean over datasets and dimensions."""
    is_step = (rows["kind"] == "selection") & (rows["criterion"] == "r2")
    steps = rows[is_step & (rows["coefficient"] == "r2")]
    return mean_of(steps.groupby(["dataset", "dimension"])["value"].max())


def _dimension_rows(
    prepared: PreparedDataset,
    scores: Mapping[str, pd.Series],
    dimension: str,
    options: ComplementOptions,
) -> Iterator[Record]:
    points = prepared.selection.points(dimension)
    words = prepared.selection.items.set_index("item_id")["caption"].str.split().map(len)
    words = words.astype(float)
    rated_ids = points["item_id"].unique()
    yield from _metric_correlations({**scores, LENGTH: words}, rated_ids)

    lengths = np.array(words.loc[points["item_id"]], dtype=np.float64)
    usable: dict[str, Floats] = {}
    for metric, by_item in scores.items():
        column = by_item.loc[points["item_id"]].to_numpy(dtype=np.float64)
        reason = _why_unusable(column, points, drop=prepared.selection.protocol.undefined == "drop")
        yield from _partial_correlations(metric, column, lengths, points, reason)
        if not reason:
            usable[metric] = column

    yield from _selection_rows(prepared, points, usable, options)


def _metric_correlations(scores: Mapping[str, pd.Series], item_ids: Any) -> Iterator[Record]:
    """Correlate every two metrics over the rated items."""
    columns = {m: s.loc[item_ids].to_numpy(dtype=np.float64) for m, s in scores.items()}
    for (a, x), (b, y) in combinations(columns.items(), 2):
        is_defined = ~(np.isnan(x) | np.isnan(y))
        for coefficient in ("pearson", "tau_b"):
            correlation = correlate(x[is_defined], y[is_defined], coefficient)
            # The second metric stands where `correlate` expects ratings.
            if correlation.reason is Undefined.CONSTANT_RATINGS:
                correlation = CoefficientValue.undefined(remark(Undefined.CONSTANT_OTHER_SCORES))
            yield {
                "kind": "correlation",
                "metric": a,
                "other": b,
                "coefficient": coefficient,
                "value": correlation.value,
                "n_items": int(is_defined.sum()),
                "note": correlation.note,
            }


def _why_unusable(column: Floats, points: pd.DataFrame, *, drop: bool) -> Remark | None:
    """Return the reason why a metric has no partial correlation; None where it has one."""
    is_defined = ~np.isnan(column)
    ratings = points["value"].to_numpy(dtype=np.float64)
    # Pearson's r of an infinite score has no value, whatever is dropped.
    if np.isinf(column).any():
        return remark(Undefined.INFINITE_SCORE)
    if not drop and not is_defined.all():
        return undefined_reason(column, ratings)
    return undefined_reason(column[is_defined], ratings[is_defined])


def _partial_correlations(
    metric: str, column: Floats, lengths: Floats, points: pd.DataFrame, reason: Remark | None
) -> Iterator[Record]:
    """Correlate a metric with ratings, as they are and at equal caption length."""
    is_defined = ~np.isnan(column)
    ratings = points["value"].to_numpy(dtype=np.float64)
    n_items = int(points["item_id"][is_defined].nunique())
    for coefficient in ("pearson", "spearman"):
        plain = CoefficientValue.undefined(reason) if reason else None
        plain = plain or correlate(column[is_defined], ratings[is_defined], coefficient)
        yield {
            "kind": "plain",
            "metric": metric,
            "coefficient": coefficient,
            "value": plain.value,
            "n_items": n_items,
            "note": plain.note,
        }

        value = float("nan")
        if not reason:
            variables = [values[is_defined] for values in (column, ratings, lengths)]
            # Spearman's partial correlation is Pearson's of the ranks.
            if coefficient == "spearman":
                variables = [mid_ranks(values) for values in variables]
            scores, own_ratings, own_lengths = variables
            value = partial_correlation(scores, own_ratings, own_lengths)

        note = ""
        if np.isnan(value):
            note = str(reason or remark(Undefined.EXPLAINED_BY_LENGTH))
        yield {
            "kind": "partial",
            "metric": metric,
            "other": LENGTH,
            "coefficient": coefficient,
            "value": value,
            "n_items": n_items,
            "note": note,
        }


def _selection_rows(
    prepared: PreparedDataset,
    points: pd.DataFrame,
    usable: Mapping[str, Floats],
    options: ComplementOptions,
) -> Iterator[Record]:
    """Select metrics on the points on which all usable ones are defined."""
    is_defined = np.ones(len(points), dtype=bool)
    for column in usable.values():
        is_defined &= ~np.isnan(column)
    image, n_images = number_images(prepared.selection.image_of(points)[is_defined])
    ratings = points["value"].to_numpy(dtype=np.float64)[is_defined]
    common = {"n_items": int(points["item_id"][is_defined].nunique())}

    reason = ""
    if not usable:
        reason = "no metric is defined"
    elif n_images < 2:
        reason = f"{count_of(n_images, 'image')}; two are needed"
    elif np.ptp(ratings) == 0:
        reason = "all ratings are equal"
    if reason:
        for criterion in CRITERIA:
            row = {"kind": "selection", "criterion": criterion, "value": float("nan")}
            yield {**common, **row, "note": f"undefined: {reason}"}
        return

    left_out = [m.spec for m in prepared.metrics if m.spec not in usable]
    n_dropped = int((~is_defined).sum())
    without = ""
    if left_out:
        verb = "is" if len(left_out) == 1 else "are"
        without = f"without {', '.join(left_out)}, which {verb} undefined"
    dropped = f"{n_dropped} data points dropped: undefined score" if n_dropped else ""
    note = join_notes(without, dropped)

    columns = [column[is_defined] for column in usable.values()]
    validation = CrossValidation.prepare(columns, ratings, image, options.seed)
    for criterion in CRITERIA:
        rows = list(_path_rows(validation, criterion, list(usable)))
        rows += _inclusion_rows(
            prepared, validation, criterion=criterion, metrics=list(usable), options=options
        )
        for row in rows:
            yield {**common, "criterion": criterion, **row, "note": note}

    if len(usable) > 1:
        additions = addition_rows(validation, list(usable), draws=options.draws, seed=options.seed)
        for row in additions:
            yield {**common, **row, "note": note}


def _path_rows(validation: CrossValidation, criterion: str, metrics: list[str]) -> Iterator[Record]:
    """Yield the values reached at each step of a selection."""
    ones = np.ones(len(validation.fold))
    path = [metric for metric, _ in validation.select(criterion, ones)]
    for step in range(1, len(path) + 1):
        selected = path[:step]
        names = {"kind": "selection", "step": step, "metric": metrics[selected[-1]]}
        values = {"r2": validation.r2(selected, ones), "tau_b": validation.tau(selected, ones)}
        for coefficient, value in values.items():
            yield {**names, "coefficient": coefficient, "value": value}


def _inclusion_rows(
    prepared: PreparedDataset,
    validation: CrossValidation,
    criterion: str,
    metrics: list[str],
    options: ComplementOptions,
) -> Iterator[Record]:
    """Yield the share of resampled datasets that select a metric within so many steps."""
    counts = np.zeros((len(metrics), len(metrics)))
    all_weights = validation.draw_weights(options.draws, options.seed)
    for draw, weights in enumerate(all_weights, start=1):
        label = f"{prepared.name}: selection by {criterion}, draw {draw} of {options.draws}"
        with prepared.progress.step(label):
            for step, (metric, _) in enumerate(validation.select(criterion, weights)):
                # A metric that is selected in a step is selected within all later numbers of steps too.
                counts[metric, step:] += 1

    for metric, row in zip(metrics, counts, strict=True):
        for step, count in enumerate(row, start=1):
            share = count / options.draws
            yield {"kind": "inclusion", "step": step, "metric": metric, "value": share}


def _tables(
    rows: pd.DataFrame,
    title: str,
    labels: Mapping[str, str],
    own_metrics: Collection[str],
    draws: int,
) -> list[ResultTable]:
    """Return a dimension's tables; the selection by τ_b where it has another order than that by R²."""
    tables: list[ResultTable] = []
    if additions := make_addition_table(rows, title, labels, own_metrics, draws):
        tables.append(additions)

    tables.append(_correlation_matrix(rows[rows["kind"] == "correlation"], title, labels))
    is_of_ratings = rows["kind"].isin(["plain", "partial"])
    tables.append(_partial_table(rows[is_of_ratings], title, labels))

    orders: list[list[str]] = []
    for criterion, text in CRITERIA.items():
        of_criterion = rows[rows["criterion"] == criterion]
        steps = of_criterion[of_criterion["kind"] == "selection"].dropna(subset=["step"])
        order = steps.sort_values("step")["metric"].tolist()
        if order in orders:
            # An undefined selection has no order to tell.
            if order:
                tables.append(tables.pop().with_note("By τ_b the order is the same."))
            continue
        orders.append(order)
        tables.append(_selection_table(of_criterion, f"{title}: {text}", labels, draws))

    return tables


def _partial_table(rows: pd.DataFrame, title: str, labels: Mapping[str, str]) -> ResultTable:
    """Return each correlation with ratings beside the same at equal length, so that what length does is seen."""
    columns: dict[tuple[str, str], str] = {}
    for coefficient in ("pearson", "spearman"):
        symbol = find_coefficient(coefficient).symbol
        columns[coefficient, "plain"] = symbol
        columns[coefficient, "partial"] = f"partial {symbol}"

    cells: list[Row] = []
    for metric, part in groups_of(rows, "metric"):
        by_name = {(row["coefficient"], row["kind"]): row["value"] for row in records_of(part)}
        numbers = number_cells(map(by_name.__getitem__, columns), 100, 1)
        cells.append(Row(labels[metric], numbers))

    subjects: list[tuple[str, str, str]] = []
    for row in records_of(rows):
        column = columns[row["coefficient"], row["kind"]]
        subjects.append((labels[row["metric"]], column, row["note"]))

    return ResultTable(
        f"{title}: correlation with ratings, as it is and at equal length",
        "metric",
        columns=list(columns.values()),
        rows=cells,
        notes=["×100; partial: given a caption's number of words.", *notes_by_subject(subjects)],
    )


def _selection_table(
    rows: pd.DataFrame, title: str, labels: Mapping[str, str], draws: int
) -> ResultTable:
    path = rows[rows["kind"] == "selection"]
    inclusions = rows[rows["kind"] == "inclusion"]
    frequency: dict[tuple[str, int], float] = {}
    for row in records_of(inclusions):
        frequency[row["metric"], int(row["step"])] = row["value"]

    cells: list[Row] = []
    # The row of an undefined selection has no step.
    steps = path.dropna(subset=["step"])
    for step, at_step in groups_of(steps, "step"):
        metric = at_step["metric"].iloc[0]
        values = number_cells(at_step["value"], 100, 1)
        included = number_cell(frequency[metric, int(step)], 100, 0)
        cells.append(Row(f"{step:.0f}. {labels[metric]}", [*values, included]))

    notes = [
        f"×100, on images that the fit has not seen ({FOLDS} folds, or one an image where there are fewer); included: the share of "
        f"{count_of(draws, 'resampled dataset')} in which the metric is selected in this step or before, "
        "which in the last step are all.",
        *distinct_notes(path),
    ]
    return ResultTable(title, "step", ["R²", "τ_b", "included %"], cells, notes=notes)


def _correlation_matrix(rows: pd.DataFrame, title: str, labels: Mapping[str, str]) -> ResultTable:
    """Return Pearson's r above the diagonal and τ_b below it."""
    names = list(dict.fromkeys([*rows["metric"], *rows["other"]]))
    values: dict[tuple[str, str, str], float] = {}
    for row in rows.to_dict("records"):
        values[row["metric"], row["other"], row["coefficient"]] = row["value"]

    cells: list[Row] = []
    for i, a in enumerate(names):
        numbers: list[AnyCell] = []
        for j, b in enumerate(names):
            key = (a, b, "pearson") if i < j else (b, a, "tau_b")
            numbers.append(MISSING if i == j else number_cell(values[key], 100, 1))
        cells.append(Row(labels[a], numbers))

    return ResultTable(
        f"{title}: correlation among metrics",
        "r above, τ_b below",
        columns=[labels[name] for name in names],
        rows=cells,
        notes=["×100, over items.", *distinct_notes(rows)],
    )


complement = make_function(
    "complement",
    ComplementOptions,
    run,
    summary="Show which metrics say the same, and which add something",
    returns="`Results`, whose `frames` have `complementarity.csv`.",
    raises="as in `captau.bench`, for a single metric, or a dataset without ratings.",
)
