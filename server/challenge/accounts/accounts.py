"""Who takes part: accounts and their teams, passwords, recovery codes and tokens, all kept as hashes.

There is no e-mail. A password is hashed by Argon2id; recovery codes, tokens and teams' invitation codes
are long and random, so that SHA-256 does for them. They are shown once.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, delete, exists, func, insert, select, update

from ...person_names import NAME_RULE, collapse_blanks, is_valid_name, name_key
from ...storage.database import Database
from ...web.errors import NotFoundError, RefusedError
from ...web.passwords import PASSWORD_LENGTH, hash_password, is_password
from ..submission_store import Account, token_hash, write_audit
from ..tables import accounts, audit, recoveries, submissions, teams, tokens

#: How many recovery codes an account has.
CODES = 8
#: The most tokens an account has at a time, and members a team.
MOST_TOKENS, MOST_MEMBERS = 20, 50
_MOST_PASSWORD = 200
#: Letters and digits that nobody takes for one another.
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"


@dataclass(frozen=True)
class Member(Account):
    """Somebody who takes part; everybody is in a team, be it of one.

    Attributes:
        epoch: how often all their sessions were ended.
    """

    epoch: int


class Accounts:
    """The accounts of a site.

    Args:
        database: what keeps them.
        clock: seconds since 1970.
    """

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database, self._clock = database, clock
        # What a wrong name's password is compared with, so that it takes as long as a right one's.
        self._nobody = hash_password(secrets.token_urlsafe(16))

    # Signing up and in ------------------------------------------------------------------------

    async def sign_up(
        self, name: str, password: str, again: str, team: str, code: str
    ) -> tuple[Member, list[str]]:
        """A new account with its recovery codes.

        Args:
            name: to sign in by.
            password, again: the same.
            team: of a team to found; empty for one of the account's own name.
            code: of a team to join instead.

        Raises:
            RefusedError: where a name is taken or none, or the passwords are none.
        """
        name, team = collapse_blanks(name), collapse_blanks(team)
        _check_name("Your name", name)
        if not code:
            _check_name("A team's name", team or name)
        _check_password(password, again)
        hashed = await asyncio.to_thread(hash_password, password)
        codes, now = _codes(), self._clock()

        def work(c: Connection) -> Member:
            if c.execute(
                select(accounts.c.id).where(accounts.c.name_key == name_key(name))
            ).first():
                raise RefusedError("Somebody has that name. Take another.")
            mine = _team_by(c, code) if code else _found(c, team or name, now)
            made = c.execute(
                insert(accounts).values(
                    name=name,
                    name_key=name_key(name),
                    password=hashed,
                    team=mine,
                    joined_at=now,
                    epoch=0,
                )
            )
            number = _number(made)
            _new_codes(c, number, codes)
            write_audit(c, now, number, "sign up", f"team {mine}")
            return _account(c, accounts.c.id == number)

        return await self._database.run(work), codes

    async def sign_in(self, name: str, password: str, whence: str) -> Member | None:
        """Whose name and password these are; None where they are nobody's.

        Args:
            name, password: as they were typed.
            whence: the address it comes from, which the log keeps of a try that fails.

        Raises:
            RefusedError: where the account is blocked.
        """
        row = await self._database.run(
            lambda c: c.execute(
                select(accounts.c.id, accounts.c.password, accounts.c.blocked_at).where(
                    accounts.c.name_key == name_key(collapse_blanks(name))
                )
            ).first()
        )
        hashed = self._nobody if row is None else row.password
        right = await asyncio.to_thread(is_password, hashed, password[:_MOST_PASSWORD])
        now = self._clock()
        number = None if row is None else row.id
        if row is None or not right or row.blocked_at is not None:
            await self._database.run(lambda c: _failed(c, now, "sign in", number, whence))
        if row is None or not right:
            return None
        if row.blocked_at is not None:
            raise RefusedError("This account is blocked. Ask whoever runs the site.")

        def work(c: Connection) -> Member | None:
            write_audit(c, now, row.id, "sign in", f"account {row.id}")
            return _open(c, accounts.c.id == row.id)

        return await self._database.run(work)

    async def get(self, number: int) -> Member | None:
        """An account that is not blocked; None where there is none (any more)."""
        return await self._database.run(lambda c: _open(c, accounts.c.id == number))

    async def recover(
        self, name: str, code: str, password: str, again: str, whence: str
    ) -> Member | None:
        """A new password by a recovery code, which is used up; None where it is none of this account's.

        Args:
            name, code, password, again: as they were typed.
            whence: as of `sign_in`.

        Raises:
            RefusedError: where the passwords are none.
        """
        _check_password(password, again)
        hashed = await asyncio.to_thread(hash_password, password)
        now = self._clock()

        def work(c: Connection) -> Member | None:
            found = _open(c, accounts.c.name_key == name_key(collapse_blanks(name)))
            if found is None:
                _failed(c, now, "recover", None, whence)
                return None
            used = c.execute(
                update(recoveries)
                .where(
                    recoveries.c.account == found.id,
                    recoveries.c.hash == token_hash(code.strip().lower()),
                    recoveries.c.used_at.is_(None),
                )
                .values(used_at=now)
                .returning(recoveries.c.id)  # PostgreSQL counts rows only once they are asked for
            )
            if used.first() is None:
                _failed(c, now, "recover", found.id, whence)
                return None
            write_audit(c, now, found.id, "recover", f"account {found.id}")
            return _set_password(c, found.id, hashed)

        return await self._database.run(work)

    async def change_password(self, account: Member, old: str, password: str, again: str) -> Member:
        """Set another password, and end all other sessions.

        Raises:
            RefusedError: where the old one is wrong, or the new ones are none.
        """
        await self._sure(account, old)
        _check_password(password, again)
        hashed = await asyncio.to_thread(hash_password, password)
        now = self._clock()

        def work(c: Connection) -> Member:
            write_audit(c, now, account.id, "password", f"account {account.id}")
            return _set_password(c, account.id, hashed)

        return await self._database.run(work)

    async def renew_codes(self, account: Member, password: str) -> list[str]:
        """New recovery codes in place of the old ones.

        Raises:
            RefusedError: where the password is wrong.
        """
        await self._sure(account, password)
        codes, now = _codes(), self._clock()

        def work(c: Connection) -> None:
            c.execute(
                update(recoveries)
                .where(recoveries.c.account == account.id, recoveries.c.used_at.is_(None))
                .values(used_at=now)
            )
            _new_codes(c, account.id, codes)
            write_audit(c, now, account.id, "new codes", f"account {account.id}")

        await self._database.run(work)
        return codes

    async def codes_left(self, account: Member) -> int:
        """How many recovery codes are not used yet."""
        query = select(func.count()).where(
            recoveries.c.account == account.id, recoveries.c.used_at.is_(None)
        )
        return await self._database.run(lambda c: c.execute(query).scalar_one())

    async def sign_out_everywhere(self, account: Member) -> None:
        """End all sessions of an account."""
        now = self._clock()

        def work(c: Connection) -> None:
            _next_epoch(c, account.id)
            write_audit(c, now, account.id, "sign out", f"account {account.id}", "everywhere")

        await self._database.run(work)

    async def _sure(self, account: Member, password: str) -> None:
        query = select(accounts.c.password).where(accounts.c.id == account.id)
        hashed = await self._database.run(lambda c: c.execute(query).scalar_one())
        if not await asyncio.to_thread(is_password, hashed, password[:_MOST_PASSWORD]):
            raise RefusedError("That is not your password.")

    # Teams ------------------------------------------------------------------------------------

    async def enter(self, account: Member, code: str) -> None:
        """Join another team by its invitation code.

        Raises:
            RefusedError: where the code is none, or the team is full.
        """
        now = self._clock()
        await self._database.run(lambda c: _move(c, account, _team_by(c, code), now))

    async def leave(self, account: Member, name: str) -> None:
        """Leave the team for a new one of their own; what was submitted stays the old one's.

        Raises:
            RefusedError: where the name is taken or none.
        """
        name, now = collapse_blanks(name), self._clock()
        _check_name("A team's name", name)
        await self._database.run(lambda c: _move(c, account, _found(c, name, now), now))

    async def rename(self, account: Member, name: str) -> None:
        """Call the team otherwise.

        Raises:
            RefusedError: where the name is taken or none.
        """
        name, now = collapse_blanks(name), self._clock()
        _check_name("A team's name", name)

        def work(c: Connection) -> None:
            team = _team_of(c, account)
            _check_free(c, name, team)
            c.execute(
                update(teams).where(teams.c.id == team).values(name=name, name_key=name_key(name))
            )
            write_audit(c, now, account.id, "rename team", f"team {team}", name)

        await self._database.run(work)

    async def invite(self, account: Member) -> str:
        """A new invitation code of the team's, in place of the one before."""
        code, now = _code(), self._clock()

        def work(c: Connection) -> None:
            team = _team_of(c, account)
            c.execute(update(teams).where(teams.c.id == team).values(invitation=token_hash(code)))
            write_audit(c, now, account.id, "invite", f"team {team}")

        await self._database.run(work)
        return code

    async def members(self, team: int) -> list[str]:
        """The names of a team's members."""
        query = select(accounts.c.name).where(accounts.c.team == team).order_by(accounts.c.id)
        return await self._database.run(lambda c: list(c.execute(query).scalars()))

    # Tokens -----------------------------------------------------------------------------------

    async def new_token(self, account: Member, label: str) -> str:
        """A token for programs, shown once.

        Raises:
            RefusedError: where there are too many.
        """
        token, now, label = f"captau_{secrets.token_urlsafe(24)}", self._clock(), label[:64]

        def work(c: Connection) -> None:
            held = c.execute(
                select(func.count()).where(
                    tokens.c.account == account.id, tokens.c.revoked_at.is_(None)
                )
            ).scalar_one()
            if held >= MOST_TOKENS:
                raise RefusedError(f"At most {MOST_TOKENS} tokens. Revoke one first.")
            made = c.execute(
                insert(tokens).values(
                    account=account.id, hash=token_hash(token), label=label, created_at=now
                )
            )
            write_audit(c, now, account.id, "new token", f"token {_number(made)}", label)

        await self._database.run(work)
        return token

    async def revoke(self, account: Member, number: int) -> None:
        """End a token.

        Raises:
            NotFoundError: where it is none of theirs.
        """
        now = self._clock()

        def work(c: Connection) -> None:
            ended = c.execute(
                update(tokens)
                .where(
                    tokens.c.id == number,
                    tokens.c.account == account.id,
                    tokens.c.revoked_at.is_(None),
                )
                .values(revoked_at=now)
                .returning(tokens.c.id)
            )
            if ended.first() is None:
                raise NotFoundError
            write_audit(c, now, account.id, "revoke token", f"token {number}")

        await self._database.run(work)

    async def tokens(self, account: Member) -> list[dict[str, Any]]:
        """The tokens that hold: id, label, created_at, used_at."""
        query = (
            select(tokens.c.id, tokens.c.label, tokens.c.created_at, tokens.c.used_at)
            .where(tokens.c.account == account.id, tokens.c.revoked_at.is_(None))
            .order_by(tokens.c.id)
        )
        return await self._database.run(lambda c: [dict(r) for r in c.execute(query).mappings()])

    # Whoever runs the site --------------------------------------------------------------------

    async def block(self, number: int, why: str, *, shut: bool) -> None:
        """Block an account, its sessions and tokens, or let it in again; its submissions stay.

        Raises:
            NotFoundError: where there is none.
        """
        now = self._clock()

        def work(c: Connection) -> None:
            done = c.execute(
                update(accounts)
                .where(accounts.c.id == number)
                .values(blocked_at=now if shut else None)
                .returning(accounts.c.id)
            )
            if done.first() is None:
                raise NotFoundError
            _next_epoch(c, number)
            write_audit(c, now, None, "block" if shut else "unblock", f"account {number}", why)

        await self._database.run(work)

    async def everybody(self) -> list[dict[str, Any]]:
        """Every account: id, name, team, team_name, joined_at, blocked_at."""
        query = (
            select(
                accounts.c.id,
                accounts.c.name,
                accounts.c.team,
                teams.c.name.label("team_name"),
                accounts.c.joined_at,
                accounts.c.blocked_at,
            )
            .join(teams, teams.c.id == accounts.c.team)
            .order_by(accounts.c.id)
        )
        return await self._database.run(lambda c: [dict(r) for r in c.execute(query).mappings()])

    async def audited(self, last: int = 500) -> list[dict[str, Any]]:
        """What was done, the newest first: at, account, action, what, why."""
        query = select(audit).order_by(audit.c.id.desc()).limit(last)
        return await self._database.run(lambda c: [dict(r) for r in c.execute(query).mappings()])


