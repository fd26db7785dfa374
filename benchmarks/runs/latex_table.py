"""Tables as LaTeX (booktabs) that fit a column of text, or else take the page's width.

A few tables are floats. Many stand where they are written, in one column: as floats they would leave pages half empty.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate, chain

from .latex_layout import (
    PAGE_HEIGHT,
    SMALLEST,
    STACKED,
    TURNED,
    USUAL_GAP,
    WHOLE,
    Layout,
    Placement,
    count_panels,
    estimate_height,
    layout_of_page,
    place,
)
from .latex_text import break_signature, escape_latex
from .tables import (
    MISSING,
    AnyCell,
    Cell,
    Column,
    ResultTable,
    Row,
    legend_lines,
    signature_line,
    split_head,
)

#: So many tables may be floats; LaTeX before 2015 had room for 18 that wait for a place.
_MOST_FLOATS = 12
#: So many rows take most of a page.
_MANY_ROWS = 30


def latex_of(table: ResultTable) -> str:
    """Return a table as a float that compiles as it stands with the packages that its first lines name.

    A number and what stands above, below and behind it are in columns of their own, so that numbers
    stand under one another.
    """
    table = table.with_marks()
    placement = place(table)
    is_wide = placement.is_wide
    is_tall = estimate_height(table, placement.layout.size, is_wide=is_wide) > PAGE_HEIGHT
    if is_tall:
        # On the page's width notes have fewer lines.
        is_wide = True
        placement = _smallest_placement(table)
    environment = "table*" if is_wide else "table"
    parts = [
        *(f"% {remark}" for remark in _remarks(table, is_wide=is_wide)),
        rf"\begin{{{environment}}}",
        *_table_lines(table, placement, is_tall=is_tall),
        rf"\end{{{environment}}}",
    ]
    return "\n".join(parts)


def _smallest_placement(table: ResultTable) -> Placement:
    """Place a table in the page's width, in the smallest type."""
    layout = layout_of_page(table, (SMALLEST,))
    return Placement(is_wide=True, layout=layout, roomy=layout)


def join_latex(tables: Sequence[ResultTable]) -> str:
    """Return tables one below the other; many stand where they are written, in one column."""
    if len(tables) <= _MOST_FLOATS:
        return "\n\n".join(map(latex_of, tables))

    packages: dict[str, None] = {}
    for table in tables:
        packages |= dict.fromkeys(_packages(table))
    parts = [
        "\n".join([f"% {package}" for package in packages]),
        _IN_ONE_COLUMN.format(n_tables=len(tables)),
        *(_latex_in_place(table) for table in tables),
        r"\captauend",
    ]
    return "\n\n".join(parts)


#: What stands before many tables. `\captauend`, behind them, goes back to two columns where the article has two.
_IN_ONE_COLUMN = r"""% {n_tables} tables stand where they are written, in one column: as floats they would leave pages half empty.
\makeatletter
\if@twocolumn
  \onecolumn\raggedbottom
  \def\captauend{{\par\twocolumn\flushbottom}}
\else
  \def\captauend{{\par}}
\fi
\makeatother"""


def _latex_in_place(table: ResultTable) -> str:
    """Return a table that stands where it is written, and is not divided between pages."""
    table = table.with_marks()
    layout = layout_of_page(table)
    is_tall = estimate_height(table, layout.size, is_wide=True) > PAGE_HEIGHT
    placement = Placement(is_wide=True, layout=layout, roomy=layout)
    if is_tall:
        placement = _smallest_placement(table)
    parts = [
        r"\noindent\begin{minipage}{\linewidth}",
        r"  \makeatletter\def\@captype{table}\makeatother",
        *_table_lines(table, placement, is_tall=is_tall),
        r"\end{minipage}\par\bigskip",
    ]
    return "\n".join(parts)


def _table_lines(table: ResultTable, placement: Placement, *, is_tall: bool = False) -> list[str]:
    """Return what a table's environment holds: caption, numbers and notes."""
    # Classes such as article leave no room between a caption above and the table.
    lines = [r"  \centering", rf"  \caption{{{escape_latex(table.title)}}}\smallskip"]
    if table.latex_label:
        lines.append(rf"  \label{{{table.latex_label}}}")
    lines += _size_lines(placement)
    layout = placement.layout
    for number, panel in enumerate(_divide(table, layout) if placement.is_wide else [table]):
        if number:
            lines.append(r"  \par\medskip")
        lines += _tabular_lines(panel, layout.heads)
    if not is_tall:
        return [*lines, *_lines_below(table, r"\footnotesize")]

    # What is higher than a page all the same is made smaller as a whole; LaTeX alone knows the height.
    return [
        r"  \begin{lrbox}{0}\begin{minipage}[b]{\linewidth}",
        *lines,
        *_lines_below(table, SMALLEST),
        r"  \end{minipage}\end{lrbox}",
        r"  \centering\ifdim\dimexpr\ht0+\dp0>.97\textheight\resizebox*{!}{.97\textheight}{\box0}\else\box0\fi",
    ]


