"""Cosines of sentence vectors, FENSE and ALOHa by hand, with a model whose features are worked out from words."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from captau.metrics.neural import aloha, sentence_cosine
from captau.metrics.neural.models import RANDOM
from captau.metrics.neural.sentence_cosine import SentenceCosine, sentence_embeddings
from captau.metrics.neural.text import TextModel
from captau.metrics.registry import metric
from captau.metrics.rows import Rows
from tests.conftest import says
from tests.metrics.neural.word_model import word_model

__all__ = ["word_model"]  # the fixture

HALF = math.sqrt(0.5)
#: The dog beside the cat: (2, 3) of length √13.
DOG, CAT = 2 / math.sqrt(13), 3 / math.sqrt(13)


def make(folder, **changes):
    return SentenceCosine(model=str(folder), device="cpu", **changes)


def score(folder, rows, **changes):
    rows = Rows.from_items([{"caption": c, "references": rs} for c, rs in rows])
    chosen = make(folder, **changes)
    return chosen.score(rows).tolist(), rows.remarks.get(chosen.spec, [])


def test_the_greatest_the_mean_and_the_centroid_of_the_references(word_model):
    rows = [("dog", ["dog cat", "cat"]), ("not", ["dog", "car"]), ("dog", ["dog"])]
    found, remarks = score(word_model, rows)
    assert found == pytest.approx([DOG, 0, 1], abs=1e-6)
    assert remarks == []
    found, _ = score(word_model, rows, references="mean")
    assert found == pytest.approx([DOG / 2, -0.5, 1], abs=1e-6)
    # Of (DOG, CAT) and (0, 1) the mean is (DOG, CAT + 1) / 2; of dog and car it is (½, 0, ½).
    found, _ = score(word_model, rows, references="centroid")
    expected = [DOG / math.hypot(DOG, CAT + 1), -HALF, 1]
    assert found == pytest.approx(expected, abs=1e-6)


LONG = "dog dog dog. cat cat. car car not not not"


def test_long_texts_are_cut_or_split_into_pieces(word_model):
    """Of the window's six tokens two are special: pieces are "dog dog dog. cat", and so on."""
    rows = [("cat", ["dog dog dog cat cat cat cat"]), ("dog", ["dog"])]
    cut = "1 text is longer than the model's context and was cut short"
    found, remarks = score(word_model, rows)
    assert found == pytest.approx([1 / math.sqrt(5), 1], abs=1e-6)  # three dogs (6) and a cat (3)
    assert remarks == [cut]
    # The pieces are (6, 3) / √45 and (0, 1); their mean direction, and the closest.
    x, y = 2 / math.sqrt(5), 1 / math.sqrt(5) + 1
    split = "1 text is longer than the model's context and was split into 2 pieces (long={})"
    found, remarks = score(word_model, rows, long="split_mean")
    assert found == pytest.approx([y / math.hypot(x, y), 1], abs=1e-6)
    assert remarks == [split.format("split_mean")]
    found, remarks = score(word_model, rows, long="split_max")
    assert found == pytest.approx([1, 1], abs=1e-6)
    assert remarks == [split.format("split_max")]


def test_the_closest_piece_counts_for_each_reference(word_model):
    """The candidate's pieces are dogs and cats; the references are near one each, and a third near none."""
    rows = [("dog dog dog dog cat cat", ["dog", "cat", "car", "not"])]
    found, _ = score(word_model, rows, long="split_max", references="mean")
    assert found == pytest.approx([(1 + 1 + 0 + 0) / 4], abs=1e-6)
    found, _ = score(word_model, rows, long="truncate", references="mean")
    assert found == pytest.approx([(1 + 0 + 0 - 1) / 4], abs=1e-6)


def test_a_text_of_exactly_the_window_is_whole(word_model):
    for policy in ("truncate", "split_mean"):
        found, remarks = score(word_model, [("dog cat cat dog", ["cat"])], long=policy)
        assert found == pytest.approx([CAT], abs=1e-6)
        assert remarks == []


def test_many_rows_are_read_part_by_part(word_model, monkeypatch):
    monkeypatch.setattr(sentence_cosine, "CHUNK", 2)
    rows = [
        ("dog", ["dog"]),
        ("dog", ["cat"]),
        ("not", ["dog"]),
        ("cat", ["cat"]),
        ("car", ["not"]),
    ]
    assert score(word_model, rows)[0] == pytest.approx([1, 0, -1, 1, 0], abs=1e-6)


def test_longer_texts_are_encoded_first_in_batches_and_equal_ones_once(word_model):
    rows = [("dog", ["dog cat car", "dog cat"]), ("dog cat", ["cat", "dog"])]
    score(word_model, rows, batch_size=3)
    assert TextModel.asked == [["dog cat car", "dog cat", "dog"], ["cat"]]
    score(word_model, rows)
    assert len(TextModel.asked) == 2


