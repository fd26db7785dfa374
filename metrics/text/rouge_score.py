"""ROUGE by Google's rouge-score on untokenised text, as in THumB's tables.

Its tokeniser keeps letters a–z and digits alone. Of several references the one with the greatest
F-measure counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal

import numpy as np

from ..base import Floats, Metric
from ..registry import register
from ..rows import Rows


@register("rouge_score_1", kind="rouge1")
@register("rouge_score_2", kind="rouge2")
@register("rouge_score_l", kind="rougeL")
@dataclass(frozen=True)
class RougeScore(Metric):
    """The F-measure of rouge-score's `rouge1`, `rouge2` or `rougeL`.

    Args:
        stemmer: fold words of more than three letters by the Porter stemmer.
    """

    kind: Literal["rouge1", "rouge2", "rougeL"] = "rougeL"
    stemmer: bool = False
    backend: Literal["rouge_score"] = "rouge_score"

    distributions: ClassVar[tuple[str, ...]] = ("captau", "rouge_score", "nltk")
    name_fields: ClassVar[tuple[str, ...]] = ("kind",)

    @property
    def name(self) -> str:
        return f"rouge_score_{self.kind.removeprefix('rouge').lower()}"

    def compute(self, rows: Rows) -> Floats:
        from rouge_score.rouge_scorer import RougeScorer

        scorer = RougeScorer([self.kind], tokenizer=_remembering_tokenizer(self.stemmer))
        return np.array(
            [
                max(scorer.score(reference, candidate)[self.kind].fmeasure for reference in refs)
                for candidate, refs in zip(rows.captions, rows.references, strict=True)
            ]
        )


def _remembering_tokenizer(stemmer: bool) -> Any:
    """rouge-score's own tokeniser, which otherwise meets each candidate once a reference."""
    from rouge_score.tokenizers import DefaultTokenizer

    inner = DefaultTokenizer(stemmer)

    class Tokenizer:
        tokenize = staticmethod(cache(inner.tokenize))

    return Tokenizer()
