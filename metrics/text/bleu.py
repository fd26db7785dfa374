"""BLEU-1 to BLEU-4 as the COCO server computes them (Papineni et al. 2002; Chen et al. 2015, 3.3).

Sentence-level scores have pycocoevalcap's tiny constants instead of smoothing: without a matching
4-gram BLEU-4 is about 1e-4 or less, not 0. The brevity penalty uses the reference that is closest in
length, the shorter of two equally close ones.

`sacrebleu` is sentence BLEU by sacreBLEU on untokenised text, case kept (Post 2018), as in THumB's tables.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ..base import Floats, PooledMetric
from ..registry import register
from ..rows import Items, Rows
from .tokens.corpus import Corpus, Ints, sum_by_place
from .tokens.ptb import SegmentedMetric, Tokenizer, cannot_segment, require_mecab, tokenize_rows

ORDERS = 4

# pycocoevalcap's: they keep a score without any match, or without any word, from being undefined.
SMALL = 1e-9
TINY = 1e-15


@register("bleu_1", n=1)
@register("bleu_2", n=2)
@register("bleu_3", n=3)
@register("bleu_4", n=4)
@dataclass(frozen=True)
class Bleu(PooledMetric, SegmentedMetric):
    """BLEU of n-grams up to length `n`, on PTB tokens or those that `tokenize` names.

    Example:
        >>> Bleu(2).score([{"caption": "a dog runs", "references": ["a dog runs fast"]}]).round(4).tolist()
        [0.7165]
    """

    n: int = 4
    backend: Literal["captau", "pycocoevalcap"] = "captau"

    name_fields: ClassVar[tuple[str, ...]] = ("n",)

    def compute(self, rows: Rows) -> Floats:
        if self.backend == "pycocoevalcap":
            return np.asarray(_pycocoevalcap_scores(rows, self.tokenizer)[1][self.n - 1])
        return _sentence_scores(rows, self.tokenizer)[self.n - 1]

    def corpus_score(self, items: Items, scores: Floats | None = None) -> float:
        """Compute BLEU of the summed n-gram counts, which is not the mean of the sentence scores."""
        if self.backend == "captau":
            return super().corpus_score(items, scores)
        rows = Rows.from_items(items).repeat_by_weight()
        self.check_rows(rows)
        return float(_pycocoevalcap_scores(rows, self.tokenizer)[0][self.n - 1])

    def corpus_summands(self, items: Items, scores: Floats) -> Ints | None:
        """Return the counts of n-grams and words."""
        if self.backend == "pycocoevalcap":
            return None
        return _statistics(Rows.from_items(items), self.tokenizer)

    def pool(self, sums: NDArray[Any]) -> Floats:
        return np.array([bleu(row)[self.n - 1] for row in sums.tolist()])


def bleu(statistics: Sequence[float]) -> list[float]:
    """Compute BLEU-1 to BLEU-4.

    Args:
        statistics: the matches of 1-grams to 4-grams, the candidate's numbers of 1-grams to 4-grams,
            and the reference's number of words.
    """
    matches = statistics[:ORDERS]
    totals = statistics[ORDERS:-1]
    reference_words = statistics[-1]
    ratio = (totals[0] + TINY) / (reference_words + SMALL)
    penalty = math.exp(1 - 1 / ratio) if ratio < 1 else 1.0

    values: list[float] = []
    product = 1.0
    for n in range(ORDERS):
        product *= (matches[n] + TINY) / (totals[n] + SMALL)
        values.append(product ** (1.0 / (n + 1)) * penalty)

    return values


def _sentence_scores(rows: Rows, tokenizer: Tokenizer) -> Floats:
    """Compute sentence BLEU-1 to BLEU-4, shape (4, n_rows), shared by the four metrics."""

    def compute() -> Floats:
        # Few rows differ in their statistics, and one function computes sentence and corpus BLEU.
        distinct, inverse = np.unique(_statistics(rows, tokenizer), axis=0, return_inverse=True)
        distinct_scores = np.array([bleu(row) for row in distinct.tolist()])
        return distinct_scores.T[:, inverse]

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
    begins = np.cumsum(sizes) - sizes
    return np.minimum.reduceat(distances * base + lengths, begins) % base


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


@register("sacrebleu")
@dataclass(frozen=True)
class SacreBleu(PooledMetric):
    """sacreBLEU's `sentence_bleu`, 0 to 100.

    Args:
        tokenize: sacreBLEU's tokeniser; `13a` is its default. `zh` cuts between Chinese characters, `char`
            between all; `ja-mecab` finds Japanese words, and needs the package sacrebleu[ja].
        lowercase: fold case first.
        smooth_method: the smoothing of n-gram lengths without a match.
        effective_order: leave out n-gram lengths that the sentence is too short for.

    Example:
        >>> SacreBleu().score([{"caption": "a dog runs", "references": ["a dog runs fast"]}]).round(2).tolist()
        [71.65]
    """

    tokenize: Literal["13a", "intl", "none", "char", "zh", "ja-mecab"] = "13a"
    lowercase: bool = False
    smooth_method: Literal["exp", "floor", "add-k", "none"] = "exp"
    effective_order: bool = True
    backend: Literal["sacrebleu"] = "sacrebleu"

    needs: ClassVar[frozenset[str]] = frozenset({"references"})
    bounds: ClassVar[tuple[float | None, float | None]] = (0.0, 100.0)
    distributions: ClassVar[tuple[str, ...]] = ("sacrebleu",)
    unsegmented_remedy: ClassVar[str] = (
        "set words apart by blanks first, or take tokenize=char, zh or ja-mecab"
    )

    def cannot_segment(self, text: str) -> bool:
        return cannot_segment(text, self.tokenize)

    def check_rows(self, rows: Rows) -> None:
        super().check_rows(rows)
        require_mecab(f"metric {self.spec}", self.tokenize)

    def _scorer(self, effective_order: bool) -> Any:
        from sacrebleu.metrics.bleu import BLEU

        return BLEU(
            tokenize=self.tokenize,
            lowercase=self.lowercase,
            smooth_method=self.smooth_method,
            effective_order=effective_order,
        )

    def _sentence_scores(self, rows: Rows, effective_order: bool) -> list[Any]:
        scorer = self._scorer(effective_order)
        scores: list[Any] = []
        for caption, references in zip(rows.captions, rows.references, strict=True):
            scores.append(scorer.sentence_score(caption, list(references)))

        return scores

    def compute(self, rows: Rows) -> Floats:
        return np.array([s.score for s in self._sentence_scores(rows, self.effective_order)])

    def corpus_score(self, items: Items, scores: Floats | None = None) -> float:
        """Compute sacreBLEU's corpus score, without effective order, which is for sentences."""
        rows = Rows.from_items(items).repeat_by_weight()
        self.check_rows(rows)

        # A stream for each reference position; sacreBLEU passes over None.
        streams = list(zip_longest(*rows.references))
        scorer = self._scorer(effective_order=False)
        return float(scorer.corpus_score(rows.captions, streams).score)

    def corpus_summands(self, items: Items, scores: Floats) -> NDArray[np.int64]:
        """Return matching n-grams and all n-grams, by length, and the words of both sides."""
        # Smoothing would change the counts.
        unsmoothed = replace(self, smooth_method="none")
        sentences = unsmoothed._sentence_scores(Rows.from_items(items), True)
        statistics = [[*s.counts, *s.totals, s.sys_len, s.ref_len] for s in sentences]
        return np.array(statistics)

    def pool(self, sums: NDArray[Any]) -> Floats:
        return np.array([self._pool_row(row) for row in sums.tolist()])

    def _pool_row(self, sums: Sequence[float]) -> float:
        *ngrams, candidate_words, reference_words = (round(value) for value in sums)
        half = len(ngrams) // 2
        scorer = self._scorer(effective_order=False)
        bleu = scorer.compute_bleu(
            ngrams[:half],
            ngrams[half:],
            candidate_words,
            reference_words,
            smooth_method=self.smooth_method,
        )
        return float(bleu.score)
