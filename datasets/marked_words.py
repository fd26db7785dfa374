"""Words that people mark as a caption's fault: the columns of `CaptionSet.words`, checked when the set is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from .errors import InputError

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
