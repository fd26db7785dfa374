"""METEOR's statistics of tokenised texts: words as METEOR sees them, aligned with each other.

As Denkowski and Lavie 2014 describe it, and where that leaves choices open, as the jar in
pycocoevalcap behaves with `-l en -norm`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .index import Index, Ints

#: Rows that are aligned at once.
CHUNK = 4096
#: Possible matches of a candidate with a reference. Java's heap holds about half as many.
MATCHES = 1 << 23
#: Words that are remembered from chunk to chunk.
_WORDS = 200_000

# Letters as METEOR's normaliser lists them: Latin, Cyrillic, phonetic extensions.
_ALPHA = (
    "A-Za-z\u0160\u017d\u0161\u017e\u0178\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u017e"
    "\u0400-\u04ff\u0500-\u0527\ua640-\ua66e\ua67e-\ua697\u1d00-\u1d7f"
)
_ALNUM = "0-9" + _ALPHA
_PLAIN = re.compile("[a-z0-9 ]*")
# What Java's StringTokenizer keeps together, and what its trim takes off.
_TOKEN = re.compile("[^ \t\n\r\f]+")
_TRIMMED = "".join(map(chr, range(33)))
_DOTS = re.compile(r"\.{2,}")
_LETTER = re.compile(f"[{_ALPHA}]")
_STEPS = [
    (re.compile(pattern), replacement)
    for pattern, replacement in [
        # All that is no letter, digit, white space, dot, comma, dash or single quote stands alone.
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
        # A dash inside a word goes.
        (f"([{_ALNUM}.])-([{_ALNUM}])", r"\1 \2"),
        # An apostrophe stands alone, or at the beginning of what follows a letter.
        (f"([^{_ALPHA}])'([^{_ALPHA}])", r"\1 ' \2"),
        (f"([^{_ALPHA}0-9])'([{_ALPHA}])", r"\1 ' \2"),
        (f"([{_ALPHA}])'([^{_ALPHA}])", r"\1 ' \2"),
        (f"([{_ALPHA}])'([{_ALPHA}])", r"\1 '\2"),
        ("([0-9])'(s)", r"\1 '\2"),
    ]
]
_SPACES = re.compile("[ \u2000-\u200a\u202f\u205f\u3000\u00a0]+")

# WordNet's rules for base forms: nouns, verbs, adjectives.
_ENDINGS = [
    *[("s", ""), ("ses", "s"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh")],
    *[("men", "man"), ("ies", "y")],
    *[("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", "")],
    *[("ing", "e"), ("ing", ""), ("er", ""), ("est", ""), ("er", "e"), ("est", "e")],
]


def words_of(text: str, prefixes: dict[str, bool]) -> list[str]:
    """The words of a text in lower case, after METEOR's own normalisation.

    Args:
        text: PTB tokens in lower case, joined by blanks.
        prefixes: `Index.prefixes`.
    """
    if _PLAIN.fullmatch(text):
        return text.split()
    # The bars separate the Java program's fields; pycocoevalcap takes them out of a caption.
    line = f" {text.replace('|||', '').strip(_TRIMMED)} "
    for pattern, replacement in _STEPS:
        line = pattern.sub(replacement, line)
    found = _TOKEN.findall(line)
    parts = [
        _undotted(word, following, prefixes)
        for word, following in zip(found, [*found[1:], ""], strict=False)
    ]
    line = _SPACES.sub(" ", " ".join(parts)).strip(_TRIMMED)
    return _TOKEN.findall(line.lower())


def _undotted(word: str, following: str, prefixes: dict[str, bool]) -> str:
    """A word with its full stop kept, dropped or put apart."""
    if not word.endswith(".") or len(word) == 1 or _DOTS.fullmatch(word):
        return word
    before = word[:-1]
    if "." in before and _LETTER.search(before):
        return word.replace(".", "")
    numeric = prefixes.get(before)
    first = following[:1]
    if numeric is False or "a" <= first <= "z" or (numeric and "0" <= first <= "9"):
        return word
    return f"{before} ."


def java_hash(word: str) -> int:
    """Java's `String.hashCode`, by which METEOR compares words and stems; two may share one."""
    units = np.frombuffer(word.encode("utf-16-le", "surrogatepass"), np.uint16).tolist()
    value = 0
    for unit in units:
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


@dataclass
class _Words:
    """What the aligner asks of each word; arrays of one entry a word."""

    number: dict[str, int]
    key: Ints
    stem: Ints
    function: NDArray[np.uint8]
    paraphrase: Ints
    mask: NDArray[np.uint64]
    set_first: Ints
    sets: Ints


