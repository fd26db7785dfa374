"""CLIP models of open_clip: found, guarded, loaded, and their features kept in the store.

clip = Clip.of("clipscore", "ViT-B-32-quickgelu", None, "auto", "fp32", 64)
texts = clip.texts(["a dog runs"], remark)   # rows: embedding, and 1 where the text was cut short
images = clip.images(["dog.jpg"], remark)    # rows: embedding

Image files are read and decoded by threads, a few batches ahead of the model. The rule is PIL's and that of the CLIPScore
authors' code: a file is opened with `Image.open`, and the model's own preprocessing does the rest (resize, crop,
`convert("RGB")`, in its order). It follows that of an animated image the first frame counts, transparency is dropped and not
blended, EXIF rotation is not applied, CMYK is converted by PIL's plain formula, and 16-bit grey is clipped to 8 bits.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from ...datasets.cores import count_cores
from ...datasets.download.permission import may_download
from ...datasets.errors import InputError, unknown
from ..base import UnavailableError, version_of
from ..progress import progress_counter
from .models import (
    batches,
    check_file,
    check_shapes,
    hash_of,
    load_checkpoint,
    local,
    random_note,
    require,
    short_reason,
    weights_root,
)
from .store import Array, Features, FeatureStore, key_of

Result = TypeVar("Result")

#: Decoding is done while the model computes; PIL lets other threads run meanwhile.
WORKERS = min(8, count_cores())
#: How many images are decoded ahead of the model, at most.
AHEAD = 128


def compute_image_keys(paths: Sequence[str]) -> list[bytes]:
    """Return the store's key of each image: that of the file's content.

    Raises:
        InputError: where a file cannot be read.
    """
    return list(_work_ahead(_image_key, paths))


def decode_images(paths: Sequence[str], preprocess: Callable[[Any], Any]) -> Iterator[Any]:
    """Return each image as the model's input, in order; at most `AHEAD` of them wait.

    Raises:
        InputError: where a file cannot be decoded, with its path.
    """
    return _work_ahead(lambda path: _decode_image(path, preprocess), paths)


def _image_key(path: str) -> bytes:
    try:
        return key_of(Path(path).read_bytes())
    except OSError as error:
        raise InputError(f"{path}: the image cannot be read ({error.strerror})") from error


def _decode_image(path: str, preprocess: Callable[[Any], Any]) -> Any:
    from PIL import Image

    try:
        with Image.open(path) as image:
            return preprocess(image)
    # OSError, SyntaxError, ValueError, struct.error and others, by format and fault.
    except Exception as error:
        raise InputError(f"{path}: not an image that PIL can read ({error})") from error


def _work_ahead(work: Callable[[str], Result], paths: Sequence[str]) -> Iterator[Result]:
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(WORKERS) as pool:
        try:
            for path in paths:
                waiting.append(pool.submit(work, path))
                if len(waiting) > AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


Precision = Literal["auto", "fp32", "fp16"]
Remark = Callable[[str], None]

CONFIG = "open_clip_config.json"
#: The weights that the field means by a model's name, and where others come from.
USUAL = {"ViT-B-32-quickgelu": "openai"}
SOURCES = {"clip_ViT-B-32.pth": "its authors offer it at github.com/aimagelab/pacscore"}

#: Weights in a model's folder, the first that is there.
NAMES = ("open_clip_model.safetensors", "open_clip_pytorch_model.bin", "open_clip_pytorch_model.pt")


@dataclass(frozen=True)
class Clip:
    """A CLIP model.

    Attributes:
        metric: whose name messages bear.
        model: open_clip's name of an architecture.
        folder: a folder with `open_clip_config.json`, which then says what the architecture is.
        checkpoint: the file of weights.
        device: as `device.resolve` gives it.
        precision: fp32 or fp16.
        batch_size: texts or images at a time.
    """

    metric: str
    model: str
    folder: Path | None
    checkpoint: Path
    device: str
    precision: str
    batch_size: int

    @classmethod
    def of(
        cls,
        metric: str,
        model: str,
        checkpoint: str | None,
        device: str,
        precision: str,
        batch_size: int,
    ) -> Clip:
        """Find a model on this machine.

        Args:
            metric: whose name messages bear.
            model: a folder with `open_clip_config.json`, or the name of such a folder in the weights
                folder, or an architecture of open_clip.
            checkpoint: a file, or the name of one in the weights folder, or a tag of open_clip such as
                `openai`; None is the model's own: the weights in its folder, or a file of its name.
            device, precision, batch_size: see `Clip`.

        Raises:
            UnavailableError: where the weights are not here.
            InputError: where the folder holds no model, or the weights are not for the architecture.
        """
        folder = local(model)
        if folder is not None and not (folder / CONFIG).is_file():
            raise InputError(f"{folder}: no {CONFIG}; a folder of an open_clip model is expected")
        path = _checkpoint(metric, model, folder, checkpoint)
        check_file(path)
        _check_activation(metric, model, folder, path, checkpoint)
        return cls(metric, model, folder, path, device, precision, batch_size)

    @property
    def signature(self) -> str:
        """The signature of its features: weights, architecture, precision, device and libraries."""
        config = f"arch:{self.model}"
        if self.folder:
            config = json.dumps(read_model_config(self.folder), sort_keys=True)
        versions = [f"{d}:{version_of(d)}" for d in ("torch", "open_clip_torch")]

        return "|".join([self.weights, config, f"{self.precision}:{self.device}", *versions])

    @property
    def weights(self) -> str:
        """The hash of the weights."""
        return hash_of([self.checkpoint])

    @property
    def note(self) -> str:
        """The note in the folder of the weights; empty as a rule."""
        return random_note(self.checkpoint.parent)

    def texts(self, texts: Sequence[str], remark: Remark) -> Features:
        """Embeddings of texts; behind each a 1 where it was longer than the model's context, else 0."""

        def encode(batch: Sequence[str]) -> Sequence[Array]:
            import torch

            loaded = self._loaded()
            tokens = loaded.tokenizer(list(batch))

            with torch.inference_mode():
                features = _array(loaded.model.encode_text(tokens.to(self.device)))

            cut = loaded.cut_short(list(batch), tokens)
            return list(np.column_stack([features, cut]).astype(features.dtype))

        def run(todo: list[int]) -> Iterator[tuple[Sequence[int], Sequence[Array]]]:
            with progress_counter(f"{self.metric}: texts", len(todo)) as advance:
                pieces = batches(
                    todo, self.batch_size, lambda b: encode([texts[i] for i in b]), remark
                )
                for positions, features in pieces:
                    self._check_finite(features, [f"'{texts[i][:80]}'" for i in positions])
                    advance(len(positions))
                    yield positions, features

        store = FeatureStore.of(f"clip text|{self.signature}")
        return store.get([key_of(text) for text in texts], run)

    def fits(self, text: str) -> bool:
        """Return whether the model reads a text whole."""
        loaded = self._loaded()
        return not loaded.cut_short([text], loaded.tokenizer([text]))[0]

    def images(self, paths: Sequence[str], remark: Remark) -> Features:
        """Embeddings of image files; equal files are encoded once."""

        def encode(batch: Sequence[tuple[int, Any]]) -> Sequence[Array]:
            import torch

            stacked = torch.stack([picture for _, picture in batch]).to(self.device)
            if self.precision == "fp16":
                stacked = stacked.half()

            with torch.inference_mode():
                return list(_array(self._loaded().model.encode_image(stacked)))

        def run(todo: list[int]) -> Iterator[tuple[Sequence[int], Sequence[Array]]]:
            pictures = decode_images([paths[i] for i in todo], self._loaded().preprocess)
            with progress_counter(f"{self.metric}: images", len(todo)) as advance:
                for pieces, features in batches(
                    zip(todo, pictures, strict=True), self.batch_size, encode, remark
                ):
                    positions = [i for i, _ in pieces]
                    self._check_finite(features, [paths[i] for i in positions])
                    advance(len(pieces))
                    yield positions, features

        versions = "|".join(f"{d}:{version_of(d)}" for d in ("pillow", "torchvision"))
        store = FeatureStore.of(f"clip image|{self.signature}|{versions}")
        return store.get(compute_image_keys(paths), run)

    def _check_finite(self, features: Sequence[Array], names: Sequence[str]) -> None:
        for feature, name in zip(features, names, strict=True):
            if np.isfinite(feature).all():
                continue

            remedy = "; try precision=fp32" if self.precision == "fp16" else ""
            raise InputError(
                f"metric {self.metric}: {self.checkpoint} gives numbers that are not finite for "
                f"{name}{remedy}"
            )

    def _loaded(self) -> LoadedClip:
        stat = self.checkpoint.stat()
        # Kin metrics share the model.
        return _load(replace(self, metric="", batch_size=1), stat.st_size, stat.st_mtime_ns)


