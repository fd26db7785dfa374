"""Panels: metrics and people's judgements on the same data points, as the tests of `significance` take them.

`evaluation` makes them of a dataset's ratings with `make_rating_panel` and of its preferences with
`judged_pairs.JudgedPairs`; to compare by another statistic, subclass `Panel` as `scoring.corpus_scores` does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from ...datasets.schema import cluster_of
from .bootstrap import MIN_IMAGES, number_images
from .coefficients.coefficient import Coefficient, PreferenceCoefficient, find_coefficient
from .levels import prepare_at_level
from .remarks import Undefined
from .weighted_pairs import Floats, Ints, Mask, Statistic


@dataclass(frozen=True, kw_only=True)
class Panel(ABC):
    """Metrics and people on the same data points.

    Attributes:
        image: each point's image, from 0, shape (n_points,).
        n_images: the number of images.
        item: each point's item, from 0, shape (n_points,).
        system: each point's system, from 0, shape (n_points,); None where it has none.
        drops_undefined: whether a point on which a metric is undefined is left out; else the metric's
            coefficients are undefined.
    """

    image: Ints
    n_images: int
    item: Ints
    system: Ints | None = None
    drops_undefined: bool = False

    @property
    @abstractmethod
    def metrics(self) -> tuple[str, ...]:
        """The metrics that have scores."""

    @property
    @abstractmethod
    def keys(self) -> list[tuple[str, str]]:
        """Dimension and coefficient of each value of a statistic."""

    def find_coefficient(self, name: str) -> Coefficient | None:
        """Return the coefficient of a key; None where its statistic is another one."""
        return find_coefficient(name)

    def with_unranked(self) -> Panel:
        """Return the panel with all coefficients that get intervals, those first that metrics are compared by."""
        return self

    @property
    def min_images(self) -> list[int]:
        """The number of images from which on the interval of each value of a statistic is reliable."""
        min_images: list[int] = []
        for _, name in self.keys:
            coefficient = self.find_coefficient(name)
            min_images.append(MIN_IMAGES if coefficient is None else coefficient.min_images)
        return min_images

    @property
    def has_smooth_values(self) -> list[bool]:
        """Say of each value of a statistic whether Student's t gives the p-value of a difference of it."""
        has_smooth: list[bool] = []
        for _, name in self.keys:
            coefficient = self.find_coefficient(name)
            has_smooth.append(coefficient is None or coefficient.is_smooth)
        return has_smooth

    @property
    def undefined_value(self) -> Undefined:
        """The reason why two metrics with an undefined value have no difference."""
        return Undefined.UNDEFINED_COEFFICIENT

    @abstractmethod
    def defined_points(self, metric: str) -> Mask:
        """Return on which points a metric is defined, shape (n_points,)."""

    @abstractmethod
    def prepare(self, metrics: Sequence[str], mask: Mask, units: Sequence[Ints]) -> Statistic:
        """Return the coefficients of metrics end to end, each on the masked points with units of its own."""

    @abstractmethod
    def standardise(self, a: str, b: str, mask: Mask) -> Panel | None:
        """Return the panel with both metrics on one scale; None where an infinite score has none."""

    def comparable_points(self, *metrics: str) -> Mask | None:
        """Return the points to compare metrics on; None where a gap makes a metric undefined."""
        mask = np.logical_and.reduce([self.defined_points(metric) for metric in metrics])
        return mask if self.drops_undefined or mask.all() else None

    def statistic(self, metric: str, mask: Mask) -> Statistic:
        """Return a metric's coefficients as a function of the images' weights."""
        return self.prepare([metric], mask, [self.image[mask]])

    def prepare_swaps(self, a: str, b: str, mask: Mask, cell: Ints) -> Statistic:
        """Return the coefficients of scores taken from two metrics.

        Args:
            a, b: the metrics.
            mask: the points to compare them on.
            cell: the group of points that each point swaps with, shape (n_masked,). The statistic's
                weights have two rows a cell: of `a`'s scores and of `b`'s.
        """
        return self.prepare([a, b], mask, [2 * cell, 2 * cell + 1])


