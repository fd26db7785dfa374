"""Document frequencies of more n-grams than memory holds: counted in parts, merged on disk.

The key of an n-gram has 128 bits, made of the BLAKE2b hashes of its words. That any two of 10⁸ n-grams
share a key has a probability of about 10⁻²³; but for that, every count is exact, whatever the parts and
their order. Keys are spread evenly, so ranges of them that are equally wide are about equally full, and are
merged one by one. A merged table leaves out n-grams of a single document: `cider` weighs them as n-grams of none.

`benchmarks.large` writes the parts, merges them, and scores with the table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from ...datasets.cache import replacing
from ...datasets.errors import InputError
from ..base import Floats
from .tokens.corpus import Corpus, Ints

#: Keys as two halves, shape (2, n), or one half of them, shape (n,).
KeyHalves = NDArray[np.uint64]

_MAGIC = b"captaudf"
#: Magic, documents, entries: eight bytes each.
_HEADER = 24
#: Bytes of an entry: two halves of a key, and a count.
_ENTRY_BYTES = 20
#: Odd, from the digits of the golden ratio and of √2: one for each half of a key.
_FACTORS = np.array([0x9E3779B97F4A7C15, 0x6A09E667F3BCC909], dtype=np.uint64)
#: Bytes that are copied at a time.
_COPY_SIZE = 1 << 20
#: Entries that are merged at a time.
_MERGE_STRETCH = 1 << 17
#: Keys that are searched at a time.
_SEARCH_RUN = 4096


@dataclass(frozen=True)
class DocumentCounts:
    """The number of documents that have each n-gram, ordered by key.

    Attributes:
        high, low: the halves of each key, shape (n,).
        counts: shape (n,).
        documents: the number of documents.
    """

    high: KeyHalves
    low: KeyHalves
    counts: NDArray[np.uint32]
    documents: int

    @property
    def nbytes(self) -> int:
        """The size of all entries in bytes."""
        return self.high.nbytes + self.low.nbytes + self.counts.nbytes

    def select(self, entries: slice | NDArray[np.bool_]) -> DocumentCounts:
        """Return the counts of some entries."""
        return DocumentCounts(
            self.high[entries], self.low[entries], self.counts[entries], self.documents
        )


def ngram_keys(corpus: Corpus, orders: int) -> list[KeyHalves]:
    """Return the keys of a corpus' n-grams: for each length shape (2, n_distinct), by number."""
    words = _word_keys(corpus.vocabulary)
    keys = [_append_words(np.zeros_like(words), words)]
    for n in range(2, orders + 1):
        heads, tails = np.divmod(corpus.grams(n).distinct, len(corpus.vocabulary))
        keys.append(_append_words(keys[-1][:, heads], words[:, tails]))
    return keys


def _word_keys(words: Iterable[str]) -> KeyHalves:
    """Return the hash of each word, shape (2, n_words)."""
    digests: list[bytes] = []
    for word in words:
        digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=16)
        digests.append(digest.digest())

    return np.frombuffer(b"".join(digests), dtype="<u8").reshape(-1, 2).T.astype(np.uint64)


def _append_words(prefixes: KeyHalves, words: KeyHalves) -> KeyHalves:
    """Return the keys of n-grams with one word more each, shape (2, n); a first word follows zeros."""
    # splitmix64's finaliser: it can be undone, so keys of one length that begin alike and end in
    # different words differ.
    with np.errstate(over="ignore"):
        x = prefixes * _FACTORS[:, None] + words
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def key_texts(texts: Iterable[str]) -> DocumentCounts:
    """Count how often each text occurs, by its key."""
    high, low = _word_keys(texts)
    return _sort_and_sum(high, low, np.ones(len(high), np.int64), len(high))


def key_counts(
    keys: Sequence[KeyHalves], counts: Sequence[Floats], documents: int
) -> DocumentCounts:
    """Make counts of n-grams' keys and document counts, both by length."""
    all_keys = np.concatenate([np.empty((2, 0), np.uint64), *keys], axis=1)
    all_counts = np.concatenate([np.empty(0), *counts])
    is_counted = all_counts > 0
    high, low = all_keys[:, is_counted]
    return _sort_and_sum(high, low, all_counts[is_counted].astype(np.int64), documents)


