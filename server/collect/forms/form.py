"""The base class of forms: everything in which one way of judging differs from another.

A new form is a module beside this one with a subclass of `Form`, a template in `templates/forms/`, and a
line in `FORMS` (`forms/__init__.py`). No other module asks which form a study has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from ....datasets.reading.yaml_fields import YamlFields
from ....datasets.schema import Scale
from ...web.forms import field_value
from ...web.language import Language
from ..items.item_pool import ItemPool
from ..items.units import StudyItem, StudyUnit, unit_of_item
from .counted_answers import CountedAnswers
from .errors import FormError
from .wording import Dimension, Wording, read_wording

#: The phases whose answers are the dataset.
COUNTED_PHASES = ("main", "trial", "playing", "check", "fluency")

FormFields = Mapping[str, Sequence[str]]
Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class NextUnit:
    """The kind of unit that a rater sees next.

    Attributes:
        phase: recorded with the answer.
        pool: the pool that the unit comes from; those of `main` are assigned evenly.
        attempt: the round of practice; within a round no unit repeats.
        is_shuffled: whether practice units are drawn at random.
        allows_attention: whether an attention item may come instead.
    """

    phase: str = "main"
    pool: str = "main"
    attempt: int = 0
    is_shuffled: bool = False
    allows_attention: bool = True


@dataclass(frozen=True)
class RaterProgress:
    """A rater's points and the state that the form keeps of them, as JSON."""

    state: dict[str, Any]
    points: int


@dataclass(frozen=True)
class SubmittedAnswer:
    """An answer as it arrives: the value of its first caption, and its times on the store's clock."""

    key: str
    phase: str
    unit: StudyUnit
    value: Mapping[str, Any]
    served_at: float
    submitted_at: float


