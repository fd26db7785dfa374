"""Fixtures of the tests that train raters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from captau.metrics.learned.common.examples import Examples
from tests.metrics.learned.demo_ratings import demo_examples


@pytest.fixture(scope="session")
def sides() -> dict[str, Examples]:
    """The demo's ratings by split."""
    return {split: demo_examples(split) for split in ("train", "validation", "test")}


@pytest.fixture(scope="module")
def encoders(tiny: Path) -> Iterator[Path]:
    """Tiny random encoders: what is tested is not how good they are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CAPTAU_WEIGHTS", str(tiny))
        yield tiny
