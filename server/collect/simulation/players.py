"""Simulated raters: each is a thread with its own browser, which reads pages and fills in forms."""

from __future__ import annotations

import http.client
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import numpy as np

from ....datasets.normalisation import normalise_thumb
from ..study.definition import Study
from .browser import Page, join_study

#: The standard deviation of a player's opinion around the level that a caption deserves.
NOISE = {"honest": 0.5, "careless": 1.2}
PLAYER_KINDS = (*NOISE, "random", "constant", "majority")


@dataclass
class PlayRecord:
    """A player's answers.

    Attributes:
        answers: their number.
        scores: the points won by phase, in order.
        took: the seconds of each request.
        fault: the error that stopped the player; empty if none did.
        turns: the changes of the game's phase, in order.
    """

    kind: str
    answers: int = 0
    scores: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    took: list[float] = field(default_factory=list[float])
    fault: str = ""

    turns: list[str] = field(default_factory=list[str])

    def add_feedback(self, phase: str, page: Page) -> None:
        """Add the points and turn that a page tells."""
        if page.score is not None:
            self.scores.setdefault(phase, []).append(page.score)
            if page.turn:
                self.turns.append(page.turn)


@dataclass(frozen=True)
class Player:
    """A simulated rater.

    Attributes:
        deserved_levels: the level that each caption deserves, from 1 to 5.
        reads_feedback: whether feedback is read; without it there are two requests an answer, not three.
        pace: the seconds from one answer to the next; 0 for as fast as the server answers.
    """

    kind: str
    deserved_levels: Mapping[str, float]
    study: Study
    reads_feedback: bool = True
    pace: float = 0.0

    def play(self, url: str, n_answers: int, seed: Sequence[int]) -> PlayRecord:
        """Join, and answer so often, or until nothing is left."""
        rng, record = np.random.default_rng(list(seed)), PlayRecord(self.kind)
        try:
            nickname = f"{self.kind} {seed[-1]}" if self.study.nicknames else ""
            browser = join_study(url, nickname)
            consensus_counts: Counter[int] = Counter()
            due = time.perf_counter() + self.pace * rng.random()  # not all at the same moment
            page = browser.get("/rate")
            while record.answers < n_answers and "key" in page.hidden:
                phase = page.practice or "playing"
                due = max(due + self.pace, time.perf_counter() + page.wait)
                time.sleep(max(0.0, due - time.perf_counter()))
                fields = {**page.hidden, **self._fill_in(page.captions, rng, consensus_counts)}
                page = browser.post("/rate", fields, follow=self.reads_feedback)
                if page.status not in (200, 303):
                    raise RuntimeError(f"{page.status} {page.heading}")
                record.answers += 1
                record.add_feedback(phase, page)
                if page.score is not None and page.consensus is not None:
                    consensus_counts[page.consensus] += 1
                if "key" not in page.hidden:
                    page = browser.get("/rate")
            record.took = browser.request_seconds
        except (OSError, http.client.HTTPException, RuntimeError) as error:
            record.fault = str(error) or type(error).__name__
        return record

    def _fill_in(
        self, captions: Sequence[str], rng: np.random.Generator, consensus_counts: Counter[int]
    ) -> dict[str, Any]:
        def level(caption: str) -> int:
            return self._draw_level(caption, rng, consensus_counts)

        return self.study.form.simulate_answer(level, captions, rng)

    def _draw_level(
        self, caption: str, rng: np.random.Generator, consensus_counts: Counter[int]
    ) -> int:
        if self.kind == "constant":
            return 3
        if self.kind == "random":
            return int(rng.integers(1, 6))
        if self.kind == "majority":
            return consensus_counts.most_common(1)[0][0] if consensus_counts else 3
        deserved = self.deserved_levels.get(normalise_thumb(caption), 3.0)
        opinion = rng.normal(deserved, NOISE[self.kind])
        return int(min(max(round(opinion), 1), 5))


def deserved_levels(study: Study) -> dict[str, float]:
    """Return the level that each caption deserves: its mean rating, else the computed one, else 3."""
    levels: dict[str, list[float]] = {}
    for unit in study.units:
        known_levels = study.form.known_levels(unit) or [3.0] * len(unit.items)
        for item, known_level in zip(unit.items, known_levels, strict=True):
            level = known_level if item.mean_rating is None else item.mean_rating
            levels.setdefault(normalise_thumb(item.caption), []).append(level)
    return {caption: fmean(caption_levels) for caption, caption_levels in levels.items()}


def play_all(
    url: str,
    study: Study,
    kinds: Sequence[str],
    n_answers: int,
    seed: int,
    *,
    reads_feedback: bool = True,
    pace: float = 0.0,
) -> tuple[list[PlayRecord], float]:
    """Run players at once; return their records, and the seconds from the first request to the last."""
    levels = deserved_levels(study)
    records: list[PlayRecord | None] = [None] * len(kinds)

    def run_player(k: int, kind: str) -> None:
        player = Player(kind, levels, study, reads_feedback, pace)
        records[k] = player.play(url, n_answers, (seed, k))

    threads = [
        threading.Thread(target=run_player, args=(k, kind), daemon=True)
        for k, kind in enumerate(kinds)
    ]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [r for r in records if r is not None], time.perf_counter() - start
