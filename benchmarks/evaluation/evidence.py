"""Evidence of metrics' reliability: correlations with people that papers print, or that a run measured."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from ...conf import shipped_names
from ...datasets.errors import InputError
from ...datasets.paths import expand_home
from ..runs.finished_run import FinishedRun, read_run
from ..runs.frames import records_of
from ..runs.output_folder import list_runs
from ..runs.results import METRIC_ORDERS
from ..scoring.catalog import read_config, usual_protocol
from ..scoring.protocol import Protocol
from ..statistics.coefficients.coefficient import coefficient_names, find_coefficient
from .caption_ranges import CaptionRange, published_range
from .papers.published_numbers import PublishedNumber, read_numbers
from .reliability import (
    PUBLISHED,
    ComparableNumbers,
    MetricReliability,
    Reliability,
    describe_judgements,
)

#: The coefficient by which the table of `captau rank` says how a metric orders systems.
ORDER_HEADLINE = "pairwise_accuracy"
#: The dimensions, under any name, that rate a caption as a whole.
_OVERALL = ("", "overall", "total", "mean")


@dataclass(frozen=True)
class Evidence:
    """The correlations of some metrics with people, from papers or a run.

    Attributes:
        specs: the metrics.
        columns: their numbers.
        run: the run that measured them; None where they are from papers.
    """

    specs: Sequence[str]
    columns: Sequence[ComparableNumbers]
    run: FinishedRun | None = None

    def apply_to(
        self, captions: Mapping[str, CaptionRange], reference_free: Collection[str] = ()
    ) -> MetricReliability:
        """Look up each metric's correlation, as far as possible in one column of numbers.

        A number whose captions are of another kind than the user's is not shown, nor one of an unknown range for a
        metric whose others are of another kind. Numbers of a known range come first, then those rated as a whole,
        against all references together.

        Args:
            captions: the ranges of a user's captions by system and set of references, whose name may be empty
                where there is one.
            reference_free: the metrics for which references do not matter.
        """

        def rank(column: ComparableNumbers) -> tuple[bool, bool, int]:
            n_specs = sum(spec in column.by_spec for spec in self.specs)
            # Then the column with the most metrics, so that their numbers can be compared with one another.
            return not column.has_range, not column.is_usual, -n_specs

        by_spec: dict[str, Reliability] = {}
        outside: dict[str, str] = {}
        for column in sorted(self.columns, key=rank):
            mismatch_of_all = column.find_mismatch(captions, with_references=True)
            mismatch_of_captions = column.find_mismatch(captions, with_references=False)

            for spec, reliability in column.by_spec.items():
                # The user's references say nothing about a metric that does not read them.
                is_free = spec in reference_free
                mismatch = mismatch_of_captions if is_free else mismatch_of_all
                if mismatch:
                    outside.setdefault(spec, f"{mismatch} ({reliability.judgements})")
                elif column.has_range or spec not in outside:
                    by_spec.setdefault(spec, reliability)

        # A metric that some column is fit for is not outside.
        for spec in by_spec:
            outside.pop(spec, None)
        # Selected once more, which puts both in the order of the metrics.
        return MetricReliability(by_spec, outside).select(self.specs)


def load_evidence(specs: Iterable[str], trust: str | Path | None) -> Evidence | None:
    """Load what papers print of metrics' correlations with people, or what a run measured; None loads nothing.

    Args:
        specs: the metrics.
        trust: `published`, or the folder of a finished run of `captau bench` or `captau rank`, or None.

    Raises:
        InputError: where the folder holds no such run, or one that has no ranges of its captions.
    """
    if trust is None:
        return None

    specs = list(specs)
    if trust == PUBLISHED:
        return Evidence(specs, list(_published_columns(specs)))

    finished = _read_trusted_run(Path(trust))
    return Evidence(specs, list(_run_columns(finished)), finished)


def _published_columns(specs: Iterable[str]) -> Iterable[ComparableNumbers]:
    """Read the papers' correlations of some metrics, by the choices behind them."""
    names = {_name_of(spec) for spec in specs}
    columns: dict[tuple[Any, ...], ComparableNumbers] = {}
    for paper in sorted(shipped_names("paper")):
        for number in read_numbers(paper):
            if number.spec is None or _name_of(number.spec) not in names:
                continue

            protocol = number.protocol
            key = (
                number.dataset,
                number.revision,
                number.dimension,
                number.coefficient,
                protocol.references,
                protocol.ratings,
                protocol.systems,
            )
            if key not in columns:
                columns[key] = _make_published_column(number)

            revision = f" (revision {number.revision})" if number.revision else ""
            reliability = Reliability(
                coefficient=number.coefficient,
                value=float(number.text) / find_coefficient(number.coefficient).scale,
                judgements=describe_judgements(f"{number.dataset}{revision}", number.dimension),
                source=number.source + _describe_column(number.column, protocol.references),
                citation=read_config("paper", paper)["citation"],
                captions=str(columns[key].captions),
                has_range=columns[key].has_range,
            )
            # Where papers print a number twice, the first one stands.
            columns[key].by_spec.setdefault(number.spec, reliability)

    _add_measured_numbers(columns, names)
    return columns.values()


