"""A judge's answers about pairs of captions, a row an answer, with the order in which the captions were shown to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError, shorten
from .judgement_exports import find_pair, name_sides, read_export
from .table import Table, read_table
from .winners import read_strengths, read_winners

#: The orders in which two captions are shown: `ba` shows `caption_b` first.
ORDERS = ("ab", "ba")
#: What columns of answers and of judges are called.
_ANSWERS = ("winner", "answer", "verdict", "judgement", "judgment", "preference")
_JUDGES = ("judge", "rater", "model")
#: Answers that name a column. Others, such as `first`, may name the place in which a caption was shown.
_COLUMN_WORDS = ("a", "b", "tie", "caption_a", "caption_b")


@dataclass(frozen=True)
class PairAnswer:
    """An answer about two captions.

    Attributes:
        place: the file and line, for messages.
        image_id: the image.
        captions: those of the columns a and b.
        judge: who answered; empty where the file does not say.
        order: one of `ORDERS`.
        strength: 1 where the caption of column a is preferred, -1 where that of column b is, 0 of a tie.
    """

    place: str
    image_id: str
    captions: tuple[str, str]
    judge: str
    order: str
    strength: float


@dataclass(frozen=True)
class PairAnswerFile:
    """The answers of a file.

    Attributes:
        path: the file.
        answers: in its order.
        notes: sentences on how it was read.
    """

    path: Path
    answers: tuple[PairAnswer, ...]
    notes: tuple[str, ...]

    @property
    def by_judge(self) -> dict[str, list[PairAnswer]]:
        """The answers of each judge, who is called as the file is where it does not say."""
        by_judge: dict[str, list[PairAnswer]] = {}
        for answer in self.answers:
            by_judge.setdefault(answer.judge or self.path.stem, []).append(answer)
        return by_judge


def read_pair_answers(path: Path) -> PairAnswerFile:
    """Read answers: columns `image`, `caption_a`, `caption_b`, `answer` and perhaps `order` and `judge`.

    Without a column `order`, `caption_a` was shown first in every row.

    Raises:
        InputError: where the file cannot be read, lacks a column, or an answer or an order cannot be understood.
    """
    table, _ = read_export(read_table(path))
    names = find_pair(table, ("caption_a", "caption_b"))
    image = table.first_of("image", "image_id")
    answer = table.first_of(*_ANSWERS)
    has_captions = all(name in table for name in names)
    if image is None or answer is None or not has_captions:
        raise InputError(
            f"{path}: a row an answer is expected, with the columns image, caption_a, caption_b, answer (a, b or tie), and order "
            f"(ab, or ba where caption_b was shown first) where both orders were asked; it has {', '.join(table.names)}"
        )

    if "order" in table:
        _check_words(table, answer)
    systems = (table.first_of("system_a"), table.first_of("system_b"))
    table, notes = read_winners(table, answer, systems, words=None, sides=name_sides(names))
    strengths = read_strengths(table, answer, None)
    judge = table.first_of(*_JUDGES)
    judges = [""] * len(table) if judge is None else table.texts(judge, empty="")
    columns = zip(
        table.places,
        table.filled(image),
        table.filled(names[0]),
        table.filled(names[1]),
        judges,
        _read_orders(table),
        strengths,
        strict=True,
    )
    answers: list[PairAnswer] = []
    for place, image_id, caption_a, caption_b, judge_name, order, strength in columns:
        captions = (caption_a, caption_b)
        answers.append(PairAnswer(place, image_id, captions, judge_name, order, strength))
    return PairAnswerFile(path, tuple(answers), tuple(notes))


def _read_orders(table: Table) -> Sequence[str]:
    """Return the order of each row."""
    if "order" not in table:
        return [ORDERS[0]] * len(table)

    orders: list[str] = []
    for place, text in zip(table.places, table.filled("order"), strict=True):
        order = text.strip().lower()
        if order not in ORDERS:
            raise InputError(
                f"{place}: order is '{shorten(text)}'; ab is expected, or ba where caption_b was shown first"
            )
        orders.append(order)
    return orders


def _check_words(table: Table, answer: str) -> None:
    """Raise InputError at an answer that may mean a place, where captions were shown in both orders."""
    orders = _read_orders(table)
    for place, cell, order in zip(table.places, table.column(answer), orders, strict=True):
        word = str(cell).strip().lower()
        # Where a file names the systems, another word is the name of one.
        is_clear = not word or word in _COLUMN_WORDS or "system_a" in table
        if order == ORDERS[0] or is_clear:
            continue
        raise InputError(
            f"{place}: {answer} is '{shorten(str(cell))}' where caption_b was shown first (order ba), and may mean the caption shown "
            "first or caption_a; write a or b for the caption of that column, or tie"
        )
