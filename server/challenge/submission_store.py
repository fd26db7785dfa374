"""Submissions of a site: received within the limits, stored as rows and files.

The rows of the database are the queue, too: workers look for those that wait. `store_opening` opens a store;
`submission_lifecycle` takes submissions through their states.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, func, insert, or_, select

from ..storage.database import Clock, Database
from ..web.errors import NotFoundError, RefusedError
from .accounts.account import Account
from .definition import Challenge, Phase
from .submissions import Submission, SubmissionState, select_submissions
from .tables import challenges as challenge_rows
from .tables import submissions
from .transactions import transaction

_DAY, _HOUR = 86_400, 3_600


@dataclass(frozen=True)
class Allowance:
    """The number of submissions that a team may still make in a phase; None for no limit."""

    today: int | None
    in_all: int | None

    @property
    def is_used_up(self) -> bool:
        """Return whether no submission is allowed now."""
        return 0 in (self.today, self.in_all)


@dataclass(frozen=True)
class SubmissionStore:
    """The challenges of a site with their submissions.

    Attributes:
        database: open and up to date.
        folder: of the submitted files.
        challenges: by name.
        digests: `Challenge.digest` by name.
        clock: returns seconds since 1970.
        secret: signs sessions and forms; empty in a worker.
    """

    database: Database
    folder: Path
    challenges: Mapping[str, Challenge]
    digests: Mapping[str, str]
    clock: Clock
    secret: bytes = b""

    def get_challenge(self, name: str) -> Challenge:
        """Return a challenge; raise `NotFoundError` if there is none of that name."""
        try:
            return self.challenges[name]
        except KeyError as error:
            raise NotFoundError from error

    def file_of(self, key: str, name: str) -> Path:
        """Return the path of a file of a submission; `submission_files` says which there are."""
        return self.folder / key / name

    def item_list(self, challenge: Challenge) -> Path:
        """Return the path of the JSON lines with all items that a submission must caption or score."""
        return self.folder / f"{challenge.name}.jsonl"

    @transaction
    def load_submission(self, connection: Connection, key: str) -> Submission:
        """Return a submission; raise `NotFoundError` if there is none of that key."""
        rows = select_submissions(connection, submissions.c.key == key)
        if not rows:
            raise NotFoundError
        return rows[0]

    @transaction
    def check_acceptance(
        self, connection: Connection, challenge: Challenge, account: Account
    ) -> None:
        """Raise `RefusedError` if no submission of an account is accepted now; the message says why."""
        self._find_open_phase(connection, challenge, account)

    def _find_open_phase(
        self, connection: Connection, challenge: Challenge, account: Account
    ) -> Phase:
        now = self.clock()
        phase = challenge.open_phase(now)
        if phase is None:
            raise RefusedError(f"No phase of {challenge.title} takes submissions now.")
        frozen = select(challenge_rows.c.frozen_at).where(challenge_rows.c.name == challenge.name)
        if connection.execute(frozen).scalar_one() is not None:
            raise RefusedError(f"{challenge.title} takes no submissions for the moment.")
        allowance = self.count_allowance(connection, challenge, phase, account, now)
        if allowance.is_used_up:
            period = "on a day" if allowance.today == 0 else "in all"
            limit = phase.per_day if allowance.today == 0 else phase.in_all
            raise RefusedError(
                f"Your team has made its {limit:,} submissions {period} in the phase {phase.name}."
            )
        is_own = submissions.c.account == account.id
        is_unchecked = submissions.c.state == SubmissionState.RECEIVED
        if connection.execute(select(submissions.c.id).where(is_own, is_unchecked)).first():
            raise RefusedError("Your last submission is still being checked; wait for its verdict.")
        is_recent = submissions.c.received_at > now - _HOUR
        n_uploads = connection.execute(select(func.count()).where(is_own, is_recent)).scalar_one()
        limit = challenge.limits.uploads
        if n_uploads >= limit:
            raise RefusedError(
                f"You have sent {n_uploads:,} files within the last hour; the limit is {limit:,}."
            )
        return phase

    def count_allowance(
        self,
        connection: Connection,
        challenge: Challenge,
        phase: Phase,
        account: Account,
        at: float,
    ) -> Allowance:
        """Return the submissions that an account may still make on the day (UTC) of a time.

        The submissions of its team count, and its own in any team: leaving a team frees none.
        """
        midnight, sent_at = at - at % _DAY, submissions.c.received_at
        in_phase = select(func.count()).where(
            submissions.c.challenge == challenge.name,
            submissions.c.phase == phase.name,
            submissions.c.counts,
            or_(submissions.c.team == account.team, submissions.c.account == account.id),
        )
        on_day = in_phase.where(sent_at >= midnight, sent_at < midnight + _DAY)
        today, in_all = (
            None if limit is None else max(limit - connection.execute(query).scalar_one(), 0)
            for limit, query in ((phase.per_day, on_day), (phase.in_all, in_phase))
        )
        return Allowance(today, in_all)

    @transaction
    def add_submission(
        self,
        connection: Connection,
        challenge: Challenge,
        account: Account,
        upload: Mapping[str, Any],
    ) -> int:
        """Add a submission whose file is stored, and return its number.

        Args:
            connection: of the transaction.
            challenge, account: where it goes, and its sender.
            upload: the columns `key, system, note, file, sha256, bytes`.

        Raises:
            RefusedError: if no submission is accepted now.
        """
        phase = self._find_open_phase(connection, challenge, account)
        row = {
            **upload,
            "challenge": challenge.name,
            "phase": phase.name,
            "team": account.team,
            "account": account.id,
            "received_at": self.clock(),
            "state": SubmissionState.RECEIVED,
            "faults": [],
            "counts": False,
            "progress": 0.0,
            **dict.fromkeys(("n_faults", "attempts"), 0),
            **dict.fromkeys(("summary", "step", "reason", "standing", "standing_why"), ""),
        }
        statement = insert(submissions).values(row).returning(submissions.c.id)
        return connection.execute(statement).scalar_one()


@dataclass(frozen=True)
class StoreUser:
    """Base of the objects that run transactions on a store."""

    store: SubmissionStore

    @property
    def database(self) -> Database:
        """Return the store's database."""
        return self.store.database
