"""Tests of differences: by hand, against reference formulas, by their laws, and where they have none."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import captau
from captau.benchmarks.runs.results import SIGNIFICANCE_COLUMNS
from captau.benchmarks.statistics.bootstrap import (
    StatisticsOptions,
    jackknife,
    resample,
    resampling_interval,
    two_sided_p_value,
)
from captau.benchmarks.statistics.disattenuation import disattenuate, reliability_statistic
from captau.benchmarks.statistics.intervals import (
    Uncertainty,
    correct_p_values,
    measure_uncertainty,
    rank_clusters,
)
from captau.benchmarks.statistics.panels import PreferencePanel, RatingPanel, make_rating_panel
from captau.benchmarks.statistics.rater_agreement import intraclass
from captau.benchmarks.statistics.rating_table import RatingTable
from captau.benchmarks.statistics.significance import (
    MetricDifference,
    MetricPair,
    PairedTest,
    PreparedMetric,
    bootstrap_test,
    compare_metrics,
    pairwise_p_values,
    permutation_test,
    williams,
)
from tests.benchmarks.printed import lines_of
from tests.benchmarks.statistics.rating_matrices import table_of_matrix
from tests.conftest import run_captau, says

COEFFICIENTS = ("tau_c", "tau_b", "spearman", "pearson")


def panel(seed: int = 0, images: int = 25, systems: int = 3, **changes) -> RatingPanel:
    """Each system has a caption of each image; metric `good` sees more of its quality than `bad`."""
    rng = np.random.default_rng(seed)
    image = np.repeat(np.arange(images), systems)
    quality = rng.normal(size=len(image))
    made = RatingPanel(
        image=image,
        n_images=images,
        item=np.arange(len(image)),
        system=np.tile(np.arange(systems), images),
        drops_undefined=False,
        dimension="overall",
        coefficients=COEFFICIENTS,
        scores={
            "good": quality + 0.5 * rng.normal(size=len(image)),
            "bad": 3 + 9 * (quality + 3 * rng.normal(size=len(image))),
            "other": quality + 0.6 * rng.normal(size=len(image)),
        },
        ratings=np.digitize(quality, [-1, 0, 1]).astype(float),
    )
    return replace(made, **changes)


def prepared(one: RatingPanel | PreferencePanel) -> dict[str, PreparedMetric]:
    keeps = {metric: one.comparable_points(metric) for metric in one.metrics}
    return {
        m: PreparedMetric.prepare(one, m, keep) for m, keep in keeps.items() if keep is not None
    }


def drawn(one: RatingPanel | PreferencePanel, options: StatisticsOptions) -> dict[str, np.ndarray]:
    ready = prepared(one)
    found = resample([p.statistic for p in ready.values()], one.n_images, options.replicates)
    return dict(zip(ready, found, strict=True))


def compared(one: RatingPanel | PreferencePanel, options: StatisticsOptions, *tests: str):
    return compare_metrics(one, one.metrics, prepared(one), drawn(one, options), options, tests)


def scipy_all(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.array(
        [
            stats.kendalltau(x, y, variant="c").statistic,
            stats.kendalltau(x, y).statistic,
            stats.spearmanr(x, y).statistic,
            stats.pearsonr(x, y).statistic,
        ]
    )


@pytest.mark.parametrize(
    ("systems", "item_ids", "numbers", "images"),
    [
        # Worked by hand: items 0 and 1 are of image i, item 2 of image k; numbers are in order of appearance.
        (["A", "B", "A"], [2, 0, 0, 1], [0, 0, 0, 1], [1, 1, 0]),
        (["A", "B", "A"], [1], None, [-1, 0]),
        (["A", "A", "A"], [0, 2], None, [0, -1, 1]),
        (["A", "B", "A"], [], None, []),
    ],
)
def test_a_panel_numbers_systems_and_images_of_its_points(systems, item_ids, numbers, images):
    items = pd.DataFrame({"item_id": [0, 1, 2], "image_id": list("iik"), "system": systems})
    points = pd.DataFrame({"item_id": item_ids, "value": np.ones(len(item_ids))})
    made = make_rating_panel(items, points, {"m": np.arange(3.0)}, "d", ["tau_c"], drop=True)
    assert made.scores["m"].tolist() == item_ids
    assert (None if made.system is None else made.system.tolist()) == numbers
    assert made.image_of_item.tolist() == images


# PERM-BOTH.


@pytest.mark.parametrize("swap", ["both", "image", "item"])
def test_permutation_by_its_definition(swap):
    """The same lots, with whole rows and columns of standardised score matrices swapped in a loop
    (Deutsch et al. 2021, section 4.2) and SciPy's coefficients.
    """
    one = panel(images=12)
    options = StatisticsOptions(replicates=64, seed=4, swap=swap)
    pair = MetricPair.prepare(one, "good", "other", prepared(one))
    assert pair is not None
    found = permutation_test(pair, options)

    rng = np.random.default_rng(np.random.SeedSequence(4, spawn_key=(0, 1)))
    rows = {"both": 12, "image": 12, "item": 36}[swap]
    coins = rng.integers(2, size=(rows, 64))
    of_system = rng.integers(2, size=(3, 64)) if swap == "both" else np.zeros((3, 64), dtype=int)
    x, y = (stats.zscore(one.scores[m]).reshape(12, 3) for m in ("good", "other"))
    observed = np.abs(
        scipy_all(one.scores["good"], one.ratings) - scipy_all(one.scores["other"], one.ratings)
    )
    larger = np.zeros(4)
    for k in range(64):
        first, second = x.copy(), y.copy()
        for system in np.flatnonzero(of_system[:, k]):
            first[:, system], second[:, system] = second[:, system].copy(), first[:, system].copy()
        mask = coins[:, k].astype(bool)
        mask = mask.reshape(12, 3) if swap == "item" else np.repeat(mask[:, None], 3, axis=1)
        first, second = np.where(mask, second, first), np.where(mask, first, second)
        apart = scipy_all(first.ravel(), one.ratings) - scipy_all(second.ravel(), one.ratings)
        larger += np.abs(apart) >= observed - 1e-12
    assert [t.p_value for t in found] == pytest.approx(list((larger + 1) / 65))
    assert {t.note for t in found} == {""}


def test_permutation_without_systems_swaps_images():
    one = panel()
    alone = replace(one, system=None)
    p = [
        [
            t.p_value
            for t in permutation_test(
                MetricPair.prepare(which, "good", "other", prepared(which)), options
            )
        ]
        for which, options in (
            (alone, StatisticsOptions(replicates=128)),
            (one, StatisticsOptions(replicates=128, swap="image")),
        )
    ]
    assert p[0] == p[1]


def test_permutation_of_preferences_swaps_images():
    """Two images of one pair each, of which one metric is right on both: of the four ways to swap
    two have so large a difference.
    """
    one = preferences({"right": [1.0, 1.0], "wrong": [0.0, 0.0]}, image=[0, 1], dimension=[0, 0])
    (p,) = {t.p_value for t in permutation_test(pair_of(one), StatisticsOptions(replicates=4000))}
    assert p == pytest.approx(0.5, abs=0.04)


def preferences(
    right: dict[str, list[float]], image: list[int], dimension: list[int]
) -> PreferencePanel:
    return PreferencePanel(
        image=np.array(image),
        n_images=max(image) + 1,
        item=np.arange(len(image)),
        system=None,
        drops_undefined=False,
        dimensions=tuple(f"c{k}" for k in range(max(dimension) + 1)),
        dimension=np.array(dimension),
        outcomes={metric: np.array(values) for metric, values in right.items()},
        counted={metric: np.ones(len(image), dtype=bool) for metric in right},
        captions=np.arange(len(image)),
        mean_dimension="mean",
    )


def pair_of(one: RatingPanel | PreferencePanel) -> MetricPair:
    pair = MetricPair.prepare(one, *one.metrics[:2], prepared(one))
    assert pair is not None
    return pair


# The paired bootstrap.


def test_the_bootstrap_is_paired():
    """A metric and itself, stretched: no replicate differs, though each moves."""
    one = panel()
    one = replace(one, scores={"good": one.scores["good"], "same": 2 * one.scores["good"] - 1})
    options = StatisticsOptions(replicates=200)
    rows = drawn(one, options)
    assert rows["good"].std() > 0.01
    for result in bootstrap_test(pair_of(one), rows, options):
        assert result.p_value == 1
        assert (result.interval.low, result.interval.high) == pytest.approx((0, 0), abs=1e-12)


def test_bootstrap_p_counts_the_lesser_side():
    one = panel()
    options = StatisticsOptions(replicates=500, interval="percentile")
    rows = drawn(one, options)
    apart = rows["good"] - rows["bad"]
    for index, result in enumerate(bootstrap_test(pair_of(one), rows, options)):
        lesser = min((apart[index] <= 0).sum(), (apart[index] >= 0).sum())
        assert result.p_value == pytest.approx(2 * (lesser + 1) / 501)
        low, high = np.quantile(apart[index], [0.025, 0.975])
        assert (result.interval.low, result.interval.high) == pytest.approx((low, high))


def test_bca_of_a_difference_has_its_own_jackknife():
    one, options = panel(), StatisticsOptions(replicates=500, interval="bca")
    pair, replicates = pair_of(one), drawn(one, options)
    left_out, other = (jackknife(metric.statistic, one.n_images) for metric in pair.prepared)
    samples = zip(
        pair.difference, replicates["good"] - replicates["bad"], left_out - other, strict=True
    )
    for result, sample in zip(bootstrap_test(pair, replicates, options), samples, strict=True):
        expected = resampling_interval(*sample[:2], one.n_images, options, sample[2])
        assert (result.interval.low, result.interval.high) == pytest.approx(
            (expected.low, expected.high)
        )


def test_a_dimension_of_one_image_keeps_no_other_from_its_intervals():
    panels = [panel(images=1, dimension="small"), panel()]
    options = StatisticsOptions(replicates=20)
    intervals = measure_uncertainty(panels, ["good", "bad"], options).intervals
    assert "too few images (1)" in intervals["good", "small", "tau_c"].note
    assert intervals["good", "overall", "tau_c"].low < intervals["good", "overall", "tau_c"].high


@pytest.mark.parametrize("interval", ["expanded", "bca"])
@pytest.mark.parametrize("level", ["pooled", "by_image"])
def test_unranked_coefficients_have_the_intervals_of_ranked_ones_and_no_differences(
    interval, level
):
    options = StatisticsOptions(replicates=64, interval=interval)
    ranked = measure_uncertainty([panel(level=level)], ["good", "bad"], options)
    both = panel(level=level, coefficients=("tau_c",), unranked=("tau_b", "spearman", "pearson"))
    found = measure_uncertainty([both], ["good", "bad"], options)

    for key, interval_of_ranked in ranked.intervals.items():
        assert found.intervals[key].low == pytest.approx(interval_of_ranked.low, abs=1e-14)
        assert found.intervals[key].high == pytest.approx(interval_of_ranked.high, abs=1e-14)
    assert len(found.intervals) == len(ranked.intervals) == 3 * len(COEFFICIENTS)

    (difference,) = found.differences
    assert difference == next(d for d in ranked.differences if d.coefficient == "tau_c")


# McNemar.


def test_mcnemar_is_of_each_dimension_and_of_all_pairs_together():
    """Worked by hand: 2 pairs to 0, then 0 to 1, and 2 to 1, which no swap brings nearer to 0."""
    right = {"one": [1.0, 1, 0, 1], "other": [0.0, 0, 1, 1]}
    rows = compared(
        preferences(right, image=[0, 1, 2, 3], dimension=[0, 0, 1, 1]),
        StatisticsOptions(replicates=10),
        "mcnemar",
    )
    assert {row.dimension: row.result.p_value for row in rows} == {"c0": 0.5, "c1": 1, "mean": 1}
    assert [row.result.remarks[0].values["n_pairs"] for row in rows] == [2, 2, 4]


# Williams.


def test_williams_by_its_formula():
    """Steiger 1980, equation 7, with the determinant as NumPy has it; n = 103, r = .4, .2, .3."""
    r_a, r_b, r_ab, n = 0.4, 0.2, 0.3, 103
    matrix = np.array([[1, r_a, r_b], [r_a, 1, r_ab], [r_b, r_ab, 1]])
    below = 2 * (n - 1) / (n - 3) * np.linalg.det(matrix) + ((r_a + r_b) / 2) ** 2 * (1 - r_ab) ** 3
    t, p = williams(r_a, r_b, r_ab, n)
    assert t == pytest.approx((r_a - r_b) * math.sqrt((n - 1) * (1 + r_ab) / below))
    assert p == pytest.approx(2 * stats.t.sf(t, 100))
    assert williams(r_b, r_a, r_ab, n) == pytest.approx((-t, p))


def test_williams_is_undefined_for_equal_metrics_and_few_points():
    assert all(map(math.isnan, williams(0.5, 0.5, 1.0, 100)))
    assert all(map(math.isnan, williams(0.5, 0.4, 0.3, 3)))


def test_williams_is_of_pearson_alone():
    found = compared(panel(), StatisticsOptions(replicates=10), "williams")
    assert {d.coefficient for d in found} == {"pearson"}
    one = panel()
    r_ab = stats.pearsonr(one.scores["good"], one.scores["bad"]).statistic
    assert found[0].result.p_value == pytest.approx(
        williams(found[0].value_a, found[0].value_b, r_ab, 75)[1]
    )


# Corrections and ranks.


@pytest.mark.dev
@settings(max_examples=60)
@given(st.lists(st.floats(1e-6, 1), min_size=1, max_size=12))
def test_corrections_are_those_of_statsmodels(p_values):
    from statsmodels.stats.multitest import multipletests

    for name, theirs in (("holm", "holm"), ("bh", "fdr_bh")):
        wanted = multipletests(p_values, method=theirs)[1]
        np.testing.assert_allclose(correct_p_values(p_values, name), wanted, rtol=1e-12)
        gapped = correct_p_values([math.nan, *p_values], name)
        assert math.isnan(gapped[0])
        np.testing.assert_array_equal(gapped[1:], correct_p_values(p_values, name))
    np.testing.assert_array_equal(correct_p_values(p_values, "none"), p_values)


def test_corrections_of_nothing():
    for name in ("holm", "bh", "none"):
        assert np.isnan(correct_p_values([math.nan], name)).all()
        assert correct_p_values([], name).shape == (0,)


def test_ranks_are_at_the_level_of_the_intervals():
    """Worked by hand at level 0.95: a beats c, and b is beaten by nobody; another dimension has its own."""
    p_values = {("a", "b"): 0.06, ("a", "c"): 0.04, ("b", "c"): 0.06}
    differences = [
        MetricDifference("overall", "tau_c", *pair, test, 0.5, 0.4, PairedTest(p), 9, 9)
        for pair, p in p_values.items()
        for test in ("bootstrap", "permutation")
    ]
    values = {
        (metric, "overall", "tau_c"): value for metric, value in zip("abc", (3, 2, 1), strict=False)
    }
    for correction, ranks in (("none", [1, 1, 2]), ("holm", [1, 1, 1])):
        options = StatisticsOptions(correction=correction)
        computed = Uncertainty(options, {}, differences).compute_ranks(
            values | {("a", "x", "y"): 1}
        )
        assert computed == dict(zip(values, ranks, strict=False))


def test_ranks_begin_anew_at_the_first_that_is_beaten():
    """b and c cannot be told from a; d is beaten by b, and e by nobody of d's rank."""
    values = {"c": 0.3, "a": 0.5, "b": 0.4, "e": 0.1, "d": 0.2, "undefined": math.nan}
    p = {frozenset(pair): 0.5 for pair in ("ab", "ac", "bc", "ad", "cd", "de", "be", "ce")}
    p |= {frozenset("bd"): 0.01, frozenset("ae"): 0.01}
    assert rank_clusters(values, p, 0.05) == {"a": 1, "b": 1, "c": 1, "d": 2, "e": 2}


