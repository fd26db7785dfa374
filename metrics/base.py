"""The base class of all metrics: parameters that identify a metric, and one number per caption.

A metric is a frozen dataclass that says what it is: its parameters are its fields, and from them come its
`spec` (what a person types) and its `signature` (the key of stored scores). Who computes the scores is one
of these fields, `backend`; subclasses do the work in `compute`, and everyone else calls `score`.

A `WordMetric` says besides of each word of a caption how surely it is made up, as `text/chair.py` does.
"""

from __future__ import annotations

import dataclasses
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ..datasets.download.permission import LargeDownload
from ..datasets.errors import InputError
from ..datasets.paths import expand_home
from ..datasets.reading.source_files import sha256
from .rows import Items, Rows
from .spec_text import format_value, quote_value
from .user_code import run_user_code

logger = logging.getLogger(__name__)

Floats = NDArray[np.float64]

#: Maps how often each row counts, shape (n_rows, n_samples), to the corpus scores, shape (n_samples,).
CorpusResampler = Callable[[Floats], Floats]

#: Maps captions, and for each the number of its image, to scores of shape (n_captions,).
PreparedScorer = Callable[[Sequence[str], NDArray[np.int64]], Floats]


def later_options(options: Any) -> dict[str, Any]:
    """Return the defaults of those fields of a dataclass that its `later_fields` name.

    Files, digests and stored scores from before lack these fields, and hold while they have their defaults.
    """
    names = getattr(options, "later_fields", ())
    defaults: dict[str, Any] = {}
    for field in dataclasses.fields(options):
        if field.name in names:
            defaults[field.name] = field.default
    return defaults


@dataclasses.dataclass(frozen=True)
class Unavailability:
    """The reason why a metric cannot be computed here.

    Attributes:
        problem: what it lacks, with the metric as the subject: "needs images, and row 1 has none".
        remedy: what to do about it; empty where there is nothing to advise.
        need: what the metric needs and no caption has, `references` or `images`; empty where the reason is another.
    """

    problem: str
    remedy: str = ""
    need: str = ""

    def __str__(self) -> str:
        """Return the problem and the remedy in one line."""
        return "; ".join(part for part in (self.problem, self.remedy) if part)

    def record(self) -> dict[str, str]:
        """Return the attributes, for run.json."""
        return dataclasses.asdict(self)


_REMEDIES = {
    "references": "in a table of your own, file.references= names their columns; metrics=reference_free names metrics that need none",
    "images": "docs/neural.md says where they are looked for",
}


class UnavailableError(InputError):
    """A metric cannot be computed here: references, images, weights or an extra are missing.

    A run lists the metric as missing, with the reason, and computes the others; where there are none, it is an error.

    Args:
        subject: who lacks something, as in "metric clipscore".
        problem, remedy, need: see `Unavailability`.
    """

    def __init__(self, subject: str, problem: str, remedy: str = "", need: str = "") -> None:
        self.unavailability = Unavailability(problem, remedy, need)
        super().__init__(f"{subject} {self.unavailability}")


def need_modules(subject: str, modules: Sequence[str], extra: str) -> None:
    """Check that modules of an extra are installed; nothing is imported.

    Raises:
        UnavailableError: where one is missing, with the extra as the remedy.
    """
    for module in modules:
        if find_spec(module) is None:
            raise UnavailableError(
                subject,
                f"needs {module}, which is not installed",
                f"pip install 'captau[{extra}]'",
            )


