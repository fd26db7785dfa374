"""Tests of the difference of two metrics that were measured on the same data points.

- `bootstrap`: paired cluster bootstrap; both metrics on the same resampled images.
- `permutation`: PERM-BOTH of Deutsch et al. 2021 ("A Statistical Analysis of Summarization Evaluation
  Metrics Using Resampling Methods"): the two metrics' standardised scores are swapped at random.
- `williams`: Williams 1959, for Pearson's r; it takes data points for independent.
- `mcnemar`: McNemar 1947, for the accuracy of preferences; it takes pairs of captions for independent.

`compare_metrics` runs them on every two metrics of a `panels.Panel`; `intervals` corrects their p-values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from .bootstrap import (
    BLOCK,
    MAX_UNDEFINED_SHARE,
    Interval,
    StatisticsOptions,
    count_blocks,
    jackknife,
    resample,
    resampling_intervals,
    run_blocks,
    student_p_value,
    two_sided_p_value,
)
from .coefficients.coefficient import Coefficient
from .coefficients.pearson import Moments
from .panels import Panel, PreferencePanel, RatingPanel
from .preferences import mcnemar
from .remarks import Note, Remark, Remarked, Undefined, remark
from .weighted_pairs import Floats, Ints, Mask, Statistic


@dataclass(frozen=True)
class PairedTest(Remarked):
    """Result of a test of one coefficient: its two-sided p-value, and an interval where it has one."""

    p_value: float = float("nan")
    interval: Interval = field(default_factory=Interval)


@dataclass(frozen=True)
class PreparedMetric:
    """A metric on some of a panel's points.

    Attributes:
        points: shape (n_points,).
        statistic: its coefficients as a function of the images' weights.
        values: the coefficients, shape (n_values,).
        n_images: the number of images of the panel.
    """

    points: Mask
    statistic: Statistic
    values: Floats
    n_images: int

    @classmethod
    def prepare(cls, panel: Panel, metric: str, points: Mask) -> PreparedMetric:
        """Prepare a metric on the given points, and compute its coefficients."""
        statistic = panel.statistic(metric, points)
        values = statistic(np.ones((panel.n_images, 1)))[:, 0]
        return cls(points, statistic, values, panel.n_images)

    def with_first(self, n_values: int) -> PreparedMetric:
        """Return the metric with the first of its coefficients alone."""
        return PreparedMetric(
            points=self.points,
            statistic=lambda weights: self.statistic(weights)[:n_values],
            values=self.values[:n_values],
            n_images=self.n_images,
        )

    @cached_property
    def left_out(self) -> Floats:
        """The coefficients without one image at a time, shape (n_values, n_images); see `jackknife`."""
        return jackknife(self.statistic, self.n_images)


@dataclass(frozen=True)
class MetricPair:
    """Two metrics on the points on which both are defined.

    Attributes:
        panel, a, b: the panel, and the metrics to compare.
        points: shape (n_points,).
        prepared: `a` and `b` on these points.
        has_same_points: whether these are all the points on which either is defined.
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
        """Prepare two metrics; None where a gap makes one of them undefined.

        Args:
            panel, a, b: the panel, and the metrics to compare.
            prepared: each metric on its own points, used where the other has the same.
        """
        points = panel.comparable_points(a, b)
        if points is None:
            return None

        both = (prepared[a], prepared[b])
        has_same_points = all(np.array_equal(metric.points, points) for metric in both)
        if not has_same_points:
            both = (
                PreparedMetric.prepare(panel, a, points),
                PreparedMetric.prepare(panel, b, points),
            )

        return cls(
            panel=panel,
            a=a,
            b=b,
            points=points,
            prepared=both,
            has_same_points=has_same_points,
        )

    @property
    def difference(self) -> Floats:
        """The first metric's coefficients less the second's, shape (n_values,)."""
        return self.prepared[0].values - self.prepared[1].values


