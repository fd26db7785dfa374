"""The THumB rubric: precision, recall and three penalties (Kasai et al. 2022, sections 2.1 and 2.2, Table 6).

All captions of an image stand on one page, shuffled. The first annotator scores them; others, one after the other, check
and modify what stands. Perhaps somebody else checks the fluency at the end. A study may name who does what.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Self, cast

import numpy as np
from pydantic import Field

from ....datasets.caption_texts import normalise_thumb
from ....datasets.errors import unknown
from ....datasets.reading.yaml_model import VISIBLE, Flag, Text, YamlModel
from ....datasets.registry import card
from ....datasets.schema import Scale
from ...texts import Language
from ...web.visitors import field_value
from ..items.units import Stage, StudyItem, StudyUnit, units_of_images
from .counted_answers import CountedAnswers
from .form import Form, FormError, FormFields
from .study_fields import StudyFields
from .wording import Wording, load_wording

#: The fields of a group by turn, and the phase of each.
_PHASES = {"first": "main", "second": "check", "third": "check", "fluency": "fluency"}

_Name = Annotated[str, Field(max_length=32), VISIBLE]


class GroupFields(YamlModel):
    """A group of annotators as a study's file has it: who has which turn, and at which images."""

    first: _Name
    second: _Name
    third: _Name | None = None
    fluency: _Name | None = None
    images: list[Text] = Field(default_factory=list)


class ThumbFields(YamlModel):
    """The section `thumb` of a study's file."""

    annotators: list[GroupFields] | None = None
    native_speakers: list[Text] = Field(default_factory=list)
    fluency_check: Flag = False


class ThumbStudy(StudyFields):
    """A study's file that may name its annotators."""

    thumb: ThumbFields = Field(default_factory=ThumbFields)


@dataclass(frozen=True)
class AnnotatorGroup:
    """Annotators who judge the same units, by turn; without images they get their share of all others."""

    stages: tuple[Stage, ...]
    images: tuple[str, ...] = ()


def read_groups(section: ThumbFields, participants: str) -> tuple[AnnotatorGroup, ...]:
    """Return the groups that the list `annotators` of a section names.

    Args:
        section: with `annotators`, and perhaps `native_speakers`, of whom each group needs one.
        participants: the study's way to take part.

    Raises:
        InputError: if somebody has two turns at a unit, no native speaker sees a group's units, or the study's
            links are not personal.
    """
    native_speakers = section.native_speakers

    if section.annotators is None:
        if native_speakers:
            raise section.error("native_speakers", "there are no annotators; name them")
        return ()

    if participants != "invitation":
        raise section.error(
            "annotators", f"participants is {participants}; named annotators need invitation"
        )

    groups: list[AnnotatorGroup] = []
    for row in section.annotators:
        names: dict[str, str] = {}
        for turn in _PHASES:
            name = getattr(row, turn)
            if name is None:
                continue
            name = name.strip()
            # Whoever checks a unit has to be somebody else than who scored it.
            if name.casefold() in map(str.casefold, names):
                raise row.error(
                    turn, f"'{name}' has another turn at these images; name somebody else"
                )
            names[name] = turn

        has_native_speaker = any(name in native_speakers for name in names)
        if native_speakers and not has_native_speaker:
            raise row.error(
                "fluency", f"nobody of {', '.join(names)} is a native speaker; name one to check it"
            )

        stages = tuple(Stage(_PHASES[turn], name) for name, turn in names.items())
        groups.append(AnnotatorGroup(stages, tuple(row.images)))

    if not groups:
        raise section.error("annotators", "at least one group is needed")

    return tuple(groups)


def assign_groups(
    units: Sequence[StudyUnit], groups: Sequence[AnnotatorGroup], section: ThumbFields
) -> list[StudyUnit]:
    """Return units with the stages of their groups; those that no group lists are dealt in turn.

    Raises:
        InputError: if a listed image is not rated, or an image is left without group.
    """
    by_image: dict[str, AnnotatorGroup] = {}
    image_ids = {unit.image_id for unit in units}

    for group in groups:
        for image in group.images:
            if image in by_image:
                raise section.error("annotators", f"'{image}' is listed twice; keep one")
            if image not in image_ids:
                raise section.error("annotators", str(unknown("image", image, image_ids)))
            by_image[image] = group

    groups_for_the_rest = [group for group in groups if not group.images]
    unlisted_images = [unit.image_id for unit in units if unit.image_id not in by_image]
    if unlisted_images and not groups_for_the_rest:
        raise section.error(
            "annotators",
            f"no group has the image '{unlisted_images[0]}'; add one without images for the rest",
        )

    # An image may have several units; all go to the same group.
    for k, image in enumerate(dict.fromkeys(unlisted_images)):
        by_image[image] = groups_for_the_rest[k % len(groups_for_the_rest)]

    return [replace(unit, stages=by_image[unit.image_id].stages) for unit in units]


@dataclass(frozen=True)
class FluencyProblem:
    """A kind of fluency problem (Table 6): its penalties in tenths, to choose from if there are several."""

    name: str
    description: str
    tenths: tuple[int, ...]


