"""The rows that a metric scores: candidate captions with their references, images and weights.

`Metric.score` makes `Rows` of whatever its caller has; scorers make them once and hand them to all metrics,
which share tokens and features through `Rows.compute_once`. Metrics that read files with something for each item call
`row_keys`, `index_by_key` and `look_up_all` in this order.
"""

from __future__ import annotations

import math
import textwrap
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..datasets.errors import InputError, shorten
from ..datasets.reading.cells import parse_references
from ..datasets.schema import CaptionSet

Result = TypeVar("Result")


class SharedResults:
    """Base of the inputs of several metrics that run side by side in threads: what they share is computed once."""

    def __init__(self) -> None:
        self._results: dict[str, Any] = {}
        self._locks: dict[str, threading.Lock] = {}

    def compute_once(self, key: str, compute: Callable[[], Result]) -> Result:
        """Return the result of `compute()`, which runs once for each key: related metrics share it."""
        # Metrics run side by side; the second to ask waits for the first.
        with self._locks.setdefault(key, threading.Lock()):
            if key not in self._results:
                self._results[key] = compute()
            return self._results[key]


class Rows(SharedResults):
    """Candidate captions with what is known of each.

    Attributes:
        frame: a DataFrame with the column `caption` and optionally `references` (tuples of str), `image`,
            `context` (the text around the image), `item_id`, `image_id`, `system`, and `weight`: how many data
            points a row stands for, which only corpus statistics use (default 1).
        allows_gaps: whether a file of scores may lack rows; their scores are then undefined.
        remarks: remarks that metrics made while scoring (captions cut short), by spec.
    """

    def __init__(self, frame: pd.DataFrame, *, allows_gaps: bool = False) -> None:
        super().__init__()
        self.allows_gaps = allows_gaps
        if "caption" not in frame.columns:
            raise InputError("items lack the column caption")
        self.frame = frame
        self.remarks: dict[str, list[str]] = {}

    @classmethod
    def from_items(cls, items: Items) -> Rows:
        """Make rows of a `CaptionSet`, a DataFrame or a list of dicts; return `Rows` unchanged.

        Raises:
            InputError: if the items are anything else.
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

        dicts = list(items)
        for i, row in enumerate(dicts):
            if not isinstance(row, Mapping):
                raise InputError(f"row {i} is {row!r}, not a dict with caption and references")

        try:
            return cls(pd.DataFrame([dict(row) for row in dicts] or {"caption": []}))
        except UnicodeEncodeError as error:
            text = ascii(error.object)
            raise InputError(f"{text} holds half a character (a lone surrogate)") from error

    def __len__(self) -> int:
        return len(self.frame)

    def _column(self, name: str, default: Any) -> list[Any]:
        return list(self.frame[name]) if name in self.frame.columns else [default] * len(self)

    @cached_property
    def captions(self) -> list[str]:
        return self._column("caption", "")

    @cached_property
    def references(self) -> list[tuple[str, ...]]:
        cells = self._column("references", ())
        return [self._reference_tuple(i, cell) for i, cell in enumerate(cells)]

    @cached_property
    def has_references(self) -> bool:
        """Tell whether every row has references, and all are of the type `str`."""
        is_text = set(map(type, chain.from_iterable(self.references))) <= {str}
        return is_text and all(self.references)

    def _reference_tuple(self, index: int, cell: Any) -> tuple[str, ...]:
        if isinstance(cell, tuple):  # of a `CaptionSet`
            return cast("tuple[str, ...]", cell)
        if _is_absent(cell):
            return ()
        return parse_references(cell, self.label(index))

    @cached_property
    def is_ascii(self) -> bool:
        """Tell whether captions and references contain only ASCII."""
        texts = chain(self.captions, chain.from_iterable(self.references))
        return all(map(str.isascii, texts))

    @cached_property
    def images(self) -> list[str | None]:
        return [self._image_path(i, cell) for i, cell in enumerate(self._column("image", None))]

    def _image_path(self, index: int, cell: Any) -> str | None:
        if _is_absent(cell):
            return None
        if isinstance(cell, Path):
            return str(cell)
        if not isinstance(cell, str):
            raise InputError(f"{self.label(index)}: the image is {cell!r}, not a file's path")
        return cell

    @cached_property
    def contexts(self) -> list[str | None]:
        """The text around each image, such as the article that it stands in; None where there is none."""
        return self._column("context", None)

    @cached_property
    def weights(self) -> NDArray[np.int64]:
        column = self._column("weight", 1)
        try:
            values = np.asarray(column, dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(f"the weights of the items are not numbers ({error})") from error

        # From 2^53 on, not every whole number is a double.
        valid = (values >= 1) & (values < 2**53) & (np.floor(values) == values)
        if not valid.all():
            i = int(np.argmin(valid))
            raise InputError(
                f"{self.label(i)}: the weight is {column[i]}; a whole number from 1 on is expected"
            )
        return values.astype(np.int64)

    def label(self, index: int) -> str:
        """Return a row's name for messages: its `item_id`, or `row N`."""
        if "item_id" not in self.frame.columns:
            return f"row {index}"
        return str(self.frame["item_id"].iloc[index])

    @property
    def unique(self) -> tuple[Rows, NDArray[np.intp]]:
        """The distinct (caption, references, image, context) rows with summed weights, and the way back.

        The second part has shape (len(self),): the index of each row among the distinct ones.
        """
        return self.compute_once("unique", self._find_unique)

    def _find_unique(self) -> tuple[Rows, NDArray[np.intp]]:
        numbers: dict[tuple[Any, ...], int] = {}
        inverse = np.empty(len(self), dtype=np.intp)
        first: list[int] = []  # of each distinct row, the first that is equal to it
        columns = (self.captions, self.references, self.images, self.contexts)
        for i, key in enumerate(zip(*columns, strict=True)):
            if key not in numbers:
                numbers[key] = len(numbers)
                first.append(i)
            inverse[i] = numbers[key]

        if len(first) == len(self):
            return self, inverse

        weights = np.bincount(inverse, weights=self.weights, minlength=len(first))
        frame = self.frame.iloc[first].assign(weight=weights.astype(np.int64))
        return Rows(frame), inverse

    def require_any(self) -> Rows:
        """Return these rows, for scores that are undefined without any.

        Raises:
            InputError: if there are none.
        """
        if not len(self):
            raise InputError("there are no items to score")
        return self

    def repeat_by_weight(self) -> Rows:
        """Repeat each row as often as its weight says, for programs that know no weights.

        Raises:
            InputError: if there are no rows.
        """
        self.require_any()
        if (self.weights == 1).all():
            return self

        index = np.repeat(np.arange(len(self)), self.weights)
        return Rows(self.frame.iloc[index].assign(weight=1))

    def add_remark(self, spec: str, text: str) -> None:
        """Add a remark on a metric's scores, to be printed below the table; repetitions are dropped."""
        remarks = self.remarks.setdefault(spec, [])
        if text not in remarks:
            remarks.append(text)


