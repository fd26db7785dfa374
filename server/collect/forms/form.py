"""The base class of forms: everything in which one way of judging differs from another.

A new form is a module beside this one with a subclass of `Form`, a page in `templates/forms/`, and its line in
`FORMS` (`forms/__init__.py`); CONTRIBUTING, "Add a form", lists all its files. No other module asks which form a study has. `levels.LevelsForm` is a short example;
`tests/server/collect/forms/test_form.py` has the shortest.

What every form has:

- `name` (the `protocol` of a study's file), `template` (the page that shows a unit), and `wording`: the question, the
  instructions and the dimensions with their levels.
- `read_answer`: what the browser sends, checked, as JSON for each caption.
- `ratings`: an answer's ratings by dimension.
- `simulate_answer`: what a simulated rater fills in.

What a form may replace, where it differs; each method says what the usual one does:

- of a study's file: `study_model` with fields of its own, which `from_study` reads, `check_levels`, `read_table`,
  `group_items` (what stands on a page), `special_units`, `prepare_units`, and `digest_rules`, which a running study may
  not change;
- of a rater's way: `course`, with practice, a wait or feedback (`forms/course.py`);
- of results: `captau_files`, `paper_files`, `select_answers`, `is_known_answer`, `stability`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd

from ....datasets.reading.table import Table
from ....datasets.schema import Scale
from ...texts import Language
from ...web.visitors import field_value
from ..items.item_pool import ItemPool
from ..items.item_source import caption_items
from ..items.units import StudyItem, StudyUnit, unit_of_item
from .counted_answers import CountedAnswers, rating_files
from .course import Course
from .study_fields import StudyFields
from .wording import Dimension, DimensionFields, Level, Wording, check_levels, read_wording


class FormError(Exception):
    """An answer that is incomplete or invalid."""


FormFields = Mapping[str, Sequence[str]]
Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class StabilityRule:
    """The comparison of two runs of a form by `captau collect stability`.

    Attributes:
        min_ratings: the ratings that an item needs in each run.
        published: published measures, by name.
        source: their publication.
        estimate: makes of the items' mean ratings the numbers that are compared.
    """

    min_ratings: int = 1
    published: Mapping[str, float] = field(default_factory=dict[str, float])
    source: str = ""
    estimate: Callable[[Floats], Floats] = lambda means: means


@dataclass(frozen=True)
class Form(ABC):
    """A way of judging; an instance holds what a study's file sets of it.

    Attributes:
        name: the name as a study's `protocol`.
        template: the page that shows a unit.
        wording: the question, the instructions and the dimensions, none where captions are written; a subclass
            has its paper's, in English, as the default (`wordings.yaml`).
        totals: dimensions that are sums of others.
        study_model: the fields of a study's file, those that only this form has among them.
        default_ratings: the answers that an item gets if the study does not say.
        unit_noun: the plural that the dashboard counts units by.
        stability: how a study is compared with its re-run.
        keeps_levels: whether a study may only word the form's own levels anew, since it computes with them.
        judges_pairs: whether an answer is of a pair of captions, and turns its sign with their order.
    """

    name: ClassVar[str]
    template: ClassVar[str]
    totals: ClassVar[tuple[str, ...]] = ()
    study_model: ClassVar[type[StudyFields]] = StudyFields
    default_ratings: ClassVar[int] = 3
    unit_noun: ClassVar[str] = "captions"
    stability: ClassVar[StabilityRule] = StabilityRule()
    keeps_levels: ClassVar[bool] = False
    judges_pairs: ClassVar[bool] = False

    wording: Wording = field(kw_only=True)

    # A study's file ---------------------------------------------------------------------------

    @classmethod
    def from_study(cls, study: StudyFields, language: Language) -> Self:
        """Read the form's own fields of a study's file; here its wording alone."""
        return cls(wording=cls.read_wording(study, language))

    @classmethod
    def read_wording(cls, study: StudyFields, language: Language) -> Wording:
        """Read the wording of a study's file; what it leaves out is the form's own.

        Raises:
            InputError: on a fault of it.
        """
        return read_wording(study, cls.wording, language, cls.check_levels)

    @classmethod
    def check_levels(
        cls, fields: DimensionFields, levels: Sequence[Level], default: Dimension | None
    ) -> None:
        """Check the levels that a study's file lists: two or more whole numbers in a row, or the form's own.

        Args:
            fields: those of the dimension.
            levels: in the file's order.
            default: the form's own dimension of that name, if it has one.

        Raises:
            InputError: if these levels are none of this form.
        """
        check_levels(fields, levels, default if cls.keeps_levels else None)

    def digest_rules(self) -> dict[str, Any]:
        """Return the rules that may not change while a study runs, beside items and scales; here none."""
        return {}

    def read_table(self, table: Table, images: Path | None) -> pd.DataFrame:
        """Return the items of a study's own table; here one caption a row."""
        return caption_items(table, images, table.filled("caption"))

    def special_units(self, study: StudyFields, pool: ItemPool) -> list[StudyUnit]:
        """Return the units that are not rated: here those with known answers, by levels of the first dimension.

        Raises:
            InputError: on a fault of the list `attention`, or if the form writes captions.
        """
        if not self.wording.dimensions:
            if "attention" in study.model_fields_set:
                raise study.error("attention", f"{self.name} has no known answers; leave it out")
            return []

        scale = self.wording.dimensions[0].scale
        units: list[StudyUnit] = []
        for pair in study.attention:
            pair.check_levels("accepted", pair.accepted, int(scale.low), int(scale.high))
            units.append(pool.listed_unit("attention", pair, pair.accepted))

        return units

    def group_items(self, items: Sequence[StudyItem]) -> list[StudyUnit]:
        """Return the units to rate; here one for each caption."""
        return [unit_of_item("main", item) for item in items]

    def prepare_units(
        self, units: Sequence[StudyUnit], study: StudyFields, *, computes_ratings: bool
    ) -> list[StudyUnit]:
        """Return the units that are rated as they begin; here as they are.

        Args:
            units: in the order in which they are first shown.
            study: the fields of the study's file.
            computes_ratings: whether units get the ratings that they start with, if they do.

        Raises:
            InputError: if the study does not fit the units.
        """
        return list(units)

    # What follows from the parts --------------------------------------------------------------

    @property
    def scales(self) -> Mapping[str, Scale]:
        """The scale of each dimension that answers have; empty where captions are written."""
        return self.wording.scales

    @property
    def main_dimension(self) -> str | None:
        """The dimension by which raters are compared: a sum of others if there is one; None where there is none."""
        return next(iter((*self.totals, *self.scales)), None)

    @property
    def course(self) -> Course:
        """A rater's way through the study; here the usual one."""
        return Course()

    def with_wait(self, seconds: float) -> Self:
        """Return the form with another wait before answers are accepted, if its course has one."""
        return self

    def translate(self, text: str, **values: Any) -> str:
        """Return a text of captau's in the study's language."""
        return self.wording.language.translate(text, **values)

    # Answers ----------------------------------------------------------------------------------

    @abstractmethod
    def read_answer(self, fields: FormFields, n_captions: int) -> list[dict[str, Any]]:
        """Return the answer to each caption shown, in order, as JSON.

        Args:
            fields: the values of each field that the browser sent.
            n_captions: the captions shown.

        Raises:
            FormError: if something is missing or invalid.
        """

    @abstractmethod
    def ratings(self, value: Mapping[str, Any]) -> dict[str, float]:
        """Return an answer's ratings by dimension; empty if it is no rating."""

    def is_known_answer(self, unit: StudyUnit, value: Mapping[str, Any]) -> bool:
        """Tell whether an answer to the first caption of an attention unit is one of the known ones."""
        return self.ratings(value).get(self.wording.dimensions[0].name) in unit.fixed

    def is_counted(self, unit: StudyUnit, item: StudyItem) -> bool:
        """Tell whether an answer stored with an item counts by itself; here each does."""
        return True

    def read_level(
        self, fields: FormFields, name: str, dimension: Dimension, caption: int = 0
    ) -> int:
        """Return the level that a field names.

        Args:
            fields: the values of each field that the browser sent.
            name: the field.
            dimension: the dimension that it answers.
            caption: the caption's place on a page of several, from 1.

        Raises:
            FormError: if it is missing or names no level.
        """
        text = field_value(fields, name)
        if text not in {str(level.value) for level in dimension.levels}:
            values = ", ".join(str(level.value) for level in dimension.levels)
            question = dimension.question
            fault = self.translate(
                "Choose one of %(levels)s: %(question)s", levels=values, question=question
            )
            if caption:
                fault = f"{self.translate('Caption %(n)s', n=caption)}: {fault}"
            raise FormError(fault)

        return int(text)

    def describe_fields(self, fields: FormFields) -> str:
        """Return the line that a page shows under an answer while it is filled in.

        Raises:
            FormError: if something is missing or invalid.
        """
        self.read_answer(fields, 1)
        return self.translate("Ready.")

    # Pages ------------------------------------------------------------------------------------

    def template_variables(self) -> dict[str, Any]:
        """Return what the form's templates need beside the unit."""
        return {}

    # Results ----------------------------------------------------------------------------------

    def select_answers(self, answers: CountedAnswers, *, for_paper: bool) -> CountedAnswers:
        """Leave out items whose answers the form's paper does not use, or does not publish; here none."""
        return answers

    def captau_files(self, answers: CountedAnswers) -> dict[str, bytes]:
        """Return the answers as files that `dataset=file` reads, by name; here a table of ratings."""
        return rating_files(answers, self.ratings, self.scales, self.totals)

    def paper_files(self, answers: CountedAnswers) -> dict[str, bytes]:
        """Return the answers as files of the form's authors, by name; here those of `captau_files`."""
        return self.captau_files(answers)

    def known_levels(self, unit: StudyUnit) -> list[float]:
        """Return the level from 1 to 5 of each caption of a unit by its known or computed ratings, for simulations.

        Here `unit.fixed` are levels of the first dimension; a unit without any has no known levels.
        """
        if not unit.fixed:
            return []

        share = self.wording.dimensions[0].scale.share(float(np.mean(unit.fixed)))
        return [1 + 4 * share] * len(unit.items)

    @abstractmethod
    def simulate_answer(
        self, level: Callable[[str], int], captions: Sequence[str], rng: np.random.Generator
    ) -> dict[str, Any]:
        """Return the fields that a simulated rater fills in.

        Args:
            level: draws the rater's opinion of a caption, from 1 to 5.
            captions: the captions shown.
            rng: for further draws.
        """
