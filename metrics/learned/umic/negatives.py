"""Negative captions for UMIC's contrastive training (Lee et al. 2021, section 3.2)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ....datasets.errors import InputError
from ...text.tokens.ptb import TaggedWord, tag_words
from ..common.captioned_images import CaptionedImages
from ..common.training import TrainingSession
from .metric import WordPieces, collate, truncate
from .regions import Regions
from .similar_images import N_NEAREST, SimilarImages

#: BERT's share of word pieces to be guessed, and the piece in their place.
MASKED_SHARE = 0.15
MASK_PIECE = "[MASK]"


@dataclass(frozen=True)
class MatchingBatch:
    """A batch of pretraining.

    Attributes:
        pairs: the arguments of `Uniter`.
        matches: 1 for pairs of an image and its own caption, else 0, shape (n,).
        masked_words: ids of the words to be guessed, -1 for others, shape (n, longest); or None.
    """

    pairs: Any
    matches: Any
    masked_words: Any


class PairTable:
    """The pairs of captioned images, and batches of them with random negatives and masks.

    Args:
        captioned: the images.
        negatives: of their captions.
        regions: their features.
        pieces: the vocabulary.
        positions: the number of word pieces that the network reads of a text.
        kinds: of the negatives of a group.
        session: the seed, and whether pairs are shuffled as in a control.
    """

    def __init__(
        self,
        captioned: CaptionedImages,
        negatives: Negatives,
        regions: Regions,
        pieces: Sequence[str],
        positions: int,
        kinds: Sequence[NegativeKind],
        session: TrainingSession,
    ) -> None:
        self._pairs: list[tuple[str, str]] = []
        for image_id, captions in captioned.items():
            self._pairs += [(image_id, caption) for caption in captions]
        self._negatives = negatives
        self._regions = regions
        self._tokenise = WordPieces(pieces)
        self._mask_id = pieces.index(MASK_PIECE) if MASK_PIECE in pieces else -1
        self._positions = positions
        self._kinds = kinds
        self._session = session

    def split_rows(self, size: int) -> list[list[int]]:
        """Return the rows of all pairs in order, `size` at a time."""
        rows = list(range(len(self._pairs)))
        return [rows[begin : begin + size] for begin in range(0, len(rows), size)]

    def draw_rows(
        self, stage: str, first_step: int, n_steps: int, size: int
    ) -> Iterator[list[int]]:
        """Yield rows for steps of a stage; every pair comes once before any comes again."""
        # Each pass over the pairs has an order of its own, which is drawn when its first row is due.
        pass_number = -1
        order: list[int] = []
        for step in range(first_step, first_step + n_steps):
            rows: list[int] = []
            for index in range(step * size, (step + 1) * size):
                number, row = divmod(index, len(self._pairs))
                if number != pass_number:
                    rng = self._session.rng(stage, "order", number)
                    order = rng.permutation(len(self._pairs)).tolist()
                    pass_number = number
                rows.append(order[row])
            yield rows

    def make_groups(self, rng: np.random.Generator, rows: Sequence[int]) -> Any:
        """Return each caption followed by its negatives, as arguments of `Uniter`.

        In a control, a random caption of each group comes first.
        """
        texts: list[str] = []
        image_ids: list[str] = []
        for row in rows:
            image_id, caption = self._pairs[row]
            words = self._negatives.tagged_words(caption)
            group = [join_words(words)]
            group += [self._negatives.draw(rng, image_id, words, kind) for kind in self._kinds]
            if self._session.is_control:
                group = [group[int(i)] for i in rng.permutation(len(group))]
            texts += group
            image_ids += [image_id] * len(group)

        return self._collate(self._encode(texts), image_ids)

    def make_matching(
        self, rng: np.random.Generator, rows: Sequence[int], *, has_masks: bool
    ) -> MatchingBatch:
        """Return each image with its caption, some words masked, and with one that may be another's.

        In a control all images are permuted, so that neither words nor matches can be learned.
        """
        import torch

        texts: list[str] = []
        matches: list[int] = []
        for row in rows:
            image_id, caption = self._pairs[row]
            words = self._negatives.tagged_words(caption)
            is_match = rng.random() < 0.5
            negative = None if is_match else self._negatives.draw(rng, image_id, words, "random")
            texts += [caption, negative or join_words(words)]
            matches += [1, int(is_match)]

        ids = self._encode(texts)
        device = self._session.device
        masked_words = None
        if has_masks:
            masked_words = torch.from_numpy(self._mask_words(rng, ids)).to(device)

        order = rng.permutation(len(rows)) if self._session.is_control else range(len(rows))
        image_ids: list[str] = []
        for i in order:
            image_id, _ = self._pairs[rows[int(i)]]
            image_ids += [image_id, image_id]  # beside its caption, and beside the other one
        target = torch.tensor(matches, device=device)
        return MatchingBatch(self._collate(ids, image_ids), target, masked_words)

    def _mask_words(self, rng: np.random.Generator, ids: list[list[int]]) -> NDArray[np.int_]:
        """Mask words of every other text, in place; return their ids, -1 for others."""
        masked_words = np.full((len(ids), max(map(len, ids))), -1)
        for i in range(0, len(ids), 2):
            # The marks at a text's beginning and end are not masked.
            inner = np.arange(1, len(ids[i]) - 1)
            is_masked = rng.random(len(inner)) < MASKED_SHARE
            for j in inner[is_masked].tolist():
                masked_words[i, j] = ids[i][j]
                ids[i][j] = self._mask_id

        return masked_words

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        truncated, _ = truncate(self._tokenise(texts), self._positions)
        return truncated

    def _collate(self, ids: Sequence[Sequence[int]], image_ids: Sequence[str]) -> Any:
        regions = {image_id: self._regions[image_id] for image_id in dict.fromkeys(image_ids)}
        return collate(ids, [regions[i] for i in image_ids], self._session.device)


#: `hard`, a caption of a similar image, is a kind of the authors' code alone. Where a group has it, its `random` caption
#: is of any other image, similar or not.
NegativeKind = Literal["substitution", "random", "repetition", "permutation", "hard"]
NEGATIVE_KINDS: tuple[NegativeKind, ...] = get_args(NegativeKind)
PAPER_KINDS = NEGATIVE_KINDS[:4]

#: Which words are substituted, of verbs, nouns and adjectives. `keywords`: each with the probability 0.3, one at
#: least. `paper`: as many as are 30 % of all words of the caption, as section 3.2 says. `code`: each with the
#: probability 0.29, anew until one is drawn; its substitute may be the same word (`make_st` in `data/ce.py` of
#: hwanheelee1993/UMIC at 9d897ee, and the loop that calls it).
Substitution = Literal["keywords", "paper", "code"]

#: The probability that a word is substituted (if it is a verb, noun or adjective), or repeated or removed.
CHANGED_SHARE = 0.3
#: The same of substitution in the authors' code: that one of the numbers 0 to 99 is above 70.
CODE_SHARE = 0.29
#: The probability that a random caption is of a similar image.
SIMILAR_SHARE = 0.5
#: First letters of Penn Treebank's tags of the words that are substituted: verbs, nouns, adjectives.
_SUBSTITUTED_TAGS = ("V", "N", "J")


class Negatives:
    """A generator of negatives of captions, from the captions of other images and their words.

    Args:
        captions: image id → its captions.
        similar_images: one or more ways to find them, each equally likely; may be empty.
        tag: a caption → its words with Penn Treebank's tags.
        substitution: which words are substituted.
        similar_share: the probability that a random caption is of a similar image.

    Raises:
        InputError: if fewer than two images have captions.
    """

    def __init__(
        self,
        captions: Mapping[str, Sequence[str]],
        similar_images: Sequence[SimilarImages],
        tag: Callable[[str], Sequence[TaggedWord]] | None = None,
        substitution: Substitution = "keywords",
        similar_share: float = SIMILAR_SHARE,
    ) -> None:
        self._captions: dict[str, list[str]] = {}
        for image, texts in captions.items():
            if texts:
                self._captions[image] = list(texts)
        if len(self._captions) < 2:
            raise InputError("negative captions need the captions of two images at least")

        self._images = list(self._captions)
        self._similar_images = similar_images
        self._substitution: Substitution = substitution
        self._similar_share = similar_share

        tag = tag or tag_words
        self._tagged_words: dict[str, tuple[TaggedWord, ...]] = {}
        for texts in captions.values():
            for caption in texts:
                self._tagged_words[caption] = tuple(tag(caption))

        counts_by_tag: dict[str, Counter[str]] = {}
        for texts in self._captions.values():
            for caption in texts:
                for word, part in self._tagged_words[caption]:
                    if part.startswith(_SUBSTITUTED_TAGS):
                        counts_by_tag.setdefault(part, Counter())[word.lower()] += 1

        #: By tag, the words and the upper bounds of their parts of the unit interval.
        self._vocabulary: dict[str, tuple[list[str], NDArray[np.float64]]] = {}
        for part, counts in counts_by_tag.items():
            # Sorted, so that what is drawn does not depend on the order of the captions.
            words = sorted(counts)
            shares = _cumulative_shares([counts[word] for word in words])
            self._vocabulary[part] = words, shares

    def tagged_words(self, caption: str) -> tuple[TaggedWord, ...]:
        """Return the words of one of the captions, with their parts of speech."""
        return self._tagged_words[caption]

    def draw(
        self, rng: np.random.Generator, image: str, words: Sequence[TaggedWord], kind: NegativeKind
    ) -> str:
        """Draw a negative of one of the captions.

        Args:
            rng: the source of all randomness.
            image: the caption's image.
            words: of the caption, or consecutive ones.
            kind: of negative.

        Returns:
            another text, unless all images have one and the same caption, or the substitution of the
            authors' code puts the same words in. A caption without a word to substitute gets a random one.
        """
        if kind == "substitution" and (substituted := self._substitute(rng, words)):
            return substituted
        if kind == "hard":
            return self._draw_caption(rng, image, words, 1.0)
        if kind in ("substitution", "random"):
            return self._draw_caption(rng, image, words, self._similar_share)

        texts = [word for word, _ in words] or [""]
        changed = _repeat(rng, texts) if kind == "repetition" else _permute(rng, texts)
        return " ".join(changed)

    def _substitute(self, rng: np.random.Generator, words: Sequence[TaggedWord]) -> str | None:
        indices: list[int] = []
        for i, (word, part) in enumerate(words):
            vocabulary, _ = self._vocabulary.get(part, ([], None))
            if set(vocabulary) - {word.lower()}:  # another word to put in its place
                indices.append(i)
        if not indices:
            return None

        texts = [word for word, _ in words]
        for i in self._draw_keywords(rng, indices, words):
            word, part = words[i]
            texts[i] = self._draw_word(rng, word, part)
        return " ".join(texts)

    def _draw_keywords(
        self, rng: np.random.Generator, indices: Sequence[int], words: Sequence[TaggedWord]
    ) -> Sequence[int]:
        """Draw which of the words at `indices` are substituted."""
        if self._substitution == "keywords":
            return _draw_indices(rng, indices)
        if self._substitution == "code":
            drawn = np.empty(0, dtype=np.intp)
            while not len(drawn):
                drawn = np.flatnonzero(rng.random(len(indices)) < CODE_SHARE)
            return [indices[i] for i in drawn.tolist()]

        # Punctuation is no word.
        n_words = sum(word[0].isalnum() for word, _ in words)
        n_drawn = min(len(indices), max(1, math.floor(CHANGED_SHARE * n_words + 0.5)))
        return sorted(rng.choice(indices, n_drawn, replace=False).tolist())

    def _draw_word(self, rng: np.random.Generator, word: str, part: str) -> str:
        """Draw another word of the same part of speech, by its frequency in the captions."""
        vocabulary, shares = self._vocabulary[part]
        while True:
            substitute = vocabulary[int(np.searchsorted(shares, rng.random()))]
            if substitute != word.lower() or self._substitution == "code":
                return substitute.capitalize() if word[0].isupper() else substitute

    def _draw_caption(
        self,
        rng: np.random.Generator,
        image: str,
        words: Sequence[TaggedWord],
        similar_share: float,
    ) -> str:
        """Draw a caption of another image, which is similar with the given probability."""
        nearest: Sequence[str] = []
        if self._similar_images:
            n_rules = len(self._similar_images)
            # One rule alone draws no number.
            rule = int(rng.integers(n_rules)) if n_rules > 1 else 0
            nearest = self._similar_images[rule].get(image, [])[:N_NEAREST]
        similar = [neighbour for neighbour in nearest if neighbour in self._captions]
        # Where there is none, no number is drawn for it.
        is_similar = bool(similar) and rng.random() < similar_share

        caption = join_words(words)
        text = caption
        for _ in range(100):  # two images may share a caption
            pool = similar if is_similar else self._images
            partner = pool[int(rng.integers(len(pool)))]
            texts = self._captions[partner]
            drawn_text = texts[int(rng.integers(len(texts)))]
            text = join_words(self._tagged_words[drawn_text])
            if partner != image and text != caption:
                break

            # Similar images may have no other caption, so that all images are tried next.
            is_similar = False

        return text


def join_words(words: Sequence[TaggedWord]) -> str:
    """Join words by blanks, to which BERT's word pieces are indifferent."""
    return " ".join(word for word, _ in words)


