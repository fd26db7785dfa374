"""Answers that count, as exports and quality measures handle them, and the table of ratings that `dataset=file` reads."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....datasets.reading.rating_scales import format_scales
from ....datasets.schema import Scale
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


RatingsOf = Callable[[Mapping[str, Any]], Mapping[str, float]]


def rating_files(
    answers: CountedAnswers,
    ratings_of: RatingsOf,
    scales: Mapping[str, Scale],
    totals: Sequence[str],
) -> dict[str, bytes]:
    """Return `ratings.csv`, where raters check each other `settled.csv` too, and each one's scales.

    Args:
        answers: of which each rater's first one to equal items stands in the table.
        ratings_of: makes of an answer as it is stored its ratings by dimension.
        scales: of each dimension.
        totals: the dimensions that are sums of others.
    """
    first_answers = answers.without_repeats()
    scale_file = format_scales(scales, totals).encode()
    files = {"ratings.csv": _ratings_csv(ratings_of, first_answers), "ratings.yaml": scale_file}

    if answers.settled:
        by_item = {answer.item.id: answer for answer in reversed(first_answers)}
        settled: list[CountedAnswer] = []
        for item_id, value in answers.settled.items():
            if item_id not in by_item:
                continue
            answer = CountedAnswer(
                unit=by_item[item_id].unit,
                item=by_item[item_id].item,
                rater="settled",
                value=value,
                seconds=0.0,
            )
            settled.append(answer)
        settled_csv = _ratings_csv(ratings_of, settled, has_seconds=False)
        files |= {"settled.csv": settled_csv, "settled.yaml": scale_file}

    return files


def _ratings_csv(
    ratings_of: RatingsOf, answers: Sequence[CountedAnswer], *, has_seconds: bool = True
) -> bytes:
    """Return a table with a row for each rating; scores that raters settled together have no seconds of their own.

    Columns that some items lack are left out, as `dataset=file` expects.
    """
    optional = ("references", "system", "split")
    columns = ["image", "caption"]
    columns += [name for name in optional if all(getattr(a.item, name) for a in answers)]
    columns += ["rater", "dimension", "value"]
    if has_seconds:
        columns.append("seconds")
    if any(answer.stage for answer in answers):
        columns.append("stage")

    rows: list[list[Any]] = []
    for answer in answers:
        references = json.dumps(list(answer.item.references), ensure_ascii=False)
        for dimension, rating in ratings_of(answer.value).items():
            cells = {
                "image": answer.unit.image_id,
                "caption": answer.item.caption,
                "references": references,
                "system": answer.item.system,
                "split": answer.item.split,
                "rater": answer.rater,
                "dimension": dimension,
                "value": f"{rating:g}",
                "seconds": f"{answer.seconds:.1f}",
                "stage": answer.stage,
            }
            rows.append([cells[column] for column in columns])

    return csv_bytes(columns, rows)
