"""Writing reference captions by COCO's instructions (Chen et al. 2015, section 2)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Self, cast

import numpy as np
import pandas as pd

from ....datasets.reading.table import Table
from ....datasets.reading.yaml_model import whole_number
from ....datasets.sources.coco_captions import coco_id
from ...texts import ENGLISH, Language
from ...web.visitors import field_value
from ..items.item_source import caption_items
from ..items.units import StudyItem, StudyUnit, unit_of_item
from .counted_answers import CountedAnswers
from .form import Form, FormError, FormFields
from .study_fields import StudyFields
from .wording import Wording, load_wording

MAX_LENGTH = 500
#: Most of the instructions are for the writer's eye; these expressions check the others.
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
#: What may be the end of a sentence: a word, its mark, and the first letter of the next word. `caption_faults` takes it for
#: one where that is a capital, and the mark no period of an abbreviation.
_SENTENCE_END = re.compile(r"([^\W_]*)([.!?])[\"”’)]*\s+[\"“‘(]*(\w)")
_ABBREVIATIONS = frozenset(
    ["st", "mr", "mrs", "ms", "dr", "prof", "jr", "sr", "mt", "ft", "no", "vs", "ave", "rd", "blvd"]
)
_THERE_IS = re.compile(r"\W*there\s+(is|are|was|were)\b|\W*there['’]s\b", re.IGNORECASE)


class ReferencesStudy(StudyFields):
    """A study's file with the fewest words that a caption may have."""

    min_words: Annotated[int, whole_number(1, 50)] = 8


@dataclass(frozen=True)
class ReferencesForm(Form):
    """One caption an image; `min_words` is the fewest words that it may have."""

    name = "references"
    template = "forms/references.html"
    study_model = ReferencesStudy
    unit_noun = "images"

    min_words: int = 8
    wording: Wording = field(default=load_wording("references"), kw_only=True)

    @classmethod
    def from_study(cls, study: StudyFields, language: Language) -> Self:
        """Read `min_words`."""
        min_words = cast(ReferencesStudy, study).min_words
        return cls(min_words, wording=cls.read_wording(study, language))

    def read_table(self, table: Table, images: Path | None) -> pd.DataFrame:
        """Return the images of a table, whose captions are to be written."""
        return caption_items(table, images, [""] * len(table))

    def group_items(self, items: Sequence[StudyItem]) -> list[StudyUnit]:
        """Return a unit without caption for each image."""
        first_items: dict[str, StudyItem] = {}
        for item in items:
            first_items.setdefault(item.image_id, item)

        units: list[StudyUnit] = []
        for image_id, first_item in first_items.items():
            item = StudyItem(
                item_id=image_id,
                image_id=image_id,
                image=first_item.image,
                caption="",
                references=(),
                system=None,
                split=first_item.split,
            )
            units.append(unit_of_item("main", item))

        return units

    def read_answer(self, fields: FormFields, n_captions: int) -> list[dict[str, Any]]:
        """Return the caption."""
        text = " ".join(field_value(fields, "text").split())
        faults = caption_faults(text, self.min_words, self.wording.language)
        if faults:
            raise FormError(" ".join(faults))

        return [{"text": text}]

    def ratings(self, value: Mapping[str, Any]) -> dict[str, float]:
        """Return none: these are captions."""
        return {}

    def template_variables(self) -> dict[str, Any]:
        """Return the limit on a caption's length."""
        return {"max_length": MAX_LENGTH}

    def captau_files(self, answers: CountedAnswers) -> dict[str, bytes]:
        """Return COCO's caption annotations, for `captau score references=captions.json`."""
        numbers = _image_numbers(answers.units)
        image_ids = dict.fromkeys(answer.unit.image_id for answer in answers.answers)
        images = [{"id": numbers[image_id], "file_name": image_id} for image_id in image_ids]
        annotations: list[dict[str, Any]] = []
        for number, answer in enumerate(answers.answers, start=1):
            annotation = {
                "id": number,
                "image_id": numbers[answer.unit.image_id],
                "caption": answer.value["text"],
            }
            annotations.append(annotation)
        content = {"images": images, "annotations": annotations}
        text = json.dumps(content, ensure_ascii=False, indent=1)
        return {"captions.json": text.encode() + b"\n"}

    def simulate_answer(
        self, level: Callable[[str], int], captions: Sequence[str], rng: np.random.Generator
    ) -> dict[str, Any]:
        """Return a made-up caption."""
        colours = ("red", "green", "blue", "black")
        shapes = ("star", "circle", "square", "hexagon")
        a, b = rng.permutation(4)[:2].tolist()

        return {
            "text": f"A {colours[a]} {shapes[b]} stands on white, not far from a {colours[b]} "
            f"{shapes[a]}."
        }


def caption_faults(text: str, min_words: int = 8, language: Language = ENGLISH) -> list[str]:
    """Return how a caption breaks the instructions that a program can check."""
    faults: list[str] = []
    translate = language.translate

    n_words = len(_WORD.findall(text))
    if n_words < min_words:
        faults.append(
            translate(
                "Write at least %(least)s words; there are %(n)s.", least=min_words, n=n_words
            )
        )

    if _THERE_IS.match(text):
        faults.append(translate("Do not begin with “There is”: say what is there."))

    has_inner_end = False
    for word, mark, first in _SENTENCE_END.findall(text):
        # A single letter before the period, as in "J. Smith", is an abbreviation as well.
        is_abbreviation = mark == "." and (len(word) < 2 or word.lower() in _ABBREVIATIONS)
        if first.isupper() and not is_abbreviation:
            has_inner_end = True
    if has_inner_end:
        faults.append(translate("Write one sentence."))

    if len(text) > MAX_LENGTH:
        faults.append(
            translate(
                "Write at most %(most)s characters; there are %(n)s.", most=MAX_LENGTH, n=len(text)
            )
        )

    return faults


def _image_numbers(units: Sequence[StudyUnit]) -> dict[str, int]:
    """Number images: by COCO's numbers if each image has its own, else by their units."""
    unit_ids = {unit.image_id: unit.id for unit in units}
    names = {image_id: coco_id(image_id) for image_id in unit_ids}

    if all(name.isdecimal() and len(name) < 19 for name in names.values()):  # readers hold 64 bits
        numbers = {image_id: int(name) for image_id, name in names.items()}
        if len(set(numbers.values())) == len(numbers):
            return numbers

    return unit_ids
