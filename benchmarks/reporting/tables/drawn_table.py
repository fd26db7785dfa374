"""The table of `captau table` as a terminal draws it."""

from __future__ import annotations

from ...runs.tables import ResultTable, is_empty_column
from .printed_table import JoinedTable, PrintedNumber, signs_above

#: Letters and digits as they stand above the line in a terminal; there is no such q.
_RAISED = str.maketrans(
    "0123456789abcdefghijklmnoprstuvwxyz", "⁰¹²³⁴⁵⁶⁷⁸⁹ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ"
)


def draw_table(table: JoinedTable) -> ResultTable:
    """Return the table as a terminal draws it: ranks and footnotes above the line, intervals in brackets."""
    tails = [[_tail_of(cell, table) for cell in row.cells] for row in table.rows]
    widths = [max(map(len, column)) for column in zip(*tails, strict=True)]
    rows: list[tuple[str, list[str]]] = []
    tails_of_rows = iter(tails)
    for group in table.groups:
        if group.heading and len(table.groups) > 1:
            rows.append((group.heading, []))
        for row in group.rows:
            parts = zip(row.cells, next(tails_of_rows), widths, strict=True)
            cells = ["" if c is None else c.text + tail.ljust(width) for c, tail, width in parts]
            rows.append((row.sourced_label, cells))
    others = [i for i, column in enumerate(table.columns) if column.over][1:]
    others.sort(key=lambda i: (is_empty_column(rows, i), i), reverse=True)
    return ResultTable(
        table.title,
        table.corner,
        [column.whole_head for column in table.columns],
        rows,
        short_columns=[column.short_head for column in table.columns],
        notes=[*table.notes, *(f"{m.translate(_RAISED)} {text}." for m, text in table.marks)],
        spare=tuple((i,) for i in others),
        file="style=markdown",
    )


def _tail_of(cell: PrintedNumber | None, table: JoinedTable) -> str:
    """Return what stands behind a number."""
    if cell is None:
        return ""
    tail = "".join(signs_above(cell)).translate(_RAISED)
    if table.intervals == "plusminus" and cell.reach:
        tail = f" ± {cell.reach}{tail}"
    elif table.intervals == "subscript" and cell.low:
        tail += f" [{cell.low}, {cell.high}]"
    return tail
