"""The rows of a JSON file of one of the usual shapes: a list, lines, a list inside an object, or what pandas and wandb write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import InputError
from .json_source import JsonSource


def read_json_rows(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the rows of a file, each with its place for messages.

    Raises:
        InputError: where the file is malformed, or an object in it has no list of rows.
    """
    members: dict[str, Any] = {}
    n_rows = 0
    key_line = 0
    for kind, line, value in JsonSource(path).read():
        if kind == "line":
            yield f"{path}:{line}", value
        elif kind == "entry":
            yield f"{path}: entry {n_rows}", value
        elif kind == "element":
            key, row = value
            yield f"{path}:{line}: {key} {n_rows}", row
        elif kind == "member":
            key_line = key_line or line
            members[value[0]] = value[1]
            continue
        elif kind == "value":
            raise InputError(f"{path}:{line}: an object is expected, not {type(value).__name__}")
        else:
            continue  # the key of a list, whose elements follow
        n_rows += 1

    if n_rows or not members:
        return

    rows = make_rows_of_columns(members)
    if rows is None:
        # JSON lines of one line.
        yield f"{path}:{key_line}", members
        return
    for number, row in enumerate(rows):
        yield f"{path}: row {number}", row


def make_rows_of_columns(members: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the rows of an object that holds columns; None where it holds none.

    pandas writes `{"columns": […], "data": [[…], …]}` (`orient="split"`, as wandb does), or an object of each column by
    the rows' names (its usual orient); others write a list of each column.
    """
    names = members.get("columns")
    data = members.get("data")
    if isinstance(names, list) and isinstance(data, list):
        are_names = all(isinstance(name, str) for name in names)
        has_cells = all(isinstance(row, list) and len(row) == len(names) for row in data)
        if are_names and has_cells:
            return [dict(zip(names, row, strict=True)) for row in data]

    if len(members) < 2:
        return None
    columns = list(members.values())
    keys = _keys_of(columns[0])
    if not keys:
        return None
    # Columns have the same rows, in the same order.
    for column in columns:
        if type(column) is not type(columns[0]) or _keys_of(column) != keys:
            return None

    rows: list[dict[str, Any]] = []
    for key in keys:
        rows.append({name: column[key] for name, column in members.items()})
    return rows


def _keys_of(column: Any) -> list[Any]:
    """Return the names or numbers of a column's rows; nothing where it is no column."""
    if isinstance(column, dict):
        return list(column)

    return list(range(len(column))) if isinstance(column, list) else []
