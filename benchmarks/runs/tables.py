"""Tables for people: Markdown, LaTeX (booktabs), HTML, CSV and the terminal, all from one `ResultTable`.

Those of `captau table`, whose numbers have more to them than a text, are written in Markdown, LaTeX and CSV by the
same functions.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING

import pandas as pd

from ..statistics.coefficients.coefficient import find_coefficient

if TYPE_CHECKING:
    from rich.console import Group

MISSING = "–"
#: How many cells of a narrow terminal are left to the labels: so many, and as many as their longest word has up to these.
LABEL_ROOM, LONGEST_WORD = 12, 24


@dataclass(frozen=True)
class ResultTable:
    """A table as it is printed.

    Attributes:
        title: one line above it.
        corner: what the first column holds.
        columns: the heads of the others, in plain text.
        latex_columns: the same for LaTeX; equal to `columns`, escaped, where it is empty.
        rows: label and cells; a cell is a formatted text, `MISSING` where there is none. A row without cells is a heading
            of those below it, which Markdown and the terminal have.
        notes: lines below it.
        numeric: whether the cells are numbers, which stand to the right.
        short_columns: shorter heads, for narrow terminals and LaTeX alone; empty where `columns` serve.
        spare: groups of columns that go where a terminal is too narrow for all, the first group first.
        own_labels: labels of the user's own metrics.
        verdict: a sentence that says what the table shows, above the notes.
        details: columns that commands print only with `details=true`.
        is_detail: whether that holds for the whole table.
        file: where a reader of a narrow terminal finds all columns; empty where no file has them.
    """

    title: str
    corner: str
    columns: list[str]
    rows: list[tuple[str, list[str]]]
    latex_columns: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    numeric: bool = True
    short_columns: list[str] = field(default_factory=list[str])
    spare: tuple[tuple[int, ...], ...] = ()
    own_labels: frozenset[str] = frozenset()
    verdict: str = ""
    details: tuple[int, ...] = ()
    is_detail: bool = False
    file: str = "table.md"

    def _repr_html_(self) -> str:
        """Return the table as a notebook shows it."""
        return html_of(self)

    def with_marks(self) -> ResultTable:
        """Return the table as people see it: a `*` marks their own metrics, and a note explains it."""
        if not self.own_labels:
            return self
        rows = [(f"{r} *" if r in self.own_labels else r, cells) for r, cells in self.rows]
        return replace(self, rows=rows, own_labels=frozenset()).with_note("* your own metric.")

    def map_texts(self, change: Callable[[str], str]) -> ResultTable:
        """Return the table as people see it, each of its texts changed."""
        table = self.with_marks()
        return replace(
            table,
            title=change(table.title),
            corner=change(table.corner),
            columns=list(map(change, table.columns)),
            rows=[(change(label), list(map(change, cells))) for label, cells in table.rows],
            notes=list(map(change, table.notes)),
            verdict=change(table.verdict),
        )

    @property
    def lines_below(self) -> list[str]:
        """The verdict, if there is one, and the notes."""
        return [self.verdict] * bool(self.verdict) + self.notes

    def without_columns(self, hidden: Collection[int]) -> ResultTable:
        """Return the table without some columns, without rows that have no other cells, and without their notes."""
        shown = [index for index in range(len(self.columns)) if index not in hidden]
        heads = {self.columns[index] for index in hidden} - {self.columns[index] for index in shown}
        rows = [
            (label, cells)
            for label, cells in self.rows
            if not cells or any(cells[index] for index in shown)
        ]
        heads |= {label for label, _ in self.rows} - {label for label, _ in rows}
        new_index = {index: number for number, index in enumerate(shown)}
        return replace(
            self,
            columns=[self.columns[index] for index in shown],
            rows=[(label, [cells[i] for i in shown if cells]) for label, cells in rows],
            latex_columns=[self.latex_columns[index] for index in shown if self.latex_columns],
            short_columns=[self.short_columns[index] for index in shown if self.short_columns],
            notes=[note for note in self.notes if note.partition(": ")[0] not in heads],
            spare=tuple(
                tuple(new_index[i] for i in group if i in new_index) for group in self.spare
            ),
            details=tuple(new_index[index] for index in self.details if index in new_index),
        )

    def with_note(self, note: str) -> ResultTable:
        """Return the table with a note below the others; unchanged where the note is empty."""
        return replace(self, notes=[*self.notes, note]) if note else self


def format_number(value: float, scale: float, decimals: int) -> str:
    """Format a value for print: scaled, rounded, `MISSING` where it is NaN."""
    if math.isnan(value):
        return MISSING
    text = f"{value * scale:.{decimals}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def format_coefficient(value: float, coefficient: str) -> str:
    """Format a value as tables print the coefficient of a name."""
    coefficient_object = find_coefficient(coefficient)
    return format_number(value, coefficient_object.scale, coefficient_object.decimals)


def format_p_value(value: float) -> str:
    """Format a p-value with three decimals, and as `<0.001` below that."""
    return "<0.001" if value < 0.001 else format_number(value, 1, 3)


def markdown_of(table: ResultTable, *, is_escaped: bool = False) -> str:
    """Return GitHub's pipe table.

    Args:
        table: the table.
        is_escaped: whether its texts are Markdown already.
    """
    table = table.with_marks()
    escape_text: Callable[[str], str] = str if is_escaped else _pipe
    heads = map(escape_text, (table.corner, *table.columns))
    lines = [f"**{table.title}**", "", f"| {' | '.join(heads)} |"]
    lines.append("|:--|" + ("--:|" if table.numeric else ":--|") * len(table.columns))
    for label, cells in table.rows:
        text = " | ".join(map(escape_text, (label, *cells)))
        lines.append(f"| {text} |" + " |" * (len(table.columns) - len(cells)))
    lines += [f"\n{escape_text(note)}" for note in table.lines_below]
    return "\n".join(lines)


def latex_of(table: ResultTable) -> str:
    """Return a booktabs table that compiles as it stands after `\\usepackage{booktabs}`."""
    table = table.with_marks()
    heads = table.latex_columns or [latex_escape(c) for c in table.columns]
    rows = [
        latex_row([latex_escape(label), *(latex_escape(c).replace(MISSING, "--") for c in cells)])
        for label, cells in table.rows
    ]
    return booktabs_table(
        table.title,
        "l" + ("r" if table.numeric else "l") * len(heads),
        [latex_row([latex_escape(table.corner), *heads]), r"    \midrule", *rows],
        [rf"  \par\footnotesize {latex_escape(note)}" for note in table.lines_below],
    )


def booktabs_table(
    title: str,
    columns: str,
    lines: Iterable[str],
    below: Iterable[str],
    *,
    label: str = "",
    size: str = "",
    is_wide: bool = False,
    is_fitted: bool = False,
) -> str:
    """Return a LaTeX table whose rows and notes are escaped already.

    Args:
        title: the caption, not escaped.
        columns: their sides, as `tabular` takes them.
        lines: the head, the rules within and the rows, see `latex_row`.
        below: lines below the columns.
        label: for `\\ref`; empty for none.
        size: the command of a size of type; empty for the text's.
        is_wide: whether it spans the columns of a two-column article.
        is_fitted: whether a table that is wider than the text is made as narrow.
    """
    fit = r"  \resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
    environment = "table*" if is_wide else "table"
    return "\n".join(
        [
            rf"\begin{{{environment}}}",
            r"  \centering",
            rf"  \caption{{{latex_escape(title)}}}",
            *([rf"  \label{{{label}}}"] if label else []),
            *([f"  {size}"] if size else []),
            *([fit] if is_fitted else []),
            rf"  \begin{{tabular}}{{{columns}}}",
            r"    \toprule",
            *lines,
            r"    \bottomrule",
            r"  \end{tabular}" + "}" * is_fitted,
            *below,
            rf"\end{{{environment}}}",
        ]
    )


def latex_row(cells: Iterable[str]) -> str:
    """Return a row of a LaTeX table."""
    return f"    {' & '.join(cells)} " + r"\\"


def html_of(table: ResultTable) -> str:
    """Return a table as HTML, its notes below it."""
    table = table.with_marks()
    side = "right" if table.numeric else "left"

    def row(tag: str, label: str, cells: Sequence[str]) -> str:
        columns = "".join(f'<{tag} style="text-align:{side}">{escape(c)}</{tag}>' for c in cells)
        return f'<tr><th style="text-align:left">{escape(label)}</th>{columns}</tr>'

    head = row("th", table.corner, table.columns)
    body = "".join(row("td", label, cells) for label, cells in table.rows)
    notes = "<br>".join(map(escape, table.lines_below))
    notes = f"<p><small>{notes}</small></p>" if notes else ""
    caption = f'<caption style="text-align:left"><b>{escape(table.title)}</b></caption>'
    return f"<table>{caption}<thead>{head}</thead><tbody>{body}</tbody></table>{notes}"


def frame_of(table: ResultTable) -> pd.DataFrame:
    """Return a table as a DataFrame, its labels as index; columns of numbers alone are numeric, `MISSING` is NaN.

    A head that stands several times, as `±` does, begins with the nearest head before it that stands once.
    """
    heads: list[str] = []
    owner = ""
    for head in table.columns:
        is_repeated = table.columns.count(head) > 1
        owner = owner if is_repeated else head
        heads.append(f"{owner} {head}".strip() if is_repeated else head)
    index = pd.Index([label for label, _ in table.rows], name=table.corner)
    frame = pd.DataFrame([cells for _, cells in table.rows], index, pd.Index(heads))
    frame = frame.replace({MISSING: None, "": None})
    for head, column in frame.items():
        numbers = pd.to_numeric(column, errors="coerce")
        if numbers.notna().equals(column.notna()):
            frame[head] = numbers
    return frame


def csv_of(table: ResultTable) -> str:
    """Return the table's printed cells as CSV; the first line is its title, as a comment."""
    rows = [[label, *("" if c == MISSING else c for c in cells)] for label, cells in table.rows]
    return f"# {table.title}\n" + csv_lines([[table.corner, *table.columns], *rows])


