"""Document frequencies of more n-grams than memory holds, in a table on disk that processes share.

The key of an n-gram has 128 bits, made of the BLAKE2b hashes of its words. That any two of 10⁸ n-grams share a key has a
probability of about 10⁻²³; but for that, every count is exact. A table may leave out n-grams of a single document:
`cider` weighs them as n-grams of none.

`benchmarks.large` counts in shards, adds the counts, and scores with the table.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Mapping
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base import Floats
from .tokens.corpus import Corpus

#: Keys as two halves, shape (2, n), or one half of them, shape (n,).
KeyHalves = NDArray[np.uint64]
#: The halves of keys, and the number of documents that have each n-gram, all of shape (n,).
Counts = tuple[KeyHalves, KeyHalves, NDArray[np.uint32]]

#: Odd, from the digits of the golden ratio and of √2: one for each half of a key.
_FACTORS = np.array([0x9E3779B97F4A7C15, 0x6A09E667F3BCC909], dtype=np.uint64)
#: Keys that are searched at a time.
_SEARCH_RUN = 4096


def ngram_keys(corpus: Corpus, orders: int) -> list[KeyHalves]:
    """Return the keys of a corpus' n-grams: for each length shape (2, n_distinct), by number."""
    words = word_keys(corpus.vocabulary)
    keys = [_append_words(np.zeros_like(words), words)]
    for n in range(2, orders + 1):
        heads, tails = np.divmod(corpus.grams(n).distinct, len(corpus.vocabulary))
        keys.append(_append_words(keys[-1][:, heads], words[:, tails]))
    return keys


def word_keys(words: Iterable[str]) -> KeyHalves:
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


def key_saved_counts(counts: Mapping[tuple[str, ...], int]) -> Counts:
    """Return the counts of a saved file's document frequencies, ordered by key."""
    words: dict[str, int] = {}
    for word in chain.from_iterable(counts):
        words.setdefault(word, len(words))
    hashes = word_keys(words)

    keys = [np.empty((2, 0), np.uint64)]
    documents: list[int] = []
    ngrams_by_length: dict[int, list[tuple[str, ...]]] = {}
    for ngram in counts:
        ngrams_by_length.setdefault(len(ngram), []).append(ngram)

    for _, ngrams in sorted(ngrams_by_length.items()):
        numbers = np.array([[words[word] for word in ngram] for ngram in ngrams])

        key = np.zeros((2, len(ngrams)), dtype=np.uint64)
        for column in numbers.T:
            key = _append_words(key, hashes[:, column])
        keys.append(key)
        documents += [counts[ngram] for ngram in ngrams]

    high, low = np.concatenate(keys, axis=1)
    order = np.lexsort((low, high))
    return high[order], low[order], np.array(documents, np.uint32)[order]


def write_table(folder: Path, documents: int, n_ngrams: int, stretches: Iterable[Counts]) -> None:
    """Write a table, whole or not at all, in the place of an earlier one.

    Args:
        folder: where it will be.
        documents: the number of documents.
        n_ngrams: the number of n-grams.
        stretches: their counts, ordered by key as a whole.
    """
    unfinished = folder.with_name(f"{folder.name}.tmp")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    np.save(unfinished / "documents.npy", documents)

    # NumPy cannot map a file of no numbers.
    size = max(n_ngrams, 1)
    columns: list[Any] = []
    for name, dtype in (("high", np.uint64), ("low", np.uint64), ("counts", np.uint32)):
        path = unfinished / f"{name}.npy"
        columns.append(np.lib.format.open_memmap(path, "w+", dtype, (size,)))
    end = 0
    for stretch in stretches:
        begin = end
        end += len(stretch[0])
        for column, values in zip(columns, stretch, strict=True):
            column[begin:end] = values
    for column in columns:
        column.flush()

    # A run that was killed may have left a whole table before it could store that it had done so.
    shutil.rmtree(folder, ignore_errors=True)
    unfinished.rename(folder)


class FrequencyTable:
    """A table on disk, read by memory map, so that processes share it.

    Args:
        folder: where `write_table` wrote it.
    """

    def __init__(self, folder: Path) -> None:
        self.documents = int(np.load(folder / "documents.npy"))
        self._high = _read_column(folder, "high")
        self._low = _read_column(folder, "low")
        self._counts = _read_column(folder, "counts")

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


def _read_column(folder: Path, name: str) -> NDArray[Any]:
    # A plain array is faster to slice than a map.
    return np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r"))
