"""Leaderboards as pure functions of results: places, rank clusters, filters, CSV and JSON.

Every submission's scores were computed on the same drawn images (a bootstrap of one seed), and the drawn
scores are kept. So any two submissions are compared as `captau score` compares systems, whenever a
leaderboard is asked for, and no caption is scored again.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import combinations
from typing import Any, Literal

import numpy as np

from ....benchmarks.statistics.significance import (
    correct_p_values,
    rank_clusters,
    two_sided_p_value,
)
from ....benchmarks.statistics.weighted_coefficients import Floats

#: Which of a team's submissions are shown: by the column's score, the last one, or all.
Which = Literal["best", "latest", "all"]
#: At which corrected p a difference is significant, and how p is corrected for the number of pairs.
ALPHA, CORRECTION = 0.05, "bh"
#: How many decimals are told of a score that tables do not print.
TOLD = 3


@dataclass(frozen=True)
class Column:
    """A score that a challenge gives.

    Attributes:
        key: `metric@references`, or of a metric's agreement with people `coefficient dimension`.
        metric: what it is of.
        references: the set of references; empty where there is but one, or none.
        label, scale, decimals: how tables show it.
        higher: whether more of it is better.
    """

    key: str
    metric: str
    references: str
    label: str
    scale: float
    decimals: int
    higher: bool

    @property
    def told(self) -> int:
        """How many decimals of the score itself are printed: three of CIDEr's 0.8743, as 87.4."""
        return self.decimals + round(math.log10(self.scale))

    @property
    def heading(self) -> str:
        """What the column is called, its references included."""
        return f"{self.label}, {self.references}" if self.references else self.label


@dataclass(frozen=True)
class Score:
    """A value with its interval; NaN where there is none."""

    value: float
    low: float
    high: float
    note: str = ""

    def rounded(self, decimals: int) -> Score:
        """With so many decimals."""
        low, high = round(self.low, decimals), round(self.high, decimals)
        return Score(round(self.value, decimals), low, high, self.note)


@dataclass(frozen=True)
class Entry:
    """A scored submission, or people.

    Attributes:
        number: the submission's; None for people.
        team: its number; None for people.
        name: the team's, or who the people are.
        system, phase: what was submitted, and when in the challenge.
        at: seconds since 1970.
        scores: by column.
        own: whether it is the onlooker's.
        key: the submission's, which addresses hold.
    """

    number: int | None
    team: int | None
    name: str
    system: str
    phase: str
    at: float
    scores: Mapping[str, Score]
    own: bool = False
    key: str = ""


@dataclass(frozen=True)
class Row:
    """A line of a leaderboard.

    Attributes:
        place: by the score, equal scores equal places; None for people, and where it is undefined.
        cluster: its rank: nobody of a rank is significantly better than another of it.
    """

    entry: Entry
    place: int | None = None
    cluster: int | None = None


@dataclass(frozen=True)
class Filters:
    """What of a leaderboard is shown.

    Attributes:
        team: its number; None for all.
        since, until: seconds since 1970.
    """

    team: int | None = None
    since: float = -math.inf
    until: float = math.inf

    def take(self, entry: Entry) -> bool:
        """Whether a submission is shown; people are, always."""
        if entry.number is None:
            return True
        return self.team in (None, entry.team) and self.since <= entry.at < self.until


def chosen(entries: Iterable[Entry], column: Column, which: Which) -> list[Entry]:
    """Of each team the submissions that stand for it; people stay."""
    entries = list(entries)
    if which == "all":
        return entries
    best: dict[int | None, Entry] = {}
    for entry in entries:
        if entry.number is None:
            continue
        old = best.get(entry.team)
        if old is None or _rank(entry, column, which) > _rank(old, column, which):
            best[entry.team] = entry
    return [e for e in entries if e.number is None or best[e.team] is e]


def _rank(entry: Entry, column: Column, which: Which) -> tuple[float, ...]:
    if which == "latest":
        return (entry.at,)
    return (_goodness(entry, column), -entry.at)


def _goodness(entry: Entry, column: Column) -> float:
    """More is better; what is undefined is worst."""
    score = entry.scores.get(column.key)
    if score is None or math.isnan(score.value):
        return -math.inf
    return score.value if column.higher else -score.value


def ranked(
    entries: Iterable[Entry], column: Column, clusters: Mapping[int, int], *, turned: bool = False
) -> list[Row]:
    """The lines of a leaderboard by one column, the best first.

    Args:
        entries: what is shown.
        column: what it is sorted by.
        clusters: by submission, from `clusters_of`.
        turned: whether the worst comes first; places stay.
    """
    ordered = sorted(entries, key=lambda e: (-_goodness(e, column), e.at, e.number or 0))
    places: dict[float, int] = {}
    rows: list[Row] = []
    placed = 0
    for entry in ordered:
        good = _goodness(entry, column)
        if entry.number is None or good == -math.inf:
            rows.append(Row(entry))
            continue
        placed += 1
        place = places.setdefault(good, placed)
        rows.append(Row(entry, place, clusters.get(entry.number)))
    return rows[::-1] if turned else rows


