"""The rating game's scale, in our own words (Scott et al. 2023, Table 2); its rules are in `..game`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....datasets.schema import Scale
from .base import level

#: Level → its name and meaning.
MEANINGS = {
    5: (
        "Complete",
        "Everything that matters is named rightly: things, scene, what happens, and where. It also says "
        "what the whole is about.",
    ),
    4: (
        "Good",
        "Right in what it says, with where things are, but something is missing, and it does not say "
        "what the whole is about.",
    ),
    3: (
        "Fair",
        "The things that matter are right, but not where they are, nor the setting, nor what happens.",
    ),
    2: (
        "Flawed",
        "Some things are wrong or missing, yet it still gives an idea of the picture.",
    ),
    1: ("Wrong", "The things it names are not the things shown. It misleads."),
}


class Game:
    """One caption, five levels."""

    name = "game"
    template = "game.html"
    scales: Mapping[str, Scale] = {"overall": Scale(1, 5, 1)}

    def read(self, fields: Mapping[str, Sequence[str]], n: int, words: int) -> list[dict[str, Any]]:
        del n, words
        return [{"overall": level(fields, "rating", "a rating")}]

    def ratings(self, value: Mapping[str, Any]) -> dict[str, float]:
        """The overall rating."""
        return {"overall": float(value["overall"])}
