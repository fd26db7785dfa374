"""The kinds of published tables: how the cells of each are computed (`published_tables` says what each kind is)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from ....datasets.errors import InputError, MissingFileError
from ....datasets.reading.caption_files import read_candidates, read_references
from ....metrics.base import Floats
from ....metrics.registry import metric
from ...runs.frames import records_of
from ...statistics.bootstrap import StatisticsOptions
from ...statistics.rater_agreement import compute_measures
from ...statistics.rating_table import RatingTable
from ..correlation_rows import metric_rows
from ..evaluation_set import EvaluationSet
from ..judged_pairs import PAIR_FLOORS
from ..measured_dataset import NO_INTERVALS, MeasuredDataset, row_key
from ..people.held_out_captions import score_trials
from ..systems.system_ranking import count_best_worst, rank_systems
from .count_cells import count_cells, fold_count_cells, game_count_cells
from .extrinsic_cells import extrinsic_cells
from .published_numbers import PaperTable
from .published_sources import Cells, TableCell, TableSources
from .rater_rows import compute_rating_error, read_best_validation
from .reference_draws import DrawnMean, DrawOptions, measure_draws

#: The draws of three ratings of each item, which Scott et al. 2023 average: as many as `captau agree` makes.
N_RATER_DRAWS = 20
#: The intervals of a column with a `bound`: Kasai et al. 2022 print those of 90 %.
BOUNDS = StatisticsOptions(interval="percentile", level=0.9)


def _error_cells(sources: TableSources, table: PaperTable, label: str) -> Cells:
    """Return mean squared errors of raters' predictions against mean ratings on the same scale."""
    cells: Cells = {}
    for column, options in table.columns.items():
        protocol_changes = {**(options.get("protocol") or {}), "ratings": "mean"}
        protocol = sources.resolve_protocol(table, f"{label} {column}", protocol_changes)
        selection = EvaluationSet.select(sources.load(table.dataset), protocol)
        image_ids = selection.items["image_id"].tolist()

        for row, spec in table.rows.items():
            rater = metric(spec)
            note = rater.training_overlap_note(image_ids)
            error = compute_rating_error(rater, selection)
            cells[row, column] = TableCell(error * table.scale, note or "")

    return cells


def _history_cells(sources: TableSources, table: PaperTable, label: str) -> Cells:
    cells: Cells = {}
    for row, spec in table.rows.items():
        rater = metric(spec)
        for column, options in table.columns.items():
            validation = read_best_validation(rater, options["stage"])
            cells[row, column] = TableCell(validation * table.scale)

    return cells


def _drawn_cells(sources: TableSources, table: PaperTable, label: str) -> Cells:
    """Return accuracies on preferences, the mean over draws of references, of the rows that `draws` names.

    Raises:
        MissingFileError: where the dataset that has all references is not here.
    """
    options = DrawOptions(**table.draws)
    specs: dict[str, str] = {}
    for row in options.rows:
        if row in table.rows and not sources.unavailable_reason(table, table.rows[row]):
            specs[row] = table.rows[row]
    if not specs:
        return {}

    policy = table.protocol["references"]
    if policy not in ("mean_over_single", "max_over_single"):
        policy = "all"
    # A draw replaces the references that the protocol would choose.
    of_pairs = dict(table.protocol)
    of_pairs.pop("references")
    of_pairs.pop("k", None)
    protocol = sources.resolve_protocol(replace(table, protocol=of_pairs), label, {})
    selection = EvaluationSet.select(sources.load(table.dataset), protocol)
    draws = sources.draw_references(selection, options.pool, options.references)

    rows_by_number: dict[int, list[str]] = {}
    for row in specs:
        n_draws = options.numbers.get(row, options.number)
        rows_by_number.setdefault(n_draws, []).append(row)

    cells: Cells = {}
    for n_draws, rows in rows_by_number.items():
        metrics = {row: metric(specs[row]) for row in rows}
        sources.progress.add_steps(n_draws, f"{table.table}: draws of references")
        differences = draws.differences(
            list(metrics.values()), policy, n_draws, sources.progress.advance
        )
        for row, drawn_metric in metrics.items():
            accuracies = measure_draws(selection, draws, differences[drawn_metric.spec])
            cells |= _accuracy_cells(table, row, accuracies, options)
            sources.metrics[drawn_metric.spec] = drawn_metric

    return cells


