"""Tables as HTML: a fragment that carries its style, for light pages and dark."""

from __future__ import annotations

from html import escape
from importlib import resources

from .marked_cells import mark_cell, mark_lines_below
from .tables import ResultTable, Row

_LOOKS = {
    "": '<span class="number">{}</span>',
    "best": '<span class="number"><strong>{}</strong></span>',
    "second": '<span class="number"><u>{}</u></span>',
}


def html_of(table: ResultTable) -> str:
    """Return a figure: the table, which scrolls where it is too wide, and the lines below it."""
    table = table.with_marks()
    css = (resources.files("captau.benchmarks.runs") / "table.css").read_text("utf-8")
    title = escape(table.title)
    lines = [
        '<figure class="captau-table">',
        f"<style>\n{css}</style>",
        f'<div class="wide" role="region" tabindex="0" aria-label="{title}">',
        "<table>",
        f"<caption>{title}</caption>",
        f"<thead>\n{_head_of(table)}\n</thead>",
        "<tbody>",
    ]
    for number, row in enumerate(table.rows):
        is_heading = not row.cells
        if is_heading and number:
            lines += ["</tbody>", "<tbody>"]
        lines.append(_heading_line(row, table) if is_heading else _row_line(row, table))
    lines += ["</tbody>", "</table>\n</div>", "<figcaption>"]

    below = mark_lines_below(
        table,
        published_look="Grey",
        write_text=escape,
        write_signature=lambda text: f"<code>{escape(text)}</code>",
    )
    lines += [f"<p>{line}</p>" for line in below]
    return "\n".join([*lines, "</figcaption>", "</figure>"])


def _head_of(table: ResultTable) -> str:
    """Return the head: a line, or two where columns share a part of theirs."""
    cells = ""
    for column in table.described_columns:
        cells += f'<th scope="col">{escape(column.head)}</th>'
    corner = escape(table.corner)
    if not any(column.over for column in table.described_columns):
        return f'<tr><th scope="col">{corner}</th>{cells}</tr>'

    shared_heads = ""
    for over, n_columns in table.spans:
        shared_heads += f'<th colspan="{n_columns}" scope="colgroup">{escape(over)}</th>'
    return f'<tr><th rowspan="2" scope="col">{corner}</th>{shared_heads}</tr>\n<tr>{cells}</tr>'


def _heading_line(row: Row, table: ResultTable) -> str:
    """Return the heading of the rows below it."""
    n_columns = len(table.columns) + 1
    heading = escape(row.label)
    return f'<tr class="kind"><th colspan="{n_columns}" scope="rowgroup">{heading}</th></tr>'


def _row_line(row: Row, table: ResultTable) -> str:
    """Return a row."""
    texts = [mark_cell(cell, table.intervals, _LOOKS, escape) for cell in row.cells]
    cells = "".join(f"<td>{text}</td>" for text in texts)
    style = ' class="published"' if row.source else ""
    return f'<tr{style}><th scope="row">{escape(row.label)}</th>{cells}</tr>'
