"""Options of the commands over finished runs: `captau table`, `cite`, `report` and `plot`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ...conf import group
from ...datasets.errors import InputError, unknown
from ..reporting.tables.table_choices import TableChoices
from ..runs.output_folder import find_run
from . import shared
from .analyses import CurveOptions
from .declaration import Options, PythonValue, dataclass_part, option, part

#: The formats of `captau table`, and how it prints intervals.
STYLES = ("markdown", "latex", "html", "csv", "json")
INTERVALS = ("subscript", "plusminus", "none")
RANKS = ("superscript", "groups", "none")
NOTES = ("brief", "full", "none")

_LAST = "last is the newest in results/runs/"
_RUNS = f"finished runs; {_LAST}. Several are of bench, compare, reproduce or train, or all of score; or "
_STUDIES = "of rank, agree, sensitivity, complement, thresholds, calibrate or estimate"
_OUTPUT = "the output file (default: standard output)"


def _papers_of(value: Any, key: str) -> tuple[str, ...]:
    papers = shared.words_of(value, key)
    if papers == ("all",):
        return tuple(group("paper"))

    for paper in papers:
        if paper not in group("paper"):
            raise unknown("paper", paper, [*group("paper"), "all"])
    return papers


def _names_of(value: Any, key: str) -> dict[str, str]:
    if not isinstance(value, Mapping | None):
        raise InputError(
            f"{key} is {value!r}; labels by metric are expected, as {key}={{cider: CIDEr-D}}"
        )
    return {str(name): str(label) for name, label in (value or {}).items()}


@dataclass(frozen=True, kw_only=True)
class TableOptions(Options):
    """Options of `captau table` of finished runs."""

    examples: ClassVar[str] = """
captau bench dataset=flickr8k_expert output_dir=mine
captau table run=mine                                  one value a dataset, onto the terminal
captau table run=mine coefficients=all                 every coefficient of the protocols
captau table run=mine style=latex output=table.tex
captau table run=mine published=all                    everybody's numbers and mine
captau table run=mine,older intervals=plusminus
captau table run=mine rows=cider,rouge_1,ceilings names={cider:CIDEr-D} sort=tau_c
captau table run=mine style=latex output=table.tex appendix=appendix.tex
captau table 'run=sweep/*'                             the runs of a sweep
"""
    notes: ClassVar[str] = "Nothing is scored, and no dataset is read. See docs/tables.md."
    python_positional: ClassVar[tuple[str, ...]] = ("run",)

    runs: tuple[Path, ...] = shared.runs_option(
        f"{_RUNS}one {_STUDIES}",
        python=PythonValue(
            "",
            f"folders of finished runs; {_LAST}. Several are of bench, compare, reproduce or train, or all of score.",
        ),
    )
    style: str | None = option(
        None,
        "markdown, latex, html, csv, json (default: a drawn table on a terminal, Markdown elsewhere)",
        check=shared.one_of(STYLES),
        is_of_terminal=True,
    )
    choices: TableChoices = dataclass_part(
        TableChoices,
        intervals=option(
            None,
            "subscript, plusminus or none; both ends, half the width or no interval (default: subscript, but none beside several datasets)",
            check=shared.one_of(INTERVALS, "value of intervals"),
        ),
        ranks=option(
            "superscript",
            "superscript, none, or groups: rows that share a rank in the column that sorts stand under a heading",
            check=shared.one_of(RANKS, "value of ranks"),
        ),
        published=option(
            None,
            "papers whose numbers stand beside yours; only those of the same datasets and coefficients, one a metric and column",
            read=_papers_of,
            takes="all|A,B",
        ),
        coefficients=option(
            None,
            "only these columns, in this order, or headline (the default: one a dataset, and the mean) or all (those of the "
            "protocols; the default of reproduce); of runs of score, these metrics",
            takes="A,B",
            read=shared.words_of,
        ),
        dimensions=option(
            None,
            "only these dimensions or categories, in this order",
            takes="A,B",
            read=shared.words_of,
        ),
        rows=option(
            None,
            "only these metrics, in this order; also labels and groups (bleu_4, CIDEr, ceilings), of which the best stands first, and systems of score",
            takes="A,B",
            read=shared.words_of,
        ),
        sort=option(
            None,
            "the column that sorts rows within groups, best first; a coefficient, dataset or "
            "dimension, or several that together name one column (default: the mean, or else the first column)",
            takes="NAME|A,B",
            read=shared.words_of,
        ),
        names=option(
            None,
            "labels of your own by metric or label: {cider: CIDEr-D}",
            takes="{..}",
            read=_names_of,
        ),
        own=option(
            ["given"],
            "your own rows; they are marked (ours) where no heading says it; metrics, labels or groups",
            takes="A,B",
            read=shared.words_of,
        ),
        notes=option(
            "brief",
            "brief, full or none; brief says how to read the numbers, full adds sources and signatures",
            type=str | None,
            read=lambda value, _: str(value or "none"),
            check=shared.one_of(NOTES),
        ),
        title=option(None, "the line above the table", takes="TEXT", is_literal=True),
        label=option(None, "LaTeX's \\label", takes="NAME", is_literal=True),
    )
    appendix: Path | None = option(
        None,
        "the file of full notes and signatures; LaTeX if it ends in .tex, else Markdown",
        takes="FILE",
        is_of_terminal=True,
    )
    output: Path | None = option(None, _OUTPUT, takes="FILE", is_of_terminal=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.choices.label and re.search(r"[{}%\\#\s]", self.choices.label):
            raise InputError(
                f"label={self.choices.label}: LaTeX takes no blank and none of {{ }} % \\ # in a label"
            )
        if self.appendix is not None and self.appendix == self.output:
            raise InputError(f"appendix={self.appendix}: this is the file of output=; name another")


@dataclass(frozen=True, kw_only=True)
class CiteOptions(Options):
    """Options of `captau cite`: folders of finished runs, the papers whose numbers their table shows, and the file to write, if any."""

    examples: ClassVar[str] = """
