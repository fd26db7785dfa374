"""Metrics from outside: a file of scores, a Python function, and a metric class that is not registered.

A person types `fleur.csv` or `file(path=fleur.csv,name=FLEUR)`, and `mine.py:overlap` or `python(module:function)`;
in Python a function, a class and an object are metrics as they are. `metric` takes all of them.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import math
import operator
import sys
from abc import abstractmethod
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ..datasets.errors import InputError, unknown
from ..datasets.paths import expand_home
from ..datasets.reading.cells import ANSWER_WORDS, parse_answer
from ..datasets.reading.packed_files import without_packing
from ..datasets.reading.source_files import identify_image
from ..datasets.reading.table import Table, read_table
from .base import Floats, Metric, UnavailableError
from .registry import metric as parse_metric
from .registry import metric_names, register
from .rows import Key, Rows, index_by_key, look_up_all, row_keys
from .user_code import run_user_code

#: Names that results use for something else: their own columns, floors, and what people reach.
RESERVED = frozenset(
    {
        "item_id",
        "image_id",
        "ceiling_one_vs_one",
        "ceiling_one_vs_rest",
        "ceiling_oracle",
        "floor_random",
        "floor_length",
    }
)


#: Whatever `metric` makes a metric of.
MetricSource = str | Metric | type[Metric] | Callable[..., Any]


def metric(source: MetricSource, name: str = "") -> Metric:
    """Make a metric.

    Args:
        source: a metric's name, with parameters in brackets (`cider(variant=plain)`); `mine.py:overlap` or
            `module:overlap`, a function, metric class or metric in Python code; `mine.csv`, a file of scores; or
            a function, class or metric itself (docs/new_metric.md).
        name: what results call a function; by default its own name.

    Raises:
        InputError: if a name, file or function is unknown, a parameter is wrong, or Python code raises an exception.

    Example:
        >>> metric(lambda caption: len(caption.split())).score([{"caption": "a dog runs"}]).tolist()
        [3.0]
    """
    if callable(source) and not isinstance(source, Metric | type):
        return GivenFunction.wrap(source, name)
    if name:
        raise InputError(f"name={name} is for a function, not for {source!r}")
    if isinstance(source, str):
        return load_metric(parse_metric(source))
    if isinstance(source, type):
        return _make_instance(source, f"metric {source.__name__}")
    if not isinstance(source, Metric):
        raise InputError(f"metric {source!r}: a name is expected, such as 'cider', or a function")
    return source


def load_metric(metric: Metric) -> Metric:
    """Return a metric with the user's code loaded: of a class or metric that a spec names in Python code, that metric.

    Raises:
        InputError: if the code cannot be loaded, or names nothing that is a metric.
    """
    return metric.load_metric() if isinstance(metric, PythonFunction) else metric


def user_code_of(metric: Metric) -> str:
    """Return the code of the user's that a metric runs, as `mine.py:overlap` or `polos.py`; empty for other metrics."""
    return metric.code if isinstance(metric, OutsideMetric) and metric.code else metric.origin


def tell_apart(metric: Metric, taken_names: Container[str]) -> Metric:
    """Return a metric under a name that is free: `mine_2`, where `mine` is what it is called by default.

    Raises:
        InputError: if the name is not one that captau chose.
    """
    if not isinstance(metric, OutsideMetric) or metric.name != metric.default_name:
        raise InputError(f"metrics: two different metrics are called '{metric.spec}'")

    number = 2
    while f"{metric.name}_{number}" in taken_names:
        number += 1
    return replace(metric, **{"name": f"{metric.name}_{number}"})


def _make_instance(cls: type, label: str) -> Metric:
    """Return the metric that a class makes without parameters."""
    if not issubclass(cls, Metric):
        raise InputError(f"{label}: the class {cls.__name__} does not extend captau.Metric")
    try:
        return cls()
    except TypeError as error:
        raise InputError(
            f"{label}: the class cannot be made without parameters ({error}); give the metric itself instead"
        ) from error


