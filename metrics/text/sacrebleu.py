"""Sentence BLEU by sacreBLEU on untokenised text, case kept (Post 2018), as in THumB's tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ..base import CorpusResampler, Floats, Metric
from ..registry import register
from ..rows import Items, Rows
from .tokens.segmenters import cannot_segment, require_mecab


@register("sacrebleu")
@dataclass(frozen=True)
class SacreBleu(Metric):
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

    @property
    def name(self) -> str:
        return "sacrebleu"

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
        return [
            scorer.sentence_score(caption, list(references))
            for caption, references in zip(rows.captions, rows.references, strict=True)
        ]

    def compute(self, rows: Rows) -> Floats:
        return np.array([s.score for s in self._sentence_scores(rows, self.effective_order)])

    def corpus_score(self, items: Items, scores: Floats | None = None) -> float:
        """Compute sacreBLEU's corpus score, without effective order, which is for sentences."""
        rows = Rows.from_items(items).repeat_by_weight()
        self.check_rows(rows)
        n_streams = max(len(r) for r in rows.references)
        # A stream for each reference position; sacreBLEU passes over None.
        streams = [
            [r[k] if k < len(r) else None for r in rows.references] for k in range(n_streams)
        ]
        return float(self._scorer(False).corpus_score(rows.captions, streams).score)

    def corpus_resampler(self, items: Items, scores: Floats) -> CorpusResampler | None:
        """Return sacreBLEU of the summed n-gram counts as a function of the rows' weights."""
        counts = self.corpus_summands(items, scores)

        def corpus_scores(weights: Floats) -> Floats:
            sums = (weights.T @ counts).tolist()
            return np.array([self.corpus_score_from_sums(row) for row in sums])

        return corpus_scores

    def corpus_summands(self, items: Items, scores: Floats) -> NDArray[np.int64]:
        """Return matching n-grams and all n-grams, by length, and the words of both sides."""
        # Smoothing would change the counts.
        unsmoothed = replace(self, smooth_method="none")
        sentences = unsmoothed._sentence_scores(Rows.from_items(items), True)
        return np.array([[*s.counts, *s.totals, s.sys_len, s.ref_len] for s in sentences])

    def corpus_score_from_sums(self, sums: Sequence[float]) -> float:
        """Compute sacreBLEU of the summed counts."""
        *ngrams, candidate_words, reference_words = (round(value) for value in sums)
        half = len(ngrams) // 2
        bleu = self._scorer(False).compute_bleu(
            ngrams[:half],
            ngrams[half:],
            candidate_words,
            reference_words,
            smooth_method=self.smooth_method,
        )
        return float(bleu.score)
