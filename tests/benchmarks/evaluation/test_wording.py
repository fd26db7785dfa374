"""Verdicts: where metrics and systems stand, worked by hand on made values."""

from __future__ import annotations

import math

from captau.benchmarks.evaluation.wording import (
    Standing,
    agreement_verdict,
    lead_words,
    list_words,
    metric_verdict,
    order_verdict,
    ordinal,
)

METEOR, CIDER, BLEU = (
    Standing("METEOR", 0.418, 1, 0.40),
    Standing("CIDEr", 0.401, 2, 0.39),
    Standing("BLEU-2", 0.340, 3, 0.32),
)


def own(value: float, rank: int | None) -> Standing:
    return Standing("Overlap", value, rank, is_own=True)


def test_the_verdict_places_an_own_metric_among_the_others() -> None:
    """41.8 − 33.9 = 7.9; the third rank is shared with BLEU-2."""
    verdict = metric_verdict([METEOR, CIDER, BLEU, own(0.339, 3)], "tau_c")
    assert verdict == "Overlap is fourth of four, level with BLEU-2, 7.9 below METEOR."
    verdict = metric_verdict([own(0.439, 1), METEOR], "tau_c")
    assert (
        verdict
        == "Overlap is first of two, 2.1 above METEOR, but its lead over METEOR is not significant."
    )
    verdict = metric_verdict([METEOR, own(0.409, 1), BLEU], "tau_c")
    assert verdict == "Overlap is second of three, level with METEOR, 0.9 below the best."
    untested = [own(0.439, None), Standing("METEOR", 0.418)]
    assert metric_verdict(untested, "tau_c").endswith("; its lead was not tested for significance.")
    assert "level" not in metric_verdict(untested[::-1], "tau_c")


def test_the_verdict_names_the_best_metric_and_those_level_with_it() -> None:
    assert metric_verdict([METEOR, CIDER], "tau_c") == (
        "METEOR agrees best with people (τ_c 41.8), significantly ahead of every other metric."
    )
    tied = [METEOR, Standing("CIDEr", 0.401, 1), Standing("BLEU-2", 0.340, 1), BLEU]
    assert "its lead over CIDEr and BLEU-2 is not significant" in metric_verdict(tied, "tau_c")
    assert metric_verdict([METEOR], "tau_c", "total", {"one human": 0.7}) == (
        "METEOR reaches total τ_c 41.8; the human ceiling is 70.0 (one human)."
    )
    at_chance = Standing("METEOR", 0.01, 1, -0.02)
    assert metric_verdict([at_chance], "tau_c").startswith("No metric agrees with people beyond")
    assert metric_verdict([at_chance], "accuracy").startswith("METEOR reaches")
    assert metric_verdict([], "tau_c") == "No metric has a coefficient."


def test_what_was_not_tested_is_not_called_equal() -> None:
    assert "not tested" in lead_words([METEOR, Standing("CIDEr", 0.4)], "metric")
    assert "not tested" in lead_words([Standing("a", 1.0), Standing("b", math.inf)], "system")


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
