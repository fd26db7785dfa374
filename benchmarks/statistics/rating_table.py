"""Ratings of items by several raters as flat arrays, virtual raters, and what people reach as if they were metrics.

`rater_agreement` measures a `RatingTable`; commands make one of a dataset's ratings. Virtual raters are those of Scott
et al. 2023: an item's ratings are sorted, so that rater X holds the lowest, Y the middle and Z the highest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...datasets.schema import Scale
from .coefficients.coefficient import CoefficientValue, correlate
from .distributions import mid_ranks
from .remarks import Note, Remark, Remarked, Undefined, remark

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class AgreementMeasure(Remarked):
    """A measure's value, its standard deviation over draws, and the numbers of items and ratings.

    Where it is undefined the value is NaN and a remark is the reason.
    """

    value: float
    n_items: int
    std: float = float("nan")
    n_ratings: int = 0

    @classmethod
    def undefined(cls, code: Undefined, n_items: int = 0, **values: Any) -> Self:
        """Return NaN with a reason."""
        return cls(float("nan"), n_items, remarks=(remark(code, **values),))


def average_draws(draws: Sequence[CoefficientValue], n_items: int) -> AgreementMeasure:
    """Return mean and standard deviation over draws; of a single draw there is no deviation."""
    values = np.array([draw.value for draw in draws])
    defined = values[~np.isnan(values)]
    if not defined.size:
        return AgreementMeasure(float("nan"), n_items, remarks=draws[0].remarks)

    std = float("nan")
    if len(defined) > 1:
        std = float(defined.std(ddof=1))

    remarks: tuple[Remark, ...] = ()
    n_undefined = len(values) - len(defined)
    if n_undefined:
        remarks = (remark(Note.UNDEFINED_DRAWS, n_undefined=n_undefined, draws=len(values)),)
    return AgreementMeasure(float(defined.mean()), n_items, std, remarks=remarks)


@dataclass(frozen=True)
class RatingTable:
    """The ratings of the items that have two at least, flat, item after item.

    Attributes:
        item: each rating's item, ascending from 0, shape (n_ratings,).
        rater: each rating's rater, as a number from 0, ascending within an item, shape (n_ratings,).
        value: shape (n_ratings,).
        source_index: each item's index among those that the table was made of, shape (n_items,).
        n_left_out: the number of items that had fewer ratings than `min_ratings`.
        min_ratings: the number of ratings that an item has at least.
        is_anonymous: whether a rater's number says only where a rating stands among an item's.
        n_orders: how often each item stands in the table: 2 of pairs of captions, in both orders.
    """

    item: Ints
    rater: Ints
    value: Floats
    source_index: Ints
    n_left_out: int = 0
    min_ratings: int = 2
    is_anonymous: bool = False
    n_orders: int = 1

    @classmethod
    def from_ratings(
        cls,
        ratings: pd.DataFrame,
        items: Iterable[str],
        dimension: str,
        *,
        is_anonymous: bool = False,
        min_ratings: int = 2,
        n_orders: int = 1,
    ) -> RatingTable:
        """Make a table of a `CaptionSet`'s ratings: those of one dimension and of the given items.

        Items with fewer than `min_ratings` are left out.
        """
        index = pd.Index(list(items)).get_indexer(pd.Index(ratings["item_id"]))
        mask = (index >= 0) & (ratings["dimension"] == dimension).to_numpy()

        # By items, then by raters' names: the order of the file's rows moves nothing.
        codes = pd.factorize(ratings.loc[mask, "rater"].astype(str), sort=True)[0]
        order = np.lexsort((codes, index[mask]))
        value = ratings.loc[mask, "value"].to_numpy(dtype=np.float64)[order]
        index = index[mask][order]

        table = cls(
            item=_renumber(index),
            rater=codes[order].astype(np.int64),
            value=value,
            source_index=np.unique(index).astype(np.int64),
            is_anonymous=is_anonymous,
            n_orders=n_orders,
        )
        return table.at_least(min_ratings)

    def at_least(self, min_ratings: int) -> RatingTable:
        """Return the items with so many ratings."""
        keeps_item = self.count >= min_ratings
        mask = keeps_item[self.item]
        return RatingTable(
            item=_renumber(self.item[mask]),
            rater=self.rater[mask],
            value=self.value[mask],
            source_index=self.source_index[keeps_item],
            n_left_out=self.n_left_out + int((~keeps_item).sum()),
            min_ratings=min_ratings,
            is_anonymous=self.is_anonymous,
            n_orders=self.n_orders,
        )

    @cached_property
    def count(self) -> Ints:
        """The number of ratings of each item, shape (n_items,)."""
        return np.bincount(self.item).astype(np.int64)

    @property
    def n_items(self) -> int:
        return len(self.count)

    @cached_property
    def position(self) -> Ints:
        """Each rating's position within its item, from 0, shape (n_ratings,)."""
        starts = np.cumsum(self.count) - self.count
        return np.arange(len(self.item), dtype=np.int64) - starts[self.item]

    @cached_property
    def means(self) -> Floats:
        """Each item's mean rating, shape (n_items,); rounded, so that equal means are tied."""
        return np.round(np.bincount(self.item, self.value) / self.count, 9)

    @property
    def is_constant(self) -> bool:
        return bool(np.ptp(self.value) == 0)

    @property
    def has_sorted_ratings(self) -> bool:
        """Tell whether no rating is below that of a lower-numbered rater: a release of sorted ratings."""
        same_item = np.diff(self.item) == 0
        steps = np.diff(self.value)[same_item]
        return bool((steps >= 0).all()) and int((steps > 0).sum()) > 20

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """A count of the items that are left out, if any."""
        if not self.n_left_out:
            return ()
        n_items = self.n_left_out // self.n_orders
        counts = {"min_ratings": self.min_ratings, "n_items": n_items}
        return (remark(Note.TOO_FEW_RATINGS, **counts),)

    def shuffle_values(self, rng: np.random.Generator) -> Floats:
        """Return the values in random order within each item, whatever the raters are called."""
        # In ascending order first, so that raters' names do not move what is drawn.
        ascending = self.value[np.lexsort((self.value, self.item))]
        return ascending[np.argsort(self.item + rng.random(len(self.item)))]

    def draw_ratings(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw so many ratings of each item without replacement, shape (n_items, size)."""
        return self.shuffle_values(rng)[self.position < size].reshape(-1, size)

    def rating_pairs(self) -> tuple[Ints, Ints]:
        """Return every two ratings of an item, as indices; the first is the lower-numbered rater's."""
        first = [np.empty(0, dtype=np.int64)]
        second = [np.empty(0, dtype=np.int64)]

        # Step by step to the next rating, the one after it, and so on, of those that have one.
        followers = self.count[self.item] - self.position - 1
        index = np.arange(len(self.item), dtype=np.int64)
        for step in range(1, int(self.count.max(initial=1))):
            index = index[followers[index] >= step]
            first.append(index)
            second.append(index + step)

        return np.concatenate(first), np.concatenate(second)


def _renumber(ascending: NDArray[Any]) -> Ints:
    """Return 0 for the first value, 1 for the next different one, and so on."""
    if not ascending.size:
        return np.empty(0, dtype=np.int64)
    return np.concatenate([[0], np.cumsum(np.diff(ascending) != 0)]).astype(np.int64)


def count_by_level(ratings: pd.DataFrame, scale: Scale) -> dict[float, int]:
    """Count items by their mean rating, to the nearest level of the scale, halves up.

    The figures of rating distributions: Scott et al. 2023, Figure 4 (rounded averages); Levinboim et
    al. 2021, Figure 2 (p̂, in eighths); Lee et al. 2021, Figure 4. A scale without a step is cut into
    ten.

    Args:
        ratings: of one dimension, columns `item_id` and `value`.
        scale: the dimension's.

    Returns:
        Level → number of items, every level of the scale in it.
    """
    means = ratings.groupby("item_id", sort=False)["value"].mean().to_numpy(dtype=float)
    levels = scale_levels(scale)
    counts = np.bincount(nearest_level(means, scale), minlength=len(levels))
    return {level: int(counts[k]) for k, level in enumerate(levels)}


def scale_levels(scale: Scale) -> list[float]:
    """Return the levels of a scale; one without a step is cut into ten."""
    step = _step(scale)
    n_steps = round((scale.high - scale.low) / step)
    return [round(scale.low + k * step, 9) for k in range(n_steps + 1)]


def nearest_level(values: Floats, scale: Scale) -> Ints:
    """Return the index of the scale's level that each value is nearest to, halves up, shape (n,)."""
    # A mean that is a half but for the last bit counts as a half.
    return np.floor((values - scale.low) / _step(scale) + 0.5 + 1e-9).astype(np.int64)


def _step(scale: Scale) -> float:
    """Return the distance of two levels; 1 on a scale of a single value."""
    return scale.step or (scale.high - scale.low) / 10 or 1.0


#: What people reach, below the metrics of a benchmark, as its tables call it. A metric can exceed each of these, so that
#: nothing but the names in files calls them ceilings.
CEILINGS = {
    "ceiling_one_vs_one": "one person against another",
    "ceiling_one_vs_rest": "best virtual rater",
    "ceiling_oracle": "oracle (mean rating)",
}


@dataclass(frozen=True)
class Ceiling(AgreementMeasure):
    """The coefficient that people reach, with the data points that it is the coefficient of.

    Attributes:
        points: for each draw, whose mean it is, the scores, the ratings, and the indices of the items
            that the table was made of, shape (n_points,) each.
    """

    points: tuple[tuple[Floats, Floats, Ints], ...] = field(default=(), compare=False)


def make_virtual_raters(ratings: Floats) -> Floats:
    """Sort each item's ratings, so that rater X holds the lowest, Y the middle, Z the highest.

    Scott et al. 2023, section 4.1.

    Args:
        ratings: shape (n_items, n_raters).
    """
    return np.sort(ratings, axis=1)


def correlate_with_others(
    ratings: Floats, rater: int, coefficient: str = "tau_c"
) -> CoefficientValue:
    """Correlate one rater, repeated, with all others end to end ("method A"); τ_c by default.

    Scott et al. 2023, Table 3, rows τ_X-YZ and so on.

    Args:
        ratings: shape (n_items, n_raters).
        rater: the column that is compared with the other columns.
        coefficient: the name of a coefficient of ratings.
    """
    return correlate(*_pair_with_others(ratings, rater), coefficient)


def _pair_with_others(ratings: Floats, rater: int) -> tuple[Floats, Floats]:
    """Return the data points of `correlate_with_others`: scores and ratings."""
    other_ratings = np.delete(ratings, rater, axis=1)
    return np.tile(ratings[:, rater], other_ratings.shape[1]), other_ratings.T.ravel()


def kendall_w(ratings: Floats) -> float:
    """Compute Kendall's coefficient of concordance with the correction for ties, in [0, 1].

    Kendall and Smith 1939. NaN where every rater gives all items the same rating.

    Args:
        ratings: shape (n_items, n_raters).
    """
    n, m = ratings.shape

    ranks = mid_ranks(ratings)
    sums = ranks.sum(axis=1)
    spread = float(((sums - sums.mean()) ** 2).sum())

    ties = 0.0
    for column in ratings.T:
        counts = np.unique(column, return_counts=True)[1].astype(float)
        ties += float((counts**3 - counts).sum())

    denominator = m**2 * (n**3 - n) - m * ties
    return 12 * spread / denominator if denominator else float("nan")


def fleiss_kappa(ratings: Floats) -> float:
    """Compute Fleiss' κ of agreement on categories beyond chance (Fleiss 1971).

    NaN where only one category is ever used.

    Args:
        ratings: shape (n_items, n_raters), each value a category.
    """
    n, m = ratings.shape
    item = np.repeat(np.arange(n, dtype=np.int64), m)
    shares = np.unique(ratings, return_counts=True)[1] / (n * m)
    observed = float(count_equal_pairs(item, ratings.ravel(), n).sum() / (n * m * (m - 1)))
    chance = float((shares**2).sum())
    return (observed - chance) / (1 - chance) if len(shares) > 1 else float("nan")


def count_equal_pairs(item: Ints, values: Floats, n_items: int) -> Floats:
    """Count the ordered pairs of equal ratings of each item, shape (n_items,)."""
    categories, codes = np.unique(values, return_inverse=True)
    cells, counts = np.unique(item * len(categories) + codes, return_counts=True)
    weights = counts * (counts - 1.0)
    return np.bincount(cells // len(categories), weights, minlength=n_items).astype(np.float64)


def measure_virtual_raters(
    table: RatingTable, scale: Scale, seed: int = 0, draws: int = 20
) -> dict[str, AgreementMeasure]:
    """Compute τ_X-YZ, τ_Y-XZ, τ_Z-XY, Kendall's W and Fleiss' κ of three virtual raters.

    Scott et al. 2023, Table 3. An item's three ratings are taken as they are; where an item has
    more, three of each are drawn `draws` times and the results averaged.
    """
    taus = ("tau_X-YZ", "tau_Y-XZ", "tau_Z-XY")
    highest_levels = {"fleiss_kappa": scale.high}
    if scale.step and round((scale.high - scale.low) / scale.step) == 4:
        highest_levels["fleiss_kappa_4=5"] = scale.high - scale.step  # the two highest count as one

    table = table.at_least(3)
    if not table.n_items:
        undefined = AgreementMeasure.undefined(Undefined.NO_THIRD_RATING)
        return dict.fromkeys((*taus, "kendall_w", *highest_levels), undefined)

    values_by_name: dict[str, list[CoefficientValue]] = {}
    for name in (*taus, "kendall_w", *highest_levels):
        values_by_name[name] = []
    raters = _draw_virtual_raters(table, 3, seed, draws)
    for ratings in raters:
        for rater, name in enumerate(taus):
            values_by_name[name].append(correlate_with_others(ratings, rater))

        concordance = _defined_or(kendall_w(ratings), Undefined.CONSTANT_RATERS)
        values_by_name["kendall_w"].append(concordance)

        for name, highest in highest_levels.items():
            kappa = fleiss_kappa(np.minimum(ratings, highest))
            values_by_name[name].append(_defined_or(kappa, Undefined.CONSTANT_RATINGS))

    remarks = list(table.remarks)
    if len(raters) > 1:
        remarks.insert(0, remark(Note.DRAWS_OF_THREE, draws=draws))
    measures: dict[str, AgreementMeasure] = {}
    for name, values in values_by_name.items():
        measures[name] = average_draws(values, table.n_items).with_remarks(*remarks)
    return measures


def _draw_virtual_raters(table: RatingTable, size: int, seed: int, draws: int) -> list[Floats]:
    """Return the virtual raters of every draw; a single draw where nothing is left to chance."""
    rng = np.random.default_rng(seed)
    times = 1 if (table.count == size).all() else draws
    return [make_virtual_raters(table.draw_ratings(size, rng)) for _ in range(times)]


def _defined_or(value: float, code: Undefined) -> CoefficientValue:
    return CoefficientValue.undefined(remark(code)) if np.isnan(value) else CoefficientValue(value)


def compute_ceilings(
    table: RatingTable, coefficient: str, seed: int = 0, draws: int = 20
) -> dict[str, Ceiling]:
    """Compute the coefficients that people and an oracle reach as metrics, each rating being a data point.

    `ceiling_one_vs_one` is each rating against each other rating of its item: what a person drawn at random reaches
    against another. `ceiling_one_vs_rest` is the best of three virtual raters, repeated, against the two others:
    Scott et al. 2023 call that their best human rater, but a virtual rater is no person, since each item's ratings
    are sorted first. `ceiling_oracle` gives an item the mean of its ratings as its score.

    Args:
        table: the ratings.
        coefficient: the name of a coefficient of ratings.
        seed, draws: as in `measure_virtual_raters`.
    """
    if not table.n_items:
        return {name: Ceiling.undefined(Undefined.NO_SECOND_RATING) for name in CEILINGS}
    return {
        "ceiling_one_vs_one": _one_person_ceiling(table, coefficient),
        "ceiling_one_vs_rest": _best_rater_ceiling(table, coefficient, seed, draws),
        "ceiling_oracle": _oracle_ceiling(table, coefficient),
    }


def _one_person_ceiling(table: RatingTable, coefficient: str) -> Ceiling:
    first, second = table.rating_pairs()
    # Each of two ratings is the score once, and the rating once.
    score_places = np.concatenate([first, second])
    rating_places = np.concatenate([second, first])
    scores = table.value[score_places]
    ratings = table.value[rating_places]

    person = correlate(scores, ratings, coefficient)
    return Ceiling(
        person.value,
        table.n_items,
        n_ratings=len(table.value),
        points=((scores, ratings, table.source_index[table.item[score_places]]),),
        remarks=(*person.remarks, remark(Note.ONE_PERSON), *table.remarks),
    )


def _best_rater_ceiling(table: RatingTable, coefficient: str, seed: int, draws: int) -> Ceiling:
    size = min(3, int(table.count.max()))
    table = table.at_least(size)
    raters = _draw_virtual_raters(table, size, seed, draws)

    by_rater: list[AgreementMeasure] = []
    for rater in range(size):
        values = [correlate_with_others(ratings, rater, coefficient) for ratings in raters]
        by_rater.append(average_draws(values, table.n_items))
    # An undefined one is best only where all are.
    best = max(range(size), key=lambda k: (not np.isnan(by_rater[k].value), by_rater[k].value))

    item = np.tile(table.source_index, size - 1)
    points: list[tuple[Floats, Floats, Ints]] = []
    for ratings in raters:
        scores, other_ratings = _pair_with_others(ratings, best)
        points.append((scores, other_ratings, item))

    names = "XYZ"[:size]
    places = ("lowest", "middle", "highest") if size == 3 else ("lower", "higher")
    note = remark(
        Note.BEST_RATER_DRAWS if len(raters) > 1 else Note.BEST_RATER,
        place=places[best],
        rater=names[best],
        others=names.replace(names[best], ""),
        draws=draws,
    )
    return Ceiling(
        value=by_rater[best].value,
        n_items=table.n_items,
        std=by_rater[best].std,
        n_ratings=len(item),
        points=tuple(points),
        remarks=(*by_rater[best].remarks, note, *table.remarks),
    )


def _oracle_ceiling(table: RatingTable, coefficient: str) -> Ceiling:
    scores = table.means[table.item]
    oracle = correlate(scores, table.value, coefficient)
    return Ceiling(
        oracle.value,
        table.n_items,
        n_ratings=len(table.value),
        points=((scores, table.value, table.source_index[table.item]),),
        remarks=(*oracle.remarks, remark(Note.ORACLE), *table.remarks),
    )
