"""Accounts of a challenge site: sign-up, sign-in, passwords and recovery codes.

There is no e-mail. Passwords are hashed by Argon2id; recovery codes replace a forgotten one.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from ...person_names import collapse_blanks, name_key
from ...storage.database import Database
from ...web.errors import RefusedError
from ...web.passwords import PASSWORD_LENGTH, hash_password, is_password
from ..audit_log import write_audit
from ..tables import accounts, recoveries, teams
from .account import Member, end_sessions, find_member, load_member
from .secret_codes import hash_code, make_code
from .teams import check_name, create_team, find_invited_team

#: The number of recovery codes of an account.
RECOVERY_CODES = 8
_MAX_PASSWORD_LENGTH = 200


class Accounts:
    """The accounts of a site.

    Args:
        database: of the site.
        clock: returns seconds since 1970.
    """

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database, self._clock = database, clock
        # An unknown name's password is compared with this, so that it takes as long as a known one's.
        self._dummy_hash = hash_password(secrets.token_urlsafe(16))

    async def sign_up(
        self, name: str, password: str, repeated: str, team_name: str, invitation: str
    ) -> tuple[Member, list[str]]:
        """Create an account and return it with its recovery codes.

        Args:
            name: to sign in with.
            password, repeated: must be equal.
            team_name: of the team to create; empty for the account's name.
            invitation: the code of a team to join instead; may be empty.

        Raises:
            RefusedError: if a name, the password or the invitation is not accepted.
        """
        name, team_name = collapse_blanks(name), collapse_blanks(team_name)
        check_name("Your name", name)
        if not invitation:
            check_name("A team's name", team_name or name)
        _check_password(password, repeated)
        hashed = await asyncio.to_thread(hash_password, password)
        codes, now = _make_codes(), self._clock()

        def create_account(connection: Connection) -> Member:
            same_name = select(accounts.c.id).where(accounts.c.name_key == name_key(name))
            if connection.execute(same_name).first():
                raise RefusedError("Somebody has that name. Take another.")
            if invitation:
                team = find_invited_team(connection, invitation)
            else:
                team = create_team(connection, team_name or name, now)
            row = {"name": name, "name_key": name_key(name), "password": hashed, "team": team}
            statement = insert(accounts).values(**row, joined_at=now, epoch=0)
            account_id = connection.execute(statement.returning(accounts.c.id)).scalar_one()
            _insert_codes(connection, account_id, codes)
            write_audit(connection, now, account_id, "sign up", f"team {team}")
            return load_member(connection, account_id)

        return await self._database.run(create_account), codes

    async def sign_in(self, name: str, password: str, address: str) -> Member | None:
        """Return the account of a name and password; None if they match no account.

        Args:
            name, password: as typed.
            address: the client's, which the log keeps if the attempt fails.

        Raises:
            RefusedError: if the account is blocked.
        """
        query = select(accounts.c.id, accounts.c.password, accounts.c.blocked_at).where(
            accounts.c.name_key == name_key(collapse_blanks(name))
        )
        row = await self._database.run(lambda c: c.execute(query).first())
        hashed = self._dummy_hash if row is None else row.password
        is_right = await _is_right_password(hashed, password)
        now = self._clock()
        if row is None or not is_right or row.blocked_at is not None:
            account_id = None if row is None else row.id
            await self._database.run(lambda c: _log_failure(c, now, "sign in", account_id, address))
        if row is None or not is_right:
            return None
        if row.blocked_at is not None:
            raise RefusedError("This account is blocked. Ask whoever runs the site.")

        def begin(connection: Connection) -> Member | None:
            write_audit(connection, now, row.id, "sign in", f"account {row.id}")
            return find_member(connection, accounts.c.id == row.id)

        return await self._database.run(begin)

    async def find(self, account_id: int) -> Member | None:
        """Return an account; None if it is blocked or does not exist."""
        return await self._database.run(lambda c: find_member(c, accounts.c.id == account_id))

    async def recover(
        self, name: str, code: str, password: str, repeated: str, address: str
    ) -> Member | None:
        """Set a new password by a recovery code, which is used up; None if the code is wrong.

        Args:
            name, code, password, repeated: as typed.
            address: the client's, which the log keeps if the attempt fails.

        Raises:
            RefusedError: if the new password is not accepted.
        """
        _check_password(password, repeated)
        hashed = await asyncio.to_thread(hash_password, password)
        now = self._clock()

        def use_code(connection: Connection) -> Member | None:
            member = find_member(connection, accounts.c.name_key == name_key(collapse_blanks(name)))
            if member is None:
                _log_failure(connection, now, "recover", None, address)
                return None
            used = connection.execute(
                update(recoveries)
                .where(
                    recoveries.c.account == member.id,
                    recoveries.c.hash == hash_code(code),
                    recoveries.c.used_at.is_(None),
                )
                .values(used_at=now)
                .returning(recoveries.c.id)  # PostgreSQL counts rows only if they are fetched
            )
            if used.first() is None:
                _log_failure(connection, now, "recover", member.id, address)
                return None
            write_audit(connection, now, member.id, "recover", f"account {member.id}")
            return _set_password(connection, member.id, hashed)

        return await self._database.run(use_code)

    async def change_password(
        self, member: Member, current: str, password: str, repeated: str
    ) -> Member:
        """Set another password and end all other sessions.

        Raises:
            RefusedError: if the current password is wrong, or the new one not accepted.
        """
        await self._confirm_password(member, current)
        _check_password(password, repeated)
        hashed = await asyncio.to_thread(hash_password, password)
        now = self._clock()

        def change(connection: Connection) -> Member:
            write_audit(connection, now, member.id, "password", f"account {member.id}")
            return _set_password(connection, member.id, hashed)

        return await self._database.run(change)

    async def renew_recovery_codes(self, member: Member, password: str) -> list[str]:
        """Replace the recovery codes and return the new ones.

        Raises:
            RefusedError: if the password is wrong.
        """
        await self._confirm_password(member, password)
        codes, now = _make_codes(), self._clock()

        def replace_codes(connection: Connection) -> None:
            connection.execute(
                update(recoveries)
                .where(recoveries.c.account == member.id, recoveries.c.used_at.is_(None))
                .values(used_at=now)
            )
            _insert_codes(connection, member.id, codes)
            write_audit(connection, now, member.id, "new codes", f"account {member.id}")

        await self._database.run(replace_codes)
        return codes

    async def count_recovery_codes(self, member: Member) -> int:
        """Return the number of recovery codes that are not used yet."""
        query = select(func.count()).where(
            recoveries.c.account == member.id, recoveries.c.used_at.is_(None)
        )
        return await self._database.run(lambda c: c.execute(query).scalar_one())

    async def sign_out_everywhere(self, member: Member) -> None:
        """End all sessions of an account."""
        now = self._clock()

        def sign_out(connection: Connection) -> None:
            end_sessions(connection, member.id)
            what = f"account {member.id}"
            write_audit(connection, now, member.id, "sign out", what, "everywhere")

        await self._database.run(sign_out)

    async def list_all(self) -> list[dict[str, Any]]:
        """Return every account: id, name, team, team_name, joined_at, blocked_at."""
        columns = [accounts.c[n] for n in ("id", "name", "team", "joined_at", "blocked_at")]
        query = (
            select(*columns, teams.c.name.label("team_name"))
            .join(teams, teams.c.id == accounts.c.team)
            .order_by(accounts.c.id)
        )
        return await self._database.run(lambda c: [dict(r) for r in c.execute(query).mappings()])

    async def _confirm_password(self, member: Member, password: str) -> None:
        query = select(accounts.c.password).where(accounts.c.id == member.id)
        hashed = await self._database.run(lambda c: c.execute(query).scalar_one())
        if not await _is_right_password(hashed, password):
            raise RefusedError("That is not your password.")


async def _is_right_password(hashed: str, password: str) -> bool:
    return await asyncio.to_thread(is_password, hashed, password[:_MAX_PASSWORD_LENGTH])


def _log_failure(
    connection: Connection, now: float, action: str, account_id: int | None, address: str
) -> None:
    """Log a failed attempt, without the typed name: people type passwords there by mistake."""
    what = "no account" if account_id is None else f"account {account_id}"
    write_audit(connection, now, None, f"failed {action}", what, f"from {address}")


def _check_password(password: str, repeated: str) -> None:
    if not PASSWORD_LENGTH <= len(password) <= _MAX_PASSWORD_LENGTH:
        raise RefusedError(
            f"A password has {PASSWORD_LENGTH} to {_MAX_PASSWORD_LENGTH} characters."
        )
    if password != repeated:
        raise RefusedError("The two passwords are not the same.")


def _make_codes() -> list[str]:
    return [make_code() for _ in range(RECOVERY_CODES)]


def _insert_codes(connection: Connection, account_id: int, codes: list[str]) -> None:
    rows = [{"account": account_id, "hash": hash_code(code)} for code in codes]
    connection.execute(insert(recoveries), rows)


def _set_password(connection: Connection, account_id: int, hashed: str) -> Member:
    connection.execute(update(accounts).where(accounts.c.id == account_id).values(password=hashed))
    end_sessions(connection, account_id)
    return load_member(connection, account_id)
