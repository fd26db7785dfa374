"""Accounts as rows of the database; every account belongs to a team, if only a team of one."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, select, update

from ..tables import accounts, teams


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
