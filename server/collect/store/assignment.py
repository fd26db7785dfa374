"""Assignment of units to raters: evenly, practice and attention items in between.

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

from sqlalchemy import Connection, bindparam, exists, func, insert, select, update

from ...web.errors import NotFoundError
from ..forms.form import NextUnit
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

#: The seconds for which a unit stays reserved for a rater who does not answer.
RESERVATION_SECONDS = 600
#: The units that are searched first for those with the fewest answers.
_FIRST_SEARCH = 400

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
    select(units.c.id)
    .where(*_IS_OPEN, ~exists().where(serves.c.rater == RATER_ID, _IS_SERVED_UNIT))
    .limit(1)
)
_PRIORITY = (units.c.given, units.c.last_served, units.c.position, units.c.id)
_FIRST_UNITS = (
    select(*_PRIORITY)
    .where(*_IS_OPEN)
    .order_by(*_PRIORITY)
    .limit(bindparam("n_units"))
    .subquery("first_units")
)
#: The units with the fewest answers, and the number of raters at each.
_LEAST_ANSWERED = (
    select(*_FIRST_UNITS.c, func.coalesce(_PENDING.c.n_pending, 0))
    .outerjoin(_PENDING, _PENDING.c.unit == _FIRST_UNITS.c.id)
    .order_by(*_FIRST_UNITS.c)
)
#: Those of these units that raters have been shown.
_SEEN = (
    select(serves.c.rater, serves.c.unit)
    .join(units, _IS_SERVED_UNIT)
    .where(serves.c.rater.in_(RATER_IDS), *_IS_OPEN, units.c.given <= bindparam("most_answers"))
)
_INSERT_SERVE = insert(serves).inline()
_UPDATE_LAST_SERVED = (
    update(units)
    .where(units.c.id == UNIT_ID)
    .values(last_served=select(serves.c.id).where(serves.c.key == KEY).scalar_subquery())
)
_SHOWN_UNIT = select(serves.c.unit).where(serves.c.key == KEY, serves.c.rater == RATER_ID)


class _Serve(NamedTuple):
    """A unit that was shown to a rater, as `serves` has it."""

    key: str
    unit: int
    phase: str
    order: list[int]
    served_at: float


class Assignment:
    """The choice of the unit that each rater answers next."""

    def __init__(self, study: StudyDatabase) -> None:
        self._data, self._study, self._form = study, study.study, study.form

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

    async def find_image(self, rater_id: int, key: str) -> str:
        """Return the file of an image that was shown to a rater.

        Raises:
            NotFoundError: if it was not.
        """
        row = await self._data.database.run(
            lambda c: c.execute(_SHOWN_UNIT, {"serve_key": key, "rater_id": rater_id}).first()
        )
        if row is None:
            raise NotFoundError
        return self._data.units[row.unit].image

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
        least_answered = _LeastAnswered(c, idle_raters, self._study.ratings, reserved_since)
        results: dict[int, ShownUnit | Rater | Exception] = {}
        new_serves: list[dict[str, Any]] = []
        new_states: list[dict[str, Any]] = []
        for rater_id, now in times.items():
            row = rows.get(rater_id)
            if row is None:
                results[rater_id] = NotFoundError()
                continue
            rater = Rater(*row[: len(RATER_COLUMNS)])
            serve = None if row.key is None else _Serve(*row[len(RATER_COLUMNS) : -1])
            take = partial(least_answered.take, rater_id, counts=row.excluded_at is None)
            if serve is None and (choice := self._choose(c, rater, take)) is not None:
                unit_id, task = choice
                order = list(range(len(data.units[unit_id].items)))
                secrets.SystemRandom().shuffle(order)
                serve = _Serve(secrets.token_urlsafe(12), unit_id, task.phase, order, now)
                new_serves.append({**serve._asdict(), "rater": rater_id, "attempt": task.attempt})
                state = form.start_unit(rater.state, task, serve.key, now)
                if state != rater.state:
                    new_states.append({"rater_id": rater_id, "state": state})
            results[rater_id] = rater if serve is None else self._shown_unit(serve, rater, now)
        if new_serves:
            c.execute(_INSERT_SERVE, new_serves)
            keys = [{"unit_id": s["unit"], "serve_key": s["key"]} for s in new_serves]
            c.execute(_UPDATE_LAST_SERVED, keys)
        if new_states:
            c.execute(UPDATE_RATER, new_states)
        return results

    def _shown_unit(self, serve: _Serve, rater: Rater, now: float) -> ShownUnit:
        unit = self._data.units[serve.unit]
        items = tuple(unit.items[k] for k in serve.order)
        seconds_left = max(0.0, serve.served_at + self._form.wait - now)
        return ShownUnit(serve.key, serve.phase, unit, items, seconds_left, rater)

    def _choose(
        self, c: Connection, rater: Rater, take_least_answered: Callable[[], int | None]
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
            unit_id = take_least_answered()
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
        parameters = {"rater_id": rater.id, "ratings": self._study.ratings}
        return c.execute(_UNSEEN_OPEN, parameters).first() is not None


class _LeastAnswered:
    """The choice of the unseen unit with the fewest answers, pending ones counted.

    It serves all raters who ask at once: what one takes is pending for the next.

    Args:
        c: the database.
        rater_ids: the raters.
        ratings: the answers that a unit is to have.
        reserved_since: units shown earlier than this are no longer pending.
    """

    def __init__(
        self, c: Connection, rater_ids: Sequence[int], ratings: int, reserved_since: float
    ) -> None:
        self._c, self._rater_ids = c, rater_ids
        self._parameters = {"ratings": ratings, "reserved_since": reserved_since}
        self._n_searched = 0
        self._rows: list[tuple[int, ...]] = []
        self._seen: set[tuple[int, int]] = set()
        self._n_taken: Counter[int] = Counter()
        self._serve_numbers: dict[int, int] = {}
        self._next_serve_number = count(1 << 62)  # after all that the database has

    def take(self, rater_id: int, *, counts: bool) -> int | None:
        """Return the unit for a rater; None if there is none.

        Args:
            rater_id: the rater.
            counts: whether their answer will count; an excluded rater's does not.
        """
        while True:
            best, is_final = self._find_best(rater_id)
            if is_final or len(self._rows) < self._n_searched:
                break
            self._search_further()
        if best is None:
            return None
        unit_id = best[-1]
        self._n_taken[unit_id] += counts
        self._serve_numbers[unit_id] = next(self._next_serve_number)
        return unit_id

    def _find_best(self, rater_id: int) -> tuple[tuple[int, ...] | None, bool]:
        """Return the best of the units searched, and whether no other can be better."""
        best: tuple[int, ...] | None = None
        for n_answers, last_served, position, unit_id, n_pending in self._rows:
            if (rater_id, unit_id) in self._seen:
                continue
            n_at_unit = n_pending + self._n_taken[unit_id]
            serve_number = self._serve_numbers.get(unit_id)
            priority = (n_answers + n_at_unit, serve_number or last_served, position, unit_id)
            if priority[0] < self._parameters["ratings"] and (best is None or priority < best):
                best = priority
            # Rows come by answers: after the first that nobody is at, none can be better.
            if not n_at_unit and serve_number is None:
                return best, True
        return best, False

    def _search_further(self) -> None:
        self._n_searched = 8 * self._n_searched or _FIRST_SEARCH
        rows = self._c.execute(_LEAST_ANSWERED, {**self._parameters, "n_units": self._n_searched})
        self._rows = [tuple(row) for row in rows]
        if self._rows:
            parameters = {
                "rater_ids": pad_to_power_of_two(self._rater_ids),
                "most_answers": self._rows[-1][0],
                "ratings": self._parameters["ratings"],
            }
            self._seen = {(rater, unit) for rater, unit in self._c.execute(_SEEN, parameters)}


def _next_of_pool(c: Connection, rater_id: int, task: NextUnit) -> int | None:
    """Return the next unit of a task's pool that a rater has not been shown in its attempt."""
    seen = exists().where(
        serves.c.rater == rater_id, serves.c.unit == units.c.id, serves.c.attempt == task.attempt
    )
    query = select(units.c.id).where(units.c.pool == task.pool, ~seen).order_by(units.c.position)
    unit_ids = list(c.execute(query).scalars())
    if not unit_ids:
        return None
    return secrets.choice(unit_ids) if task.is_shuffled else unit_ids[0]
