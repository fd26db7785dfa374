"""References of images whose n-grams are numbered once, for captions that come batch by batch.

A metric whose scores are a reward begins with `ReferenceCorpus`; the numbers are those of `corpus`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .corpus import (
    Corpus,
    Ints,
    NgramTable,
    TokenTable,
    find_starts,
    number_values,
    spread,
)
from .ptb import Tokenizer


@dataclass(frozen=True)
class CaptionBatch:
    """Captions beside the references of their images.

    Attributes:
        corpus: a row a caption; its n-grams have the numbers of the `ReferenceCorpus`.
        new_ngrams: by length, the n-grams that no reference has; their numbers follow the others'.
    """

    corpus: Corpus
    new_ngrams: list[list[tuple[str, ...]]]


class ReferenceCorpus:
    """References of images, numbered once, beside which batch after batch of captions is set.

    Args:
        references: of each image.
        orders: up to which length n-grams are numbered.
        tokenizer: of references and captions.
    """

    def __init__(
        self, references: Sequence[tuple[str, ...]], orders: int, tokenizer: Tokenizer = "captau"
    ) -> None:
        self._tokenizer: Tokenizer = tokenizer
        self.corpus = Corpus.tokenize([""] * len(references), references, tokenizer)
        self._ranks: list[Ints] = []
        self._sorted_keys: list[Ints] = []
        for n in range(1, orders + 1):
            keys = self.corpus.grams(n).distinct
            self._ranks.append(np.argsort(keys))
            self._sorted_keys.append(keys[self._ranks[-1]])

    def set_captions(self, captions: Sequence[str], images: Ints) -> CaptionBatch:
        """Set captions beside the references of their images, shape (n_captions,)."""
        corpus = self.corpus
        sets, set_of_row = np.unique(corpus.sets[images], return_inverse=True)
        members, sizes = corpus.members_of(sets)
        texts, text_of_member = np.unique(corpus.members[members], return_inverse=True)
        lengths = corpus.starts[texts + 1] - corpus.starts[texts]
        places = spread(corpus.starts[texts], lengths)
        distinct_captions: dict[str, int] = {}
        candidates = len(texts) + number_values(captions, distinct_captions)
        tokens = TokenTable.tokenize(iter(distinct_captions), self._tokenizer)
        starts = find_starts(np.concatenate([lengths, np.diff(tokens.starts)]))
        grams, new_ngrams = self._number_ngrams(tokens, places)
        table = TokenTable({}, grams[0].ngram_at, starts, {})
        batch = Corpus(table, candidates, set_of_row, text_of_member, find_starts(sizes), grams)
        return CaptionBatch(batch, new_ngrams)

    def _number_ngrams(
        self, tokens: TokenTable, places: Ints
    ) -> tuple[list[NgramTable], list[list[tuple[str, ...]]]]:
        """Number the captions' n-grams behind those of the references' words at `places`."""
        vocabulary, spelling = self.corpus.vocabulary, list(tokens.vocabulary)
        numbers = np.array([vocabulary.get(word, -1) for word in spelling], dtype=np.int64)
        (new_words,) = np.nonzero(numbers < 0)
        numbers[new_words] = len(vocabulary) + np.arange(len(new_words))
        base = len(vocabulary) + len(new_words)
        words = numbers[tokens.words] if spelling else np.empty(0, np.int64)
        spelt_words = [spelling[word] for word in tokens.words.tolist()]
        ngram_at = words
        tables = [_join_tables(self.corpus.words[places], words, base)]
        new_ngrams = [[(spelling[i],) for i in new_words.tolist()]]
        position = np.arange(len(words))
        words_left = np.repeat(tokens.starts[1:], np.diff(tokens.starts)) - position
        for n in range(2, len(self._ranks) + 1):
            position = position[words_left[position] >= n]
            prefixes, last_words = ngram_at[position], words[position + n - 1]
            is_shared, ngrams = self._look_up(n, prefixes, last_words)
            keys = prefixes[~is_shared] * base + last_words[~is_shared]
            _, first, ngrams[~is_shared] = np.unique(keys, return_index=True, return_inverse=True)
            ngrams[~is_shared] += len(self._ranks[n - 1])
            ngram_at = np.full(len(words), -1)
            ngram_at[position] = ngrams
            begins = position[~is_shared][first].tolist()
            new_ngrams.append([tuple(spelt_words[b : b + n]) for b in begins])
            size = len(self._ranks[n - 1]) + len(begins)
            tables.append(_join_tables(self.corpus.grams(n).ngram_at[places], ngram_at, size))
        return tables, new_ngrams

    def _look_up(self, n: int, prefixes: Ints, words: Ints) -> tuple[NDArray[np.bool_], Ints]:
        """Return which n-grams some reference has, and their numbers (0 for the others)."""
        sorted_keys, size = self._sorted_keys[n - 1], len(self.corpus.vocabulary)
        if not len(sorted_keys):
            return np.zeros(len(words), dtype=bool), np.zeros(len(words), dtype=np.int64)
        keys = prefixes * size + words
        rank = np.minimum(np.searchsorted(sorted_keys, keys), len(sorted_keys) - 1)
        is_shared = (words < size) & (sorted_keys[rank] == keys)
        return is_shared, np.where(is_shared, self._ranks[n - 1][rank], 0)


def _join_tables(references: NDArray[Any], captions: Ints, size: int) -> NgramTable:
    """Make a table of `size` n-grams whose spelling nobody asks for."""
    ngram_at = np.concatenate([references, captions]).astype(np.int32)
    return NgramTable(ngram_at, np.broadcast_to(np.int64(-1), size))
