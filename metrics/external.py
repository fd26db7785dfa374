"""Metrics whose code is elsewhere: a file of scores, or a Python function.

A person types `file(path=fleur.csv,name=FLEUR)` or `python(module:function)`.
"""

from __future__ import annotations

import importlib
import inspect
import math
import operator
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ..datasets.errors import InputError, unknown
from ..datasets.paths import expand_home
from ..datasets.reading.table import Table, read_table
from .base import Floats, Metric
from .registry import metric_names, register
from .rows import Key, Rows, index_by_key, look_up_all, row_keys

#: Names that results use for something else: their own columns, and the ceilings.
RESERVED = frozenset(
    {
        "item_id",
        "image_id",
        "ceiling_one_vs_rest",
        "ceiling_oracle",
        "floor_random",
        "floor_length",
    }
)


def _check_name(name: str, label: str) -> None:
    """Raise an InputError if a metric's name is empty, or means something else in results."""
    if not name.strip():
        raise InputError(f"metric {label}: its name is empty; give it one with name=…")
    if name in RESERVED or name in metric_names():
        raise InputError(f"metric {label}: the name '{name}' is taken; give it another with name=…")


@register("file")
@dataclass(frozen=True)
class ScoreFile(Metric):
    """Scores read from CSV, JSON lines or Parquet.

    The file has `score` and either `item_id` or `image_id` and `caption`. If it also has `metric`
    (as `scores.parquet` of a run does), only the rows of one metric count.

    Args:
        path: the file, of the format that its ending (.csv, .jsonl, .parquet) names.
        name: the metric's name in results.
        metric: the metric's name in the file's column `metric`; by default `name`.
    """

    path: str
    name: str  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    metric: str | None = None

    needs: ClassVar[frozenset[str]] = frozenset()
    bounds: ClassVar[tuple[float | None, float | None]] = (None, None)
    depends_only_on_content: ClassVar[bool] = False
    is_cacheable: ClassVar[bool] = False
    file_fields: ClassVar[tuple[str, ...]] = ("path",)

    def __post_init__(self) -> None:
        _check_name(self.name, f"file(path={self.path})")

    @property
    def spec(self) -> str:
        return self.name

    def compute(self, rows: Rows) -> Floats:
        table = self._read()
        key_columns = ["item_id"] if "item_id" in table else ["image_id", "caption"]
        missing = [k for k in (*key_columns, "score") if k not in table]
        if missing:
            raise InputError(
                f"{self.path}: no column {missing[0]}; a score file has score and either item_id "
                f"or image_id and caption"
            )
        keys = row_keys(rows, key_columns, self.path)
        scores = index_by_key(self._entries(table, key_columns), "score", operator.eq)
        if rows.allows_gaps and any(key in scores for key in keys):
            return np.array([scores.get(key, np.nan) for key in keys])
        return np.array(look_up_all(scores, keys, "score", self.path))

    def _entries(self, table: Table, key_columns: list[str]) -> Iterator[tuple[str, Key, float]]:
        """Yield place, key and score of each row of this metric."""
        keys = zip(*(table.column(k) for k in key_columns), strict=True)
        for location, metric, cells, score in zip(
            table.places, self._metric_column(table), keys, table.column("score"), strict=True
        ):
            if metric != self._name_in_file:
                continue
            key, number = tuple(map(str, cells)), _finite_number(score)
            if number is None:
                raise InputError(f"{location}: the score of {' '.join(key)} is not a number")
            yield location, key, number

    @property
    def _name_in_file(self) -> str:
        return self.name if self.metric is None else self.metric

    def _metric_column(self, table: Table) -> list[str]:
        """Return the metric of each row: this one if the file has no such column."""
        if "metric" not in table:
            return [self._name_in_file] * len(table)
        metrics = list(map(str, table.column("metric")))
        if self._name_in_file not in metrics:
            raise InputError(f"{self.path}: no row is of metric '{self._name_in_file}'")
        return metrics

    def _read(self) -> Table:
        path = expand_home(self.path)
        if not path.is_file():
            raise InputError(f"metric {self.name}: no file {path}")
        ending = path.suffix.lower()
        if ending not in (".csv", ".jsonl", ".json", ".ndjson", ".parquet"):
            raise InputError(f"{path}: a score file ends in .csv, .jsonl or .parquet")
        return read_table(path)


