"""Tables drawn for a terminal: heads, labels and columns are fitted to its width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .tables import (
    INTERVALS,
    AnyCell,
    Cell,
    PrintedBy,
    ResultTable,
    Row,
    TableNote,
    is_empty_column,
    join_titles,
    split_head,
)

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table as RichTable

#: How many cells of a narrow terminal are left to the labels.
LABEL_ROOM = 12
#: The most of them in a table of numbers, for a label with a word longer than `LABEL_ROOM`.
LONGEST_WORD = 24
#: What marks the rows that papers printed.
_DAGGER = "†"
#: Letters and digits as they stand above the line in a terminal; there is no such q.
_RAISED = str.maketrans(
    "0123456789abcdefghijklmnoprstuvwxyz", "⁰¹²³⁴⁵⁶⁷⁸⁹ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ"
)


def rich_of(table: ResultTable, width: int | None = None) -> Group:
    """Return the table for the terminal, with the verdict and the notes below it in the terminal's width.

    Ranks and footnotes stand above the line, intervals in brackets. Where it is narrow, heads are short, labels and
    heads fold, lines between columns go, then intervals and columns, and numbers stay whole. A table of texts whose
    words do not fit is listed, a line a cell, so that no word is cut.
    Cells are `Text`, because rich takes brackets within a str for markup.

    Args:
        table: the table.
        width: of the terminal, in cells; spare columns, and the notes that explain them, go where the others' numbers
            and words do not fit into it.
    """
    from rich.console import Group
    from rich.text import Text

    table = _mark_published(table.with_marks())
    is_framed = True
    is_listed = False
    if width is None:
        table = _with_tails(table)
    else:
        whole_table = _with_tails(_without_wide_intervals(table, width))
        table, is_framed = _fit_columns(whole_table, width)
        if not table.numeric and not _fits(table, width):
            table = whole_table
            is_listed = True

    parts: list[Any] = [Text(table.title, style="italic")]
    if is_listed:
        parts += _list_cells(table)
    else:
        parts.append(_draw_columns(table, width, is_framed=is_framed))
    if table.verdict:
        parts.append(Text(table.verdict, style="bold"))
    parts += [Text(note) for note in table.notes]
    return Group(*parts)


def _draw_columns(table: ResultTable, width: int | None, *, is_framed: bool) -> RichTable:
    """Return the rows and columns of a table that fits."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    widths = _choose_widths(table, width, is_framed=is_framed)

    rich_table = RichTable()
    if not is_framed:
        rich_table = RichTable(box=box.SIMPLE_HEAD, show_edge=False, padding=0)

    rich_table.add_column(Text(table.corner), overflow="fold", min_width=widths.least_label)
    for head, fixed, min_width in zip(table.heads, widths.fixed, widths.minimal, strict=True):
        rich_table.add_column(
            Text(head if fixed is None else fold_head(head, fixed)),
            justify="right" if table.numeric else "left",
            overflow="fold",
            width=fixed,
            min_width=min_width,
        )

    for row in table.rows:
        label = row.label
        if widths.is_folded:
            label = fold_head(label, widths.label_room)
            if not row.cells:
                label = _drop_hyphens(label, widths.label_room)
        # A row without cells is a heading; one that a paper printed is grey.
        style = "" if row.cells else "italic"
        cells = [Text(str(cell)) for cell in row.cells]
        rich_table.add_row(Text(label, style=style), *cells, style="dim" if row.source else "")
    return rich_table


def _mark_published(table: ResultTable) -> ResultTable:
    """Return the table with a dagger behind each row that a paper printed, and a note; not every terminal has a grey."""
    if not table.has_published_rows:
        return table

    rows: list[Row] = []
    for row in table.rows:
        rows.append(replace(row, label=f"{row.label}{_DAGGER}") if row.source else row)
    marked = replace(table, rows=rows)
    # Brief footnotes explain the dagger by themselves.
    if table.has_brief_footnotes and any(_is_source(text) for _, text in table.footnotes):
        return marked
    note = f"{_DAGGER} as printed by papers, not computed by captau."
    return replace(marked, notes=[note, *table.notes])


