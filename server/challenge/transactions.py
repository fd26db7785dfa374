"""Decorators by which a method runs as one transaction of its object's database."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from sqlalchemy import Connection, Select

from ..storage.database import Database


class _HasDatabase(Protocol):
    @property
    def database(self) -> Database: ...


Owner = TypeVar("Owner", bound=_HasDatabase)
Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")
Method = Callable[Concatenate[Owner, Connection, Arguments], Value]


def transaction(
    method: Method[Owner, Arguments, Value],
) -> Callable[Concatenate[Owner, Arguments], Coroutine[Any, Any, Value]]:
    """Make a method that receives a connection a coroutine that is done once it is committed."""

    @wraps(method)
    async def run(owner: Owner, *args: Arguments.args, **options: Arguments.kwargs) -> Value:
        return await owner.database.run(lambda c: method(owner, c, *args, **options))

    return run


def blocking_transaction(
    method: Method[Owner, Arguments, Value],
) -> Callable[Concatenate[Owner, Arguments], Value]:
    """Do the same for threads other than the event loop's: the method returns once it is committed."""

    @wraps(method)
    def run(owner: Owner, *args: Arguments.args, **options: Arguments.kwargs) -> Value:
        return owner.database.run_blocking(lambda c: method(owner, c, *args, **options))

    return run


def fetch_all(connection: Connection, query: Select[*tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Return the rows of a query as dictionaries."""
    return [dict(row) for row in connection.execute(query).mappings()]
