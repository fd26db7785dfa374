"""Systems ranked by people: worked by hand, against scipy, and laws that hold for any ratings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from captau.benchmarks.evaluation.evaluation_set import EvaluationSet
from captau.benchmarks.evaluation.systems.system_ranking import (
    BEST_WORST_COLUMNS,
    SYSTEM_COLUMNS,
    SYSTEM_TEST_COLUMNS,
    count_best_worst,
    find_system_tests,
    leading_dimension,
    make_tests,
    places_of,
    rank_systems,
    same_order_note,
    system_verdict,
    weigh_dimensions,
)
from captau.benchmarks.reporting.charts.system_charts import (
    MAX_DRAWN_SYSTEMS,
    system_figure,
)
from captau.benchmarks.scoring.catalog import usual_protocol
from captau.benchmarks.scoring.protocol import Protocol
from captau.benchmarks.statistics.bootstrap import Interval, StatisticsOptions, count_steps
from captau.benchmarks.statistics.significance import MetricDifference, PairedTest
from captau.datasets.schema import CaptionSet, Card, Scale
from tests.conftest import says

#: Ratings of each system's caption of images 1, 2 and 3.
PRECISION = {"A": [5, 4, 4], "B": [5, 2, 1], "C": [1, 2, 4]}
RECALL = {"A": [4, 4, 1], "B": [3, 3, 3], "C": [1, 5, 5]}


def make_selection(ratings_by_dimension, systems=None, **card_fields):
    """Return an evaluation set in which each system has a caption of each image."""
    items, ratings = [], []
    for dimension, by_system in ratings_by_dimension.items():
        for system, values in by_system.items():
            for image, value in enumerate(values, start=1):
                item_id = f"{image}{system}"
                items.append((item_id, str(image), None, "a dog", (), system, None))
                if value is not None:
                    ratings.append((item_id, dimension, "r", float(value)))
    columns = ["item_id", "image_id", "image", "caption", "references", "system", "split"]
    scales = {dimension: Scale(-10, 10) for dimension in ratings_by_dimension}
    caption_set = CaptionSet(
        items=pd.DataFrame(items, columns=columns).drop_duplicates("item_id"),
        ratings=pd.DataFrame(ratings, columns=["item_id", "dimension", "rater", "value"]),
        card=Card(
            *("made", "Made", "1", "none", "none", "none"),
            **{"scales": scales, "has_references": False, **card_fields},
        ),
    )
    changes = {"dimension": list(ratings_by_dimension), "ratings": "mean", "systems": systems}
    protocol = Protocol.resolve("made", usual_protocol("thumb"), changes)
    return EvaluationSet.select(caption_set, protocol)


def rank(selection, **options):
    points = {d: selection.points(d) for d in selection.protocol.dimension}
    return rank_systems(selection, points, StatisticsOptions(**options))


def test_means_and_ranks_without_resampling_are_those_worked_by_hand():
    """By hand: A (5 + 4 + 4) / 3 = 4.33, B 2.67, C 2.33."""
    ranking = rank(make_selection({"precision": PRECISION}), interval="none")
    systems = ranking.systems
    assert tuple(systems.columns) == SYSTEM_COLUMNS
    assert list(systems["system"]) == ["A", "B", "C"]
    np.testing.assert_allclose(systems["value"], [13 / 3, 8 / 3, 7 / 3])
    assert list(systems["rank"]) == [1, 2, 3]
    assert list(systems["n_items"]) == list(systems["n_judgements"]) == [3, 3, 3]
    assert systems["ci_low"].isna().all()
    assert tuple(ranking.tests.columns) == SYSTEM_TEST_COLUMNS
    assert ranking.tests.empty


def test_a_dimension_of_faults_keeps_its_sign_and_the_least_is_best():
    """By hand: shares of made-up captions A 0, B 1/3 and C 1."""
    shares = {"made up": {"A": [0, 0, 0], "B": [0, 0, 1], "C": [1, 1, 1]}}
    ranking = rank(make_selection(shares, faults=("made up",)), replicates=50)
    systems, tests = ranking.systems.set_index("system"), ranking.tests
    assert systems["value"].tolist() == pytest.approx([0, 1 / 3, 1])
    assert list(systems.index) == ["A", "B", "C"]
    assert systems["rank"].is_monotonic_increasing
    assert (systems["ci_low"] <= systems["value"]).all()
    assert (systems["value"] <= systems["ci_high"]).all()
    difference = tests.set_index(["system_a", "system_b"]).loc[("A", "C")]
    assert difference[["difference", "ci_low", "ci_high"]].tolist() == [-1, -1, -1]


def test_every_pair_of_systems_is_a_step_of_the_progress():
    """By hand: 130 replicates are 3 blocks of 64, and 4 systems have 6 pairs."""
    selection = make_selection({"d": {**PRECISION, "D": [1, 1, 5]}})
    points, steps = {"d": selection.points("d")}, []
    options = StatisticsOptions(replicates=130)
    rank_systems(selection, points, options, lambda: steps.append(1))
    assert len(steps) == count_steps(130, 4) == 9


def test_more_systems_than_a_figure_has_room_for_are_not_drawn():
    rows = [("made", "d", str(k), 1.0, 0.0, 2.0) for k in range(MAX_DRAWN_SYSTEMS + 1)]
    systems = pd.DataFrame(
        rows, columns=["dataset", "dimension", "system", "value", "ci_low", "ci_high"]
    )
    assert system_figure(systems) == {}


def test_tables_are_ordered_by_the_total_else_by_the_first_dimension():
    card = make_selection({"precision": PRECISION, "recall": RECALL}).caption_set.card
    assert leading_dimension(["precision", "recall"], card) == "precision"
    assert leading_dimension(["precision", "overall"], card) == "overall"
    with_total = replace(card, totals=("sum",))
    assert leading_dimension(["precision", "sum", "overall"], with_total) == "sum"
    assert leading_dimension(["precision", "sum", "weighted"], with_total) == "weighted"


def test_equal_means_share_a_rank():
    ranking = rank(make_selection({"d": {"A": [1, 3], "B": [3, 1], "C": [1, 1]}}), interval="none")
    assert dict(zip(ranking.systems["system"], ranking.systems["rank"], strict=True)) == {
        "A": 1,
        "B": 1,
        "C": 3,
    }


def test_best_and_worst_counts_are_those_worked_by_hand():
    """By hand, in precision and recall at once: image 1 A best and C worst; image 2 none; image 3 C best."""
    selection = make_selection({"precision": PRECISION, "recall": RECALL})
    counts = count_best_worst(selection, ["precision", "recall"])
    assert tuple(counts.columns) == BEST_WORST_COLUMNS
    assert set(counts["dimensions"]) == {"precision+recall"}
    # Image 2: A is best in precision and C in recall; B has the least of both, with C's precision equal.
    assert dict(zip(counts["system"], counts["best"], strict=True)) == {"A": 1, "B": 0, "C": 1}
    assert dict(zip(counts["system"], counts["worst"], strict=True)) == {"A": 0, "B": 1, "C": 1}


def test_ties_count_for_each_of_the_systems():
    counts = count_best_worst(make_selection({"d": {"A": [2], "B": [2], "C": [1]}}), ["d"])
    assert list(counts["best"]) == [1, 1, 0]
    assert list(counts["worst"]) == [0, 0, 1]


def test_weighted_totals_are_those_worked_by_hand():
    """By hand: 0.5 · 5 + 0.5 · 4 = 4.5 for A's caption of image 1."""
    selection = make_selection({"precision": PRECISION, "recall": RECALL})
    totals = weigh_dimensions(selection, {"precision": 0.5, "recall": 0.5}).set_index("item_id")
    assert totals.at["1A", "value"] == 4.5
    assert totals.at["3B", "value"] == 2.0
    assert len(totals) == 9


