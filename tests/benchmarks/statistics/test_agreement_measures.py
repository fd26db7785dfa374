"""Every measure of rater agreement against a worked case, its reference library, and its laws."""

from __future__ import annotations

import math

import krippendorff
import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from captau.benchmarks.statistics.rater_agreement import (
    HALF_MEASURES,
    MIN_ITEMS,
    cohen_kappas,
    compute_measures,
    difference_histogram,
    draw_halves,
    intraclass,
    krippendorff_alpha,
    leave_one_out,
    percent_agreement,
    split_half_reliability,
    stability,
)
from captau.benchmarks.statistics.rating_table import (
    CEILINGS,
    RatingTable,
    compute_ceilings,
    count_by_level,
    fleiss_kappa,
    measure_virtual_raters,
    scale_levels,
)
from captau.benchmarks.statistics.remarks import Note, remark
from captau.datasets.schema import Scale
from tests.benchmarks.statistics.rating_matrices import table_of_matrix

NAN = float("nan")
FIVE, FOUR = Scale(1, 5, 1), Scale(1, 4, 1)
LEVELS = ("nominal", "ordinal", "interval")


def of_raters(*raters: tuple[float, ...]) -> RatingTable:
    """From what each rater says of all items; NaN where one says nothing."""
    return table_of_matrix(np.array(raters, dtype=float).T)


def simulated(n_items: int, n_raters: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    truth = rng.normal(3, 1, (n_items, 1))
    return np.clip(np.round(truth + rng.normal(0, 0.8, (n_items, n_raters))), 1, 5)


# Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", section D: four observers, twelve
# units, the last of which but one has a single value and drops out.
KRIPPENDORFF = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
        [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
    ]
)


@pytest.mark.parametrize(
    ("level", "alpha"), [(LEVELS[0], 0.743), ("ordinal", 0.815), ("interval", 0.849)]
)
def test_krippendorff_alpha_of_the_published_example(level, alpha):
    found = krippendorff_alpha(table_of_matrix(KRIPPENDORFF.T), level)
    assert round(found.value, 3) == alpha
    assert found.n_items == 11


# Shrout and Fleiss 1979, Table 2: six targets, four judges; Table 4: ICC(1,1) .17, ICC(1,4) .44.
SHROUT_FLEISS = np.array(
    [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]],
    dtype=float,
)


def test_icc_of_the_published_example():
    found = intraclass(table_of_matrix(SHROUT_FLEISS))
    assert [round(f.value, 2) for f in found.values()] == [0.17, 0.44]
    assert [f.note for f in found.values()] == ["", ""]


def test_icc_of_unequal_numbers():
    """By hand: items 1 3 and 2 4 6, means 2 and 4, grand mean 3.2.

    Between (2 * 1.44 + 3 * .64) / 1 = 4.8; within (2 + 8) / 3; k0 = 5 - 13 / 5 = 2.4.
    """
    found = intraclass(of_raters((1, 2), (3, 4), (NAN, 6)))
    within = 10 / 3
    assert found["icc1"].value == pytest.approx((4.8 - within) / (4.8 + 1.4 * within))
    assert found["icc1k"].value == pytest.approx((4.8 - within) / 4.8)
    assert "k = 2.40" in found["icc1"].note
    assert intraclass(of_raters((1,), (2,)))["icc1"].note == "undefined: two items are needed"


def test_cohen_kappa_of_the_worked_example():
    """Wikipedia, "Cohen's kappa": 20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no; (.7 - .5) / (1 - .5)."""
    a = [1.0] * 25 + [0.0] * 25
    b = [1.0] * 20 + [0.0] * 5 + [1.0] * 10 + [0.0] * 15
    found = cohen_kappas(of_raters(tuple(a), tuple(b)))
    # Of two levels all weights are one.
    assert [f.value for f in found.values()] == pytest.approx([0.4] * 3)
    assert "common items: 1" in found["cohen_kappa"].note


