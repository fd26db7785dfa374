"""The rows of tables as plain data, one by one or in groups."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pandas as pd


def make_frame(rows: Iterable[Any], columns: Sequence[str]) -> pd.DataFrame:
    """Make a table of rows, dicts or tuples, with these columns; cells that a row lacks are empty."""
    return pd.DataFrame(list(rows), columns=pd.Index(columns))


def records_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table, each a dict of its cells by column."""
    records: Any = frame.to_dict("records")
    return records


def records_by(frame: pd.DataFrame, column: str) -> dict[Any, dict[str, Any]]:
    """Return the rows of a table by their cell in a column; the last of several rows that are equal there."""
    return {row[column]: row for row in records_of(frame)}


def groups_of(frame: pd.DataFrame, *columns: str) -> Iterator[tuple[Any, pd.DataFrame]]:
    """Yield the rows that are equal in a column, or in several, with that value, or those; rows without one drop out.

    Groups stand in the order in which they first appear.
    """
    groups: Any = frame.groupby(columns[0] if len(columns) == 1 else list(columns), sort=False)
    return iter(groups)


def mean_of(values: Iterable[float]) -> float | None:
    """Return the mean of those values that are numbers; None where there is none."""
    numbers = [float(value) for value in values if not math.isnan(value)]
    return math.fsum(numbers) / len(numbers) if numbers else None
