"""Fixtures of the tests that train raters."""

from __future__ import annotations

import pytest

from captau.metrics.learned.common.recipe import Examples
from tests.metrics.learned.demo_ratings import demo_examples


@pytest.fixture(scope="session")
def sides() -> dict[str, Examples]:
    """The demo's ratings by split."""
    return {split: demo_examples(split) for split in ("train", "validation", "test")}
