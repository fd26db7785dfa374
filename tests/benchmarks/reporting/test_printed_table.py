"""Heads and numbers of printed tables by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from captau.benchmarks.reporting.drawn_table import _tail_of
from captau.benchmarks.reporting.html_report import _page_of
from captau.benchmarks.reporting.printed_table import (
    CoefficientColumn,
    PrintedNumber,
    RowGroup,
    TableRow,
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
