"""Tables as LaTeX (booktabs) that fit a column of text, or else take the page's width."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import accumulate

from ...datasets.errors import escape_controls
from .tables import (
    MISSING,
    AnyCell,
    Cell,
    Column,
    ResultTable,
    legend_lines,
    signature_line,
    split_head,
)

#: Up to so many datasets with a column each have whole heads; those of more are turned or folded.
_MOST_BESIDE = 3
#: The width of a column of a two-column article, in points.
_TEXT_COLUMN = 225
#: The sizes of type that a table may have, with the mean width of a character in points.
_SIZES = {"": 4.9, r"\scriptsize": 3.7}
#: So many tables may wait for a place; LaTeX before 2015 had room for 18.
_MOST_FLOATS = 12
#: So many rows take most of a page.
_MANY_ROWS = 30


def latex_of(table: ResultTable) -> str:
    """Return a table that compiles as it stands with the packages that its first lines name.

    A number and what stands above, below and behind it are in columns of their own, so that numbers
    stand under one another.
    """
    table = table.with_marks()
    # Many columns that share no head stand closer together, under heads that are turned or stacked.
    is_beside = len(table.spans) == len(table.columns) > _MOST_BESIDE
    size, is_wide = _choose_size(table, is_beside=is_beside)
    has_tails = [_has_tails(table, index) for index in range(len(table.columns))]

    lines = _head_lines(table, has_tails, is_beside=is_beside, is_wide=is_wide)
    lines += _body_lines(table, has_tails)
    environment = "table*" if is_wide else "table"
    fit = r"  \resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
    columns = _column_sides(table, has_tails, is_beside=is_beside, is_wide=is_wide)
    parts = [
        *(f"% {remark}" for remark in _remarks(table, is_wide=is_wide)),
        rf"\begin{{{environment}}}",
        r"  \centering",
        rf"  \caption{{{escape_latex(table.title)}}}",
    ]
    if table.latex_label:
        parts.append(rf"  \label{{{table.latex_label}}}")
    if size:
        parts.append(f"  {size}")
    parts += [
        fit,
        rf"  \begin{{tabular}}{{{columns}}}",
        r"    \toprule",
        *lines,
        r"    \bottomrule",
        r"  \end{tabular}}",
        *_lines_below(table),
        rf"\end{{{environment}}}",
    ]
    return "\n".join(parts)


def join_latex(tables: Sequence[ResultTable]) -> str:
    """Return tables one below the other; LaTeX holds a limited number of floats, which many tables let out in between."""
    parts: list[str] = []
    for number, table in enumerate(tables):
        if number and number % _MOST_FLOATS == 0:
            parts.append(r"\clearpage")
        parts.append(latex_of(table))

    return "\n\n".join(parts)


def _remarks(table: ResultTable, *, is_wide: bool) -> list[str]:
    """Return what the first lines say: the packages, and how much room the table takes."""
    packages = ["booktabs", "graphicx"]
    if table.has_published_rows:
        packages.append("xcolor")
    remarks = [rf"\usepackage{{{name}}}" for name in packages]
    if is_wide:
        remarks.append(
            "Wider than a column of a two-column article: table* takes the page's width."
        )
    n_rows = sum(bool(row.cells) for row in table.rows)
    if n_rows > _MANY_ROWS:
        remarks.append(f"Its {n_rows} rows take most of a page; rows= chooses some.")
    return remarks


def _choose_size(table: ResultTable, *, is_beside: bool) -> tuple[str, bool]:
    """Return the size of type in which a table fits a column of text, and whether it takes the page's width instead.

    Args:
        table: the table.
        is_beside: whether many datasets have a column each, whose heads are no wider than the numbers.
    """
    rows = table.rows_with_cells
    # Characters times the width of a mean one: LaTeX alone knows the true widths.
    n_characters = max([len(table.corner), *(len(row.label) for row in rows)])
    for index, column in enumerate(table.described_columns):
        lengths = [len(_characters_of(row.cells[index], table)) for row in rows]
        n_characters += max([*lengths, 0 if is_beside else len(column.head)])
    gaps = (3 if is_beside else 12) * len(table.columns)
    for size, width in _SIZES.items():
        if n_characters * width + gaps <= _TEXT_COLUMN:
            return size, False
    return list(_SIZES)[-1], True


def _characters_of(cell: AnyCell, table: ResultTable) -> str:
    """Return the characters of a cell and of what stands above, below and behind it."""
    if not isinstance(cell, Cell):
        return cell
    reach = cell.reach if table.intervals == "plusminus" else ""
    ends = cell.low + cell.high if table.intervals == "subscript" else ""
    return "".join([cell.text, reach, ends, *cell.signs_above])


def _has_tails(table: ResultTable, index: int) -> bool:
    """Tell whether something stands behind a number of a column."""
    for row in table.rows_with_cells:
        _, tail = _latex_cell(row.cells[index], table)
        if tail:
            return True
    return False


def _column_sides(
    table: ResultTable, has_tails: Sequence[bool], *, is_beside: bool, is_wide: bool
) -> str:
    """Return the sides to which columns are set, as `tabular` takes them."""
    gap = ""
    if is_beside:
        gap = rf"@{{\hspace{{{8 if is_wide else 3}pt}}}}"
    side = "r" if table.numeric else "l"
    columns = "l"
    for has_tail in has_tails:
        columns += f"{gap}{side}"
        if has_tail:
            # What stands behind the numbers has a column of its own, without a gap before it.
            columns += "@{}l"
    return f"@{{}}{columns}@{{}}" if is_beside else columns


def _head_lines(
    table: ResultTable, has_tails: Sequence[bool], *, is_beside: bool, is_wide: bool
) -> list[str]:
    """Return the head: the datasets above their coefficients, or many datasets beside each other."""
    lines: list[str] = []
    columns = table.described_columns
    widths = [2 if has_tail else 1 for has_tail in has_tails]
    set_head = _latex_head
    if is_beside:
        set_head = _stack_head if is_wide else _turn_head
    elif any(column.over for column in columns):
        lines += _span_lines(table, widths)

    heads = [escape_latex(table.corner)]
    for column, width in zip(columns, widths, strict=True):
        head = set_head(column)
        heads.append(rf"\multicolumn{{2}}{{c}}{{{head}}}" if width == 2 else head)
    return [*lines, latex_row(heads)]


def _span_lines(table: ResultTable, widths: Sequence[int]) -> list[str]:
    """Return the line of the heads that columns share, and the rules below them.

    Args:
        table: the table.
        widths: how many columns of LaTeX each column takes.
    """
    # LaTeX numbers columns from 1, and the first holds the labels.
    ends = list(accumulate(widths, initial=1))
    cells = [""]
    rules: list[str] = []
    first = 0
    for over, n_columns in table.spans:
        start = ends[first] + 1
        first += n_columns
        end = ends[first]
        cells.append(rf"\multicolumn{{{end - start + 1}}}{{c}}{{{escape_latex(over)}}}")
        if over:
            rules.append(rf"\cmidrule(lr){{{start}-{end}}}")
    return [latex_row(cells), "    " + " ".join(rules)]


def _latex_head(column: Column) -> str:
    """Return a column's own head."""
    return column.latex or escape_latex(column.head)


