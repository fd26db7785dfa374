"""Parts of SQL statements that several modules of the store use.

Statements that every answer needs are made once, at import: making one takes longer than SQLite takes to run
it. Those with an `in_` serve all raters who ask at once, since each is a round trip to PostgreSQL. Their
parameters have names that no column has.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from sqlalchemy import Connection, bindparam, func, insert, select, update

from .tables import events, raters, serves, units

T = TypeVar("T")

RATER_ID, UNIT_ID, KEY = bindparam("rater_id"), bindparam("unit_id"), bindparam("serve_key")
RATER_IDS = bindparam("rater_ids", expanding=True)
#: The columns of `records.Rater`, in its order.
RATER_COLUMNS = (raters.c.id, raters.c.nickname, raters.c.points, raters.c.given, raters.c.state)
UPDATE_RATER = update(raters).where(raters.c.id == RATER_ID)


def pad_to_power_of_two(values: Iterable[T]) -> list[T]:
    """Repeat the last value up to a power of two, so that few different statements are prepared."""
    padded = list(values)
    return padded + padded[-1:] * ((1 << (len(padded) - 1).bit_length()) - len(padded))


def log_event(c: Connection, now: float, action: str, rater_id: int | None, reason: str) -> None:
    """Record an action of the admin; `rater_id` is None where it concerns no rater."""
    c.execute(insert(events).values(at=now, action=action, rater=rater_id, why=reason))


def recount_units(c: Connection, unit_ids: Iterable[int]) -> None:
    """Count the answers of units again; those of excluded raters do not count."""
    for unit_id in set(unit_ids):
        n_answers = c.execute(
            select(func.count(func.distinct(serves.c.id)))
            .join(raters, raters.c.id == serves.c.rater)
            .join(units, units.c.id == serves.c.unit)
            .where(
                serves.c.unit == unit_id,
                units.c.pool == "main",
                serves.c.answered_at.is_not(None),
                raters.c.excluded_at.is_(None),
            )
        ).scalar_one()
        c.execute(update(units).where(units.c.id == unit_id).values(given=n_answers))
