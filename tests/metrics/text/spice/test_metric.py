"""SPICE against values worked by hand (Anderson et al. 2016, sections 3.1 to 3.3, 5.4)."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from captau.metrics.registry import metric
from captau.metrics.rows import Rows
from captau.metrics.text.spice import jar_process as spice_java
from captau.metrics.text.spice import metric as spice

NAN = np.nan
#: Caption, references, and F, precision, recall, then F of objects, relations, attributes, colours,
#: counts and sizes. The tuples that each stands on are in the comment.
WORKED = [
    # (dog) against (dog), (dog, brown).
    ("a dog", ("a brown dog",), [2 / 3, 1, 1 / 2, 1, NAN, 0, 0, NAN, NAN]),
    # (dog), (dog, brown) against (dog): the reference has no attribute at all.
    ("a brown dog", ("a dog",), [2 / 3, 1 / 2, 1, 1, NAN, NAN, NAN, NAN, NAN]),
    # A synonym: bike and bicycle share a synset.
    ("a bike", ("a bicycle",), [1, 1, 1, 1, NAN, NAN, NAN, NAN, NAN]),
    # (dog) against (dog), (dog, two); against (dog), (dog, big).
    ("a dog", ("two dogs",), [2 / 3, 1, 1 / 2, 1, NAN, 0, NAN, 0, NAN]),
    ("a dog", ("a big dog",), [2 / 3, 1, 1 / 2, 1, NAN, 0, NAN, NAN, 0]),
    # (man), (horse), (man, horse, on) against the same and (horse, white): 3 of 3, 3 of 4.
    (
        "a man on a horse",
        ("a man on a white horse",),
        [6 / 7, 1, 3 / 4, 1, 1, 0, 0, NAN, NAN],
    ),
    # Two references are one graph: (boat), (bird), of which the candidate has one.
    ("a boat", ("a boat", "a bird"), [2 / 3, 1, 1 / 2, 2 / 3, NAN, NAN, NAN, NAN, NAN]),
    # No tuple on either side: 0, and no kind is defined.
    ("", ("",), [0, 0, 0, NAN, NAN, NAN, NAN, NAN, NAN]),
    ("... !!! ,,,", ("a dog",), [0, 0, 0, 0, NAN, NAN, NAN, NAN, NAN]),
]
#: Captions that resemble SPICE's own texts: JSON, its readable output, the driver's words, odd Unicode.
ODD = [
    '{"error": "a dog"}',
    '[["dog"]]',
    'a "dog" \\ runs \\n \\u0000 /',
    "dog/cat",
    "source reln target --- ---- ---",
    "ready",
    "null",
    "a dog\u0000runs",
    "a\u2028dog\u2029runs\x85fast",
    "e\u0301 ﬁ ½ Ⅷ ｄｏｇ 𝒹ℴℊ \u202edog\u202c \ufeff",
    "犬が走る кошка सब",
    ", ".join(["dog"] * 30),
    "dog " * 3 + "." * 300,
]


@pytest.fixture(scope="module")
def scores(spice_jars: list[Path]):
    """Score all rows of this module in one run: rows of WORKED, then each of ODD against itself."""
    rows = [{"caption": c, "references": refs} for c, refs, _ in WORKED]
    rows += [{"caption": c, "references": (c,)} for c in ODD]
    return spice.compute_parts(Rows.from_items(rows))


@pytest.mark.parametrize("index", range(len(WORKED)))
def test_scores_worked_by_hand(index, scores):
    np.testing.assert_allclose(scores[index], WORKED[index][2], rtol=1e-12)


def test_an_odd_caption_matches_itself_entirely_or_has_no_tuples(scores):
    odd_scores = scores[len(WORKED) :]
    assert np.isin(odd_scores[:, :3], [0, 1]).all()
    assert (odd_scores[:, :1] == odd_scores[:, 1:3]).all()
    assert odd_scores[:, 0].sum() >= 8


def test_scores_are_between_0_and_1(scores):
    defined = scores[~np.isnan(scores)]
    assert ((defined >= 0) & (defined <= 1)).all()


def test_f_is_the_harmonic_mean_of_precision_and_recall(scores):
    f, precision, recall = scores[:, :3].T
    np.testing.assert_allclose(f * (precision + recall), 2 * precision * recall, atol=1e-15)


def test_each_row_has_its_own_scores_in_any_order(scores):
    """All captions are parsed by now, so this starts no parser."""
    rows = [{"caption": c, "references": refs} for c, refs, _ in WORKED]
    reversed_scores = spice.compute_parts(Rows.from_items([*rows[::-1], rows[0]]))
    np.testing.assert_array_equal(reversed_scores, scores[[*range(len(WORKED) - 1, -1, -1), 0]])


@pytest.mark.java
def test_related_metrics_are_columns_of_one_computation(monkeypatch, no_jars):
    calls = itertools.count()
    columns = np.arange(18.0).reshape(2, 9)
    monkeypatch.setattr(spice, "compute_parts", lambda rows: (next(calls), columns)[1])
    rows = Rows.from_items([{"caption": c, "references": ("a cat",)} for c in ("a dog", "a bird")])
    names = ["spice", *metric("spice").companions]
    assert names == [metric(name).name for name in names]
    for i, name in enumerate(names):
        assert metric(name).score(rows).tolist() == [i, 9 + i]
    assert next(calls) == 1


@pytest.mark.java
def test_the_corpus_score_is_the_mean_over_the_rows_that_have_one(monkeypatch, no_jars):
    columns = np.full((3, 9), [[0.5], [NAN], [1.0]])
    monkeypatch.setattr(spice, "compute_parts", lambda rows: columns)
    rows = [
        {"caption": c, "references": ("a",), "weight": w}
        for c, w in zip("abc", (3, 1, 1), strict=True)
    ]
    assert metric("spice_color").corpus_score(rows) == pytest.approx(2.5 / 4)
    assert np.isnan(metric("spice").corpus_score(rows)), "a caption that failed is no gap to skip"
    scores, color, f = columns[:, 0].copy(), metric("spice_color"), metric("spice")
    weights = np.array([[3.0, 1, 0], [1, 1, 1], [1, 0, 0]])
    resample = color.corpus_resampler(rows, scores)
    np.testing.assert_array_equal(resample(weights), [2.5 / 4, 0.5, NAN])
    assert np.isnan(f.corpus_resampler(rows, scores)(weights)).all()
    assert color.corpus_summands(rows, scores).tolist() == [[0.5, 1], [0, 0], [1, 1]]
    np.testing.assert_array_equal(f.corpus_summands(rows, scores), [[0.5, 1], [NAN, 1], [1, 1]])
    assert color.corpus_score_from_sums([2.5, 4]) == 2.5 / 4
    assert np.isnan(color.corpus_score_from_sums([0, 0]))
    columns[:] = NAN
    assert np.isnan(metric("spice_color").corpus_score(rows))


def test_a_caption_that_needs_too_much_is_named_and_the_rest_scored(scores, wait_for_java, caplog):
    """10,000 words would take days, and more memory than there is."""
    wait_for_java(parsing=15.0)
    rows = [
        {"caption": "a dog", "references": ("a brown dog",), "item_id": "x1"},
        {"caption": "a dog runs " * 3334, "references": ("a dog",), "item_id": "x2"},
    ]
    values = metric("spice").score(rows)
    np.testing.assert_array_equal(values, [scores[0][0], NAN])
    (message,) = caplog.messages
    assert "SPICE of x2 is undefined: a caption of 10,002 words could not be parsed" in message


def test_a_parser_ends_in_the_midst_of_a_caption_where_nobody_waits_for_it(spice_jars):
    """As after `kill -9`: its input ends. A hundred words need more than a minute."""
    process = spice_java.SpiceProcess(can_parse=True)
    try:
        assert process.process.stdin is not None
        process.process.stdin.write(json.dumps(" ".join(["dog"] * 100)).encode() + b"\n")
        process.process.stdin.close()
        assert process.process.wait(120) == 0
        assert process.read_line(20) == b"", "not because it had parsed it"
    finally:
        process.stop()


def test_which_metrics_come_with_spice_and_what_spider_depends_on():
    assert metric("spice").companions == tuple(
        f"spice_{part}"
        for part in (
            *("precision", "recall", "object", "relation", "attribute", "color", "count", "size"),
        )
    )
    assert metric("spice_color").companions == metric("spice_precision").companions == ()
    spider = metric("spider")
    assert (spider.bounds, spider.depends_on_corpus) == ((0.0, 5.5), True)
    assert (spider.file_fields, spider.df) == (("df",), None)
    assert not metric("spice").depends_on_corpus


def test_what_spice_says_of_itself():
    for part in spice.PARTS:
        scorer = metric("spice" if part == "f" else f"spice_{part}")
        assert (scorer.bounds, scorer.name_fields) == ((0.0, 1.0), ("part",))
        assert scorer.parameters == {"part": part, "backend": "pycocoevalcap"}
        assert scorer.needs == {"references"}
    assert spice.PARTS == {
        "f": ("All", "f"),
        "precision": ("All", "pr"),
        "recall": ("All", "re"),
        "object": ("Object", "f"),
        "relation": ("Relation", "f"),
        "attribute": ("Attribute", "f"),
        "color": ("Color", "f"),
        "count": ("Cardinality", "f"),
        "size": ("Size", "f"),
    }
