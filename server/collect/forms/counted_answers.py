"""Answers that count, as exports and quality measures handle them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..items.units import StudyItem, StudyUnit


@dataclass(frozen=True)
class CountedAnswer:
    """An answer to an item.

    Attributes:
        rater: the rater's code; nothing else says who they are.
        value: the answer as its form stores it.
        seconds: the time that it took.
        stage: its part where raters check each other's answers, such as `score` or `check`; else empty.
    """

    unit: StudyUnit
    item: StudyItem
    rater: str
    value: dict[str, Any]
    seconds: float
    stage: str = ""


@dataclass(frozen=True)
class CountedAnswers:
    """All answers of a study that count.

    Attributes:
        settled: the last answer to each item that a second annotator has checked, by the item's number.
        left_out: counts of what was left out, by reason.
        units: all units of the study.
    """

    answers: tuple[CountedAnswer, ...]
    settled: Mapping[int, dict[str, Any]]
    left_out: Mapping[str, int]
    units: tuple[StudyUnit, ...]

    def by_item(self) -> list[list[CountedAnswer]]:
        """Return the answers to each item."""
        groups: dict[int, list[CountedAnswer]] = {}
        for answer in self.answers:
            groups.setdefault(answer.item.id, []).append(answer)
        return list(groups.values())

    def without_repeats(self) -> list[CountedAnswer]:
        """Return the first answer of each rater to equal items, should a source have equal items."""
        first: dict[tuple[str, str, str | None, str], CountedAnswer] = {}
        for answer in self.answers:
            key = (answer.unit.image_id, answer.item.caption, answer.item.system, answer.rater)
            first.setdefault(key, answer)
        return list(first.values())


def csv_bytes(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> bytes:
    """Return a CSV file."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return out.getvalue().encode()
