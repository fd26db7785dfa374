"""Records that the store hands to pages: raters, units shown and answers recorded."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, auto
from typing import Any

from sqlalchemy import Row

from ..forms.form import RaterProgress
from ..items.units import StudyItem, StudyUnit


class EndReason(StrEnum):
    """Reasons why a rater has nothing to answer."""

    #: The study has all the answers that this rater could give.
    THROUGH = auto()
    #: Other raters are at the remaining units; some may become free.
    RESERVED = auto()
    #: The form has ended for this rater, such as after the last attempt at practice.
    OUT = auto()


@dataclass(frozen=True)
class Rater:
    """A participant, as far as the study knows them; `n_answers` counts only the dataset's answers."""

    id: int
    nickname: str | None
    points: int
    n_answers: int
    state: dict[str, Any]

    @property
    def progress(self) -> RaterProgress:
        """The rater's points and state, as forms handle them."""
        return RaterProgress(self.state, self.points)


@dataclass(frozen=True)
class ShownUnit:
    """A unit that waits for a rater's answer.

    Attributes:
        key: makes its answer count once.
        items: the captions in the order in which they are shown.
        seconds_left: until an answer is accepted.
        previous: the answers that stand, which this one checks, in the same order; empty if there are none.
    """

    key: str
    phase: str
    unit: StudyUnit
    items: tuple[StudyItem, ...]
    seconds_left: float
    rater: Rater
    previous: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class RecordedAnswer:
    """A rater's recorded answer.

    Attributes:
        rater: the rater, as they are now.
        feedback: the form's feedback, if it gives any.
        is_repeat: whether it had been recorded before.
        differs: whether another answer had been recorded before; that one stands.
    """

    key: str
    phase: str
    rater: Rater
    unit: StudyUnit
    values: tuple[dict[str, Any], ...]
    feedback: dict[str, Any] | None
    is_repeat: bool = False
    differs: bool = False


def rater_of_row(row: Row[Any], rater_id: int) -> Rater:
    """Return the rater of a row that has the columns of `raters`."""
    return Rater(rater_id, row.nickname, row.points, row.given, row.state)
