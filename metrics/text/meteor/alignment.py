"""Alignment of tokenised texts, and METEOR's statistics of it.

As Denkowski and Lavie 2014 describe it; where they leave a choice open, as the jar in pycocoevalcap
behaves with `-l en -norm`. `metric` calls `Aligner.compute_statistics`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .index import Index
from .normaliser import java_hash, split_words
from .tables import Ints

#: Rows that are aligned at once.
CHUNK = 4096
#: The most possible matches of a candidate with a reference. Java's heap holds about half as many.
MAX_MATCHES = 1 << 23
#: Words whose properties are remembered from chunk to chunk.
_MAX_WORDS = 200_000

# WordNet's rules for base forms: nouns, verbs, adjectives.
_ENDINGS = [
    *[("s", ""), ("ses", "s"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh")],
    *[("men", "man"), ("ies", "y")],
    *[("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", "")],
    *[("ing", "e"), ("ing", ""), ("er", ""), ("est", ""), ("er", "e"), ("est", "e")],
]


class WordTable:
    """The properties of words that the aligner needs, as arrays with one entry a word.

    Attributes:
        key, stem: the numbers by which METEOR compares the word and its stem.
        function: 1 for a function word.
        paraphrase: the word's number in the paraphrase table, or -1.
        mask: bits of the word's synsets; words without a common bit share none.
        set_first, sets: the start of the word's synsets in `sets`, which has one entry more.
    """

    def __init__(self, index: Index, stem_word: Callable[[str], str]) -> None:
        self._stem_word = stem_word
        self._index = index
        self._numbers: dict[str, int] = {}
        self.key = self.stem = self.paraphrase = self.sets = np.empty(0, np.int32)
        self.function = np.empty(0, np.uint8)
        self.mask = np.empty(0, np.uint64)
        self.set_first = np.zeros(1, np.int32)

    def __len__(self) -> int:
        return len(self._numbers)

    def missing(self, words: Iterable[str]) -> list[str]:
        """Return the distinct words that are not in the table."""
        return [w for w in dict.fromkeys(words) if w not in self._numbers]

    def numbers_of(self, words: Sequence[str]) -> Ints:
        """Return the number of each word, all of which are in the table."""
        return np.fromiter(map(self._numbers.__getitem__, words), np.int32, len(words))

    def add(self, words: Sequence[str]) -> None:
        """Add distinct words that are not in the table."""
        synsets = self._find_synsets(words)
        self._numbers.update((w, len(self._numbers)) for w in words)
        paraphrase = _find(self._index.words, [w.encode("utf-8", "replace") for w in words])
        self.key = _extend(self.key, [java_hash(w) for w in words])
        self.stem = _extend(self.stem, [java_hash(self._stem_word(w)) for w in words])
        self.function = _extend(self.function, [w in self._index.function for w in words])
        self.paraphrase = _extend(self.paraphrase, paraphrase)
        self.mask = _extend(self.mask, [_synset_mask(s) for s in synsets])
        ends = len(self.sets) + np.cumsum([len(s) for s in synsets])
        self.sets = _extend(self.sets, [n for s in synsets for n in s])
        self.set_first = _extend(self.set_first, ends)

    def _find_synsets(self, words: Sequence[str]) -> list[list[int]]:
        """Find the synsets of each word and of its base forms, sorted."""
        index = self._index
        encoded = [w.encode("utf-8", "replace") for w in words]
        form = _find(index.forms, encoded)
        base = self._find_bases(words, form)
        lemma_sets = _lists_at(index.lemma_first, index.lemma_sets, _find(index.lemmas, encoded))
        form_sets = _lists_at(index.form_first, index.form_sets, form)
        bases = [base.get(i, -1) if form[i] < 0 else -1 for i in range(len(words))]
        base_sets = _lists_at(index.lemma_first, index.lemma_sets, bases)
        return [
            sorted({*of_lemma, *of_form, *of_base})
            for of_lemma, of_form, of_base in zip(lemma_sets, form_sets, base_sets, strict=True)
        ]

    def _find_bases(self, words: Sequence[str], form: list[int]) -> dict[int, int]:
        """Find the lemma of the base form of regular words, by their place.

        The first ending that leads to a word of WordNet counts.
        """
        bases: list[bytes] = []
        owners: list[int] = []
        for i, word in enumerate(words):
            if form[i] < 0 and len(word) > 2 and not word.endswith("ss"):
                endings = [(e, r) for e, r in _ENDINGS if word.endswith(e)]
                bases += [(word[: -len(e)] + r).encode("utf-8", "replace") for e, r in endings]
                owners += [i] * len(endings)
        lemmas: dict[int, int] = {}
        for i, lemma in zip(owners, _find(self._index.lemmas, bases), strict=True):
            if lemma >= 0:
                lemmas.setdefault(i, lemma)
        return lemmas


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
        self._number_words([w for text in texts for w in split_words(text, self._prefixes)])

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
        split_texts = [split_words(text, self._prefixes) for text in texts]
        starts = np.cumsum([0, *map(len, split_texts)], dtype=np.int32)
        numbers = self._number_words([w for words in split_texts for w in words])
        words, index = self._words, self._index
        first, position, length, node = _kernel.find_phrases(
            words.paraphrase[numbers],
            starts,
            index.first_child,
            index.node_word,
            index.used,
            index.longest,
        )
        nodes, phrase = np.unique(node, return_inverse=True)
        out = np.empty((len(candidates), _kernel.STATISTICS), np.int32)
        _kernel.align(
            out,
            np.array([texts[c] for c in candidates], np.int32),
            np.array([texts[r] for r in references], np.int32),
            starts,
            numbers,
            words.key,
            words.stem,
            words.function,
            words.mask,
            words.set_first,
            words.sets,
            first,
            position,
            length,
            phrase.astype(np.int32),
            *_kernel.select_paraphrases(nodes, index.to_first, index.to),
            MAX_MATCHES,
        )
        return out

    def _number_words(self, words: list[str]) -> Ints:
        """Return the words' numbers in the table, which grows, or begins anew if it would be too large."""
        missing = self._words.missing(words)
        if missing and len(self._words) and len(self._words) + len(missing) > _MAX_WORDS:
            self._words = WordTable(self._index, self._stem_word)
            missing = self._words.missing(words)
        if missing:
            self._words.add(missing)
        return self._words.numbers_of(words)