@dataclass(frozen=True)
class MetricDifference:
    """A metric less another, by one coefficient and one test.

    Attributes:
        dimension, coefficient, metric_a, metric_b, test: the comparison.
        value_a, value_b: on the points on which both are defined.
        result: of the test.
        n_points, n_images: the numbers of points and images that they were compared on.
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
    replicates: Mapping[str, Floats],
    options: StatisticsOptions,
    tests: Sequence[str] = ("bootstrap",),
    *,
    advance: Callable[[], None] | None = None,
) -> list[MetricDifference]:
    """Compare every two metrics.

    Args:
        panel: the data points.
        metrics: the metrics to compare, each with all that come after it.
        prepared: each metric on the points on which it is defined; a metric that a gap makes undefined
            is absent.
        replicates: of the prepared metrics, shape (n_values, replicates), from `resample` with the
            same options.
        options: replicates, level, seed and kind of interval.
        tests: any of `bootstrap.TESTS`. Of a coefficient that has no `bootstrap`, its first test
            is run instead, since ranks rest on it.
        advance: called after each pair.
    """
    differences: list[MetricDifference] = []
    coefficients = [panel.find_coefficient(name) for _, name in panel.keys]
    first_tests: list[str] = []
    if "bootstrap" in tests:
        first_tests = [c.tests[0] for c in coefficients if c is not None]

    for a, b in combinations(metrics, 2):
        pair = MetricPair.prepare(panel, a, b, prepared)
        values_a, values_b, n_points, n_images = _describe_pair(panel, pair)
        # A test that is asked for and a coefficient's own may be one; it runs once.
        for test in dict.fromkeys((*tests, *first_tests)):
            results = _run_test(pair, test, replicates, options, len(panel.keys))
            for index, (dimension, name) in enumerate(panel.keys):
                if not _has_test(coefficients[index], test, tests):
                    continue

                difference = MetricDifference(
                    dimension=dimension,
                    coefficient=name,
                    metric_a=a,
                    metric_b=b,
                    test=test,
                    value_a=float(values_a[index]),
                    value_b=float(values_b[index]),
                    result=results[index],
                    n_points=n_points,
                    n_images=n_images,
                )
                differences.append(difference)

        if advance is not None:
            advance()

    return differences


def _describe_pair(panel: Panel, pair: MetricPair | None) -> tuple[Floats, Floats, int, int]:
    """Return both metrics' values, shape (n_values,), and the numbers of points and of images; NaN and 0 of no pair."""
    if pair is None:
        undefined = np.full(len(panel.keys), np.nan)
        return undefined, undefined, 0, 0

    values_a, values_b = (metric.values for metric in pair.prepared)
    n_images = len(np.unique(panel.image[pair.points]))
    return values_a, values_b, int(pair.points.sum()), n_images


def _has_test(coefficient: Coefficient | None, test: str, tests: Sequence[str]) -> bool:
    """Tell whether a test is run of a coefficient: one of those that are asked for, or that on which ranks rest."""
    own_tests = tests if coefficient is None else coefficient.tests
    return test in own_tests and (test in tests or test == own_tests[0])


def _run_test(
    pair: MetricPair | None,
    test: str,
    replicates: Mapping[str, Floats],
    options: StatisticsOptions,
    n_values: int,
) -> list[PairedTest]:
    """Run a test and return its results, one a coefficient."""
    if pair is None:
        return [PairedTest(remarks=(remark(Undefined.UNDEFINED_METRIC),))] * n_values

    if np.isnan(pair.difference).all():
        results = [PairedTest()] * n_values
    elif test == "bootstrap":
        results = bootstrap_test(pair, replicates, options)
    elif test == "permutation":
        results = permutation_test(pair, options)
    elif test == "mcnemar":
        results = _mcnemar_test(pair)
    else:
        results = _williams_test(pair)

    n_dropped = int((~pair.points).sum())
    with_notes: list[PairedTest] = []
    for result, difference in zip(results, pair.difference, strict=True):
        remarks = list(result.remarks)
        if np.isnan(difference):
            # The reason comes first: `Remarked.reason` and the reader look for it there.
            remarks.insert(0, remark(pair.panel.undefined_value))
        if n_dropped:
            n_points = len(pair.points)
            remarks.append(remark(Note.DROPPED_POINTS, n_dropped=n_dropped, n_points=n_points))
        with_notes.append(PairedTest(result.p_value, result.interval, remarks=tuple(remarks)))

    return with_notes


