"""Transformers text models, their features, and directions of texts also where they are longer than the model's window.

Models are loaded from a folder, guarded, and fed in batches; their features are kept. A text that is longer than the window
is cut at its end (`truncate`, as the authors' code does), or split at the ends of its sentences into pieces that fit.
`split_mean` then takes the direction of the mean of the pieces' directions, `split_max` the closest piece: the greatest cosine
over all pairs of pieces. A copy of a text has a cosine of 1 with it under every policy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ...datasets.errors import InputError
from ...datasets.reading.json_files import read_json
from ..base import Floats, Metric, version_of
from ..progress import progress_counter
from ..rows import Rows
from .models import (
    MODEL_LOCK,
    batches,
    check_keys,
    model_programs,
    need_extra,
    random_note,
    resolve,
    short_reason,
    transformers_folder,
    transformers_hash,
)
from .store import Array, Features, FeatureStore, key_of

#: Parameters that a masked language model has no use for, and a checkpoint of one lacks.
_SPARE = ("pooler.",)


@dataclass(frozen=True)
class TextModel:
    """A transformers model in a folder.

    Attributes:
        metric: whose name messages bear.
        folder: with `config.json`, the tokeniser's files and the weights.
        device: as `device.resolve` gives it.
        batch_size: texts at a time.
    """

    metric: str
    folder: Path
    device: str
    batch_size: int

    @property
    def signature(self) -> str:
        """The signature of its features: weights and tokeniser, device, and libraries."""
        libraries = ("torch", "transformers", "tokenizers")
        versions = [f"{library}:{version_of(library)}" for library in libraries]
        return "|".join([transformers_hash(self.folder), f"fp32:{self.device}", *versions])

    @property
    def config(self) -> dict[str, Any]:
        return read_json(self.folder / "config.json")

    @property
    def layers(self) -> int:
        """The number of layers above its embeddings."""
        return int(self.config["num_hidden_layers"])

    @property
    def limit(self) -> int:
        """The most tokens that it reads of a text, special ones included."""
        path = self.folder / "tokenizer_config.json"
        length_limit = read_json(path).get("model_max_length") if path.is_file() else None
        # Tokenisers without a limit of their own have 1e30 here.
        if isinstance(length_limit, int | float) and 0 < length_limit < 1e6:
            return int(length_limit)

        positions = int(self.config.get("max_position_embeddings") or 512)
        # RoBERTa's kin count positions from the one after the padding's.
        if "roberta" in str(self.config.get("model_type", "")):
            positions -= 2
        return positions

    def features(
        self,
        texts: Sequence[str],
        feature_name: str,
        encode: Callable[[Sequence[str]], Sequence[Array]],
        remark: Callable[[str], None],
    ) -> Features:
        """Features of texts from the store; longest texts are encoded first, as bert-score does.

        Args:
            texts: any; equal ones are encoded once.
            feature_name: which features of the model, for the signature of the store.
            encode: a feature for each text of a batch.
            remark: told what belongs below the table.

        Raises:
            InputError: where a feature is not finite.
        """

        def run(todo: list[int]) -> Iterator[tuple[Sequence[int], Sequence[Array]]]:
            order = sorted(todo, key=lambda i: len(texts[i].split(" ")), reverse=True)

            def run_batch(batch: Sequence[int]) -> Sequence[Array]:
                return encode([texts[i] for i in batch])

            with progress_counter(f"{self.metric}: texts", len(order)) as advance:
                for positions, features in batches(order, self.batch_size, run_batch, remark):
                    for i, feature in zip(positions, features, strict=True):
                        if not np.isfinite(feature).all():
                            raise InputError(
                                f"metric {self.metric}: the model in {self.folder} gives numbers that are "
                                f"not finite for '{texts[i][:80]}'"
                            )

                    advance(len(positions))
                    yield positions, features

        store = FeatureStore.of(f"{feature_name}|{self.signature}")
        return store.get([key_of(text) for text in texts], run)

    def of_rows(
        self, rows: Rows, feature_name: str, encode: Callable[[Sequence[str]], Sequence[Array]]
    ) -> tuple[dict[str, int], Features]:
        """Features of all candidates and references, as `features` gives them.

        Returns:
            the place of each text among them, and the features.
        """
        all_texts = chain(rows.captions, chain.from_iterable(rows.references))
        texts = list(dict.fromkeys(all_texts))
        features = self.features(
            texts, feature_name, encode, lambda text: rows.add_remark(self.metric, text)
        )
        return {text: i for i, text in enumerate(texts)}, features


@dataclass(frozen=True)
class TextModelMetric(Metric):
    """A metric that runs a transformers text model, which its fields `model`, `batch_size` and `device` name."""

    needs: ClassVar[frozenset[str]] = frozenset({"references"})
    lock: ClassVar[AbstractContextManager[Any]] = MODEL_LOCK
    #: What it imports.
    modules: ClassVar[tuple[str, ...]] = ("torch", "transformers")

    def check_rows(self, rows: Rows) -> None:
        super().check_rows(rows)
        need_extra(self.spec, self.modules)
        transformers_folder(self.spec, self.parameters["model"])

    @property
    def programs(self) -> tuple[str, ...]:
        parameters = self.parameters
        of_model = model_programs(self.spec, parameters["model"], parameters["device"])
        return (*super().programs, *of_model)

    def find_model(self) -> TextModel:
        """Find the model on this machine; see `transformers_folder` for what it raises."""
        parameters = self.parameters
        folder = transformers_folder(self.spec, parameters["model"])
        device = resolve(parameters["device"])
        return TextModel(self.spec, folder, device, parameters["batch_size"])

    def note_random_weights(self, rows: Rows, model: TextModel) -> None:
        """Add a remark where the model's weights are random."""
        if note := random_note(model.folder):
            rows.add_remark(self.spec, note)


