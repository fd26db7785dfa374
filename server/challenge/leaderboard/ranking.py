"""Ranking of a leaderboard: each team's standing submissions, places, and rank clusters.

All submissions were scored on the same bootstrap samples of images, and the replicates are stored with
them. So two submissions are compared as `captau score` compares systems, without scoring captions again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Literal

import numpy as np

from ....benchmarks.statistics.intervals import cluster_ranks, correct_p_values
from ....benchmarks.statistics.significance import pairwise_p_values
from ....benchmarks.statistics.weighted_pairs import Floats
from ..submission_files import read_replicates
from ..submissions import SubmissionStore
from .board import ALPHA, CORRECTION, BoardEntry, BoardRow, ScoreColumn

#: The submissions of a team that are shown: the best by a column, the latest, or all.
Selection = Literal["best", "latest", "all"]


def select_entries(
    entries: Iterable[BoardEntry], column: ScoreColumn, selection: Selection
) -> list[BoardEntry]:
    """Return the entries that stand for each team, and human ones; of equals the first."""
    entries = list(entries)
    if selection == "all":
        return entries

    selected: dict[int | None, BoardEntry] = {}
    for entry in entries:
        if entry.is_human:
            continue
        rival = selected.get(entry.team)
        if rival is None:
            selected[entry.team] = entry
            continue

        precedence = _precedence(entry, column, selection)
        if precedence > _precedence(rival, column, selection):
            selected[entry.team] = entry

    return [entry for entry in entries if entry.is_human or selected[entry.team] is entry]


def _precedence(entry: BoardEntry, column: ScoreColumn, selection: Selection) -> tuple[float, ...]:
    if selection == "latest":
        return (entry.at,)

    return (_quality(entry, column), -entry.at)


def _quality(entry: BoardEntry, column: ScoreColumn) -> float:
    """Return the score with its sign such that higher is better; -inf if it is undefined."""
    score = entry.scores.get(column.key)
    if score is None or math.isnan(score.value):
        return -math.inf

    return score.value if column.higher_is_better else -score.value


def rank_entries(
    entries: Iterable[BoardEntry],
    column: ScoreColumn,
    ranks: Mapping[int, int],
    *,
    is_reversed: bool = False,
) -> list[BoardRow]:
    """Return the rows of a leaderboard, the best first.

    Args:
        entries: the standing ones.
        column: the one that places are by.
        ranks: by submission number, from `rank_submissions`.
        is_reversed: whether the worst comes first; places stay.
    """
    # Equal scores share a place, and stand in the order in which they came.
    ordered = sorted(entries, key=lambda e: (-_quality(e, column), e.at, e.number or 0))

    place_of_quality: dict[float, int] = {}
    rows: list[BoardRow] = []
    n_placed = 0
    for entry in ordered:
        quality = _quality(entry, column)
        if entry.number is None or quality == -math.inf:
            rows.append(BoardRow(entry))
            continue

        n_placed += 1
        shared_place = place_of_quality.setdefault(quality, n_placed)
        rows.append(BoardRow(entry, shared_place, ranks.get(entry.number)))

    return rows[::-1] if is_reversed else rows


def rank_submissions(
    scores: Mapping[int, float], replicates: Mapping[int, Floats], *, higher_is_better: bool = True
) -> dict[int, int]:
    """Return the rank of each submission by one score (`intervals.rank_clusters`).

    Args:
        scores: by submission number; undefined ones, and those that cannot be tested, get no rank.
        replicates: bootstrap replicates of the scores on the same samples of images, shape
            (n_replicates,); submissions without them get no rank.
        higher_is_better: whether higher scores are better.
    """
    sign = 1.0 if higher_is_better else -1.0
    numbers: list[int] = []
    for number, score in sorted(scores.items()):
        if not math.isnan(score) and number in replicates:
            numbers.append(number)
    if not numbers:
        return {}

    numbers.sort(key=lambda number: -sign * scores[number])

    p_values = pairwise_p_values(np.stack([replicates[number] for number in numbers]))
    corrected = correct_p_values(p_values.ravel(), CORRECTION).reshape(p_values.shape)

    ranks = zip(numbers, cluster_ranks(corrected, ALPHA), strict=True)
    return {number: rank for number, rank in ranks if rank is not None}


#: The cached leaderboards, and submissions' replicates of one column (8 kB each).
_MAX_BOARDS = 200
_MAX_REPLICATES = 5_000


class RankCache:
    """The ranks of the leaderboards that were requested last."""

    def __init__(self, store: SubmissionStore) -> None:
        self._store = store
        self._rank = lru_cache(_MAX_BOARDS)(self._compute_ranks)
        self._load_replicates = lru_cache(_MAX_REPLICATES)(self._read_replicates)

    def rank(
        self, column: ScoreColumn, entries: Iterable[BoardEntry], decimals: int | None = None
    ) -> dict[int, int]:
        """Return ranks by submission number; reads files, so not for the event loop's thread.

        Args:
            column: the score to rank by.
            entries: the ones that are compared.
            decimals: the decimals that visitors see of the score; None for all.
        """
        scores: list[tuple[int, str, float]] = []
        for entry in entries:
            if entry.number is not None and column.key in entry.scores:
                scores.append((entry.number, entry.key, entry.scores[column.key].value))

        # The cache knows a leaderboard by its scores, whatever the order of its rows.
        return self._rank(column, decimals, tuple(sorted(scores)))

    def _compute_ranks(
        self, column: ScoreColumn, decimals: int | None, scores: tuple[tuple[int, str, float], ...]
    ) -> dict[int, int]:
        """Return ranks from each submission's number, key and score."""
        replicates: dict[int, Floats] = {}
        for number, key, _ in scores:
            values = self._load_replicates(key, column)
            if values is not None:
                replicates[number] = values if decimals is None else values.round(decimals)

        by_number = {number: score for number, _, score in scores}
        return rank_submissions(by_number, replicates, higher_is_better=column.higher_is_better)

    def _read_replicates(self, submission_key: str, column: ScoreColumn) -> Floats | None:
        references = column.key.rpartition("@")[2] if "@" in column.key else ""
        try:
            replicates = read_replicates(self._store.file_of(submission_key, "drawn.parquet"))
        except OSError:  # of a challenge without intervals
            return None

        return replicates.get((references, column.metric))
