"""Sentences and notes on a user's scores, and where systems stand, by hand."""

from __future__ import annotations

import dataclasses
import math
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from captau.benchmarks.evaluation.pair_tests import PairTests, Standing
from captau.benchmarks.evaluation.reliability import MetricReliability, Reliability
from captau.benchmarks.reporting.tables.corpus_score_tables import (
    ScoreChoices,
    describe_agreement,
    find_leading_metric,
    find_score_tests,
    list_notes,
    rank_by_score,
    scale_note,
    score_verdict,
)
from captau.benchmarks.scoring.catalog import MetricStyle
from captau.benchmarks.scoring.corpus_scores import SystemScores
from captau.benchmarks.statistics.bootstrap import Interval, StatisticsOptions
from captau.benchmarks.statistics.remarks import Note, Remark
from captau.datasets.caption_texts import find_own_references

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


def test_metrics_lead_by_values_of_one_coefficient_on_one_set_alone():
    """sacreBLEU's r of 45 on another set compares with nothing; of the two τ_c on one set the greater leads."""
    table = corpus(
        ("sacrebleu", 0.45, "pearson", "thumb"),
        ("bleu_4", 0.308, "tau_c", "flickr8k_expert"),
        ("cider", 0.439, "tau_c", "flickr8k_expert"),
        ("spice", NAN, "", ""),
    )
    metrics = table["metric"].tolist()
    assert find_leading_metric(table, metrics) == "cider"
    assert find_leading_metric(table, ["sacrebleu", "bleu_4"]) == "sacrebleu"
    assert find_leading_metric(table, ["bleu_4", "sacrebleu"]) == "bleu_4"
    assert find_leading_metric(table, ["spice"]) == "spice"
    assert find_leading_metric(UNKNOWN, ["cider", "chair"]) == "cider"


TRUSTED = "CIDEr (agreement with people: τ_c 43.9 on Flickr8k-Expert)"


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
            {"cider": [Standing("A", 0.5), Standing("B", 0.5)]},
            "By CIDEr, A and B have the same score (50.0).",
        ),
        (
            UNKNOWN,
            {"chair": [Standing("A", -0.1), Standing("B", -0.1), Standing("C", -0.2)]},
            "By CHAIR-s, A and B have the best score (10.0).",
        ),
        (
            UNKNOWN,
            {"cider": [Standing("A", 0.5), Standing("B", 0.25)], "chair": []},
            "By CIDEr, A is best (50.0); its lead was not tested for significance; 1 of 2 metrics put it first.",
        ),
    ],
)
def test_the_verdict_on_systems(table, standings, sentence):
    tests = dict.fromkeys(standings, PairTests())
    assert score_verdict(table, standings, tests, STYLES) == sentence


def test_the_verdict_says_whom_the_best_system_is_ahead_of():
    """Of three systems the last has rank 2 by the second alone: p .22 is no significant lead."""
    rows = pd.DataFrame(
        [("A", "B", 0.1, 0.01), ("A", "C", 0.2, 0.22), ("B", "C", 0.1, 0.5)],
        columns=["system_a", "system_b", "difference", "p_bh"],
    )
    places = [Standing("A", 0.5, 1), Standing("B", 0.4, 2), Standing("C", 0.3, 2)]

    def verdict(n_images):
        found = find_score_tests(
            rows.assign(n_images=n_images), StatisticsOptions(), higher_is_better=True
        )
        return score_verdict(UNKNOWN, {"cider": places}, {"cider": found}, STYLES)

    assert verdict(100) == ("By CIDEr, A is best (50.0), significantly ahead of B, but not of C.")
    few = verdict(5)
    assert "of C" not in few
    assert few.endswith("; too few images (5) to tell whether its lead is more than chance.")
    none = find_score_tests(None, StatisticsOptions(), higher_is_better=True)
    assert none == find_score_tests(rows[:0], StatisticsOptions(), higher_is_better=True)
    assert none == PairTests()


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


def metric_of(label, *, scale=100.0, decimals=1, note="", higher=True):
    return MetricStyle(label, 1, scale, decimals, note, "reference-based", higher, "")


CIDER, PLAIN = metric_of("CIDEr"), metric_of("Plain", scale=1.0, decimals=3, note="plain it is")
STYLED = [("cider", CIDER), ("plain", PLAIN)]


def system(name="", references="", captions=("a dog", "a cat"), own=(), **changes):
    """Captions of a system, of which `own` are among their references."""
    items = pd.DataFrame(
        {
            "image_id": [f"i{n}" for n in range(len(captions))],
            "caption": captions,
            "references": [(c if n in own else "else", "more") for n, c in enumerate(captions)],
        }
    )
    corpus = {"cider": 0.5, "plain": 0.25}
    scores = {spec: np.array([0.5] * len(captions)) for spec in corpus}
    made = SystemScores(name, references, items, scores, corpus, {}, {})
    return dataclasses.replace(made, **changes)


def scores_of(*systems, kept=None, reliability=None):
    return SimpleNamespace(
        systems=systems,
        has_several_systems=len({s.system for s in systems}) > 1,
        has_several_references=len({s.references for s in systems}) > 1,
        kept_captions=kept,
        reliability=reliability or MetricReliability(),
        differences=None,
        corpus_rows=pd.DataFrame(),
    )


def choices_of(interval="none", *, normalise="none", trust=None, keep=None, **statistics):
    return ScoreChoices(StatisticsOptions(interval=interval, **statistics), normalise, trust, keep)


