"""Leaderboards as data: columns, entries with their scores, ranked rows, and the CSV and JSON files of them."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ....benchmarks.scoring.catalog import metric_style
from ....benchmarks.statistics.coefficients.coefficient import find_coefficient
from ....benchmarks.statistics.preferences import MEAN_DIMENSION
from ..definition import Challenge
from ..submissions import finite_or_none

#: The decimals of a score that tables do not print.
DEFAULT_DECIMALS = 3


@dataclass(frozen=True)
class ScoreColumn:
    """A score that a challenge gives.

    Attributes:
        key: `metric@references`, or `coefficient dimension` for challenges of metrics.
        metric: the metric's spec; for challenges of metrics the same as `key`.
        references: the reference set; empty if there is only one, or none.
        label, scale, decimals: how tables print it.
        higher_is_better: whether higher scores are better.
    """

    key: str
    metric: str
    references: str
    label: str
    scale: float
    decimals: int
    higher_is_better: bool

    @property
    def shown_decimals(self) -> int:
        """Return the decimals of the unscaled score that tables print: 3 for CIDEr's 0.874 (87.4)."""
        return self.decimals + round(math.log10(self.scale))

    @property
    def heading(self) -> str:
        """Return the column's name with its reference set."""
        if not self.references:
            return self.label

        return f"{self.label}, {self.references}"


def column_key(score: Mapping[str, Any]) -> str:
    """Return the column of a row of `Result.scores`."""
    references = score.get("references")
    if not references:
        return score["metric"]

    return f"{score['metric']}@{references}"


def rank_keys(challenge: Challenge) -> list[str]:
    """Return the scores that can order a leaderboard: metrics, or `coefficient dimension`."""
    if challenge.kind == "captions":
        return [metric.spec for metric in challenge.metrics]

    protocol = challenge.bound_protocol(challenge.load_items())
    of_preferences: list[str] = []
    of_ratings: list[str] = []
    for coefficient in protocol.coefficients:
        is_of_preferences = find_coefficient(coefficient).is_of_preferences
        (of_preferences if is_of_preferences else of_ratings).append(coefficient)

    keys = [f"{name} {MEAN_DIMENSION}" for name in of_preferences]
    for dimension in protocol.dimension:
        keys += [f"{name} {dimension}" for name in of_ratings]

    return keys


def make_columns(challenge: Challenge) -> list[ScoreColumn]:
    """Return the columns of a challenge: the one that ranks first, the others as in tables."""
    if challenge.kind == "metrics":
        keys = sorted(rank_keys(challenge), key=lambda key: key != challenge.rank_by)
        return [_coefficient_column(key) for key in keys]

    styles = [(metric_style(metric), metric.spec) for metric in challenge.metrics]
    styles.sort(key=lambda pair: (pair[1] != challenge.rank_by, pair[0].order))

    has_several_sets = len(challenge.reference_sets) > 1
    columns: list[ScoreColumn] = []
    for style, spec in styles:
        for references in challenge.reference_sets:
            column = ScoreColumn(
                key=f"{spec}@{references.name}",
                metric=spec,
                references=references.name if has_several_sets else "",
                label=style.label,
                scale=style.scale,
                decimals=style.decimals,
                higher_is_better=style.higher_is_better,
            )
            columns.append(column)

    return columns


def default_column(challenge: Challenge, columns: Sequence[ScoreColumn]) -> ScoreColumn:
    """Return the column that orders a leaderboard unless the visitor chooses another."""
    return next(column for column in columns if column.metric == challenge.rank_by)


def _coefficient_column(key: str) -> ScoreColumn:
    coefficient, _, dimension = key.partition(" ")
    style = find_coefficient(coefficient)
    return ScoreColumn(
        key=key,
        metric=key,
        references="",
        label=f"{style.symbol} {dimension}".strip(),
        scale=style.scale,
        decimals=style.decimals,
        higher_is_better=True,
    )


#: The corrected p-value from which on a difference is not significant, and the correction.
ALPHA = 0.05
CORRECTION = "bh"
_SCORE_PARTS = ("value", "low", "high")


@dataclass(frozen=True)
class Score:
    """A value, the bounds of its interval and half the interval's width; NaN where undefined.

    The half width is a field because it is rounded by itself: that of rounded bounds can differ from it in the last digit.
    """

    value: float
    low: float
    high: float
    half_width: float
    note: str = ""

    def round(self, decimals: int) -> Score:
        """Return the score rounded to a number of decimals."""
        return Score(
            value=round(self.value, decimals),
            low=round(self.low, decimals),
            high=round(self.high, decimals),
            half_width=round(self.half_width, decimals),
            note=self.note,
        )