def test_an_item_that_lacks_a_dimension_has_no_total():
    selection = make_selection(
        {"p": {"A": [1, 2], "B": [1, 2]}, "q": {"A": [None, 2], "B": [1, 1]}}
    )
    totals = weigh_dimensions(selection, {"p": 1.0, "q": 1.0})
    assert sorted(totals["item_id"]) == ["1B", "2A", "2B"]


def test_intervals_and_differences_match_a_bootstrap_of_scipy():
    """The percentile interval of a mean of independent images, against scipy's with as many draws."""
    rng = np.random.default_rng(5)
    values = {system: list(rng.normal(mean, 1, 200)) for system, mean in (("A", 1.0), ("B", 0.8))}
    ranking = rank(make_selection({"d": values}), replicates=4000)
    for row in ranking.systems.to_dict("records"):
        sample = (np.array(values[row["system"]]),)
        other = stats.bootstrap(
            sample, np.mean, n_resamples=4000, method="percentile", rng=np.random.default_rng(0)
        ).confidence_interval
        assert row["ci_low"] == pytest.approx(other.low, abs=0.02)
        assert row["ci_high"] == pytest.approx(other.high, abs=0.02)
    (test,) = ranking.tests.to_dict("records")
    assert test["difference"] == pytest.approx(np.mean(values["A"]) - np.mean(values["B"]))
    paired = stats.ttest_rel(values["A"], values["B"])
    assert test["p_value"] == pytest.approx(paired.pvalue, abs=0.02)


