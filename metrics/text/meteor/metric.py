"""METEOR 1.5 as the COCO server runs it (Denkowski and Lavie 2014; Chen et al. 2015, section 3.5).

The backend `captau` computes it from METEOR's own tables, without Java; `pycocoevalcap` runs the Java
program, which is the authority.
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
from ...base import CorpusResampler, Floats, PreparedScorer, version_of
from ...registry import register
from ...rows import Items, Rows
from ..tokens.ptb import TokenMetric, tokenize, tokenize_rows
from . import jar_process
from .alignment import CHUNK, MAX_MATCHES, Aligner
from .index import load_index
from .tables import Ints

# METEOR 1.5's parameters for English, as its jar holds them (tuned to rank): α weighs recall, β and γ
# shape the penalty for fragments, δ weighs content words against function words; then the weights of
# words that match exactly, by their stem, as synonyms, within a paraphrase.
ALPHA, BETA, GAMMA, DELTA = 0.85, 0.2, 0.6, 0.75
WEIGHTS = (1.0, 0.6, 0.8, 0.6)
# Columns of the statistics that `Aligner.compute_statistics` describes.
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
    def coco_modules(self) -> tuple[str, ...]:
        # The backend captau reads the tables in pycocoevalcap.
        return super().coco_modules or ("pycocoevalcap", "numba", "snowballstemmer")

    @property
    def programs(self) -> tuple[str, ...]:
        return super().programs or (f"pycocoevalcap:{version_of('pycocoevalcap')}",)

    def start(self) -> None:
        """Start the Java program, if the backend uses it, without waiting for it."""
        if self.backend == "pycocoevalcap":
            jar_process.running_process()

    def compute(self, rows: Rows) -> Floats:
        if self.backend == "pycocoevalcap":
            return np.array(jar_process.running_process().evaluate(_jar_statistics(rows))[0])
        return _score_rows(rows)[0]

    def prepare_references(self, references: Sequence[tuple[str, ...]]) -> PreparedScorer | None:
        """Keep the references' tokens, and look their words up."""
        prepared = super().prepare_references(references)
        if self.backend == "captau":
            with _lock:
                _aligner().remember_words(tokenize(text for texts in references for text in texts))
        return prepared

    def corpus_score(self, items: Items, scores: Floats | None = None) -> float:
        """Compute METEOR of the summed statistics, which is not the mean of the sentence scores."""
        if self.backend == "pycocoevalcap":
            rows = Rows.from_items(items).repeat_by_weight()
            self.check_rows(rows)
            unique, inverse = rows.unique
            lines = _jar_statistics(unique)
            return jar_process.running_process().evaluate([lines[i] for i in inverse])[1]
        rows = Rows.from_items(items).require_any()
        self.check_rows(rows)
        unique = rows.unique[0]
        return float(meteor_scores(unique.weights[None] @ _score_rows(unique)[1])[0])

    def corpus_resampler(self, items: Items, scores: Floats) -> CorpusResampler | None:
        """Return METEOR of the summed statistics as a function of the rows' weights."""
        statistics = self.corpus_summands(items, scores)
        return None if statistics is None else lambda weights: meteor_scores(weights.T @ statistics)

    def corpus_summands(self, items: Items, scores: Floats) -> Ints | None:
        """Return the statistics of matches."""
        if self.backend == "pycocoevalcap":
            return None
        unique, inverse = Rows.from_items(items).unique
        return _score_rows(unique)[1][inverse]

    def corpus_score_from_sums(self, sums: Sequence[float]) -> float:
        """Compute METEOR of the summed statistics."""
        return float(meteor_scores(np.array([sums]))[0])


def _jar_statistics(rows: Rows) -> list[str]:
    """Return the Java program's statistics of each row."""

    def compute() -> list[str]:
        texts = tokenize_rows(rows, "pycocoevalcap")
        return jar_process.running_process().compute_statistics(*texts)

    return rows.compute_once("meteor(backend=pycocoevalcap)", compute)


