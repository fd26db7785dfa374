"""Measures of how well raters agree with each other, as functions of a `RatingTable`.

`captau agree`, reports and the collection server print them; `docs/agreement.md` gives each measure's definition,
source and use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...datasets.schema import Scale
from .coefficients.coefficient import CoefficientValue, correlate
from .distributions import mid_ranks
from .rating_table import (
    AgreementMeasure,
    Floats,
    Ints,
    RatingTable,
    average_draws,
    compute_ceilings,
    count_equal_pairs,
    measure_virtual_raters,
)
from .remarks import Note, Remark, Undefined, remark

#: Fewer items than this do not say how well raters agree: two raters with fewer in common make no κ of their own.
MIN_ITEMS = 10

#: The measures of `draw_halves`.
HALF_MEASURES = (
    "split_half",
    "stability_pearson",
    "stability_mean",
    "stability_std",
    "stability_within_0.25",
)


def krippendorff_alpha(table: RatingTable, level: str) -> AgreementMeasure:
    """Compute Krippendorff's α, which allows for missing ratings (Krippendorff 2011).

    The ordinal difference of two values, Σ n_g from one to the other less half of both ends, is
    that of their mid-ranks; so ordinal α is interval α of ranks.

    Args:
        table: the ratings.
        level: `nominal`, `ordinal` or `interval`.
    """
    if not table.n_items:
        return AgreementMeasure.undefined(Undefined.NO_SECOND_RATING)
    if table.is_constant:
        return AgreementMeasure.undefined(Undefined.CONSTANT_RATINGS, table.n_items)

    value = table.value
    item = table.item
    count = table.count
    if level == "nominal":
        within = count * (count - 1.0) - count_equal_pairs(item, value, table.n_items)
        totals = np.unique(value, return_counts=True)[1].astype(float)
        across = float(len(value) ** 2 - (totals**2).sum())
    else:
        if level == "ordinal":
            value = mid_ranks(value)
        means = np.bincount(item, value) / count
        # The squared differences of all ordered pairs of n values add up to 2n times their squares around the mean.
        within = 2 * count * np.bincount(item, (value - means[item]) ** 2)
        across = 2 * len(value) * float(((value - value.mean()) ** 2).sum())

    observed = float((within / (count - 1)).sum()) / len(value)
    expected = across / (len(value) * (len(value) - 1))
    return AgreementMeasure(1 - observed / expected, table.n_items)


def cohen_kappas(table: RatingTable, min_items: int = MIN_ITEMS) -> dict[str, AgreementMeasure]:
    """Compute Cohen's κ, plain and with linear and quadratic weights, the mean over pairs of raters.

    Cohen 1960 and 1968. A weight is by the distance in points of the scale. A pair counts if it has
    `min_items` items in common and does not give all of them one rating.
    """
    names = ("cohen_kappa", "cohen_kappa_linear", "cohen_kappa_quadratic")
    first, second = table.rating_pairs()
    rater_pair = table.rater[first] * (table.rater.max(initial=0) + 1) + table.rater[second]
    _, pair, sizes = np.unique(rater_pair, return_inverse=True, return_counts=True)
    is_large = sizes >= min_items
    if not len(first):
        return dict.fromkeys(names, AgreementMeasure.undefined(Undefined.NO_SECOND_RATING))
    if not is_large.any():
        undefined = AgreementMeasure.undefined(Undefined.NO_COMMON_ITEMS, min_items=min_items)
        return dict.fromkeys(names, undefined)

    # Only pairs of raters with enough items are left, and numbered anew.
    mask = is_large[pair]
    first = first[mask]
    second = second[mask]
    new_numbers = np.cumsum(is_large) - 1
    pair = new_numbers[pair[mask]]
    n_pairs = int(is_large.sum())
    n = sizes[is_large]

    levels, codes = np.unique(table.value, return_inverse=True)

    def shares_by_level(side: Ints) -> Floats:
        cells = np.bincount(pair * len(levels) + codes[side], minlength=n_pairs * len(levels))
        return cells.reshape(n_pairs, len(levels)) / n[:, None]

    def mean_by_pair(values: NDArray[Any]) -> Floats:
        return np.bincount(pair, values, minlength=n_pairs) / n

    a = shares_by_level(first)
    b = shares_by_level(second)
    distance = np.abs(table.value[first] - table.value[second])
    linear, quadratic = _expect_distances(a, b, levels)

    # Both raters give one and the same rating throughout.
    flat = np.isclose((a * b).sum(axis=1), 1, rtol=0, atol=1e-12)
    remarks = _kappa_remarks(table, min_items, n_pairs, n_flat=int(flat.sum()))
    n_items = len(np.unique(table.item[first]))
    if flat.all():
        undefined = AgreementMeasure.undefined(Undefined.CONSTANT_RATINGS, n_items)
        return dict.fromkeys(names, undefined)

    # By name, the disagreement of each two ratings, and what each pair of raters is expected to have by chance.
    disagreements: dict[str, tuple[NDArray[Any], Floats]] = {
        "cohen_kappa": (distance > 0, 1 - (a * b).sum(axis=1)),
        "cohen_kappa_linear": (distance, linear),
        "cohen_kappa_quadratic": (distance**2, quadratic),
    }
    measures: dict[str, AgreementMeasure] = {}
    for name, (of_ratings, expected) in disagreements.items():
        observed = mean_by_pair(of_ratings)
        kappa = float((1 - observed[~flat] / expected[~flat]).mean())
        measures[name] = AgreementMeasure(kappa, n_items, remarks=remarks)
    return measures


def _expect_distances(a: Floats, b: Floats, levels: Floats) -> tuple[Floats, Floats]:
    """Return the mean distance, and squared distance, of ratings drawn of both raters of each pair, shape (n_pairs,).

    Args:
        a, b: the share of each level in a rater's ratings, shape (n_pairs, n_levels).
        levels: in ascending order.
    """
    # |a - b| is the sum of the gaps between levels that lie between the two.
    below_a = np.cumsum(a, axis=1)[:, :-1]
    below_b = np.cumsum(b, axis=1)[:, :-1]
    linear = (below_a * (1 - below_b) + below_b * (1 - below_a)) @ np.diff(levels)

    # E (a - b)² = E a² + E b² - 2 E a E b, of levels around their mean, where rounding is least.
    centred = levels - levels.mean()
    quadratic = a @ centred**2 + b @ centred**2 - 2 * (a @ centred) * (b @ centred)

    return linear, quadratic


def _kappa_remarks(
    table: RatingTable, min_items: int, n_pairs: int, n_flat: int
) -> tuple[Remark, ...]:
    """Say which pairs of raters a kappa is the mean over, and whether raters are people at all."""
    remarks = [remark(Note.RATER_PAIRS, min_items=min_items, n_pairs=n_pairs - n_flat)]
    if n_flat:
        remarks.append(remark(Note.CONSTANT_PAIRS, n_pairs=n_flat))
    if table.has_sorted_ratings:
        remarks.append(remark(Note.SORTED_RATINGS))
    elif table.is_anonymous:
        remarks.append(remark(Note.ANONYMOUS_RATERS))
    return tuple(remarks)


def intraclass(table: RatingTable) -> dict[str, AgreementMeasure]:
    """Compute ICC(1,1) and ICC(1,k) of the one-way model, in which raters are interchangeable.

    Shrout and Fleiss 1979. With unequal numbers of ratings, k is k₀ = (N - Σ k_i² / N) / (n - 1).
    """
    n = table.n_items
    total = len(table.value)

    reason = None
    if n == 0:
        reason = Undefined.NO_SECOND_RATING
    elif table.is_constant:
        reason = Undefined.CONSTANT_RATINGS
    elif n == 1:
        reason = Undefined.ONE_ITEM
    if reason is not None:
        return dict.fromkeys(("icc1", "icc1k"), AgreementMeasure.undefined(reason, n))

    means = np.bincount(table.item, table.value) / table.count
    between = float((table.count * (means - table.value.mean()) ** 2).sum()) / (n - 1)
    within = float(((table.value - means[table.item]) ** 2).sum()) / (total - n)
    k = (total - float((table.count**2).sum()) / total) / (n - 1)

    remarks = (remark(Note.UNEQUAL_COUNTS, k=k),) if np.ptp(table.count) else ()
    single = (between - within) / (between + (k - 1) * within)
    average = AgreementMeasure.undefined(Undefined.CONSTANT_MEANS, n)
    if np.ptp(table.means) > 0:
        average = AgreementMeasure((between - within) / between, n, remarks=remarks)

    return {"icc1": AgreementMeasure(single, n, remarks=remarks), "icc1k": average}


def percent_agreement(table: RatingTable) -> AgreementMeasure:
    """Compute the share of equal pairs among an item's pairs of ratings, the mean over items."""
    if not table.n_items:
        return AgreementMeasure.undefined(Undefined.NO_SECOND_RATING)
    n_pairs = table.count * (table.count - 1)
    n_equal = count_equal_pairs(table.item, table.value, table.n_items)
    return AgreementMeasure(float((n_equal / n_pairs).mean()), table.n_items)


