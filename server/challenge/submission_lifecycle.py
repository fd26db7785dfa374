"""The steps by which workers take submissions through their states, each in one transaction.

Worker processes and the server's worker threads call them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, insert, select

from ...benchmarks.commands.validate import Verdict
from ..storage.database import blocking_transaction
from .members import Account
from .submissions import (
    FINAL_STATES,
    StoreUser,
    Submission,
    SubmissionState,
    change_submissions,
    select_submissions,
)
from .tables import results, submissions

_LIMIT_REACHED = "the limit of submissions was reached while this one was checked"


class SubmissionLifecycle(StoreUser):
    """The steps of a store's submissions; `worker` is the name of a worker process."""

    @blocking_transaction
    def claim_next(self, connection: Connection, worker: str, state: str) -> Submission | None:
        """Begin to check (`received`) or to evaluate (`queued`) the submission that has waited longest.

        Returns None if none waits to a challenge that the site has.
        """
        is_free = (submissions.c.state == state) & submissions.c.worker.is_(None)
        is_of_site = submissions.c.challenge.in_(self.store.challenges)
        query = select(submissions.c.id).where(is_free, is_of_site).order_by(submissions.c.id)
        number = connection.execute(query.limit(1)).scalar()
        if number is None:
            return None

        changes = {
            "state": SubmissionState.RUNNING if state == SubmissionState.QUEUED else state,
            "worker": worker,
            "attempts": submissions.c.attempts + 1,
            "started_at": self.store.clock(),
            "progress": 0.0,
            "step": "",
        }
        is_next = submissions.c.id == number
        # Another worker may have claimed it since the query.
        if not change_submissions(connection, [is_next, is_free], changes):
            return None

        return select_submissions(connection, is_next)[0]

    @blocking_transaction
    def has_unfinished(self, connection: Connection) -> bool:
        """Return whether a submission waits, or is being checked or evaluated."""
        is_unfinished = submissions.c.state.not_in(FINAL_STATES)
        is_of_site = submissions.c.challenge.in_(self.store.challenges)
        query = select(submissions.c.id).where(is_unfinished, is_of_site).limit(1)
        return connection.execute(query).first() is not None

    @blocking_transaction
    def record_verdict(
        self, connection: Connection, number: int, worker: str, verdict: Verdict
    ) -> None:
        """Write down the outcome of a check; a valid submission is queued and counts from then on.

        A submission that is checked again, against changed references, was within the limits before, and
        keeps on counting, or not.
        """
        submission = select_submissions(connection, submissions.c.id == number)[0]
        is_recheck = submission.checked_at is not None

        faults = verdict.faults
        n_faults = verdict.n_faults
        # Others of the team may have been found valid while this one was checked.
        if not n_faults and not is_recheck and self._exceeds_limits(connection, submission):
            faults = [_LIMIT_REACHED]
            n_faults = 1

        changes = {
            "state": SubmissionState.INVALID if n_faults else SubmissionState.QUEUED,
            "counts": not n_faults and (submission.counts or not is_recheck),
            "worker": None,
            "attempts": 0,
            "checked_at": self.store.clock(),
            "faults": list(faults),
            "n_faults": n_faults,
            "summary": verdict.summary,
        }

        change_submissions(connection, _is_held(number, worker, SubmissionState.RECEIVED), changes)

    def _exceeds_limits(self, connection: Connection, submission: Submission) -> bool:
        """Return whether the team used up its limits while a submission was checked."""
        challenge = self.store.challenges[submission.challenge]
        phases = [phase for phase in challenge.phases if phase.name == submission.phase]
        # A phase that the challenge's file no longer names has no limits.
        if not phases:
            return False

        account = Account(submission.account, "", submission.team, submission.team_name)
        sent_at = submission.received_at
        allowance = self.store.count_allowance(
            connection, challenge=challenge, phase=phases[0], account=account, at=sent_at
        )
        return allowance.is_used_up

    @blocking_transaction
    def record_progress(
        self, connection: Connection, number: int, worker: str, progress: float, step: str
    ) -> None:
        """Write down the share of an evaluation that is done, and its current step."""
        is_held = _is_held(number, worker, SubmissionState.RUNNING)
        change_submissions(connection, is_held, {"progress": progress, "step": step[:64]})

    @blocking_transaction
    def record_result(
        self, connection: Connection, number: int, worker: str, result: Mapping[str, Any]
    ) -> bool:
        """Write down a result: the columns `seconds, digest, scores, run`.

        Returns False and writes nothing if the submission was taken from the worker meanwhile.
        """
        now = self.store.clock()
        changes: dict[str, Any] = {
            "state": SubmissionState.SCORED,
            "worker": None,
            "finished_at": now,
            "progress": 1.0,
            "step": "",
        }
        is_held = _is_held(number, worker, SubmissionState.RUNNING)
        if not change_submissions(connection, is_held, changes):
            return False

        row = {"submission": number, "made_at": now, **result}
        connection.execute(insert(results).values(row))
        return True

    @blocking_transaction
    def is_overdue(self, connection: Connection, worker: str) -> bool:
        """Return whether a worker has worked on a submission for longer than the challenge allows."""
        query = select(submissions.c.challenge, submissions.c.started_at)
        row = connection.execute(query.where(submissions.c.worker == worker)).first()
        if row is None:
            return False

        limits = self.store.challenges[row.challenge].limits
        return self.store.clock() - row.started_at > limits.seconds

    @blocking_transaction
    def give_up(
        self, connection: Connection, worker: str, reason: str, *, is_final: bool = False
    ) -> None:
        """Release the submissions of a worker: they wait again, or fail after all attempts.

        Args:
            connection: of the transaction.
            worker: the one that died or gave up.
            reason: the text for the team; it must not quote references or ratings.
            is_final: whether another attempt would end alike.
        """
        for submission in select_submissions(connection, submissions.c.worker == worker):
            limits = self.store.challenges[submission.challenge].limits
            changes: dict[str, Any] = {"worker": None, "progress": 0.0, "step": ""}
            if is_final or submission.attempts >= limits.attempts:
                changes |= self._failure(submission, reason, is_final)
            elif submission.state != SubmissionState.RECEIVED:  # an interrupted check is as it was
                changes["state"] = SubmissionState.QUEUED
            change_submissions(connection, [submissions.c.id == submission.id], changes)

    def _failure(self, submission: Submission, reason: str, is_final: bool) -> dict[str, Any]:
        """Return the columns of a submission that is not tried again."""
        now = self.store.clock()
        if submission.state == SubmissionState.RECEIVED:
            return {
                "state": SubmissionState.INVALID,
                "counts": False,
                "checked_at": now,
                "faults": [reason],
                "n_faults": 1,
                "summary": f"{submission.file}: could not be checked",
            }

        if submission.attempts > 1 and not is_final:
            reason = f"{reason}; it was tried {submission.attempts} times"
        return {"state": SubmissionState.FAILED, "finished_at": now, "reason": reason}


def _is_held(number: int, worker: str, state: str) -> list[ColumnElement[bool]]:
    is_of_worker = submissions.c.worker == worker
    return [submissions.c.id == number, submissions.c.state == state, is_of_worker]
