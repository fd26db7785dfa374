"""Intervals by resampling images: all captions and ratings of an image are drawn together.

    replicates = resample([statistic, another], n_images, replicates=1000, seed=0)
    replicates[0]                      # shape (n_values, replicates), of the first statistic
    statistic_intervals(statistic, values, replicates[0], n_images, options)

A statistic maps images' weights to values (see `weighted_pairs`); `number_images` numbers the images. All
statistics of one call meet the same replicates, so that differences between them are paired. The
replicates are drawn in blocks, each from a generator of its own, so that neither the number of
workers nor the number of statistics moves a result, and more replicates extend fewer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...datasets.cores import count_cores
from ...datasets.errors import InputError, unknown
from .distributions import normal_quantile, normal_share, student_quantile
from .remarks import Note, Remarked, remark
from .weighted_pairs import Floats, Ints, Statistic

#: The intervals by resampling images.
RESAMPLED_INTERVALS = ("expanded", "percentile", "bca")
INTERVALS = (*RESAMPLED_INTERVALS, "fisher", "none")
CORRECTIONS = ("holm", "bh", "none")
#: Tests of the difference of two metrics; see `significance`.
TESTS = ("bootstrap", "permutation", "williams", "mcnemar")
#: The units whose scores a permutation test swaps.
SWAPS = ("both", "image", "item")

#: Replicates that are evaluated at once. Another number would draw other replicates.
BLOCK = 64
#: The most replicates; ten times as many as anybody needs, and they fit into memory.
MAX_REPLICATES = 1_000_000
#: The jackknife leaves out one image at a time, or one of so many groups of images.
JACKKNIFE_GROUPS = 1000
#: With fewer images intervals cover less often than they say, see docs/statistics.md.
MIN_IMAGES = 10
#: With more than this share of undefined replicates there is no interval.
MAX_UNDEFINED_SHARE = 0.1


@dataclass(frozen=True)
class StatisticsOptions:
    """Options `statistics.*`.

    Attributes:
        interval: `expanded`, `percentile` or `bca` (bootstrap over images), `fisher` (formulas:
            Fisher's of Pearson's r, Wilson's of accuracy), or `none`, which leaves rank clusters out as well.
        replicates: of the bootstrap and of permutation tests.
        level: the share of intervals that shall cover; 1 - level is the level of tests.
        seed: of all random draws.
        correction: of p-values for the number of comparisons: `holm`, `bh` or `none`. Holm's needs many
            replicates: the smallest p is 2 / (replicates + 1), times the number of pairs.
        swap: the units whose scores a permutation test swaps: `both` systems and images, an
            `image` with all its captions, or an `item`.
        disattenuate: whether to add Pearson's r corrected for the ratings' noise.

    Raises:
        InputError: on a value that makes no sense.
    """

    interval: str = "expanded"
    replicates: int = 1000
    level: float = 0.95
    seed: int = 0
    correction: str = "bh"
    swap: str = "both"
    disattenuate: bool = False

    def __post_init__(self) -> None:
        for name, choices in (
            ("interval", INTERVALS),
            ("correction", CORRECTIONS),
            ("swap", SWAPS),
        ):
            if getattr(self, name) not in choices:
                raise unknown(f"value of statistics.{name}", str(getattr(self, name)), choices)
        for name, minimum in (("replicates", 1), ("seed", 0)):
            value: Any = getattr(self, name)
            # To Python `true` is a whole number.
            if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
                raise InputError(
                    f"statistics.{name} is {value!r}; a whole number from {minimum} on is expected"
                )

        if self.replicates > MAX_REPLICATES:
            raise InputError(
                f"statistics.replicates is {self.replicates:,}; at most {MAX_REPLICATES:,} is expected"
            )
        level: Any = self.level
        if not isinstance(level, float) or not 0 < level < 1:
            raise InputError(f"statistics.level is {level!r}; a number between 0 and 1 is expected")

    @property
    def uses_resampling(self) -> bool:
        """Say whether images are drawn at all."""
        return self.interval in RESAMPLED_INTERVALS


@dataclass(frozen=True)
class Interval(Remarked):
    """Both ends of an interval, NaN where there is none."""

    low: float = float("nan")
    high: float = float("nan")


def number_images(image_ids: Iterable[str]) -> tuple[Ints, int]:
    """Number the images of data points from 0, in order of first appearance, and count them."""
    codes, images = pd.factorize(pd.Series(list(image_ids), dtype=object))
    return codes.astype(np.int64), len(images)


def resample(
    statistics: Sequence[Statistic],
    n_units: int,
    replicates: int,
    seed: int = 0,
    *,
    workers: int | None = None,
    advance: Callable[[], None] | None = None,
) -> list[Floats]:
    """Evaluate statistics on bootstrap replicates: as many units as there are, drawn with replacement.

    Args:
        statistics: each from weights (n_units, n) to values (n_values, n).
        n_units: the number of images.
        replicates: the number of samples to draw.
        seed: of the draws.
        workers: threads; None for as many as there are cores. It moves no result.
        advance: called after each of `count_blocks(replicates)` blocks.

    Returns:
        The values of each statistic, shape (n_values, replicates).

    Raises:
        InputError: where there are fewer than two units or one replicate.
    """
    if n_units < 2:
        raise InputError(f"too few images to resample ({n_units}); two are needed")
    if replicates < 1:
        raise InputError(f"{replicates} replicates; a whole number from 1 on is expected")

    def evaluate(block: int) -> list[Floats]:
        # One draw for all statistics, so that their differences are of the same samples.
        weights = draw_weights(n_units, seed, block)
        values = [statistic(weights) for statistic in statistics]
        if advance is not None:
            advance()
        return values

    return run_blocks(evaluate, count_blocks(replicates), len(statistics), replicates, workers)


def count_blocks(replicates: int) -> int:
    """Return the number of blocks in which so many replicates are drawn."""
    return -(-replicates // BLOCK)


def count_steps(replicates: int, n_compared: int) -> int:
    """Return the number of steps in which so many metrics, or systems, are resampled and every two are compared."""
    return count_blocks(replicates) + n_compared * (n_compared - 1) // 2


def draw_weights(n_units: int, seed: int, block: int) -> Floats:
    """Draw how often each unit is in each replicate of a block, shape (n_units, BLOCK)."""
    # A generator for each block, so that no result depends on the number of threads.
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(block,)))
    draws = rng.integers(n_units, size=(n_units, BLOCK)) * BLOCK + np.arange(BLOCK)
    counts = np.bincount(draws.ravel(), minlength=n_units * BLOCK)
    return counts.reshape(n_units, BLOCK).astype(np.float64)


def jackknife(statistic: Statistic, n_units: int, *, workers: int | None = None) -> Floats:
    """Evaluate a statistic without one unit at a time, shape (n_values, n_units).

    Of more than `JACKKNIFE_GROUPS` units so many groups of them, of nearly equal size, are left out
    in turn: the acceleration of BCa is the same but for noise.
    """
    groups = min(n_units, JACKKNIFE_GROUPS)
    # In turn, so that groups differ in size by one image at most.
    group = np.arange(n_units) % groups

    def evaluate(block: int) -> list[Floats]:
        left_out = np.arange(block * BLOCK, min((block + 1) * BLOCK, groups))
        return [statistic((group[:, None] != left_out).astype(np.float64))]

    return run_blocks(evaluate, count_blocks(groups), 1, groups, workers)[0]


def run_blocks(
    evaluate: Callable[[int], list[Floats]],
    n_blocks: int,
    n_statistics: int,
    columns: int,
    workers: int | None = None,
) -> list[Floats]:
    """Evaluate blocks of replicates in threads and join them in order.

    Args:
        evaluate: from a block's number to the values of each statistic, a column a replicate.
        n_blocks, n_statistics: the numbers of blocks and statistics.
        columns: the number of replicates; further columns of the last block are cut off.
        workers: threads; None for as many as there are cores.
    """
    count = workers or count_cores()
    if count == 1 or n_blocks == 1:
        parts = [evaluate(block) for block in range(n_blocks)]
    else:
        with ThreadPoolExecutor(count) as pool:
            parts = list(pool.map(evaluate, range(n_blocks)))

    joined: list[Floats] = []
    for index in range(n_statistics):
        blocks = [part[index] for part in parts]
        joined.append(np.concatenate(blocks, axis=1)[:, :columns])
    return joined


def statistic_intervals(
    statistic: Statistic,
    values: Floats,
    replicates: Floats,
    n_units: int,
    options: StatisticsOptions,
    min_units: Sequence[int] | None = None,
) -> list[Interval]:
    """Return the interval of each value of a statistic.

    Args:
        statistic: of weights of shape (n_units, n).
        values: of the sample itself, shape (n_values,).
        replicates: shape (n_values, replicates), from `resample`.
        n_units: the number of images.
        options: their kind of interval; it resamples.
        min_units: of each value, as `resampling_interval` takes it; None for the usual number.
    """
    # As many evaluations as there are images: the other intervals do without.
    left_out = jackknife(statistic, n_units) if options.interval == "bca" else None
    return resampling_intervals(values, replicates, n_units, options, left_out, min_units)


def resampling_intervals(
    values: Floats,
    replicates: Floats,
    n_units: int,
    options: StatisticsOptions,
    left_out: Floats | None = None,
    min_units: Sequence[int] | None = None,
) -> list[Interval]:
    """Return the interval of each value from its replicates.

    Args:
        values, replicates, n_units, options, min_units: as `statistic_intervals` takes them.
        left_out: the values' jackknife, shape (n_values, n_units), for `bca`.
    """
    intervals: list[Interval] = []
    for index in range(len(values)):
        interval = resampling_interval(
            float(values[index]),
            replicates[index],
            n_units=n_units,
            options=options,
            left_out=None if left_out is None else left_out[index],
            min_units=MIN_IMAGES if min_units is None else min_units[index],
        )
        intervals.append(interval)
    return intervals


def resampling_interval(
    value: float,
    replicates: Floats,
    n_units: int,
    options: StatisticsOptions,
    left_out: Floats | None = None,
    min_units: int = MIN_IMAGES,
) -> Interval:
    """Return the interval of a value from its replicates, whoever drew them.

    Percentile: the quantiles of the replicates. Expanded (Hesterberg 2015): quantiles further out, see
    `expand_tail`. BCa (Efron 1987): the places of quantiles moved by the bias, from the share of replicates below
    the value, and by the acceleration, from the jackknife.

    Args:
        value: of the sample itself; NaN has no interval.
        replicates: shape (replicates,); undefined ones are left out and counted.
        n_units: the number of images that each replicate draws.
        options: the level and kind of interval; it resamples.
        left_out: its jackknife values, for `bca`.
        min_units: the number of images below which a remark warns of the interval.
    """
    if np.isnan(value):
        return Interval()

    defined = replicates[~np.isnan(replicates)]
    counts = {"n_undefined": len(replicates) - len(defined), "replicates": len(replicates)}
    if counts["n_undefined"] > MAX_UNDEFINED_SHARE * len(replicates):
        return Interval(remarks=(remark(Note.TOO_FEW_REPLICATES, **counts),))

    tails = np.array([(1 - options.level) / 2, (1 + options.level) / 2])
    if options.interval == "expanded":
        tails = np.array([expand_tail(share, n_units) for share in tails.tolist()])
    if options.interval == "bca":
        if left_out is None:
            raise ValueError("BCa needs the jackknife's values")
        tails = _bca_tails(value, defined, tails, left_out[~np.isnan(left_out)])
        if np.isnan(tails).any():
            side = "above" if value < defined.min() else "below"
            return Interval(remarks=(remark(Note.ONE_SIDED_REPLICATES, side=side),))

    low, high = np.quantile(defined, tails)
    remarks = [remark(Note.UNDEFINED_REPLICATES, **counts)] if counts["n_undefined"] else []
    if n_units < min_units:
        remarks.append(remark(Note.FEW_IMAGES, n_images=n_units, min_images=min_units))
    return Interval(float(low), float(high), remarks=tuple(remarks))


def expand_tail(share: float, n_units: int) -> float:
    """Return the share of replicates beyond which a share of samples lies (Hesterberg 2015).

    Replicates of n units vary less than samples do, as a variance with divisor n is less than one with n - 1, and
    as a normal distribution has lighter tails than Student's t with n - 1 degrees of freedom. So the normal quantile of
    the share gives way to Student's, times √(n / (n - 1)).

    Args:
        share: of one tail, from 0 to 1.
        n_units: the number of images, from 2 on.
    """
    quantile = student_quantile(share, n_units - 1)
    return normal_share(math.sqrt(n_units / (n_units - 1)) * quantile)


def narrow_tail(share: float, n_units: int) -> float:
    """Return the share of samples in a tail that holds a share of replicates: the inverse of `expand_tail`."""
    from scipy.special import stdtr

    quantile = normal_quantile(share) / math.sqrt(n_units / (n_units - 1))
    return float(stdtr(n_units - 1, quantile))


def two_sided_p_value(differences: Floats, n_units: int, options: StatisticsOptions) -> float:
    """Return the p-value of a difference by its replicates; NaN where too many are undefined.

    Twice the share of replicates, the sample itself among them, on the smaller side of 0; with expanded intervals,
    the share of samples that it stands for.

    Args:
        differences: of the replicates, shape (replicates,).
        n_units: the number of images that each replicate draws.
        options: the kind of interval.
    """
    defined = differences[~np.isnan(differences)]
    if len(defined) < (1 - MAX_UNDEFINED_SHARE) * len(differences):
        return float("nan")

    # Replicates of exactly 0 count on both sides.
    smaller = min((defined <= 0).sum(), (defined >= 0).sum())
    share = (float(smaller) + 1) / (len(defined) + 1)
    if options.interval == "expanded":
        share = narrow_tail(share, n_units)
    return min(1.0, 2 * share)


def student_p_value(
    value: float, differences: Floats, n_units: int, options: StatisticsOptions
) -> float:
    """Return the p-value of the difference of two metrics, by Student's t with n - 1 degrees of freedom.

    Its standard error is the standard deviation of the replicates. Neither so many replicates nor so few images allow a p
    below 2 / (replicates + 1) or 2 / 2^n. Percentile and BCa intervals keep `two_sided_p_value`, and so does a coefficient
    that is not `is_smooth`.

    Args:
        value: of the sample itself.
        differences: of the replicates, shape (replicates,).
        n_units: the number of images that each replicate draws.
        options: the kind of interval.
    """
    by_share = two_sided_p_value(differences, n_units, options)
    defined = differences[~np.isnan(differences)]
    if options.interval != "expanded" or np.isnan(by_share) or not np.isfinite(defined).all():
        return by_share

    error = float(defined.std())
    # No sign test of so few images, and no such number of replicates, could say less.
    floor = max(2 / (len(defined) + 1), 2.0 ** (1 - n_units))
    # Replicates that differ in the last bits alone have no error.
    if error <= 1e-14 * max(1.0, abs(value)):
        return 1.0 if abs(value) <= 1e-12 else min(1.0, floor)

    from scipy.special import stdtr

    return min(1.0, max(floor, 2 * float(stdtr(n_units - 1, -abs(value) / error))))


def smallest_p_value(n_units: int | None, options: StatisticsOptions) -> float:
    """Return the least p-value that a difference can have by `student_p_value`, whatever it is.

    Args:
        n_units: the number of images that each replicate draws; None for any number.
        options: the kind of interval and the number of replicates.
    """
    of_replicates = 2 / (options.replicates + 1)
    if options.interval != "expanded" or n_units is None:
        return min(1.0, of_replicates)
    return min(1.0, max(of_replicates, 2.0 ** (1 - n_units)))


def smallest_share_p_value(n_units: int | None, options: StatisticsOptions) -> float:
    """Return the least p-value that a difference can have by `two_sided_p_value`, as `smallest_p_value` does."""
    share = 1 / (options.replicates + 1)
    if options.interval == "expanded" and n_units is not None:
        share = narrow_tail(share, n_units)
    return min(1.0, 2 * share)


def _bca_tails(value: float, replicates: Floats, tails: Floats, left_out: Floats) -> Floats:
    """Return the places of BCa's quantiles; NaN where the bias is without bounds."""
    # Replicates that equal the value count half, as coefficients of few values tie.
    below = ((replicates < value).mean() + (replicates <= value).mean()) / 2
    bias = normal_quantile(below)

    deviations = left_out.mean() - left_out if len(left_out) else np.zeros(1)
    spread = (deviations**2).sum()
    # Values that differ in the last bits alone have no skew.
    flat = spread <= len(deviations) * (1e-14 * max(1.0, abs(value))) ** 2
    acceleration = 0.0 if flat else float((deviations**3).sum() / (6 * spread**1.5))
    with np.errstate(all="ignore"):
        moved = bias + np.array([normal_quantile(share) for share in tails.tolist()])
        quantiles = bias + moved / (1 - acceleration * moved)
    return np.array([normal_share(quantile) for quantile in quantiles.tolist()])


def fisher_interval(value: float, n_points: int, level: float) -> Interval:
    """Return Fisher's interval of Pearson's r: tanh(artanh r ± z / √(n - 3)) (Fisher 1921).

    It takes data points for independent, which the ratings of one image are not.
    """
    if np.isnan(value):
        return Interval()
    if n_points < 4:
        return Interval(remarks=(remark(Note.TOO_FEW_FOR_FISHER, n_points=n_points),))
    note = (remark(Note.FISHER),)
    if abs(value) >= 1:
        return Interval(value, value, remarks=note)

    margin = normal_quantile((1 + level) / 2) / np.sqrt(n_points - 3)
    low, high = np.tanh(np.arctanh(value) + margin * np.array([-1, 1]))
    return Interval(float(low), float(high), remarks=note)