def test_features_that_are_not_finite_name_the_text(word_model, monkeypatch):
    monkeypatch.setattr(
        sentence_cosine.SentenceEncoder,
        "__call__",
        lambda self, texts: [np.array([math.nan if t == "cat" else 1.0, 3]) for t in texts],
    )
    with says(
        f"metric sentence_cosine(model={word_model},device=cpu): the model in {word_model} gives "
        f"numbers that are not finite for 'cat'"
    ):
        score(word_model, [("dog", ["cat"])])


def test_random_weights_are_noted_and_a_centroid_has_no_closest_piece(word_model):
    (word_model / RANDOM).write_text("random\n")
    assert score(word_model, [("dog", ["dog"])]) == ([pytest.approx(1)], ["random"])
    with says("a centroid is a mean; take long=split_mean, or references=max"):
        score(word_model, [("dog", ["dog"])], long="split_max", references="centroid")
    assert score(word_model, [("dog", ["dog"])], long="split_max")[0] == [pytest.approx(1)]


def test_sentence_embeddings_are_of_length_1(word_model):
    model = TextModel("m", word_model, "cpu", 8)
    found = sentence_embeddings(model, ["dog cat", "not", "dog dog dog dog cat"], [].append)
    np.testing.assert_allclose(found, [[DOG, CAT, 0], [-1, 0, 0], [1, 0, 0]], atol=1e-6)


@pytest.mark.parametrize(
    ("files", "pooling", "expected"),
    [
        ({}, "auto", ("mean", 64)),
        ({}, "cls", ("cls", 64)),
        ({"sentence_bert_config.json": {"max_seq_length": 32}}, "auto", ("mean", 32)),
        ({"sentence_bert_config.json": {"max_seq_length": 128}}, "mean", ("mean", 64)),
        ({"sentence_bert_config.json": {"max_seq_length": None}}, "auto", ("mean", 64)),
        ({"1_Pooling/config.json": {"pooling_mode_cls_token": True}}, "auto", ("cls", 64)),
        (
            {"1_Pooling/config.json": {"pooling_mode_cls_token": True, "word": True}},
            "auto",
            ("cls", 64),
        ),
        (
            {
                "1_Pooling/config.json": {
                    "pooling_mode_mean_tokens": True,
                    "pooling_mode_cls_token": False,
                    "include_prompt": True,
                }
            },
            "auto",
            ("mean", 64),
        ),
        ({"1_Pooling/config.json": {"pooling_mode": "cls"}}, "auto", ("cls", 64)),
        (
            {"modules.json": [{"type": "a.Transformer"}, {"type": "b.Normalize"}]},
            "auto",
            ("mean", 64),
        ),
        ({"modules.json": [{"type": "a.Dense"}]}, "mean", "modules.json: a module Dense, which"),
        ({"modules.json": [{"type": "Pooling"}, {}]}, "mean", "modules.json: a module , which"),
        (
            {
                "1_Pooling/config.json": {
                    "pooling_mode_max_tokens": True,
                    "pooling_mode_cls_token": True,
                }
            },
            "auto",
            "1_Pooling/config.json: pooling cls, max; mean or cls is expected, or say pooling=mean",
        ),
        (
            {"1_Pooling/config.json": {"pooling_mode_mean_tokens": False}},
            "auto",
            "1_Pooling/config.json: pooling none; mean or cls is expected",
        ),
        ({"1_Pooling/config.json": {"pooling_mode_max_tokens": True}}, "mean", ("mean", 64)),
    ],
)
def test_pooling_and_the_window_are_what_the_folder_says(files, pooling, expected, tmp_path):
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps(content))
    if isinstance(expected, tuple):
        assert sentence_cosine.read_settings(tmp_path, 64, pooling) == expected
    else:
        with says(f"{tmp_path}/{expected}"):
            sentence_cosine.read_settings(tmp_path, 64, pooling)


# What a model's folder says


@pytest.mark.parametrize(
    ("config", "tokenizer", "limit"),
    [
        ({"max_position_embeddings": 40}, None, 40),
        ({}, None, 512),
        ({"max_position_embeddings": 514, "model_type": "xlm-roberta"}, None, 512),
        ({"max_position_embeddings": 40}, {"model_max_length": 20}, 20),
        ({"max_position_embeddings": 40}, {"model_max_length": 20.0}, 20),
        ({"max_position_embeddings": 40}, {"model_max_length": 1}, 1),
        ({"max_position_embeddings": 40}, {"model_max_length": 0}, 40),
        ({"max_position_embeddings": 40}, {"model_max_length": 1e6}, 40),
        ({"max_position_embeddings": 40}, {"model_max_length": 1e30}, 40),
        ({"max_position_embeddings": 40}, {}, 40),
    ],
)
def test_the_window_is_the_tokenisers_or_the_models(config, tokenizer, limit, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"num_hidden_layers": "7", **config}))
    if tokenizer is not None:
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    model = TextModel("m", tmp_path, "cpu", 8)
    assert model.limit == limit
    assert model.layers == 7


