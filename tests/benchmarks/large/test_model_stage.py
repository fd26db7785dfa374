"""The stage that runs models on a part, with metrics that note what they score."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from captau.benchmarks.large import stages


@dataclass(frozen=True)
class Counter:
    """A metric whose score is the number of a row's words; it takes as many seconds as `seconds` says."""

    spec: str = "words"
    batch_size: int = 2
    seconds: dict[int, float] = field(default_factory=dict)
    clock: list[float] = field(default_factory=lambda: [0.0])
    scored: list[tuple[int, int]] = field(default_factory=list)
    full_from: int = 10**9

    @property
    def parameters(self) -> dict[str, Any]:
        return {"batch_size": self.batch_size}

    def score(self, rows):
        self.scored.append((self.batch_size, len(rows.frame)))
        self.clock[0] += self.seconds.get(self.batch_size, 0.0)
        if self.batch_size >= self.full_from:
            rows.remarks.setdefault(self.spec, []).append("the memory was full")
        return rows.frame["caption"].str.split().str.len().to_numpy(float)


def make_frame(n):
    return pd.DataFrame({"caption": ["a dog runs"] * n, "references": [("a dog",)] * n})


@pytest.fixture
def forgets(monkeypatch):
    """Return a list that grows whenever the features of models are forgotten."""
    from captau.metrics.neural import store

    calls: list[int] = []
    monkeypatch.setattr(store, "forget", lambda: calls.append(1))
    return calls


def test_the_batch_size_that_is_fastest_by_a_tenth_is_taken(forgets, monkeypatch):
    """Tried with 1, 4 and 16 times the metric's own, on 512 rows, after one row that loads the model."""
    for seconds, best in (
        ({2: 10.0, 8: 8.9, 32: 8.1}, 8),  # 8.1 is more than 0.9 of 8.9
        ({2: 10.0, 8: 8.9, 32: 8.0}, 32),
        ({2: 10.0, 8: 9.0, 32: 9.0}, 2),
        ({2: 10.0, 8: 11.0, 32: 5.0}, 32),
    ):
        metric = Counter(seconds=seconds)
        monkeypatch.setattr(
            stages, "time", SimpleNamespace(perf_counter=lambda m=metric: m.clock[0])
        )
        assert stages.fit_batch_size(metric, make_frame(600)).batch_size == best
        assert metric.scored == [(2, 1), (2, 512), (8, 512), (32, 512)]
    assert len(forgets) == 4 * 4


def test_no_larger_batch_is_tried_where_memory_was_full(forgets, monkeypatch):
    metric = Counter(seconds={2: 10.0, 8: 1.0, 32: 0.1}, full_from=8)
    monkeypatch.setattr(stages, "time", SimpleNamespace(perf_counter=lambda: metric.clock[0]))
    assert stages.fit_batch_size(metric, make_frame(512)).batch_size == 2
    assert metric.scored == [(2, 1), (2, 512), (8, 512)]


def test_few_rows_are_scored_with_the_metric_s_own_batch_size(forgets):
    metric = Counter()
    assert stages.fit_batch_size(metric, make_frame(511)) is metric
    other = SimpleNamespace(parameters={})
    assert stages.fit_batch_size(other, make_frame(600)) is other
    assert (metric.scored, forgets) == ([], [])