@dataclass(frozen=True)
class OutsideMetric(Metric):
    """A metric whose scores captau cannot know to be the same tomorrow; it has a field `name`, empty for the default."""

    depends_only_on_content: ClassVar[bool] = False
    is_cacheable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", self.default_name)
        if not self.name.strip():
            raise InputError(f"{self.label}: its name is empty; give it one with name=…")
        if self.name in RESERVED or self.name in metric_names():
            raise InputError(
                f"{self.label}: the name '{self.name}' is taken; give it another with name=…"
            )

    @property
    @abstractmethod
    def default_name(self) -> str:
        """The name where the user chose none."""

    @property
    @abstractmethod
    def label(self) -> str:
        """The metric as messages call it."""

    @property
    def spec(self) -> str:
        return self.name

    @property
    def code(self) -> str:
        """The function or file of the user's that it runs; empty where there is none."""
        return ""

    def find_file(self, path: str) -> Path:
        """Return a file that the metric reads; raise InputError if there is none."""
        file = expand_home(path)
        if not file.is_file():
            raise InputError(f"metric {self.name}: no file {file}")

        return file


@register("file")
@dataclass(frozen=True)
class ScoreFile(OutsideMetric):
    """Scores read from CSV, JSON lines or Parquet, or from one of FLEUR's own files (`score_column="model score"` is its raw number).

    The file has `score` and either `item_id`, or `image_id` (or `image`) and `caption`, or the image and `system` where it
    has no captions. Where captions of an image are equal and their scores are not, the system tells them apart. If it
    also has `metric` (as `scores.parquet` of a run does), only the rows of one metric count. A score may be a judge's
    answer in words: yes, true and good are 1, no, false and bad are 0; a column `answer` is taken where there is no `score`.

    Args:
        path: the file, packed or not.
        name: the metric's name in results; by default the file's name without its ending.
        metric: the metric's name in the file's column `metric`; by default `name`, or the only one there.
        image: the column of images; by default `image_id`, which has the dataset's own ids, else `image`. Of another column
            names of files and COCO's numbers are compared as all datasets have them.
        caption, system, score: the columns of captions, of systems and of scores; by default these names.
        source: who published the scores, such as `BILLBOARD`: tables mark the metric, and say so below.
    """

    path: str
    name: str = ""  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    metric: str | None = None
    image: str | None = None
    caption: str = "caption"
    system: str = "system"
    score_column: str = "score"
    source: str | None = None

    needs: ClassVar[frozenset[str]] = frozenset()
    file_fields: ClassVar[tuple[str, ...]] = ("path",)
    later_fields: ClassVar[tuple[str, ...]] = (
        "image",
        "caption",
        "system",
        "score_column",
        "source",
    )

    @property
    def default_name(self) -> str:
        return Path(without_packing(self.path)).stem

    @property
    def label(self) -> str:
        return f"metric file(path={self.path})"

    @property
    def label_spec(self) -> str:
        return f"{self.name} (published)" if self.is_published else self.name

    @property
    def is_published(self) -> bool:
        return self.source is not None

    def check_dataset(self, rows: Rows) -> None:
        keys, scores = self._read_scores(rows)
        if not scores.keys() & set(keys):
            raise UnavailableError(self.label, "has no score of these captions", "add their rows")

    def compute(self, rows: Rows) -> Floats:
        keys, scores = self._read_scores(rows)
        if rows.allows_gaps and any(key in scores for key in keys):
            values = [scores.get(key, np.nan) for key in keys]
        else:
            values = look_up_all(scores, keys, "score", self.path)
        if n_others := len(scores.keys() - set(keys)):
            rows.add_remark(
                self.spec,
                f"{n_others:,} of {len(scores):,} scores in {self.path} are of no item that is scored here",
            )
        if self.source:
            rows.add_remark(self.spec, f"scores as {self.source} published them, not computed here")
        return np.array(values)

    def _read_scores(self, rows: Rows) -> tuple[list[Key], dict[Key, float]]:
        """Return the key of each row, and the file's scores by key."""
        table = self._read()
        score_column = self.score_column
        # A judge's file may call its yes and no so.
        if score_column == "score" and score_column not in table and "answer" in table:
            score_column = "answer"
        if score_column not in table:
            raise InputError(
                f"{self.path}: no column {score_column}, which has the scores; name it with score_column=…; it has "
                f"{', '.join(table.names)}"
            )
        columns = self._find_key_columns(table)
        scores = table.column(score_column)
        entries = list(self._entries(table, self._file_keys(table, columns), scores))
        # Equal captions of two systems may have scores of their own.
        if "caption" in columns and self.system in table and _has_contradiction(entries):
            columns = {**columns, "system": self.system}
            entries = list(self._entries(table, self._file_keys(table, columns), scores))

        keys = row_keys(rows, list(columns), self.path)
        if columns.get("image_id", "image_id") != "image_id":
            keys = [(identify_image(key[0]), *key[1:]) for key in keys]
        return keys, index_by_key(entries, "score", operator.eq)

    def _find_key_columns(self, table: Table) -> dict[str, str]:
        """Return the columns that identify an item, by those of the items to score.

        Raises:
            InputError: where the file has too few of them.
        """
        if "item_id" in table and self.image is None:
            return {"item_id": "item_id"}

        image = self.image or table.first_of("image_id", "image")
        key_column = "caption" if self.caption in table else "system"
        other_column = self.caption if key_column == "caption" else self.system
        # A file with neither is asked for captions.
        needed_columns = (
            image or "image_id",
            other_column if other_column in table else self.caption,
        )
        for column in needed_columns:
            if column not in table:
                raise InputError(
                    f"{self.path}: no column {column}; a score file has score and either item_id, or image_id (or image) "
                    "and caption (or system)"
                )

        return {"image_id": str(image), key_column: other_column}

    def _file_keys(self, table: Table, columns: Mapping[str, str]) -> list[Key]:
        """Return the key of each row of the file; images as datasets name them, unless they are a dataset's own ids."""
        cells: list[list[str]] = []
        for name, column in columns.items():
            texts = list(map(str, table.column(column)))
            if name == "image_id" and column != "image_id":
                texts = list(map(identify_image, texts))
            cells.append(texts)

        return list(zip(*cells, strict=True))

    def _entries(
        self, table: Table, keys: Sequence[Key], scores: Sequence[Any]
    ) -> Iterator[tuple[str, Key, float]]:
        """Yield place, key and score of each row of this metric."""
        columns = (table.places, self._is_of_metric(table), keys, scores)
        for location, is_of_metric, key, score in zip(*columns, strict=True):
            if not is_of_metric:
                continue

            number = parse_answer(score)
            if not math.isfinite(number):
                raise InputError(
                    f"{location}: the score of {' '.join(key)} is not a number, and none of {', '.join(ANSWER_WORDS)}"
                )
            yield location, key, number

    def _is_of_metric(self, table: Table) -> list[bool]:
        """Tell of each row whether it is of this metric: all are if the file has no column `metric`."""
        if "metric" not in table:
            return [True] * len(table)
        metrics = list(map(str, table.column("metric")))
        metric_name = self.name if self.metric is None else self.metric
        if metric_name not in metrics:
            names = sorted(set(metrics))
            if self.metric is not None or len(names) != 1:
                raise InputError(
                    f"{self.path}: no row is of metric '{metric_name}', but of {', '.join(names)}; choose one "
                    f"with metric=…"
                )
            (metric_name,) = names

        return [metric == metric_name for metric in metrics]

    def _read(self) -> Table:
        path = self.find_file(self.path)
        if Path(without_packing(self.path)).suffix == ".txt":
            # The one release of scores that is no table; a metric of any other file need not load its reader.
            from ..datasets.sources.fleur import read_score_table

            if table := read_score_table(path):
                return table
        return read_table(path)


