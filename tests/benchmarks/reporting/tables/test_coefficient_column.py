"""Heads and groups of the table that `captau table` prints, by hand."""

from __future__ import annotations

import pytest

from captau.benchmarks.reporting.html_report import render_markdown
from captau.benchmarks.reporting.tables.coefficient_column import (
    heading_of,
    shorten_dataset,
    spare_columns,
    with_headings,
)
from captau.benchmarks.runs.tables import Column, Row


@pytest.mark.parametrize(
    ("dataset", "head", "short"),
    [
        ("flickr8k_expert", "Flickr8k-Expert τ_c", "F8k-Expert τ_c"),
        ("flickr8k_expert", "τ_c", "τ_c"),
        ("flickr8k_expert", "Other, Flickr8k-Expert τ_c", "Other, Flickr8k-Expert τ_c"),
        ("mine", "mine τ_c", "mine τ_c"),
    ],
)
def test_the_head_of_a_dataset_for_narrow_terminals(dataset, head, short):
    assert shorten_dataset(dataset, head) == short


def test_groups_have_headings():
    kinds = ("given", "text", "text", "ceilings", "published")
    rows = [Row(kind, ["1"], kind=kind) for kind in kinds]
    lines = with_headings(rows, [heading_of(kind) for kind in kinds])
    assert [row.label for row in lines if not row.cells] == [
        "your metrics",
        "text",
        "people",
        "other metrics, as printed by papers",
    ]
    assert [bool(row.cells) for row in lines] == [0, 1, 0, 1, 1, 0, 1, 0, 1]
    assert with_headings([], []) == []
    assert with_headings(rows[1:3], ["text", "text"]) == rows[1:3]


def test_datasets_but_the_first_go_from_the_right():
    columns = [Column("a", over="A"), Column("b", over="B"), Column("mean"), Column("c", over="C")]
    assert spare_columns(columns) == ((3,), (1,))


def test_titles_of_a_table_are_heads_of_its_page():
    page = render_markdown(
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