def bootstrap_test(
    pair: MetricPair, replicates: Mapping[str, Floats], options: StatisticsOptions
) -> list[PairedTest]:
    """Run the paired cluster bootstrap: the differences on the same resampled images.

    Args:
        pair: the metrics.
        replicates: of each on its own points, used where these are the same.
        options: as in `compare_metrics`.
    """
    n_images = pair.panel.n_images
    first, second = pair.prepared
    if pair.has_same_points:
        values_a = replicates[pair.a]
        values_b = replicates[pair.b]
    else:
        # Where a gap leaves other points, both are drawn anew on the common ones.
        statistics = [first.statistic, second.statistic]
        values_a, values_b = resample(statistics, n_images, options.replicates, options.seed)
    differences = values_a - values_b

    intervals = resampling_intervals(
        pair.difference,
        replicates=differences,
        n_units=n_images,
        options=options,
        left_out=first.left_out - second.left_out if options.interval == "bca" else None,
        min_units=pair.panel.min_images,
    )

    is_smooth = pair.panel.has_smooth_values
    results: list[PairedTest] = []
    for index, interval in enumerate(intervals):
        value = float(pair.difference[index])
        if np.isnan(value):
            p_value = float("nan")
        elif is_smooth[index]:
            p_value = student_p_value(value, differences[index], n_images, options)
        else:
            # Student's t would contradict the interval of a coefficient that jumps between few values.
            p_value = two_sided_p_value(differences[index], n_images, options)
        results.append(PairedTest(p_value, interval, remarks=interval.remarks))

    return results