class TextEncoder:
    """A model and its tokeniser, loaded when the first text is not in the store.

    Args:
        model: where they lie.
        limit: the most tokens that are read of a text.
    """

    def __init__(self, model: TextModel, limit: int) -> None:
        self.model = model
        self.limit = limit

    @cached_property
    def _tokenizer(self) -> Any:
        return load_tokenizer(self.model.folder, self.limit)

    @cached_property
    def _loaded(self) -> Any:
        folder = self.model.folder
        newest = max(path.stat().st_mtime_ns for path in folder.iterdir())
        return _on_device(folder, self.model.device, newest)

    def fits(self, text: str) -> bool:
        """Return whether the model reads a text whole."""
        return len(self._tokenizer(text.strip(), verbose=False)["input_ids"]) <= self.limit

    def _tokens(self, texts: Sequence[str]) -> Any:
        """Tokenise texts as the model takes them: cut at the limit, padded, on its device."""
        features = self._tokenizer(list(texts), padding=True, truncation=True, return_tensors="pt")
        return features.to(self.model.device)


@lru_cache(maxsize=1)
def _on_device(folder: Path, device: str, _modified: int) -> Any:
    """Return a model, kept for who asks next: large sets are scored part by part.

    `_modified`, the time of the folder's newest file, is a part of the cache's key: changed weights are loaded anew.
    """
    return load_model(folder).to(device)


def load_model(folder: Path) -> Any:
    """Return a transformers model, every parameter of which is in its checkpoint.

    Raises:
        InputError: where one is not, with the list, or the folder cannot be read.
    """
    with quiet():
        from transformers import AutoModel

        try:
            model, info = AutoModel.from_pretrained(
                str(folder), output_loading_info=True, local_files_only=True
            )
        except Exception as error:  # OSError, ValueError, SafetensorError, … by file and fault
            reason = short_reason(error)
            raise InputError(f"{folder}: the model cannot be loaded ({reason})") from error

    # Heads that a task put on top ("cls.", "lm_head.") are rightly left out; parts of the model are not, but for its pooler
    # and the numbers of positions.
    parts = {key.split(".")[0] for key in model.state_dict()} - {"pooler"}
    unused: list[str] = []
    for key in info["unexpected_keys"]:
        is_of_model = key.split(".")[0] in parts
        if is_of_model and not key.endswith("position_ids"):
            unused.append(key)
    missing = [key for key in info["missing_keys"] if not key.startswith(_SPARE)]
    missing += [_name_of(mismatch) for mismatch in info["mismatched_keys"]]
    check_keys(str(folder), missing, unused)
    return model.eval()


def _name_of(mismatch: Any) -> str:
    """Return the parameter of an entry of `mismatched_keys`: its name alone, or with both shapes behind it."""
    return mismatch if isinstance(mismatch, str) else str(mismatch[0])


def load_tokenizer(folder: Path, limit: int) -> Any:
    """Return the tokeniser of a transformers model, which cuts texts at `limit` tokens.

    Raises:
        InputError: where the folder has none.
    """
    with quiet():
        from transformers import AutoTokenizer

        try:
            # The blank before a text's first word is part of it for RoBERTa and GPT-2. bert-score asks
            # for it at every call, which transformers from version 5 on passes over in silence.
            tokenizer = AutoTokenizer.from_pretrained(
                str(folder), local_files_only=True, add_prefix_space=True
            )
        except Exception as error:  # OSError, ValueError, … by file and fault
            reason = short_reason(error)
            raise InputError(f"{folder}: the tokeniser cannot be loaded ({reason})") from error

    tokenizer.model_max_length = limit
    return tokenizer


@contextmanager
def quiet() -> Generator[None]:
    """Keep transformers from writing bars and reports to stderr."""
    from transformers.utils import logging

    level = logging.get_verbosity()
    has_bars = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if has_bars:
            logging.enable_progress_bar()


LongPolicy = Literal["truncate", "split_mean", "split_max"]

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])\s*|\n+")
#: Texts at a time, which bounds memory.
_CHUNK = 4096


