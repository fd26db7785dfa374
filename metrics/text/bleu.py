"""BLEU-1 to BLEU-4 as the COCO server computes them (Papineni et al. 2002; Chen et al. 2015, 3.3).

Sentence-level scores have pycocoevalcap's tiny constants instead of smoothing: without a matching
4-gram BLEU-4 is about 1e-4 or less, not 0. The brevity penalty uses the reference that is closest in
length, the shorter of two equally close ones.
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
from .tokens.corpus import Corpus, Ints, sum_by_place
from .tokens.ptb import SegmentedMetric, Tokenizer, tokenize_rows

ORDERS = 4

# pycocoevalcap's: they keep a score without any match, or without any word, from being undefined.
SMALL = 1e-9
TINY = 1e-15


@register("bleu_1", n=1)
@register("bleu_2", n=2)
@register("bleu_3", n=3)
@register("bleu_4", n=4)
@dataclass(frozen=True)
class Bleu(SegmentedMetric):
    """BLEU of n-grams up to length `n`, on PTB tokens or those that `tokenize` names.

    Example:
        >>> Bleu(2).score([{"caption": "a dog runs", "references": ["a dog runs fast"]}]).round(4).tolist()
        [0.7165]
    """

    n: int = 4
    backend: Literal["captau", "pycocoevalcap"] = "captau"

    name_fields: ClassVar[tuple[str, ...]] = ("n",)

    @property
    def name(self) -> str:
        return f"bleu_{self.n}"

    def compute(self, rows: Rows) -> Floats:
        if self.backend == "pycocoevalcap":
            return np.asarray(_pycocoevalcap_scores(rows, self.tokenizer)[1][self.n - 1])
        return _sentence_scores(rows, self.tokenizer)[self.n - 1]

    def corpus_score(self, items: Items, scores: Floats | None = None) -> float:
        """Compute BLEU of the summed n-gram counts, which is not the mean of the sentence scores."""
        rows = Rows.from_items(items).require_any()
        self.check_rows(rows)
        if self.backend == "pycocoevalcap":
            repeated_rows = rows.repeat_by_weight()
            return float(_pycocoevalcap_scores(repeated_rows, self.tokenizer)[0][self.n - 1])
        return bleu((rows.weights @ _statistics(rows, self.tokenizer)).tolist())[self.n - 1]

    def corpus_resampler(self, items: Items, scores: Floats) -> CorpusResampler | None:
        """Return BLEU of the summed n-gram counts as a function of the rows' weights."""
        if self.backend == "pycocoevalcap":
            return None
        statistics = _statistics(Rows.from_items(items), self.tokenizer)

        def corpus_scores(weights: Floats) -> Floats:
            return np.array([bleu(row)[self.n - 1] for row in (weights.T @ statistics).tolist()])

        return corpus_scores

    def corpus_summands(self, items: Items, scores: Floats) -> Ints | None:
        """Return the counts of n-grams and words."""
        if self.backend == "pycocoevalcap":
            return None
        return _statistics(Rows.from_items(items), self.tokenizer)

    def corpus_score_from_sums(self, sums: Sequence[float]) -> float:
        """Compute BLEU of the summed counts."""
        return bleu(sums)[self.n - 1]


def bleu(statistics: Sequence[float]) -> list[float]:
    """Compute BLEU-1 to BLEU-4.

    Args:
        statistics: the matches of 1-grams to 4-grams, the candidate's numbers of 1-grams to 4-grams,
            and the reference's number of words.
    """
    matches, totals, reference_words = statistics[:ORDERS], statistics[ORDERS:-1], statistics[-1]
    ratio = (totals[0] + TINY) / (reference_words + SMALL)
    penalty = math.exp(1 - 1 / ratio) if ratio < 1 else 1.0
    product, values = 1.0, []
    for n in range(ORDERS):
        product *= (matches[n] + TINY) / (totals[n] + SMALL)
        values.append(product ** (1.0 / (n + 1)) * penalty)
    return values


def _sentence_scores(rows: Rows, tokenizer: Tokenizer) -> Floats:
    """Compute sentence BLEU-1 to BLEU-4, shape (4, n_rows), shared by the four metrics."""

    def compute() -> Floats:
        # Few rows differ in their statistics, and one function computes sentence and corpus BLEU.
        distinct, inverse = np.unique(_statistics(rows, tokenizer), axis=0, return_inverse=True)
        return np.array([bleu(row) for row in distinct.tolist()]).T[:, inverse]

    return rows.compute_once(f"bleu {tokenizer}", compute)


def _statistics(rows: Rows, tokenizer: Tokenizer) -> Ints:
    """Compute the statistics of each row that `bleu` takes, shape (n_rows, 9)."""

    def compute() -> Ints:
        corpus = Corpus.of_rows(rows, tokenizer)
        return np.concatenate([_chunk_statistics(corpus, chunk) for chunk in corpus.chunks()])

    return rows.compute_once(f"bleu statistics {tokenizer}", compute)


def _chunk_statistics(corpus: Corpus, chunk: slice) -> Ints:
    words = corpus.lengths[corpus.candidates[chunk]]
    matches = [_count_matches(corpus, chunk, n + 1, len(words)) for n in range(ORDERS)]
    totals = [np.maximum(words - n, 0) for n in range(ORDERS)]
    return np.stack([*matches, *totals, _closest_lengths(corpus, chunk, words)], axis=1)


def _count_matches(corpus: Corpus, chunk: slice, n: int, n_rows: int) -> Ints:
    """Count matching n-grams, each at most as often as in the reference that has most of it."""
    matches = corpus.matches(chunk, n)
    clipped = np.minimum(matches.count, matches.max_count)
    return sum_by_place(matches.row, clipped, n_rows).astype(np.int64)


def _closest_lengths(corpus: Corpus, chunk: slice, words: Ints) -> Ints:
    """Return the length of the reference that is closest in length."""
    members, sizes = corpus.members_of(corpus.sets[chunk])
    lengths = corpus.lengths[corpus.members[members]]
    distances = np.abs(lengths - np.repeat(words, sizes))
    # The nearest first, of equally near ones the shorter.
    base = int(lengths.max(initial=0)) + 1
    return np.minimum.reduceat(distances * base + lengths, np.cumsum(sizes) - sizes) % base


def _pycocoevalcap_scores(
    rows: Rows, tokenizer: Tokenizer
) -> tuple[list[float], list[list[float]]]:
    """Return corpus BLEU-1 to BLEU-4, and sentence BLEU as four lists; shared by the four metrics."""

    def compute() -> Any:
        from pycocoevalcap.bleu.bleu_scorer import BleuScorer

        scorer = BleuScorer(n=ORDERS)
        for candidate, references in zip(*tokenize_rows(rows, tokenizer), strict=True):
            scorer.cook_append(candidate, list(references))
        return scorer.compute_score(option="closest", verbose=0)

    return rows.compute_once(f"bleu of pycocoevalcap {tokenizer}", compute)