Items = CaptionSet | pd.DataFrame | Sequence[Mapping[str, Any]] | Rows


def _is_absent(cell: Any) -> bool:
    """Return whether a cell is None, or the NaN that pandas puts where a dict lacks the key."""
    return cell is None or (isinstance(cell, float) and math.isnan(cell))


Key = tuple[str, ...]
Content = TypeVar("Content")


def row_keys(rows: Rows, columns: Sequence[str], path: str | Path) -> list[Key]:
    """Return each row's key: its cells of these columns, as texts.

    Raises:
        InputError: if the items lack a column.
    """
    missing = [column for column in columns if column not in rows.frame.columns]
    if missing:
        raise InputError(f"{path}: the items to score have no {missing[0]}")

    frame = rows.frame[list(columns)]
    return [tuple(map(str, key)) for key in frame.itertuples(index=False, name=None)]


def quote_key(key: Key) -> str:
    """Return a key as messages show it: an id as it stands, and what follows, which may be a caption, in quotes."""
    first, *others = key
    return " ".join([first, *(repr(shorten(text)) for text in others)])


def index_by_key(
    entries: Iterable[tuple[str, Key, Content]],
    label: str,
    is_same: Callable[[Content, Content], bool],
) -> dict[Key, Content]:
    """Index a file's entries by key, allowing equal ones to repeat.

    Args:
        entries: place (for messages), key and content of each.
        label: the name of one content in messages, such as "score".
        is_same: whether two contents of one key are equal.

    Raises:
        InputError: if two contents of one key differ.
    """
    contents: dict[Key, Content] = {}
    places: dict[Key, str] = {}
    for location, key, content in entries:
        if key in contents and not is_same(contents[key], content):
            # Files of arrays have no lines, so that their entries have one place.
            first_place = f", the first at {places[key]}" if places[key] != location else ""
            raise InputError(
                f"{location}: two {label}s for {quote_key(key)}{first_place}; keep one"
            )
        contents.setdefault(key, content)
        places.setdefault(key, location)

    return contents


def look_up_all(
    contents: dict[Key, Content], keys: Sequence[Key], label: str, path: str | Path
) -> list[Content]:
    """Return the content of each key.

    Raises:
        InputError: if some keys have none; the message names the first of them and counts all, and where all have
            none names one that has.
    """
    gaps = [key for key in keys if key not in contents]
    if gaps:
        first_gaps = list(dict.fromkeys(gaps))[:3]
        # A key may hold a whole caption, of which the beginning is enough to find it.
        first = ", ".join(
            textwrap.shorten(" ".join(key), 60, placeholder=" …") for key in first_gaps
        )
        remedy = "every item needs one"
        if label == "score":
            remedy += ", unless protocol.undefined=drop"
        if contents and len(gaps) == len(keys):
            # Nothing matches: a reader sees by an entry of the file how it calls images and captions.
            remedy = f"what it has is of others, such as {quote_key(next(iter(contents)))}"
        raise InputError(
            f"{path}: no {label} for {first} ({len(gaps)} of {len(keys)} items lack one); {remedy}"
        )

    return [contents[key] for key in keys]
