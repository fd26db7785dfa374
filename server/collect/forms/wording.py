"""The wording of a form: its question, instructions, and the dimensions and levels that raters choose.

Each form has its paper's wording, in `wordings.yaml`, translated; a study's file may replace any of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, Field

from ....datasets.errors import unknown
from ....datasets.reading.yaml_model import VISIBLE, LongText, YamlModel, fault, whole_number
from ....datasets.schema import Scale
from ...texts import ENGLISH, Language


def _check_meaning(text: str) -> str:
    if not text.strip():
        raise fault("it is empty; say what the level means")
    return text.strip()


class LevelFields(YamlModel):
    """A level as a study's file has it."""

    value: Annotated[int, whole_number(-100, 100)]
    name: Annotated[str, Field(max_length=100), VISIBLE] = ""
    text: Annotated[str, Field(max_length=2000), VISIBLE, AfterValidator(_check_meaning)]


class DimensionFields(YamlModel):
    """A dimension as a study's file has it."""

    name: Annotated[str, Field(max_length=64), VISIBLE]
    question: Annotated[str, Field(max_length=500), VISIBLE] | None = None
    note: Annotated[str, Field(max_length=2000), VISIBLE] | None = None
    levels: list[LevelFields] = Field(default_factory=list)


class WordingFields(YamlModel):
    """The fields of a study's file that word its form anew."""

    question: Annotated[str, Field(max_length=500), VISIBLE] | None = None
    instructions: LongText | None = None
    dimensions: list[DimensionFields] | None = None


@dataclass(frozen=True)
class Level:
    """A level to choose: its number, and perhaps its name and what it means."""

    value: int
    name: str = ""
    text: str = ""


@dataclass(frozen=True)
class Dimension:
    """A dimension of judgement; its levels stand in the order in which the page lists them."""

    name: str
    question: str
    levels: tuple[Level, ...]
    note: str = ""

    @property
    def scale(self) -> Scale:
        """The scale from the lowest level to the highest."""
        values = [level.value for level in self.levels]
        return Scale(min(values), max(values), 1)

    @property
    def has_texts(self) -> bool:
        """Tell whether levels have texts, not only names or numbers."""
        return any(level.text for level in self.levels)

    def level(self, value: int) -> Level:
        """Return the level of a number."""
        return next(level for level in self.levels if level.value == value)

    def from_five(self, level: int) -> int:
        """Return the level at the place that a level from 1 to 5 has among five; halfway between two, the upper one."""
        low = int(self.scale.low)
        high = int(self.scale.high)
        return low + ((high - low) * (level - 1) + 2) // 4


@dataclass(frozen=True)
class Wording:
    """The texts of a form.

    Attributes:
        question: the heading above each unit.
        instructions: paragraphs, divided by empty lines; those of the first page are open.
        has_free_dimensions: whether a study lists the dimensions that it asks for; else it may only word these
            anew.
    """

    question: str
    instructions: str = ""
    dimensions: tuple[Dimension, ...] = ()
    language: Language = ENGLISH
    has_free_dimensions: bool = False

    @property
    def scales(self) -> dict[str, Scale]:
        """The scale of each dimension."""
        return {dimension.name: dimension.scale for dimension in self.dimensions}

    def translated(self, language: Language) -> Wording:
        """Return the wording in another language."""
        translate = language.translate
        paragraphs = self.instructions.split("\n\n")

        dimensions: list[Dimension] = []
        for dimension in self.dimensions:
            levels = [
                Level(level.value, translate(level.name), translate(level.text))
                for level in dimension.levels
            ]
            translated = replace(
                dimension,
                question=translate(dimension.question),
                note=translate(dimension.note),
                levels=tuple(levels),
            )
            dimensions.append(translated)

        return replace(
            self,
            question=translate(self.question),
            instructions="\n\n".join(map(translate, paragraphs)),
            dimensions=tuple(dimensions),
            language=language,
        )


@cache
def _own_texts() -> dict[str, Any]:
    text = (resources.files("captau.server.collect") / "forms" / "wordings.yaml").read_text("utf-8")
    return yaml.safe_load(text)


