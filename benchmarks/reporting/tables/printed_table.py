"""The table that `captau table` prints, as data and as LaTeX, Markdown, HTML, CSV and JSON; the same table gives the same bytes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from importlib import resources
from typing import Any

from ....datasets import registry
from ...runs.results import to_json
from ...runs.tables import (
    MISSING,
    ResultTable,
    csv_lines,
    markdown_of,
)
from ...scoring.catalog import METRIC_KINDS
from ...scoring.protocol import Protocol

#: How rows are grouped, in this order.
GROUPS = (*METRIC_KINDS, "published", "floors", "ceilings")

_HEADINGS = {
    "given": "your metrics",
    "ceilings": "people",
    "published": "published alone",
    "systems": "",
}


@dataclass(frozen=True)
class CoefficientColumn:
    """A coefficient of a dataset.

    Attributes:
        dataset, dimension, coefficient, protocol: of what.
        revision: the dataset's, as the run read it.
        over: the head that it shares with its neighbours.
        head, latex: its own, in plain text and for LaTeX.
    """

    dataset: str
    dimension: str
    coefficient: str
    protocol: Protocol
    revision: str
    over: str
    head: str
    latex: str

    @property
    def whole_head(self) -> str:
        """The head where it cannot share a part with its neighbours."""
        return f"{self.over} {self.head}".strip()

    @property
    def short_head(self) -> str:
        """The same for a narrow terminal."""
        card = registry.card(self.dataset) if self.dataset in registry.names() else None
        has_title = card is not None and self.over.startswith(card.title)
        if card is None or not card.short_title or not has_title:
            return self.whole_head
        return self.whole_head.replace(card.title, card.short_title, 1)


@dataclass(frozen=True)
class PrintedNumber:
    """A number as it is printed.

    Attributes:
        text: the number, `MISSING` where there is none.
        value: in its natural range; NaN where there is none.
        low, high, reach: the interval's ends and half its width, as printed; empty where there is none.
        rank: the cluster of metrics that cannot be told apart; None where there is none.
        emphasis: `best`, `second` or nothing.
        marks: letters of the footnotes.
    """

    text: str
    value: float
    low: str = ""
    high: str = ""
    reach: str = ""
    rank: int | None = None
    emphasis: str = ""
    marks: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableRow:
    """A metric's numbers, one a column; None where there is nothing to say.

    Attributes:
        source: who printed them; empty where captau computed them.
        spec, signature: of the metric; empty where a paper's is not in captau.
    """

    label: str
    source: str
    spec: str
    signature: str
    cells: tuple[PrintedNumber | None, ...]

    @property
    def sourced_label(self) -> str:
        """The label, and who printed the numbers."""
        return f"{self.label} ({self.source})" if self.source else self.label


@dataclass(frozen=True)
class RowGroup:
    """Rows of one kind, one of `GROUPS`, or `systems`."""

    kind: str
    rows: tuple[TableRow, ...]

    @property
    def heading(self) -> str:
        """The text above the rows; empty where it would only repeat the corner."""
        return _HEADINGS.get(self.kind, self.kind)


@dataclass(frozen=True)
class JoinedTable:
    """The table that `captau table` prints.

    Attributes:
        label: for LaTeX's `\\ref`; empty for none.
        marks: footnotes with their letters.
        notes: what else stands below.
        signatures: the metrics' labels and signatures, which stand there too.
        intervals: how intervals are shown: `subscript`, `plusminus` or `none`.
        has_legend: whether a line below explains the letters' shapes.
        corner: the head of the rows' names.
    """

    title: str
    label: str
    columns: tuple[CoefficientColumn, ...]
    groups: tuple[RowGroup, ...]
    marks: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    signatures: tuple[tuple[str, str], ...]
    intervals: str
    has_legend: bool = True
    corner: str = "metric"

    @property
    def rows(self) -> list[TableRow]:
        """Those of all groups."""
        return [row for group in self.groups for row in group.rows]

    @property
    def cells(self) -> list[PrintedNumber]:
        """All that there are, row by row."""
        return [cell for row in self.rows for cell in row.cells if cell is not None]

    @property
    def has_published_rows(self) -> bool:
        """Tell whether a row has numbers that captau did not compute."""
        return any(row.source for row in self.rows)

    @property
    def spans(self) -> list[tuple[str, int]]:
        """The heads that columns share, and over how many."""
        spans: list[tuple[str, int]] = []
        for column in self.columns:
            if spans and spans[-1][0] == column.over:
                spans[-1] = column.over, spans[-1][1] + 1
            else:
                spans.append((column.over, 1))
        return spans


def legend_lines(table: JoinedTable, printed: str) -> list[str]:
    """Explain the letters' shapes; `printed` is the look of published numbers."""
    lines: list[str] = []
    if not table.has_legend:
        return lines
    if any(cell.emphasis for cell in table.cells):
        are_systems = all(group.kind == "systems" for group in table.groups)
        competition = "" if are_systems else "; floors and what people reach do not compete"
        lines.append(
            f"Bold and underlined: the best and the second best of a column, as printed{competition}."
        )
    if table.has_published_rows:
        lines.append(
            f"{printed}: as published, not computed by captau; out of competition where the protocol "
            "is another or captau computed the metric."
        )
    return lines


