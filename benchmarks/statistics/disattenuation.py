"""Pearson's r corrected for the noise of the ratings, `statistics.disattenuate=true`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from .bootstrap import Interval, StatisticsOptions, resample, statistic_intervals
from .panels import RatingPanel
from .rating_table import RatingTable
from .remarks import Remarked, Undefined, remark
from .weighted_pairs import Floats, Ints, Statistic, check_weights

#: The reliability of a protocol's data points, by what they are made of.
RELIABILITIES = {"per_rating": "icc1", "mean": "icc1k"}


@dataclass(frozen=True)
class Disattenuation(Remarked):
    """A metric's Pearson's r before and after correction.

    Attributes:
        metric, dimension: of the correlation.
        measure: the ratings' reliability, one of `RELIABILITIES`; None where it is not known.
        n_items: the items with two ratings.
        pearson, reliability, corrected: NaN where undefined.
        interval: of the corrected value.
    """

    metric: str
    dimension: str
    measure: str | None
    n_items: int
    pearson: float = float("nan")
    reliability: float = float("nan")
    corrected: float = float("nan")
    interval: Interval = field(default_factory=Interval)


def disattenuate(
    panel: RatingPanel, table: RatingTable, ratings: str, options: StatisticsOptions
) -> list[Disattenuation]:
    """Divide Pearson's r by the root of the ratings' reliability: r as ratings without noise would have it.

    Spearman 1904. The reliability is ICC(1,1) of single ratings and ICC(1,k) of mean ratings (Shrout
    and Fleiss 1979), estimated anew in each replicate. Values above 1 are noise of the estimate.

    Args:
        panel: the data points.
        table: the ratings of the items that have two.
        ratings: the protocol's choice of data points; the median has no reliability of its own.
        options: the kind of interval; there is none where they do not resample.

    Returns:
        The correction of each of the panel's metrics.
    """
    measure = RELIABILITIES.get(ratings)
    rows: list[Disattenuation] = []
    for metric in panel.metrics:
        rows.append(Disattenuation(metric, panel.dimension, measure, table.n_items))

    if measure is None:
        unknown = remark(Undefined.UNKNOWN_RELIABILITY, ratings=ratings)
        return [row.with_remarks(unknown) for row in rows]
    if table.n_items < 2:
        too_few = remark(Undefined.TOO_FEW_RERATED)
        return [row.with_remarks(too_few) for row in rows]

    image = panel.image_of_item[table.source_index]
    reliability = reliability_statistic(table, image, measure)
    # At level `pooled`, since it is single points whose noise the reliability measures.
    pearson_panel = replace(panel, coefficients=("pearson",), level="pooled")
    results: list[Disattenuation] = []
    for row in rows:
        points = panel.comparable_points(row.metric)
        if points is None:
            results.append(row.with_remarks(remark(Undefined.UNDEFINED_THIS_METRIC)))
            continue

        pearson = pearson_panel.statistic(row.metric, points)
        statistic = _corrected_statistic(pearson, reliability)
        results.append(_correct(row, statistic, panel.n_images, options))

    return results


def _correct(
    row: Disattenuation, statistic: Statistic, n_images: int, options: StatisticsOptions
) -> Disattenuation:
    """Return a row with its values, and its interval or the reason why there is none."""
    values = statistic(np.ones((n_images, 1)))[:, 0]
    pearson, reliability, corrected = (float(value) for value in values)
    row = replace(row, pearson=pearson, reliability=reliability, corrected=corrected)
    if not reliability > 0:
        return row.with_remarks(remark(Undefined.NO_RELIABILITY))
    if np.isnan(pearson):
        return row.with_remarks(remark(Undefined.UNDEFINED_PEARSON))

    if not options.uses_resampling or n_images < 2:
        return row
    (replicates,) = resample([statistic], n_images, options.replicates, options.seed)
    intervals = statistic_intervals(statistic, values, replicates, n_images, options)
    _, _, interval = intervals  # of r, of the reliability, and of the corrected value
    return replace(row, interval=interval, remarks=interval.remarks)


def _corrected_statistic(pearson: Statistic, reliability: Statistic) -> Statistic:
    """Return r, the reliability, and r over its root."""

    def statistic(weights: Floats) -> Floats:
        # Both on the same images, so that the interval knows how they move together.
        r = pearson(weights)[0]
        share = reliability(weights)[0]
        with np.errstate(all="ignore"):
            return np.stack([r, share, np.where(share > 0, r / np.sqrt(share), np.nan)])

    return statistic


def reliability_statistic(table: RatingTable, image: Ints, measure: str) -> Statistic:
    """Return `rater_agreement.intraclass` as a function of the images' weights.

    Args:
        table: the ratings.
        image: each item's, shape (n_items,).
        measure: `icc1` or `icc1k`.
    """
    count = table.count.astype(np.float64)
    value = table.value - table.value.mean()
    means = np.bincount(table.item, value) / count
    squares_within = np.bincount(table.item, (value - means[table.item]) ** 2)

    columns = (
        np.ones(len(count)),
        count,
        count**2,
        count * means,
        count * means**2,
        squares_within,
    )
    n_images = int(image.max()) + 1
    sums = np.stack([np.bincount(image, column, minlength=n_images) for column in columns])

    def statistic(weights: Floats) -> Floats:
        checked = check_weights(weights, n_images)
        n, total, squares, value_sum, square_sum, within = np.einsum("su,ub->sb", sums, checked)
        with np.errstate(all="ignore"):
            between = (square_sum - value_sum**2 / total) / (n - 1)
            within = within / (total - n)
            k = (total - squares / total) / (n - 1)
            denominator = between if measure == "icc1k" else between + (k - 1) * within
            return ((between - within) / denominator)[None]

    return statistic
