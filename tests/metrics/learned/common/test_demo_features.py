"""Features of the demo by their definitions, sources of features, and what ICR and QE read; without PyTorch."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from captau.benchmarks.evaluation.training.rater_training import correlate_for_training
from captau.datasets.sources import demo
from captau.metrics.base import UnavailableError
from captau.metrics.learned.common import features
from captau.metrics.learned.common.agreement import correlate_with_ratings
from captau.metrics.learned.common.examples import Examples
from captau.metrics.learned.common.features import DEMO_WIDTH, check_vectors, make_source
from captau.metrics.learned.common.network_rater import NetworkModel
from captau.metrics.learned.common.recipe import make_recipe
from captau.metrics.learned.common.weight_files import parse_card
from captau.metrics.rows import Rows
from tests.conftest import says

SCENE = demo.scenes()[0]


def word(name):
    return features._word_vectors()[name]


def thing(o):
    return word(o.colour) + word(o.shape)


def describe(o):
    return f"a {o.colour} {o.shape}"


def test_words_have_orthogonal_vectors_of_length_1():
    vectors = np.stack(list(features._word_vectors().values()))
    assert list(features._word_vectors()) == [*demo.COLOURS, *demo.SHAPES]
    assert vectors.shape == (len(demo.COLOURS) + len(demo.SHAPES), DEMO_WIDTH)
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(len(vectors)), atol=1e-12)
    # Drawn from the seed 7.
    basis = np.linalg.qr(np.random.default_rng(7).normal(size=(16, 16)))[0]
    np.testing.assert_array_equal(vectors, basis[: len(vectors)])


def test_scenes_are_found_by_their_images():
    assert features.find_scene(SCENE.image_id) == SCENE
    assert features.find_scene("further_12.png") == demo.further(12)[0]
    for name in ("further_.png", "further_1.jpg", "xfurther_1.png", "nothing"):
        with says(
            f"the demo has no image '{name}', and the features named demo exist only for its"
        ):
            features.find_scene(name)


def test_things_are_a_shape_and_the_colour_before_it():
    colour, other = list(demo.COLOURS)[:2]
    shape, form = list(demo.SHAPES)[:2]
    both = [word(colour) + word(shape), word(other) + word(form)]
    found = features.thing_vectors(
        f"A {colour.upper()}, big {shape} and the {other} {form}; a {form}"
    )
    np.testing.assert_allclose(found, both)
    np.testing.assert_allclose(
        features.text_vector(f"{colour} {shape} {other} {form}"), np.mean(both, axis=0)
    )
    for caption in ("", "a dog", shape, f"{shape} {colour}"):
        assert features.thing_vectors(caption).tolist() == [[0.0] * DEMO_WIDTH]
    plain, everyday = next((p, e) for p, e in demo.EVERYDAY.items() if p in demo.SHAPES)
    np.testing.assert_allclose(
        features.thing_vectors(f"{colour} {everyday}"), [word(colour) + word(plain)]
    )


def test_an_image_is_the_sum_of_its_objects_and_regions_are_their_boxes():
    things = np.stack([thing(o) for o in SCENE.objects])
    np.testing.assert_allclose(features.object_vectors(SCENE), things)
    np.testing.assert_allclose(features.image_vector(SCENE), things.sum(axis=0))
    vectors, boxes = features.region_features(SCENE)
    np.testing.assert_allclose(vectors, things)
    for o, box in zip(SCENE.objects, boxes, strict=True):
        r = demo.SIZES[o.size]
        corners = [o.x - r, o.y - r, o.x + r, o.y + r]
        assert box.tolist() == pytest.approx([*corners, 2 * r, 2 * r, 4 * r * r])


def test_objects_and_things_meet_what_is_most_like_them():
    """By the formula: softmax of 8 times the products, over things for objects and the other way round."""
    caption = f"{describe(SCENE.objects[0])} and {describe(demo.scenes()[1].objects[0])}"
    objects, things = features.object_vectors(SCENE), features.thing_vectors(caption)
    assert len(things) == 2
    met, other = np.zeros(DEMO_WIDTH), np.zeros(DEMO_WIDTH)
    for o in objects:
        shares = [math.exp(8 * (o @ t)) for t in things]
        met += o * sum(s * t for s, t in zip(shares, things, strict=True)) / sum(shares)
    for t in things:
        shares = [math.exp(8 * (o @ t)) for o in objects]
        other += t * sum(s * o for s, o in zip(shares, objects, strict=True)) / sum(shares)
    found = features.attended_vectors(SCENE, caption)
    np.testing.assert_allclose(found[0], met / len(objects) * 16, rtol=1e-9)
    np.testing.assert_allclose(found[1], other / 2 * 16, rtol=1e-9)


# Sources

CAPTIONS = [describe(SCENE.objects[0]), "nothing"]
ROWS = Rows(
    pd.DataFrame(
        {"item_id": ["a", "b"], "image_id": [SCENE.image_id, "further_3.png"], "caption": CAPTIONS}
    )
)
SCENES = [SCENE, demo.further(3)[0]]


def test_sources_of_the_demo():
    images, texts = (make_source(kind, "demo", "icr") for kind in ("images", "texts"))
    assert (images.kind, images.label, images.signature) == (
        "images",
        "rater icr: images=demo",
        "demo",
    )
    np.testing.assert_array_equal(images.vectors(ROWS), [*map(features.image_vector, SCENES)])
    np.testing.assert_array_equal(texts.vectors(ROWS), [*map(features.text_vector, CAPTIONS)])
    found = make_source("labels", "demo", "qe").sequences(ROWS)
    for sequence, scene in zip(found, SCENES, strict=True):
        np.testing.assert_array_equal(sequence, features.object_vectors(scene))
    pairs = [features.attended_vectors(s, c) for s, c in zip(SCENES, CAPTIONS, strict=True)]
    for side, kind in enumerate(("images", "texts")):
        source = make_source(kind, "demo_context", "icr")
        assert source.signature == "demo_context"
        np.testing.assert_array_equal(source.vectors(ROWS), [pair[side] for pair in pairs])
        assert source.find_entries(ROWS) == SCENES
    with says("rater icr: images=demo_context: it gives one vector each, and images are sequences"):
        make_source("images", "demo_context", "icr").sequences(ROWS)


def test_rows_of_other_images_lack_features():
    other = Rows(pd.DataFrame({"image_id": ["x"], "caption": ["a"]}))
    with pytest.raises(UnavailableError) as error:
        make_source("images", "demo", "icr").check(other)
    assert str(error.value) == (
        "rater icr: images=demo lacks features of these captions (the demo has no image 'x', and the "
        "features named demo exist only for its images); name a source that has them"
    )
    assert make_source("images", "demo", "icr").check(ROWS) is None
    with says("the items lack the column image_id, by which features are found"):
        features.image_ids(Rows(pd.DataFrame({"caption": ["a"]})))


def test_labels_of_a_file_are_sequences(tmp_path):
    path = tmp_path / "labels.npz"
    table = np.arange(8.0, dtype=np.float32).reshape(4, 2)
    ids = np.array(["further_3.png", SCENE.image_id])
    np.savez(path, image_id=ids, embedding=table, length=np.array([1, 3]))
    source = make_source("labels", str(path), "qe")
    first, second = source.sequences(ROWS)
    assert (first.tolist(), second.tolist()) == ([[2, 3], [4, 5], [6, 7]], [[0, 1]])
    assert first.dtype == np.float64
    assert source.find_entries(ROWS) == [slice(1, 4), slice(0, 1)]


@pytest.mark.parametrize(
    ("kind", "text", "choices"),
    [
        ("images", "clap(model=x)", "clip(model=…,checkpoint=…), demo"),
        ("images", "sentence(model=x)", "clip(model=…,checkpoint=…), demo"),
        ("labels", "clip(model=x)", "clip(model=…,checkpoint=…), demo"),
        ("images", "clip(size=x)", "clip(model=…,checkpoint=…), demo"),
        ("texts", "sentence(checkpoint=x)", "clip(model=…,checkpoint=…), demo, sentence(model=…)"),
    ],
)
def test_sources_that_are_none_name_those_of_the_kind(kind, text, choices):
    with says(f"source of {kind}", text, choices):
        make_source(kind, text, "icr")
    with pytest.raises(UnavailableError) as error:
        make_source("images", "no file", "icr")
    assert str(error.value) == (
        "rater icr: images=no file is not a file; name one of embeddings (.npz, .parquet, .safetensors), "
        "a model as clip(model=…), or demo"
    )


def test_vectors_of_another_width_or_not_finite_are_refused():
    source = make_source("images", "demo", "icr")
    table = np.ones((3, 2))
    assert check_vectors(table, 2, source) is table
    assert check_vectors(table, None, source) is table
    with says("rater icr: images=demo: 2 dimensions, and the rater was trained with 3"):
        check_vectors(table, 3, source)
    for row, value in ((0, math.nan), (2, math.inf)):
        bad = table.copy()
        bad[row, 1] = value
        with says(f"rater icr: images=demo: the vector of row {row} is not finite"):
            check_vectors(bad, 2, source)


# What ICR and QE read


def test_icr_reads_an_image_and_a_caption(monkeypatch):
    icr = make_recipe("icr", {"images": "demo", "texts": "demo_context", "scale": [1, 5]})
    assert icr.rating_scale == (1, 5)
    assert icr.signature == "demo|demo_context"
    images, texts = icr.load_inputs(ROWS, (None, DEMO_WIDTH))
    np.testing.assert_array_equal(images[0], features.image_vector(SCENE))
    np.testing.assert_array_equal(texts[0], features.attended_vectors(SCENE, CAPTIONS[0])[1])
    assert icr.compute_widths((images, texts[:, :3])) == (DEMO_WIDTH, 3)
    with says("rater icr: texts=demo_context: 16 dimensions, and the rater was trained with 4"):
        icr.load_inputs(ROWS, (DEMO_WIDTH, 4))
    assert icr.check_features(ROWS) is None
    with pytest.raises(UnavailableError):
        icr.check_features(Rows(pd.DataFrame({"image_id": ["x"], "caption": ["a"]})))
    # Predictions are on the scale: from 1 to 5, or 0 to 1 by default.
    monkeypatch.setattr(NetworkModel, "estimate", lambda self, inputs: np.array([0, 0.25]))
    assert NetworkModel(icr, None, (16, 16)).predict(ROWS).tolist() == [1, 2]
    plain = make_recipe("qe", {"images": "demo", "texts": "demo"})
    assert NetworkModel(plain, None, (16, 16, 0, 0)).predict(ROWS).tolist() == [0, 0.25]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("icr", {"scale": [1]}, "rater.scale is [1.0]; the lowest and the highest rating"),
        ("icr", {"scale": [1, 1]}, "rater.scale is [1.0, 1.0]"),
        ("icr", {"scale": [1, 2, 3]}, "rater.scale is [1.0, 2.0, 3.0]"),
        ("icr", {"scale": [0, math.inf]}, "rater.scale is [0.0, inf]"),
        ("icr", {"hidden": [4, 0]}, "rater.hidden is 0; 1 or more is expected"),
        ("icr", {"hidden": []}, "rater.hidden is empty; 1 or more is expected"),
        ("icr", {"decay_every": 0}, "rater.decay_every is 0; 1 or more is expected"),
        ("icr", {"learning_rate": 0}, "rater.learning_rate is 0; more than 0 is expected"),
        ("icr", {"dropout": 1}, "rater.dropout is 1; 0 or more and less than 1 is expected"),
        ("icr", {"dropout": -0.1}, "rater.dropout is -0.1; 0 or more and less than 1"),
        ("qe", {"patience": 0}, "rater.patience is 0; 1 or more is expected"),
        ("qe", {"epochs": -1}, "rater.epochs is -1; 0 or more is expected"),
        ("qe", {"n_labels": [3, -1]}, "rater.n_labels is -1; 0 or more is expected"),
        ("qe", {"learning_rates": [0]}, "rater.learning_rates is 0; more than 0 is expected"),
        ("qe", {"epochs": 0}, "rater.epochs=0 is the pretrained network itself; name what it is"),
    ],
)
def test_options_out_of_range_are_refused(name, options, message):
    with says(message):
        make_recipe(name, {"images": "demo", "texts": "demo", **options})


def test_options_at_the_ends_of_their_ranges_are_taken():
    plain = {"images": "demo", "texts": "demo"}
    one = dict.fromkeys(("batch_size", "epochs", "decay_every"), 1)
    assert make_recipe("icr", {**plain, **one, "hidden": [1], "dropout": 0}).hidden == (1,)
    qe = make_recipe(
        "qe", {**plain, "epochs": 0, "pretrain": "demo", "n_labels": [0], "patience": 1}
    )
    assert (qe.epochs, qe.n_labels) == (0, (0,))


def test_qe_reads_labels_padded_with_zeros(tmp_path):
    qe = make_recipe("qe", {"images": "demo", "texts": "demo", "labels": "demo"})
    assert qe.signature == "demo|demo|demo"
    objects = [features.object_vectors(scene) for scene in SCENES]
    most = max(map(len, objects))
    for n_labels in (1, most, most + 1):
        images, texts, labels, mask = qe.load_inputs(ROWS, (None, None, None, n_labels))
        np.testing.assert_array_equal(texts[1], features.text_vector("nothing"))
        assert labels.shape == (2, n_labels, DEMO_WIDTH)
        for found, is_label, vectors in zip(labels, mask, objects, strict=True):
            n = min(len(vectors), n_labels)
            np.testing.assert_array_equal(found[:n], vectors[:n])
            assert not found[n:].any()
            assert is_label.tolist() == [1] * n + [0] * (n_labels - n)
        assert qe.compute_widths((images, texts, labels, mask)) == (16, 16, 16, n_labels)
    for chosen, n_labels in (
        (qe, 0),
        (qe, None),
        (make_recipe("qe", {"images": "demo", "texts": "demo"}), 3),
    ):
        _, _, labels, mask = chosen.load_inputs(ROWS, (None, None, None, n_labels))
        assert (labels.shape, mask.shape) == ((2, 0, 0), (2, 0))
    with says("rater qe: labels=demo: 16 dimensions, and the rater was trained with 5"):
        qe.load_inputs(ROWS, (None, None, 5, 2))


# Examples and cards


def make_examples(ratings):
    frame = pd.DataFrame(
        {"item_id": list("abcdefg")[: len(ratings)], "image_id": "1", "caption": "a"}
    )
    return Examples(Rows(frame), tuple(np.array(r, float) for r in ratings), np.empty((0, 2), int))


def test_rated_rows_are_selected_and_must_vary():
    examples = make_examples([[0.2], [], [0.4, 0.8]])
    rated = examples.select_rated()
    assert rated.rows.frame["item_id"].tolist() == ["a", "c"]
    assert rated.mean_ratings == pytest.approx([0.2, 0.6])
    assert examples.has_rating.tolist() == [True, False, True]
    equal = make_examples([[0.5], [0.4, 0.6]])
    assert len(equal.select_rated(must_vary=False)) == 2
    with says("all 2 captions to train on have the same rating; there is nothing to learn"):
        equal.select_rated()
    with says("no row with a rating is left to train on; choose other data or rows"):
        make_examples([[]]).select_rated()
    with says("no row with a rating is left to choose by"):
        make_examples([[]]).select_rated(must_vary=False)


def test_coefficients_with_ratings_by_hand():
    examples = make_examples([[0.1, 0.3], [0.2], [0.9]])
    # Means are 0.2, 0.2 and 0.9: ranks 1.5, 1.5, 3 against 1, 2, 3 give 1.5 / √(2 · 1.5).
    predictions = np.array([1.0, 2.0, 3.0])
    assert correlate_with_ratings(
        predictions, examples, "spearman", correlate_for_training
    ) == pytest.approx(1.5 / math.sqrt(3))
    # Four single ratings against 1, 1, 2, 3: of 0.1, 0.3, 0.2, 0.9 four pairs agree and 0.3–0.2 does not;
    # (4 - 1) · 2 / (4² · 2 / 3), 3 being the lesser number of distinct values.
    assert correlate_with_ratings(
        predictions, examples, "tau_c", correlate_for_training
    ) == pytest.approx(6 / (16 * 2 / 3))
    assert math.isnan(
        correlate_with_ratings(np.ones(3), examples, "spearman", correlate_for_training)
    )
    assert math.isnan(
        correlate_with_ratings(
            predictions, make_examples([[0.5]] * 3), "spearman", correlate_for_training
        )
    )


@pytest.mark.parametrize(
    ("metadata", "card"),
    [
        (None, {}),
        ({}, {}),
        ({"card": '{"a": "1"}'}, {"a": "1"}),
        ({"card": "{"}, {}),
        ({"card": "[1]"}, {}),
        ({"other": "1"}, {}),
    ],
)
def test_the_card_of_a_file(metadata, card):
    assert parse_card(metadata) == card


def test_a_model_of_images_names_the_row_without_one(monkeypatch):
    clip = SimpleNamespace(of=lambda *_: SimpleNamespace(signature="clip"))
    monkeypatch.setattr(features, "need_extra", lambda *_: None)
    monkeypatch.setattr(features, "resolve", lambda device: device)
    monkeypatch.setattr(features, "Clip", clip)
    rows = Rows(pd.DataFrame({"caption": ["a dog", "a cat"], "image": ["x.png", None]}))
    with says(
        "rater icr: images=clip() needs images, and row 1 has none; docs/neural.md says where"
    ):
        make_source("images", "clip()", "icr").vectors(rows)
