"""METEOR 1.5 as the COCO server runs it (Denkowski and Lavie 2014; Chen et al. 2015, section 3.5).

`captau` computes it from METEOR's own tables, without Java; `pycocoevalcap` runs the Java program.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cache, lru_cache
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ....datasets.errors import InputError
from ...base import CorpusResampler, Floats, version_of
from ...registry import register
from ...rows import Items, Rows
from ..tokens.ptb import TokenMetric, tokenize_rows
from . import java_program as meteor_jar
from .alignment import CHUNK, MATCHES, Aligner
from .index import Ints, index

# METEOR 1.5's parameters for English, as its jar holds them (tuned to rank): α weighs recall, β and γ
# shape the penalty for fragments, δ weighs content words against function words; then what a word
# counts that matches exactly, by its stem, as a synonym, within a paraphrase.
ALPHA, BETA, GAMMA, DELTA = 0.85, 0.2, 0.6, 0.75
WEIGHTS = (1.0, 0.6, 0.8, 0.6)
# Columns of the statistics that `Aligner.statistics` describes.
_CHUNKS, _MATCHED, _MATCHED_REFERENCE = 20, 21, 22


@register("meteor")
@dataclass(frozen=True)
class Meteor(TokenMetric):
    """METEOR with its English defaults and `-norm`, on PTB tokens.

    Args:
        backend: `captau`, or `pycocoevalcap`, whose Java program is the authority.
    """

    backend: Literal["captau", "pycocoevalcap"] = "captau"

    distributions: ClassVar[tuple[str, ...]] = ("captau", "snowballstemmer")
    starts_slowly: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return "meteor"

    @property
    def programs(self) -> tuple[str, ...]:
        # Ours reads the tables in pycocoevalcap.
        return super().programs or (f"pycocoevalcap:{version_of('pycocoevalcap')}",)

    def start(self) -> None:
        """Start the Java program, where one is used, without waiting for it."""
        if self.backend == "pycocoevalcap":
            meteor_jar.program()

    def compute(self, rows: Rows) -> Floats:
        if self.backend == "pycocoevalcap":
            return np.array(meteor_jar.program().evaluate(_lines(rows))[0])
        return _scored(rows)[0]

    def corpus_score(self, items: Items, scores: Floats | None = None) -> float:
        """METEOR of the summed statistics, not the mean of the sentence scores."""
        if self.backend == "pycocoevalcap":
            rows = Rows.from_items(items).repeat_by_weight()
            self.check_rows(rows)
            unique, inverse = rows.unique
            lines = _lines(unique)
            return meteor_jar.program().evaluate([lines[i] for i in inverse])[1]
        rows = Rows.from_items(items).require_any()
        self.check_rows(rows)
        unique = rows.unique[0]
        return float(score(unique.weights[None] @ _scored(unique)[1])[0])

    def corpus_resampler(self, items: Items, scores: Floats) -> CorpusResampler | None:
        """METEOR of the summed statistics."""
        statistics = self.corpus_summands(items, scores)
        return None if statistics is None else lambda weights: score(weights.T @ statistics)

    def corpus_summands(self, items: Items, scores: Floats) -> Ints | None:
        """The statistics of matches."""
        if self.backend == "pycocoevalcap":
            return None
        unique, inverse = Rows.from_items(items).unique
        return _scored(unique)[1][inverse]

    def corpus_score_from_sums(self, sums: Sequence[float]) -> float:
        """METEOR of the summed statistics."""
        return float(score(np.array([sums]))[0])


def _lines(rows: Rows) -> list[str]:
    """The Java program's statistics of each row."""

    def compute() -> list[str]:
        return meteor_jar.program().statistics(*tokenize_rows(rows, "pycocoevalcap"))

    return rows.compute_once("meteor(backend=pycocoevalcap)", compute)


def _scored(rows: Rows) -> tuple[Floats, Ints]:
    """The score of each row, shape (len(rows),), and what corpora sum of it, shape (len(rows), 23)."""

    def compute() -> tuple[Floats, Ints]:
        scores: list[Floats] = []
        pooled: list[Ints] = []
        for some in statistics(*tokenize_rows(rows), rows.label):
            scores.append(score(some))
            some[_whole(some), _CHUNKS] = 0
            pooled.append(some)
        return np.concatenate(scores), np.concatenate(pooled)

    return rows.compute_once("meteor(backend=captau)", compute)


