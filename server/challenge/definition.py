"""The definition of a challenge: its phases, references or ratings, metrics, limits and visibility.

`definition_file` reads it from YAML.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from ...benchmarks.scoring.catalog import resolve_metrics
from ...benchmarks.scoring.protocol import Protocol
from ...benchmarks.statistics.bootstrap import StatisticsOptions
from ...datasets.reading.source_files import sha256
from ...datasets.registry import load
from ...datasets.schema import CaptionSet
from ...metrics.base import Metric, later_options


@dataclass(frozen=True)
class Phase:
    """A period in which submissions are accepted.

    Attributes:
        begins, ends: seconds since 1970; None for no bound.
        per_day: the most valid submissions of a team on a day (UTC); None for no limit.
        in_all: the most in the whole phase; None for no limit.
    """

    name: str
    begins: float | None
    ends: float | None
    per_day: int | None
    in_all: int | None

    def is_open(self, now: float) -> bool:
        """Return whether submissions are accepted at a time."""
        has_begun = self.begins is None or self.begins <= now
        return has_begun and (self.ends is None or now < self.ends)


@dataclass(frozen=True)
class ReferenceSet:
    """A set of references that stays on the server.

    Attributes:
        file: with the references; None for those of a dataset.
        dataset: its name; None for a file.
        k: of a dataset: the number of first references of each image that are used; None for all.
        split: the results of an archive that it scores (`val2014`); None where a submission has one part.
    """

    name: str
    file: Path | None = None
    dataset: str | None = None
    k: int | None = None
    split: str | None = None


@dataclass(frozen=True)
class Limits:
    """The bounds of requests and evaluations.

    Attributes:
        joins: new accounts a minute from one address.
        logins: sign-in attempts in ten minutes from one address.
        requests: pages a second of one account or address.
        uploads: files an hour of one account, valid or not.
        megabytes: the size of an uploaded file.
        memory: megabytes of memory of a check or an evaluation.
        seconds: the duration of an evaluation.
        attempts: at evaluating a submission.
        faults: the listed faults of a file.
    """

    joins: int = 20
    logins: int = 10
    requests: int = 20
    uploads: int = 30
    megabytes: int = 32
    memory: int = 3000
    seconds: int = 900
    attempts: int = 3
    faults: int = 50


@dataclass(frozen=True)
class Challenge:
    """A challenge as its file defines it.

    Attributes:
        source: its file and line, for messages.
        kind: `captions`, where systems' captions are scored against references, or `metrics`, where
            metrics' scores are correlated with ratings.
        reference_sets: of kind `captions`: each is scored against separately.
        metric_specs: of kind `captions`: suites and metrics.
        metrics_source: the file and line of `metric_specs`, for messages.
        split: of kind `captions`: the results of an archive that count (`test2014`) if it has several.
        dataset, dataset_options: of kind `metrics`: the rated items, and options of the dataset `file`.
        protocol: of kind `metrics`: how scores are correlated with ratings.
        statistics: the intervals.
        rank_by: the key of the score that orders the leaderboard (`leaderboard.columns.rank_keys`).
        is_public: whether everybody sees the leaderboard; otherwise the admin publishes it.
        per_item: whether a team sees the score of each of its captions.
        exact: whether scores are shown with all digits; otherwise with those that tables print.
        shows_references: of kind `metrics`: whether the items are listed with their references.
        human: the references that are held out, one an image, for a leaderboard's row of people, or `none`.
        human_file: one more caption of each image by people, scored against all references for another such
            row (Chen et al. 2015, section 4.1); None without.
        human_mark: a mark of both, the file's content included, by which outdated scores of people are known.
        data_root: the folder of datasets; None for the default.
    """

    source: str
    name: str
    title: str
    kind: str
    intro: str
    phases: tuple[Phase, ...]
    statistics: StatisticsOptions
    rank_by: str
    is_public: bool
    per_item: bool
    exact: bool
    shows_references: bool
    limits: Limits
    data_root: Path | None
    reference_sets: tuple[ReferenceSet, ...] = ()
    metric_specs: tuple[str, ...] = ()
    metrics_source: str = ""
    split: str | None = None
    human: str = "none"
    human_file: Path | None = None
    human_mark: str = "none"
    dataset: str | None = None
    dataset_options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    protocol: Protocol | None = None

    def open_phase(self, now: float) -> Phase | None:
        """Return the first phase that accepts submissions at a time, or None."""
        return next((phase for phase in self.phases if phase.is_open(now)), None)

    @property
    def splits(self) -> tuple[str, ...]:
        """Return the splits of the reference sets, of each of which a submission has results; empty for one part."""
        splits: dict[str, None] = {}
        for references in self.reference_sets:
            if references.split:
                splits[references.split] = None
        return tuple(splits)

    @property
    def scores_people(self) -> bool:
        """Return whether the leaderboard has a row of people."""
        return self.human != "none" or self.human_file is not None

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        """Return the metrics of kind `captions`."""
        return resolve_metrics(list(self.metric_specs))

    @property
    def digest(self) -> str:
        """Return a hash of all that scores depend on; titles, dates and limits are not part of it."""
        metric_specs: list[str] = []
        if self.kind == "captions":
            metric_specs = [metric.spec for metric in self.metrics]

        parts = [
            self.kind,
            metric_specs,
            [self._describe_references(refs) for refs in self.reference_sets],
            self.load_items().digest if self.dataset else "",
            _format_options("Protocol", self.protocol),
            _format_options("Statistics", self.statistics),
        ]

        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def _describe_references(self, references: ReferenceSet) -> list[Any]:
        """Return what scores depend on of a set; a split only where it has one, as older digests lack it."""
        if references.file is not None:
            digest = sha256(references.file)
        else:
            digest = load(str(references.dataset), self.data_root).digest

        split = [references.split] if references.split else []
        return [references.name, references.k, digest, *split]

    def load_items(self) -> CaptionSet:
        """Return the dataset of kind `metrics`."""
        return load(str(self.dataset), self.data_root, **self.dataset_options)

    def bound_protocol(self, items: CaptionSet) -> Protocol:
        """Return the protocol of kind `metrics` with the dimensions of its dataset."""
        if self.protocol is None:
            raise ValueError("a challenge of captions has no protocol")
        return self.protocol.for_dataset(items)


def _format_options(name: str, options: Protocol | StatisticsOptions | None) -> str:
    """Return the text of options in digests, which databases hold.

    It must not follow a class's name, nor an option that is younger than the digests, unless that is used.
    """
    if options is None:
        return repr(None)

    later = later_options(options)
    values: list[str] = []
    for option in fields(options):
        value = getattr(options, option.name)
        if value != option.default or option.name not in later:
            values.append(f"{option.name}={value!r}")

    return f"{name}({', '.join(values)})"
