"""The clock whose times a site stores, and the way back where it ran ahead."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Column, Connection, Float, MetaData, Table, func, select, update

#: Clocks of machines differ by moments. From an hour on, the database's times are taken for wrong.
_LONG_LEAD = 3600.0


class Clock:
    """Seconds since 1970 that never run backwards, even if the machine's clock is put back.

    Args:
        earliest: the latest time that the database holds.
    """

    def __init__(self, earliest: float = 0.0) -> None:
        now = time.time()
        self._lead = max(earliest - now, 0.0)
        self._offset = now + self._lead - time.monotonic()

    def __call__(self) -> float:
        return time.monotonic() + self._offset

    @property
    def warning(self) -> str:
        """Return what whoever runs the site has to know if it is far ahead of the machine's clock; else nothing."""
        if self._lead < _LONG_LEAD:
            return ""

        return (
            f"The latest time in the database is {_describe_lead(self._lead)} ahead of this machine's clock, and the site's "
            f"clock goes on from there: what ends before then is over. If the machine's clock is right, stop the site, and "
            f"start it once with reset_times=true."
        )


def _describe_lead(seconds: float) -> str:
    n_hours = round(seconds / 3600)
    if n_hours >= 48:
        return f"{round(n_hours / 24):,} days"
    return "an hour" if n_hours == 1 else f"{n_hours} hours"


def latest_time(connection: Connection, tables: MetaData) -> float:
    """Return the latest time that a database holds, in seconds since 1970; 0 if it holds none."""
    latest = 0.0
    for _, column in _time_columns(tables):
        stored = connection.execute(select(func.max(column))).scalar()
        latest = max(latest, stored or 0.0)

    return latest


def reset_times(connection: Connection, tables: MetaData) -> str:
    """Set all times that are later than the machine's clock to its time; return a line that says how many there were."""
    now = time.time()
    n_times = 0
    for table, column in _time_columns(tables):
        statement = update(table).where(column > now).values({column: now})
        n_times += connection.execute(statement).rowcount

    day = datetime.fromtimestamp(now, UTC)
    return (
        f"stored times that were later than now and are now {day:%Y-%m-%d %H:%M} UTC: {n_times:,}"
    )


def _time_columns(tables: MetaData) -> Iterator[tuple[Table, Column[Any]]]:
    """Yield each column of times with its table; their names are `at`, or end in `_at`."""
    for table in tables.sorted_tables:
        for column in table.columns:
            if isinstance(column.type, Float) and column.name.split("_")[-1] == "at":
                yield table, column
