"""Tokenised rows as integers, on which BLEU, ROUGE-L and CIDEr are computed without loops over words.

Words are numbers, an n-gram is one number, and each distinct text and each distinct set of references
is held once. What a metric computes from it goes chunk by chunk (`Corpus.chunks`), so that memory does
not grow with the number of rows beyond the rows themselves.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...rows import Rows
from .ptb import tokenize

Ints = NDArray[np.int64]

#: Texts that are tokenised at a time.
TEXTS = 50_000

#: Words, with those of all references, that a chunk of rows holds at most (unless one row has more).
WORDS = 500_000


#: What a corpus is, beside its words.
_ARRAYS = ("words", "starts", "candidates", "sets", "members", "set_starts")


class Corpus:
    """Candidates and sets of references of some rows, as word numbers.

    Attributes:
        vocabulary: the number of each word.
        words: shape (n_words,), the words of all distinct texts, one text after the other.
        starts: shape (n_texts + 1,), where each text begins in `words`.
        odd: the words of a text as cut at blanks alone, where those differ: PTB tokens may hold other
            white space ("1 1/2" is one token), and an empty text has one empty word.
        candidates: shape (n_rows,), the text of each row's candidate.
        sets: shape (n_rows,), the set of references of each row.
        members: shape (n_members,), the texts of all sets, one set after the other.
        set_starts: shape (n_sets + 1,), where each set begins in `members`.
    """

    def __init__(self, candidates: Sequence[str], references: Sequence[tuple[str, ...]]) -> None:
        texts: dict[str, int] = {}
        sets: dict[tuple[str, ...], int] = {}
        self.candidates = _numbered(candidates, texts)
        self.sets = _numbered(references, sets)
        self.members = np.array(
            [texts.setdefault(r, len(texts)) for refs in sets for r in refs], dtype=np.int64
        )
        self.set_starts = _starts([len(refs) for refs in sets])
        self.vocabulary: dict[str, int] = {}
        self.odd: dict[int, list[str]] = {}
        self._tokenise(texts)
        self._lock = threading.Lock()
        self._grams: list[_Grams] = []

    @classmethod
    def of(cls, rows: Rows) -> Corpus:
        """The rows' corpus, made once for all metrics that share these rows."""
        return rows.compute_once("corpus", lambda: cls(rows.captions, rows.references))

    def _tokenise(self, texts: dict[str, int]) -> None:
        lengths: list[int] = []
        words: list[NDArray[np.int32]] = []
        left = iter(texts)
        while some := list(islice(left, TEXTS)):
            lines = tokenize(some)
            split = [line.split() for line in lines]
            for line, cut in zip(lines, split, strict=True):
                if not cut or " ".join(cut) != line:
                    self.odd[len(lengths)] = line.split(" ")
                lengths.append(len(cut))
            flat = [word for cut in split for word in cut]
            number = self.vocabulary
            for word in dict.fromkeys(flat):
                number.setdefault(word, len(number))
            words.append(np.fromiter(map(number.__getitem__, flat), np.int32, len(flat)))
        self.words = np.concatenate(words) if words else np.empty(0, np.int32)
        self.starts = _starts(lengths)

    def write(self, stream: BinaryIO) -> None:
        """What was read of the texts, for `read`."""
        odd = json.dumps({str(k): v for k, v in self.odd.items()})
        np.savez(
            stream,
            **{name: getattr(self, name) for name in _ARRAYS},
            vocabulary=_bytes("\n".join(self.vocabulary)),  # no word holds a line end
            odd=_bytes(odd),
        )

    @classmethod
    def read(cls, path: Path) -> Corpus:
        """What `write` wrote."""
        corpus = cls([], [])
        with np.load(path) as found:
            for name in _ARRAYS:
                setattr(corpus, name, found[name])
            words = found["vocabulary"].tobytes().decode("utf-8", "surrogatepass").split("\n")
            odd = json.loads(found["odd"].tobytes())
        corpus.vocabulary = {word: i for i, word in enumerate(words)} if words != [""] else {}
        corpus.odd = {int(k): v for k, v in odd.items()}
        return corpus

    @property
    def lengths(self) -> Ints:
        """Words of each text, shape (n_texts,)."""
        return np.diff(self.starts)

    def grams(self, n: int) -> _Grams:
        """The n-grams of all texts."""
        with self._lock:
            while len(self._grams) < n:
                self._grams.append(self._next_order())
            return self._grams[n - 1]

    def _next_order(self) -> _Grams:
        """From the n-grams of one length those of the next: the n-gram before, and one more word."""
        n = len(self._grams) + 1
        if n == 1:
            return _Grams(self.words, np.arange(len(self.vocabulary), dtype=np.int64))
        before = self._grams[-1].at
        at = np.full(len(self.words), -1, dtype=np.int32)
        # In stretches, first numbered each by itself: tables that fit the processor's cache, and time
        # that grows with the words alone.
        stretches = list(_sliced(self.lengths))
        found: list[Ints] = []
        for texts in stretches:
            place = np.arange(int(self.starts[texts.start]), int(self.starts[texts.stop]))
            left = np.repeat(self.starts[texts.start + 1 : texts.stop + 1], self.lengths[texts])
            place = place[left - place >= n]
            keys = before[place].astype(np.int64) * len(self.vocabulary) + self.words[place + n - 1]
            at[place], distinct = pd.factorize(keys)
            found.append(np.asarray(distinct, dtype=np.int64))
        every = ascending(np.concatenate([np.empty(0, np.int64), *found]))
        # Numbered by appearance, so that what a chunk of rows looks up lies close together.
        numbers = np.full(len(every), -1, dtype=np.int32)
        size = 0
        for texts, distinct in zip(stretches, found, strict=True):
            order = np.argsort(distinct)
            rank = np.searchsorted(every, distinct[order])
            new = rank[numbers[rank] < 0]
            numbers[new] = np.arange(size, size + len(new))
            size += len(new)
            number = np.empty(len(distinct) + 1, dtype=np.int32)
            number[order] = numbers[rank]
            number[-1] = -1  # of no n-gram, whose number is -1 as well
            here = slice(self.starts[texts.start], self.starts[texts.stop])
            at[here] = number[at[here]]
        distinct = np.empty_like(every)
        distinct[numbers] = every
        return _Grams(at, distinct)

    def ngrams(self, n: int) -> list[tuple[str, ...]]:
        """The words of each distinct n-gram, by its number."""
        spoken = list(self.vocabulary)
        if n == 1:
            return [(word,) for word in spoken]
        before = self.ngrams(n - 1)
        heads, tails = np.divmod(self.grams(n).distinct, len(spoken))
        return [
            (*before[head], spoken[tail])
            for head, tail in zip(heads.tolist(), tails.tolist(), strict=True)
        ]

    def look_up(self, counts: Mapping[tuple[str, ...], int], n: int) -> NDArray[np.float64]:
        """The count of each distinct n-gram, by its number; 0 for one that is not there."""
        return np.array([counts.get(ngram, 0) for ngram in self.ngrams(n)], dtype=np.float64)

    def chunks(self) -> Iterator[slice]:
        """Slices of the rows, each of few enough words to work on at a time."""
        return _sliced(self.lengths[self.candidates] + self._words_of_sets()[self.sets])

    def set_chunks(self) -> Iterator[Ints]:
        """The sets of references, so many at a time that there are few enough words."""
        for chunk in _sliced(self._words_of_sets()):
            yield np.arange(chunk.start, chunk.stop)

    def _words_of_sets(self) -> Ints:
        ends = np.concatenate([[0], np.cumsum(self.lengths[self.members])])
        return np.diff(ends[self.set_starts])

    def count(self, texts: Ints, n: int) -> Counted:
        """How often each text holds each of its n-grams.

        Args:
            texts: shape (n,), distinct.
        """
        sizes = np.maximum(self.lengths[texts] - n + 1, 0)
        places = spread(self.starts[texts], sizes)
        owners = np.repeat(np.arange(len(texts)), sizes)
        grams = self.grams(n)
        keys = owners * len(grams.distinct) + grams.at[places]
        _, first, counts = np.unique(keys, return_index=True, return_counts=True)
        # In the order in which a reader meets them, in which pycocoevalcap adds them up.
        order = np.argsort(first)
        first = first[order]
        owners = owners[first]
        return Counted(
            owners,
            grams.at[places[first]].astype(np.int64),
            counts[order],
            _starts(np.bincount(owners, minlength=len(texts))),
        )

    def matches(self, chunk: slice, n: int) -> Matches:
        """The n-grams that the rows' candidates share with their references."""
        sets, of_set = np.unique(self.sets[chunk], return_inverse=True)
        size = np.diff(self.set_starts)[sets]
        members = spread(self.set_starts[sets], size)
        texts, of_text = np.unique(self.members[members], return_inverse=True)
        counted = self.count(texts, n)
        held = np.diff(counted.starts)[of_text]
        entries = spread(counted.starts[of_text], held)
        wide = len(self.grams(n).distinct)
        keys = np.repeat(np.repeat(np.arange(len(sets)), size), held) * wide + counted.gram[entries]
        order = np.argsort(keys, kind="stable")
        keys, counts = keys[order], counted.count[entries][order]
        groups = np.flatnonzero(np.diff(keys, prepend=-1))
        ours, of_ours = np.unique(self.candidates[chunk], return_inverse=True)
        mine = self.count(ours, n)
        held_by_row = np.diff(mine.starts)[of_ours]
        entry = spread(mine.starts[of_ours], held_by_row)
        row = np.repeat(np.arange(len(of_ours)), held_by_row)
        wanted = of_set[row] * wide + mine.gram[entry]
        group = np.searchsorted(keys[groups], wanted)
        found = np.flatnonzero(np.append(keys[groups], -1)[group] == wanted)
        group = group[found]
        ends = np.append(groups[1:], len(keys))
        return Matches(
            row=row[found],
            gram=mine.gram[entry[found]],
            count=mine.count[entry[found]],
            most=np.maximum.reduceat(counts, groups)[group] if len(groups) else counts,
            begin=groups[group],
            end=ends[group],
            member=np.repeat(members, held)[order],
            member_count=counts,
        )


