"""Tokenised rows as integers, on which BLEU, ROUGE-L and CIDEr are computed without loops over words.

Words are numbers, an n-gram is one number, and each distinct text and each distinct set of references
is stored once. Metrics compute chunk by chunk (`Corpus.chunks`), so that memory does not grow with the
number of rows beyond the rows themselves. A metric begins with `Corpus.of_rows`; one whose scores are a reward with
`ReferenceCorpus`, whose n-grams are numbered once for captions that come batch by batch.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...rows import Rows, SharedResults
from .ptb import Tokenizer, tokenize

Ints = NDArray[np.int64]

#: Texts that are tokenised at a time.
TEXTS = 50_000

#: The most words of a chunk of rows, with those of all references (unless one row has more).
WORDS = 500_000


@dataclass(frozen=True)
class TokenTable:
    """The words of some texts.

    Attributes:
        vocabulary: the number of each word.
        words: shape (n_words,), the words of all texts, one text after the other.
        starts: shape (n_texts + 1,), the start of each text in `words`.
        blank_split: by text, its words if it is split at blanks alone, where those differ: PTB tokens may
            have other white space inside ("1 1/2" is one token), and an empty text has one empty word.
    """

    vocabulary: dict[str, int]
    words: NDArray[np.int32]
    starts: Ints
    blank_split: dict[int, list[str]]

    @classmethod
    def tokenize(cls, texts: Iterator[str], tokenizer: Tokenizer = "captau") -> TokenTable:
        """Tokenise texts, `TEXTS` at a time."""
        lengths: list[int] = []
        words: list[NDArray[np.int32]] = []
        vocabulary: dict[str, int] = {}
        blank_split: dict[int, list[str]] = {}
        while batch := list(islice(texts, TEXTS)):
            lines = tokenize(batch, tokenizer)
            flat = " ".join(lines).split(" ")
            distinct = dict.fromkeys(flat)
            if all(word.split() == [word] for word in distinct):
                lengths += [line.count(" ") + 1 for line in lines]
            else:  # white space inside tokens, or texts without words
                flat = []
                for line in lines:
                    split_line = line.split()
                    if split_line != line.split(" "):
                        blank_split[len(lengths)] = line.split(" ")
                    lengths.append(len(split_line))
                    flat += split_line
                distinct = dict.fromkeys(flat)

            for word in distinct:
                vocabulary.setdefault(word, len(vocabulary))
            words.append(np.fromiter(map(vocabulary.__getitem__, flat), np.int32, len(flat)))

        all_words = np.concatenate(words) if words else np.empty(0, np.int32)
        return cls(vocabulary, all_words, find_starts(lengths), blank_split)


class Corpus(SharedResults):
    """Candidates and sets of references of some rows, as word numbers.

    Attributes:
        vocabulary, words, starts, blank_split: the words of all distinct texts, as in `TokenTable`.
        candidates: shape (n_rows,), the text of each row's candidate.
        sets: shape (n_rows,), the set of references of each row.
        members: shape (n_members,), the texts of all sets, one set after the other.
        set_starts: shape (n_sets + 1,), the start of each set in `members`.
    """

    def __init__(
        self,
        tokens: TokenTable,
        candidates: Ints,
        sets: Ints,
        members: Ints,
        set_starts: Ints,
        grams: list[NgramTable] | None = None,
    ) -> None:
        super().__init__()
        self.vocabulary = tokens.vocabulary
        self.blank_split = tokens.blank_split
        self.words = tokens.words
        self.starts = tokens.starts
        self.candidates = candidates
        self.sets = sets
        self.members = members
        self.set_starts = set_starts
        self._lock = threading.Lock()
        self._grams = grams or []

    @classmethod
    def tokenize(
        cls,
        captions: Sequence[str],
        references: Sequence[tuple[str, ...]],
        tokenizer: Tokenizer = "captau",
    ) -> Corpus:
        """Make a corpus of captions and the references of each."""
        texts: dict[str, int] = {}
        sets: dict[tuple[str, ...], int] = {}
        candidates = number_values(captions, texts)
        set_of_row = number_values(references, sets)
        members = number_values(list(chain.from_iterable(sets)), texts)
        set_starts = find_starts([len(refs) for refs in sets])

        tokens = TokenTable.tokenize(iter(texts), tokenizer)
        return cls(tokens, candidates, set_of_row, members, set_starts)

    @classmethod
    def of_rows(cls, rows: Rows, tokenizer: Tokenizer = "captau") -> Corpus:
        """Return the rows' corpus, which all metrics that score them by this tokeniser share."""
        return rows.compute_once(
            corpus_key(tokenizer), lambda: cls.tokenize(rows.captions, rows.references, tokenizer)
        )

    def write(self, stream: BinaryIO) -> None:
        """Write the corpus as NumPy arrays, for `read`."""
        blank_split = json.dumps({str(text): words for text, words in self.blank_split.items()})
        np.savez(
            stream,
            words=self.words,
            starts=self.starts,
            candidates=self.candidates,
            sets=self.sets,
            members=self.members,
            set_starts=self.set_starts,
            vocabulary=_encode("\n".join(self.vocabulary)),  # no word has a line end
            odd=_encode(blank_split),
        )

    @classmethod
    def read(cls, path: Path) -> Corpus:
        """Read a file that `write` wrote."""
        with np.load(path) as arrays:
            words = arrays["vocabulary"].tobytes().decode("utf-8", "surrogatepass").split("\n")
            if words == [""]:  # of no words at all, whose joined text is empty
                words = []
            blank_split = json.loads(arrays["odd"].tobytes())
            tokens = TokenTable(
                vocabulary={word: number for number, word in enumerate(words)},
                words=arrays["words"],
                starts=arrays["starts"],
                blank_split={int(text): words for text, words in blank_split.items()},
            )
            return cls(
                tokens,
                candidates=arrays["candidates"],
                sets=arrays["sets"],
                members=arrays["members"],
                set_starts=arrays["set_starts"],
            )

    @property
    def lengths(self) -> Ints:
        """The number of words of each text, shape (n_texts,)."""
        return np.diff(self.starts)

    def grams(self, n: int) -> NgramTable:
        """Return the n-grams of all texts, which are numbered once for all metrics."""
        with self._lock:
            while len(self._grams) < n:
                self._grams.append(self._number_next_order())
            return self._grams[n - 1]

    def _number_next_order(self) -> NgramTable:
        """Number the n-grams of the next length: each is an n-gram of the last, and one more word."""
        n = len(self._grams) + 1
        if n == 1:
            return NgramTable(self.words, np.arange(len(self.vocabulary), dtype=np.int64))

        prefix_at = self._grams[-1].ngram_at
        ngram_at = np.full(len(self.words), -1, dtype=np.int32)

        # In stretches, each first numbered by itself: tables that fit the processor's cache, and time
        # that only grows with the number of words.
        stretches = list(_slices(self.lengths))
        stretch_keys: list[Ints] = []
        for texts in stretches:
            position = np.arange(int(self.starts[texts.start]), int(self.starts[texts.stop]))
            ends = np.repeat(self.starts[texts.start + 1 : texts.stop + 1], self.lengths[texts])
            position = position[ends - position >= n]

            keys = prefix_at[position].astype(np.int64) * len(self.vocabulary)
            ngram_at[position], distinct = pd.factorize(keys + self.words[position + n - 1])
            stretch_keys.append(np.asarray(distinct, dtype=np.int64))
        all_keys = sorted_unique(np.concatenate([np.empty(0, np.int64), *stretch_keys]))

        # Numbered by appearance, so that the n-grams of a chunk of rows lie close together.
        numbers = np.full(len(all_keys), -1, dtype=np.int32)
        size = 0
        for texts, keys in zip(stretches, stretch_keys, strict=True):
            sorted_keys, order = sort_stably(keys)
            rank = np.searchsorted(all_keys, sorted_keys)
            new = rank[numbers[rank] < 0]
            numbers[new] = np.arange(size, size + len(new))
            size += len(new)

            number = np.empty(len(keys) + 1, dtype=np.int32)
            number[order] = numbers[rank]
            number[-1] = -1  # for places without an n-gram, whose number is -1 as well
            stretch = slice(self.starts[texts.start], self.starts[texts.stop])
            ngram_at[stretch] = number[ngram_at[stretch]]

        distinct = np.empty_like(all_keys)
        distinct[numbers] = all_keys
        return NgramTable(ngram_at, distinct)

    def ngrams(self, n: int) -> list[tuple[str, ...]]:
        """Return the words of each distinct n-gram, by its number."""
        words = list(self.vocabulary)
        if n == 1:
            return [(word,) for word in words]

        prefixes = self.ngrams(n - 1)
        heads, tails = np.divmod(self.grams(n).distinct, len(words))
        return [
            (*prefixes[head], words[tail])
            for head, tail in zip(heads.tolist(), tails.tolist(), strict=True)
        ]

    def look_up(self, counts: Mapping[tuple[str, ...], int], n: int) -> NDArray[np.float64]:
        """Return the count of each distinct n-gram, by its number; 0 for those that `counts` lacks."""
        return np.array([counts.get(ngram, 0) for ngram in self.ngrams(n)], dtype=np.float64)

    def chunks(self) -> Iterator[slice]:
        """Yield slices of the rows, each of few enough words to work on at a time."""
        return _slices(self.lengths[self.candidates] + self._set_words()[self.sets])

    def set_chunks(self) -> Iterator[Ints]:
        """Yield the sets of references, as many at a time as have few enough words."""
        for chunk in _slices(self._set_words()):
            yield np.arange(chunk.start, chunk.stop)

    def _set_words(self) -> Ints:
        ends = np.concatenate([[0], np.cumsum(self.lengths[self.members])])
        return np.diff(ends[self.set_starts])

    def members_of(self, sets: Ints) -> tuple[Ints, Ints]:
        """Return the places in `members` of some sets, one set after the other, and each set's size."""
        sizes = np.diff(self.set_starts)[sets]
        return spread(self.set_starts[sets], sizes), sizes

    def count(self, texts: Ints, n: int) -> NgramCounts:
        """Count each text's n-grams.

        Args:
            texts: shape (n,), distinct.
        """
        sizes = np.maximum(self.lengths[texts] - n + 1, 0)
        places = spread(self.starts[texts], sizes)
        owners = np.repeat(np.arange(len(texts)), sizes)

        grams = self.grams(n)
        keys = owners * len(grams.distinct) + grams.ngram_at[places]

        sorted_keys, order = sort_stably(keys)
        begins = np.flatnonzero(np.diff(sorted_keys, prepend=-1))

        # In the order of their first places, in which pycocoevalcap adds them up.
        count_at_first_place = np.zeros(len(keys), dtype=np.int32)
        count_at_first_place[order[begins]] = np.diff(np.append(begins, len(keys)))
        first = np.flatnonzero(count_at_first_place)
        owners = owners[first]

        return NgramCounts(
            text=owners.astype(np.int32),
            gram=grams.ngram_at[places[first]],
            count=count_at_first_place[first],
            starts=find_starts(np.bincount(owners, minlength=len(texts))),
        )

    def matches(self, chunk: slice, n: int) -> NgramMatches:
        """Match the n-grams of the rows' candidates with those of their references.

        BLEU and CIDEr share the matches of a corpus of one chunk.
        """
        if chunk != slice(0, len(self.candidates)):
            return self._match(chunk, n)
        return self.compute_once(f"matches {n}", lambda: self._match(chunk, n))

    def _match(self, chunk: slice, n: int) -> NgramMatches:
        sets, set_of_row = np.unique(self.sets[chunk], return_inverse=True)
        members, sizes = self.members_of(sets)
        references = self.members[members]
        candidates = self.candidates[chunk]
        texts = sorted_unique(np.concatenate([references, candidates]))
        counts = self.count(texts, n)
        n_grams = np.diff(counts.starts)
        base = len(self.grams(n).distinct)

        # The entries of the references, grouped by set and n-gram.
        text_of_member = np.searchsorted(texts, references)
        n_grams_of_member = n_grams[text_of_member]
        entries = spread(counts.starts[text_of_member], n_grams_of_member)
        set_of_entry = np.repeat(np.repeat(np.arange(len(sets)), sizes), n_grams_of_member)
        keys, order = sort_stably(set_of_entry * base + counts.gram[entries])
        member_counts = counts.count[entries[order]]
        groups = np.flatnonzero(np.diff(keys, prepend=-1))

        # The entries of the candidates, and the group that each shares its n-gram with.
        text_of_row = np.searchsorted(texts, candidates)
        n_grams_of_row = n_grams[text_of_row]
        entry = spread(counts.starts[text_of_row], n_grams_of_row)
        row = np.repeat(np.arange(len(text_of_row)), n_grams_of_row)
        candidate_keys = set_of_row[row] * base + counts.gram[entry]
        group = np.searchsorted(keys[groups], candidate_keys)
        is_shared = np.append(keys[groups], -1)[group] == candidate_keys
        group = group[is_shared]
        entry = entry[is_shared]
        if len(groups):
            max_counts = np.maximum.reduceat(member_counts, groups)[group]
        else:  # NumPy reduces no empty array; there is no entry
            max_counts = member_counts

        return NgramMatches(
            row=row[is_shared],
            gram=counts.gram[entry],
            count=counts.count[entry],
            max_count=max_counts,
            begin=groups[group],
            end=np.append(groups[1:], len(keys))[group],
            member=np.repeat(members.astype(np.int32), n_grams_of_member)[order],
            member_count=member_counts,
            texts=texts,
            counts=counts,
        )


