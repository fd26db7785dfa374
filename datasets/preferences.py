"""Preferences between two captions, and words that people mark as faults: columns of a `CaptionSet`, made and checked.

Readers call `make_preferences`; `schema.CaptionSet` calls `check_preferences`; finished runs of captau 0.1 are read with
`upgrade_preferences`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from .errors import InputError

#: What a preference is made of; `CaptionSet.preferences` has `winner` beside them.
PREFERENCE_COLUMNS = ("pair_id", "item_a", "item_b", "dimension", "rater", "strength")
WINNERS = ("a", "b", "tie")
#: The strength of a preference without grades, by its winner.
STRENGTHS = {"a": 1.0, "b": -1.0, "tie": 0.0}
#: The rater of preferences whose raters are not known, or whose answers were counted together.
PEOPLE = "people"

#: A preference's pair, its first and second item, its dimension, and its winner or strength.
PreferenceRow = tuple[str, str, str, str, str | float]


def derive_winners(strengths: Any) -> list[str]:
    """Return the winner of each preference: `a` where the strength is positive, `b` negative, `tie` 0."""
    signs = np.sign(np.asarray(strengths, dtype=np.float64))
    # NaN is neither above nor below 0, and is refused elsewhere.
    numbers = np.where(signs > 0, 0, np.where(signs < 0, 1, 2))
    return [WINNERS[i] for i in numbers]


def make_preferences(rows: Iterable[PreferenceRow], rater: str = PEOPLE) -> pd.DataFrame:
    """Make the frame of preferences of one rater, columns `PREFERENCE_COLUMNS`.

    Args:
        rows: a preference each; a winner (`a`, `b`, `tie`) is a preference without grades.
        rater: who preferred.
    """
    frame = pd.DataFrame(
        list(rows), columns=pd.Index(["pair_id", "item_a", "item_b", "dimension", "strength"])
    )
    strengths: list[float] = []
    for strength in frame["strength"]:
        is_winner = isinstance(strength, str)
        strengths.append(STRENGTHS[strength] if is_winner else float(strength))
    return frame.assign(rater=rater, strength=strengths)[list(PREFERENCE_COLUMNS)]


def upgrade_preferences(frame: pd.DataFrame) -> pd.DataFrame:
    """Return preferences as captau 0.1 wrote them, with `category` and `winner`, in today's columns.

    Any other frame is returned as it is.
    """
    if "category" not in frame.columns or "winner" not in frame.columns:
        return frame

    strengths = frame["winner"].map(STRENGTHS).astype(np.float64)
    return frame.rename(columns={"category": "dimension"}).assign(rater=PEOPLE, strength=strengths)


def check_preferences(
    preferences: pd.DataFrame, item_ids: Collection[str], where: str
) -> pd.DataFrame:
    """Check preferences, and return them with numbers for strengths and the column `winner`.

    Args:
        preferences: columns `PREFERENCE_COLUMNS`.
        item_ids: those of the set's items.
        where: the dataset, as messages begin with it.

    Raises:
        InputError: on a preference about an item that is not there; on a strength that is no finite
            number; on a pair of other items elsewhere; on a second preference by the same rater.
    """
    for column in ("item_a", "item_b"):
        strangers = [v for v in preferences[column].unique() if v not in item_ids]
        if strangers:
            raise InputError(
                f"{where}: a preference is about '{strangers[0]}', which is not an item"
            )

    try:
        strengths = pd.to_numeric(preferences["strength"], errors="coerce").astype(float)
    except OverflowError as error:
        raise InputError(f"{where}: the strength of a preference is too large") from error

    for column in ("dimension", "rater"):
        bad = preferences[[not isinstance(v, str) for v in preferences[column]]]
        if len(bad):
            pair_id, value = bad[["pair_id", column]].iloc[0]
            raise InputError(f"{where}: pair '{pair_id}': {column} is {value!r}, not a text")

    bad = preferences[~np.isfinite(strengths.to_numpy())]
    if len(bad):
        raise InputError(
            f"{where}: pair '{bad['pair_id'].iloc[0]}': strength is {bad['strength'].iloc[0]!r}, not a number; "
            "positive prefers a, negative b, 0 is a tie"
        )

    _check_pairs(preferences, where)
    return preferences.assign(strength=strengths, winner=derive_winners(strengths))


def _check_pairs(preferences: pd.DataFrame, where: str) -> None:
    """Check that a pair is always of the same two items, and that nobody judges it twice.

    Raises:
        InputError: where one is not.
    """
    pairs = preferences.drop_duplicates(["pair_id", "item_a", "item_b"])
    is_again = pairs["pair_id"].duplicated()
    if is_again.any():
        raise InputError(
            f"{where}: pair_id '{pairs.loc[is_again, 'pair_id'].iloc[0]}' stands for two pairs of items; give each "
            "its own"
        )

    is_again = preferences.duplicated(["pair_id", "dimension", "rater"])
    if is_again.any():
        row = preferences[is_again].iloc[0]
        raise InputError(
            f"{where}: rater '{row['rater']}' judged pair '{row['pair_id']}' twice on {row['dimension']}; keep one each"
        )


#: A row a word of a marked item (what blanks part): its place from 0, and 1 where people call it the fault, else 0.
WORD_COLUMNS = ("item_id", "position", "word", "dimension", "value")


def find_mismatch(words: Sequence[Any], caption: str) -> str:
    """Say which of marked words is not the caption's, in their order; empty where all are and none is missing."""
    expected = caption.split()
    for index, word in enumerate(words):
        if index >= len(expected) or word != expected[index]:
            return f"the word {word!r} is not word {index + 1} of the caption"

    if len(words) < len(expected):
        return f"the word {expected[len(words)]!r} of the caption is not among them"

    return ""


def check_words(words: pd.DataFrame, captions: Mapping[str, str], where: str) -> None:
    """Check marked words.

    Args:
        words: columns `WORD_COLUMNS`, an item's in their order.
        captions: by item id.
        where: the dataset, as messages begin with it.

    Raises:
        InputError: on a word of an item that is not there or that is not in its caption, on an item of which words
            are missing, and on a mark other than 0 and 1.
    """
    for keys, marked in words.groupby(["item_id", "dimension"], sort=False):
        item_id, dimension = map(str, keys if isinstance(keys, tuple) else (keys, ""))
        if item_id not in captions:
            raise InputError(f"{where}: a marked word is about '{item_id}', which is not an item")

        reason = find_mismatch(marked["word"].tolist(), captions[item_id])
        if not reason and marked["position"].tolist() != list(range(len(marked))):
            reason = "their positions do not count up from 0"
        if not reason and not marked["value"].isin((0, 1)).all():
            reason = "a mark is neither 0 nor 1"
        if reason:
            raise InputError(f"{where}: item '{item_id}', marked words of {dimension}: {reason}")
