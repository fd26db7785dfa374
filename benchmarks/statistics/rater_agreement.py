"""How well raters agree with each other, and what that says of the best a metric can do.

Pure functions of ratings; `docs/agreement.md` gives each measure's definition, source and use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from ...datasets.schema import Scale
from .coefficients import Coefficient, correlate

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Two raters with fewer items in common than this make no κ of their own.
MIN_COMMON_ITEMS = 10

#: The ceilings that stand below the metrics of a benchmark, as its tables call them.
CEILINGS = {
    "ceiling_one_vs_rest": "one human against the rest",
    "ceiling_oracle": "oracle (mean rating)",
}

#: The measures that come of `halves`.
HALF_MEASURES = (
    "split_half",
    "stability_pearson",
    "stability_mean",
    "stability_std",
    "stability_within_0.25",
)

_ALL_EQUAL = "all ratings are equal"
_ONE_RATING = "no item has two ratings"


@dataclass(frozen=True)
class AgreementMeasure:
    """A measure: its value, its standard deviation over draws, what it is taken over, a remark.

    Where it is undefined the value is NaN and the note says why.
    """

    value: float
    n_items: int
    std: float = float("nan")
    note: str = ""
    n_ratings: int = 0

    @classmethod
    def undefined(cls, reason: str, n_items: int = 0) -> Self:
        return cls(float("nan"), n_items, note=f"undefined: {reason}")

    def remark(self, *notes: str) -> Self:
        """The same with more in the note."""
        return replace(self, note="; ".join(n for n in (self.note, *notes) if n))


@dataclass(frozen=True)
class Ceiling(AgreementMeasure):
    """A ceiling with the data points that it is the coefficient of.

    Attributes:
        points: of each draw, whose mean it is, the scores, the ratings, and which of the items that
            the table was made of each data point belongs to, shape (n_points,) each.
    """

    points: tuple[tuple[Floats, Floats, Ints], ...] = field(default=(), repr=False, compare=False)


@dataclass(frozen=True)
class RatingTable:
    """The ratings of the items that have two at least, flat, item after item.

    Attributes:
        item: which item each rating is of, ascending from 0, shape (n_ratings,).
        rater: who gave it, as a number from 0, ascending within an item, shape (n_ratings,).
        value: shape (n_ratings,).
        origin: each item's place among those that the table was made of, shape (n_items,).
        left_out: how many items had fewer ratings than are needed.
        needed: how many ratings an item has at least.
    """

    item: Ints
    rater: Ints
    value: Floats
    source_index: Ints
    n_left_out: int = 0
    min_ratings: int = 2

    @classmethod
    def from_ratings(
        cls, ratings: pd.DataFrame, items: Iterable[str], dimension: str
    ) -> RatingTable:
        """Of a `CaptionSet`'s ratings: those of one dimension and of the given items."""
        place = pd.Index(list(items)).get_indexer(pd.Index(ratings["item_id"]))
        here = (place >= 0) & (ratings["dimension"] == dimension).to_numpy()
        codes = pd.factorize(ratings.loc[here, "rater"].astype(str), sort=True)[0]
        order = np.lexsort((codes, place[here]))
        value = ratings.loc[here, "value"].to_numpy(dtype=np.float64)[order]
        place = place[here][order]
        origin = np.unique(place).astype(np.int64)
        return cls(_renumbered(place), codes[order].astype(np.int64), value, origin).at_least(2)

    @classmethod
    def from_matrix(cls, ratings: Floats) -> RatingTable:
        """Of a matrix of shape (n_items, n_raters), NaN where a rater did not rate an item."""
        item, rater = np.nonzero(~np.isnan(ratings))
        origin = np.unique(item).astype(np.int64)
        table = cls(_renumbered(item), rater.astype(np.int64), ratings[item, rater], origin)
        return table.at_least(2)

    def at_least(self, needed: int) -> RatingTable:
        """The part of the items with so many ratings."""
        keep = self.count >= needed
        chosen = keep[self.item]
        return RatingTable(
            _renumbered(self.item[chosen]),
            self.rater[chosen],
            self.value[chosen],
            self.source_index[keep],
            self.n_left_out + int((~keep).sum()),
            needed,
        )

    @cached_property
    def count(self) -> Ints:
        """How many ratings each item has, shape (n_items,)."""
        return np.bincount(self.item).astype(np.int64)

    @property
    def n_items(self) -> int:
        return len(self.count)

    @cached_property
    def position(self) -> Ints:
        """Each rating's place within its item, from 0, shape (n_ratings,)."""
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
    def note(self) -> str:
        """Which items are left out, if any."""
        if not self.n_left_out:
            return ""
        return f"items left out, with fewer than {self.min_ratings} ratings: {self.n_left_out}"

    def shuffle_values(self, rng: np.random.Generator) -> Floats:
        """The values, in random order within each item."""
        return self.value[np.argsort(self.item + rng.random(len(self.item)))]

    def draw_ratings(self, size: int, rng: np.random.Generator) -> Floats:
        """So many ratings of each item, drawn without replacement, shape (n_items, size)."""
        return self.shuffle_values(rng)[self.position < size].reshape(-1, size)

    def rating_pairs(self) -> tuple[Ints, Ints]:
        """Every two ratings of an item, as indices; the first is the lower-numbered rater's."""
        left, right = list[Ints](), list[Ints]()
        after = self.count[self.item] - self.position - 1
        alive = np.arange(len(self.item), dtype=np.int64)
        for step in range(1, int(self.count.max(initial=1))):
            alive = alive[after[alive] >= step]
            left.append(alive)
            right.append(alive + step)
        empty = np.empty(0, dtype=np.int64)
        return np.concatenate([empty, *left]), np.concatenate([empty, *right])


