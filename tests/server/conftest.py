"""The time by which limits count how often visitors may ask."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from captau.server.web import visitors


@pytest.fixture
def limit_clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Let the seconds by which limits count stand still until a test moves the one value of this list."""
    now = [0.0]
    monkeypatch.setattr(visitors, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now
