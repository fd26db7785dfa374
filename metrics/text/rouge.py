"""The COCO server's ROUGE family on PTB tokens (Lin 2004; Chen et al. 2015, section 3.4).

`rouge_l` is pycocoevalcap's. `rouge_1`, `rouge_2` (equation 4) and `rouge_s` (equations 8 to 10)
are in the paper but not in its released code; they follow the formulas here.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np

from ...datasets.errors import InputError
from ..base import Floats, Rows
from ..registry import register
from .ptb import TokenMetric, tokenized

#: Recall counts 1.44 times as much as precision (Chen et al. 2015, below equation 7).
BETA = 1.2


@register("rouge_l")
@dataclass(frozen=True)
class RougeL(TokenMetric):
    """Longest common subsequence: F-measure of the best recall and the best precision.

    The best recall and the best precision may come from different references, as in equation 7.
    """

    backend: Literal["pycocoevalcap"] = "pycocoevalcap"

    @property
    def name(self) -> str:
        return "rouge_l"

    def _score(self, rows: Rows) -> Floats:
        from pycocoevalcap.rouge.rouge import Rouge

        scorer = Rouge()
        return np.array(
            [
                scorer.calc_score([candidate], list(references))
                for candidate, references in zip(*tokenized(rows), strict=True)
            ]
        )


@register("rouge_1", n=1)
@register("rouge_2", n=2)
@dataclass(frozen=True)
class RougeN(TokenMetric):
    """n-gram recall over all references together (equation 4)."""

    n: int = 1
    backend: Literal["captau"] = "captau"

    named_by: ClassVar[tuple[str, ...]] = ("n",)

    @property
    def name(self) -> str:
        return f"rouge_{self.n}"

    def _score(self, rows: Rows) -> Floats:
        return np.array(
            [
                rouge_n(candidate.split(), [r.split() for r in references], self.n)
                for candidate, references in zip(*tokenized(rows), strict=True)
            ]
        )


@register("rouge_s")
@dataclass(frozen=True)
class RougeS(TokenMetric):
    """Skip bigrams whose words stand at most `distance` apart (equations 8 to 10)."""

    distance: int = 4
    backend: Literal["captau"] = "captau"

    def __post_init__(self) -> None:
        if self.distance < 1:
            raise InputError(f"metric rouge_s: distance is {self.distance}; 1 is the least")

    @property
    def name(self) -> str:
        return "rouge_s"

    def _score(self, rows: Rows) -> Floats:
        return np.array(
            [
                rouge_s(candidate.split(), [r.split() for r in references], self.distance)
                for candidate, references in zip(*tokenized(rows), strict=True)
            ]
        )


def rouge_n(candidate: list[str], references: list[list[str]], n: int) -> float:
    """Matched over all n-grams of the references; 0 where these have none."""
    counts = _ngrams(candidate, n)
    matched = total = 0
    for reference in references:
        wanted = _ngrams(reference, n)
        matched += (counts & wanted).total()
        total += wanted.total()
    return matched / total if total else 0.0


def rouge_s(candidate: list[str], references: list[list[str]], distance: int) -> float:
    """F-measure of the best skip-bigram recall and precision; 0 where there is no skip bigram."""
    counts = _skip_bigrams(candidate, distance)
    recall = precision = 0.0
    for reference in references:
        wanted = _skip_bigrams(reference, distance)
        matched = (counts & wanted).total()
        if matched:
            recall = max(recall, matched / wanted.total())
            precision = max(precision, matched / counts.total())
    if not recall:
        return 0.0
    return (1 + BETA**2) * recall * precision / (recall + BETA**2 * precision)


def _ngrams(words: list[str], n: int) -> Counter[tuple[str, ...]]:
    if n == 2:
        return Counter(pairwise(words))
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def _skip_bigrams(words: list[str], distance: int) -> Counter[tuple[str, str]]:
    return Counter(
        (first, second)
        for i, first in enumerate(words)
        for second in words[i + 1 : i + 1 + distance]
    )
