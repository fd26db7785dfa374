"""Scores of a user's captions, and the reliability of metrics beside them, as `captau score` shows both.

Reliability is a metric's correlation with people, as papers print it or a run of `captau bench` or `captau rank`
measured it (`trust=published`, `trust=DIR`), where the captions that people judged are of the kind of the user's
(`caption_ranges`).
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...conf import shipped_names
from ...datasets.errors import InputError
from ...datasets.paths import expand_home
from ...datasets.schema import ITEM_COLUMNS
from ..runs.finished_run import FinishedRun, read_run
from ..runs.frames import records_of
from ..runs.output_folder import list_runs
from ..runs.results import METRIC_ORDERS
from ..runs.tables import TableNote, count_of, format_coefficient
from ..scoring.catalog import read_config, usual_protocol
from ..scoring.corpus_scores import SystemScores
from ..scoring.protocol import Protocol
from ..statistics.bootstrap import Interval
from ..statistics.coefficients.coefficient import coefficient_names, find_coefficient
from .caption_ranges import CaptionRange, find_mismatch, published_range
from .papers.published_numbers import PublishedNumber, read_numbers
from .wording import join_notes, list_words

#: The value of the option `trust` that stands for the papers' numbers.
PUBLISHED = "published"
#: The cell of a metric without a number.
UNKNOWN = "not known"
#: The cell of a metric whose numbers are all of other kinds of captions.
OUTSIDE = "none for such captions"
#: The coefficient by which the table of `captau rank` says how a metric orders systems.
ORDER_HEADLINE = "pairwise_accuracy"
#: The dimensions, under any name, that rate a caption as a whole.
_OVERALL = ("", "overall", "total", "mean")


@dataclass(frozen=True)
class Reliability:
    """One metric's correlation with people.

    Attributes:
        coefficient, value: the correlation in its natural range.
        judgements: the dataset, and the rated dimension where it has a name of its own.
        source: where the number stands.
        citation: BibTeX; empty for a run.
        low, high: the ends of its interval, NaN where it has none.
        captions: the range of the captions that people judged.
        has_range: whether the lengths of these captions are known.
        n_systems: the number of systems, where their means are correlated; None where captions are.
    """

    coefficient: str
    value: float
    judgements: str
    source: str
    citation: str = ""
    low: float = math.nan
    high: float = math.nan
    captions: str = ""
    has_range: bool = True
    n_systems: int | None = None

    @property
    def on(self) -> str:
        """What was correlated: the judgements, and how many systems where these are."""
        systems = "" if self.n_systems is None else f", {count_of(self.n_systems, 'system')}"
        return f"{self.judgements}{systems}"

    def __str__(self) -> str:
        symbol = find_coefficient(self.coefficient).symbol
        text = f"{symbol.removesuffix(' %')} {format_coefficient(self.value, self.coefficient)}"

        if not math.isnan(self.high):
            width = format_coefficient((self.high - self.low) / 2, self.coefficient)
            text += f" ± {width}"

        text += f" on {self.on}"
        return text if self.has_range else f"{text}, range not known"

    def record(self) -> dict[str, Any]:
        """Return the fields as `run.json` has them."""
        record: dict[str, Any] = {}
        for name, value in vars(self).items():
            # `run.json` says `on`, as tables do: a coefficient on some judgements.
            record["on" if name == "judgements" else name] = value

        return record


@dataclass(frozen=True)
class _ComparableNumbers:
    """Numbers that can be compared: of one dataset, dimension, coefficient and protocol.

    `is_usual` where captions are rated as a whole, of all systems, against all references together; `captions` is
    the range of what people judged.
    """

    is_usual: bool
    captions: CaptionRange
    by_spec: dict[str, Reliability] = field(default_factory=dict[str, Reliability])

    @property
    def has_range(self) -> bool:
        """Tell whether the lengths of the captions are known."""
        return self.captions.caption_words is not None

    def find_mismatch(self, captions: Mapping[str, CaptionRange], *, with_references: bool) -> str:
        """Say which of a user's captions lie outside the column's, and in which way; empty where all lie within."""
        for name, ranges in captions.items():
            mismatch = find_mismatch(self.captions, ranges, with_references=with_references)
            if mismatch:
                return f"({name}) {mismatch}" if name else mismatch

        return ""


@dataclass(frozen=True)
class MetricReliability:
    """Metrics' correlations with people, as far as they apply to a user's captions.

    Attributes:
        by_spec: the correlations, by metric.
        outside: of metrics whose correlations are all of other kinds of captions, the dataset of the nearest and the
            way in which the user's are unlike it.
    """

    by_spec: Mapping[str, Reliability] = field(default_factory=dict[str, Reliability])
    outside: Mapping[str, str] = field(default_factory=dict[str, str])

    def select(self, specs: Collection[str]) -> MetricReliability:
        """Return what there is of some metrics."""
        by_spec: dict[str, Reliability] = {}
        outside: dict[str, str] = {}
        for spec in specs:
            if spec in self.by_spec:
                by_spec[spec] = self.by_spec[spec]
            if spec in self.outside:
                outside[spec] = self.outside[spec]
        return MetricReliability(by_spec, outside)

    def cell(self, spec: str) -> str:
        """Return the text of a metric's cell in a table."""
        missing = OUTSIDE if spec in self.outside else UNKNOWN
        return str(self.by_spec.get(spec, missing))


