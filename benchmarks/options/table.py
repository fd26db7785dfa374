"""Options of `captau table` and `captau cite`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ...conf import group
from ...datasets.errors import InputError, unknown
from .declaration import Options, option
from .shared import one_of, runs_option, words_of

#: The formats of `captau table`, and how it prints intervals.
STYLES = ("markdown", "latex", "html", "csv", "json")
INTERVALS = ("subscript", "plusminus", "none")

_RUNS = "folders of finished runs (of bench, compare, reproduce or train)"
_OUTPUT = "where to write (default: standard output)"


def _papers_of(value: Any, key: str) -> tuple[str, ...]:
    papers = words_of(value, key)
    return tuple(group("paper")) if papers == ("all",) else papers


@dataclass(frozen=True, kw_only=True)
class TableOptions(Options):
    """Options of `captau table`."""

    examples: ClassVar[str] = """
captau bench dataset=flickr8k_expert output_dir=mine
captau table run=mine                                  Markdown, onto the terminal
captau table run=mine style=latex output=table.tex
captau table run=mine published=all coefficients=[tau_c]   everybody's numbers and mine
captau table run=mine,older intervals=plusminus
"""
    notes: ClassVar[str] = "Nothing is scored, and no dataset is read. See docs/tables.md."

    runs: tuple[Path, ...] = runs_option(_RUNS)
    style: str = option("markdown", "markdown, latex, html, csv, json", check=one_of(STYLES))
    intervals: str = option(
        "subscript",
        "subscript (both ends), plusminus (half the width), none",
        type=str | None,
        read=lambda value, _: str(value or "none"),
        check=one_of(INTERVALS, "value of intervals"),
    )
    published: tuple[str, ...] = option(
        None,
        "papers whose numbers of these datasets and coefficients stand beside",
        read=_papers_of,
        takes="all|[A,B]",
    )
    coefficients: tuple[str, ...] = option(
        None, "only these columns, in this order", takes="[..]", read=words_of
    )
    dimensions: tuple[str, ...] = option(
        None,
        "only these rated dimensions or categories, in this order",
        takes="[..]",
        read=words_of,
    )
    title: str | None = option(None, "the line above the table", takes="TEXT", is_literal=True)
    label: str | None = option(None, "LaTeX's \\label", takes="NAME", is_literal=True)
    output: Path | None = option(None, _OUTPUT, takes="FILE")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.label and re.search(r"[{}%\\#\s]", self.label):
            raise InputError(
                f"label={self.label}: LaTeX takes no blank and none of {{ }} % \\ # in a label"
            )
        for paper in self.published:
            if paper not in group("paper"):
                raise unknown("paper", paper, [*group("paper"), "all"])


@dataclass(frozen=True, kw_only=True)
class CiteOptions(Options):
    """Options of `captau cite`: folders of finished runs, and the file to write, if any."""

    examples: ClassVar[str] = """
captau cite run=mine
captau cite run=mine,older output=captau.bib
"""
    notes: ClassVar[str] = """
The methods paragraph names the protocol in full; the BibTeX is that of the datasets and metrics that a run used
(docs/tables.md). BibTeX passes over the paragraph, which stands outside of its entries.
"""

    runs: tuple[Path, ...] = runs_option(_RUNS)
    output: Path | None = option(None, _OUTPUT, takes="FILE")