def _has_contradiction(entries: Iterable[tuple[str, Key, float]]) -> bool:
    """Tell whether a key has two scores that differ."""
    scores: dict[Key, float] = {}
    return any(scores.setdefault(key, score) != score for _, key, score in entries)


#: The parameters of a function that is called for each caption, in their order where they have other names.
PARAMETERS = ("caption", "references", "image")
#: What a parameter of a name asks rows for.
_NEEDS = {"references": "references", "image": "images"}


@register("python")
@dataclass(frozen=True)
class PythonFunction(OutsideMetric):
    """Scores by a Python function.

    A function of `caption`, of `caption, references` or of `caption, references, image` (the image's path) is called
    for each caption and returns a number; a parameter `context` gets the text around the image, where a dataset has it; two or three parameters may have other names. A function of one parameter of
    another name is called once, with the items as a DataFrame, and returns a number for each. A Series that comes back
    is matched to the items by its index, anything else by its order.

    Args:
        function: `module:function`, of a module on Python's path or in the working folder, or `mine.py:function`.
        name: the metric's name in results; by default the function's name.
    """

    function: str
    name: str = ""  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]

    def __post_init__(self) -> None:
        module, _, attribute = self.function.rpartition(":")
        is_relative = module.startswith(".") and not module.endswith(".py")
        if not module or not attribute or is_relative:
            raise InputError(f"{self.label}: module:function or FILE.py:function is expected")
        super().__post_init__()

    @property
    def default_name(self) -> str:
        return self.function.rpartition(":")[2]

    @property
    def label(self) -> str:
        return f"metric python({self.function})"

    @property
    def code(self) -> str:
        return self.function

    @property
    def needs(self) -> frozenset[str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The columns that the function's parameters ask for."""
        needs: set[str] = set()
        for _, column in self._find_parameters(self._load()):
            # Captions are always there.
            if column in _NEEDS:
                needs.add(_NEEDS[column])
        return frozenset(needs)

    def check_rows(self, rows: Rows) -> None:
        super().check_rows(rows)
        columns = {column for _, column in self._find_parameters(self._load())}
        if "context" in columns and None in rows.contexts:
            raise UnavailableError(
                self.label,
                f"needs the text around images, and {rows.label(rows.contexts.index(None))} has none",
            )

    @property
    def takes_items(self) -> bool:
        """Tell whether the function gets all items at once."""
        return not self._find_parameters(self._load())

    def load_metric(self) -> Metric:
        """Return this metric if it names a function, and otherwise the metric that it names.

        Raises:
            InputError: if the code cannot be loaded, or names nothing that is a metric.
        """
        loaded = self._load()
        if not isinstance(loaded, Metric | type):
            self._find_parameters(loaded)
            return self
        instance = _make_instance(loaded, self.label) if isinstance(loaded, type) else loaded
        object.__setattr__(instance, "origin", self.function)
        return instance

    def compute(self, rows: Rows) -> Floats:
        function = self._load()
        parameters = self._find_parameters(function)
        if not parameters:
            return self._score_together(function, rows)

        columns = {
            "caption": rows.captions,
            "references": [list(references) for references in rows.references],
            "image": rows.images,
            "context": rows.contexts,
        }
        by_place: list[Sequence[Any]] = []
        by_name: dict[str, Sequence[Any]] = {}
        for parameter, column in parameters:
            if parameter.kind is parameter.POSITIONAL_ONLY:
                by_place.append(columns[column])
            else:
                by_name[parameter.name] = columns[column]

        scores = np.empty(len(rows))
        for index in range(len(rows)):
            placed = [cells[index] for cells in by_place]
            named = {name: cells[index] for name, cells in by_name.items()}
            score = run_user_code(self.label, functools.partial(function, *placed, **named))
            try:
                if isinstance(score, str | bytes) or np.ndim(score):
                    raise TypeError
                scores[index] = float(score)
            except (TypeError, ValueError, OverflowError) as error:
                raise InputError(
                    f"{self.label}: it returned {score!r} for {rows.label(index)}; a number is expected"
                ) from error

        return scores

    def _score_together(self, function: Callable[..., Any], rows: Rows) -> Floats:
        """Call a function once, with the items as a DataFrame."""
        items = rows.frame.reset_index(drop=True)
        scores = run_user_code(
            self.label, lambda: function(items.copy(deep=False)), advice=f"; {_ONE_PARAMETER}"
        )
        if isinstance(scores, pd.Series) and not scores.index.equals(items.index):
            if len(scores) == len(items) and not set(items.index) - set(scores.index):
                scores = scores.reindex(items.index)
            else:
                raise InputError(
                    f"{self.label}: a Series came back whose index is not that of the items; "
                    f"return .to_numpy() in the order of the items"
                )

        try:
            numbers = np.asarray(scores, dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(f"{self.label}: no numbers came back ({error})") from error
        if numbers.shape != (len(items),):
            raise InputError(
                f"{self.label}: scores of shape {numbers.shape} for {len(items)} items came back; {_ONE_PARAMETER}"
            )
        return numbers

    def _load(self) -> Any:
        module_name, _, attribute = self.function.rpartition(":")
        if module_name.endswith(".py"):
            path = self.find_file(module_name)
            module = run_user_code(self.label, lambda: _import_file(path))
        else:
            _find_modules_in(Path.cwd())
            package = module_name.partition(".")[0]
            if package not in sys.modules and importlib.util.find_spec(package) is None:
                raise InputError(
                    f"{self.label}: no module {module_name} is here or installed; a file is named with its ending, "
                    f"metrics=FILE.py:{attribute}"
                )
            module = run_user_code(self.label, lambda: importlib.import_module(module_name))

        loaded = getattr(module, attribute, None)
        if not callable(loaded) and not isinstance(loaded, Metric):
            public_names: list[str] = []
            own_names: list[str] = []
            for name, value in vars(module).items():
                if callable(value) and not name.startswith("_"):
                    public_names.append(name)
                    # What a module imports is public, too, but seldom meant.
                    if value.__module__ == module.__name__:
                        own_names.append(name)
            raise unknown(f"function of {module_name}", attribute, own_names or public_names)

        return loaded

    def _find_parameters(self, function: Callable[..., Any]) -> list[tuple[inspect.Parameter, str]]:
        """Return the function's parameters, each with the column that it gets; none of a function of the items."""
        try:
            signature = inspect.signature(function)
        # A function in C may have no signature.
        except ValueError:
            return []

        named: list[inspect.Parameter] = []
        required: list[inspect.Parameter] = []
        recognised: list[inspect.Parameter] = []
        for parameter in signature.parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                continue
            named.append(parameter)
            if parameter.default is parameter.empty:
                required.append(parameter)
            if parameter.name in (*PARAMETERS, "context"):
                recognised.append(parameter)
        if recognised and all(parameter in recognised for parameter in required):
            return [(parameter, parameter.name) for parameter in recognised]

        # Under other names, their number says what they get.
        if len(required) == 1:
            return []
        if len(required) not in (2, 3):
            raise InputError(
                f"{self.label}: its parameters are {signature}; (caption), (caption, references), "
                f"(caption, references, image) or (items) are expected"
            )
        return list(zip(required, PARAMETERS, strict=False))


_ONE_PARAMETER = "a parameter called caption gets one caption, a single one of another name the DataFrame of all items"


@dataclass(frozen=True)
class GivenFunction(PythonFunction):
    """A function that Python code gives; its `function` says where it was made, but does not bring it back."""

    call: Any = field(default=None, hash=False)

    @classmethod
    def wrap(cls, call: Callable[..., Any], name: str = "") -> Metric:
        """Return a function as a metric.

        Raises:
            InputError: if it has other parameters, or no name is left for it.
        """
        inner = call
        while isinstance(inner, functools.partial):
            inner = inner.func
        own_name = getattr(inner, "__name__", type(inner).__name__).strip("<>")
        instance = cls(f"{inner.__module__}:{own_name}", name, call)
        return instance.load_metric()

    @property
    def label(self) -> str:
        return f"metric {self.default_name}"

    @property
    def parameters(self) -> dict[str, Any]:
        # Of the function itself there is nothing to write down that would be the same tomorrow.
        return {"function": self.function, "name": self.name}

    def _load(self) -> Any:
        return self.call


def _find_modules_in(folder: Path) -> None:
    """Let Python find modules in a folder, after all others."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def _import_file(path: Path) -> ModuleType:
    """Import a Python file, and the modules beside it; it is imported again if its text has changed since.

    The module goes by the file's path, so that it never stands for a module of another file.
    """
    path = path.resolve()
    text = path.read_bytes()
    module = sys.modules.get(str(path))
    if module is None or vars(module)["__text__"] != text:
        _find_modules_in(path.parent)
        module = ModuleType(str(path))
        vars(module).update(__file__=str(path), __text__=text)
        # A dataclass looks its module up while it is made.
        sys.modules[str(path)] = module
        try:
            exec(compile(text, str(path), "exec"), vars(module))
        except BaseException:
            del sys.modules[str(path)]
            raise
    return module
