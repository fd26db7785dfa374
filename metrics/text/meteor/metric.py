"""METEOR 1.5 as the COCO server runs it (Denkowski and Lavie 2014; Chen et al. 2015, section 3.5).

The backend `captau` computes it from METEOR's own tables, without Java; `pycocoevalcap` runs the Java
program, which is the authority.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cache, cached_property, lru_cache
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ....datasets.errors import InputError
from ....datasets.paths import expand_home
from ...base import Floats, PooledMetric, PreparedScorer, need_modules, version_of
from ...progress import progress_counter
from ...registry import register
from ...rows import Items, Rows
from ..tokens.ptb import SegmentedMetric, tokenize, tokenize_rows
from .languages import ENGLISH, LANGUAGES, Code, MeteorLanguage, Setting

if TYPE_CHECKING:
    from .alignment import Aligner
    from .jar_process import MeteorProcess
    from .words import Ints

logger = logging.getLogger(__name__)

# Columns of the statistics that `Aligner.compute_statistics` describes. Those of candidate and reference alternate.
_WORDS = 0
_FUNCTION_WORDS = 2
_MATCHES = 4
_CHUNKS = 20
_MATCHED = 21
_MATCHED_REFERENCE = 22
# Each kind of match has four columns: two of content words, then two of function words.
_COLUMNS_OF_MATCH = 4
_CONTENT = 0
_FUNCTION = 2

#: From so many words on a caption may take METEOR long.
_MANY_WORDS = 5_000


@register("meteor")
@dataclass(frozen=True)
class Meteor(PooledMetric, SegmentedMetric):
    """METEOR with its English defaults and `-norm`, on PTB tokens; other tokens are taken as they are.

    Args:
        backend: `captau`, or `pycocoevalcap`, whose Java program is the authority.
        language: of stems, function words and parameters. `auto` is English with tokenize=ptb and intl, and else
            `other`, which matches equal words alone; languages but English need another tokeniser than ptb.
        paraphrases: METEOR's file of paraphrases for the language, such as `paraphrase-fr.gz`. Without one only
            English has paraphrases, and only English has synonyms.
    """

    backend: Literal["captau", "pycocoevalcap"] = "captau"
    language: Code = "auto"
    paraphrases: str | None = None

    distributions: ClassVar[tuple[str, ...]] = ("captau", "snowballstemmer")
    file_fields: ClassVar[tuple[str, ...]] = ("paraphrases",)
    later_fields: ClassVar[tuple[str, ...]] = ("tokenize", "language", "paraphrases")
    takes_longest: ClassVar[bool] = True
    is_best_of_references: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.tokenize == "ptb" and self.language not in ("auto", "en"):
            raise InputError(
                f"metric {self.spec}: tokenize=ptb cuts English words alone; add tokenize=intl, or another tokeniser"
            )

    def check_rows(self, rows: Rows) -> None:
        super().check_rows(rows)
        if self.backend == "captau":  # which reads the tables in pycocoevalcap
            modules = ("pycocoevalcap", "numba", "snowballstemmer")
            need_modules(f"metric {self.spec}", modules, "meteor")

    @property
    def programs(self) -> tuple[str, ...]:
        if self.backend != "captau":
            return super().programs

        tables = f"pycocoevalcap:{version_of('pycocoevalcap')}"
        return (tables, *super().programs)

    @cached_property
    def setting(self) -> Setting:
        """The language and what goes with it."""
        code = self.language
        if code == "auto":
            code = "en" if self.tokenize in ("ptb", "intl") else "other"
        path = None if self.paraphrases is None else expand_home(self.paraphrases).resolve()
        return Setting(LANGUAGES[code], self.tokenize == "ptb", path)

    def start(self) -> None:
        """Start the Java program, if the backend uses it, without waiting for it."""
        if self.backend == "pycocoevalcap":
            self._running_process()

    def compute(self, rows: Rows) -> Floats:
        if self.backend == "pycocoevalcap":
            lines = self._jar_statistics(rows)
            scores, _ = self._running_process().evaluate(lines)
            return np.array(scores)

        return self._score_rows(rows)[0]

    def prepare_references(self, references: Sequence[tuple[str, ...]]) -> PreparedScorer | None:
        """Keep the references' tokens, and look their words up."""
        prepared = super().prepare_references(references)
        if self.backend == "captau":
            with _lock:
                texts = chain.from_iterable(references)
                _aligner(self.setting).remember_words(tokenize(texts, self.tokenizer))
        return prepared

    def corpus_score(self, items: Items, scores: Floats | None = None) -> float:
        """Compute METEOR of the summed statistics, which is not the mean of the sentence scores."""
        if self.backend == "captau":
            return super().corpus_score(items, scores)

        rows = Rows.from_items(items).repeat_by_weight()
        self.check_rows(rows)
        unique, inverse = rows.unique
        lines = self._jar_statistics(unique)
        _, corpus_score = self._running_process().evaluate([lines[i] for i in inverse])
        return corpus_score

    def corpus_summands(self, items: Items, scores: Floats) -> Ints | None:
        """Return the statistics of matches."""
        if self.backend == "pycocoevalcap":
            return None
        unique, inverse = Rows.from_items(items).unique
        return self._score_rows(unique)[1][inverse]

    def pool(self, sums: NDArray[Any]) -> Floats:
        return meteor_scores(sums, self.setting.language)

    def _running_process(self) -> MeteorProcess:
        """Return the running Java program of the setting."""
        # The backend `captau` does not need its module.
        from .jar_process import running_process

        return running_process(self.setting)

    def _jar_statistics(self, rows: Rows) -> list[str]:
        """Return the Java program's statistics of each row."""

        def compute() -> list[str]:
            texts = tokenize_rows(rows, self.tokenizer)
            return self._running_process().compute_statistics(*texts)

        return rows.compute_once(self.spec, compute)

    def _score_rows(self, rows: Rows) -> tuple[Floats, Ints]:
        """Return the score of each row, and the statistics that a corpus sums, shape (len(rows), 23)."""

        def compute() -> tuple[Floats, Ints]:
            scores: list[Floats] = []
            summands: list[Ints] = []
            with _lock:  # the tables are read while another metric makes the tokens
                _aligner(self.setting)
            texts = tokenize_rows(rows, self.tokenizer)
            longest = max(text.count(" ") + 1 for text in texts[0])
            if longest >= _MANY_WORDS:
                logger.warning(
                    "metric %s: a caption has %s words; METEOR's time grows with the square of how often a word is "
                    "repeated, and may be seconds for each reference",
                    self.spec,
                    f"{longest:,}",
                )
            for chunk in best_statistics(*texts, rows.label, self.setting):
                scores.append(meteor_scores(chunk, self.setting.language))
                # Texts that match word for word have no penalty: in a corpus's sum their chunk does not count.
                chunk[match_in_one_chunk(chunk), _CHUNKS] = 0
                summands.append(chunk)
            return np.concatenate(scores), np.concatenate(summands)

        return rows.compute_once(self.spec, compute)