@dataclass(frozen=True)
class _Grams:
    """n-grams of one length: `at` is the number of the one that begins at each word, -1 for none.

    `distinct` holds, by number, the number of the (n-1)-gram before times the size of the vocabulary
    plus the last word; for single words the word itself.
    """

    at: NDArray[np.int32]
    distinct: Ints


@dataclass(frozen=True)
class Counted:
    """n-grams of some texts: each text's entries from `starts[i]` to `starts[i + 1]`."""

    text: Ints
    gram: Ints
    count: Ints
    starts: Ints


@dataclass(frozen=True)
class Matches:
    """Shared n-grams: one entry for each row and n-gram that is in a reference too.

    Entry i is n-gram `gram[i]`, which row `row[i]`'s candidate holds `count[i]` times, and no
    reference more than `most[i]` times; the references that hold it are `member[begin[i]:end[i]]`
    (places in `Corpus.members`), as often as `member_count` says.
    """

    row: Ints
    gram: Ints
    count: Ints
    most: Ints
    begin: Ints
    end: Ints
    member: Ints
    member_count: Ints


def spread(starts: Ints, sizes: Ints) -> Ints:
    """`[2, 7]` and `[3, 2]` → `[2, 3, 4, 7, 8]`: the places of some stretches, one after another."""
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - (ends - sizes), sizes) + np.arange(total)


