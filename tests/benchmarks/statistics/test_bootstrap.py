"""Intervals: SciPy's on the same replicates, clusters drawn whole, and every way to have none."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from captau.benchmarks.statistics.bootstrap import (
    BLOCK,
    JACKKNIFE_GROUPS,
    StatisticsOptions,
    count_blocks,
    count_steps,
    draw_weights,
    expand_tail,
    fisher_interval,
    jackknife,
    narrow_tail,
    number_images,
    resample,
    resampling_interval,
    student_p_value,
    two_sided_p_value,
)
from captau.benchmarks.statistics.intervals import ExtraRow, wilson_intervals
from captau.benchmarks.statistics.preferences import wilson_interval
from tests.benchmarks.statistics.weighted_samples import prepare_pooled
from tests.conftest import says

PERCENTILE = StatisticsOptions(interval="percentile")
COEFFICIENTS = ["tau_c", "tau_b", "spearman", "pearson"]


@pytest.fixture(scope="module")
def sample():
    """30 images of one to four captions, each rated on four levels."""
    rng = np.random.default_rng(1)
    unit = np.repeat(np.arange(30), rng.integers(1, 5, 30))
    x = rng.normal(size=30)[unit] + rng.normal(size=len(unit))
    y = np.digitize(x + rng.normal(size=len(unit)), [-1, 0, 1]).astype(float)
    return x, y, unit


@pytest.mark.parametrize(
    ("replicates", "n_compared", "steps"),
    [(1, 0, 1), (BLOCK, 1, 1), (BLOCK, 2, 2), (BLOCK + 1, 3, 5), (3 * BLOCK, 4, 9)],
)
def test_steps_are_blocks_of_replicates_and_pairs(replicates, n_compared, steps):
    assert count_steps(replicates, n_compared) == steps


def test_replicates_are_samples_of_whole_images(sample):
    """Each is SciPy's coefficient of the images drawn, all points of an image as often."""
    x, y, unit = sample
    found = resample([prepare_pooled(x, y, ["tau_b"], unit)], 30, 70, seed=5)[0]
    assert found.shape == (1, 70)
    for replicate in (0, 63, 64, 69):
        drawn = draw_weights(30, 5, replicate // BLOCK)[:, replicate % BLOCK]
        assert drawn.sum() == 30
        points = np.concatenate(
            [np.tile(np.flatnonzero(unit == i), int(drawn[i])) for i in range(30)]
        )
        tau = stats.kendalltau(x[points], y[points]).statistic
        assert found[0, replicate] == pytest.approx(tau, abs=1e-12)


def test_neither_workers_nor_number_nor_company_move_a_replicate(sample):
    x, y, unit = sample
    one, other = (
        prepare_pooled(x, y, COEFFICIENTS, unit),
        prepare_pooled(-x, y, ["tau_c"], unit),
    )
    wanted = resample([one], 30, 200, seed=7, workers=1)[0]
    for workers in (2, 5):
        found = resample([other, one], 30, 200, seed=7, workers=workers)
        np.testing.assert_array_equal(found[1], wanted)
        np.testing.assert_allclose(found[0], -wanted[:1], atol=1e-15)
    np.testing.assert_array_equal(resample([one], 30, 90, seed=7)[0], wanted[:, :90])
    assert (resample([one], 30, 200, seed=8)[0] != wanted).any()


def test_progress_is_told(sample):
    x, y, unit = sample
    told = []
    resample(
        [prepare_pooled(x, y, ["tau_c"], unit)],
        30,
        130,
        advance=lambda: told.append(1),
        workers=1,
    )
    assert len(told) == count_blocks(130) == 3


@pytest.mark.parametrize("coefficient", COEFFICIENTS)
@pytest.mark.parametrize("method", ["expanded", "percentile", "bca"])
def test_intervals_are_scipys_of_the_same_replicates(sample, coefficient, method):
    """Parity (tier 2): scipy.stats.bootstrap, given our replicates, finds its own interval.

    The expanded one is its percentile interval at the level that Hesterberg (2015) names for 30 images.
    """
    x, y, unit = sample
    statistic = prepare_pooled(x, y, [coefficient], unit)
    drawn = resample([statistic], 30, 999)[0][0]
    left_out = jackknife(statistic, 30)[0]

    def of_images(images):
        return float(statistic(np.bincount(images.astype(int), minlength=30)[:, None])[0, 0])

    value = of_images(np.arange(30))
    ours = resampling_interval(value, drawn, 30, StatisticsOptions(interval=method), left_out)
    quantile = math.sqrt(30 / 29) * stats.t.ppf(0.975, 29)
    level, method = (
        (1 - 2 * stats.norm.sf(quantile), "percentile") if method == "expanded" else (0.95, method)
    )
    images = np.arange(30).astype(float)
    kept = stats.bootstrap(
        (images,), of_images, vectorized=False, method="percentile", n_resamples=2
    )
    kept.bootstrap_distribution = drawn
    theirs = stats.bootstrap(
        (images,),
        of_images,
        vectorized=False,
        method=method,
        n_resamples=0,
        bootstrap_result=kept,
        confidence_level=level,
    ).confidence_interval
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-12)
    assert ours.note == ""
    assert ours.low < value < ours.high


