"""A dataset as a protocol selects it: its items, and what people said of them.

`EvaluationSet.select` is where every command that correlates begins; `measured_dataset` and `prepared_datasets` build on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from ...datasets.caption_texts import OwnReferences, leave_out_of_pairs
from ...datasets.errors import Lack, LackingError
from ...datasets.schema import CaptionSet, cluster_of
from ...metrics.base import Floats
from ..scoring.protocol import Protocol
from ..statistics.coefficients.coefficient import (
    Coefficient,
    RatingCoefficient,
    find_coefficient,
    undefined_reason,
)
from ..statistics.coefficients.detection import DetectionCoefficient
from ..statistics.preferences import PairOutcomes
from .data_points import DataPoints, find_places
from .judged_pairs import JudgedPairs

#: Coefficients that results on ratings always hold, whichever the protocol prints, ranks and tests.
QUOTED_COEFFICIENTS = ("tau_c", "tau_b", "spearman", "pearson")


@dataclass(frozen=True)
class EvaluationSet:
    """The items of a dataset that a protocol selects.

    Attributes:
        caption_set: the dataset.
        protocol: as it applies to this dataset, each dimension named.
        items: as `Protocol.select_items` returns them.
        pair_dimensions: the dimensions of preferences that count; empty for all.
        derived_points: data points of dimensions that are computed from the rated ones, as `points` returns them.
    """

    caption_set: CaptionSet
    protocol: Protocol
    items: pd.DataFrame
    pair_dimensions: tuple[str, ...] = ()
    derived_points: Mapping[str, pd.DataFrame] = field(default_factory=dict[str, pd.DataFrame])

    @classmethod
    def select(cls, caption_set: CaptionSet, protocol: Protocol) -> EvaluationSet:
        """Select the items of a dataset that count under a protocol.

        Raises:
            InputError: on an unknown system, split or dimension, or where no item is left.
        """
        pair_dimensions = protocol.pair_dimensions(caption_set)
        protocol = protocol.for_dataset(caption_set)
        if protocol.level == "by_image" and "cluster" in caption_set.items.columns:
            problem = (
                "protocol.level=by_image does not go with clusters; leave out the column of clusters, or set "
                "another level"
            )
            raise LackingError(Lack.VARIATION, problem, caption_set.name)

        return cls(caption_set, protocol, protocol.select_items(caption_set), pair_dimensions)

    @property
    def name(self) -> str:
        """The dataset's name."""
        return self.caption_set.name

    def dimension_sources(self, dimensions: Iterable[str]) -> dict[str, str]:
        """Return, by dimension, the one whose ratings people gave.

        A dimension that is made of the ratings of another has none of its own: people agree on that other one.
        """
        sources: dict[str, str] = {}
        for dimension in dimensions:
            source = self.caption_set.card.summaries.get(dimension, dimension)
            is_there = source in self.caption_set.dimensions
            sources[dimension] = source if is_there else dimension
        return sources

    def row_names(self, dimension: str) -> dict[str, str]:
        """Return the cells that tell a dimension's rows from those of others in results."""
        return {"dataset": self.name, "protocol": self.protocol.name, "dimension": dimension}

    def in_order(self, scores: Sequence[Floats] = ()) -> EvaluationSet:
        """Return the set with its items in an order of their texts, judgements and scores.

        Whoever draws at random takes the rows of this set, so that neither the order of a file's rows nor the names
        of items, images and raters, nor the scale of ratings, moves an interval or a p-value.

        Args:
            scores: of each metric, shape (n_items,).
        """
        # NaN has no place in an order; an undefined score counts as the lowest.
        columns = [np.nan_to_num(column, nan=-np.inf).tolist() for column in scores]
        judgements = self._judgements_of_items()

        items = self.items
        rows = zip(
            items["item_id"], items["caption"], items["references"], items["system"], strict=True
        )
        keys: list[tuple[Any, ...]] = []
        for place, (item_id, caption, references, system) in enumerate(rows):
            item_judgements = sorted(judgements.get(item_id, []))
            item_scores = [column[place] for column in columns]
            keys.append((caption, references, item_judgements, item_scores, str(system)))

        return replace(self, items=order_by_content(self.items, keys))

    def _judgements_of_items(self) -> dict[str, list[tuple[float, str]]]:
        """Return, by item id, the rank of each rating, and of each preference with the other caption."""
        judgements: dict[str, list[tuple[float, str]]] = {}
        ranks = self.ratings.groupby("dimension")["value"].rank(method="dense")
        for item_id, rank in zip(self.ratings["item_id"], ranks, strict=True):
            judgements.setdefault(item_id, []).append((rank, ""))

        caption_of = dict(zip(self.items["item_id"], self.items["caption"], strict=True))
        item_a = self.preferences["item_a"]
        item_b = self.preferences["item_b"]
        strengths = self.preferences["strength"].astype(np.float64)
        # Ranks of the strengths' sizes: the sign says which caption was preferred.
        signed_ranks = np.sign(strengths) * strengths.abs().rank(method="dense")
        for a, b, rank in zip(item_a, item_b, signed_ranks, strict=True):
            judgements.setdefault(a, []).append((rank, caption_of[b]))
            judgements.setdefault(b, []).append((-rank, caption_of[a]))

        return judgements

    @cached_property
    def _coefficients(self) -> list[Coefficient]:
        """The protocol's coefficients."""
        return [find_coefficient(name) for name in self.protocol.coefficients]

    @property
    def rating_coefficients(self) -> list[str]:
        """The names of the protocol's coefficients, but for those of preferences."""
        return [c.name for c in self._coefficients if not c.is_of_preferences]

    @property
    def measured_coefficients(self) -> tuple[str, ...]:
        """The names of the coefficients of ratings that results hold: the protocol's, and those that every paper quotes."""
        coefficients = self.rating_coefficients
        if not coefficients:
            return ()

        return tuple(dict.fromkeys([*coefficients, *QUOTED_COEFFICIENTS]))

    @property
    def detection_coefficients(self) -> list[str]:
        """The names of the protocol's coefficients of detection."""
        return [c.name for c in self._coefficients if isinstance(c, DetectionCoefficient)]

    @property
    def preference_coefficients(self) -> tuple[str, ...]:
        """The names of the protocol's coefficients of preferences."""
        return tuple(c.name for c in self._coefficients if c.is_of_preferences)

    @property
    def graded_coefficients(self) -> list[str]:
        """The names of the protocol's coefficients that graded preferences have, beside the accuracy."""
        names: list[str] = []
        for coefficient in self._coefficients:
            # The strength of a preference has a sign, and so has the difference of two scores.
            if isinstance(coefficient, RatingCoefficient) and coefficient.is_signed:
                names.append(coefficient.name)
        return names

    @property
    def uses_preferences(self) -> bool:
        """Tell whether the protocol asks for a coefficient of preferences, such as the accuracy."""
        return bool(self.preference_coefficients)

    @cached_property
    def keys(self) -> pd.DataFrame:
        """Columns `image_id` and `system`, indexed by item id."""
        return self.items.set_index("item_id")[["image_id", "system"]]

    @cached_property
    def clusters(self) -> pd.Series:
        """The cluster or image of each item, which intervals resample, by item id."""
        return cluster_of(self.items.set_index("item_id"))

    @cached_property
    def candidate_rows(self) -> pd.DataFrame:
        """The items of the protocol's systems and split, those that `own_references` leaves out included."""
        return self.protocol.select_rows(self.caption_set)

    @cached_property
    def copies(self) -> OwnReferences:
        """Marks of the `candidate_rows` whose caption is one of its image's references."""
        return self.protocol.find_own_references(self.caption_set, self.candidate_rows)

    @cached_property
    def ratings(self) -> pd.DataFrame:
        """The ratings of the selected items, as the protocol's choices have them."""
        ratings = self.protocol.change_ratings(self.caption_set).ratings
        return ratings[ratings["item_id"].isin(self.items["item_id"])]

    @cached_property
    def preferences(self) -> pd.DataFrame:
        """The preferences between two selected items, on the dimensions that count."""
        preferences = self.protocol.select_pairs(self.caption_set)
        if self.pair_dimensions:
            preferences = preferences[preferences["dimension"].isin(self.pair_dimensions)]

        # A pair counts where both of its captions do.
        are_selected = preferences[["item_a", "item_b"]].isin(set(self.items["item_id"]))
        return preferences[are_selected.all(axis=1)]

    @cached_property
    def n_pairs_without_references(self) -> int:
        """The number of pairs that are left out as they have no reference beside their own captions."""
        if self.protocol.own_references != "leave_out_pair":
            return 0

        preferences = self.caption_set.preferences
        candidates = set(self.candidate_rows["item_id"])
        are_candidates = preferences[["item_a", "item_b"]].isin(candidates).all(axis=1)
        is_without = leave_out_of_pairs(self.caption_set.items, preferences).is_pair_without
        is_left_out = are_candidates & is_without

        return preferences.loc[is_left_out, "pair_id"].nunique()

    @cached_property
    def n_images(self) -> int:
        """The number of images (or clusters) with a data point or a comparison, on the dimension that has most of them."""
        dimensions = self.protocol.dimension if self.rating_coefficients else ()
        # Dimensions may be rated on unlike images.
        counts = [self.image_of(self.points(dimension)).nunique() for dimension in dimensions]
        if self.uses_preferences:
            counts.append(self.judged_pairs.n_images)

        return max(counts, default=0)

    @property
    def has_words(self) -> bool:
        """Tell whether words of the selected items are marked, and count: they do in a pooled detection."""
        is_detection = bool(self.detection_coefficients) and self.protocol.level == "pooled"
        return is_detection and not self.words.empty

    @cached_property
    def words(self) -> pd.DataFrame:
        """The words that people marked in the selected items, on the protocol's dimensions."""
        words = self.caption_set.words
        is_selected = words["item_id"].isin(self.items["item_id"])
        return words[is_selected & words["dimension"].isin(self.protocol.dimension)]

    @cached_property
    def judged_pairs(self) -> JudgedPairs:
        """The comparisons that count."""
        protocol = self.protocol
        return JudgedPairs.select(self.preferences, protocol.ratings, protocol.ties, self.clusters)

    @cached_property
    def order_is_source(self) -> bool:
        """Tell whether the order of a pair says whose captions they are, so that it is no floor to compare with.

        It is so where no system's captions stand in both places, or people always prefer the same place.
        """
        frame = self.preferences
        first_systems = set(self.keys.loc[frame["item_a"], "system"].dropna())
        second_systems = set(self.keys.loc[frame["item_b"], "system"].dropna())
        has_systems = bool(first_systems) and bool(second_systems)
        if has_systems and not first_systems & second_systems:
            return True

        strengths = frame["strength"]
        prefers_first = strengths[strengths != 0] > 0
        return prefers_first.nunique() == 1

    @cached_property
    def all_pairs(self) -> JudgedPairs:
        """The comparisons, those included that people tie, whatever `protocol.ties` says."""
        # Of the rules for ties this one alone leaves none out.
        return replace(self, protocol=replace(self.protocol, ties="calibrated")).judged_pairs

    @cached_property
    def pair_ceilings(self) -> dict[str, PairOutcomes]:
        """The ceilings of people on preferences; empty if pairs have one answer, or answers are combined."""
        if self.protocol.ratings != "per_rating" or not self.uses_preferences:
            return {}
        if self.judged_pairs.frame.empty:
            return {}

        return self.judged_pairs.ceilings(self.all_pairs)

    def points(self, dimension: str) -> pd.DataFrame:
        """Return the data points of a dimension: columns `item_id, value`, by the items' order and their values.

        Where the card says that the dimension is of faults, they count negative, so that more is better.
        """
        if dimension in self.derived_points:
            return self.derived_points[dimension]

        if dimension not in self._points:
            self._points[dimension] = self._select_points(dimension)
        # A shallow copy, so that a column that a caller adds stays the caller's.
        return self._points[dimension].copy(deep=False)

    @cached_property
    def _points(self) -> dict[str, pd.DataFrame]:
        """The data points of the dimensions that were asked for: every metric asks for them."""
        return {}

    def _select_points(self, dimension: str) -> pd.DataFrame:
        points = self.protocol.data_points_of(self.ratings, self.items, dimension)
        item_index = pd.Index(self.items["item_id"])
        item_places = item_index.get_indexer(pd.Index(points["item_id"]))
        # Several ratings of an item in the order of their values, not of their raters' names.
        order = np.lexsort((points["value"], item_places))
        points = points.iloc[order].reset_index(drop=True)

        if dimension in self.caption_set.card.faults:
            # 0.0 - x, since -x would make a -0.0 of 0.
            points = points.assign(value=0.0 - points["value"])

        return points

    def image_of(self, points: pd.DataFrame) -> pd.Series:
        """Return the image of each data point, or its cluster where the dataset has clusters."""
        return self.clusters.iloc[find_places(self.clusters.index, points["item_id"])]

    def data_points(self, scores: pd.Series, points: pd.DataFrame) -> DataPoints:
        """Join scores to data points; `protocol.undefined=drop` leaves out points without a score.

        Args:
            scores: by item id.
            points: as `points` returns them.
        """
        score_places = find_places(scores.index, points["item_id"])
        point_scores = scores.to_numpy(dtype=np.float64)[score_places]
        is_gap = np.zeros(len(points), dtype=bool)
        if self.protocol.undefined == "drop":
            is_gap = np.isnan(point_scores)

        counted_scores = point_scores[~is_gap]
        ratings = points["value"].to_numpy(dtype=np.float64)[~is_gap]
        return DataPoints(
            item_keys=self.keys,
            item_clusters=self.clusters,
            points=points,
            is_counted=~is_gap,
            scores=counted_scores,
            ratings=ratings,
            reason=undefined_reason(counted_scores, ratings),
        )

    def with_items(self, items: pd.DataFrame) -> EvaluationSet:
        """Return the same dataset and protocol with other items, such as fewer references."""
        return replace(self, items=items)

    def with_dimension(self, dimension: str, points: pd.DataFrame) -> EvaluationSet:
        """Return the same items with a further dimension, whose data points are given: columns `item_id, value`."""
        dimensions = tuple(dict.fromkeys((*self.protocol.dimension, dimension)))
        return replace(
            self,
            protocol=replace(self.protocol, dimension=dimensions),
            derived_points={**self.derived_points, dimension: points},
        )

    def require_coefficients(self) -> None:
        """Check that the dataset has one of the protocol's coefficients.

        Raises:
            LackingError: where it has none, or no dimension counts.
        """
        has_graded = bool(self.graded_coefficients) and bool(self.all_pairs.graded_dimensions)
        has_ratings = bool(self.protocol.dimension) and bool(self.rating_coefficients)
        if not (has_ratings or self.uses_preferences or has_graded):
            # All coefficients are of ratings here, and no dimension counts: it raises.
            self.require_ratings(
                "it has preferences and no ratings; add accuracy to protocol.coefficients"
            )

    def require_ratings(self, preferences_remedy: str) -> None:
        """Check that a rated dimension counts.

        Args:
            preferences_remedy: the message where the dataset has preferences alone.

        Raises:
            LackingError: where none does.
        """
        if self.protocol.dimension:
            return

        message = preferences_remedy
        if dimensions := self.caption_set.dimensions:
            message = f"protocol.dimension is empty; name at least one of {','.join(dimensions)}"

        raise self.lacking(Lack.JUDGEMENTS, message)

    def lacking(self, lack: Lack, message: str) -> LackingError:
        """Return the error for what the dataset lacks; its message begins with the dataset's name."""
        return LackingError(lack, message, self.name)


def order_by_content(items: pd.DataFrame, contents: Sequence[tuple[Any, ...]]) -> pd.DataFrame:
    """Order the items of each image by their contents, and the images by those of their items.

    Args:
        items: with the column `image_id`.
        contents: of each item, what its place depends on.
    """
    contents_of_image: dict[str, list[Any]] = {}
    for image_id, content in zip(items["image_id"], contents, strict=True):
        contents_of_image.setdefault(image_id, []).append(content)

    for image_contents in contents_of_image.values():
        image_contents.sort()

    keys: list[tuple[list[Any], Any]] = []
    for image_id, content in zip(items["image_id"], contents, strict=True):
        keys.append((contents_of_image[image_id], content))

    order = sorted(range(len(items)), key=keys.__getitem__)
    return items.iloc[order].reset_index(drop=True)