def test_what_no_test_compares_has_no_rank():
    """By hand. Two that no test compares are no equals, and neither are three.

    Where one pair of three is untested, the worse of the pair is left out; and of four, one that was tested against
    one other alone, though it is the best.
    """
    untested = math.nan
    assert rank_clusters({"a": 1, "b": 0}, {frozenset("ab"): untested}, 0.05) == {}
    values = {"a": 3, "b": 2, "c": 1}
    p = {frozenset(pair): untested for pair in ("ab", "ac", "bc")}
    assert rank_clusters(values, p, 0.05) == {}
    p = {frozenset("ab"): 0.5, frozenset("ac"): 0.01, frozenset("bc"): untested}
    assert rank_clusters(values, p, 0.05) == {"a": 1, "b": 1}
    p |= {frozenset("bc"): 0.2, frozenset("ab"): untested}
    assert rank_clusters(values, p, 0.05) == {"a": 1, "c": 2}
    p = {frozenset(pair): 0.5 for pair in ("ad", "bc", "bd", "cd")}
    p |= {frozenset("ab"): untested, frozenset("ac"): untested}
    assert rank_clusters({**values, "d": 0}, p, 0.05) == {"b": 1, "c": 1, "d": 1}
    assert rank_clusters({"a": 1}, {}, 0.05) == {"a": 1}


