"""Teams: joined by invitation, left for a new team, renamed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, delete, exists, func, insert, select, update

from ...person_names import NAME_RULE, collapse_blanks, is_valid_name, name_key
from ...storage.database import Database
from ...web.errors import RefusedError
from ..audit_log import write_audit
from ..tables import accounts, submissions, teams
from .account import Account
from .secret_codes import hash_code, make_code

#: The most members of a team.
MAX_MEMBERS = 50


class Teams:
    """The teams of a site.

    Args:
        database: of the site.
        clock: returns seconds since 1970.
    """

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database, self._clock = database, clock

    async def join(self, account: Account, code: str) -> None:
        """Move an account into the team of an invitation code.

        Raises:
            RefusedError: if the code is invalid or the team is full.
        """
        now = self._clock()
        await self._database.run(lambda c: _move(c, account, find_invited_team(c, code), now))

    async def leave(self, account: Account, name: str) -> None:
        """Move an account into a new team; its submissions stay with the old one.

        Raises:
            RefusedError: if the name is taken or not allowed.
        """
        name, now = collapse_blanks(name), self._clock()
        check_name("A team's name", name)
        await self._database.run(lambda c: _move(c, account, create_team(c, name, now), now))

    async def rename(self, account: Account, name: str) -> None:
        """Rename an account's team.

        Raises:
            RefusedError: if the name is taken or not allowed.
        """
        name, now = collapse_blanks(name), self._clock()
        check_name("A team's name", name)

        def update_name(connection: Connection) -> None:
            team = _current_team(connection, account)
            _check_available(connection, name, except_team=team)
            new_name = {"name": name, "name_key": name_key(name)}
            connection.execute(update(teams).where(teams.c.id == team).values(new_name))
            write_audit(connection, now, account.id, "rename team", f"team {team}", name)

        await self._database.run(update_name)

    async def create_invitation(self, account: Account) -> str:
        """Return a new invitation code of an account's team, which replaces the previous one."""
        code, now = make_code(), self._clock()

        def set_invitation(connection: Connection) -> None:
            team = _current_team(connection, account)
            statement = update(teams).where(teams.c.id == team)
            connection.execute(statement.values(invitation=hash_code(code)))
            write_audit(connection, now, account.id, "invite", f"team {team}")

        await self._database.run(set_invitation)
        return code

    async def list_members(self, team: int) -> list[str]:
        """Return the names of a team's members."""
        query = select(accounts.c.name).where(accounts.c.team == team).order_by(accounts.c.id)
        return await self._database.run(lambda c: list(c.execute(query).scalars()))

    async def list_all(self) -> list[dict[str, Any]]:
        """Return every team: id, name, created_at, and the numbers of members and submissions."""
        counts = [
            select(func.count())
            .where(table.c.team == teams.c.id)
            .correlate(teams)
            .scalar_subquery()
            for table in (accounts, submissions)
        ]
        query = select(
            teams.c.id,
            teams.c.name,
            teams.c.created_at,
            counts[0].label("members"),
            counts[1].label("submissions"),
        ).order_by(teams.c.id)
        return await self._database.run(lambda c: [dict(r) for r in c.execute(query).mappings()])


def check_name(whose: str, name: str) -> None:
    """Raise `RefusedError` if a name is not allowed; `whose` begins the message."""
    if not is_valid_name(name):
        raise RefusedError(f"{whose} has {NAME_RULE}.")


def create_team(connection: Connection, name: str, now: float) -> int:
    """Create a team and return its number.

    Raises:
        RefusedError: if the name is taken.
    """
    _check_available(connection, name)
    row = {"name": name, "name_key": name_key(name), "created_at": now}
    return connection.execute(insert(teams).values(row).returning(teams.c.id)).scalar_one()


def find_invited_team(connection: Connection, code: str) -> int:
    """Return the number of the team of an invitation code.

    Raises:
        RefusedError: if the code is invalid or the team is full.
    """
    query = select(teams.c.id).where(teams.c.invitation == hash_code(code))
    team = connection.execute(query).scalar()
    if team is None:
        raise RefusedError("No team has that invitation code (any more). Ask for a new one.")
    count = select(func.count()).where(accounts.c.team == team)
    if connection.execute(count).scalar_one() >= MAX_MEMBERS:
        raise RefusedError(f"A team has at most {MAX_MEMBERS} members.")
    return team


def _check_available(connection: Connection, name: str, except_team: int | None = None) -> None:
    query = select(teams.c.id).where(teams.c.name_key == name_key(name))
    team = connection.execute(query).scalar()
    if team is not None and team != except_team:
        raise RefusedError("Another team has that name. Take another.")


def _current_team(connection: Connection, account: Account) -> int:
    """Return the account's team as it is now, which may differ from when the page was requested."""
    query = select(accounts.c.team).where(accounts.c.id == account.id)
    return connection.execute(query).scalar_one()


def _move(connection: Connection, account: Account, team: int, now: float) -> None:
    old_team = _current_team(connection, account)
    if team == old_team:
        raise RefusedError("You are in that team.")
    connection.execute(update(accounts).where(accounts.c.id == account.id).values(team=team))
    write_audit(connection, now, account.id, "leave team", f"team {old_team}")
    write_audit(connection, now, account.id, "join team", f"team {team}")
    # The leaver knows the old team's code. An empty team without submissions gives its name back.
    connection.execute(update(teams).where(teams.c.id == old_team).values(invitation=None))
    connection.execute(
        delete(teams).where(
            teams.c.id == old_team,
            ~exists().where(accounts.c.team == old_team),
            ~exists().where(submissions.c.team == old_team),
        )
    )
