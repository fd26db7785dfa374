"""Options of `captau reproduce`, and the schema of a file in `conf/paper/`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from ...conf import group
from ...datasets.errors import InputError
from ...metrics.base import Metric
from ...metrics.learned.rater import list_rater_folders
from ...metrics.registry import metric, metric_names
from ..evaluation.papers.published_numbers import PaperTable
from . import shared
from .declaration import NEEDED, Composed, Option, PythonValue, option, part


@dataclass
class PaperTableSchema(PaperTable):
    """The schema of one table in such a file."""

    protocol: Any = field(default_factory=shared.ProtocolChanges)


@dataclass
class PaperSchema:
    """The schema of a file in `conf/paper/`."""

    title: str = NEEDED
    citation: str = NEEDED
    tables: list[PaperTableSchema] = field(default_factory=list)


def _papers_of(composed: Composed) -> Mapping[str, tuple[PaperTable, ...]]:
    if not composed["papers"]:
        raise InputError(
            f"the option paper=… is needed: all, or some of {','.join(group('paper'))}"
        )
    papers: dict[str, tuple[PaperTable, ...]] = {}
    for name, paper in composed["papers"].items():
        papers[name] = tuple(PaperTable(**table) for table in paper["tables"])
    return papers


def _rater_folders(names: Sequence[str], _key: str) -> tuple[Path, ...]:
    """Return the folders of raters below each of the folders that are named."""
    folders: list[Path] = []
    for name in names:
        folders += list_rater_folders(name)
    return tuple(folders)


@dataclass(frozen=True, kw_only=True)
class ReproduceOptions(shared.ScoringOptions):
    """Options of `captau reproduce`: papers with their tables, and metrics to leave out."""

    python_positional: ClassVar[tuple[str, ...]] = ("paper",)
    takes_all: ClassVar[str] = "paper"
    examples: ClassVar[str] = """
captau reproduce paper=clipscore_2021
captau reproduce paper=thumb_2022,umic_2021
captau reproduce paper=all
captau reproduce paper=iicr_2023 raters=my_cocog,my_flickrg
"""
    writes: ClassVar[str] = """
Writes comparison.csv beside the files of captau bench. A cell matches when the recomputed value rounds to the printed
one; cells whose metric captau does not have yet are listed as missing.
"""
    objective: ClassVar[str] = (
        "the share of the papers' recomputed cells that match the printed digit"
    )

    papers: Mapping[str, tuple[PaperTable, ...]] = part(
        _papers_of,
        Option(
            "paper",
            None,
            "which papers (captau --help all lists them)",
            takes="NAME|A,B|all",
            config_group="paper",
            python=PythonValue("str | Sequence[str]", is_needed=True),
        ),
        Option("papers", {}, "", dict[str, PaperSchema]),
    )
    leave_out: tuple[str, ...] = option(
        [],
        "metrics to leave out, such as [spice]; SPICE parses 20,000 captions the first time "
        "(docs/spice.md)",
        type=list[str],
        read=lambda names, _: tuple(names),
        takes="[METRIC]",
        check=lambda name, _: shared.check_choice("metric", name, metric_names()),
    )

    raters: tuple[Path, ...] = option(
        [],
        "folders of captau train, whose raters fill the rows of the papers' own models that fit them (several seeds: "
        "their mean); a rater fills no cell of images that it was trained on",
        type=list[str],
        read=_rater_folders,
        takes="[FOLDER]",
    )

    def needed_metrics(self) -> list[Metric]:
        """Return the metrics that rows and columns of the papers' tables name, without those left out."""
        names = set(metric_names()) - set(self.leave_out)
        # In the order of the tables, each once.
        specs: dict[str, None] = {}
        for tables in self.papers.values():
            for table in tables:
                # Rows of other kinds of tables are no metrics.
                row_specs = table.rows.values() if table.kind in ("correlation", "bounds") else ()
                column_specs = [column.get("metric") for column in table.columns.values()]
                for spec in (*row_specs, *column_specs):
                    # A column that names no metric has None here.
                    if spec is not None:
                        specs[str(spec)] = None

        needed: list[Metric] = []
        for spec in specs:
            # `rouge_score` of `rouge_score(stem=true)`.
            name, _, _ = spec.partition("(")
            if name in names:
                needed.append(metric(spec))
        return needed