@dataclass(frozen=True)
class Evidence:
    """The correlations of some metrics with people, from papers or a run.

    Attributes:
        specs: the metrics.
        columns: their numbers.
        run: the run that measured them; None where they are from papers.
    """

    specs: Sequence[str]
    columns: Sequence[_ComparableNumbers]
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

        def rank(column: _ComparableNumbers) -> tuple[bool, bool, int]:
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


def _published_columns(specs: Iterable[str]) -> Iterable[_ComparableNumbers]:
    """Read the papers' correlations of some metrics, by the choices behind them."""
    names = {_name_of(spec) for spec in specs}
    columns: dict[tuple[Any, ...], _ComparableNumbers] = {}
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
    columns: dict[tuple[Any, ...], _ComparableNumbers], names: Collection[str]
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
            columns[key] = _ComparableNumbers(dimension in _OVERALL, captions)

        measured = Reliability(
            coefficient=coefficient,
            value=float(row["value"]),
            judgements=describe_judgements(dataset, dimension),
            source="measured by captau (results/measured.csv)",
            captions=str(columns[key].captions),
            has_range=columns[key].has_range,
        )
        columns[key].by_spec.setdefault(row["metric"], measured)


def _make_published_column(number: PublishedNumber) -> _ComparableNumbers:
    """Return the column, still empty, to which a number belongs."""
    protocol = number.protocol
    is_usual = protocol.references == "all" and not protocol.systems
    is_usual &= number.dimension in _OVERALL
    captions = published_range(number.dataset).with_policy(
        protocol.references, protocol.k, protocol.own_references
    )

    return _ComparableNumbers(is_usual, captions)


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


def _run_columns(finished: FinishedRun) -> Iterable[_ComparableNumbers]:
    """Return the correlations of a run, by dataset, protocol, dimension and coefficient."""
    columns: dict[tuple[Any, ...], _ComparableNumbers] = {}
    for row in _correlations_of(finished):
        # A run may have a coefficient of a package that is not installed here.
        if np.isnan(row["value"]) or row["coefficient"] not in coefficient_names():
            continue

        key = (row["dataset"], row["protocol"], row["dimension"], row["coefficient"])
        if key not in columns:
            captions = _run_range(finished, row["dataset"], row["protocol"])
            columns[key] = _ComparableNumbers(row["dimension"] in _OVERALL, captions)

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


def describe_judgements(dataset: str, dimension: str) -> str:
    """Name a dataset, and the dimension where it has a name of its own."""
    return dataset if dimension in ("", "overall") else f"{dataset} ({dimension})"


def _describe_column(column: str, references: str) -> str:
    """Name the column of a table with several, and a use of references unlike that of `captau score`."""
    parts: list[str] = []
    if column not in coefficient_names():
        parts.append(f"column {column}")
    if references != "all":
        parts.append(f"protocol.references={references}")

    return f" ({', '.join(parts)})" if parts else ""


