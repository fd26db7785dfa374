"""Cells with the signs of HTML, which Markdown takes as well, and the lines below a table with such signs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .tables import AnyCell, Cell, ResultTable, legend_lines, signature_line


def mark_cell(
    cell: AnyCell,
    intervals: str,
    looks: Mapping[str, str],
    write_text: Callable[[str], str],
) -> str:
    """Return a cell with its interval, its rank and its footnotes.

    Args:
        cell: the cell.
        intervals: how intervals are shown, see `ResultTable.intervals`.
        looks: how a number is set, `{}` being its text, by its emphasis.
        write_text: how a cell that is a text is written.
    """
    if not isinstance(cell, Cell):
        return write_text(cell)
    text = looks[cell.emphasis].format(write_text(cell.text))
    if intervals == "plusminus" and cell.reach:
        text += f" ± {cell.reach}"
    if cell.signs_above:
        text += f"<sup>{','.join(cell.signs_above)}</sup>"
    if intervals == "subscript" and cell.low:
        text += f"<sub>{cell.low}, {cell.high}</sub>"
    return text


def mark_lines_below(
    table: ResultTable,
    published_look: str,
    write_text: Callable[[str], str],
    write_signature: Callable[[str], str],
) -> list[str]:
    """Return the lines below a table: verdict, legend, notes, footnotes and signatures.

    Args:
        table: the table.
        published_look: how published numbers are set, see `legend_lines`.
        write_text, write_signature: how a text and a metric's signature are written.
    """
    plain_lines = [*legend_lines(table, published_look), *table.lines_below]
    footnotes = [f"<sup>{letter}</sup> {write_text(text)}." for letter, text in table.footnotes]
    return [
        *map(write_text, plain_lines),
        *footnotes,
        *signature_line(table, write_text, write_signature),
    ]