@dataclass(frozen=True)
class NgramTable:
    """The n-grams of one length.

    Attributes:
        ngram_at: the number of the n-gram that begins at each word, -1 for none.
        distinct: by number, the number of the (n-1)-gram before times the size of the vocabulary plus
            the last word; for single words the word itself.
    """

    ngram_at: NDArray[np.int32]
    distinct: Ints


@dataclass(frozen=True)
class NgramCounts:
    """Counted n-grams of some texts: each text's entries are `starts[i]` to `starts[i + 1]`."""

    text: NDArray[np.int32]
    gram: NDArray[np.int32]
    count: NDArray[np.int32]
    starts: Ints


@dataclass(frozen=True)
class NgramMatches:
    """Shared n-grams: an entry for each row and n-gram that is in a reference too.

    Entry i is n-gram `gram[i]`, which occurs `count[i]` times in the candidate of row `row[i]`, and at most
    `max_count[i]` times in one reference; the references with it are `member[begin[i]:end[i]]` (places
    in `Corpus.members`), as often as `member_count` says. `counts` are those of the distinct candidates and
    references, `texts`, sorted.
    """

    row: Ints
    gram: NDArray[np.int32]
    count: NDArray[np.int32]
    max_count: NDArray[np.int32]
    begin: Ints
    end: Ints
    member: NDArray[np.int32]
    member_count: NDArray[np.int32]
    texts: Ints
    counts: NgramCounts