def test_cohen_kappa_with_weights_by_hand():
    """1 2 4 and 2 2 4, on purpose without a 3: distances are points of the scale, not ranks.

    Apart: 1 0 0, so 1/3 either way. By chance, of nine pairs: 1 1 3, 0 0 2, 2 2 0, squared 1 1 9,
    0 0 4, 4 4 0; equal in 2 + 1 of nine.
    """
    found = cohen_kappas(of_raters((1, 2, 4), (2, 2, 4)), min_items=3)
    assert found["cohen_kappa"].value == pytest.approx(1 - (1 / 3) / (6 / 9))
    assert found["cohen_kappa_linear"].value == pytest.approx(1 - (1 / 3) / (11 / 9))
    assert found["cohen_kappa_quadratic"].value == pytest.approx(1 - (1 / 3) / (23 / 9))


@pytest.mark.dev
def test_cohen_kappa_is_the_mean_over_pairs_with_enough_in_common():
    from sklearn.metrics import cohen_kappa_score

    rng = np.random.default_rng(3)
    ratings = simulated(60, 5)
    ratings[rng.random(ratings.shape) < 0.3] = NAN
    ratings[MIN_ITEMS - 1 :, 4] = NAN  # the last rater has too few items with anyone
    table = table_of_matrix(ratings)
    for name, weights in (
        ("cohen_kappa", None),
        ("cohen_kappa_linear", "linear"),
        ("cohen_kappa_quadratic", "quadratic"),
    ):
        expected = [
            cohen_kappa_score(*ratings[both][:, [i, j]].T, labels=[1, 2, 3, 4, 5], weights=weights)
            for i in range(4)
            for j in range(i + 1, 4)
            if (both := ~np.isnan(ratings[:, [i, j]]).any(axis=1)).any()
        ]
        assert len(expected) == 6
        found = cohen_kappas(table)[name]
        assert found.value == pytest.approx(np.mean(expected))
        assert found.note.endswith("with 10 or more common items: 6")


def test_cohen_kappa_of_raters_who_meet_too_seldom():
    found = cohen_kappas(of_raters((1, 2, 3), (1, 2, 3)))
    assert all(math.isnan(f.value) for f in found.values())
    assert "no two raters have 10 items in common" in found["cohen_kappa"].note


def test_cohen_kappa_leaves_out_pairs_with_one_rating_throughout():
    ones = (1.0,) * 10
    found = cohen_kappas(of_raters(ones, ones, (1, 2) * 5))
    assert found["cohen_kappa"].value == pytest.approx(0)
    assert "pairs left out, since all ratings are equal: 1" in found["cohen_kappa"].note
    assert math.isnan(cohen_kappas(of_raters(ones, ones))["cohen_kappa"].value)


@pytest.mark.parametrize(
    ("items", "is_sorted"),
    [([(1, 2)] * 21, True), ([(1, 2)] * 20, False), ([(1, 2)] * 30 + [(2, 1)], False)],
)
def test_ratings_that_ascend_within_more_than_twenty_items_are_sorted(items, is_sorted):
    note = cohen_kappas(table_of_matrix(np.array(items, float)))["cohen_kappa"].note
    assert (str(remark(Note.SORTED_RATINGS)) in note) == is_sorted


def test_percent_agreement_by_hand():
    """Items 1 1 2 (one of three pairs), 3 3 (all), 4 5 (none); the single 1 does not count."""
    table = of_raters((1, 3, 4, 1), (1, 3, 5, NAN), (2, NAN, NAN, NAN))
    found = percent_agreement(table)
    assert found.value == pytest.approx((1 / 3 + 1 + 0) / 3)
    assert (found.n_items, table.n_left_out) == (3, 1)


