"""The registry of datasets, for tests that register some."""

from __future__ import annotations

import pytest

from captau.datasets import registry


@pytest.fixture
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what a test registers be forgotten afterwards; all of captau's own datasets are known before."""
    for name in registry.names():
        registry.card(name)  # a module that is imported first in between would register in vain
    monkeypatch.setattr(registry, "_READERS", dict(registry._READERS))
    monkeypatch.setattr(registry, "_PROTOCOLS", dict(registry._PROTOCOLS))


@pytest.fixture
def empty_registry(own_registry: None) -> None:
    """Let no dataset be registered, until a test is over."""
    registry._READERS.clear()
    registry._PROTOCOLS.clear()
