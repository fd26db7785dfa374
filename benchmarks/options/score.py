"""Options of `captau score`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from ...datasets.errors import InputError, unknown
from ...datasets.streams import STDIN
from ...metrics.base import Metric
from ..scoring.catalog import optional_specs, resolve_metrics
from ..statistics.bootstrap import StatisticsOptions
from .common import Locations, Named, files_of, locations_of, path_of, plain_of, statistics_of

#: What `captau score` can print: tables, or one of its files and nothing else.
PRINTED = ("table", "scores.jsonl", "scores.csv", "corpus.json", "corpus.csv", "kept.json")


@dataclass(frozen=True)
class ScoreOptions:
    """What `captau score` does.

    Attributes:
        candidates: each system's captions.
        references: sets of references, each scored against by itself; empty for metrics without.
        images: the folder of the images.
        partial: whether images may lack a caption, or references in some set.
        trust: where metrics' agreement with people is from: `published`, or a run's folder; None for
            no word on it.
        keep: a metric's spec and the least score of a caption that is kept.
        stdout: what is printed, of `PRINTED`.
    """

    candidates: tuple[Named, ...]
    references: tuple[Named, ...]
    images: Path | None
    metrics: tuple[Metric, ...]
    optional: frozenset[str] = frozenset()
    locations: Locations = field(default_factory=Locations)
    configuration: Mapping[str, Any] = field(default_factory=dict[str, Any])
    keep: tuple[str, float] | None = None
    partial: bool = False
    trust: str | None = None
    stdout: str = "table"
    statistics: StatisticsOptions = field(default_factory=StatisticsOptions)

    def __post_init__(self) -> None:
        if self.statistics.interval == "fisher":
            raise InputError(
                "statistics.interval=fisher is of correlations; choose percentile, bca or none"
            )
        if self.keep is not None and len(self.candidates) * len(self.references or "-") > 1:
            raise InputError("keep.metric= is of one system and one set of references")
        if self.stdout not in PRINTED:
            raise unknown("value of stdout", self.stdout, PRINTED)
        if self.stdout == "kept.json" and self.keep is None:
            raise InputError("stdout=kept.json needs keep.metric=METRIC and keep.above=SCORE")
        if sum(one.path == STDIN for one in (*self.candidates, *self.references)) > 1:
            raise InputError("standard input can be read once; name a file for the others")


def score_config(config: DictConfig) -> ScoreOptions:
    """From the composed configuration of `captau score`.

    Raises:
        InputError: where one of `keep.metric` and `keep.above` is given without the other, or the
            metric is not among those that are computed.
    """
    plain = plain_of(config)
    wanted, above = plain["keep"]["metric"], plain["keep"]["above"]
    if (wanted is None) != (above is None):
        raise InputError("keep.metric=METRIC and keep.above=SCORE go together")
    keep = None
    if wanted is not None:
        keep = resolve_metrics(wanted)[0].spec, above
        known = [m.spec for m in resolve_metrics(plain["metrics"])]
        if keep[0] not in known:
            raise unknown("metric to keep by", keep[0], known)
    return ScoreOptions(
        keep=keep,
        candidates=files_of(plain["candidates"], "candidates"),
        references=files_of(plain["references"], "references") if plain["references"] else (),
        images=path_of(plain["images"]),
        metrics=resolve_metrics(plain["metrics"]),
        optional=optional_specs(plain["metrics"]),
        locations=locations_of(plain),
        configuration=plain,
        partial=plain["partial"],
        trust=plain["trust"],
        stdout=plain["stdout"],
        statistics=statistics_of(plain["statistics"]),
    )
