"""BLEU-1 to BLEU-4 as the COCO server computes them (Papineni et al. 2002; Chen et al. 2015, 3.3).

Sentence-level scores carry pycocoevalcap's tiny constants instead of smoothing: with no matching
4-gram BLEU-4 is about 1e-4 or less, not 0. Of several references the closest in length counts for
the brevity penalty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from ..base import Floats, Items, Rows
from ..registry import register
from .ptb import TokenMetric, tokenized

ORDERS = 4


@register("bleu_1", n=1)
@register("bleu_2", n=2)
@register("bleu_3", n=3)
@register("bleu_4", n=4)
@dataclass(frozen=True)
class Bleu(TokenMetric):
    """BLEU of n-grams up to length `n`, on PTB tokens."""

    n: int = 4
    backend: Literal["pycocoevalcap"] = "pycocoevalcap"

    named_by: ClassVar[tuple[str, ...]] = ("n",)

    @property
    def name(self) -> str:
        return f"bleu_{self.n}"

    def _score(self, rows: Rows) -> Floats:
        return np.asarray(_compute(rows)[1][self.n - 1])

    def corpus(self, items: Items, scores: Floats | None = None) -> float:
        """BLEU of the summed n-gram counts, not the mean of the sentence scores."""
        rows = Rows.of(items).repeated()
        self._check(rows)
        return float(_compute(rows)[0][self.n - 1])


def _compute(rows: Rows) -> tuple[list[float], list[list[float]]]:
    """Corpus BLEU-1…4, and sentence BLEU-1…4 as four lists; shared by the four metrics."""

    def compute() -> Any:
        from pycocoevalcap.bleu.bleu_scorer import BleuScorer

        scorer = BleuScorer(n=ORDERS)
        for candidate, references in zip(*tokenized(rows), strict=True):
            scorer.cook_append(candidate, list(references))
        return scorer.compute_score(option="closest", verbose=0)

    return rows.share("bleu", compute)
