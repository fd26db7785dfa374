"""Embeddings that another program computed, npz, Parquet and safetensors files, and the metrics that read them.

An entry is what its key names: an image, a caption, or a caption beside its image. The key columns
are texts, `item_id`, `image_id` and `caption`, as many as the file has. An entry has one vector, or,
where it is of tokens, one for each of them. All three layouts hold the same:

- npz: `embedding`, floats of shape (n_vectors, dimensions), beside the key columns, arrays of text of
  shape (n_entries,); of tokens also `length`, whole numbers of shape (n_entries,): how many vectors
  each entry has. The vectors lie in the entries' order.
- safetensors: the same tensors; a key column is a JSON list in the file's metadata.
- Parquet: one row an entry, `embedding` a list of numbers; of tokens a list of such lists.
"""

from __future__ import annotations

import json
import math
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ...datasets.errors import InputError
from ...datasets.paths import expand_home
from ...datasets.reading.source_files import sha256
from ..base import Floats, Metric, UnavailableError
from ..registry import register
from ..rows import Key, Rows, index_by_key, look_up_all, row_keys
from .models import weights_root

#: What an entry can be named by.
KEYS = ("item_id", "image_id", "caption")
#: How many vectors are looked at at once.
_SLICE = 65536
Vectors = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Embeddings:
    """The entries of a file.

    Attributes:
        path: the file.
        keys: by column, one text an entry.
        vectors: floats of shape (n_vectors, dimensions), finite, none of them all zeros.
        ends: shape (n_entries + 1,); entry i has the vectors from `ends[i]` to `ends[i + 1]`.
    """

    path: Path
    keys: dict[str, list[str]]
    vectors: Vectors
    ends: NDArray[np.intp]

    @classmethod
    def read(cls, path: str | Path, *, tokens: bool = False) -> Embeddings:
        """Read a file of embeddings, of tokens or of whole captions or images.

        Raises:
            InputError: where it is missing, not of a known layout, truncated, or has numbers that
                are no direction (NaN, infinity, zeros alone), each with the entry's name.
        """
        path = expand_home(path)
        if not path.is_file():
            raise InputError(f"{path}: no such file of embeddings")
        ending = path.suffix.lower()
        if ending not in _READERS:
            raise InputError(
                f"{path}: the name of a file of embeddings ends in {' or '.join(_READERS)}"
            )
        keys, vectors, lengths = _READERS[ending](path, tokens)
        return cls(path, keys, *_checked(path, keys, vectors, lengths))

    @property
    def dimensions(self) -> int:
        return self.vectors.shape[1]

    def columns(self, *choices: tuple[str, ...]) -> tuple[str, ...]:
        """Return the first of `choices` that the file has.

        Raises:
            InputError: where it has none of them.
        """
        for choice in choices:
            if all(column in self.keys for column in choice):
                return choice
        expected = ", or ".join(" and ".join(choice) for choice in choices)
        has = ", ".join(self.keys) or "none of them"
        raise InputError(f"{self.path}: the embeddings are named by {has}; {expected} is needed")

    def entries(self, columns: Sequence[str]) -> dict[Key, slice]:
        """Return the slice of each key's vectors.

        Raises:
            InputError: where a key has two different embeddings.
        """
        where = zip(self.ends[:-1].tolist(), self.ends[1:].tolist(), strict=True)
        slices = [slice(*w) for w in where]
        keys = zip(*(self.keys[c] for c in columns), strict=True)
        return index_by_key(
            ((str(self.path), key, s) for key, s in zip(keys, slices, strict=True)),
            "embedding",
            lambda a, b: np.array_equal(self.vectors[a], self.vectors[b]),
        )

    def of_rows(self, rows: Rows, *choices: tuple[str, ...]) -> Vectors:
        """Return the vector of each row, shape (len(rows), dimensions); `choices` as for `columns`.

        Raises:
            InputError: where a row has none, or two.
        """
        return self.vectors[[s.start for s in self.slices(rows, *choices)]]

    def slices(self, rows: Rows, *choices: tuple[str, ...]) -> list[slice]:
        """Return the slice of each row's vectors; `choices` as for `columns`.

        Raises:
            InputError: where a row has none, or two.
        """
        columns = self.columns(*choices)
        return look_up_all(
            self.entries(columns), row_keys(rows, columns, self.path), "embedding", self.path
        )


