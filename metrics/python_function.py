"""The metric `python`: a function, or a metric class, in Python code of the user's, such as `mine.py:overlap`."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd

from ..datasets.errors import InputError, unknown
from .base import Floats, Metric, UnavailableError
from .outside_metric import OutsideMetric
from .progress import patient_counter
from .registry import register
from .rows import Rows
from .user_code import run_user_code

#: The parameters of a function that is called for each caption, in their order where they have other names.
PARAMETERS = ("caption", "references", "image")
#: What a parameter of a name asks rows for.
_NEEDS = {"references": "references", "image": "images"}


def make_instance(cls: type, label: str) -> Metric:
    """Return the metric that a class makes without parameters."""
    if not issubclass(cls, Metric):
        raise InputError(f"{label}: the class {cls.__name__} does not extend captau.Metric")
    try:
        return cls()
    except TypeError as error:
        raise InputError(
            f"{label}: the class cannot be made without parameters ({error}); name an object of it instead, as "
            f"mine = {cls.__name__}(…) in the file makes one"
        ) from error


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
        instance = make_instance(loaded, self.label) if isinstance(loaded, type) else loaded
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
        with patient_counter(f"{self.spec}, captions", len(rows)) as count_one:
            for index in range(len(rows)):
                placed = [cells[index] for cells in by_place]
                named = {name: cells[index] for name, cells in by_name.items()}
                score = run_user_code(
                    self.label,
                    functools.partial(function, *placed, **named),
                    advice=functools.partial(_name_item, rows, index),
                )
                scores[index] = self._to_number(score, rows, index)
                count_one()

        return scores

    def _to_number(self, score: Any, rows: Rows, index: int) -> float:
        """Return what the function returned for an item as a float.

        Raises:
            InputError: where it is no number.
        """
        try:
            if isinstance(score, str | bytes) or np.ndim(score):
                raise TypeError
            return float(score)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"{self.label}: it returned {score!r} for {rows.label(index)}; a number is expected"
            ) from error

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


def _name_item(rows: Rows, index: int) -> str:
    """Return the end of a message that says which item a function was called for."""
    return f"; it was called for {rows.label(index)}"


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
