"""The files of `captau collect export`: captau's interchange, those of the papers' authors, and tables of participants.

Raters go by codes; nicknames, times of day and whatever else is known of a person stay in the database.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ...datasets.errors import unknown
from ...datasets.reading.rating_scales import format_conditions
from .forms.counted_answers import csv_bytes
from .forms.course import RaterProgress
from .rater_figures import collect_answers, compute_rater_figures, excluded_raters
from .store.assignment import RESERVATION_SECONDS
from .store.study_database import TableRows
from .store.study_store import StudyStore

Row = Mapping[str, Any]


def write_participants(store: StudyStore, rows: TableRows) -> bytes:
    """Return a row for each participant, those without an answer and excluded ones too.

    `minutes` is the time from showing to answering, over all phases; a page that stayed open for longer than
    its reservation counts as one that was answered when that ended.
    """
    form = store.form
    study = store.study
    figures = compute_rater_figures(store, rows)
    seconds = _seconds_by_rater(rows["answers"])
    notes = {row["rater"]: row["note"] for row in rows["invitations"]}

    columns = ["rater", *form.course.describe(form.course.begin()), "answers", "minutes"]
    columns += ["agreement", "distance", "known", "excluded"]
    if study.participants == "invitation":
        columns.append("invitation")
    elif study.participants == "crowd":
        columns.append("completion")

    table: list[list[Any]] = []
    for rater in rows["raters"]:
        rater_id = rater["id"]
        rater_figures = figures[rater_id]
        progress = RaterProgress(rater["state"], rater["points"])
        cells = [
            store.rater_code(rater_id),
            *form.course.describe(progress).values(),
            rater_figures.n_answers,
            f"{seconds.get(rater_id, 0.0) / 60:.1f}",
            _number(rater_figures.correlation),
            _number(rater_figures.distance),
            f"{rater_figures.n_attention_right}/{rater_figures.n_attention}",
            "" if rater["excluded_at"] is None else "yes",
        ]

        if study.participants == "invitation":
            cells.append(notes.get(rater_id, ""))
        elif study.participants == "crowd":
            cells.append(store.completion_code(rater_id))
        table.append(cells)

    return csv_bytes(columns, table)


def write_log(store: StudyStore, rows: TableRows) -> bytes:
    """Return a row for each answer to a caption, of all phases, in the order in which they came.

    `number` counts a rater's units, `minutes` is the time since the study's first answer. The consensus, mean,
    score and change of phase are those that the rater was shown.
    """
    form = store.form
    items_by_id = store.items_by_id()
    excluded = excluded_raters(rows)

    # Two answers may have come at the same time of the clock; their numbers tell them apart.
    answers = sorted(rows["answers"], key=lambda row: (row["at"], row["id"]))
    feedback_columns = form.course.feedback_columns

    serves_by_rater: dict[int, dict[int, int]] = {}
    table: list[list[Any]] = []
    for answer in answers:
        rater_id = answer["rater"]
        unit, item = items_by_id[answer["item"]]
        serves = serves_by_rater.setdefault(rater_id, {})
        # The captions of a unit share its number.
        number = serves.setdefault(answer["serve"], len(serves) + 1)
        ratings = form.ratings(answer["value"])
        feedback = answer["told"] or {}

        cells: list[Any] = [store.rater_code(rater_id), number, answer["phase"]]
        cells += [unit.image_id, item.caption, item.system or ""]
        cells += [_number(ratings.get(dimension)) for dimension in form.scales]
        cells += [feedback.get(name, "") for name in feedback_columns]
        cells.append(f"{answer['seconds']:.1f}")
        cells.append(f"{(answer['at'] - answers[0]['at']) / 60:.2f}")
        cells.append("yes" if rater_id in excluded else "")
        table.append(cells)

    columns = ["rater", "number", "phase", "image", "caption", "system", *form.scales]
    columns += [*feedback_columns, "seconds", "minutes", "excluded"]

    return csv_bytes(columns, table)


def _seconds_by_rater(answers: Sequence[Row]) -> dict[int, float]:
    """Return the time of each rater, over the units that they answered."""
    # A unit of several captions has an answer for each, all with the time of the whole unit.
    by_serve: dict[tuple[int, int], float] = {}
    for answer in answers:
        key = (answer["rater"], answer["serve"])
        by_serve[key] = min(answer["seconds"], RESERVATION_SECONDS)

    seconds: dict[int, float] = {}
    for (rater_id, _), duration in by_serve.items():
        seconds[rater_id] = seconds.get(rater_id, 0.0) + duration

    return seconds


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


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

    form = store.form
    answers = collect_answers(store, rows)
    files: dict[str, bytes] = {}
    if export_format == "participants":
        files["participants.csv"] = write_participants(store, rows)
    elif export_format == "log":
        files["log.csv"] = write_log(store, rows)
    elif export_format == "captau":
        conditions = format_conditions(store.study.conditions).encode()
        for name, content in form.captau_files(answers).items():
            files[name] = content + conditions if name.endswith(".yaml") else content
    else:
        answers = form.select_answers(answers, for_paper=True)
        files.update(form.paper_files(answers))

    record = {
        "command": "collect export",
        "study": store.study.name,
        "title": store.study.title,
        "protocol": form.name,
        "form": export_format,
        "answers": len(answers.answers),
        "raters": len({answer.rater for answer in answers.answers}),
        "left_out": dict(answers.left_out),
        "conditions": dict(store.study.conditions),
        "scales": {dimension: str(scale) for dimension, scale in form.scales.items()},
    }

    text = json.dumps(record, indent=2, ensure_ascii=False)
    return {**files, "run.json": text.encode() + b"\n"}