@dataclasses.dataclass(frozen=True)
class Metric(ABC):
    """A metric: its fields are its parameters, and together they make its signature.

    To write a metric, make a frozen dataclass, register it under its name (`registry.register`), and implement
    `compute`; nothing else is needed (docs/new_metric.md).
    """

    #: Columns that rows must have: "references", "images", or neither.
    needs: ClassVar[frozenset[str]] = frozenset()
    #: Least and greatest value; None stands for unbounded.
    bounds: ClassVar[tuple[float | None, float | None]] = (None, None)
    higher_is_better: ClassVar[bool] = True
    #: Whether scores depend on the other rows (CIDEr's document frequencies).
    depends_on_corpus: ClassVar[bool] = False
    #: Whether a score against several references is the best of those against each.
    is_best_of_references: ClassVar[bool] = False
    #: Whether equal rows have equal scores, so that each distinct row is scored once.
    depends_only_on_content: ClassVar[bool] = True
    #: Whether scores may be stored for later runs; those of other packages only if these name `distributions`.
    is_cacheable: ClassVar[bool] = True
    #: Python distributions whose versions are part of the signature.
    distributions: ClassVar[tuple[str, ...]] = ("captau",)
    #: Fields that name a file: its content, not its path, enters the signature.
    file_fields: ClassVar[tuple[str, ...]] = ()
    #: Fields that the registered name implies, such as the 4 of `bleu_4`; the spec leaves them out.
    name_fields: ClassVar[tuple[str, ...]] = ()
    #: Fields added after scores had been stored: their defaults stay out of the signature, so that these hold.
    later_fields: ClassVar[tuple[str, ...]] = ()
    #: Whether it takes longer than others, and waits for another process; such metrics begin early.
    takes_longest: ClassVar[bool] = False
    #: The remedy for texts whose words the tokeniser cannot find.
    unsegmented_remedy: ClassVar[str] = "set words apart by blanks first"
    #: Held while the metric scores; metrics that cannot run side by side share a lock.
    lock: ClassVar[AbstractContextManager[Any]] = nullcontext()

    #: What `external.metric` made it of, `mine.py:Words`, where the class is in the user's file.
    origin: ClassVar[str] = ""

    if TYPE_CHECKING:

        @property
        def name(self) -> str:
            """The registered name, such as `bleu_4`, unless the class has a property or a field of its own."""
            ...
    else:

        def __getattr__(self, attribute: str) -> str:
            """Return the class's name as the name of a metric that is not registered."""
            if attribute != "name":
                raise AttributeError(f"{type(self).__name__} has no attribute {attribute!r}")
            return type(self).__name__

    @abstractmethod
    def compute(self, rows: Rows) -> Floats:
        """Compute the scores of checked rows.

        Returns:
            shape (len(rows),), in the metric's natural range; NaN where a score is undefined.
        """

    def score(self, items: Items) -> Floats:
        """Score captions.

        Args:
            items: a `CaptionSet`, a DataFrame of its items, or a list of dicts with `caption` and
                `references`.

        Returns:
            float64 array of shape (n_items,); NaN where the metric is undefined.

        Raises:
            InputError: if an item lacks what the metric needs, or what the metric returns is not a number for each.
        """
        rows = Rows.from_items(items)
        if not len(rows):
            return np.empty(0)

        with self.lock:
            self.check_rows(rows)
            unique, inverse = self._distinct_rows(rows)
            unique.remarks.pop(self.spec, None)
            computed = self._compute(unique)

        try:
            scores = np.asarray(computed, dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(f"metric {self.spec} returned no numbers ({error})") from error
        if scores.shape != (len(unique),):
            raise InputError(
                f"metric {self.spec} returned scores of shape {scores.shape} for {len(unique)} items"
            )

        # Remarks were made on the distinct rows, which the caller does not see.
        for text in unique.remarks.get(self.spec, []):
            rows.add_remark(self.spec, text)
        if not isinstance(items, Rows) and (text := self.unsegmented_remark(rows)):
            logger.warning("metric %s: %s", self.spec, text)  # others print it below a table
        return scores[inverse]

    def _distinct_rows(self, rows: Rows) -> tuple[Rows, NDArray[np.intp]]:
        """Return the rows that are scored, each once if equal rows score alike, and the index of each row among them."""
        return rows.unique if self.depends_only_on_content else (rows, np.arange(len(rows)))

    def _compute(self, rows: Rows) -> Floats:
        """Compute scores; of a class of the user's, an exception becomes an InputError with its line."""
        package_of_class = type(self).__module__.partition(".")[0]
        own_package = __name__.partition(".")[0]
        if package_of_class == own_package:
            return self.compute(rows)
        return run_user_code(f"metric {self.spec}", lambda: self.compute(rows))

    def cannot_segment(self, text: str) -> bool:
        """Return whether the metric compares words, and its tokeniser cannot find a text's words."""
        return False

    def unsegmented_remark(self, rows: Rows) -> str:
        """Count the texts whose words the tokeniser cannot find, so that a 0 says nothing; empty without any."""
        if rows.is_ascii:
            return ""

        references = set(chain.from_iterable(rows.references))
        n_captions = sum(map(self.cannot_segment, rows.captions))
        n_references = sum(map(self.cannot_segment, references))
        if not n_captions + n_references:
            return ""

        return (
            f"the tokeniser cannot find the words of {n_captions:,} of {len(rows):,} captions and "
            f"{n_references:,} of {len(references):,} references, so that their scores say nothing; "
            f"{self.unsegmented_remedy}"
        )

    def check_rows(self, rows: Rows) -> None:
        """Check that rows have what the metric needs.

        Raises:
            UnavailableError: if references or images are missing.
            InputError: if a cell is of the wrong type.
        """
        _ = rows.weights  # which refuses cells that are no weights
        # Nearly always all are texts, which their types tell quickly.
        if set(map(type, rows.captions)) != {str}:
            for i, caption in enumerate(rows.captions):
                if not isinstance(caption, str):
                    raise InputError(f"{rows.label(i)}: the caption is {caption!r}, not a text")

        if "references" in self.needs and not rows.has_references:
            self._check_need(rows, "references", list(map(bool, rows.references)))
            for i, references in enumerate(rows.references):
                if not all(isinstance(reference, str) for reference in references):
                    raise InputError(
                        f"{rows.label(i)}: the references are {references!r}, not texts"
                    )

        if "images" in self.needs:
            self._check_need(rows, "images", [image is not None for image in rows.images])

    def _check_need(self, rows: Rows, need: str, has_it: Sequence[bool]) -> None:
        """Check that all rows have what the metric needs."""
        if all(has_it):
            return

        subject = f"metric {self.spec}"
        if len(has_it) > 1 and not any(has_it):
            problem = f"needs {need}, which these captions do not have"
            raise UnavailableError(subject, problem, _REMEDIES[need], need)

        problem = f"needs {need}, and {rows.label(has_it.index(False))} has none"
        raise UnavailableError(subject, problem, _REMEDIES[need])

    def check_dataset(self, rows: Rows) -> None:  # noqa: B027
        """Check that these rows can test the metric, which other rows may do even where they cannot.

        A run of several datasets asks this and goes on; a run of one fails where it scores or correlates.

        Raises:
            UnavailableError: where it was trained on these images, or its files lack these captions.
        """

    def find_unavailability(
        self, items: Items, *, is_one_of_several: bool = False
    ) -> Unavailability | None:
        """Return the reason why the metric cannot be computed here, or None if it can be tried.

        Args:
            items: as for `score`.
            is_one_of_several: whether other items are scored too, so that `check_dataset` counts as well.

        Raises:
            InputError: if the items are wrong rather than lacking what the metric needs.
        """
        rows = Rows.from_items(items)
        try:
            self.check_rows(rows)
            if is_one_of_several:
                self.check_dataset(rows)
        except UnavailableError as error:
            return error.unavailability
        return None

    def pending_download(self) -> LargeDownload | None:
        """Return the large files that the metric needs and that are not here; None where there are none."""
        return None

    def start(self) -> None:  # noqa: B027
        """Start a program that takes long to start, without waiting for it; most metrics have none."""

    def prepare_references(self, references: Sequence[tuple[str, ...]]) -> PreparedScorer | None:
        """Work on references once, against which captions are scored again and again (`reward`).

        Args:
            references: of each image.

        Returns:
            a function that threads may share; None where `score` is as good.

        Raises:
            InputError: if a caption's score would depend on the captions scored with it.
        """
        if self.depends_on_corpus:
            raise InputError(f"metric {self.spec}: scores would depend on the batch")
        return None

    def corpus_score(self, items: Items, scores: Floats | None = None) -> float:
        """Compute one score for all items: their weighted mean, unless the metric pools statistics.

        Args:
            items: as for `score`.
            scores: the result of `score(items)`, if it is at hand.
        """
        rows = Rows.from_items(items).require_any()
        values = self.score(rows) if scores is None else scores
        # Scores may be infinite on both sides, whose mean is NaN.
        with np.errstate(invalid="ignore"):
            return float(np.average(values, weights=rows.weights))

    def corpus_resampler(self, items: Items, scores: Floats) -> CorpusResampler | None:
        """Return a function from how often each item counts to the corpus score, for resampling.

        Scores of items stay as they are: CIDEr's document frequencies are not resampled.

        Args:
            items: as for `score`.
            scores: the result of `score(items)`.

        Returns:
            None if a program computes the corpus score and would have to run for each sample.
        """

        def weighted_mean(weights: Floats) -> Floats:
            return scores @ weights / weights.sum(axis=0)

        return weighted_mean

    def corpus_summands(self, items: Items, scores: Floats) -> NDArray[Any] | None:
        """Return the statistics whose sums over items give the corpus score, also of parts of a corpus.

        Args:
            items: as for `score`.
            scores: the result of `score(items)`.

        Returns:
            shape (n_items, k); None if a program has to see all items at once.
        """
        return np.stack([scores, np.ones(len(scores))], axis=1)

    def corpus_score_from_sums(self, sums: Sequence[float]) -> float:
        """Compute the corpus score from the k sums of `corpus_summands` over all items."""
        return float(sums[0] / sums[1])

    def training_overlap_note(self, image_ids: Sequence[str]) -> str | None:
        """Return a note for correlations on these images if the metric was trained on some of them.

        Raises:
            InputError: if such a correlation must not be reported at all.
        """
        return None

    @property
    def rating_scale(self) -> tuple[float, float] | None:
        """Return the lowest and the highest rating of the scores' scale; None where they only order captions."""
        return None

    @property
    def companions(self) -> tuple[str, ...]:
        """Specs of metrics that come out of the same computation, shown beside this one's scores."""
        return ()

    @property
    def parameters(self) -> dict[str, Any]:
        """All fields, by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @property
    def spec(self) -> str:
        """The name with the parameters that differ from their defaults; it parses back."""
        changed: list[str] = []
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value != field.default and field.name not in self.name_fields:
                changed.append(f"{field.name}={quote_value(value)}")

        if not changed:
            return self.name
        return f"{self.name}({','.join(changed)})"

    @property
    def label_spec(self) -> str:
        """The spec without the parameters that change no score, for tables."""
        return self.spec

    @property
    def is_published(self) -> bool:
        """True where its scores are not computed here, but are those that somebody published."""
        return False

    @property
    def programs(self) -> tuple[str, ...]:
        """Programs beside Python distributions (a Java) with their versions, for the signature."""
        return ()

    @property
    def signature(self) -> str:
        """Everything that scores depend on: name, fields, and the versions of the software.

        Raises:
            InputError: if a file among the parameters cannot be read, or a program is missing.
        """
        parts = [self.name]
        later = later_options(self)
        for key, value in self.parameters.items():
            if key in later and value == later[key]:
                continue

            if key in self.file_fields and value is not None:
                try:
                    value = f"sha256-{sha256(expand_home(str(value)))}"
                except OSError as error:
                    raise InputError(f"{value}: cannot be read ({error.strerror})") from error
            parts.append(f"{key}:{format_value(value)}")

        parts += [f"{name}:{version_of(name)}" for name in self.distributions]
        return "|".join([*parts, *self.programs])


MetricClass = TypeVar("MetricClass", bound=type[Metric])


def version_of(distribution: str) -> str:
    """Return the installed version of a Python distribution, or "unknown"."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "unknown"


@dataclass(frozen=True)
class WordMetric(Metric):
    """A metric that blames words; a caption's words are what blanks part."""

    @abstractmethod
    def compute_blame(self, rows: Rows) -> Sequence[Floats]:
        """Compute the blame of checked rows.

        Returns:
            An array a row, with a number from 0 to 1 for each of its caption's words, 1 being blamed most.
        """

    def blame(self, items: Items) -> list[Floats]:
        """Blame the words of captions.

        Args:
            items: as for `score`.

        Returns:
            An array a caption, shape (n_words,), with 0 for a word that is not blamed.

        Raises:
            InputError: if an item lacks what the metric needs, or the metric blames words that are not in the caption.
        """
        rows = Rows.from_items(items)
        if not len(rows):
            return []

        with self.lock:
            self.check_rows(rows)
            distinct, inverse = self._distinct_rows(rows)
            blame = self.compute_blame(distinct)

        for index, (caption, values) in enumerate(zip(distinct.captions, blame, strict=True)):
            if np.shape(values) != (len(caption.split()),):
                raise InputError(
                    f"{distinct.label(index)}: metric {self.spec} returned {np.size(values)} word scores for a caption of "
                    f"{len(caption.split())}; one number for each word is expected"
                )

        return [np.asarray(blame[index], dtype=np.float64) for index in inverse.tolist()]


@dataclasses.dataclass(frozen=True)
class PooledMetric(Metric):
    """A metric whose corpus score follows from sums of statistics over all items, not from the items' scores.

    A subclass implements `corpus_summands` and `pool`.
    """

    @abstractmethod
    def pool(self, sums: NDArray[Any]) -> Floats:
        """Compute corpus scores, shape (n,), from sums of `corpus_summands`, shape (n, k)."""

    def corpus_score(self, items: Items, scores: Floats | None = None) -> float:
        """Compute the score of the statistics that are summed over all items."""
        rows = Rows.from_items(items).require_any()
        self.check_rows(rows)
        summands = self.corpus_summands(rows, np.empty(0) if scores is None else scores)
        return self.corpus_score_from_sums(rows.weights @ cast("NDArray[Any]", summands))

    def corpus_resampler(self, items: Items, scores: Floats) -> CorpusResampler | None:
        """Return the score of summed statistics as a function of the items' weights."""
        summands = self.corpus_summands(items, scores)
        if summands is None:
            return None
        return lambda weights: self.pool(weights.T @ summands)

    def corpus_score_from_sums(self, sums: Sequence[float] | NDArray[Any]) -> float:
        """Compute the corpus score from the sums of `corpus_summands` over all items."""
        (score,) = self.pool(np.asarray(sums)[None])
        return float(score)
