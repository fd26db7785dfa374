"""The data points of a dimension, each a score beside a rating, which coefficients are computed of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from ...metrics.base import Floats
from ..scoring.protocol import Protocol
from ..statistics.bootstrap import number_images
from ..statistics.coefficients.coefficient import CoefficientValue, correlate_points
from ..statistics.levels import correlate_at_level
from ..statistics.rated_points import RatedPoints
from ..statistics.remarks import Remark
from ..statistics.weighted_pairs import Ints, Mask


@dataclass(frozen=True)
class DataPoints:
    """The data points of one dimension that count for a metric.

    Attributes:
        item_keys, item_clusters: `keys` and `clusters` of the `EvaluationSet`.
        points: all data points of the dimension, as `EvaluationSet.points` returns them.
        is_counted: which of them count, shape (n_all_points,); `protocol.undefined=drop` leaves out the others.
        scores, ratings: of the points that count, shape (n_points,), as `levels.correlate_at_level` takes them.
        reason: the reason why no coefficient of them has a value; None where they have one.
    """

    item_keys: pd.DataFrame
    item_clusters: pd.Series
    points: pd.DataFrame
    is_counted: Mask
    scores: Floats
    ratings: Floats
    reason: Remark | None

    @property
    def item_ids(self) -> pd.Series:
        """The item of each point that counts."""
        return self.points["item_id"][self.is_counted]

    @cached_property
    def n_items(self) -> int:
        """The number of items with a point that counts."""
        return self.item_ids.nunique()

    @property
    def n_dropped(self) -> int:
        """The number of points that are left out."""
        return int((~self.is_counted).sum())

    @cached_property
    def keys(self) -> pd.DataFrame:
        """Columns `image_id` and `system` of the points that count, indexed by item id."""
        return self.item_keys.iloc[find_places(self.item_keys.index, self.item_ids)]

    @cached_property
    def image(self) -> Ints:
        """The number of the image of each point that counts, shape (n_points,).

        Images are numbered among all points, so that metrics with other gaps are resampled alike.
        """
        places = find_places(self.item_clusters.index, self.points["item_id"])
        image_numbers, _ = number_images(self.item_clusters.iloc[places])
        return image_numbers[self.is_counted]

    @cached_property
    def pooled(self) -> RatedPoints:
        """The points that count, regardless of image and system; all pooled coefficients share their ranks and pairs."""
        return RatedPoints.unweighted(self.scores, self.ratings)

    def correlate(self, protocol: Protocol, coefficient: str) -> CoefficientValue:
        """Return a coefficient at the protocol's level."""
        if protocol.level == "pooled":
            return correlate_points(self.pooled, coefficient)
        return correlate_at_level(protocol.level, self.scores, self.ratings, self.keys, coefficient)


def find_places(index: pd.Index, item_ids: pd.Series) -> Ints:
    """Return the place of each item in an index; pandas' `loc` would make Arrow texts of the ids first.

    Raises:
        KeyError: where an item is not in the index.
    """
    places = index.get_indexer(pd.Index(item_ids))
    if (places < 0).any():
        raise KeyError(f"no such items: {item_ids[places < 0].tolist()}")

    return places