FLUENCY_PROBLEMS = (
    FluencyProblem("spelling", "plain misspelling, or one word for two", (1,)),
    FluencyProblem("grammar", "grammar that is easily mended", (1,)),
    FluencyProblem("casing", "wrong capital or small letter", (1,)),
    FluencyProblem("hyphen", "missing hyphen", (1,)),
    FluencyProblem("wording", "unnatural wording that can be understood", (1,)),
    FluencyProblem("punctuation", "punctuation that takes thought to mend", (2,)),
    FluencyProblem("misleading", "misspelling that makes another word", (5,)),
    FluencyProblem("duplication", "the same thing said twice", (5,)),
    FluencyProblem("ambiguity", "two ways to read it", (5,)),
    FluencyProblem("awkward", "awkward construction", (1, 2, 3, 4, 5)),
    FluencyProblem("broken", "broken sentence", (5, 10, 15, 20)),
)
#: Penalties in tenths: for a subjective remark about somebody's looks, or worse; and for wordiness.
INCLUSIVE_PENALTIES = (0, 5, 20)
WORDY_PENALTY = 5
_MAX_FLUENCY_PENALTY = 50
#: The phase of the stage that judges fluency alone.
FLUENCY_PHASE = "fluency"

_RELEASE_SCALES = card("thumb").scales


def _as_in_release(penalty: int) -> float:
    """Return a penalty in tenths as the release has it, negative; adding 0.0 makes 0 of -0."""
    return -penalty / 10 + 0.0