def test_leave_one_out_by_hand():
    """Items 1 2 3 and 4 4: against 2.5 2 1.5 and 4 4."""
    table = of_raters((1, 4), (2, 4), (3, NAN))
    rest, own = [2.5, 2, 1.5, 4, 4], [1, 2, 3, 4, 4]
    assert leave_one_out(table, "pearson").value == pytest.approx(
        stats.pearsonr(rest, own).statistic
    )
    # Concordant: each of the three with each of the two; discordant: the three among themselves;
    # tau_c = 2 (6 - 3) 4 / (25 * 3), for 4 values on the shorter side.
    assert leave_one_out(table, "tau_c").value == pytest.approx(24 / 75)


def test_means_that_floats_tell_apart_are_tied():
    table = of_raters((0.1, 0.3), (0.2, 0.3), (0.6, 0.3))
    assert len(set(table.means)) == 1


def test_split_half_by_hand():
    """Halves 1 2 3 and 1 3 2 have r = 1/2: 2r / (1 + r) = 2/3; the reverse has r = -1."""
    first = np.array([1.0, 2, 3])
    assert split_half_reliability([(first, np.array([1.0, 3, 2]))]).value == pytest.approx(2 / 3)
    assert math.isnan(split_half_reliability([(first, np.array([1.0, 3, 2]))]).std)
    two = split_half_reliability([(first, np.array([1.0, 3, 2])), (first, first)])
    assert (two.value, two.std) == pytest.approx((5 / 6, np.std([2 / 3, 1], ddof=1)))
    opposite = split_half_reliability([(first, first[::-1])])
    assert math.isnan(opposite.value)
    assert opposite.note == "undefined: the halves are opposite"


