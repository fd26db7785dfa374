"""Tables with one row a comparison of two captions; `dataset=file` reads them, `docs/preferences.md` explains them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from ..errors import InputError
from ..preferences import PREFERENCE_COLUMNS, STRENGTHS, derive_winners
from ..schema import CaptionSet, Card
from .table import JudgementColumns, Table, name_raters


@dataclass(frozen=True)
class PairColumns:
    """One row a judgement of two captions of an image, in columns of equal length.

    Attributes:
        places: where each row stands, for messages.
        image_ids, captions_a, captions_b: what was compared.
        strengths: positive where the first caption is better, negative where the second is, 0 where they tie.
        dimensions: what was judged.
        raters: who judged; None where that is not known: a pair's judgements are then numbered.
        systems_a, systems_b, references, splits, images: of each row, where there are any.
    """

    places: Sequence[str]
    image_ids: Sequence[str]
    captions_a: Sequence[str]
    captions_b: Sequence[str]
    strengths: Sequence[float]
    dimensions: Sequence[str]
    raters: Sequence[str] | None = None
    systems_a: Sequence[str] | None = None
    systems_b: Sequence[str] | None = None
    references: Sequence[tuple[str, ...]] | None = None
    splits: Sequence[str] | None = None
    images: Sequence[str | None] | None = None

    def caption_set(self, card: Card) -> CaptionSet:
        """Make a `CaptionSet` in which equal captions of an image and system are one item.

        Raises:
            InputError: where a pair is of one caption, rows of one item differ in references or split, or a rater
                judges a pair twice on a dimension.
        """
        for place, *captions in zip(self.places, self.captions_a, self.captions_b, strict=True):
            first, second = (" ".join(caption.split()) for caption in captions)
            if first == second:
                raise InputError(f"{place}: both captions are '{first}'; a pair is of two captions")
        both = None if self.systems_a is None else [*self.systems_a, *(self.systems_b or ())]
        items, item_of = JudgementColumns(
            [*self.places] * 2,
            [*self.image_ids] * 2,
            [*self.captions_a, *self.captions_b],
            (),
            references=None if self.references is None else [*self.references] * 2,
            systems=both,
            splits=None if self.splits is None else [*self.splits] * 2,
            images=None if self.images is None else [*self.images] * 2,
        ).make_items()
        n_rows = len(self.places)
        ids = items["item_id"].to_numpy(dtype=object)
        items_a, items_b = ids[item_of[:n_rows]], ids[item_of[n_rows:]]
        pair_ids = [f"{a}|{b}" for a, b in zip(items_a, items_b, strict=True)]
        pairs = pd.factorize(pd.Series(pair_ids))[0].tolist()
        raters = name_raters(self.raters, pairs, self.dimensions, self.places, "pair")
        columns = (pair_ids, items_a, items_b, self.dimensions, raters, self.strengths)
        preferences = pd.DataFrame(dict(zip(PREFERENCE_COLUMNS, columns, strict=True)))
        return CaptionSet(items, preferences=preferences, card=card)


def read_strengths(table: Table, winner: str, strength: str | None) -> list[float]:
    """Return each row's strength: the graded one, else 1 where `a` wins, -1 where `b` does, 0 for `tie`.

    Args:
        table: the rows.
        winner: the column of winners.
        strength: the column of grades; None where there is none.

    Raises:
        InputError: on a winner that is none of the three, a strength that is not a number, or where the two columns
            disagree.
    """
    winners = None
    if winner in table or strength is None:
        winners = [text.strip() for text in table.filled(winner, "; name it with file.winner=")]
        for place, text in zip(table.places, winners, strict=True):
            if text not in STRENGTHS:
                raise InputError(
                    f"{place}: {winner} is '{text}', not one of {', '.join(STRENGTHS)}"
                )
    if strength is None:
        return [STRENGTHS[text] for text in winners or ()]
    strengths = table.floats(strength, None, "; name it with file.strength=")
    for place, text, derived in zip(
        table.places, winners or (), derive_winners(strengths), strict=False
    ):
        if text != derived:
            raise InputError(
                f"{place}: {winner} is {text}, and {strength} prefers {derived}; a positive strength prefers a, a "
                "negative b"
            )
    return strengths