def _score_rows(rows: Rows) -> tuple[Floats, Ints]:
    """Return the score of each row, and the statistics that a corpus sums, shape (len(rows), 23)."""

    def compute() -> tuple[Floats, Ints]:
        scores: list[Floats] = []
        summands: list[Ints] = []
        for chunk in best_statistics(*tokenize_rows(rows), rows.label):
            scores.append(meteor_scores(chunk))
            chunk[match_in_one_chunk(chunk), _CHUNKS] = 0
            summands.append(chunk)
        return np.concatenate(scores), np.concatenate(summands)

    return rows.compute_once("meteor(backend=captau)", compute)


def best_statistics(
    candidates: Sequence[str],
    references: Sequence[tuple[str, ...]],
    label: Callable[[int], str] = "row {}".format,
) -> Iterator[Ints]:
    """Compute METEOR's statistics of each candidate with its best reference, the first of equal ones.

    Args:
        candidates: PTB tokens in lower case, joined by blanks.
        references: those of each candidate, one or more, likewise.
        label: names a candidate in messages.

    Yields:
        int32 arrays of shape (rows, 23), chunk by chunk; columns as in `Aligner.compute_statistics`.

    Raises:
        InputError: if two texts have more possible matches than can be searched.
    """
    for start in range(0, len(candidates), CHUNK):
        texts = references[start : start + CHUNK]
        counts = [len(t) for t in texts]
        row = np.repeat(np.arange(len(texts)), counts)
        pairs = _align(
            [candidates[start + int(i)] for i in row], [t for refs in texts for t in refs]
        )
        if (pairs[:, 0] < 0).any():
            raise InputError(
                f"{label(start + int(row[np.argmin(pairs[:, 0])]))}: its words match a reference's "
                f"in more than {MAX_MATCHES:,} ways, too many for METEOR; shorten the texts"
            )
        pair_scores = meteor_scores(pairs)
        best = np.maximum.reduceat(pair_scores, np.cumsum([0, *counts[:-1]]))
        (best_pairs,) = np.nonzero(pair_scores == best[row])
        yield pairs[best_pairs[np.unique(row[best_pairs], return_index=True)[1]]]


_lock = threading.Lock()


def _align(candidates: list[str], references: list[str]) -> Ints:
    with _lock:  # the aligner remembers words
        return _aligner().compute_statistics(candidates, references)


@cache
def _aligner() -> Aligner:
    return Aligner(load_index())


def meteor_scores(statistics: NDArray[Any]) -> Floats:
    """Compute scores from statistics (Denkowski and Lavie 2014).

    With P and R the weighted matches by the weighted lengths of candidate and reference,
    F = 1 / ((1 - α) / P + α / R), and the score F · (1 - γ · (chunks / matched words)^β). Without
    matches it is 0; texts that match word for word in one chunk have no penalty.

    Args:
        statistics: shape (n, 23), columns as in `Aligner.compute_statistics`.

    Returns:
        float64 array of shape (n,). Each step is rounded as in METEOR.
    """
    s = statistics.astype(np.float64)
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
    fragmentation[match_in_one_chunk(s)] = 0
    ratios, inverse = np.unique(fragmentation, return_inverse=True)
    penalty = GAMMA * np.array([_power_beta(ratio) for ratio in ratios.tolist()])[inverse]
    scores = mean * (1 - penalty)
    return np.where(np.isnan(scores), 0.0, np.maximum(scores, 0.0))


def match_in_one_chunk(s: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which statistics are of texts whose words all match in one chunk."""
    return (
        (s[:, 4:20:2].sum(axis=1) == s[:, 0])
        & (s[:, 5:20:2].sum(axis=1) == s[:, 1])
        & (s[:, _CHUNKS] == 1)
    )


_CONTEXT = Context(prec=40)


@lru_cache(maxsize=1 << 16)
def _power_beta(ratio: float) -> float:
    """Return `ratio` to the power β, rounded to the nearest: libraries, also Java's, differ in the last bit."""
    if not ratio > 0:
        return ratio  # 0, or NaN where nothing matches
    return float(_CONTEXT.exp(_CONTEXT.multiply(_CONTEXT.ln(Decimal(ratio)), Decimal(BETA))))