def _accuracy_cells(
    table: PaperTable, row: str, accuracies: Mapping[str, DrawnMean], options: DrawOptions
) -> Cells:
    """Return the cells of a row of accuracies over draws of references, by dimension."""
    cells: Cells = {}
    for column, choice in table.columns.items():
        drawn = accuracies[choice["dimension"]]
        note = (
            f"the mean of {drawn.n_draws} draws of {options.references} references, whose standard deviation is "
            f"{drawn.deviation * table.scale:.2f}"
        )
        spread = drawn.spread(options.averaged) * table.scale
        cells[row, column] = TableCell(drawn.mean * table.scale, note, spread)

    return cells


def _correlation_cells(sources: TableSources, table: PaperTable, label: str) -> Cells:
    if table.draws:
        return _partly_drawn_cells(sources, table, label)

    error_columns: dict[str, Any] = {}
    value_columns: dict[str, Any] = {}
    for name, options in table.columns.items():
        if "error" in options:
            error_columns[name] = options
        else:
            value_columns[name] = options
    if error_columns:
        cells = _error_cells(sources, replace(table, columns=error_columns), label)
        if value_columns:
            cells |= _correlation_cells(sources, replace(table, columns=value_columns), label)
        return cells

    cells: Cells = {}
    specs: dict[str, str] = {}
    for row, spec in table.rows.items():
        reason = sources.unavailable_reason(table, spec)
        if not reason:
            specs[row] = spec
            continue
        for column in table.columns:
            cells[row, column] = TableCell.missing(reason)
    if not specs:
        return cells

    # Columns that differ in nothing but coefficient and dimension come from one measurement.
    columns_by_protocol: dict[str, list[str]] = {}
    for column, options in table.columns.items():
        key = repr(options.get("protocol") or {})
        columns_by_protocol.setdefault(key, []).append(column)
    rows_by_protocol: dict[str, list[str]] = {}
    for row in specs:
        key = repr(table.row_protocols.get(row) or {})
        rows_by_protocol.setdefault(key, []).append(row)

    for columns, rows in product(columns_by_protocol.values(), rows_by_protocol.values()):
        # Protocols have their table's name, and that of a column or row where these have protocols of their own.
        name = label
        if len(columns_by_protocol) > 1:
            name = f"{name} {columns[0]}"
        if table.row_protocols.get(rows[0]):
            name = f"{name} {rows[0]}"
        row_specs = {row: specs[row] for row in rows}
        cells |= _measure_columns(sources, table, name, columns, row_specs)

    return cells


def _partly_drawn_cells(sources: TableSources, table: PaperTable, label: str) -> Cells:
    """Return the cells of a table some of whose rows rest on draws of references."""
    without_draws = replace(table, draws={})
    try:
        cells = _drawn_cells(sources, table, f"{label} draws")
    except MissingFileError:
        # Without all references the cells are those of the references that the dataset has.
        return _correlation_cells(sources, without_draws, label)

    first_column = next(iter(table.columns))
    rows: dict[str, str] = {}
    for row, spec in table.rows.items():
        # A row is drawn in all columns or in none.
        if (row, first_column) not in cells:
            rows[row] = spec
    if rows:
        cells |= _correlation_cells(sources, replace(without_draws, rows=rows), label)

    return cells