def signs_above(cell: PrintedNumber) -> list[str]:
    """Return the rank and the footnotes' letters, which stand above the line."""
    return [*([str(cell.rank)] if cell.rank is not None else []), *cell.marks]


def signature_lines(
    table: JoinedTable, write_text: Callable[[str], str], write_signature: Callable[[str], str]
) -> list[str]:
    """Return the line of the metrics' signatures; none where there are none."""
    signatures = [
        f"{write_text(label)}: {write_signature(signature)}"
        for label, signature in table.signatures
    ]
    return [f"Signatures: {'; '.join(signatures)}."] if signatures else []


def markdown(table: JoinedTable) -> str:
    """GitHub's pipe table; what Markdown has no sign for is in HTML's."""
    rows: list[tuple[str, list[str]]] = []
    for group in table.groups:
        if group.heading:
            rows.append((f"*{escape_markdown(group.heading)}*", []))
        for row in group.rows:
            numbers = (_marked(cell, table, _IN_MARKDOWN) for cell in row.cells)
            texts = [escape_markdown(row.sourced_label), *numbers]
            label, *cells = [f"*{text}*" if row.source and text else text for text in texts]
            rows.append((label, cells))
    heads = [escape_markdown(column.whole_head) for column in table.columns]
    notes = _below(table, "In italics", escape_markdown, escape_markdown)
    title, corner = escape_markdown(table.title), escape_markdown(table.corner)
    printed = ResultTable(title, corner, heads, rows, notes=notes)
    return markdown_of(printed, is_escaped=True) + "\n"


def _below(
    table: JoinedTable,
    printed: str,
    write_text: Callable[[str], str],
    write_signature: Callable[[str], str],
) -> list[str]:
    """Return the lines below a table whose signs are HTML's; `printed` is the look of published numbers."""
    return [
        *(write_text(note) for note in (*legend_lines(table, printed), *table.notes)),
        *(f"<sup>{mark}</sup> {write_text(text)}." for mark, text in table.marks),
        *signature_lines(table, write_text, write_signature),
    ]


#: How a number is shown, by its emphasis.
_IN_MARKDOWN = {"": "{}", "best": "**{}**", "second": "<ins>{}</ins>"}
_IN_HTML = {
    "": '<span class="number">{}</span>',
    "best": '<span class="number"><strong>{}</strong></span>',
    "second": '<span class="number"><u>{}</u></span>',
}


def _marked(cell: PrintedNumber | None, table: JoinedTable, signs: Mapping[str, str]) -> str:
    """A cell with HTML's signs, which Markdown takes as well."""
    if cell is None:
        return ""
    above = ",".join(signs_above(cell))
    text = signs[cell.emphasis].format(cell.text)
    if table.intervals == "plusminus" and cell.reach:
        text += f" ± {cell.reach}"
    text += f"<sup>{above}</sup>" if above else ""
    if table.intervals == "subscript" and cell.low:
        text += f"<sub>{cell.low}, {cell.high}</sub>"
    return text


