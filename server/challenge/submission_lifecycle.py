"""The steps by which workers take submissions through their states, each in one transaction.

Methods wait for the commit; they are called from worker processes and the server's worker threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Update, insert, select, update

from ...benchmarks.commands.validate import Verdict
from .accounts.account import Account
from .submission_store import SubmissionStore
from .submissions import Submission, SubmissionState, select_submissions
from .tables import results, submissions

_LIMIT_REACHED = "the limit of submissions was reached while this one was checked"


class SubmissionLifecycle:
    """The steps of a store's submissions."""

    def __init__(self, store: SubmissionStore) -> None:
        self._store, self._database = store, store.database

    def list_waiting(self) -> dict[str, list[int]]:
        """Return the submissions that wait to be checked (`received`) or evaluated (`queued`).

        Submissions to a challenge that the site does not have any more keep waiting and are not listed.

        Returns:
            numbers by state, oldest first.
        """

        def list_ids(connection: Connection, state: str) -> list[int]:
            query = select(submissions.c.id).where(
                submissions.c.state == state,
                submissions.c.worker.is_(None),
                submissions.c.challenge.in_(self._store.challenges),
            )
            return list(connection.execute(query.order_by(submissions.c.id)).scalars())

        states = (SubmissionState.RECEIVED, SubmissionState.QUEUED)
        return self._database.run_blocking(
            lambda c: {state: list_ids(c, state) for state in states}
        )

    def claim(self, number: int, worker: str, state: str) -> Submission | None:
        """Begin to check (`received`) or to evaluate (`queued`) a submission.

        Returns:
            the submission; None if it is in another state, or another worker has it.
        """
        next_state = SubmissionState.RUNNING if state == SubmissionState.QUEUED else state

        def begin(connection: Connection) -> Submission | None:
            statement = (
                update(submissions)
                .where(
                    submissions.c.id == number,
                    submissions.c.state == state,
                    submissions.c.worker.is_(None),
                )
                .values(
                    state=next_state,
                    worker=worker,
                    attempts=submissions.c.attempts + 1,
                    started_at=self._store.clock(),
                    progress=0.0,
                    step="",
                )
            )
            if not _changes_row(connection, statement):
                return None
            return select_submissions(connection, submissions.c.id == number)[0]

        return self._database.run_blocking(begin)

    def record_verdict(self, number: int, worker: str, verdict: Verdict) -> None:
        """Write down the outcome of a check; a valid submission is queued and counts from then on.

        A submission that is checked again, against changed references, was within the limits before, and
        keeps on counting, or not.
        """

        def record(connection: Connection) -> None:
            submission = select_submissions(connection, submissions.c.id == number)[0]
            is_recheck = submission.checked_at is not None
            faults, n_faults = verdict.faults, verdict.n_faults
            if not n_faults and not is_recheck and self._exceeds_limits(connection, submission):
                faults, n_faults = [_LIMIT_REACHED], 1
            connection.execute(
                update(submissions)
                .where(
                    submissions.c.id == number,
                    submissions.c.state == SubmissionState.RECEIVED,
                    submissions.c.worker == worker,
                )
                .values(
                    state=SubmissionState.INVALID if n_faults else SubmissionState.QUEUED,
                    counts=not n_faults and (submission.counts or not is_recheck),
                    worker=None,
                    attempts=0,
                    checked_at=self._store.clock(),
                    faults=list(faults),
                    n_faults=n_faults,
                    summary=verdict.summary,
                )
            )

        self._database.run_blocking(record)

    def _exceeds_limits(self, connection: Connection, submission: Submission) -> bool:
        """Return whether the team used up its limits while a submission was checked."""
        challenge = self._store.challenges[submission.challenge]
        phase = next((p for p in challenge.phases if p.name == submission.phase), None)
        if phase is None:
            return False
        account = Account(submission.account, "", submission.team, submission.team_name)
        allowance = self._store.count_allowance(
            connection, challenge, phase, account, submission.received_at
        )
        return allowance.is_used_up

    def record_progress(self, number: int, worker: str, progress: float, step: str) -> None:
        """Write down the share of an evaluation that is done, and its current step."""
        is_held = (submissions.c.id == number, submissions.c.worker == worker)
        statement = update(submissions).where(*is_held)
        changes = {"progress": progress, "step": step[:64]}
        self._database.run_blocking(lambda c: c.execute(statement.values(changes)) and None)

    def record_result(self, number: int, worker: str, result: Mapping[str, Any]) -> bool:
        """Write down a result.

        Args:
            number: the submission's.
            worker: the one that evaluated it.
            result: the columns `seconds, digest, scores, run`.

        Returns:
            False, and nothing is written, if the submission was taken from the worker meanwhile.
        """
        now = self._store.clock()
        statement = (
            update(submissions)
            .where(
                submissions.c.id == number,
                submissions.c.state == SubmissionState.RUNNING,
                submissions.c.worker == worker,
            )
            .values(
                state=SubmissionState.SCORED, worker=None, progress=1.0, step="", finished_at=now
            )
        )

        def record(connection: Connection) -> bool:
            is_held = _changes_row(connection, statement)
            if is_held:
                row = {"submission": number, "made_at": now, **result}
                connection.execute(insert(results).values(row))
            return is_held

        return self._database.run_blocking(record)

    def is_overdue(self, worker: str) -> bool:
        """Return whether a worker has worked on a submission for longer than the challenge allows."""
        query = select(submissions.c.challenge, submissions.c.started_at)
        query = query.where(submissions.c.worker == worker)
        row = self._database.run_blocking(lambda c: c.execute(query).first())
        if row is None:
            return False
        limits = self._store.challenges[row.challenge].limits
        return self._store.clock() - row.started_at > limits.seconds

    def give_up(self, worker: str, reason: str, *, is_final: bool = False) -> list[int]:
        """Release the submissions of a worker: they wait again, or fail after all attempts.

        Args:
            worker: the one that died or gave up.
            reason: the text for the team; it must not quote references or ratings.
            is_final: whether another attempt would end alike.

        Returns:
            the numbers of the submissions that wait again.
        """

        def release(connection: Connection) -> list[int]:
            waiting: list[int] = []
            for submission in select_submissions(connection, submissions.c.worker == worker):
                limits = self._store.challenges[submission.challenge].limits
                changes: dict[str, Any] = {"worker": None, "progress": 0.0, "step": ""}
                if is_final or submission.attempts >= limits.attempts:
                    changes |= self._failure(submission, reason, is_final)
                else:
                    is_unchecked = submission.state == SubmissionState.RECEIVED
                    changes["state"] = submission.state if is_unchecked else SubmissionState.QUEUED
                    waiting.append(submission.id)
                statement = update(submissions).where(submissions.c.id == submission.id)
                connection.execute(statement.values(changes))
            return waiting

        return self._database.run_blocking(release)

    def _failure(self, submission: Submission, reason: str, is_final: bool) -> dict[str, Any]:
        """Return the columns of a submission that is not tried again."""
        if submission.state == SubmissionState.RECEIVED:
            return {
                "state": SubmissionState.INVALID,
                "counts": False,
                "checked_at": self._store.clock(),
                "faults": [reason],
                "n_faults": 1,
                "summary": f"{submission.file}: could not be checked",
            }
        if submission.attempts > 1 and not is_final:
            reason = f"{reason}; it was tried {submission.attempts} times"
        return {
            "state": SubmissionState.FAILED,
            "finished_at": self._store.clock(),
            "reason": reason,
        }


def _changes_row(connection: Connection, statement: Update) -> bool:
    """Execute an update and return whether it changed a row.

    PostgreSQL counts the changed rows only if they are fetched.
    """
    return connection.execute(statement.returning(submissions.c.id)).first() is not None
