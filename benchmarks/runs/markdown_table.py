"""Tables as GitHub's Markdown; what Markdown has no sign for is in HTML's."""

from __future__ import annotations

import re

from .marked_cells import mark_cell, mark_lines_below
from .tables import ResultTable, Row

_LOOKS = {"": "{}", "best": "**{}**", "second": "<ins>{}</ins>"}


def markdown_of(table: ResultTable) -> str:
    """Return a pipe table, the lines below it as paragraphs."""
    table = table.with_marks()
    heads = [escape_markdown(head) for head in (table.corner, *table.heads)]
    side = "--:|" if table.numeric else ":--|"
    lines = [
        f"**{escape_markdown(table.title)}**",
        "",
        f"| {' | '.join(heads)} |",
        "|:--|" + side * len(table.columns),
    ]
    lines += [_row_line(row, table) for row in table.rows]
    below = mark_lines_below(
        table,
        published_look="In italics",
        write_text=_escape_sentence,
        write_signature=_escape_sentence,
    )
    lines += [f"\n{line}" for line in below]
    return "\n".join(lines)


def _row_line(row: Row, table: ResultTable) -> str:
    """Return a row; published ones and headings stand in italics where rows have groups."""
    cells = [mark_cell(cell, table.intervals, _LOOKS, escape_markdown) for cell in row.cells]
    texts = [escape_markdown(row.label), *cells]
    if row.source or (row.kind and not row.cells):
        texts = list(map(_set_italic, texts))
    n_empty = len(table.columns) - len(cells)
    return f"| {' | '.join(texts)} |" + " |" * n_empty


def _set_italic(text: str) -> str:
    """Set a text in italics; an empty one stays empty, as two stars would begin bold type."""
    return f"*{text}*" if text else ""


def _escape_sentence(text: str) -> str:
    """Return a sentence below a table as `escape_markdown` does; a bar ends no cell there, as in a signature."""
    return escape_markdown(text).replace(r"\|", "|")


def escape_markdown(text: str) -> str:
    """Return a text that Markdown shows as it is: no bar ends a cell, no tag of HTML and no emphasis begins.

    A star before a blank or a colon begins nothing, and stays as it is for those who read the source.
    """
    return re.sub(r"[|\\`]|\*(?=[^\s:])|<(?=[A-Za-z/!?])", r"\\\g<0>", text)
