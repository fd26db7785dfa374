"""Which of two metrics agrees better with people: paired tests on the same data points.

- `bootstrap`: paired cluster bootstrap; both metrics on the same resampled images.
- `permutation`: PERM-BOTH of Deutsch et al. 2021 ("A Statistical Analysis of Summarization Evaluation
  Metrics Using Resampling Methods"): the two metrics' standardised scores are swapped at random.
- `williams`: Williams 1959, for Pearson's r; it takes data points for independent.
- `mcnemar`: McNemar 1947, for the accuracy of preferences; it takes pairs for independent.

`corrected` corrects p-values for how many there are, `rank_groups` makes of them the rank clusters
that WMT prints.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np
import pandas as pd
import scipy
from numpy.typing import ArrayLike, NDArray

from .bootstrap import (
    BLOCK,
    MAX_UNDEFINED_SHARE,
    Interval,
    StatisticsOptions,
    count_blocks,
    jackknife,
    resample,
    resampling_interval,
    run_blocks,
)
from .preferences import mcnemar
from .weighted_coefficients import Floats, Ints, Moments, Statistic, prepare_accuracies
from .weighted_levels import prepare_at_level

#: Tests of one coefficient alone.
TEST_COEFFICIENTS = {"williams": "pearson", "mcnemar": "accuracy"}

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Panel(ABC):
    """Metrics and people on the same data points.

    Attributes:
        image: each point's image, from 0, shape (n_points,).
        n_images: how many there are.
        item: each point's item, from 0, shape (n_points,).
        system: each point's system, from 0, shape (n_points,); None where it has none.
        drop: whether a point on which a metric is undefined is left out; else the metric's
            coefficients are undefined.
    """

    image: Ints
    n_images: int
    item: Ints
    system: Ints | None
    drops_undefined: bool

    @property
    @abstractmethod
    def metrics(self) -> tuple[str, ...]:
        """Who has scores."""

    @property
    @abstractmethod
    def keys(self) -> list[tuple[str, str]]:
        """Dimension and coefficient of each value of a statistic."""

    @abstractmethod
    def defined_points(self, metric: str) -> Mask:
        """On which points a metric is defined, shape (n_points,)."""

    @abstractmethod
    def _prepared(self, values: Sequence[str], keep: Mask, unit: Sequence[Ints]) -> Statistic:
        """Of metrics end to end, each on the kept points with units of its own."""

    @abstractmethod
    def standardise(self, a: str, b: str, keep: Mask) -> Panel | None:
        """The same with both metrics on one scale; None where an infinite score has none."""

    def comparable_points(self, *metrics: str) -> Mask | None:
        """The points to compare metrics on; None where a gap makes a metric undefined."""
        found = np.logical_and.reduce([self.defined_points(metric) for metric in metrics])
        return found if self.drops_undefined or found.all() else None

    def statistic(self, metric: str, keep: Mask) -> Statistic:
        """A metric's coefficients as a function of the images' weights."""
        return self._prepared([metric], keep, [self.image[keep]])

    def prepare_swaps(self, a: str, b: str, keep: Mask, cell: Ints) -> Statistic:
        """The coefficients of scores taken from two metrics.

        Args:
            a, b: the metrics.
            keep: the points to compare them on.
            cell: which points swap together, shape (n_kept,). The statistic's weights have two rows a
                cell: of `a`'s scores and of `b`'s.
        """
        return self._prepared([a, b], keep, [2 * cell, 2 * cell + 1])


@dataclass(frozen=True)
class RatingPanel(Panel):
    """Metrics and ratings.

    Attributes:
        dimension: what was rated.
        coefficients: which to compute.
        scores: of each metric, more is better, shape (n_points,).
        ratings: shape (n_points,).
        level: what the coefficients are taken over, see `kinds`.
    """

    dimension: str
    coefficients: tuple[str, ...]
    scores: Mapping[str, Floats]
    ratings: Floats
    level: str = "pooled"

    @property
    def metrics(self) -> tuple[str, ...]:
        return tuple(self.scores)

    @property
    def keys(self) -> list[tuple[str, str]]:
        return [(self.dimension, coefficient) for coefficient in self.coefficients]

    def defined_points(self, metric: str) -> Mask:
        return ~(np.isnan(self.scores[metric]) | np.isnan(self.ratings))

    def _prepared(self, values: Sequence[str], keep: Mask, unit: Sequence[Ints]) -> Statistic:
        systems = np.zeros(len(keep)) if self.system is None else self.system
        keys = pd.DataFrame({"image_id": self.image[keep], "system": systems[keep]})
        return prepare_at_level(
            self.level,
            np.concatenate([self.scores[metric][keep] for metric in values]),
            np.tile(self.ratings[keep], len(values)),
            pd.concat([keys] * len(values), ignore_index=True),
            self.coefficients,
            np.concatenate(unit),
        )

    def standardise(self, a: str, b: str, keep: Mask) -> RatingPanel | None:
        found: dict[str, Floats] = {}
        for metric in (a, b):
            scores = self.scores[metric]
            if np.isinf(scores[keep]).any():
                return None
            spread = scores[keep].std()
            found[metric] = (scores - scores[keep].mean()) / (spread if spread > 0 else 1.0)
        return replace(self, scores=found)


@dataclass(frozen=True)
class PreferencePanel(Panel):
    """Metrics and preferences; a point is a pair of captions.

    Attributes:
        categories: their names.
        category: each pair's, from 0, shape (n_points,).
        right: how right each metric is on each pair, 1, 0 or (tied) one half, shape (n_points,).
        mean: what the mean of the categories is called.
    """

    categories: tuple[str, ...]
    category: Ints
    outcomes: Mapping[str, Floats]
    mean_category: str

    @property
    def metrics(self) -> tuple[str, ...]:
        return tuple(self.outcomes)

    @property
    def keys(self) -> list[tuple[str, str]]:
        return [(category, "accuracy") for category in (*self.categories, self.mean_category)]

    def defined_points(self, metric: str) -> Mask:
        return ~np.isnan(self.outcomes[metric])

    def _prepared(self, values: Sequence[str], keep: Mask, unit: Sequence[Ints]) -> Statistic:
        return prepare_accuracies(
            np.concatenate([self.outcomes[metric][keep] for metric in values]),
            np.tile(self.category[keep], len(values)),
            np.concatenate(unit),
            len(self.categories),
        )

    def standardise(self, a: str, b: str, keep: Mask) -> PreferencePanel | None:
        return self  # right is right, for every metric


@dataclass(frozen=True)
class PairedTest:
    """What a test found of one coefficient: its two-sided p-value, an interval, a remark."""

    p_value: float = float("nan")
    interval: Interval = field(default_factory=Interval)
    note: str = ""


@dataclass(frozen=True)
class PreparedMetric:
    """A metric on some of a panel's points.

    Attributes:
        keep: which, shape (n_points,).
        statistic: its coefficients as a function of the images' weights.
        values: the coefficients, shape (n_values,).
    """

    points: Mask
    statistic: Statistic
    values: Floats

    @classmethod
    def prepare(cls, panel: Panel, metric: str, keep: Mask) -> PreparedMetric:
        statistic = panel.statistic(metric, keep)
        return cls(keep, statistic, statistic(np.ones((panel.n_images, 1)))[:, 0])


@dataclass(frozen=True)
class MetricPair:
    """Two metrics on the points on which both are defined.

    Attributes:
        panel, a, b: what is compared.
        keep: the points, shape (n_points,).
        both: `a` and `b` there.
        alike: whether these are all the points on which either is defined.
    """

    panel: Panel
    a: str
    b: str
    points: Mask
    prepared: tuple[PreparedMetric, PreparedMetric]
    has_same_points: bool

    @classmethod
    def prepare(
        cls, panel: Panel, a: str, b: str, prepared: Mapping[str, PreparedMetric]
    ) -> MetricPair | None:
        """None where a gap makes one of them undefined.

        Args:
            panel, a, b: what to compare.
            prepared: each metric on its own points, used where the other has the same.
        """
        keep = panel.comparable_points(a, b)
        if keep is None:
            return None
        alike = all(bool((prepared[metric].points == keep).all()) for metric in (a, b))
        first, second = (
            prepared[metric] if alike else PreparedMetric.prepare(panel, metric, keep)
            for metric in (a, b)
        )
        return cls(panel, a, b, keep, (first, second), alike)

    @property
    def difference(self) -> Floats:
        return self.prepared[0].values - self.prepared[1].values


@dataclass(frozen=True)
class MetricDifference:
    """One metric less another, by one coefficient, tested in one way.

    Attributes:
        dimension, coefficient, metric_a, metric_b, test: what was tested.
        value_a, value_b: on the points on which both are defined.
        found: by the test.
        n_points, n_images: what they were compared on.
    """

    dimension: str
    coefficient: str
    metric_a: str
    metric_b: str
    test: str
    value_a: float
    value_b: float
    result: PairedTest
    n_points: int
    n_images: int


def compare_metrics(
    panel: Panel,
    metrics: Sequence[str],
    prepared: Mapping[str, PreparedMetric],
    drawn: Mapping[str, Floats],
    options: StatisticsOptions,
    tests: Sequence[str] = ("bootstrap",),
    *,
    advance: Callable[[], None] | None = None,
) -> list[MetricDifference]:
    """Every two metrics compared.

    Args:
        panel: the data points.
        metrics: whom to compare, each with all that come after it.
        prepared: each metric on the points on which it is defined; a gap may make it undefined, and
            then it is not there.
        drawn: the replicates of the prepared, shape (n_values, replicates), from `resample` with the
            same options.
        options: replicates, level, seed and kind of interval.
        tests: any of `bootstrap.TESTS`.
        advance: called after each pair.
    """
    found: list[MetricDifference] = []
    for a, b in combinations(metrics, 2):
        pair = MetricPair.prepare(panel, a, b, prepared)
        for test in tests:
            results = _tested(pair, test, drawn, options, len(panel.keys))
            for index, (dimension, coefficient) in enumerate(panel.keys):
                if test in TEST_COEFFICIENTS and coefficient != TEST_COEFFICIENTS[test]:
                    continue
                value_a, value_b = (
                    (np.nan, np.nan)
                    if pair is None
                    else (one.values[index] for one in pair.prepared)
                )
                keep = np.zeros(0, dtype=bool) if pair is None else pair.points
                found.append(
                    MetricDifference(
                        dimension,
                        coefficient,
                        a,
                        b,
                        test,
                        float(value_a),
                        float(value_b),
                        results[index],
                        int(keep.sum()),
                        len(np.unique(panel.image[keep])) if keep.any() else 0,
                    )
                )
        if advance is not None:
            advance()
    return found


def _tested(
    pair: MetricPair | None,
    test: str,
    drawn: Mapping[str, Floats],
    options: StatisticsOptions,
    n_values: int,
) -> list[PairedTest]:
    """A test's results, one a coefficient."""
    if pair is None:
        return [PairedTest(note="undefined: a metric has undefined scores")] * n_values
    if np.isnan(pair.difference).all():
        found = [PairedTest()] * n_values
    elif test == "bootstrap":
        found = bootstrap_test(pair, drawn, options)
    elif test == "permutation":
        found = permutation_test(pair, options)
    elif test == "mcnemar":
        found = _mcnemar(pair)
    else:
        found = _williams(pair)
    lost = int((~pair.points).sum())
    dropped = f"{lost} of {len(pair.points)} data points dropped: undefined score" if lost else ""
    unknown = ["undefined: a coefficient is" if np.isnan(d) else "" for d in pair.difference]
    return [
        replace(one, note="; ".join(n for n in (why, one.note, dropped) if n))
        for one, why in zip(found, unknown, strict=True)
    ]


