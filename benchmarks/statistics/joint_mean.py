"""The mean of coefficients on several datasets that share images, as the tests of `significance` take it.

    panel = JointPanel.join([JointPart(panel_a, ("overall", "tau_c"), names_a), …], metrics)
    panel.statistic("cider", panel.comparable_points("cider"))

A point is an image: its weight is drawn once, wherever it stands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pandas as pd

from .coefficients.coefficient import find_coefficient
from .panels import Panel
from .weighted_pairs import Floats, Ints, Mask, Statistic

Number = TypeVar("Number", float, Floats)

#: Dimension of the joint rows, and the coefficient whose range, intervals and tests the mean shares.
JOINT_KEY = ("mean", "tau_c")


def rescale(values: Number, coefficient: str) -> Number:
    """Return a coefficient on the scale of the mean: at most 1, and 0 of scores that say nothing.

    Args:
        values: of the coefficient.
        coefficient: the name of one that has a value of scores that say nothing.
    """
    chance = find_coefficient(coefficient).chance
    assert chance is not None  # no others are in a mean
    return (values - chance) / (1 - chance)


@dataclass(frozen=True)
class JointPart:
    """A dataset's part in the mean.

    Attributes:
        panel: its metrics and judgements.
        key: the dimension and coefficient of the panel's that count.
        image_names: the image of each point, shape (n_points,); equal names are one image in all datasets.
    """

    panel: Panel
    key: tuple[str, str]
    image_names: Sequence[str]

    def prepare(
        self, metrics: Sequence[str], units: Sequence[Ints], image_of_point: Ints
    ) -> Statistic:
        """Return the coefficients of metrics end to end, on one scale: -1 to 1, where 0 says nothing."""
        mask = self.panel.comparable_points(*metrics)
        if mask is None:
            return lambda weights: np.full((len(metrics), weights.shape[1]), np.nan)

        images = image_of_point[mask]
        statistic = self.panel.prepare(metrics, mask, [unit[images] for unit in units])
        row = self.panel.keys.index(self.key)
        coefficient = self.key[1]
        return lambda weights: rescale(statistic(weights)[[row]], coefficient)


@dataclass(frozen=True)
class JointPanel(Panel):
    """Metrics and people on several datasets at once; a point is an image.

    Attributes:
        parts: the datasets, with the number of each of their points' image.
        joint_metrics: the metrics that all of them have.
    """

    parts: tuple[tuple[JointPart, Ints], ...]
    joint_metrics: tuple[str, ...]

    @classmethod
    def join(cls, parts: Sequence[JointPart], metrics: Sequence[str]) -> JointPanel:
        """Join datasets, and number their images.

        Args:
            parts: the datasets; the coefficients have a value of scores that say nothing.
            metrics: those that all of them have.
        """
        names = np.concatenate([np.asarray(part.image_names, dtype=object) for part in parts])
        numbers, images = pd.factorize(names)
        ends = np.cumsum([len(part.image_names) for part in parts])[:-1]
        numbered = zip(parts, np.split(numbers.astype(np.int64), ends), strict=True)

        # Each image is a point, and an item, of its own.
        everything = np.arange(len(images), dtype=np.int64)
        return cls(
            image=everything,
            n_images=len(images),
            item=everything,
            parts=tuple(numbered),
            joint_metrics=tuple(metrics),
        )

    @property
    def metrics(self) -> tuple[str, ...]:
        return self.joint_metrics

    @property
    def keys(self) -> list[tuple[str, str]]:
        return [JOINT_KEY]

    @property
    def has_smooth_values(self) -> list[bool]:
        # Of few datasets the mean jumps as soon as one of its coefficients does.
        is_smooth = True
        for part, _ in self.parts:
            is_smooth = is_smooth and find_coefficient(part.key[1]).is_smooth
        return [is_smooth]

    def defined_points(self, metric: str) -> Mask:
        return np.ones(self.n_images, dtype=bool)

    def prepare(self, metrics: Sequence[str], mask: Mask, units: Sequence[Ints]) -> Statistic:
        """Return the mean of one metric; `mask` has all images, and `units` numbers them."""
        statistics = [part.prepare(metrics, units, images) for part, images in self.parts]
        return lambda weights: np.mean([statistic(weights) for statistic in statistics], axis=0)

    def standardise(self, a: str, b: str, mask: Mask) -> None:
        return None  # a mean of coefficients has no scores to swap


def find_common_metrics(
    values_by_dataset: Mapping[str, Mapping[str, float]],
) -> tuple[list[str], list[str]]:
    """Return the datasets on which every metric has a value, and these metrics.

    A metric that has a value nowhere does not count.

    Args:
        values_by_dataset: by dataset and metric; NaN where there is none.
    """
    metrics_by_dataset: dict[str, list[str]] = {}
    metrics: list[str] = []
    for dataset, values in values_by_dataset.items():
        defined: list[str] = []
        for metric, value in values.items():
            if np.isnan(value):
                continue
            defined.append(metric)
            if metric not in metrics:
                metrics.append(metric)
        metrics_by_dataset[dataset] = defined

    datasets: list[str] = []
    for dataset, defined in metrics_by_dataset.items():
        if set(defined) == set(metrics):
            datasets.append(dataset)

    return datasets, metrics
