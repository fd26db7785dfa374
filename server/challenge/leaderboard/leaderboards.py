"""The leaderboards of a site as its visitors see them, by the phase, order and filters of their address."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from ...web.errors import RefusedError
from ..definition import Challenge, Phase
from ..submissions import (
    ChallengeStatus,
    Queries,
    Result,
    Revision,
    Submission,
    SubmissionStore,
)
from .board import (
    Board,
    BoardEntry,
    Score,
    ScoreColumn,
    default_column,
    make_columns,
    read_scores,
    round_scores,
)
from .ranking import RankCache, Selection, rank_entries, select_entries

#: The phase of an address that shows all phases.
ALL_PHASES = "all"


@dataclass(frozen=True)
class Filters:
    """The entries of a leaderboard that are shown.

    Attributes:
        team: its number; None for all.
        since, until: seconds since 1970.
    """

    team: int | None = None
    since: float = -math.inf
    until: float = math.inf

    def accepts(self, entry: BoardEntry) -> bool:
        """Return whether an entry is shown; human captions always are."""
        if entry.is_human:
            return True

        return self.team in (None, entry.team) and self.since <= entry.at < self.until


@dataclass(frozen=True)
class BoardRequest:
    """A leaderboard as its address describes it.

    Attributes:
        phase: its name, or `all`.
        column: the one that places are by.
        is_reversed: whether the worst comes first.
        selection: of a team's submissions.
        team: its number as text; empty for all.
        since, until: days, both included, as 2026-11-21; empty for any.
    """

    phase: str
    column: ScoreColumn
    is_reversed: bool
    selection: Selection
    team: str
    since: str
    until: str

    def query_string(self, **changes: Any) -> str:
        """Return the query string of this request's address, with changes."""
        parameters = {
            "phase": self.phase,
            "sort": self.column.key,
            "turn": "yes" if self.is_reversed else "",
            "which": self.selection,
            "team": self.team,
            "since": self.since,
            "until": self.until,
            **changes,
        }
        return urlencode({name: value for name, value in parameters.items() if value})

    @property
    def filters(self) -> Filters:
        """Return the filters of team and time; raise `RefusedError` if a day is invalid."""
        is_number = self.team.isascii() and self.team.isdecimal()
        # The last day is included.
        until = _parse_day(self.until) + 86_400 if self.until else math.inf

        return Filters(
            team=int(self.team) if is_number else None,
            since=_parse_day(self.since) if self.since else -math.inf,
            until=until,
        )


def read_board_request(
    challenge: Challenge, columns: Sequence[ScoreColumn], parameters: Mapping[str, str], now: float
) -> BoardRequest:
    """Return the request of an address's query parameters; invalid ones are ignored."""
    columns_by_key = {column.key: column for column in columns}
    column = columns_by_key.get(parameters.get("sort", ""))

    phases = [phase.name for phase in challenge.phases]
    phase = parameters.get("phase", "")
    if phase not in (*phases, ALL_PHASES):
        phase = _current_phase(challenge, now).name

    selection = parameters.get("which", "")
    return BoardRequest(
        phase=phase,
        column=column or default_column(challenge, columns),
        is_reversed=parameters.get("turn", "") == "yes",
        selection=selection if selection in ("latest", "all") else "best",
        team=parameters.get("team", "")[:10],
        since=parameters.get("since", "")[:10],
        until=parameters.get("until", "")[:10],
    )


def _parse_day(text: str) -> float:
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()
    except (ValueError, OverflowError) as error:
        raise RefusedError(f"“{text}” is not a day; write it as 2026-11-21.") from error


