"""SPICE without the files of its parser."""

from __future__ import annotations

import pytest

from captau.metrics.text.spice import models as spice_models


@pytest.fixture
def no_jars(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let SPICE need no files."""
    monkeypatch.setattr(spice_models, "JARS", ())
