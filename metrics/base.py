"""What a metric is: parameters that identify it, and one number per caption."""

from __future__ import annotations

import dataclasses
import math
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..datasets.errors import InputError
from ..datasets.files import sha256
from ..datasets.schema import CaptionSet

Floats = NDArray[np.float64]

#: From how often each row counts, shape (n_rows, n), to n corpus scores.
Pooled = Callable[[Floats], Floats]


class UnavailableError(InputError):
    """A metric cannot be computed here: references, images, weights or an extra are not at hand.

    An error where the metric was asked for by name; where a suite asked for it, it is listed as
    missing, with the message as the reason.
    """


class Rows:
    """The rows a metric scores: candidates with their references, images and weights.

    Attributes:
        frame: a DataFrame with the column `caption` and, where they are known, `references` (tuples
            of str), `image`, `item_id`, `image_id`, `system`, and `weight`: how many data points a
            row stands for, which matters to corpus statistics alone (default 1).
        may_lack: whether a file of scores may leave rows out, which are undefined then.
    """

    def __init__(self, frame: pd.DataFrame, *, may_lack: bool = False) -> None:
        self.may_lack = may_lack
        if "caption" not in frame.columns:
            raise InputError("items lack the column caption")
        self.frame = frame
        self._shared: dict[str, Any] = {}
        self._locks: dict[str, threading.Lock] = {}
        #: What a metric remarked while it scored these rows (captions cut short), by its spec.
        self.remarks: dict[str, list[str]] = {}

    @classmethod
    def of(cls, items: Items) -> Rows:
        """From a `CaptionSet`, a DataFrame, a list of dicts, or `Rows` themselves.

        Raises:
            InputError: where they are anything else.
        """
        if isinstance(items, Rows):
            return items
        if isinstance(items, CaptionSet):
            return cls(items.items)
        if isinstance(items, pd.DataFrame):
            return cls(items)
        if isinstance(items, str | bytes | Mapping) or not isinstance(items, Iterable):
            kind = type(items).__name__
            raise InputError(f"items are a list of dicts with caption and references, not {kind}")
        rows = list(items)
        for i, row in enumerate(rows):
            if not isinstance(row, Mapping):
                raise InputError(f"row {i} is {row!r}, not a dict with caption and references")
        try:
            return cls(pd.DataFrame([dict(row) for row in rows] or {"caption": []}))
        except UnicodeEncodeError as error:
            text = ascii(error.object)
            raise InputError(f"{text} holds half a character (a lone surrogate)") from error

    def __len__(self) -> int:
        return len(self.frame)

    def _column(self, name: str, default: Any) -> list[Any]:
        return list(self.frame[name]) if name in self.frame.columns else [default] * len(self)

    @cached_property
    def candidates(self) -> list[str]:
        return self._column("caption", "")

    @cached_property
    def references(self) -> list[tuple[str, ...]]:
        return [self._listed(i, r) for i, r in enumerate(self._column("references", ()))]

    def _listed(self, index: int, references: Any) -> tuple[str, ...]:
        if isinstance(references, str):
            return (references,)
        if _absent(references):
            return ()
        if not isinstance(references, list | tuple | np.ndarray | pd.Series):
            raise InputError(f"{self.label(index)}: the references are {references!r}, not texts")
        return tuple(references)

    @cached_property
    def images(self) -> list[str | None]:
        return [self._path(i, image) for i, image in enumerate(self._column("image", None))]

    def _path(self, index: int, image: Any) -> str | None:
        if _absent(image):
            return None
        if isinstance(image, Path):
            return str(image)
        if not isinstance(image, str):
            raise InputError(f"{self.label(index)}: the image is {image!r}, not a file's path")
        return image

    @cached_property
    def weights(self) -> NDArray[np.int64]:
        column = self._column("weight", 1)
        try:
            values = np.asarray(column, dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(f"the weights of the items are no numbers ({error})") from error
        whole = (values >= 1) & (values < 2**53) & (np.floor(values) == values)
        if not whole.all():
            i = int(np.argmin(whole))
            raise InputError(
                f"{self.label(i)}: the weight is {column[i]}; a whole number from 1 on is expected"
            )
        return values.astype(np.int64)

    def label(self, index: int) -> str:
        """How to call a row in a message."""
        return str(self._column("item_id", f"row {index}")[index])

    @property
    def unique(self) -> tuple[Rows, NDArray[np.intp]]:
        """The distinct (candidate, references, image) rows, weights summed, and where each went.

        Returns:
            the distinct rows, and an array of shape (len(self),) with each row's index among them.
        """
        return self.share("unique", self._distinct)

    def _distinct(self) -> tuple[Rows, NDArray[np.intp]]:
        keys: dict[tuple[str, tuple[str, ...], str | None], int] = {}
        inverse = np.empty(len(self), dtype=np.intp)
        first: list[int] = []
        for i, key in enumerate(zip(self.candidates, self.references, self.images, strict=True)):
            inverse[i] = keys.setdefault(key, len(keys))
            if inverse[i] == len(first):
                first.append(i)
        if len(first) == len(self):
            return self, inverse
        weights = np.bincount(inverse, weights=self.weights, minlength=len(first))
        frame = self.frame.iloc[first].assign(weight=weights.astype(np.int64))
        return Rows(frame), inverse

    def required(self) -> Rows:
        """These rows, for what is undefined without any.

        Raises:
            InputError: where there are none.
        """
        if not len(self):
            raise InputError("there are no items to score")
        return self

    def repeated(self) -> Rows:
        """Each row as often as it counts, for corpus scores that pool statistics.

        Raises:
            InputError: where there are no rows.
        """
        self.required()
        if (self.weights == 1).all():
            return self
        index = np.repeat(np.arange(len(self)), self.weights)
        return Rows(self.frame.iloc[index].assign(weight=1))

    def remark(self, metric: str, text: str) -> None:
        """Say something of a metric's scores that belongs below the table."""
        said = self.remarks.setdefault(metric, [])
        if text not in said:
            said.append(text)

    def share(self, key: str, compute: Any) -> Any:
        """What `compute()` returns, computed once for these rows, so that kin metrics share it."""
        # Metrics run side by side; the second to ask waits for the first.
        with self._locks.setdefault(key, threading.Lock()):
            if key not in self._shared:
                self._shared[key] = compute()
            return self._shared[key]


Items = CaptionSet | pd.DataFrame | Sequence[Mapping[str, Any]] | Rows


@dataclasses.dataclass(frozen=True)
class Metric(ABC):
    """A metric: its fields are its parameters, and all of them make its signature.

    A subclass is a frozen dataclass with a field `backend` (who computes it), registered under its
    name (`registry.register`), that implements `_score`.
    """

    #: What a row must bring: "references", "images", or neither.
    needs: ClassVar[frozenset[str]] = frozenset({"references"})
    #: Least and greatest value; None where there is no bound.
    bounds: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)
    #: Whether more is better.
    higher_is_better: ClassVar[bool] = True
    #: Whether scores depend on the other rows (CIDEr's document frequencies).
    corpus_statistics: ClassVar[bool] = False
    #: Whether equal rows have equal scores, so that each distinct row is scored once.
    by_content: ClassVar[bool] = True
    #: Whether scores may be kept for a later run.
    cacheable: ClassVar[bool] = True
    #: Python distributions whose version is part of the signature.
    distributions: ClassVar[tuple[str, ...]] = ("captau",)
    #: Fields that name a file: its content, not its path, enters the signature.
    file_fields: ClassVar[tuple[str, ...]] = ()
    #: Held while it scores: metrics that cannot run side by side share a lock.
    turn: ClassVar[AbstractContextManager[Any]] = nullcontext()

    if TYPE_CHECKING:

        @property
        def name(self) -> str:
            """The registered name, such as `bleu_4`; a property or a field of every subclass."""
            ...

    @abstractmethod
    def _score(self, rows: Rows) -> Floats:
        """Scores of shape (len(rows),), in the metric's natural range."""

    def score(self, items: Items) -> Floats:
        """Score candidates.

        Args:
            items: a `CaptionSet`, a DataFrame of its items, or a list of dicts with `caption` and
                `references`.

        Returns:
            float64 array of shape (n_items,); NaN where the metric is undefined.

        Raises:
            InputError: where an item lacks what the metric needs.
        """
        rows = Rows.of(items)
        if not len(rows):
            return np.empty(0)
        with self.turn:
            self._check(rows)
            unique, inverse = rows.unique if self.by_content else (rows, np.arange(len(rows)))
            unique.remarks.pop(self.spec, None)
            scores = np.asarray(self._score(unique), dtype=np.float64)
        if scores.shape != (len(unique),):
            raise InputError(
                f"metric {self.spec} returned scores of shape {scores.shape} for {len(unique)} items"
            )
        for text in unique.remarks.get(self.spec, []):
            rows.remark(self.spec, text)
        return scores[inverse]

    def missing(self, items: Items) -> str | None:
        """Why the metric cannot be computed here, in a line; None where it can be tried.

        Raises:
            InputError: where the items are wrong, and not just without what the metric needs.
        """
        try:
            self._check(Rows.of(items))
        except UnavailableError as error:
            return str(error)
        return None

    def corpus(self, items: Items, scores: Floats | None = None) -> float:
        """One score for all items: their weighted mean, unless the metric pools statistics.

        Args:
            items: as for `score`.
            scores: what `score(items)` returned, where it is at hand.
        """
        rows = Rows.of(items).required()
        values = self.score(rows) if scores is None else scores
        return float(np.average(values, weights=rows.weights))

    def pooled(self, items: Items, scores: Floats) -> Pooled | None:
        """The score of all items as a function of how often each counts, for resampling.

        Scores of items stay as they are: CIDEr's document frequencies are not drawn anew.

        Args:
            items: as for `score`.
            scores: what `score(items)` returned.

        Returns:
            None where a program computes it that would have to run for each sample.
        """

        def pooled(weights: Floats) -> Floats:
            return scores @ weights / weights.sum(axis=0)

        return pooled

    def summands(self, items: Items, scores: Floats) -> NDArray[Any] | None:
        """What the corpus score sums over the items, so that it can be computed of parts of a corpus.

        Args:
            items: as for `score`.
            scores: what `score(items)` returned.

        Returns:
            shape (n_items, k); None where a program has to see all items at once.
        """
        return np.stack([scores, np.ones(len(scores))], axis=1)

    def of_sums(self, sums: Sequence[float]) -> float:
        """The corpus score from the sums of `summands` over all items, k of them."""
        return float(sums[0] / sums[1])

    def _check(self, rows: Rows) -> None:
        _ = rows.weights
        for i, caption in enumerate(rows.candidates):
            if not isinstance(caption, str):
                raise InputError(f"{rows.label(i)}: the caption is {caption!r}, not a text")
        if "references" in self.needs:
            for i, references in enumerate(rows.references):
                if not references:
                    raise UnavailableError(
                        f"metric {self.spec} needs references, and {rows.label(i)} has none"
                    )
                if not all(isinstance(r, str) for r in references):
                    raise InputError(
                        f"{rows.label(i)}: the references are {references!r}, not texts"
                    )
        if "images" in self.needs:
            for i, image in enumerate(rows.images):
                if image is None:
                    raise UnavailableError(
                        f"metric {self.spec} needs images, and {rows.label(i)} has none; "
                        f"docs/neural.md says where they are looked for"
                    )

    @property
    def parameters(self) -> dict[str, Any]:
        """All fields, by name."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    @property
    def spec(self) -> str:
        """The name with the parameters that differ from their defaults; it parses back."""
        changed = {
            f.name: getattr(self, f.name)
            for f in dataclasses.fields(self)
            if getattr(self, f.name) != f.default and f.name not in self.named_by
        }
        inside = ",".join(f"{k}={_quoted(v)}" for k, v in changed.items())
        return f"{self.name}({inside})" if inside else self.name

    #: Fields that the registered name already tells, such as the 4 of `bleu_4`.
    named_by: ClassVar[tuple[str, ...]] = ()

    def judged_on(self, image_ids: Sequence[str]) -> str | None:
        """What must be said beside a correlation on these images: that it was trained on some.

        Raises:
            InputError: where it is not to be reported at all.
        """
        return None

    @property
    def companions(self) -> tuple[str, ...]:
        """Specs of metrics that come out of the same computation, shown beside this one's scores."""
        return ()

    @property
    def programs(self) -> tuple[str, ...]:
        """What computes the scores beside Python distributions (a Java), for the signature."""
        return ()

    @property
    def signature(self) -> str:
        """What the scores depend on: class, every field, and the versions of those who compute it.

        Raises:
            InputError: where a file among the parameters cannot be read, or a program is missing.
        """
        parts = [self.name]
        for key, value in self.parameters.items():
            if key in self.file_fields and value is not None:
                value = f"sha256-{_sha256(Path(str(value)).expanduser())}"
            parts.append(f"{key}:{_plain(value)}")
        parts += [f"{d}:{version_of(d)}" for d in self.distributions]
        return "|".join([*parts, *self.programs])


MetricClass = TypeVar("MetricClass", bound=type[Metric])


def prepare(metrics: Sequence[Metric]) -> None:
    """Start what is slow to start (METEOR's Java) for the metrics that will be asked for scores."""
    for metric in metrics:
        start = cast("Any", getattr(metric, "start", None))
        if start is not None:
            start()


def _plain(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    return str(value)


def _quoted(value: Any) -> str:
    """`_plain`, within quotes where commas, brackets, blanks or "none" would be read otherwise."""
    text = _plain(value)
    if not isinstance(value, str) or not re.search(
        r"[,()\[\]{}'\"]|^\s|\s$|^(none|null)?$", text, re.IGNORECASE
    ):
        return text
    quote = '"' if "'" in text else "'"
    return f"{quote}{text}{quote}"


def _absent(value: Any) -> bool:
    """Whether a cell is None, or the NaN that pandas puts where a dict lacks the key."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def _sha256(path: Path) -> str:
    try:
        return sha256(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error


def version_of(distribution: str) -> str:
    """The installed version of a Python distribution; "unknown" where it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "unknown"
