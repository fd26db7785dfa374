"""Metrics from elsewhere: a file of scores, or a Python function.

`file(path=fleur.csv,name=FLEUR)` and `python(module:function)`: the way in for a metric whose code
is not here.
"""

from __future__ import annotations

import importlib
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
from ..datasets.table import Table, read_table
from .base import Floats, Metric
from .item_files import Key, index_by_key, look_up_all, row_keys
from .registry import metric_names, register
from .rows import Rows

#: What results call something else: columns of theirs, and the ceilings.
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


def _check_name(name: str, where: str) -> None:
    """That results can tell a metric of this name from all others.

    Raises:
        InputError: where it is empty or taken.
    """
    if not name.strip():
        raise InputError(f"metric {where}: its name is empty; give it one with name=…")
    if name in RESERVED or name in metric_names():
        raise InputError(f"metric {where}: the name '{name}' is taken; give it another with name=…")


@register("file")
@dataclass(frozen=True)
class ScoreFile(Metric):
    """Scores read from CSV, JSON lines or Parquet.

    The file has `score` and either `item_id` or `image_id` and `caption`; where it has `metric`
    too (as `scores.parquet` of a run), the rows of one metric count.

    Args:
        path: the file; its ending (.csv, .jsonl, .parquet) says what it is.
        name: what the metric is called in results.
        metric: what the file's column `metric` calls it; `name` where this is not given.
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
        keys = ["item_id"] if "item_id" in table else ["image_id", "caption"]
        missing = [k for k in (*keys, "score") if k not in table]
        if missing:
            raise InputError(
                f"{self.path}: no column {missing[0]}; a score file has score and either item_id "
                f"or image_id and caption"
            )
        wanted = row_keys(rows, keys, self.path)
        found = index_by_key(self._entries(table, keys), "score", operator.eq)
        if rows.allows_gaps and any(key in found for key in wanted):
            return np.array([found.get(key, np.nan) for key in wanted])
        return np.array(look_up_all(found, wanted, "score", self.path))

    def _entries(self, table: Table, keys: list[str]) -> Iterator[tuple[str, Key, float]]:
        """Place, key and score of each row of this metric."""
        metrics = self._metrics(table)
        columns = zip(*(table.column(k) for k in keys), strict=True)
        for place, metric, key, given in zip(
            table.places, metrics, columns, table.column("score"), strict=True
        ):
            if metric != self._called:
                continue
            text, value = tuple(map(str, key)), _finite(given)
            if value is None:
                raise InputError(f"{place}: the score of {' '.join(text)} is no number")
            yield place, text, value

    @property
    def _called(self) -> str:
        return self.name if self.metric is None else self.metric

    def _metrics(self, table: Table) -> list[str]:
        """Of which metric each row is: of this one where the file does not say."""
        if "metric" not in table:
            return [self._called] * len(table)
        metrics = list(map(str, table.column("metric")))
        if self._called not in metrics:
            raise InputError(f"{self.path}: no row is of metric '{self._called}'")
        return metrics

    def _read(self) -> Table:
        path = Path(self.path).expanduser()
        if not path.is_file():
            raise InputError(f"metric {self.name}: no file {path}")
        ending = path.suffix.lower()
        if ending not in (".csv", ".jsonl", ".json", ".ndjson", ".parquet"):
            raise InputError(f"{path}: a score file ends in .csv, .jsonl or .parquet")
        return read_table(path)


def _finite(value: Any) -> float | None:
    """A cell as a finite number; None where it is none."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


@register("python")
@dataclass(frozen=True)
class PythonFunction(Metric):
    """Scores by a Python function: it gets the items as a DataFrame, and returns one number each.

    A Series that comes back is matched to the items by its index, anything else by its order.

    Args:
        function: `module:function`; the module is imported from the path or the working folder.
        name: what the metric is called in results; the function's name where this is not given.
    """

    function: str
    name: str = ""  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]

    needs: ClassVar[frozenset[str]] = frozenset()
    bounds: ClassVar[tuple[float | None, float | None]] = (None, None)
    depends_only_on_content: ClassVar[bool] = False
    #: Nobody can tell when the function's code changes.
    is_cacheable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        module, _, attribute = self.function.partition(":")
        if not module or module.startswith(".") or not attribute:
            raise InputError(f"{self._where}: module:function is expected")
        if not self.name:
            object.__setattr__(self, "name", attribute)
        _check_name(self.name, f"python({self.function})")

    @property
    def spec(self) -> str:
        return self.name

    @property
    def _where(self) -> str:
        return f"metric python({self.function})"

    def compute(self, rows: Rows) -> Floats:
        function = self._load()
        items = rows.frame.reset_index(drop=True)
        scores = self._guarded(lambda: function(items.copy(deep=False)))
        if isinstance(scores, pd.Series) and not scores.index.equals(items.index):
            if len(scores) == len(items) and not set(items.index) - set(scores.index):
                scores = scores.reindex(items.index)
            else:
                raise InputError(
                    f"{self._where}: a Series came back whose index is not that of the items; "
                    f"return .to_numpy() in the order of the items"
                )
        try:
            return np.asarray(scores, dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(f"{self._where}: no numbers came back ({error})") from error

    def _load(self) -> Any:
        module_name, _, attribute = self.function.partition(":")
        if str(Path.cwd()) not in sys.path:
            sys.path.append(str(Path.cwd()))
        module = self._guarded(lambda: importlib.import_module(module_name))
        if not callable(getattr(module, attribute, None)):
            known = [n for n, v in vars(module).items() if callable(v)]
            raise unknown(f"function of {module_name}", attribute, known)
        return getattr(module, attribute)

    def _guarded(self, run: Callable[[], Any]) -> Any:
        """What `run` returns; whatever the user's code raises becomes a line with its place."""
        try:
            return run()
        except InputError:
            raise
        except (Exception, SystemExit) as error:
            what = f"{type(error).__name__}: {error}".removesuffix(": ")
            raise InputError(f"{self._where}: {what}{_place(error)}") from error


def _place(error: BaseException) -> str:
    """Where in the user's file an exception comes from, for the end of a message."""
    if isinstance(error, SyntaxError):
        return ""  # its text names file and line
    ours = (__file__, importlib.__file__)
    frames = [
        f
        for f in traceback.extract_tb(error.__traceback__)
        if f.filename not in ours and not f.filename.startswith("<frozen")
    ]
    if not frames:
        return ""
    # The deepest line in the file that came first: libraries below it say less.
    last = [f for f in frames if f.filename == frames[0].filename][-1]
    return f" ({last.filename}, line {last.lineno})"
