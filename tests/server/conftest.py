"""The times that sites store, and those by which limits count how often visitors may ask."""

from __future__ import annotations

import time
from types import ModuleType, SimpleNamespace

import pytest

from captau.server.storage.clock import Clock
from captau.server.web import visitors

#: The time at which the clock of a site stands still; 2027-01-15, at 08:00 UTC.
NOW = 1_800_000_000.0


def stop_seconds(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, start: float = 0.0
) -> list[float]:
    """Let the seconds that a module counts stand still until a test moves the one value of the returned list."""
    now = [start]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


@pytest.fixture
def limit_clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Let the seconds by which limits count stand still until a test moves the one value of this list."""
    return stop_seconds(monkeypatch, visitors)


@pytest.fixture
def machine_clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Let the time of the machine stand still until a test moves the one value of this list."""
    now = [time.time()]
    monkeypatch.setattr(time, "time", lambda: now[0])
    return now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Let the clock of a site stand still until a test moves the one value of this list."""
    now = [NOW]
    monkeypatch.setattr(Clock, "__call__", lambda _: now[0])
    return now
