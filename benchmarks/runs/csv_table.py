"""Tables as CSV: the printed numbers, one a field."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence

from .tables import MISSING, AnyCell, Cell, ResultTable


def csv_of(table: ResultTable) -> str:
    """Return a row a line, empty where there is no number.

    An interval's ends and a rank have fields of their own. Where rows have kinds, a row begins with its kind, its label
    and whoever published its numbers, and ends with its footnotes in full.
    """
    parts = _choose_parts(table)
    heads = [table.heads[index] + name for index, name, _ in parts]
    has_kinds = any(row.kind for row in table.rows)
    lines = [[table.corner, *heads]]
    if has_kinds:
        lines = [["kind", table.corner, "published by", *heads, "notes"]]

    footnotes = dict(table.footnotes)
    # A heading says the kind of the rows below it: where each row says its own, there is none.
    rows = table.rows_with_cells if has_kinds else table.rows
    for row in rows:
        fields: list[str] = []
        if row.cells:
            fields = [read(row.cells[index]) for index, _, read in parts]
        if not has_kinds:
            lines.append([row.label, *fields])
            continue
        letters: list[str] = []
        for cell in row.cells:
            if isinstance(cell, Cell):
                letters += cell.marks
        # Several cells of a row may bear one mark.
        notes = [footnotes[letter] for letter in dict.fromkeys(letters)]
        lines.append([row.kind, row.label, row.source, *fields, "; ".join(notes)])
    return csv_lines(lines)


def _choose_parts(table: ResultTable) -> list[tuple[int, str, Callable[[AnyCell], str]]]:
    """Return the fields of a row: the column, the end of the field's head, and what reads it from a cell."""
    readers: dict[str, Callable[[AnyCell], str]] = {"": _text_of}
    if table.intervals == "subscript":
        readers[" low"] = lambda cell: cell.low if isinstance(cell, Cell) else ""
        readers[" high"] = lambda cell: cell.high if isinstance(cell, Cell) else ""
    elif table.intervals == "plusminus":
        readers[" ±"] = lambda cell: cell.reach if isinstance(cell, Cell) else ""
    readers[" rank"] = _rank_of

    # A part that no row has in a column is left out; a column without any number is not.
    chosen_parts: list[tuple[int, str, Callable[[AnyCell], str]]] = []
    rows = table.rows_with_cells
    for index in range(len(table.columns)):
        cells = [row.cells[index] for row in rows]
        for name, read in readers.items():
            if not name or any(map(read, cells)):
                chosen_parts.append((index, name, read))
    return chosen_parts


def _text_of(cell: AnyCell) -> str:
    """Return what a cell shows; empty where it is `MISSING`."""
    text = str(cell)
    return "" if text == MISSING else text


def _rank_of(cell: AnyCell) -> str:
    """Return the rank of a cell; empty where it has none."""
    if not isinstance(cell, Cell) or cell.rank is None:
        return ""
    return str(cell.rank)


def csv_lines(rows: Iterable[Sequence[str]]) -> str:
    """Return rows as lines of CSV."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue()