def _failed(c: Connection, now: float, action: str, number: int | None, whence: str) -> None:
    """Take down a try that failed; not the name, in whose place passwords are typed by mistake."""
    what = "no account" if number is None else f"account {number}"
    write_audit(c, now, None, f"failed {action}", what, f"from {whence}")


def _check_name(whose: str, name: str) -> None:
    if not is_valid_name(name):
        raise RefusedError(f"{whose} has {NAME_RULE}.")


def _check_password(password: str, again: str) -> None:
    if not PASSWORD_LENGTH <= len(password) <= _MOST_PASSWORD:
        raise RefusedError(f"A password has {PASSWORD_LENGTH} to {_MOST_PASSWORD} characters.")
    if password != again:
        raise RefusedError("The two passwords are not the same.")


def _code() -> str:
    """Twenty characters in groups of five: 98 bits."""
    groups = ("".join(secrets.choice(_LETTERS) for _ in range(5)) for _ in range(4))
    return "-".join(groups)


def _codes() -> list[str]:
    return [_code() for _ in range(CODES)]


def _number(made: Any) -> int:
    return int(made.inserted_primary_key[0])


def _select() -> Select[*tuple[Any, ...]]:
    return select(
        accounts.c.id,
        accounts.c.name,
        accounts.c.team,
        teams.c.name.label("team_name"),
        accounts.c.epoch,
    ).join(teams, teams.c.id == accounts.c.team)


