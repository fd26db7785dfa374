"""Metrics from elsewhere: a file of scores, or a Python function.

`file(path=fleur.csv,name=FLEUR)` and `python(module:function)`: the way in for a metric whose code
is not here.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ..datasets.errors import InputError, unknown
from ..datasets.files import read_json_lines, read_text
from .base import Floats, Metric, Rows
from .registry import register


@register("file")
@dataclass(frozen=True)
class ScoreFile(Metric):
    """Scores read from CSV, JSON lines or Parquet.

    The file has `score` and either `item_id` or `image_id` and `caption`; where it has `metric`
    too (as `scores.parquet` of a run), the rows of metric `name` count.

    Args:
        path: the file; its ending (.csv, .jsonl, .parquet) says what it is.
        name: what the metric is called in results.
    """

    path: str
    name: str  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]

    needs: ClassVar[frozenset[str]] = frozenset()
    bounds: ClassVar[tuple[float | None, float | None]] = (None, None)
    by_content: ClassVar[bool] = False
    cacheable: ClassVar[bool] = False
    file_fields: ClassVar[tuple[str, ...]] = ("path",)

    @property
    def spec(self) -> str:
        return self.name

    def _score(self, rows: Rows) -> Floats:
        table = self._read()
        keys = ["item_id"] if "item_id" in table.columns else ["image_id", "caption"]
        missing = [k for k in (*keys, "score") if k not in table.columns]
        if missing:
            raise InputError(
                f"{self.path}: no column {missing[0]}; a score file has score and either item_id "
                f"or image_id and caption"
            )
        lacking = [k for k in keys if k not in rows.frame.columns]
        if lacking:
            raise InputError(f"{self.path}: the items to score have no {lacking[0]}")
        found: dict[tuple[str, ...], float] = {}
        scores = pd.to_numeric(table["score"], errors="coerce")
        for key, value in zip(table[keys].itertuples(index=False, name=None), scores, strict=True):
            if not np.isfinite(value):
                raise InputError(
                    f"{self.path}: the score of {' '.join(map(str, key))} is no number"
                )
            text = tuple(str(k) for k in key)
            if found.setdefault(text, float(value)) != value:
                raise InputError(f"{self.path}: two scores for {' '.join(text)}; keep one")
        wanted = [
            tuple(str(k) for k in key)
            for key in rows.frame[keys].itertuples(index=False, name=None)
        ]
        gaps = [key for key in wanted if key not in found]
        if gaps:
            raise InputError(
                f"{self.path}: no score for {' '.join(gaps[0])} ({len(gaps)} of {len(wanted)} items "
                f"lack one); every item needs a score"
            )
        return np.array([found[key] for key in wanted])

    def _read(self) -> pd.DataFrame:
        path = Path(self.path).expanduser()
        if not path.is_file():
            raise InputError(f"metric {self.name}: no file {path}")
        ending = path.suffix.lower()
        try:
            if ending == ".parquet":
                table = pd.read_parquet(path)
            elif ending == ".csv":
                read_text(path)  # says which line is not UTF-8, which pandas does not
                table = pd.read_csv(
                    path,
                    dtype={"item_id": str, "image_id": str, "caption": str, "metric": str},
                    keep_default_na=False,
                )
            elif ending in (".jsonl", ".json", ".ndjson"):
                table = pd.DataFrame([row for _, row in read_json_lines(path)])
            else:
                raise InputError(f"{path}: a score file ends in .csv, .jsonl or .parquet")
        except (ValueError, OSError) as error:
            raise InputError(f"{path}: cannot be read ({str(error).splitlines()[0]})") from error
        if "metric" in table.columns:
            table = table[table["metric"] == self.name]
            if table.empty:
                raise InputError(f"{path}: no row is of metric '{self.name}'")
        return table


@register("python")
@dataclass(frozen=True)
class PythonFunction(Metric):
    """Scores by a Python function: it gets the items as a DataFrame, and returns one number each.

    Args:
        function: `module:function`; the module is imported from the path or the working folder.
    """

    function: str

    needs: ClassVar[frozenset[str]] = frozenset()
    bounds: ClassVar[tuple[float | None, float | None]] = (None, None)
    by_content: ClassVar[bool] = False
    #: Nobody can tell when the function's code changes.
    cacheable: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return self.function.rpartition(":")[2]

    @property
    def spec(self) -> str:
        return self.name

    def _score(self, rows: Rows) -> Floats:
        scores = self._load()(rows.frame.copy(deep=False))
        try:
            return np.asarray(scores, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"metric python({self.function}): no numbers came back ({error})"
            ) from error

    def _load(self) -> Any:
        module_name, colon, attribute = self.function.partition(":")
        if not colon:
            raise InputError(f"metric python({self.function}): module:function is expected")
        if str(Path.cwd()) not in sys.path:
            sys.path.append(str(Path.cwd()))
        try:
            module = importlib.import_module(module_name)
        except ImportError as error:
            raise InputError(f"metric python({self.function}): {error}") from error
        if not callable(getattr(module, attribute, None)):
            known = [n for n, v in vars(module).items() if callable(v)]
            raise unknown(f"function of {module_name}", attribute, known)
        return getattr(module, attribute)