def _stack_head(column: Column) -> str:
    """Return a column's head with each of its words on a line."""
    words = [escape_latex(word) for word in split_head(column.over)] if column.over else []
    lines = [*words, *re.split(r"(?<!\\) ", _latex_head(column))]
    return r"\scriptsize\begin{tabular}[b]{@{}c@{}}" + r" \\ ".join(lines) + r"\end{tabular}"


def _turn_head(column: Column) -> str:
    """Return a column's head, read upwards."""
    head = f"{escape_latex(column.over)} {_latex_head(column)}".strip()
    return rf"\rotatebox{{90}}{{\scriptsize {head}}}"


def _body_lines(table: ResultTable, has_tails: Sequence[bool]) -> list[str]:
    """Return the rows; a rule stands above the first of them and above each heading."""
    lines: list[str] = []
    n_columns = 1 + len(has_tails) + sum(has_tails)
    for number, row in enumerate(table.rows):
        is_heading = not row.cells
        if is_heading or not number:
            lines.append(r"    \midrule")
        if is_heading:
            heading = escape_latex(row.label)
            lines.append(rf"    \multicolumn{{{n_columns}}}{{l}}{{\emph{{{heading}}}}} \\")
            continue

        cells = [escape_latex(row.label)]
        for cell, has_tail in zip(row.cells, has_tails, strict=True):
            number_text, tail = _latex_cell(cell, table)
            cells.append(number_text)
            if has_tail:
                cells.append(tail)
        # Grey tells published numbers from computed ones without a further column.
        if row.source:
            cells = list(map(_set_grey, cells))
        lines.append(latex_row(cells))
    return lines


