"""Distributions of ratings: how many items have which mean rating, by dataset, system, split or author."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ....datasets.errors import InputError
from ....datasets.schema import Scale
from ...statistics.rating_table import count_by_level
from ..evaluation_set import EvaluationSet

DISTRIBUTION_COLUMNS = ("dataset", "dimension", "group", "level", "n_items", "share")
#: The name of people among systems, in lower case; and what the others are called beside it.
_HUMAN, _MACHINES = "human", "machines"


@dataclass(frozen=True)
class RatingDistribution:
    """The number of items by the level nearest to their mean rating.

    Attributes:
        dataset, dimension: whose.
        group: a system, a split, `human` or `machines`; empty for all items.
        scale: the dimension's; of a total the part of it that items reach.
        counts: by level, every level of the scale in it.
    """

    dataset: str
    dimension: str
    group: str
    scale: Scale
    counts: dict[float, int]

    @property
    def n_items(self) -> int:
        """The number of rated items."""
        return sum(self.counts.values())

    def rows(self) -> list[dict[str, Any]]:
        """Return a row a level, columns `DISTRIBUTION_COLUMNS`."""
        names = {"dataset": self.dataset, "dimension": self.dimension, "group": self.group}
        n_items = max(self.n_items, 1)
        rows: list[dict[str, Any]] = []
        for level, count in self.counts.items():
            rows.append({**names, "level": level, "n_items": count, "share": count / n_items})

        return rows


def rating_distributions(
    dataset: str,
    ratings: pd.DataFrame,
    scales: Mapping[str, Scale],
    groups: pd.Series,
    totals: Sequence[str] = (),
) -> list[RatingDistribution]:
    """Count items by their mean rating.

    Args:
        dataset: its name.
        ratings: columns `item_id, dimension, value`.
        scales: of the dimensions that are counted.
        groups: the group of each item, by item id.
        totals: the dimensions that are sums of others, whose scale reaches far beyond the ratings.
    """
    rating_groups = groups.reindex(ratings["item_id"]).to_numpy()
    distributions: list[RatingDistribution] = []
    for dimension, scale in scales.items():
        is_own = ratings["dimension"] == dimension
        if dimension in totals:
            scale = _observed_scale(ratings[is_own], scale)

        for group in dict.fromkeys(groups):
            of_group = ratings[is_own & (rating_groups == group)]
            counts = count_by_level(of_group, scale)
            distributions.append(RatingDistribution(dataset, dimension, group, scale, counts))

    return distributions


def _observed_scale(ratings: pd.DataFrame, scale: Scale) -> Scale:
    """Return the part of a scale that items' mean ratings reach, in its steps or else in whole numbers."""
    means = ratings.groupby("item_id", sort=False)["value"].mean()
    step = scale.step or 1.0
    # A mean that is a level but for rounding keeps its level.
    low = scale.low + step * np.floor((means.min() - scale.low) / step + 1e-9)
    high = scale.low + step * np.ceil((means.max() - scale.low) / step - 1e-9)

    return Scale(float(low), float(high), scale.step) if low < high else scale


def group_items(selection: EvaluationSet, by: str) -> pd.Series:
    """Return the group of each item, by item id.

    Args:
        selection: the dataset.
        by: `dataset` for all items together, `system`, `split`, or `human` for those of the system of
            that name beside those of all others.

    Raises:
        InputError: where the systems are not known, or none of them is called human.
    """
    items = selection.items.set_index("item_id")
    if by == "dataset":
        return pd.Series("", index=items.index)
    if by == "split":
        return items["split"].astype(str)

    if items["system"].isna().any():
        raise InputError(f"dataset {selection.name}: by={by} needs the system of every item")

    systems = items["system"].astype(str)
    if by == "system":
        return systems

    is_human = systems.str.casefold() == _HUMAN
    if not is_human.any():
        raise InputError(
            f"dataset {selection.name}: by=human needs a system called human; there are "
            f"{', '.join(dict.fromkeys(systems))}"
        )

    return is_human.map({True: _HUMAN, False: _MACHINES})