def clusters_of(
    values: Mapping[int, float], drawn: Mapping[int, Floats], *, higher: bool = True
) -> dict[int, int]:
    """Rank clusters of submissions by one score (`significance.rank_groups`).

    Args:
        values: each submission's score, undefined ones left out of the ranks.
        drawn: each one's scores of the same drawn images, shape (replicates,); a submission without
            them has no rank.
        higher: whether more is better.
    """
    sign = 1.0 if higher else -1.0
    known = sorted(n for n, v in values.items() if not math.isnan(v) and n in drawn)
    pairs = list(combinations(known, 2))
    p = correct_p_values([two_sided_p_value(drawn[a] - drawn[b]) for a, b in pairs], CORRECTION)
    names = {n: str(n) for n in known}
    # A difference that cannot be tested is not significant.
    tested = {
        frozenset((names[a], names[b])): float(np.nan_to_num(one, nan=1.0))
        for (a, b), one in zip(pairs, p, strict=True)
    }
    ranks = rank_clusters({names[n]: sign * values[n] for n in known}, tested, ALPHA)
    return {n: ranks[names[n]] for n in known}


@dataclass(frozen=True)
class Board:
    """A leaderboard.

    Attributes:
        challenge: its name.
        columns: all scores.
        by: the one that places and ranks are by.
        rows: the lines, in their order.
        signatures: of the metrics, by spec, where the last of its submissions was scored.
        differ: whether some were scored under others, as before captau or a library was updated.
    """

    challenge: str
    columns: Sequence[Column]
    by: Column
    rows: Sequence[Row]
    signatures: Mapping[str, str] = field(default_factory=dict[str, str])
    differ: bool = False

    def csv(self) -> str:
        """A row a line, three columns a score."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        heads = [h for c in self.columns for h in (c.key, f"{c.key}_low", f"{c.key}_high")]
        writer.writerow(["place", "rank", "team", "system", "submission", "phase", "at", *heads])
        for row in self.rows:
            one = row.entry
            cells = [_csv(one.scores.get(c.key), p) for c in self.columns for p in _PARTS]
            known = ["" if x is None else x for x in (row.place, row.cluster)]
            # A text that a spreadsheet would compute is told as text.
            texts = [_harmless(one.name), _harmless(one.system)]
            who = [one.key, one.phase, stamp(one.at)]
            writer.writerow([*known, *texts, *who, *cells])
        return out.getvalue()

    def json(self) -> str:
        """The same as objects, with how it was ranked."""
        table = {
            "challenge": self.challenge,
            "ranked_by": self.by.key,
            "alpha": ALPHA,
            "correction": CORRECTION,
            "signatures": dict(self.signatures),
            "signatures_differ": self.differ,
            "rows": [
                {
                    "place": row.place,
                    "rank": row.cluster,
                    "team": row.entry.name,
                    "system": row.entry.system,
                    "submission": row.entry.key or None,
                    "phase": row.entry.phase,
                    "at": stamp(row.entry.at),
                    "human": row.entry.number is None,
                    "scores": {
                        key: {part: number(getattr(score, part)) for part in _PARTS}
                        for key, score in row.entry.scores.items()
                    },
                }
                for row in self.rows
            ],
        }
        return f"{json.dumps(table, ensure_ascii=False, indent=2)}\n"


_PARTS = ("value", "low", "high")


def number(value: float) -> float | None:
    """A number as JSON has it: null where it is none."""
    return value if math.isfinite(value) else None


def stamp(at: float) -> str:
    """A time as ISO 8601 has it, in UTC; empty where there is none."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if at else ""


def _csv(score: Score | None, part: str) -> str:
    value = math.nan if score is None else float(getattr(score, part))
    return repr(value) if math.isfinite(value) else ""


def _harmless(text: str) -> str:
    return f"'{text}" if text[:1] in "=+-@\t" and text else text


def rounded(scores: Mapping[str, Score], columns: Sequence[Column]) -> dict[str, Score]:
    """Scores with no more decimals than are printed."""
    return {c.key: scores[c.key].rounded(c.told) for c in columns if c.key in scores}


def key_of(row: Mapping[str, Any]) -> str:
    """The column of a result's row."""
    return f"{row['metric']}@{row['references']}" if row.get("references") else row["metric"]


def entry_scores(rows: Iterable[Mapping[str, Any]]) -> dict[str, Score]:
    """A result's rows (references, metric, value, ci_low, ci_high, note) by column."""
    found: dict[str, Score] = {}
    for row in rows:
        value, low, high = (
            math.nan if row.get(name) is None else float(row[name])
            for name in ("value", "ci_low", "ci_high")
        )
        found[key_of(row)] = Score(value, low, high, row.get("note") or "")
    return found
