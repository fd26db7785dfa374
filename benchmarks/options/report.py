"""Options of `captau report` and `captau plot`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ...datasets.errors import InputError
from .declaration import NEEDED, Options, option, part
from .shared import one_of, words_of
from .thresholds import CurveOptions

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
        NEEDED,
        "a finished run; only one of bench, compare or score has items, and so captions on its page",
        takes="DIR",
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
        "the largest size of the page (default: 3; 12 for your own captions); captions and "
        "pictures fill the free room, most disputed first",
    )
    options: CurveOptions = part(
        CurveOptions.read, *CurveOptions.declared(), default_factory=CurveOptions
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.megabytes is not None and not self.megabytes > 0:
            raise InputError(f"megabytes is {self.megabytes}; a number above 0 is expected")
        if self.images is not None and not self.images.is_dir():
            raise InputError(f"images={self.images} is not a folder")


def _kinds_of(value: Any, key: str) -> tuple[str, ...]:
    kinds = words_of(value, key)
    if value is not None and not kinds:
        raise InputError(f"{key} is empty; name a figure, or leave {key}= out for all of them")
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
        NEEDED,
        "a finished run; one of rank, agree, sensitivity or thresholds has the figures that it drew",
        takes="DIR",
    )
    kinds: tuple[str, ...] = option(
        None,
        "which figures (default: all); forest (coefficients with intervals), categories (accuracy "
        "on preferences), significance (of captau compare), ratings, agreement, scores (against "
        "ratings), correlations (between metrics), precision_recall; of a run that drew its own, "
        "the beginnings of their names",
        key="kind",
        read=_kinds_of,
        takes="NAME|[A,B]",
    )
    formats: tuple[str, ...] = option(
        ["svg", "png"],
        "svg, png, pdf, or several",
        key="format",
        read=words_of,
        check=one_of(FORMATS),
        takes="NAME|[A,B]",
    )
    output_dir: Path | None = option(
        None, "the output folder (default: plots in the run's folder)", takes="DIR"
    )
    options: CurveOptions = part(
        CurveOptions.read, *CurveOptions.declared(), default_factory=CurveOptions
    )