def reliability_notes(
    trust: str, reliability: MetricReliability, labels: Mapping[str, str]
) -> Iterator[str]:
    """Yield the lines below a column of correlations: their sources, their captions, and what is missing.

    In brief they are one line.

    Args:
        trust: as typed.
        reliability: of the metrics.
        labels: each metric's name in the table.
    """
    is_published = trust == PUBLISHED
    notes: list[str] = []
    brief: list[str] = []
    if reliability.by_spec:
        how = "published" if is_published else "measured"
        notes, brief_source = _source_notes(reliability, labels, how)
        brief.append(brief_source)

    by_mismatch: dict[str, list[str]] = {}
    for spec, mismatch in reliability.outside.items():
        by_mismatch.setdefault(mismatch, []).append(labels[spec])

    remedy = "run captau bench dataset=NAME output_dir=DIR on {}, and give trust=DIR here."
    for mismatch, names in by_mismatch.items():
        notes.append(
            f"{OUTSIDE}, {', '.join(names)}: your captions {mismatch}. To measure the agreement, "
            + remedy.format("rated captions that are like yours")
        )
    if by_mismatch:
        # In brief that of the nearest judgements is enough.
        brief.append(f"{OUTSIDE}: your captions {next(iter(by_mismatch))}.")

    if len(reliability.by_spec) + len(reliability.outside) < len(labels):
        measured = f"To measure it, {remedy.format('a dataset with ratings')}"
        reason = f"no published number is known. {measured}"
        words = f"{UNKNOWN}: {reason if is_published else f'not in the run {trust}.'}"
        notes.append(words)
        brief_words = f"{UNKNOWN}: not measured yet; trust= takes a run of captau bench."
        brief.append(brief_words if is_published else words)

    for index, note in enumerate(notes):
        yield TableNote(note, brief="" if index else " ".join(brief))


def _source_notes(
    reliability: MetricReliability, labels: Mapping[str, str], how: str
) -> tuple[list[str], str]:
    """Return the lines on where the numbers are from and of which captions, and the same in brief.

    Args:
        reliability: of the metrics, of which one or more have numbers.
        labels: each metric's name in the table.
        how: `published` or `measured`.
    """
    by_source: dict[str, list[str]] = {}
    by_dataset: dict[str, str] = {}
    are_systems: set[bool] = set()
    for spec, number in reliability.by_spec.items():
        by_source.setdefault(number.source, []).append(labels[spec])
        by_dataset[number.on] = number.captions
        are_systems.add(number.n_systems is not None)

    what = "captions' scores with people's ratings, not of these captions but"
    of_what = "captions"
    if are_systems == {True}:
        what = "systems' mean scores with people's judgements of the systems, not of yours but"
        of_what = "systems"

    sources = [f"{', '.join(names)}: {source}" for source, names in by_source.items()]
    notes = [f"agreement with people: correlations ×100 of {what} as {how} ({'; '.join(sources)})."]
    for dataset, captions in by_dataset.items():
        notes.append(f"{dataset}: {captions}.")

    datasets = list_words(list(by_dataset))
    brief = (
        f"agreement with people: correlations ×100 on the {of_what} of {datasets}, not on yours."
    )
    return notes, brief


