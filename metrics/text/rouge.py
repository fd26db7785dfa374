"""The COCO server's ROUGE family on tokens, by default PTB's (Lin 2004; Chen et al. 2015, section 3.4).

`rouge_l` is pycocoevalcap's. `rouge_1`, `rouge_2` (equation 4) and `rouge_s` (equations 8 to 10)
are in the paper but not in its released code; they follow the formulas here.

`rouge_score_1`, `rouge_score_2` and `rouge_score_l` are Google's rouge-score on untokenised text, as in THumB's tables. Its
tokeniser only keeps the letters a–z and digits. Of several references the one with the greatest F-measure counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ...datasets.caption_texts import find_script
from ...datasets.errors import InputError
from ..base import Floats, Metric
from ..registry import register
from ..rows import Rows
from .tokens.corpus import Corpus, Ints, spread
from .tokens.ptb import SegmentedMetric, Tokenizer, tokenize_rows

#: Recall counts 1.44 times as much as precision (Chen et al. 2015, below equation 7).
BETA = 1.2


@register("rouge_l")
@dataclass(frozen=True)
class RougeL(SegmentedMetric):
    """Longest common subsequence: F-measure of the best recall and the best precision.

    The best recall and the best precision may come from different references, as in equation 7.

    Example:
        >>> RougeL().score([{"caption": "a dog runs", "references": ["a dog runs fast"]}]).round(4).tolist()
        [0.8356]
    """

    backend: Literal["captau", "pycocoevalcap"] = "captau"

    distributions: ClassVar[tuple[str, ...]] = ("captau", "rapidfuzz")

    def compute(self, rows: Rows) -> Floats:
        if self.backend == "pycocoevalcap":
            from pycocoevalcap.rouge.rouge import Rouge

            scorer = Rouge()
            return _score_each(
                rows,
                lambda candidate, references: scorer.calc_score([candidate], list(references)),
                self.tokenizer,
            )

        corpus = Corpus.of_rows(rows, self.tokenizer)
        return np.concatenate([_score_chunk(corpus, chunk) for chunk in corpus.chunks()])


def _score_each(
    rows: Rows, score: Callable[[str, tuple[str, ...]], float], tokenizer: Tokenizer
) -> Floats:
    """Score the tokens of each row's caption and references."""
    texts = zip(*tokenize_rows(rows, tokenizer), strict=True)
    return np.array([score(candidate, references) for candidate, references in texts])


def _score_chunk(corpus: Corpus, chunk: slice) -> Floats:
    """Compute ROUGE-L of some rows."""
    from rapidfuzz.distance import LCSseq
    from rapidfuzz.process import cpdist

    member_places, sizes = corpus.members_of(corpus.sets[chunk])
    references = corpus.members[member_places]
    candidates = np.repeat(corpus.candidates[chunk], sizes)
    texts, position = np.unique(np.concatenate([candidates, references]), return_inverse=True)
    strings = encode_words(corpus, texts)
    candidate_position = position[: len(candidates)]
    reference_position = position[len(candidates) :]
    common = cpdist(
        [strings[i] for i in candidate_position],
        [strings[i] for i in reference_position],
        scorer=LCSseq.similarity,
        dtype=np.int64,
    )

    lengths = np.array([len(string) for string in strings])
    begins = np.cumsum(sizes) - sizes
    precision = np.maximum.reduceat(common / lengths[candidate_position], begins)
    recall = np.maximum.reduceat(common / lengths[reference_position], begins)
    with np.errstate(invalid="ignore"):  # 0 / 0 if no word is common
        f = ((1 + BETA**2) * precision * recall) / (recall + BETA**2 * precision)
    return np.where(precision > 0, f, 0.0)


def encode_words(corpus: Corpus, texts: Ints) -> list[str]:
    """Return each text as a string with one character a word, the input of the LCS library.

    Words are split at blanks alone, as pycocoevalcap's ROUGE does; an empty text has one, empty word.
    """
    # Characters are numbered within the chunk: there are fewer of them than a corpus may have words.
    sizes = corpus.lengths[texts]
    words_of_texts = corpus.words[spread(corpus.starts[texts], sizes)]
    # As `np.unique` would, but without sorting: words are small numbers.
    is_used = np.zeros(len(corpus.vocabulary), dtype=bool)
    is_used[words_of_texts] = True
    words = np.flatnonzero(is_used)
    number_of_word = np.cumsum(is_used) - 1

    line = encode_numbers(number_of_word[words_of_texts])
    ends = np.cumsum(sizes).tolist()
    strings = [line[end - size : end] for end, size in zip(ends, sizes.tolist(), strict=True)]
    number_of: dict[int | str, int] = {word: i for i, word in enumerate(words.tolist())}

    def number(word: str) -> int:
        # The vocabulary has the words of texts that are split at all white space; others stand for themselves.
        key = corpus.vocabulary.get(word, word)
        # Words that no text of the chunk has when split like that are numbered behind.
        return number_of.setdefault(key, len(number_of))

    for i, text in enumerate(texts.tolist()):
        if text in corpus.blank_split:
            words_of_text = [number(word) for word in corpus.blank_split[text]]
            strings[i] = encode_numbers(np.array(words_of_text))

    return strings