def _measure_columns(
    sources: TableSources,
    table: PaperTable,
    name: str,
    columns: Sequence[str],
    specs: Mapping[str, str],
) -> Cells:
    """Measure rows and columns that share a protocol.

    Args:
        sources, table: the table and what it rests on.
        name: the protocol's in `run.json`.
        columns: the columns.
        specs: the metrics, by row.
    """
    first_row = next(iter(specs))
    coefficients = [table.columns[column]["coefficient"] for column in columns]
    changes = {
        **(table.columns[columns[0]].get("protocol") or {}),
        **(table.row_protocols.get(first_row) or {}),
        "coefficients": list(dict.fromkeys(coefficients)),
    }
    protocol = sources.resolve_protocol(table, name, changes)

    bounded_columns = [column for column in columns if "bound" in table.columns[column]]
    # Intervals take replicates; a table without bounds does without them.
    statistics = BOUNDS if bounded_columns else NO_INTERVALS
    measured = sources.measure(table, protocol, list(specs.values()), statistics)
    row_by_key = {row_key(row): row for row in records_of(measured.correlations)}

    cells: Cells = {}
    for column in columns:
        options = table.columns[column]
        dimension = options.get("dimension") or measured.selection.protocol.dimension[0]
        for row, spec in specs.items():
            metric_name = spec if spec in PAIR_FLOORS else metric(spec).spec
            correlation = row_by_key[metric_name, dimension, options["coefficient"]]
            value = choose_bound(
                options, correlation["value"], correlation["ci_low"], correlation["ci_high"]
            )
            cells[row, column] = TableCell(value * table.scale, str(correlation["note"]))

    return cells


def choose_bound(options: Mapping[str, Any], value: float, low: float, high: float) -> float:
    """Return what a column shows: a value, or how far its interval reaches above or below it."""
    bound = options.get("bound", "")
    if bound == "high":
        return high - value
    if bound == "low":
        return value - low

    return float(value)


def _author_score_cells(sources: TableSources, table: PaperTable, label: str) -> Cells:
    cells: Cells = {}
    authors = sources.load("fleur")
    scored = authors.items.merge(authors.ratings, on="item_id")
    coefficients = dict.fromkeys(options["coefficient"] for options in table.columns.values())
    protocol = sources.resolve_protocol(table, label, {"coefficients": list(coefficients)})

    for row, score in table.rows.items():
        for column, options in table.columns.items():
            has_own_labels = options.get("labels") == "authors"
            people = authors if has_own_labels else sources.load(table.dataset)
            selection = EvaluationSet.select(people, protocol)

            is_of_column = (scored["system"] == options["part"]) & (scored["dimension"] == score)
            # A caption that stands in two of the authors' files may have two scores.
            keys = ["image_id", "caption"]
            values = selection.items[keys].merge(scored[is_of_column], "left", on=keys)["value"]
            scores = pd.Series(values.to_numpy(), index=selection.items["item_id"])

            n_unscored = 0 if selection.uses_preferences else int(values.isna().sum())
            if n_unscored:
                raise InputError(
                    f"dataset fleur: the file of {options['part']} has no score of {n_unscored:,} of "
                    f"{len(values):,} captions of {table.dataset}; captau data verify dataset=fleur says whether it "
                    "is the authors'"
                )

            dimension = options.get("dimension") or selection.protocol.dimension[0]
            for correlation in metric_rows(selection, row, scores, ""):
                key = (correlation["dimension"], correlation["coefficient"])
                if key == (dimension, options["coefficient"]):
                    value = correlation["value"] * table.scale
                    cells[row, column] = TableCell(value, correlation["note"])

    return cells