def _current_phase(challenge: Challenge, now: float) -> Phase:
    """Return the phase that a leaderboard shows first: the open one, or the last that began."""
    open_phase = challenge.open_phase(now)
    if open_phase is not None:
        return open_phase

    begun: list[Phase] = []
    for phase in challenge.phases:
        if phase.begins is None or phase.begins <= now:
            begun.append(phase)
    return (begun or challenge.phases)[-1]


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
        pages: as HTML.
    """

    def __init__(self, store: SubmissionStore, queries: Queries) -> None:
        self._store = store
        self._queries = queries
        self._ranks = RankCache(store)
        self.columns: dict[str, list[ScoreColumn]] = {}
        for challenge in store.challenges.values():
            self.columns[challenge.name] = make_columns(challenge)
        self.pages = BoardPages()
        #: By submission; a result stays as it is.
        self._results: dict[int, _ShownResult] = {}

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
            challenge, team, is_admin=is_admin, known=self._results
        )

        columns = self.columns[challenge.name]
        self._remember_results(submissions, columns)
        if request.phase != ALL_PHASES:
            submissions = [s for s in submissions if s.phase == request.phase]

        # Places and ranks by hidden digits would reveal them: which of two is ahead.
        is_exact = is_admin or challenge.exact
        decimals = None if is_exact else request.column.shown_decimals
        entries = self._list_entries(submissions, status, columns, team, is_exact=is_exact)
        standing = select_entries(entries, request.column, request.selection)
        ranks = await asyncio.to_thread(self._ranks.rank, request.column, standing, decimals)
        rows = rank_entries(standing, request.column, ranks, is_reversed=request.is_reversed)

        signatures = [self._results[submission.id].signatures for submission in submissions]
        last_signatures = signatures[-1] if signatures else {}
        board = Board(
            challenge=challenge.name,
            columns=columns,
            ranked_by=request.column,
            rows=[row for row in rows if filters.accepts(row.entry)],
            signatures=last_signatures,
            signatures_differ=any(earlier != last_signatures for earlier in signatures),
        )
        # Filters hide teams, and the list to choose from names all of them.
        teams: set[tuple[str, int]] = set()
        for entry in entries:
            if entry.team is not None:
                teams.add((entry.name, entry.team))

        return VisibleBoard(
            board=board,
            teams=sorted(teams),
            disqualified=[s for s in submissions if s.standing == "disqualified"],
            is_published=status.is_published,
        )

    def _remember_results(
        self, submissions: Sequence[Submission], columns: Sequence[ScoreColumn]
    ) -> None:
        for submission in submissions:
            if submission.result is not None:
                self._results[submission.id] = _ShownResult.of(submission.result, columns)

    def _list_entries(
        self,
        submissions: list[Submission],
        status: ChallengeStatus,
        columns: Sequence[ScoreColumn],
        team: int | None,
        *,
        is_exact: bool,
    ) -> list[BoardEntry]:
        """Return the entries of submissions and of human captions, with the digits that the visitor may see."""
        scores: dict[int, Mapping[str, Score]] = {}
        for submission in submissions:
            result = self._results[submission.id]
            scores[submission.id] = result.shown_scores(is_exact=is_exact)

        human_scores = _read_human_scores(status)
        if not is_exact:
            for system, exact_scores in human_scores.items():
                human_scores[system] = round_scores(exact_scores, columns)
        return _make_entries(submissions, scores, human_scores, team)


@dataclass(frozen=True)
class _ShownResult:
    """The parts of a result that a leaderboard shows.

    Attributes:
        scores, rounded_scores: by column key, as computed and as tables print them.
        signatures: by metric.
    """

    scores: Mapping[str, Score]
    rounded_scores: Mapping[str, Score]
    signatures: Mapping[str, str]

    def shown_scores(self, *, is_exact: bool) -> Mapping[str, Score]:
        return self.scores if is_exact else self.rounded_scores

    @classmethod
    def of(cls, result: Result, columns: Sequence[ScoreColumn]) -> _ShownResult:
        scores = read_scores(result.scores)
        return cls(scores, round_scores(scores, columns), result.run.get("signatures", {}))


#: The pages that `BoardPages` keeps.
_MAX_PAGES = 50


@dataclass(frozen=True)
class _KeptPage:
    html: bytes
    revision: Revision
    read_at: float  # when the revision was read, by `time.monotonic`


class BoardPages:
    """The HTML pages of leaderboards that were shown last, by what they depend on."""

    def __init__(self) -> None:
        self._pages: dict[Hashable, _KeptPage] = {}
        self._lock = asyncio.Lock()

    async def get(
        self,
        key: Hashable,
        read_revision: Callable[[], Awaitable[Revision]],
        render: Callable[[], Awaitable[bytes]],
    ) -> bytes:
        """Return a page as its leaderboard is now, or was at a moment after this call.

        One page is made at a time, and all who asked for it before that get it: a crowd of visitors costs no
        more than one.
        """
        asked_at = time.monotonic()
        async with self._lock:
            page = self._pages.pop(key, None)
            if page is None or page.read_at < asked_at:
                # Read before the page is made, so that a change in between makes it anew next time.
                read_at = time.monotonic()
                revision = await read_revision()
                if page is not None and page.revision == revision:
                    page = replace(page, read_at=read_at)
                else:
                    page = _KeptPage(await render(), revision, read_at)

            self._pages[key] = page
            if len(self._pages) > _MAX_PAGES:
                del self._pages[next(iter(self._pages))]

            return page.html


def _make_entries(
    submissions: list[Submission],
    scores: Mapping[int, Mapping[str, Score]],
    human_scores: Mapping[str, Mapping[str, Score]],
    team: int | None,
) -> list[BoardEntry]:
    """Return the entries of submissions that are not disqualified, and of human captions."""
    entries: list[BoardEntry] = []
    for submission in submissions:
        if submission.standing == "disqualified":
            continue
        entry = BoardEntry(
            number=submission.id,
            team=submission.team,
            name=submission.team_name,
            system=submission.system,
            phase=submission.phase,
            at=submission.received_at,
            scores=scores[submission.id],
            is_own=submission.team == team,
            key=submission.key,
        )
        entries.append(entry)

    for system, scores_of_people in human_scores.items():
        entry = BoardEntry(
            number=None,
            team=None,
            name="people",
            system=system,
            phase="",
            at=0.0,
            scores=scores_of_people,
        )
        entries.append(entry)

    return entries


def _read_human_scores(status: ChallengeStatus) -> dict[str, dict[str, Score]]:
    """Return the scores of human captions by the name of their row."""
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for row in status.human_scores:
        # Rows of an older version are all of held-out captions, and have no name.
        name = row.get("people") or "captions held out"
        rows.setdefault(name, []).append(row)

    return {name: read_scores(named) for name, named in rows.items()}