def key_saved_counts(counts: Mapping[tuple[str, ...], int], documents: int) -> DocumentCounts:
    """Make counts of a saved file's document frequencies."""
    words: dict[str, int] = {}
    for word in chain.from_iterable(counts):
        words.setdefault(word, len(words))
    word_keys = _word_keys(words)

    keys: list[KeyHalves] = []
    counts_by_length: list[Floats] = []
    for n in sorted({len(ngram) for ngram in counts}):
        counts_of_length = {ngram: count for ngram, count in counts.items() if len(ngram) == n}
        number_rows = [[words[word] for word in ngram] for ngram in counts_of_length]
        numbers = np.array(number_rows, dtype=np.int64)

        key = np.zeros((2, len(counts_of_length)), dtype=np.uint64)
        for column in numbers.T:
            key = _append_words(key, word_keys[:, column])
        keys.append(key)
        counts_by_length.append(np.array(list(counts_of_length.values()), dtype=np.float64))

    return key_counts(keys, counts_by_length, documents)


def merge(parts: Iterable[DocumentCounts], min_documents: int = 1) -> DocumentCounts:
    """Sum counts, and leave out n-grams of fewer than `min_documents` documents."""
    parts = list(parts)

    # In stretches of keys that the processor's cache holds: a sort of all of them takes longer.
    n_stretches = 1 + sum(len(part.high) for part in parts) // _MERGE_STRETCH
    longest = max((part.high for part in parts), key=len, default=np.empty(0, np.uint64))
    bounds = longest[np.arange(1, n_stretches) * len(longest) // n_stretches]
    edges: list[list[int]] = []
    for part in parts:
        inner_edges = np.searchsorted(part.high, bounds).tolist()
        edges.append([0, *inner_edges, len(part.high)])

    stretches: list[DocumentCounts] = []
    for first in range(n_stretches):
        of_stretch: list[DocumentCounts] = []
        for part, part_edges in zip(parts, edges, strict=True):
            of_stretch.append(part.select(slice(part_edges[first], part_edges[first + 1])))
        joined = _concatenate(of_stretch)
        total = _sort_and_sum(joined.high, joined.low, joined.counts.astype(np.int64), 0)
        stretches.append(total.select(total.counts >= min_documents))

    return replace(_concatenate(stretches), documents=sum(part.documents for part in parts))


def _concatenate(parts: Sequence[DocumentCounts]) -> DocumentCounts:
    """Return the entries of all parts, one part after the other."""
    return DocumentCounts(
        np.concatenate([np.empty(0, np.uint64), *(part.high for part in parts)]),
        np.concatenate([np.empty(0, np.uint64), *(part.low for part in parts)]),
        np.concatenate([np.empty(0, np.uint32), *(part.counts for part in parts)]),
        sum(part.documents for part in parts),
    )


def _sort_and_sum(high: KeyHalves, low: KeyHalves, counts: Ints, documents: int) -> DocumentCounts:
    # Not stable, which takes twice as long: equal keys are summed in any order.
    order = np.argsort(high)
    high = high[order]
    low = low[order]
    same_high = high[1:] == high[:-1]
    # Keys with one half in common are ordered by both.
    if (same_high & (low[1:] != low[:-1])).any():
        by_both = np.lexsort((low, high))
        order = order[by_both]
        high = high[by_both]
        low = low[by_both]
        same_high = high[1:] == high[:-1]

    is_first = np.append([True] * bool(len(high)), ~(same_high & (low[1:] == low[:-1])))
    first = np.flatnonzero(is_first)
    sums = np.add.reduceat(counts[order], first) if len(first) else counts

    if len(sums) and int(sums.max()) > np.iinfo(np.uint32).max:
        raise InputError("an n-gram is in more than 4,294,967,295 documents; cut the set")

    return DocumentCounts(high[first], low[first], sums.astype(np.uint32), documents)


def write_counts(path: Path, counts: DocumentCounts) -> int:
    """Write counts, and return the number of bytes."""
    with replacing(path) as stream:
        _write_header(stream, counts.documents, len(counts.counts))
        for column in (counts.high, counts.low, counts.counts):
            stream.write(column.tobytes())
        return stream.tell()


def _write_header(stream: BinaryIO, documents: int, entries: int) -> None:
    stream.write(_MAGIC)
    stream.write(np.array([documents, entries], dtype="<i8").tobytes())


def read_range(path: Path, number: int, n_ranges: int) -> DocumentCounts:
    """Read one of `n_ranges` equally wide ranges of keys (a power of two) of a file that `write_counts` wrote."""
    layout = _Layout.read(path)
    counts = DocumentCounts(*layout.map_columns(path), layout.documents)

    # The bounds are whole numbers: 2^64, the end of the last range, is no unsigned integer of 64 bits.
    edges: list[int] = []
    for step in (number, number + 1):
        bound = step * (1 << 64) // n_ranges
        is_end = bound >> 64 > 0
        edge = len(counts.high)
        if not is_end:
            edge = int(np.searchsorted(counts.high, np.uint64(bound)))
        edges.append(edge)

    # A copy, so that no more of the file stays mapped.
    return _concatenate([counts.select(slice(*edges))])


def join_ranges(path: Path, parts: Sequence[Path], documents: int) -> None:
    """Join merged ranges of keys, each in a file of its own, to one table, in their order."""
    layouts = [_Layout.read(part) for part in parts]
    with replacing(path) as stream:
        _write_header(stream, documents, sum(layout.entries for layout in layouts))
        # Column by column: both halves of the keys, and the counts.
        for size, bytes_before in ((8, 0), (8, 8), (4, 16)):
            for part, layout in zip(parts, layouts, strict=True):
                with part.open("rb") as source:
                    source.seek(_HEADER + bytes_before * layout.entries)
                    remaining = size * layout.entries
                    while remaining:
                        chunk = source.read(min(remaining, _COPY_SIZE))
                        stream.write(chunk)
                        remaining -= len(chunk)


@dataclass(frozen=True)
class _Layout:
    documents: int
    entries: int

    @classmethod
    def read(cls, path: Path) -> _Layout:
        with path.open("rb") as stream:
            header = stream.read(_HEADER)
        if header[: len(_MAGIC)] != _MAGIC or len(header) < _HEADER:
            raise InputError(f"{path}: not a table of document frequencies; remove it")

        layout = cls(*np.frombuffer(header, "<i8")[1:].tolist())
        if path.stat().st_size != _HEADER + _ENTRY_BYTES * layout.entries:
            raise InputError(f"{path}: a table of document frequencies that is cut off; remove it")

        return layout

    def map_columns(self, path: Path) -> tuple[KeyHalves, KeyHalves, NDArray[np.uint32]]:
        """Map the columns of a file: both halves of the keys, and the counts."""
        n = self.entries
        content = (
            np.memmap(path, "u1", "r", _HEADER, (_ENTRY_BYTES * n,)) if n else np.empty(0, "u1")
        )

        # A plain array is faster to slice than a map.
        high, low, counts = np.split(np.asarray(content), [8 * n, 16 * n])
        return high.view("<u8"), low.view("<u8"), counts.view("<u4")


class FrequencyTable:
    """A table on disk, read by memory map, so that processes share it.

    Args:
        path: a file that `write_counts` or `join_ranges` wrote, ordered by key as a whole.
    """

    def __init__(self, path: Path) -> None:
        layout = _Layout.read(path)
        self.documents = layout.documents
        self._high, self._low, self._counts = layout.map_columns(path)

    def look_up(self, keys: KeyHalves) -> Floats:
        """Return the number of documents that have each n-gram, shape (n,); 0 for unlisted ones.

        Args:
            keys: shape (2, n).
        """
        counts = np.zeros(keys.shape[1])
        order = np.argsort(keys[0])
        n_entries = len(self._high)
        edges = np.searchsorted(self._high, keys[0, order[::_SEARCH_RUN]]).tolist()

        # Run by run of sorted keys, each in a stretch of the table that caches hold.
        for run, (begin, end) in enumerate(pairwise([*edges, n_entries])):
            pending = order[run * _SEARCH_RUN : (run + 1) * _SEARCH_RUN]
            high = keys[0, pending]
            entry = begin + np.searchsorted(self._high[begin:end], high)
            while pending.size and n_entries:
                is_near = (entry < n_entries) & (self._high.take(entry, mode="clip") == high)
                pending = pending[is_near]
                entry = entry[is_near]
                high = high[is_near]
                is_match = self._low[entry] == keys[1, pending]
                counts[pending[is_match]] = self._counts[entry[is_match]]

                # The next entry may have this first half as well.
                pending = pending[~is_match]
                entry = entry[~is_match] + 1
                high = high[~is_match]

        return counts
