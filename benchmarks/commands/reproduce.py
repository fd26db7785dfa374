"""`captau reproduce`: rebuild published tables from their protocols and compare cell by cell."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ...datasets.errors import InputError
from ..evaluation.measured_dataset import join_correlations, join_scores
from ..evaluation.papers.published_numbers import (
    PaperTable,
    mark_printed,
    paper_files,
    read_published,
    short_citation,
)
from ..evaluation.papers.published_sources import Cells, TableCell
from ..evaluation.papers.published_tables import TableRebuilder
from ..evaluation.prepared_datasets import provenance
from ..evaluation.wording import copies_note, join_notes
from ..options.python_function import make_function
from ..options.reproduce import ReproduceOptions
from ..reporting.run_results import Results
from ..runs.frames import make_frame, mean_of
from ..runs.progress_bar import StepProgress
from ..runs.results import RunClock, tables_as_csv
from ..runs.tables import MISSING, AnyCell, Column, ResultTable, Row, number_cell
from ..statistics.coefficients.coefficient import coefficient_names, find_coefficient

COMPARISON_COLUMNS = (
    "paper",
    "table",
    "dataset",
    "row",
    "column",
    "published",
    "reproduced",
    "delta",
    "decimals",
    "match",
    "note",
)
#: The match of a printed number that lies within the spread of random draws, of references or raters: neither one nor a difference.
WITHIN_DRAW = "within_draw"
#: The match of a cell that is of another split than the printed number: shown, and neither one nor a difference.
OTHER_SPLIT = "other_split"
#: The match of a cell that a rater of one's own fills, which is not the paper's: shown, and neither one nor a difference.
OWN_RATER = "own_rater"
#: The values of the column `match` without raters of one's own, as they are counted; the last is that of cells that are not computed.
MATCHES = ("true", WITHIN_DRAW, OTHER_SPLIT, "false", "")
#: The matches of cells that could not match, and what they are of.
_NOT_COMPARED = {
    OTHER_SPLIT: "of another split than the paper's",
    OWN_RATER: "of raters of your own",
}
#: What stands before a printed number in brackets, by match, and the note that explains it.
_PRINTED_SIGNS = {
    "false": ("", "In brackets: the printed number, where it is another."),
    WITHIN_DRAW: (
        "≈",
        "≈: printed, and within the spread of random draws, so that it is neither a match nor a difference.",
    ),
    OTHER_SPLIT: ("s ", "s: printed of another split, and not compared."),
    OWN_RATER: (
        "p ",
        "p: printed of the paper's rater; the number before it is of your own, and they are not compared.",
    ),
}
#: The signs of coefficients that rows of papers' files name.
_SYMBOLS = {"tau": "τ", "kappa": "κ"}


def run(options: ReproduceOptions) -> Results:
    """Rebuild the tables of papers.

    Raises:
        InputError: on malformed data, or where nothing is computed for want of files.
    """
    clock = RunClock()
    frames: list[pd.DataFrame] = []
    tables: list[ResultTable] = []
    with StepProgress(sum(map(len, options.papers.values()))) as progress:
        rebuilder = TableRebuilder(
            options.locations,
            options.leave_out,
            options.locations.store(),
            progress,
            rater_folders=options.raters,
        )
        for paper, paper_tables in options.papers.items():
            published = read_published(paper)
            for table in paper_tables:
                n_measured = len(rebuilder.measured)
                frame = compare(paper, table, rebuilder.rebuild(paper, table), published)
                frames.append(frame)
                notes = {copies_note(m.selection) for m in rebuilder.measured[n_measured:]}
                tables.append(_comparison_table(paper, table, frame, sorted(notes - {""})))
                progress.advance()
            _check_complete(paper, paper_tables, published)

    comparison = pd.concat(frames, ignore_index=True)
    if rebuilder.absent_files and (comparison["match"] == "").all():
        raise rebuilder.absent_files[0]

    measured = rebuilder.measured
    metrics = list(rebuilder.metrics.values())
    caption_sets = list(rebuilder.caption_sets.values())
    return Results(
        {
            "correlations.csv": join_correlations(measured),
            "scores.parquet": join_scores(measured).drop_duplicates(ignore_index=True),
            "comparison.csv": comparison,
        },
        run={
            "command": "reproduce",
            "config": dict(options.configuration),
            "protocols": rebuilder.protocols,
            **provenance(metrics, caption_sets, options.locations),
            **clock.record(),
        },
        tables=tables,
        other_files=tables_as_csv(tables),
        summary=summarise(comparison),
        objective=_find_objective(comparison),
    )


def _find_objective(comparison: pd.DataFrame) -> float | None:
    """Return the share of the recomputed cells of papers that match the printed digit."""
    matches_printed = comparison.loc[mark_printed(comparison), "match"]
    return mean_of(matches_printed[matches_printed != ""] == "true")


def compare(paper: str, table: PaperTable, cells: Cells, published: pd.DataFrame) -> pd.DataFrame:
    """Compare a table's cells with the printed ones.

    Args:
        paper, table: the table.
        cells: recomputed.
        published: all printed numbers of the paper, as `read_published` returns them.

    Returns:
        one row a printed cell, columns `COMPARISON_COLUMNS`.

    Raises:
        InputError: where a printed row is not among the cells.
    """
    is_of_table = published["column"].isin(list(table.columns))
    is_of_table &= published["table"] == table.table
    is_of_table &= published["dataset"] == table.dataset
    rows: list[dict[str, Any]] = []
    yaml_file, csv_file = paper_files(paper)
    for printed in published[is_of_table].to_dict("records"):
        cell = cells.get((printed["row"], printed["column"]))
        if cell is None:
            raise InputError(
                f"{yaml_file}: {table.table} has no row '{printed['row']}' for column "
                f"'{printed['column']}', which {csv_file} has"
            )

        text = str(printed["published"])
        # The digits as printed say how exact a number is: 43.90 is not 43.9.
        decimals = len(text.partition(".")[2])
        value = float(text.removeprefix("<"))
        is_computed = not np.isnan(cell.value)
        match = _match(cell, value, decimals, is_bound=text.startswith("<"))
        table_notes = table.difference_notes if match == "false" else []

        row = {
            "paper": paper,
            "table": table.table,
            "dataset": table.dataset,
            "row": printed["row"],
            "column": printed["column"],
            "published": printed["published"],
            "reproduced": f"{cell.value:.{decimals + 3}f}" if is_computed else "",
            "delta": f"{cell.value - value:+.{decimals + 3}f}" if is_computed else "",
            "decimals": decimals,
            "match": match,
            "note": join_notes(cell.note, printed["note"], *table_notes),
        }
        rows.append(row)

    return make_frame(rows, COMPARISON_COLUMNS)


def _match(cell: TableCell, published: float, decimals: int, *, is_bound: bool) -> str:
    """Return the `match` of a cell: empty where it was not computed."""
    if np.isnan(cell.value):
        return ""
    # A number of another split could be the printed one only by chance.
    if cell.is_other_split:
        return OTHER_SPLIT
    if cell.is_own_rater:
        return OWN_RATER
    if cell.spread is not None:
        is_within = abs(cell.value - published) <= cell.spread + 0.5 * 10.0**-decimals
        return WITHIN_DRAW if is_within else "false"

    is_match = cell.value < published if is_bound else matches(cell.value, published, decimals)
    return str(is_match).lower()


def matches(value: float, published: float, decimals: int) -> bool:
    """Return whether a value rounds to the printed number; exactly half a unit may go either way."""
    return abs(value - published) <= 0.5 * 10.0**-decimals + 1e-9


def summarise(comparison: pd.DataFrame) -> str:
    """Count the cells that match, lie within a draw, are of another split or of one's own raters, differ, and are not recomputed.

    Those that differ are counted by paper and dataset.
    Numbers that no paper prints, but that were made with its authors' files, are counted apart.
    """
    is_printed = mark_printed(comparison)
    # Those that no paper prints.
    measured = comparison[~is_printed]
    comparison = comparison[is_printed]
    computed = comparison[comparison["match"] != ""]
    different = computed[computed["match"] == "false"]
    n_matches = int((computed["match"] == "true").sum())
    n_within = int((computed["match"] == WITHIN_DRAW).sum())
    n_not_compared = {match: int((computed["match"] == match).sum()) for match in _NOT_COMPARED}
    n_missing = len(comparison) - len(computed)

    n_compared = len(computed) - sum(n_not_compared.values())

    line = f"{n_matches} of {n_compared} recomputed cells match the printed digit"
    if n_within:
        verb = "lies" if n_within == 1 else "lie"
        line += f"; {n_within} {verb} within the spread of random draws"
    for match, n_cells in n_not_compared.items():
        if n_cells:
            verb = "is" if n_cells == 1 else "are"
            line += f"; {n_cells} more {verb} {_NOT_COMPARED[match]}, and not compared"
    if len(different):
        counts = Counter(zip(different["paper"], different["dataset"], strict=True))
        sources = [f"{n} of {paper} on {name}" for (paper, name), n in counts.most_common()]
        line += f"; {len(different)} differ: {', '.join(sources)}"
    if n_missing:
        line += f"; {n_missing} of {len(comparison)} printed cells are not recomputed"
    if n_missing or len(different):
        line += " (comparison.csv says why of each)"

    if len(measured):
        n_same = (measured["match"] == "true").sum()
        line += f"; of {len(measured)} numbers made with authors' files, which no paper prints, {n_same} match"

    return line


def _check_complete(paper: str, tables: tuple[PaperTable, ...], published: pd.DataFrame) -> None:
    """Check that every printed number belongs to a table of the paper's file.

    Raises:
        InputError: with the first that does not.
    """
    yaml_file, csv_file = paper_files(paper)
    columns: set[tuple[str, str, str]] = set()
    for table in tables:
        columns.update((table.table, table.dataset, column) for column in table.columns)

    for printed in published.to_dict("records"):
        if (printed["table"], printed["dataset"], printed["column"]) not in columns:
            raise InputError(
                f"{csv_file}: {printed['table']}, {printed['dataset']}, column "
                f"'{printed['column']}' is in no table of {yaml_file}"
            )


def _comparison_table(
    paper: str, table: PaperTable, comparison: pd.DataFrame, copies_notes: Sequence[str]
) -> ResultTable:
    """Return the rebuilt table: recomputed cells, with the paper's beside where they differ."""
    cells: dict[tuple[str, str], AnyCell] = {}
    for compared in comparison.to_dict("records"):
        key = (compared["row"], compared["column"])
        cells[key] = MISSING
        if not compared["match"]:
            continue

        # Below a bound such as <0.1 a number's own digits begin after the bound's.
        is_bound = compared["published"].startswith("<")
        decimals = compared["decimals"] + is_bound
        cell = number_cell(float(compared["reproduced"]), 1, decimals)
        if compared["match"] != "true":
            sign, _ = _PRINTED_SIGNS[compared["match"]]
            cell = replace(cell, text=f"{cell} ({sign}{compared['published']})")
        cells[key] = cell

    columns = list(table.columns)
    rows: list[Row] = []
    for row in table.rows:
        # A row that the paper leaves empty is not rebuilt.
        if any((row, column) in cells for column in columns):
            label = _with_symbol(row)
            rows.append(Row(label, [cells.get((row, column), "") for column in columns]))

    is_complete = MISSING not in cells.values()
    notes = [] if is_complete else [f"{MISSING}: not computed, see comparison.csv."]
    for match, (_, words) in _PRINTED_SIGNS.items():
        if (comparison["match"] == match).any():
            notes.append(words)
    if table_notes := table.difference_notes:
        notes.append(f"Note: {'; '.join(table_notes)}.")
    title = f"{short_citation(paper)}, {table.table}: {table.title}"
    heads = [_head_of(column) for column in columns]
    return ResultTable(title, "", heads, rows, notes=[*notes, *copies_notes])


def _with_symbol(row: str) -> str:
    """Return a row's label, with the sign of a coefficient where a paper's file has its name, as `tau_X-YZ`."""
    return re.sub(r"^(tau|kappa)(?=_|$)", lambda match: _SYMBOLS[match[0]], row)


def _head_of(column: str) -> str | Column:
    """Return a column's head: the sign of a coefficient where a paper's file has its name, as `tau_c`."""
    if column not in coefficient_names():
        return column

    coefficient = find_coefficient(column)
    return Column(coefficient.symbol, coefficient.latex)


reproduce = make_function(
    "reproduce",
    ReproduceOptions,
    run,
    summary="Rebuild published tables and compare cell by cell",
    returns="`Results`, whose `comparison` is a DataFrame with a row for each printed cell.",
    raises="on an unknown paper, malformed data, or where nothing is computed for want of files.",
)