def _add_measured_numbers(
    columns: dict[tuple[Any, ...], ComparableNumbers], names: Collection[str]
) -> None:
    """Add to papers' columns what captau measured of metrics of which no paper prints a number.

    Args:
        columns: by the key of `_published_columns`.
        names: of the metrics.
    """
    printed = set(chain.from_iterable(column.by_spec for column in columns.values()))
    file = resources.files("captau.results") / "measured.csv"
    for row in csv.DictReader(io.StringIO(file.read_text(encoding="utf-8"))):
        # A metric's variant has another agreement than the metric itself, and a paper's number of it comes first.
        if row["metric"] not in names or row["metric"] in printed:
            continue

        dataset, dimension, coefficient = row["dataset"], row["dimension"], row["coefficient"]
        protocol = Protocol.resolve(dataset, usual_protocol(dataset), {})
        key = (
            dataset,
            "",
            dimension,
            coefficient,
            protocol.references,
            protocol.ratings,
            protocol.systems,
        )
        if key not in columns:
            captions = published_range(dataset).with_policy(
                protocol.references, protocol.k, protocol.own_references
            )
            columns[key] = ComparableNumbers(dimension in _OVERALL, captions)

        measured = Reliability(
            coefficient=coefficient,
            value=float(row["value"]),
            judgements=describe_judgements(dataset, dimension),
            source="measured by captau (results/measured.csv)",
            captions=str(columns[key].captions),
            has_range=columns[key].has_range,
        )
        columns[key].by_spec.setdefault(row["metric"], measured)


def _make_published_column(number: PublishedNumber) -> ComparableNumbers:
    """Return the column, still empty, to which a number belongs."""
    protocol = number.protocol
    is_usual = protocol.references == "all" and not protocol.systems
    is_usual &= number.dimension in _OVERALL
    captions = published_range(number.dataset).with_policy(
        protocol.references, protocol.k, protocol.own_references
    )

    return ComparableNumbers(is_usual, captions)


def _name_of(spec: str) -> str:
    return spec.partition("(")[0]


def _read_trusted_run(folder: Path) -> FinishedRun:
    """Open the run that `trust=` names.

    Raises:
        InputError: where there is none, or it is of a command that correlates no metrics with people.
    """
    if not expand_home(folder).is_dir():
        problem = f"trust={folder} is neither '{PUBLISHED}' nor the folder of a run"
        # By what is written today a run is told apart later, which `last` would not do.
        if str(folder) == "last" and (runs := list_runs()):
            problem += f"; the newest is trust={runs[0]}"
        raise InputError(problem)

    finished = read_run(folder)
    if not finished.has_correlations and METRIC_ORDERS not in finished.files:
        raise InputError(
            f"trust={folder} is a run of captau {finished.command}, which correlates no metrics with people; name a run "
            "of captau bench or captau rank"
        )
    return finished