class LoadedClip:
    """A model in memory, with its tokeniser and image preprocessing."""

    def __init__(self, clip: Clip) -> None:
        import open_clip

        known_models = open_clip.list_models()
        if clip.folder is None and clip.model not in known_models:
            raise unknown("open_clip model", clip.model, known_models)

        name = clip.model if clip.folder is None else f"local-dir:{clip.folder}"
        try:
            # It warns that there are no weights yet.
            with _quiet():
                model = open_clip.create_model(
                    name, load_weights=False, precision="fp32", pretrained_text=False
                )
        # KeyError, TypeError or ValueError, by what the config lacks.
        except Exception as error:
            reason = short_reason(error)
            raise InputError(f"{name}: open_clip cannot build the model ({reason})") from error

        _fill(model, clip.checkpoint)

        if clip.precision == "fp16":
            from open_clip.model import convert_weights_to_lp

            convert_weights_to_lp(model)

        self.model: Any = model.to(clip.device).eval()
        self.tokenizer: Any = open_clip.get_tokenizer(name)

        config = open_clip.get_model_preprocess_cfg(model)
        expected_preprocessing = open_clip.transform.PreprocessCfg(**config)
        self.preprocess: Any = open_clip.transform.image_transform_v2(
            expected_preprocessing, is_train=False
        )

    def cut_short(self, texts: list[str], tokens: Any) -> Array:
        """1 where a text has more tokens than the context holds, else 0; shape (n,)."""
        last_tokens = tokens[:, -1]
        is_full = (last_tokens != last_tokens.new_tensor(self._padding)).cpu().numpy()
        limit = tokens.shape[1]

        cut = np.zeros(len(texts))
        for i in np.flatnonzero(is_full):
            # A text may fill the context and be whole.
            cut[i] = self._length(texts[i]) > limit

        return cut

    @property
    def _padding(self) -> int:
        inner = getattr(self.tokenizer, "tokenizer", None)
        return int(getattr(inner, "pad_token_id", None) or 0)

    def _length(self, text: str) -> int:
        """Tokens of a text, the special ones included."""
        if hasattr(self.tokenizer, "encode"):
            return len(self.tokenizer.encode(text)) + 2
        return len(self.tokenizer.tokenizer(text)["input_ids"])