Read = tuple[dict[str, list[str]], Any, Any]


def _checked(
    path: Path, keys: dict[str, list[str]], vectors: Any, lengths: Any
) -> tuple[Vectors, NDArray[np.intp]]:
    """Vectors and ends, where all is as the layout asks."""
    if not keys:
        raise InputError(f"{path}: none of {', '.join(KEYS)}, which name an embedding")
    if vectors.ndim != 2 or not vectors.shape[1] or not np.issubdtype(vectors.dtype, np.floating):
        raise InputError(
            f"{path}: embedding is {vectors.dtype} of shape {vectors.shape}; floats of shape "
            f"(n, dimensions) are expected"
        )
    n = {column: len(texts) for column, texts in keys.items()}
    first = next(iter(n))
    entries = n[first]
    for column, count in n.items():
        if count != entries:
            raise InputError(f"{path}: {entries} of {first}, but {count} of {column}")
    if lengths is None:
        lengths = np.ones(entries, dtype=np.intp)
    if lengths.shape != (entries,) or lengths.dtype.kind not in "iu" or (lengths < 0).any():
        raise InputError(
            f"{path}: length is not one whole number from 0 on for each of the {entries} entries"
        )
    if lengths.sum() != len(vectors):
        raise InputError(
            f"{path}: the lengths of its {entries} entries add up to {int(lengths.sum())} vectors, "
            f"but there are {len(vectors)}"
        )
    if vectors.dtype == np.float16:
        vectors = vectors.astype(np.float32)
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.intp)
    # In slices: the absolute values of the whole would take as much memory again.
    for start in range(0, len(vectors), _SLICE):
        largest = np.abs(vectors[start : start + _SLICE]).max(axis=1)
        bad = np.flatnonzero(~np.isfinite(largest) | (largest == 0))
        if bad.size:
            i = int(bad[0])
            entry = int(np.searchsorted(ends, start + i, side="right")) - 1
            name = " ".join(texts[entry] for texts in keys.values())
            fault = "zeros alone" if largest[i] == 0 else "NaN or infinity"
            raise InputError(f"{path}: the embedding of {name} holds {fault}")
    return vectors, ends


def _names(path: Path, column: str, values: Iterable[Any]) -> list[str]:
    """Return a key column as texts; whole numbers become texts, as image ids are often numbers."""
    names: list[str] = []
    for i, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise InputError(f"{path}: entry {i}: {column} is {value!r}, not a text")
        names.append(str(value))
    return names


def _require_entry(path: Path, name: str, values: Any) -> Any:
    if values is None:
        raise InputError(f"{path}: no '{name}'; it is needed, see docs/metrics_from_files.md")
    return values


def _npz(path: Path, tokens: bool) -> Read:
    try:
        with np.load(path, allow_pickle=False) as file:
            expected = [*KEYS, "embedding", *(["length"] if tokens else [])]
            arrays = {name: file[name] for name in expected if name in file.files}
        if not all(isinstance(array, np.ndarray) for array in arrays.values()):
            raise ValueError("what is in it is no array")
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, AttributeError) as error:
        why = "no npz file, or truncated"
        if "allow_pickle" in str(error):
            why = "it holds Python objects, which are not read; save texts as np.array(texts, dtype=str)"
        raise InputError(f"{path}: {why}") from error
    keys = {c: _names(path, c, np.atleast_1d(arrays[c]).tolist()) for c in KEYS if c in arrays}
    vectors = _require_entry(path, "embedding", arrays.get("embedding"))
    return keys, vectors, _require_entry(path, "length", arrays.get("length")) if tokens else None


