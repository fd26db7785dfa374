"""Submissions and their results: received within the limits, stored as rows and files, queried by the pages.

A submission goes through the states of `SubmissionState`. Each step is one transaction that tests the
previous state, so that a step taken twice, or by a worker that was given up, changes nothing. The rows are the
queue, too: workers look for those that wait. `store_opening` opens a store; `submission_lifecycle` takes
submissions through their states.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum, auto
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, insert, or_, select, update

from ..storage.clock import Clock
from ..storage.database import Database, transaction
from ..web.errors import NotFoundError, RefusedError
from .definition import Challenge, Phase
from .members import Account
from .tables import audit, results, submissions, teams
from .tables import challenges as challenge_rows


class SubmissionState(StrEnum):
    """The states of a submission, in the order in which it goes through them."""

    RECEIVED = auto()
    INVALID = auto()
    QUEUED = auto()
    RUNNING = auto()
    SCORED = auto()
    FAILED = auto()


#: The states that a submission leaves only by an admin's decision.
FINAL_STATES = (SubmissionState.INVALID, SubmissionState.SCORED, SubmissionState.FAILED)


@dataclass(frozen=True)
class Result:
    """The result of a submission; columns as in `tables.results`."""

    made_at: float
    seconds: float
    digest: str
    scores: list[dict[str, Any]]
    run: dict[str, Any]


@dataclass(frozen=True)
class Submission:
    """A submission as its team sees it; columns as in `tables.submissions`.

    Attributes:
        team_name: the team's name.
        result: None until it is scored, and where it was left out of a query.
    """

    id: int
    key: str
    challenge: str
    phase: str
    team: int
    account: int
    system: str
    note: str
    file: str
    sha256: str
    bytes: int
    received_at: float
    state: str
    checked_at: float | None
    faults: list[str]
    n_faults: int
    summary: str
    counts: bool
    attempts: int
    worker: str | None
    started_at: float | None
    progress: float
    step: str
    finished_at: float | None
    reason: str
    standing: str
    standing_why: str
    team_name: str
    result: Result | None = None

    @property
    def is_done(self) -> bool:
        """Return whether its state is final."""
        return self.state in FINAL_STATES


#: The numbers that a query names at most; SQLite takes 32,766.
_MAX_VARIABLES = 10_000


def select_submissions(
    connection: Connection, *conditions: ColumnElement[bool], known: Container[int] = ()
) -> list[Submission]:
    """Return the submissions that meet all conditions, with their results, oldest first.

    Args:
        connection: of the transaction.
        conditions: on the rows of `tables.submissions`.
        known: numbers of submissions whose results are left out.
    """
    query = (
        select(submissions, teams.c.name.label("team_name"))
        .join(teams, teams.c.id == submissions.c.team)
        .where(*conditions)
        .order_by(submissions.c.id)
    )
    rows: list[dict[str, Any]] = [dict(row) for row in connection.execute(query).mappings()]

    unknown = [row["id"] for row in rows if row["id"] not in known]
    results_by_number: dict[int, Result] = {}
    for begin in range(0, len(unknown), _MAX_VARIABLES):
        numbers = unknown[begin : begin + _MAX_VARIABLES]
        for row in connection.execute(select(results).where(results.c.submission.in_(numbers))):
            results_by_number[row.submission] = Result(
                made_at=row.made_at,
                seconds=row.seconds,
                digest=row.digest,
                scores=row.scores,
                run=row.run,
            )

    loaded: list[Submission] = []
    for row in rows:
        result = results_by_number.get(row["id"])
        loaded.append(Submission(**row, result=result))
    return loaded


def change_submissions(
    connection: Connection,
    conditions: Sequence[ColumnElement[bool]],
    changes: Mapping[str, Any],
) -> bool:
    """Change the submissions that meet all conditions and return whether there are any."""
    statement = update(submissions).where(*conditions).values(changes)
    return connection.execute(statement).rowcount > 0


def finite_or_none(value: Any) -> float | None:
    """Return a number for JSON: None instead of NaN, infinity or None."""
    if value is None or not math.isfinite(value):
        return None

    return float(value)


_DAY = 86_400
_HOUR = 3_600


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

        allowance = self.count_allowance(
            connection, challenge=challenge, phase=phase, account=account, at=now
        )
        if allowance.is_used_up:
            if allowance.today == 0:
                period = "on a day"
                limit = phase.per_day
            else:
                period = "in all"
                limit = phase.in_all
            raise RefusedError(
                f"Your team has made its {limit:,} submissions {period} in the phase {phase.name}."
            )

        is_own = submissions.c.account == account.id
        is_unchecked = submissions.c.state == SubmissionState.RECEIVED
        if connection.execute(select(submissions.c.id).where(is_own, is_unchecked)).first():
            raise RefusedError("Your last submission is still being checked; wait for its verdict.")

        # Invalid files are free within the phase's limits, and take as long to check.
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
        midnight = at - at % _DAY
        sent_at = submissions.c.received_at
        in_phase = select(func.count()).where(
            submissions.c.challenge == challenge.name,
            submissions.c.phase == phase.name,
            submissions.c.counts,
            or_(submissions.c.team == account.team, submissions.c.account == account.id),
        )
        on_day = in_phase.where(sent_at >= midnight, sent_at < midnight + _DAY)

        def count_left(limit: int | None, query: Any) -> int | None:
            if limit is None:
                return None
            return max(limit - connection.execute(query).scalar_one(), 0)

        return Allowance(
            today=count_left(phase.per_day, on_day),
            in_all=count_left(phase.in_all, in_phase),
        )

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
            "n_faults": 0,
            "summary": "",
            "counts": False,
            "attempts": 0,
            "progress": 0.0,
            "step": "",
            "reason": "",
            "standing": "",
            "standing_why": "",
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


#: Where a row of human scores keeps the mark of the captions that it is of, `Challenge.human_mark`.
_HUMAN_MARK = "held_out"


def load_status(connection: Connection, challenge: Challenge) -> ChallengeStatus:
    """Return the status of a challenge."""
    query = select(challenge_rows).where(challenge_rows.c.name == challenge.name)
    row = connection.execute(query).one()

    # Scores of other human captions than the challenge has now are outdated.
    human_scores = row.human or []
    is_current = all(score.get(_HUMAN_MARK) == challenge.human_mark for score in human_scores)

    return ChallengeStatus(
        is_published=challenge.is_public or row.published_at is not None,
        is_frozen=row.frozen_at is not None,
        human_scores=human_scores if is_current else [],
    )


def save_human_scores(
    connection: Connection, challenge: Challenge, rows: list[dict[str, Any]]
) -> None:
    """Store the scores of human captions, rows as in `Result.scores`."""
    marked = [{**row, _HUMAN_MARK: challenge.human_mark} for row in rows]
    statement = update(challenge_rows).where(challenge_rows.c.name == challenge.name)
    connection.execute(statement.values(human=marked))


#: The last entry of the log, the number of scored submissions, when the last of them was, and human scores as text.
Revision = tuple[int | None, int, float | None, str]


class Queries(StoreUser):
    """The queries of a site's pages."""

    @transaction
    def challenge_status(self, connection: Connection, challenge: Challenge) -> ChallengeStatus:
        """Return the status of a challenge."""
        return load_status(connection, challenge)

    @transaction
    def board_revision(self, connection: Connection, challenge: Challenge) -> Revision:
        """Return what stays the same for as long as a leaderboard does.

        Each change that people make of one is an entry of the log, and each that a worker makes ends a submission, or
        stores human scores.
        """
        is_scored = [
            submissions.c.challenge == challenge.name,
            submissions.c.state == SubmissionState.SCORED,
        ]
        last_entry = connection.execute(select(func.max(audit.c.id))).scalar()
        columns = func.count(), func.max(submissions.c.finished_at)
        n_scored, last_scored = connection.execute(select(*columns).where(*is_scored)).one()
        human = select(challenge_rows.c.human).where(challenge_rows.c.name == challenge.name)
        human_scores = connection.execute(human).scalar_one()

        return last_entry, n_scored, last_scored, repr(human_scores)

    @transaction
    def allowance(
        self, connection: Connection, challenge: Challenge, account: Account
    ) -> Allowance | None:
        """Return what an account's team may still submit now; None if no phase is open."""
        now = self.store.clock()
        phase = challenge.open_phase(now)
        if phase is None:
            return None

        return self.store.count_allowance(
            connection, challenge=challenge, phase=phase, account=account, at=now
        )

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
        self,
        connection: Connection,
        challenge: Challenge,
        team: int | None,
        *,
        is_admin: bool,
        known: Container[int],
    ) -> tuple[ChallengeStatus, list[Submission]]:
        """Return a challenge's status and the scored submissions that a visitor may see.

        Until the leaderboard is published, these are the visitor's team's; the admin sees all, hidden ones
        included. The `known` ones come without their results.
        """
        status = load_status(connection, challenge)
        is_scored = submissions.c.state == SubmissionState.SCORED
        conditions = [submissions.c.challenge == challenge.name, is_scored]

        if not is_admin:
            conditions.append(submissions.c.standing != "hidden")
        if not is_admin and not status.is_published:
            # No team has the number 0: a visitor without a team sees none.
            conditions.append(submissions.c.team == (team or 0))

        return status, select_submissions(connection, *conditions, known=known)
