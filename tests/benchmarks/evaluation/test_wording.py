"""Verdicts: where metrics and systems stand, worked by hand on made values."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from captau.benchmarks.evaluation.evaluation_set import EvaluationSet
from captau.benchmarks.evaluation.pair_tests import PairTests, Standing, find_shortage
from captau.benchmarks.evaluation.verdicts import (
    agreement_verdict,
    lead_words,
    metric_verdict,
    order_verdict,
)
from captau.benchmarks.evaluation.wording import (
    copies_note,
    dataset_notes,
    distinct_notes,
    interval_words,
    join_notes,
    level_notes,
    list_words,
    mean_words,
    notes_by_subject,
    number_word,
    ordinal,
    rank_words,
    references_words,
    synthetic_note,
    undefined_notes,
)
from captau.benchmarks.scoring.protocol import Protocol
from captau.benchmarks.statistics.bootstrap import StatisticsOptions, smallest_share_p_value
from captau.benchmarks.statistics.coefficients.coefficient import find_coefficient
from captau.benchmarks.statistics.intervals import p_value_column
from captau.datasets.preferences import make_preferences
from captau.datasets.schema import CaptionSet, Card, Scale, SourceFile, make_items

METEOR, CIDER, BLEU = (
    Standing("METEOR", 0.418, 1, 0.40),
    Standing("CIDEr", 0.401, 2, 0.39),
    Standing("BLEU-2", 0.340, 3, 0.32),
)


def own(value: float, rank: int | None) -> Standing:
    return Standing("Overlap", value, rank, is_own=True)


def findings_of(p_values: dict[str, float], n_images: int = 100, **options: Any) -> PairTests:
    """Return the findings of pairs such as `A B`, of which the first is the better, by their corrected p-values."""
    rows = [(*names.split(), 0.1, p) for names, p in p_values.items()]
    columns = ["metric_a", "metric_b", "difference", "p_bh"]
    return PairTests.of_rows(
        pd.DataFrame(rows, columns=columns), StatisticsOptions(**options), n_images
    )


def test_the_verdict_places_an_own_metric_among_the_others() -> None:
    """41.8 − 33.9 = 7.9; no test finds a difference to BLEU-2."""
    tests = findings_of({"METEOR Overlap": 0.01, "CIDEr Overlap": 0.01, "BLEU-2 Overlap": 0.9})
    verdict = metric_verdict([METEOR, CIDER, BLEU, own(0.339, 3)], tests, "tau_c")
    assert verdict == "Overlap is fourth of four, level with BLEU-2, 7.9 below METEOR."
    level = findings_of({"Overlap METEOR": 0.2, "METEOR BLEU-2": 0.01, "Overlap BLEU-2": 0.01})
    verdict = metric_verdict([own(0.439, 1), METEOR], level, "tau_c")
    assert (
        verdict
        == "Overlap is first of two, 2.1 above METEOR, but its lead over METEOR is not significant."
    )
    verdict = metric_verdict([METEOR, own(0.409, 1), BLEU], level, "tau_c")
    assert verdict == "Overlap is second of three, 0.9 below METEOR, which is not significant."
    untested = [own(0.439, None), Standing("METEOR", 0.418)]
    verdict = metric_verdict(untested, PairTests(), "tau_c")
    assert verdict.endswith("; its lead was not tested for significance.")
    assert "level" not in metric_verdict(untested[::-1], PairTests(), "tau_c")


def test_a_difference_is_that_of_the_table_with_which_the_sentence_stands() -> None:
    """40.96 − 38.14 = 2.82, and 41.0 − 38.1 = 2.9: of rounded values where the reader has nothing else."""
    tests = findings_of({"Overlap CIDEr": 0.01})
    standings = [own(0.4096, 1), Standing("CIDEr", 0.3814, 2)]
    assert "2.9 above CIDEr" in metric_verdict(standings, tests, "tau_c")
    verdict = metric_verdict(standings, tests, "tau_c", has_differences=True)
    assert "2.8 above CIDEr" in verdict
    below = findings_of({"CIDEr Overlap": 0.01})
    standings = [Standing("CIDEr", 0.4096, 1), own(0.3814, 2)]
    verdict = metric_verdict(standings, below, "tau_c", has_differences=True)
    assert "2.8 below CIDEr" in verdict


def test_references_are_described_where_they_are_not_all_used_at_once() -> None:
    usual = Protocol.resolve("demo", {}, {})
    assert references_words(usual) == ""
    single = replace(usual, references="mean_over_single", k=2)
    assert references_words(single) == (
        "candidates are scored against one reference at a time and the scores averaged, of the first 2"
    )


def test_the_verdict_names_the_best_metric_and_those_it_is_ahead_of() -> None:
    ahead = findings_of({"METEOR CIDEr": 0.01})
    assert metric_verdict([METEOR, CIDER], ahead, "tau_c") == (
        "METEOR agrees best with people (τ_c 41.8), significantly ahead of CIDEr."
    )
    level = findings_of({"METEOR CIDEr": 0.2, "METEOR BLEU-2": 0.06})
    tied = [METEOR, CIDER, BLEU]
    assert "its lead over CIDEr and BLEU-2 is not significant" in metric_verdict(
        tied, level, "tau_c"
    )
    none = PairTests()
    assert metric_verdict([METEOR], none, "tau_c", "total", 0.4) == (
        "METEOR reaches total τ_c 41.8; one person reaches 40.0 against another."
    )
    at_chance = Standing("METEOR", 0.01, 1, -0.02)
    verdict = metric_verdict([at_chance], none, "tau_c")
    assert verdict.startswith("No metric agrees with people beyond")
    assert metric_verdict([at_chance], none, "accuracy") == (
        "No metric agrees with people beyond chance; the best is METEOR (acc. 1.0; chance reaches 50.0)."
    )
    assert metric_verdict([], none, "tau_c") == "No metric has a coefficient."


def test_what_was_not_tested_is_not_called_equal() -> None:
    assert "not tested" in lead_words([METEOR, Standing("CIDEr", 0.4)], PairTests())
    endless = [Standing("a", 1.0), Standing("b", math.inf)]
    assert "not tested" in lead_words(endless, PairTests())


def test_coefficients_that_are_undefined_for_one_reason_stand_in_one_sentence() -> None:
    """By hand: fluency of all metrics, one coefficient of one metric, all coefficients of another, and what people reach."""
    rows: list[dict[str, Any]] = []
    for metric in ("bleu_1", "cider", "odd", "oracle"):
        for dimension in ("precision", "fluency"):
            for coefficient in ("tau_c", "tau_b"):
                note, value = "", 0.5
                if dimension == "fluency" and metric != "oracle":
                    note, value = "undefined: all ratings are equal", math.nan
                elif metric == "odd":
                    note, value = "undefined: all scores are equal", math.nan
                elif metric == "cider" and coefficient == "tau_b":
                    note, value = "undefined: why", math.nan
                elif metric == "oracle" and coefficient == "tau_b":
                    note, value = "none", math.nan
                row = {"metric": metric, "dimension": dimension, "coefficient": coefficient}
                rows.append(row | {"note": note, "value": value})

    labels = {"bleu_1": "BLEU-1", "cider": "CIDEr", "odd": "odd", "oracle": "people"}
    notes = undefined_notes(pd.DataFrame(rows), labels, ["bleu_1", "cider", "odd"])
    assert [(str(note), note.subjects) for note in notes] == [
        ("All metrics (fluency): undefined: all ratings are equal.", ()),
        ("CIDEr (precision τ_b): undefined: why.", ("CIDEr",)),
        ("odd (precision): undefined: all scores are equal.", ("odd",)),
        ("people (precision τ_b; fluency τ_b): none.", ("people",)),
    ]
    of_one = pd.DataFrame([row for row in rows if row["metric"] == "odd"])
    of_precision = of_one[of_one["dimension"] == "precision"]
    (note,) = undefined_notes(of_precision, labels, ["bleu_1", "odd"])
    assert note == "odd: undefined: all scores are equal."


def test_a_rank_is_no_test_of_every_pair() -> None:
    """BLEU-3, ROUGE-2 and CIDEr on HAT: the last has rank 2 by the second, and p .118 against the first."""
    standings = [
        Standing("BLEU-3", 0.548, 1),
        Standing("ROUGE-2", 0.495, 2),
        Standing("CIDEr", 0.483, 2),
    ]
    tests = findings_of({"BLEU-3 ROUGE-2": 0.006, "BLEU-3 CIDEr": 0.118, "ROUGE-2 CIDEr": 0.77})
    assert lead_words(standings, tests) == ", significantly ahead of ROUGE-2, but not of CIDEr"


@pytest.mark.parametrize(
    ("p_values", "words"),
    [
        ("0.01 0.01 0.01 0.01", ", significantly ahead of b, c, d and e"),
        ("0.01 0.01 0.01 0.01 0.01", ", significantly ahead of all five others"),
        ("0.2 0.01 0.01 0.01 0.01 0.01", ", significantly ahead of five of the six others, but not of b"),
        ("0.2 0.2 0.2 0.2 0.2 0.01", ", significantly ahead of g, but not of b, c, d and 2 others"),
        ("0.01 nan", ", significantly ahead of b; it was not tested against c"),
        ("0.2 nan nan", ", but its lead over b is not significant; it was not tested against c and d"),
        ("nan nan", "; its lead was not tested for significance"),
    ],
)  # fmt: skip
def test_many_names_are_counted_and_those_without_a_lead_named(p_values: str, words: str) -> None:
    numbers = [float(number) for number in p_values.split()]
    standings = [Standing(label, -n) for n, label in enumerate("abcdefg"[: len(numbers) + 1])]
    pairs = {f"a {s.label}": p for s, p in zip(standings[1:], numbers, strict=True)}
    assert lead_words(standings, findings_of(pairs)) == words


@pytest.mark.parametrize(
    ("n_images", "options", "shortage"),
    [
        (5, {}, "too few images (5)"),
        (6, {}, ""),
        (7, {"level": 0.99}, "too few images (7)"),
        (5, {"interval": "percentile"}, ""),
        (100, {"replicates": 38}, "too few replicates (38)"),
        (100, {"replicates": 39}, ""),
    ],
)
def test_where_no_outcome_could_be_significant_that_is_said(
    n_images: int, options: dict[str, Any], shortage: str
) -> None:
    """By hand: no p is below 2 / 2⁵ = .0625 of five images, .031 of six, .016 of seven; nor below
    2 / 39 = .051 of 38 replicates, 2 / 40 = .05 of 39."""
    standings = [METEOR, own(0.4, 1)]
    tests = findings_of({"METEOR Overlap": 0.0625}, n_images, **options)
    assert tests.too_few == shortage
    verdict = metric_verdict(standings, tests, "tau_c")
    if shortage:
        assert verdict == (
            f"Overlap is second of two, 1.8 below METEOR; {shortage} to tell whether this difference is more than chance."
        )
        assert lead_words(standings, tests) == (
            f"; {shortage} to tell whether its lead is more than chance"
        )
    else:
        assert verdict == "Overlap is second of two, 1.8 below METEOR, which is not significant."


def test_holm_needs_more_images_the_more_pairs_there_are() -> None:
    """By hand: of seven images no p is below 1/64; three times that is .047, four times .063."""
    holm = {"correction": "holm"}
    rows = pd.DataFrame(
        [("a", b, 0.1, 1.0) for b in "bcde"],
        columns=["metric_a", "metric_b", "difference", "p_holm"],
    )
    three = PairTests.of_rows(rows[:3], StatisticsOptions(**holm), 7)
    assert three.too_few == ""
    four = PairTests.of_rows(rows, StatisticsOptions(**holm), 7)
    assert four.too_few == "too few images (7)"


def test_by_shares_of_replicates_more_of_them_are_what_lacks() -> None:
    """The least p of 10 images and 39 replicates is 2·t₉(Φ⁻¹(1/40) / √(10/9)) = .096; of 1,000 replicates .017."""
    assert find_shortage(StatisticsOptions(replicates=39), 10, 1, smallest_share_p_value) == (
        "too few replicates (39)"
    )
    assert smallest_share_p_value(10, StatisticsOptions(replicates=39)) == pytest.approx(
        2 * scipy.stats.t.cdf(scipy.stats.norm.ppf(1 / 40) / math.sqrt(10 / 9), 9)
    )
    assert find_shortage(StatisticsOptions(), 10, 1, smallest_share_p_value) == ""
    assert smallest_share_p_value(10, StatisticsOptions(interval="percentile")) == 2 / 1001


def test_a_metric_that_is_better_on_the_items_of_both_is_not_behind() -> None:
    """Values are of all items of each, tests of those that both have scored."""
    rows = pd.DataFrame(
        [("METEOR", "CIDEr", -0.1, 0.01)],
        columns=["metric_a", "metric_b", "difference", "p_bh"],
    )
    tests = PairTests.of_rows(rows, StatisticsOptions(), 100)
    assert lead_words([METEOR, CIDER], tests) == ", but its lead over CIDEr is not significant"
    lower = PairTests.of_rows(rows, StatisticsOptions(), 100, higher_is_better=False)
    assert lead_words([METEOR, CIDER], lower) == ", significantly ahead of CIDEr"


@pytest.mark.parametrize(("n_systems", "is_told"), [(5, False), (6, True), (None, True)])
def test_few_systems_tell_nothing_of_others(n_systems: int | None, is_told: bool) -> None:
    """By hand: five coins fall alike in 2 of 32 throws, .0625; six in 2 of 64, .031."""
    tests = findings_of({"METEOR CIDEr": 0.001}).on_few_systems(n_systems, StatisticsOptions())
    words = lead_words([METEOR, CIDER], tests)
    if is_told:
        assert words == ", significantly ahead of CIDEr"
    else:
        assert words == "; too few systems (5) to tell whether its lead is more than chance"


def test_ranks_alone_say_less() -> None:
    """Of the third no rank says whether it is worse than the first; where the first shares its rank, of nobody."""
    options = StatisticsOptions()
    ranked = [METEOR, CIDER, BLEU]
    assert lead_words(ranked, PairTests.of_ranks(ranked, options, 100)) == (
        ", significantly ahead of CIDEr"
    )
    shared = [METEOR, Standing("CIDEr", 0.4, 1), Standing("BLEU-2", 0.3, 2), Standing("x", 0.2)]
    assert lead_words(shared, PairTests.of_ranks(shared, options, None)) == (
        ", but its lead over CIDEr is not significant; it was not tested against x"
    )
    equal = shared[:2]
    assert lead_words(equal, PairTests.of_ranks(equal, options, 5)) == (
        "; too few images (5) to tell whether its lead is more than chance"
    )
    unranked = [Standing("a", 1.0), Standing("b", 0.5)]
    assert "not tested" in lead_words(unranked, PairTests.of_ranks(unranked, options, 100))


P_VALUES = st.one_of(st.just(math.nan), st.sampled_from([0.0, 0.05, 0.0501, 1.0]), st.floats(0, 1))


@given(st.data(), st.integers(2, 8), st.integers(2, 12), st.sampled_from(["bh", "holm", "none"]))
def test_the_sentence_says_what_the_table_of_tests_says(data, n, n_images, correction) -> None:
    """Whom it is ahead of, whom not, and whom it was not tested against: each name stands where its p-value puts it."""
    labels = [f"M{i}" for i in range(n)]
    standings = [Standing(label, 1 - i / 10) for i, label in enumerate(labels)]
    options = StatisticsOptions(correction=correction)
    alpha = 1 - options.level
    p_value = p_value_column(correction)
    rows = pd.DataFrame(
        [
            {"metric_a": a, "metric_b": b, "difference": 0.1, p_value: data.draw(P_VALUES)}
            for a, b in combinations(labels, 2)
        ]
    )
    tests = PairTests.of_rows(rows, options, n_images)
    words = lead_words(standings, tests)
    p_of = {row["metric_b"]: row[p_value] for _, row in rows[: n - 1].iterrows()}
    significant = [label for label, p in p_of.items() if p <= alpha]
    not_significant = [label for label, p in p_of.items() if p > alpha]
    untested = [label for label, p in p_of.items() if math.isnan(p)]

    assert ("significantly ahead" in words) == bool(significant)
    ahead = words.partition("significantly ahead of ")[2].partition(", but")[0].partition(";")[0]
    if "others" not in ahead:
        assert re.findall(r"M\d", ahead) == significant
    elif ahead.startswith("all"):
        assert len(significant) == n - 1
    else:
        assert ahead == f"{number_word(len(significant))} of the {number_word(n - 1)} others"
    denied = re.search("but (?:not of|its lead over) ([^;]*)", words)
    if tests.too_few:
        assert denied is None
        assert (tests.too_few in words) == bool(not_significant)
    else:
        named = re.findall(r"M\d", denied[1]) if denied else []
        assert named == not_significant[: len(named)]
        assert bool(named) == bool(not_significant)
    assert ("not tested" in words) == bool(untested)

    own_metric = replace(standings[-1], is_own=True)
    sentence = metric_verdict([*standings[:-1], own_metric], tests, "tau_c")
    level = re.search(r"level with (.*), [\d.]+ below", sentence) or re.search(
        r"below (.*), which is not significant", sentence
    )
    of_own = rows[rows["metric_b"] == labels[-1]]
    allowed = of_own.loc[of_own[p_value] > alpha, "metric_a"].tolist() if not tests.too_few else []
    assert (level is not None) == bool(allowed)
    if level:
        named = re.findall(r"M\d", level[1])
        assert named == allowed[: len(named)]


def test_the_agreement_of_raters_is_graded_by_the_limits_of_krippendorff() -> None:
    """Krippendorff 2004, p. 241: rely on α from 0.8 on, draw tentative conclusions from 0.667 on."""
    grades = [agreement_verdict({"a": alpha}) for alpha in (0.8, 0.799, 0.667, 0.666)]
    assert ["reliable" in grade for grade in grades] == [True, False, False, False]
    assert ["tentative" in grade for grade in grades] == [False, True, True, False]
    assert ["too low" in grade for grade in grades] == [False, False, False, True]
    several = agreement_verdict({"a": 0.5, "b": 0.9, "c": math.nan, "d": 0.7})
    assert several.startswith("Raters agree best on b (α 90.0) and least on a (α 50.0); 2 of 3 ")
    assert "undefined" in agreement_verdict({"a": math.nan})


def test_the_metrics_closest_to_the_order_of_people_are_named() -> None:
    assert order_verdict({"a": 1.0, "b": 0.9}) == "a orders the systems as people do."
    assert order_verdict({"a": 1.0, "b": 0.0}, 2) == (
        "a puts the same one of the two systems first as people do; one pair of systems says little of a metric."
    )
    assert order_verdict({"a": 0.6, "b": 0.6, "c": 0.5, "d": math.nan}) == (
        "a and b come closest to people's order, with 60 % of the pairs of systems in the same order."
    )
    assert "No metric" in order_verdict({"a": math.nan})


def test_lists_and_places_in_words() -> None:
    assert [list_words(list("abcdef"[:n])) for n in (1, 2, 4, 5)] == [
        "a",
        "a and b",
        "a, b, c and d",
        "a, b, c and 2 others",
    ]
    assert [ordinal(n) for n in (1, 12, 13, 21, 22, 23, 111)] == (
        ["first", "twelfth", "13th", "21st", "22nd", "23rd", "111th"]
    )
    assert [ordinal(n) for n in (2, 3, 4, 11, 14, 24, 112, 113, 121)] == (
        [*("second", "third", "fourth", "eleventh", "14th", "24th"), "112th", "113th", "121st"]
    )
    assert [number_word(n) for n in (0, 1, 11, 12, 13)] == ["zero", "one", "eleven", "twelve", "13"]
    assert [list_words(list("abc"), n) for n in (1, 2, 3)] == [
        "a and 2 others",
        "a, b and c",
        "a, b and c",
    ]


@pytest.mark.parametrize(
    ("alphas", "verdict"),
    [
        (
            {"a": 0.8},
            "The agreement of single ratings, α 80.0, is reliable (80 or more), by Krippendorff's rule.",
        ),
        (
            {"a": 0.7999, "b": math.nan},
            "The agreement of single ratings, α 80.0, is enough for tentative conclusions (66.7 to 80), by "
            "Krippendorff's rule.",
        ),
        (
            {"a": -0.1},
            "The agreement of single ratings, α -10.0, is too low for conclusions (below 66.7), by Krippendorff's rule.",
        ),
        ({}, "Krippendorff's α is undefined for these ratings."),
        (
            {"a": 0.667, "b": 0.9, "c": 0.6669},
            "Raters agree best on b (α 90.0) and least on c (α 66.7); 2 of 3 reach 66.7, which Krippendorff asks for "
            "tentative conclusions.",
        ),
    ],
)
def test_the_whole_verdict_on_raters(alphas: dict[str, float], verdict: str) -> None:
    assert agreement_verdict(alphas) == verdict


@pytest.mark.parametrize(
    ("shares", "verdict"),
    [
        ({"a": 1.0, "b": 1.0}, "a and b order the systems as people do."),
        (
            {"a": 0.501, "b": 0.4},
            "a comes closest to people's order, with 50 % of the pairs of systems in the same order.",
        ),
        (
            {"a": 0.5, "b": 0.4},
            "No metric puts more than half of the pairs of systems in people's order; a comes closest, with 50 %.",
        ),
        (
            {"a": 0.0, "b": 0.0},
            "No metric puts any pair of systems in people's order.",
        ),
        ({}, "No metric's order of the systems can be compared with people's."),
    ],
)
def test_the_whole_verdict_on_orders(shares: dict[str, float], verdict: str) -> None:
    assert order_verdict(shares) == verdict


ALL_PAIRS = findings_of(
    {
        "METEOR BLEU-2": 0.01,
        "METEOR Overlap": 0.01,
        "CIDEr Overlap": 0.2,
        "Overlap Mine": 0.01,
        "Overlap BLEU-2": 0.01,
        "Mine BLEU-2": 0.01,
    }
)


@pytest.mark.parametrize(
    ("standings", "options", "verdict"),
    [
        ([own(0.5, 1)], {}, "Overlap reaches τ_c 50.0."),
        (
            [Standing("A", 0.0)],
            {},
            "No metric agrees with people beyond chance; the best is A (τ_c 0.0).",
        ),
        ([Standing("A", 0.01)], {}, "A reaches τ_c 1.0."),
        (
            [Standing("A", 0.2, 1, 0.0, high=0.4)],
            {},
            "No metric agrees with people beyond chance; the best is A (τ_c 20.0, interval 0.0 to 40.0).",
        ),
        ([Standing("A", 0.2, 1, 0.001)], {"head": "mean"}, "A reaches mean 20.0."),
        (
            [METEOR, BLEU],
            {"dimension": "x"},
            "METEOR agrees best with people (x τ_c 41.8), significantly ahead of BLEU-2.",
        ),
        (
            [METEOR, Standing("B", 0.4)],
            {"person": 0.5},
            "METEOR agrees best with people (τ_c 41.8); its lead was not tested for significance; one person reaches "
            "50.0 against another.",
        ),
        (
            [own(0.5, 1), Standing("Mine", 0.4, 2, is_own=True), BLEU],
            {},
            "Overlap is first of three, 10.0 above Mine, significantly ahead of Mine and BLEU-2. Mine is second of "
            "three, 10.0 below Overlap.",
        ),
        (
            [METEOR, Standing("Overlap", 0.01, 2, low=-0.02, is_own=True, high=0.04)],
            {},
            "Overlap is second of two, 40.8 below METEOR. Overlap does not agree with people beyond chance (τ_c 1.0, "
            "interval -2.0 to 4.0).",
        ),
        (
            [replace(METEOR, name="other"), own(0.4, None)],
            {},
            "Overlap is second of two, 1.8 below METEOR; this difference was not tested.",
        ),
        (
            [Standing("A", 0.5), own(0.4, 1)],
            {},
            "Overlap is second of two, 10.0 below A; this difference was not tested.",
        ),
        (
            [METEOR, CIDER, own(0.4, 2), BLEU],
            {},
            "Overlap is third of four, level with CIDEr, 1.8 below METEOR.",
        ),
    ],
)
def test_the_whole_verdict_on_metrics(
    standings: list[Standing], options: dict[str, Any], verdict: str
) -> None:
    assert metric_verdict(standings, ALL_PAIRS, "tau_c", **options) == verdict


def test_an_interval_wholly_below_chance_is_against_people() -> None:
    """It is not level with chance; of metrics that are lower still, nothing is said, as their intervals may be wide."""
    none = PairTests()
    alone = Standing("A", 0.4, 1, low=0.3, high=0.48)
    numbers = "(acc. 40.0, interval 30.0 to 48.0; chance reaches 50.0)"
    assert metric_verdict([alone], none, "accuracy") == (
        f"A orders captions against people {numbers}."
    )
    second = Standing("B", 0.35, 1, low=0.1, high=0.6)
    assert metric_verdict([alone, second], none, "accuracy") == (
        f"Even the best, A, orders captions against people {numbers}."
    )


def test_chance_is_one_half_of_accuracy_and_the_share_to_be_found_of_average_precision() -> None:
    """Of four captions one is to be found: scores that say nothing have an AP of 1/4 on average."""
    none = PairTests()
    below = [Standing("A", 0.55, 1, low=0.48, high=0.62)]
    assert metric_verdict(below, none, "accuracy") == (
        "No metric agrees with people beyond chance; the best is A (acc. 55.0, interval 48.0 to 62.0; chance reaches 50.0)."
    )
    above = [Standing("A", 0.55, 1, low=0.51, high=0.59)]
    assert metric_verdict(above, none, "accuracy") == "A reaches acc. 55.0."
    precision = find_coefficient("average_precision")
    ratings = np.array([0.0, -1.0, 0.0, 0.0])
    assert precision.chance_on(ratings) == 0.25
    few = [Standing("A", 0.3, 1, low=0.2, high=0.4), own(0.28, 1)]
    verdict = metric_verdict(
        few,
        findings_of({"A Overlap": 0.2}),
        "average_precision",
        chance=precision.chance_on(ratings),
    )
    assert verdict == "Overlap is second of two, 2.0 below A, which is not significant."
    few = [Standing("A", 0.3, 1, low=0.2, high=0.4)]
    assert metric_verdict(few, none, "average_precision", chance=0.25) == (
        "No metric agrees with people beyond chance; the best is A (AP 30.0, interval 20.0 to 40.0; chance reaches 25.0)."
    )
    # Where nothing says what chance reaches, nothing is said of it.
    assert math.isnan(precision.chance_on(np.empty(0)))
    assert math.isnan(find_coefficient("accuracy").chance_on(np.empty(0), "calibrated"))
    assert metric_verdict(few, none, "average_precision") == "A reaches AP 30.0."


def test_notes_are_joined_and_stand_once() -> None:
    assert join_notes("a", "", "b") == "a; b"
    assert join_notes("", "") == ""
    frame = pd.DataFrame({"note": ["x", "", "y", "x"]})
    assert distinct_notes(frame) == ["x.", "y."]
    assert synthetic_note("metrics") == (
        "SYNTHETIC data: it only shows that captau works, and says nothing about real metrics."
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "95 % interval (expanded percentile bootstrap over images, 1,000 replicates)"),
        (
            {"interval": "bca", "level": 0.9, "replicates": 20},
            "90 % interval (BCa bootstrap over images, 20 replicates)",
        ),
        (
            {"interval": "fisher", "level": 0.995},
            "99.5 % interval (Fisher's formula, data points taken as independent)",
        ),
    ],
)
def test_intervals_in_words(options: dict[str, Any], words: str) -> None:
    assert interval_words(StatisticsOptions(**options)) == words


@pytest.mark.parametrize(
    ("coefficients", "options", "tests"),
    [
        ([], {}, "paired bootstrap over images, level 5 %, Benjamini-Hochberg"),
        (
            ["tau_c", "tau_c"],
            {"level": 0.9},
            "paired bootstrap over images, level 10 %, Benjamini-Hochberg",
        ),
        (["pearson"], {"correction": "holm"}, "paired bootstrap over images, level 5 %, Holm"),
    ],
)
def test_ranks_in_words(coefficients: list[str], options: dict[str, Any], tests: str) -> None:
    assert rank_words(StatisticsOptions(**options), coefficients) == (
        f"metrics that share a rank do not differ significantly ({tests})"
    )


def test_a_mean_says_that_an_accuracy_is_rescaled() -> None:
    assert mean_words(["A", "B"], ["tau_c", "pearson"]) == "over A, B"
    assert mean_words(["A"], ["tau_c", "accuracy"]) == "over A; an accuracy a counts as 2a − 1"


def correlations(*rows: tuple[Any, ...]) -> pd.DataFrame:
    names = ["metric", "dimension", "coefficient", "value", "note"]
    return pd.DataFrame(rows, columns=pd.Index(names))


@pytest.mark.parametrize(
    ("rows", "changes", "notes"),
    [
        ([("m", "x", "tau_c", 0.5, "a"), ("n", "x", "tau_c", 0.5, "a")], {}, []),
        (
            [
                ("m", "x", "tau_c", 0.5, "a"),
                ("n", "x", "tau_c", 0.5, "a"),
                ("m", "x", "pearson", 0.5, "a"),
                ("n", "x", "pearson", 0.5, "a"),
            ],
            {"level": "by_image"},
            ["x tau_c, x pearson: a."],
        ),
        (
            [
                ("m", "x", "tau_c", 0.5, "a"),
                ("n", "x", "tau_c", 0.5, "b"),
                ("n", "y", "tau_c", 0.5, ""),
            ],
            {"level": "by_image"},
            ["M, x tau_c: a.", "N, x tau_c: b."],
        ),
        (
            [
                ("m", "x", "tau_c", 0.5, "a"),
                ("m", "y", "tau_c", 0.5, "b"),
                ("n", "x", "tau_c", math.nan, "c"),
            ],
            {"level": "by_image"},
            ["M, x tau_c: a; y tau_c: b."],
        ),
        ([("m", "x", "auroc", 0.5, "chance 50")], {}, ["x auroc: chance 50."]),
        ([("m", "x", "accuracy", 0.5, "a"), ("m", "mean", "accuracy", 0.5, "b")], {}, []),
        (
            [("m", "x", "accuracy", 0.5, "a"), ("m", "mean", "accuracy", 0.5, "b")],
            {"ties": "calibrated"},
            ["x accuracy: a."],
        ),
        ([("m", "x", "accuracy", 0.5, "a")], {"level": "by_image"}, []),
    ],
)
def test_notes_on_levels_stand_once_for_coefficients_and_metrics(
    rows: list[tuple[Any, ...]], changes: dict[str, Any], notes: list[str]
) -> None:
    """A note of all metrics has no names of metrics before it."""
    protocol = Protocol.resolve("made", {}, changes)
    assert level_notes(correlations(*rows), {"m": "M", "n": "N"}, protocol) == notes


def captions(
    texts: list[str], references: list[tuple[str, ...]], values: list[float | None], **fields: Any
) -> CaptionSet:
    """Captions of an image each, rated on x, of which each is better than the one before it."""
    n = len(texts)
    items = make_items([str(k) for k in range(n)], texts, references, splits=["a"] * n)
    ids = items["item_id"].tolist()
    rows = [
        (i, "x", f"r{k}", v)
        for k, (i, v) in enumerate(zip(ids, values, strict=True))
        if v is not None
    ]
    ratings = pd.DataFrame(rows, columns=pd.Index(["item_id", "dimension", "rater", "value"]))
    winners = fields.pop("winners", ())
    pairs = [(f"p{k}", ids[a], ids[b], "fit", w) for k, (a, b, w) in enumerate(winners)]
    card = Card(*("made", "Made", "1", "", "", ""), scales={"x": Scale(0, 9)}, **fields)
    return CaptionSet(items, ratings, preferences=make_preferences(pairs), card=card)


def test_notes_of_a_dataset_are_its_remarks_missing_splits_and_lost_ratings() -> None:
    sources = tuple(SourceFile(s, "", split=s) for s in ("a", "b", "c"))
    made = captions(["u", "v"], [("r",)] * 2, [1.0, 2.0], remarks=("one", "two"), sources=sources)
    plain = Protocol.resolve("made", {}, {}).for_dataset(made)
    remarks = ["made: one", "made: two"]
    missing = "made: without b and c, which the data folder does not have."
    assert dataset_notes(made, plain) == [*remarks, missing]
    split = Protocol.resolve("made", {}, {"split": "a"}).for_dataset(made)
    assert dataset_notes(made, split) == remarks
    scaled = Protocol.resolve("made", {}, {"rater_scale": "z"}).for_dataset(made)
    assert dataset_notes(made, scaled)[3:] == [
        "made: 2 of 2 ratings have no z-score and are left out, as their raters gave all captions the same."
    ]


def note_of(made: CaptionSet, **changes: Any) -> str:
    return copies_note(EvaluationSet.select(made, Protocol.resolve("made", {}, changes)))


def test_copies_are_told_with_how_people_judge_them() -> None:
    """Captions 0 and 1 are copies, 1 of its only reference; rated 9 and 5 beside 2 and none."""
    refs = [("a dog", "the dog"), ("a cat",), ("r",), ("r",)]
    texts = ["a dog", "A cat!", "u", "v"]
    made = captions(texts, refs, [9.0, 5.0, 2.0, None])
    count = "2 of 4 captions repeat one of their image's references, 1 of them exactly"
    told = f"{count} (mean x 7.00, of the others 2.00)"
    assert note_of(made, own_references="leave_out", undefined="drop") == (
        f"{told}, and are scored without it, but for 1 left out that have no other: "
        "protocol.own_references=keep scores them with it."
    )
    alone = captions(texts, refs, [9.0, 5.0, None, None])
    assert note_of(alone).startswith(f"{count} (mean x 7.00): protocol.own_references=drop leaves")
    others = captions(texts, refs, [None, None, 2.0, 3.0])
    assert note_of(others).startswith(f"{count}: protocol.own_references=drop leaves them out")
    assert note_of(captions(["u", "v"], [("r",)] * 2, [1.0, 2.0])) == ""
    # Copies against others: one wins as the first, one as the second, one loses; two copies, and a tie, do not count.
    winners = [(0, 2, "a"), (3, 1, "b"), (2, 0, "a"), (0, 1, "a"), (0, 3, "tie"), (2, 3, "a")]
    judged = captions(texts, refs, [9.0, 5.0, 2.0, None], winners=winners)
    preferred = "; preferred in 2 of 3 pairs with a caption that repeats none"
    told = f"{count} (mean x 7.00, of the others 2.00{preferred})"
    assert note_of(judged, coefficients=["tau_c", "accuracy"]).startswith(f"{told}: protocol")
    assert "preferred" not in note_of(judged, coefficients=["tau_c"])
    undecided = captions(texts, refs, [9.0, 5.0, 2.0, None], winners=winners[3:])
    assert "preferred" not in note_of(undecided, coefficients=["tau_c", "accuracy"])


def test_notes_name_the_parts_that_have_them_where_others_lack_them() -> None:
    notes = [
        ("people", "recall", "few"),
        ("people", "precision", ""),
        ("people", "recall", "few"),
        ("oracle", "recall", "all"),
        ("oracle", "precision", "all"),
        ("floor", "recall", ""),
    ]
    assert notes_by_subject(notes) == ["people (recall): few.", "oracle: all."]