def _safetensors(path: Path, tokens: bool) -> Read:
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise InputError(f"{path}: pip install safetensors, or save npz or Parquet") from error
    try:
        with safe_open(path, framework="numpy") as file:
            metadata: dict[str, str] = file.metadata() or {}
            names = set(file.keys())
            arrays = {n: file.get_tensor(n) for n in ("embedding", "length") if n in names}
    except (SafetensorError, OSError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path}: not a safetensors file, or truncated ({reason})") from error
    keys: dict[str, list[str]] = {}
    for column in KEYS:
        if column in metadata:
            try:
                values: Any = json.loads(metadata[column])
            except ValueError:
                values = None
            if not isinstance(values, list):
                raise InputError(f"{path}: {column} in its metadata is not a JSON list")
            keys[column] = _names(path, column, values)
    vectors = _require_entry(path, "embedding", arrays.get("embedding"))
    return keys, vectors, _require_entry(path, "length", arrays.get("length")) if tokens else None


def _parquet(path: Path, tokens: bool) -> Read:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path, page_checksum_verification=True)
        expected = [n for n in (*KEYS, "embedding") if n in file.schema_arrow.names]
        table = file.read(expected)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path}: not a complete Parquet file ({reason})") from error
    keys = {c: _names(path, c, table.column(c).to_pylist()) for c in KEYS if c in expected}
    column: Any = _require_entry(
        path, "embedding", table.column("embedding") if "embedding" in expected else None
    )
    lengths: Any = None
    if tokens:
        lengths, column = _opened(path, column, "a list of lists of numbers")
    sizes, column = _opened(path, column, "a list of numbers")
    widths = sorted(set(sizes.tolist()))
    if len(widths) > 1:
        raise InputError(f"{path}: an embedding has {widths[0]} numbers, another {widths[-1]}")
    if column.null_count or not pa.types.is_floating(column.type):
        raise InputError(
            f"{path}: the numbers of embedding are {column.type}, or lacking; not floats"
        )
    return keys, column.to_numpy().reshape(len(sizes), *(widths or [0])), lengths


def _opened(path: Path, column: Any, expected: str) -> tuple[NDArray[np.intp], Any]:
    """Return the length of each list of a column, and the lists' values one after the other."""
    import pyarrow as pa
    import pyarrow.compute

    compute: Any = pyarrow.compute
    types: Any = pa.types
    kinds = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    if column.null_count or not any(of_kind(column.type) for of_kind in kinds):
        raise InputError(f"{path}: embedding is {column.type}, or lacking; {expected} is expected")
    lengths = np.asarray(compute.list_value_length(column), dtype=np.intp)
    return lengths, compute.list_flatten(column)


_READERS: dict[str, Callable[[Path, bool], Read]] = {
    ".npz": _npz,
    ".parquet": _parquet,
    ".safetensors": _safetensors,
}
#: The endings of files of embeddings.
ENDINGS = tuple(_READERS)


@dataclass(frozen=True)
class FromFiles(Metric):
    """A metric with fields that name files.

    Where one is not given, the file is looked for in the weights folder, as METRIC_FIELD with one of
    the field's endings (`vilbertscore_embeddings.npz`): so a paper's table finds it too.
    """

    #: The endings of each field's file.
    endings: ClassVar[Mapping[str, tuple[str, ...]]]
    #: A row's image is known by its id, which equal rows need not share.
    depends_only_on_content: ClassVar[bool] = False

    def file(self, field: str) -> Path:
        """Return the file of a field.

        Raises:
            UnavailableError: where it is not given, and none lies in the weights folder.
        """
        chosen_file = getattr(self, field)
        if chosen_file is not None:
            return expand_home(chosen_file)
        path = self._usual(field)
        if path is None:
            name = weights_root() / f"{self.name}_{field}{self.endings[field][0]}"
            raise UnavailableError(
                f"metric {self.name}",
                "needs a file",
                f"give {field}=FILE, or put it at {name} (its layout: docs/metrics_from_files.md)",
            )
        return path

    def _usual(self, field: str) -> Path | None:
        root = weights_root()
        paths = (root / f"{self.name}_{field}{ending}" for ending in self.endings[field])
        return next((path for path in paths if path.is_file()), None)

    def check_rows(self, rows: Rows) -> None:
        super().check_rows(rows)
        for field in self.endings:
            self.file(field)

    @property
    def programs(self) -> tuple[str, ...]:
        """The content of files that were not given, for the signature."""
        usual_files = {f: self._usual(f) for f in self.endings if getattr(self, f) is None}
        return tuple(
            f"{field}:{f'sha256-{sha256(path)}' if path else 'missing'}"
            for field, path in usual_files.items()
        )