def load_wording(form_name: str, *, has_free_dimensions: bool = False) -> Wording:
    """Return a form's own wording, in English, from `wordings.yaml`."""
    texts = _own_texts()[form_name]
    dimensions: list[Dimension] = []
    for entry in texts.get("dimensions", ()):
        levels = tuple(Level(**fields) for fields in entry["levels"])
        dimensions.append(Dimension(entry["name"], entry["question"], levels))

    return Wording(
        question=texts["question"],
        instructions="\n\n".join(texts.get("instructions", ())),
        dimensions=tuple(dimensions),
        has_free_dimensions=has_free_dimensions,
    )


def read_wording(
    study: WordingFields,
    default: Wording,
    language: Language,
    check_levels: Callable[[DimensionFields, Sequence[Level], Dimension | None], None],
) -> Wording:
    """Return the wording of a study's file: fields `question`, `instructions` and `dimensions`.

    Args:
        study: the fields of the file.
        default: the form's own wording, in English.
        language: the study's.
        check_levels: raises InputError if a dimension's levels are none of the form; it gets the dimension's
            fields, its levels, and the form's own dimension of that name.

    Raises:
        InputError: if a dimension is listed twice, or levels are none of the form.
    """
    default = default.translated(language)
    defaults = {dimension.name: dimension for dimension in default.dimensions}
    if study.dimensions is not None and not defaults:
        raise study.error("dimensions", "this protocol has none; leave it out")

    listed: dict[str, Dimension] = {}
    for fields in study.dimensions or []:
        name = fields.name
        if name in listed:
            raise fields.error("name", f"'{name}' is asked for twice; keep one")
        if name not in defaults and not default.has_free_dimensions:
            raise fields.error("name", str(unknown("dimension", name, defaults)))

        dimension = _make_dimension(fields, default)
        check_levels(fields, dimension.levels, defaults.get(name))
        listed[name] = dimension

    if study.dimensions is not None and not listed:
        raise study.error("dimensions", "at least one is needed")

    # Where dimensions are free, those that are listed are all; else they word the form's own anew.
    dimensions = listed if default.has_free_dimensions and listed else {**defaults, **listed}
    instructions = default.instructions if study.instructions is None else study.instructions
    return replace(
        default,
        question=default.question if study.question is None else study.question,
        instructions=instructions.strip(),
        dimensions=tuple(dimensions.values()),
    )


def check_levels(
    fields: DimensionFields, levels: Sequence[Level], default: Dimension | None
) -> None:
    """Check that a dimension's levels are two or more whole numbers in a row, in any order.

    Args:
        fields: those of the dimension.
        levels: in the file's order.
        default: the dimension whose levels they have to be, worded anew; None allows others.

    Raises:
        InputError: if they are not.
    """
    values = sorted(level.value for level in levels)
    if len(values) < 2 or values != list(range(values[0], values[-1] + 1)):
        numbers = ", ".join(map(str, values))
        raise fields.error(
            "levels",
            f"their values are {numbers}; two or more whole numbers in a row are expected",
        )

    scale = Dimension("", "", tuple(levels)).scale
    if default is not None and scale != default.scale:
        raise fields.error(
            "levels",
            f"they are {scale}; {default.scale} are expected, which the form computes with",
        )


def _make_dimension(fields: DimensionFields, wording: Wording) -> Dimension:
    """Return a dimension that a study lists; what it leaves out is that of the form's own dimension.

    A new dimension has the levels of the form's only one, if they are not listed.
    """
    name = fields.name
    own_dimensions = {dimension.name: dimension for dimension in wording.dimensions}
    default_dimension = own_dimensions.get(name)

    levels = tuple(Level(level.value, level.name, level.text) for level in fields.levels)
    if not levels and (default_dimension is not None or len(wording.dimensions) == 1):
        levels = (default_dimension or wording.dimensions[0]).levels
    if not levels:
        raise fields.error("levels", "they are needed, each with value and text")

    default = default_dimension or Dimension(name, name, levels)
    return Dimension(
        name=name,
        question=default.question if fields.question is None else fields.question,
        levels=levels,
        note=default.note if fields.note is None else fields.note,
    )
