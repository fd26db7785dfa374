"""Options of `captau table` and `captau cite`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig

from ...conf import group
from ...datasets.errors import InputError, unknown
from .common import listed, path_of, plain_of, runs_of

#: How `captau table` prints, and how it shows intervals.
STYLES = ("markdown", "latex", "html", "csv", "json")

SHOWN_AS = ("subscript", "plusminus", "none")


@dataclass(frozen=True)
class TableOptions:
    """What `captau table` does.

    Attributes:
        runs: folders of finished runs.
        style: one of `STYLES`.
        intervals: one of `SHOWN_AS`.
        published: papers whose numbers are joined.
        coefficients, dimensions: which columns, in this order; empty for all.
        title, label: of the table; None for one of captau's own, and for none.
        output: the file to write; None for standard output.
    """

    runs: tuple[Path, ...]
    style: str = "markdown"
    intervals: str = "subscript"
    published: tuple[str, ...] = ()
    coefficients: tuple[str, ...] = ()
    dimensions: tuple[str, ...] = ()
    title: str | None = None
    label: str | None = None
    output: Path | None = None

    def __post_init__(self) -> None:
        if self.style not in STYLES:
            raise unknown("style", self.style, STYLES)
        if self.intervals not in SHOWN_AS:
            raise unknown("value of intervals", self.intervals, SHOWN_AS)
        if self.label and re.search(r"[{}%\\#\s]", self.label):
            raise InputError(
                f"label={self.label}: LaTeX takes no blank and none of {{ }} % \\ # in a label"
            )
        for paper in self.published:
            if paper not in group("paper"):
                raise unknown("paper", paper, [*group("paper"), "all"])


@dataclass(frozen=True)
class CiteOptions:
    """What `captau cite` does: folders of finished runs, and the file to write, if any."""

    runs: tuple[Path, ...]
    output: Path | None = None


def table_config(config: DictConfig) -> TableOptions:
    """From the composed configuration of `captau table`."""
    plain = plain_of(config)
    published = listed(plain["published"], "published")
    return TableOptions(
        runs=runs_of(plain),
        style=str(plain["style"]),
        intervals=str(plain["intervals"] or "none"),
        published=tuple(group("paper")) if published == ("all",) else published,
        coefficients=listed(plain["coefficients"], "coefficients"),
        dimensions=listed(plain["dimensions"], "dimensions"),
        title=plain["title"],
        label=plain["label"],
        output=path_of(plain["output"]),
    )


def cite_config(config: DictConfig) -> CiteOptions:
    """From the composed configuration of `captau cite`."""
    plain = plain_of(config)
    return CiteOptions(runs_of(plain), path_of(plain["output"]))