def statistics(
    candidates: Sequence[str],
    references: Sequence[tuple[str, ...]],
    label: Callable[[int], str] = "row {}".format,
) -> Iterator[Ints]:
    """METEOR's statistics of each candidate with its best reference, the first of those that tie.

    Args:
        candidates: PTB tokens in lower case, joined by blanks.
        references: those of each candidate, one or more, likewise.
        label: how to call a candidate in a message.

    Yields:
        int32 arrays of shape (rows, 23), chunk by chunk; columns as in `Aligner.statistics`.

    Raises:
        InputError: where two texts have more possible matches than can be searched.
    """
    for start in range(0, len(candidates), CHUNK):
        texts = references[start : start + CHUNK]
        counts = [len(t) for t in texts]
        row = np.repeat(np.arange(len(texts)), counts)
        pairs = _aligned(
            [candidates[start + int(i)] for i in row], [text for some in texts for text in some]
        )
        if (pairs[:, 0] < 0).any():
            raise InputError(
                f"{label(start + int(row[np.argmin(pairs[:, 0])]))}: its words match a reference's "
                f"in more than {MATCHES:,} ways, too many for METEOR; shorten the texts"
            )
        each = score(pairs)
        best = np.maximum.reduceat(each, np.cumsum([0, *counts[:-1]]))
        (reached,) = np.nonzero(each == best[row])
        yield pairs[reached[np.unique(row[reached], return_index=True)[1]]]


_lock = threading.Lock()


def _aligned(candidates: list[str], references: list[str]) -> Ints:
    with _lock:  # the aligner learns words as it goes
        return _aligner().statistics(candidates, references)


@cache
def _aligner() -> Aligner:
    return Aligner(index())


def score(rows: NDArray[Any]) -> Floats:
    """Scores from statistics (Denkowski and Lavie 2014).

    With P and R the weighted matches by the weighted lengths of candidate and reference,
    F = 1 / ((1 - α) / P + α / R), and the score F · (1 - γ · (chunks / matched words)^β). Without
    matches it is 0; texts that match word for word in one chunk have no penalty.

    Args:
        rows: shape (n, 23), columns as in `Aligner.statistics`.

    Returns:
        float64 array of shape (n,). Each step is rounded as in METEOR.
    """
    s = rows.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision, recall = (
            sum(
                (
                    s[:, 4 + side + kind + 4 * module] * weight * share
                    for kind, share in ((0, DELTA), (2, 1 - DELTA))
                    for module, weight in enumerate(WEIGHTS)
                ),
                start=np.zeros(len(s)),
            )
            / (DELTA * (s[:, side] - s[:, 2 + side]) + (1 - DELTA) * s[:, 2 + side])
            for side in (0, 1)
        )
        mean = 1 / ((1 - ALPHA) / precision + ALPHA / recall)
        fragmentation = s[:, _CHUNKS] / ((s[:, _MATCHED] + s[:, _MATCHED_REFERENCE]) / 2)
    fragmentation[_whole(s)] = 0
    ratios, inverse = np.unique(fragmentation, return_inverse=True)
    penalty = GAMMA * np.array([_power(ratio) for ratio in ratios.tolist()])[inverse]
    result = mean * (1 - penalty)
    return np.where(np.isnan(result), 0.0, np.maximum(result, 0.0))


def _whole(s: NDArray[Any]) -> NDArray[np.bool_]:
    """Which statistics are of texts whose words all match in one chunk."""
    return (
        (s[:, 4:20:2].sum(axis=1) == s[:, 0])
        & (s[:, 5:20:2].sum(axis=1) == s[:, 1])
        & (s[:, _CHUNKS] == 1)
    )


_CONTEXT = Context(prec=40)


@lru_cache(maxsize=1 << 16)
def _power(ratio: float) -> float:
    """`ratio` to the power β, rounded to the nearest: libraries differ in the last bit, also Java's."""
    if not ratio > 0:
        return ratio  # 0, or NaN where nothing matches
    return float(_CONTEXT.exp(_CONTEXT.multiply(_CONTEXT.ln(Decimal(ratio)), Decimal(BETA))))
