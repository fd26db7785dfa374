"""The interface of learned raters: a recipe with options, and the model that it trains.

To add a rater, put `@register_recipe("icr")` over a `Recipe` in a module of `metrics/learned/`, and its
options as the paper has them into `conf/rater/icr.yaml`. `captau train` makes recipes with
`make_recipe`; the metric `rater` loads what they trained.
"""

from __future__ import annotations

import dataclasses
import math
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from ....datasets.errors import InputError, unknown
from ...base import Floats
from ...registry import import_modules
from ...rows import Rows
from .examples import Examples
from .training import TrainingSession


class RaterModel(ABC):
    """A trained rater."""

    @abstractmethod
    def predict(self, rows: Rows) -> Floats:
        """Return scores of shape (len(rows),). A row's score does not depend on the other rows."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write files for `Recipe.load`: safetensors, text and JSON only."""


@dataclass(frozen=True)
class Recipe(ABC):
    """A way to train a rater: its fields are the options, and all of them stand on the rater's card."""

    #: What rows must bring, as for a metric: "references", "images", or neither.
    needs: ClassVar[frozenset[str]] = frozenset()
    #: The options that say where features come from; a trained rater may take them from elsewhere.
    source_options: ClassVar[tuple[str, ...]] = ()
    #: What a control (`shuffled=true`) is trained on, in words.
    control: ClassVar[str] = "shuffled ratings"

    if typing.TYPE_CHECKING:
        name: ClassVar[str]

    @abstractmethod
    def fit(self, train: Examples, validation: Examples, session: TrainingSession) -> RaterModel:
        """Train a rater.

        Args:
            train: to learn from.
            validation: to select by; of other images.
            session: the seed, and the training loop.

        Raises:
            InputError: if the examples lack what the recipe needs.
        """

    @abstractmethod
    def load(self, folder: Path) -> RaterModel:
        """Read the files of `Model.save`.

        Raises:
            InputError: if a file is missing, damaged, or of another architecture.
        """

    @property
    def rating_scale(self) -> tuple[float, float] | None:
        """Return the lowest and the highest rating of the predictions' scale; None where they only order captions."""
        return None

    @property
    def options(self) -> dict[str, Any]:
        """All fields, by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def check_range(
        self, *names: str, low: float, high: float = math.inf, is_open: bool = False
    ) -> None:
        """Raise `InputError` for the first option outside [low, high), or (low, high) if `is_open`."""
        for name in names:
            option = getattr(self, name)
            numbers: tuple[float, ...] = option if isinstance(option, tuple) else (option,)
            outside: list[float] = []
            for number in numbers:
                if not low <= number < high or (is_open and number == low):
                    outside.append(number)

            if outside or not numbers:
                lower = f"more than {low:g}" if is_open else f"{low:g} or more"
                upper = f" and less than {high:g}" if high < math.inf else ""
                fault = f"is {outside[0]:g}" if outside else "is empty"
                raise InputError(f"rater.{name} {fault}; {lower}{upper} is expected")

    @property
    def signature(self) -> str:
        """Everything that a training depends on besides options and examples: features, their models."""
        return ""

    def check_features(self, rows: Rows) -> None:  # noqa: B027
        """Check that its sources of features have these rows, where they are of certain rows alone.

        Raises:
            UnavailableError: where one lacks a row.
        """


#: Raters of former versions, whose names stand on cards, in baselines and in files of options.
REMOVED = ("captau", "combination")

_RECIPES: dict[str, type[Recipe]] = {}
RecipeClass = TypeVar("RecipeClass", bound=type[Recipe])


def register_recipe(name: str) -> Callable[[RecipeClass], RecipeClass]:
    """Register a recipe class under a name."""

    def decorate(cls: RecipeClass) -> RecipeClass:
        if name in _RECIPES:
            raise ValueError(f"rater {name} is registered twice")
        _RECIPES[name] = cls
        cls.name = name
        return cls

    return decorate


def recipe_names() -> list[str]:
    """Return the names of all recipes in `metrics/learned/`, sorted."""
    import_modules((__package__ or "").rpartition(".")[0])
    return sorted(_RECIPES)


def unknown_rater(name: str, known_names: Sequence[str]) -> InputError:
    """Return the error for a rater that captau does not have, or has no longer."""
    if name in REMOVED:
        return InputError(
            f"the rater '{name}' was removed in captau 0.2.0, since it did not lead over metrics without training "
            f"(docs/own_rater.md); raters: {', '.join(known_names)}"
        )
    return unknown("rater", name, known_names)


def make_recipe(name: str, options: Mapping[str, Any]) -> Recipe:
    """Make a recipe; options that are left out have their defaults.

    Raises:
        InputError: on an unknown name or option, or a value of another type.
    """
    if name not in recipe_names():
        raise unknown_rater(name, recipe_names())

    cls = _RECIPES[name]
    hints = typing.get_type_hints(cls)
    fields = {field.name for field in dataclasses.fields(cls)}
    values: dict[str, Any] = {}
    for key, value in options.items():
        if key not in fields:
            raise unknown(f"option of rater {name}", key, fields)
        values[key] = convert_option(value, hints[key], f"rater.{key}")

    return cls(**values)


def convert_option(value: Any, hint: Any, label: str) -> Any:
    """Return a value as its field's annotation requires; a list becomes a tuple.

    Raises:
        InputError: if it is of another type.
    """
    origin = typing.get_origin(hint)
    inner = typing.get_args(hint)
    if origin is tuple:
        elements: Any = value if isinstance(value, list | tuple) else [value]
        return tuple([convert_option(element, inner[0], label) for element in elements])
    if origin is Literal:
        if value not in inner:
            raise unknown(f"value of {label}", str(value), [str(choice) for choice in inner])
        return value

    # A plain type, or a union of several.
    types = inner or (hint,)
    if value is None and type(None) in types:
        return None
    # Of a union such as `tuple[str, ...] | None`, the tuple takes one value or several.
    for kind in inner:
        if typing.get_origin(kind) is tuple:
            return convert_option(value, kind, label)
    if isinstance(value, bool):  # before int, of which it is a kind
        if bool in types:
            return value
    elif isinstance(value, int | float) and float in types:
        return float(value)
    elif type(value) in types:
        return value

    expected = " or ".join(getattr(kind, "__name__", str(kind)) for kind in types)
    raise InputError(f"{label} is {value!r}, not {expected}")