def test_a_system_without_ratings_is_undefined_and_has_no_rank():
    ranking = rank(
        make_selection(
            {"d": {"A": [1, 2, 3], "B": [None] * 3}, "e": {"A": [1, 1, 2], "B": [2, 1, 1]}}
        )
    )
    rows = ranking.systems.set_index(["dimension", "system"])
    assert np.isnan(rows.at[("d", "B"), "value"])
    assert rows.at[("d", "B"), "rank"] is pd.NA
    assert rows.at[("d", "B"), "note"] == "undefined: no ratings"
    assert rows.at[("e", "B"), "value"] == pytest.approx(4 / 3)


@pytest.mark.slow
@settings(max_examples=25)
@given(
    st.lists(st.tuples(*[st.integers(-3, 3)] * 3), min_size=3, max_size=12),
    st.integers(-2, 2),
)
def test_a_constant_added_to_all_ratings_moves_means_alone(rows, shift):
    columns = {name: [row[i] for row in rows] for i, name in enumerate("ABC")}
    moved = {name: [value + shift for value in values] for name, values in columns.items()}
    before = rank(make_selection({"d": columns}), replicates=64)
    after = rank(make_selection({"d": moved}), replicates=64)
    first, second = (r.systems.set_index("system").sort_index() for r in (before, after))
    np.testing.assert_allclose(second["value"], first["value"] + shift, atol=1e-12)
    np.testing.assert_allclose(after.tests["difference"], before.tests["difference"], atol=1e-12)
    best = [
        count_best_worst(make_selection({"d": c}), ["d"])["best"].tolist() for c in (columns, moved)
    ]
    assert best[0] == best[1]


def test_one_system_alone_is_refused():
    with says("dataset made", "one system alone", "captau rank compares captioning systems"):
        rank(make_selection({"d": PRECISION}, systems=["A"]))


def test_an_unknown_dimension_of_a_total_is_named_with_near_ones():
    with says("unknown dimension of dataset made 'recal'", "did you mean recall"):
        weigh_dimensions(make_selection({"recall": RECALL}), {"recal": 1.0})


def verdict_of(*rows, p_values=None, n_images=100, **options):
    """Return the verdict on x; of `p_values` by pairs such as `A B`, the first of which is the better."""
    columns = ["dimension", "system", "value"]
    tests = [("x", *pair.split(), 0.5, p) for pair, p in (p_values or {}).items()]
    tests.append(("y", "A", "B", -0.5, 0.001))
    test_columns = ["dimension", "system_a", "system_b", "difference", "p_corrected"]
    found = find_system_tests(
        pd.DataFrame(tests, columns=test_columns), "x", StatisticsOptions(), n_images
    )
    return system_verdict(pd.DataFrame(rows, columns=columns), found, "x", "mean", **options)


