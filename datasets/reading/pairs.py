"""Tables of comparisons, one row a judgement of two captions; `winners` reads their verdicts, and `votes` files of votes.

Published files are taken as they are. Two systems' equal captions are a pair; a caption whose references differ by pair is
an item for each; a rater's several answers to a pair count once, with their mean. The card's `remarks` count all three.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ..errors import InputError
from ..preferences import PREFERENCE_COLUMNS
from ..schema import CaptionSet, Card
from .table import JudgementColumns, name_raters


@dataclass(frozen=True)
class PairColumns:
    """One row a judgement of two captions of an image, in columns of equal length.

    Attributes:
        places: where each row stands, for messages.
        image_ids, captions_a, captions_b: what was compared.
        strengths: positive where the first caption is better, negative where the second is, 0 where they tie.
        dimensions: what was judged.
        raters: who judged; None where that is not known: a pair's judgements are then numbered.
        systems_a, systems_b, references, splits, images, clusters: of each row, where there are any.
        references_b: those of the second caption, where they are not the first one's.
        is_graded: whether strengths have grades.
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
    references_b: Sequence[tuple[str, ...]] | None = None
    splits: Sequence[str] | None = None
    images: Sequence[str | None] | None = None
    clusters: Sequence[str] | None = None
    is_graded: bool = False

    def caption_set(self, card: Card) -> CaptionSet:
        """Make a `CaptionSet` in which equal captions of an image and system, with equal references, are one item.

        Raises:
            InputError: where a pair is of one caption by one system, or rows of one item differ in split or cluster.
        """
        systems = _of_both(self.systems_a, self.systems_b)
        self._check_captions(systems)

        # Both captions of each row, the first ones and then the second ones.
        both = JudgementColumns(
            places=[*self.places, *self.places],
            image_ids=[*self.image_ids, *self.image_ids],
            captions=[*self.captions_a, *self.captions_b],
            values=(),
            references=_of_both(self.references, self.references_b),
            systems=systems,
            splits=_of_both(self.splits),
            images=_of_both(self.images),
            clusters=_of_both(self.clusters),
            apart=True,
        )
        items, item_of = both.make_items()

        n_rows = len(self.places)
        ids = items["item_id"].to_numpy(dtype=object)
        items_a = ids[item_of[:n_rows]]
        items_b = ids[item_of[n_rows:]]
        pair_ids = [f"{a}|{b}" for a, b in zip(items_a, items_b, strict=True)]

        # A pair is the same whichever of its captions stands first.
        unordered = [frozenset(pair) for pair in zip(items_a, items_b, strict=True)]
        pairs = pd.factorize(pd.Series(unordered))[0].tolist()

        raters = self.raters
        if raters is None:
            raters = name_raters(None, pairs, self.dimensions, self.places)

        judged = pd.DataFrame(
            {
                "pair_id": pair_ids,
                "item_a": items_a,
                "item_b": items_b,
                "dimension": self.dimensions,
                "rater": raters,
                "strength": self.strengths,
            }
        )
        preferences = self._merge_answers(judged.assign(pair=pairs))

        remarks = (
            _count_equal_captions(items, preferences),
            _count_other_references(items),
            _count_answers(len(judged) - len(preferences)),
        )
        card = replace(card, remarks=(*card.remarks, *filter(None, remarks)))
        return CaptionSet(items, preferences=preferences, card=card)

    def _check_captions(self, systems: Sequence[str] | None) -> None:
        """Raise InputError at a pair of equal captions that no two systems wrote."""
        n_rows = len(self.places)
        for row, location in enumerate(self.places):
            first = " ".join(self.captions_a[row].split())
            second = " ".join(self.captions_b[row].split())
            is_of_two = systems is not None and systems[row] != systems[n_rows + row]
            if first == second and not is_of_two:
                raise InputError(
                    f"{location}: both captions are '{first}'; a pair is of two captions, unless two systems wrote "
                    "them (file.system_a=, file.system_b=)"
                )

    def _merge_answers(self, judged: pd.DataFrame) -> pd.DataFrame:
        """Make one answer of a rater's several to a pair on a dimension: their mean, in the order of the first.

        Without grades the sign of the mean counts, so that two opposite answers are a tie.
        """
        keys = [judged[column] for column in ("pair", "dimension", "rater")]
        first = judged.groupby(keys)["item_a"].transform("first")
        # A positive strength prefers `item_a`, which may be the other caption in a later answer.
        signed = judged["strength"].where(judged["item_a"] == first, -judged["strength"])
        # Adding 0 turns -0.0 into 0.0.
        means = signed.groupby(keys).transform("mean") + 0.0
        merged = judged.assign(strength=means if self.is_graded else np.sign(means))

        is_first = ~judged.duplicated(["pair", "dimension", "rater"])
        return merged.loc[is_first, list(PREFERENCE_COLUMNS)].reset_index(drop=True)


def _of_both(a: Sequence[Any] | None, b: Sequence[Any] | None = None) -> list[Any] | None:
    """Return a column of the first captions and then of the second ones, which share it unless they have their own."""
    if a is None:
        return None

    return [*a, *(b or a)]


def _count_equal_captions(items: pd.DataFrame, preferences: pd.DataFrame) -> str:
    captions = items.set_index("item_id")["caption"]
    pairs = preferences.drop_duplicates("pair_id")
    captions_a = captions.loc[pairs["item_a"]].to_numpy()
    captions_b = captions.loc[pairs["item_b"]].to_numpy()
    n_equal = int((captions_a == captions_b).sum())
    if not n_equal:
        return ""

    return f"{n_equal:,} of {len(pairs):,} pairs are of two systems' equal captions, which metrics that read captions tie."


def _count_other_references(items: pd.DataFrame) -> str:
    keys = items[["image_id", "caption", "system"]].fillna("")
    n_captions = int((keys.groupby(list(keys.columns)).size() > 1).sum())
    if not n_captions:
        return ""

    return f"{n_captions:,} captions have other references in other pairs; each of their sets is an item."


def _count_answers(n_merged: int) -> str:
    if not n_merged:
        return ""

    return f"{n_merged:,} answers are a rater's second or later one to a pair; the mean of the rater's answers counts."