@register("vse_cosine")
@dataclass(frozen=True)
class VseCosine(FromFiles):
    """v · t / (|v| |t|) of an image's and a caption's embedding (as VSE++ has it, Faghri et al. 2018).

    Any model that embeds images and texts in one space will do. The layout of the files is that of
    `embeddings.py`, one vector an entry.

    Args:
        images: embeddings by `item_id`, or else by `image_id`.
        texts: embeddings of the same dimension by `item_id`, by `image_id` and `caption`, or else by
            `caption`.
    """

    images: str | None = None
    texts: str | None = None
    backend: Literal["captau"] = "captau"

    bounds: ClassVar[tuple[float | None, float | None]] = (-1.0, 1.0)
    #: Reading the files takes longer than the cosines.
    is_cacheable: ClassVar[bool] = False
    file_fields: ClassVar[tuple[str, ...]] = ("images", "texts")
    endings: ClassVar[Mapping[str, tuple[str, ...]]] = {"images": ENDINGS, "texts": ENDINGS}

    def compute(self, rows: Rows) -> Floats:
        """Cosines of shape (len(rows),).

        Raises:
            InputError: where a file is broken, the dimensions differ, or an item has no embedding.
        """
        images, texts = (Embeddings.read(self.file(f)) for f in self.endings)
        if images.dimensions != texts.dimensions:
            raise InputError(
                f"{texts.path}: texts have {texts.dimensions} dimensions, but images "
                f"{images.dimensions} in {images.path}; use embeddings of one model"
            )
        v = images.of_rows(rows, ("item_id",), ("image_id",)).astype(np.float64)
        t = texts.of_rows(rows, ("item_id",), ("image_id", "caption"), ("caption",))
        cosines = np.einsum("ij,ij->i", v, t) / np.linalg.norm(v, axis=1)
        return np.clip(cosines / np.linalg.norm(t.astype(np.float64), axis=1), -1.0, 1.0)


_KEY = ("image_id", "caption")


