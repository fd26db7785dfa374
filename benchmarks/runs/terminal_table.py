"""A results table drawn for a terminal: heads, labels and columns are fitted to its width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .tables import ResultTable, split_head

if TYPE_CHECKING:
    from rich.console import Group

#: How many cells of a narrow terminal are left to the labels: so many, and as many as their longest word has up to these.
LABEL_ROOM, LONGEST_WORD = 12, 24


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
    widths = _choose_widths(table, width, is_framed=is_framed)
    rich_table = RichTable()
    if not is_framed:
        rich_table = RichTable(box=box.SIMPLE_HEAD, show_edge=False, padding=0)
    rich_table.add_column(Text(table.corner), overflow="fold", min_width=widths.least_label)
    for head, fixed, least in zip(table.columns, widths.fixed, widths.least, strict=True):
        rich_table.add_column(
            Text(head if fixed is None else _fold_head(head, fixed)),
            justify="right" if table.numeric else "left",
            overflow="fold",
            width=fixed,
            min_width=least,
        )
    for label, cells in table.rows:
        folded_label = _fold_head(label, widths.label_room) if widths.is_folded else label
        rich_table.add_row(Text(folded_label, style="" if cells else "italic"), *map(Text, cells))
    parts = [Text(table.title, style="italic"), rich_table]
    parts += [Text(table.verdict, style="bold")] if table.verdict else []
    return Group(*parts, *map(Text, table.notes))


@dataclass(frozen=True)
class _ColumnWidths:
    """Widths in a terminal, in cells.

    Attributes:
        fixed, least: of each column; None where rich is free.
        least_label: the least width of the labels; None where rich is free.
        label_room: into which labels fold, if `is_folded`.
    """

    fixed: Sequence[int | None]
    least: Sequence[int | None]
    least_label: int | None
    label_room: int
    is_folded: bool


def _choose_widths(table: ResultTable, width: int | None, *, is_framed: bool) -> _ColumnWidths:
    """Choose widths at which numbers stay whole, and words as far as there is room."""
    numbers, words = _widest_cells(table), _widest_words(table)
    whole_heads = [max(cell, _width(head)) for cell, head in zip(words, table.columns, strict=True)]
    # Fixed widths: rich may widen columns with least widths until the table is wider than the terminal.
    fixed_widths: list[int] = []
    for widths in (words, whole_heads):
        least = _least_width(table, widths, is_framed=is_framed)
        if width is not None and least <= width and table.numeric:
            fixed_widths = widths
    least_widths: Sequence[int | None] = numbers if table.numeric else [None] * len(words)
    least_label, label_room = None, _label_room(table)
    is_folded = bool(fixed_widths)
    if not table.numeric and width is not None:
        least_label, is_folded = label_room, True
        if _fits(table, width):
            least_widths = words
            room = width - _least_width(table, words, is_framed=is_framed)
            for word, number, head in zip(words, numbers, whole_heads, strict=True):
                fixed_widths.append(word + min(room, max(number, head) - word))
                room -= fixed_widths[-1] - word
    if fixed_widths:
        per_column, edges = _frame_widths(is_framed)
        label_room = (width or 0) - edges - sum(fixed_widths) - per_column * len(fixed_widths)
    fixed = fixed_widths or [None] * len(words)
    return _ColumnWidths(fixed, least_widths, least_label, label_room, is_folded)


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
