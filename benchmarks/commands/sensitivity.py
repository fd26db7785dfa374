"""`captau sensitivity`: the change of numbers with images, raters, references, protocols and caption length."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd

from ..evaluation.judged_pairs import FLOORS
from ..evaluation.prepared_datasets import LeftOutDatasets, prepare_datasets
from ..evaluation.sensitivity_analysis import (
    BAND,
    POWER,
    SENSITIVITY_COLUMNS,
    TEST_LEVEL,
    SensitivityAnalysis,
)
from ..evaluation.wording import copies_note, distinct_notes
from ..options.analyses import SensitivityOptions
from ..options.python_function import make_function
from ..reporting.charts.coefficient_charts import sensitivity_figure
from ..reporting.run_results import Results
from ..runs.frames import groups_of, make_frame, mean_of
from ..runs.progress_bar import StepProgress
from ..runs.results import RunClock
from ..runs.tables import MISSING, AnyCell, Cell, ResultTable, Row, count_cell, number_cell
from ..scoring.catalog import metric_labels
from ..scoring.unavailable_metrics import warn_unavailable
from ..statistics.coefficients.coefficient import are_of_preferences, find_coefficient

_DRAWN_FROM = {
    "images": "drawn with replacement",
    "raters": "of an item's ratings, drawn at random",
    "references": "of an image's references, drawn at random",
}


def run(options: SensitivityOptions) -> Results:
    """Vary the images, raters, references, protocol or caption length behind correlations.

    Returns:
        `sensitivity.csv`, columns `SENSITIVITY_COLUMNS`.

    Raises:
        InputError: on an unknown name, missing or malformed data, or a dataset without ratings.
    """
    clock = RunClock()
    rows: list[dict[str, Any]] = []
    tables: list[ResultTable] = []
    labels = FLOORS | metric_labels(options.metrics)
    with StepProgress(None) as progress:
        prepared_datasets = prepare_datasets(
            options.datasets,
            options.metrics,
            options.locations,
            progress,
            needs_ratings=set(options.kinds) != {"length"},
        )

        left_out_parts = LeftOutDatasets()
        parts = list(product(prepared_datasets, options.kinds))
        for prepared, kind in parts:
            with (
                left_out_parts.leave_out(f"{prepared.name}, {kind}"),
                progress.step(f"{prepared.name}: {kind}"),
            ):
                of_kind = SensitivityAnalysis(prepared, options.seed, options.draws).rows(kind)
                rows += of_kind
                frame = make_frame(of_kind, SENSITIVITY_COLUMNS)
                tables += _tables(frame, kind, prepared.name, labels)
                # Of all tables of a kind the last has the note.
                last_table = tables.pop()
                tables.append(last_table.with_note(copies_note(prepared.selection)))

        left_out_parts.check(len(parts))
        prepared_datasets.left_out.update(left_out_parts)

    frame = make_frame(rows, SENSITIVITY_COLUMNS)
    warn_unavailable([s.missing for s in prepared_datasets])

    measures = "how far the agreement of metrics with people moves with images, raters and choices"
    record = prepared_datasets.record(
        "sensitivity",
        options.configuration,
        measures,
        clock,
        seed=options.seed,
        draws=options.draws,
    )
    return Results(
        {"sensitivity.csv": frame},
        {**record, "kinds": list(options.kinds)},
        tables=tables,
        figures=sensitivity_figure(frame, labels),
        objective=_find_objective(frame, options.metrics[0].spec),
    )


def _find_objective(rows: pd.DataFrame, metric: str) -> float | None:
    """Return how far a metric's coefficients move: the mean range, from the lowest to the highest value or end of a band.

    A range is of one dataset, dimension, kind and coefficient. Powers are of pairs of metrics, and do not enter.
    """
    rows_of_metric = rows[(rows["metric"] == metric) & (rows["kind"] != "power")]
    ranges: list[float] = []
    for _, part in groups_of(rows_of_metric, "dataset", "dimension", "kind", "coefficient"):
        values = part[["value", "low", "high"]].to_numpy(dtype=np.float64)
        values = values[np.isfinite(values)]
        if len(values):
            ranges.append(float(np.ptp(values)))
    return mean_of(ranges)


def _tables(
    rows: pd.DataFrame, kind: str, dataset: str, labels: Mapping[str, str]
) -> list[ResultTable]:
    """Return the tables of one dataset and kind."""
    if kind == "protocols":
        protocol_tables: list[ResultTable] = []
        for dimension, part in groups_of(rows, "dimension"):
            protocol_tables += make_protocol_tables(part, dataset, dimension, labels)
        return protocol_tables

    tables: list[ResultTable] = []
    for (dimension, coefficient), part in groups_of(rows, "dimension", "coefficient"):
        title = f"{dataset}, {dimension}: {find_coefficient(coefficient).symbol}"
        if kind == "power":
            tables.append(make_power_table(part, title, labels))
        elif kind == "length":
            tables.append(_length_table(part, title, labels))
        else:
            tables.append(_curve_table(part, kind, title, labels))

    return tables


def _percent(value: float) -> Cell:
    return number_cell(value, 100, 1)


def _curve_table(
    rows: pd.DataFrame, kind: str, title: str, labels: Mapping[str, str]
) -> ResultTable:
    sizes = list(dict.fromkeys(rows["size"]))
    notes = [
        f"×100, mean and {100 * BAND:g} % of the draws; {kind} {_DRAWN_FROM[kind]}, "
        f"{int(rows['draws'].max()):,} times.",
        *distinct_notes(rows),
    ]
    columns = [f"{size:,}" for size in sizes]
    # On a narrow terminal the sizes go one by one, but for the least and the greatest.
    spare: list[tuple[int, ...]] = []
    for index in range(1, len(columns) - 1):
        spare.append((index,))
    return ResultTable(
        f"{title} by number of {kind}",
        "metric",
        columns,
        _banded_rows(rows, labels),
        notes=notes,
        spare=tuple(spare),
    )


def _length_table(rows: pd.DataFrame, title: str, labels: Mapping[str, str]) -> ResultTable:
    """Return the coefficients by band of caption length, with their intervals."""
    is_of_pairs = are_of_preferences(rows["coefficient"]).all()
    # Over all captions length may explain an agreement; this says how far it does in a band.
    length_in_band = "within a band it hardly can"
    if is_of_pairs:
        length_in_band = "in pairs that are few words apart, it tells little"
    notes = [
        f"×100, and {100 * BAND:g} % of {int(rows['draws'].max()):,} resamples of the band's images. Over all "
        f"captions a metric may also agree with people because both follow length; {length_in_band}.",
        "; ".join(dict.fromkeys(rows["note"])) + ".",
    ]
    columns = list(dict.fromkeys(rows["other"]))
    title = f"{title} by {'difference in length' if is_of_pairs else 'caption length'}"
    return ResultTable(title, "metric", columns, _banded_rows(rows, labels), notes=notes)


def _banded_rows(rows: pd.DataFrame, labels: Mapping[str, str]) -> list[Row]:
    """Return a row a metric: its values, each with its band where it has any."""
    cells: dict[str, list[AnyCell]] = {}
    for row in rows.to_dict("records"):
        cell = _percent(row["value"])
        if not np.isnan(row["low"]):
            band = f"[{_percent(row['low'])}, {_percent(row['high'])}]"
            cell = replace(cell, text=f"{cell} {band}")
        cells.setdefault(labels[row["metric"]], []).append(cell)

    return [Row(label, cells_of_metric) for label, cells_of_metric in cells.items()]


def make_power_table(rows: pd.DataFrame, title: str, labels: Mapping[str, str]) -> ResultTable:
    """Return the detectable differences at the dataset's own number of images."""
    sizes = sorted(set(rows["size"]))
    # The last size is twice the dataset's own.
    size = sizes[-2] if len(sizes) > 1 else sizes[-1]

    cells: list[Row] = []
    for row in rows[rows["size"] == size].to_dict("records"):
        difference = row["difference"]
        detectable = row["value"]
        # A standard error shrinks with the root of the number of images.
        n_images = size * (detectable / difference) ** 2 if difference else float("inf")
        numbers: list[AnyCell] = [
            _percent(difference),
            _percent(detectable),
            number_cell(row["power"], 100, 0),
            count_cell(round(n_images)) if np.isfinite(n_images) else MISSING,
        ]
        cells.append(Row(f"{labels[row['metric']]} − {labels[row['other']]}", numbers))

    notes = [
        f"×100. Detectable: the least difference that a two-sided test at {100 * TEST_LEVEL:g} % on {size:,} "
        f"images finds with a chance of {100 * POWER:g} %; power: the chance that it finds the observed one; "
        f"images: the number that would find that with {100 * POWER:g} %.",
        *distinct_notes(rows),
    ]
    title = f"{title} differences that {size:,} images can show"
    columns = ["difference", "detectable", "power %", "images"]
    return ResultTable(title, "metrics", columns, cells, notes=notes)


