"""The table of ratings that `dataset=file` reads, with the scale of each dimension beside it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ....datasets.reading.rating_scales import format_scales
from ....datasets.schema import Scale
from .counted_answers import CountedAnswer, CountedAnswers, csv_bytes

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
        settled = [
            CountedAnswer(by_item[item_id].unit, by_item[item_id].item, "settled", value, 0.0)
            for item_id, value in answers.settled.items()
            if item_id in by_item
        ]
        files |= {"settled.csv": _ratings_csv(ratings_of, settled), "settled.yaml": scale_file}
    return files


def _ratings_csv(ratings_of: RatingsOf, answers: Sequence[CountedAnswer]) -> bytes:
    """Return a table with a row for each rating.

    Columns that some items lack are left out, as `dataset=file` expects.
    """
    optional_cells = [_optional_cells(answer) for answer in answers]
    columns = [
        name
        for name in ("references", "system", "split")
        if all(cells[name] for cells in optional_cells)
    ]
    has_stages = any(answer.stage for answer in answers)
    table: list[list[Any]] = [
        [
            answer.unit.image_id,
            answer.item.caption,
            *(cells[name] for name in columns),
            answer.rater,
            dimension,
            f"{rating:g}",
            f"{answer.seconds:.1f}",
            *([answer.stage] if has_stages else []),
        ]
        for answer, cells in zip(answers, optional_cells, strict=True)
        for dimension, rating in ratings_of(answer.value).items()
    ]
    header = ["image", "caption", *columns, "rater", "dimension", "value", "seconds"]
    header += ["stage"] if has_stages else []
    return csv_bytes(header, table)


def _optional_cells(answer: CountedAnswer) -> Mapping[str, str | None]:
    references = answer.item.references
    return {
        "references": json.dumps(list(references), ensure_ascii=False) if references else None,
        "system": answer.item.system,
        "split": answer.item.split,
    }