def best_statistics(
    candidates: Sequence[str],
    references: Sequence[tuple[str, ...]],
    label: Callable[[int], str] = "row {}".format,
    setting: Setting = ENGLISH,
) -> Iterator[Ints]:
    """Compute METEOR's statistics of each candidate with its best reference, the first of equal ones.

    Args:
        candidates: tokens in lower case, joined by blanks.
        references: those of each candidate, one or more, likewise.
        label: names a candidate in messages.

    Yields:
        int32 arrays of shape (rows, 23), chunk by chunk; columns as in `Aligner.compute_statistics`.

    Raises:
        InputError: if two texts have more possible matches than can be searched.
    """
    # Imported here, as nothing is aligned where all scores are in the store.
    from .alignment import CHUNK, MAX_MATCHES

    for start in range(0, len(candidates), CHUNK):
        chunk = references[start : start + CHUNK]
        counts = [len(texts) for texts in chunk]
        row = np.repeat(np.arange(len(chunk)), counts)
        repeated_candidates = [candidates[start + int(i)] for i in row]
        pairs = _align(repeated_candidates, list(chain.from_iterable(chunk)), setting)
        has_too_many_matches = pairs[:, 0] < 0
        if has_too_many_matches.any():
            first_row = start + int(row[np.argmax(has_too_many_matches)])
            raise InputError(
                f"{label(first_row)}: its words match a reference's "
                f"in more than {MAX_MATCHES:,} ways, too many for METEOR; shorten the texts"
            )

        pair_scores = meteor_scores(pairs, setting.language)
        # The pairs of a row are neighbours, of which the first stands here.
        first_pairs = np.cumsum([0, *counts[:-1]])
        best = np.maximum.reduceat(pair_scores, first_pairs)
        (best_pairs,) = np.nonzero(pair_scores == best[row])
        # Of several pairs of a row that are as good, the first.
        _, first_of_row = np.unique(row[best_pairs], return_index=True)
        yield pairs[best_pairs[first_of_row]]


_lock = threading.Lock()


def _align(candidates: list[str], references: list[str], setting: Setting) -> Ints:
    with _lock:  # the aligner remembers words
        return _aligner(setting).compute_statistics(candidates, references)