def test_the_verdict_names_the_first_system_of_a_dimension_with_its_value():
    other = ("y", "Z", 9.0)
    rows = [other, ("x", "A", 4.5), ("x", "B", 4.0), ("x", "C", np.nan)]
    found = {"A B": 0.05}
    ahead = ", significantly ahead of B."
    assert verdict_of(*rows, p_values=found) == f"People put A first (mean 4.500){ahead}"
    penalties = verdict_of(*rows, p_values=found, is_of_penalties=True)
    assert penalties == f"People put A first (mean -4.500){ahead}"
    level = verdict_of(*rows, p_values={"A B": 0.06})
    assert level.endswith(", but its lead over B is not significant.")
    assert verdict_of(*rows).endswith("; its lead was not tested for significance.")
    few = verdict_of(*rows, p_values={"A B": 0.0625}, n_images=5)
    assert few.endswith("; too few images (5) to tell whether its lead is more than chance.")
    equal = [("x", "A", 4.5), ("x", "B", 4.5), ("x", "C", 4.0)]
    shared = "A and B share the first place (mean 4.500)."
    assert verdict_of(*equal, p_values={"A B": 1.0, "A C": 0.01, "B C": 0.01}) == shared
    assert verdict_of(*equal) == shared
    assert verdict_of(*rows[:2]) == "People's judgements put the systems in no order."
    assert verdict_of(other) == "People's judgements put the systems in no order."


def test_a_system_of_a_lower_rank_is_not_behind_every_other():
    """A chain: the first is ahead of the second, the third has their ranks' gap without a test that finds it."""
    rows = [("x", "A", 4.5), ("x", "B", 4.2), ("x", "C", 4.1)]
    found = {"A B": 0.01, "A C": 0.34, "B C": 0.9}
    assert verdict_of(*rows, p_values=found) == (
        "People put A first (mean 4.500), significantly ahead of B, but not of C."
    )


def test_places_by_means_are_shared_by_equal_ones():
    means = pd.Series({"A": 1.0, "B": 3.0, "C": np.nan, "D": 1.0})
    places = places_of(means, ["B", "A", "D", "C"])
    assert [str(place) for place in places] == ["1", "2", "2", ""]


def test_the_note_on_orders_says_where_other_dimensions_are():
    start = "same order %: the share of pairs of systems that a metric's means put in people's order by x"
    assert same_order_note("x", 1) == f"{start}."
    assert same_order_note("x", 2) == f"{start} (metric_orders.csv has the other dimensions)."


def test_tests_of_systems_are_corrected_within_their_dimension():
    """Holm of 0.01 and 0.04 is 0.02 and 0.04; the 0.03 of the other dimension stands alone."""

    def difference(coefficient, a, b, p):
        result = PairedTest(p, Interval(low=-1.0, high=2.0))
        return MetricDifference(
            *("", coefficient, a, b, "bootstrap", 3.0, 1.0), result, n_points=1, n_images=1
        )

    differences = [
        difference("d", "A", "B", 0.04),
        difference("e", "A", "B", 0.03),
        difference("d", "A", "C", 0.01),
    ]
    tests = make_tests("made", ["e", "d"], differences, "holm")
    assert tuple(tests.columns) == SYSTEM_TEST_COLUMNS
    assert tests.to_numpy().tolist() == [
        ["made", "e", "A", "B", 2.0, -1.0, 2.0, 0.03, 0.03],
        ["made", "d", "A", "B", 2.0, -1.0, 2.0, 0.04, 0.04],
        ["made", "d", "A", "C", 2.0, -1.0, 2.0, 0.01, 0.02],
    ]
