"""Captions judged by the levels of one or several dimensions: the common part of `four` and `extrinsic`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .form import Form, FormFields


@dataclass(frozen=True)
class LevelsForm(Form):
    """A level of each of the study's dimensions for each caption shown.

    Attributes:
        shows_references: whether the captions that others wrote are shown.
    """

    template = "forms/levels.html"
    shows_references: ClassVar[bool] = False

    def read_answer(self, fields: FormFields, n_captions: int) -> list[dict[str, Any]]:
        """Return a level for each caption and dimension."""
        return [
            {
                dimension.name: self.read_level(
                    fields, f"{dimension.name}_{k}", dimension, k if n_captions > 1 else 0
                )
                for dimension in self.wording.dimensions
            }
            for k in range(1, n_captions + 1)
        ]

    def ratings(self, value: Mapping[str, Any]) -> dict[str, float]:
        """Return the rating of each dimension."""
        return {name: float(rating) for name, rating in value.items()}

    def simulate_answer(
        self, level: Callable[[str], int], captions: Sequence[str], rng: np.random.Generator
    ) -> dict[str, Any]:
        """Return a level for each caption and dimension."""
        del rng
        return {
            f"{dimension.name}_{k}": dimension.from_five(level(caption))
            for k, caption in enumerate(captions, start=1)
            for dimension in self.wording.dimensions
        }