def _open(c: Connection, which: Any) -> Member | None:
    row = c.execute(_select().where(which, accounts.c.blocked_at.is_(None))).first()
    return None if row is None else Member(*row)


def _account(c: Connection, which: Any) -> Member:
    return Member(*c.execute(_select().where(which)).one())


def _new_codes(c: Connection, account: int, codes: list[str]) -> None:
    c.execute(
        insert(recoveries), [{"account": account, "hash": token_hash(code)} for code in codes]
    )


def _next_epoch(c: Connection, account: int) -> None:
    c.execute(update(accounts).where(accounts.c.id == account).values(epoch=accounts.c.epoch + 1))


def _set_password(c: Connection, account: int, hashed: str) -> Member:
    c.execute(update(accounts).where(accounts.c.id == account).values(password=hashed))
    _next_epoch(c, account)
    return _account(c, accounts.c.id == account)


def _check_free(c: Connection, name: str, but: int | None = None) -> None:
    found = c.execute(select(teams.c.id).where(teams.c.name_key == name_key(name))).scalar()
    if found is not None and found != but:
        raise RefusedError("Another team has that name. Take another.")


def _found(c: Connection, name: str, now: float) -> int:
    """A new team."""
    _check_free(c, name)
    return _number(
        c.execute(insert(teams).values(name=name, name_key=name_key(name), created_at=now))
    )


