"""Tokens by which programs act for an account; each is shown once."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from ...storage.database import Database
from ...web.errors import NotFoundError, RefusedError
from ..audit_log import write_audit
from ..tables import accounts, teams, tokens
from ..transactions import fetch_all, transaction
from .account import ACCOUNT_COLUMNS, Account
from .secret_codes import hash_token

#: The most tokens that an account may have at a time.
MAX_TOKENS = 20
#: The uses of a token are written down at most this often, in seconds.
_USE_INTERVAL = 60


@dataclass(frozen=True)
class ApiTokens:
    """The tokens of a site's accounts; `clock` returns seconds since 1970."""

    database: Database
    clock: Callable[[], float]

    @transaction
    def create(self, connection: Connection, account: Account, label: str) -> str:
        """Return a new token; raise `RefusedError` if the account has too many."""
        is_active = (tokens.c.account == account.id, tokens.c.revoked_at.is_(None))
        if connection.execute(select(func.count()).where(*is_active)).scalar_one() >= MAX_TOKENS:
            raise RefusedError(f"You can have at most {MAX_TOKENS} tokens. Revoke one first.")
        token, now, label = f"captau_{secrets.token_urlsafe(24)}", self.clock(), label[:64]
        row = {"account": account.id, "hash": hash_token(token), "label": label, "created_at": now}
        statement = insert(tokens).values(row).returning(tokens.c.id)
        token_id = connection.execute(statement).scalar_one()
        write_audit(connection, now, account.id, "new token", f"token {token_id}", label)
        return token

    @transaction
    def revoke(self, connection: Connection, account: Account, token_id: int) -> None:
        """End a token; raise `NotFoundError` if the account has no such token."""
        now = self.clock()
        is_own = (tokens.c.id == token_id, tokens.c.account == account.id)
        statement = update(tokens).where(*is_own, tokens.c.revoked_at.is_(None))
        revoked = statement.values(revoked_at=now).returning(tokens.c.id)
        if connection.execute(revoked).first() is None:
            raise NotFoundError
        write_audit(connection, now, account.id, "revoke token", f"token {token_id}")

    @transaction
    def list_active(self, connection: Connection, account: Account) -> list[dict[str, Any]]:
        """Return the account's tokens that are not revoked: id, label, created_at, used_at."""
        columns = (tokens.c[name] for name in ("id", "label", "created_at", "used_at"))
        is_active = (tokens.c.account == account.id, tokens.c.revoked_at.is_(None))
        return fetch_all(connection, select(*columns).where(*is_active).order_by(tokens.c.id))

    @transaction
    def find_account(self, connection: Connection, token: str) -> Account | None:
        """Return the account of a token; None if the token is invalid or the account blocked."""
        now = self.clock()
        query = (
            select(tokens.c.id, tokens.c.used_at, *ACCOUNT_COLUMNS)
            .join(accounts, accounts.c.id == tokens.c.account)
            .join(teams, teams.c.id == accounts.c.team)
            .where(
                tokens.c.hash == hash_token(token),
                tokens.c.revoked_at.is_(None),
                accounts.c.blocked_at.is_(None),
            )
        )
        row = connection.execute(query).one_or_none()
        if row is None:
            return None
        if row.used_at is None or now - row.used_at > _USE_INTERVAL:
            connection.execute(update(tokens).where(tokens.c.id == row[0]).values(used_at=now))
        return Account(*row[2:])
