"""Sentences and notes on a user's scores, and where systems stand, by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pandas as pd
import pytest

from captau.benchmarks.evaluation.wording import Standing
from captau.benchmarks.reporting.corpus_score_tables import (
    describe_agreement,
    find_leading_metric,
    rank_by_score,
    scale_note,
    score_verdict,
)
from captau.benchmarks.statistics.bootstrap import StatisticsOptions

NAN = math.nan


def style(label, scale=100.0, decimals=1, higher=True):
    return SimpleNamespace(label=label, scale=scale, decimals=decimals, higher_is_better=higher)


STYLES = {"cider": style("CIDEr"), "chair": style("CHAIR-s", higher=False)}


def corpus(*rows):
    columns = ["metric", "agreement", "agreement_coefficient", "agreement_on"]
    return pd.DataFrame(rows, columns=columns)


KNOWN = corpus(("cider", 0.439, "tau_c", "Flickr8k-Expert"), ("chair", NAN, "", ""))
UNKNOWN = corpus(("cider", NAN, "", ""), ("chair", NAN, "", ""))


def test_agreement_in_words():
    rows = KNOWN.to_dict("records")
    assert [describe_agreement(row) for row in rows] == ["τ_c 43.9 on Flickr8k-Expert", ""]


def test_the_metric_that_agrees_best_leads_and_else_the_first():
    assert find_leading_metric({"a": 0.1, "b": NAN, "c": 0.3, "d": 0.3}) == "c"
    assert find_leading_metric({"a": NAN, "b": NAN}) == "a"


TRUSTED = "CIDEr, which agrees best with people (τ_c 43.9 on Flickr8k-Expert)"


@pytest.mark.parametrize(
    ("table", "standings", "sentence"),
    [
        (KNOWN, {"cider": []}, "CIDEr has no score of these captions."),
        (KNOWN, {"cider": [Standing("", 0.5)]}, f"The captions reach 50.0 by {TRUSTED}."),
        (UNKNOWN, {"cider": [Standing("A", 0.5)]}, "A reaches 50.0 by CIDEr."),
        (UNKNOWN, {"chair": [Standing("A", -0.25)]}, "A reaches 25.0 by CHAIR-s."),
        (
            KNOWN,
            {"cider": [Standing("A", 0.5), Standing("B", 0.25)]},
            f"By {TRUSTED}, A is best (50.0); its lead was not tested for significance.",
        ),
        (
            UNKNOWN,
            {
                "cider": [Standing("A", 0.5), Standing("B", 0.25)],
                "chair": [Standing("B", -0.1), Standing("A", -0.2)],
            },
            "By CIDEr, A is best (50.0); its lead was not tested for significance; 1 of 2 metrics put it first.",
        ),
        (
            UNKNOWN,
            {"cider": [Standing("A", 0.5), Standing("B", 0.25)], "chair": []},
            "By CIDEr, A is best (50.0); its lead was not tested for significance; 1 of 2 metrics put it first.",
        ),
    ],
)
def test_the_verdict_on_systems(table, standings, sentence):
    assert score_verdict(table, standings, STYLES) == sentence


def test_the_note_on_scales():
    percent, plain = style("B"), style("A", scale=1.0)
    assert scale_note([percent]) == "Scores ×100"
    assert scale_note([plain]) == "Scores as computed"
    other = style("C", scale=10.0)
    text = "Scores ×100, but for A, C: as computed"
    assert scale_note([plain, percent, other]) == text


def test_systems_stand_by_score_and_by_the_corrected_tests():
    """Of c no score is known; a and b differ significantly by the p-values of Benjamini and Hochberg."""
    scores = pd.DataFrame({"system": ["a", "b", "c"], "score": [0.25, 0.5, NAN]})
    tests = pd.DataFrame(
        [("a", "b", 0.2, 0.04)], columns=["system_a", "system_b", "p_holm", "p_bh"]
    )
    choices = StatisticsOptions(correction="bh")
    ranked = rank_by_score(scores, tests, choices, higher_is_better=True)
    assert ranked == [Standing("b", 0.5, 1), Standing("a", 0.25, 2)]
    ranked = rank_by_score(scores, tests, choices, higher_is_better=False)
    assert ranked == [Standing("a", -0.25, 1), Standing("b", -0.5, 2)]
    ranked = rank_by_score(
        scores, tests, StatisticsOptions(correction="holm"), higher_is_better=True
    )
    assert [standing.rank for standing in ranked] == [1, 1]
    for none in (None, tests[:0]):
        ranked = rank_by_score(scores, none, choices, higher_is_better=True)
        assert ranked == [Standing("b", 0.5, None), Standing("a", 0.25, None)]
