"""Finished runs with names that tell them apart, and the columns that their rows belong to."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from ....datasets.errors import InputError
from ....metrics.registry import metric
from ...evaluation.overview import MEAN, DatasetsOverview
from ...evaluation.papers.published_numbers import (
    COMPARED_CHOICES,
)
from ...runs.finished_run import FinishedRun, check_same_data
from ...runs.frames import records_of
from ...scoring.catalog import MetricStyle, metric_style
from ...scoring.protocol import Protocol
from ...statistics.bootstrap import StatisticsOptions
from ...statistics.joint_mean import JOINT_KEY


class ColumnKey(NamedTuple):
    """The key of a column of coefficients.

    Attributes:
        dataset: the dataset's name; `MEAN` of the mean over several.
        choices: the protocol's values of `COMPARED_CHOICES`; of a mean, the datasets in it.
        dimension, coefficient: as in `correlations.csv`.
    """

    dataset: str
    choices: tuple[Any, ...]
    dimension: str
    coefficient: str


@dataclass(frozen=True)
class NamedRun:
    """A finished run: its correlations with the columns that they belong to.

    Attributes:
        name: what tells it from the others.

    Raises:
        InputError: from rows of which run.json knows nothing.
    """

    run: FinishedRun
    name: str

    @cached_property
    def rows(self) -> list[tuple[ColumnKey, dict[str, Any]]]:
        return [(self._key(row), row) for row in records_of(self.run.correlations)]

    @cached_property
    def overview(self) -> DatasetsOverview | None:
        """The overview of several datasets; None where the run has none, or none with a mean."""
        overview = DatasetsOverview.of_run(self.run)
        return overview if overview is not None and overview.joint.values else None

    @cached_property
    def mean_rows(self) -> list[tuple[ColumnKey, dict[str, Any]]]:
        """The joint means, whose coefficient is the one as which they are printed."""
        if self.overview is None:
            return []

        key = ColumnKey(MEAN, tuple(self.overview.joint.datasets), "", MEAN)
        mean_rows: list[tuple[ColumnKey, dict[str, Any]]] = []
        for row in records_of(self.run.overview):
            if _is_mean(row):
                mean_rows.append((key, {**row, "coefficient": JOINT_KEY[1]}))
        return mean_rows

    def _key(self, row: Mapping[str, Any]) -> ColumnKey:
        protocol = self.protocol(row)
        choices = tuple(getattr(protocol, name) for name in COMPARED_CHOICES)
        return ColumnKey(row["dataset"], choices, row["dimension"], row["coefficient"])

    def protocol(self, row: Mapping[str, Any]) -> Protocol:
        """The protocol of a row."""
        options = self.run.find_protocol(row["dataset"], row["protocol"])
        if options is None or row["dataset"] not in self.run.run["data"]:
            raise InputError(
                f"{self.run.folder}: run.json does not mention {row['dataset']} and {row['protocol']}, which "
                f"correlations.csv has; run captau {self.run.command} again"
            )
        return protocol_of(self.run, options)

    @cached_property
    def styles(self) -> dict[str, MetricStyle]:
        """The style of each metric, by spec."""
        recorded_styles = self.run.run.get("metrics", {})
        # A rater that a run trained is no metric that the registry knows.
        default_kind = "learned" if self.run.command == "train" else "given"
        styles: dict[str, MetricStyle] = {}
        for spec in dict.fromkeys(self.run.correlations["metric"]):
            if spec in recorded_styles:
                styles[spec] = MetricStyle(**recorded_styles[spec])
            else:
                styles[spec] = style_of(spec, default_kind)
        return styles

    @cached_property
    def below(self) -> dict[str, dict[str, str]]:
        """Labels of what stands below the metrics, by kind and name."""
        return {kind: self.run.run.get(kind, {}) for kind in ("floors", "ceilings")}

    @cached_property
    def ranks(self) -> dict[tuple[str, str, str, str], int]:
        """By dataset, dimension, coefficient and metric."""
        joint = {} if self.overview is None else self.overview.joint.ranks
        ranks = dict(self.run.rank_by_key)
        for spec, rank in joint.items():
            ranks[MEAN, "", MEAN, spec] = rank
        return ranks


def _is_mean(row: Mapping[str, Any]) -> bool:
    return row["coefficient"] == MEAN and row["value"] == row["value"]


def name_runs(runs: Sequence[FinishedRun]) -> list[NamedRun]:
    """Name runs by their folders.

    Raises:
        InputError: on runs over different data.
    """
    check_same_data(runs)
    names = [run.folder.name for run in runs]
    # Runs of one name are told apart by their paths.
    if len(set(names)) < len(names):
        names = [str(run.folder) for run in runs]
    return [NamedRun(run, name) for run, name in zip(runs, names, strict=True)]


def protocol_of(run: FinishedRun, options: Mapping[str, Any]) -> Protocol:
    """Return a protocol of a run's run.json.

    Raises:
        InputError: where an option is missing, or unknown.
    """
    try:
        return Protocol.from_record(options)
    except TypeError as error:
        raise InputError(f"{run.folder}/run.json: protocols: {error}") from error


def style_of(spec: str, otherwise: str) -> MetricStyle:
    """The style of a metric by its spec; of `otherwise`'s kind where that is none, but a label."""
    try:
        return metric_style(metric(spec))
    except InputError:
        return MetricStyle(spec, 1000, 1, 3, "", otherwise, True, "")


def shorten_hashes(signature: str) -> str:
    """A signature with the first twelve digits of each hash, which tell files apart on paper."""
    return re.sub(r"\b([0-9a-f]{12})[0-9a-f]{20,}\b", r"\1", signature)


def describe_statistics(
    sources: Sequence[NamedRun], words: Callable[[StatisticsOptions], str]
) -> list[str]:
    """Describe the runs' statistics, with the run's name where they differ."""
    names_by_text: dict[str, list[str]] = {}
    for source in sources:
        options = source.run.run["config"].get("statistics")
        if options:
            text = words(StatisticsOptions(**options))
            names_by_text.setdefault(text, []).append(source.name)

    if len(names_by_text) < 2:
        return list(names_by_text)
    texts: list[str] = []
    for text, names in names_by_text.items():
        texts.append(f"{text} ({', '.join(names)})")
    return texts
