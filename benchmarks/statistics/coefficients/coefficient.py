"""The kinds of coefficients, what each kind is computed from, and the registry of them.

A class of a kind says all about its coefficient: how tables, citations and help name it, how it is computed, for a
sample and for many weighted ones at once, and which tests and levels it has. `kendall.py` is a short example.
A module of this folder, or of a package that the entry-point group `captau.coefficients` names, puts `@register` over
its class.

- `RatingCoefficient`: scores and ratings of data points; `PairCoefficient`: of their pairs' order alone;
- `SystemCoefficient`: scores and ratings of systems' captions, and whose captions they are;
- `PreferenceCoefficient`: a metric's outcomes of the pairs of captions that people judged.
"""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Self, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ....datasets.errors import unknown
from ....datasets.plugins import import_plugins
from ..preferences import MEAN_DIMENSION, PairOutcomes
from ..rated_points import RatedPoints, SystemMeans, WeightedPoints
from ..remarks import Note, Remark, Remarked, Undefined, remark
from ..weighted_pairs import Floats, Ints, Statistic, WeightedPairs

#: The tests of the difference of two metrics that every coefficient has; see `significance`.
RESAMPLING_TESTS = ("bootstrap", "permutation")


@dataclass(frozen=True)
class CoefficientValue(Remarked):
    """A coefficient in its natural range, with its two-sided p-value; both are NaN where undefined."""

    value: float
    p_value: float = float("nan")

    @classmethod
    def undefined(cls, *remarks: Remark) -> Self:
        """Return NaN; the first remark is the reason."""
        return cls(float("nan"), remarks=remarks)

    @property
    def is_defined(self) -> bool:
        """Say whether there is a value."""
        return not np.isnan(self.value)


def undefined_reason(scores: Floats, ratings: Floats) -> Remark | None:
    """Return why no coefficient of these points has a value; None where they have one."""
    n_points = len(scores)
    if n_points < 2:
        return remark(Undefined.TOO_FEW_POINTS, n_points=n_points)

    n_undefined = int(np.isnan(scores).sum())
    if n_undefined:
        return remark(Undefined.UNDEFINED_SCORES, n_undefined=n_undefined, n_points=n_points)
    n_undefined = int(np.isnan(ratings).sum())
    if n_undefined:
        return remark(Undefined.UNDEFINED_RATINGS, n_undefined=n_undefined, n_points=n_points)

    # Compared with the first, since the range of infinite values is NaN.
    if (scores == scores[0]).all():
        return remark(Undefined.CONSTANT_SCORES)
    if (ratings == ratings[0]).all():
        return remark(Undefined.CONSTANT_RATINGS)
    return None


def threshold_note(threshold: float) -> Remark:
    """Say which scores count as tied, for coefficients that tie them up to a threshold."""
    if threshold:
        return remark(Note.TIED_WITHIN, threshold=threshold)
    return remark(Note.TIED_IF_EQUAL)


