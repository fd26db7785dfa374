"""Accounts as rows of the database, and their teams: joined by invitation, left for a new team, renamed."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    delete,
    exists,
    func,
    insert,
    select,
    update,
)

from ...datasets.caption_texts import collapse_blanks
from ..storage.database import Database, transaction
from ..texts import NAME_RULE, is_valid_name, look_of, name_key
from ..web.errors import RefusedError
from .audit_log import fetch_all, write_audit
from .tables import accounts, submissions, teams

#: Letters and digits that are not mistaken for one another.
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"


def make_code() -> str:
    """Return twenty random characters in groups of five (98 bits), to be copied by hand."""
    groups: list[str] = []
    for _ in range(4):
        letters = [secrets.choice(_LETTERS) for _ in range(5)]
        groups.append("".join(letters))

    return "-".join(groups)


def hash_code(code: str) -> str:
    """Return the hash of a code as it was typed: case and surrounding blanks do not matter."""
    return hash_token(code.strip().lower())


def hash_token(token: str) -> str:
    """Return the SHA-256 of a token in hexadecimal."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


@dataclass(frozen=True)
class Account:
    """An account and its team.

    Attributes:
        team: the team's number.
    """

    id: int
    name: str
    team: int
    team_name: str


@dataclass(frozen=True)
class Member(Account):
    """An account whose session is checked.

    Attributes:
        epoch: how often all sessions of the account were ended; older sessions are invalid.
    """

    epoch: int


#: The columns of `Account`, in order; `accounts` is joined with `teams`.
ACCOUNT_COLUMNS = (accounts.c.id, accounts.c.name, accounts.c.team, teams.c.name.label("team_name"))

_MEMBERS = select(*ACCOUNT_COLUMNS, accounts.c.epoch).join(teams, teams.c.id == accounts.c.team)


def find_member(connection: Connection, condition: ColumnElement[bool]) -> Member | None:
    """Return the account that meets a condition; None if there is none, or it is blocked."""
    row = connection.execute(_MEMBERS.where(condition, accounts.c.blocked_at.is_(None))).first()
    return None if row is None else Member(*row)


def load_member(connection: Connection, account_id: int) -> Member:
    """Return an account that exists, blocked or not."""
    return Member(*connection.execute(_MEMBERS.where(accounts.c.id == account_id)).one())


def end_sessions(connection: Connection, account_id: int) -> None:
    """End all sessions of an account."""
    connection.execute(
        update(accounts).where(accounts.c.id == account_id).values(epoch=accounts.c.epoch + 1)
    )


#: The most members of a team.
MAX_MEMBERS = 50