def bootstrap_test(
    pair: MetricPair, drawn: Mapping[str, Floats], options: StatisticsOptions
) -> list[PairedTest]:
    """Paired cluster bootstrap: the differences on the same resampled images.

    Args:
        pair: the metrics.
        drawn: replicates of each on its own points, used where these are the same.
        options: as in `differences`.
    """
    panel = pair.panel
    statistics = [one.statistic for one in pair.prepared]
    if pair.has_same_points:
        first, second = drawn[pair.a], drawn[pair.b]
    else:
        first, second = resample(statistics, panel.n_images, options.replicates, options.seed)
    left_out: Sequence[Floats | None] = [None] * len(first)
    if options.interval == "bca":
        out_a, out_b = (jackknife(one, panel.n_images) for one in statistics)
        left_out = list(out_a - out_b)
    found: list[PairedTest] = []
    for apart, value, out in zip(first - second, pair.difference, left_out, strict=True):
        p_value = float("nan") if np.isnan(value) else two_sided_p_value(apart)
        one = resampling_interval(float(value), apart, options, out)
        found.append(PairedTest(p_value, one, one.note))
    return found


def two_sided_p_value(apart: Floats) -> float:
    """The p-value of a difference by its bootstrap replicates; NaN where too many are undefined.

    Twice the share of replicates, the sample itself among them, on the lesser side of 0.

    Args:
        apart: the differences, shape (replicates,).
    """
    known = apart[~np.isnan(apart)]
    if len(known) < (1 - MAX_UNDEFINED_SHARE) * len(apart):
        return float("nan")
    lesser = min((known <= 0).sum(), (known >= 0).sum())
    return min(1.0, 2 * (float(lesser) + 1) / (len(known) + 1))


