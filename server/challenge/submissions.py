"""Submissions and their results as the database holds them.

A submission goes through the states of `SubmissionState`. Each step is one transaction that tests the
previous state, so that a step taken twice, or by a worker that was given up, changes nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import Any

from sqlalchemy import ColumnElement, Connection, select

from .tables import results, submissions, teams


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
        result: None until it is scored.
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


def select_submissions(
    connection: Connection, *conditions: ColumnElement[bool]
) -> list[Submission]:
    """Return the submissions that meet all conditions, with their results, oldest first."""
    result_columns = [
        column.label(f"result_{column.name}")
        for column in results.c
        if column.name not in ("id", "submission")
    ]
    query = (
        select(submissions, teams.c.name.label("team_name"), *result_columns)
        .join(teams, teams.c.id == submissions.c.team)
        .outerjoin(results, results.c.submission == submissions.c.id)
        .where(*conditions)
        .order_by(submissions.c.id)
    )
    return [_make_submission(dict(row)) for row in connection.execute(query).mappings()]


def _make_submission(row: dict[Any, Any]) -> Submission:
    prefix = "result_"
    result = {
        name.removeprefix(prefix): row.pop(name) for name in list(row) if name.startswith(prefix)
    }
    return Submission(**row, result=Result(**result) if result["made_at"] else None)


def finite_or_none(value: Any) -> float | None:
    """Return a number for JSON: None instead of NaN, infinity or None."""
    return None if value is None or not math.isfinite(value) else float(value)
