"""The queries of the pages: a challenge's status, allowances, and lists of submissions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select, update

from .accounts.account import Account
from .definition import Challenge
from .submission_store import Allowance, StoreUser
from .submissions import Submission, SubmissionState, select_submissions
from .tables import challenges as challenge_rows
from .tables import submissions
from .transactions import transaction


@dataclass(frozen=True)
class ChallengeStatus:
    """The admin's settings of a challenge, and its human scores.

    Attributes:
        is_published: whether everybody sees its leaderboard.
        is_frozen: whether it accepts no submissions for the moment.
        human_scores: rows as in `Result.scores`, with `people`, the name of their row of the leaderboard;
            empty until they are computed.
    """

    is_published: bool
    is_frozen: bool
    human_scores: Sequence[Mapping[str, Any]]


def load_status(connection: Connection, challenge: Challenge) -> ChallengeStatus:
    """Return the status of a challenge."""
    query = select(challenge_rows).where(challenge_rows.c.name == challenge.name)
    row = connection.execute(query).one()
    human_scores = row.human or []
    # Scores of other human captions are outdated.
    is_current = all(score.get("held_out") == challenge.human_mark for score in human_scores)
    return ChallengeStatus(
        is_published=challenge.is_public or row.published_at is not None,
        is_frozen=row.frozen_at is not None,
        human_scores=human_scores if is_current else [],
    )


def save_human_scores(
    connection: Connection, challenge: Challenge, rows: list[dict[str, Any]]
) -> None:
    """Store the scores of human captions, rows as in `Result.scores`."""
    marked = [{**row, "held_out": challenge.human_mark} for row in rows]
    statement = update(challenge_rows).where(challenge_rows.c.name == challenge.name)
    connection.execute(statement.values(human=marked))


class Queries(StoreUser):
    """The queries of a site's pages."""

    @transaction
    def challenge_status(self, connection: Connection, challenge: Challenge) -> ChallengeStatus:
        """Return the status of a challenge."""
        return load_status(connection, challenge)

    @transaction
    def allowance(
        self, connection: Connection, challenge: Challenge, account: Account
    ) -> Allowance | None:
        """Return what an account's team may still submit now; None if no phase is open."""
        now = self.store.clock()
        phase = challenge.open_phase(now)
        if phase is None:
            return None
        return self.store.count_allowance(connection, challenge, phase, account, now)

    @transaction
    def team_submissions(self, connection: Connection, team: int) -> list[Submission]:
        """Return a team's submissions to the site's present challenges, newest first."""
        is_present = submissions.c.challenge.in_(self.store.challenges)
        return select_submissions(connection, submissions.c.team == team, is_present)[::-1]

    @transaction
    def all_submissions(self, connection: Connection) -> list[Submission]:
        """Return all submissions, newest first."""
        return select_submissions(connection)[::-1]

    @transaction
    def leaderboard_submissions(
        self, connection: Connection, challenge: Challenge, team: int | None, *, is_admin: bool
    ) -> tuple[ChallengeStatus, list[Submission]]:
        """Return a challenge's status and the scored submissions that a visitor may see.

        Until the leaderboard is published, these are the visitor's team's; the admin sees all, hidden ones
        included.
        """
        status = load_status(connection, challenge)
        is_scored = submissions.c.state == SubmissionState.SCORED
        conditions = [submissions.c.challenge == challenge.name, is_scored]
        if not is_admin:
            conditions.append(submissions.c.standing != "hidden")
        if not is_admin and not status.is_published:
            conditions.append(submissions.c.team == (team or 0))
        return status, select_submissions(connection, *conditions)
