"""The feature store: what a model made of a text or an image is computed once and kept.

    store = FeatureStore.of("clip-text|sha256-…|fp32|cpu")
    features = store.get(keys, encode)  # encodes what is not there
    features[0:256]                     # an array of shape (256, width)

A store belongs to one model signature, which names all that the numbers depend on. Its features lie
in Arrow files ("shards") that are written under a temporary name, renamed when whole, never changed
after, and read by memory map: a killed run loses the batches since its last shard, two runs at once
at worst compute the same twice, and memory holds the keys (16 bytes each) and one chunk of features
at a time, however many captions there are.
"""

from __future__ import annotations

import atexit
import hashlib
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...datasets.cache import cache_folder, keeps, replacing, sweep
from ...datasets.errors import InputError

logger = logging.getLogger(__name__)

#: A shard is written when this many bytes of features are at hand, or this many seconds have passed
#: since the last, and at the end, whatever ends it.
SHARD_BYTES = 64 * 2**20
SHARD_SECONDS = 60.0
#: Bytes of a key.
WIDTH = 16

Array = NDArray[Any]
Keys = NDArray[np.bytes_]
#: Given positions among the keys, yields batches: those positions, and a feature for each.
Encode = Callable[[list[int]], Iterable[tuple[Sequence[int], Sequence[Array]]]]


def key_of(content: str | bytes) -> bytes:
    """Return the key of a text or a file's content: 16 bytes of its BLAKE2b hash."""
    data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    return hashlib.blake2b(data, digest_size=WIDTH).digest()


class FeatureStore:
    """Features of one model signature.

    Args:
        folder: where the shards lie.
        signature: written beside them, for people; the folder's name is its hash.
    """

    def __init__(self, folder: Path, signature: str) -> None:
        self.folder = folder
        self.signature = signature

    @classmethod
    def of(cls, signature: str) -> FeatureStore:
        """Return the store of a signature, in the cache folder."""
        name = hashlib.sha256(signature.encode()).hexdigest()[:24]
        return cls(_root() / name, signature)

    def get(self, keys: Sequence[bytes], encode: Encode) -> Features:
        """Features of each key, encoding those that are not there.

        Args:
            keys: `key_of` each content; a key may come more than once.
            encode: called at most once, with the positions of the first occurrence of each missing
                key. What it yields are float or integer arrays: of shape (width,) each, or of shape
                (length, width) with a length of their own.

        Raises:
            InputError: where no shard can be written anywhere, or `encode` leaves a key out.
        """
        keys_to_find = np.array(list(keys), dtype=f"S{WIDTH}") if keys else np.empty(0, f"S{WIDTH}")
        shards = self._shards()
        where = _locate(keys_to_find, shards)

        missing = np.flatnonzero(where[:, 0] < 0)
        if missing.size:
            _, first = np.unique(keys_to_find[missing], return_index=True)
            todo = np.sort(missing[first]).tolist()
            shards += self._write(keys_to_find, encode(todo))
            where = _locate(keys_to_find, shards)
            if n_lacking := int((where[:, 0] < 0).sum()):
                raise InputError(f"features of {n_lacking} items were not computed")

        return Features(shards, where)

    def _shards(self) -> list[_FeatureShard]:
        shards: list[_FeatureShard] = []
        for path in sorted(self.folder.glob("*.arrow")):
            try:
                shards.append(_FeatureShard.read(path))
            except (pa.ArrowException, OSError, KeyError, ValueError):
                continue  # of another make, or damaged: computed anew
        return shards

    def _write(
        self, keys: Keys, batches: Iterable[tuple[Sequence[int], Sequence[Array]]]
    ) -> list[_FeatureShard]:
        written: list[_FeatureShard] = []
        unsaved_keys: list[bytes] = []
        unsaved_features: list[Array] = []
        size = 0
        begun = time.monotonic()
        try:
            for positions, features in batches:
                # A fixed-width bytes array drops trailing zeros, which belong to the key.
                for position in positions:
                    unsaved_keys.append(bytes(keys[position]).ljust(WIDTH, b"\0"))
                for feature in map(np.asarray, features):
                    unsaved_features.append(feature)
                    size += feature.nbytes

                if size >= SHARD_BYTES or time.monotonic() - begun >= SHARD_SECONDS:
                    written.append(self._save(unsaved_keys, unsaved_features))
                    unsaved_keys = []
                    unsaved_features = []
                    size = 0
                    begun = time.monotonic()
        finally:  # one bad image must not cost what was computed before it
            if unsaved_features:
                written.append(self._save(unsaved_keys, unsaved_features))

        return written

    def _save(self, keys: list[bytes], features: list[Array]) -> _FeatureShard:
        try:
            return self._save_in(self.folder, keys, features)
        except OSError as error:
            logger.warning(
                "features are not kept for the next run: %s cannot be written (%s); set cache.root=DIR",
                self.folder,
                error.strerror,
            )
            self.folder = _temporary_folder() / self.folder.name

        try:
            return self._save_in(self.folder, keys, features)
        except OSError as error:
            raise InputError(
                f"{self.folder}: features cannot be written ({error.strerror}); set cache.root=DIR"
            ) from error

    def _save_in(self, folder: Path, keys: list[bytes], features: list[Array]) -> _FeatureShard:
        folder.mkdir(parents=True, exist_ok=True)
        sweep(folder)
        path = folder / f"{time.time_ns():020d}-{os.getpid()}.arrow"
        with replacing(path) as stream:
            _write_arrow(stream, keys, features, self.signature)
        return _FeatureShard.read(path)


