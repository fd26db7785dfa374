"""Assignment of units to raters: second answers before first ones, practice and attention items in between."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    bindparam,
    exists,
    func,
    insert,
    literal,
    select,
    union_all,
    update,
)

from ...storage.database import transaction
from ...web.errors import NotFoundError
from ..forms.course import NextUnit
from ..items.units import Stage, StudyUnit
from .study_database import (
    KEY,
    RATER_COLUMNS,
    RATER_ID,
    UNIT_ID,
    UPDATE_RATER,
    EndReason,
    Rater,
    ShownUnit,
    StudyDatabase,
)
from .tables import answers, raters, serves, units

#: The seconds for which a unit stays reserved for a rater who does not answer.
RESERVATION_SECONDS = 600

#: A participant, with the unit that waits for their answer.
_SERVE_COLUMNS = (serves.c.key, serves.c.unit, serves.c.phase, serves.c.order, serves.c.served_at)
_RATER_AND_SERVE = (
    select(*RATER_COLUMNS, *_SERVE_COLUMNS)
    .outerjoin(serves, (serves.c.rater == raters.c.id) & serves.c.answered_at.is_(None))
    .where(raters.c.id == RATER_ID)
)
_IS_SERVED_UNIT = serves.c.unit == units.c.id
#: Units that need further answers, and that a rater has not been shown.
_IS_OPEN = (
    units.c.pool == "main",
    units.c.given < bindparam("ratings"),
    ~exists().where(serves.c.rater == RATER_ID, _IS_SERVED_UNIT),
)
_UNSEEN_OPEN = select(units.c.id, units.c.given).where(*_IS_OPEN).limit(bindparam("n_units"))
#: Other raters who are at a unit.
_IS_PENDING = (
    serves.c.answered_at.is_(None),
    serves.c.served_at > bindparam("reserved_since"),
    serves.c.rater.in_(select(raters.c.id).where(raters.c.excluded_at.is_(None))),
)
_PENDING = (
    select(serves.c.unit, func.count().label("n_pending"))
    .where(*_IS_PENDING)
    .group_by(serves.c.unit)
    .subquery("pending")
)
#: By order of the last three, units come next among those with as many answers.
_UNIT_COLUMNS = (units.c.given, units.c.last_served, units.c.position, units.c.id)


def _first_units(condition: ColumnElement[bool]) -> Select[Any]:
    """Select the first open units of a condition that nobody is at."""
    is_idle = ~exists().where(_IS_SERVED_UNIT, *_IS_PENDING)
    first_units = (
        select(*_UNIT_COLUMNS, literal(0).label("n_pending"))
        .where(*_IS_OPEN, condition, is_idle)
        .order_by(*_UNIT_COLUMNS)
        .limit(bindparam("n_units"))
        .subquery()
    )

    return select(*first_units.c)


#: The first open units with one answer, with none and with more, each by the index; and all that raters are at.
_CANDIDATES = union_all(
    *map(_first_units, (units.c.given == 1, units.c.given == 0, units.c.given > 1)),
    select(*_UNIT_COLUMNS, _PENDING.c.n_pending)
    .join(_PENDING, _PENDING.c.unit == units.c.id)
    .where(*_IS_OPEN),
)
_UPDATE_LAST_SERVED = (
    update(units).where(units.c.id == UNIT_ID).values(last_served=bindparam("serve_id"))
)
_SERVE_AGAIN = (
    update(serves)
    .where(serves.c.key == KEY)
    .values(phase=bindparam("new_phase"), served_at=bindparam("now"))
)
_SHOWN_UNIT = select(serves.c.unit).where(serves.c.key == KEY, serves.c.rater == RATER_ID)
_UNIT_ANSWERS = (
    select(answers.c.serve, answers.c.item, answers.c.value, answers.c.at)
    .join(serves, serves.c.id == answers.c.serve)
    .join(raters, raters.c.id == answers.c.rater)
    .where(serves.c.unit == UNIT_ID, raters.c.excluded_at.is_(None))
    .order_by(answers.c.id)
)


class _Serve(NamedTuple):
    """A unit that was shown to a rater, as `serves` has it."""

    key: str
    unit: int
    phase: str
    order: list[int]
    served_at: float


class UnitRow(NamedTuple):
    """A unit that needs answers, as `units` has it, with the number of raters who are at it."""

    n_answers: int
    last_served: int
    position: int
    unit_id: int
    n_pending: int

    @property
    def priority(self) -> tuple[int, ...]:
        """Return what units are ordered by: those with one answer come first, then those with none."""
        n_answers = self.n_answers + self.n_pending
        if n_answers == 1:
            rank = 0
        elif n_answers == 0:
            rank = 1
        else:
            rank = 2

        return (rank, n_answers, self.last_served, self.position, self.unit_id)


@dataclass
class UnitState:
    """The state in which raters leave a unit for those who check it; excluded raters have no part in it.

    Attributes:
        values: the last answer to each item, by the item's number.
        answered_at: when the last answer came.
        serve_ids: the servings that were answered, one for each rater.
    """

    values: dict[int, dict[str, Any]] = field(default_factory=dict[int, dict[str, Any]])
    answered_at: float = 0.0
    serve_ids: set[int] = field(default_factory=set[int])


def load_unit_state(c: Connection, unit: StudyUnit) -> UnitState:
    """Return the state of a unit; it is empty where raters do not check each other."""
    state = UnitState()
    if unit.stages:
        for row in c.execute(_UNIT_ANSWERS, {"unit_id": unit.id}):
            state.values[row.item] = row.value
            state.answered_at = row.at
            state.serve_ids.add(row.serve)

    return state


class Assignment:
    """The choice of the unit that each rater answers next."""

    def __init__(self, study: StudyDatabase) -> None:
        self.database = study.database
        self._data = study
        self._study = study.study
        self._course = study.form.course
        self._has_stages = any(unit.stages for unit in study.units.values())

    async def next_unit(self, rater_id: int) -> ShownUnit | Rater:
        """Return the unit that a rater answers now, the same until they do; the rater if there is none.

        Raises:
            NotFoundError: if there is no such participant.
        """
        return await self._next_unit(rater_id, self._data.clock())

    @transaction
    def _next_unit(self, c: Connection, rater_id: int, now: float) -> ShownUnit | Rater:
        row = c.execute(_RATER_AND_SERVE, {"rater_id": rater_id}).first()
        if row is None:
            raise NotFoundError

        rater = Rater(*row[: len(RATER_COLUMNS)])
        # A page that is loaded again shows the same unit.
        if row.key is not None:
            serve = _Serve(*row[len(RATER_COLUMNS) :])
        else:
            choice = self._choose(c, rater)
            if choice is None:
                return rater
            unit_id, task = choice
            serve = self._serve(c, rater, unit_id, task, now)

        unit = self._data.units[serve.unit]
        state = load_unit_state(c, unit)
        if state.answered_at > serve.served_at:  # others came first; the rater sees what they left
            stage = min(len(state.serve_ids), len(unit.stages) - 1)
            phase = unit.stages[stage].phase
            serve = serve._replace(phase=phase, served_at=now)
            c.execute(_SERVE_AGAIN, {"serve_key": serve.key, "new_phase": phase, "now": now})

        items = tuple(unit.items[k] for k in serve.order)
        previous: tuple[dict[str, Any], ...] = ()
        if state.values:
            previous = tuple(state.values[item.id] for item in items)

        return ShownUnit(
            key=serve.key,
            phase=serve.phase,
            unit=unit,
            items=items,
            seconds_left=max(0.0, serve.served_at + self._course.wait - now),
            rater=rater,
            previous=previous,
        )

    async def end_reason(self, rater: Rater) -> EndReason:
        """Return why a rater has nothing to answer now."""
        if self._course.next_task(rater.state) is None:
            return EndReason.OUT

        may_answer = await self.database.run(lambda c: self._may_answer(c, rater))
        return EndReason.RESERVED if may_answer else EndReason.THROUGH

    @transaction
    def find_unit(self, c: Connection, rater_id: int, key: str) -> StudyUnit:
        """Return a unit that was shown to a rater.

        Raises:
            NotFoundError: if it was not.
        """
        row = c.execute(_SHOWN_UNIT, {"serve_key": key, "rater_id": rater_id}).first()
        if row is None:
            raise NotFoundError

        return self._data.units[row.unit]

    def _serve(
        self, c: Connection, rater: Rater, unit_id: int, task: NextUnit, now: float
    ) -> _Serve:
        """Show a unit to a rater, its captions in a drawn order."""
        order = list(range(len(self._data.units[unit_id].items)))
        # The order is drawn for each rater, so that no system's caption always comes first.
        secrets.SystemRandom().shuffle(order)

        serve = _Serve(secrets.token_urlsafe(12), unit_id, task.phase, order, now)
        row = {**serve._asdict(), "rater": rater.id, "attempt": task.attempt}
        serve_id = c.execute(insert(serves).values(row).returning(serves.c.id)).scalar_one()
        c.execute(_UPDATE_LAST_SERVED, {"unit_id": unit_id, "serve_id": serve_id})

        state = self._course.start_unit(rater.state, task, serve.key, now)
        if state != rater.state:
            c.execute(UPDATE_RATER, {"rater_id": rater.id, "state": state})

        return serve

    def _choose(self, c: Connection, rater: Rater) -> tuple[int, NextUnit] | None:
        """Return a unit for a rater and its task; None if there is nothing for them now."""
        task = self._course.next_task(rater.state)
        if task is None:
            return None

        if task.pool != "main":
            # Nobody practises if the study needs no answer of theirs.
            if not self._may_answer(c, rater):
                return None
            unit_id = find_next_of_pool(c, rater.id, task)
            return None if unit_id is None else (unit_id, task)

        if self._study.per_rater is not None and rater.n_answers >= self._study.per_rater:
            return None

        if task.allows_attention and self._is_attention_due(c, rater):
            attention = replace(task, phase="attention", pool="attention")
            unit_id = find_next_of_pool(c, rater.id, attention)
            if unit_id is not None:
                return unit_id, attention

        row = self._find_least_answered(c, rater)
        if row is None:
            return None

        stages = self._data.units[row.unit_id].stages
        if stages:
            task = replace(task, phase=stages[row.n_answers].phase)

        return row.unit_id, task

    def _find_least_answered(self, c: Connection, rater: Rater) -> UnitRow | None:
        """Return the unit that comes next: second answers before first ones, then the fewest; pending ones count."""
        parameters = {
            **self._open_parameters(rater),
            # A rater who has not answered for so long may have gone.
            "reserved_since": self._data.clock() - RESERVATION_SECONDS,
        }
        free_rows: list[UnitRow] = []
        for cells in c.execute(_CANDIDATES, parameters):
            row = UnitRow(*cells)
            if self._is_free(rater, row):
                free_rows.append(row)

        return min(free_rows, key=lambda row: row.priority, default=None)

    def _is_free(self, rater: Rater, row: UnitRow) -> bool:
        stages = self._data.units[row.unit_id].stages
        if stages:
            # The next one checks what this one says, so that they cannot be at it together.
            next_stage = stages[row.n_answers : row.n_answers + 1]
            return row.n_pending == 0 and _needs(next_stage, rater)

        return row.n_answers + row.n_pending < self._study.ratings

    def _open_parameters(self, rater: Rater) -> dict[str, int]:
        """Return the parameters of a search for open units: without stages, the first one will do."""
        n_units = len(self._data.units) if self._has_stages else 1
        return {"rater_id": rater.id, "ratings": self._study.ratings, "n_units": n_units}

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

        for unit_id, n_answers in c.execute(_UNSEEN_OPEN, self._open_parameters(rater)):
            stages = self._data.units[unit_id].stages
            if not stages or _needs(stages[n_answers:], rater):
                return True

        return False


def _needs(stages: Sequence[Stage], rater: Rater) -> bool:
    """Return whether one of the stages is for a rater."""
    return any(stage.annotator in ("", rater.nickname) for stage in stages)


def find_next_of_pool(c: Connection, rater_id: int, task: NextUnit) -> int | None:
    """Return the next unit of a task's pool that a rater has not been shown in its attempt."""
    is_seen = exists().where(
        serves.c.rater == rater_id, serves.c.unit == units.c.id, serves.c.attempt == task.attempt
    )

    query = select(units.c.id).where(units.c.pool == task.pool, ~is_seen).order_by(units.c.position)

    unit_ids = list(c.execute(query).scalars())
    if not unit_ids:
        return None
    return secrets.choice(unit_ids) if task.is_shuffled else unit_ids[0]
