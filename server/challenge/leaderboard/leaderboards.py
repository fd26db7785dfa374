"""The leaderboards of a site as its visitors see them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..definition import Challenge
from ..queries import ChallengeStatus, Queries
from ..submission_store import SubmissionStore
from ..submissions import Submission
from .board import Board, BoardEntry, read_scores, round_scores
from .board_request import ALL_PHASES, BoardRequest, read_board_request
from .columns import make_columns
from .rank_cache import RankCache
from .ranking import rank_entries, select_entries


@dataclass(frozen=True)
class VisibleBoard:
    """A leaderboard as a page shows it.

    Attributes:
        board: the rows that pass the filters.
        teams: names and numbers to filter by.
        disqualified: the disqualified submissions.
        is_published: whether everybody sees the leaderboard.
    """

    board: Board
    teams: list[tuple[str, int]]
    disqualified: list[Submission]
    is_published: bool


class Leaderboards:
    """The leaderboards of a site.

    Attributes:
        columns: by challenge.
    """

    def __init__(self, store: SubmissionStore, queries: Queries) -> None:
        self._store, self._queries, self._ranks = store, queries, RankCache(store)
        self.columns = {c.name: make_columns(c) for c in store.challenges.values()}

    def read_request(self, challenge: Challenge, parameters: Mapping[str, str]) -> BoardRequest:
        """Return the request of an address's query parameters."""
        columns = self.columns[challenge.name]
        return read_board_request(challenge, columns, parameters, self._store.clock())

    async def build(
        self,
        challenge: Challenge,
        request: BoardRequest,
        team: int | None,
        *,
        is_admin: bool = False,
    ) -> VisibleBoard:
        """Return a leaderboard.

        Args:
            challenge: the challenge.
            request: the phase, order and filters.
            team: the visitor's, which sees its own submissions before publication.
            is_admin: whether all submissions are shown, hidden ones included, with all digits.

        Raises:
            RefusedError: if a day of the request is invalid.
        """
        filters = request.filters
        status, submissions = await self._queries.leaderboard_submissions(
            challenge, team, is_admin=is_admin
        )
        if request.phase != ALL_PHASES:
            submissions = [s for s in submissions if s.phase == request.phase]
        entries = _make_entries(submissions, status, team)
        columns, decimals = self.columns[challenge.name], None
        if not (is_admin or challenge.exact):
            # Places and ranks by hidden digits would reveal them: which of two is ahead.
            entries = [replace(e, scores=round_scores(e.scores, columns)) for e in entries]
            decimals = request.column.shown_decimals
        standing = select_entries(entries, request.column, request.selection)
        ranks = await asyncio.to_thread(
            self._ranks.rank, challenge, request.column, standing, decimals
        )
        rows = rank_entries(standing, request.column, ranks, is_reversed=request.is_reversed)
        signatures = [s.result.run.get("signatures", {}) for s in submissions if s.result]
        board = Board(
            challenge=challenge.name,
            columns=columns,
            ranked_by=request.column,
            rows=[row for row in rows if filters.accepts(row.entry)],
            signatures=signatures[-1] if signatures else {},
            signatures_differ=any(earlier != signatures[-1] for earlier in signatures),
        )
        return VisibleBoard(
            board,
            sorted({(entry.name, entry.team) for entry in entries if entry.team is not None}),
            [s for s in submissions if s.standing == "disqualified"],
            status.is_published,
        )


def _make_entries(
    submissions: list[Submission], status: ChallengeStatus, team: int | None
) -> list[BoardEntry]:
    """Return the entries of submissions that are not disqualified, and of human captions."""
    entries = [
        BoardEntry(
            number=submission.id,
            team=submission.team,
            name=submission.team_name,
            system=submission.system,
            phase=submission.phase,
            at=submission.received_at,
            scores=read_scores(submission.result.scores if submission.result else ()),
            is_own=submission.team == team,
            key=submission.key,
        )
        for submission in submissions
        if submission.standing != "disqualified"
    ]
    # Rows of an older version are all of held-out captions, and have no name.
    human_rows: dict[str, list[Mapping[str, Any]]] = {}
    for row in status.human_scores:
        human_rows.setdefault(row.get("people") or "captions held out", []).append(row)
    entries += [
        BoardEntry(None, None, "people", system, "", 0.0, read_scores(rows))
        for system, rows in human_rows.items()
    ]
    return entries