@cache
def _aligner(setting: Setting) -> Aligner:
    from .alignment import Aligner
    from .index import load_index

    name = setting.language.name
    with ThreadPoolExecutor(1) as pool:  # Numba loads the loops, or compiles them once, meanwhile
        kernel = pool.submit(import_module, f"{__package__}._kernel")
        index = load_index(name, setting.paraphrases)
        _wait_for_kernel(kernel)
    return Aligner(index, name, is_normalised=setting.is_normalised)


def _wait_for_kernel(kernel: Future[Any]) -> None:
    """Wait for the inner loops; where they are compiled, which takes many seconds once, say so."""
    try:
        kernel.result(timeout=1.0)
    except TimeoutError:
        with progress_counter("METEOR's inner loops, compiled once", None):
            kernel.result()


def meteor_scores(statistics: NDArray[Any], language: MeteorLanguage = ENGLISH.language) -> Floats:
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
    alpha = language.alpha
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = _weighted_share(s, language, side=0)
        recall = _weighted_share(s, language, side=1)
        mean = 1 / ((1 - alpha) / precision + alpha / recall)
        fragmentation = s[:, _CHUNKS] / ((s[:, _MATCHED] + s[:, _MATCHED_REFERENCE]) / 2)

    fragmentation[match_in_one_chunk(s)] = 0
    ratios, inverse = np.unique(fragmentation, return_inverse=True)
    penalty = language.gamma * rounded_powers(ratios, language.beta)[inverse]
    scores = mean * (1 - penalty)
    return np.where(np.isnan(scores), 0.0, np.maximum(scores, 0.0))


def _weighted_share(s: Floats, language: MeteorLanguage, side: int) -> Floats:
    """Return the weighted matches of the candidate (side 0) or the reference (1) by its weighted length."""
    delta = language.delta
    # Content words first, then function words, as METEOR adds them: the order of the sum moves the last bit.
    matches = np.zeros(len(s))
    share_by_kind = {_CONTENT: delta, _FUNCTION: 1 - delta}
    for kind, share in share_by_kind.items():
        for module, weight in enumerate(language.weights):
            first_column = _MATCHES + _COLUMNS_OF_MATCH * module + kind
            matches = matches + s[:, first_column + side] * weight * share

    n_function_words = s[:, _FUNCTION_WORDS + side]
    n_content_words = s[:, _WORDS + side] - n_function_words
    return matches / (delta * n_content_words + (1 - delta) * n_function_words)


def match_in_one_chunk(s: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which statistics are of texts whose words all match in one chunk."""
    # Every second column is the candidate's, the others are the reference's.
    n_matched = s[:, _MATCHES:_CHUNKS:2].sum(axis=1)
    n_matched_of_reference = s[:, _MATCHES + 1 : _CHUNKS : 2].sum(axis=1)

    matches_all = n_matched == s[:, _WORDS]
    matches_all_of_reference = n_matched_of_reference == s[:, _WORDS + 1]
    return matches_all & matches_all_of_reference & (s[:, _CHUNKS] == 1)


_CONTEXT = Context(prec=40)


def rounded_powers(ratios: Floats, exponent: float) -> Floats:
    """Return a power of each ratio, rounded to the nearest: libraries, also Java's, differ in the last bit.

    Where NumPy's long doubles have 64 bits, they decide, except near the middle between two doubles; else, and at
    powers of two, between which doubles have other distances, 40 digits do.
    """
    powers = np.power(ratios.astype(np.longdouble), np.longdouble(exponent))
    rounded = powers.astype(np.float64)
    half_step = np.spacing(rounded) / 2

    # The middle between two doubles lies half a step from either.
    rounding_error = np.abs(powers - rounded)
    distance_from_middle = np.abs(half_step - rounding_error)
    is_far_from_middle = distance_from_middle > half_step / 64
    # NumPy writes a number as m · 2^k with m from 0.5 to 1.
    mantissas, _ = np.frexp(rounded)
    has_64_bits = np.finfo(np.longdouble).nmant == 63
    is_sure = is_far_from_middle & (mantissas != 0.5) & has_64_bits
    is_unsure = (ratios > 0) & ~is_sure
    rounded[is_unsure] = [_power(ratio, exponent) for ratio in ratios[is_unsure].tolist()]
    return rounded


@lru_cache(maxsize=1 << 16)
def _power(ratio: float, exponent: float) -> float:
    logarithm = _CONTEXT.ln(Decimal(ratio))
    return float(_CONTEXT.exp(_CONTEXT.multiply(logarithm, Decimal(exponent))))
