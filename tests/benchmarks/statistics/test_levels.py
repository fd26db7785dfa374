"""Levels: grouped by image, by system, and of systems' means; what is undefined is counted.

As statistics of images' weights, a replicate has the coefficient of the sample that it stands for.
"""

from __future__ import annotations

import csv
import math
from importlib import resources

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

import captau
from captau.benchmarks.statistics.bootstrap import number_images
from captau.benchmarks.statistics.coefficients import pairwise_accuracy
from captau.benchmarks.statistics.levels import LEVELS, correlate_at_level, prepare_at_level
from tests.conftest import run_captau, says

OF_RATINGS = ("tau_c", "tau_b", "tau_a", "gamma", "spearman", "pearson", "pairwise_accuracy", "acc_eq")  # fmt: skip
NAN = float("nan")


def keys_of(images: str, systems: str | None = None) -> pd.DataFrame:
    return pd.DataFrame({"image_id": list(images), "system": list(systems or "A" * len(images))})


def at(level, scores, ratings, images, systems=None, coefficient="tau_b"):
    return correlate_at_level(
        level, np.array(scores, float), np.array(ratings, float), keys_of(images, systems), coefficient
    )  # fmt: skip


@pytest.mark.parametrize("level", LEVELS)
def test_no_point_has_no_value(level: str) -> None:
    """All scores of a metric may be undefined, and `protocol.undefined=drop` leaves them out."""
    nothing = np.zeros(0)
    coefficients = [*OF_RATINGS, "kappa", "auroc", "pairwise_difference_pearson"]
    statistic = prepare_at_level(
        level, nothing, nothing, keys_of(""), coefficients, np.zeros(0, np.int64)
    )
    values = statistic(np.ones((3, 2)))
    assert values.shape == (len(coefficients), 2)
    assert np.isnan(values).all()


@pytest.mark.filterwarnings("error")
def test_infinite_scores_of_systems_warn_of_nothing() -> None:
    """A system's mean is infinite, or NaN where the image is not drawn."""
    scores = np.array([1.0, np.inf, 2, 3, 4, 5])
    ratings = np.array([1.0, 2, 3, 4, 5, 6])
    unit = np.array([0, 1, 0, 1, 0, 1])
    keys = keys_of("ababab", "AABBCC")
    statistic = prepare_at_level("system", scores, ratings, keys, ["tau_b"], unit)
    assert np.isnan(statistic(np.array([[1.0, 2], [1, 0]]))).all()


def test_by_image_worked_by_hand() -> None:
    """Image a agrees (τ 1), b disagrees (-1), c agrees; d has one point, e equal ratings."""
    scores = [1, 2, 3, 4, 5, 6, 7, 8, 9]
    ratings = [1, 2, 4, 3, 1, 3, 2, 3, 3]
    found = at("by_image", scores, ratings, "aabbccdee")
    assert found.value == pytest.approx(1 / 3)
    assert math.isnan(found.p_value)
    assert found.note == (
        "mean over 3 images; undefined in 2: fewer than two data points (1), all ratings are equal (1)"
    )
    # Of pairs, equal ratings are told apart by a metric that does so wrongly: (1 + 0 + 1 + 0) / 4.
    accuracy = at("by_image", scores, ratings, "aabbccdee", coefficient="pairwise_accuracy")
    assert accuracy.value == 0.5
    assert accuracy.note == "mean over 4 images; undefined in 1: fewer than two data points (1)"


def test_system_worked_by_hand() -> None:
    """Means of scores 2 1 4, of ratings 1 2 3: one of three pairs is the wrong way round."""
    scores, ratings, systems = [1, 3, 0, 2, 4, 4], [1, 1, 3, 1, 3, 3], "AABBCC"
    found = at("system", scores, ratings, "121212", systems)
    assert found.value == pytest.approx(1 / 3)
    assert found.note == "3 systems"
    assert at("system", scores, ratings, "121212", systems, "pearson").value == pytest.approx(
        stats.pearsonr([2, 1, 4], [1, 2, 3]).statistic
    )
    alike = at("system", scores, ratings, "121212", systems, "pairwise_accuracy")
    assert alike.value == pytest.approx(2 / 3)