def notes_of(choices, *systems, metrics=STYLED, n_images=None, **options):
    scores = scores_of(*systems, **options)
    n_images = n_images or {s.references: len(s.items) for s in systems}
    return [str(note) for note in list_notes(choices, metrics, scores, n_images)]


SCALES = "Scores ×100, but for Plain: as computed."
FEW = (
    "CIDEr's IDF is counted over the references of {} alone, and the fewer they are, the higher is CIDEr (by 15 % on 50 "
    "of COCO's 5,000 test images, by 7 % on 400): compare it with CIDEr of the same images alone. cider(df=FILE) counts "
    "it over another set's references (docs/own_captions.md)."
)
COPIES = (
    "These captions are scored against themselves, and too high: remove them from the references."
)


def test_notes_count_captions_and_name_scales():
    assert notes_of(choices_of(), system()) == [
        f"2 captions. {SCALES}",
        FEW.format("2 images"),
        "plain it is",
    ]
    one = notes_of(choices_of(), system(captions=["a"]), metrics=STYLED[1:])
    assert one == ["1 caption. Scores as computed.", "plain it is"]
    two = (system("A"), system("B"))
    assert notes_of(choices_of(), *two)[0] == f"2 captions of each system. {SCALES}"
    sets = (system("A", "r"), system("A", "s", captions=["a"] * 1001))
    lines = notes_of(choices_of(), *sets, n_images={"r": 2, "s": 1001})
    assert lines[0] == f"Captions: 2 with r, 1,001 with s. {SCALES}"
    lines = notes_of(choices_of(), *sets, n_images={"r": 1003, "s": 1001})
    assert lines[1] == "partial: 2 of the 1,003 images of r."
    assert len([line for line in lines if line.startswith("partial")]) == 1
    assert notes_of(choices_of(normalise="thumb"), system())[1] == (
        "Captions and references are normalised by the rule thumb."
    )


def test_the_idf_of_fewer_images_than_papers_score_is_named():
    """COCO's Karpathy test split has 5,000 images."""
    many = [f"caption {n}" for n in range(5000)]
    assert FEW.format("4,999 images") in notes_of(choices_of(), system(captions=many[1:]))
    assert not any("IDF" in note for note in notes_of(choices_of(), system(captions=many)))
    for spec, is_said in (("cider", True), ("cider(n=2)", True), ("cider(df=x)", False), ("plain", False)):  # fmt: skip
        one = system(corpus={spec: 0.5}, scores={spec: np.array([0.5, 0.5])})
        assert (
            FEW.format("2 images") in notes_of(choices_of(), one, metrics=[(spec, CIDER)])
        ) is is_said


def test_the_numbers_of_the_note_on_idf_are_those_that_the_docs_measured():
    page = (Path(__file__).parents[4] / "docs" / "own_captions.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| ([\d,]+) \| .* \| \+([\d.]+) % \|$", page, flags=re.MULTILINE))
    assert f"by {float(rows['50']):.0f} % on 50" in FEW
    assert f"by {float(rows['400']):.0f} % on 400" in FEW


def test_notes_tell_of_captions_among_their_references():
    one = notes_of(choices_of(), system(own=[1]))[1]
    assert one.endswith(f". {COPIES}")
    assert not one.startswith(":")
    both = notes_of(choices_of(), system("A", own=[0]), system("B", own=[0, 1]), system("C"))
    count_a, count_b = (find_own_references(system(own=o).items).count() for o in ([0], [0, 1]))
    assert both[1] == f"A: {count_a}; B: {count_b}. {COPIES}"


def test_notes_tell_why_a_score_is_undefined():
    nan = np.array([NAN, 0.5])
    gap = {"corpus": {"cider": NAN, "plain": 0.1}, "scores": {"cider": nan, "plain": nan}}
    reason = "undefined: 1 of 2 captions have no finite score."
    assert notes_of(choices_of(), system(**gap))[-1] == f"CIDEr: {reason}"
    lines = notes_of(choices_of(), system("A", **gap), system("B"))
    assert lines[-1] == f"CIDEr (A): {reason}"
    sets = (system("A", "r", **gap), system("B", "s"))
    assert notes_of(choices_of(), *sets)[-1] == f"CIDEr (A, r): {reason}"
    assert sum("undefined" in line for line in lines) == 1


def test_notes_tell_what_intervals_are():
    choices = choices_of("percentile", replicates=40)
    ends = {"cider": Interval(0.4, 0.6), "plain": Interval(0.2, 0.3)}
    ends["plain"] = ends["plain"].with_remarks(Remark(Note.SYSTEMS, {"n_systems": 7}))
    lines = notes_of(choices, system("A"), system("B", intervals=ends), system("C", intervals=ends))
    assert lines[-2:] == [
        "±: half the width of the 95 % interval (percentile bootstrap over images, 40 replicates); both ends in "
        "corpus.csv.",
        "7 systems.",
    ]
    assert not any("±" in line for line in notes_of(choices, system("A")))


def test_notes_tell_what_was_kept_and_trusted():
    kept = notes_of(choices_of(keep=("cider", 0.5)), system(), kept=[0] * 1)
    assert kept[-1] == "Kept 1 of 2: cider of 0.5 or more."
    assert "Kept" not in notes_of(choices_of(keep=("cider", 0.5)), system())[-1]
    assert "Kept" not in notes_of(choices_of(), system(), kept=[0])[-1]
    known = MetricReliability({"cider": Reliability("tau_c", 0.4, "d", "a paper", captions="c")})
    lines = notes_of(choices_of(trust="published"), system(), reliability=known)
    assert any("CIDEr: a paper" in line for line in lines)
    assert not any("a paper" in x for x in notes_of(choices_of(), system(), reliability=known))
