"""The table that commands print, runs keep and `captau table` joins: its cells are numbers, and each format has one writer.

The writers are `markdown_table`, `latex_table`, `html_table`, `csv_table` and `terminal_table`, all of this folder.
Heads, cells and notes are plain texts; a `Column`, a `Cell` or a `TableNote` stands in their place where there is more to say.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from ..statistics.coefficients.coefficient import find_coefficient

MISSING = "–"


@dataclass(frozen=True)
class Cell:
    """A number as it is printed, and what stands around it.

    Attributes:
        text: the number, `MISSING` where there is none.
        value: the number in its natural range; NaN where there is none.
        printed: the number that `text` shows, scaled and rounded; NaN where there is none.
        low, high, reach: the interval's ends and half its width, as printed; empty where there is none.
        rank: the cluster of metrics that cannot be told apart; None where there is none.
        emphasis: `best`, `second` or nothing.
        marks: letters of the footnotes.
    """

    text: str
    value: float = math.nan
    printed: float = math.nan
    low: str = ""
    high: str = ""
    reach: str = ""
    rank: int | None = None
    emphasis: str = ""
    marks: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text

    @property
    def signs_above(self) -> list[str]:
        """The rank and the footnotes' letters, which stand above the line."""
        ranks = [] if self.rank is None else [str(self.rank)]
        return [*ranks, *self.marks]


#: A cell's number, or its text; empty where there is nothing to say.
AnyCell = str | Cell


@dataclass(frozen=True)
class Column:
    """The head of a column.

    Attributes:
        head: in plain text, without what it shares with its neighbours.
        latex: the same for LaTeX; the head, escaped, where it is empty.
        short: the whole head for narrow terminals; the whole head where it is empty.
        over: the head that it shares with its neighbours; empty where it shares none.
    """

    head: str
    latex: str = ""
    short: str = ""
    over: str = ""

    def __str__(self) -> str:
        """Return the whole head, for where it cannot share a part with its neighbours."""
        return f"{self.over} {self.head}".strip()


@dataclass(frozen=True)
class Row:
    """A row; one without cells is a heading of those below it.

    Attributes:
        label: what the row is of.
        cells: one a column.
        kind: the group that it belongs to; empty where rows have no groups.
        source: who printed the numbers; empty where captau computed them.
        spec, signature: of the metric; empty where they are not known.
    """

    label: str
    cells: Sequence[AnyCell] = ()
    kind: str = ""
    source: str = ""
    spec: str = ""
    signature: str = ""


class TableNote(str):
    """A sentence below a table that explains some of its columns or rows.

    Attributes:
        subjects: the heads of the columns, or the labels of the rows; the note goes when all of them go.
        brief: what commands print in its place without `details=true`; empty for nothing, None for the note itself.
            Files have the whole note.
    """

    __slots__ = ("brief", "subjects")
    subjects: tuple[str, ...]
    brief: str | None

    def __new__(
        cls, words: str, subjects: tuple[str, ...] = (), brief: str | None = None
    ) -> TableNote:
        note = super().__new__(cls, words)
        note.subjects = subjects
        note.brief = brief
        return note

    @classmethod
    def detail(cls, words: str, subjects: tuple[str, ...] = ()) -> TableNote:
        """Return a note that commands print only with `details=true`."""
        return cls(words, subjects, brief="")


class PrintedBy(str):
    """A footnote that says which paper printed a number.

    Attributes:
        source: the paper, as `Hessel et al. 2021`.
        is_apart: whether the number is of another protocol than the table's.
    """

    __slots__ = ("is_apart", "source")
    source: str
    is_apart: bool

    def __new__(cls, words: str, source: str, *, is_apart: bool) -> PrintedBy:
        footnote = super().__new__(cls, words)
        footnote.source = source
        footnote.is_apart = is_apart
        return footnote


#: The subject of notes that explain intervals, which go where intervals do.
INTERVALS = "intervals"


