"""The layout of a table in LaTeX: the size of its type, the gaps between its columns, and how its heads stand.

LaTeX alone knows true widths; here they are estimated from characters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .tables import AnyCell, Cell, Column, ResultTable, split_head

#: Up to so many datasets with a column each have whole heads; those of more are stacked or turned.
_MOST_BESIDE = 3
#: The width of a column of a two-column article, in points.
TEXT_COLUMN = 225
#: The width of the text of a one-column article, in points.
TEXT_WIDTH = 340
#: The smallest size of type that a table may have.
SMALLEST = r"\scriptsize"
#: The sizes of type, with the mean width of a character and the height of a line in points.
CHARACTER_WIDTHS = {"": 4.9, SMALLEST: 3.7}
LINE_HEIGHTS = {"": 12.0, SMALLEST: 8.5}

#: The height that a table may have before it is set in the smallest type, in points; a page has some 550.
PAGE_HEIGHT = 500
#: A table that is more times as wide as a page is divided into panels, and not made smaller.
MOST_SHRUNK = 1.2

#: The ways in which heads stand: in a line each, a word a line, or read upwards.
WHOLE = "whole"
STACKED = "stacked"
TURNED = "turned"
#: The sizes of type and gaps that a table may have, the first that fits is taken; `USUAL_GAP` is LaTeX's own.
USUAL_GAP = 12
_STEPS = {
    WHOLE: [("", USUAL_GAP), (SMALLEST, USUAL_GAP), (SMALLEST, 6)],
    STACKED: [("", 8), (SMALLEST, 8), (SMALLEST, 5)],
    TURNED: [("", 8), (SMALLEST, 8), (SMALLEST, 3)],
}


@dataclass(frozen=True)
class Layout:
    """The layout of a table: its type, its gaps and its heads.

    Attributes:
        size: of its type, as LaTeX's command; empty for that of the text.
        gap: between columns, in points.
        heads: `WHOLE`, `STACKED` or `TURNED`.
        width: the estimated width of the table, in points.
    """

    size: str
    gap: int
    heads: str
    width: float


@dataclass(frozen=True)
class Placement:
    """A place for a table, with its layout there.

    Attributes:
        is_wide: whether it takes the page's width in an article of two columns.
        layout: how it is set in a column of that article, or else in the page's width.
        roomy: how it is set where there is more room; the same as `layout` where that changes nothing.
    """

    is_wide: bool
    layout: Layout
    roomy: Layout


def place(table: ResultTable) -> Placement:
    """Place a table in a column where it fits one, and else in the page's width."""
    roomy = layout_of_page(table)
    layout = _find_layout(table, TEXT_COLUMN, _upright_heads(table))
    if layout is None:
        return Placement(is_wide=True, layout=roomy, roomy=roomy)
    return Placement(is_wide=False, layout=layout, roomy=roomy)


def layout_of_page(table: ResultTable, sizes: tuple[str, ...] = tuple(LINE_HEIGHTS)) -> Layout:
    """Return how a table is set in the width of a page: heads are turned where neither it nor panels of it fit.

    Args:
        table: the table.
        sizes: the sizes of type to choose from.
    """
    heads = _upright_heads(table)
    layout = _find_layout(table, TEXT_WIDTH, heads, sizes)
    if layout is not None:
        return layout

    layout = _make_layout(table, *_STEPS[heads][-1], heads)
    is_much_too_wide = layout.width > MOST_SHRUNK * TEXT_WIDTH
    if heads == STACKED and is_much_too_wide and count_panels(table, layout) == 1:
        return _find_layout(table, TEXT_WIDTH, TURNED, sizes) or layout
    return layout


def count_panels(table: ResultTable, layout: Layout) -> int:
    """Return into how many panels, one below the other, a table is divided: 1 where they were higher than a page."""
    n_panels = math.ceil(layout.width / (MOST_SHRUNK * TEXT_WIDTH))
    n_lines = n_panels * len(table.rows)
    return 1 if n_lines * LINE_HEIGHTS[SMALLEST] > PAGE_HEIGHT else n_panels


def _upright_heads(table: ResultTable) -> str:
    """Return whether heads are whole or stacked.

    Those of many datasets are stacked, and so are heads that are wider than a page.
    """
    if len(table.spans) == len(table.columns) > _MOST_BESIDE:
        return STACKED

    shares_heads = any(column.over for column in table.described_columns)
    is_too_wide = _find_layout(table, TEXT_WIDTH, WHOLE) is None
    return STACKED if is_too_wide and not shares_heads else WHOLE


def _find_layout(
    table: ResultTable,
    available: float,
    heads: str,
    sizes: tuple[str, ...] = tuple(LINE_HEIGHTS),
) -> Layout | None:
    """Return the largest layout in which a table is no wider than so many points; None where there is none."""
    for size, gap in _STEPS[heads]:
        layout = _make_layout(table, size, gap, heads)
        if size in sizes and layout.width <= available:
            return layout
    return None


def _make_layout(table: ResultTable, size: str, gap: int, heads: str) -> Layout:
    """Return a layout with the estimated width of the table in it."""
    character_width = CHARACTER_WIDTHS[size]
    labels = [table.corner, *(row.label for row in table.rows_with_cells)]
    width = max(map(len, labels)) * character_width
    for index, column in enumerate(table.described_columns):
        lengths = [len(_characters_of(row.cells[index], table)) for row in table.rows_with_cells]
        cells_width = max(lengths, default=0) * character_width
        width += max(cells_width, _head_width(column, heads, character_width)) + gap
    return Layout(size, gap, heads, width)


def _head_width(column: Column, heads: str, character_width: float) -> float:
    """Estimate the width of a column's head in points."""
    if heads == WHOLE:
        return len(column.head) * character_width
    # Heads that are stacked or turned are in the smallest type.
    if heads == STACKED:
        return max(map(len, split_head(str(column)))) * CHARACTER_WIDTHS[SMALLEST]
    return LINE_HEIGHTS[SMALLEST]


def _characters_of(cell: AnyCell, table: ResultTable) -> str:
    """Return the characters of a cell and of what stands above, below and behind it."""
    if not isinstance(cell, Cell):
        return cell
    reach = cell.reach if table.intervals == "plusminus" else ""
    ends = cell.low + cell.high if table.intervals == "subscript" else ""
    return "".join([cell.text, reach, ends, *cell.signs_above])


def estimate_height(table: ResultTable, size: str, *, is_wide: bool) -> float:
    """Estimate the height of a table with its notes in points."""
    notes = " ".join([*table.lines_below, *(text for _, text in table.footnotes)])
    # A character of a note is as wide as one of the text at eight tenths of its size.
    width = TEXT_WIDTH if is_wide else TEXT_COLUMN
    n_note_lines = len(notes) * 0.8 * CHARACTER_WIDTHS[""] / width
    return len(table.rows) * LINE_HEIGHTS[size] + n_note_lines * 0.8 * LINE_HEIGHTS[""]