def _renumbered(ascending: NDArray[Any]) -> Ints:
    """0 for the first value, 1 for the next other one, and so on."""
    if not ascending.size:
        return np.empty(0, dtype=np.int64)
    return np.concatenate([[0], np.cumsum(np.diff(ascending) != 0)]).astype(np.int64)


def make_virtual_raters(ratings: Floats) -> Floats:
    """Sort each item's ratings, so that rater X holds the lowest, Y the middle, Z the highest.

    Scott et al. 2023, section 4.1.

    Args:
        ratings: shape (n_items, n_raters).
    """
    return np.sort(ratings, axis=1)


def correlate_with_others(ratings: Floats, rater: int, coefficient: str = "tau_c") -> Coefficient:
    """One rater, repeated, against all others end to end ("method A"); τ_c by default.

    Scott et al. 2023, Table 3, rows τ_X-YZ and so on.

    Args:
        ratings: shape (n_items, n_raters).
        rater: the column that is compared with the other columns.
        coefficient: see `correlation.correlate`.
    """
    return correlate(*_against(ratings, rater), coefficient)


def _against(ratings: Floats, rater: int) -> tuple[Floats, Floats]:
    """The data points of `against_others`: scores and ratings."""
    others = np.delete(ratings, rater, axis=1)
    return np.tile(ratings[:, rater], others.shape[1]), others.T.ravel()


def kendall_w(ratings: Floats) -> float:
    """Kendall's coefficient of concordance with the correction for ties, in [0, 1].

    Kendall and Smith 1939. NaN where every rater gives all items the same rating.

    Args:
        ratings: shape (n_items, n_raters).
    """
    n, m = ratings.shape
    ranks = scipy.stats.rankdata(ratings, axis=0)
    sums = ranks.sum(axis=1)
    spread = float(((sums - sums.mean()) ** 2).sum())
    ties = 0.0
    for column in ratings.T:
        counts = np.unique(column, return_counts=True)[1].astype(float)
        ties += float((counts**3 - counts).sum())
    denominator = m**2 * (n**3 - n) - m * ties
    return 12 * spread / denominator if denominator else float("nan")


