"""Tables in terminals of many widths: how wide each column is, where words fold, and which columns go."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from captau.benchmarks.runs import terminal_table
from captau.benchmarks.runs.tables import (
    INTERVALS,
    Cell,
    ResultTable,
    Row,
    TableNote,
    number_cell,
)
from captau.benchmarks.runs.terminal_table import rich_of

TEXTS = ResultTable(
    "t",
    "dataset",
    ["images", "the verdict", "n"],
    [
        Row("caption_quality of_many_images", ["654 of them all", "part of it", "7"]),
        Row("group", []),
        Row("b", ["1", "whole", "10"]),
    ],
    numeric=False,
    notes=["note"],
)
NUMBERS = ResultTable(
    "t",
    "metric",
    ["τ_c all", "pair-wise acc. %"],
    [Row("cider(df=a_long_name_of.json)", ["30.8", "-100.0"]), Row("b", ["1", "10"])],
)
LONG_WORD = ResultTable("t", "m", ["x y"], [Row("w" * 30, ["1"])])
#: A heading's length counts for no column.
HEADING = ResultTable("t", "m", ["x"], [Row("h" * 40, []), Row("a", ["1"])])


def lines_at(table, width):
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(rich_of(table, width))
    return console.export_text().splitlines()


@pytest.mark.parametrize(
    ("table", "width", "widths"),
    [
        # Whole cells: 30, 15, 11 and 2 of text, 2 blanks each, and 5 lines: 71.
        (TEXTS, 120, [32, 17, 13, 4]),
        (TEXTS, 71, [32, 17, 13, 4]),
        # The label folds after "of_many_" and "of_", with all other cells whole, down to 12 of text: 53.
        (TEXTS, 70, [26, 17, 13, 4]),
        (TEXTS, 65, [26, 17, 13, 4]),
        (TEXTS, 64, [21, 17, 13, 4]),
        (TEXTS, 53, [14, 17, 13, 4]),
        # Then each cell of room goes to the column with the most lines; each is as wide as its longest word.
        (TEXTS, 52, [14, 16, 13, 4]),
        (TEXTS, 49, [14, 15, 11, 4]),
        (TEXTS, 48, [14, 14, 11, 4]),
        (TEXTS, 40, [14, 8, 9, 4]),
        # Whole heads: 29, 7 and 16 of text, 2 blanks each, and 4 lines: 62.
        (NUMBERS, 120, [31, 9, 18]),
        (NUMBERS, 62, [31, 9, 18]),
        (NUMBERS, 61, [23, 9, 18]),
        (NUMBERS, 54, [23, 9, 18]),
        (NUMBERS, 53, [18, 9, 18]),
        # Labels keep 12 cells, or 11 where their longest word has no more: 12 + 7 + 16 and 10 beside them.
        (NUMBERS, 45, [13, 9, 18]),
        (NUMBERS, 44, [23, 6, 8]),
        (NUMBERS, 32, [13, 6, 8]),
        # A label of one word of 30 cells keeps 24.
        (LONG_WORD, 38, [30, 5]),
        (LONG_WORD, 34, [26, 5]),
        (LONG_WORD, 33, [27, 3]),
        (LONG_WORD, 32, [26, 3]),
        (HEADING, 9, [3, 3]),
    ],
)
def test_columns_as_wide_as_there_is_room(table, width, widths):
    assert [len(part) for part in lines_at(table, width)[1][1:-1].split("┳")] == widths


def test_a_table_of_texts_to_the_letter():
    assert lines_at(TEXTS, 45) == [
        "t",
        "┏━━━━━━━━━━━━━━┳━━━━━━━━━━━━┳━━━━━━━━━━┳━━━━┓",
        "┃              ┃            ┃ the      ┃    ┃",
        "┃ dataset      ┃ images     ┃ verdict  ┃ n  ┃",
        "┡━━━━━━━━━━━━━━╇━━━━━━━━━━━━╇━━━━━━━━━━╇━━━━┩",
        "│ caption_     │ 654 of     │ part of  │ 7  │",
        "│ quality of_  │ them all   │ it       │    │",
        "│ many_images  │            │          │    │",
        "│ group        │            │          │    │",
        "│ b            │ 1          │ whole    │ 10 │",
        "└──────────────┴────────────┴──────────┴────┘",
        "note",
    ]


def test_a_table_of_texts_whose_words_do_not_fit_is_listed():
    assert [line.rstrip() for line in lines_at(TEXTS, 36)] == [
        "t",
        "caption_quality of_many_images",
        "  images: 654 of them all",
        "  the verdict: part of it",
        "  n: 7",
        "group",
        "b",
        "  images: 1",
        "  the verdict: whole",
        "  n: 10",
        "note",
    ]
    # One column needs no head, and an empty cell no line.
    page = ResultTable("t", "", ["value"], [Row("page", ["https://a.b/c"])], numeric=False)
    assert lines_at(page, 18)[1:] == ["page: ", "https://a.b/c"]
    gap = ResultTable("t", "", ["a", "b"], [Row("x", ["", "w" * 20])], numeric=False)
    assert [line.rstrip() for line in lines_at(gap, 26)[1:]] == ["x", f"  b: {'w' * 20}"]


def test_intervals_go_before_columns():
    cells = [Cell(text="40.2", low="33.4", high="47.4", rank=1) for _ in range(3)]
    table = ResultTable(
        "t",
        "m",
        ["a", "b", "c"],
        [Row("x", cells)],
        notes=[TableNote("Intervals: 95 %.", (INTERVALS,)), "Images: 6."],
        file="style=markdown",
        intervals="subscript",
    )
    assert lines_at(table, 70)[4:] == [
        "│ x │ 40.2¹ [33.4, 47.4] │ 40.2¹ [33.4, 47.4] │ 40.2¹ [33.4, 47.4] │",
        "└───┴────────────────────┴────────────────────┴────────────────────┘",
        "Intervals: 95 %.",
        "Images: 6.",
    ]
    assert " ".join(" ".join(lines_at(table, 30)[4:]).split()) == (
        "│ x │ 40.2¹ │ 40.2¹ │ 40.2¹ │ └───┴───────┴───────┴───────┘ Images: 6. The terminal is too narrow for "
        "intervals: widen it, or add style=markdown, which prints all."
    )
    # One note names both.
    narrowest = " ".join(" ".join(lines_at(table, 18)).split())
    assert "too narrow for intervals and c: widen" in narrowest


def test_a_table_of_numbers_without_a_frame_and_without_a_column():
    assert lines_at(NUMBERS, 24) == [
        "t",
        "                  pair-",
        "             τ_c   wise",
        "metric       all acc. %",
        "───────────────────────",
        "cider(df=a_ 30.8 -100.0",
        "long_name_             ",
        "of.json)               ",
        "b              1     10",
    ]
    assert lines_at(NUMBERS, 20)[1:] == [
        "metric      τ_c all",
        "───────────────────",
        "cider(df=a_    30.8",
        "long_name_         ",
        "of.json)           ",
        "b                 1",
        "The terminal is too ",
        "narrow for pair-wise",
        "acc. %: widen it, or",
        "see table.md.",
    ]


def test_columns_of_one_head_that_go_are_named_once_and_only_if_none_is_left():
    table = ResultTable(
        "t",
        "m",
        ["a1", "±", "b2", "±", "c3"],
        [Row("x", list("12345"))],
        spare=((4, 3), (2,)),
        file="",
    )
    assert [lines_at(table, w)[1].strip() for w in (15, 14, 10, 9, 6, 5)] == [
        "m a1 ± b2 ± c3",
        "m a1 ± b2 ± c3",
        "m a1 ± b2",
        "m a1 ± b2",
        "m a1 ±",
        "m a1",
    ]
    notes = {w: "".join("".join(lines_at(table, w)[4:]).split()) for w in (14, 13, 8, 5)}
    assert notes == {
        14: "",
        13: "Theterminalistoonarrowforc3:widenit.",
        8: "Theterminalistoonarrowforb2,c3:widenit.",
        5: "Theterminalistoonarrowfor±,b2,c3:widenit.",
    }


@pytest.mark.parametrize(
    ("head", "width", "expected"),
    [
        ("a bb ccc", 8, "a bb ccc"),
        ("a bb ccc", 7, "a bb\nccc"),
        ("a bb ccc", 4, "a bb\nccc"),
        ("a bb ccc", 3, "a\nbb\nccc"),
        ("a bb ccc", 0, "a\nbb\nccc"),
        ("a a aa", 3, "a a\naa"),
        ("wrong_colour x", 14, "wrong_colour x"),
        ("wrong_colour x", 13, "wrong_colour\nx"),
        ("wrong_colour x", 6, "wrong_\ncolour\nx"),
        ("VinVL-large a-b", 11, "VinVL-large\na-b"),
        # Each of these characters takes two cells.
        ("犬犬 犬", 7, "犬犬 犬"),
        ("犬犬 犬", 6, "犬犬\n犬"),
    ],
)
def test_where_a_head_folds(head, width, expected):
    assert terminal_table.fold_head(head, width) == expected


def test_headings_are_italic_and_the_verdict_is_bold():
    table = ResultTable("t", "m", ["x"], [Row("h", []), Row("a", ["1"])], verdict="v", notes=["n"])
    console = Console(width=40, file=io.StringIO(), force_terminal=True, color_system="standard")
    console.print(rich_of(table))
    shown = console.file.getvalue()
    for text in ("\x1b[3mt\x1b[0m", "\x1b[3mh\x1b[0m", "\x1b[1mv\x1b[0m", "│ a ", "\nn\n"):
        assert text in shown


def test_an_empty_table_of_texts():
    table = ResultTable("t", "name", ["long head"], [], numeric=False)
    assert lines_at(table, 20)[1] == "┏━━━━━━┳━━━━━━━━━━━┓"


@pytest.mark.parametrize(("width", "n_lines"), [(60, 1), (40, 2), (20, 5)])
def test_heads_take_the_room_that_labels_leave(width, n_lines):
    """A head of five words has a line where there is room, and a line a word where there is none."""
    head = "Brier of the base rate"
    row = Row("CIDEr", [number_cell(0.5, 1, 3), number_cell(1.0, 1, 3)])
    table = ResultTable("T", "m", ["AUROC", head], [row])
    lines = [line for line in lines_at(table, width) if "┃" in line]
    if not lines:  # without a frame
        lines = lines_at(table, width)[1 : 1 + n_lines]
    assert len(lines) == n_lines
    assert set(head.split()) <= set(" ".join(lines).replace("┃", " ").split())


def test_a_heading_that_does_not_fit_has_no_hyphen_alone_in_a_line():
    rows = [Row("reference-based", []), Row("CIDEr", ["43.9"]), Row("METEOR", ["41.8"])]
    table = ResultTable("T", "metric", ["a long head of its own"], rows)
    for width in range(17, 60):
        words = [line.strip("│ ") for line in lines_at(table, width)]
        assert "-" not in words, width