@dataclass(frozen=True)
class ResultTable:
    """A table as it is printed.

    Attributes:
        title: one line above it.
        corner: what the first column holds.
        columns: the heads of the others.
        rows: the rows.
        notes: sentences below it.
        numeric: whether the cells are numbers, which stand to the right.
        spare: groups of columns that go where a terminal is too narrow for all, the first group first.
        own_labels: labels of the user's own metrics.
        verdict: a sentence that says what the table shows, above the notes.
        dataset: whose agreement with people it shows, `mean` for that over several; empty for other tables.
        details: columns that commands print only with `details=true`.
        is_detail: whether that holds for the whole table.
        file: where a reader of a narrow terminal finds all columns; empty where no file has them.
        intervals: how cells show their intervals: `subscript`, `plusminus` or `none`.
        footnotes: the letters that cells have, and what each says.
        has_brief_footnotes: whether a terminal says of printed numbers by whom they are, and no more.
        signatures: the metrics' labels and signatures, which stand below the notes.
        has_legend: whether a line below explains how numbers are set.
        latex_label: for LaTeX's `\\ref`; empty for none.
    """

    title: str
    corner: str
    columns: Sequence[str | Column]
    rows: Sequence[Row]
    notes: Sequence[str] = field(default_factory=list[str])
    numeric: bool = True
    spare: tuple[tuple[int, ...], ...] = ()
    own_labels: frozenset[str] = frozenset()
    verdict: str = ""
    dataset: str = ""
    details: tuple[int, ...] = ()
    is_detail: bool = False
    file: str = "table.md"
    intervals: str = "none"
    footnotes: tuple[tuple[str, str], ...] = ()
    has_brief_footnotes: bool = False
    signatures: tuple[tuple[str, str], ...] = ()
    has_legend: bool = False
    latex_label: str = ""

    @property
    def described_columns(self) -> list[Column]:
        """The columns, a `Column` in place of each plain head."""
        return [column if isinstance(column, Column) else Column(column) for column in self.columns]

    @property
    def heads(self) -> list[str]:
        """The whole heads of the columns, in plain text."""
        return [str(column) for column in self.columns]

    @property
    def short_heads(self) -> list[str]:
        """The heads for narrow terminals."""
        return [column.short or str(column) for column in self.described_columns]

    @property
    def spans(self) -> list[tuple[str, int]]:
        """The heads that columns share, and over how many; empty ones where they share none."""
        spans: list[tuple[str, int]] = []
        for column in self.described_columns:
            if spans and spans[-1][0] == column.over:
                spans[-1] = (column.over, spans[-1][1] + 1)
            else:
                spans.append((column.over, 1))
        return spans

    @property
    def rows_with_cells(self) -> list[Row]:
        """The rows but for headings."""
        return [row for row in self.rows if row.cells]

    @property
    def cells(self) -> list[Cell]:
        """All numbers, row by row."""
        cells: list[Cell] = []
        for row in self.rows:
            cells += [cell for cell in row.cells if isinstance(cell, Cell)]
        return cells

    @property
    def has_published_rows(self) -> bool:
        """Tell whether a row has numbers that captau did not compute."""
        return any(row.source for row in self.rows)

    def with_marks(self) -> ResultTable:
        """Return the table as people see it: a `*` marks their own metrics, and a note explains it."""
        if not self.own_labels:
            return self
        rows: list[Row] = []
        for row in self.rows:
            mark = " *" if row.label in self.own_labels else ""
            rows.append(replace(row, label=f"{row.label}{mark}"))
        return replace(self, rows=rows, own_labels=frozenset()).with_note("* your own metric.")

    def map_texts(self, change: Callable[[str], str]) -> ResultTable:
        """Return the table as people see it, each of its texts changed."""
        table = self.with_marks()
        rows: list[Row] = []
        for row in table.rows:
            cells: list[AnyCell] = []
            for cell in row.cells:
                text = change(str(cell))
                cells.append(replace(cell, text=text) if isinstance(cell, Cell) else text)
            rows.append(replace(row, label=change(row.label), cells=cells))

        columns: list[Column] = []
        for head, short in zip(table.heads, table.short_heads, strict=True):
            columns.append(Column(change(head), short=change(short)))

        notes: list[str] = []
        for note in table.notes:
            text = change(note)
            # A note on some columns goes with them, whatever its words are by then.
            if isinstance(note, TableNote):
                text = TableNote(text, note.subjects, brief=note.brief and change(note.brief))
            notes.append(text)

        return replace(
            table,
            title=change(table.title),
            corner=change(table.corner),
            columns=columns,
            rows=rows,
            notes=notes,
            verdict=change(table.verdict),
        )

    @property
    def lines_below(self) -> list[str]:
        """The verdict, if there is one, and the notes."""
        return [self.verdict, *self.notes] if self.verdict else list(self.notes)

    def without_columns(self, hidden: Collection[int]) -> ResultTable:
        """Return the table without some columns, without rows that have no other cells, and without their notes."""
        visible_columns = [index for index in range(len(self.columns)) if index not in hidden]
        new_index = {index: number for number, index in enumerate(visible_columns)}

        rows: list[Row] = []
        for row in self.rows:
            if not row.cells:  # a heading
                rows.append(row)
                continue
            cells = [row.cells[index] for index in visible_columns]
            if any(map(str, cells)):
                rows.append(replace(row, cells=cells))

        remaining_subjects = {row.label for row in rows}
        remaining_subjects.update(self.heads[index] for index in visible_columns)
        gone_subjects = {*self.heads, *(row.label for row in self.rows)} - remaining_subjects

        notes: list[str] = []
        for note in self.notes:
            subjects = note.subjects if isinstance(note, TableNote) else ()
            if not subjects or not gone_subjects.issuperset(subjects):
                notes.append(note)

        def renumber(indices: Iterable[int]) -> tuple[int, ...]:
            return tuple(new_index[index] for index in indices if index in new_index)

        return replace(
            self,
            columns=[self.columns[index] for index in visible_columns],
            rows=rows,
            notes=notes,
            spare=tuple(map(renumber, self.spare)),
            details=renumber(self.details),
        )

    def without_details(self) -> ResultTable:
        """Return the table as commands print it without `details=true`: fewer columns, and notes in brief."""
        table = self.without_columns(self.details)
        notes: list[str] = []
        for note in table.notes:
            if not isinstance(note, TableNote) or note.brief is None:
                notes.append(note)
            elif note.brief:
                # It goes with its columns, as the whole note does.
                notes.append(TableNote(note.brief, note.subjects))
        names_papers = any(isinstance(text, PrintedBy) for _, text in table.footnotes)
        return replace(table, notes=notes, has_brief_footnotes=names_papers)

    def with_note(self, note: str) -> ResultTable:
        """Return the table with a note below the others; unchanged where the note is empty."""
        return replace(self, notes=[*self.notes, note]) if note else self


