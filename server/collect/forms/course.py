"""A rater's way through a study: which units come, when an answer is accepted, and the feedback on it.

Usually unit follows unit, without feedback; the rating game has practice, points and a wait (`game`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ..items.units import StudyUnit


class OutOfTurnError(Exception):
    """An answer that the form does not accept now; nothing was changed."""


class TooEarlyError(OutOfTurnError):
    """An answer that came before the wait was over."""

    #: The message, for translation.
    MESSAGE = "Please look at the picture for %(seconds)s s more."

    def __init__(self, seconds_left: float) -> None:
        self.seconds_left = f"{seconds_left:.1f}"
        super().__init__(self.MESSAGE % {"seconds": self.seconds_left})


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


class Course:
    """The usual way through a study.

    Attributes:
        feedback_template: the page after an answer that has feedback, or that was not the first.
        end_template: tells a rater why the way has ended for them, if it can.
        feedback_columns: the parts of the feedback on an answer that the log has columns of; none without
            feedback. Where `score` is among them, raters win points.
        wait: the seconds from showing a unit until an answer is accepted.
    """

    feedback_template: ClassVar[str] = "answer_recorded.html"
    end_template: ClassVar[str] = ""
    feedback_columns: ClassVar[tuple[str, ...]] = ()
    wait: float = 0.0

    @property
    def has_points(self) -> bool:
        """Tell whether raters win points, and may choose nicknames by default."""
        return "score" in self.feedback_columns

    def begin(self) -> RaterProgress:
        """Return the progress of a new rater."""
        return RaterProgress({}, 0)

    def next_task(self, state: Mapping[str, Any]) -> NextUnit | None:
        """Return the kind of unit that a rater sees next; None if the way has ended for them."""
        return NextUnit()

    def start_unit(
        self, state: dict[str, Any], task: NextUnit, key: str, now: float
    ) -> dict[str, Any]:
        """Return a rater's state once a unit is shown to them."""
        return state

    def respond(
        self, answer: SubmittedAnswer, progress: RaterProgress, others: Sequence[float]
    ) -> tuple[dict[str, Any] | None, RaterProgress]:
        """Return the feedback on an answer, as JSON, and the rater's progress after it.

        Args:
            answer: the answer.
            progress: the rater's progress before it.
            others: the main dimension's earlier ratings of the caption; empty without `feedback_columns`.

        Raises:
            OutOfTurnError: if the answer is not accepted now.
        """
        return None, progress

    def describe(self, progress: RaterProgress) -> dict[str, Any]:
        """Return further cells of the tables of raters, by column."""
        return {}
