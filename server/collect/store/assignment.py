"""Assignment of units to raters: second answers before first ones, practice and attention items in between.

Raters who ask at once are served together by a few statements; each gets what they would get one by one.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    bindparam,
    exists,
    func,
    insert,
    select,
    union_all,
    update,
)

from ...web.errors import NotFoundError
from ..forms.form import NextUnit
from ..items.units import Stage, StudyUnit
from .records import EndReason, Rater, ShownUnit
from .statements import (
    KEY,
    RATER_COLUMNS,
    RATER_ID,
    RATER_IDS,
    UNIT_ID,
    UPDATE_RATER,
    pad_to_power_of_two,
)
from .study_database import StudyDatabase
from .tables import raters, serves, units
from .unit_states import UnitState, load_unit_states

#: The seconds for which a unit stays reserved for a rater who does not answer.
RESERVATION_SECONDS = 600
#: The units that are searched first, of those with one answer, with none, and with more.
_FIRST_SEARCH = 50

#: Participants, with the unit that waits for their answer.
_SERVE_COLUMNS = (serves.c.key, serves.c.unit, serves.c.phase, serves.c.order, serves.c.served_at)
_RATERS_AND_SERVES = (
    select(*RATER_COLUMNS, *_SERVE_COLUMNS, raters.c.excluded_at)
    .outerjoin(serves, (serves.c.rater == raters.c.id) & serves.c.answered_at.is_(None))
    .where(raters.c.id.in_(RATER_IDS))
)
#: The number of raters at each unit.
_PENDING = (
    select(serves.c.unit, func.count().label("n_pending"))
    .join(raters, raters.c.id == serves.c.rater)
    .where(
        serves.c.answered_at.is_(None),
        serves.c.served_at > bindparam("reserved_since"),
        raters.c.excluded_at.is_(None),
    )
    .group_by(serves.c.unit)
    .subquery("pending")
)
#: Units that need further answers.
_IS_OPEN = (units.c.pool == "main", units.c.given < bindparam("ratings"))
_IS_SERVED_UNIT = serves.c.unit == units.c.id
_UNSEEN_OPEN = (
    select(units.c.id, units.c.given)
    .where(*_IS_OPEN, ~exists().where(serves.c.rater == RATER_ID, _IS_SERVED_UNIT))
    .limit(bindparam("n_units"))
)
_ORDER = (units.c.last_served, units.c.position, units.c.id)
_N_SEEING = (
    select(func.count(func.distinct(serves.c.rater)))
    .where(_IS_SERVED_UNIT, serves.c.rater.in_(RATER_IDS))
    .scalar_subquery()
)


def _first_units(condition: ColumnElement[bool]) -> Select[Any]:
    """Select the first open units of a condition, without those that all raters have seen."""
    first_units = (
        select(units.c.given, *_ORDER)
        .where(*_IS_OPEN, condition, bindparam("n_raters") > _N_SEEING)
        .order_by(units.c.given, *_ORDER)
        .limit(bindparam("n_units"))
        .subquery()
    )
    return select(*first_units.c)


#: Open units with one answer, with none, and with more: the order in which they get further ones, so that units
#: reach their second rater before new ones are opened.
_FIRST_UNITS = union_all(
    *map(_first_units, (units.c.given == 1, units.c.given == 0, units.c.given > 1))
)
#: The open units that raters are at, with the number of these.
_PENDING_UNITS = (
    select(units.c.given, *_ORDER, _PENDING.c.n_pending)
    .join(_PENDING, _PENDING.c.unit == units.c.id)
    .where(*_IS_OPEN)
)
#: Those of some units that raters have been shown.
_SEEN = select(serves.c.rater, serves.c.unit).where(
    serves.c.rater.in_(RATER_IDS), serves.c.unit.in_(bindparam("unit_ids", expanding=True))
)
_INSERT_SERVE = insert(serves).inline()
_UPDATE_LAST_SERVED = (
    update(units)
    .where(units.c.id == UNIT_ID)
    .values(last_served=select(serves.c.id).where(serves.c.key == KEY).scalar_subquery())
)
_SERVE_AGAIN = (
    update(serves)
    .where(serves.c.key == KEY)
    .values(phase=bindparam("new_phase"), served_at=bindparam("now"))
)
_SHOWN_UNIT = select(serves.c.unit).where(serves.c.key == KEY, serves.c.rater == RATER_ID)


class _Serve(NamedTuple):
    """A unit that was shown to a rater, as `serves` has it."""

    key: str
    unit: int
    phase: str
    order: list[int]
    served_at: float


class _UnitRow(NamedTuple):
    """A unit that needs answers, as `units` has it; by order of its fields units come next."""

    n_answers: int
    last_served: int
    position: int
    unit_id: int


class Assignment:
    """The choice of the unit that each rater answers next."""

    def __init__(self, study: StudyDatabase) -> None:
        self._data, self._study, self._form = study, study.study, study.form
        self._has_stages = any(unit.stages for unit in study.units.values())

    async def next_unit(self, rater_id: int) -> ShownUnit | Rater:
        """Return the unit that a rater answers now, the same until they do; the rater if there is none.

        Raises:
            NotFoundError: if there is no such participant.
        """
        data = self._data
        return await data.database.run_grouped(self._next_units, rater_id, data.clock())

    async def end_reason(self, rater: Rater) -> EndReason:
        """Return why a rater has nothing to answer now."""
        if self._form.next_task(rater.state) is None:
            return EndReason.OUT
        may_answer = await self._data.database.run(lambda c: self._may_answer(c, rater))
        return EndReason.RESERVED if may_answer else EndReason.THROUGH

    async def find_unit(self, rater_id: int, key: str) -> StudyUnit:
        """Return a unit that was shown to a rater.

        Raises:
            NotFoundError: if it was not.
        """
        row = await self._data.database.run(
            lambda c: c.execute(_SHOWN_UNIT, {"serve_key": key, "rater_id": rater_id}).first()
        )
        if row is None:
            raise NotFoundError
        return self._data.units[row.unit]

    def _next_units(
        self, c: Connection, times: Mapping[int, float]
    ) -> dict[int, ShownUnit | Rater | Exception]:
        """Return the units that raters answer now, by rater, from the times at which they ask."""
        data, form = self._data, self._form
        rows = {
            row.id: row
            for row in c.execute(_RATERS_AND_SERVES, {"rater_ids": pad_to_power_of_two(times)})
        }
        idle_raters = [rater_id for rater_id, row in rows.items() if row.key is None]
        reserved_since = data.clock() - RESERVATION_SECONDS
        least_answered = _LeastAnswered(
            c, data.units, idle_raters, self._study.ratings, reserved_since
        )
        results: dict[int, ShownUnit | Rater | Exception] = {}
        new_serves: list[dict[str, Any]] = []
        new_states: list[dict[str, Any]] = []
        serves_by_rater: dict[int, tuple[_Serve, Rater]] = {}
        for rater_id, now in times.items():
            row = rows.get(rater_id)
            if row is None:
                results[rater_id] = NotFoundError()
                continue
            rater = Rater(*row[: len(RATER_COLUMNS)])
            serve = None if row.key is None else _Serve(*row[len(RATER_COLUMNS) : -1])
            take = partial(least_answered.take, rater, counts=row.excluded_at is None)
            if serve is None and (choice := self._choose(c, rater, take)) is not None:
                unit_id, task = choice
                order = list(range(len(data.units[unit_id].items)))
                secrets.SystemRandom().shuffle(order)
                serve = _Serve(secrets.token_urlsafe(12), unit_id, task.phase, order, now)
                new_serves.append({**serve._asdict(), "rater": rater_id, "attempt": task.attempt})
                state = form.start_unit(rater.state, task, serve.key, now)
                if state != rater.state:
                    new_states.append({"rater_id": rater_id, "state": state})
            if serve is None:
                results[rater_id] = rater
            else:
                serves_by_rater[rater_id] = serve, rater
        if new_serves:
            c.execute(_INSERT_SERVE, new_serves)
            keys = [{"unit_id": s["unit"], "serve_key": s["key"]} for s in new_serves]
            c.execute(_UPDATE_LAST_SERVED, keys)
        if new_states:
            c.execute(UPDATE_RATER, new_states)
        unit_states = load_unit_states(
            c,
            {serve.unit for serve, _ in serves_by_rater.values() if data.units[serve.unit].stages},
        )
        for rater_id, (serve, rater) in serves_by_rater.items():
            state = unit_states.get(serve.unit, UnitState())
            if (
                state.answered_at > serve.served_at
            ):  # others came first; the rater sees what they left
                serve = self._serve_again(c, serve, len(state.serve_ids), times[rater_id])
            results[rater_id] = self._shown_unit(serve, rater, times[rater_id], state)
        return results

    def _serve_again(self, c: Connection, serve: _Serve, n_answers: int, now: float) -> _Serve:
        """Serve a unit as if it were shown now, in the stage that it has come to."""
        stages = self._data.units[serve.unit].stages
        phase = stages[min(n_answers, len(stages) - 1)].phase
        c.execute(_SERVE_AGAIN, {"serve_key": serve.key, "new_phase": phase, "now": now})
        return serve._replace(phase=phase, served_at=now)

    def _shown_unit(self, serve: _Serve, rater: Rater, now: float, state: UnitState) -> ShownUnit:
        unit = self._data.units[serve.unit]
        items = tuple(unit.items[k] for k in serve.order)
        seconds_left = max(0.0, serve.served_at + self._form.wait - now)
        previous = tuple(state.values[item.id] for item in items if state.values)
        return ShownUnit(serve.key, serve.phase, unit, items, seconds_left, rater, previous)

    def _choose(
        self, c: Connection, rater: Rater, take_least_answered: Callable[[], _UnitRow | None]
    ) -> tuple[int, NextUnit] | None:
        """Return a unit for a rater and its task; None if there is nothing for them now."""
        task = self._form.next_task(rater.state)
        if task is None:
            return None
        if task.pool != "main":
            # Nobody practises if the study needs no answer of theirs.
            unit_id = _next_of_pool(c, rater.id, task) if self._may_answer(c, rater) else None
        elif self._study.per_rater is not None and rater.n_answers >= self._study.per_rater:
            return None
        else:
            if task.allows_attention and self._is_attention_due(c, rater):
                attention = replace(task, phase="attention", pool="attention")
                unit_id = _next_of_pool(c, rater.id, attention)
                if unit_id is not None:
                    return unit_id, attention
            if (row := take_least_answered()) is None:
                return None
            unit_id = row.unit_id
            if stages := self._data.units[unit_id].stages:
                task = replace(task, phase=stages[row.n_answers].phase)
        return None if unit_id is None else (unit_id, task)

    def _is_attention_due(self, c: Connection, rater: Rater) -> bool:
        if not self._data.pool_sizes["attention"] or not rater.n_answers:
            return False
        n_shown = c.execute(
            select(func.count())
            .select_from(serves)
            .where(serves.c.rater == rater.id, serves.c.phase == "attention")
        ).scalar_one()
        return rater.n_answers >= self._study.attention_every * (n_shown + 1)

    def _may_answer(self, c: Connection, rater: Rater) -> bool:
        """Return whether the study needs an answer of this rater, now or later."""
        limit = self._study.per_rater
        if limit is not None and rater.n_answers >= limit:
            return False
        # Without stages, any unit will do.
        n_units = len(self._data.units) if self._has_stages else 1
        parameters = {"rater_id": rater.id, "ratings": self._study.ratings, "n_units": n_units}
        for unit_id, n_answers in c.execute(_UNSEEN_OPEN, parameters):
            stages = self._data.units[unit_id].stages
            if not stages or _needs(stages[n_answers:], rater):
                return True
        return False


class _LeastAnswered:
    """The choice of the unit that comes next: second answers before first ones, then the fewest; pending ones count.

    It serves all raters who ask at once: what one takes is pending for the next.

    Args:
        c: the database.
        study_units: the study's units, by number.
        rater_ids: the raters.
        ratings: the answers that a unit is to have.
        reserved_since: units shown earlier than this are no longer pending.
    """

    def __init__(
        self,
        c: Connection,
        study_units: Mapping[int, StudyUnit],
        rater_ids: Sequence[int],
        ratings: int,
        reserved_since: float,
    ) -> None:
        self._c, self._study_units, self._ratings = c, study_units, ratings
        self._parameters = {
            "ratings": ratings,
            "reserved_since": reserved_since,
            "rater_ids": pad_to_power_of_two(rater_ids),
            "n_raters": len(rater_ids),
        }
        self._n_searched = 0
        #: Units that nobody is at by their number of answers: one, none, more.
        self._idle_rows: tuple[list[_UnitRow], ...] = ([], [], [])
        #: Units that raters are at, or took.
        self._busy_rows: dict[int, _UnitRow] = {}
        self._n_pending: Counter[int] = Counter()
        self._seen: set[tuple[int, int]] = set()
        self._next_serve_number = count(1 << 62)  # after all that the database has

    def take(self, rater: Rater, *, counts: bool) -> _UnitRow | None:
        """Return the unit for a rater; None if there is none.

        Args:
            rater: the rater.
            counts: whether their answer will count; an excluded rater's does not.
        """
        if not self._n_searched:
            self._load_busy_units()
            self._search_further()
        row, is_final = self._find_first_idle(rater)
        while not is_final:
            self._search_further()
            row, is_final = self._find_first_idle(rater)
        candidates = [r for r in self._busy_rows.values() if self._is_free(rater, r)]
        if row is not None:
            candidates.append(row)
        if not candidates:
            return None
        row = min(candidates, key=self._priority)
        self._n_pending[row.unit_id] += counts
        serve_number = next(self._next_serve_number)
        self._busy_rows[row.unit_id] = row._replace(last_served=serve_number)
        return row

    def _find_first_idle(self, rater: Rater) -> tuple[_UnitRow | None, bool]:
        """Return the best of the units that nobody is at, and whether no other can be better."""
        for rows in self._idle_rows:
            for row in rows:
                if row.unit_id not in self._busy_rows and self._is_free(rater, row):
                    return row, True
            if len(rows) == self._n_searched:
                return None, False
        return None, True

    def _is_free(self, rater: Rater, row: _UnitRow) -> bool:
        if (rater.id, row.unit_id) in self._seen:
            return False
        n_pending = self._n_pending[row.unit_id]
        if stages := self._study_units[row.unit_id].stages:
            # The next one checks what this one says, so that they cannot be at it together.
            return not n_pending and _needs(stages[row.n_answers : row.n_answers + 1], rater)
        return row.n_answers + n_pending < self._ratings

    def _priority(self, row: _UnitRow) -> tuple[int, ...]:
        n_answers = row.n_answers + self._n_pending[row.unit_id]
        return (_order_of_count(n_answers), n_answers, *row[1:])

    def _load_busy_units(self) -> None:
        for *row, n_pending in self._c.execute(_PENDING_UNITS, self._parameters):
            unit_row = _UnitRow(*row)
            self._busy_rows[unit_row.unit_id] = unit_row
            self._n_pending[unit_row.unit_id] = n_pending

    def _search_further(self) -> None:
        self._n_searched = 8 * self._n_searched or _FIRST_SEARCH
        self._idle_rows = ([], [], [])
        parameters = {**self._parameters, "n_units": self._n_searched}
        for row in self._c.execute(_FIRST_UNITS, parameters):
            self._idle_rows[_order_of_count(row.given)].append(_UnitRow(*row))
        for rows in self._idle_rows:
            rows.sort()
        unit_ids = {row.unit_id for rows in self._idle_rows for row in rows} | set(self._busy_rows)
        parameters = {
            "rater_ids": self._parameters["rater_ids"],
            "unit_ids": pad_to_power_of_two(unit_ids),
        }
        self._seen = {(rater, unit) for rater, unit in self._c.execute(_SEEN, parameters)}


def _needs(stages: Sequence[Stage], rater: Rater) -> bool:
    """Return whether one of the stages is for a rater."""
    return any(stage.annotator in ("", rater.nickname) for stage in stages)


def _order_of_count(n_answers: int) -> int:
    """Return the place of units with so many answers: those with one first, then those with none."""
    return {1: 0, 0: 1}.get(n_answers, 2)


def _next_of_pool(c: Connection, rater_id: int, task: NextUnit) -> int | None:
    """Return the next unit of a task's pool that a rater has not been shown in its attempt."""
    is_seen = exists().where(
        serves.c.rater == rater_id, serves.c.unit == units.c.id, serves.c.attempt == task.attempt
    )
    query = select(units.c.id).where(units.c.pool == task.pool, ~is_seen).order_by(units.c.position)
    unit_ids = list(c.execute(query).scalars())
    if not unit_ids:
        return None
    return secrets.choice(unit_ids) if task.is_shuffled else unit_ids[0]
