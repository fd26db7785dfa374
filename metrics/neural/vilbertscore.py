"""ViLBERTScore: greedy matching of token embeddings that were conditioned on the image."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from ...datasets.errors import InputError
from ..base import Floats
from ..registry import register
from ..rows import Key, Rows, look_up_all, row_keys
from .embeddings import ENDINGS, Embeddings, Vectors
from .from_files import FromFiles

_KEY = ("image_id", "caption")


@register("vilbertscore")
@dataclass(frozen=True)
class ViLBERTScore(FromFiles):
    """P, R or F of Lee et al. 2020, as the authors' code has them (hwanheelee1993/ViLBERTScore).

    With C the candidate's tokens, R a reference's, and s their cosine:

        P = 1/|C| Σ_c max_r s(c, r)    R = 1/|R| Σ_r max_c s(c, r)    F = 2PR / (P + R)

    A cosine below 0 counts as 0, as it does in that code. Of several references the scores are
    averaged (each F is of one reference). There is no idf weight and no baseline. A caption without
    tokens is undefined (NaN).

    The embeddings are read from a file of the layout of `embeddings.py`, of tokens, one entry for
    each pair of `image_id` and `caption`, candidates and references alike. The published figures
    are of the last layer of ViLBERT's text stream (multi-task model, task 7): the task token and all
    word pieces of the lower-cased caption, cut after the 36th, without [CLS], [SEP] and padding.

    Args:
        embeddings: the file.
        measure: which of the three.
    """

    embeddings: str | None = None
    measure: Literal["f", "p", "r"] = "f"
    backend: Literal["captau"] = "captau"

    #: Reading the file takes longer than the matching.
    is_cacheable: ClassVar[bool] = False
    file_fields: ClassVar[tuple[str, ...]] = ("embeddings",)
    endings: ClassVar[Mapping[str, tuple[str, ...]]] = {"embeddings": ENDINGS}

    @property
    def name(self) -> str:
        return "vilbertscore"

    def compute(self, rows: Rows) -> Floats:
        """Scores of shape (len(rows),).

        Raises:
            InputError: where the file is broken, or a candidate or reference has no embeddings.
        """
        file = Embeddings.read(self.file("embeddings"), tokens=True)
        if missing := [c for c in _KEY if c not in file.keys]:
            raise InputError(f"{file.path}: no '{missing[0]}'; token embeddings are named by both")
        entries = file.entries(_KEY)
        keys = row_keys(rows, _KEY, file.path)
        pair_keys = [(k[0], r) for k, refs in zip(keys, rows.references, strict=True) for r in refs]
        look_up_all(entries, [*dict.fromkeys([*keys, *pair_keys])], "embedding", file.path)
        scores = np.empty(len(rows))
        for i, (key, references) in enumerate(zip(keys, rows.references, strict=True)):
            reference_scores = [
                self._match_captions(file.vectors, entries, key, (key[0], r)) for r in references
            ]
            scores[i] = sum(reference_scores) / len(reference_scores)
        return scores

    def _match_captions(
        self, vectors: Vectors, entries: Mapping[Key, slice], candidate: Key, reference: Key
    ) -> float:
        p, r, f = greedy_match(vectors[entries[candidate]], vectors[entries[reference]])
        return {"p": p, "r": r, "f": f}[self.measure]


def greedy_match(candidate: Vectors, reference: Vectors) -> tuple[float, float, float]:
    """P, R and F of two captions' token embeddings, shapes (n_tokens, dimensions).

    Returns:
        three numbers from 0 to 1; NaN where a caption has no tokens; F is 0 where P and R are.
    """
    if not len(candidate) or not len(reference):
        return math.nan, math.nan, math.nan
    similarity = np.clip(_unit(candidate) @ _unit(reference).T, 0.0, 1.0)
    p, r = float(similarity.max(axis=1).mean()), float(similarity.max(axis=0).mean())
    return p, r, 2 * p * r / (p + r) if p + r else 0.0


def _unit(vectors: Vectors) -> Floats:
    wide = vectors.astype(np.float64)
    return wide / np.linalg.norm(wide, axis=1, keepdims=True)