# Gaps, and what has no difference.


def with_gaps(drop: bool) -> RatingPanel:
    one = panel(drops_undefined=drop)
    gaps = one.scores["good"].copy()
    gaps[[0, 5]] = math.nan
    return replace(one, scores={**one.scores, "good": gaps})


def test_a_gap_makes_a_metric_undefined():
    for row in compared(
        with_gaps(drop=False),
        StatisticsOptions(replicates=64),
        "bootstrap",
        "permutation",
        "williams",
    ):
        if "good" in (row.metric_a, row.metric_b):
            assert math.isnan(row.result.p_value)
            assert row.result.note == "undefined: a metric has undefined scores"
            assert (row.n_points, row.n_images) == (0, 0)
        else:
            assert 0 < row.result.p_value <= 1


def test_dropped_points_are_dropped_for_both_and_counted():
    one = with_gaps(drop=True)
    rest = np.setdiff1d(np.arange(75), [0, 5])
    for row in compared(
        one, StatisticsOptions(replicates=64), "bootstrap", "permutation", "williams"
    ):
        gap = "good" in (row.metric_a, row.metric_b)
        assert row.n_points == (73 if gap else 75)
        assert ("2 of 75 data points dropped: undefined score" in row.result.note) == gap
        if row.coefficient == "pearson":
            kept = rest if gap else np.arange(75)
            r = stats.pearsonr(one.scores[row.metric_b][kept], one.ratings[kept]).statistic
            assert row.value_b == pytest.approx(r, abs=1e-12)