@dataclass(frozen=True)
class RatingPanel(Panel):
    """Metrics and ratings.

    Attributes:
        dimension: the rated dimension.
        coefficients: the coefficients that metrics are compared by.
        unranked: further coefficients, which get intervals, and neither ranks nor tests.
        scores: of each metric, more is better, shape (n_points,).
        ratings: shape (n_points,).
        level: the coefficients' level, see `levels`.
    """

    dimension: str
    coefficients: tuple[str, ...]
    scores: Mapping[str, Floats]
    ratings: Floats
    level: str = "pooled"
    unranked: tuple[str, ...] = ()

    @property
    def metrics(self) -> tuple[str, ...]:
        return tuple(self.scores)

    @property
    def keys(self) -> list[tuple[str, str]]:
        return [(self.dimension, coefficient) for coefficient in self.coefficients]

    def with_unranked(self) -> RatingPanel:
        return replace(self, coefficients=(*self.coefficients, *self.unranked), unranked=())

    @property
    def image_of_item(self) -> Ints:
        """Each item's image, shape (last rated item + 1,); -1 where an item has no point."""
        images = np.full(int(self.item.max(initial=-1)) + 1, -1, dtype=np.int64)
        images[self.item] = self.image
        return images

    def defined_points(self, metric: str) -> Mask:
        return ~(np.isnan(self.scores[metric]) | np.isnan(self.ratings))

    def prepare(self, metrics: Sequence[str], mask: Mask, units: Sequence[Ints]) -> Statistic:
        systems = np.zeros(len(mask)) if self.system is None else self.system
        keys = pd.DataFrame({"image_id": self.image[mask], "system": systems[mask]})

        # The points of one metric after those of another, each with weights of its own.
        scores = [self.scores[metric][mask] for metric in metrics]
        return prepare_at_level(
            self.level,
            scores=np.concatenate(scores),
            ratings=np.tile(self.ratings[mask], len(metrics)),
            keys=pd.concat([keys] * len(metrics), ignore_index=True),
            coefficients=self.coefficients,
            unit=np.concatenate(units),
        )

    def standardise(self, a: str, b: str, mask: Mask) -> RatingPanel | None:
        standardised: dict[str, Floats] = {}
        for metric in (a, b):
            scores = self.scores[metric]
            if np.isinf(scores[mask]).any():
                return None
            spread = scores[mask].std()
            if not spread > 0:
                spread = 1.0  # constant scores stay constant
            standardised[metric] = (scores - scores[mask].mean()) / spread

        return replace(self, scores=standardised)


@dataclass(frozen=True)
class PreferencePanel(Panel):
    """Metrics and preferences; a point is a pair of captions.

    Attributes:
        dimensions: their names.
        dimension: each pair's, from 0, shape (n_points,).
        outcomes: each metric's outcome of each pair, right 1, wrong 0, tied 1/2, shape (n_points,).
        counted: whether a pair counts for a metric's accuracy, shape (n_points,).
        captions: the number of each point's pair of captions, which several raters may judge, shape (n_points,).
        mean_dimension: the name of the mean of the dimensions.
        coefficients: the names of the coefficients to compute.
    """

    dimensions: tuple[str, ...]
    dimension: Ints
    outcomes: Mapping[str, Floats]
    counted: Mapping[str, Mask]
    captions: Ints
    mean_dimension: str
    coefficients: tuple[str, ...] = ("accuracy",)

    @property
    def metrics(self) -> tuple[str, ...]:
        return tuple(self.outcomes)

    @property
    def keys(self) -> list[tuple[str, str]]:
        dimensions = (*self.dimensions, self.mean_dimension)
        keys: list[tuple[str, str]] = []
        for coefficient in self.coefficients:
            keys += [(dimension, coefficient) for dimension in dimensions]
        return keys

    def defined_points(self, metric: str) -> Mask:
        return ~np.isnan(self.outcomes[metric])

    def prepare(self, metrics: Sequence[str], mask: Mask, units: Sequence[Ints]) -> Statistic:
        outcomes = np.concatenate([self.outcomes[metric][mask] for metric in metrics])
        is_counted = np.concatenate([self.counted[metric][mask] for metric in metrics])

        statistics: list[Statistic] = []
        for name in self.coefficients:
            coefficient = find_coefficient(name)
            if isinstance(coefficient, PreferenceCoefficient):
                statistic = coefficient.prepare(
                    outcomes,
                    dimension=np.tile(self.dimension[mask], len(metrics)),
                    unit=np.concatenate(units),
                    n_dimensions=len(self.dimensions),
                    is_counted=is_counted,
                )
                statistics.append(statistic)

        return lambda weights: np.vstack([statistic(weights) for statistic in statistics])

    def standardise(self, a: str, b: str, mask: Mask) -> PreferencePanel | None:
        return self  # outcomes have one scale


def make_rating_panel(
    items: pd.DataFrame,
    points: pd.DataFrame,
    scores: Mapping[str, Floats],
    dimension: str,
    coefficients: Iterable[str],
    *,
    drop: bool,
    level: str = "pooled",
) -> RatingPanel:
    """Make a panel of a dimension's data points.

    Args:
        items: the benchmark's, with `item_id, image_id, system`.
        points: columns `item_id, value`.
        scores: of each metric, more is better, shape (n_items,).
        dimension, coefficients, level: see `RatingPanel`.
        drop: see `Panel.drops_undefined`.
    """
    item = pd.Index(items["item_id"]).get_indexer(pd.Index(points["item_id"])).astype(np.int64)
    image, n_images = number_images(cluster_of(items).iloc[item])

    # Captions without a system's name are those of one more.
    systems = items["system"].iloc[item].astype(object)
    system, names = pd.factorize(systems, use_na_sentinel=False)

    return RatingPanel(
        image=image,
        n_images=n_images,
        item=item,
        system=system.astype(np.int64) if len(names) > 1 else None,
        drops_undefined=drop,
        dimension=dimension,
        coefficients=tuple(coefficients),
        scores={metric: values[item] for metric, values in scores.items()},
        ratings=points["value"].to_numpy(dtype=np.float64),
        level=level,
    )