def _finite_number(cell: Any) -> float | None:
    """Return a cell as a finite number, or None."""
    try:
        number = math.nan if isinstance(cell, bool) else float(cell)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


@register("python")
@dataclass(frozen=True)
class PythonFunction(Metric):
    """Scores by a Python function that takes the items as a DataFrame and returns a number for each.

    A Series that comes back is matched to the items by its index, anything else by its order.

    Args:
        function: `module:function`; the module is imported from the path or the working folder.
        name: the metric's name in results; by default the function's name.
    """

    function: str
    name: str = ""  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]

    needs: ClassVar[frozenset[str]] = frozenset()
    bounds: ClassVar[tuple[float | None, float | None]] = (None, None)
    depends_only_on_content: ClassVar[bool] = False
    #: A change of the function's code cannot be noticed.
    is_cacheable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        module, _, attribute = self.function.partition(":")
        if not module or module.startswith(".") or not attribute:
            raise InputError(f"{self._label}: module:function is expected")
        if not self.name:
            object.__setattr__(self, "name", attribute)
        _check_name(self.name, f"python({self.function})")

    @property
    def spec(self) -> str:
        return self.name

    @property
    def _label(self) -> str:
        return f"metric python({self.function})"

    def compute(self, rows: Rows) -> Floats:
        function = self._load()
        self._check_signature(function)
        items = rows.frame.reset_index(drop=True)
        scores = self._run_user_code(lambda: function(items.copy(deep=False)))
        if isinstance(scores, pd.Series) and not scores.index.equals(items.index):
            if len(scores) == len(items) and not set(items.index) - set(scores.index):
                scores = scores.reindex(items.index)
            else:
                raise InputError(
                    f"{self._label}: a Series came back whose index is not that of the items; "
                    f"return .to_numpy() in the order of the items"
                )
        try:
            return np.asarray(scores, dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(f"{self._label}: no numbers came back ({error})") from error

    def _load(self) -> Any:
        module_name, _, attribute = self.function.partition(":")
        if str(Path.cwd()) not in sys.path:
            sys.path.append(str(Path.cwd()))
        module = self._run_user_code(lambda: importlib.import_module(module_name))
        if not callable(getattr(module, attribute, None)):
            functions = [n for n, v in vars(module).items() if callable(v)]
            raise unknown(f"function of {module_name}", attribute, functions)
        return getattr(module, attribute)

    def _check_signature(self, function: Callable[..., Any]) -> None:
        """Check that a function takes one argument, if its signature is known."""
        try:
            signature = inspect.signature(function)
        except ValueError:  # of a function in C
            return
        try:
            signature.bind(None)
        except TypeError as error:
            raise InputError(
                f"{self._label}: it is called with one argument, a DataFrame of the items, and returns "
                f"a number for each; its own arguments are {signature}"
            ) from error

    def _run_user_code(self, run: Callable[[], Any]) -> Any:
        """Return the result of `run`; whatever it raises becomes an InputError with its line."""
        try:
            return run()
        except InputError:
            raise
        except (Exception, SystemExit) as error:
            text = f"{type(error).__name__}: {error}".removesuffix(": ")
            raise InputError(f"{self._label}: {text}{_source_line(error)}") from error


def _source_line(error: BaseException) -> str:
    """Name file and line in the user's code that an exception comes from, for the end of a message."""
    if isinstance(error, SyntaxError):
        return ""  # its text names file and line
    own_files = (__file__, importlib.__file__)
    frames = [
        f
        for f in traceback.extract_tb(error.__traceback__)
        if f.filename not in own_files and not f.filename.startswith("<frozen")
    ]
    if not frames:
        return ""
    # The deepest line in the file that came first: the libraries that it calls say less.
    last = [f for f in frames if f.filename == frames[0].filename][-1]
    return f" ({last.filename}, line {last.lineno})"
