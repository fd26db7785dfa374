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
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from ...datasets.errors import InputError
from ...datasets.files import field, read_json
from ..base import Floats, Rows
from ..registry import register
from .ptb import TokenMetric, tokenize, tokenized

Ngram = tuple[str, ...]

ORDERS = 4
FORMAT = "captau document frequencies 1"


@dataclass(frozen=True)
class DocumentFrequencies:
    """In how many documents (rows' sets of references) each n-gram occurs."""

    documents: int
    counts: dict[Ngram, int]

    @classmethod
    def of(cls, documents: Iterable[tuple[tuple[str, ...], int]], orders: int = ORDERS) -> Any:
        """Count over (tokenised references, weight) pairs."""
        counts: Counter[Ngram] = Counter()
        total = 0
        grams: dict[str, Counter[Ngram]] = {}
        for references, weight in documents:
            total += weight
            held: set[Ngram] = set()
            for reference in references:
                if reference not in grams:
                    grams[reference] = ngrams(reference, orders)
                held.update(grams[reference])
            for ngram in held:
                counts[ngram] += weight
        return cls(total, dict(counts))

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
    tokenize(r for refs in sets for r in refs)
    return DocumentFrequencies.of((tuple(tokenize(refs)), 1) for refs in sets)


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
    corpus_statistics: ClassVar[bool] = True
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

    def _score(self, rows: Rows) -> Floats:
        candidates, references = tokenized(rows)
        if self.backend == "pycocoevalcap":
            return self._by_pycocoevalcap(candidates, references, rows)
        if self.df is None:
            frequencies = rows.share(
                "df",
                lambda: DocumentFrequencies.of(zip(references, rows.weights.tolist(), strict=True)),
            )
        else:
            frequencies = DocumentFrequencies.read(Path(self.df).expanduser())
        vectors = _Vectors(frequencies)
        return np.array(
            [
                self._one(vectors.of(candidate), [vectors.of(r) for r in refs])
                for candidate, refs in zip(candidates, references, strict=True)
            ]
        )

    def _by_pycocoevalcap(
        self, candidates: list[str], references: list[tuple[str, ...]], rows: Rows
    ) -> Floats:
        from pycocoevalcap.cider.cider_scorer import CiderScorer

        # It has no weights: a row is handed over as often as it counts.
        scorer = CiderScorer(n=ORDERS, sigma=self.sigma)
        for candidate, refs, weight in zip(candidates, references, rows.weights, strict=True):
            for _ in range(weight):
                scorer.cook_append(candidate, list(refs))
        scores = np.asarray(scorer.compute_score()[1])
        return scores[np.cumsum(rows.weights) - 1]

    def _one(self, candidate: _Vector, references: list[_Vector]) -> float:
        totals = [0.0] * ORDERS
        clip = self.variant == "d"
        for reference in references:
            penalty = 1.0
            if clip:
                difference = float(candidate.length - reference.length)
                penalty = math.e ** (-(difference**2) / (2 * self.sigma**2))
            for n in range(ORDERS):
                ours, theirs = candidate.weights[n], reference.weights[n]
                value = 0.0
                for ngram, weight in ours.items():
                    other = theirs.get(ngram)
                    if other is not None:
                        value += (min(weight, other) if clip else weight) * other
                if candidate.norms[n] != 0 and reference.norms[n] != 0:
                    value /= candidate.norms[n] * reference.norms[n]
                totals[n] += value * penalty
        return sum(totals) / ORDERS / len(references) * 10.0


@dataclass(frozen=True)
class _Vector:
    """TF-IDF weights of one sentence: per n-gram length a dict and its norm."""

    weights: list[dict[Ngram, float]]
    norms: list[float]
    length: int


class _Vectors:
    """Makes the vector of each distinct sentence once."""

    def __init__(self, frequencies: DocumentFrequencies) -> None:
        self._log_documents = math.log(frequencies.documents) if frequencies.documents else 0.0
        self._counts = frequencies.counts
        self._made: dict[str, _Vector] = {}

    def of(self, sentence: str) -> _Vector:
        if sentence not in self._made:
            self._made[sentence] = self._make(sentence)
        return self._made[sentence]

    def _make(self, sentence: str) -> _Vector:
        weights: list[dict[Ngram, float]] = [{} for _ in range(ORDERS)]
        squares = [0.0] * ORDERS
        length = 0
        for ngram, count in ngrams(sentence, ORDERS).items():
            n = len(ngram) - 1
            idf = self._log_documents - math.log(max(1.0, self._counts.get(ngram, 0)))
            weight = float(count) * idf
            weights[n][ngram] = weight
            squares[n] += weight**2
            if n == 1:
                length += count
        return _Vector(weights, [math.sqrt(s) for s in squares], length)


def ngrams(sentence: str, orders: int) -> Counter[Ngram]:
    """Counts of the n-grams of lengths 1 to `orders` of a tokenised sentence."""
    words = sentence.split()
    return Counter(
        tuple(words[i : i + n]) for n in range(1, orders + 1) for i in range(len(words) - n + 1)
    )
