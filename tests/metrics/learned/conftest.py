"""Fixtures of the tests that train raters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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


@pytest.fixture
def make_scenes(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return a function that says how many scenes the demo's captioned images are."""
    from captau.metrics.learned.common import captioned_images

    return lambda n_scenes: monkeypatch.setattr(captioned_images, "DEMO_SCENES", n_scenes)


@pytest.fixture
def checkpoint_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a training store its state after each step, however short it is."""
    from captau.metrics.learned.common import training

    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