def test_a_signature_has_weights_device_and_libraries(word_model, monkeypatch):
    from captau.metrics.neural import models, text

    monkeypatch.setattr(text, "version_of", lambda name: f"version of {name}")
    weights = models.transformers_hash(word_model)
    assert TextModel("m", word_model, "cuda", 8).signature == (
        f"{weights}|fp32:cuda|torch:version of torch|transformers:version of transformers|"
        f"tokenizers:version of tokenizers"
    )
    chosen = make(word_model)
    assert chosen.programs == (f"weights:{weights}", "on:cpu")
    assert chosen.find_model() == TextModel(chosen.spec, word_model, "cpu", 64)


# FENSE

ROWS = [
    {"caption": "dog", "references": ["dog cat", "cat"]},
    {"caption": "cat", "references": ["cat"]},
    {"caption": "car", "references": ["car"]},
]


@pytest.mark.parametrize(
    ("options", "factors"),
    [
        ("", [1, 0.1, 1]),
        (",threshold=0.3,penalty=0.5", [1, 0.5, 0.5]),
        (",threshold=0.4,penalty=0.5", [1, 0.5, 1]),
        (",penalty=0", [1, 1, 1]),
    ],
)
def test_an_error_costs_its_share_of_the_mean_cosine(options, factors, word_model, tmp_path):
    path = tmp_path / "errors.csv"
    path.write_text("caption,error\ndog,0.1\ncat,0.95\ncar,0.4\nanother,1\n")
    found = metric(f"fense(model={word_model},device=cpu,errors={path}{options})").score(ROWS)
    np.testing.assert_allclose(found, np.array([DOG / 2, 1, 1]) * factors, atol=1e-6)


def test_a_missing_table_of_errors_is_said(word_model):
    with says(
        f"metric fense(model={word_model},device=cpu) needs the probabilities of errors in captions; "
        f"name a table of caption and error with errors=FILE (docs/metrics_from_files.md)"
    ):
        metric(f"fense(model={word_model},device=cpu)").score(ROWS)


# ALOHa


@pytest.fixture
def tagger(monkeypatch):
    """Words of three letters are nouns, and "dogs" are."""

    def tag(text):
        words = text.replace(",", " , ").split()
        return [(w, "NNS" if w == "Dogs" else "NN" if len(w) == 3 else "DT") for w in words]

    monkeypatch.setattr(aloha, "tag_words", tag)


@pytest.mark.parametrize(
    ("text", "nouns"),
    [
        ("", {}),
        ("a", {}),
        ("dog", {"dog": [0]}),
        ("a cat, a dog  and cat", {"cat": [1, 5], "dog": [3], "and": [4]}),
        ("Dogs,cat is\tcar", {"dogs": [0], "cat": [0], "car": [2]}),
    ],
)
def test_nouns_have_their_places_among_the_words_that_blanks_part(text, nouns, tagger):
    assert aloha.find_nouns(text) == nouns


def test_the_least_supported_noun_and_its_blame(word_model, tagger):
    rows = [
        # cat has cat (1); dog has the other noun, "dat" at (1, 1, 1): 1 / √3.
        {"caption": "a cat, a dog", "references": ["a dat", "cat"]},
        # not and dog: dog has dog, not has nothing left.
        {"caption": "dog not dog", "references": ["dog"]},
        {"caption": "running", "references": ["dog"]},
        {"caption": "not", "references": ["dog"]},
        {"caption": "dog", "references": ["fast"]},
    ]
    third = 1 / math.sqrt(3)
    chosen = metric(f"aloha(model={word_model},device=cpu)")
    assert chosen.score(rows) == pytest.approx([third, 0, 1, -1, 0], abs=1e-6)
    mean = metric(f"aloha(model={word_model},device=cpu,aggregate=mean)")
    assert mean.score(rows) == pytest.approx([(1 + third) / 2, 0.5, 1, -1, 0], abs=1e-6)
    blame = [b.tolist() for b in chosen.blame(rows)]
    assert blame == [
        [0, 0, 0, pytest.approx(1 - third, abs=1e-6)],
        [0, 1, 0],
        [0],
        [1],
        [1],
    ]
    assert metric(f"aloha(model={word_model},device=cpu)").score(
        [{"caption": "running", "references": ["fast"]}]
    ).tolist() == [1]


def test_assignment_takes_the_greatest_sum_and_rounds():
    cosines = np.array([[0.9, 0.6], [0.5, 1 - 1e-12], [0.3, 0.2]])
    assert aloha.assign(["dog", "cat", "car"], cosines) == {"dog": 0.9, "cat": 1.0, "car": 0.0}
    assert aloha.assign(["dog"], np.zeros((1, 0))) == {"dog": 0.0}
    assert aloha.assign(["dog"], np.array([[0.1234567894, 0.1]])) == {"dog": 0.123456789}