def find_positions(features: Features, floor: float) -> list[int]:
    """Return the positions of the texts whose feature's last column, such as their number of tokens, is at least `floor`."""
    positions: list[int] = []
    for start in range(0, len(features), _CHUNK):
        last_column = features[start : start + _CHUNK][:, -1]
        positions += (start + np.flatnonzero(last_column >= floor)).tolist()
    return positions


def normalise_features(features: Array) -> Floats:
    """Return rows of length 1 without the last column, which counts tokens; shape (n, dimensions)."""
    return normalise_rows(features[:, :-1])


def normalise_rows(vectors: Array) -> Floats:
    """Return vectors of length 1, shape (n, dimensions)."""
    vectors = vectors.astype(np.float64)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def split_text(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Split a text into pieces that fit a window, whole sentences as long as a sentence fits.

    As many sentences as fit together make a piece; a longer sentence is split between words. A single word
    that does not fit stays whole.
    """
    parts: list[str] = []
    for stretch in _SENTENCE_END.split(text):
        sentence = stretch.strip()
        if not sentence:
            continue

        if fits(sentence):
            parts.append(sentence)
        else:
            parts += _pack(sentence.split(), fits)

    return _pack(parts, fits) or [text]


def _pack(parts: Sequence[str], fits: Callable[[str], bool]) -> list[str]:
    """Join neighbours for as long as they fit together."""
    pieces: list[str] = []
    for part in parts:
        if pieces and fits(f"{pieces[-1]} {part}"):
            pieces[-1] += f" {part}"
        else:
            pieces.append(part)

    return pieces


@dataclass(frozen=True)
class TextGroup:
    """The directions of several texts, such as a row's references.

    Attributes:
        directions: one text after another, shape (n_pieces, dimensions).
        starts: where each text begins, shape (n_texts,).
    """

    directions: Floats
    starts: NDArray[np.int64]


@dataclass(frozen=True)
class TextDirections:
    """Directions of texts: one each, and one a piece where a text was split.

    Attributes:
        features: a row a text, the embedding and one column more.
        pieces: by position of a split text, the directions that stand for it, shape (n, dimensions).
        remark: what belongs below the table of scores; empty where every text fits.
    """

    features: Features
    pieces: Mapping[int, Floats]
    remark: str

    def select(self, groups: Sequence[Sequence[int]]) -> list[TextGroup]:
        """Return the directions of groups of texts, read at once."""
        positions = list(chain.from_iterable(groups))
        directions = normalise_features(self.features[positions])
        n_directions = np.ones(len(positions), dtype=np.int64)  # of each text
        if self.pieces:
            blocks: list[Floats] = []
            for i, position in enumerate(positions):
                whole_text = directions[i : i + 1]  # shape (1, dimensions)
                blocks.append(self.pieces.get(position, whole_text))
            n_directions = np.array([len(block) for block in blocks], dtype=np.int64)
            directions = np.concatenate(blocks)

        text_groups: list[TextGroup] = []
        first_text = 0
        start = 0
        for group in groups:
            end_text = first_text + len(group)
            ends = n_directions[first_text:end_text].cumsum()
            end = start + int(n_directions[first_text:end_text].sum())
            # A text begins where the one before it ends, the first at 0.
            starts_in_group = ends - n_directions[first_text:end_text]
            text_groups.append(TextGroup(directions[start:end], starts_in_group))
            first_text = end_text
            start = end
        return text_groups


def measure_texts(
    texts: Sequence[str],
    features: Features,
    long_positions: Sequence[int],
    policy: LongPolicy,
    fits: Callable[[str], bool],
    encode: Callable[[Sequence[str]], Features],
) -> TextDirections:
    """Return the directions of texts under a policy for those that are longer than the window.

    Args:
        texts: any.
        features: of each text, as far as the window reaches.
        long_positions: of the texts that are longer than the window.
        policy: see the module.
        fits: whether a text is read whole.
        encode: features of pieces.
    """
    n_long = len(long_positions)
    is_one = n_long == 1
    longer = "1 text is" if is_one else f"{n_long:,} texts are"
    done = "was" if is_one else "were"
    if policy == "truncate":
        remark = f"{longer} longer than the model's context and {done} cut short"
        return TextDirections(features, {}, remark if n_long else "")

    split_texts = [split_text(texts[position], fits) for position in long_positions]
    pieces = list(chain.from_iterable(split_texts))
    piece_features = encode(pieces)[:]  # all of them, read from the store
    directions = normalise_features(piece_features)
    bounds = np.cumsum([0, *map(len, split_texts)]).tolist()
    blocks = [directions[start:end] for start, end in pairwise(bounds)]
    if policy == "split_mean":
        means = [block.mean(axis=0, keepdims=True) for block in blocks]
        blocks = [mean / np.linalg.norm(mean) for mean in means]

    remark = (
        f"{longer} longer than the model's context and {done} split into "
        f"{len(directions):,} pieces (long={policy})"
    )
    blocks_by_position = dict(zip(long_positions, blocks, strict=True))
    return TextDirections(features, blocks_by_position, remark if n_long else "")
