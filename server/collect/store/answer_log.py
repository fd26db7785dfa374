"""Answers of raters: each recorded once, with the form's feedback."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection, Row, bindparam, insert, select, update

from ...web.errors import NotFoundError
from ..forms.errors import OutOfTurnError
from ..forms.form import SubmittedAnswer
from .records import RecordedAnswer, rater_of_row
from .statements import KEY, RATER_COLUMNS, UNIT_ID, UPDATE_RATER, pad_to_power_of_two
from .study_database import StudyDatabase
from .tables import answers, raters, serves, units
from .unit_states import UnitState, load_unit_states

#: Units that were shown, and to whom.
_SERVES = (
    select(serves, *RATER_COLUMNS[1:], raters.c.excluded_at)
    .join(raters, raters.c.id == serves.c.rater)
    .where(serves.c.key.in_(bindparam("keys", expanding=True)))
)
_VALUES = select(answers.c.item, answers.c.value, answers.c.told).where(
    answers.c.serve == bindparam("serve_id")
)
#: Answers to captions, without those of excluded raters.
_RATINGS_OF_ITEMS = (
    select(answers.c.item, answers.c.value)
    .join(raters, raters.c.id == answers.c.rater)
    .where(
        answers.c.item.in_(bindparam("item_ids", expanding=True)),
        raters.c.excluded_at.is_(None),
    )
)
_INSERT_ANSWER = insert(answers).inline()
_MARK_ANSWERED = update(serves).where(serves.c.key == KEY).values(answered_at=bindparam("now"))
_COUNT_ANSWER = update(units).where(units.c.id == UNIT_ID).values(given=units.c.given + 1)


@dataclass(frozen=True)
class _PostedAnswer:
    """A rater's answer as it arrives: a value for each caption, in the order shown."""

    key: str
    values: Sequence[Mapping[str, Any]]
    submitted_at: float


@dataclass(frozen=True)
class _Changes:
    """Parameters of the statements that record answers."""

    answers: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    serves: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    units: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    raters: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def write(self, c: Connection) -> None:
        """Execute each statement that has parameters."""
        for statement, rows in (
            (_INSERT_ANSWER, self.answers),
            (_MARK_ANSWERED, self.serves),
            (_COUNT_ANSWER, self.units),
            (UPDATE_RATER, self.raters),
        ):
            if rows:
                c.execute(statement, rows)


