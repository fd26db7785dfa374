"""Document frequencies of n-grams for CIDEr: counted from references, or read from a saved file.

`captau score save_df=` writes such files; `cider` reads them, and counts a corpus of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...datasets.cache import replacing
from ...datasets.errors import InputError
from ...datasets.reading.json_files import field, read_json
from ..base import Floats
from .tokens.corpus import Corpus, sorted_unique, spread, sum_by_place
from .tokens.segmenters import Tokenize

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
        table = read_json(path)
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
        ngrams = {tuple(k.split(" ")): v for k, v in counts.items()}
        return cls(documents, ngrams, table.get("tokenize", "ptb"))

    def write(self, path: Path) -> None:
        """Write them whole or not at all, as JSON, sorted, so that equal frequencies make equal files.

        Raises:
            OSError: where the file cannot be written.
        """
        counts = {" ".join(k): v for k, v in sorted(self.counts.items())}
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
        counts.update(
            (ngram, int(count))
            for ngram, count in zip(corpus.ngrams(n), documents.tolist(), strict=True)
            if count
        )
    return DocumentFrequencies(len(sets), counts, tokenize)


def count_documents(corpus: Corpus, weights: NDArray[Any]) -> list[Floats]:
    """Count the documents that have each n-gram: for each length an array, by the n-grams' numbers.

    Args:
        weights: shape (n_rows,), how many documents each row stands for.
    """
    return [_count_order(corpus, weights, n + 1) for n in range(ORDERS)]


def _count_order(corpus: Corpus, weights: NDArray[Any], n: int) -> Floats:
    documents = sum_by_place(corpus.sets, weights, len(corpus.set_starts) - 1)
    grams = corpus.grams(n)
    counts = np.zeros(len(grams.distinct))
    base = max(len(counts), 1)
    for sets in corpus.set_chunks():
        members, sizes = corpus.members_of(sets)
        texts = corpus.members[members]
        lengths = corpus.lengths[texts]
        ngram = grams.ngram_at[spread(corpus.starts[texts], lengths)].astype(np.int64)
        owner = np.repeat(np.repeat(sets, sizes), lengths)
        keys = sorted_unique(owner[ngram >= 0] * base + ngram[ngram >= 0])
        np.add.at(counts, keys % base, documents[keys // base])
    return counts
