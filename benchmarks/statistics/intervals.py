"""What the coefficients of a measured dataset are worth: intervals, and which metrics differ.

Joins a dataset's data points to `bootstrap` and `significance`, which know arrays alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from .bootstrap import (
    Interval,
    StatisticsOptions,
    fisher_interval,
    jackknife,
    number_images,
    resample,
    resampling_interval,
)
from .rater_agreement import RatingTable
from .significance import (
    MetricDifference,
    Panel,
    PreferencePanel,
    PreparedMetric,
    RatingPanel,
    compare_metrics,
    correct_p_values,
    rank_clusters,
)
from .weighted_coefficients import Floats, Ints, Statistic, check_weights
from .weighted_levels import prepare_at_level

#: A row of correlations.csv by its metric, dimension and coefficient.
RowKey = tuple[str, str, str]

SIGNIFICANCE_COLUMNS = (
    "dataset",
    "protocol",
    "dimension",
    "coefficient",
    "metric_a",
    "metric_b",
    "value_a",
    "value_b",
    "difference",
    "ci_low",
    "ci_high",
    "test",
    "p_value",
    "p_holm",
    "p_bh",
    "n_ratings",
    "n_images",
    "replicates",
    "note",
)


DISATTENUATED_COLUMNS = (
    "dataset",
    "protocol",
    "dimension",
    "metric",
    "pearson",
    "reliability",
    "measure",
    "corrected",
    "ci_low",
    "ci_high",
    "n_items",
    "note",
)
#: Which reliability the ratings have that a protocol makes its data points of.
RELIABILITIES = {"per_rating": "icc1", "mean": "icc1k"}


def p_value_column(correction: str) -> str:
    """The column of `SIGNIFICANCE_COLUMNS` with the p-values by a correction of `Statistics`."""
    return "p_value" if correction == "none" else f"p_{correction}"


@dataclass(frozen=True)
class ExtraRow:
    """A row that is no metric's score on the panel's points, such as a ceiling.

    Attributes:
        key: its row.
        points: scores, ratings and items of each draw whose mean it is.
    """

    key: RowKey
    points: Sequence[tuple[Floats, Floats, Ints]]


class Uncertainty:
    """Intervals and differences of the metrics of one dataset.

    Args:
        panels: its data points, by dimension, and its preferences.
        metrics: which of the panels' metrics compete for ranks.
        options: what to compute.
        tests: which tests of differences.
        extras: further rows that need an interval, by the panel on whose images they rest.
        image_of_item: each item's image in each panel, -1 where it has no data point there.
        advance: called after each block of replicates.

    Attributes:
        intervals: of every row, by its key; not there without `options.resamples`.
        differences: of every two metrics.
    """

    def __init__(
        self,
        panels: Sequence[Panel],
        metrics: Sequence[str],
        options: StatisticsOptions,
        tests: Sequence[str] = ("bootstrap",),
        *,
        extras: Mapping[int, Sequence[ExtraRow]] | None = None,
        image_of_item: Sequence[Ints] = (),
        advance: Callable[[], None] | None = None,
    ) -> None:
        self.options = options
        self.intervals: dict[RowKey, Interval] = {}
        self.differences: list[MetricDifference] = []
        for index, panel in enumerate(panels):
            prepared = {
                metric: PreparedMetric.prepare(panel, metric, keep)
                for metric in panel.metrics
                if (keep := panel.comparable_points(metric)) is not None
            }
            named: dict[str, tuple[Statistic, list[RowKey]]] = {
                metric: (one.statistic, [(metric, *key) for key in panel.keys])
                for metric, one in prepared.items()
            }
            for extra in (extras or {}).get(index, ()):
                one = _mean_of(extra, image_of_item[index])
                named[" ".join(extra.key)] = one, [extra.key]
            if panel.n_images < 2:
                note = f"no interval: too few images ({panel.n_images}); two are needed"
                for _, keys in named.values():
                    self.intervals.update(dict.fromkeys(keys, Interval(note=note)))
                continue
            found = resample(
                [one for one, _ in named.values()],
                panel.n_images,
                options.replicates,
                options.seed,
                advance=advance,
            )
            drawn = dict(zip(named, found, strict=True))
            for name, (one, keys) in named.items():
                self._intervals(one, keys, drawn[name], panel.n_images)
            self.differences += compare_metrics(
                panel, metrics, prepared, drawn, options, tests, advance=advance
            )

    def _intervals(
        self, one: Statistic, keys: Sequence[RowKey], drawn: Floats, n_images: int
    ) -> None:
        values = one(np.ones((n_images, 1)))[:, 0]
        left_out = (
            jackknife(one, n_images) if self.options.interval == "bca" else [None] * len(keys)
        )
        for key, value, row, out in zip(keys, values, drawn, left_out, strict=True):
            self.intervals[key] = resampling_interval(float(value), row, self.options, out)

    def compute_ranks(self, values: Mapping[RowKey, float]) -> dict[RowKey, int]:
        """Rank clusters by `options.correction` at level 1 - `options.level`.

        Args:
            values: the coefficients of the metrics that compete.
        """
        found: dict[RowKey, int] = {}
        tested = [d for d in self.differences if d.test == "bootstrap"]
        for dimension, coefficient in dict.fromkeys((d.dimension, d.coefficient) for d in tested):
            here = [d for d in tested if (d.dimension, d.coefficient) == (dimension, coefficient)]
            p_values = correct_p_values([d.result.p_value for d in here], self.options.correction)
            p = {
                frozenset((d.metric_a, d.metric_b)): float(v)
                for d, v in zip(here, p_values, strict=True)
            }
            competing = {
                metric: value
                for (metric, *key), value in values.items()
                if key == [dimension, coefficient]
            }
            ranks = rank_clusters(competing, p, 1 - self.options.level)
            found |= {(metric, dimension, coefficient): rank for metric, rank in ranks.items()}
        return found

    def difference_table(self, dataset: str, protocol: str) -> pd.DataFrame:
        """The differences, columns `SIGNIFICANCE_COLUMNS`; p-values are corrected within a
        dimension, coefficient and test.
        """
        rows: list[dict[str, Any]] = []
        for one in self.differences:
            row = {"dataset": dataset, "protocol": protocol, **asdict(one)}
            row["difference"] = one.value_a - one.value_b
            row["ci_low"], row["ci_high"] = one.result.interval.low, one.result.interval.high
            row["p_value"], row["note"] = one.result.p_value, one.result.note
            row["n_ratings"] = one.n_points
            row["replicates"] = 0 if one.test == "williams" else self.options.replicates
            rows.append(row)
        frame = pd.DataFrame(rows, columns=pd.Index(SIGNIFICANCE_COLUMNS))
        for _, group in frame.groupby(["dimension", "coefficient", "test"], sort=False):
            for correction in ("holm", "bh"):
                frame.loc[group.index, f"p_{correction}"] = correct_p_values(
                    group["p_value"], correction
                )
        return frame


def _mean_of(extra: ExtraRow, image_of_item: Ints) -> Statistic:
    """The mean over draws of a coefficient, on the images of the draws' items."""
    draws = [
        prepare_at_level(
            "pooled", scores, ratings, pd.DataFrame(), [extra.key[2]], image_of_item[item]
        )
        for scores, ratings, item in extra.points
    ]

    def statistic(weights: Floats) -> Floats:
        return np.mean([draw(weights) for draw in draws], axis=0)

    return statistic