def _run_columns(finished: FinishedRun) -> Iterable[ComparableNumbers]:
    """Return the correlations of a run, by dataset, protocol, dimension and coefficient."""
    columns: dict[tuple[Any, ...], ComparableNumbers] = {}
    for row in _correlations_of(finished):
        # A run may have a coefficient of a package that is not installed here.
        if np.isnan(row["value"]) or row["coefficient"] not in coefficient_names():
            continue

        key = (row["dataset"], row["protocol"], row["dimension"], row["coefficient"])
        if key not in columns:
            captions = _run_range(finished, row["dataset"], row["protocol"])
            columns[key] = ComparableNumbers(row["dimension"] in _OVERALL, captions)

        columns[key].by_spec[row["metric"]] = Reliability(
            coefficient=row["coefficient"],
            value=row["value"],
            judgements=describe_judgements(row["dataset"], row["dimension"]),
            source=f"run {finished.folder}, protocol {row['protocol']}",
            low=row["ci_low"],
            high=row["ci_high"],
            captions=str(columns[key].captions),
            n_systems=row["n_systems"],
        )

    return columns.values()


def _correlations_of(finished: FinishedRun) -> list[dict[str, Any]]:
    """Return a run's correlations as rows, each with the number of systems, None where captions are correlated.

    Of a run of `captau rank` the share of pairs of systems in people's order comes first, as in its table.
    """
    rows: list[dict[str, Any]] = []
    if finished.has_correlations:
        n_systems: dict[tuple[str, str], int | None] = {}
        for row in records_of(finished.correlations):
            key = row["dataset"], row["protocol"]
            if key not in n_systems:
                n_systems[key] = count_systems(finished, *key)
            rows.append({**row, "n_systems": n_systems[key]})
        return rows

    for row in records_of(finished.metric_orders):
        options = finished.find_protocol(row["dataset"], "") or {}
        protocol = str(options.get("name", ""))
        rows.append({**row, "protocol": protocol, "n_systems": int(row["n_systems"])})
    return sorted(rows, key=lambda row: row["coefficient"] != ORDER_HEADLINE)


def count_systems(finished: FinishedRun, dataset: str, protocol: str) -> int | None:
    """Return how many systems' means a run correlates; None where it correlates captions, or does not say."""
    options = finished.find_protocol(dataset, protocol) or {}
    if options.get("level") != "system" or not finished.has_file("items.parquet"):
        return None

    items = finished.items
    return int(items.loc[items["dataset"] == dataset, "system"].nunique())


def _run_range(finished: FinishedRun, dataset: str, protocol: str) -> CaptionRange:
    """Return the range of a run's captions.

    Raises:
        InputError: where the run has none, being of an earlier version.
    """
    data: dict[str, Any] = finished.run["data"]
    record = data.get(dataset, {}).get("range")
    if record is None:
        raise InputError(
            f"{finished.folder}: run.json has no range of {dataset}'s captions, so that its numbers cannot be "
            f"applied to others; run captau {finished.command} again"
        )

    protocols: dict[str, Any] = finished.run["protocols"]
    # By dataset, or in runs of `reproduce` by protocol.
    choices = protocols.get(dataset) or protocols.get(protocol) or {}
    captions = CaptionRange.from_record(record, f"{finished.folder}/run.json: {dataset}")
    return captions.with_policy(
        choices.get("references", "all"), choices.get("k"), choices.get("own_references", "keep")
    )


def _describe_column(column: str, references: str) -> str:
    """Name the column of a table with several, and a use of references unlike that of `captau score`."""
    parts: list[str] = []
    if column not in coefficient_names():
        parts.append(f"column {column}")
    if references != "all":
        parts.append(f"protocol.references={references}")

    return f" ({', '.join(parts)})" if parts else ""