def encode_numbers(numbers: NDArray[Any]) -> str:
    """Return a string of these code points, skipping those that UTF-16 reserves."""
    codes = numbers + np.where(numbers >= 0xD800, 0x800, 0)
    return codes.astype("<u4").tobytes().decode("utf-32-le")


@register("rouge_1", n=1)
@register("rouge_2", n=2)
@dataclass(frozen=True)
class RougeN(SegmentedMetric):
    """n-gram recall over all references together (equation 4).

    Example:
        >>> RougeN(1).score([{"caption": "a dog runs", "references": ["a dog runs fast"]}]).tolist()
        [0.75]
    """

    n: int = 1
    backend: Literal["captau"] = "captau"

    name_fields: ClassVar[tuple[str, ...]] = ("n",)

    @property
    def name(self) -> str:
        return f"rouge_{self.n}"

    def compute(self, rows: Rows) -> Floats:
        return _score_each(
            rows,
            lambda candidate, references: rouge_n(
                candidate.split(), [reference.split() for reference in references], self.n
            ),
            self.tokenizer,
        )


@register("rouge_s")
@dataclass(frozen=True)
class RougeS(SegmentedMetric):
    """Skip bigrams whose words are at most `distance` apart (equations 8 to 10)."""

    distance: int = 4
    backend: Literal["captau"] = "captau"

    def __post_init__(self) -> None:
        if self.distance < 1:
            raise InputError(f"metric rouge_s: distance is {self.distance}; at least 1 is expected")

    def compute(self, rows: Rows) -> Floats:
        return _score_each(
            rows,
            lambda candidate, references: rouge_s(
                candidate.split(), [reference.split() for reference in references], self.distance
            ),
            self.tokenizer,
        )


def rouge_n(candidate: list[str], references: list[list[str]], n: int) -> float:
    """Return matched over all n-grams of the references; 0 if these have none."""
    counts = _count_ngrams(candidate, n)
    matched = total = 0
    for reference in references:
        reference_counts = _count_ngrams(reference, n)
        matched += (counts & reference_counts).total()
        total += reference_counts.total()

    return matched / total if total else 0.0


def rouge_s(candidate: list[str], references: list[list[str]], distance: int) -> float:
    """Return the F-measure of the best skip-bigram recall and precision; 0 without skip bigrams."""
    counts = _count_skip_bigrams(candidate, distance)
    recall = precision = 0.0
    for reference in references:
        reference_counts = _count_skip_bigrams(reference, distance)
        matched = (counts & reference_counts).total()
        if matched:
            recall = max(recall, matched / reference_counts.total())
            precision = max(precision, matched / counts.total())

    if not recall:
        return 0.0
    return (1 + BETA**2) * recall * precision / (recall + BETA**2 * precision)


def _count_ngrams(words: list[str], n: int) -> Counter[tuple[str, ...]]:
    if n == 2:
        return Counter(pairwise(words))
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def _count_skip_bigrams(words: list[str], distance: int) -> Counter[tuple[str, str]]:
    counts: Counter[tuple[str, str]] = Counter()
    for i, first in enumerate(words):
        counts.update((first, second) for second in words[i + 1 : i + 1 + distance])
    return counts


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

    needs: ClassVar[frozenset[str]] = frozenset({"references"})
    bounds: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)
    distributions: ClassVar[tuple[str, ...]] = ("captau", "rouge_score", "nltk")
    name_fields: ClassVar[tuple[str, ...]] = ("kind",)
    unsegmented_remedy: ClassVar[str] = "rouge-score reads the letters a–z alone; take rouge_l"

    def cannot_segment(self, text: str) -> bool:
        # Its tokeniser drops all letters but a–z.
        return find_script([text]) not in ("", "latin")

    def compute(self, rows: Rows) -> Floats:
        from rouge_score.rouge_scorer import RougeScorer

        scorer = RougeScorer([self.kind], tokenizer=_caching_tokenizer(self.stemmer))
        best_scores: list[float] = []
        for caption, references in zip(rows.captions, rows.references, strict=True):
            scores = [scorer.score(reference, caption)[self.kind] for reference in references]
            best_scores.append(max(score.fmeasure for score in scores))

        return np.array(best_scores)


def _caching_tokenizer(stemmer: bool) -> Any:
    """Return rouge-score's tokeniser with a cache; otherwise it tokenises a caption once a reference."""
    from rouge_score.tokenizers import DefaultTokenizer

    inner = DefaultTokenizer(stemmer)

    class Tokenizer:
        tokenize = staticmethod(cache(inner.tokenize))

    return Tokenizer()