def corpus_key(tokenizer: Tokenizer) -> str:
    """Return the key under which rows share the corpus of a tokeniser."""
    return f"corpus {tokenizer}"


def spread(starts: Ints, sizes: Ints) -> Ints:
    """Return the places of some stretches, one after another: `[2, 7]`, `[3, 2]` → `[2, 3, 4, 7, 8]`."""
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - (ends - sizes), sizes) + np.arange(total)


def sorted_unique(values: Ints) -> Ints:
    """Return the distinct values, by sorting: NumPy's `unique` hashes here, which is far slower."""
    values = np.sort(values)
    return values[np.diff(values, prepend=-1) > 0]


def sort_stably(keys: Ints) -> tuple[Ints, Ints]:
    """Return keys of at least 0 in order, and the place of each before; equal ones stay in their order.

    Key and place are sorted as one number, where they fit into one: a tenth of the time of NumPy's stable `argsort`.
    """
    n_bits = len(keys).bit_length()
    if int(keys.max(initial=0)).bit_length() + n_bits > 63:
        order = np.argsort(keys, kind="stable")
        return keys[order], order

    pairs = np.sort((keys << n_bits) | np.arange(len(keys)))
    return pairs >> n_bits, pairs & ((1 << n_bits) - 1)


def sum_by_place(places: NDArray[Any], values: NDArray[Any], size: int) -> NDArray[np.float64]:
    """Return the sum of the values of each position, added in their order, shape (size,)."""
    sums = np.bincount(places, weights=values, minlength=size)
    return np.asarray(sums, dtype=np.float64)  # without values NumPy returns integers


def _slices(costs: Ints) -> Iterator[slice]:
    """Yield slices of at most `WORDS` each, unless one entry costs more."""
    total = np.cumsum(costs + 1)
    begin = 0
    while begin < len(total):
        cost_before = total[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(total, cost_before + WORDS, side="right")))
        yield slice(begin, end)
        begin = end


def number_values(values: Sequence[Any], numbers: dict[Any, int]) -> Ints:
    """Return the number of each value; new ones are numbered in order of appearance."""
    return np.fromiter(
        (numbers.setdefault(value, len(numbers)) for value in values), np.int64, len(values)
    )


def find_starts(sizes: Any) -> Ints:
    """Return the start of each stretch of some sizes, and the end of the last."""
    return np.concatenate([[0], np.cumsum(np.asarray(sizes, dtype=np.int64))])


def _encode(text: str) -> NDArray[np.uint8]:
    return np.frombuffer(text.encode("utf-8", "surrogatepass"), dtype=np.uint8)