def make_protocol_tables(
    rows: pd.DataFrame, dataset: str, dimension: Any, labels: Mapping[str, str]
) -> list[ResultTable]:
    """Return each metric's range over protocols, and each protocol's values of the first coefficient."""
    coefficients = list(dict.fromkeys(rows["coefficient"]))
    signs = {c: find_coefficient(c).symbol for c in coefficients}

    ranges: list[Row] = []
    for metric, part in rows.groupby("metric", sort=False):
        cells: list[str] = []
        for coefficient in coefficients:
            values = part.loc[part["coefficient"] == coefficient, "value"]
            cells.append(f"{_percent(values.min())} – {_percent(values.max())}")

        ranks = part["rank"].dropna()
        cells.append(f"{int(ranks.min())} – {int(ranks.max())}" if len(ranks) else MISSING)
        ranges.append(Row(labels[str(metric)], cells))

    n_protocols = len(rows[["protocol", "coefficient"]].drop_duplicates())
    n_swapped, n_pairs = count_swaps(rows)
    notes = [
        f"×100, least and greatest over {rows['protocol'].nunique()} protocols a coefficient.",
        f"Pairs of metrics whose order changes between some two of the {n_protocols} protocols: {n_swapped} of {n_pairs}.",
    ]
    first = rows[rows["coefficient"] == coefficients[0]]
    by_protocol: dict[str, list[AnyCell]] = {}
    for row in first.to_dict("records"):
        cell = _percent(row["value"])
        if not np.isnan(row["rank"]):
            cell = replace(cell, text=f"{cell} ({int(row['rank'])})")
        by_protocol.setdefault(row["protocol"], []).append(cell)

    return [
        ResultTable(
            f"{dataset}, {dimension}: range of each metric over protocols",
            "metric",
            [*signs.values(), "rank"],
            ranges,
            notes=notes,
        ),
        ResultTable(
            f"{dataset}, {dimension}: {signs[coefficients[0]]} by protocol",
            "protocol",
            [labels[m] for m in dict.fromkeys(first["metric"])],
            [Row(protocol, cells) for protocol, cells in by_protocol.items()],
            notes=["×100; in brackets the rank.", *distinct_notes(rows)],
        ),
    ]


def count_swaps(rows: pd.DataFrame) -> tuple[int, int]:
    """Count the pairs of metrics that two protocols order differently, and all pairs."""
    # A row for each protocol and coefficient, a column for each metric: a row puts the metrics in an order.
    wide = rows.pivot_table(index=["protocol", "coefficient"], columns="metric", values="value")
    pairs = list(combinations(wide.columns, 2))
    n_swapped = 0
    for a, b in pairs:
        signs = np.sign(wide[a] - wide[b])
        n_swapped += bool((signs > 0).any() and (signs < 0).any())

    return n_swapped, len(pairs)


sensitivity = make_function(
    "sensitivity",
    SensitivityOptions,
    run,
    summary="Vary the images, raters, references, protocol or caption length behind correlations",
    returns="`Results`, whose `frames` have `sensitivity.csv`.",
)