class Coefficient(ABC):
    """Base of the kinds: what tables, citations, help and tests ask of any coefficient.

    Attributes:
        name: in options, files and tables' columns.
        order: its place among the coefficients, as the field prints them.
        symbol, latex: the head of its column, in plain text and in LaTeX.
        words: its name in a sentence, in LaTeX.
        source: who defined it; empty where nobody in particular did.
        bounds: its least and greatest value.
        chance: the value of scores that say nothing; None where it depends on the data, or there are no samples.
        scale, decimals: how tables print it.
        tests: the tests of the difference of two metrics that it has; ranks rest on the first.
        permutation_reason: the reason why a permutation test of it has no p-value; None where it has one.
        formula: of its interval where nothing is resampled, `fisher` or `wilson`; None where it has none.
        has_standing_note: whether the note of a value, such as its threshold, belongs below every table.
        min_images: the number of images from which on simulated intervals and tests of it hold.
        is_smooth: whether its replicates spread as a normal distribution does, so that Student's t gives the p-value of a
            difference of two metrics. A coefficient that jumps between few values leaves it False: its p-value counts
            replicates, as its percentile interval does, so that the two agree.
        is_of_preferences: whether it is of comparisons, and not of ratings.
    """

    name: ClassVar[str]
    order: ClassVar[int] = 100
    symbol: ClassVar[str]
    latex: ClassVar[str]
    words: ClassVar[str]
    source: ClassVar[str] = ""
    bounds: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    chance: ClassVar[float | None] = 0.0
    scale: ClassVar[float] = 100
    decimals: ClassVar[int] = 1
    tests: ClassVar[tuple[str, ...]] = RESAMPLING_TESTS
    permutation_reason: ClassVar[Undefined | None] = None
    formula: ClassVar[str | None] = None
    has_standing_note: ClassVar[bool] = False
    min_images: ClassVar[int] = 50
    is_smooth: ClassVar[bool] = False
    is_of_preferences: ClassVar[bool] = False

    @property
    def is_signed(self) -> bool:
        """Say whether 0 is the value of scores that say nothing, and negative ones are of opposite orders."""
        return self.bounds[0] < 0

    def chance_on(self, ratings: Floats, ties: str = "half") -> float:
        """Return the value that scores without any information have on average; NaN where nothing says it.

        Args:
            ratings: people's, of the data points, shape (n_points,); empty where they are unknown.
            ties: the rule for ties of preferences.
        """
        return float("nan") if self.chance is None else self.chance

    def is_summary(self, dimension: str) -> bool:
        """Say whether its row of a dimension is one that people compare metrics by, and no part of a mean."""
        return not self.is_of_preferences or dimension == MEAN_DIMENSION


#: From weighted samples to a value each, shape (n_replicates,); NaN where it is undefined.
PreparedCoefficient = Callable[[WeightedPoints], Floats]


class RatingCoefficient(Coefficient):
    """A coefficient of the scores and ratings of data points, at every level.

    A subclass says how it is computed of weighted samples, with `prepare`. The value of a sample is that of weights 1,
    unless a subclass overrides `measure`.

    Attributes:
        counts_ties: whether it has a value where all scores or ratings of a group are equal.
        group_reason: the reason why groups of points have no value; None where they have one.
        system_reason: the reason why systems' means have no value; None where they have one.
    """

    counts_ties: ClassVar[bool] = False
    group_reason: ClassVar[Undefined | None] = None
    system_reason: ClassVar[Undefined | None] = None

    def level_reason(self, level: str) -> Undefined | None:
        """Return the reason why there is no value at a level; None where there is one."""
        if level == "pooled":
            return None
        return self.system_reason if level == "system" else self.group_reason

    @abstractmethod
    def prepare(self, points: RatedPoints) -> PreparedCoefficient:
        """Return the coefficient of weighted samples of points."""

    def p_value(self, points: RatedPoints) -> float:
        """Return the two-sided p-value of "no association"; NaN where the coefficient has no such test."""
        return float("nan")

    def value(self, scores: Floats, ratings: Floats) -> CoefficientValue:
        """Return the coefficient of all points, shape (n_points,) each, or NaN with the reason.

        Raises:
            ValueError: on unequal lengths.
        """
        if scores.shape != ratings.shape or scores.ndim != 1:
            raise ValueError(f"scores {scores.shape} and ratings {ratings.shape} are not paired")
        return self.value_of(RatedPoints.unweighted(scores, ratings))

    def value_of(self, points: RatedPoints) -> CoefficientValue:
        """Return the coefficient of all points, or NaN with the reason, as `value` does.

        Coefficients that get the same object share its ranks and counts of pairs.
        """
        if reason := undefined_reason(points.scores, points.ratings):
            return CoefficientValue.undefined(reason)
        return self.measure(points)

    def measure(self, points: RatedPoints) -> CoefficientValue:
        """Return the value of points of which neither scores nor ratings are all equal."""
        value = float(self.prepare(points)(points.sample)[0])
        return CoefficientValue(value, self.p_value(points))

    def prepare_groups(self, groups: Sequence[RatedPoints]) -> list[PreparedCoefficient]:
        """Return the coefficient of weighted samples of each group of points, over which a level averages."""
        return [self.prepare(group) for group in groups]

    def group_values(self, groups: Sequence[RatedPoints]) -> list[float]:
        """Return the value of each group of points; NaN where it is undefined."""
        return [self.value(group.scores, group.ratings).value for group in groups]

    def of_means(self, means: SystemMeans) -> Floats:
        """Return the coefficient of systems' means in each sample, shape (n_replicates,)."""
        return np.array([self.value(x, y).value for x, y in zip(means.x.T, means.y.T, strict=True)])