@dataclass(frozen=True)
class ThumbForm(Form):
    """The captions of an image by the rubric, one annotator after the other; totals are computed.

    Attributes:
        groups: the named annotators who share images; empty where anybody may score or check.
        n_annotators: who scores or checks a unit, where they are not named.
        has_fluency_check: whether one more person then judges the fluency alone.
    """

    name = "thumb"
    template = "forms/thumb.html"
    totals = ("total",)
    study_model = ThumbStudy
    unit_noun = "images"
    default_ratings = 2

    groups: tuple[AnnotatorGroup, ...] = ()
    n_annotators: int = 2
    has_fluency_check: bool = False
    wording: Wording = field(default=load_wording("thumb"), kw_only=True)

    @classmethod
    def from_study(cls, study: StudyFields, language: Language) -> Self:
        """Read the section `thumb`, and the number of annotators."""
        section = cast(ThumbStudy, study).thumb
        groups = read_groups(section, study.participants)
        if groups and study.ratings is not None:
            raise study.error("ratings", "thumb.annotators says who judges an image; leave it out")

        n_annotators = cls.default_ratings if study.ratings is None else study.ratings
        if n_annotators < 2:
            raise study.error(
                "ratings",
                f"{n_annotators}; thumb has two annotators at least: one scores, one checks",
            )

        if groups and section.fluency_check:
            raise section.error(
                "fluency_check", "name who does it: fluency: NAME in thumb.annotators"
            )

        wording = cls.read_wording(study, language)
        return cls(
            groups=groups,
            n_annotators=n_annotators,
            has_fluency_check=section.fluency_check,
            wording=wording,
        )

    @property
    def scales(self) -> Mapping[str, Scale]:
        """The scales of the authors' release, where penalties are negative, or of the study's own levels."""
        level_scales = super().scales
        lowest_levels = sum(scale.low for scale in level_scales.values())
        highest_levels = sum(scale.high for scale in level_scales.values())

        # The release's levels begin at 1, so that its lowest total is 1 less the highest penalties.
        highest_penalties = 1 - _RELEASE_SCALES["total"].low
        low = lowest_levels / 2 - highest_penalties
        high = highest_levels / 2
        return {**_RELEASE_SCALES, **level_scales, "total": Scale(low, high)}

    def group_items(self, items: Sequence[StudyItem]) -> list[StudyUnit]:
        """Return a unit of all captions of each image."""
        return units_of_images(items)

    def prepare_units(
        self, units: Sequence[StudyUnit], study: StudyFields, *, computes_ratings: bool
    ) -> list[StudyUnit]:
        """Return the units with their stages: to score, to check once or more, perhaps to check the fluency."""
        if self.groups:
            return assign_groups(units, self.groups, cast(ThumbStudy, study).thumb)

        stages = [Stage("main")]
        stages += [Stage("check")] * (self.n_annotators - 1)
        if self.has_fluency_check:
            stages.append(Stage(FLUENCY_PHASE))

        return [replace(unit, stages=tuple(stages)) for unit in units]

    def read_answer(self, fields: FormFields, n_captions: int) -> list[dict[str, Any]]:
        """Return the levels and the penalties in tenths of each caption; `only` says that fluency was judged."""
        values = [self._read_caption(fields, k, n_captions) for k in range(1, n_captions + 1)]
        if field_value(fields, "stage") == FLUENCY_PHASE:
            return [{**value, "only": "fluency"} for value in values]

        return values

    def _read_caption(self, fields: FormFields, number: int, n_captions: int) -> dict[str, Any]:
        penalties: dict[str, int] = {}
        problems = fields.get(f"fault_{number}", ())
        for problem in FLUENCY_PROBLEMS:
            if problem.name not in problems:
                continue
            choices = fields.get(f"tenths_{problem.name}_{number}", ())
            tenths = choices[0] if choices else str(problem.tenths[0])
            if tenths not in map(str, problem.tenths):
                description = self.translate(problem.description)
                raise FormError(
                    self.translate("Choose how much “%(problem)s” takes off.", problem=description)
                )
            penalties[problem.name] = int(tenths)
        if set(problems) - set(penalties):
            raise FormError(self.translate("Choose fluency problems from the list."))

        choices = fields.get(f"inclusive_{number}", ())
        inclusive = choices[0] if choices else "0"
        if inclusive not in map(str, INCLUSIVE_PENALTIES):
            raise FormError(self.translate("Choose how much the language about people takes off."))

        # A fault names the caption only where there are several.
        position = number if n_captions > 1 else 0
        levels: dict[str, int] = {}
        for dimension in self.wording.dimensions:
            field_name = f"{dimension.name}_{number}"
            levels[dimension.name] = self.read_level(fields, field_name, dimension, position)

        is_wordy = field_value(fields, f"wordy_{number}") == "yes"
        return {**levels, "faults": penalties, "wordy": is_wordy, "inclusive": int(inclusive)}

    def ratings(self, value: Mapping[str, Any]) -> dict[str, float]:
        """Return the dimensions of the release; total = (P + R) / 2 - penalties (section 2.2).

        Whoever judged the fluency alone rated nothing else.
        """
        fluency = min(sum(value["faults"].values()), _MAX_FLUENCY_PENALTY)
        if "only" in value:
            return {"fluency": _as_in_release(fluency)}
        conciseness = WORDY_PENALTY if value["wordy"] else 0
        penalty = fluency + conciseness + value["inclusive"]

        # Tenths are whole numbers, so that no total is 3.9999999.
        return {
            "precision": float(value["precision"]),
            "recall": float(value["recall"]),
            "fluency": _as_in_release(fluency),
            "inclusive": _as_in_release(value["inclusive"]),
            "conciseness": _as_in_release(conciseness),
            "total": (5 * (value["precision"] + value["recall"]) - penalty) / 10,
        }

    def describe_fields(self, fields: FormFields) -> str:
        """Return the totals of the captions that are filled in, in order."""
        totals: list[str] = []
        number = 1
        while f"inclusive_{number}" in fields:
            try:
                # The words of a fault, which name a caption of several, are not shown.
                ratings = self.ratings(self._read_caption(fields, number, n_captions=1))
                totals.append(f"{ratings['total']:g}")
            except FormError:
                totals.append("–")
            number += 1

        return self.translate("Totals: %(totals)s", totals="; ".join(totals))

    def template_variables(self) -> dict[str, Any]:
        """Return the rubric's penalties, and how captions are displayed."""
        return {
            "fluency_problems": FLUENCY_PROBLEMS,
            "inclusive_penalties": INCLUSIVE_PENALTIES,
            "wordy_penalty": WORDY_PENALTY,
            "normalise_caption": normalise_thumb,
        }

    def paper_files(self, answers: CountedAnswers) -> dict[str, bytes]:
        """Return THumB's JSON lines: the last state of each caption that a second annotator has checked."""
        lines: list[str] = []
        references: dict[str, tuple[str, ...]] = {}
        for group in answers.by_item():
            unit = group[0].unit
            item = group[0].item
            value = answers.settled.get(item.id)
            if value is None:
                continue

            ratings = self.ratings(value)
            row = {
                "SYS": item.system or "unknown",
                "hyp": normalise_thumb(item.caption),
                "seg_id": unit.image_id,
                "set_id": unit.id,
                "image": Path(unit.image).name,
                "P": ratings["precision"],
                "R": ratings["recall"],
                "Fl": ratings["fluency"],
                "Inc": ratings["inclusive"],
                "Con": ratings["conciseness"],
                "human_score": ratings["total"],
            }

            lines.append(json.dumps(row, ensure_ascii=False))
            references[unit.image_id] = item.references

        reference_lines = [
            json.dumps({"seg_id": image_id, "refs": list(texts)}, ensure_ascii=False)
            for image_id, texts in references.items()
        ]

        return {
            "mscoco_THumB-1.0.jsonl": "".join(f"{line}\n" for line in lines).encode(),
            "mscoco_references.json": "".join(f"{line}\n" for line in reference_lines).encode(),
        }

    def simulate_answer(
        self, level: Callable[[str], int], captions: Sequence[str], rng: np.random.Generator
    ) -> dict[str, Any]:
        """Return an opinion each for precision and recall; now and then a fault of grammar."""
        answer: dict[str, Any] = {}
        for k, caption in enumerate(captions, start=1):
            for dimension in self.wording.dimensions:
                answer[f"{dimension.name}_{k}"] = dimension.from_five(level(caption))
            if rng.random() < 0.1:
                answer[f"fault_{k}"] = ["grammar"]

        return answer