def _set_grey(cell: str) -> str:
    """Set a cell in grey; an empty one stays empty."""
    return rf"\textcolor{{black!60}}{{{cell}}}" if cell else ""


def _latex_cell(cell: AnyCell, table: ResultTable) -> tuple[str, str]:
    """Return a number, and what stands behind it."""
    text = escape_latex(str(cell)).replace(MISSING, "--")
    if not isinstance(cell, Cell):
        return text, ""

    # A hyphen is shorter than a minus.
    text = re.sub(r"^-(?=\d)", "$-$", text)
    emphasis = {"best": r"\textbf", "second": r"\underline"}.get(cell.emphasis)
    if emphasis:
        text = f"{emphasis}{{{text}}}"

    above = ",".join(rf"\mathrm{{{sign}}}" for sign in cell.signs_above)
    tail = f"$^{{{above}}}$" if above else ""
    if table.intervals == "subscript" and cell.low:
        tail += f"{{}}$_{{{cell.low},\\,{cell.high}}}$"
    elif table.intervals == "plusminus" and cell.reach:
        tail = rf"\,{{\scriptsize$\pm$\,{cell.reach}}}" + tail
    return text, tail


def _lines_below(table: ResultTable) -> list[str]:
    """Return the notes, footnotes and signatures, in the table's width."""
    notes = [*legend_lines(table, "Grey"), *table.lines_below]
    footnotes: list[str] = []
    for letter, text in table.footnotes:
        footnotes.append(rf"$^{{\mathrm{{{letter}}}}}${escape_latex(text)}.")
    below = [" ".join(map(escape_latex, notes)), " ".join(footnotes)]
    below += signature_line(table, escape_latex, break_signature)
    lines = [rf"    {line}\par" for line in filter(None, below)]
    if not lines:
        return []
    return [
        r"  \par\smallskip",
        r"  \begin{minipage}{\linewidth}\footnotesize\raggedright",
        *lines,
        r"  \end{minipage}",
    ]


def latex_row(cells: Iterable[str]) -> str:
    """Return a row of a LaTeX table, its cells escaped already."""
    return f"    {' & '.join(cells)} " + r"\\"


def break_signature(signature: str) -> str:
    """Return a signature, which is long, with places to break it."""
    escaped = escape_latex(signature).replace(r"\textbar{}", r"\textbar\allowbreak{}")
    return escaped.replace(":", r":\allowbreak{}")


_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "α": r"$\alpha$",
    "γ": r"$\gamma$",
    "τ": r"$\tau$",
    "κ": r"$\kappa$",
    "ρ": r"$\rho$",
    "ω": r"$\omega$",
    "ε": r"$\varepsilon$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "−": "$-$",
    "→": r"$\to$",
    "≥": r"$\geq$",
    "█": r"\rule{2pt}{6pt}",
}


def escape_latex(text: str) -> str:
    """Escape text for LaTeX; Greek letters and signs become formulas, and so do τ_a, τ_b and τ_c.

    Control characters are shown by their code, as LaTeX refuses some, and others turn the direction of the text.
    """
    escaped = "".join(_LATEX.get(char, char) for char in escape_controls(text))
    escaped = re.sub(r"\$\\tau\$\\_([abc])\b", r"$\\tau_\1$", escaped)
    # At the start of a row these would be arguments of the line break before it.
    return "{}" + escaped if escaped.startswith(("[", "*")) else escaped