@dataclass(frozen=True)
class Form(ABC):
    """A way of judging; an instance holds what a study's file sets of it.

    Each subclass gives `wording` its paper's wording, in English, as the default.

    Attributes:
        name: the name as a study's `protocol`.
        template: the page that shows a unit.
        feedback_template: the page after an answer that has feedback, or that was not the first.
        end_template: tells a rater why the form has ended for them, if it can.
        wording: the question, the instructions and the dimensions, none where captions are written.
        has_free_dimensions: whether a study's file says which dimensions are asked for.
        has_fixed_levels: whether the number of levels is part of the form.
        study_fields: the fields of a study's file that only this form has.
        has_attention_items: whether captions with known answers may come in between.
        default_ratings: the answers that an item gets if the study does not say.
        has_captions: whether captions are shown, rather than written.
        shows_pairs: whether a unit is a pair of captions, which a table of items may list.
        exports_ratings: whether `form=captau` is a table of ratings, rather than the form's own files.
        has_points: whether raters win points, and may choose nicknames by default.
        gives_feedback: whether a page of feedback follows each answer.
        starts_with_ratings: whether units start with ratings, which can be computed again.
        unit_noun: the plural that the dashboard counts units by.
        rater_columns: further columns of the dashboard's table of raters.
    """

    name: ClassVar[str]
    template: ClassVar[str]
    feedback_template: ClassVar[str] = "answer_recorded.html"
    end_template: ClassVar[str] = ""
    has_free_dimensions: ClassVar[bool] = False
    has_fixed_levels: ClassVar[bool] = False
    #: Dimensions that are sums of others.
    totals: ClassVar[tuple[str, ...]] = ()
    study_fields: ClassVar[tuple[str, ...]] = ()
    has_attention_items: ClassVar[bool] = False
    default_ratings: ClassVar[int] = 3
    has_captions: ClassVar[bool] = True
    shows_pairs: ClassVar[bool] = False
    exports_ratings: ClassVar[bool] = True
    has_points: ClassVar[bool] = False
    gives_feedback: ClassVar[bool] = False
    starts_with_ratings: ClassVar[bool] = False
    unit_noun: ClassVar[str] = "captions"
    rater_columns: ClassVar[tuple[str, ...]] = ()

    wording: Wording = field(kw_only=True)

    # A study's file ---------------------------------------------------------------------------

    @classmethod
    def from_study(cls, study: YamlFields, participants: str, language: Language) -> Self:
        """Read the form's own fields of a study's file."""
        del participants
        return cls(wording=cls.read_wording(study, language))

    @classmethod
    def read_wording(cls, study: YamlFields, language: Language) -> Wording:
        """Read the wording of a study's file; what it leaves out is the form's own.

        Raises:
            InputError: on a fault of it.
        """
        wording = read_wording(
            study, cls.wording, language, has_free_dimensions=cls.has_free_dimensions
        )
        if cls.has_fixed_levels:
            for dimension, default in zip(wording.dimensions, cls.wording.dimensions, strict=True):
                if dimension.scale != default.scale:
                    raise study.error(
                        "dimensions",
                        f"{dimension.name} has levels {dimension.scale}; {cls.name} has {default.scale}",
                    )
        return wording

    @property
    def scales(self) -> Mapping[str, Scale]:
        """The scale of each dimension that answers have; empty where captions are written."""
        return self.wording.scales

    @property
    def main_dimension(self) -> str | None:
        """The dimension by which raters are compared; None where there is none."""
        return next(iter(self.scales), None)

    @property
    def attention_dimension(self) -> str | None:
        """The dimension of which attention items have known levels."""
        return self.main_dimension

    def translate(self, text: str, **values: Any) -> str:
        """Return a text of captau's in the study's language."""
        return self.wording.language.translate(text, **values)

    def digest_rules(self, participants: str) -> dict[str, Any]:
        """Return the rules that a study's digest covers.

        Forms without rules have the game's defaults there, as in the first version: databases that were
        begun with these digests must still open.
        """
        attempts = 3 if participants == "crowd" else None
        return {"wait": 0.0, "tutorial": 10, "pairs": 20, "points": 25, "attempts": attempts}

    def practice_units(self, study: YamlFields, pool: ItemPool) -> list[StudyUnit]:
        """Return the units that come before, or beside, those that are rated."""
        del study, pool
        return []

    def group_items(self, items: Sequence[StudyItem]) -> list[StudyUnit]:
        """Return the units to rate; here one for each caption."""
        return [unit_of_item("main", item) for item in items]

    def assign_stages(self, units: Sequence[StudyUnit], study: YamlFields) -> list[StudyUnit]:
        """Return the units to rate with their stages, where raters check each other's answers.

        Raises:
            InputError: if named annotators do not fit the units.
        """
        del study
        return list(units)

    def prepare_units(self, units: Sequence[StudyUnit], study: YamlFields) -> list[StudyUnit]:
        """Return the units to rate with the ratings that they start with.

        Raises:
            InputError: if there are too few.
        """
        del study
        return list(units)

    def check_counts(self, study: YamlFields, ratings: int, per_rater: int | None) -> None:
        """Check the form's rules against the numbers of answers that a study asks for.

        Raises:
            InputError: if they contradict each other.
        """
        del study, ratings, per_rater

    @property
    def wait(self) -> float:
        """The seconds from showing a unit until an answer is accepted."""
        return 0.0

    def with_wait(self, seconds: float) -> Self:
        """Return the form with another wait before answers are accepted, if it has one."""
        del seconds
        return self

    # A rater's way through the study ----------------------------------------------------------

    def initial_state(self) -> dict[str, Any]:
        """Return the state of a new rater, as JSON."""
        return {}

    def next_task(self, state: Mapping[str, Any]) -> NextUnit | None:
        """Return the kind of unit that a rater sees next; None if the form has ended for them."""
        del state
        return NextUnit()

    def start_unit(
        self, state: dict[str, Any], task: NextUnit, key: str, now: float
    ) -> dict[str, Any]:
        """Return a rater's state once a unit is shown to them."""
        del task, key, now
        return state

    def respond(
        self, answer: SubmittedAnswer, progress: RaterProgress, others: Sequence[float]
    ) -> tuple[dict[str, Any] | None, RaterProgress]:
        """Return the feedback on an answer, as JSON, and the rater's progress after it.

        Args:
            answer: the answer.
            progress: the rater's progress before it.
            others: the main dimension's earlier ratings of the caption; empty unless `gives_feedback`.

        Raises:
            OutOfTurnError: if the form does not accept it now.
        """
        del answer, others
        return None, progress

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

    def rater_cells(self, progress: RaterProgress) -> tuple[Any, ...]:
        """Return a rater's cells of `rater_columns`."""
        del progress
        return ()

    # Results ----------------------------------------------------------------------------------

    def drop_unusable(self, answers: CountedAnswers) -> CountedAnswers:
        """Leave out items whose answers the form's paper does not use."""
        return answers

    def drop_unpublished(self, answers: CountedAnswers) -> CountedAnswers:
        """Leave out items that are not in the paper's files."""
        return answers

    @abstractmethod
    def paper_files(self, answers: CountedAnswers) -> dict[str, bytes]:
        """Return the answers as files of the form's authors, by name."""

    #: The ratings that an item needs in each run for `captau collect stability`.
    stability_min_ratings: ClassVar[int] = 1
    #: Published measures of stability, and their source.
    published_stability: ClassVar[Mapping[str, float]] = {}
    stability_source: ClassVar[str] = ""

    @classmethod
    def stability_estimate(cls, means: Floats) -> Floats:
        """Return the estimates that two runs are compared by, from the items' mean ratings."""
        return means

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
