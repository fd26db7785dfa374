"""ROUGE by Google's rouge-score on untokenised text, as in THumB's tables.

Its tokeniser only keeps the letters a–z and digits. Of several references the one with the greatest
F-measure counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal

import numpy as np

from ...datasets.writing_systems import find_script
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

    Example:
        >>> RougeScore().score([{"caption": "A dog.", "references": ["a cat", "a big dog"]}]).tolist()
        [0.8]
    """

    kind: Literal["rouge1", "rouge2", "rougeL"] = "rougeL"
    stemmer: bool = False
    backend: Literal["rouge_score"] = "rouge_score"

    distributions: ClassVar[tuple[str, ...]] = ("captau", "rouge_score", "nltk")
    name_fields: ClassVar[tuple[str, ...]] = ("kind",)
    unsegmented_remedy: ClassVar[str] = "rouge-score reads the letters a–z alone; take rouge_l"

    @property
    def name(self) -> str:
        return f"rouge_score_{self.kind.removeprefix('rouge').lower()}"

    def cannot_segment(self, text: str) -> bool:
        # Its tokeniser drops all letters but a–z.
        return find_script([text]) not in ("", "latin")

    def compute(self, rows: Rows) -> Floats:
        from rouge_score.rouge_scorer import RougeScorer

        scorer = RougeScorer([self.kind], tokenizer=_caching_tokenizer(self.stemmer))
        return np.array(
            [
                max(
                    scorer.score(reference, caption)[self.kind].fmeasure for reference in references
                )
                for caption, references in zip(rows.captions, rows.references, strict=True)
            ]
        )


def _caching_tokenizer(stemmer: bool) -> Any:
    """Return rouge-score's tokeniser with a cache; otherwise it tokenises a caption once a reference."""
    from rouge_score.tokenizers import DefaultTokenizer

    inner = DefaultTokenizer(stemmer)

    class Tokenizer:
        tokenize = staticmethod(cache(inner.tokenize))

    return Tokenizer()