class _FeatureShard:
    """One Arrow file, mapped into memory."""

    def __init__(self, keys: Keys, values: Array, ends: NDArray[np.int64] | None) -> None:
        self.order = np.argsort(keys)
        self.sorted = keys[self.order]
        self.values = values  # (n, width), or all rows of all features: (sum of lengths, width)
        self.ends = ends  # None where each feature is one row

    @classmethod
    def read(cls, path: Path) -> _FeatureShard:
        with pa.memory_map(str(path)) as source:
            table = pa.ipc.open_file(source).read_all()
        meta = cast("dict[bytes, bytes]", table.schema.metadata or {})
        width = int(meta[b"width"])
        keys = np.frombuffer(_buffer(table.column("key")), dtype=f"S{WIDTH}")[: table.num_rows]

        column = table.column("value").chunk(0)
        offsets = column.offsets.to_numpy()
        values = column.values.to_numpy(zero_copy_only=True).reshape(-1, width)
        if len(keys) != len(offsets) - 1 or offsets[-1] != values.size:
            raise ValueError("keys and values do not match")

        ends = offsets[1:] // width if meta[b"ragged"] == b"1" else None
        return cls(keys, values, ends)

    def find(self, keys_to_find: Keys) -> NDArray[np.int64]:
        """Return the row of each wanted key, -1 where it is not here."""
        candidate_rows = np.minimum(
            np.searchsorted(self.sorted, keys_to_find), len(self.sorted) - 1
        )
        return np.where(self.sorted[candidate_rows] == keys_to_find, self.order[candidate_rows], -1)

    def length(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        if self.ends is None:
            return np.ones(len(rows), dtype=np.int64)
        return self.ends[rows] - np.where(rows > 0, self.ends[rows - 1], 0)

    def read_row(self, row: int) -> Array:
        if self.ends is None:
            return self.values[row]
        begin = self.ends[row - 1] if row else 0
        return self.values[begin : self.ends[row]]


class Features:
    """Features in the order of the keys, read from disk when they are asked for.

    `features[a:b]` and `features[indices]` give an array of shape (n, width), or, where features
    have lengths of their own, a list of arrays of shape (length, width).
    """

    def __init__(self, shards: list[_FeatureShard], where: NDArray[np.int64]) -> None:
        self._shards = shards
        self._where = where  # (n, 2): shard and row

    def __len__(self) -> int:
        return len(self._where)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of rows of each feature, shape (n,)."""
        out = np.ones(len(self), dtype=np.int64)
        for number, shard in enumerate(self._shards):
            in_shard = self._where[:, 0] == number
            out[in_shard] = shard.length(self._where[in_shard, 1])

        return out

    def __getitem__(self, index: slice | Sequence[int] | NDArray[np.integer]) -> Any:
        where = self._where[index]
        if any(self._shards[shard].ends is not None for shard in np.unique(where[:, 0])):
            return [self._shards[shard].read_row(row) for shard, row in where.tolist()]
        if not len(where):
            width = self._shards[0].values.shape[1] if self._shards else 0
            return np.empty((0, width))

        first = self._shards[where[0, 0]].values
        out = np.empty((len(where), first.shape[1]), dtype=first.dtype)
        for number in np.unique(where[:, 0]):
            in_shard = where[:, 0] == number
            out[in_shard] = self._shards[number].values[where[in_shard, 1]]

        return out


def _locate(keys_to_find: Keys, shards: Sequence[_FeatureShard]) -> NDArray[np.int64]:
    """Shard and row of each key, shape (n, 2); -1 where it is in none."""
    where = np.full((len(keys_to_find), 2), -1, dtype=np.int64)
    for number, shard in enumerate(shards):
        gaps = np.flatnonzero(where[:, 0] < 0)
        if not gaps.size:
            break

        rows = shard.find(keys_to_find[gaps])
        is_here = rows >= 0
        where[gaps[is_here], 0] = number
        where[gaps[is_here], 1] = rows[is_here]

    return where


def _write_arrow(stream: Any, keys: list[bytes], features: list[Array], signature: str) -> None:
    ragged = features[0].ndim == 2
    width = features[0].shape[-1]
    values = np.concatenate([feature.reshape(-1) for feature in features])
    sizes = [feature.size for feature in features]
    offsets = np.cumsum([0, *sizes], dtype=np.int64)
    table = pa.table(
        {
            "key": pa.array(keys, type=pa.binary(WIDTH)),
            "value": pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(values)),
        }
    ).replace_schema_metadata(
        {"width": str(width), "ragged": str(int(ragged)), "signature": signature}
    )
    with pa.ipc.new_file(stream, table.schema) as writer:
        writer.write_table(table)


def _buffer(column: Any) -> Any:
    return column.chunk(0).buffers()[1]


def _root() -> Path:
    return cache_folder("features") if keeps() else _temporary_folder()


_temporary: list[Path] = []


def _temporary_folder() -> Path:
    """Return a folder of this process alone, removed when it ends."""
    if not _temporary:
        _temporary.append(Path(tempfile.mkdtemp(prefix="captau-features-")))
        atexit.register(shutil.rmtree, _temporary[0], ignore_errors=True)
    return _temporary[0]


def forget() -> None:
    """Remove the features that this process kept for itself alone, as `cache.use=false` has it."""
    for folder in _temporary:
        for inside in folder.iterdir():
            shutil.rmtree(inside, ignore_errors=True)
