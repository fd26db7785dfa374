"""BLEU-1 to BLEU-4 as the COCO server computes them (Papineni et al. 2002; Chen et al. 2015, 3.3).

Sentence-level scores carry pycocoevalcap's tiny constants instead of smoothing: with no matching
4-gram BLEU-4 is about 1e-4 or less, not 0. Of several references the closest in length counts for
the brevity penalty, the shorter of two equally close ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from ..base import CorpusResampler, Floats
from ..registry import register
from ..rows import Items, Rows
from .tokens.corpus import Corpus, Ints, added, spread
from .tokens.ptb import TokenMetric, tokenize_rows

ORDERS = 4

# pycocoevalcap's: they keep a score without any match, or without any word, from being undefined.
SMALL = 1e-9
TINY = 1e-15


@register("bleu_1", n=1)
@register("bleu_2", n=2)
@register("bleu_3", n=3)
@register("bleu_4", n=4)
@dataclass(frozen=True)
class Bleu(TokenMetric):
    """BLEU of n-grams up to length `n`, on PTB tokens."""

    n: int = 4
    backend: Literal["captau", "pycocoevalcap"] = "captau"

    name_fields: ClassVar[tuple[str, ...]] = ("n",)

    @property
    def name(self) -> str:
        return f"bleu_{self.n}"

    def compute(self, rows: Rows) -> Floats:
        if self.backend == "pycocoevalcap":
            return np.asarray(_by_pycocoevalcap(rows)[1][self.n - 1])
        return _sentences(rows)[self.n - 1]

    def corpus_score(self, items: Items, scores: Floats | None = None) -> float:
        """BLEU of the summed n-gram counts, not the mean of the sentence scores."""
        rows = Rows.from_items(items).require_any()
        self.check_rows(rows)
        if self.backend == "pycocoevalcap":
            return float(_by_pycocoevalcap(rows.repeat_by_weight())[0][self.n - 1])
        return bleu((rows.weights @ _statistics(rows)).tolist())[self.n - 1]

    def corpus_resampler(self, items: Items, scores: Floats) -> CorpusResampler | None:
        """BLEU of the summed n-gram counts."""
        if self.backend == "pycocoevalcap":
            return None
        statistics = _statistics(Rows.from_items(items))

        def pooled(weights: Floats) -> Floats:
            return np.array([bleu(row)[self.n - 1] for row in (weights.T @ statistics).tolist()])

        return pooled

    def corpus_summands(self, items: Items, scores: Floats) -> Ints | None:
        """The counts of n-grams and words."""
        return None if self.backend == "pycocoevalcap" else _statistics(Rows.from_items(items))

    def corpus_score_from_sums(self, sums: Sequence[float]) -> float:
        """BLEU of the summed counts."""
        return bleu(sums)[self.n - 1]


def bleu(statistics: Sequence[float]) -> list[float]:
    """BLEU-1…4 from the matches of 1-grams to 4-grams, their number, and the reference's words."""
    correct, guessed, wanted = statistics[:ORDERS], statistics[ORDERS:-1], statistics[-1]
    words = guessed[0]
    ratio = (words + TINY) / (wanted + SMALL)
    penalty = math.exp(1 - 1 / ratio) if ratio < 1 else 1.0
    product, values = 1.0, []
    for n in range(ORDERS):
        product *= (correct[n] + TINY) / (guessed[n] + SMALL)
        values.append(product ** (1.0 / (n + 1)) * penalty)
    return values


def _sentences(rows: Rows) -> Floats:
    """Sentence BLEU-1…4 of shape (4, n_rows), shared by the four metrics."""

    def compute() -> Floats:
        # Few rows differ in their statistics, and one way to compute BLEU serves sentence and corpus.
        distinct, inverse = np.unique(_statistics(rows), axis=0, return_inverse=True)
        return np.array([bleu(row) for row in distinct.tolist()]).T[:, inverse]

    return rows.compute_once("bleu", compute)


def _statistics(rows: Rows) -> Ints:
    """What `bleu` wants of each row, shape (n_rows, 9)."""

    def compute() -> Ints:
        corpus = Corpus.of(rows)
        return np.concatenate([_chunk(corpus, chunk) for chunk in corpus.chunks()])

    return rows.compute_once("bleu statistics", compute)


def _chunk(corpus: Corpus, chunk: slice) -> Ints:
    words = corpus.lengths[corpus.candidates[chunk]]
    correct = [_correct(corpus, chunk, n + 1, len(words)) for n in range(ORDERS)]
    guessed = [np.maximum(words - n, 0) for n in range(ORDERS)]
    return np.stack([*correct, *guessed, _closest(corpus, chunk, words)], axis=1)


def _correct(corpus: Corpus, chunk: slice, n: int, size: int) -> Ints:
    """Matches of n-grams: each counts at most as often as in the reference that holds most of it."""
    matches = corpus.matches(chunk, n)
    clipped = np.minimum(matches.count, matches.most)
    return added(matches.row, clipped, size).astype(np.int64)


def _closest(corpus: Corpus, chunk: slice, words: Ints) -> Ints:
    """The length of the reference closest in length."""
    sets = corpus.sets[chunk]
    sizes = np.diff(corpus.set_starts)[sets]
    lengths = corpus.lengths[corpus.members[spread(corpus.set_starts[sets], sizes)]]
    away = np.abs(lengths - np.repeat(words, sizes))
    # The nearest first, of equally near ones the shorter.
    wide = int(lengths.max(initial=0)) + 1
    return np.minimum.reduceat(away * wide + lengths, np.cumsum(sizes) - sizes) % wide


def _by_pycocoevalcap(rows: Rows) -> tuple[list[float], list[list[float]]]:
    """Corpus BLEU-1…4, and sentence BLEU-1…4 as four lists; shared by the four metrics."""

    def compute() -> Any:
        from pycocoevalcap.bleu.bleu_scorer import BleuScorer

        scorer = BleuScorer(n=ORDERS)
        for candidate, references in zip(*tokenize_rows(rows, "pycocoevalcap"), strict=True):
            scorer.cook_append(candidate, list(references))
        return scorer.compute_score(option="closest", verbose=0)

    return rows.compute_once("bleu of pycocoevalcap", compute)
