"""Tiny models with random weights, made once a run."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """A weights folder that `scripts/make_tiny_models.py` wrote."""
    folder = tmp_path_factory.mktemp("tiny") / "models"
    runpy.run_path(str(ROOT / "scripts" / "make_tiny_models.py"))["make"](folder)
    return folder


@pytest.fixture
def weights(tiny, tmp_path, monkeypatch):
    """The tiny models are where models are looked for, and nothing is in the feature store."""
    monkeypatch.setenv("CAPTAU_WEIGHTS", str(tiny))
    monkeypatch.setenv("CAPTAU_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CAPTAU_DOWNLOAD", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tiny
