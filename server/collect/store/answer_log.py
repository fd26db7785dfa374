"""Answers of raters: each recorded once, with the form's feedback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row, bindparam, insert, select, update

from ...storage.database import transaction
from ...web.errors import NotFoundError
from ..forms.course import OutOfTurnError, SubmittedAnswer
from ..items.units import StudyUnit
from .assignment import load_unit_state
from .study_database import (
    KEY,
    RATER_COLUMNS,
    UNIT_ID,
    UPDATE_RATER,
    Rater,
    RecordedAnswer,
    StudyDatabase,
)
from .tables import answers, raters, serves, units

#: A unit that was shown, and to whom.
_SERVE = (
    select(serves, *RATER_COLUMNS[1:], raters.c.excluded_at)
    .join(raters, raters.c.id == serves.c.rater)
    .where(serves.c.key == KEY)
)
_VALUES = select(answers.c.item, answers.c.value, answers.c.told).where(
    answers.c.serve == bindparam("serve_id")
)
#: Answers to a caption, without those of excluded raters.
_VALUES_OF_ITEM = (
    select(answers.c.value)
    .join(raters, raters.c.id == answers.c.rater)
    .where(answers.c.item == bindparam("item_id"), raters.c.excluded_at.is_(None))
)
_INSERT_ANSWER = insert(answers).inline()
_MARK_ANSWERED = update(serves).where(serves.c.key == KEY).values(answered_at=bindparam("now"))
_COUNT_ANSWER = update(units).where(units.c.id == UNIT_ID).values(given=units.c.given + 1)


class AnswerLog:
    """The answers of a study, in its database."""

    def __init__(self, study: StudyDatabase) -> None:
        self.database = study.database
        self._data = study
        self._form = study.form
        self._course = study.form.course

    async def record(
        self, rater_id: int, key: str, values: Sequence[Mapping[str, Any]]
    ) -> RecordedAnswer:
        """Record an answer at the time when it came, once; a second one to the same key returns the first.

        Args:
            rater_id: the rater.
            key: of the unit shown.
            values: a value for each caption, in the order shown.

        Raises:
            NotFoundError: if no unit of that key was shown to them.
            OutOfTurnError: if the form does not accept it (yet).
        """
        return await self._record_at(self._data.clock(), rater_id, key, values)

    @transaction
    def _record_at(
        self,
        c: Connection,
        now: float,
        rater_id: int,
        key: str,
        values: Sequence[Mapping[str, Any]],
    ) -> RecordedAnswer:
        serve = _find_serve(c, rater_id, key)
        # The answer of a page that is sent twice, as after a lost connection, counts once.
        if serve.answered_at is not None:
            return self._load_recorded(c, serve, values)

        unit = self._data.units[serve.unit]
        # Where raters check each other, this one saw a state of the unit that is no longer the last.
        if load_unit_state(c, unit).answered_at > serve.served_at:
            raise OutOfTurnError("Another annotator was quicker. Check their answer.")

        rater = _rater_of(serve)
        answer = SubmittedAnswer(
            key=serve.key,
            phase=serve.phase,
            unit=unit,
            value=values[0],
            served_at=serve.served_at,
            submitted_at=now,
        )
        ratings_of_others = self._load_ratings_of_others(c, unit)
        feedback, progress = self._course.respond(answer, rater.progress, ratings_of_others)
        rater_after = replace(
            rater,
            state=progress.state,
            points=progress.points,
            n_answers=rater.n_answers + 1 if unit.is_rated else rater.n_answers,
        )
        _write_answer(c, serve, answer, values, feedback)

        # Nothing changes after an answer that is not rated, in forms without points.
        if rater_after != rater:
            changes = {
                "state": rater_after.state,
                "points": rater_after.points,
                "given": rater_after.n_answers,
            }
            c.execute(UPDATE_RATER, {"rater_id": rater.id, **changes})

        recorded = tuple(map(dict, values))
        return RecordedAnswer(
            key=serve.key,
            phase=serve.phase,
            rater=rater_after,
            unit=unit,
            values=recorded,
            feedback=feedback,
        )

    @transaction
    def find(self, c: Connection, rater_id: int, key: str) -> RecordedAnswer:
        """Return a rater's own recorded answer.

        Raises:
            NotFoundError: if they gave none to that key.
        """
        serve = _find_serve(c, rater_id, key)
        if serve.answered_at is None:
            raise NotFoundError

        return self._load_recorded(c, serve)

    def _load_ratings_of_others(self, c: Connection, unit: StudyUnit) -> list[float]:
        """Return the main dimension's ratings of a unit's first caption, if the form gives feedback on them."""
        dimension = self._form.main_dimension
        if not self._course.feedback_columns or dimension is None or not unit.is_rated:
            return []
        values = c.execute(_VALUES_OF_ITEM, {"item_id": unit.items[0].id}).scalars()

        return [self._form.ratings(value)[dimension] for value in values]

    def _load_recorded(
        self, c: Connection, serve: Row[Any], values: Sequence[Mapping[str, Any]] | None = None
    ) -> RecordedAnswer:
        """Return a recorded answer, compared to the values that arrived now."""
        unit = self._data.units[serve.unit]
        rows = c.execute(_VALUES, {"serve_id": serve.id}).all()
        by_item = {row.item: row.value for row in rows}
        recorded = tuple(by_item[unit.items[k].id] for k in serve.order)
        differs = values is not None and list(map(dict, values)) != list(recorded)

        return RecordedAnswer(
            key=serve.key,
            phase=serve.phase,
            rater=_rater_of(serve),
            unit=unit,
            values=recorded,
            feedback=rows[0].told,
            is_repeat=True,
            differs=differs,
        )


def _write_answer(
    c: Connection,
    serve: Row[Any],
    answer: SubmittedAnswer,
    values: Sequence[Mapping[str, Any]],
    feedback: dict[str, Any] | None,
) -> None:
    """Write a row for each caption of an answer, and that its unit was answered."""
    rows: list[dict[str, Any]] = []
    # The captions stood in the order that was drawn when they were shown.
    for k, value in zip(serve.order, values, strict=True):
        row = {
            "serve": serve.id,
            "item": answer.unit.items[k].id,
            "rater": serve.rater,
            "phase": serve.phase,
            "value": dict(value),
            "told": feedback,
            "seconds": answer.submitted_at - answer.served_at,
            "at": answer.submitted_at,
        }
        rows.append(row)

    c.execute(_INSERT_ANSWER, rows)
    c.execute(_MARK_ANSWERED, {"serve_key": serve.key, "now": answer.submitted_at})
    # Answers of an excluded rater are kept, and leave the unit as open as it was.
    if answer.unit.is_rated and serve.excluded_at is None:
        c.execute(_COUNT_ANSWER, {"unit_id": answer.unit.id})


def _rater_of(serve: Row[Any]) -> Rater:
    """Return the rater to whom a unit was shown."""
    return Rater(
        id=serve.rater,
        nickname=serve.nickname,
        points=serve.points,
        n_answers=serve.given,
        state=serve.state,
    )


def _find_serve(c: Connection, rater_id: int, key: str) -> Row[Any]:
    """Return a unit that was shown to a rater; raise `NotFoundError` if it was not."""
    serve = c.execute(_SERVE, {"serve_key": key}).first()
    if serve is None or serve.rater != rater_id:
        raise NotFoundError

    return serve