def make_stemmer(language: str) -> Callable[[str], str]:
    """Return the function from a word to its stem; the word itself in languages that METEOR does not stem."""
    if language in ("czech", "other"):
        return str
    # The pure-Python class by name: the package's own factory would take a PyStemmer that
    # happens to be installed, of whichever version.
    module = importlib.import_module(f"snowballstemmer.{language}_stemmer")
    return getattr(module, f"{language.title()}Stemmer")().stemWord


def _extend(array: NDArray[Any], values: Any) -> NDArray[Any]:
    return np.concatenate([array, np.asarray(values, array.dtype)])


def _lists_at(first: Ints, values: Ints, places: Sequence[int]) -> list[list[int]]:
    """Return the list at each place, which `first` has the starts of; an empty one at -1."""
    at = np.asarray(places, np.int64)
    begins, ends = (np.where(at < 0, 0, first[at + step]).tolist() for step in (0, 1))
    return [values[a:b].tolist() if b > a else [] for a, b in zip(begins, ends, strict=True)]


def _synset_mask(synsets: Iterable[int]) -> int:
    mask = 0
    for n in synsets:
        mask |= 1 << (n * 0x9E3779B97F4A7C15 >> 58 & 63)
    return mask


def _find(table: NDArray[np.bytes_], words: list[bytes]) -> list[int]:
    """Return each word's position in a sorted table, or -1."""
    if not len(table):
        return [-1] * len(words)
    # Longer words are not in the table, and would widen its comparison.
    short = np.array([w if len(w) <= table.itemsize else b"" for w in words], table.dtype)
    position = np.minimum(np.searchsorted(table, short), len(table) - 1)
    is_found: Any = (table[position] == short) & (short != b"")
    return np.where(is_found, position, -1).tolist()
