"""Packages of the extra [neural] that metrics look for."""

from __future__ import annotations

import pytest

from captau.metrics import base


@pytest.fixture
def all_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let metrics find every package that they need."""
    monkeypatch.setattr(base, "find_spec", lambda name: True)