def fleiss_kappa(ratings: Floats) -> float:
    """Fleiss' κ of agreement on categories beyond chance (Fleiss 1971).

    NaN where only one category is ever used.

    Args:
        ratings: shape (n_items, n_raters), each value a category.
    """
    n, m = ratings.shape
    item = np.repeat(np.arange(n, dtype=np.int64), m)
    shares = np.unique(ratings, return_counts=True)[1] / (n * m)
    observed = float(_agreeing(item, ratings.ravel(), n).sum() / (n * m * (m - 1)))
    chance = float((shares**2).sum())
    return (observed - chance) / (1 - chance) if len(shares) > 1 else float("nan")


def _agreeing(item: Ints, values: Floats, n_items: int) -> Floats:
    """How many ordered pairs of an item's ratings are equal, shape (n_items,)."""
    categories, codes = np.unique(values, return_inverse=True)
    cells, counts = np.unique(item * len(categories) + codes, return_counts=True)
    weights = counts * (counts - 1.0)
    return np.bincount(cells // len(categories), weights, minlength=n_items).astype(np.float64)


def measure_virtual_raters(
    table: RatingTable, scale: Scale, seed: int = 0, draws: int = 20
) -> dict[str, AgreementMeasure]:
    """τ_X-YZ, τ_Y-XZ, τ_Z-XY, Kendall's W and Fleiss' κ of three virtual raters.

    Scott et al. 2023, Table 3. An item's three ratings are taken as they are; where an item has
    more, three of each are drawn `draws` times and the results averaged.
    """
    levels = round((scale.high - scale.low) / scale.step) + 1 if scale.step else 0
    taus = ("tau_X-YZ", "tau_Y-XZ", "tau_Z-XY")
    kappas = ("fleiss_kappa", "fleiss_kappa_4=5") if levels == 5 else ("fleiss_kappa",)
    enough = table.at_least(3)
    if not enough.n_items:
        reason = "no item has three ratings, which the virtual raters need"
        return {name: AgreementMeasure.undefined(reason) for name in (*taus, "kendall_w", *kappas)}
    raters = _virtual_draws(enough, 3, seed, draws)
    found = {
        name: [correlate_with_others(drawn, rater) for drawn in raters]
        for rater, name in enumerate(taus)
    }
    flat = "every rater gives all items one rating"
    found["kendall_w"] = [_defined(kendall_w(drawn), flat) for drawn in raters]
    for name in kappas:
        # The two highest levels count as one.
        top = scale.high - (scale.step or 0) if "=" in name else scale.high
        found[name] = [
            _defined(fleiss_kappa(np.minimum(drawn, top)), _ALL_EQUAL) for drawn in raters
        ]
    how = f"mean of {draws} draws of three ratings an item" if len(raters) > 1 else ""
    return {
        name: _over_draws(values, enough.n_items).remark(how, enough.note)
        for name, values in found.items()
    }


def _virtual_draws(table: RatingTable, size: int, seed: int, draws: int) -> list[Floats]:
    """Virtual raters of every draw; a single one where nothing is left to chance."""
    rng = np.random.default_rng(seed)
    times = 1 if (table.count == size).all() else draws
    return [make_virtual_raters(table.draw_ratings(size, rng)) for _ in range(times)]


def _defined(value: float, reason: str) -> Coefficient:
    return Coefficient.undefined(reason) if np.isnan(value) else Coefficient(value, float("nan"))


def _over_draws(found: Sequence[Coefficient], n_items: int) -> AgreementMeasure:
    """Mean and standard deviation over draws; of a single draw there is no deviation."""
    values = np.array([f.value for f in found])
    known = values[~np.isnan(values)]
    if not known.size:
        return AgreementMeasure(float("nan"), n_items, note=found[0].note)
    gaps = len(values) - len(known)
    return AgreementMeasure(
        float(known.mean()),
        n_items,
        std=float(known.std(ddof=1)) if len(known) > 1 else float("nan"),
        note=f"{gaps} of {len(values)} draws undefined" if gaps else "",
    )


def krippendorff_alpha(table: RatingTable, level: str) -> AgreementMeasure:
    """Krippendorff's α, which allows for missing ratings (Krippendorff 2011).

    The ordinal difference of two values, Σ n_g from one to the other less half of both ends, is
    that of their mid-ranks; so ordinal α is interval α of ranks.

    Args:
        table: the ratings.
        level: `nominal`, `ordinal` or `interval`.
    """
    if not table.n_items:
        return AgreementMeasure.undefined(_ONE_RATING)
    if table.is_constant:
        return AgreementMeasure.undefined(_ALL_EQUAL, table.n_items)
    value, item, count = table.value, table.item, table.count
    if level == "nominal":
        within = count * (count - 1.0) - _agreeing(item, value, table.n_items)
        totals = np.unique(value, return_counts=True)[1].astype(float)
        across = float(len(value) ** 2 - (totals**2).sum())
    else:
        if level == "ordinal":
            value = scipy.stats.rankdata(value)
        means = np.bincount(item, value) / count
        within = 2 * count * np.bincount(item, (value - means[item]) ** 2)
        across = 2 * len(value) * float(((value - value.mean()) ** 2).sum())
    observed = float((within / (count - 1)).sum()) / len(value)
    expected = across / (len(value) * (len(value) - 1))
    return AgreementMeasure(1 - observed / expected, table.n_items)


def cohen_kappas(table: RatingTable, least: int = MIN_COMMON_ITEMS) -> dict[str, AgreementMeasure]:
    """Cohen's κ, plain and with linear and quadratic weights, the mean over pairs of raters.

    Cohen 1960 and 1968. A weight is by the distance in points of the scale. A pair counts if it has
    `least` items in common and does not give all of them one rating.
    """
    names = ("cohen_kappa", "cohen_kappa_linear", "cohen_kappa_quadratic")
    left, right = table.rating_pairs()
    together = table.rater[left] * (table.rater.max(initial=0) + 1) + table.rater[right]
    _, pair, sizes = np.unique(together, return_inverse=True, return_counts=True)
    kept = sizes >= least
    if not kept.any():
        reason = f"no two raters have {least} items in common" if len(left) else _ONE_RATING
        return {name: AgreementMeasure.undefined(reason) for name in names}
    chosen = kept[pair]
    left, right = left[chosen], right[chosen]
    pair = (np.cumsum(kept) - 1)[pair[chosen]]
    n_pairs, n = int(kept.sum()), sizes[kept]

    levels, codes = np.unique(table.value, return_inverse=True)
    shape = (n_pairs, len(levels))

    def distribution(side: Ints) -> Floats:
        cells = np.bincount(pair * len(levels) + codes[side], minlength=n_pairs * len(levels))
        return cells.reshape(shape) / n[:, None]

    def mean(values: NDArray[Any]) -> Floats:
        return np.bincount(pair, values, minlength=n_pairs) / n

    a, b = distribution(left), distribution(right)
    below_a, below_b = np.cumsum(a, axis=1)[:, :-1], np.cumsum(b, axis=1)[:, :-1]
    apart = np.abs(table.value[left] - table.value[right])
    # |a - b| is the sum of the gaps between levels that lie between the two.
    linear = (below_a * (1 - below_b) + below_b * (1 - below_a)) @ np.diff(levels)
    middle = levels - levels.mean()
    quadratic = a @ middle**2 + b @ middle**2 - 2 * (a @ middle) * (b @ middle)
    # Both raters give one and the same rating throughout.
    flat = np.isclose((a * b).sum(axis=1), 1, rtol=0, atol=1e-12)
    note = (
        f"mean over pairs of raters with {least} or more common items: {n_pairs - int(flat.sum())}"
    )
    if flat.any():
        note += f"; pairs left out, since {_ALL_EQUAL}: {int(flat.sum())}"
    if _ascends(table):
        note += "; an item's ratings ascend from rater to rater: sorted ratings, not people"
    n_items = len(np.unique(table.item[left]))
    if flat.all():
        return {name: AgreementMeasure.undefined(_ALL_EQUAL, n_items) for name in names}
    observed = (mean(apart > 0), mean(apart), mean(apart**2))
    expected = (1 - (a * b).sum(axis=1), linear, quadratic)
    return {
        name: AgreementMeasure(float((1 - o[~flat] / e[~flat]).mean()), n_items, note=note)
        for name, o, e in zip(names, observed, expected, strict=True)
    }


def _ascends(table: RatingTable) -> bool:
    """Whether no rating is below that of a lower-numbered rater: a release of sorted ratings."""
    same = np.diff(table.item) == 0
    steps = np.diff(table.value)[same]
    return bool((steps >= 0).all()) and int((steps > 0).sum()) > 20


def intraclass(table: RatingTable) -> dict[str, AgreementMeasure]:
    """ICC(1,1) and ICC(1,k) of the one-way model, in which raters are interchangeable.

    Shrout and Fleiss 1979. With unequal numbers of ratings, k is k₀ = (N - Σ k_i² / N) / (n - 1).
    """
    names = ("icc1", "icc1k")
    n, total = table.n_items, len(table.value)
    if n < 2 or table.is_constant:
        reason = (
            _ONE_RATING if n == 0 else _ALL_EQUAL if table.is_constant else "two items are needed"
        )
        return {name: AgreementMeasure.undefined(reason, n) for name in names}
    means = np.bincount(table.item, table.value) / table.count
    between = float((table.count * (means - table.value.mean()) ** 2).sum()) / (n - 1)
    within = float(((table.value - means[table.item]) ** 2).sum()) / (total - n)
    k = (total - float((table.count**2).sum()) / total) / (n - 1)
    unequal = f"k = {k:.2f}: items differ in their number of ratings" if np.ptp(table.count) else ""
    single = AgreementMeasure((between - within) / (between + (k - 1) * within), n, note=unequal)
    if np.ptp(table.means) == 0:
        return {
            "icc1": single,
            "icc1k": AgreementMeasure.undefined("all items have one mean rating", n),
        }
    return {
        "icc1": single,
        "icc1k": AgreementMeasure((between - within) / between, n, note=unequal),
    }


def percent_agreement(table: RatingTable) -> AgreementMeasure:
    """The share of equal pairs among an item's pairs of ratings, the mean over items."""
    if not table.n_items:
        return AgreementMeasure.undefined(_ONE_RATING)
    possible = table.count * (table.count - 1)
    agreeing = _agreeing(table.item, table.value, table.n_items)
    return AgreementMeasure(float((agreeing / possible).mean()), table.n_items)


def leave_one_out(table: RatingTable, coefficient: str) -> AgreementMeasure:
    """Each rating against the mean of the item's other ratings, all of them pooled."""
    if not table.n_items:
        return AgreementMeasure.undefined(_ONE_RATING)
    sums, others = np.bincount(table.item, table.value), (table.count - 1)[table.item]
    rest = np.round((sums[table.item] - table.value) / others, 9)
    found = correlate(rest, table.value, coefficient)
    return AgreementMeasure(found.value, table.n_items, note=found.note)


def draw_halves(table: RatingTable, seed: int = 0, draws: int = 20) -> list[tuple[Floats, Floats]]:
    """For every draw the mean ratings, shape (n_items,), of two random halves of the ratings.

    The halves are of equal size: of an odd number of ratings one, by lot, is in neither.
    """
    rng = np.random.default_rng([seed, 1])
    half = table.count // 2
    side = np.minimum(table.position // half[table.item], 2)
    found: list[tuple[Floats, Floats]] = []
    for _ in range(draws):
        values = table.shuffle_values(rng)
        first, second = (
            np.round(np.bincount(table.item[side == s], values[side == s]) / half, 9)
            for s in (0, 1)
        )
        found.append((first, second))
    return found


def split_half_reliability(split: Sequence[tuple[Floats, Floats]]) -> AgreementMeasure:
    """Split-half reliability with the correction of Spearman and Brown, 2r / (1 + r).

    Args:
        split: see `halves`.
    """
    rs = [correlate(first, second, "pearson") for first, second in split]
    stepped_up = [
        replace(r, value=2 * r.value / (1 + r.value))
        if not r.value <= -1 + 1e-9
        else Coefficient.undefined("the halves are opposite")
        for r in rs
    ]
    return _over_draws(stepped_up, len(split[0][0]))


def stability(split: Sequence[tuple[Floats, Floats]], scale: Scale) -> dict[str, AgreementMeasure]:
    """Correlation and differences of the mean ratings by two disjoint halves of the raters.

    Levinboim et al. 2021, section 3.3, who had two sets of raters. Differences are in parts of the
    scale's width.

    Args:
        split: see `halves`.
        scale: what the ratings lie on.
    """
    width = scale.high - scale.low
    apart = [(first - second) / width for first, second in split]
    n_items = len(split[0][0])

    def over_draws(values: Iterable[Any]) -> AgreementMeasure:
        return _over_draws([Coefficient(float(v), float("nan")) for v in values], n_items)

    pearsons = [correlate(first, second, "pearson") for first, second in split]
    return {
        "stability_pearson": _over_draws(pearsons, n_items),
        "stability_mean": over_draws(d.mean() for d in apart),
        "stability_std": over_draws(d.std() for d in apart),
        "stability_within_0.25": over_draws((np.abs(d) <= 0.25 + 1e-9).mean() for d in apart),
    }


def difference_histogram(
    split: Sequence[tuple[Floats, Floats]], scale: Scale
) -> dict[float, float]:
    """The share of `stability`'s differences nearest to -1, -0.75, …, 1, over all draws."""
    apart = np.concatenate([first - second for first, second in split])
    nearest = np.rint(np.round(4 * apart / (scale.high - scale.low), 6)).astype(np.int64)
    shares = np.bincount(nearest + 4, minlength=9) / len(nearest)
    return {step / 4 - 1: float(share) for step, share in enumerate(shares)}


def compute_ceilings(
    table: RatingTable, coefficient: str, seed: int = 0, draws: int = 20
) -> dict[str, Ceiling]:
    """What a person and an oracle reach as a metric, each rating being a data point.

    `ceiling_one_vs_rest` is the best of three virtual raters, repeated, against the two others:
    Scott et al. 2023 call that their best human rater. `ceiling_oracle` gives an item the mean of
    its ratings as its score.

    Args:
        table: the ratings.
        coefficient: see `correlation.correlate`.
        seed, draws: as in `virtual_measures`.
    """
    if not table.n_items:
        return {name: Ceiling.undefined(_ONE_RATING) for name in CEILINGS}
    size = min(3, int(table.count.max()))
    enough = table.at_least(size)
    raters = _virtual_draws(enough, size, seed, draws)
    each = [
        _over_draws(
            [correlate_with_others(drawn, k, coefficient) for drawn in raters], enough.n_items
        )
        for k in range(size)
    ]
    names = "XYZ"[:size]
    best = max(range(size), key=lambda k: (not np.isnan(each[k].value), each[k].value))
    rest = "".join(n for n in names if n != names[best])
    how = f", mean of {draws} draws" if len(raters) > 1 else ""
    of_best = (
        f"the best virtual rater ({names[best]}-{rest}), its rating against each of the others'"
    )
    oracle = correlate(table.means[table.item], table.value, coefficient)
    whose = np.tile(enough.source_index, size - 1)
    return {
        "ceiling_one_vs_rest": Ceiling(
            each[best].value,
            enough.n_items,
            each[best].std,
            each[best].note,
            len(whose),
            tuple((*_against(drawn, best), whose) for drawn in raters),
        ).remark(of_best + how, enough.note),
        "ceiling_oracle": Ceiling(
            oracle.value,
            table.n_items,
            note=oracle.note,
            n_ratings=len(table.value),
            points=((table.means[table.item], table.value, table.source_index[table.item]),),
        ).remark("an item's mean rating against each of its ratings", table.note),
    }


def compute_measures(
    table: RatingTable, scale: Scale, seed: int = 0, draws: int = 20
) -> tuple[dict[str, AgreementMeasure], dict[float, float]]:
    """Every measure by name, and `difference_histogram`, which is empty where nothing is rated twice.

    Args:
        table: the ratings of one dimension.
        scale: what they lie on.
        seed: of all that is drawn.
        draws: how often.
    """
    found: dict[str, AgreementMeasure] = {
        f"krippendorff_alpha_{level}": krippendorff_alpha(table, level)
        for level in ("nominal", "ordinal", "interval")
    }
    found |= {**cohen_kappas(table), **intraclass(table)}
    found["percent_agreement"] = percent_agreement(table)
    for coefficient in ("tau_c", "spearman", "pearson"):
        found[f"leave_one_rater_out_{coefficient}"] = leave_one_out(table, coefficient)
    histogram: dict[float, float] = {}
    if table.n_items:
        split = draw_halves(table, seed, draws)
        of_halves = {"split_half": split_half_reliability(split), **stability(split, scale)}
        how = f"mean of {draws} random halvings"
        found |= {name: one.remark(how) for name, one in of_halves.items()}
        found = {name: one.remark(table.note) for name, one in found.items()}
        histogram = difference_histogram(split, scale)
    else:
        found |= dict.fromkeys(HALF_MEASURES, AgreementMeasure.undefined(_ONE_RATING))
    return {
        **measure_virtual_raters(table, scale, seed, draws),
        **found,
        **compute_ceilings(table, "tau_c", seed, draws),
    }, histogram


def count_by_level(ratings: pd.DataFrame, scale: Scale) -> dict[float, int]:
    """How many items have which mean rating, to the nearest level of the scale, halves up.

    The figures of rating distributions: Scott et al. 2023, Figure 4 (rounded averages); Levinboim et
    al. 2021, Figure 2 (p̂, in eighths); Lee et al. 2021, Figure 4. A scale without a step is cut into
    ten.

    Args:
        ratings: of one dimension, columns `item_id` and `value`.
        scale: the dimension's.

    Returns:
        level → number of items, every level of the scale in it.
    """
    means = ratings.groupby("item_id", sort=False)["value"].mean().to_numpy(dtype=float)
    known = scale_levels(scale)
    counts = np.bincount(nearest_level(means, scale), minlength=len(known))
    return {level: int(counts[k]) for k, level in enumerate(known)}


def scale_levels(scale: Scale) -> list[float]:
    """The levels of a scale; one without a step is cut into ten."""
    step = _step(scale)
    return [
        round(scale.low + k * step, 9) for k in range(round((scale.high - scale.low) / step) + 1)
    ]


def nearest_level(values: Floats, scale: Scale) -> Ints:
    """Which of the scale's levels each value is nearest to, halves up, shape (n,)."""
    # A mean that is a half but for the last bit counts as a half.
    return np.floor((values - scale.low) / _step(scale) + 0.5 + 1e-9).astype(np.int64)


def _step(scale: Scale) -> float:
    return scale.step or (scale.high - scale.low) / 10
