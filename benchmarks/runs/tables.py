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

import pandas as pd

from ..statistics.coefficients.coefficient import find_coefficient

MISSING = "–"


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


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun, as `1 image` or `1,000 images`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


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


def split_head(head: str) -> list[str]:
    """Split a head where it may be folded: after blanks, hyphens and underscores."""
    return re.split(r"(?<=[-_])(?=\w\w)|\s+", head)


def is_empty_column(rows: Sequence[tuple[str, Sequence[str]]], index: int) -> bool:
    """Tell whether no row has a number in a column."""
    return all(cells[index][:1] in ("", MISSING) for _, cells in rows if cells)


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
