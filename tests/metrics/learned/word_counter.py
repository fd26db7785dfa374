"""A rater without a network, for quick tests of what surrounds training: it counts words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from captau.metrics.base import Floats
from captau.metrics.learned.common import recipe as recipes
from captau.metrics.learned.common.examples import Examples
from captau.metrics.learned.common.recipe import RaterModel, Recipe, register_recipe
from captau.metrics.learned.common.training import TrainingSession
from captau.metrics.rows import Rows


class WordCounter(RaterModel):
    """Predicts the number of words, `factor` times."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def predict(self, rows: Rows) -> Floats:
        return np.array([self.factor * len(caption.split()) for caption in rows.captions])

    def save(self, folder: Path) -> None:
        (folder / "model.json").write_text(json.dumps(self.factor))


@pytest.fixture(scope="module")
def word_counter() -> Iterator[type[Recipe]]:
    """The recipe `words`, whose training notes one epoch a stage."""
    recipes.recipe_names()

    @register_recipe("words")
    @dataclass(frozen=True)
    class WordCountRecipe(Recipe):
        factor: float = 1.0

        source_options = ("texts",)
        texts: str = "words"

        @property
        def rating_scale(self) -> tuple[float, float]:
            return 1.0, 5.0

        def fit(
            self, train: Examples, validation: Examples, session: TrainingSession
        ) -> RaterModel:
            row = {"stage": "words", "epoch": 1, "steps": len(train), "learning_rate": 0.5}
            session.history.append({**row, "loss": 0.25, "validation": 0.125, "best": True})
            return WordCounter(self.factor)

        def load(self, folder: Path) -> RaterModel:
            return WordCounter(json.loads((folder / "model.json").read_text()))

    yield WordCountRecipe
    del recipes._RECIPES["words"]
