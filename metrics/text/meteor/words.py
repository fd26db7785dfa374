"""Words as METEOR's jar normalises them with `-l en -norm`, and their properties that it compares.

These are hashes, stems, synsets, and whether they are function words. `index` stores those of the words of the paraphrase table; `alignment` describes other words when a text has them.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Letters as METEOR's normaliser lists them: Latin, Cyrillic, phonetic extensions.
_ALPHA = (
    "A-Za-z\u0160\u017d\u0161\u017e\u0178\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u017e"
    "\u0400-\u04ff\u0500-\u0527\ua640-\ua66e\ua67e-\ua697\u1d00-\u1d7f"
)
_ALNUM = "0-9" + _ALPHA
_PLAIN = re.compile("[a-z0-9 ]*")
# A token of Java's StringTokenizer, and the characters that Java's trim removes.
_TOKEN = re.compile("[^ \t\n\r\f]+")
_TRIMMED = "".join(map(chr, range(33)))
_DOTS = re.compile(r"\.{2,}")
_LETTER = re.compile(f"[{_ALPHA}]")
_STEPS = [
    (re.compile(pattern), replacement)
    for pattern, replacement in [
        # Anything but letters, digits, white space, dots, commas, dashes or single quotes stands alone.
        (f"([^{_ALNUM} \t\n\x0b\f\r.'`,\\-\u2018\u2019])", r" \1 "),
        # So do several dots in a row,
        (_DOTS.pattern, r" \g<0> "),
        # and commas that are not between two digits.
        ("([^0-9]),([^0-9])", r"\1 , \2"),
        ("([0-9]),([^0-9])", r"\1 , \2"),
        ("([^0-9]),([0-9])", r"\1 , \2"),
        ("[`\u2018\u2019]", "'"),
        ("[\u201c\u201d]|''", ' " '),
        ("\u2013|--", "-"),
        # A dash inside a word becomes a blank.
        (f"([{_ALNUM}.])-([{_ALNUM}])", r"\1 \2"),
        # An apostrophe stands alone, or begins the word that follows a letter.
        (f"([^{_ALPHA}])'([^{_ALPHA}])", r"\1 ' \2"),
        (f"([^{_ALPHA}0-9])'([{_ALPHA}])", r"\1 ' \2"),
        (f"([{_ALPHA}])'([^{_ALPHA}])", r"\1 ' \2"),
        (f"([{_ALPHA}])'([{_ALPHA}])", r"\1 '\2"),
        ("([0-9])'(s)", r"\1 '\2"),
    ]
]
_SPACES = re.compile("[ \u2000-\u200a\u202f\u205f\u3000\u00a0]+")


def split_words(text: str, prefixes: dict[str, bool] | None) -> list[str]:
    """Normalise a text as METEOR does, and return its words in lower case.

    Args:
        text: tokens in lower case, joined by blanks.
        prefixes: `Index.prefixes`; None to take the tokens as they are, as METEOR does without `-norm`.
    """
    if prefixes is None or _PLAIN.fullmatch(text):
        return text.split()

    # The bars separate the Java program's fields; pycocoevalcap removes them from captions.
    line = f" {text.replace('|||', '').strip(_TRIMMED)} "
    for pattern, replacement in _STEPS:
        line = pattern.sub(replacement, line)

    words = _TOKEN.findall(line)
    followers = [*words[1:], ""]
    parts: list[str] = []
    for word, following in zip(words, followers, strict=False):  # of no words, "" follows none
        parts.append(_treat_full_stop(word, following, prefixes))

    line = _SPACES.sub(" ", " ".join(parts)).strip(_TRIMMED)
    return _TOKEN.findall(line.lower())


def _treat_full_stop(word: str, following: str, prefixes: dict[str, bool]) -> str:
    """Keep, drop or split off the full stop at the end of a word."""
    if not word.endswith(".") or len(word) == 1 or _DOTS.fullmatch(word):
        return word
    stem = word[:-1]
    if "." in stem and _LETTER.search(stem):
        return word.replace(".", "")

    only_before_number = prefixes.get(stem)
    first = following[:1]
    if only_before_number is False or "a" <= first <= "z":
        return word
    if only_before_number and "0" <= first <= "9":
        return word
    return f"{stem} ."


def java_hash(word: str) -> int:
    """Return Java's `String.hashCode`, by which METEOR compares words and stems; two may share one."""
    units = np.frombuffer(word.encode("utf-16-le", "surrogatepass"), np.uint16).tolist()
    value = 0
    for unit in units:
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


