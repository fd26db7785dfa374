"""The files of `captau collect export`: captau's interchange, and those of the papers' authors.

Raters go by codes; nicknames, times of day and whatever else is known of a person stay in the database.
"""

from __future__ import annotations

import json

from ....datasets.errors import unknown
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
    elif export_format == "captau":
        files = form.captau_files(answers)
    else:
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
