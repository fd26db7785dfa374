"""CIDEr-D, as pycocoevalcap's `Cider` computes it, and plain CIDEr (Vedantam et al. 2015).

TF-IDF weighted n-gram similarity to each reference, averaged; ×10. The document frequencies come
from the references of the scored rows (each row a document, so an image with many candidates counts
many times) or from a saved file. Two traits of pycocoevalcap are kept, because published numbers
rest on them: the length of a sentence is the number of its bigrams, and an n-gram that no document
holds has the weight log(number of documents).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ...datasets.errors import InputError
from ...datasets.files import field, read_json
from ..base import Floats
from ..registry import register
from ..rows import Rows
from .tokens.corpus import Corpus, Ints, added, ascending, spread
from .tokens.ptb import TokenMetric, tokenize_rows

Ngram = tuple[str, ...]

ORDERS = 4
FORMAT = "captau document frequencies 1"


@dataclass(frozen=True)
class DocumentFrequencies:
    """In how many documents (rows' sets of references) each n-gram occurs."""

    documents: int
    counts: dict[Ngram, int]

    @classmethod
    def read(cls, path: Path) -> DocumentFrequencies:
        """From a file that `write` made.

        Raises:
            InputError: where it is no such file.
        """
        table = read_json(path)
        if not isinstance(table, dict) or table.get("format") != FORMAT:
            raise InputError(
                f"{path}: no document-frequency file; make one with "
                f"captau data df references=FILE output=FILE"
            )
        counts = field(table, "counts", dict, str(path))
        documents = field(table, "documents", int, str(path))
        if documents < 1:
            raise InputError(f"{path}: 'documents' is {documents}; 1 is the least")
        for ngram, count in counts.items():
            if type(count) is not int or not 1 <= count <= documents:
                raise InputError(
                    f"{path}: the count of '{ngram}' is {count!r}, not a whole number from 1 to "
                    f"the {documents} documents"
                )
        return cls(documents, {tuple(k.split(" ")): v for k, v in counts.items()})

    def write(self, path: Path) -> None:
        """As JSON, sorted, so that equal frequencies make equal files."""
        counts = {" ".join(k): v for k, v in sorted(self.counts.items())}
        table = {"format": FORMAT, "documents": self.documents, "counts": counts}
        path.write_text(json.dumps(table, ensure_ascii=False, indent=0), encoding="utf-8")


def document_frequencies(references: Iterable[tuple[str, ...]]) -> DocumentFrequencies:
    """Document frequencies of untokenised references, one tuple an image."""
    sets = list(references)
    corpus = Corpus([""] * len(sets), sets)
    counts: dict[Ngram, int] = {}
    for n in range(1, ORDERS + 1):
        held = _held(corpus, np.ones(len(sets)), n)
        counts.update(
            (ngram, int(count))
            for ngram, count in zip(corpus.ngrams(n), held.tolist(), strict=True)
            if count
        )
    return DocumentFrequencies(len(sets), counts)


def document_counts(corpus: Corpus, weights: NDArray[Any]) -> list[Floats]:
    """In how many documents n-grams occur: for each length an array, by the n-grams' numbers.

    Args:
        weights: how many documents each row stands for.
    """
    return [_held(corpus, weights, n + 1) for n in range(ORDERS)]


def _held(corpus: Corpus, weights: NDArray[Any], n: int) -> Floats:
    """In how many documents each n-gram occurs, shape (number of distinct n-grams,).

    Args:
        weights: how many documents each row stands for.
    """
    documents = added(corpus.sets, weights, len(corpus.set_starts) - 1)
    grams = corpus.grams(n)
    held = np.zeros(len(grams.distinct))
    wide = max(len(held), 1)
    for sets in corpus.set_chunks():
        sizes = np.diff(corpus.set_starts)[sets]
        texts = corpus.members[spread(corpus.set_starts[sets], sizes)]
        words = corpus.lengths[texts]
        at = grams.at[spread(corpus.starts[texts], words)].astype(np.int64)
        owner = np.repeat(np.repeat(sets, sizes), words)
        keys = ascending(owner[at >= 0] * wide + at[at >= 0])
        np.add.at(held, keys % wide, documents[keys // wide])
    return held


@register("cider")
@dataclass(frozen=True)
class Cider(TokenMetric):
    """CIDEr of PTB tokens, without stemming.

    Args:
        variant: `d` clips counts at the reference's and weighs by a Gaussian of the difference in
            length (Chen et al. 2015, CIDEr-D); `plain` is the cosine similarity alone.
        sigma: the standard deviation of that Gaussian, in words.
        df: a document-frequency file; without one the scored rows' references are counted.
        backend: `captau` (any variant, weights, df), or `pycocoevalcap` itself (variant d alone).
    """

    variant: Literal["d", "plain"] = "d"
    sigma: float = 6.0
    df: str | None = None
    backend: Literal["captau", "pycocoevalcap"] = "captau"

    bounds: ClassVar[tuple[float | None, float | None]] = (0.0, 10.0)
    depends_on_corpus: ClassVar[bool] = True
    file_fields: ClassVar[tuple[str, ...]] = ("df",)

    def __post_init__(self) -> None:
        if self.backend == "pycocoevalcap" and (self.variant != "d" or self.df is not None):
            raise InputError(
                "metric cider: backend pycocoevalcap knows neither variant=plain nor df"
            )
        if not self.sigma > 0:
            raise InputError(f"metric cider: sigma is {self.sigma:g}, not above 0")

    @property
    def name(self) -> str:
        return "cider"

    def compute(self, rows: Rows) -> Floats:
        if self.backend == "pycocoevalcap":
            return self._by_pycocoevalcap(rows)
        corpus = Corpus.of(rows)
        documents, held = rows.compute_once(self.shared, lambda: self._counted(rows, corpus))
        weigh = _Idf(math.log(documents) if documents else 0.0, held)
        return np.concatenate([self._chunk(corpus, chunk, weigh) for chunk in corpus.chunks()])

    @property
    def shared(self) -> str:
        """What rows share between metrics with the same frequencies: documents, and counts by length."""
        return "df" if self.df is None else f"df {self.df}"

    def _counted(self, rows: Rows, corpus: Corpus) -> tuple[int, list[Floats]]:
        if self.df is None:
            return int(rows.weights.sum()), document_counts(corpus, rows.weights)
        frequencies = DocumentFrequencies.read(Path(self.df).expanduser())
        looked_up = [corpus.look_up(frequencies.counts, n + 1) for n in range(ORDERS)]
        return frequencies.documents, looked_up

    def _by_pycocoevalcap(self, rows: Rows) -> Floats:
        from pycocoevalcap.cider.cider_scorer import CiderScorer

        candidates, references = tokenize_rows(rows, "pycocoevalcap")

        # It has no weights: a row is handed over as often as it counts.
        scorer = CiderScorer(n=ORDERS, sigma=self.sigma)
        for candidate, refs, weight in zip(candidates, references, rows.weights, strict=True):
            for _ in range(weight):
                scorer.cook_append(candidate, list(refs))
        scores = np.asarray(scorer.compute_score()[1])
        return scores[np.cumsum(rows.weights) - 1]

    def _chunk(self, corpus: Corpus, chunk: slice, idf: _Idf) -> Floats:
        """Scores of some rows; sums run in pycocoevalcap's order, so that they round as its do."""
        sets, candidates = corpus.sets[chunk], corpus.candidates[chunk]
        sizes = np.diff(corpus.set_starts)[sets]
        begins = np.cumsum(sizes) - sizes
        row = np.repeat(np.arange(len(sets)), sizes)
        reference = corpus.members[spread(corpus.set_starts[sets], sizes)]
        penalty = np.ones(len(row))
        if self.variant == "d":
            penalty = self._penalty(corpus, candidates[row], reference)
        total = np.zeros(len(sets))
        for n in range(1, ORDERS + 1):
            matches = corpus.matches(chunk, n)
            norms = _norms(corpus, np.concatenate([candidates, reference]), n, idf)
            found = matches.end - matches.begin
            entry = np.repeat(np.arange(len(found)), found)
            held = spread(matches.begin, found)
            weights = idf(matches.gram, n)
            ours = (matches.count * weights)[entry]
            theirs = matches.member_count[held] * weights[entry]
            # The pair of a row and one of its references.
            pair = (begins - corpus.set_starts[sets])[matches.row[entry]] + matches.member[held]
            clipped = np.minimum(ours, theirs) if self.variant == "d" else ours
            value = added(pair, clipped * theirs, len(row))
            product = norms[: len(candidates)][row] * norms[len(candidates) :]
            np.divide(value, product, out=value, where=product != 0)
            total += added(row, value * penalty, len(sets))
        return total / ORDERS / sizes * 10.0

    def _penalty(self, corpus: Corpus, candidates: Ints, references: Ints) -> Floats:
        """The Gaussian of the difference in length of some pairs."""
        bigrams = np.maximum(corpus.lengths - 1, 0)
        differences, inverse = np.unique(
            bigrams[candidates] - bigrams[references], return_inverse=True
        )
        return np.array([math.e ** (-(d**2) / (2 * self.sigma**2)) for d in differences.tolist()])[
            inverse
        ]


@dataclass(frozen=True)
class _Idf:
    """The weights of n-grams: one that no document holds counts as if one did."""

    log_documents: float
    held: list[Floats]

    def __call__(self, grams: Ints, n: int) -> Floats:
        return self.log_documents - np.log(np.maximum(1.0, self.held[n - 1][grams]))


def _norms(corpus: Corpus, texts: Ints, n: int, idf: _Idf) -> Floats:
    """The length of each text's TF-IDF vector of n-grams."""
    distinct, inverse = np.unique(texts, return_inverse=True)
    counted = corpus.count(distinct, n)
    squares = (counted.count * idf(counted.gram, n)) ** 2
    return np.sqrt(added(counted.text, squares, len(distinct)))[inverse]
