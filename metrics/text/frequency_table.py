"""Document frequencies of more n-grams than memory holds: counted in parts, merged on disk.

An n-gram goes by a key of 128 bits, made of the BLAKE2b hashes of its words. That any two of 10⁸ n-grams
share a key has a probability of about 10⁻²³; short of that every count is exact, whatever the parts and
their order. Keys are spread evenly, so their first bits cut them into partitions that are merged one
by one. A merged table leaves out what a single document holds: CIDEr weighs that as it does what no
document holds (`cider`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from ...datasets.cache import replacing
from ...datasets.errors import InputError
from ..base import Floats
from .tokens.corpus import Corpus, Ints

Halves = NDArray[np.uint64]

_MAGIC = b"captaudf"
#: Magic, documents, entries, partitions: eight bytes each.
_HEADER = 32
#: Odd, from the digits of the golden ratio and of √2: one for each half of a key.
_FACTORS = np.array([0x9E3779B97F4A7C15, 0x6A09E667F3BCC909], dtype=np.uint64)
#: Entries that are copied at a time.
_COPIED = 1 << 20


@dataclass(frozen=True)
class Counts:
    """In how many documents n-grams occur, ordered by key.

    Attributes:
        high, low: the halves of each key, shape (n,).
        counts: shape (n,).
        documents: how many documents were counted.
    """

    high: Halves
    low: Halves
    counts: NDArray[np.uint32]
    documents: int

    @property
    def nbytes(self) -> int:
        """Of all entries."""
        return self.high.nbytes + self.low.nbytes + self.counts.nbytes


def keys(corpus: Corpus, orders: int) -> list[Halves]:
    """The keys of a corpus' n-grams: for each length an array of shape (2, n_distinct), by number."""
    words = word_keys(corpus.vocabulary)
    found = [longer(np.zeros_like(words), words)]
    for n in range(2, orders + 1):
        heads, tails = np.divmod(corpus.grams(n).distinct, max(len(corpus.vocabulary), 1))
        found.append(longer(found[-1][:, heads], words[:, tails]))
    return found


def word_keys(words: Iterable[str]) -> Halves:
    """The hash of each word, shape (2, n_words)."""
    digests = b"".join(
        hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        for word in words
    )
    return np.frombuffer(digests, dtype="<u8").reshape(-1, 2).T.astype(np.uint64)


def longer(before: Halves, words: Halves) -> Halves:
    """The keys of n-grams and one word more each, shape (2, n); before a first word stand zeros."""
    # splitmix64's finaliser: it can be undone, so keys of one length that begin alike and end in
    # different words differ.
    with np.errstate(over="ignore"):
        x = before * _FACTORS[:, None] + words
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def counted(found: Sequence[Halves], held: Sequence[Floats], documents: int) -> Counts:
    """Of n-grams' keys, and in how many documents each occurs, both by length."""
    every = np.concatenate([np.empty((2, 0), np.uint64), *found], axis=1)
    counts = np.concatenate([np.empty(0), *held])
    kept = counts > 0
    return _merged(every[0, kept], every[1, kept], counts[kept].astype(np.int64), documents)


def of_file(counts: Mapping[tuple[str, ...], int], documents: int) -> Counts:
    """Of counted n-grams, as a saved file has them."""
    words = {word: i for i, word in enumerate(dict.fromkeys(w for ngram in counts for w in ngram))}
    of_word = word_keys(words)
    found: list[Halves] = []
    held: list[Floats] = []
    for n in sorted({len(ngram) for ngram in counts}):
        some = {ngram: count for ngram, count in counts.items() if len(ngram) == n}
        places = np.array([[words[w] for w in ngram] for ngram in some], dtype=np.int64)
        key = np.zeros((2, len(some)), dtype=np.uint64)
        for column in places.T:
            key = longer(key, of_word[:, column])
        found.append(key)
        held.append(np.array(list(some.values()), dtype=np.float64))
    return counted(found, held, documents)


def merged(parts: Iterable[Counts], least: int = 1) -> Counts:
    """The sums of counts, of n-grams that `least` documents hold."""
    some = list(parts)
    total = _merged(
        np.concatenate([np.empty(0, np.uint64), *(p.high for p in some)]),
        np.concatenate([np.empty(0, np.uint64), *(p.low for p in some)]),
        np.concatenate([np.empty(0, np.int64), *(p.counts.astype(np.int64) for p in some)]),
        sum(p.documents for p in some),
    )
    kept = total.counts >= least
    return Counts(total.high[kept], total.low[kept], total.counts[kept], total.documents)


