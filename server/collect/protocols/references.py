"""Writing reference captions by COCO's instructions (Chen et al. 2015, section 2)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ....datasets.schema import Scale
from ...web.forms import field_value
from .base import FormError

LONGEST = 500
#: What a program can check of the instructions; the others are for the writer's eye.
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
#: What ends a sentence: `!`, `?`, or a period that is of no abbreviation, and a capital after it.
_END = re.compile(r"([^\W_]*)([.!?])[\"”’)]*\s+[\"“‘(]*(\w)")
_SHORT = {
    "st",
    "mr",
    "mrs",
    "ms",
    "dr",
    "prof",
    "jr",
    "sr",
    "mt",
    "ft",
    "no",
    "vs",
    "ave",
    "rd",
    "blvd",
}
_THERE = re.compile(r"\W*there\s+(is|are|was|were)\b|\W*there['’]s\b", re.IGNORECASE)


def faults(text: str, words: int = 8) -> list[str]:
    """What is wrong with a caption by the rules that can be checked; empty where nothing is."""
    found: list[str] = []
    count = len(_WORD.findall(text))
    if count < words:
        found.append(f"Write at least {words} words; there are {count}.")
    if _THERE.match(text):
        found.append("Do not begin with “There is”: say what is there.")
    if any(
        first.isupper() and not (mark == "." and (len(word) < 2 or word.lower() in _SHORT))
        for word, mark, first in _END.findall(text)
    ):
        found.append("Write one sentence.")
    if len(text) > LONGEST:
        found.append(f"Write at most {LONGEST} characters; there are {len(text)}.")
    return found


class References:
    """One caption an image."""

    name = "references"
    template = "references.html"
    scales: Mapping[str, Scale] = {}

    def read(self, fields: Mapping[str, Sequence[str]], n: int, words: int) -> list[dict[str, Any]]:
        del n
        text = " ".join(field_value(fields, "text").split())
        if found := faults(text, words):
            raise FormError(" ".join(found))
        return [{"text": text}]

    def ratings(self, value: Mapping[str, Any]) -> dict[str, float]:
        """None: these are captions."""
        del value
        return {}
