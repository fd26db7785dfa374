"""The THumB rubric: precision, recall and three penalties (Kasai et al. 2022, section 2.2, Table 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....datasets.registry import card
from ....datasets.schema import Scale
from .base import FormError, level


@dataclass(frozen=True)
class Fault:
    """A kind of fluency problem (Table 6): its penalties in tenths, one or several to choose from."""

    name: str
    what: str
    tenths: tuple[int, ...]


FAULTS = (
    Fault("spelling", "plain misspelling, or one word for two", (1,)),
    Fault("grammar", "grammar that is easily mended", (1,)),
    Fault("casing", "wrong capital or small letter", (1,)),
    Fault("hyphen", "missing hyphen", (1,)),
    Fault("wording", "unnatural wording that can be understood", (1,)),
    Fault("punctuation", "punctuation that takes thought to mend", (2,)),
    Fault("misleading", "misspelling that makes another word", (5,)),
    Fault("duplication", "the same thing said twice", (5,)),
    Fault("ambiguity", "two ways to read it", (5,)),
    Fault("awkward", "awkward construction", (1, 2, 3, 4, 5)),
    Fault("broken", "broken sentence", (5, 10, 15, 20)),
)
#: What a subjective remark about somebody's looks, and worse, takes off, in tenths.
INCLUSIVE = (0, 5, 20)
#: What wordiness takes off.
WORDY = 5


class Thumb:
    """Each caption by the rubric; the total is computed."""

    name = "thumb"
    template = "thumb.html"
    # As the authors' release has them: penalties are negative.
    scales: Mapping[str, Scale] = card("thumb").scales

    def read(self, fields: Mapping[str, Sequence[str]], n: int, words: int) -> list[dict[str, Any]]:
        del n, words
        faults: dict[str, int] = {}
        chosen = fields.get("fault", ())
        for fault in FAULTS:
            if fault.name in chosen:
                given = fields.get(f"tenths_{fault.name}", ())
                tenths = given[0] if given else str(fault.tenths[0])
                if tenths not in map(str, fault.tenths):
                    raise FormError(f"Choose how much '{fault.what}' takes off.")
                faults[fault.name] = int(tenths)
        if set(chosen) - set(faults):
            raise FormError("Choose fluency problems from the list.")
        inclusive = (*fields.get("inclusive", ()), "0")[0]
        if inclusive not in map(str, INCLUSIVE):
            raise FormError("Choose what the language about people takes off.")
        return [
            {
                "precision": level(fields, "precision", "precision"),
                "recall": level(fields, "recall", "recall"),
                "faults": faults,
                "wordy": "wordy" in fields,
                "inclusive": int(inclusive),
            }
        ]

    def ratings(self, value: Mapping[str, Any]) -> dict[str, float]:
        """The dimensions of the release; total = (P + R) / 2 - penalties (section 2.2)."""
        fluency = min(sum(value["faults"].values()), 50)
        conciseness = WORDY if value["wordy"] else 0
        off = fluency + conciseness + value["inclusive"]
        # Tenths are whole numbers, so that no total is 3.9999999.
        return {
            "precision": float(value["precision"]),
            "recall": float(value["recall"]),
            "fluency": -fluency / 10 + 0.0,
            "inclusive": -value["inclusive"] / 10 + 0.0,
            "conciseness": -conciseness / 10 + 0.0,
            "total": (5 * (value["precision"] + value["recall"]) - off) / 10,
        }


def normalised(caption: str) -> str:
    """A caption as annotators see it: no blanks around it, a capital first, a period last (section 2.2.3)."""
    text = caption.strip()
    if text.endswith("."):
        text = text[:-1].rstrip()
    text = f"{text}."
    return text[:1].upper() + text[1:]