@register("vilbertscore")
@dataclass(frozen=True)
class ViLBERTScore(FromFiles):
    """P, R or F of Lee et al. 2020, as the authors' code has them (hwanheelee1993/ViLBERTScore).

    With C the candidate's tokens, R a reference's, and s their cosine:

        P = 1/|C| Σ_c max_r s(c, r)    R = 1/|R| Σ_r max_c s(c, r)    F = 2PR / (P + R)

    A cosine below 0 counts as 0, as it does in that code. Of several references the scores are
    averaged (each F is of one reference). There is no idf weight and no baseline. A caption without
    tokens is undefined (NaN).

    The embeddings are read from a file of the layout of `embeddings.py`, of tokens, one entry for
    each pair of `image_id` and `caption`, candidates and references alike. The published figures
    are of the last layer of ViLBERT's text stream (multi-task model, task 7): the task token and all
    word pieces of the lower-cased caption, cut after the 36th, without [CLS], [SEP] and padding.

    Args:
        embeddings: the file.
        measure: which of the three.
    """

    embeddings: str | None = None
    measure: Literal["f", "p", "r"] = "f"
    backend: Literal["captau"] = "captau"

    needs: ClassVar[frozenset[str]] = frozenset({"references"})
    bounds: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)
    #: Reading the file takes longer than the matching.
    is_cacheable: ClassVar[bool] = False
    file_fields: ClassVar[tuple[str, ...]] = ("embeddings",)
    endings: ClassVar[Mapping[str, tuple[str, ...]]] = {"embeddings": ENDINGS}

    def compute(self, rows: Rows) -> Floats:
        """Scores of shape (len(rows),).

        Raises:
            InputError: where the file is broken, or a candidate or reference has no embeddings.
        """
        file = Embeddings.read(self.file("embeddings"), tokens=True)
        if missing := [c for c in _KEY if c not in file.keys]:
            raise InputError(
                f"{file.path}: no '{missing[0]}'; token embeddings need both {' and '.join(_KEY)}"
            )
        entries = file.entries(_KEY)
        keys = row_keys(rows, _KEY, file.path)
        pair_keys = [(k[0], r) for k, refs in zip(keys, rows.references, strict=True) for r in refs]
        look_up_all(entries, [*dict.fromkeys([*keys, *pair_keys])], "embedding", file.path)
        scores = np.empty(len(rows))
        for i, (key, references) in enumerate(zip(keys, rows.references, strict=True)):
            reference_scores = [
                self._match_captions(file.vectors, entries, key, (key[0], r)) for r in references
            ]
            scores[i] = sum(reference_scores) / len(reference_scores)
        return scores

    def _match_captions(
        self, vectors: Vectors, entries: Mapping[Key, slice], candidate: Key, reference: Key
    ) -> float:
        p, r, f = greedy_match(vectors[entries[candidate]], vectors[entries[reference]])
        return {"p": p, "r": r, "f": f}[self.measure]


@register("vilbert_alignment")
@dataclass(frozen=True)
class ViLBERTAlignment(FromFiles):
    """The probability that a caption fits its image, by ViLBERT's alignment head (Scott et al. 2023, section 4.2).

    The head is the one of ViLBERT's pretraining, before any fine-tuning. It gives two logits for each image and
    caption, alignment and non-alignment; the score is the first one's share of their softmax.

    Args:
        logits: a file of the layout of `embeddings.py` by `item_id`, or by `image_id` and `caption`, whose vectors are
            the two logits.
        aligned: which logit is that of alignment, the first as in the authors' code of ViLBERT.
    """

    logits: str | None = None
    aligned: Literal["first", "second"] = "first"
    backend: Literal["captau"] = "captau"

    bounds: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)
    #: Reading the file takes longer than the softmax.
    is_cacheable: ClassVar[bool] = False
    file_fields: ClassVar[tuple[str, ...]] = ("logits",)
    endings: ClassVar[Mapping[str, tuple[str, ...]]] = {"logits": ENDINGS}

    def compute(self, rows: Rows) -> Floats:
        """Probabilities of shape (len(rows),).

        Raises:
            InputError: where the file is broken, has other than two logits, or none of an item.
        """
        file = Embeddings.read(self.file("logits"))
        if file.dimensions != 2:
            raise InputError(
                f"{file.path}: vectors of {file.dimensions} numbers; two logits are expected"
            )
        logits = file.of_rows(rows, ("item_id",), _KEY).astype(np.float64)
        difference = logits[:, 0] - logits[:, 1]
        return expit(difference if self.aligned == "first" else -difference)


def greedy_match(candidate: Vectors, reference: Vectors) -> tuple[float, float, float]:
    """P, R and F of two captions' token embeddings, shapes (n_tokens, dimensions).

    Returns:
        three numbers from 0 to 1; NaN where a caption has no tokens; F is 0 where P and R are.
    """
    if not len(candidate) or not len(reference):
        return math.nan, math.nan, math.nan
    similarity = np.clip(_unit(candidate) @ _unit(reference).T, 0.0, 1.0)
    p, r = float(similarity.max(axis=1).mean()), float(similarity.max(axis=0).mean())
    return p, r, 2 * p * r / (p + r) if p + r else 0.0


def _unit(vectors: Vectors) -> Floats:
    wide = vectors.astype(np.float64)
    return wide / np.linalg.norm(wide, axis=1, keepdims=True)
