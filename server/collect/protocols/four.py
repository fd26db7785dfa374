"""Four captions of an image at once, one overall rating each (CapEval1k; Lee et al. 2021, section 4.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....datasets.schema import Scale
from .base import level


class Four:
    """Fluency, relevance and descriptiveness in mind, references shown, the order shuffled."""

    name = "four"
    template = "four.html"
    scales: Mapping[str, Scale] = {"overall": Scale(1, 5, 1)}

    def read(self, fields: Mapping[str, Sequence[str]], n: int, words: int) -> list[dict[str, Any]]:
        del words
        return [
            {"overall": level(fields, f"overall_{k}", f"a rating for caption {k}")}
            for k in range(1, n + 1)
        ]

    def ratings(self, value: Mapping[str, Any]) -> dict[str, float]:
        """The overall rating."""
        return {"overall": float(value["overall"])}
