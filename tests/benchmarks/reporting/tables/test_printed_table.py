"""Heads and numbers of printed tables by hand."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest

from captau.benchmarks.reporting.html_report import _page_of
from captau.benchmarks.reporting.tables.drawn_table import _tail_of
from captau.benchmarks.reporting.tables.printed_table import (
    CoefficientColumn,
    JoinedTable,
    PrintedNumber,
    RowGroup,
    TableRow,
    escape_markdown,
    legend_lines,
    signature_lines,
    signs_above,
)


def column(dataset, over, head="τ_c"):
    return CoefficientColumn(dataset, "overall", "tau_c", None, "", over, head, head)


@pytest.mark.parametrize(
    ("dataset", "over", "head", "whole", "short"),
    [
        ("flickr8k_expert", "Flickr8k-Expert", "τ_c", "Flickr8k-Expert τ_c", "F8k-Expert τ_c"),
        ("flickr8k_expert", "", "τ_c", "τ_c", "τ_c"),
        ("flickr8k_expert", "Other, Flickr8k-Expert", "τ_c", "Other, Flickr8k-Expert τ_c", None),
        ("mine", "mine", "τ_c", "mine τ_c", None),
    ],
)
def test_the_heads_of_a_column(dataset, over, head, whole, short):
    made = column(dataset, over, head)
    assert (made.whole_head, made.short_head) == (whole, short or whole)


NUMBER = PrintedNumber("43.9", 0.439, low="41.0", high="46.8", reach="2.9", marks=("a",))
PLAIN = PrintedNumber("43.9", 0.439)


@pytest.mark.parametrize(
    ("cell", "intervals", "tail"),
    [
        (None, "subscript", ""),
        (NUMBER, "subscript", "ᵃ [41.0, 46.8]"),
        (NUMBER, "plusminus", " ± 2.9ᵃ"),
        (NUMBER, "none", "ᵃ"),
        (PLAIN, "subscript", ""),
        (PLAIN, "plusminus", ""),
    ],
)
def test_what_stands_behind_a_number_in_a_terminal(cell, intervals, tail):
    assert _tail_of(cell, SimpleNamespace(intervals=intervals)) == tail


def test_a_row_says_who_printed_it():
    own = TableRow("CIDEr", "", "cider", "", ())
    printed = TableRow("CIDEr", "Hessel et al. 2021", "", "", ())
    assert (own.sourced_label, printed.sourced_label) == ("CIDEr", "CIDEr (Hessel et al. 2021)")
    assert RowGroup("systems", ()).heading in ("", "systems")


def test_titles_of_a_table_are_heads_of_its_page():
    page = _page_of(
        "**A title**\n\na **bold** word\n\n**one** and **two**\n\n| a |\n|:--|\n| 1 |\n"
    )
    assert "<h3><strong>A title</strong></h3>" in page
    assert page.count("<h3>") == page.count("</h3>") == 1
    assert "<p>a <strong>bold</strong> word</p>" in page
    assert "<p><strong>one</strong> and <strong>two</strong></p>" in page
    head = (
        '<div class="scroll" tabindex="0" role="region" aria-label="Numbers"><table class="data">'
    )
    assert (page.count(head), page.count("</table></div>")) == (1, 1)


@pytest.mark.parametrize(
    ("kind", "heading"),
    [("given", "your metrics"), ("published", "published alone"), ("systems", ""), ("floors", "floors")],
)  # fmt: skip
def test_groups_have_headings(kind, heading):
    assert RowGroup(kind, ()).heading == heading


def test_columns_share_heads_with_their_neighbours_alone():
    columns = tuple(column("d", over) for over in ("A", "A", "B", "A", "A", "A", "B"))
    table = JoinedTable("t", "", columns, (), (), (), (), "none")
    assert table.spans == [("A", 2), ("B", 1), ("A", 3), ("B", 1)]
    assert (table.has_legend, table.corner, table.rows, table.cells) == (True, "metric", [], [])


def rows_of(*sources, kind="given", emphasis="best"):
    cells = (PrintedNumber("1.0", 0.01, emphasis=emphasis), None)
    return RowGroup(kind, tuple(TableRow("r", source, "", "", cells) for source in sources))


BEST = "Bold and underlined: the best and the second best of a column, as printed"
PUBLISHED = (
    "Grey: as published, not computed by captau; out of competition where the protocol is another or captau computed "
    "the metric."
)


@pytest.mark.parametrize(
    ("groups", "lines"),
    [
        ((), []),
        ((rows_of("", emphasis=""),), []),
        ((rows_of(""),), [f"{BEST}; floors and what people reach do not compete."]),
        ((rows_of("", kind="systems"),), [f"{BEST}."]),
        ((rows_of("", kind="systems"), rows_of("")), [f"{BEST}; floors and what people reach do not compete."]),
        ((rows_of("", "S", emphasis=""),), [PUBLISHED]),
    ],
)  # fmt: skip
def test_a_legend_explains_what_is_there(groups, lines):
    table = JoinedTable("t", "", (), groups, (), (), (), "none")
    assert legend_lines(table, "Grey") == lines
    assert legend_lines(dataclasses.replace(table, has_legend=False), "Grey") == []
    assert table.has_published_rows is any("published" in line for line in lines)


def test_signs_above_a_number_are_its_rank_and_marks():
    assert signs_above(PrintedNumber("1", 0.01, rank=0, marks=("a", "b"))) == ["0", "a", "b"]
    assert signs_above(PLAIN) == []


def test_signatures_are_a_line():
    table = JoinedTable("t", "", (), (), (), (), (("A", "a|1"), ("B", "b|2")), "none")
    assert signature_lines(table, str.lower, str.upper) == ["Signatures: a: A|1; b: B|2."]
    assert signature_lines(dataclasses.replace(table, signatures=()), str, str) == []


def test_markdown_shows_texts_as_they_are():
    assert escape_markdown(r"a_b \ ` * < | > c") == r"a_b \\ \` \* \< \| > c"
