"""Floors: what every metric has to beat, random scores and the length of the caption."""

from __future__ import annotations

import numpy as np
import pandas as pd

#: The floors, as tables call them.
FLOORS = {"floor_random": "random scores", "floor_length": "caption length"}
FLOOR_NOTES = {
    "floor_random": "scores drawn by lot",
    "floor_length": "the number of words in the caption",
}


def floor_scores(items: pd.DataFrame) -> dict[str, pd.Series]:
    """Return the scores of each floor by item id; the random ones are the same in every run."""
    random = np.random.default_rng(0).random(len(items))
    words = np.array([len(caption.split()) for caption in items["caption"]], dtype=np.float64)
    return {
        name: pd.Series(scores, index=items["item_id"])
        for name, scores in zip(FLOORS, (random, words), strict=True)
    }