def test_an_undefined_rating_counts_as_a_gap():
    one = panel(drops_undefined=True)
    ratings = one.ratings.copy()
    ratings[3] = math.nan
    rows = compared(replace(one, ratings=ratings), StatisticsOptions(replicates=10), "bootstrap")
    assert {row.n_points for row in rows} == {74}


def test_permutations_that_are_too_often_undefined_have_no_p():
    """Worked by hand: of two images, one swap in two gives either metric the same score twice."""
    scores = {"right": np.array([0.0, 1.0]), "wrong": np.array([1.0, 0.0])}
    one = panel(images=2, systems=1, system=None, scores=scores, ratings=np.array([1.0, 2.0]))
    for result in permutation_test(pair_of(one), StatisticsOptions(replicates=100)):
        assert math.isnan(result.p_value)
        assert 30 < result.remarks[0].values["n_undefined"] < 70


@pytest.mark.parametrize("test", ["bootstrap", "permutation", "williams"])
def test_constant_and_infinite_scores_have_no_p(test):
    one = panel()
    infinite = one.scores["good"].copy()
    infinite[0] = math.inf
    one = replace(one, scores={"flat": np.ones(75), "infinite": infinite, "bad": one.scores["bad"]})
    for row in compared(one, StatisticsOptions(replicates=32), test):
        flat = "flat" in (row.metric_a, row.metric_b)
        infinite = "infinite" in (row.metric_a, row.metric_b)
        no_mean = infinite and (row.coefficient == "pearson" or test == "permutation")
        assert math.isnan(row.result.p_value) == (flat or no_mean), (row, test)
        assert row.result.note.startswith("undefined: ") == (flat or no_mean)


