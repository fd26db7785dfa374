"""The address of a leaderboard: phase, order and filters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from ...web.errors import RefusedError
from ..definition import Challenge, Phase
from .board import BoardEntry
from .columns import ScoreColumn, default_column
from .ranking import Selection

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
        return Filters(
            int(self.team) if self.team.isascii() and self.team.isdecimal() else None,
            _parse_day(self.since) if self.since else -math.inf,
            _parse_day(self.until) + 86_400 if self.until else math.inf,
        )


def read_board_request(
    challenge: Challenge, columns: Sequence[ScoreColumn], parameters: Mapping[str, str], now: float
) -> BoardRequest:
    """Return the request of an address's query parameters; invalid ones are ignored."""
    columns_by_key = {column.key: column for column in columns}
    phases = [*(phase.name for phase in challenge.phases), ALL_PHASES]
    phase, selection = parameters.get("phase", ""), parameters.get("which", "")
    return BoardRequest(
        phase if phase in phases else _current_phase(challenge, now).name,
        columns_by_key.get(parameters.get("sort", "")) or default_column(challenge, columns),
        parameters.get("turn", "") == "yes",
        selection if selection in ("latest", "all") else "best",
        *(parameters.get(name, "")[:10] for name in ("team", "since", "until")),
    )


def _parse_day(text: str) -> float:
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()
    except (ValueError, OverflowError) as error:
        raise RefusedError(f"“{text}” is not a day; write it as 2026-11-21.") from error


def _current_phase(challenge: Challenge, now: float) -> Phase:
    """Return the phase that a leaderboard shows first: the open one, or the last that began."""
    begun = [phase for phase in challenge.phases if phase.begins is None or phase.begins <= now]
    return challenge.open_phase(now) or (begun or challenge.phases)[-1]