def escape_markdown(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\`*<|])", r"\\\1", text)


def html_of(table: JoinedTable) -> str:
    """A fragment that carries its style, for light pages and dark."""
    css = (resources.files("captau.benchmarks.reporting") / "page" / "table.css").read_text("utf-8")
    spans = "".join(
        f'<th colspan="{n}" scope="colgroup">{escape(over)}</th>' for over, n in table.spans
    )
    heads = "".join(f'<th scope="col">{escape(column.head)}</th>' for column in table.columns)
    lines = [
        '<figure class="captau-table">',
        f"<style>\n{css}</style>",
        f'<div class="wide" role="region" tabindex="0" aria-label="{escape(table.title)}">',
        "<table>",
        f"<caption>{escape(table.title)}</caption>",
        f'<thead>\n<tr><th rowspan="2" scope="col">{table.corner}</th>{spans}</tr>\n<tr>{heads}</tr>\n</thead>'
        if any(over for over, _ in table.spans)
        else f'<thead>\n<tr><th scope="col">{table.corner}</th>{heads}</tr>\n</thead>',
    ]
    for group in table.groups:
        lines.append("<tbody>")
        if group.heading:
            lines.append(
                f'<tr class="kind"><th colspan="{len(table.columns) + 1}" scope="rowgroup">'
                f"{escape(group.heading)}</th></tr>"
            )
        for row in group.rows:
            cells = "".join(f"<td>{_marked(c, table, _IN_HTML)}</td>" for c in row.cells)
            kind = ' class="published"' if row.source else ""
            lines.append(f'<tr{kind}><th scope="row">{escape(row.sourced_label)}</th>{cells}</tr>')
        lines.append("</tbody>")
    below = _below(table, "Grey", escape, lambda sign: f"<code>{escape(sign)}</code>")
    lines += ["</table>\n</div>", "<figcaption>", *(f"<p>{line}</p>" for line in below)]
    return "\n".join([*lines, "</figcaption>", "</figure>"]) + "\n"


def csv_of(table: JoinedTable) -> str:
    """The printed numbers, one a field: a row a metric, and footnotes in full in the last column."""
    parts: dict[str, Callable[[PrintedNumber], str]] = {"": lambda c: c.text.replace(MISSING, "")}
    if table.intervals == "subscript":
        parts |= {" low": lambda c: c.low, " high": lambda c: c.high}
    elif table.intervals == "plusminus":
        parts |= {" ±": lambda c: c.reach}
    parts |= {" rank": lambda c: "" if c.rank is None else str(c.rank)}
    picked_cells = [
        (index, name, part)
        for index, _ in enumerate(table.columns)
        for name, part in parts.items()
        # A part that no metric has in a column is left out, a column without any number is not.
        if not name or any(part(c) for row in table.rows if (c := row.cells[index]) is not None)
    ]
    heads = [table.columns[index].whole_head + name for index, name, _ in picked_cells]
    texts = dict(table.marks)
    lines = [["kind", table.corner, "published by", *heads, "notes"]]
    for group in table.groups:
        for row in group.rows:
            fields = ["" if (c := row.cells[i]) is None else part(c) for i, _, part in picked_cells]
            marks = dict.fromkeys(m for c in row.cells if c is not None for m in c.marks)
            notes = "; ".join(texts[mark] for mark in marks)
            lines.append([group.kind, row.label, row.source, *fields, notes])
    return csv_lines(lines)


def json_of(table: JoinedTable) -> str:
    """All of it: values in full, printed texts, ranks, emphasis, footnotes, protocols."""
    marks = dict(table.marks)

    def cell_of(cell: PrintedNumber | None) -> dict[str, Any] | None:
        if cell is None:
            return None
        return {**vars(cell), "marks": [marks[mark] for mark in cell.marks]}

    plain = {
        "title": table.title,
        "columns": [{**vars(c), "protocol": vars(c.protocol)} for c in table.columns],
        "groups": [
            {
                "kind": group.kind,
                "rows": [{**vars(r), "cells": [cell_of(c) for c in r.cells]} for r in group.rows],
            }
            for group in table.groups
        ],
        "notes": table.notes,
    }
    return to_json(plain).decode()
