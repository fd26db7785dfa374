"""Tokens by which programs act for an account; each is shown once."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from ...storage.database import Database
from ...web.errors import NotFoundError, RefusedError
from ..audit_log import write_audit
from ..tables import accounts, teams, tokens
from .account import ACCOUNT_COLUMNS, Account
from .secret_codes import hash_token

#: The most tokens that an account may have at a time.
MAX_TOKENS = 20
#: The uses of a token are written down at most this often, in seconds.
_USE_INTERVAL = 60


class ApiTokens:
    """The tokens of a site's accounts.

    Args:
        database: of the site.
        clock: returns seconds since 1970.
    """

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database, self._clock = database, clock

    async def create(self, account: Account, label: str) -> str:
        """Return a new token.

        Raises:
            RefusedError: if the account has too many.
        """
        token, now, label = f"captau_{secrets.token_urlsafe(24)}", self._clock(), label[:64]

        def insert_token(connection: Connection) -> None:
            count = select(func.count()).where(
                tokens.c.account == account.id, tokens.c.revoked_at.is_(None)
            )
            if connection.execute(count).scalar_one() >= MAX_TOKENS:
                raise RefusedError(f"At most {MAX_TOKENS} tokens. Revoke one first.")
            row = {"account": account.id, "hash": hash_token(token), "label": label}
            statement = insert(tokens).values(**row, created_at=now).returning(tokens.c.id)
            token_id = connection.execute(statement).scalar_one()
            write_audit(connection, now, account.id, "new token", f"token {token_id}", label)

        await self._database.run(insert_token)
        return token

    async def revoke(self, account: Account, token_id: int) -> None:
        """End a token.

        Raises:
            NotFoundError: if the account has no such token.
        """
        now = self._clock()

        def revoke_token(connection: Connection) -> None:
            revoked = connection.execute(
                update(tokens)
                .where(
                    tokens.c.id == token_id,
                    tokens.c.account == account.id,
                    tokens.c.revoked_at.is_(None),
                )
                .values(revoked_at=now)
                .returning(tokens.c.id)
            )
            if revoked.first() is None:
                raise NotFoundError
            write_audit(connection, now, account.id, "revoke token", f"token {token_id}")

        await self._database.run(revoke_token)

    async def list_active(self, account: Account) -> list[dict[str, Any]]:
        """Return the account's tokens that are not revoked: id, label, created_at, used_at."""
        query = (
            select(tokens.c.id, tokens.c.label, tokens.c.created_at, tokens.c.used_at)
            .where(tokens.c.account == account.id, tokens.c.revoked_at.is_(None))
            .order_by(tokens.c.id)
        )
        return await self._database.run(lambda c: [dict(r) for r in c.execute(query).mappings()])

    async def find_account(self, token: str) -> Account | None:
        """Return the account of a token; None if the token is invalid or the account blocked."""
        now = self._clock()
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

        def find(connection: Connection) -> Account | None:
            row = connection.execute(query).one_or_none()
            if row is None:
                return None
            if row.used_at is None or now - row.used_at > _USE_INTERVAL:
                connection.execute(update(tokens).where(tokens.c.id == row[0]).values(used_at=now))
            return Account(*row[2:])

        return await self._database.run(find)
