"""Options of `captau probe`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ...datasets.errors import InputError
from ...datasets.reading.table import Columns
from ...metrics.base import Metric
from ..evaluation.probes.faults import CONTROLS, FAULTS
from ..statistics.bootstrap import StatisticsOptions
from .declaration import Composed, option, part
from .large import columns_part
from .score import NamedFile, files_of
from .shared import (
    DATASETS,
    FILE,
    METRICS,
    ScoringOptions,
    at_least,
    check_not_fisher,
    details_option,
    metrics_part,
    names_of,
    one_of,
    statistics_part,
    words_of,
)

#: Which captions get a fault.
CAPTIONS = ("candidates", "references")


def _dataset_of(composed: Composed) -> str | None:
    if composed["references"]:
        if tuple(composed["datasets"]) != ("demo",):
            raise InputError("give references=FILE or dataset=NAME, not both")
        return None
    names = names_of(composed["datasets"])
    if len(names) > 1:
        raise InputError(
            f"captau probe takes one dataset; {len(names)} are named: {','.join(names)}"
        )
    return names[0]


def _one_file(value: Any, key: str) -> NamedFile | None:
    files = files_of(value, key) if value else ()
    if len(files) > 1:
        raise InputError(f"{key}= names {len(files)} files; captau probe takes one")
    return files[0] if files else None


@dataclass(frozen=True, kw_only=True)
class ProbeOptions(ScoringOptions):
    """Options of `captau probe`."""

    examples: ClassVar[str] = """
captau probe                                           the embedded demo, the text suite
captau probe dataset=thumb metrics=text                a dataset's captions
captau probe dataset=flickr8k_expert captions=references
captau probe references=refs.json metrics=text,sentence_cosine
captau probe candidates=mine.json references=refs.json faults=gender,negation,joined
captau probe run=DIR 'metrics=file(path=scores.csv,name=Mine)'      scores of the pairs that a run wrote
"""
    notes: ClassVar[str] = """
Each fault is made by rule and seed; what cannot be made of a caption is counted in the notes (docs/probes.md). A metric
that only comes as a file scores the captions of probe_pairs.parquet: its file has item_id, which is a pair's item_id for
the whole caption and its pair_id for the faulty one, and score.
"""
    writes: ClassVar[str] = """
Writes probes.csv (a row a metric and fault), probe_pairs.parquet (the pairs and their scores), table.md, table.tex,
table.csv, run.json.
"""

    dataset: str | None = part(_dataset_of, *DATASETS, *FILE, default="demo")
    captions: str = option(
        "candidates",
        "which captions of a dataset get a fault: its candidates, or one reference of each image, which is left out "
        "of the references then; files of references alone always give references",
        takes="|".join(CAPTIONS),
        check=one_of(CAPTIONS, "value of captions"),
    )
    candidates: NamedFile | None = option(
        None,
        "captions of your own, in the forms that captau score takes",
        read=_one_file,
        takes="FILE",
        is_literal=True,
    )
    references: NamedFile | None = option(
        None,
        "captions by image, instead of a dataset's; in the forms that captau score takes",
        read=_one_file,
        takes="FILE",
        is_literal=True,
    )
    columns: Columns = columns_part()
    metrics: tuple[Metric, ...] = metrics_part(METRICS)
    faults: tuple[str, ...] = option(
        [],
        f"which faults and controls (default: all); {', '.join([*FAULTS, *CONTROLS])}",
        takes="A,B",
        read=words_of,
        check=one_of([*FAULTS, *CONTROLS], "fault"),
    )
    pairs: int = option(1000, "the most pairs of a fault", check=at_least(1, 1_000_000))
    seed: int = option(0, "the seed of all draws of faults", check=at_least(0))
    details: bool = details_option()
    statistics: StatisticsOptions = statistics_part(
        *("interval", "replicates", "level", "seed"),
        interval="expanded, percentile or bca (bootstrap over images), none",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_not_fisher(self.statistics)
        if self.candidates and not self.references:
            raise InputError("candidates= needs references=FILE")
        if not self.metrics:
            raise InputError("metrics is empty; name one at least")

    @property
    def chosen_faults(self) -> tuple[str, ...]:
        """The faults and controls in the order of the tables."""
        return tuple(f for f in (*FAULTS, *CONTROLS) if not self.faults or f in self.faults)