def _merged(high: Halves, low: Halves, counts: Ints, documents: int) -> Counts:
    order = np.argsort(high, kind="stable")
    high, low = high[order], low[order]
    same = high[1:] == high[:-1]
    if (same & (low[1:] != low[:-1])).any():  # two keys with one half in common: order by both
        again = np.lexsort((low, high))
        order, high, low = order[again], high[again], low[again]
        same = high[1:] == high[:-1]
    first = np.flatnonzero(np.append([True] * bool(len(high)), ~(same & (low[1:] == low[:-1]))))
    sums = np.add.reduceat(counts[order], first) if len(first) else counts
    if len(sums) and int(sums.max()) > np.iinfo(np.uint32).max:
        raise InputError("an n-gram is in more than 4,294,967,295 documents; cut the set")
    return Counts(high[first], low[first], sums.astype(np.uint32), documents)


def write(path: Path, found: Counts, partitions: int) -> int:
    """Write counts, cut into partitions (a power of two) by the first bits of their keys.

    Returns:
        how many bytes were written.
    """
    ends = np.arange(1, partitions, dtype=np.uint64) << np.uint64(65 - partitions.bit_length())
    offsets = np.concatenate([[0], np.searchsorted(found.high, ends), [len(found.high)]])
    with replacing(path) as stream:
        _head(stream, found.documents, offsets)
        for column in (found.high, found.low, found.counts):
            stream.write(column.tobytes())
        return stream.tell()


def _head(stream: BinaryIO, documents: int, offsets: NDArray[np.int64]) -> None:
    stream.write(_MAGIC)
    stream.write(np.array([documents, offsets[-1], len(offsets) - 1], dtype="<i8").tobytes())
    stream.write(offsets.astype("<i8").tobytes())


def read(path: Path, partition: int) -> Counts:
    """One partition of what `write` wrote."""
    table = _Layout.of(path)
    begin, end = np.fromfile(path, "<i8", 2, offset=_HEADER + 8 * partition).tolist()
    size, entries = end - begin, table.entries
    return Counts(
        np.fromfile(path, "<u8", size, offset=table.start + 8 * begin),
        np.fromfile(path, "<u8", size, offset=table.start + 8 * (entries + begin)),
        np.fromfile(path, "<u4", size, offset=table.start + 16 * entries + 4 * begin),
        table.documents,
    )


def join(path: Path, parts: Sequence[Path], documents: int) -> None:
    """One table of merged partitions, each in a file of its own, in their order."""
    layouts = [_Layout.of(part) for part in parts]
    offsets = np.cumsum([0, *(layout.entries for layout in layouts)])
    with replacing(path) as stream:
        _head(stream, documents, offsets)
        for size, before in ((8, 0), (8, 8), (4, 16)):  # column by column
            for part, layout in zip(parts, layouts, strict=True):
                with part.open("rb") as source:
                    source.seek(layout.start + before * layout.entries)
                    left = size * layout.entries
                    while left:
                        chunk = source.read(min(left, _COPIED))
                        stream.write(chunk)
                        left -= len(chunk)


@dataclass(frozen=True)
class _Layout:
    documents: int
    entries: int
    start: int

    @classmethod
    def of(cls, path: Path) -> _Layout:
        with path.open("rb") as stream:
            head = stream.read(_HEADER)
        if head[: len(_MAGIC)] != _MAGIC or len(head) < _HEADER:
            raise InputError(f"{path}: no table of document frequencies; remove it")
        documents, entries, partitions = np.frombuffer(head, "<i8")[1:].tolist()
        return cls(documents, entries, _HEADER + 8 * (partitions + 1))


class Table:
    """A table on disk, read by memory map, so that processes share it.

    Args:
        path: what `write` or `join` wrote, ordered by key as a whole.
    """

    def __init__(self, path: Path) -> None:
        layout = _Layout.of(path)
        n = layout.entries
        self.documents = layout.documents

        def column(kind: str, offset: int) -> NDArray[np.uint64]:
            if not n:
                return np.empty(0, kind)
            return np.asarray(np.memmap(path, kind, "r", layout.start + offset, (n,)))

        self._high, self._low = column("<u8", 0), column("<u8", 8 * n)
        self._counts = column("<u4", 16 * n)

    def held(self, key: Halves) -> Floats:
        """In how many documents each n-gram occurs, shape (n,); 0 for one that is not there.

        Args:
            key: shape (2, n).
        """
        found = np.zeros(key.shape[1])
        if not len(self._high):
            return found
        order = np.argsort(key[0])
        high, low = key[0, order], key[1, order]
        place = np.searchsorted(self._high, high)
        left = np.arange(len(order))
        while left.size:
            left = left[place[left] < len(self._high)]
            left = left[self._high[place[left]] == high[left]]
            right = self._low[place[left]] == low[left]
            hits = left[right]
            found[order[hits]] = self._counts[place[hits]]
            left = left[~right]  # another key with this first half: the next one may be it
            place[left] += 1
        return found
