"""The admin's decisions: publishing, freezing, hiding, disqualifying, blocking; each is logged with a reason."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, select, update

from ..web.errors import NotFoundError, RefusedError
from .accounts.account import end_sessions
from .audit_log import write_audit
from .definition import Challenge
from .submission_store import SubmissionStore
from .submissions import SubmissionState
from .tables import accounts, submissions, teams
from .tables import challenges as challenge_rows


class Moderation:
    """The admin's decisions on a site."""

    def __init__(self, store: SubmissionStore) -> None:
        self._store = store

    async def set_published(self, challenge: Challenge, why: str, *, is_published: bool) -> None:
        """Show a challenge's leaderboard to everybody, or not any more.

        Raises:
            RefusedError: if the challenge's file makes the leaderboard public.
        """
        if challenge.is_public and not is_published:
            raise RefusedError("Its file says that everybody sees it: visibility.leaderboard.")
        action = "publish" if is_published else "unpublish"
        await self._mark(challenge, action, "published_at", is_published, why)

    async def set_frozen(self, challenge: Challenge, why: str, *, is_frozen: bool) -> None:
        """Stop accepting submissions to a challenge, or accept them again."""
        action = "freeze" if is_frozen else "unfreeze"
        await self._mark(challenge, action, "frozen_at", is_frozen, why)

    async def _mark(
        self, challenge: Challenge, action: str, column: str, is_set: bool, why: str
    ) -> None:
        now = self._store.clock()
        changes = {column: now if is_set else None}
        statement = update(challenge_rows).where(challenge_rows.c.name == challenge.name)

        def mark(connection: Connection) -> None:
            connection.execute(statement.values(changes))
            write_audit(connection, now, None, action, challenge.name, why)

        await self._store.database.run(mark)

    async def set_standing(self, key: str, standing: str, why: str) -> None:
        """Hide or disqualify a submission, or reinstate it.

        Args:
            key: the submission's.
            standing: `hidden`, `disqualified`, or empty to reinstate.
            why: the reason, which its team sees.

        Raises:
            NotFoundError: if there is no such submission.
        """
        action = standing or "reinstate"
        changes = {"standing": standing, "standing_why": why if standing else ""}
        is_named = [submissions.c.key == key]
        what = f"submission {key}"
        await self._change(is_named, changes, action, what, why, error_if_none=NotFoundError())

    async def reset_limits(self, challenge: Challenge, team: int, why: str) -> int:
        """Stop counting a team's previous submissions against its limits; returns their number.

        Raises:
            NotFoundError: if there is no such team.
        """
        query = select(teams.c.id).where(teams.c.id == team)
        if await self._store.database.run(lambda c: c.execute(query).first()) is None:
            raise NotFoundError
        conditions = [
            submissions.c.challenge == challenge.name,
            submissions.c.team == team,
            submissions.c.counts,
        ]
        what = f"team {team} in {challenge.name}"
        ids = await self._change(conditions, {"counts": False}, "forgive", what, why)
        return len(ids)

    async def requeue(self, key: str, why: str) -> int:
        """Evaluate a failed submission again, and return its number.

        Raises:
            RefusedError: if it did not fail.
        """
        conditions = [submissions.c.key == key, submissions.c.state == SubmissionState.FAILED]
        changes: dict[str, Any] = {
            "state": SubmissionState.QUEUED,
            "attempts": 0,
            "progress": 0.0,
            "finished_at": None,
            "reason": "",
        }
        what = f"submission {key}"
        error = RefusedError("Only a submission that failed is evaluated once more.")
        ids = await self._change(conditions, changes, "requeue", what, why, error_if_none=error)
        return ids[0]

    async def _change(
        self,
        conditions: list[ColumnElement[bool]],
        changes: dict[str, Any],
        action: str,
        what: str,
        why: str,
        error_if_none: Exception | None = None,
    ) -> list[int]:
        """Change the submissions that meet all conditions, log it, and return their numbers.

        Raises:
            Exception: `error_if_none`, if there is one and no submission meets the conditions.
        """
        now = self._store.clock()
        # PostgreSQL counts the changed rows only if they are fetched.
        statement = update(submissions).where(*conditions).values(changes)
        statement = statement.returning(submissions.c.id)

        def change(connection: Connection) -> list[int]:
            ids = list(connection.execute(statement).scalars())
            if error_if_none is not None and not ids:
                raise error_if_none
            write_audit(connection, now, None, action, what, why)
            return ids

        return await self._store.database.run(change)

    async def set_blocked(self, account_id: int, why: str, *, is_blocked: bool) -> None:
        """Block an account with its sessions and tokens, or unblock it; its submissions stay.

        Raises:
            NotFoundError: if there is no such account.
        """
        now = self._store.clock()
        action = "block" if is_blocked else "unblock"
        statement = (
            update(accounts)
            .where(accounts.c.id == account_id)
            .values(blocked_at=now if is_blocked else None)
            .returning(accounts.c.id)
        )

        def block(connection: Connection) -> None:
            if connection.execute(statement).first() is None:
                raise NotFoundError
            end_sessions(connection, account_id)
            write_audit(connection, now, None, action, f"account {account_id}", why)

        await self._store.database.run(block)