def _read_columns(
    sources: TableSources, table: PaperTable, label: str
) -> tuple[MeasuredDataset, dict[str, Floats], Cells]:
    """Return a table's dataset, the ratings or scores of all its items by column, and the cells of columns that have none."""
    specs: dict[str, str] = {}
    for column, options in table.columns.items():
        spec = options.get("metric")
        if spec and not sources.unavailable_reason(table, spec):
            specs[column] = spec

    protocol = sources.resolve_protocol(table, label, {"coefficients": ["pearson"]})
    measured = sources.measure(table, protocol, list(specs.values()))
    item_ids = measured.items["item_id"]

    values_by_column: dict[str, Floats] = {}
    cells: Cells = {}
    for column, options in table.columns.items():
        if "dimension" in options:
            points = measured.selection.points(options["dimension"])
            values = points.set_index("item_id")["value"].reindex(item_ids)
        elif column in specs:
            values = measured.by_metric[metric(specs[column]).spec]
        else:
            reason = sources.unavailable_reason(table, options["metric"])
            for row in table.rows:
                cells[row, column] = TableCell.missing(reason)
            continue
        values_by_column[column] = values.to_numpy(dtype=np.float64)

    return measured, values_by_column, cells


def _system_mean_cells(sources: TableSources, table: PaperTable, label: str) -> Cells:
    measured, values_by_column, cells = _read_columns(sources, table, label)
    items = measured.items
    bounded: list[str] = []
    for options in table.columns.values():
        if "bound" in options and options["dimension"] not in bounded:
            bounded.append(options["dimension"])
    intervals = _mean_intervals(measured.selection, bounded)

    for column, values in values_by_column.items():
        options = table.columns[column]
        scale = options.get("scale", table.scale)
        by_system = pd.Series(values).groupby(items["system"])
        for row, system in table.rows.items():
            ends = intervals.get((options.get("dimension", ""), system), (np.nan, np.nan))
            of_row = values if system == "all" else by_system.get_group(system).to_numpy()
            if options.get("of") == "penalised":
                value = float(np.count_nonzero(of_row))
            else:
                value = choose_bound(options, float(of_row.mean()), *ends)
            # Adding 0.0 prints a mean of -0.0 as 0.0.
            cells[row, column] = TableCell(value * scale + 0.0)

    return cells


def _caption_cells(sources: TableSources, table: PaperTable, label: str) -> Cells:
    """Return ratings and scores of single captions.

    Raises:
        InputError: where the dataset has no caption of a row's image and system.
    """
    measured, values_by_column, cells = _read_columns(sources, table, label)
    items = measured.items
    names = items["image_id"] + "/" + items["system"].fillna("")

    for column, values in values_by_column.items():
        scale = table.columns[column].get("scale", table.scale)
        for row, name in table.rows.items():
            is_named = ((names == name) | (items["item_id"] == name)).to_numpy()
            if is_named.sum() != 1:
                raise InputError(
                    f"dataset {table.dataset}: it has {is_named.sum()} captions {name}, where {table.table} shows one; "
                    f"captau data verify dataset={table.dataset} says whether the files are the authors'"
                )
            # Adding 0.0 prints a penalty of -0.0 as 0.0.
            cells[row, column] = TableCell(float(values[is_named][0]) * scale + 0.0)

    return cells


def _mean_intervals(
    selection: EvaluationSet, dimensions: Sequence[str]
) -> dict[tuple[str, str], tuple[float, float]]:
    """Return the interval of each system's mean rating, by dimension and system.

    It is that of `BOUNDS`, of so many replicates that the printed digit does not depend on the draws.
    """
    if not dimensions:
        return {}

    points = {dimension: selection.points(dimension) for dimension in dimensions}
    options = replace(BOUNDS, replicates=20 * BOUNDS.replicates)
    intervals: dict[tuple[str, str], tuple[float, float]] = {}
    for row in records_of(rank_systems(selection, points, options).systems):
        intervals[row["dimension"], row["system"]] = (row["ci_low"], row["ci_high"])
    return intervals


def _best_worst_cells(sources: TableSources, table: PaperTable, label: str) -> Cells:
    protocol = sources.resolve_protocol(table, label, {})
    selection = EvaluationSet.select(sources.load(table.dataset), protocol)
    counts = count_best_worst(selection, selection.protocol.dimension).set_index("system")
    cells: Cells = {}
    for row, rank in table.rows.items():
        for column, options in table.columns.items():
            cells[row, column] = TableCell(float(counts[rank][options["system"]]))

    return cells


