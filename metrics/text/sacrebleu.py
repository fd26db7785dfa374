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


@register("sacrebleu")
@dataclass(frozen=True)
class SacreBleu(Metric):
    """sacreBLEU's `sentence_bleu`, 0 to 100.

    Args:
        tokenize: sacreBLEU's tokeniser; `13a` is its default.
        lowercase: fold case first.
        smooth_method: how n-grams without a match are smoothed.
        effective_order: leave out n-gram lengths that the sentence is too short for.
    """

    tokenize: Literal["13a", "intl", "none", "char"] = "13a"
    lowercase: bool = False
    smooth_method: Literal["exp", "floor", "add-k", "none"] = "exp"
    effective_order: bool = True
    backend: Literal["sacrebleu"] = "sacrebleu"

    bounds: ClassVar[tuple[float | None, float | None]] = (0.0, 100.0)
    distributions: ClassVar[tuple[str, ...]] = ("sacrebleu",)

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

    def compute(self, rows: Rows) -> Floats:
        scorer = self._scorer(self.effective_order)
        return np.array(
            [
                scorer.sentence_score(candidate, list(references)).score
                for candidate, references in zip(rows.captions, rows.references, strict=True)
            ]
        )

    def corpus_score(self, items: Items, scores: Floats | None = None) -> float:
        """SacreBLEU's corpus score; effective order is for sentences and is off here."""
        rows = Rows.from_items(items).repeat_by_weight()
        self.check_rows(rows)
        most = max(len(r) for r in rows.references)
        # One stream a reference position; sacreBLEU passes over None.
        streams = [[r[k] if k < len(r) else None for r in rows.references] for k in range(most)]
        return float(self._scorer(False).corpus_score(rows.captions, streams).score)

    def corpus_resampler(self, items: Items, scores: Floats) -> CorpusResampler | None:
        """SacreBLEU of the summed n-gram counts."""
        counts = self.corpus_summands(items, scores)

        def pooled(weights: Floats) -> Floats:
            return np.array(
                [self.corpus_score_from_sums(row) for row in (weights.T @ counts).tolist()]
            )

        return pooled

    def corpus_summands(self, items: Items, scores: Floats) -> NDArray[np.int64]:
        """Matching n-grams and all of them, by length, and the words of both sides."""
        rows = Rows.from_items(items)
        # Of unsmoothed sentence scores the counts are as they were counted.
        plain = replace(self, smooth_method="none")._scorer(True)
        found = [
            plain.sentence_score(candidate, list(references))
            for candidate, references in zip(rows.captions, rows.references, strict=True)
        ]
        return np.array([[*f.counts, *f.totals, f.sys_len, f.ref_len] for f in found])

    def corpus_score_from_sums(self, sums: Sequence[float]) -> float:
        """SacreBLEU of the summed counts."""
        *grams, ours, theirs = (round(value) for value in sums)
        half = len(grams) // 2
        found = self._scorer(False).compute_bleu(
            grams[:half], grams[half:], ours, theirs, smooth_method=self.smooth_method
        )
        return float(found.score)
