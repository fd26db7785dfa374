"""Ratings of items by several raters as flat arrays, their scales, and the results of agreement measures.

`rater_agreement` and `virtual_raters` measure a `RatingTable`; commands make one of a dataset's ratings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...datasets.schema import Scale
from .coefficients.coefficient import CoefficientValue
from .remarks import Note, Remark, Remarked, Undefined, remark

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class AgreementMeasure(Remarked):
    """A measure's value, its standard deviation over draws, and the numbers of items and ratings.

    Where it is undefined the value is NaN and a remark is the reason.
    """

    value: float
    n_items: int
    std: float = float("nan")
    n_ratings: int = 0

    @classmethod
    def undefined(cls, code: Undefined, n_items: int = 0, **values: Any) -> Self:
        """Return NaN with a reason."""
        return cls(float("nan"), n_items, remarks=(remark(code, **values),))


def average_draws(draws: Sequence[CoefficientValue], n_items: int) -> AgreementMeasure:
    """Return mean and standard deviation over draws; of a single draw there is no deviation."""
    values = np.array([draw.value for draw in draws])
    defined = values[~np.isnan(values)]
    if not defined.size:
        return AgreementMeasure(float("nan"), n_items, remarks=draws[0].remarks)
    n_undefined = len(values) - len(defined)
    note = remark(Note.UNDEFINED_DRAWS, n_undefined=n_undefined, draws=len(values))
    return AgreementMeasure(
        float(defined.mean()),
        n_items,
        float(defined.std(ddof=1)) if len(defined) > 1 else float("nan"),
        remarks=(note,) if n_undefined else (),
    )


@dataclass(frozen=True)
class RatingTable:
    """The ratings of the items that have two at least, flat, item after item.

    Attributes:
        item: each rating's item, ascending from 0, shape (n_ratings,).
        rater: each rating's rater, as a number from 0, ascending within an item, shape (n_ratings,).
        value: shape (n_ratings,).
        source_index: each item's index among those that the table was made of, shape (n_items,).
        n_left_out: the number of items that had fewer ratings than `min_ratings`.
        min_ratings: the number of ratings that an item has at least.
        is_anonymous: whether a rater's number says only where a rating stands among an item's.
    """

    item: Ints
    rater: Ints
    value: Floats
    source_index: Ints
    n_left_out: int = 0
    min_ratings: int = 2
    is_anonymous: bool = False

    @classmethod
    def from_ratings(
        cls,
        ratings: pd.DataFrame,
        items: Iterable[str],
        dimension: str,
        *,
        is_anonymous: bool = False,
    ) -> RatingTable:
        """Make a table of a `CaptionSet`'s ratings: those of one dimension and of the given items."""
        index = pd.Index(list(items)).get_indexer(pd.Index(ratings["item_id"]))
        mask = (index >= 0) & (ratings["dimension"] == dimension).to_numpy()
        codes = pd.factorize(ratings.loc[mask, "rater"].astype(str), sort=True)[0]
        order = np.lexsort((codes, index[mask]))
        value = ratings.loc[mask, "value"].to_numpy(dtype=np.float64)[order]
        index = index[mask][order]
        source = np.unique(index).astype(np.int64)
        rater = codes[order].astype(np.int64)
        table = cls(_renumber(index), rater, value, source, is_anonymous=is_anonymous)
        return table.at_least(2)

    def at_least(self, min_ratings: int) -> RatingTable:
        """Return the items with so many ratings."""
        keeps_item = self.count >= min_ratings
        mask = keeps_item[self.item]
        return RatingTable(
            _renumber(self.item[mask]),
            self.rater[mask],
            self.value[mask],
            self.source_index[keeps_item],
            self.n_left_out + int((~keeps_item).sum()),
            min_ratings,
            self.is_anonymous,
        )

    @cached_property
    def count(self) -> Ints:
        """The number of ratings of each item, shape (n_items,)."""
        return np.bincount(self.item).astype(np.int64)

    @property
    def n_items(self) -> int:
        return len(self.count)

    @cached_property
    def position(self) -> Ints:
        """Each rating's position within its item, from 0, shape (n_ratings,)."""
        starts = np.cumsum(self.count) - self.count
        return np.arange(len(self.item), dtype=np.int64) - starts[self.item]

    @cached_property
    def means(self) -> Floats:
        """Each item's mean rating, shape (n_items,); rounded, so that equal means are tied."""
        return np.round(np.bincount(self.item, self.value) / self.count, 9)

    @property
    def is_constant(self) -> bool:
        return bool(np.ptp(self.value) == 0)

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """A count of the items that are left out, if any."""
        if not self.n_left_out:
            return ()
        counts = {"min_ratings": self.min_ratings, "n_items": self.n_left_out}
        return (remark(Note.TOO_FEW_RATINGS, **counts),)

    def shuffle_values(self, rng: np.random.Generator) -> Floats:
        """Return the values, in random order within each item."""
        return self.value[np.argsort(self.item + rng.random(len(self.item)))]

    def draw_ratings(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw so many ratings of each item without replacement, shape (n_items, size)."""
        return self.shuffle_values(rng)[self.position < size].reshape(-1, size)

    def rating_pairs(self) -> tuple[Ints, Ints]:
        """Return every two ratings of an item, as indices; the first is the lower-numbered rater's."""
        left, right = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
        followers = self.count[self.item] - self.position - 1
        index = np.arange(len(self.item), dtype=np.int64)
        for step in range(1, int(self.count.max(initial=1))):
            index = index[followers[index] >= step]
            left.append(index)
            right.append(index + step)
        return np.concatenate(left), np.concatenate(right)


def _renumber(ascending: NDArray[Any]) -> Ints:
    """Return 0 for the first value, 1 for the next different one, and so on."""
    if not ascending.size:
        return np.empty(0, dtype=np.int64)
    return np.concatenate([[0], np.cumsum(np.diff(ascending) != 0)]).astype(np.int64)


def count_by_level(ratings: pd.DataFrame, scale: Scale) -> dict[float, int]:
    """Count items by their mean rating, to the nearest level of the scale, halves up.

    The figures of rating distributions: Scott et al. 2023, Figure 4 (rounded averages); Levinboim et
    al. 2021, Figure 2 (p̂, in eighths); Lee et al. 2021, Figure 4. A scale without a step is cut into
    ten.

    Args:
        ratings: of one dimension, columns `item_id` and `value`.
        scale: the dimension's.

    Returns:
        Level → number of items, every level of the scale in it.
    """
    means = ratings.groupby("item_id", sort=False)["value"].mean().to_numpy(dtype=float)
    levels = scale_levels(scale)
    counts = np.bincount(nearest_level(means, scale), minlength=len(levels))
    return {level: int(counts[k]) for k, level in enumerate(levels)}


def scale_levels(scale: Scale) -> list[float]:
    """Return the levels of a scale; one without a step is cut into ten."""
    step = _step(scale)
    n_steps = round((scale.high - scale.low) / step)
    return [round(scale.low + k * step, 9) for k in range(n_steps + 1)]


def nearest_level(values: Floats, scale: Scale) -> Ints:
    """Return the index of the scale's level that each value is nearest to, halves up, shape (n,)."""
    # A mean that is a half but for the last bit counts as a half.
    return np.floor((values - scale.low) / _step(scale) + 0.5 + 1e-9).astype(np.int64)


def _step(scale: Scale) -> float:
    """Return the distance of two levels; 1 on a scale of a single value."""
    return scale.step or (scale.high - scale.low) / 10 or 1.0
