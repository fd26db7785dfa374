"""Virtual raters of Scott et al. 2023, and the ceilings that people set for metrics.

An item's ratings are sorted, so that rater X holds the lowest, Y the middle and Z the highest.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy

from ...datasets.schema import Scale
from .coefficients.coefficient import CoefficientValue
from .coefficients.registry import correlate
from .rating_table import AgreementMeasure, Floats, Ints, RatingTable, average_draws
from .remarks import Note, Undefined, remark

#: The ceilings that stand below the metrics of a benchmark, as its tables call them.
CEILINGS = {
    "ceiling_one_vs_rest": "one human against the rest",
    "ceiling_oracle": "oracle (mean rating)",
}


@dataclass(frozen=True)
class Ceiling(AgreementMeasure):
    """A ceiling with the data points that it is the coefficient of.

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
    raters = _draw_virtual_raters(table, 3, seed, draws)
    by_draw = {
        name: [correlate_with_others(ratings, rater) for ratings in raters]
        for rater, name in enumerate(taus)
    }
    by_draw["kendall_w"] = [
        _defined_or(kendall_w(ratings), Undefined.CONSTANT_RATERS) for ratings in raters
    ]
    for name, highest in highest_levels.items():
        by_draw[name] = [
            _defined_or(fleiss_kappa(np.minimum(ratings, highest)), Undefined.CONSTANT_RATINGS)
            for ratings in raters
        ]
    averaged = (remark(Note.DRAWS_OF_THREE, draws=draws),) if len(raters) > 1 else ()
    return {
        name: average_draws(values, table.n_items).with_remarks(*averaged, *table.remarks)
        for name, values in by_draw.items()
    }


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
    """Compute the coefficients that a person and an oracle reach as metrics, each rating being a data point.

    `ceiling_one_vs_rest` is the best of three virtual raters, repeated, against the two others:
    Scott et al. 2023 call that their best human rater. `ceiling_oracle` gives an item the mean of
    its ratings as its score.

    Args:
        table: the ratings.
        coefficient: the name of a coefficient of ratings.
        seed, draws: as in `measure_virtual_raters`.
    """
    if not table.n_items:
        return {name: Ceiling.undefined(Undefined.NO_SECOND_RATING) for name in CEILINGS}
    return {
        "ceiling_one_vs_rest": _best_rater_ceiling(table, coefficient, seed, draws),
        "ceiling_oracle": _oracle_ceiling(table, coefficient),
    }


def _best_rater_ceiling(table: RatingTable, coefficient: str, seed: int, draws: int) -> Ceiling:
    size = min(3, int(table.count.max()))
    table = table.at_least(size)
    raters = _draw_virtual_raters(table, size, seed, draws)
    by_rater = [
        average_draws(
            [correlate_with_others(ratings, k, coefficient) for ratings in raters], table.n_items
        )
        for k in range(size)
    ]
    best = max(range(size), key=lambda k: (not np.isnan(by_rater[k].value), by_rater[k].value))
    names = "XYZ"[:size]
    code = Note.BEST_RATER_DRAWS if len(raters) > 1 else Note.BEST_RATER
    rater, other_raters = names[best], names.replace(names[best], "")
    item = np.tile(table.source_index, size - 1)
    return Ceiling(
        by_rater[best].value,
        table.n_items,
        by_rater[best].std,
        len(item),
        tuple((*_pair_with_others(ratings, best), item) for ratings in raters),
        remarks=(
            *by_rater[best].remarks,
            remark(code, rater=rater, others=other_raters, draws=draws),
            *table.remarks,
        ),
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
