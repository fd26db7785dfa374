"""Transactions of a challenge site's database, and the log of who did what; the dashboard shows it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from sqlalchemy import Connection, Select, insert, select

from ..storage.database import Database
from .tables import audit


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


def write_audit(
    connection: Connection, at: float, account: int | None, action: str, target: str, why: str = ""
) -> None:
    """Add an entry to the log.

    Args:
        connection: of the transaction that makes the change.
        at: seconds since 1970.
        account: None for the admin and for visitors who are not signed in.
        action, target: such as `sign in` and `account 3`.
        why: the reason, or details; cut to 500 characters.
    """
    entry = {"at": at, "account": account, "action": action, "what": target, "why": why[:500]}
    connection.execute(insert(audit).values(entry))


def read_audit(connection: Connection, limit: int) -> list[dict[str, Any]]:
    """Return the last `limit` entries, newest first, as rows of the table `audit`."""
    return fetch_all(connection, select(audit).order_by(audit.c.id.desc()).limit(limit))
