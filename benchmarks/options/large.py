"""Options of `captau score` of a large set, in shards."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from ...datasets.errors import InputError, unknown
from ...datasets.object_store import is_url
from ...datasets.shards.row_reader import Columns
from ...datasets.shards.shard_files import kind_of
from ...metrics.base import Metric
from ..scoring.catalog import optional_specs, resolve_metrics
from .common import path_of, plain_of

ENGINES = ("local", "ray")
#: Rows of a part: few enough that what a killed run has to do again is little of the whole.
ROWS = 4_000
#: What `captau score` takes for a large set alone, and what for a small one alone, with its default.
_OF_LARGE: dict[str, Any] = {"workers": None, "rows": None, "skip_corrupt": False, "work": None}
_OF_SMALL: dict[str, Any] = {"partial": False, "stdout": "table"}


@dataclass(frozen=True)
class LargeOptions:
    """What `captau score` does with a large set.

    Attributes:
        candidates: paths, globs, folders and URLs of shards.
        references: likewise, or a file of `captau score`'s other forms; empty where rows bring theirs.
        images: the folder of the images, where no tar shard brings them.
        output: where to write, a folder or a URL; None makes a fresh folder.
        work: the folder of what is made on the way; None puts it into the output folder.
        engine: `local` or `ray`.
        workers: how many tasks at a time; None takes every core, 0 this process alone.
        address: of a Ray cluster.
        rows: of a part.
        columns: the columns' names.
        skip_corrupt: whether a shard that cannot be read is left out.
        trust: as in `ScoreOptions`.
    """

    candidates: tuple[str, ...]
    references: tuple[str, ...]
    metrics: tuple[Metric, ...]
    output: str
    optional: frozenset[str] = frozenset()
    images: Path | None = None
    work: Path | None = None
    engine: str = "local"
    workers: int | None = None
    address: str | None = None
    rows: int = ROWS
    columns: Columns = field(default_factory=Columns)
    skip_corrupt: bool = False
    trust: str | None = None
    configuration: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        check_engine(self.engine, self.workers, self.address)
        if self.rows < 1:
            raise InputError(f"rows is {self.rows}; 1 is the least")


def check_engine(engine: str, workers: int | None, address: str | None) -> None:
    """
    Raises:
        InputError: where there is no such engine, or what it is told makes no sense.
    """
    if engine not in ENGINES:
        raise unknown("engine", engine, ENGINES)
    if workers is not None and workers < 0:
        raise InputError(f"workers is {workers}; 0 (this process alone) is the least")
    if address is not None and engine != "ray":
        raise InputError(f"ray.address={address} goes with engine=ray")


def is_large(config: DictConfig) -> bool:
    """Whether `captau score` reads shards: an engine was named, or a file, folder, glob or URL of them.

    Raises:
        InputError: where it does not, and options that are of shards are given.
    """
    plain = plain_of(config)
    paths = _paths(plain["candidates"])
    if plain["engine"] is not None or any(map(_is_shards, paths)):
        return True
    given = [key for key, default in _OF_LARGE.items() if plain[key] != default]
    if given:
        raise InputError(f"{given[0]}= is of large sets, in shards; add engine=local")
    return False


def _is_shards(path: str) -> bool:
    if is_url(path) or (kind := kind_of(path)) in ("parquet", "tar"):
        return True
    plain = kind == "json" or path.lower().endswith(
        (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
    )
    if kind == "lines" and not plain:
        return True
    place = Path(path).expanduser()
    return place.is_dir() or (any(sign in path for sign in "*?") and not place.exists())


def _paths(given: Any) -> list[str]:
    return [str(path) for path in (given if isinstance(given, list | tuple) else [given])]


def large_config(config: DictConfig, output: str) -> LargeOptions:
    """From the composed configuration of `captau score`.

    Args:
        output: where to write.

    Raises:
        InputError: on options that a large set has not.
    """
    plain = plain_of(config)
    given = [key for key, default in _OF_SMALL.items() if plain[key] != default]
    if given:
        raise InputError(
            f"{given[0]}= is not of large sets, in shards; leave it out, or engine= where the files are small"
        )
    if plain["keep"]["metric"] is not None:
        raise InputError(
            "keep.metric= is not of large sets; score first, then captau filter run=DIR keep.metric=METRIC"
        )
    candidates = _paths(plain["candidates"])
    for path in candidates:
        if (match := re.match(r"(\w+)=", path)) and not Path(path).exists():
            raise InputError(
                f"candidates: '{match[1]}=' names a system; of large sets several files are shards of one"
            )
    return LargeOptions(
        candidates=tuple(candidates),
        references=tuple(_paths(plain["references"])) if plain["references"] else (),
        metrics=resolve_metrics(plain["metrics"]),
        output=output,
        optional=optional_specs(plain["metrics"]),
        images=path_of(plain["images"]),
        work=path_of(plain["work"]),
        engine=plain["engine"] or "local",
        workers=plain["workers"],
        address=plain["ray"]["address"],
        rows=ROWS if plain["rows"] is None else plain["rows"],
        columns=Columns(**plain["columns"]),
        skip_corrupt=plain["skip_corrupt"],
        trust=plain["trust"],
        configuration=plain,
    )
