"""The log of who did what on a challenge site; the dashboard shows it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Select, insert, select

from .tables import audit


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