def _is_source(footnote: str) -> bool:
    """Tell whether a footnote says no more than who printed a number."""
    return isinstance(footnote, PrintedBy) and not footnote.is_apart


def _drop_hyphens(heading: str, width: int) -> str:
    """Return a folded heading without the hyphens for which a line has no room: else they would stand alone."""
    lines: list[str] = []
    for line in heading.split("\n"):
        is_too_long = _width(line) > width
        lines.append(line.removesuffix("-") if is_too_long else line)
    return "\n".join(lines)


def _list_cells(table: ResultTable) -> list[Any]:
    """Return the rows of a table of texts below one another: the label, and each cell behind its head."""
    from rich.padding import Padding
    from rich.text import Text

    lines: list[Any] = []
    for row in table.rows:
        # A row without cells is a heading.
        if not row.cells:
            lines.append(Text(row.label, style="italic"))
            continue
        if len(table.heads) == 1:
            lines.append(Text.assemble((row.label, "bold"), f": {row.cells[0]}"))
            continue

        lines.append(Text(row.label, style="bold"))
        for head, cell in zip(table.heads, row.cells, strict=True):
            if str(cell):
                lines.append(Padding(Text(f"{head}: {cell}"), (0, 0, 0, 2)))
    return lines


def _without_wide_intervals(table: ResultTable, width: int) -> ResultTable:
    """Return the table without intervals, with a note, where not all columns fit a terminal beside them."""
    if not any(_tail_widths(table)):
        return table
    if _fits(_with_short_heads(_with_tails(table)), width, is_framed=False):
        return table

    bare = replace(table, intervals="none")
    # Footnotes alone may stand behind the numbers.
    has_intervals = _with_tails(bare).rows != _with_tails(table).rows
    if not has_intervals:
        return table
    notes: list[str] = []
    for note in table.notes:
        if not (isinstance(note, TableNote) and note.subjects == (INTERVALS,)):
            notes.append(note)
    return replace(bare, notes=notes).with_note(_too_narrow(INTERVALS, table))


def _too_narrow(missing: str, table: ResultTable) -> str:
    """Return the note on what a terminal has no room for, and where it is."""
    remedy = ""
    if table.file.startswith("style="):
        remedy = f", or add {table.file}, which prints all"
    elif table.file:
        remedy = f", or see {table.file}"
    return f"The terminal is too narrow for {missing}: widen it{remedy}."


def _tail_widths(table: ResultTable) -> list[int]:
    """Return the width of the longest text behind a number of each column."""
    widths = [0] * len(table.columns)
    for row in table.rows:
        for index, cell in enumerate(row.cells):
            widths[index] = max(widths[index], len(_tail_of(cell, table.intervals)))
    return widths


def _with_tails(table: ResultTable) -> ResultTable:
    """Return a table whose cells are texts: numbers with what stands behind them, which stand under one another."""
    widths = _tail_widths(table)
    rows: list[Row] = []
    for row in table.rows:
        cells: list[AnyCell] = []
        for index, cell in enumerate(row.cells):
            tail = _tail_of(cell, table.intervals).ljust(widths[index]) if str(cell) else ""
            cells.append(str(cell) + tail)
        rows.append(replace(row, cells=cells))

    def has_numbers(group: tuple[int, ...]) -> bool:
        return not all(is_empty_column(table.rows, index) for index in group)

    # A column without any number goes before the others.
    spare = sorted(table.spare, key=has_numbers)
    notes = [*table.notes, *_footnote_lines(table)]
    return replace(table, rows=rows, notes=notes, spare=tuple(spare))


