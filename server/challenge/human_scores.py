"""Scores of human captions for the human row of a leaderboard, kept beside the challenge."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, select, update

from .definition import Challenge
from .tables import challenges


def load_human_scores(connection: Connection, challenge: Challenge) -> list[dict[str, Any]]:
    """Return the rows of human scores; empty until they are computed for the present `human` choice."""
    query = select(challenges.c.human).where(challenges.c.name == challenge.name)
    rows = connection.execute(query).scalar_one() or []
    is_current = all(row.get("held_out") == challenge.human for row in rows)
    return rows if is_current else []


def save_human_scores(
    connection: Connection, challenge: Challenge, rows: list[dict[str, Any]]
) -> None:
    """Store the rows of human scores, which are as in `Result.scores`."""
    marked = [{**row, "held_out": challenge.human} for row in rows]
    connection.execute(
        update(challenges).where(challenges.c.name == challenge.name).values(human=marked)
    )