def _team_by(c: Connection, code: str) -> int:
    """The team of an invitation code."""
    query = select(teams.c.id).where(teams.c.invitation == token_hash(code.strip().lower()))
    team = c.execute(query).scalar()
    if team is None:
        raise RefusedError("No team has that invitation code (any more). Ask for a new one.")
    members = c.execute(select(func.count()).where(accounts.c.team == team)).scalar_one()
    if members >= MOST_MEMBERS:
        raise RefusedError(f"A team has at most {MOST_MEMBERS} members.")
    return team


def _team_of(c: Connection, account: Member) -> int:
    """The team as it is now, and not when a page was asked for."""
    return c.execute(select(accounts.c.team).where(accounts.c.id == account.id)).scalar_one()


def _move(c: Connection, account: Member, team: int, now: float) -> None:
    old = _team_of(c, account)
    if team == old:
        raise RefusedError("You are in that team.")
    c.execute(update(accounts).where(accounts.c.id == account.id).values(team=team))
    write_audit(c, now, account.id, "leave team", f"team {old}")
    write_audit(c, now, account.id, "join team", f"team {team}")
    # Who left knows the old one's code; where nobody is left, and nothing was submitted, its name is free.
    c.execute(update(teams).where(teams.c.id == old).values(invitation=None))
    c.execute(
        delete(teams).where(
            teams.c.id == old,
            ~exists().where(accounts.c.team == old),
            ~exists().where(submissions.c.team == old),
        )
    )