def pairwise_p_values(replicates: Floats) -> Floats:
    """Return twice the share of replicates on the smaller side, for the differences of every two of thousands of rows.

    This is `bootstrap.two_sided_p_value` of percentile intervals.

    The signs of differences are those of ranks within a replicate, which need few bits.

    Args:
        replicates: shape (n, replicates); NaN where undefined.

    Returns:
        shape (n, n): above the diagonal the p-values, elsewhere NaN.
    """
    n, n_replicates = replicates.shape
    is_defined = ~np.isnan(replicates)
    number_type = np.min_scalar_type(-n - 1)  # of few bytes, for speed

    # Where one is undefined, neither is greater; whole words of 64 replicates are counted.
    floor = np.full((n, -(-n_replicates // 64) * 64), -1, number_type)
    ceiling = np.full_like(floor, np.iinfo(number_type).max)
    for replicate in range(n_replicates):
        defined = is_defined[:, replicate]
        ranks = np.unique(replicates[defined, replicate], return_inverse=True)[1]
        floor[defined, replicate] = ceiling[defined, replicate] = ranks

    n_defined = is_defined.astype(np.float64) @ is_defined.T
    p_values = np.full((n, n), np.nan)
    for i in range(n - 1):
        below = _count_true(ceiling[i + 1 :] < floor[i])
        above = _count_true(floor[i + 1 :] > ceiling[i])
        total = n_defined[i, i + 1 :]
        p_value = np.minimum(1.0, 2 * (total - np.maximum(below, above) + 1) / (total + 1))
        is_testable = total >= (1 - MAX_UNDEFINED_SHARE) * n_replicates
        p_values[i, i + 1 :] = np.where(is_testable, p_value, np.nan)

    return p_values


def _count_true(table: NDArray[np.bool_]) -> NDArray[np.integer]:
    """Count each row's true cells, of which it has a multiple of 64."""
    return np.bitwise_count(np.packbits(table, axis=1).view(np.uint64)).sum(axis=1)


def _number_flips(panel: Panel, points: Mask, swap: str) -> tuple[Ints, Ints, int]:
    """Number what is swapped together.

    A flip is what one coin, or the two of an image and a system, decides.

    Returns:
        the numbers of the flips, of an image and a system image * n_systems + system; the place among them of each
        point; and the number of systems, 0 where no coin is theirs.
    """
    image = panel.image[points]
    if swap == "item":
        flips, cell = np.unique(panel.item[points], return_inverse=True)
        return flips, cell, 0
    if swap == "image" or panel.system is None:
        flips, cell = np.unique(image, return_inverse=True)
        return flips, cell, 0

    # One number stands for an image and a system: both parts can be read off it again.
    n_systems = int(panel.system.max()) + 1
    flips, cell = np.unique(image * n_systems + panel.system[points], return_inverse=True)
    return flips, cell, n_systems


def permutation_test(pair: MetricPair, options: StatisticsOptions) -> list[PairedTest]:
    """Run PERM-BOTH, Deutsch et al. 2021: could metrics that are alike differ as much?

    Both metrics' scores are standardised; then the two swap places on half the systems and on half
    the images, drawn at random, so that a caption's scores are swapped where either of both is drawn and
    the other is not. `swap=image` draws images alone (their PERM-INPUTS; the same where captions
    have no system), `swap=item` each caption alone. Accuracy needs no standard scores.

    p is the share of permutations, the sample itself among them, with a difference as large or
    larger, of whichever sign (Phipson and Smyth 2010 on why the sample counts).
    """
    panel = pair.panel.standardise(pair.a, pair.b, pair.points)
    if panel is None:
        reason = remark(Undefined.INFINITE_STANDARD_SCORE)
        return [PairedTest(remarks=(reason,))] * len(pair.panel.keys)

    flips, cell, n_systems = _number_flips(panel, pair.points, options.swap)
    statistic = panel.prepare_swaps(pair.a, pair.b, pair.points, cell.astype(np.int64))

    def evaluate(block: int) -> list[Floats]:
        rng = np.random.default_rng(np.random.SeedSequence(options.seed, spawn_key=(block, 1)))
        coins = rng.integers(2, size=(int(flips.max(initial=0)) // max(n_systems, 1) + 1, BLOCK))
        swaps = coins[flips // max(n_systems, 1)]
        if n_systems:
            # Where both the image and the system are drawn, the scores are swapped twice.
            swaps ^= rng.integers(2, size=(n_systems, BLOCK))[flips % n_systems]
        # Each flip's points stand twice, as they are and swapped, and one of both has weight 1.
        weights = np.empty((2 * len(flips), BLOCK))
        weights[0::2] = 1 - swaps
        weights[1::2] = swaps
        return [statistic(weights) - statistic(1 - weights)]

    n = options.replicates
    (permuted,) = run_blocks(evaluate, count_blocks(n), n_statistics=1, columns=n)

    results: list[PairedTest] = []
    for (_, name), differences, value in zip(
        panel.keys, permuted, np.abs(pair.difference), strict=True
    ):
        coefficient = panel.find_coefficient(name)
        if coefficient is not None and coefficient.permutation_reason is not None:
            results.append(PairedTest(remarks=(remark(coefficient.permutation_reason),)))
            continue

        n_undefined = int(np.isnan(differences).sum())
        p_value = float("nan")
        if not np.isnan(value) and n_undefined <= MAX_UNDEFINED_SHARE * n:
            # The sums of a permutation may differ from the sample's in their last bits.
            larger = float((np.abs(differences) >= value - 1e-12).sum())
            p_value = (larger + 1) / (n - n_undefined + 1)

        remarks: tuple[Remark, ...] = ()
        if n_undefined:
            counts = {"n_undefined": n_undefined, "permutations": n}
            remarks = (remark(Note.UNDEFINED_PERMUTATIONS, **counts),)
        results.append(PairedTest(p_value, remarks=remarks))

    return results


def _mcnemar_test(pair: MetricPair) -> list[PairedTest]:
    """Return the exact p-value in each dimension; for their mean that of all pairs together."""
    panel = pair.panel
    if not isinstance(panel, PreferencePanel):
        return [PairedTest()] * len(panel.keys)

    is_counted = pair.points & panel.counted[pair.a] & panel.counted[pair.b]
    points_by_row: list[Mask] = []
    for number in range(len(panel.dimensions)):
        points_by_row.append(is_counted & (panel.dimension == number))
    points_by_row.append(is_counted)  # the mean of dimensions stands last

    results: list[PairedTest] = []
    for points in points_by_row:
        first = panel.outcomes[pair.a][points]
        second = panel.outcomes[pair.b][points]
        test = mcnemar(first, second, panel.captions[points])
        note = remark(
            Note.MCNEMAR,
            n_better=test.first_better,
            n_worse=test.second_better,
            n_pairs=test.n_pairs,
            asymptotic=test.asymptotic,
        )
        results.append(PairedTest(test.exact, remarks=(note,)))

    return results * len(panel.coefficients)


def _williams_test(pair: MetricPair) -> list[PairedTest]:
    """Test Pearson's r; `compare_metrics` leaves out the other coefficients."""
    panel = pair.panel
    results = [PairedTest()] * len(panel.keys)
    if not isinstance(panel, RatingPanel):
        return results

    for index, (_, name) in enumerate(panel.keys):
        coefficient = panel.find_coefficient(name)
        if coefficient is None or "williams" not in coefficient.tests:
            continue
        # The formula is of one correlation over independent points.
        if panel.level != "pooled":
            results[index] = PairedTest(remarks=(remark(Undefined.WILLIAMS_AT_LEVEL),))
            continue

        r_a, r_b = (float(metric.values[index]) for metric in pair.prepared)
        if np.isnan(r_a) or np.isnan(r_b):
            continue

        scores_a = panel.scores[pair.a][pair.points]
        scores_b = panel.scores[pair.b][pair.points]
        # The two correlations share the ratings: how alike the metrics are decides how sure their difference is.
        r_ab = float(Moments(scores_a, scores_b).pearson()[0])
        p_value = williams(r_a, r_b, r_ab, n=int(pair.points.sum()))[1]
        reason = (remark(Undefined.SAME_SCORES),) if np.isnan(p_value) else ()
        results[index] = PairedTest(p_value, remarks=reason)

    return results


def williams(r_a: float, r_b: float, r_ab: float, n: int) -> tuple[float, float]:
    """Run Williams' test of two correlations that share a variable: t with n - 3 degrees, two-sided p.

    Williams 1959; Steiger 1980, equation 7; Graham and Baldwin 2014 for metrics. The correlations
    keep their signs, where the scripts of WMT take them off.

    Args:
        r_a, r_b: of each metric with people.
        r_ab: of the metrics with each other.
        n: the number of data points.
    """
    # t has n - 3 degrees of freedom.
    if n < 4:
        return float("nan"), float("nan")

    determinant = 1 - r_a**2 - r_b**2 - r_ab**2 + 2 * r_a * r_b * r_ab
    mean = (r_a + r_b) / 2
    denominator = 2 * (n - 1) / (n - 3) * determinant + mean**2 * (1 - r_ab) ** 3
    if not denominator > 1e-14:
        return float("nan"), float("nan")

    from scipy.special import stdtr

    t = (r_a - r_b) * np.sqrt((n - 1) * (1 + r_ab) / denominator)
    return float(t), float(2 * stdtr(n - 3, -abs(t)))
