"""Intervals by resampling images: all captions and ratings of an image are drawn together.

    drawn = resample([statistic, another], n_images, replicates=1000, seed=0)
    drawn[0]                      # shape (n_values, replicates), of the first statistic
    interval(value, drawn[0][0], options, jackknife(statistic, n_images)[0])

A statistic maps images' weights to values (see `weighted`); `clusters` numbers the images. All
statistics of one call meet the same replicates, so that differences between them are paired. The
replicates are drawn in blocks, each from a generator of its own, so that neither the number of
workers nor the number of statistics moves a result, and more replicates extend fewer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy

from ...datasets.errors import InputError, unknown
from .weighted_coefficients import Floats, Ints, Statistic

INTERVALS = ("percentile", "bca", "fisher", "none")
CORRECTIONS = ("holm", "bh", "none")
#: Of the difference of two metrics; see `significance`.
TESTS = ("bootstrap", "permutation", "williams", "mcnemar")
#: What changes places at once in a permutation test.
SWAPS = ("both", "image", "item")

#: How many replicates are evaluated at once. Another number would draw other replicates.
BLOCK = 64
#: The jackknife leaves out one image at a time, or one of so many groups of images.
JACKKNIFE_GROUPS = 1000
#: With more than this share of undefined replicates there is no interval.
MAX_UNDEFINED_SHARE = 0.1


@dataclass(frozen=True)
class StatisticsOptions:
    """The options `statistics.*`.

    Attributes:
        interval: `percentile` or `bca` (bootstrap over images), `fisher` (formulas:
            Fisher's of Pearson's r, Wilson's of accuracy), or `none`, which leaves rank clusters out as well.
        replicates: of the bootstrap and of permutation tests.
        level: how often an interval shall cover; 1 - level is the level of tests.
        seed: of all that is drawn.
        correction: of p-values for the number of comparisons: `holm`, `bh` or `none`. Holm's wants
            replicates: the least p is 2 / (replicates + 1), times the number of pairs.
        swap: what changes places at once in a permutation test: `both` systems and images, an
            `image` with all its captions, or an `item`.
        disattenuate: whether to add Pearson's r corrected for the ratings' noise.

    Raises:
        InputError: on a value that makes no sense.
    """

    interval: str = "percentile"
    replicates: int = 1000
    level: float = 0.95
    seed: int = 0
    correction: str = "bh"
    swap: str = "both"
    disattenuate: bool = False

    def __post_init__(self) -> None:
        for name, known in (
            ("interval", INTERVALS),
            ("correction", CORRECTIONS),
            ("swap", SWAPS),
        ):
            if getattr(self, name) not in known:
                raise unknown(f"value of statistics.{name}", str(getattr(self, name)), known)
        for name, least in (("replicates", 1), ("seed", 0)):
            value: Any = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise InputError(
                    f"statistics.{name} is {value!r}; a whole number from {least} on is expected"
                )
        level: Any = self.level
        if not isinstance(level, float) or not 0 < level < 1:
            raise InputError(f"statistics.level is {level!r}; a number between 0 and 1 is expected")

    @property
    def uses_resampling(self) -> bool:
        """Whether images are drawn at all."""
        return self.interval in ("percentile", "bca")


@dataclass(frozen=True)
class Interval:
    """Both ends, NaN where there is no interval, and a remark."""

    low: float = float("nan")
    high: float = float("nan")
    note: str = ""


def number_images(image_ids: Iterable[str]) -> tuple[Ints, int]:
    """Each data point's image as a number from 0, in order of first appearance, and how many."""
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
    """Statistics of bootstrap replicates: as many units as there are, drawn with replacement.

    Args:
        statistics: each from weights (n_units, n) to values (n_values, n).
        n_units: how many images there are.
        replicates: how many samples to draw.
        seed: of the draws.
        workers: threads; None: as many as there are cores. It moves no result.
        advance: called after each of `blocks(replicates)` blocks.

    Returns:
        the values of each statistic, shape (n_values, replicates).

    Raises:
        InputError: where there are fewer than two units or one replicate.
    """
    if n_units < 2:
        raise InputError(f"too few images to resample ({n_units}); two are needed")
    if replicates < 1:
        raise InputError(f"{replicates} replicates; a whole number from 1 on is expected")

    def one(block: int) -> list[Floats]:
        weights = draw_weights(n_units, seed, block)
        found = [statistic(weights) for statistic in statistics]
        if advance is not None:
            advance()
        return found

    return run_blocks(one, count_blocks(replicates), len(statistics), replicates, workers)


def count_blocks(replicates: int) -> int:
    """In how many blocks so many replicates are drawn."""
    return -(-replicates // BLOCK)


def draw_weights(n_units: int, seed: int, block: int) -> Floats:
    """How often each unit is in each replicate of a block, shape (n_units, BLOCK)."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(block,)))
    drawn = rng.integers(n_units, size=(n_units, BLOCK)) * BLOCK + np.arange(BLOCK)
    counts = np.bincount(drawn.ravel(), minlength=n_units * BLOCK)
    return counts.reshape(n_units, BLOCK).astype(np.float64)


def jackknife(statistic: Statistic, n_units: int, *, workers: int | None = None) -> Floats:
    """The statistic without one unit at a time, shape (n_values, n_units).

    Of more than `JACKKNIFE_GROUPS` units so many groups of them, of nearly equal size, are left out
    in turn: the acceleration of BCa is the same but for noise.
    """
    groups = min(n_units, JACKKNIFE_GROUPS)
    group = np.arange(n_units) % groups

    def one(block: int) -> list[Floats]:
        left_out = np.arange(block * BLOCK, min((block + 1) * BLOCK, groups))
        return [statistic((group[:, None] != left_out).astype(np.float64))]

    return run_blocks(one, count_blocks(groups), 1, groups, workers)[0]


def run_blocks(
    one: Callable[[int], list[Floats]],
    n_blocks: int,
    n: int,
    columns: int,
    workers: int | None = None,
) -> list[Floats]:
    """Blocks of replicates side by side, in order, whoever computed them.

    Args:
        one: from a block's number to the values of each of `n` statistics, a column a replicate.
        n_blocks, n: how many blocks and statistics.
        columns: how many replicates in all; what the last block has beyond them is cut off.
        workers: threads; None: as many as there are cores.
    """
    count = workers or _cores()
    if count == 1 or n_blocks == 1:
        parts = [one(block) for block in range(n_blocks)]
    else:
        with ThreadPoolExecutor(count) as pool:
            parts = list(pool.map(one, range(n_blocks)))
    return [
        np.concatenate([part[index] for part in parts], axis=1)[:, :columns] for index in range(n)
    ]


def _cores() -> int:
    affinity = getattr(
        os, "sched_getaffinity", None
    )  # where the system has it: the cores we may use
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def resampling_interval(
    value: float, drawn: Floats, options: StatisticsOptions, left_out: Floats | None = None
) -> Interval:
    """The interval of a value from its replicates.

    Percentile: the quantiles of the replicates. BCa (Efron 1987): their places moved by the bias,
    from the share of replicates below the value, and by the acceleration, from the jackknife.

    Args:
        value: of the sample itself; NaN has no interval.
        drawn: its replicates, shape (replicates,); undefined ones are left out and counted.
        options: `interval` is `percentile` or `bca`.
        left_out: its jackknife values, for `bca`.
    """
    if np.isnan(value):
        return Interval()
    known = drawn[~np.isnan(drawn)]
    lost = len(drawn) - len(known)
    note = f"{lost} of {len(drawn)} replicates undefined" if lost else ""
    if lost > MAX_UNDEFINED_SHARE * len(drawn):
        return Interval(note=f"no interval: {note}")
    tails = np.array([(1 - options.level) / 2, (1 + options.level) / 2])
    if options.interval == "bca":
        if left_out is None:
            raise ValueError("BCa needs the jackknife's values")
        tails = _bca(value, known, tails, left_out[~np.isnan(left_out)])
        if np.isnan(tails).any():
            side = "above" if value < known.min() else "below"
            return Interval(note=f"no BCa interval: all replicates lie {side} the value")
    low, high = np.quantile(known, tails)
    return Interval(float(low), float(high), note)


def _bca(value: float, drawn: Floats, tails: Floats, left_out: Floats) -> Floats:
    """Where BCa looks for its quantiles; NaN where the bias is without bounds."""
    below = ((drawn < value).mean() + (drawn <= value).mean()) / 2
    bias = scipy.stats.norm.ppf(below)
    apart = left_out.mean() - left_out if len(left_out) else np.zeros(1)
    spread = (apart**2).sum()
    # Values that differ in the last bits alone have no skew.
    flat = spread <= len(apart) * (1e-14 * max(1.0, abs(value))) ** 2
    acceleration = 0.0 if flat else float((apart**3).sum() / (6 * spread**1.5))
    with np.errstate(all="ignore"):
        moved = bias + scipy.stats.norm.ppf(tails)
        return scipy.stats.norm.cdf(bias + moved / (1 - acceleration * moved))


def fisher_interval(value: float, n_points: int, level: float) -> Interval:
    """Fisher's interval of Pearson's r: tanh(artanh r ± z / √(n - 3)) (Fisher 1921).

    It takes data points for independent, which the ratings of one image are not.
    """
    if np.isnan(value):
        return Interval()
    if n_points < 4:
        return Interval(note=f"no Fisher interval: {n_points} data points; four are needed")
    if abs(value) >= 1:
        return Interval(value, value, "Fisher interval, data points taken as independent")
    reach = scipy.stats.norm.ppf((1 + level) / 2) / np.sqrt(n_points - 3)
    low, high = np.tanh(np.arctanh(value) + reach * np.array([-1, 1]))
    return Interval(float(low), float(high), "Fisher interval, data points taken as independent")