def test_the_jackknife_leaves_out_an_image_at_a_time(sample):
    x, y, unit = sample
    found = jackknife(prepare_pooled(x, y, COEFFICIENTS, unit), 30)
    assert found.shape == (4, 30)
    rest = unit != 17
    assert found[1, 17] == pytest.approx(stats.kendalltau(x[rest], y[rest]).statistic, abs=1e-12)
    assert found[3, 17] == pytest.approx(stats.pearsonr(x[rest], y[rest]).statistic, abs=1e-12)


def test_the_jackknife_groups_many_images():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2 * JACKKNIFE_GROUPS + 5, 2))
    found = jackknife(prepare_pooled(x[:, 0], x[:, 1], ["pearson"]), len(x))
    assert found.shape == (1, JACKKNIFE_GROUPS)
    rest = np.arange(len(x)) % JACKKNIFE_GROUPS != 3
    assert found[0, 3] == pytest.approx(stats.pearsonr(*x[rest].T).statistic, abs=1e-12)


def test_fisher_worked_by_hand():
    """r = 0.5, n = 28: artanh 0.5 = 0.549306, ± 1.959964 / 5, so tanh of 0.157313 and 0.941299."""
    found = fisher_interval(0.5, 28, 0.95)
    assert (found.low, found.high) == pytest.approx(
        (math.tanh(0.157313), math.tanh(0.941299)), abs=1e-6
    )
    assert "independent" in found.note


def test_fisher_without_an_interval():
    assert "four are needed" in fisher_interval(0.5, 3, 0.95).note
    assert math.isnan(fisher_interval(0.5, 3, 0.95).low)
    assert math.isnan(fisher_interval(math.nan, 100, 0.95).low)
    certain = fisher_interval(-1.0, 100, 0.95)
    assert (certain.low, certain.high) == (-1, -1)


def test_undefined_replicates_are_left_out_and_counted():
    drawn = np.linspace(0, 1, 101)
    drawn[:5] = math.nan
    found = resampling_interval(0.5, drawn, 30, PERCENTILE)
    assert found.note == "5 of 101 replicates undefined"
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(drawn[5:], [0.025, 0.975])))
    drawn[:50] = math.nan
    found = resampling_interval(0.5, drawn, 30, PERCENTILE)
    assert math.isnan(found.low)
    assert found.note == "no interval: 50 of 101 replicates undefined"


def test_an_undefined_value_has_no_interval():
    found = resampling_interval(math.nan, np.zeros(10), 10, PERCENTILE)
    assert math.isnan(found.low)
    assert math.isnan(found.high)


def test_perfect_agreement_has_an_interval_of_no_width():
    x = np.arange(10.0)
    statistic = prepare_pooled(x, x, ["tau_b", "spearman"])
    drawn = resample([statistic], 10, 100)[0]
    for method in ("expanded", "percentile", "bca"):
        for row, left_out in zip(drawn, jackknife(statistic, 10), strict=True):
            found = resampling_interval(1.0, row, 10, StatisticsOptions(interval=method), left_out)
            assert (found.low, found.high) == pytest.approx((1, 1), abs=1e-12)


def test_tails_are_expanded_by_hand():
    """Of ten images Student's 2.5 % quantile with 9 degrees is -2.262157 (any table); times √(10 / 9) it is -2.384525,
    beyond which the normal distribution has 0.8551 %. Of 1,000 images it is 2.4800 %, of two no replicate is beyond.
    """
    assert expand_tail(0.025, 10) == pytest.approx(0.008551, abs=1e-6)
    assert expand_tail(0.975, 10) == pytest.approx(1 - 0.008551, abs=1e-6)
    assert expand_tail(0.025, 1000) == pytest.approx(0.024800, abs=1e-5)
    assert expand_tail(0.025, 2) < 1e-50
    for n_units in (2, 3, 10, 1000):
        assert narrow_tail(expand_tail(0.2, n_units), n_units) == pytest.approx(0.2)