@dataclass(frozen=True)
class CaptionScores:
    """Scores of a user's captions.

    Attributes:
        systems: each system against each set of references.
        reliability: the metrics' correlations with people.
        differences: of every two systems, columns `system_comparison.COLUMNS`; None where there is
            one, or no image is drawn.
        kept_captions: the captions above the threshold, as a COCO results list; None where no
            threshold is set.
    """

    systems: Sequence[SystemScores]
    reliability: MetricReliability
    differences: pd.DataFrame | None = None
    kept_captions: list[dict[str, Any]] | None = None

    @property
    def has_several_systems(self) -> bool:
        """Tell whether two systems are scored."""
        return len({s.system for s in self.systems}) > 1

    @property
    def has_several_references(self) -> bool:
        """Tell whether there are two sets of references."""
        return len({s.references for s in self.systems}) > 1

    @property
    def corpus(self) -> dict[str, Any]:
        """Each metric's corpus score; below system and set of references, where there are several."""
        tree: dict[str, Any] = {}
        for scored in self.systems:
            branch = tree.setdefault(scored.system, {}) if self.has_several_systems else tree
            if self.has_several_references:
                branch = branch.setdefault(scored.references, {})
            branch.update(scored.corpus)

        return tree

    @property
    def undefined(self) -> dict[str, Any]:
        """The reasons why metrics have no corpus score, by metric; by system where there are several."""
        reasons: dict[str, dict[str, str]] = {}
        for scored in self.systems:
            reasons_of_system: dict[str, str] = {}
            for spec in scored.corpus:
                note = scored.undefined_note(spec)
                if note:
                    reasons_of_system[spec] = note
            system = f"{scored.system} {scored.references}".strip()
            reasons[system] = reasons_of_system

        return next(iter(reasons.values())) if len(self.systems) == 1 else reasons

    @property
    def corpus_rows(self) -> pd.DataFrame:
        """One row a system, set of references and metric: score, interval, agreement with people."""
        rows: list[dict[str, Any]] = []
        for scored in self.systems:
            for spec, score in scored.corpus.items():
                interval = scored.intervals.get(spec, Interval())
                reliability = self.reliability.by_spec.get(spec)
                mismatch = self.reliability.outside.get(spec, "")

                row = {
                    "system": scored.system,
                    "references": scored.references,
                    "metric": spec,
                    "score": score,
                    "ci_low": interval.low,
                    "ci_high": interval.high,
                    "n_images": len(scored.items),
                    "agreement": reliability.value if reliability else math.nan,
                    "agreement_coefficient": reliability.coefficient if reliability else "",
                    "agreement_on": reliability.on if reliability else "",
                    "agreement_source": reliability.source if reliability else "",
                    "note": join_notes(
                        scored.undefined_note(spec) or interval.note,
                        f"agreement: {OUTSIDE}: your captions {mismatch}" if mismatch else "",
                    ),
                }
                rows.append(row)

        return pd.DataFrame(rows)

    @property
    def items(self) -> pd.DataFrame:
        """The scored captions, columns `dataset` (the set of references) and `ITEM_COLUMNS`."""
        parts: list[pd.DataFrame] = []
        for scored in self.systems:
            part = scored.items.assign(dataset=scored.references, system=scored.system)
            parts.append(part[["dataset", *ITEM_COLUMNS]])

        return pd.concat(parts, ignore_index=True)

    @property
    def frame(self) -> pd.DataFrame:
        """One row a caption: `item_id, image_id`, `system` where there are several, a column a metric.

        Of several sets of references each has its columns, `cider@c5`, empty for images that it lacks.
        """
        keys = ["item_id", "image_id"]
        if self.has_several_systems:
            keys.append("system")

        parts: dict[str, list[pd.DataFrame]] = {}
        for scored in self.systems:
            part = scored.items[keys].assign(**scored.scores)
            parts.setdefault(scored.references, []).append(part)

        by_references = {name: pd.concat(p, ignore_index=True) for name, p in parts.items()}
        if len(by_references) == 1:
            return next(iter(by_references.values()))

        captions = pd.concat([scores[keys] for scores in by_references.values()])
        joined = captions.drop_duplicates(ignore_index=True)
        for name, scores in by_references.items():
            renamed = scores.set_index(keys).add_suffix(f"@{name}").reset_index()
            joined = joined.merge(renamed, on=keys, how="left")

        return joined


def keep_captions(
    scored: SystemScores, captions: Mapping[str, str], metric: str, threshold: float
) -> list[dict[str, Any]]:
    """Return the captions with at least a score, as COCO has results: an image's number is a number.

    Args:
        scored: the system's scores.
        captions: the captions as they were given, by image; the scored ones may be normalised.
        metric: whose scores count.
        threshold: the lowest score that is kept.

    Raises:
        InputError: where a caption has no score, or the metric could not be computed.
    """
    if metric not in scored.scores:
        raise InputError(f"keep.metric={metric}: it cannot be computed here")

    scores = scored.scores[metric]
    if np.isnan(scores).any():
        row = scored.items.iloc[int(np.argmax(np.isnan(scores)))]
        raise InputError(f"keep.metric={metric}: image '{row['image_id']}' has no score")

    results: list[dict[str, Any]] = []
    for image_id in scored.items.loc[scores >= threshold, "image_id"]:
        number = int(image_id) if str(image_id).isdecimal() else image_id
        results.append({"image_id": number, "caption": captions[image_id]})

    return results