def test_halves_are_disjoint_and_of_one_size():
    """Items of 2, 3, 4 and 5 ratings, powers of two, so that a sum says what is in it."""
    ratings = np.full((4, 5), NAN)
    for item in range(4):
        ratings[item, : item + 2] = 2.0 ** np.arange(item + 2)
    table = table_of_matrix(ratings)
    draws = draw_halves(table, seed=1, draws=50)
    for means in draws:
        first, second = (np.round(m * (table.count // 2)).astype(int) for m in means)
        assert not (first & second).any()
        assert [x.bit_count() for x in first.tolist()] == [1, 1, 2, 2]
        assert [x.bit_count() for x in second.tolist()] == [1, 1, 2, 2]
        assert ((first | second) < 2**table.count).all()
    assert len({tuple(np.concatenate(d)) for d in draws}) > 10


def test_stability_by_hand():
    """On 1-5, differences of 0, 1, -2 and 1 are 0, .25, -.5 and .25 of the scale's width."""
    split = [(np.array([1.0, 2, 3, 5]), np.array([1.0, 1, 5, 4]))]
    found = stability(split, FIVE)
    assert found["stability_mean"].value == pytest.approx(0)
    assert found["stability_std"].value == pytest.approx(math.sqrt(0.375 / 4))
    assert found["stability_within_0.25"].value == pytest.approx(3 / 4)
    pearson = stats.pearsonr(*split[0]).statistic
    assert found["stability_pearson"].value == pytest.approx(pearson)
    histogram = difference_histogram(split, FIVE)
    assert list(histogram) == [-1, -0.75, -0.5, -0.25, 0, 0.25, 0.5, 0.75, 1]
    assert {k: v for k, v in histogram.items() if v} == {-0.5: 0.25, 0: 0.25, 0.25: 0.5}


@pytest.mark.parametrize(
    ("differences", "steps"),
    [
        ((0, 1, -1), (-1, 0, 1)),
        ((0, 1 / 3, -2 / 3), (-1, -2 / 3, -1 / 3, 0, 1 / 3, 2 / 3, 1)),
        ((0, 0.125), [k / 8 for k in range(-8, 9)]),
        ((0.2, 0.25), [k / 8 for k in range(-8, 9)]),  # twentieths: too fine
    ],
)
def test_the_histogram_of_differences_has_the_steps_of_the_differences(differences, steps):
    """Thirds, as single ratings of 1-4 have, and p̂'s eighths are not rounded to quarters."""
    halves = [(np.array(differences), np.zeros(len(differences)))]
    histogram = difference_histogram(halves, Scale(0, 1, 1))
    assert list(histogram) == pytest.approx(list(steps))
    assert histogram[0] == pytest.approx(differences.count(0) / len(differences))
    assert sum(histogram.values()) == pytest.approx(1)


def test_a_scale_of_a_single_value_has_no_differences():
    """A dimension that is constant in a file without `file.low` and `file.high`."""
    table = of_raters((3, 3, 3), (3, 3, 3))
    measures, histogram = compute_measures(table, Scale(3, 3))
    assert histogram == {}
    for name in HALF_MEASURES[1:]:
        assert math.isnan(measures[name].value)
        assert measures[name].note.startswith("undefined: the scale has a single value")
    frame = pd.DataFrame({"item_id": ["a", "b"], "value": [3.0, 3.0]})
    for step in (None, 1):
        assert count_by_level(frame, Scale(3, 3, step)) == {3: 2}


def test_cohen_kappa_of_anonymous_columns_has_a_remark():
    raters = simulated(40, 3)
    item_ids = [f"i{k}" for k in range(40)]
    ratings = pd.DataFrame(
        [
            (item_id, "overall", f"r{rater}", value)
            for item_id, values in zip(item_ids, raters, strict=True)
            for rater, value in enumerate(values)
        ],
        columns=pd.Index(["item_id", "dimension", "rater", "value"]),
    )
    for is_anonymous in (True, False):
        table = RatingTable.from_ratings(ratings, item_ids, "overall", is_anonymous=is_anonymous)
        for kappa in cohen_kappas(table).values():
            assert ("raters are anonymous" in kappa.note) == is_anonymous


def test_a_scale_without_steps_is_cut_into_ten():
    assert scale_levels(Scale(0, 5)) == [0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5]
    assert scale_levels(Scale(1, 2, 0.5)) == [1, 1.5, 2]
    assert scale_levels(Scale(3, 3)) == [3]


def test_virtual_measures_of_three_are_taken_as_they_are():
    ratings = simulated(40, 3)
    found = measure_virtual_raters(table_of_matrix(ratings), FIVE)
    x, y, z = np.sort(ratings, axis=1).T
    expected = stats.kendalltau([*y, *y], [*x, *z], variant="c").statistic
    assert found["tau_Y-XZ"].value == pytest.approx(expected)
    assert all(math.isnan(f.std) and not f.note for f in found.values())
    merged = fleiss_kappa(np.minimum(ratings, 4))
    assert found["fleiss_kappa_4=5"].value == pytest.approx(merged)
    assert "fleiss_kappa_4=5" not in measure_virtual_raters(of_raters((1, 2), (1, 2), (2, 2)), FOUR)


def test_virtual_measures_of_more_are_the_mean_of_draws():
    table = table_of_matrix(simulated(200, 6))
    few, many = (
        measure_virtual_raters(table, FIVE, draws=5),
        measure_virtual_raters(table, FIVE, draws=400),
    )
    for name in few:
        assert few[name].std > 0
        assert abs(few[name].value - many[name].value) < 4 * many[name].std
    assert "mean of 5 draws of three ratings an item" in few["kendall_w"].note
    # kappa of a random three is in the mean near to the pairwise one, which alpha nominal is.
    alpha = krippendorff_alpha(table, "nominal").value
    assert many["fleiss_kappa"].value == pytest.approx(alpha, abs=0.01)


def test_items_with_fewer_than_three_are_left_out_and_counted():
    ratings = simulated(50, 3)
    ratings[:20, 2] = NAN
    ratings[:5, 1] = NAN
    found = measure_virtual_raters(table_of_matrix(ratings), FIVE)
    assert {f.n_items for f in found.values()} == {30}
    assert "items left out, with fewer than 3 ratings: 20" in found["kendall_w"].note
    whole = measure_virtual_raters(table_of_matrix(ratings[20:]), FIVE)
    assert found["kendall_w"].value == whole["kendall_w"].value


def test_ceilings_by_their_definitions():
    ratings = simulated(80, 3)
    table = table_of_matrix(ratings)
    virtual = measure_virtual_raters(table, FIVE)
    found = compute_ceilings(table, "tau_c")
    assert list(found) == list(CEILINGS)
    best = max(("tau_X-YZ", "tau_Y-XZ", "tau_Z-XY"), key=lambda k: virtual[k].value)
    assert found["ceiling_one_vs_rest"].value == virtual[best].value
    assert best.removeprefix("tau_") in found["ceiling_one_vs_rest"].note
    assert "draws" not in found["ceiling_one_vs_rest"].note
    oracle = stats.pearsonr(np.repeat(ratings.mean(axis=1), 3), ratings.ravel()).statistic
    assert compute_ceilings(table, "pearson")["ceiling_oracle"].value == pytest.approx(oracle)
    again = compute_ceilings(table, "tau_c")["ceiling_oracle"]
    assert repr(again) == repr(found["ceiling_oracle"])


def test_one_person_against_another_worked_by_hand():
    """Ratings 1, 2 of one caption and 1, 4 of another: as score and rating (1, 2), (2, 1), (1, 4), (4, 1).

    Four of the six pairs of points are discordant: each of (1, 2), (1, 4) with each of (2, 1), (4, 1). Of the other
    two, one is tied in the score and one in the rating: τ_b = -4 / √(5 · 5).
    """
    table = table_of_matrix(np.array([[1.0, 2.0], [1.0, 4.0]]))
    found = compute_ceilings(table, "tau_b")["ceiling_one_vs_one"]
    assert found.value == pytest.approx(-4 / 5)
    assert (found.n_items, found.n_ratings) == (2, 4)
    assert found.note == "each rating against each other rating of its item"


def test_one_person_against_another_is_the_coefficient_of_all_ordered_pairs_of_ratings():
    """SciPy's τ_c of the pairs, made by a loop; items differ in their numbers of ratings."""
    ratings = simulated(60, 4)
    ratings[:20, 3] = NAN
    ratings[10:15, 2] = NAN
    scores: list[float] = []
    others: list[float] = []
    for row in ratings:
        of_item = row[~np.isnan(row)].tolist()
        for i, score in enumerate(of_item):
            for j, other in enumerate(of_item):
                if i != j:
                    scores.append(score)
                    others.append(other)
    found = compute_ceilings(table_of_matrix(ratings), "tau_c")["ceiling_one_vs_one"]
    expected = stats.kendalltau(scores, others, variant="c").statistic
    assert found.value == pytest.approx(expected, abs=1e-12)
    assert [len(found.points), len(found.points[0][0])] == [1, len(scores)]


def test_ceilings_of_two_ratings():
    ratings = np.sort(simulated(80, 2), axis=1)
    found = compute_ceilings(table_of_matrix(ratings), "tau_b")["ceiling_one_vs_rest"]
    assert found.value == pytest.approx(stats.kendalltau(*ratings.T).statistic)
    assert (found.n_items, found.n_ratings) == (80, 80)


@pytest.mark.parametrize(
    ("ratings", "reason"),
    [
        (np.array([[1.0], [2.0]]), "rating"),
        (np.ones((4, 1)), "rating"),
        (np.empty((0, 3)), "rating"),
        (np.full((12, 3), 2.0), "equal|one rating"),
    ],
)
def test_undefined_is_nan_with_a_reason(ratings, reason):
    found, _ = compute_measures(table_of_matrix(ratings), FIVE)
    fine = {"percent_agreement", "stability_mean", "stability_std", "stability_within_0.25"}
    for name, one in found.items():
        if len(ratings) == 12 and name in fine:
            continue
        assert math.isnan(one.value), name
        assert one.note.startswith("undefined: "), name
    assert pd.Series([f.note for n, f in found.items() if n not in fine]).str.contains(reason).all()


def test_two_raters_have_no_virtual_three():
    found, _ = compute_measures(table_of_matrix(simulated(30, 2)), FIVE)
    for name in ("tau_X-YZ", "kendall_w", "fleiss_kappa", "fleiss_kappa_4=5"):
        assert (
            found[name].note
            == "undefined: no item has three ratings, which the virtual raters need"
        )
    assert all(found[n].value > 0.3 for n in ("icc1", "split_half", "ceiling_one_vs_rest"))


# Ratings of 1-4, a third of them missing.
patchy = hnp.arrays(
    np.float64,
    st.tuples(st.integers(2, 12), st.integers(2, 5)),
    elements=st.sampled_from([1.0, 2.0, 3.0, 4.0, 2.0, 3.0, NAN, NAN]),
)
laws = settings(max_examples=25)
#: What no draw and no rater's number has a part in.
FIXED = (
    *(f"krippendorff_alpha_{level}" for level in LEVELS),
    *(f"cohen_kappa{weights}" for weights in ("", "_linear", "_quadratic")),
    "icc1",
    "icc1k",
    "percent_agreement",
    *(f"leave_one_rater_out_{c}" for c in ("tau_c", "spearman", "pearson")),
    "ceiling_oracle",
)


@laws
@given(ratings=patchy)
def test_alpha_is_that_of_the_krippendorff_package(ratings):
    table = table_of_matrix(ratings)
    assume(table.n_items > 0 and not table.is_constant)
    for level in LEVELS:
        expected = krippendorff.alpha(ratings.T, level_of_measurement=level)
        assert krippendorff_alpha(table, level).value == pytest.approx(expected, abs=1e-12)


@pytest.mark.dev
@laws
@given(
    ratings=hnp.arrays(
        np.float64, st.tuples(st.integers(2, 12), st.integers(2, 5)), elements=st.integers(1, 4)
    )
)
def test_kappas_are_those_of_statsmodels_and_sklearn(ratings):
    from sklearn.metrics import cohen_kappa_score
    from statsmodels.stats.inter_rater import aggregate_raters
    from statsmodels.stats.inter_rater import fleiss_kappa as statsmodels_fleiss

    assume(np.ptp(ratings) > 0)
    counts, _ = aggregate_raters(ratings)
    assert fleiss_kappa(ratings) == pytest.approx(statsmodels_fleiss(counts))
    pair = ratings[:, :2]
    assume(np.ptp(pair) > 0)
    found = cohen_kappas(table_of_matrix(pair), min_items=1)
    for weights, name in ((None, ""), ("linear", "_linear"), ("quadratic", "_quadratic")):
        expected = cohen_kappa_score(*pair.T, labels=[1, 2, 3, 4], weights=weights)
        assert found[f"cohen_kappa{name}"].value == pytest.approx(expected, abs=1e-12)


@laws
@given(ratings=patchy, data=st.data())
def test_laws(ratings, data):
    found, histogram = compute_measures(table_of_matrix(ratings), FOUR, draws=3)
    for name, one in found.items():
        assert math.isnan(one.value) == one.note.startswith("undefined: "), name
        assert math.isnan(one.value) or one.value <= 1 + 1e-9, name
        unbounded = {"icc1k", "split_half"}  # both reach below -1, as disagreement grows
        alphas = name.startswith(("krippendorff", "cohen"))
        assert math.isnan(one.value) or one.value >= -1 - 1e-9 or name in unbounded or alphas, name
    for name in ("percent_agreement", "kendall_w", "stability_std", "stability_within_0.25"):
        assert not found[name].value < -1e-12
    assert not histogram or sum(histogram.values()) == pytest.approx(1)
    # Neither the order of items nor the raters' numbers matter.
    items = data.draw(st.permutations(range(ratings.shape[0])))
    raters = data.draw(st.permutations(range(ratings.shape[1])))
    mixed, _ = compute_measures(table_of_matrix(ratings[items][:, raters]), FOUR, draws=3)
    for name in FIXED:
        assert mixed[name].value == pytest.approx(found[name].value, nan_ok=True), name
        assert mixed[name].n_items == found[name].n_items
    # What knows ranks or differences alone, but no categories' names, survives a shift.
    shifted, _ = compute_measures(table_of_matrix(ratings + 3), Scale(4, 7, 1), draws=3)
    for name, one in shifted.items():
        assert one.value == pytest.approx(found[name].value, nan_ok=True, abs=1e-9), name


@laws
@given(
    values=st.lists(st.integers(1, 5), min_size=MIN_ITEMS, max_size=20),
    n_raters=st.integers(2, 6),
)
def test_who_agree_fully_have_one(values, n_raters):
    assume(len(set(values)) > 1)
    table = table_of_matrix(np.repeat(np.array(values, dtype=float)[:, None], n_raters, axis=1))
    found, histogram = compute_measures(table, FIVE, draws=2)
    # tau_c is 1 only where all levels are equally frequent.
    exact = {n for n in found if not n.startswith("tau") and "tau_c" not in n and n not in CEILINGS}
    if n_raters == 2:
        exact -= {"kendall_w", "fleiss_kappa", "fleiss_kappa_4=5"}
    if set(values) == {4, 5}:
        exact -= {"fleiss_kappa_4=5"}
    for name in exact:
        expected = 0 if name in ("stability_mean", "stability_std") else 1
        assert found[name].value == pytest.approx(expected, abs=1e-9), name
    assert histogram[0] == 1
    for coefficient in ("tau_b", "spearman", "pearson"):
        for ceiling in compute_ceilings(table, coefficient).values():
            assert ceiling.value == pytest.approx(1)


def test_a_seed_gives_the_same_numbers_again():
    table = table_of_matrix(simulated(50, 6))
    first, again, other = (compute_measures(table, FIVE, seed)[0] for seed in (4, 4, 5))
    assert {k: v.value for k, v in first.items()} == {k: v.value for k, v in again.items()}
    assert first["tau_X-YZ"].value != other["tau_X-YZ"].value
    assert first["split_half"].value != other["split_half"].value
    for name in FIXED:
        assert first[name].value == other[name].value


def test_who_rates_thousands_of_items_with_thousands_of_others():
    """A crowd: 3,000 raters of whom each item sees five; kappa has few pairs, and memory holds."""
    rng = np.random.default_rng(0)
    ratings = pd.DataFrame(
        {
            "item_id": np.repeat(np.arange(5000).astype(str), 5),
            "dimension": "overall",
            "rater": np.concatenate([rng.choice(3000, 5, replace=False) for _ in range(5000)]),
            "value": simulated(5000, 5).ravel(),
        }
    )
    table = RatingTable.from_ratings(ratings, ratings["item_id"].unique(), "overall")
    found, _ = compute_measures(table, FIVE, draws=2)
    assert "no two raters have 10 items in common" in found["cohen_kappa"].note
    matrix = table_of_matrix(simulated(5000, 5))
    assert found["icc1"].value == pytest.approx(intraclass(matrix)["icc1"].value)


def test_without_a_seed_there_are_twenty_draws_of_seed_0():
    table = table_of_matrix(simulated(30, 5))
    assert len(draw_halves(table)) == 20
    measures, same_measures = (
        compute_measures(table, FIVE, **options)[0] for options in ({}, {"seed": 0, "draws": 20})
    )
    for name in ("split_half", "kendall_w"):
        assert measures[name].value == same_measures[name].value