class AnswerLog:
    """The answers of a study, in its database."""

    def __init__(self, study: StudyDatabase) -> None:
        self._data, self._form = study, study.form

    async def record(
        self, rater_id: int, key: str, values: Sequence[Mapping[str, Any]]
    ) -> RecordedAnswer:
        """Record an answer, once; a second one to the same key returns the first.

        Args:
            rater_id: the rater.
            key: of the unit shown.
            values: a value for each caption, in the order shown.

        Raises:
            NotFoundError: if no unit of that key was shown to them.
            OutOfTurnError: if the form does not accept it (yet).
        """
        submission = _PostedAnswer(key, values, self._data.clock())
        return await self._data.database.run_grouped(self._record_all, rater_id, submission)

    async def find(self, rater_id: int, key: str) -> RecordedAnswer:
        """Return a rater's own recorded answer.

        Raises:
            NotFoundError: if they gave none to that key.
        """

        def load(c: Connection) -> RecordedAnswer:
            serve = c.execute(_SERVES, {"keys": [key]}).first()
            if serve is None or serve.rater != rater_id or serve.answered_at is None:
                raise NotFoundError
            return self._load_recorded(c, serve)

        return await self._data.database.run(load)

    def _record_all(
        self, c: Connection, submissions: Mapping[int, _PostedAnswer]
    ) -> dict[int, RecordedAnswer | Exception]:
        """Record the answers of raters who submit at once; return each one's result."""
        keys = pad_to_power_of_two(submission.key for submission in submissions.values())
        serve_rows = {row.key: row for row in c.execute(_SERVES, {"keys": keys})}
        others_by_item = self._load_others(c, serve_rows.values())
        checked_units = {r.unit for r in serve_rows.values() if self._data.units[r.unit].stages}
        unit_states = load_unit_states(c, checked_units)
        results: dict[int, RecordedAnswer | Exception] = {}
        changes = _Changes()
        for rater_id, submission in submissions.items():
            serve = serve_rows.get(submission.key)
            if serve is None or serve.rater != rater_id:
                results[rater_id] = NotFoundError()
            elif serve.answered_at is not None:
                results[rater_id] = self._load_recorded(c, serve, submission.values)
            else:
                state = unit_states.get(serve.unit, UnitState())
                try:
                    if state.answered_at > serve.served_at:
                        raise OutOfTurnError("Another annotator was quicker. Check their answer.")
                    results[rater_id] = self._record(serve, submission, others_by_item, changes)
                    state.answered_at = submission.submitted_at
                except OutOfTurnError as error:
                    results[rater_id] = error
        changes.write(c)
        return results

    def _record(
        self,
        serve: Row[Any],
        submission: _PostedAnswer,
        others_by_item: Mapping[int, list[float]],
        changes: _Changes,
    ) -> RecordedAnswer:
        """Add the changes that record an answer, and its rating to those of the others.

        Raises:
            OutOfTurnError: if the form does not accept it now; nothing is added then.
        """
        unit, rater, value = (
            self._data.units[serve.unit],
            rater_of_row(serve, serve.rater),
            submission.values[0],
        )
        answer = SubmittedAnswer(
            serve.key, serve.phase, unit, value, serve.served_at, submission.submitted_at
        )
        other_ratings = others_by_item.get(unit.items[0].id, ())
        feedback, progress = self._form.respond(answer, rater.progress, other_ratings)
        is_counted = unit.is_rated
        rater_after = replace(
            rater,
            state=progress.state,
            points=progress.points,
            n_answers=rater.n_answers + is_counted,
        )
        if is_counted and serve.excluded_at is None:
            changes.units.append({"unit_id": unit.id})
            if self._form.feedback_columns:
                rating = self._form.ratings(value)[str(self._form.main_dimension)]
                others_by_item[unit.items[0].id].append(rating)
        changes.answers.extend(
            {
                "serve": serve.id,
                "item": unit.items[k].id,
                "rater": rater.id,
                "phase": serve.phase,
                "value": dict(item_value),
                "told": feedback,
                "seconds": submission.submitted_at - serve.served_at,
                "at": submission.submitted_at,
            }
            for k, item_value in zip(serve.order, submission.values, strict=True)
        )
        changes.serves.append({"serve_key": serve.key, "now": submission.submitted_at})
        if rater_after != rater:
            changes.raters.append(
                {
                    "rater_id": rater.id,
                    "state": rater_after.state,
                    "points": rater_after.points,
                    "given": rater_after.n_answers,
                }
            )
        values = tuple(map(dict, submission.values))
        return RecordedAnswer(serve.key, serve.phase, rater_after, unit, values, feedback)

    def _load_others(self, c: Connection, serve_rows: Iterable[Row[Any]]) -> dict[int, list[float]]:
        """Return the ratings of the captions shown, by item, if the form gives feedback on them."""
        dimension = self._form.main_dimension
        if not self._form.feedback_columns or dimension is None:
            return {}
        ratings: dict[int, list[float]] = {
            self._data.units[serve.unit].items[0].id: []
            for serve in serve_rows
            if self._data.units[serve.unit].is_rated
        }
        if ratings:
            for row in c.execute(_RATINGS_OF_ITEMS, {"item_ids": pad_to_power_of_two(ratings)}):
                ratings[row.item].append(self._form.ratings(row.value)[dimension])
        return ratings

    def _load_recorded(
        self, c: Connection, serve: Row[Any], values: Sequence[Mapping[str, Any]] | None = None
    ) -> RecordedAnswer:
        """Return a recorded answer, compared to the values that arrived now."""
        unit = self._data.units[serve.unit]
        rows = c.execute(_VALUES, {"serve_id": serve.id}).all()
        by_item = {row.item: row.value for row in rows}
        recorded = tuple(by_item[unit.items[k].id] for k in serve.order)
        return RecordedAnswer(
            serve.key,
            serve.phase,
            rater_of_row(serve, serve.rater),
            unit,
            recorded,
            rows[0].told,
            is_repeat=True,
            differs=values is not None and list(map(dict, values)) != list(recorded),
        )
