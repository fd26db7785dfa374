"""The layouts of the table that `captau table` prints, by the name of the style, and its appendix."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import Any

from ...runs.csv_table import csv_of
from ...runs.html_table import html_of
from ...runs.latex_table import latex_of
from ...runs.latex_text import break_signature, escape_latex
from ...runs.markdown_table import escape_markdown, markdown_of
from ...runs.results import to_json
from ...runs.tables import AnyCell, Cell, ResultTable, Row
from .coefficient_column import CoefficientColumn


def appendix(table: ResultTable, *, is_latex: bool) -> str:
    """Return the notes and signatures of a table for a paper's appendix, as LaTeX or Markdown."""
    title = f"Details of the table: {table.title}"
    notes = table.notes
    signatures: list[str] = []
    if is_latex:
        for label, signature in table.signatures:
            signatures.append(rf"  \item {escape_latex(label)}: {break_signature(signature)}")
        lines = [rf"\paragraph{{{escape_latex(title)}}}", *map(escape_latex, notes)]
        lines += [r"\begin{itemize}\raggedright", *signatures, r"\end{itemize}"]
        return "\n".join(lines)

    for label, signature in table.signatures:
        signatures.append(f"- {escape_markdown(label)}: `{signature}`")
    return "\n\n".join([f"## {title}", *map(escape_markdown, notes), "\n".join(signatures)])


def json_of(table: ResultTable) -> str:
    """Return all of a joined table: values in full, printed texts, ranks, emphasis, footnotes, protocols."""
    footnotes = dict(table.footnotes)
    groups: list[dict[str, Any]] = []
    numbers = (row for row in table.rows if row.cells)
    for kind, rows in groupby(numbers, key=lambda row: row.kind):
        groups.append({"kind": kind, "rows": [_row_record(row, footnotes) for row in rows]})
    columns: list[dict[str, Any]] = []
    for column in table.columns:
        if isinstance(column, CoefficientColumn):
            columns.append(_column_record(column))
    record = {
        "title": table.title,
        "columns": columns,
        "groups": groups,
        "notes": list(table.notes),
    }
    return to_json(record).decode()


def _column_record(column: CoefficientColumn) -> dict[str, Any]:
    """Return a column for JSON."""
    return {
        "dataset": column.dataset,
        "dimension": column.dimension,
        "coefficient": column.coefficient,
        "protocol": vars(column.protocol),
        "revision": column.revision,
        "over": column.over,
        "head": column.head,
        "latex": column.latex,
    }


def _row_record(row: Row, footnotes: dict[str, str]) -> dict[str, Any]:
    """Return a row for JSON."""
    return {
        "label": row.label,
        "source": row.source,
        "spec": row.spec,
        "signature": row.signature,
        "cells": [_cell_record(cell, footnotes) for cell in row.cells],
    }


def _cell_record(cell: AnyCell, footnotes: dict[str, str]) -> dict[str, Any] | None:
    """Return a number for JSON; None where there is none."""
    if not isinstance(cell, Cell):
        return None
    return {
        "text": cell.text,
        "value": cell.value,
        "low": cell.low,
        "high": cell.high,
        "reach": cell.reach,
        "rank": cell.rank,
        "emphasis": cell.emphasis,
        "marks": [footnotes[letter] for letter in cell.marks],
    }


LAYOUTS: dict[str, Callable[[ResultTable], str]] = {
    "markdown": markdown_of,
    "latex": latex_of,
    "html": html_of,
    "csv": csv_of,
    "json": json_of,
}