def permutation_test(pair: MetricPair, options: StatisticsOptions) -> list[PairedTest]:
    """PERM-BOTH, Deutsch et al. 2021: would a difference as large come of metrics that are alike?

    Both metrics' scores are standardised; then the two swap places on half the systems and on half
    the images, drawn by lot, so that a caption's scores are swapped where one of both says so and
    the other does not. `swap=image` draws images alone (their PERM-INPUTS; the same where captions
    have no system), `swap=item` each caption alone. Accuracy needs no standard scores.

    p is the share of permutations, the sample itself among them, with a difference as large or
    larger, of whichever sign (Phipson and Smyth 2010 on why the sample counts).
    """
    panel = pair.panel.standardise(pair.a, pair.b, pair.points)
    if panel is None:
        return [PairedTest(note="undefined: an infinite score has no standard score")] * len(
            pair.panel.keys
        )
    image, system = panel.image[pair.points], panel.system
    n_systems = 0
    if options.swap == "item":
        cells, cell = np.unique(panel.item[pair.points], return_inverse=True)
        flips = cells
    elif options.swap == "image" or system is None:
        flips, cell = np.unique(image, return_inverse=True)
    else:
        n_systems = int(system.max()) + 1
        flips, cell = np.unique(image * n_systems + system[pair.points], return_inverse=True)
    statistic = panel.prepare_swaps(pair.a, pair.b, pair.points, cell.astype(np.int64))

    def one(block: int) -> list[Floats]:
        rng = np.random.default_rng(np.random.SeedSequence(options.seed, spawn_key=(block, 1)))
        coins = rng.integers(2, size=(int(flips.max(initial=0)) // max(n_systems, 1) + 1, BLOCK))
        swapped = coins[flips // max(n_systems, 1)]
        if n_systems:
            swapped ^= rng.integers(2, size=(n_systems, BLOCK))[flips % n_systems]
        weights = np.empty((2 * len(flips), BLOCK))
        weights[0::2], weights[1::2] = 1 - swapped, swapped
        return [statistic(weights) - statistic(1 - weights)]

    n = options.replicates
    (drawn,) = run_blocks(one, count_blocks(n), 1, n)
    found: list[PairedTest] = []
    for (_, coefficient), apart, value in zip(
        panel.keys, drawn, np.abs(pair.difference), strict=True
    ):
        if coefficient == "acc_eq":
            found.append(
                PairedTest(note="undefined: swapped scores have no threshold of their own")
            )
            continue
        lost = int(np.isnan(apart).sum())
        note = f"{lost} of {n} permutations undefined" if lost else ""
        if np.isnan(value) or lost > MAX_UNDEFINED_SHARE * n:
            found.append(PairedTest(note=note))
        else:
            # The sums of a permutation may differ from the sample's in their last bits.
            larger = float((np.abs(apart) >= value - 1e-12).sum())
            found.append(PairedTest((larger + 1) / (n - lost + 1), note=note))
    return found


def _mcnemar(pair: MetricPair) -> list[PairedTest]:
    """The exact p-value in each category; for their mean that of all pairs together."""
    panel = pair.panel
    if not isinstance(panel, PreferencePanel):
        return [PairedTest()] * len(panel.keys)
    found: list[PairedTest] = []
    for number in (*range(len(panel.categories)), None):
        here = pair.points if number is None else pair.points & (panel.category == number)
        one = mcnemar(panel.outcomes[pair.a][here], panel.outcomes[pair.b][here])
        note = (
            f"better on {one.first_better} pairs and worse on {one.second_better} of {one.n_pairs}; "
            f"asymptotic p {one.asymptotic:.6g}"
        )
        found.append(PairedTest(one.exact, note=note))
    return found


def _williams(pair: MetricPair) -> list[PairedTest]:
    """Of Pearson's r, the others being left undefined."""
    panel, n = pair.panel, int(pair.points.sum())
    found: list[PairedTest] = []
    for index, (_, coefficient) in enumerate(panel.keys):
        if coefficient != "pearson" or not isinstance(panel, RatingPanel):
            found.append(PairedTest())
            continue
        if panel.level != "pooled":
            found.append(
                PairedTest(note="undefined: Williams' test is of all data points together")
            )
            continue
        x, y = (panel.scores[metric][pair.points] for metric in (pair.a, pair.b))
        r_a, r_b = (float(one.values[index]) for one in pair.prepared)
        if np.isnan(r_a) or np.isnan(r_b):
            found.append(PairedTest())
            continue
        p_value = williams(r_a, r_b, float(Moments(x, y).pearson()[0]), n)[1]
        alike = "undefined: the two metrics' scores are the same, or there are too few"
        found.append(PairedTest(p_value, note=alike if np.isnan(p_value) else ""))
    return found


def williams(r_a: float, r_b: float, r_ab: float, n: int) -> tuple[float, float]:
    """Williams' test of two correlations that share a variable: t with n - 3 degrees, two-sided p.

    Williams 1959; Steiger 1980, equation 7; Graham and Baldwin 2014 for metrics. The correlations
    keep their signs, where the scripts of WMT take them off.

    Args:
        r_a, r_b: of each metric with people.
        r_ab: of the metrics with each other.
        n: how many data points.
    """
    if n < 4:
        return float("nan"), float("nan")
    determinant = 1 - r_a**2 - r_b**2 - r_ab**2 + 2 * r_a * r_b * r_ab
    mean = (r_a + r_b) / 2
    below = 2 * (n - 1) / (n - 3) * determinant + mean**2 * (1 - r_ab) ** 3
    if not below > 1e-14:
        return float("nan"), float("nan")
    t = (r_a - r_b) * np.sqrt((n - 1) * (1 + r_ab) / below)
    return float(t), float(2 * scipy.stats.t.sf(abs(t), n - 3))


def correct_p_values(p_values: ArrayLike, correction: str) -> Floats:
    """p-values corrected for how many there are; NaN stays NaN and does not count.

    Args:
        p_values: shape (n,).
        correction: `holm` (Holm 1979: the chance of any false finding), `bh` (Benjamini and Hochberg
            1995: the share of false ones among the findings), or `none`.
    """
    given = np.asarray(p_values, dtype=np.float64)
    found = given.copy()
    known = np.flatnonzero(~np.isnan(given))
    if correction == "bh":
        if len(known):
            found[known] = scipy.stats.false_discovery_control(given[known], method="bh")
    elif correction == "holm":
        order = known[np.argsort(given[known], kind="stable")]
        stepped = given[order] * np.arange(len(order), 0, -1)
        found[order] = np.minimum(1, np.maximum.accumulate(stepped))
    return found


def rank_clusters(
    values: Mapping[str, float], p: Mapping[frozenset[str], float], alpha: float
) -> dict[str, int]:
    """The rank clusters that WMT prints (mt-metrics-eval's definition).

    From the best metric down, a new rank begins with the first metric that a metric of the present
    rank beats significantly. So nobody of a rank is beaten by another of it.

    Args:
        values: each metric's coefficient; an undefined one has no rank.
        p: of every two metrics, two-sided and corrected.
        alpha: at which p a difference is significant.
    """
    known = {metric: value for metric, value in values.items() if not np.isnan(value)}
    ranks: dict[str, int] = {}
    rank, group = 1, list[str]()
    for metric in sorted(known, key=lambda m: -known[m]):
        if any(p[frozenset((metric, better))] <= alpha for better in group):
            rank, group = rank + 1, []
        group.append(metric)
        ranks[metric] = rank
    return ranks
