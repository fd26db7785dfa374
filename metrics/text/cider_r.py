"""CIDEr-R (dos Santos et al. 2021, "CIDEr-R: Robust Consensus-based Image Description Evaluation").

CIDEr-D with another factor in place of the Gaussian of the difference in length: a penalty for words that the candidate has
more or less often than the reference, and one for a length that differs in proportion to the reference's.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ...datasets.errors import InputError
from ..base import Floats, PreparedScorer
from ..registry import register
from .cider import Cider
from .tokens.corpus import Corpus, Ints

#: The powers of the penalty for repetition and of that for length (section 4).
REPETITION = 0.8
LENGTH = 0.2


@register("cider_r")
@dataclass(frozen=True)
class CiderR(Cider):
    """CIDEr-R: clipped cosines times repetition^0.8 · length^0.2, as the authors' code computes them.

    The repetition of a caption is the geometric mean over its distinct words of 1 / (1 + |count - count in the
    reference|), or 1 / count for a word that the reference lacks. The length is exp(-(l - r)² / r²), l and r being the
    lengths in bigrams. `sigma` has no effect.

    Example:
        >>> CiderR().score([
        ...     {"caption": "a dog runs", "references": ["a dog runs fast"]},
        ...     {"caption": "a cat", "references": ["a dog"]},
        ... ]).round(4).tolist()
        [5.1867, 0.0]
    """

    variant: Literal["r"] = "r"  # pyright: ignore[reportIncompatibleVariableOverride]
    backend: Literal["captau"] = "captau"  # pyright: ignore[reportIncompatibleVariableOverride]

    def prepare_references(self, references: Sequence[tuple[str, ...]]) -> PreparedScorer | None:
        """Return None where a file has the document frequencies: rows then score by themselves.

        Raises:
            InputError: without such a file.
        """
        if self.df is None:
            raise InputError(
                f"metric {self.spec}: scores would depend on the batch; name the document frequencies with df=FILE"
            )
        return None

    def compute_penalties(self, corpus: Corpus, candidates: Ints, references: Ints) -> Floats:
        # Pairs of texts repeat, each is penalised once.
        keys, inverse = np.unique(
            candidates * len(corpus.lengths) + references, return_inverse=True
        )
        candidate_texts, reference_texts = np.divmod(keys, len(corpus.lengths))

        spelling = list(corpus.vocabulary)
        counts: dict[int, Counter[str]] = {}
        for text in np.unique([candidate_texts, reference_texts]).tolist():
            words = corpus.words[corpus.starts[text] : corpus.starts[text + 1]]
            counts[text] = _count_words([spelling[word] for word in words])

        bigrams = np.maximum(corpus.lengths - 1, 0)
        pairs = zip(candidate_texts.tolist(), reference_texts.tolist(), strict=True)
        penalties: list[float] = []
        for candidate, reference in pairs:
            repetition = penalise_repetition(counts[candidate], counts[reference])
            length = penalise_length(int(bigrams[candidate]), int(bigrams[reference]))
            penalties.append(repetition**REPETITION * length**LENGTH)

        return np.array(penalties)[inverse]


def _count_words(tokens: Sequence[str]) -> Counter[str]:
    """Count the words of a text: letters, digits and underscores, which signs part."""
    return Counter(re.findall(r"\w+", " ".join(tokens)))


def penalise_repetition(candidate: Counter[str], reference: Counter[str]) -> float:
    """Return the geometric mean over the candidate's words; 1 without any."""
    if not candidate:
        return 1.0

    logs: list[float] = []
    for word, count in candidate.items():
        excess = abs(count - reference[word]) if word in reference else count - 1
        logs.append(-math.log1p(excess))
    return math.exp(sum(logs) / len(logs))


def penalise_length(candidate: int, reference: int) -> float:
    """Return the penalty for the lengths of two texts; beside an empty one 1 for another empty one, and else 0."""
    if not reference:
        return float(candidate == 0)
    return math.exp(-(((candidate - reference) / reference) ** 2))
