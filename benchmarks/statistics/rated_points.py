"""Data points, and weighted samples of them, of which coefficients share the ranks and the counts of pairs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .weighted_pairs import Floats, Ints, RankedPairs, WeightedPairs


@dataclass(frozen=True)
class RatedPoints:
    """Data points, prepared once for many weighted samples.

    Attributes:
        scores, ratings: shape (n_points,), without NaN.
        unit: the unit whose weight each point takes, from 0, shape (n_points,).
    """

    scores: Floats
    ratings: Floats
    unit: Ints

    @classmethod
    def unweighted(cls, scores: Floats, ratings: Floats) -> RatedPoints:
        """Return points that all belong to one unit."""
        return cls(scores, ratings, np.zeros(len(scores), dtype=np.int64))

    @cached_property
    def ranked(self) -> RankedPairs:
        """The points in order."""
        return RankedPairs(self.scores, self.ratings, self.unit)

    @property
    def is_finite(self) -> bool:
        """Say whether no value is infinite."""
        return bool(np.isfinite(self.scores).all() and np.isfinite(self.ratings).all())

    def weigh(self, weights: Floats) -> WeightedPoints:
        """Return weighted samples; weights have shape (n_units, n_replicates)."""
        return WeightedPoints(self, weights)

    @cached_property
    def sample(self) -> WeightedPoints:
        """The points themselves, as the one sample in which each stands once."""
        return self.weigh(np.ones((int(self.unit.max(initial=-1)) + 1, 1)))


@dataclass(frozen=True)
class WeightedPoints:
    """Weighted samples of data points, which coefficients share; each has what it stands for counted once."""

    points: RatedPoints
    weights: Floats

    @cached_property
    def pairs(self) -> WeightedPairs:
        """The numbers of pairs by their order."""
        return self.points.ranked.pairs(self.weights)

    @property
    def undefined(self) -> Floats:
        """NaN for each sample, shape (n_replicates,)."""
        return np.full(self.weights.shape[1], np.nan)


@dataclass(frozen=True)
class SystemMeans:
    """Systems' mean scores `x` and mean ratings `y` in weighted samples, shape (n_systems, n_replicates)."""

    x: Floats
    y: Floats

    @cached_property
    def pairs(self) -> WeightedPairs:
        """The numbers of pairs of systems by their order."""
        # Systems are few: all their pairs are laid out at once.
        i, j = np.triu_indices(len(self.x), 1)
        dx = np.sign(self.x[i] - self.x[j])
        dy = np.sign(self.y[i] - self.y[j])

        return WeightedPairs(
            n=np.full(self.x.shape[1], float(len(self.x))),
            surplus=(dx * dy).sum(axis=0),
            tied_x=(dx == 0).sum(axis=0).astype(float),
            tied_y=(dy == 0).sum(axis=0).astype(float),
            tied_both=((dx == 0) & (dy == 0)).sum(axis=0).astype(float),
            levels_x=_count_levels(self.x),
            levels_y=_count_levels(self.y),
        )


def _count_levels(values: Floats) -> Floats:
    """Count the different values of each column."""
    return (np.diff(np.sort(values, axis=0), axis=0) > 0).sum(axis=0) + 1.0