def _footnote_lines(table: ResultTable) -> list[str]:
    """Return the footnotes, a line each; brief ones name the papers of printed numbers in a line for all."""
    lines: list[str] = []
    letters_by_source: dict[bool, dict[str, list[str]]] = {False: {}, True: {}}
    for letter, text in table.footnotes:
        raised = letter.translate(_RAISED)
        if table.has_brief_footnotes and isinstance(text, PrintedBy):
            letters_by_source[text.is_apart].setdefault(text.source, []).append(raised)
        else:
            lines.append(f"{raised} {text}.")

    beginnings = {
        False: f"{_DAGGER} printed by",
        True: f"{_DAGGER} printed under other protocols by",
    }
    for is_apart, letters in letters_by_source.items():
        papers = [f"{' '.join(marks)} {source}" for source, marks in letters.items()]
        if papers:
            lines.append(f"{beginnings[is_apart]} {', '.join(papers)}.")
    return lines


def _tail_of(cell: AnyCell, intervals: str) -> str:
    """Return what stands behind a number."""
    if not isinstance(cell, Cell):
        return ""
    tail = "".join(cell.signs_above).translate(_RAISED)
    if intervals == "plusminus" and cell.reach:
        return f" ± {cell.reach}{tail}"
    if intervals == "subscript" and cell.low:
        return f"{tail} [{cell.low}, {cell.high}]"
    return tail


@dataclass(frozen=True)
class _ColumnWidths:
    """Widths in a terminal, in cells.

    Attributes:
        fixed, minimal: of each column; None where rich is free.
        least_label: the least width of the labels; None where rich is free.
        label_room: into which labels fold, if `is_folded`.
    """

    fixed: Sequence[int | None]
    minimal: Sequence[int | None]
    least_label: int | None
    label_room: int
    is_folded: bool


def _choose_widths(table: ResultTable, width: int | None, *, is_framed: bool) -> _ColumnWidths:
    """Choose widths at which numbers stay whole, and words as far as there is room."""
    numbers = _widest_cells(table)
    words = _widest_words(table)
    whole_heads = list(map(max, words, map(_width, table.heads)))

    # Fixed widths, since rich may widen columns with least widths until the table is wider than the terminal: those of whole
    # heads where they fit, else those of their words where these do.
    fixed_widths: list[int] = []
    for widths in (words, whole_heads):
        table_width = _least_width(table, widths, is_framed=is_framed)
        if width is not None and table_width <= width and table.numeric:
            fixed_widths = widths
    if fixed_widths == words and width is not None:
        # Heads take what labels leave, so that they have fewer lines.
        room = width - _least_width(table, words, is_framed=is_framed)
        room -= _widest_label(table) - _label_room(table)
        shared_widths = _share_room(words, whole_heads, max(room, 0))
        # No wider than their lines, once they are folded.
        fixed_widths = []
        for head, least, width_of_head in zip(table.heads, words, shared_widths, strict=True):
            lines = fold_head(head, width_of_head).split("\n")
            fixed_widths.append(max([least, *map(_width, lines)]))

    least_widths: Sequence[int | None] = numbers if table.numeric else [None] * len(words)
    least_label = None
    label_room = _label_room(table)
    is_folded = bool(fixed_widths)
    if not table.numeric and width is not None:
        least_label = label_room
        is_folded = True
        if _fits(table, width):
            least_widths = words
            whole_cells = [max(pair) for pair in zip(numbers, whole_heads, strict=True)]
            room = width - _least_width(table, words, is_framed=is_framed)
            fixed_widths = _share_room(words, whole_cells, room)

    if fixed_widths:
        per_column, edges = _frame_widths(is_framed)
        label_room = (width or 0) - edges - sum(fixed_widths) - per_column * len(fixed_widths)

    return _ColumnWidths(
        fixed=fixed_widths or [None] * len(words),
        minimal=least_widths,
        least_label=least_label,
        label_room=label_room,
        is_folded=is_folded,
    )


