"""The files of `captau collect export`: captau's interchange, and those of the papers' authors.

Raters go by codes; nicknames, times of day and whatever else is known of a person stay in the database.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ....datasets.errors import unknown
from ....datasets.reading.rating_scales import format_scales
from ..forms.counted_answers import CountedAnswer, CountedAnswers, csv_bytes
from ..forms.form import Form
from ..store.study_database import TableRows
from ..store.study_store import StudyStore
from .answer_collection import collect_answers
from .participant_table import write_log, write_participants

#: `captau` is for `dataset=file`, `paper` is what the form's authors publish, `participants` is for paying
#: them, `log` has every answer in the order in which they came.
EXPORT_FORMATS = ("captau", "paper", "participants", "log")


def export_files(store: StudyStore, rows: TableRows, export_format: str) -> dict[str, bytes]:
    """Return the files of an export, by name.

    Args:
        store: the study.
        rows: all rows of its database (`StudyStore.load_all_rows`).
        export_format: one of `EXPORT_FORMATS`.

    Raises:
        InputError: on another format.
    """
    if export_format not in EXPORT_FORMATS:
        raise unknown("form", export_format, EXPORT_FORMATS)
    form, answers = store.form, collect_answers(store, rows)
    if export_format == "participants":
        files = {"participants.csv": write_participants(store, rows)}
    elif export_format == "log":
        files = {"log.csv": write_log(store, rows)}
    elif export_format == "captau" and form.exports_ratings:
        files = _interchange_files(form, answers)
    else:
        if export_format == "paper":
            answers = form.drop_unpublished(answers)
        files = form.paper_files(answers)
    record = {
        "command": "collect export",
        "study": store.study.name,
        "title": store.study.title,
        "protocol": form.name,
        "form": export_format,
        "answers": len(answers.answers),
        "raters": len({answer.rater for answer in answers.answers}),
        "left_out": dict(answers.left_out),
        "scales": {dimension: str(scale) for dimension, scale in form.scales.items()},
    }
    text = json.dumps(record, indent=2, ensure_ascii=False)
    return {**files, "run.json": text.encode() + b"\n"}


def _interchange_files(form: Form, answers: CountedAnswers) -> dict[str, bytes]:
    first_answers = answers.without_repeats()
    scales = format_scales(form.scales, form.totals).encode()
    files = {"ratings.csv": _ratings_csv(form, first_answers), "ratings.yaml": scales}
    if answers.settled:
        by_item = {answer.item.id: answer for answer in reversed(first_answers)}
        settled = [
            CountedAnswer(by_item[item_id].unit, by_item[item_id].item, "settled", value, 0.0)
            for item_id, value in answers.settled.items()
            if item_id in by_item
        ]
        files |= {"settled.csv": _ratings_csv(form, settled), "settled.yaml": scales}
    return files


def _ratings_csv(form: Form, answers: Sequence[CountedAnswer]) -> bytes:
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
        for dimension, rating in form.ratings(answer.value).items()
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