def test_metrics_without_a_point_in_common():
    one = panel(drops_undefined=True)
    halves = {"good": np.where(np.arange(75) < 40, one.scores["good"], math.nan)}
    halves["bad"] = np.where(np.arange(75) < 40, math.nan, one.scores["bad"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = compared(
            replace(one, scores=halves),
            StatisticsOptions(replicates=10),
            "bootstrap",
            "permutation",
        )
    for row in rows:
        assert (row.n_points, row.n_images) == (0, 0)
        assert math.isnan(row.result.p_value)
        assert row.result.note.startswith(
            "undefined: a coefficient is; 75 of 75 data points dropped"
        )


# In the benchmark.


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")

    assert (
        run_captau(
            "compare",
            "metrics=[rouge_1,rouge_l,rouge_2]",
            "protocol.coefficients=[tau_c,pearson,accuracy]",
            "statistics.replicates=200",
            f"output_dir={folder}",
        )
        == 0
    )
    return folder


def test_compare_writes_every_pair_by_every_test(run):
    frame = pd.read_csv(run / "significance.csv")
    assert tuple(frame.columns) == SIGNIFICANCE_COLUMNS
    counts = frame.groupby(["dimension", "coefficient", "test"]).size()
    assert set(counts) == {3}
    assert ("overall", "pearson", "williams") in counts.index
    assert ("overall", "tau_c", "williams") not in counts.index
    assert ("mean", "accuracy", "permutation") in counts.index
    assert (frame["ci_low"].notna() == (frame["test"] == "bootstrap")).all()
    assert (frame["p_holm"] >= frame["p_value"]).all()
    assert set(frame["n_images"]) == {60}


def test_the_matrix_has_the_corrected_p_of_every_two(run):
    frame, matrix = (pd.read_csv(run / f"{name}.csv") for name in ("significance", "matrix"))
    names = ["rouge_1", "rouge_l", "rouge_2"]
    assert list(matrix.columns[-4:]) == ["metric", *names]
    for _, row in frame.iterrows():
        here = matrix[
            (matrix["dimension"] == row["dimension"])
            & (matrix["coefficient"] == row["coefficient"])
            & (matrix["test"] == row["test"])
        ].set_index("metric")
        assert here.loc[row["metric_a"], row["metric_b"]] == row["p_bh"]
        assert here.loc[row["metric_b"], row["metric_a"]] == row["p_bh"]
        assert math.isnan(here.loc[row["metric_a"], row["metric_a"]])


def test_compare_prints_the_better_metric_first(run):
    text = (run / "table.md").read_text(encoding="utf-8")
    assert "differences of τ_c" in text
    assert "| p bootstrap | p permutation | p Williams |" in text
    rows = [line for line in text.splitlines() if line.startswith("| ") and " over " in line]
    assert len(rows) == 3 * 3
    assert all(float(line.split("|")[2]) >= 0 for line in rows)


def test_values_of_pairs_are_those_of_the_metrics(run):
    frame, table = (pd.read_csv(run / f"{name}.csv") for name in ("significance", "correlations"))
    keys = ["metric", "dimension", "coefficient"]
    values = table.set_index(keys)["value"]
    for _, row in frame.iterrows():
        for side in "ab":
            key = (row[f"metric_{side}"], row["dimension"], row["coefficient"])
            assert row[f"value_{side}"] == pytest.approx(values[key], abs=1e-12)


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["metrics=[rouge_1]"], ("metrics=rouge_1", "two are needed")),
        (["tests=[t]"], ("unknown test 't'", "permutation")),
        (["tests=[]"], ("tests is []",)),
        (
            ["tests=[mcnemar]", "protocol.coefficients=[tau_c]"],
            ("dataset demo", "mcnemar", "compare accuracy, and the run has tau_c"),
        ),
        (["statistics.interval=none"], ("statistics.interval=none", "percentile or bca")),
        (["statistics.replicates=-1"], ("statistics.replicates is -1",)),
        (["statistics.swap=system"], ("statistics.swap", "image")),
    ],
)
def test_what_compare_is_given_wrong(options, parts, capsys, tmp_path):

    if not options[0].startswith("metrics="):
        options = ["metrics=[rouge_1,rouge_l]", *options]
    ended = run_captau("compare", f"output_dir={tmp_path / 'out'}", *options)
    assert ended == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    for part in parts:
        assert part in told
    assert not (tmp_path / "out").exists()


