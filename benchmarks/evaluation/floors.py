"""Floors: what every metric has to beat, random scores and the length of the caption."""

from __future__ import annotations

import numpy as np
import pandas as pd

#: The floors, as tables call them.
FLOORS = {
    "floor_random": "random scores",
    "floor_length": "longer caption",
    "floor_position": "first caption",
}
#: The floors that every table of preferences has.
PAIR_FLOORS = ("floor_length", "floor_position")
FLOOR_NOTES = {
    "floor_random": "each score is a random number",
    "floor_length": "the number of words in the caption",
    "floor_position": "prefers the first caption of each pair",
}


def count_words(items: pd.DataFrame) -> pd.Series:
    """Return the number of words of each caption, by item id."""
    words = [float(len(caption.split())) for caption in items["caption"]]
    return pd.Series(words, index=items["item_id"], dtype=np.float64)


def floor_scores(items: pd.DataFrame) -> dict[str, pd.Series]:
    """Return the scores of each floor of captions by item id; the random ones are the same in every run."""
    random = np.random.default_rng(0).random(len(items))
    return {
        "floor_random": pd.Series(random, index=items["item_id"]),
        "floor_length": count_words(items),
    }
