"""A text model that no library reads: its features are worked out from a text's words."""

from __future__ import annotations

import json

import numpy as np
import pytest

from captau.metrics.neural import sentence_cosine
from captau.metrics.neural.text import TextEncoder

#: The axes of the words; any other word is at (1, 1, 1).
AXES = {"dog": (2.0, 0, 0), "cat": (0, 3.0, 0), "car": (0, 0, 1.0), "not": (-1.0, 0, 0)}


class Tokenizer:
    """A token a word, and two around them."""

    def __call__(self, text, *, verbose):
        assert verbose is False
        return {"input_ids": [0] * (len(text.split()) + 2)}


def encode(self, texts):
    """The mean of the words' axes as far as the window reaches, and the number of tokens."""
    self.model.asked.append(list(texts))
    features = []
    for text in texts:
        words = text.split()[: self.limit - 2]
        vectors = [AXES.get(word, (1.0, 1.0, 1.0)) for word in words] or [(1.0, 1.0, 1.0)]
        features.append(np.array([*np.mean(vectors, axis=0), len(words) + 2], dtype=np.float32))
    return features


@pytest.fixture
def word_model(tmp_path, monkeypatch, all_extras):
    """The folder of the model, whose window is 6 tokens: four words."""
    folder = tmp_path / "word model"
    folder.mkdir()
    config = {"num_hidden_layers": 4, "max_position_embeddings": 6, "model_type": "bert"}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(b"weights")
    monkeypatch.setenv("CAPTAU_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(TextEncoder, "_tokenizer", Tokenizer())
    monkeypatch.setattr(sentence_cosine.SentenceEncoder, "__call__", encode)
    monkeypatch.setattr(sentence_cosine.TextModel, "asked", [], raising=False)
    return folder