def make_rating_panel(
    items: pd.DataFrame,
    points: pd.DataFrame,
    scores: Mapping[str, Floats],
    dimension: str,
    coefficients: Iterable[str],
    *,
    drop: bool,
    level: str = "pooled",
) -> tuple[RatingPanel, Ints]:
    """A dimension's data points, and the image of each item there, -1 where it has no point.

    Args:
        items: the benchmark's, with `item_id, image_id, system`.
        points: columns `item_id, value`.
        scores: of each metric, more is better, shape (n_items,).
        dimension, coefficients, drop, level: see `Rated` and `Panel`.
    """
    item = pd.Index(items["item_id"]).get_indexer(pd.Index(points["item_id"])).astype(np.int64)
    image, n_images = number_images(items["image_id"].iloc[item])
    of_item = np.full(len(items), -1, dtype=np.int64)
    of_item[item] = image
    return RatingPanel(
        image=image,
        n_images=n_images,
        item=item,
        system=_systems(items["system"].iloc[item]),
        drops_undefined=drop,
        dimension=dimension,
        coefficients=tuple(coefficients),
        scores={metric: values[item] for metric, values in scores.items()},
        ratings=points["value"].to_numpy(dtype=np.float64),
        level=level,
    ), of_item


def _systems(systems: pd.Series) -> Ints | None:
    """Each point's system as a number; None where there are not two."""
    codes, names = pd.factorize(systems.astype(object), use_na_sentinel=False)
    return codes.astype(np.int64) if len(names) > 1 else None


def make_preference_panel(
    items: pd.DataFrame,
    pairs: pd.DataFrame,
    scores: Mapping[str, Floats],
    categories: Sequence[str],
    mean: str,
    *,
    drop: bool,
) -> PreferencePanel:
    """Preference pairs on which people decided; the image of a pair is its first caption's.

    Args:
        items: the benchmark's, with `item_id, image_id`.
        pairs: columns `item_a, item_b, category, winner`, without ties.
        scores: of each metric, more is better, shape (n_items,).
        categories, mean, drop: see `Preferred` and `Panel`.
    """
    index = pd.Index(items["item_id"])
    left, right = (index.get_indexer(pd.Index(pairs[side])) for side in ("item_a", "item_b"))
    image, n_images = number_images(items["image_id"].iloc[left])
    prefers_a = (pairs["winner"] == "a").to_numpy()
    won: dict[str, Floats] = {}
    for metric, values in scores.items():
        a, b = values[left], values[right]
        outcome = np.where(prefers_a, a > b, b > a) + (a == b) / 2
        won[metric] = np.where(np.isnan(a) | np.isnan(b), np.nan, outcome)
    return PreferencePanel(
        image=image,
        n_images=n_images,
        item=np.arange(len(pairs), dtype=np.int64),
        system=None,
        drops_undefined=drop,
        categories=tuple(categories),
        category=pd.Index(categories).get_indexer(pd.Index(pairs["category"])).astype(np.int64),
        outcomes=won,
        mean_category=mean,
    )