Ints = NDArray[np.int32]

# WordNet's rules for base forms: nouns, verbs, adjectives.
_ENDINGS = [
    # Nouns.
    ("s", ""),
    ("ses", "s"),
    ("xes", "x"),
    ("zes", "z"),
    ("ches", "ch"),
    ("shes", "sh"),
    ("men", "man"),
    ("ies", "y"),
    # Verbs.
    ("s", ""),
    ("ies", "y"),
    ("es", "e"),
    ("es", ""),
    ("ed", "e"),
    ("ed", ""),
    ("ing", "e"),
    ("ing", ""),
    # Adjectives.
    ("er", ""),
    ("est", ""),
    ("er", "e"),
    ("est", "e"),
]


@dataclass(frozen=True)
class Lexicon:
    """WordNet and the function words of a language.

    Attributes:
        lemmas, lemma_first, lemma_sets: WordNet's words, sorted, and the synsets of each, sorted.
        forms, form_first, form_sets: irregular forms, sorted, and the synsets of their base forms.
        function: function words.
    """

    lemmas: NDArray[np.bytes_]
    lemma_first: Ints
    lemma_sets: Ints
    forms: NDArray[np.bytes_]
    form_first: Ints
    form_sets: Ints
    function: frozenset[str]


@dataclass(frozen=True)
class WordProperties:
    """The properties of some words, as arrays with one entry a word.

    Attributes:
        key, stem: the numbers by which METEOR compares the word and its stem.
        is_function: 1 for a function word.
        mask: bits of the word's synsets; words without a common bit share none.
        set_first, sets: the start of the word's synsets in `sets`, which has one entry more.
    """

    key: Ints
    stem: Ints
    is_function: NDArray[np.uint8]
    mask: NDArray[np.uint64]
    set_first: Ints
    sets: Ints

    @classmethod
    def describe(
        cls, words: Sequence[str], lexicon: Lexicon, stem_word: Callable[[str], str]
    ) -> WordProperties:
        """Look words up in a lexicon."""
        synsets = _find_synsets(words, lexicon)
        sizes = [len(sets_of_word) for sets_of_word in synsets]
        return cls(
            key=np.array([java_hash(word) for word in words], np.int32),
            stem=np.array([java_hash(stem_word(word)) for word in words], np.int32),
            is_function=np.array([word in lexicon.function for word in words], np.uint8),
            mask=np.array([_synset_mask(sets_of_word) for sets_of_word in synsets], np.uint64),
            set_first=np.cumsum([0, *sizes], dtype=np.int32),
            sets=np.array(list(chain.from_iterable(synsets)), np.int32),
        )

    def take(self, positions: NDArray[np.int64]) -> WordProperties:
        """Return the properties of the words at some positions."""
        begins = self.set_first[positions]
        ends = self.set_first[positions + 1]
        sets = [self.sets[begin:end] for begin, end in zip(begins, ends, strict=True)]
        return WordProperties(
            key=self.key[positions],
            stem=self.stem[positions],
            is_function=self.is_function[positions],
            mask=self.mask[positions],
            set_first=np.append(np.int32(0), np.cumsum(ends - begins, dtype=np.int32)),
            sets=np.concatenate([np.empty(0, np.int32), *sets]),
        )

    def append(self, later: WordProperties) -> WordProperties:
        """Return the properties of these words and of others behind them."""
        joined: dict[str, Any] = {}
        for field in fields(self):
            parts = [getattr(self, field.name), getattr(later, field.name)]
            joined[field.name] = np.concatenate(parts)

        # The lists of the words behind begin where those of these words end.
        later_starts = len(self.sets) + later.set_first[1:]
        joined["set_first"] = np.append(self.set_first, later_starts).astype(np.int32)
        return WordProperties(**joined)