def csv_lines(rows: Iterable[Sequence[str]]) -> str:
    """Return rows as lines of CSV."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue()


def rich_of(table: ResultTable, width: int | None = None) -> Group:
    """Return the table for the terminal, with the verdict and the notes below it in the terminal's width.

    Where it is narrow, heads are short, labels and heads fold, lines between columns go, and numbers stay whole.
    Cells are `Text`, because rich takes brackets within a str for markup.

    Args:
        table: the table.
        width: of the terminal, in cells; spare columns, and the notes that explain them, go where the others' numbers
            and words do not fit into it.
    """
    from rich import box
    from rich.console import Group
    from rich.table import Table as RichTable
    from rich.text import Text

    table, is_framed = table.with_marks(), True
    if width is not None:
        table, is_framed = _fit_columns(table, width)
    numbers, words = _widest_cells(table), _widest_words(table)
    whole_heads = [max(cell, _width(head)) for cell, head in zip(words, table.columns, strict=True)]
    # Fixed widths: rich may widen columns with least widths until the table is wider than the terminal.
    fixed_widths: list[int] = []
    for widths in (words, whole_heads):
        least = _least_width(table, widths, is_framed=is_framed)
        if width is not None and least <= width and table.numeric:
            fixed_widths = widths
    least_widths: Sequence[int | None] = numbers if table.numeric else [None] * len(words)
    least_label = None
    is_folded = bool(fixed_widths)
    if not table.numeric and width is not None:
        least_label = _label_room(table)
        whole_cells = [max(pair) for pair in zip(numbers, whole_heads, strict=True)]
        longest_label = max((_width(label) for label, _ in table.rows), default=0)
        extra = longest_label - least_label
        is_folded = _least_width(table, whole_cells, is_framed=is_framed) + extra > width
        if _fits(table, width):
            least_widths = words
        if _fits(table, width) and is_folded:
            room = width - _least_width(table, words, is_framed=is_framed)
            for word, cell in zip(words, whole_cells, strict=True):
                fixed_widths.append(word + min(room, max(cell - word, 0)))
                room -= fixed_widths[-1] - word
    rich_table = RichTable()
    if not is_framed:
        rich_table = RichTable(box=box.SIMPLE_HEAD, show_edge=False, padding=0)
    rich_table.add_column(Text(table.corner), overflow="fold", min_width=least_label)
    for index, head in enumerate(table.columns):
        rich_table.add_column(
            Text(_fold_head(head, fixed_widths[index]) if fixed_widths else head),
            justify="right" if table.numeric else "left",
            overflow="fold",
            width=fixed_widths[index] if fixed_widths else None,
            min_width=least_widths[index],
        )
    label_room = least_label or 0
    if fixed_widths:
        per_column, edges = _frame_widths(is_framed)
        label_room = (width or 0) - edges - sum(fixed_widths) - per_column * len(fixed_widths)
    for label, cells in table.rows:
        folded_label = _fold_head(label, label_room) if is_folded else label
        rich_table.add_row(Text(folded_label, style="" if cells else "italic"), *map(Text, cells))
    parts = [Text(table.title, style="italic"), rich_table]
    parts += [Text(table.verdict, style="bold")] if table.verdict else []
    return Group(*parts, *map(Text, table.notes))


def _fit_columns(table: ResultTable, width: int) -> tuple[ResultTable, bool]:
    """Return the table as it fits a terminal, and whether it has a frame.

    First heads are shortened, then the frame goes, then spare columns, which a note names.
    """
    is_framed = True
    fitted = table
    if not _fits(table, width) and table.numeric:
        fitted = replace(table, columns=table.short_columns or table.columns)
        is_framed = _fits(fitted, width)
    shortened, hidden = fitted, list[int]()
    spare = [*table.spare, *((index,) for index in reversed(range(1, len(table.columns))))]
    for group in spare if table.numeric else table.spare:
        if _fits(fitted, width, is_framed=is_framed):
            break
        hidden += set(group) - set(hidden)
        fitted = shortened.without_columns(hidden)
    heads = dict.fromkeys(table.columns[i] for i in sorted(hidden))
    shown = {table.columns[i] for i in range(len(table.columns)) if i not in hidden}
    missing_heads = ", ".join(head for head in heads if head not in shown)
    if not missing_heads:
        return fitted, is_framed
    remedy = f", or see {table.file}" if table.file else ""
    note = f"The terminal is too narrow for {missing_heads}: widen it{remedy}."
    return fitted.with_note(note), is_framed


def _fits(table: ResultTable, width: int, *, is_framed: bool = True) -> bool:
    """Tell whether a terminal is wide enough for the numbers of a table and the words of its heads."""
    return _least_width(table, _widest_words(table), is_framed=is_framed) <= width


def is_empty_column(rows: Sequence[tuple[str, Sequence[str]]], index: int) -> bool:
    """Tell whether no row has a number in a column."""
    return all(cells[index][:1] in ("", MISSING) for _, cells in rows if cells)


def _frame_widths(is_framed: bool) -> tuple[int, int]:
    """Return how many cells of a terminal the frame takes beside each column, and beside the labels."""
    return (3, 4) if is_framed else (1, 0)


def _width(text: str) -> int:
    """Return how many cells of a terminal a text takes."""
    from rich.cells import cell_len

    return cell_len(text)


def _least_width(table: ResultTable, widths: Sequence[int], *, is_framed: bool) -> int:
    """Return the width of a table whose columns have these; long labels fold."""
    per_column, edges = _frame_widths(is_framed)
    return edges + _label_room(table) + sum(widths) + per_column * len(widths)


def _label_room(table: ResultTable) -> int:
    """Return the least width of the labels."""
    labels = [table.corner, *(label for label, cells in table.rows if cells)]
    word = max(_width(word) for label in labels for word in split_head(label))
    return min(max(map(_width, labels)), max(LABEL_ROOM, min(word, LONGEST_WORD)))


def _widest_cells(table: ResultTable) -> list[int]:
    columns = range(len(table.columns))
    return [max((_width(cells[i]) for _, cells in table.rows if cells), default=0) for i in columns]


def _widest_words(table: ResultTable) -> list[int]:
    """Return the width of each column whose head is folded between words, and its cells too if they are text."""
    least_widths = _widest_cells(table)
    if not table.numeric:
        words = [
            [_width(word) for _, cells in table.rows if cells for word in cells[i].split()]
            for i in range(len(table.columns))
        ]
        least_widths = [min(max(column, default=0), LONGEST_WORD) for column in words]
    return [
        max([cell, *map(_width, split_head(head))])
        for cell, head in zip(least_widths, table.columns, strict=True)
    ]


def split_head(head: str) -> list[str]:
    """Split a head where it may be folded: after blanks, hyphens and underscores."""
    return re.split(r"(?<=[-_])(?=\w\w)|\s+", head)


def _fold_head(head: str, width: int) -> str:
    """Break a head into lines of a width."""
    lines = [""]
    end = 0
    for word in split_head(head):
        start = head.index(word, end)
        gap = head[end:start]
        end = start + len(word)
        if lines[-1] and _width(lines[-1] + gap + word) > width:
            lines.append(word)
        else:
            lines[-1] += gap + word
    return "\n".join(lines)


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
    "±": r"$\pm$",
    "×": r"$\times$",
    "−": "$-$",
    "→": r"$\to$",
    "≥": r"$\geq$",
    "█": r"\rule{2pt}{6pt}",
}


def latex_escape(text: str) -> str:
    """Escape text for LaTeX; Greek letters and signs become formulas, and so do τ_a, τ_b and τ_c."""
    escaped = "".join(_LATEX.get(char, char) for char in text)
    escaped = re.sub(r"\$\\tau\$\\_([abc])\b", r"$\\tau_\1$", escaped)
    # At the start of a row these would be arguments of the line break before it.
    return "{}" + escaped if escaped.startswith(("[", "*")) else escaped


def _pipe(text: str) -> str:
    """Escape text in a cell: no bar ends it, and no tag of HTML begins in it."""
    return re.sub(r"<(?=[A-Za-z/!?])", r"\\<", text.replace("|", r"\|"))