@pytest.mark.parametrize("factor", [1e-14, 4e307])
def test_systems_are_told_apart_at_any_scale(factor) -> None:
    scores, ratings, systems = np.array([1, 3, 0, 2, 4, 4]), [1, 1, 3, 1, 3, 3], "AABBCC"
    assert at("system", factor * scores, ratings, "121212", systems).value == pytest.approx(1 / 3)


def test_equal_means_are_tied_whatever_their_parts() -> None:
    """.1 .2 .6 and .6 .2 .1 have sums that floats tell apart in one order of adding and not in another."""
    scores = [0.1, 0.2, 0.6, 0.6, 0.2, 0.1, 0.3, 0.3, 0.3, 1, 1, 1]
    ratings = [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    found = at("system", scores, ratings, "123" * 4, "AAABBBCCCDDD", "pairwise_accuracy")
    assert found.value == 0.5  # of six pairs the three with D


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("coefficient", OF_RATINGS)
@pytest.mark.parametrize(
    ("scores", "ratings", "reason"),
    [
        ([], [], "too few data points (0); two are needed"),
        ([1, 2, NAN, 4], [1, 2, 3, 4], "1 of 4 data points have an undefined score"),
        ([2, 2, 2, 2], [1, 2, 3, 4], "all scores are equal"),
        ([1, 2, 3, 4], [2, 2, 2, 2], "all ratings are equal"),
    ],
)
def test_undefined_says_why(level, coefficient, scores, ratings, reason) -> None:
    found = at(level, scores, ratings, "abab"[: len(scores)], "AABB"[: len(scores)], coefficient)
    assert math.isnan(found.value)
    assert math.isnan(found.p_value)
    assert found.note == f"undefined: {reason}"


def test_undefined_of_groups() -> None:
    # Two items of one image each, and so no pair within an image.
    for coefficient in ("tau_b", "acc_eq"):
        found = at("by_image", [1, 2], [1, 2], "ab", coefficient=coefficient)
        assert math.isnan(found.value)
        assert found.note.startswith("undefined: ")
        assert "two data points" in found.note
    one = at("by_image", [1, 2, 3], [1, 3, 2], "aaa")
    assert (one.value, one.note) == (pytest.approx(1 / 3), "mean over 1 images")
    alone = at("system", [1, 2, 3], [1, 3, 2], "abc", "AAA")
    assert alone.note == "undefined: one system alone; two are needed"
    level = at("system", [1, 2, 2, 1], [1, 2, 3, 4], "abab", "AABB")
    assert level.note == "undefined: all systems' mean scores are equal; 2 systems"
    infinite = at("system", [1, math.inf, 2, 1], [1, 2, 3, 4], "abab", "AABB")
    assert math.isnan(infinite.value)


def test_soft_pairwise_accuracy_is_the_share_of_swaps() -> None:
    """Two systems on three images: all eight swaps against a thousand drawn ones.

    Differences of scores 1 2 -1, of ratings 2 1 1: sums of 2 or more are 2 (+++), 4 (++-), and
    2 is reached by no other: 1+2-1 = 2, 1+2+1 = 4, -1+2+1 = 2: three of eight; of ratings 4 alone.
    """
    scores, ratings = [1, 2, 0, 0, 0, 1], [3, 2, 2, 1, 1, 1]
    found = at("system", scores, ratings, "123123", "AAABBB", "soft_pairwise_accuracy")
    assert found.value == pytest.approx(1 - (3 / 8 - 1 / 8), abs=0.04)
    assert found.note == "2 systems, 1,000 permutations"
    same = at("system", ratings, ratings, "123123", "AAABBB", "soft_pairwise_accuracy")
    assert same.value == 1.0


def test_soft_pairwise_accuracy_of_images_without_a_system() -> None:
    scores, ratings = [1, 2, 0, 5, 0, 1, 0], [3, 2, 2, 5, 1, 1, 1]
    found = at("system", scores, ratings, "1234123", "AAAABBB", "soft_pairwise_accuracy")
    assert found.note.endswith("1 of 4 images left out, which lack a system")
    none = at("system", [1, 2], [1, 2], "12", "AB", "soft_pairwise_accuracy")
    assert none.note == "undefined: 0 images have a caption of every system"


few = st.lists(
    st.tuples(st.integers(-3, 3), st.integers(1, 3), st.sampled_from("abc"), st.sampled_from("AB")),
    min_size=1,
    max_size=15,
)


@settings(max_examples=60)
@given(drawn=few, level=st.sampled_from(LEVELS), coefficient=st.sampled_from(OF_RATINGS))
def test_laws(drawn, level, coefficient) -> None:
    """A number in its range or NaN with a reason; the order of the points does not matter."""
    scores, ratings, images, systems = map(list, zip(*drawn, strict=True))
    found = at(level, scores, ratings, images, systems, coefficient)
    if math.isnan(found.value):
        assert found.note.startswith("undefined: ")
    else:
        assert -1 - 1e-12 <= found.value <= 1 + 1e-12
    back = [list(v)[::-1] for v in (scores, ratings, images, systems)]
    again = at(level, *back, coefficient)
    assert again.value == pytest.approx(found.value, abs=1e-12, nan_ok=True)


@pytest.mark.slow
def test_bench_on_every_level(tmp_path, capsys) -> None:
    for level in LEVELS:
        assert (
            run_captau(
                "bench",
                "metrics=[rouge_1]",
                f"protocol.level={level}",
                "protocol.coefficients=[tau_b,acc_eq]",
                f"output_dir={tmp_path / level}",
            )
            == 0
        )
        out = capsys.readouterr().out
        frame = pd.read_csv(tmp_path / level / "correlations.csv")
        mine = frame[frame["metric"] == "rouge_1"]
        assert list(mine["coefficient"]) == ["tau_b", "acc_eq", "tau_c", "spearman", "pearson"]
        assert mine["value"].between(0, 1).all()
        assert "tied" in mine["note"].iloc[1]
        assert ("level" in mine["protocol"].iloc[0]) == (level != "pooled")
        assert ("What people reach needs all ratings together" in out) == (level != "pooled")
        assert {"by_image": "60 images", "pooled": ""}.get(level, "6 systems") in out


@pytest.mark.parametrize(
    "level",
    [
        pytest.param(level, marks=pytest.mark.slow if level.startswith("by_") else [])
        for level in LEVELS
    ],
)
def test_compare_on_every_level(level, tmp_path) -> None:
    """Intervals hold their values; what has no permutation says so, and nothing is 0 for want of it."""
    ended = run_captau(
        "compare",
        "metrics=[rouge_1,rouge_l]",
        f"protocol.level={level}",
        "protocol.coefficients=[tau_b,pearson,pairwise_accuracy,acc_eq"
        + (",soft_pairwise_accuracy]" if level == "system" else "]"),
        "tests=[bootstrap,permutation,williams]",
        "statistics.replicates=128",
        "ceilings=false",
        f"output_dir={tmp_path}",
    )
    assert ended == 0
    rows = pd.read_csv(tmp_path / "correlations.csv")
    soft = rows["coefficient"] == "soft_pairwise_accuracy"
    assert (rows["ci_low"] <= rows["value"] + 1e-9)[~soft].all()
    assert (rows["ci_high"] >= rows["value"] - 1e-9)[~soft].all()
    assert rows.loc[soft, "ci_low"].isna().all()
    tests = pd.read_csv(tmp_path / "significance.csv").set_index(["test", "coefficient"])
    one = tests.loc[("bootstrap", "tau_b")]
    assert one["difference"] == pytest.approx(one["value_a"] - one["value_b"])
    assert 0 < one["p_value"] <= 1
    assert 0 < tests.loc[("permutation", "tau_b"), "p_value"] <= 1
    lost = tests.loc[("permutation", "acc_eq")]
    assert math.isnan(lost["p_value"])
    assert "threshold" in lost["note"]
    williams = tests.loc[("williams", "pearson")]
    assert math.isnan(williams["p_value"]) == (level != "pooled")


def test_fisher_is_of_data_points() -> None:
    with says("statistics.interval=fisher needs protocol.level=pooled", "percentile or bca"):
        captau.bench(
            "demo", "rouge_1", protocol={"level": "system"}, statistics={"interval": "fisher"}
        )


def test_bench_needs_systems(data_root, tmp_path) -> None:
    with says("dataset flickr8k_expert: protocol.level=system needs the system of every item"):
        captau.bench("flickr8k_expert", "rouge_1", protocol={"level": "system"})


# Kasai et al. 2022, Table 2: what it prints of systems is what the system level correlates.
MACHINES = ["VinVL-large", "VinVL-base", "Unified-VLP", "Up-Down"]
COEFFICIENTS_OF_SYSTEMS = ["tau_b", "pearson", "pairwise_accuracy"]
COLUMN = {"sacrebleu": "BLEU", "rouge_score_l": "ROUGE", "cider": "CIDEr"}


@pytest.fixture(scope="module")
def printed() -> dict[str, dict[str, float]]:
    text = (resources.files("captau.results") / "published" / "thumb_2022.csv").read_text()
    table: dict[str, dict[str, float]] = {}
    for row in csv.DictReader(text.splitlines()):
        if row["table"] == "Table 2":
            table.setdefault(row["column"], {})[row["row"]] = float(row["published"])
    return table


@pytest.mark.parametrize("systems", [["Human", *MACHINES], MACHINES])
def test_thumb_ranks_systems_as_its_table_2_does(data_root, printed, systems) -> None:
    """Their order follows from the printed means, which have no ties; r as far as their digits go."""
    results = captau.bench(
        "thumb",
        list(COLUMN),
        protocol={
            "level": "system",
            "systems": systems,
            "dimension": ["precision", "recall", "total"],
            "coefficients": COEFFICIENTS_OF_SYSTEMS,
        },
    )
    unit = np.eye(len(systems))
    human = {"precision": "P", "recall": "R", "total": "Total"}
    tested = results.correlations[results.correlations["coefficient"].isin(COEFFICIENTS_OF_SYSTEMS)]
    assert len(tested) == 3 * len(COLUMN) * len(COEFFICIENTS_OF_SYSTEMS)
    for row in tested.to_dict("records"):
        scores = np.array([printed[COLUMN[row["metric"]]][s] for s in systems])
        ratings = np.array([printed[human[row["dimension"]]][s] for s in systems])
        tau = stats.kendalltau(scores, ratings).statistic
        wanted = {
            "tau_b": tau,
            "pearson": stats.pearsonr(scores, ratings).statistic,
            "pairwise_accuracy": (1 + tau) / 2,
        }
        near = 1e-12
        if row["coefficient"] == "pearson":  # what half a last digit in each of them can move
            near = sum(
                abs(stats.pearsonr(scores + s, ratings + r).statistic - wanted["pearson"])
                for s, r in [
                    *((0.05 * e, 0 * e) for e in unit),
                    *((0 * e, 0.005 * e) for e in unit),
                ]
            )
        assert row["value"] == pytest.approx(wanted[row["coefficient"]], abs=near)
        assert row["note"] == f"{len(systems)} systems"
    if systems == MACHINES:  # "generally agree with our evaluations in ranking the four machines"
        taus = results.correlations.query("coefficient == 'tau_b'")["value"]
        assert (taus == 1).all()


def test_thumb_drops_with_human_on_every_level_as_in_its_table_4(data_root) -> None:
    """Table 4 pools instances; "correlations drop" with Human holds within images and systems' means."""
    found = {
        (level, systems): captau.bench(
            "thumb",
            list(COLUMN),
            protocol={
                "level": level,
                "dimension": "total",
                "coefficients": "pearson",
                **({"systems": MACHINES} if systems == "without" else {}),
            },
        ).correlations.query("coefficient == 'pearson'")["value"]
        for level in ("by_image", "system")
        for systems in ("with", "without")
    }
    for level in ("by_image", "system"):
        assert (found[level, "without"].to_numpy() > found[level, "with"].to_numpy()).all()


def test_thumb_intervals_are_as_wide_as_its_table_4_prints(data_root) -> None:
    """CIDEr, ROUGE-L and BLEU, total with Human: 90 % intervals of .04 either way, by bootstrapping."""
    found = captau.bench(
        "thumb",
        list(COLUMN),
        ceilings=False,
        protocol={"dimension": "total", "coefficients": "pearson"},
        statistics={"level": 0.9},
    ).correlations.query("coefficient == 'pearson'")
    assert len(found) == len(COLUMN)
    for row in found.to_dict("records"):
        assert round(row["value"] - row["ci_low"], 2) == 0.04
        assert round(row["ci_high"] - row["value"], 2) == 0.04


COEFFICIENTS = ["tau_c", "tau_b", "tau_a", "gamma", "spearman", "pearson", "pairwise_accuracy"]
drawn_points = st.lists(
    st.tuples(
        st.integers(-3, 3), st.integers(1, 3), st.sampled_from("abcd"), st.sampled_from("AB")
    ),
    min_size=2,
    max_size=16,
)


def made(points):
    scores, ratings, images, systems = map(list, zip(*points, strict=True))
    keys = pd.DataFrame({"image_id": images, "system": systems})
    unit, n_units = number_images(images)
    return np.array(scores, float), np.array(ratings, float), keys, unit, n_units


def expanded(scores, ratings, keys, unit, weights):
    """Every image as often as it weighs, each time as an image of its own."""
    parts = [(np.flatnonzero(unit == u), copy) for u, w in enumerate(weights) for copy in range(w)]
    place = np.concatenate([p for p, _ in parts]).astype(int)
    more = keys.iloc[place].reset_index(drop=True)
    copies = np.concatenate([np.full(len(p), copy) for p, copy in parts])
    more["image_id"] = [f"{i}/{c}" for i, c in zip(more["image_id"], copies, strict=True)]
    return scores[place], ratings[place], more


@settings(max_examples=50)
@given(points=drawn_points, level=st.sampled_from(LEVELS), data=st.data())
def test_a_replicate_is_its_sample(points, level, data):
    scores, ratings, keys, unit, n_units = made(points)
    weights = data.draw(st.lists(st.integers(0, 2), min_size=n_units, max_size=n_units))
    assume(sum(weights))
    statistic = prepare_at_level(level, scores, ratings, keys, COEFFICIENTS, unit)
    both = np.array([np.ones(n_units), weights]).T
    found = statistic(both)
    assert found.shape == (len(COEFFICIENTS), 2)
    for x, y, more, column in (
        (scores, ratings, keys, 0),
        (*expanded(scores, ratings, keys, unit, weights), 1),
    ):
        for coefficient, value in zip(COEFFICIENTS, found[:, column], strict=True):
            wanted = correlate_at_level(level, x, y, more, coefficient)
            grouped = coefficient == "pairwise_accuracy" and level.startswith("by_")
            if grouped and np.isnan(wanted.value):
                continue  # in a group it is defined even where all scores of all groups are equal
            assert value == pytest.approx(wanted.value, abs=1e-9, nan_ok=True), coefficient


@settings(max_examples=40)
@given(points=drawn_points, level=st.sampled_from(LEVELS))
def test_acc_eq_of_the_whole_sample(points, level):
    scores, ratings, keys, unit, n_units = made(points)
    wanted = correlate_at_level(level, scores, ratings, keys, "acc_eq")
    assume(not np.isnan(wanted.value))
    statistic = prepare_at_level(level, scores, ratings, keys, ["acc_eq"], unit)
    assert statistic(np.ones((n_units, 1)))[0, 0] == pytest.approx(wanted.value, abs=1e-9)


def test_acc_eq_keeps_its_threshold():
    """Threshold 1 of the whole (all right); image b alone would do as well with 0."""
    scores, ratings = np.array([1.0, 2, 5, 6, 9]), np.array([1.0, 1, 2, 2, 3])
    keys = pd.DataFrame({"image_id": list("aaabb"), "system": "A"})
    statistic = prepare_at_level(
        "pooled", scores, ratings, keys, ["acc_eq"], np.array([0, 0, 0, 1, 1])
    )
    # Of a twice and b once: 6 points of a in 15 pairs, all right with 1; scores 1 1 2 2 5 5 6 9.
    assert statistic(np.array([[1.0, 2, 0, 0], [1, 1, 1, 0]]))[0] == pytest.approx(
        [1, 1, 1, np.nan], nan_ok=True
    )
    other = prepare_at_level(
        "pooled",
        np.array([1.0, 2, 5, 6, 6.5]),
        ratings,
        keys,
        ["acc_eq"],
        np.array([0, 0, 0, 1, 1]),
    )
    # Here 1 makes a tie of 6 and 6.5, which people tell apart: b alone gets it wrong.
    assert other(np.array([[1.0, 0], [1, 1]]))[0] == pytest.approx([0.9, 0.0])


@pytest.mark.parametrize("max_counts", [1, 3 * 12 * 4])
def test_acc_eq_in_parts_is_that_of_all_replicates_at_once(max_counts, monkeypatch):
    rng = np.random.default_rng(0)
    scores, ratings, unit = np.arange(12.0), rng.integers(4, size=12).astype(float), np.arange(12)
    statistic = prepare_at_level("pooled", scores, ratings, pd.DataFrame(), ["acc_eq"], unit)
    weights = rng.integers(3, size=(12, 7)).astype(float)
    expected = statistic(weights)
    monkeypatch.setattr(pairwise_accuracy, "MAX_COUNTS", max_counts)
    np.testing.assert_array_equal(statistic(weights), expected)


def test_systems_that_both_sides_tie_are_a_pair_in_order():
    """Worked by hand: A and B tie on both sides, C and D in scores alone, above both: 5 of 6 pairs agree, 4 untied."""
    scores, ratings = np.array([1.0, 1, 2, 2]), np.array([3.0, 3, 5, 6])
    keys = pd.DataFrame({"image_id": "a", "system": list("ABCD")})
    names = ["pairwise_accuracy", "tau_a", "gamma"]
    statistic = prepare_at_level("system", scores, ratings, keys, names, np.zeros(4, int))
    assert statistic(np.ones((1, 1)))[:, 0] == pytest.approx([5 / 6, 4 / 6, 1])


def test_infinite_scores_and_soft_pairwise_accuracy_are_undefined_not_wrong():
    scores, ratings = np.array([1.0, np.inf, 3, 4]), np.array([1.0, 2, 3, 4])
    keys = pd.DataFrame({"image_id": list("abab"), "system": list("AABB")})
    names = ["pearson", "acc_eq", "tau_b", "soft_pairwise_accuracy"]
    found = prepare_at_level("pooled", scores, ratings, keys, names, np.array([0, 1, 0, 1]))(
        np.ones((2, 1))
    )
    assert np.isnan(found[:, 0]).tolist() == [True, True, False, True]
    systems = prepare_at_level("system", scores, ratings, keys, names, np.array([0, 1, 0, 1]))
    assert np.isnan(systems(np.ones((2, 1)))).all()


@pytest.mark.parametrize("level", LEVELS)
def test_one_system_is_undefined_at_its_level_and_no_error(level):
    keys = pd.DataFrame({"image_id": ["a", "b", "c"], "system": "s"})
    scores, ratings = np.array([1.0, 3, 2]), np.array([1.0, 2, 3])
    found = prepare_at_level(level, scores, ratings, keys, ["tau_b", "acc_eq"], np.arange(3))
    values = found(np.ones((3, 1)))[:, 0]
    for coefficient, value in zip(("tau_b", "acc_eq"), values, strict=True):
        wanted = correlate_at_level(level, scores, ratings, keys, coefficient).value
        assert value == pytest.approx(wanted, nan_ok=True)
    assert np.isnan(values).all() == (level in ("system", "by_image"))


def test_groups_of_one_point_have_no_acc_eq() -> None:
    """Images a and b are right where nothing is tied by the metric; c, d and e have one point each."""
    found = at("by_image", [1, 2, 3, 5, 6, 7, 8], [1, 2, 1, 2, 3, 3, 3], "aabbcde", None, "acc_eq")
    assert found.value == 1
    assert found.note == (
        "equal scores alone are tied; mean over 2 images; undefined in 3: fewer than two data points (3)"
    )