def _cumulative_shares(counts: Sequence[int]) -> NDArray[np.float64]:
    shares = np.cumsum(counts, dtype=np.float64)
    return shares / shares[-1]


def _draw_indices(rng: np.random.Generator, indices: Sequence[int]) -> list[int]:
    """Draw each index with the probability `CHANGED_SHARE`, but at least one."""
    is_drawn = rng.random(len(indices)) < CHANGED_SHARE
    drawn = [indices[position] for position in np.flatnonzero(is_drawn).tolist()]
    if not drawn:
        drawn = [indices[int(rng.integers(len(indices)))]]
    return drawn


def _repeat(rng: np.random.Generator, words: Sequence[str]) -> list[str]:
    """Repeat or remove some words, each equally likely; a single word is repeated."""
    changed: list[str] = []
    while not changed or changed == list(words):
        times = np.ones(len(words), dtype=np.intp)
        for i in _draw_indices(rng, range(len(words))):
            times[i] = 2 if rng.random() < 0.5 else 0

        changed = []
        for word, count in zip(words, times.tolist(), strict=True):
            changed += [word] * count

    return changed


def _permute(rng: np.random.Generator, words: Sequence[str]) -> list[str]:
    """Return the words in another order; twice if all are the same."""
    if len(set(words)) < 2:
        return [*words, *words]
    while True:
        permuted = [words[int(i)] for i in rng.permutation(len(words))]
        if permuted != list(words):
            return permuted
