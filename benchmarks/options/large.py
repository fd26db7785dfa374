"""Options of `captau score` of a large set in shards: to score it, and to keep the captions that score well."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ...datasets.errors import InputError
from ...datasets.paths import expand_home
from ...datasets.reading.object_stores import is_url
from ...datasets.reading.shard_files import kind_of
from ...datasets.reading.table import Columns
from ...datasets.reading.table_folders import holds_table
from ...metrics.base import Metric
from ..scoring.catalog import resolve_metrics
from . import shared
from .declaration import Composed, Option, Options, option, part, path_of

ENGINES = ("local", "ray")
#: How many rows of a shard a worker scores at a time: enough that metrics work on many at once, and memory holds them.
ROWS = 4_000
#: Options of `captau score` that only large sets have, and those that only small sets have.
LARGE_ONLY = ("workers", "rows", "skip_corrupt", "work")
SMALL_ONLY = ("partial", "stdout", "protocol.normalise", "flagged", "split", "notes")


def columns_part() -> Any:
    """Declare the field of the columns of captions that `columns.*` names."""
    options = (
        Option(f"columns.{name}", getattr(Columns, name), text, str, is_literal=True)
        for name, text in {
            "image_id": "the column of image ids; of JSON a.b.c is what stands in nested objects",
            "caption": "the column of captions",
            "references": "the column of references; with a *, as in caption_*, those of one reference each",
            "rows": "of a JSON file that is an object, the key of its list of rows",
            "candidate_id": "the column of image ids in candidates alone (candidates.columns.image_id= says the same)",
            "candidate_caption": "the column of captions in candidates alone (candidates.columns.caption= says the same)",
            "candidate_rows": "the key of the list of rows in candidates alone (candidates.columns.rows= says the same)",
        }.items()
    )
    return part(lambda composed: Columns(**composed["columns"]), *options, default_factory=Columns)


TRUST = Option(
    "trust",
    "published",
    "the source of each metric's agreement with people; published means the papers, DIR a finished"
    " run of captau bench, or of captau rank for systems. It is shown where captions like yours were judged; null shows none",
    str | None,
    takes="published|DIR",
    is_literal=True,
)
_WORKERS = "how many shards are scored at a time (default: one per core); 0 uses this process alone"
_ADDRESS = "a Ray cluster (default: this machine)"


def check_engine(engine: str, workers: int | None, address: str | None) -> None:
    """Raise InputError where there is no such engine, or its options make no sense."""
    shared.check_choice("engine", engine, ENGINES)
    if workers is not None and workers < 0:
        raise InputError(f"workers is {workers}; 0 (this process alone) or more is expected")
    if address is not None and engine != "ray":
        raise InputError(f"ray.address={address} goes with engine=ray")


def is_large(composed: Composed) -> bool:
    """Say whether an engine is named, or a folder, a glob, a tar or a URL of shards."""
    if "candidates" in composed.objects:  # captions from Python, which are no shards
        return False
    return composed["engine"] is not None or any(map(is_large_path, _paths(composed["candidates"])))


def is_large_path(path: str) -> bool:
    """Say whether a path names shards: a folder of them, a glob, a URL, or a tar; any other path is one of candidates."""
    if is_url(path) or kind_of(path) == "tar":
        return True
    folder = expand_home(path)
    if folder.is_dir():
        return not holds_table(folder)
    return any(sign in path for sign in "*?") and not folder.exists()


def _paths(value: Any) -> tuple[str, ...]:
    return tuple(str(path) for path in (value if isinstance(value, list | tuple) else [value]))


def _candidates_of(composed: Composed) -> tuple[str, ...]:
    candidates = _paths(composed["candidates"])
    for path in candidates:
        if (match := re.match(r"(\w+)=", path)) and not Path(path).exists():
            raise InputError(
                f"candidates: '{match[1]}=' names a system, but the files of a large set are shards of one; leave it out"
            )
    return candidates


@dataclass(frozen=True, kw_only=True)
class LargeOptions(Options):
    """Options of `captau score` of a large set; `output` is empty for a fresh folder."""

    headings: ClassVar[Mapping[str, str]] = {"engine": "Options of large sets (docs/large_sets.md)"}

    candidates: tuple[str, ...] = part(_candidates_of)
    references: tuple[str, ...] = part(
        lambda composed: _paths(composed["references"]) if composed["references"] else ()
    )
    metrics: tuple[Metric, ...] = shared.metrics_part()
    output: str = part(lambda composed: str(composed["output_dir"] or ""))
    images: Path | None = part(lambda composed: path_of(composed["images"]), default=None)
    trust: str | None = part(lambda composed: composed["trust"], default=None)
    configuration: Mapping[str, Any] = shared.configuration_part()
    engine: str = option(
        None,
        "where large sets are scored; local (the default) is this machine, ray a Ray cluster",
        type=str | None,
        read=lambda value, _: value or "local",
        takes="local|ray",
    )
    workers: int | None = option(None, _WORKERS)
    address: str | None = option(
        None,
        _ADDRESS,
        key="ray.address",
        takes="HOST:PORT",
        is_literal=True,
    )
    columns: Columns = columns_part()
    rows: int | None = option(
        None,
        f"how many rows of a shard a worker has in memory and scores at a time (default: {ROWS})",
    )
    skip_corrupt: bool = option(False, "true skips shards that cannot be read, and counts them")
    work: Path | None = option(
        None,
        "the folder of temporary files (default: .work in the output folder)",
        takes="DIR",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_engine(self.engine, self.workers, self.address)
        if self.rows is not None and self.rows < 1:
            raise InputError(f"rows is {self.rows}; at least 1 is expected")


def _metric_of(composed: Composed) -> str:
    if composed["keep.metric"] is None:
        raise InputError(
            "keep.metric=METRIC is needed: the metric that decides which captions are kept"
        )
    return resolve_metrics(composed["keep.metric"])[0].spec


@dataclass(frozen=True, kw_only=True)
class FilterOptions(Options):
    """Options of `captau score` that keep captions of a large scored set, and score nothing."""

    headings: ClassVar[Mapping[str, str]] = {
        "run": "Options that keep captions of a large scored set (docs/large_sets.md)"
    }

    metric: str = part(_metric_of)
    above: float | None = part(lambda composed: composed["keep.above"], default=None)
    run: str = option(
        None,
        "a finished captau score of shards; its captions are kept or dropped. A folder or a URL",
        key="keep.run",
        takes="DIR",
        is_literal=True,
    )
    thresholds: Path | None = option(
        None,
        "a finished captau thresholds. With keep.precision= it chooses the lowest threshold that reaches that "
        "precision; with keep.above= or keep.share= it estimates the precision",
        key="keep.thresholds",
        takes="DIR",
    )
    precision: float | None = option(
        None,
        "the share of the kept captions that should be good",
        key="keep.precision",
        takes="SHARE",
        check=shared.check_share,
    )
    share: float | None = option(
        None,
        "the share of the scored captions to keep, the best first; captions that tie with the last one are kept too",
        key="keep.share",
        takes="SHARE",
        check=shared.check_share,
    )
    dataset: str | None = option(
        None,
        "the dataset of the curve in keep.thresholds=, if there are several",
        key="keep.dataset",
        takes="NAME",
    )
    dimension: str | None = option(
        None,
        "the dimension of that curve, if there are several",
        key="keep.dimension",
        takes="NAME",
    )
    engine: str = part(lambda composed: composed["engine"] or "local", default="local")
    workers: int | None = part(lambda composed: composed["workers"], default=None)
    address: str | None = part(lambda composed: composed["ray.address"], default=None)
    output_dir: Path | None = part(lambda composed: path_of(composed["output_dir"]), default=None)
    configuration: Mapping[str, Any] = shared.configuration_part()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_engine(self.engine, self.workers, self.address)
        if [self.above, self.share, self.precision].count(None) != 2:
            raise InputError(
                "say which captions are kept, in one way: keep.above=SCORE, keep.share=SHARE, or "
                "keep.thresholds=DIR keep.precision=SHARE"
            )
        if self.precision is not None and self.thresholds is None:
            raise InputError(
                "keep.precision= needs keep.thresholds=DIR, a finished run of captau thresholds"
            )
        if self.share is not None and not resolve_metrics(self.metric)[0].higher_is_better:
            raise InputError(
                f"keep.share= keeps the highest scores, but low scores of {self.metric} are better; name another metric"
            )
