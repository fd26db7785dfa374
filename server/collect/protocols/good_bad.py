"""Good, bad or skip: "Is this a good caption for the image?" (Levinboim et al. 2021, section 3.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....datasets.schema import Scale
from ...web.forms import field_value
from .base import FormError

_VALUE = {"good": 1.0, "bad": 0.0}


class GoodBad:
    """One caption, three buttons."""

    name = "good_bad"
    template = "good_bad.html"
    scales: Mapping[str, Scale] = {"good": Scale(0, 1, 1)}

    def read(self, fields: Mapping[str, Sequence[str]], n: int, words: int) -> list[dict[str, Any]]:
        del n, words
        answer = field_value(fields, "answer")
        if answer not in (*_VALUE, "skip"):
            raise FormError("Choose good, bad or skip.")
        return [{"answer": answer}]

    def ratings(self, value: Mapping[str, Any]) -> dict[str, float]:
        """1 for good, 0 for bad; a skip is no rating."""
        answer = value["answer"]
        return {"good": _VALUE[answer]} if answer in _VALUE else {}