def make_stemmer(language: str) -> Callable[[str], str]:
    """Return the function from a word to its stem; the word itself in languages that METEOR does not stem."""
    if language in ("czech", "other"):
        return str
    # The pure-Python class by name: the package's own factory would take a PyStemmer that
    # happens to be installed, of whichever version.
    module = importlib.import_module(f"snowballstemmer.{language}_stemmer")
    return getattr(module, f"{language.title()}Stemmer")().stemWord


def find_words(table: NDArray[np.bytes_], words: list[bytes]) -> list[int]:
    """Return each word's position in a sorted table, or -1."""
    if not len(table):
        return [-1] * len(words)

    # Longer words are not in the table, and would widen its comparison.
    short_words = [word if len(word) <= table.itemsize else b"" for word in words]
    short = np.array(short_words, table.dtype)
    position = np.minimum(np.searchsorted(table, short), len(table) - 1)
    is_found: Any = (table[position] == short) & (short != b"")
    return np.where(is_found, position, -1).tolist()


def _find_synsets(words: Sequence[str], lexicon: Lexicon) -> list[list[int]]:
    """Find the synsets of each word and of its base forms, sorted."""
    encoded = [word.encode("utf-8", "replace") for word in words]
    lemma = find_words(lexicon.lemmas, encoded)
    form = find_words(lexicon.forms, encoded)
    base = _find_bases(words, form, lexicon.lemmas)
    bases = [base.get(i, -1) for i in range(len(words))]

    lemma_sets = _lists_at(lexicon.lemma_first, lexicon.lemma_sets, lemma)
    form_sets = _lists_at(lexicon.form_first, lexicon.form_sets, form)
    base_sets = _lists_at(lexicon.lemma_first, lexicon.lemma_sets, bases)

    synsets: list[list[int]] = []
    for of_lemma, of_form, of_base in zip(lemma_sets, form_sets, base_sets, strict=True):
        synsets.append(sorted({*of_lemma, *of_form, *of_base}))

    return synsets


def _find_bases(
    words: Sequence[str], form: list[int], lemmas: NDArray[np.bytes_]
) -> dict[int, int]:
    """Find the lemma of the base form of regular words, by their place.

    The first ending that leads to a word of WordNet counts.
    """
    bases: list[bytes] = []
    owners: list[int] = []
    for i, word in enumerate(words):
        if form[i] < 0 and len(word) > 2 and not word.endswith("ss"):
            for ending, replacement in _ENDINGS:
                if word.endswith(ending):
                    base = word[: -len(ending)] + replacement
                    bases.append(base.encode("utf-8", "replace"))
                    owners.append(i)

    lemma_of: dict[int, int] = {}
    for i, lemma in zip(owners, find_words(lemmas, bases), strict=True):
        if lemma >= 0:
            lemma_of.setdefault(i, lemma)

    return lemma_of


def _lists_at(first: Ints, values: Ints, places: Sequence[int]) -> Iterator[list[int]]:
    """Yield the list at each place, which `first` has the starts of; an empty one at -1."""
    indices = np.asarray(places, np.int64)
    begins = np.where(indices < 0, 0, first[indices]).tolist()
    ends = np.where(indices < 0, 0, first[indices + 1]).tolist()

    for begin, end in zip(begins, ends, strict=True):
        yield values[begin:end].tolist() if end > begin else []


def _synset_mask(synsets: Iterable[int]) -> int:
    mask = 0
    for n in synsets:
        mask |= 1 << (n * 0x9E3779B97F4A7C15 >> 58 & 63)
    return mask