def test_the_expanded_interval_of_known_replicates():
    """Of the replicates 0, 1, …, 1000 the quantiles are 1,000 times the shares of the test above."""
    found = resampling_interval(500.0, np.arange(1001.0), 10, StatisticsOptions())
    assert (found.low, found.high) == pytest.approx((8.551, 991.449), abs=1e-3)


@pytest.mark.parametrize("n_units", [5, 10, 40])
def test_an_expanded_test_finds_what_its_interval_leaves_out(n_units):
    """Of 9,999 replicates, as many on the smaller side of 0 as leave the end of the interval on it, or 0 beyond it."""
    options = StatisticsOptions()
    n_beyond = int(expand_tail(0.025, n_units) * 9_999)
    for shift, is_found in ((n_beyond - 3, True), (n_beyond + 3, False)):
        replicates = np.arange(9_999.0) - shift
        interval = resampling_interval(float(np.median(replicates)), replicates, n_units, options)
        assert (interval.low > 0) == is_found
        assert (two_sided_p_value(replicates, n_units, options) <= 0.05) == is_found


def test_a_percentile_test_counts_the_smaller_side():
    """By hand: of 99 replicates 4 are below 0, so p is 2 · 5 / 100; of an expanded test with 10 images P(|t_9| > √0.9 ·
    1.644854 = 1.560445) = 0.153083.
    """
    replicates = np.arange(99.0) - 3.5
    assert two_sided_p_value(replicates, 10, PERCENTILE) == pytest.approx(0.1)
    assert two_sided_p_value(replicates, 10, StatisticsOptions()) == pytest.approx(
        2 * stats.t.sf(1.560445, 9), abs=1e-6
    )
    assert two_sided_p_value(np.array([-1.0, 1.0]), 10, StatisticsOptions()) == 1


def test_a_difference_over_its_standard_error_is_students_t():
    """By hand: replicates -1 and 1 have the standard deviation 1, so that of 10 images p is P(|t_9| > 2.262157) = 0.05."""
    replicates = np.tile([-1.0, 1.0], 5_000)
    options = StatisticsOptions()
    assert student_p_value(2.262157, replicates, 10, options) == pytest.approx(0.05, abs=1e-6)
    assert student_p_value(-2.262157, replicates, 10, options) == pytest.approx(0.05, abs=1e-6)
    assert (
        student_p_value(2.0, replicates, 10, PERCENTILE) == 1
    )  # half of the replicates on each side
    # No p is below that of ten coins that fall alike, nor below what the replicates allow.
    assert student_p_value(99.0, replicates, 10, options) == 2 / 2**10
    assert student_p_value(99.0, replicates, 40, options) == 2 / 10_001
    assert student_p_value(0.5, np.full(1000, 0.5), 5, options) == 2 / 2**5
    assert student_p_value(0.0, np.zeros(1000), 10, options) == 1


def test_an_infinite_replicate_leaves_the_share_of_replicates():
    replicates = np.array([np.inf, *np.arange(98.0) - 3.5])
    options = StatisticsOptions()
    assert student_p_value(1.0, replicates, 10, options) == two_sided_p_value(
        replicates, 10, options
    )


def test_intervals_of_few_images_say_so():
    drawn = np.linspace(0, 1, 100)
    assert resampling_interval(0.5, drawn, 10, StatisticsOptions()).note == ""
    found = resampling_interval(0.5, drawn, 9, StatisticsOptions())
    assert found.note == "interval of 9 images; from 10 on it is reliable"
    found = resampling_interval(0.5, drawn, 10, StatisticsOptions(), min_units=50)
    assert found.note == "interval of 10 images; from 50 on it is reliable"


@pytest.mark.parametrize(("value", "side"), [(2.0, "below"), (-1.0, "above")])
def test_bca_of_a_value_outside_its_replicates_says_so(value, side):
    found = resampling_interval(
        value, np.linspace(0, 1, 50), 50, StatisticsOptions(interval="bca"), np.zeros(5)
    )
    assert math.isnan(found.low)
    assert found.note == f"no BCa interval: all replicates lie {side} the value"


