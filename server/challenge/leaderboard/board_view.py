"""What pages show of leaderboards and submissions, for teams and for whoever runs the site."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from ....benchmarks.runs.tables import format_number
from ...web.errors import RefusedError
from ..definition_file import Challenge, Phase
from ..moderation import Ranks, Records, columns_of, usual_column
from ..submission_store import Store, Submission
from .board import (
    TOLD,
    Board,
    Column,
    Filters,
    Score,
    Which,
    chosen,
    entry_scores,
    key_of,
    ranked,
    rounded,
)


@dataclass(frozen=True)
class Asked:
    """What an address asks of a leaderboard.

    Attributes:
        phase: its name; `all` for all.
        by: the column places are by.
        turned: whether the worst comes first.
        which: of a team's submissions.
        team: its number as text; empty for all.
        since, until: days, both included, as 2026-11-21; empty for any.
    """

    phase: str
    by: Column
    turned: bool
    which: Which
    team: str
    since: str
    until: str

    def address(self, **changes: Any) -> str:
        """What stands behind the `?` of the address that asks this, or something else."""
        now = {
            "phase": self.phase,
            "sort": self.by.key,
            "turn": "yes" if self.turned else "",
            "which": self.which,
            "team": self.team,
            "since": self.since,
            "until": self.until,
        }
        return urlencode({k: v for k, v in {**now, **changes}.items() if v})

    @property
    def filters(self) -> Filters:
        """
        Raises:
            RefusedError: on a day that is none.
        """
        team = self.team[:10]
        return Filters(
            int(team) if team.isascii() and team.isdecimal() else None,
            _day(self.since) if self.since else -math.inf,
            _day(self.until) + 86_400 if self.until else math.inf,
        )


@dataclass(frozen=True)
class Shown:
    """A leaderboard as a page shows it.

    Attributes:
        board: what is left after all filters.
        teams: names and numbers to filter by.
        out: who is disqualified.
        published: whether everybody sees it.
    """

    board: Board
    teams: list[tuple[str, int]]
    out: list[Submission]
    published: bool


class Views:
    """What pages show."""

    def __init__(self, store: Store, records: Records) -> None:
        self._store, self._records, self._ranks = store, records, Ranks(store)
        self.columns = {name: columns_of(one) for name, one in store.challenges.items()}

    def asked(self, challenge: Challenge, given: Mapping[str, str]) -> Asked:
        """What an address asks of a leaderboard; what it says wrongly is not asked."""
        columns = self.columns[challenge.name]
        known = {c.key: c for c in columns}
        phases = [*(p.name for p in challenge.phases), "all"]
        phase, which = given.get("phase", ""), given.get("which", "")
        return Asked(
            phase if phase in phases else _present(challenge, self._store.clock()).name,
            known.get(given.get("sort", "")) or usual_column(challenge, columns),
            given.get("turn", "") == "yes",
            "latest" if which == "latest" else "all" if which == "all" else "best",
            *(given.get(name, "")[:10] for name in ("team", "since", "until")),
        )

    async def board(
        self, challenge: Challenge, asked: Asked, onlooker: int | None, *, all_: bool = False
    ) -> Shown:
        """A leaderboard.

        Args:
            challenge: which.
            asked: what of it.
            onlooker: whose own submissions are seen where it is not published.
            all_: whether all are seen, hidden ones too.
        """
        filters = asked.filters
        state, found, entries = await self._records.board(challenge, onlooker, all_=all_)
        if asked.phase != "all":
            entries = [e for e in entries if e.number is None or e.phase == asked.phase]
            found = [s for s in found if s.phase == asked.phase]
        columns, digits = self.columns[challenge.name], None
        if not (all_ or challenge.exact):
            # Places and ranks by digits that are not told would tell them: who of two is ahead.
            entries = [replace(e, scores=rounded(e.scores, columns)) for e in entries]
            digits = asked.by.told
        standing = chosen(entries, asked.by, asked.which)
        ranks = await asyncio.to_thread(self._ranks.of, challenge, asked.by, standing, digits)
        rows = ranked(standing, asked.by, ranks, turned=asked.turned)
        signed = [s.result.run.get("signatures", {}) for s in found if s.result]
        return Shown(
            Board(
                challenge.name,
                columns,
                asked.by,
                [row for row in rows if filters.take(row.entry)],
                signed[-1] if signed else {},
                any(one != signed[-1] for one in signed),
            ),
            sorted({(e.name, e.team) for e in entries if e.team is not None}),
            [s for s in found if s.standing == "disqualified"],
            state.published,
        )

    def submission(self, challenge: Challenge, sub: Submission) -> dict[str, Any]:
        """A submission's scores as the paper has them: a line a metric, sets of references side by side."""
        columns = self.columns[challenge.name]
        told = rounded(entry_scores(sub.result.scores) if sub.result else {}, columns)
        lines: dict[str, list[tuple[Column, Score | None]]] = {}
        for column in columns:
            lines.setdefault(column.label, []).append((column, told.get(column.key)))
        return {
            "one": challenge,
            "sub": sub,
            "lines": lines,
            "sets": list(dict.fromkeys(c.references for c in columns)),
            "run": sub.result.run if sub.result else {},
        }

    def scores(self, sub: Submission) -> list[dict[str, Any]] | None:
        """The rows of a submission's result as programs are told them; None where there are none."""
        if sub.result is None or self._store.challenge(sub.challenge).exact:
            return sub.result and sub.result.scores
        digits = {c.key: c.told for c in self.columns[sub.challenge]}
        return [
            {
                **row,
                **{
                    part: round(row[part], digits.get(key_of(row), TOLD))
                    for part in ("value", "ci_low", "ci_high")
                    if row[part] is not None
                },
            }
            for row in sub.result.scores
        ]

    def told(self, sub: Submission) -> tuple[str, str]:
        """The score that a submission is ranked by, and what that is; empty where there is none."""
        challenge = self._store.challenges.get(sub.challenge)
        if sub.result is None or challenge is None:
            return "", ""
        by = usual_column(challenge, self.columns[challenge.name])
        score = entry_scores(sub.result.scores).get(by.key)
        return ("", "") if score is None else (shown(score.value, by), by.heading)


def shown(value: float, column: Column) -> str:
    """A score as tables print it."""
    return format_number(value, column.scale, column.decimals)


def half(score: Score, column: Column) -> str:
    """Half an interval's width, as tables print it."""
    return format_number((score.high - score.low) / 2, column.scale, column.decimals)


def when(at: float | None) -> str:
    """A time as pages show it, in UTC."""
    return "" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")


def _day(text: str) -> float:
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()
    except (ValueError, OverflowError) as error:
        raise RefusedError(f"“{text}” is no day; 2026-11-21 is one.") from error


def _present(challenge: Challenge, now: float) -> Phase:
    """The phase that a leaderboard shows first: the open one, else the last that began."""
    begun = [p for p in challenge.phases if p.begins is None or p.begins <= now]
    return challenge.phase(now) or (begun or challenge.phases)[-1]
