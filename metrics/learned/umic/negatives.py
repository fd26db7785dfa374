"""Negative captions for contrastive training, as UMIC has them (Lee et al. 2021, section 3.2)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ....datasets.errors import InputError
from ...base import UnavailableError

Kind = Literal["substitution", "random", "repetition", "permutation"]
KINDS: tuple[Kind, ...] = ("substitution", "random", "repetition", "permutation")

#: The share of words that are substituted, or repeated or removed.
SHARE = 0.3
#: How often a random caption is of a similar image, and of how many such images.
HARD = 0.5
NEAREST = 3
#: Penn Treebank's tags of what is substituted begin with these: verbs, nouns, adjectives.
_KEYWORDS = ("V", "N", "J")
_WORD = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")

#: A word and its part of speech.
Tagged = tuple[str, str]


class Negatives:
    """Draws negatives of captions, from the captions of other images and their words.

    Args:
        captions: image id → its captions.
        similar: image id → the most similar images among those, the nearest first; as many as there
            are, and none where nothing is known.
        tag: a caption → its words with Penn Treebank's tags.

    Raises:
        InputError: where there are not two images with captions.
    """

    def __init__(
        self,
        captions: Mapping[str, Sequence[str]],
        similar: Mapping[str, Sequence[str]],
        tag: Callable[[str], Sequence[Tagged]] | None = None,
    ) -> None:
        self._captions = {image: list(texts) for image, texts in captions.items() if texts}
        if len(self._captions) < 2:
            raise InputError("negative captions need the captions of two images at least")
        self._images = list(self._captions)
        self._similar = similar
        tag = tag or penn_tags
        self._tagged = {c: tuple(tag(c)) for texts in captions.values() for c in texts}
        counts: dict[str, Counter[str]] = {}
        for texts in self._captions.values():
            for caption in texts:
                for word, kind in self._tagged[caption]:
                    if kind.startswith(_KEYWORDS):
                        counts.setdefault(kind, Counter())[word.lower()] += 1
        self._words = {
            kind: (sorted(found), _shares([found[w] for w in sorted(found)]))
            for kind, found in counts.items()
        }

    def words(self, caption: str) -> tuple[Tagged, ...]:
        """The words of one of the captions, with their parts of speech."""
        return self._tagged[caption]

    def draw(
        self,
        rng: np.random.Generator,
        image: str,
        words: Sequence[Tagged],
        kind: Kind,
    ) -> str:
        """A negative of one of the captions.

        Args:
            rng: what chance comes from.
            image: the caption's image.
            words: of the caption, or some that follow each other.
            kind: of negative.

        Returns:
            another text, save where all images have but one and the same. A caption in which nothing can
            be substituted gets a random one.
        """
        if kind == "substitution" and (found := self._substituted(rng, words)):
            return found
        if kind in ("substitution", "random"):
            return self._random(rng, image, words)
        texts = [word for word, _ in words] or [""]
        return " ".join((_repeated if kind == "repetition" else _permuted)(rng, texts))

    def _substituted(self, rng: np.random.Generator, words: Sequence[Tagged]) -> str | None:
        places = [
            i
            for i, (word, kind) in enumerate(words)
            if kind in self._words and set(self._words[kind][0]) - {word.lower()}
        ]
        if not places:
            return None
        texts = [word for word, _ in words]
        for i in _some(rng, places):
            texts[i] = self._other(rng, *words[i])
        return " ".join(texts)

    def _other(self, rng: np.random.Generator, word: str, kind: str) -> str:
        """Another word of the same part of speech, as often as it is in the captions."""
        known, shares = self._words[kind]
        while (found := known[int(np.searchsorted(shares, rng.random()))]) == word.lower():
            pass
        return found.capitalize() if word[0].isupper() else found

    def _random(self, rng: np.random.Generator, image: str, words: Sequence[Tagged]) -> str:
        near = [i for i in self._similar.get(image, ())[:NEAREST] if i in self._captions]
        hard = near and rng.random() < HARD
        found = caption = text_of(words)
        for _ in range(100):  # two images may share a caption
            pool = near if hard else self._images
            other = pool[int(rng.integers(len(pool)))]
            texts = self._captions[other]
            drawn = self._tagged[texts[int(rng.integers(len(texts)))]]
            found = text_of(drawn)
            if other != image and found != caption:
                return found
            hard = False
        return found


def text_of(words: Sequence[Tagged]) -> str:
    """Words with blanks between them, which BERT's word pieces are indifferent to."""
    return " ".join(word for word, _ in words)


def _shares(counts: Sequence[int]) -> NDArray[np.float64]:
    """Upper bounds of each word's part of the unit interval."""
    shares = np.cumsum(counts, dtype=np.float64)
    return shares / shares[-1]


def _some(rng: np.random.Generator, places: Sequence[int]) -> list[int]:
    """Each place with the probability `SHARE`, but one at least."""
    chosen = [p for p, drawn in zip(places, rng.random(len(places)) < SHARE, strict=True) if drawn]
    return chosen or [places[int(rng.integers(len(places)))]]


def _repeated(rng: np.random.Generator, words: Sequence[str]) -> list[str]:
    """Some words said twice or left out, each as likely; of a single word, said twice."""
    out: list[str] = []
    while not out or out == list(words):
        times = np.ones(len(words), dtype=np.intp)
        for i in _some(rng, range(len(words))):
            times[i] = 2 if rng.random() < 0.5 else 0
        out = [word for word, n in zip(words, times.tolist(), strict=True) for _ in range(n)]
    return out


def _permuted(rng: np.random.Generator, words: Sequence[str]) -> list[str]:
    """The words in another order; said twice where all are the same."""
    if len(set(words)) < 2:
        return [*words, *words]
    while (out := [words[int(i)] for i in rng.permutation(len(words))]) == list(words):
        pass
    return out


def penn_tags(caption: str) -> list[Tagged]:
    """Words and punctuation marks with their tags, by TextBlob's tagger.

    Raises:
        UnavailableError: where TextBlob is not installed.
    """
    words = _WORD.findall(caption)
    return [(str(word), str(kind)) for word, kind in _tagger()(words)] if words else []


@cache
def _tagger() -> Callable[[Sequence[str]], Any]:
    try:
        from textblob.en import parser
    except ImportError as error:
        raise UnavailableError(
            "negative captions need textblob, which is not installed: pip install textblob"
        ) from error

    return parser.find_tags


def nearest_images(means: NDArray[np.floating[Any]], images: Sequence[str]) -> dict[str, list[str]]:
    """For each image the `NEAREST` others by the cosine of their regions' mean features.

    Args:
        means: shape (n_images, dimensions).
        images: their ids.
    """
    lengths = np.linalg.norm(means, axis=1, keepdims=True)
    units = (means / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    count = min(NEAREST, len(images) - 1)
    out: dict[str, list[str]] = {}
    for start in range(0, len(images), 1024):  # a block of the matrix at a time
        block = units[start : start + 1024] @ units.T
        block[np.arange(len(block)), np.arange(start, start + len(block))] = -np.inf
        near = np.argsort(-block, axis=1, kind="stable")[:, :count]
        for i, row in enumerate(near):
            out[images[start + i]] = [images[int(j)] for j in row]
    return out