def _agreement_cells(sources: TableSources, table: PaperTable, label: str) -> Cells:
    """Return measures of agreement; those of virtual raters that were drawn have the spread of such draws."""
    protocol = sources.resolve_protocol(table, label, {"ratings": "per_rating"})
    selection = EvaluationSet.select(sources.load(table.dataset), protocol)
    caption_set = selection.caption_set
    dimension = selection.protocol.dimension[0]
    ratings = RatingTable.from_ratings(caption_set.ratings, selection.items["item_id"], dimension)
    scale = caption_set.card.scales[dimension]
    measures, _ = compute_measures(ratings, scale, draws=N_RATER_DRAWS)

    cells: Cells = {}
    for row, name in table.rows.items():
        if name in measures:
            measure = measures[name]
            spread = None
            if not np.isnan(measure.std):
                drawn = DrawnMean(measure.value, measure.std, N_RATER_DRAWS)
                spread = drawn.spread(N_RATER_DRAWS) * table.scale
            cell = TableCell(measure.value * table.scale, measure.note, spread)
        else:
            # Only a scale of five levels has the measure `fleiss_kappa_4=5`.
            reason = f"the scale of {table.dataset}'s ratings has no measure {name}"
            cell = TableCell.missing(reason)
        for column in table.columns:
            cells[row, column] = cell

    return cells


def _human_cells(sources: TableSources, table: PaperTable, label: str) -> Cells:
    cells: Cells = {}
    for column, options in table.columns.items():
        names = (options["references"], options["held_out"])
        references_file = sources.data_file(options["references"])
        held_out_file = sources.data_file(options["held_out"])
        absent = [name for name in names if not sources.data_file(name).is_file()]

        specs: dict[str, str] = {}
        for row, spec in table.rows.items():
            name = spec.partition("(")[0]
            if absent:
                reason = f"no file {absent[0]} under data.root; {options['why']}"
                cells[row, column] = TableCell.missing(reason)
            elif name in sources.leave_out:
                cells[row, column] = TableCell.missing(f"leave_out={name}")
            else:
                sources.metrics[spec] = metric(spec)
                specs[row] = spec
        if not specs:
            continue

        references = read_references(references_file).texts
        held_out = read_candidates(held_out_file).captions
        if missing := [image for image in references if image not in held_out]:
            raise InputError(
                f"{held_out_file}: no caption of image '{missing[0]}' of {references_file}"
            )

        # The file of held-out captions may have images that the paper did not use.
        captions = {image: held_out[image] for image in references}
        trial = (label, captions, references)
        metrics = [metric(spec) for spec in specs.values()]
        # The seed draws groups of images for intervals, which no cell shows.
        scores, _ = score_trials([trial], metrics, sources.store, sources.progress, seed=0)

        for row, spec in specs.items():
            value = float(scores[metric(spec).spec].values[0])
            cells[row, column] = TableCell(value * table.scale)

    return cells


TABLE_KINDS: dict[str, Callable[[TableSources, PaperTable, str], Cells]] = {
    "correlation": _correlation_cells,
    "bounds": _correlation_cells,
    "histories": _history_cells,
    "extrinsic": extrinsic_cells,
    "author_scores": _author_score_cells,
    "system_means": _system_mean_cells,
    "best_worst": _best_worst_cells,
    "captions": _caption_cells,
    "agreement": _agreement_cells,
    "human": _human_cells,
    "counts": count_cells,
    "fold_counts": fold_count_cells,
    "game_counts": game_count_cells,
}
#: The kinds of tables whose cells rest on a registered dataset.
KINDS_OF_DATASETS = (
    "correlation",
    "bounds",
    "author_scores",
    "fold_counts",
    "system_means",
    "best_worst",
    "captions",
    "agreement",
)
