"""CIDEr-D, as pycocoevalcap's `Cider` computes it, and plain CIDEr (Vedantam et al. 2015).

TF-IDF weighted n-gram similarity to each reference, averaged; ×10. The document frequencies come
from the references of the scored rows (each row is a document, so an image with many candidates counts
many times) or from a saved file, as `captau score save_df=` writes it. As in pycocoevalcap, on which
published numbers rest, an n-gram that is in no document has the weight log(number of documents).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ...datasets.cache import replacing
from ...datasets.errors import InputError
from ...datasets.paths import expand_home
from ...datasets.reading.json_files import field, read_json
from ..base import Floats, PreparedScorer
from ..registry import register
from ..rows import Rows
from .tokens.corpus import (
    Corpus,
    Ints,
    NgramMatches,
    NgramTable,
    TokenTable,
    find_starts,
    number_values,
    sorted_unique,
    spread,
    sum_by_place,
)
from .tokens.ptb import SegmentedMetric, Tokenize, Tokenizer, tokenize_rows


@dataclass(frozen=True)
class CaptionBatch:
    """Captions beside the references of their images.

    Attributes:
        corpus: a row a caption; its n-grams have the numbers of the `ReferenceCorpus`.
        new_ngrams: by length, the n-grams that no reference has; their numbers follow the others'.
    """

    corpus: Corpus
    new_ngrams: list[list[tuple[str, ...]]]


class ReferenceCorpus:
    """References of images, numbered once, beside which batch after batch of captions is set.

    Args:
        references: of each image.
        orders: up to which length n-grams are numbered.
        tokenizer: of references and captions.
    """

    def __init__(
        self, references: Sequence[tuple[str, ...]], orders: int, tokenizer: Tokenizer = "captau"
    ) -> None:
        self._tokenizer: Tokenizer = tokenizer
        self.corpus = Corpus.tokenize([""] * len(references), references, tokenizer)

        self._ranks: list[Ints] = []
        self._sorted_keys: list[Ints] = []
        for n in range(1, orders + 1):
            keys = self.corpus.grams(n).distinct
            self._ranks.append(np.argsort(keys))
            self._sorted_keys.append(keys[self._ranks[-1]])

    def set_captions(self, captions: Sequence[str], images: Ints) -> CaptionBatch:
        """Set captions beside the references of their images, shape (n_captions,)."""
        corpus = self.corpus

        # The references of these images alone, with their words, each once.
        sets, set_of_row = np.unique(corpus.sets[images], return_inverse=True)
        members, sizes = corpus.members_of(sets)
        texts, text_of_member = np.unique(corpus.members[members], return_inverse=True)
        lengths = corpus.starts[texts + 1] - corpus.starts[texts]
        places = spread(corpus.starts[texts], lengths)

        distinct_captions: dict[str, int] = {}
        candidates = len(texts) + number_values(captions, distinct_captions)
        tokens = TokenTable.tokenize(iter(distinct_captions), self._tokenizer)
        starts = find_starts(np.concatenate([lengths, np.diff(tokens.starts)]))

        grams, new_ngrams = self._number_ngrams(tokens, places)
        table = TokenTable({}, grams[0].ngram_at, starts, {})
        batch = Corpus(table, candidates, set_of_row, text_of_member, find_starts(sizes), grams)

        return CaptionBatch(batch, new_ngrams)

    def _number_ngrams(
        self, tokens: TokenTable, places: Ints
    ) -> tuple[list[NgramTable], list[list[tuple[str, ...]]]]:
        """Number the captions' n-grams behind those of the references' words at `places`."""
        vocabulary = self.corpus.vocabulary
        spelling = list(tokens.vocabulary)
        numbers = np.array([vocabulary.get(word, -1) for word in spelling], dtype=np.int64)
        (new_words,) = np.nonzero(numbers < 0)
        numbers[new_words] = len(vocabulary) + np.arange(len(new_words))

        base = len(vocabulary) + len(new_words)
        words = numbers[tokens.words] if spelling else np.empty(0, np.int64)
        spelt_words = [spelling[word] for word in tokens.words.tolist()]

        ngram_at = words
        tables = [_join_tables(self.corpus.words[places], words, base)]
        new_ngrams = [[(spelling[i],) for i in new_words.tolist()]]

        position = np.arange(len(words))
        words_left = np.repeat(tokens.starts[1:], np.diff(tokens.starts)) - position
        for n in range(2, len(self._ranks) + 1):
            position = position[words_left[position] >= n]
            prefixes = ngram_at[position]
            last_words = words[position + n - 1]
            is_shared, ngrams = self._look_up(n, prefixes, last_words)

            # Those that no reference has are numbered behind those that one has.
            keys = prefixes[~is_shared] * base + last_words[~is_shared]
            _, first, ngrams[~is_shared] = np.unique(keys, return_index=True, return_inverse=True)
            ngrams[~is_shared] += len(self._ranks[n - 1])

            ngram_at = np.full(len(words), -1)
            ngram_at[position] = ngrams

            begins = position[~is_shared][first].tolist()
            new_ngrams.append([tuple(spelt_words[begin : begin + n]) for begin in begins])
            size = len(self._ranks[n - 1]) + len(begins)
            tables.append(_join_tables(self.corpus.grams(n).ngram_at[places], ngram_at, size))

        return tables, new_ngrams

    def _look_up(self, n: int, prefixes: Ints, words: Ints) -> tuple[NDArray[np.bool_], Ints]:
        """Return which n-grams some reference has, and their numbers (0 for the others)."""
        sorted_keys = self._sorted_keys[n - 1]
        size = len(self.corpus.vocabulary)
        if not len(sorted_keys):
            return np.zeros(len(words), dtype=bool), np.zeros(len(words), dtype=np.int64)

        keys = prefixes * size + words
        rank = np.minimum(np.searchsorted(sorted_keys, keys), len(sorted_keys) - 1)
        # A new word has a number from `size` on, with which a key would be that of another n-gram.
        is_shared = (words < size) & (sorted_keys[rank] == keys)
        return is_shared, np.where(is_shared, self._ranks[n - 1][rank], 0)


def _join_tables(references: NDArray[Any], captions: Ints, size: int) -> NgramTable:
    """Make a table of `size` n-grams whose spelling nobody asks for."""
    ngram_at = np.concatenate([references, captions]).astype(np.int32)
    return NgramTable(ngram_at, np.zeros(size, dtype=np.int64))


Ngram = tuple[str, ...]

#: The lengths of n-grams are 1 to this.
ORDERS = 4
FORMAT = "captau document frequencies 1"


@dataclass(frozen=True)
class DocumentFrequencies:
    """The number of documents (rows' sets of references), and of those that have each n-gram.

    Attributes:
        tokenize: the tokeniser of the n-grams' words.
    """

    documents: int
    counts: dict[Ngram, int]
    tokenize: Tokenize = "ptb"

    @classmethod
    def read(cls, path: Path) -> DocumentFrequencies:
        """Read a file that `write` wrote.

        Raises:
            InputError: if it is no such file.
        """
        try:
            table = read_json(path)
        except InputError as error:
            raise InputError(
                f"{error}; captau score references=FILE save_df=FILE makes a document-frequency file"
            ) from error

        if not isinstance(table, dict) or table.get("format") != FORMAT:
            raise InputError(
                f"{path}: not a document-frequency file; make one with "
                f"captau score references=FILE save_df=FILE"
            )

        counts = field(table, "counts", dict, str(path))
        documents = field(table, "documents", int, str(path))
        if documents < 1:
            raise InputError(f"{path}: 'documents' is {documents}; at least 1 is expected")

        for ngram, count in counts.items():
            if type(count) is not int or not 1 <= count <= documents:
                raise InputError(
                    f"{path}: the count of '{ngram}' is {count!r}, not a whole number from 1 to "
                    f"the {documents} documents"
                )

        ngrams = {tuple(ngram.split(" ")): count for ngram, count in counts.items()}
        return cls(documents, ngrams, table.get("tokenize", "ptb"))

    def write(self, path: Path) -> None:
        """Write them whole or not at all, as JSON, sorted, so that equal frequencies make equal files.

        Raises:
            OSError: where the file cannot be written.
        """
        counts = {" ".join(ngram): count for ngram, count in sorted(self.counts.items())}
        # A file of PTB tokens does not name them, like those of earlier versions.
        tokens = {} if self.tokenize == "ptb" else {"tokenize": self.tokenize}
        table = {"format": FORMAT, **tokens, "documents": self.documents, "counts": counts}
        with replacing(path) as stream:
            stream.write(json.dumps(table, ensure_ascii=False, indent=0).encode())


def document_frequencies(
    references: Iterable[tuple[str, ...]], tokenize: Tokenize = "ptb"
) -> DocumentFrequencies:
    """Count document frequencies in untokenised references, one tuple an image."""
    sets = list(references)
    tokenizer = "captau" if tokenize == "ptb" else tokenize
    corpus = Corpus.tokenize([""] * len(sets), sets, tokenizer)

    counts: dict[Ngram, int] = {}
    for n, documents in enumerate(count_documents(corpus, np.ones(len(sets))), start=1):
        for ngram, count in zip(corpus.ngrams(n), documents.tolist(), strict=True):
            if count:
                counts[ngram] = int(count)

    return DocumentFrequencies(len(sets), counts, tokenize)


def count_documents(corpus: Corpus, weights: NDArray[Any]) -> list[Floats]:
    """Count the documents that have each n-gram: for each length an array, by the n-grams' numbers.

    Args:
        weights: shape (n_rows,), how many documents each row stands for.
    """
    return [_count_order(corpus, weights, n + 1) for n in range(ORDERS)]


def _count_order(corpus: Corpus, weights: NDArray[Any], n: int) -> Floats:
    documents = np.bincount(corpus.sets, weights)
    grams = corpus.grams(n)
    counts = np.zeros(len(grams.distinct))
    base = max(len(counts), 1)

    for sets in corpus.set_chunks():
        members, sizes = corpus.members_of(sets)
        texts = corpus.members[members]
        lengths = corpus.lengths[texts]
        ngram = grams.ngram_at[spread(corpus.starts[texts], lengths)].astype(np.int64)
        owner = np.repeat(np.repeat(sets, sizes), lengths)

        # A document that has an n-gram several times counts once.
        keys = sorted_unique(owner[ngram >= 0] * base + ngram[ngram >= 0])
        np.add.at(counts, keys % base, documents[keys // base])

    return counts


@register("cider")
@dataclass(frozen=True)
class Cider(SegmentedMetric):
    """CIDEr of PTB tokens, or those that `tokenize` names, without stemming.

    Args:
        variant: `d` clips counts at the reference's and weighs by a Gaussian of the difference in
            length (Chen et al. 2015, CIDEr-D); `plain` is the cosine similarity alone.
        sigma: the standard deviation of that Gaussian, in words.
        df: a document-frequency file, made by the same tokeniser; by default the scored rows' references are counted.
        backend: `captau` (any variant, weights, df), or `pycocoevalcap` itself (variant d alone).

    Example:
        >>> Cider().score([
        ...     {"caption": "a dog runs", "references": ["a dog runs fast"]},
        ...     {"caption": "a cat", "references": ["a dog"]},
        ... ]).round(4).tolist()
        [5.2302, 0.0]
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
                "metric cider: backend pycocoevalcap supports neither variant=plain nor df"
            )

        if not self.sigma > 0:
            raise InputError(f"metric cider: sigma is {self.sigma:g}, not above 0")

    def compute(self, rows: Rows) -> Floats:
        if self.backend == "pycocoevalcap":
            return self._compute_by_pycocoevalcap(rows)

        corpus = Corpus.of_rows(rows, self.tokenizer)
        documents, counts = rows.compute_once(
            self.frequencies_key, lambda: self._load_frequencies(rows, corpus)
        )
        idf = NgramIdf(math.log(documents) if documents else 0.0, counts)
        scores = [self._score_chunk(corpus, chunk, idf) for chunk in corpus.chunks()]
        return np.concatenate(scores)

    def prepare_references(self, references: Sequence[tuple[str, ...]]) -> PreparedScorer | None:
        """Number the references and their n-grams; each image is a document, unless `df` is a file."""
        if self.backend == "pycocoevalcap":
            return super().prepare_references(references)  # refuses

        prepared = ReferenceCorpus(references, ORDERS, self.tokenizer)
        if self.df is None:
            documents = len(references)
            saved_counts = {}
            counts = count_documents(prepared.corpus, np.ones(documents))
        else:
            saved = self.read_frequencies()
            documents = saved.documents
            saved_counts = saved.counts
            counts = [prepared.corpus.look_up(saved_counts, n + 1) for n in range(ORDERS)]

        def score(captions: Sequence[str], images: Ints) -> Floats:
            batch = prepared.set_captions(captions, images)
            new_counts: list[Floats] = []
            for ngrams in batch.new_ngrams:
                of_length = [saved_counts.get(ngram, 0) for ngram in ngrams]
                new_counts.append(np.array(of_length, dtype=np.float64))

            idf = NgramIdf(math.log(documents), counts, new_counts)
            corpus = batch.corpus
            scores = [self._score_chunk(corpus, chunk, idf) for chunk in corpus.chunks()]
            return np.concatenate(scores)

        return score

    @property
    def frequencies_key(self) -> str:
        """The key under which rows share frequencies: the number of documents, and counts by length."""
        name = "df" if self.tokenize == "ptb" else f"df[{self.tokenize}]"
        return name if self.df is None else f"{name} {self.df}"

    def read_frequencies(self) -> DocumentFrequencies:
        """Read the file `df`.

        Raises:
            InputError: if it is no such file, or was made by another tokeniser.
        """
        saved = DocumentFrequencies.read(expand_home(str(self.df)))
        if saved.tokenize != self.tokenize:
            raise InputError(
                f"{self.df}: it was made with tokenize={saved.tokenize}, and metric {self.spec} has "
                f"tokenize={self.tokenize}; make the file again with captau score save_df=FILE tokenize={self.tokenize}"
            )
        return saved

    def _load_frequencies(self, rows: Rows, corpus: Corpus) -> tuple[int, list[Floats]]:
        if self.df is None:
            return int(rows.weights.sum()), count_documents(corpus, rows.weights)

        saved = self.read_frequencies()
        return saved.documents, [corpus.look_up(saved.counts, n + 1) for n in range(ORDERS)]

    def _compute_by_pycocoevalcap(self, rows: Rows) -> Floats:
        from pycocoevalcap.cider.cider_scorer import CiderScorer

        candidates, references = tokenize_rows(rows, self.tokenizer)

        # It has no weights: a row is added as often as it counts.
        scorer = CiderScorer(n=ORDERS, sigma=self.sigma)
        for candidate, refs, weight in zip(candidates, references, rows.weights, strict=True):
            for _ in range(weight):
                scorer.cook_append(candidate, list(refs))
        scores = np.asarray(scorer.compute_score()[1])
        return scores[np.cumsum(rows.weights) - 1]

    def _score_chunk(self, corpus: Corpus, chunk: slice, idf: NgramIdf) -> Floats:
        """Score some rows; sums run in pycocoevalcap's order, so that they round equally."""
        sets = corpus.sets[chunk]
        candidates = corpus.candidates[chunk]
        members, sizes = corpus.members_of(sets)

        # The pairs of a row and one of its references, row by row.
        begins = np.cumsum(sizes) - sizes
        row = np.repeat(np.arange(len(sets)), sizes)
        reference = corpus.members[members]
        penalty = self.compute_penalties(corpus, candidates[row], reference)

        total = np.zeros(len(sets))
        for n in range(1, ORDERS + 1):
            matches = corpus.matches(chunk, n)
            norms = _vector_norms(matches, n, idf)

            n_references = matches.end - matches.begin
            entry = np.repeat(np.arange(len(n_references)), n_references)
            position = spread(matches.begin, n_references)

            weights = idf(matches.gram, n)
            candidate_values = (matches.count * weights)[entry]
            reference_values = matches.member_count[position] * weights[entry]

            # The pair of each entry's row and the reference.
            pair_of_first_member = begins - corpus.set_starts[sets]
            pair = pair_of_first_member[matches.row[entry]] + matches.member[position]

            if self.variant != "plain":
                candidate_values = np.minimum(candidate_values, reference_values)

            value = sum_by_place(pair, candidate_values * reference_values, len(row))

            texts = np.searchsorted(matches.texts, [candidates[row], reference])
            product = norms[texts[0]] * norms[texts[1]]
            np.divide(value, product, out=value, where=product != 0)
            total += sum_by_place(row, value * penalty, len(sets))

        return total / ORDERS / sizes * 10.0

    def compute_penalties(self, corpus: Corpus, candidates: Ints, references: Ints) -> Floats:
        """Compute the factor of some pairs of texts: for `d` the Gaussian of the difference in length.

        pycocoevalcap counts bigrams; words differ by as many, but for a text without words, whose score is 0.
        """
        if self.variant == "plain":
            return np.ones(len(candidates))

        # By Python's power, as in pycocoevalcap: NumPy's exponential may differ in the last bit.
        lengths = corpus.lengths
        differences, inverse = np.unique(
            lengths[candidates] - lengths[references], return_inverse=True
        )
        penalties = [math.e ** (-(d**2) / (2 * self.sigma**2)) for d in differences.tolist()]
        return np.array(penalties)[inverse]


@dataclass(frozen=True)
class NgramIdf:
    """The weights of n-grams; one that is in no document counts as if it were in one.

    Attributes:
        counts: by length and number, the documents with an n-gram.
        new_counts: of n-grams numbered behind those of `counts`.
    """

    log_documents: float
    counts: list[Floats]
    new_counts: list[Floats] | None = None

    def __call__(self, grams: NDArray[Any], n: int) -> Floats:
        counts = self.counts[n - 1]
        documents = counts.take(grams, mode="clip") if len(counts) else np.zeros(len(grams))
        if self.new_counts is not None:
            is_new = grams >= len(counts)
            documents[is_new] = self.new_counts[n - 1][grams[is_new] - len(counts)]

        return self.log_documents - np.log(np.maximum(1.0, documents))


def _vector_norms(matches: NgramMatches, n: int, idf: NgramIdf) -> Floats:
    """Compute the length of the TF-IDF vector of n-grams of each of the matches' texts."""
    counts = matches.counts
    squares = (counts.count * idf(counts.gram, n)) ** 2
    return np.sqrt(sum_by_place(counts.text, squares, len(matches.texts)))