def of_one_image(tmp_path, images=("a.jpg",)):
    rows = ["image,caption,references,rater,value"]
    for image in images:
        rows += [
            f"{image},a dog {k * 'runs '},the dog,{r},{k + r}" for k in range(4) for r in (0, 1)
        ]
    (tmp_path / "mine.csv").write_text("\n".join(rows) + "\n")
    return {"path": str(tmp_path / "mine.csv")}


def test_one_image_has_no_interval_and_says_so(tmp_path):
    frame = captau.bench("file", ["rouge_1", "rouge_l"], file=of_one_image(tmp_path)).correlations
    assert frame["ci_low"].isna().all()
    defined = frame[frame["value"].notna()]
    assert set(defined["metric"]) >= {"rouge_l", "ceiling_oracle"}
    assert defined["note"].str.contains("no interval: too few images (1)", regex=False).all()


def test_one_image_cannot_be_compared(tmp_path):
    from captau.benchmarks.commands.bench import run as bench
    from captau.benchmarks.options.bench import BenchOptions
    from captau.benchmarks.scoring.catalog import resolve_metrics, usual_protocol
    from captau.benchmarks.scoring.protocol import Protocol
    from captau.benchmarks.scoring.score_store import Locations

    config = BenchOptions(
        datasets={"file": Protocol.resolve("file", usual_protocol("file"), {})},
        metrics=resolve_metrics(["rouge_1", "rouge_l"]),
        locations=Locations(file_options=of_one_image(tmp_path)),
        tests=("bootstrap",),
    )
    with says("dataset file: too few images", "(1)", "needs two"):
        bench(config)


def test_bench_has_intervals_of_every_defined_row():
    results = captau.bench("demo", ["rouge_1", "rouge_2"], floors=True)
    frame = results.correlations
    assert frame["value"].notna().all()
    assert (frame["ci_low"] <= frame["value"]).all()
    assert (frame["value"] <= frame["ci_high"]).all()
    table = results.tables[0]
    assert table.heads[:6] == ["τ_c", "±", "rank", "τ_b", "±", "rank"]
    cells = dict(lines_of(table))
    row = frame[(frame["metric"] == "rouge_1") & (frame["coefficient"] == "tau_c")].iloc[0]
    assert cells["ROUGE-1"][1] == f"{50 * (row['ci_high'] - row['ci_low']):.1f}"
    assert {cells["ROUGE-1"][2], cells["ROUGE-2"][2]} <= {"1", "2"}
    assert cells["random scores"][2] == cells["oracle (mean rating)"][2] == ""
    assert any(note.startswith("±: half the width of the 95 % interval") for note in table.notes)


def test_floors_are_named_rows_of_every_coefficient():
    results = captau.bench("demo", "rouge_1", floors=True)
    frame = results.correlations
    assert list(dict.fromkeys(frame["metric"]))[1:3] == ["floor_random", "floor_length"]
    lengths = captau.load("demo").items.set_index("item_id")["caption"].str.split().str.len()
    ratings = captau.load("demo").ratings
    row = frame[(frame["metric"] == "floor_length") & (frame["coefficient"] == "tau_b")].iloc[0]
    tau = stats.kendalltau(lengths.loc[ratings["item_id"]], ratings["value"]).statistic
    assert row["value"] == pytest.approx(tau, abs=1e-12)
    lot = frame[frame["metric"] == "floor_random"]
    assert set(lot["dimension"]) >= {"overall", "mean"}
    assert not results.scores["metric"].isin(["floor_random", "floor_length"]).any()
    again = captau.bench("demo", "rouge_1", floors=True).correlations
    pd.testing.assert_frame_equal(frame, again)


def test_the_seed_moves_intervals_and_nothing_else():
    one, other = (
        captau.bench("demo", "rouge_1", statistics={"seed": seed, "replicates": 200}).correlations
        for seed in (0, 1)
    )
    assert (one["ci_low"] != other["ci_low"]).any()
    rest = [c for c in one.columns if not c.startswith("ci_")]
    pd.testing.assert_frame_equal(one[rest], other[rest])