def ascending(values: Ints) -> Ints:
    """The distinct values. By sorting: NumPy's `unique` hashes here, which is many times as slow."""
    values = np.sort(values)
    return values[np.diff(values, prepend=-1) > 0]


def added(places: Ints, values: NDArray[Any], size: int) -> NDArray[np.float64]:
    """The sum of the values of each place, added in their order, shape (size,)."""
    sums = np.bincount(places, weights=values, minlength=size)
    return np.asarray(sums, dtype=np.float64)  # of nothing NumPy makes whole numbers


def _sliced(cost: Ints) -> Iterator[slice]:
    """Slices that cost `WORDS` at most each, unless one thing costs more."""
    total = np.cumsum(cost + 1)
    begin = 0
    while begin < len(total):
        done = total[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(total, done + WORDS, side="right")))
        yield slice(begin, end)
        begin = end


def _numbered(values: Sequence[Any], numbers: dict[Any, int]) -> Ints:
    """The number of each value, new ones in order of appearance."""
    return np.fromiter((numbers.setdefault(v, len(numbers)) for v in values), np.int64, len(values))


def _starts(sizes: Any) -> Ints:
    return np.concatenate([[0], np.cumsum(np.asarray(sizes, dtype=np.int64))])


def _bytes(text: str) -> NDArray[np.uint8]:
    return np.frombuffer(text.encode("utf-8", "surrogatepass"), dtype=np.uint8)
