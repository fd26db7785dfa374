"""The table that `captau table` prints, as LaTeX that fits a column of text, or else takes the page's width."""

from __future__ import annotations

import re
from itertools import accumulate, pairwise

from ...runs.tables import MISSING, booktabs_table, latex_escape, latex_row, split_head
from .printed_table import (
    CoefficientColumn,
    JoinedTable,
    PrintedNumber,
    legend_lines,
    signature_lines,
    signs_above,
)

#: Up to so many datasets with a column each have whole heads in LaTeX; those of more are turned or folded.
_MOST_BESIDE = 3
#: The width of a column of a two-column article, in points, and the sizes of type with the mean width of a character.
_TEXT_COLUMN = 225
_SIZES = {"": 4.9, r"\scriptsize": 3.7}
#: So many rows take most of a page.
_MANY_ROWS = 30


def _stack_head(column: CoefficientColumn) -> str:
    """Return a column's head with each of its words on a line."""
    words = [latex_escape(word) for word in split_head(column.over)] if column.over else []
    lines = [*words, *re.split(r"(?<!\\) ", column.latex)]
    return r"\scriptsize\begin{tabular}[b]{@{}c@{}}" + r" \\ ".join(lines) + r"\end{tabular}"


def _turn_head(column: CoefficientColumn) -> str:
    """Return a column's head, read upwards."""
    head = f"{latex_escape(column.over)} {column.latex}".strip()
    return rf"\rotatebox{{90}}{{\scriptsize {head}}}"


def _choose_size(table: JoinedTable, *, is_beside: bool) -> tuple[str, bool]:
    """Return the size of type in which a table fits a column of text, and whether it takes the page's width instead.

    Args:
        table: the table.
        is_beside: whether many datasets have a column each, whose heads are no wider than the numbers.
    """
    n_characters = max(len(row.sourced_label) for row in table.rows)
    for index, column in enumerate(table.columns):
        cells = [row.cells[index] for row in table.rows]
        lengths = [len(_latex_text(cell, table)) for cell in cells if cell is not None]
        n_characters += max([*lengths, 0 if is_beside else len(column.head)])
    gaps = (3 if is_beside else 12) * len(table.columns)
    fitting = [size for size, w in _SIZES.items() if n_characters * w + gaps <= _TEXT_COLUMN]
    return (fitting[0], False) if fitting else ([*_SIZES][-1], True)


def _latex_text(cell: PrintedNumber, table: JoinedTable) -> str:
    """Return the characters of a cell and of what stands above, below and behind it."""
    reach = cell.reach if table.intervals == "plusminus" else ""
    ends = cell.low + cell.high if table.intervals == "subscript" else ""
    return "".join([cell.text, reach, ends, *signs_above(cell)])


def _head_lines(table: JoinedTable, *, is_beside: bool, is_wide: bool) -> list[str]:
    """Return the head: the datasets above their coefficients, or many datasets beside each other."""
    lines: list[str] = []
    ends = list(accumulate((2 * n for _, n in table.spans), initial=1))
    heads = [column.latex for column in table.columns]
    if is_beside:
        heads = list(map(_stack_head if is_wide else _turn_head, table.columns))
    elif any(over for over, _ in table.spans):
        spans = [
            rf"\multicolumn{{{2 * n}}}{{c}}{{{latex_escape(over)}}}" for over, n in table.spans
        ]
        rules = [
            rf"\cmidrule(lr){{{start + 1}-{end}}}"
            for (start, end), (over, _) in zip(pairwise(ends), table.spans, strict=True)
            if over
        ]
        lines += [latex_row(["", *spans]), "    " + " ".join(rules)]
    heads = [rf"\multicolumn{{2}}{{c}}{{{head}}}" for head in heads]
    return [*lines, latex_row([table.corner, *heads])]


def _lines_below(table: JoinedTable) -> list[str]:
    """Return the notes, footnotes and signatures, in the table's width."""
    below = [" ".join(latex_escape(n) for n in [*legend_lines(table, "Grey"), *table.notes])]
    below.append(
        " ".join(rf"$^{{\mathrm{{{mark}}}}}${latex_escape(text)}." for mark, text in table.marks)
    )
    below += signature_lines(table, latex_escape, breaking)
    below = [rf"    {line}\par" for line in below if line]
    if below:
        begin = r"  \begin{minipage}{\linewidth}\scriptsize\raggedright"
        below = [r"  \par\smallskip", begin, *below, r"  \end{minipage}"]
    return below


def latex(table: JoinedTable) -> str:
    """A booktabs table that compiles as it stands with the packages that its first lines name.

    A number and what stands above, below and behind it are in columns of their own, so that numbers
    stand under one another.
    """
    width = 2 * len(table.columns) + 1
    packages = ["booktabs", "graphicx", *(["xcolor"] if table.has_published_rows else [])]
    is_beside = len(table.spans) == len(table.columns) > _MOST_BESIDE
    size, is_wide = _choose_size(table, is_beside=is_beside)
    lines = _head_lines(table, is_beside=is_beside, is_wide=is_wide)
    for group in table.groups:
        heading = latex_escape(group.heading)
        lines.append(r"    \midrule")
        if heading:
            lines.append(rf"    \multicolumn{{{width}}}{{l}}{{\emph{{{heading}}}}} \\")
        for row in group.rows:
            cells = [latex_escape(row.sourced_label)]
            for cell in row.cells:
                cells += ["", ""] if cell is None else _latex_cell(cell, table)
            if row.source:
                cells = [rf"\textcolor{{black!60}}{{{cell}}}" if cell else "" for cell in cells]
            lines.append(latex_row(cells))
    columns = "l" + "r@{}l" * len(table.columns)
    if is_beside:
        gap = rf"@{{\hspace{{{8 if is_wide else 3}pt}}}}"
        columns = "@{}l" + f"{gap}r@{{}}l" * len(table.columns) + "@{}"
    text = booktabs_table(
        table.title,
        columns,
        lines,
        _lines_below(table),
        label=table.label,
        size=size,
        is_wide=is_wide,
        is_fitted=True,
    )
    remarks = [rf"\usepackage{{{name}}}" for name in packages]
    if is_wide:
        remarks.append(
            "Wider than a column of a two-column article: table* takes the page's width."
        )
    if len(table.rows) > _MANY_ROWS:
        remarks.append(f"Its {len(table.rows)} rows take most of a page; rows= chooses some.")
    return "\n".join([*(f"% {remark}" for remark in remarks), text]) + "\n"


def _latex_cell(cell: PrintedNumber, table: JoinedTable) -> list[str]:
    """A number, and what goes with it."""
    text = re.sub(r"^-(?=\d)", "$-$", cell.text.replace(MISSING, "--"))
    how = {"best": r"\textbf", "second": r"\underline"}.get(cell.emphasis)
    above = ",".join(rf"\mathrm{{{word}}}" for word in signs_above(cell))
    tail = f"$^{{{above}}}$" if above else ""
    if table.intervals == "subscript" and cell.low:
        tail += f"{{}}$_{{{cell.low},\\,{cell.high}}}$"
    elif table.intervals == "plusminus" and cell.reach:
        tail = rf"\,{{\scriptsize$\pm$\,{cell.reach}}}" + tail
    return [f"{how}{{{text}}}" if how else text, tail]


def breaking(signature: str) -> str:
    """A signature, which is long, with places to break it."""
    escaped = latex_escape(signature).replace(r"\textbar{}", r"\textbar\allowbreak{}")
    return escaped.replace(":", r":\allowbreak{}")
