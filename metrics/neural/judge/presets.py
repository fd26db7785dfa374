"""The prompts of judges: the presets of `prompts/*.yaml`, each with its source, and their filling."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

import yaml

from ....datasets.errors import InputError
from ....datasets.paths import expand_home
from ....datasets.reading.json_files import read_text

Inputs = Literal["image", "image_and_references", "references"]
Reading = Literal["number", "json", "dollars", "choice"]
Smoothing = Literal["digits", "integers", "none"]

_FOLDER = Path(__file__).parent / "prompts"


@dataclass(frozen=True)
class Preset:
    """A prompt, what it shows the judge, and how an answer is read.

    Attributes:
        title, source: for people; `source` says whose the wording is and under which licence.
        prompt: the text, with `{caption}` (or `{caption_1}` and `{caption_2}`) and, as the inputs have it,
            `{references}`.
        inputs: what the judge sees beside captions.
        reading: where the number stands: `number`, the first from 0 to 1; `json`, CLAIR's "score" from
            0 to 100; `dollars`, G-VEval's whole number from 0 to 100 between dollar signs; `choice`, one
            of two captions.
        smoothing: how probabilities make the score: FLEUR's `digits`, G-VEval's `integers`, or `none`.
        temperature, max_tokens, top_logprobs: the authors' where the source says nothing else.
        references: texts before, between and after the references.
    """

    title: str
    source: str
    prompt: str
    inputs: Inputs
    reading: Reading
    smoothing: Smoothing
    temperature: float
    max_tokens: int
    top_logprobs: int = 20
    references: Mapping[str, str] = field(
        default_factory=lambda: {"before": "", "between": "\n", "after": ""}
    )

    @property
    def shows_image(self) -> bool:
        return self.inputs != "references"

    @property
    def shows_references(self) -> bool:
        return self.inputs != "image"

    @property
    def digest(self) -> str:
        """The SHA-256 of all that an answer depends on."""
        parts = (self.prompt, self.reading, self.smoothing, sorted(self.references.items()))
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def fill(self, captions: Mapping[str, str], references: Sequence[str]) -> str:
        """Return the prompt with captions and references in their places, in one pass.

        White space in them becomes single blanks, as in FLEUR's code.

        Args:
            captions: by the name of their place, such as `caption`.
        """
        parts = {name: " ".join(text.split()) for name, text in captions.items()}
        joined = self.references["between"].join(" ".join(text.split()) for text in references)
        parts["references"] = f"{self.references['before']}{joined}{self.references['after']}"
        names = "|".join(parts)
        return re.sub(rf"\{{({names})\}}", lambda match: parts[match[1]], self.prompt)


@cache
def load_preset(name: str) -> Preset:
    """Load a preset of `prompts/`."""
    return Preset(**yaml.safe_load((_FOLDER / f"{name}.yaml").read_text(encoding="utf-8")))


def read_prompt(path: str, preset: Preset) -> str:
    """Read a prompt of the user's own, in place of the preset's.

    Raises:
        InputError: where the file lacks a place that the preset's prompt has.
    """
    text = read_text(expand_home(path))
    for place in re.findall(r"\{(?:caption(?:_[12])?|references)\}", preset.prompt):
        if place not in text:
            raise InputError(f"{path}: no {place}, where inputs={preset.inputs} has it")
    return text
