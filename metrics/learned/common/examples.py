"""The examples that a rater learns from: captions, all their ratings, and preferences between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ....datasets.errors import InputError
from ...base import Floats
from ...rows import Rows

Ints = NDArray[np.intp]


@dataclass(frozen=True)
class Examples:
    """Captions with people's judgements of them.

    Attributes:
        rows: with the columns `dataset`, `item_id`, `image_id`, `image`, `caption`, `references`,
            `system`.
        ratings: every rating of each row, from 0 to 1 for the ends of its scale; may be empty.
        preferences: rows of the winner and the loser of each comparison, shape (n_pairs, 2).
    """

    rows: Rows
    ratings: tuple[Floats, ...]
    preferences: Ints

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def mean_ratings(self) -> Floats:
        """Mean ratings, shape (n,); NaN for rows without ratings."""
        means = np.full(len(self.ratings), np.nan)
        for row, ratings in enumerate(self.ratings):
            if len(ratings):
                means[row] = ratings.mean()
        return means

    @property
    def has_rating(self) -> NDArray[np.bool_]:
        """A mask of the rows with ratings, shape (n,)."""
        return np.array([len(ratings) > 0 for ratings in self.ratings], dtype=bool)

    @property
    def image_ids(self) -> NDArray[np.str_]:
        """Image ids, shape (n,)."""
        return self.rows.frame["image_id"].to_numpy(dtype=np.str_)

    def take(self, index: Ints) -> Examples:
        """Return the rows at `index` and the preferences between them."""
        new_row = np.full(len(self), -1, dtype=np.intp)
        new_row[index] = np.arange(len(index))
        pairs = new_row[self.preferences]
        has_both = (pairs >= 0).all(axis=1)

        frame = self.rows.frame.iloc[index].reset_index(drop=True)
        ratings = tuple(self.ratings[row] for row in index)
        return Examples(Rows(frame), ratings, pairs[has_both])

    @classmethod
    def join(cls, parts: Sequence[Examples]) -> Examples:
        """Join several sets of examples into one."""
        ratings: list[Floats] = []
        pairs: list[Ints] = []
        start = 0
        for part in parts:
            pairs.append(part.preferences + start)
            ratings += part.ratings
            start += len(part)

        frame = pd.concat([part.rows.frame for part in parts], ignore_index=True)
        preferences = np.concatenate(pairs).astype(np.intp)
        return cls(Rows(frame), tuple(ratings), preferences)

    def select_rated(self, *, must_vary: bool = True) -> Examples:
        """Return the rows with ratings.

        Args:
            must_vary: whether equal ratings are an error, since nothing can be learned from them.

        Raises:
            InputError: if no row has a rating, or all ratings are equal.
        """
        rated = self.take(np.flatnonzero(self.has_rating))
        if not len(rated):
            purpose = "train on" if must_vary else "choose by"
            raise InputError(
                f"no row with a rating is left to {purpose}; choose other data or rows"
            )

        if must_vary and len(set(rated.mean_ratings.tolist())) == 1:
            raise InputError(
                f"all {len(rated)} captions to train on have the same rating; there is nothing to learn"
            )
        return rated