def legend_lines(table: ResultTable, published_look: str) -> list[str]:
    """Explain how a table sets its numbers; no line where the table has no legend.

    Args:
        table: the table.
        published_look: how the format sets published numbers, as `In italics`.
    """
    lines: list[str] = []
    if not table.has_legend:
        return lines

    if any(cell.emphasis for cell in table.cells):
        are_systems = all(row.kind == "systems" for row in table.rows_with_cells)
        competition = "" if are_systems else "; floors and what people reach do not compete"
        lines.append(
            f"Bold and underlined: the best and the second best of a column, as printed{competition}."
        )

    if table.has_published_rows:
        lines.append(
            f"{published_look}: as published, not computed by captau; out of competition where the protocol "
            "is another or captau computed the metric."
        )
    return lines


def signature_line(
    table: ResultTable, write_text: Callable[[str], str], write_signature: Callable[[str], str]
) -> list[str]:
    """Return the line of the metrics' signatures; none where there are none."""
    if not table.signatures:
        return []
    signatures: list[str] = []
    for label, signature in table.signatures:
        signatures.append(f"{write_text(label)}: {write_signature(signature)}")
    return [f"Signatures: {'; '.join(signatures)}."]


def join_titles(titles: Sequence[str]) -> str:
    """Join titles of datasets: with commas, or with semicolons where a title has a comma of its own."""
    separator = "; " if any("," in title for title in titles) else ", "
    return separator.join(titles)


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