class Aligner:
    """Aligns candidates with references.

    Args:
        index: METEOR's tables.
    """

    def __init__(self, index: Index) -> None:
        from snowballstemmer.english_stemmer import EnglishStemmer

        # The pure-Python class by name: the package's own factory would take a PyStemmer that
        # happens to be installed, of whichever version.
        self._stem = EnglishStemmer().stemWord
        self._index = index
        self._forget()

    def _forget(self) -> None:
        def ints() -> Ints:
            return np.empty(0, np.int32)

        self._words = _Words(
            number={},
            key=ints(),
            stem=ints(),
            function=np.empty(0, np.uint8),
            paraphrase=ints(),
            mask=np.empty(0, np.uint64),
            set_first=np.zeros(1, np.int32),
            sets=ints(),
        )

    def statistics(self, candidates: Sequence[str], references: Sequence[str]) -> Ints:
        """The statistics of pairs of tokenised texts.

        Returns:
            int32 array of shape (pairs, 23) in the order of METEOR's SCORE line: the lengths of
            candidate and reference, their function words; for exact, stem, synonym and paraphrase
            matches the content words of candidate and reference and the function words of both;
            chunks; matched words of candidate and reference. -1 in the first place where a pair has
            more than `MATCHES` possible matches.
        """
        from . import _kernel as kernel

        texts = {text: i for i, text in enumerate(dict.fromkeys([*candidates, *references]))}
        words = [words_of(text, self._index.prefixes) for text in texts]
        flat = self._numbered([w for text in words for w in text])
        starts = np.cumsum([0, *map(len, words)], dtype=np.int32)
        known = self._words
        index = self._index
        first, position, length, node = kernel.phrases(
            known.paraphrase[flat],
            starts,
            index.first_child,
            index.node_word,
            index.used,
            index.longest,
        )
        nodes, phrase = np.unique(node, return_inverse=True)
        to_first, to = kernel.paraphrases(nodes, index.to_first, index.to)
        out = np.empty((len(candidates), kernel.STATISTICS), np.int32)
        kernel.align(
            out,
            np.array([texts[c] for c in candidates], np.int32),
            np.array([texts[r] for r in references], np.int32),
            starts,
            flat,
            known.key,
            known.stem,
            known.function,
            known.mask,
            known.set_first,
            known.sets,
            first,
            position,
            length,
            phrase.astype(np.int32),
            to_first,
            to,
            MATCHES,
        )
        return out

    def _numbered(self, words: list[str]) -> Ints:
        """The words as indices into `self._words`, which learns the new ones."""
        number = self._words.number
        new = [w for w in dict.fromkeys(words) if w not in number]
        if new and len(number) + len(new) > _WORDS and number:
            self._forget()
            return self._numbered(words)
        if new:
            self._learn(new)
        return np.fromiter(map(number.__getitem__, words), np.int32, len(words))

    def _learn(self, new: list[str]) -> None:
        known, index = self._words, self._index
        sets = self._synsets(new)
        known.number.update((w, len(known.number)) for w in new)
        more = {
            "key": [java_hash(w) for w in new],
            "stem": [java_hash(self._stem(w)) for w in new],
            "function": [w in index.function for w in new],
            "paraphrase": _find(index.words, [w.encode("utf-8", "replace") for w in new]),
            "mask": [_mask(s) for s in sets],
            "sets": [n for s in sets for n in s],
            "set_first": len(known.sets) + np.cumsum([len(s) for s in sets]),
        }
        for name, values in more.items():
            old = getattr(known, name)
            setattr(known, name, np.concatenate([old, np.asarray(values, old.dtype)]))

    def _synsets(self, words: list[str]) -> list[list[int]]:
        """The synsets of each word and of its base forms, sorted."""
        index = self._index
        coded = [w.encode("utf-8", "replace") for w in words]
        form = _find(index.forms, coded)
        # The first ending that leads to a word of WordNet counts.
        bases: list[bytes] = []
        owner: list[int] = []
        for i, word in enumerate(words):
            if form[i] < 0 and len(word) > 2 and not word.endswith("ss"):
                ends = [(e, r) for e, r in _ENDINGS if word.endswith(e)]
                bases += [
                    (word[: len(word) - len(e)] + r).encode("utf-8", "replace") for e, r in ends
                ]
                owner += [i] * len(ends)
        base: dict[int, int] = {}
        for i, lemma in zip(owner, _find(index.lemmas, bases), strict=True):
            if lemma >= 0:
                base.setdefault(i, lemma)
        found: list[list[int]] = []
        for i, lemma in enumerate(_find(index.lemmas, coded)):
            one = _listed(index.lemma_first, index.lemma_sets, lemma)
            if form[i] >= 0:
                one |= _listed(index.form_first, index.form_sets, form[i])
            elif i in base:
                one |= _listed(index.lemma_first, index.lemma_sets, base[i])
            found.append(sorted(one))
        return found


def _listed(first: Ints, values: Ints, i: int) -> set[int]:
    return set(values[first[i] : first[i + 1]].tolist()) if i >= 0 else set()


def _mask(sets: Iterable[int]) -> int:
    mask = 0
    for n in sets:
        mask |= 1 << (n * 0x9E3779B97F4A7C15 >> 58 & 63)
    return mask


def _find(table: NDArray[np.bytes_], wanted: list[bytes]) -> list[int]:
    """Where each word stands in a sorted table; -1 where it does not."""
    # Longer ones would widen the whole table; they are not in it.
    short = np.array([w if len(w) <= table.itemsize else b"" for w in wanted], table.dtype)
    place = np.minimum(np.searchsorted(table, short), len(table) - 1)
    there: Any = (table[place] == short) & (short != b"")
    return np.where(there, place, -1).tolist()