def test_fisher_is_named_and_of_pearson_alone():
    protocol = {"coefficients": ["tau_c", "pearson"]}
    results = captau.bench("demo", "rouge_1", protocol=protocol, statistics={"interval": "fisher"})
    frame = results.correlations.set_index(["metric", "coefficient"])
    pearson, tau = frame.loc[("rouge_1", "pearson")], frame.loc[("rouge_1", "tau_c")]
    ratings = captau.load("demo").ratings
    scores = results.scores.set_index("item_id")["score"].loc[ratings["item_id"]]
    wanted = stats.pearsonr(scores, ratings["value"]).confidence_interval(0.95)
    assert (pearson["ci_low"], pearson["ci_high"]) == pytest.approx(wanted, abs=1e-12)
    assert "Fisher interval, data points taken as independent" in pearson["note"]
    assert math.isnan(tau["ci_low"])
    assert "no Fisher interval of tau_c" in tau["note"]
    assert "rank" not in results.tables[0].columns


def test_without_intervals_the_table_is_as_it_was():
    results = captau.bench("demo", ["rouge_1", "rouge_2"], statistics={"interval": "none"})
    assert results.correlations[["ci_low", "ci_high"]].isna().all(axis=None)
    assert not {"±", "rank"} & set(results.tables[0].columns)


@pytest.mark.parametrize(
    ("interval", "least"),
    [
        ("percentile", 120),  # 2 · 3 pairs / 0.05
        # By SciPy, of the demo's 60 images: 1 / norm.sf(√(60 / 59) · t.isf(0.05 / 6, 59)) = 154.36.
        ("expanded", 155),
    ],
)
def test_holm_says_when_it_has_too_few_replicates(interval, least):
    options = {"correction": "holm", "replicates": 64, "interval": interval}
    table = captau.bench("demo", ["rouge_1", "rouge_2", "rouge_l"], statistics=options).tables[0]
    assert any(f"set statistics.replicates={least} or more" in note for note in table.notes)


def test_a_table_names_its_images_and_warns_of_fewer_than_ten(tmp_path):
    """Six images of two captions each; the same with ten images has no warning."""
    for n_images, warns in ((6, True), (10, False)):
        rows = [
            f"i{image},a dog {word},{value},a dog runs"
            for image in range(n_images)
            for word, value in (("runs", 3 + image % 2), ("sits", 1 + image % 3))
        ]
        path = tmp_path / f"{n_images}.csv"
        path.write_text("\n".join(["image,caption,value,references", *rows]))
        result = captau.bench(
            "file", ["bleu_1", "rouge_l"], statistics={"replicates": 50}, file={"path": str(path)}
        )
        (table,) = result.tables
        items = f"{2 * n_images} items of {n_images} images, {2 * n_images} data points; "
        assert any(note.startswith(items) for note in table.notes)
        warning = (
            f"With {n_images} images, intervals and ranks are not reliable: τ_c (from 10 on), "
        )
        warning += "τ_b (from 10 on), ρ (from 10 on), r (from 10 on)."
        assert (warning in table.notes) == warns
        notes = result.correlations["note"]
        assert notes.str.contains("interval of 6 images; from 10 on").any() == warns


def test_statistics_options_from_python():
    for wrong, parts in [
        ({"replicats": 5}, ("unknown option of statistics", "did you mean replicates")),
        (5, ("statistics is 5",)),
        ({"level": 2.0}, ("statistics.level is 2.0",)),
    ]:
        with says(*parts):
            captau.bench("demo", "rouge_1", statistics=wrong)


# Correction for noise.


def test_disattenuated_by_hand(tmp_path):
    """r over the root of ICC(1,1), as `captau agree` and SciPy have them; ICC(1,k) of means."""
    from captau.benchmarks.statistics.rater_agreement import intraclass

    demo = captau.load("demo")
    table = RatingTable.from_ratings(demo.ratings, demo.items["item_id"], "overall")
    for ratings, measure in (("per_rating", "icc1"), ("mean", "icc1k")):
        results = captau.bench(
            "demo",
            ["rouge_1", "rouge_l"],
            protocol={"ratings": ratings},
            statistics={"disattenuate": True, "replicates": 100},
            output_dir=tmp_path / ratings,
        )
        frame = pd.read_csv(tmp_path / ratings / "disattenuated.csv").set_index("metric")
        scores = results.scores[results.scores["metric"] == "rouge_l"].set_index("item_id")["score"]
        points = demo.ratings[["item_id", "value"]]
        if ratings == "mean":
            points = points.groupby("item_id", sort=False)["value"].mean().reset_index()
        r = stats.pearsonr(scores.loc[points["item_id"]], points["value"]).statistic
        reliability = intraclass(table)[measure].value
        row = frame.loc["rouge_l"]
        assert row["pearson"] == pytest.approx(r, abs=1e-12)
        assert row["reliability"] == pytest.approx(reliability, abs=1e-12)
        assert row["corrected"] == pytest.approx(r / math.sqrt(reliability), abs=1e-12)
        assert row["ci_low"] < row["corrected"] < row["ci_high"]
        assert row["measure"] == measure
        assert results.tables[1].columns == ["r", "reliability", "corrected", "±"]


