"""Rank clusters of leaderboards, computed from the stored replicates and cached."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from ....benchmarks.statistics.weighted_pairs import Floats
from ..definition import Challenge
from ..submission_files import read_replicates
from ..submission_store import SubmissionStore
from .board import BoardEntry
from .columns import ScoreColumn
from .ranking import rank_submissions

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

#: The cached leaderboards, and submissions' replicates of one column (8 kB each).
_MAX_BOARDS, _MAX_REPLICATES = 200, 5_000


class RankCache:
    """The ranks of the leaderboards that were requested last."""

    def __init__(self, store: SubmissionStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._ranks: OrderedDict[tuple[str, ...], dict[int, int]] = OrderedDict()
        self._replicates: OrderedDict[tuple[str, ...], Floats | None] = OrderedDict()

    def rank(
        self,
        challenge: Challenge,
        column: ScoreColumn,
        entries: Iterable[BoardEntry],
        decimals: int | None = None,
    ) -> dict[int, int]:
        """Return ranks by submission number; reads files, so not for the event loop's thread.

        Args:
            challenge: the challenge.
            column: the score to rank by.
            entries: the ones that are compared.
            decimals: the decimals that visitors see of the score; None for all.
        """
        scored = {e.number: e for e in entries if e.number is not None and column.key in e.scores}
        # The digest changes with references and metrics, and replicates with it.
        source = (challenge.name, self._store.digests[challenge.name], column.key)

        def compute_ranks() -> dict[int, int]:
            replicates = {
                number: values if decimals is None else values.round(decimals)
                for number, entry in scored.items()
                if (values := self._load_replicates(source, entry.key, column)) is not None
            }
            scores = {number: entry.scores[column.key].value for number, entry in scored.items()}
            return rank_submissions(scores, replicates, higher_is_better=column.higher_is_better)

        with self._lock:
            key = (*source, str(decimals), *sorted(entry.key for entry in scored.values()))
            return _get_or_compute(self._ranks, key, _MAX_BOARDS, compute_ranks)

    def _load_replicates(
        self, source: tuple[str, ...], submission_key: str, column: ScoreColumn
    ) -> Floats | None:
        references = column.key.rpartition("@")[2] if "@" in column.key else ""

        def read() -> Floats | None:
            try:
                replicates = read_replicates(self._store.file_of(submission_key, "drawn.parquet"))
            except OSError:  # of a challenge without intervals
                return None
            return replicates.get((references, column.metric))

        return _get_or_compute(self._replicates, (*source, submission_key), _MAX_REPLICATES, read)


def _get_or_compute(cache: OrderedDict[K, V], key: K, max_size: int, compute: Callable[[], V]) -> V:
    """Return a cached value, or compute it and drop the least recently used one of too many."""
    if key not in cache:
        cache[key] = compute()
    cache.move_to_end(key)
    if len(cache) > max_size:
        cache.popitem(last=False)
    return cache[key]