@contextmanager
def _quiet() -> Generator[None]:
    """Without what a library says by `logging.warning`, which would also set up a handler."""
    handler = logging.NullHandler()
    logging.getLogger().addHandler(handler)
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
        logging.getLogger().removeHandler(handler)


def _fill(model: Any, checkpoint: Path) -> None:
    """Load a checkpoint into a model that it fits whole.

    Raises:
        InputError: where it does not, with the list of what is missing, left over or of other shape.
    """
    table = load_checkpoint(checkpoint)
    # What OpenAI's archives hold beside the weights.
    for key in ("input_resolution", "context_length", "vocab_size"):
        table.pop(key, None)
    check_shapes(checkpoint, model.state_dict(), table)
    model.load_state_dict(table)


@lru_cache(maxsize=2)
def _load(clip: Clip, _size: int, _modified: int) -> LoadedClip:
    return LoadedClip(clip)


def _array(tensor: Any) -> Array:
    return tensor.detach().cpu().numpy()


def read_model_config(folder: Path) -> dict[str, Any]:
    """Read `open_clip_config.json` of a model's folder.

    Raises:
        InputError: where it is not JSON, or describes no model.
    """
    path = folder / CONFIG
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        # Looked up for the error that a file without them raises.
        _ = config["model_cfg"]["text_cfg"], config["model_cfg"]["vision_cfg"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: no description of an open_clip model ({error!r})") from error

    return config


def _checkpoint(metric: str, model: str, folder: Path | None, checkpoint: str | None) -> Path:
    """Return the file of weights.

    Raises:
        UnavailableError: where there is none.
    """
    if checkpoint is not None:
        path = local(checkpoint)
        if path is not None and path.is_file():
            return path

        if folder is None and may_download() and (path := download_weights(model, checkpoint)):
            return path
        source = SOURCES.get(checkpoint, "a tag of open_clip is fetched with weights.download=true")
        raise UnavailableError(
            f"metric {metric}",
            f"needs the checkpoint '{checkpoint}', which is neither a file nor in {weights_root()}",
            source,
        )

    if folder is not None:
        files = [folder / name for name in NAMES]
        first_there = next((file for file in files if file.is_file()), None)
        return require(
            first_there,
            f"metric {metric}",
            f"needs weights, and {folder} has none",
            f"{' or '.join(NAMES)} is expected in it",
        )

    endings = (".safetensors", ".pt", ".bin")
    files = [local(f"{model}{ending}") for ending in endings]
    path = next(filter(None, files), None)
    if path is None and may_download() and model in USUAL:
        path = download_weights(model, USUAL[model])

    repository = "timm/vit_base_patch32_clip_224.openai"
    hint = f" (hf download {repository} --local-dir …)" if model == "ViT-B-32-quickgelu" else ""
    download = ", or allow the download with weights.download=true" if model in USUAL else ""
    return require(
        path,
        f"metric {metric}",
        f"needs the weights of {model}, which are not here",
        f"put an open_clip model's folder at {weights_root() / model}{hint}, or name a file with "
        f"checkpoint=FILE{download}",
    )


def download_weights(model: str, tag: str) -> Path | None:
    """Return the weights that open_clip knows by a tag, from the hub; None where it knows none."""
    import open_clip

    pretrained = open_clip.get_pretrained_cfg(model, tag)
    if not pretrained:
        return None
    try:
        return Path(open_clip.download_pretrained(pretrained))
    # Those of requests and huggingface_hub alike.
    except Exception as error:
        raise InputError(
            f"the weights '{tag}' of {model} could not be fetched ({short_reason(error)})"
        ) from error


def _check_activation(
    metric: str, model: str, folder: Path | None, path: Path, tag: str | None
) -> None:
    """OpenAI's weights were trained with QuickGELU; without it all features are a little wrong.

    They are known by the tag, or by `openai` in the file's name or its folder's (as in the hub's
    `vit_base_patch32_clip_224.openai`).

    Raises:
        InputError: where the architecture has another activation, with the name of the right one.
    """
    # In the cache of the hub a folder further up has the repository's name: models--OWNER--NAME.
    repositories = [parent.name for parent in path.parents if "--" in parent.name]
    names = [Path(tag or "").name, path.name, path.parent.name, *repositories]
    of_openai = any("openai" in name.lower() for name in names)

    if folder is not None:
        quick = bool(read_model_config(folder)["model_cfg"].get("quick_gelu"))
        if "quickgelu" in model.lower() and not quick:
            raise InputError(f"{folder}/{CONFIG}: quick_gelu is not true, but the model is {model}")
        remedy = f'"quick_gelu": true in {folder}/{CONFIG}'
    else:
        # Architectures of that name have it, and so do a few whose description says so.
        quick = "quickgelu" in model.lower() or bool(_builtin(model).get("quick_gelu"))
        remedy = f"model={model}-quickgelu"

    if of_openai and not quick:
        raise InputError(
            f"metric {metric}: {path.name} is OpenAI's, trained with QuickGELU, and {model} has "
            f"another activation; use {remedy}"
        )


def _builtin(model: str) -> dict[str, Any]:
    import open_clip

    return open_clip.get_model_config(model) or {}


def precision_on(precision: Precision, device: str, half: bool) -> str:
    """Resolve `auto`: fp16 on CUDA where the authors computed so, else fp32."""
    if precision != "auto":
        return precision
    return "fp16" if half and device == "cuda" else "fp32"
