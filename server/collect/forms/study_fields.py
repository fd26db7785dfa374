"""The model of a study's file: the fields that every form has; a form adds its own (`Form.study_model`)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ....datasets.reading.scales_model import Conditions
from ....datasets.reading.yaml_model import (
    VISIBLE,
    Flag,
    LongText,
    Text,
    YamlModel,
    matching,
    one_of,
    whole_number,
)
from ...texts import ENGLISH
from ..items.item_pool import KnownPair
from ..items.item_source import ItemsFields
from .wording import WordingFields

#: The ways to take part.
PARTICIPANTS = ("open", "invitation", "crowd")

_ShortText = Annotated[str, Field(max_length=64), VISIBLE]


class CrowdFields(YamlModel):
    """The names that a crowd's platform has for its workers, and the code that they get."""

    parameter: _ShortText = "worker"
    completion: _ShortText = ""


class LimitsFields(YamlModel):
    """Limits on what an address or a rater may ask for: joins a minute, attempts to sign in, requests a second."""

    joins: Annotated[int, whole_number(1)] = 60
    logins: Annotated[int, whole_number(1)] = 10
    requests: Annotated[int, whole_number(1)] = 20


class StudyFields(WordingFields):
    """A study as its file has it; `docs/collect.md` says what each field does."""

    name: Annotated[
        LongText, matching(r"\w[\w.-]*", "letters, digits, '_', '-' and '.' are expected")
    ]
    protocol: str
    participants: Annotated[str, one_of("participants", lambda: PARTICIPANTS)] = "open"
    title: Annotated[str, Field(max_length=200), VISIBLE] | None = None
    intro: LongText = ""
    consent: LongText
    contact: Annotated[str, Field(max_length=300), VISIBLE] = ""
    lang: Annotated[str, Field(max_length=35), VISIBLE] = ENGLISH.code
    translations: Text | None = None

    items: ItemsFields = Field(default_factory=ItemsFields)
    attention: list[KnownPair] = Field(default_factory=list)
    attention_every: Annotated[int, whole_number(1)] = 10

    ratings: Annotated[int, whole_number(1, 1000)] | None = None
    per_rater: Annotated[int, whole_number(1)] | None = None
    nicknames: Flag | None = None
    crowd: CrowdFields = Field(default_factory=CrowdFields)
    limits: LimitsFields = Field(default_factory=LimitsFields)
    conditions: Conditions = Field(default_factory=Conditions)
