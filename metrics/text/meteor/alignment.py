"""Alignment of tokenised texts, and METEOR's statistics of it.

As Denkowski and Lavie 2014 describe it; where they leave a choice open, as the jar in pycocoevalcap
behaves with `-l en -norm`. `metric` calls `Aligner.compute_statistics`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from ..tokens.corpus import spread
from .index import Index
from .words import Ints, WordProperties, find_words, make_stemmer, split_words

#: Rows that are aligned at once.
CHUNK = 4096
#: The most possible matches of a candidate with a reference. Java's heap holds about half as many.
MAX_MATCHES = 1 << 23
#: Words whose properties are remembered from chunk to chunk.
_MAX_WORDS = 200_000


def select_paraphrases(nodes: Ints, first: Ints, to: Ints) -> tuple[Ints, Ints]:
    """Select the paraphrases of some phrases among themselves.

    Args:
        nodes: distinct nodes, sorted.
        first, to: the start of each node's paraphrases, and the paraphrases' nodes.

    Returns:
        the start of the paraphrases of each of `nodes`, and these as indices into `nodes`, in the
        table's order.
    """
    place_of_node = np.full(len(first), -1, np.int32)
    place_of_node[nodes] = np.arange(len(nodes), dtype=np.int32)

    begins = first[nodes].astype(np.int64)
    sizes = first[nodes + 1] - begins
    places = place_of_node[to[spread(begins, sizes)]]
    is_selected = places >= 0

    # How many are selected before the paraphrases of each node begin.
    n_before = np.append(np.int32(0), np.cumsum(is_selected, dtype=np.int32))
    starts = np.append(0, np.cumsum(sizes))
    return n_before[starts], places[is_selected]


class WordTable:
    """The words of texts, which are numbered, and their properties.

    Attributes:
        properties: of each word, by its number.
        paraphrase: shape (n_words,), the word's number in the paraphrase table, or -1.
    """

    def __init__(self, index: Index, stem_word: Callable[[str], str]) -> None:
        self._stem_word = stem_word
        self._index = index
        self._numbers: dict[str, int] = {}
        self.properties = index.properties.take(np.empty(0, np.int64))
        self.paraphrase = np.empty(0, np.int32)

    def __len__(self) -> int:
        return len(self._numbers)

    def missing(self, words: Iterable[str]) -> list[str]:
        """Return the distinct words that are not in the table."""
        return [word for word in dict.fromkeys(words) if word not in self._numbers]

    def numbers_of(self, words: Sequence[str]) -> Ints:
        """Return the number of each word, all of which are in the table."""
        return np.fromiter(map(self._numbers.__getitem__, words), np.int32, len(words))

    def add(self, words: Sequence[str]) -> None:
        """Add distinct words that are not in the table; the index has the properties of most."""
        index = self._index
        encoded = [word.encode("utf-8", "replace") for word in words]
        positions = dict(zip(words, find_words(index.words, encoded), strict=True))

        stored: list[str] = []
        new: list[str] = []
        for word, position in positions.items():
            # NumPy's texts lack zeros at their end, and a half character is replaced: other words are found then.
            is_stored = position >= 0 and bytes(index.words[position]) == word.encode(
                "utf-8", "surrogatepass"
            )
            if is_stored:
                stored.append(word)
            else:
                new.append(word)

        places = np.array([positions[word] for word in stored], np.int64)
        stored_properties = index.properties.take(places)
        new_properties = WordProperties.describe(new, index, self._stem_word)
        self.properties = self.properties.append(stored_properties).append(new_properties)

        # The numbers are places in `properties`, behind which the stored words come first.
        added = [*stored, *new]
        for word in added:
            self._numbers[word] = len(self._numbers)
        added_positions = [positions[word] for word in added]
        self.paraphrase = np.append(self.paraphrase, added_positions).astype(np.int32)


class Aligner:
    """An aligner of candidates with references; it remembers words, so only one thread may use it.

    Args:
        index: METEOR's tables.
        language: the language of the stems, such as `english`.
        is_normalised: whether tokens are normalised once more, as METEOR's option `-norm` has it.
    """

    def __init__(self, index: Index, language: str, *, is_normalised: bool) -> None:
        self._index = index
        self._prefixes = index.prefixes if is_normalised else None
        self._stem_word = make_stemmer(language)
        self._words = WordTable(index, self._stem_word)

    def remember_words(self, texts: Iterable[str]) -> None:
        """Look words of tokenised texts up before they are needed."""
        words, _ = self._split(texts)
        self._number_words(words)

    def compute_statistics(self, candidates: Sequence[str], references: Sequence[str]) -> Ints:
        """Compute the statistics of pairs of tokenised texts.

        Returns:
            int32 array of shape (pairs, 23) in the order of METEOR's SCORE line: the lengths of
            candidate and reference, their function words; for exact, stem, synonym and paraphrase
            matches the content words of candidate and reference and the function words of both;
            chunks; matched words of candidate and reference. -1 in the first column for pairs with
            more than `MAX_MATCHES` possible matches.
        """
        from . import _kernel

        texts = {text: i for i, text in enumerate(dict.fromkeys([*candidates, *references]))}
        words_of_texts, lengths = self._split(texts)
        starts = np.cumsum([0, *lengths], dtype=np.int32)
        numbers = self._number_words(words_of_texts)

        index = self._index
        words = self._words
        properties = words.properties
        first, position, length, node = _kernel.find_phrases(
            words.paraphrase[numbers],
            starts,
            index.first_child,
            index.node_word,
            index.used,
            index.longest,
        )
        n_occurrences = first[-1]
        nodes, phrase = np.unique(node[:n_occurrences], return_inverse=True)
        to_first, to = select_paraphrases(nodes, index.to_first, index.to)

        # The kernel takes its arguments by position alone, in the order of its signature.
        out = np.empty((len(candidates), _kernel.STATISTICS), np.int32)
        _kernel.align(
            out,
            np.array([texts[candidate] for candidate in candidates], np.int32),
            np.array([texts[reference] for reference in references], np.int32),
            starts,
            numbers,
            properties.key,
            properties.stem,
            properties.is_function,
            properties.mask,
            properties.set_first,
            properties.sets,
            first,
            position[:n_occurrences],
            length[:n_occurrences],
            phrase.astype(np.int32),
            to_first,
            to,
            MAX_MATCHES,
        )
        return out

    def _split(self, texts: Iterable[str]) -> tuple[list[str], list[int]]:
        """Return the words of all texts, one text after the other, and the number of each text's words."""
        words: list[str] = []
        lengths: list[int] = []
        for text in texts:
            words_of_text = split_words(text, self._prefixes)
            words += words_of_text
            lengths.append(len(words_of_text))

        return words, lengths

    def _number_words(self, words: list[str]) -> Ints:
        """Return the words' numbers in the table, which grows, or begins anew if it would be too large."""
        missing = self._words.missing(words)
        if missing and len(self._words) and len(self._words) + len(missing) > _MAX_WORDS:
            self._words = WordTable(self._index, self._stem_word)
            missing = self._words.missing(words)

        if missing:
            self._words.add(missing)
        return self._words.numbers_of(words)