@dataclass(frozen=True)
class BoardEntry:
    """A scored submission, or human captions.

    Attributes:
        number: the submission's; None for human captions.
        team: its number; None for human captions.
        name: the team's, or `people`.
        system: the submission's name.
        phase: the one it was made in.
        at: seconds since 1970.
        scores: by column key.
        is_own: whether it is the visitor's team's.
        key: the submission's, for addresses.
    """

    number: int | None
    team: int | None
    name: str
    system: str
    phase: str
    at: float
    scores: Mapping[str, Score]
    is_own: bool = False
    key: str = ""

    @property
    def is_human(self) -> bool:
        """Return whether it is the row of human captions, which has no place."""
        return self.number is None


@dataclass(frozen=True)
class BoardRow:
    """A row of a leaderboard.

    Attributes:
        place: by the score, equal scores share a place; None for human captions and undefined scores.
        rank: submissions that share a rank do not differ significantly; None without a place.
    """

    entry: BoardEntry
    place: int | None = None
    rank: int | None = None


@dataclass(frozen=True)
class Board:
    """A ranked leaderboard.

    Attributes:
        challenge: its name.
        columns: all scores.
        ranked_by: the column of places and ranks.
        rows: in the order shown.
        signatures: by metric, of the last scored submission.
        signatures_differ: whether other submissions were scored under other signatures, as before an
            update of captau or a library.
    """

    challenge: str
    columns: Sequence[ScoreColumn]
    ranked_by: ScoreColumn
    rows: Sequence[BoardRow]
    signatures: Mapping[str, str] = field(default_factory=dict[str, str])
    signatures_differ: bool = False

    def to_csv(self) -> str:
        """Return the leaderboard as CSV: a line a row, three columns a score."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")

        header = ["place", "rank", "team", "system", "submission", "phase", "at"]
        for column in self.columns:
            header += [column.key, f"{column.key}_low", f"{column.key}_high"]
        writer.writerow(header)

        for row in self.rows:
            entry = row.entry
            cells: list[Any] = [
                "" if row.place is None else row.place,
                "" if row.rank is None else row.rank,
                _escape_formula(entry.name),
                _escape_formula(entry.system),
                entry.key,
                entry.phase,
                format_iso(entry.at),
            ]
            for column in self.columns:
                score = entry.scores.get(column.key)
                cells += [_format_csv_number(score, part) for part in _SCORE_PARTS]
            writer.writerow(cells)

        return out.getvalue()

    def to_json(self) -> str:
        """Return the leaderboard as JSON, with the test that made the ranks."""
        rows: list[dict[str, Any]] = []
        for row in self.rows:
            scores: dict[str, dict[str, float | None]] = {}
            for key, score in row.entry.scores.items():
                scores[key] = {
                    "value": finite_or_none(score.value),
                    "low": finite_or_none(score.low),
                    "high": finite_or_none(score.high),
                }
            cells = {
                "place": row.place,
                "rank": row.rank,
                "team": row.entry.name,
                "system": row.entry.system,
                "submission": row.entry.key or None,
                "phase": row.entry.phase,
                "at": format_iso(row.entry.at),
                "human": row.entry.is_human,
                "scores": scores,
            }
            rows.append(cells)

        table = {
            "challenge": self.challenge,
            "ranked_by": self.ranked_by.key,
            "alpha": ALPHA,
            "correction": CORRECTION,
            "signatures": dict(self.signatures),
            "signatures_differ": self.signatures_differ,
            "rows": rows,
        }
        return f"{json.dumps(table, ensure_ascii=False, indent=2)}\n"


def read_scores(rows: Iterable[Mapping[str, Any]]) -> dict[str, Score]:
    """Return the rows of `Result.scores` by column key."""
    scores: dict[str, Score] = {}
    for row in rows:
        low = _number_or_nan(row.get("ci_low"))
        high = _number_or_nan(row.get("ci_high"))
        scores[column_key(row)] = Score(
            value=_number_or_nan(row.get("value")),
            low=low,
            high=high,
            half_width=(high - low) / 2,
            note=row.get("note") or "",
        )

    return scores


def _number_or_nan(value: Any) -> float:
    return math.nan if value is None else float(value)


def round_scores(scores: Mapping[str, Score], columns: Sequence[ScoreColumn]) -> dict[str, Score]:
    """Return the scores with the decimals that tables print."""
    rounded: dict[str, Score] = {}
    for column in columns:
        # Submissions of an older version may lack a metric.
        if column.key in scores:
            rounded[column.key] = scores[column.key].round(column.shown_decimals)
    return rounded


def format_iso(time: float) -> str:
    """Return a time as ISO 8601 in UTC; empty for 0."""
    if not time:
        return ""

    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _format_csv_number(score: Score | None, part: str) -> str:
    value = math.nan if score is None else float(getattr(score, part))
    return repr(value) if math.isfinite(value) else ""


def _escape_formula(text: str) -> str:
    """Return the text with an apostrophe before what a spreadsheet would compute."""
    is_formula = text.startswith(("=", "+", "-", "@", "\t"))
    return f"'{text}" if is_formula else text