captau cite run=mine
captau cite run=mine published=all                     and the papers that printed the other numbers
captau cite run=mine,older output=captau.bib
"""
    notes: ClassVar[str] = """
The two sentences name metrics, data and coefficients; the appendix names the protocol in full. The BibTeX is that of the datasets and
metrics that a run used (docs/tables.md). BibTeX passes over both texts, which stand outside of its entries.
"""

    runs: tuple[Path, ...] = shared.runs_option(f"{_RUNS}all {_STUDIES}")
    published: tuple[str, ...] = option(
        None,
        "papers as captau table takes them; those whose numbers stand in its table are cited",
        read=_papers_of,
        takes="all|A,B",
    )
    output: Path | None = option(None, _OUTPUT, takes="FILE")


#: The formats of `captau plot`.
FORMATS = ("svg", "png", "pdf")


@dataclass(frozen=True, kw_only=True)
class ReportOptions(Options):
    """Options of `captau report`."""

    examples: ClassVar[str] = """
captau report run=DIR                                  DIR/report.html
captau report run=DIR output=page.html
captau report run=DIR images=FOLDER                    with pictures beside the captions
"""
    notes: ClassVar[str] = """
Nothing is scored. It needs pip install 'captau[report]' (matplotlib, jinja2). docs/report.md explains the page.
"""

    run: Path = option(
        "last",
        f"a finished run; {_LAST}. Only runs of bench, compare and score show captions on their pages",
        takes="DIR",
        read=lambda folder, _: find_run(folder),
    )
    output: Path | None = option(
        None, "the page (default: report.html in the run's folder)", takes="FILE"
    )
    images: Path | None = option(
        None,
        "the folder of images; either flat, or as COCO, Flickr and PASCAL unpack (default: where "
        "the run found them)",
        takes="FOLDER",
    )
    megabytes: float | None = option(
        None,
        "the largest size of the page (default: 3, or 12 for your own captions); captions and "
        "pictures fill the free room, most disputed first",
    )
    curves: CurveOptions = part(
        CurveOptions.read, *CurveOptions.declared(), default_factory=CurveOptions
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.megabytes is not None and not self.megabytes > 0:
            raise InputError(f"megabytes is {self.megabytes}; a number above 0 is expected")
        if self.images is not None and not self.images.is_dir():
            raise InputError(f"images={self.images} is not a folder")


def _kinds_of(value: Any, key: str) -> tuple[str, ...]:
    kinds = shared.words_of(value, key)
    if value is not None and not kinds:
        raise InputError(f"{key} is empty; name a figure, or leave {key}= out for the usual ones")
    return kinds


@dataclass(frozen=True, kw_only=True)
class PlotOptions(Options):
    """Options of `captau plot`."""

    examples: ClassVar[str] = """
captau plot run=DIR                                    DIR/plots/*.svg and *.png
captau plot run=DIR kind=forest,correlations output_dir=figures
captau plot run=DIR kind=forest format=pdf             for a paper
"""
    notes: ClassVar[str] = """
Nothing is scored. It needs pip install 'captau[report]' (matplotlib). Equal results give equal files.
"""

    run: Path = option(
        "last",
        f"a finished run; {_LAST}. Runs of rank, agree, probe, sensitivity, thresholds, calibrate and estimate have the figures that they drew",
        takes="DIR",
        read=lambda folder, _: find_run(folder),
    )
    kinds: tuple[str, ...] = option(
        None,
        "which figures; overview (several datasets in one), forest (coefficients with intervals), categories (accuracy on preferences), "
        "significance (of captau compare), ratings, agreement, scores (against ratings), correlations "
        "(between metrics), precision_recall, or all; by default overview, forest and significance of the "
        "headline, ratings, agreement and correlations. Of a run that drew its own figures, the "
        "beginnings of their names (default: all); rank: systems, wins; agree: rating_distribution, stability, "
        "word_agreement; probe: probes; sensitivity: sensitivity; thresholds: precision_recall; calibrate: reliability, "
        "roc; estimate: estimates",
        key="kind",
        read=_kinds_of,
        takes="NAME|A,B",
    )
    formats: tuple[str, ...] = option(
        ["svg", "png"],
        "svg, png, pdf, or several",
        key="format",
        read=shared.words_of,
        check=shared.one_of(FORMATS),
        takes="NAME|A,B",
    )
    output_dir: Path | None = option(
        None, "the output folder (default: plots in the run's folder)", takes="DIR"
    )
    curves: CurveOptions = part(
        CurveOptions.read, *CurveOptions.declared(), default_factory=CurveOptions
    )