def _share_room(least_widths: Sequence[int], whole_widths: Sequence[int], room: int) -> list[int]:
    """Return widths between the least and the whole ones: each cell of room goes to the column with the most lines."""
    widths = list(least_widths)
    for _ in range(room):
        lines: list[float] = []
        for whole_width, width in zip(whole_widths, widths, strict=True):
            lines.append(whole_width / max(width, 1))
        if not lines or max(lines) <= 1:
            break
        widths[lines.index(max(lines))] += 1
    return widths


def _fit_columns(table: ResultTable, width: int) -> tuple[ResultTable, bool]:
    """Return the table as it fits a terminal, and whether it has a frame.

    First heads are shortened, then the frame goes, then spare columns, which a note names.
    """
    is_framed = True
    is_shortened = False
    fitted = table
    if not _fits(table, width) and table.numeric:
        is_shortened = True
        fitted = _with_short_heads(table)
        is_framed = _fits(fitted, width)

    # Numbers go from the right once nothing else is spare; a table of texts folds them instead.
    spare = list(table.spare)
    if table.numeric:
        spare += [(index,) for index in reversed(range(1, len(table.columns)))]
    hidden: list[int] = []
    for group in spare:
        if _fits(fitted, width, is_framed=is_framed):
            break
        hidden += [index for index in group if index not in hidden]
        fitted = table.without_columns(hidden)
        if is_shortened:
            fitted = _with_short_heads(fitted)

    # A head stands once, and is not missing where another column of that name is shown.
    missing_heads = dict.fromkeys(table.heads[index] for index in sorted(hidden))
    for index, head in enumerate(table.heads):
        if index not in hidden:
            missing_heads.pop(head, None)
    if not missing_heads:
        return fitted, is_framed

    missing_words = join_titles(list(missing_heads))
    # One note says it of intervals and columns.
    interval_note = _too_narrow(INTERVALS, table)
    if interval_note in fitted.notes:
        notes = [note for note in fitted.notes if note != interval_note]
        fitted = replace(fitted, notes=notes)
        missing_words = f"{INTERVALS} and {missing_words}"
    return fitted.with_note(_too_narrow(missing_words, table)), is_framed


def _with_short_heads(table: ResultTable) -> ResultTable:
    """Return a table with its heads for narrow terminals."""
    return replace(table, columns=table.short_heads)


def _fits(table: ResultTable, width: int, *, is_framed: bool = True) -> bool:
    """Tell whether a terminal is wide enough for the numbers of a table and the words of its heads."""
    return _least_width(table, _widest_words(table), is_framed=is_framed) <= width


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
    # A heading runs over all columns, so that its width does not count.
    longest_word = 0
    longest_label = 0
    for label in (table.corner, *(row.label for row in table.rows_with_cells)):
        longest_label = max(longest_label, _width(label))
        longest_word = max([longest_word, *map(_width, split_head(label))])
    if table.numeric:
        longest_word = min(longest_word, LONGEST_WORD)
    return min(longest_label, max(LABEL_ROOM, longest_word))


def _widest_label(table: ResultTable) -> int:
    """Return the width of the longest label of a row with cells, or of the corner."""
    labels = [table.corner, *(row.label for row in table.rows_with_cells)]
    return max(map(_width, labels))


def _widest_cells(table: ResultTable) -> list[int]:
    """Return the width of each column's widest cell; 0 of a column without cells."""
    widest = [0] * len(table.columns)
    for row in table.rows:
        for index, cell in enumerate(row.cells):
            widest[index] = max(widest[index], _width(str(cell)))
    return widest


def _widest_words(table: ResultTable) -> list[int]:
    """Return the width of each column whose head is folded between words, and its cells too if they are text."""
    least_widths = _widest_cells(table)
    if not table.numeric:
        least_widths = [0] * len(table.columns)
        for row in table.rows:
            for index, cell in enumerate(row.cells):
                widest_word = max(map(_width, str(cell).split()), default=0)
                least_widths[index] = max(least_widths[index], widest_word)

    for index, head in enumerate(table.heads):
        least_widths[index] = max([least_widths[index], *map(_width, split_head(head))])
    return least_widths


def fold_head(head: str, width: int) -> str:
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