class TieCoefficient(RatingCoefficient):
    """A coefficient of ratings that counts ties, so that a group of equal scores or ratings has a value as well."""

    counts_ties: ClassVar[bool] = True

    @abstractmethod
    def measure_groups(self, groups: Sequence[RatedPoints]) -> CoefficientValue:
        """Return the mean over groups of two points or more."""

    def group_values(self, groups: Sequence[RatedPoints]) -> list[float]:
        prepared = self.prepare_groups(groups)
        return [float(p(g.sample)[0]) for p, g in zip(prepared, groups, strict=True)]


#: From weighted samples of a group of points to sums over its pairs, shape (n_sums, n_replicates).
PreparedSums = Callable[[WeightedPoints], Floats]


class DifferenceCoefficient(RatingCoefficient):
    """A coefficient of the differences of two points, at group levels over the pairs of all groups together.

    Where others average their groups' values, its sums over pairs are added up, so that no group needs a value.
    """

    @abstractmethod
    def prepare_sums(self, groups: Sequence[RatedPoints]) -> list[PreparedSums]:
        """Return the sums over the pairs of weighted samples of each group; values are finite."""

    @abstractmethod
    def of_sums(self, sums: Floats) -> Floats:
        """Return the coefficient of added sums, shape (n_replicates,); NaN where all differences of a side are 0."""


class PairCoefficient(RatingCoefficient):
    """A coefficient of ratings that follows from numbers of pairs: concordant, discordant and tied ones."""

    @abstractmethod
    def compute(self, pairs: WeightedPairs) -> Floats:
        """Return the coefficient of each sample; where a side is constant, whatever it returns is left out."""

    def prepare(self, points: RatedPoints) -> PreparedCoefficient:
        _ = points.ranked  # once, and not in each of the threads that evaluate replicates
        return lambda sample: self.of_pairs(sample.pairs)

    def of_means(self, means: SystemMeans) -> Floats:
        return self.of_pairs(means.pairs)

    def of_pairs(self, pairs: WeightedPairs, *, is_group: bool = False) -> Floats:
        """Return the coefficient of each sample; NaN with fewer than two points, or a constant side.

        Args:
            pairs: of the samples.
            is_group: whether the points are one of several groups, where a constant side is no reason.
        """
        with np.errstate(all="ignore"):
            values = self.compute(pairs)
        is_undefined = pairs.n < 2
        if not is_group:
            is_undefined = is_undefined | pairs.is_constant
        return np.where(is_undefined, np.nan, values)


class SystemCoefficient(Coefficient):
    """A coefficient of captioning systems, at level `system` alone; it has no value in samples with repeated images."""

    tests: ClassVar[tuple[str, ...]] = ("permutation",)

    def prepare(self, points: RatedPoints, keys: pd.DataFrame) -> Statistic:
        """Return the coefficient of the points whose unit has weight 1 in a sample; those of the others have 0.

        Args:
            points: finite.
            keys: as in `value`.
        """

        def statistic(weights: Floats) -> Floats:
            values: list[float] = []
            for is_in in (weights[points.unit] > 0).T:
                result = self.value(points.scores[is_in], points.ratings[is_in], keys[is_in])
                values.append(result.value)
            return np.array(values)

        return statistic

    @abstractmethod
    def value(self, scores: Floats, ratings: Floats, keys: pd.DataFrame) -> CoefficientValue:
        """Return the coefficient of systems.

        Args:
            scores, ratings: shape (n_points,), paired, finite.
            keys: columns `image_id` and `system` of the points.
        """


