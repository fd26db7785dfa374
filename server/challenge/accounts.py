"""Accounts of a challenge site: sign-up, sign-in, passwords, recovery codes and tokens for programs.

There is no e-mail. Passwords are hashed by Argon2id; recovery codes replace a forgotten one.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select, update

from ...datasets.caption_texts import collapse_blanks
from ..storage.database import Database, transaction
from ..texts import name_key
from ..web.errors import NotFoundError, RefusedError
from ..web.passwords import check_password, hash_new_password, hash_password
from .audit_log import fetch_all, write_audit
from .members import (
    ACCOUNT_COLUMNS,
    Account,
    Member,
    check_name,
    create_team,
    end_sessions,
    find_invited_team,
    find_look_alike,
    find_member,
    hash_code,
    hash_token,
    load_member,
    make_code,
)
from .tables import accounts, recoveries, teams, tokens

#: The number of recovery codes of an account.
RECOVERY_CODES = 8


@dataclass(frozen=True)
class Accounts:
    """The accounts of a site; `clock` returns seconds since 1970.

    Passwords and names are as typed; `address` is the client's, which the log keeps of failed attempts. A
    name, password or code that is not accepted raises `RefusedError`.
    """

    database: Database
    clock: Callable[[], float]
    #: An unknown name's password is compared with this, so that it takes as long as a known one's.
    _dummy_hash: str = field(default_factory=lambda: hash_password(secrets.token_urlsafe(16)))

    async def sign_up(
        self, name: str, password: str, repeated: str, team_name: str, invitation: str
    ) -> tuple[Member, list[str]]:
        """Create an account and return it with its recovery codes.

        Args:
            name: to sign in with.
            password, repeated: must be equal.
            team_name: of the team to create; empty for the account's name.
            invitation: the code of a team to join instead; may be empty.
        """
        name = collapse_blanks(name)
        check_name("Your name", name)
        hashed = await hash_new_password(password, repeated)
        codes = _make_codes()
        team_name = collapse_blanks(team_name) or name

        return await self._create(name, hashed, codes, team_name, invitation), codes

    @transaction
    def _create(
        self,
        connection: Connection,
        name: str,
        hashed: str,
        codes: list[str],
        team_name: str,
        code: str,
    ) -> Member:
        now = self.clock()
        if find_look_alike(connection, accounts, name) is not None:
            raise RefusedError("That name is taken. Choose another.")

        if code:
            team = find_invited_team(connection, code)
        else:
            team = create_team(connection, team_name, now)

        account_id = _insert_account(connection, now, name=name, password=hashed, team=team)
        _insert_codes(connection, account_id, codes)

        return load_member(connection, account_id)

    async def sign_in(self, name: str, password: str, address: str) -> Member | None:
        """Return the account of a name and password; None if they match no account."""
        row = await self._find_password(name)
        hashed = row.password if row else self._dummy_hash
        is_right = await check_password(hashed, password)
        if row is None or not is_right:
            account_id = None if row is None else row.id
            return await self._reject(account_id, "sign in", address)

        return await self._begin_session(row.id, address)

    @transaction
    def _find_password(self, connection: Connection, name: str) -> Row[Any, Any] | None:
        columns = accounts.c.id, accounts.c.password
        has_name = accounts.c.name_key == name_key(collapse_blanks(name))

        return connection.execute(select(*columns).where(has_name)).first()

    async def _begin_session(self, account_id: int, address: str) -> Member:
        """Return an account that signs in; raise `RefusedError` if it is blocked."""
        member = await self.find(account_id)
        if member is None:
            await self._reject(account_id, "sign in", address)
            raise RefusedError("This account is blocked. Ask the people who run the site.")

        await self._log_sign_in(account_id)
        return member

    @transaction
    def _log_sign_in(self, connection: Connection, account_id: int) -> None:
        write_audit(connection, self.clock(), account_id, "sign in", f"account {account_id}")

    @transaction
    def _reject(
        self, connection: Connection, account_id: int | None, action: str, address: str
    ) -> None:
        """Log a failed attempt, without the typed name: people type passwords there by mistake."""
        target = "no account" if account_id is None else f"account {account_id}"
        write_audit(connection, self.clock(), None, f"failed {action}", target, f"from {address}")

    @transaction
    def find(self, connection: Connection, account_id: int) -> Member | None:
        """Return an account; None if it is blocked or does not exist."""
        return find_member(connection, accounts.c.id == account_id)

    async def recover(
        self, name: str, code: str, password: str, repeated: str, address: str
    ) -> Member | None:
        """Set a new password by a recovery code, which is used up; None if the code is wrong."""
        hashed = await hash_new_password(password, repeated)
        # Only now, so that no code is used up for a password that is refused.
        account_id, member = await self._use_code(name, code, hashed)
        return member or await self._reject(account_id, "recover", address)

    @transaction
    def _use_code(
        self, connection: Connection, name: str, code: str, hashed: str
    ) -> tuple[int | None, Member | None]:
        """Return the account of a name, and the same if the code was valid."""
        member = find_member(connection, accounts.c.name_key == name_key(collapse_blanks(name)))
        if member is None:
            return None, None

        now = self.clock()
        is_code = (recoveries.c.account == member.id, recoveries.c.hash == hash_code(code))
        # A code is used up by the same statement that looks for it, so that it opens once.
        statement = update(recoveries).where(*is_code, recoveries.c.used_at.is_(None))
        if not connection.execute(statement.values(used_at=now)).rowcount:
            return member.id, None

        write_audit(connection, now, member.id, "recover", f"account {member.id}")
        return member.id, _set_password(connection, member.id, hashed, now)

    async def change_password(
        self, member: Member, current: str, password: str, repeated: str
    ) -> Member:
        """Set another password, and end all other sessions and all tokens."""
        # Whoever finds a browser that is signed in cannot take the account over.
        await self._confirm_password(member, current)
        return await self._change(member, await hash_new_password(password, repeated))

    @transaction
    def _change(self, connection: Connection, member: Member, hashed: str) -> Member:
        now = self.clock()
        write_audit(connection, now, member.id, "password", f"account {member.id}")
        return _set_password(connection, member.id, hashed, now)

    async def renew_recovery_codes(self, member: Member, password: str) -> list[str]:
        """Replace the recovery codes and return the new ones."""
        await self._confirm_password(member, password)
        return await self._replace_codes(member, _make_codes())

    @transaction
    def _replace_codes(self, connection: Connection, member: Member, codes: list[str]) -> list[str]:
        now = self.clock()
        is_unused = _unused_codes(member)
        connection.execute(update(recoveries).where(*is_unused).values(used_at=now))

        _insert_codes(connection, member.id, codes)
        write_audit(connection, now, member.id, "new codes", f"account {member.id}")

        return codes

    @transaction
    def count_recovery_codes(self, connection: Connection, member: Member) -> int:
        """Return the number of recovery codes that are not used yet."""
        return connection.execute(select(func.count()).where(*_unused_codes(member))).scalar_one()

    @transaction
    def sign_out_everywhere(self, connection: Connection, member: Member) -> None:
        """End all sessions of an account."""
        end_sessions(connection, member.id)
        target = f"account {member.id}"
        write_audit(connection, self.clock(), member.id, "sign out", target, "everywhere")

    @transaction
    def list_all(self, connection: Connection) -> list[dict[str, Any]]:
        """Return every account: id, name, team, team_name, joined_at, blocked_at."""
        columns = [accounts.c[n] for n in ("id", "name", "team", "joined_at", "blocked_at")]
        query = select(*columns, teams.c.name.label("team_name"))
        query = query.join(teams, teams.c.id == accounts.c.team)

        return fetch_all(connection, query.order_by(accounts.c.id))

    async def _confirm_password(self, member: Member, password: str) -> None:
        row = await self._find_password(member.name)
        if row is None or not await check_password(row.password, password):
            raise RefusedError("That is not your password.")


def _make_codes() -> list[str]:
    return [make_code() for _ in range(RECOVERY_CODES)]


def _unused_codes(member: Member) -> tuple[Any, Any]:
    return recoveries.c.account == member.id, recoveries.c.used_at.is_(None)


def _insert_codes(connection: Connection, account_id: int, codes: list[str]) -> None:
    rows = [{"account": account_id, "hash": hash_code(code)} for code in codes]
    connection.execute(insert(recoveries), rows)


def _insert_account(connection: Connection, now: float, **fields: Any) -> int:
    """Insert an account and return its number."""
    row = {**fields, "name_key": name_key(fields["name"]), "joined_at": now, "epoch": 0}
    statement = insert(accounts).values(row).returning(accounts.c.id)
    account_id = connection.execute(statement).scalar_one()
    write_audit(connection, now, account_id, "sign up", f"team {fields['team']}")

    return account_id


def _set_password(connection: Connection, account_id: int, hashed: str, now: float) -> Member:
    """Set an account's password, and end its sessions and tokens."""
    connection.execute(update(accounts).where(accounts.c.id == account_id).values(password=hashed))

    # Whoever knew the old password may have a session, or have made a token.
    end_sessions(connection, account_id)
    is_active = (tokens.c.account == account_id, tokens.c.revoked_at.is_(None))
    connection.execute(update(tokens).where(*is_active).values(revoked_at=now))

    return load_member(connection, account_id)


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
        n_active = connection.execute(select(func.count()).where(*is_active)).scalar_one()
        if n_active >= MAX_TOKENS:
            raise RefusedError(f"You can have at most {MAX_TOKENS} tokens. Revoke one first.")

        token = f"captau_{secrets.token_urlsafe(24)}"
        now = self.clock()
        label = label[:64]
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
        if not connection.execute(statement.values(revoked_at=now)).rowcount:
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

        # A program may ask every second; each of its requests need not wait for a write.
        if row.used_at is None or now - row.used_at > _USE_INTERVAL:
            connection.execute(update(tokens).where(tokens.c.id == row[0]).values(used_at=now))

        return Account(*row[2:])