def _size_lines(placement: Placement) -> list[str]:
    """Return the commands for the size of type and the gaps; where they are those of a narrow column, LaTeX asks."""
    layout, roomy = placement.layout, placement.roomy
    commands = layout.size + _gap_command(layout)
    if layout == roomy:
        return [f"  {commands}"] if commands else []

    otherwise = roomy.size + _gap_command(roomy)
    branch = rf"\else {otherwise}" if otherwise else ""
    return [rf"  \ifdim\linewidth<{math.ceil(roomy.width)}pt {commands}{branch}\fi"]


def _gap_command(layout: Layout) -> str:
    """Return the command for the gaps of a layout; empty for LaTeX's own."""
    return "" if layout.gap == USUAL_GAP else rf"\setlength{{\tabcolsep}}{{{layout.gap / 2:g}pt}}"


def _tabular_lines(table: ResultTable, heads: str) -> list[str]:
    """Return the rows and heads of a table or of a panel of one."""
    has_tails = [_has_tails(table, index) for index in range(len(table.columns))]
    columns = _column_sides(table, has_tails)
    if heads != WHOLE:
        # Rules end with the texts.
        columns = f"@{{}}{columns}@{{}}"
    return [
        r"  \resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"  \begin{{tabular}}{{{columns}}}",
        r"    \toprule",
        *_head_lines(table, has_tails, heads),
        *_body_lines(table, has_tails),
        r"    \bottomrule",
        r"  \end{tabular}}",
    ]


def _divide(table: ResultTable, layout: Layout) -> list[ResultTable]:
    """Return a table in panels that have its rows and a part of its columns, where it is much wider than a page."""
    n_panels = count_panels(table, layout)
    if n_panels == 1:
        return [table]

    # Columns under one head stay together.
    parts: list[list[int]] = []
    first = 0
    for over, n_columns in table.spans:
        columns = list(range(first, first + n_columns))
        parts += [columns] if over else [[column] for column in columns]
        first += n_columns

    n_beside = math.ceil(len(parts) / n_panels)
    panels: list[ResultTable] = []
    for start in range(0, len(parts), n_beside):
        columns = list(chain.from_iterable(parts[start : start + n_beside]))
        rows: list[Row] = []
        for row in table.rows:
            rows.append(replace(row, cells=[row.cells[k] for k in columns] if row.cells else ()))
        heads = [table.columns[k] for k in columns]
        panels.append(replace(table, columns=heads, rows=rows))
    return panels


def _packages(table: ResultTable) -> list[str]:
    """Return the lines that load the packages that a table needs."""
    packages = ["booktabs", "graphicx"]
    if table.has_published_rows:
        packages.append("xcolor")
    return [rf"\usepackage{{{name}}}" for name in packages]


def _remarks(table: ResultTable, *, is_wide: bool) -> list[str]:
    """Return what the first lines say: the packages, and how much room the table takes."""
    remarks = _packages(table)
    if is_wide:
        remarks.append(
            "Wider than a column of a two-column article: table* takes the page's width."
        )
    n_rows = sum(bool(row.cells) for row in table.rows)
    if n_rows > _MANY_ROWS:
        remarks.append(f"Its {n_rows} rows take most of a page; rows= chooses some.")
    return remarks


def _has_tails(table: ResultTable, index: int) -> bool:
    """Tell whether something stands behind a number of a column."""
    for row in table.rows_with_cells:
        _, tail = _latex_cell(row.cells[index], table)
        if tail:
            return True
    return False


def _column_sides(table: ResultTable, has_tails: Sequence[bool]) -> str:
    """Return the sides to which columns are set, as `tabular` takes them."""
    side = "r" if table.numeric else "l"
    columns = "l"
    for has_tail in has_tails:
        columns += side
        if has_tail:
            # What stands behind the numbers has a column of its own, without a gap before it.
            columns += "@{}l"
    return columns


def _head_lines(table: ResultTable, has_tails: Sequence[bool], heads: str) -> list[str]:
    """Return the head: the datasets above their coefficients, or many datasets beside each other."""
    lines: list[str] = []
    columns = table.described_columns
    widths = [2 if has_tail else 1 for has_tail in has_tails]
    set_head = {WHOLE: _latex_head, STACKED: _stack_head, TURNED: _turn_head}[heads]
    if heads == WHOLE and any(column.over for column in columns):
        lines += _span_lines(table, widths)

    cells = [escape_latex(table.corner)]
    for column, width in zip(columns, widths, strict=True):
        head = set_head(column)
        cells.append(rf"\multicolumn{{2}}{{c}}{{{head}}}" if width == 2 else head)
    return [*lines, latex_row(cells)]


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
    if column.latex:
        words += re.split(r"(?<!\\) |(?<=-)(?=\w\w)", column.latex)
    else:
        words += [escape_latex(word) for word in split_head(column.head)]
    return r"\scriptsize\begin{tabular}[b]{@{}c@{}}" + r" \\ ".join(words) + r"\end{tabular}"


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


def _lines_below(table: ResultTable, size: str) -> list[str]:
    """Return the notes, footnotes and signatures, in the table's width and a size of type."""
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
        rf"  \begin{{minipage}}{{\linewidth}}{size}\raggedright",
        *lines,
        r"  \end{minipage}",
    ]


def latex_row(cells: Iterable[str]) -> str:
    """Return a row of a LaTeX table, its cells escaped already."""
    return f"    {' & '.join(cells)} " + r"\\"
