"""The number of cores that captau uses."""

from __future__ import annotations

import pytest

from captau.datasets.cores import count_cores


def test_a_process_that_is_bound_to_cores_counts_these_alone(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {4, 7, 9}, raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    assert count_cores() == 3


@pytest.mark.parametrize(("count", "cores"), [(None, 1), (3, 3)])
def test_cores_are_counted_where_the_system_tells_no_affinity(count, cores, monkeypatch):
    monkeypatch.delattr("os.sched_getaffinity", raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: count)
    assert count_cores() == cores
