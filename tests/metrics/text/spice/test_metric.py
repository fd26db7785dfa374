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
#: What might be taken for SPICE's own: JSON, its readable output, the driver's words, odd Unicode.
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
def scored(spice_jars: list[Path]):
    """All rows of this module, scored in one run: rows of WORKED, then each of ODD against itself."""
    rows = [{"caption": c, "references": refs} for c, refs, _ in WORKED]
    rows += [{"caption": c, "references": (c,)} for c in ODD]
    return spice._scores(Rows.from_items(rows))


@pytest.mark.parametrize("index", range(len(WORKED)))
def test_worked_by_hand(index, scored):
    np.testing.assert_allclose(scored[index], WORKED[index][2], rtol=1e-12)


def test_an_odd_caption_is_wholly_like_itself_or_says_nothing(scored):
    of_odd = scored[len(WORKED) :]
    assert np.isin(of_odd[:, :3], [0, 1]).all()
    assert (of_odd[:, :1] == of_odd[:, 1:3]).all()
    assert of_odd[:, 0].sum() >= 8


def test_bounds(scored):
    defined = scored[~np.isnan(scored)]
    assert ((defined >= 0) & (defined <= 1)).all()


def test_f_is_the_harmonic_mean(scored):
    f, precision, recall = scored[:, :3].T
    np.testing.assert_allclose(f * (precision + recall), 2 * precision * recall, atol=1e-15)


def test_each_row_has_its_own_scores_in_any_order(scored):
    """Every caption is known by now, so that this starts no parser."""
    rows = [{"caption": c, "references": refs} for c, refs, _ in WORKED]
    turned = spice._scores(Rows.from_items([*rows[::-1], rows[0]]))
    np.testing.assert_array_equal(turned, scored[[*range(len(WORKED) - 1, -1, -1), 0]])


def test_kin_metrics_are_columns_of_one_computation(monkeypatch):
    calls = itertools.count()
    columns = np.arange(18.0).reshape(2, 9)
    monkeypatch.setattr(spice, "_scores", lambda rows: (next(calls), columns)[1])
    rows = Rows.from_items([{"caption": c, "references": ("a cat",)} for c in ("a dog", "a bird")])
    names = ["spice", *metric("spice").companions]
    assert names == [metric(name).name for name in names]
    for i, name in enumerate(names):
        assert metric(name).score(rows).tolist() == [i, 9 + i]
    assert next(calls) == 1


def test_the_corpus_score_is_the_mean_over_the_rows_that_have_one(monkeypatch):
    columns = np.full((3, 9), [[0.5], [NAN], [1.0]])
    monkeypatch.setattr(spice, "_scores", lambda rows: columns)
    rows = [
        {"caption": c, "references": ("a",), "weight": w}
        for c, w in zip("abc", (3, 1, 1), strict=True)
    ]
    assert metric("spice_color").corpus_score(rows) == pytest.approx(2.5 / 4)
    assert np.isnan(metric("spice").corpus_score(rows)), "a caption that failed is no gap to skip"
    columns[:] = NAN
    assert np.isnan(metric("spice_color").corpus_score(rows))


def test_a_caption_that_needs_too_much_is_named_and_the_rest_scored(scored, monkeypatch, capsys):
    """10,000 words would take days, and more memory than there is."""
    monkeypatch.setattr(spice_java, "SECONDS", 5.0)
    rows = [
        {"caption": "a dog", "references": ("a brown dog",), "item_id": "x1"},
        {"caption": "a dog runs " * 3334, "references": ("a dog",), "item_id": "x2"},
    ]
    scores = metric("spice").score(rows)
    np.testing.assert_array_equal(scores, [scored[0][0], NAN])
    said = capsys.readouterr().err
    assert "SPICE of x2 is undefined: a caption of 10,002 words could not be parsed" in said
    assert said.count("\n") == 1


def test_a_parser_ends_in_the_midst_of_a_caption_where_nobody_waits_for_it(spice_jars):
    """As after `kill -9`: its input ends. A hundred words need more than a minute."""
    program = spice_java.Program(parses=True)
    try:
        assert program.process.stdin is not None
        program.process.stdin.write(json.dumps(" ".join(["dog"] * 100)).encode() + b"\n")
        program.process.stdin.close()
        assert program.process.wait(20) == 0
        assert program._answers.get(timeout=20) == b"", "not because it had parsed it"
    finally:
        program.stop()