def test_heavy_ties_and_two_images():
    """Every replicate of one image alone is undefined, and half of them are."""
    statistic = prepare_pooled([0, 0, 1, 1], [1, 1, 2, 2], COEFFICIENTS, [0, 0, 1, 1])
    drawn = resample([statistic], 2, 200)[0]
    for row in drawn:
        found = resampling_interval(1.0, row, 2, PERCENTILE)
        assert math.isnan(found.low)
        assert "replicates undefined" in found.note


def test_bca_of_small_values_is_as_skewed_as_that_of_large_ones():
    options, replicates = StatisticsOptions(interval="bca"), np.linspace(0, 1, 200) ** 2
    left_out = np.array([0.0, 0.1, 0.2, 0.9])
    large = resampling_interval(0.2, replicates, 50, options, left_out)
    small = resampling_interval(0.2e-9, 1e-9 * replicates, 50, options, 1e-9 * left_out)
    assert (1e9 * small.low, 1e9 * small.high) == pytest.approx((large.low, large.high))
    assert large.low != resampling_interval(0.2, replicates, 50, options, 0 * left_out).low


@pytest.mark.parametrize(("n_undefined", "has_interval"), [(10, True), (11, False)])
def test_a_tenth_of_the_replicates_may_be_undefined(n_undefined, has_interval):
    replicates = np.append(np.linspace(0, 1, 100 - n_undefined), np.full(n_undefined, math.nan))
    interval = resampling_interval(0.5, replicates, 30, PERCENTILE)
    assert math.isfinite(interval.low) == math.isfinite(interval.high) == has_interval


def test_fisher_of_the_fewest_points():
    """Worked by hand: of four points the error is 1 / √(4 - 3)."""
    interval = fisher_interval(0.0, 4, 0.95)
    assert (interval.low, interval.high) == pytest.approx(
        (math.tanh(-1.959964), math.tanh(1.959964))
    )


def test_wilson_is_of_accuracies_alone():
    row = {"metric": "m", "dimension": "d", "value": 0.75, "n_ratings": 8}
    rows = [row | {"coefficient": name} for name in ("tau_c", "accuracy")]
    ((key, interval),) = wilson_intervals(rows, 0.95).items()
    assert key == ("m", "d", "accuracy")
    assert (interval.low, interval.high) == wilson_interval(0.75, 8)


def test_an_extra_row_is_the_mean_over_its_draws():
    rng = np.random.default_rng(4)
    draws = [(rng.normal(size=6), rng.normal(size=6), np.arange(6)) for _ in range(3)]
    statistic = ExtraRow(("ceiling", "overall", "pearson"), draws).statistic(np.arange(6) // 2)
    expected = np.mean([stats.pearsonr(x, y).statistic for x, y, _ in draws])
    np.testing.assert_allclose(statistic(np.ones((3, 2))), [[expected, expected]])


def test_the_smallest_and_the_largest_options_are_taken():
    assert StatisticsOptions(replicates=1, seed=0, level=0.01).uses_resampling
    assert StatisticsOptions(replicates=1_000_000, interval="bca").uses_resampling
    assert not StatisticsOptions(interval="fisher").uses_resampling


def test_bad_input_is_one_line():
    statistic = prepare_pooled([1, 2], [1, 2], ["tau_b"])
    with says("too few images to resample (1)", "two are needed"):
        resample([statistic], 1, 10)
    with says("0 replicates"):
        resample([statistic], 2, 0)
    with pytest.raises(ValueError, match="jackknife"):
        resampling_interval(0.5, np.zeros(3), 30, StatisticsOptions(interval="bca"))


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"replicates": 0}, ("statistics.replicates is 0", "from 1 on")),
        ({"replicates": -5}, ("statistics.replicates is -5",)),
        ({"replicates": 1_000_001}, ("statistics.replicates is 1,000,001", "at most 1,000,000")),
        ({"replicates": True}, ("statistics.replicates is True",)),
        ({"seed": -1}, ("statistics.seed is -1", "from 0 on")),
        ({"level": 0.0}, ("statistics.level is 0.0", "between 0 and 1")),
        ({"level": 1.0}, ("statistics.level is 1.0", "between 0 and 1")),
        ({"level": 95}, ("statistics.level is 95",)),
        ({"interval": "bac"}, ("statistics.interval", "did you mean bca")),
        ({"correction": "holms"}, ("statistics.correction", "did you mean holm")),
    ],
)
def test_options_that_make_no_sense(options, parts):
    with says(*parts):
        StatisticsOptions(**options)


def test_clusters_number_images_as_they_come():
    codes, count = number_images(["b.jpg", "a.jpg", "b.jpg"])
    assert (codes.tolist(), count) == ([0, 1, 0], 2)