def number_cell(value: float, scale: float, decimals: int) -> Cell:
    """Return the cell of a value, which is printed scaled and rounded."""
    printed = round(value * scale, decimals) if math.isfinite(value) else value
    return Cell(format_number(value, scale, decimals), value, printed)


def number_cells(values: Iterable[float], scale: float, decimals: int) -> list[AnyCell]:
    """Return the cells of values that are printed alike, see `number_cell`."""
    return [number_cell(float(value), scale, decimals) for value in values]


def coefficient_cell(value: float, coefficient: str) -> Cell:
    """Return the cell of a value of the coefficient of a name."""
    coefficient_object = find_coefficient(coefficient)
    return number_cell(value, coefficient_object.scale, coefficient_object.decimals)


def p_value_cell(value: float) -> Cell:
    """Return the cell of a p-value, see `format_p_value`; its printed number is the value itself."""
    return Cell(format_p_value(value), value, value)


def count_cell(number: int | None) -> AnyCell:
    """Return the cell of a count or a rank, as `1,000`; an empty one of None."""
    return "" if number is None else Cell(f"{number:,}", number, number)


def rank_printed(cells: Iterable[Cell], *, higher_is_better: bool = True) -> dict[float, str]:
    """Return the emphasis of the best and of the second best printed number; equal numbers share it."""
    numbers = {cell.printed for cell in cells if not math.isnan(cell.printed)}
    leading = sorted(numbers, reverse=higher_is_better)[:2]
    return dict(zip(leading, ("best", "second"), strict=False))


def mark_best(cells: Sequence[AnyCell]) -> list[AnyCell]:
    """Return cells in which the greatest printed number is marked as the best; several that are equal all are."""
    emphasis = rank_printed(cell for cell in cells if isinstance(cell, Cell))
    marked: list[AnyCell] = []
    for cell in cells:
        if isinstance(cell, Cell) and emphasis.get(cell.printed) == "best":
            cell = replace(cell, emphasis="best")
        marked.append(cell)
    return marked


def frame_of(table: ResultTable) -> pd.DataFrame:
    """Return a table as a DataFrame of its printed numbers and texts, its labels as index.

    What is `MISSING` or empty is NaN in a column of numbers, and None in one of texts. A head that stands several
    times, as `±` does, begins with the nearest head before it that stands once.
    """
    heads: list[str] = []
    owner = ""
    for head in table.heads:
        is_repeated = table.heads.count(head) > 1
        owner = owner if is_repeated else head
        heads.append(f"{owner} {head}".strip() if is_repeated else head)

    rows = table.rows_with_cells
    index = pd.Index([row.label for row in rows], name=table.corner)
    columns: list[pd.Series] = []
    for number in range(len(heads)):
        values = [_plain_value(row.cells[number]) for row in rows]
        # A column of dashes alone is one of numbers that nobody has.
        has_dashes = any(str(row.cells[number]) == MISSING for row in rows)
        if has_dashes and all(value is None for value in values):
            columns.append(pd.Series(np.nan, index))
        else:
            columns.append(pd.Series(values, index))
    frame = pd.concat(columns, axis=1) if columns else pd.DataFrame(index=index)
    frame.columns = pd.Index(heads)
    return frame


def _plain_value(cell: AnyCell) -> float | str | None:
    """Return the printed number of a cell, or its text; None where it has neither."""
    if str(cell) in ("", MISSING):
        return None
    if isinstance(cell, Cell) and not math.isnan(cell.printed):
        return cell.printed
    return str(cell)


def split_head(head: str) -> list[str]:
    """Split a head where it may be folded: after blanks, hyphens and underscores."""
    return re.split(r"(?<=[-_])(?=\w\w)|\s+", head)


def is_empty_column(rows: Sequence[Row], index: int) -> bool:
    """Tell whether no row has a number in a column."""
    return all(str(row.cells[index])[:1] in ("", MISSING) for row in rows if row.cells)
