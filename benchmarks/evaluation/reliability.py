"""The reliability of metrics beside scores of a user's captions, as `captau score` shows it.

Reliability is a metric's correlation with people, as papers print it or a run of `captau bench` or `captau rank`
measured it (`trust=published`, `trust=DIR`), where the captions that people judged are of the kind of the user's
(`caption_ranges`).
`evidence` finds the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..runs.tables import TableNote, count_of, format_coefficient
from ..statistics.coefficients.coefficient import find_coefficient
from .caption_ranges import CaptionRange, find_mismatch
from .wording import list_words

#: The value of the option `trust` that stands for the papers' numbers.
PUBLISHED = "published"
#: The cell of a metric without a number.
UNKNOWN = "not known"
#: The cell of a metric whose numbers are all of other kinds of captions.
OUTSIDE = "none for such captions"


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
        """The subject of the correlation: the judgements, and how many systems where these are."""
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
class ComparableNumbers:
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


def describe_judgements(dataset: str, dimension: str) -> str:
    """Name a dataset, and the dimension where it has a name of its own."""
    return dataset if dimension in ("", "overall") else f"{dataset} ({dimension})"


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

    measure = f"correlations ×100 of {what}"
    brief_measure = f"correlations ×100 on the {of_what} of"
    coefficients = {number.coefficient for number in reliability.by_spec.values()}
    if are_systems == {True} and coefficients == {"pairwise_accuracy"}:
        share = "the share (%) of pairs of systems that a metric puts in people's order"
        measure = f"{share}, not of yours but"
        brief_measure = f"{share}, on"

    sources = [f"{', '.join(names)}: {source}" for source, names in by_source.items()]
    notes = [f"agreement with people: {measure} as {how} ({'; '.join(sources)})."]
    for dataset, captions in by_dataset.items():
        notes.append(f"{dataset}: {captions}.")

    datasets = list_words(list(by_dataset))
    brief = f"agreement with people: {brief_measure} {datasets}, not on yours."
    return notes, brief