def disattenuate(
    panel: RatingPanel, table: RatingTable, of_item: Ints, ratings: str, options: StatisticsOptions
) -> list[dict[str, Any]]:
    """Pearson's r over the root of the ratings' reliability: what it would be of ratings without noise.

    Spearman 1904. The reliability is ICC(1,1) of single ratings and ICC(1,k) of mean ratings (Shrout
    and Fleiss 1979), estimated anew in each replicate. Above 1 is noise of the estimate.

    Args:
        panel: the data points.
        table: the ratings of the items that have two.
        of_item: each item's image in the panel, shape (n_items,).
        ratings: of what the points are made; the median has no reliability of its own.
        options: what interval; none where they do not resample.

    Returns:
        rows of `DISATTENUATED_COLUMNS`, a metric each.
    """
    measure = RELIABILITIES.get(ratings)
    alone = replace(panel, coefficients=("pearson",), level="pooled")
    reliability = None
    if measure is not None and table.n_items >= 2:
        reliability = _reliability(table, of_item[table.source_index], measure)
    ones = np.ones((panel.n_images, 1))
    rows: list[dict[str, Any]] = []
    for metric in panel.metrics:
        keep = panel.comparable_points(metric)
        row: dict[str, Any] = {"metric": metric, "dimension": panel.dimension, "measure": measure}
        row |= {"pearson": float("nan"), "reliability": float("nan"), "n_items": table.n_items}
        row |= {"corrected": float("nan"), "note": ""}
        rows.append(row)
        if measure is None:
            row["note"] = f"undefined: the {ratings} of ratings has no known reliability"
        elif reliability is None:
            row["note"] = "undefined: fewer than two items have two ratings"
        elif keep is None:
            row["note"] = "undefined: the metric has undefined scores"
        else:
            statistic = _over_root(alone.statistic(metric, keep), reliability)
            pearson, share, corrected_r = (float(v) for v in statistic(ones)[:, 0])
            row |= {"pearson": pearson, "reliability": share, "corrected": corrected_r}
            if not share > 0:
                row["note"] = "undefined: the ratings' reliability is not above 0"
            elif np.isnan(pearson):
                row["note"] = "undefined: Pearson's r is"
            elif options.uses_resampling and panel.n_images > 1:
                drawn = resample([statistic], panel.n_images, options.replicates, options.seed)[0]
                left_out = (
                    jackknife(statistic, panel.n_images) if options.interval == "bca" else None
                )
                found = resampling_interval(
                    corrected_r, drawn[2], options, None if left_out is None else left_out[2]
                )
                row |= {"ci_low": found.low, "ci_high": found.high, "note": found.note}
    return rows


def _over_root(pearson: Statistic, reliability: Statistic) -> Statistic:
    """r, the reliability, and r over its root."""

    def statistic(weights: Floats) -> Floats:
        r, share = pearson(weights)[0], reliability(weights)[0]
        with np.errstate(all="ignore"):
            return np.stack([r, share, np.where(share > 0, r / np.sqrt(share), np.nan)])

    return statistic


def _reliability(table: RatingTable, image: Ints, measure: str) -> Statistic:
    """`agreement.intraclass` of weighted images.

    Args:
        table: the ratings.
        image: each item's, shape (n_items,).
        measure: `icc1` or `icc1k`.
    """
    count = table.count.astype(np.float64)
    value = table.value - table.value.mean()
    means = np.bincount(table.item, value) / count
    apart = np.bincount(table.item, (value - means[table.item]) ** 2)
    columns = (np.ones(len(count)), count, count**2, count * means, count * means**2, apart)
    n_images = int(image.max()) + 1
    sums = np.stack([np.bincount(image, column, minlength=n_images) for column in columns])

    def statistic(weights: Floats) -> Floats:
        given = check_weights(weights, n_images)
        n, total, squares, value_sum, square_sum, within = np.einsum("su,ub->sb", sums, given)
        with np.errstate(all="ignore"):
            between = (square_sum - value_sum**2 / total) / (n - 1)
            within = within / (total - n)
            k = (total - squares / total) / (n - 1)
            below = between if measure == "icc1k" else between + (k - 1) * within
            return ((between - within) / below)[None]

    return statistic


def fisher_intervals(rows: Iterable[Mapping[str, Any]], level: float) -> dict[RowKey, Interval]:
    """Fisher's interval of every Pearson's r; the other coefficients of ratings have none."""
    found: dict[RowKey, Interval] = {}
    for row in rows:
        key = (row["metric"], row["dimension"], row["coefficient"])
        if row["coefficient"] == "pearson":
            found[key] = fisher_interval(float(row["value"]), int(row["n_ratings"]), level)
        elif row["coefficient"] != "accuracy":  # which has Wilson's
            found[key] = Interval(note=f"no Fisher interval of {row['coefficient']}")
    return found