def leave_one_out(table: RatingTable, coefficient: str) -> AgreementMeasure:
    """Correlate each rating with the mean of the item's other ratings, all of them pooled."""
    if not table.n_items:
        return AgreementMeasure.undefined(Undefined.NO_SECOND_RATING)

    sums = np.bincount(table.item, table.value)
    n_others = (table.count - 1)[table.item]
    # Rounded, so that equal means are tied whatever the order of their sums.
    other_means = np.round((sums[table.item] - table.value) / n_others, 9)
    correlation = correlate(other_means, table.value, coefficient)
    return AgreementMeasure(correlation.value, table.n_items, remarks=correlation.remarks)


def draw_halves(table: RatingTable, seed: int = 0, draws: int = 20) -> list[tuple[Floats, Floats]]:
    """Draw halves of the ratings at random, and return the mean ratings of both, shape (n_items,), by draw.

    The halves are of equal size: of an odd number of ratings one, drawn at random, is in neither.
    """
    rng = np.random.default_rng([seed, 1])
    half = table.count // 2
    # The first half of an item's places is 0, the second 1; an odd rating, behind both, is in neither.
    side = np.minimum(table.position // half[table.item], 2)

    def mean_of_half(number: int, values: Floats) -> Floats:
        is_in_half = side == number
        sums = np.bincount(table.item[is_in_half], values[is_in_half])
        # Rounded, so that means which are equal on paper tie.
        return np.round(sums / half, 9)

    halves: list[tuple[Floats, Floats]] = []
    for _ in range(draws):
        values = table.shuffle_values(rng)
        halves.append((mean_of_half(0, values), mean_of_half(1, values)))

    return halves


def split_half_reliability(halves: Sequence[tuple[Floats, Floats]]) -> AgreementMeasure:
    """Compute split-half reliability with the correction of Spearman and Brown, 2r / (1 + r).

    Args:
        halves: see `draw_halves`.
    """
    stepped_up: list[CoefficientValue] = []
    for first, second in halves:
        r = correlate(first, second, "pearson")
        if r.value <= -1 + 1e-9:
            # At -1 the correction divides by 0.
            stepped_up.append(CoefficientValue.undefined(remark(Undefined.OPPOSITE_HALVES)))
        else:
            stepped_up.append(replace(r, value=2 * r.value / (1 + r.value)))

    return average_draws(stepped_up, len(halves[0][0]))


def stability(halves: Sequence[tuple[Floats, Floats]], scale: Scale) -> dict[str, AgreementMeasure]:
    """Compute correlation and differences of the mean ratings by two disjoint halves of the raters.

    Levinboim et al. 2021, section 3.3, who had two sets of raters. Differences are in parts of the
    scale's width, and undefined on a scale of a single value.

    Args:
        halves: see `draw_halves`.
        scale: of the ratings.
    """
    width = scale.high - scale.low
    if not width:
        undefined = AgreementMeasure.undefined(Undefined.SINGLE_VALUE, len(halves[0][0]))
        return dict.fromkeys(HALF_MEASURES[1:], undefined)

    values_by_measure: dict[str, list[CoefficientValue]] = {}
    for first, second in halves:
        differences = (first - second) / width
        # A difference of exactly a quarter counts, however it was rounded.
        is_within = np.abs(differences) <= 0.25 + 1e-9
        values = {
            "stability_pearson": correlate(first, second, "pearson"),
            "stability_mean": CoefficientValue(float(differences.mean())),
            "stability_std": CoefficientValue(float(differences.std())),
            "stability_within_0.25": CoefficientValue(float(is_within.mean())),
        }
        for name, value in values.items():
            values_by_measure.setdefault(name, []).append(value)

    n_items = len(halves[0][0])
    return {name: average_draws(values, n_items) for name, values in values_by_measure.items()}


def difference_histogram(
    halves: Sequence[tuple[Floats, Floats]], scale: Scale
) -> dict[float, float]:
    """Return the share of `stability`'s differences at each step from -1 to 1, over all draws.

    A step is the greatest 1/n, n up to 12, of which all differences are multiples, as p̂'s eighths are;
    where there is none, differences are rounded to eighths. Empty on a scale of a single value.
    """
    if scale.high == scale.low:
        return {}

    differences = np.concatenate([first - second for first, second in halves])
    differences /= scale.high - scale.low

    n_steps = 8
    for n in range(1, 13):
        # Of a whole number, as it is rounded, the remainder is nearly 0 or nearly 1, both half a step from 0.5.
        remainders = n * differences % 1
        if np.abs(remainders - 0.5).min() > 0.5 - 1e-6:
            n_steps = n
            break

    # Rounded first, so that halves which differ in their last bits go the same way.
    nearest = np.rint(np.round(n_steps * differences, 6)).astype(np.int64)
    shares = np.bincount(nearest + n_steps, minlength=2 * n_steps + 1) / len(nearest)
    return {(step - n_steps) / n_steps: float(share) for step, share in enumerate(shares)}


def compute_measures(
    table: RatingTable, scale: Scale, seed: int = 0, draws: int = 20
) -> tuple[dict[str, AgreementMeasure], dict[float, float]]:
    """Compute every measure by name, and `difference_histogram`, which is empty where nothing is rated twice.

    Args:
        table: the ratings of one dimension.
        scale: of the ratings.
        seed: of all random draws.
        draws: the number of draws.
    """
    # In the order of `agreement.csv`.
    measures: dict[str, AgreementMeasure] = {}
    for level in ("nominal", "ordinal", "interval"):
        measures[f"krippendorff_alpha_{level}"] = krippendorff_alpha(table, level)
    measures |= {**cohen_kappas(table), **intraclass(table)}
    measures["percent_agreement"] = percent_agreement(table)
    for coefficient in ("tau_c", "spearman", "pearson"):
        measures[f"leave_one_rater_out_{coefficient}"] = leave_one_out(table, coefficient)

    histogram: dict[float, float] = {}
    if table.n_items:
        halves = draw_halves(table, seed, draws)
        by_halves = {"split_half": split_half_reliability(halves), **stability(halves, scale)}
        note = remark(Note.HALVINGS, draws=draws)
        for name, measure in by_halves.items():
            measures[name] = measure.with_remarks(note)
        for name, measure in measures.items():
            measures[name] = measure.with_remarks(*table.remarks)
        histogram = difference_histogram(halves, scale)
    else:
        undefined = AgreementMeasure.undefined(Undefined.NO_SECOND_RATING)
        measures |= dict.fromkeys(HALF_MEASURES, undefined)

    all_measures: dict[str, AgreementMeasure] = {
        **measure_virtual_raters(table, scale, seed, draws),
        **measures,
        **compute_ceilings(table, "tau_c", seed, draws),
    }
    return all_measures, histogram