class PreferenceCoefficient(Coefficient):
    """A coefficient of a metric's outcomes of the pairs of captions that people judged."""

    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)
    chance: ClassVar[float | None] = 0.5
    is_of_preferences: ClassVar[bool] = True

    @abstractmethod
    def value(
        self, outcomes: PairOutcomes, ties: str = "half", images: Ints | None = None
    ) -> CoefficientValue:
        """Return the coefficient of the outcomes in one dimension.

        Args:
            outcomes: from `preferences.judge_differences`.
            ties: the rule by which they were made.
            images: shape (n_answers,), the number of each answer's image; by default each has its own.
        """

    @abstractmethod
    def prepare(
        self,
        outcomes: Floats,
        dimension: Ints,
        unit: Ints,
        n_dimensions: int,
        is_counted: NDArray[np.bool_],
    ) -> Statistic:
        """Return the coefficient in each dimension, and last their mean, as a statistic of the units' weights.

        Args:
            outcomes: a metric's outcome of each pair, right 1, wrong 0, tied 1/2, shape (n_pairs,).
            dimension: of each pair, from 0, shape (n_pairs,).
            unit: the unit whose weight each pair takes, shape (n_pairs,).
            n_dimensions: the number of dimensions.
            is_counted: whether a pair counts at all, shape (n_pairs,).
        """


_COEFFICIENTS: dict[str, Coefficient] = {}

AnyCoefficient = TypeVar("AnyCoefficient", bound=Coefficient)


def register(cls: type[AnyCoefficient]) -> type[AnyCoefficient]:
    """Register a class of coefficients under its name.

    Raises:
        ValueError: where the name is taken.
    """
    if cls.name in _COEFFICIENTS:
        raise ValueError(f"coefficient {cls.name} is registered twice")
    _COEFFICIENTS[cls.name] = cls()
    return cls


@cache
def _import_modules() -> None:
    """Import this folder's modules, and those of other packages, so that they register their classes."""
    folder = importlib.import_module(__package__ or "")
    for module in pkgutil.iter_modules(folder.__path__, f"{folder.__name__}."):
        importlib.import_module(module.name)
    import_plugins("captau.coefficients")


def list_coefficients() -> list[Coefficient]:
    """List the registered coefficients, in the order in which the field prints them."""
    _import_modules()
    return sorted(_COEFFICIENTS.values(), key=lambda coefficient: coefficient.order)


def coefficient_names() -> list[str]:
    """List the names of the registered coefficients, in the order of `list_coefficients`."""
    return [coefficient.name for coefficient in list_coefficients()]


def find_coefficient(name: str) -> Coefficient:
    """Return the coefficient of a name.

    Raises:
        InputError: where there is none.
    """
    _import_modules()
    if name not in _COEFFICIENTS:
        raise unknown("coefficient", name, _COEFFICIENTS)
    return _COEFFICIENTS[name]


def are_of_preferences(names: Iterable[str]) -> NDArray[np.bool_]:
    """Say of each of a table's coefficients whether it is of preferences, shape (n_names,)."""
    return np.array([find_coefficient(name).is_of_preferences for name in names], dtype=bool)


def correlate(scores: Floats, ratings: Floats, coefficient: str) -> CoefficientValue:
    """Correlate scores with ratings, over all points; see `RatingCoefficient.value`.

    Args:
        scores, ratings: shape (n_points,), paired.
        coefficient: the name of a coefficient of ratings.

    Returns:
        The coefficient, with its p-value of "no association" where it has one; NaN with a reason where there are
        fewer than two points, a score or rating is NaN, either side is constant, or there is no value.

    Raises:
        ValueError: on a coefficient of something else, or on unequal lengths.
        InputError: on an unknown coefficient.
    """
    return _find_rating_coefficient(coefficient).value(scores, ratings)


def correlate_points(points: RatedPoints, coefficient: str) -> CoefficientValue:
    """Correlate points as `correlate` does; several coefficients of the same object share its ranks and counts of pairs.

    Raises:
        ValueError: on a coefficient of something else.
        InputError: on an unknown coefficient.
    """
    return _find_rating_coefficient(coefficient).value_of(points)


def _find_rating_coefficient(name: str) -> RatingCoefficient:
    coefficient = find_coefficient(name)
    if not isinstance(coefficient, RatingCoefficient):
        raise ValueError(f"coefficient {name} is not of scores and ratings")
    return coefficient