@dataclass(frozen=True)
class Teams:
    """The teams of a site; `clock` returns seconds since 1970.

    A name or code that is not accepted raises `RefusedError`.
    """

    database: Database
    clock: Callable[[], float]

    @transaction
    def join(self, connection: Connection, account: Account, code: str) -> None:
        """Move an account into the team of an invitation code."""
        self._move(connection, account, find_invited_team(connection, code))

    @transaction
    def leave(self, connection: Connection, account: Account, name: str) -> None:
        """Move an account into a new team; its submissions stay with the old one."""
        self._move(connection, account, create_team(connection, name, self.clock()))

    @transaction
    def rename(self, connection: Connection, account: Account, name: str) -> None:
        """Rename an account's team."""
        team = _current_team(connection, account)
        name = collapse_blanks(name)
        _check_team_name(connection, name, except_team=team)

        new_name = {"name": name, "name_key": name_key(name)}
        connection.execute(update(teams).where(teams.c.id == team).values(new_name))
        write_audit(connection, self.clock(), account.id, "rename team", f"team {team}", name)

    @transaction
    def create_invitation(self, connection: Connection, account: Account) -> str:
        """Return a new invitation code of an account's team, which replaces the previous one."""
        code = make_code()
        team = _current_team(connection, account)
        statement = update(teams).where(teams.c.id == team)
        connection.execute(statement.values(invitation=hash_code(code)))
        write_audit(connection, self.clock(), account.id, "invite", f"team {team}")

        return code

    @transaction
    def list_members(self, connection: Connection, team: int) -> list[str]:
        """Return the names of a team's members."""
        query = select(accounts.c.name).where(accounts.c.team == team).order_by(accounts.c.id)
        return list(connection.execute(query).scalars())

    @transaction
    def list_all(self, connection: Connection) -> list[dict[str, Any]]:
        """Return every team: id, name, created_at, and the numbers of members and submissions."""
        counts: list[Any] = []
        for table in (accounts, submissions):
            n_rows = select(func.count()).where(table.c.team == teams.c.id).correlate(teams)
            counts.append(n_rows.scalar_subquery())
        n_members, n_submissions = counts

        query = select(
            teams.c.id,
            teams.c.name,
            teams.c.created_at,
            n_members.label("members"),
            n_submissions.label("submissions"),
        )
        return fetch_all(connection, query.order_by(teams.c.id))

    def _move(self, connection: Connection, account: Account, team: int) -> None:
        old_team = _current_team(connection, account)
        now = self.clock()
        if team == old_team:
            raise RefusedError("You are in that team.")

        connection.execute(update(accounts).where(accounts.c.id == account.id).values(team=team))
        write_audit(connection, now, account.id, "leave team", f"team {old_team}")
        write_audit(connection, now, account.id, "join team", f"team {team}")

        # The leaver knows the old team's code. An empty team without submissions gives its name back.
        is_old = teams.c.id == old_team
        connection.execute(update(teams).where(is_old).values(invitation=None))
        has_members = exists().where(accounts.c.team == old_team)
        has_submissions = exists().where(submissions.c.team == old_team)
        connection.execute(delete(teams).where(is_old, ~has_members, ~has_submissions))


def check_name(subject: str, name: str) -> None:
    """Raise `RefusedError` if a name is not allowed; `subject` begins the message."""
    if not is_valid_name(name):
        raise RefusedError(f"{subject} has {NAME_RULE}.")
    if look_of(name) == look_of("admin"):
        raise RefusedError("That name looks like the admin's. Choose another.")


def find_look_alike(connection: Connection, table: Table, name: str) -> int | None:
    """Return the number of the account or team whose name looks like this one; None if there is none."""
    look = look_of(name)
    rows = connection.execute(select(table.c.id, table.c.name))
    for number, other_name in rows:
        if look_of(other_name) == look:
            return number

    return None


def create_team(connection: Connection, name: str, now: float) -> int:
    """Return the number of a new team; raise `RefusedError` if the name is not accepted."""
    name = collapse_blanks(name)
    _check_team_name(connection, name)
    row = {"name": name, "name_key": name_key(name), "created_at": now}
    return connection.execute(insert(teams).values(row).returning(teams.c.id)).scalar_one()


def find_invited_team(connection: Connection, code: str) -> int:
    """Return the team of an invitation code; raise `RefusedError` if it is invalid or the team full."""
    query = select(teams.c.id).where(teams.c.invitation == hash_code(code))
    team = connection.execute(query).scalar()
    if team is None:
        raise RefusedError("That invitation code is not valid (any more). Ask for a new one.")

    count = select(func.count()).where(accounts.c.team == team)
    if connection.execute(count).scalar_one() >= MAX_MEMBERS:
        raise RefusedError(f"A team has at most {MAX_MEMBERS} members.")

    return team


def _check_team_name(connection: Connection, name: str, except_team: int | None = None) -> None:
    check_name("A team's name", name)
    team = find_look_alike(connection, teams, name)
    if team is not None and team != except_team:
        raise RefusedError("That team name is taken. Choose another.")


def _current_team(connection: Connection, account: Account) -> int:
    """Return the account's team as it is now, which may differ from when the page was requested."""
    query = select(accounts.c.team).where(accounts.c.id == account.id)
    return connection.execute(query).scalar_one()
