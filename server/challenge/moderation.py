"""The admin's decisions: publishing, freezing, hiding, disqualifying, blocking; each is logged with a reason."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, select, update

from ..storage.database import transaction
from ..web.errors import NotFoundError, RefusedError
from .audit_log import write_audit
from .definition import Challenge
from .members import end_sessions
from .submissions import StoreUser, SubmissionState, change_submissions
from .tables import accounts, submissions, teams
from .tables import challenges as challenge_rows


class Moderation(StoreUser):
    """The admin's decisions on a site.

    `why` is the reason for a decision. What does not exist raises `NotFoundError`.
    """

    @transaction
    def change_challenge(
        self, connection: Connection, challenge: Challenge, action: str, why: str
    ) -> None:
        """Publish or freeze a challenge, or take either back.

        Args:
            connection: of the transaction.
            challenge: the challenge.
            action: `publish` shows its leaderboard to everybody, `unpublish` no longer; `freeze` stops accepting
                submissions, `unfreeze` accepts them again.
            why: the reason.

        Raises:
            RefusedError: if the leaderboard is to be unpublished, and the challenge's file makes it public.
        """
        if challenge.is_public and action == "unpublish":
            raise RefusedError("The challenge's file makes it public: visibility.leaderboard.")

        now = self.store.clock()
        column = "published_at" if action.endswith("publish") else "frozen_at"
        # What takes a decision back begins with "un".
        changes = {column: None if action.startswith("un") else now}
        statement = update(challenge_rows).where(challenge_rows.c.name == challenge.name)
        connection.execute(statement.values(changes))
        write_audit(connection, now, None, action, challenge.name, why)

    @transaction
    def set_standing(self, connection: Connection, key: str, standing: str, why: str) -> None:
        """Make a submission `hidden` or `disqualified`, or reinstate it (empty); its team sees why."""
        changes = {"standing": standing, "standing_why": why if standing else ""}
        if not change_submissions(connection, [submissions.c.key == key], changes):
            raise NotFoundError

        self._log(connection, standing or "reinstate", f"submission {key}", why)

    @transaction
    def reset_limits(
        self, connection: Connection, challenge: Challenge, team: int, why: str
    ) -> None:
        """Stop counting a team's previous submissions against its limits."""
        if connection.execute(select(teams.c.id).where(teams.c.id == team)).first() is None:
            raise NotFoundError

        is_counted = [submissions.c.team == team, submissions.c.counts]
        is_of_challenge = submissions.c.challenge == challenge.name
        change_submissions(connection, [is_of_challenge, *is_counted], {"counts": False})

        self._log(connection, "forgive", f"team {team} in {challenge.name}", why)

    @transaction
    def requeue(self, connection: Connection, key: str, why: str) -> None:
        """Queue a failed submission again; raise `RefusedError` for others."""
        is_failed = [submissions.c.key == key, submissions.c.state == SubmissionState.FAILED]
        changes: dict[str, Any] = {"state": SubmissionState.QUEUED, "reason": ""}
        changes |= {"attempts": 0, "progress": 0.0, "finished_at": None}
        if not change_submissions(connection, is_failed, changes):
            raise RefusedError("Only a failed submission can be evaluated again.")

        self._log(connection, "requeue", f"submission {key}", why)

    @transaction
    def set_blocked(
        self, connection: Connection, account_id: int, why: str, *, is_blocked: bool
    ) -> None:
        """Block an account with its sessions and tokens, or unblock it; its submissions stay."""
        blocked_at = self.store.clock() if is_blocked else None
        statement = update(accounts).where(accounts.c.id == account_id)
        if not connection.execute(statement.values(blocked_at=blocked_at)).rowcount:
            raise NotFoundError

        end_sessions(connection, account_id)
        self._log(connection, "block" if is_blocked else "unblock", f"account {account_id}", why)

    def _log(self, connection: Connection, action: str, target: str, why: str) -> None:
        write_audit(connection, self.store.clock(), None, action, target, why)
