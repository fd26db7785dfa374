"""Files of embeddings that another program computed: npz, Parquet and safetensors.

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
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...datasets.errors import InputError
from ...datasets.paths import expand_home
from ..rows import Key, Rows, index_by_key, look_up_all, row_keys

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
        names, vectors, lengths = _READERS[ending](path, tokens)
        keys = {column: _names(path, column, values) for column, values in names.items()}
        if vectors is None or (tokens and lengths is None):
            missing = "embedding" if vectors is None else "length"
            raise InputError(
                f"{path}: no '{missing}'; it is needed, see docs/metrics_from_files.md"
            )

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
            if set(choice) <= self.keys.keys():
                return choice

        names = [" and ".join(choice) for choice in choices]
        expected = ", or ".join(names)
        has = ", ".join(self.keys) or "none of them"
        raise InputError(f"{self.path}: the embeddings are named by {has}; {expected} is needed")

    def entries(self, columns: Sequence[str]) -> dict[Key, slice]:
        """Return the slice of each key's vectors.

        Raises:
            InputError: where a key has two different embeddings.
        """
        key_columns = [self.keys[column] for column in columns]
        keys = zip(*key_columns, strict=True)
        entries: list[tuple[str, Key, slice]] = []
        for key, (start, end) in zip(keys, pairwise(self.ends.tolist()), strict=True):
            entries.append((str(self.path), key, slice(start, end)))

        def are_equal(first: slice, second: slice) -> bool:
            return np.array_equal(self.vectors[first], self.vectors[second])

        return index_by_key(entries, "embedding", are_equal)

    def of_rows(self, rows: Rows, *choices: tuple[str, ...]) -> Vectors:
        """Return the vector of each row, shape (len(rows), dimensions); `choices` as for `columns`.

        Raises:
            InputError: where a row has none, or two.
        """
        starts = [vectors.start for vectors in self.slices(rows, *choices)]
        return self.vectors[starts]

    def slices(self, rows: Rows, *choices: tuple[str, ...]) -> list[slice]:
        """Return the slice of each row's vectors; `choices` as for `columns`.

        Raises:
            InputError: where a row has none, or two.
        """
        columns = self.columns(*choices)
        keys = row_keys(rows, columns, self.path)

        return look_up_all(self.entries(columns), keys, "embedding", self.path)


Read = tuple[dict[str, list[Any]], Any, Any]


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

    counts = {column: len(texts) for column, texts in keys.items()}
    first = next(iter(counts))
    entries = counts[first]
    for column, count in counts.items():
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


def _npz(path: Path, tokens: bool) -> Read:
    try:
        with np.load(path, allow_pickle=False) as file:
            expected = [*KEYS, "embedding"]
            if tokens:
                expected.append("length")
            arrays = {name: file[name] for name in expected if name in file.files}
        if not all(isinstance(array, np.ndarray) for array in arrays.values()):
            raise ValueError("what is in it is no array")
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, AttributeError) as error:
        why = "no npz file, or truncated"
        if "allow_pickle" in str(error):
            why = "it holds Python objects, which are not read; save texts as np.array(texts, dtype=str)"
        raise InputError(f"{path}: {why}") from error

    names: dict[str, list[Any]] = {}
    for column in KEYS:
        if column in arrays:
            names[column] = np.atleast_1d(arrays[column]).tolist()

    return names, arrays.get("embedding"), arrays.get("length")


def _safetensors(path: Path, tokens: bool) -> Read:
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise InputError(f"{path}: pip install safetensors, or save npz or Parquet") from error

    try:
        with safe_open(path, framework="numpy") as file:
            metadata: dict[str, str] = file.metadata() or {}
            expected = ["embedding"]
            if tokens:
                expected.append("length")
            present = set(file.keys())
            arrays = {name: file.get_tensor(name) for name in expected if name in present}
    except (SafetensorError, OSError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path}: not a safetensors file, or truncated ({reason})") from error

    names: dict[str, list[Any]] = {}
    for column in KEYS:
        if column not in metadata:
            continue
        try:
            values: Any = json.loads(metadata[column])
        except ValueError:
            values = None
        if not isinstance(values, list):
            raise InputError(f"{path}: {column} in its metadata is not a JSON list")
        names[column] = values

    return names, arrays.get("embedding"), arrays.get("length")


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

    names: dict[str, list[Any]] = {}
    for key in KEYS:
        if key in expected:
            names[key] = table.column(key).to_pylist()
    if "embedding" not in expected:
        return names, None, None

    column: Any = table.column("embedding")
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

    width = widths[0] if widths else 0
    return names, column.to_numpy().reshape(len(sizes), width), lengths


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
