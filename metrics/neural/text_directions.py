"""Directions of texts in a model's space, also of texts that are longer than the model's window.

A text that is longer than the window is cut at its end (`truncate`, as the authors' code does), or split at
the ends of its sentences into pieces that fit. `split_mean` then takes the direction of the mean of the
pieces' directions, `split_max` the closest piece: the greatest cosine over all pairs of pieces. A copy of a
text has a cosine of 1 with it under every policy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..base import Floats
from .store import Array, Features

LongPolicy = Literal["truncate", "split_mean", "split_max"]

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])\s*|\n+")
#: Texts at a time, which bounds memory.
_CHUNK = 4096


def find_positions(features: Features, floor: float) -> list[int]:
    """Return the positions of the texts whose last column is at least so large."""
    steps = range(0, len(features), _CHUNK)
    return [
        i + int(p) for i in steps for p in np.flatnonzero(features[i : i + _CHUNK][:, -1] >= floor)
    ]


def normalise_features(features: Array) -> Floats:
    """Return rows of length 1 without the last column, which counts tokens; shape (n, dimensions)."""
    return normalise_rows(features[:, :-1])


def normalise_rows(vectors: Array) -> Floats:
    """Return vectors of length 1, shape (n, dimensions)."""
    vectors = vectors.astype(np.float64)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def split_text(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Split a text into pieces that fit a window, whole sentences as long as a sentence fits.

    As many sentences as fit together make a piece; a longer sentence is split between words. A single word
    that does not fit stays whole.
    """
    parts: list[str] = []
    for sentence in filter(None, (s.strip() for s in _SENTENCE_END.split(text))):
        parts += [sentence] if fits(sentence) else _pack(sentence.split(), fits)
    return _pack(parts, fits) or [text]


def _pack(parts: Sequence[str], fits: Callable[[str], bool]) -> list[str]:
    """Join neighbours for as long as they fit together."""
    pieces: list[str] = []
    for part in parts:
        if pieces and fits(f"{pieces[-1]} {part}"):
            pieces[-1] += f" {part}"
        else:
            pieces.append(part)
    return pieces


@dataclass(frozen=True)
class TextGroup:
    """The directions of several texts, such as a row's references.

    Attributes:
        directions: one text after another, shape (n_pieces, dimensions).
        starts: where each text begins, shape (n_texts,).
    """

    directions: Floats
    starts: NDArray[np.int64]


@dataclass(frozen=True)
class TextDirections:
    """Directions of texts: one each, and one a piece where a text was split.

    Attributes:
        features: a row a text, the embedding and one column more.
        pieces: by position of a split text, the directions that stand for it, shape (n, dimensions).
        remark: what belongs below the table of scores; empty where every text fits.
    """

    features: Features
    pieces: Mapping[int, Floats]
    remark: str

    def select(self, groups: Sequence[Sequence[int]]) -> list[TextGroup]:
        """Return the directions of groups of texts, read at once."""
        positions = [p for group in groups for p in group]
        directions = normalise_features(self.features[positions])
        counts = np.ones(len(positions), dtype=np.int64)
        if self.pieces:
            blocks = [self.pieces.get(p, directions[[i]]) for i, p in enumerate(positions)]
            counts = np.array([len(block) for block in blocks], dtype=np.int64)
            directions = np.concatenate(blocks)
        starts = np.concatenate([[0], counts.cumsum()])
        ends = np.cumsum([0, *map(len, groups)]).tolist()
        return [
            TextGroup(directions[starts[a] : starts[b]], starts[a:b] - starts[a])
            for a, b in pairwise(ends)
        ]


def measure_texts(
    texts: Sequence[str],
    features: Features,
    long_positions: Sequence[int],
    policy: LongPolicy,
    fits: Callable[[str], bool],
    encode: Callable[[Sequence[str]], Features],
) -> TextDirections:
    """Return the directions of texts under a policy for those that are longer than the window.

    Args:
        texts: any.
        features: of each text, as far as the window reaches.
        long_positions: of the texts that are longer than the window.
        policy: see the module.
        fits: whether a text is read whole.
        encode: features of pieces.
    """
    n_long = len(long_positions)
    if policy == "truncate":
        remark = f"{n_long:,} texts are longer than the model's context and were cut short"
        return TextDirections(features, {}, remark if n_long else "")
    split_texts = [split_text(texts[p], fits) for p in long_positions]
    directions = normalise_features(
        encode([piece for pieces in split_texts for piece in pieces])[:]
    )
    bounds = np.cumsum([0, *map(len, split_texts)]).tolist()
    blocks = [directions[start:end] for start, end in pairwise(bounds)]
    if policy == "split_mean":
        means = [block.mean(axis=0, keepdims=True) for block in blocks]
        blocks = [mean / np.linalg.norm(mean) for mean in means]
    remark = (
        f"{n_long:,} texts are longer than the model's context and were split into "
        f"{len(directions):,} pieces (long={policy})"
    )
    return TextDirections(
        features, dict(zip(long_positions, blocks, strict=True)), remark if n_long else ""
    )