def test_disattenuation_says_where_it_cannot(tmp_path):
    results = captau.bench(
        "demo",
        "rouge_1",
        protocol={"ratings": "median"},
        statistics={"disattenuate": True, "replicates": 10},
    )
    assert results.disattenuated is not None
    assert results.disattenuated["corrected"].isna().all()
    assert "no known reliability" in results.disattenuated["note"].iloc[0]
    # A run into the same folder that does not ask for the file does not leave the old one.
    for ask in (True, False):
        captau.bench(
            "demo",
            "rouge_1",
            statistics={"disattenuate": ask, "replicates": 10},
            output_dir=tmp_path,
        )
        assert (tmp_path / "disattenuated.csv").exists() == ask


@pytest.mark.parametrize(
    ("ratings", "reason"),
    [
        ([[1, 2]], "fewer than two items have two ratings"),
        # Worked by hand: items with equal means have no spread but the noise, and ICC(1,1) is -1.
        ([[1, 3], [3, 1]], "the ratings' reliability is not above 0"),
        ([[1, 2], [3, 4]], ""),
    ],
)
def test_what_the_ratings_of_two_items_say_of_reliability(ratings, reason):
    options = StatisticsOptions(interval="none")
    table = table_of_matrix(np.array(ratings, dtype=float))
    for row in disattenuate(panel(), table, "per_rating", options):
        assert row.note.removeprefix("undefined: ") == reason
        assert math.isnan(row.corrected) == bool(reason)


def test_reliability_of_a_resample_is_that_of_its_ratings():
    rng = np.random.default_rng(2)
    ratings = rng.normal(size=(12, 1)) + rng.normal(size=(12, 4))
    ratings[rng.random((12, 4)) < 0.2] = math.nan
    ratings[:, :2] = np.nan_to_num(ratings[:, :2])
    image, weights = np.arange(12) // 3, np.array([2, 0, 1, 1])
    table = table_of_matrix(ratings)
    chosen = intraclass(table_of_matrix(np.repeat(ratings, weights[image], axis=0)))
    for measure in ("icc1", "icc1k"):
        found = reliability_statistic(table, image, measure)(weights[:, None])
        assert found[0, 0] == pytest.approx(chosen[measure].value, abs=1e-12)


def test_a_score_file_may_leave_items_out_where_the_protocol_drops_them(tmp_path):
    items = captau.load("demo").items.iloc[5:]
    items.assign(score=range(len(items)))[["item_id", "score"]].to_csv(
        tmp_path / "some.csv", index=False
    )
    metrics = [f"file(path={tmp_path / 'some.csv'},name=Some)", "rouge_1"]
    gone = captau.load("demo").items["item_id"].head(3)
    with says("5 of 360 items", *gone, "protocol.undefined=drop"):
        captau.bench("demo", metrics)
    protocol = {"undefined": "drop", "coefficients": ["tau_c"]}
    results = captau.bench("demo", metrics, protocol=protocol, ceilings=False)
    rows = results.correlations
    some, rouge = rows[rows["coefficient"] == "tau_c"].to_dict("records")
    assert (some["n_items"], rouge["n_items"]) == (355, 360)
    assert some["note"] == "15 of 1080 data points dropped: undefined score"
    assert some["ci_low"] < some["value"] < some["ci_high"]


def test_accuracy_of_ratings_leaves_nothing_to_compare(tmp_path, capsys):

    lines = "image,caption,value,references\n1,a dog,1,a\n2,a cat,2,a\n3,a cow,3,a\n"
    (tmp_path / "own.csv").write_text(lines)
    ended = run_captau(
        "compare",
        "dataset=file",
        f"file.path={tmp_path / 'own.csv'}",
        "metrics=[rouge_1,rouge_l]",
        "protocol.coefficients=[accuracy]",
        f"output_dir={tmp_path / 'out'}",
    )
    assert ended == 2
    assert "no preferences" in capsys.readouterr().err


@pytest.mark.parametrize("n_replicates", [50, 64, 1000])
def test_p_values_of_all_pairs_are_those_of_each_pair(n_replicates):
    """With ties, and with undefined replicates, some of too many."""
    options = StatisticsOptions(interval="percentile")
    rng = np.random.default_rng(0)
    replicates = rng.normal(size=(12, 1)) / 5 + rng.normal(size=(12, n_replicates)).round(1)
    replicates[8:][rng.random((4, n_replicates)) < 0.01] = np.nan
    replicates[11, ::2] = np.nan
    expected = np.full((12, 12), np.nan)
    for i, j in combinations(range(12), 2):
        expected[i, j] = two_sided_p_value(replicates[i] - replicates[j], 30, options)
    np.testing.assert_array_equal(pairwise_p_values(replicates), expected)
    assert 0 < np.isnan(expected[np.triu_indices(12, 1)]).sum() < 20


def test_p_values_of_more_rows_than_eight_bits_number():
    options = StatisticsOptions(interval="percentile")
    replicates = np.random.default_rng(0).normal(size=(130, 64))
    expected = [two_sided_p_value(replicates[0] - row, 30, options) for row in replicates[1:]]
    assert pairwise_p_values(replicates)[0, 1:].tolist() == expected
