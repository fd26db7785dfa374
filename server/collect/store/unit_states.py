"""The state in which raters leave a unit for those who check it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, bindparam, select

from .statements import pad_to_power_of_two
from .tables import answers, raters, serves

_ANSWERS = (
    select(serves.c.unit, answers.c.serve, answers.c.item, answers.c.value, answers.c.at)
    .join(serves, serves.c.id == answers.c.serve)
    .join(raters, raters.c.id == answers.c.rater)
    .where(
        serves.c.unit.in_(bindparam("unit_ids", expanding=True)),
        raters.c.excluded_at.is_(None),
    )
    .order_by(answers.c.id)
)


@dataclass
class UnitState:
    """The state of a unit; answers of excluded raters have no part in it.

    Attributes:
        values: the last answer to each item, by the item's number.
        answered_at: when the last answer came.
        serve_ids: the servings that were answered, one for each rater.
    """

    values: dict[int, dict[str, Any]] = field(default_factory=dict[int, dict[str, Any]])
    answered_at: float = 0.0
    serve_ids: set[int] = field(default_factory=set[int])


def load_unit_states(c: Connection, unit_ids: Iterable[int]) -> dict[int, UnitState]:
    """Return the states of units, by number; a unit without answers has an empty one."""
    states = {unit_id: UnitState() for unit_id in unit_ids}
    if not states:
        return {}
    for row in c.execute(_ANSWERS, {"unit_ids": pad_to_power_of_two(states)}):
        state = states[row.unit]
        state.values[row.item] = row.value
        state.answered_at = row.at
        state.serve_ids.add(row.serve)
    return states
