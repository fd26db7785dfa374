"""The queries of the pages: a challenge's status, allowances, and lists of submissions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from .accounts.account import Account
from .definition import Challenge
from .human_scores import load_human_scores
from .submission_store import Allowance, SubmissionStore
from .submissions import Submission, SubmissionState, select_submissions
from .tables import challenges as challenge_rows
from .tables import submissions


@dataclass(frozen=True)
class ChallengeStatus:
    """The admin's settings of a challenge, and its human scores.

    Attributes:
        is_published: whether everybody sees its leaderboard.
        is_frozen: whether it accepts no submissions for the moment.
        human_scores: rows as in `Result.scores`; empty if there are none.
    """

    is_published: bool
    is_frozen: bool
    human_scores: Sequence[Mapping[str, Any]]


class Queries:
    """The queries of a site's pages."""

    def __init__(self, store: SubmissionStore) -> None:
        self._store, self._database = store, store.database

    async def challenge_status(self, challenge: Challenge) -> ChallengeStatus:
        """Return the status of a challenge."""
        return await self._database.run(lambda c: _load_status(c, challenge))

    async def allowance(self, challenge: Challenge, account: Account) -> Allowance | None:
        """Return what an account's team may still submit now; None if no phase is open."""
        now = self._store.clock()
        phase = challenge.open_phase(now)
        if phase is None:
            return None
        return await self._database.run(
            lambda c: self._store.count_allowance(c, challenge, phase, account, now)
        )

    async def team_submissions(self, team: int) -> list[Submission]:
        """Return a team's submissions to the site's present challenges, newest first."""
        conditions = (
            submissions.c.team == team,
            submissions.c.challenge.in_(self._store.challenges),
        )
        return (await self._database.run(lambda c: select_submissions(c, *conditions)))[::-1]

    async def all_submissions(self) -> list[Submission]:
        """Return all submissions, newest first."""
        return (await self._database.run(lambda c: select_submissions(c)))[::-1]

    async def leaderboard_submissions(
        self, challenge: Challenge, team: int | None, *, is_admin: bool
    ) -> tuple[ChallengeStatus, list[Submission]]:
        """Return a challenge's status and the scored submissions that a visitor may see.

        Args:
            challenge: the challenge.
            team: the visitor's; None if they are not signed in. They see only its submissions until the
                leaderboard is published.
            is_admin: whether to return all scored submissions, hidden ones included.
        """

        def load(connection: Connection) -> tuple[ChallengeStatus, list[Submission]]:
            status = _load_status(connection, challenge)
            conditions = [
                submissions.c.challenge == challenge.name,
                submissions.c.state == SubmissionState.SCORED,
            ]
            if not is_admin:
                conditions.append(submissions.c.standing != "hidden")
                if not status.is_published:
                    conditions.append(submissions.c.team == (team or 0))
            return status, select_submissions(connection, *conditions)

        return await self._database.run(load)


def _load_status(connection: Connection, challenge: Challenge) -> ChallengeStatus:
    query = select(challenge_rows).where(challenge_rows.c.name == challenge.name)
    row = connection.execute(query).one()
    return ChallengeStatus(
        is_published=challenge.is_public or row.published_at is not None,
        is_frozen=row.frozen_at is not None,
        human_scores=load_human_scores(connection, challenge),
    )
