"""What a learned rater is: a recipe with options, the examples it learns from, the model it becomes.

A recipe registers itself: a module beside this one puts `@recipe("icr")` over its class, and
`conf/rater/icr.yaml` holds its options as the paper has them.
"""

from __future__ import annotations

import dataclasses
import math
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from ....datasets.errors import InputError, unknown
from ...base import Floats, Rows
from ...registry import import_all

if TYPE_CHECKING:
    from .training import Session

Ints = NDArray[np.intp]
Coefficient = Literal["tau_c", "spearman"]


@dataclass(frozen=True)
class Examples:
    """Captions with what people said of them.

    Attributes:
        rows: with the columns `dataset`, `item_id`, `image_id`, `image`, `caption`, `references`,
            `system`.
        ratings: of each row, every rating, between 0 and 1 for the ends of its scale; an array may be
            empty.
        preferences: rows of the winner and the loser of each comparison, shape (n_pairs, 2).
    """

    rows: Rows
    ratings: tuple[Floats, ...]
    preferences: Ints

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def values(self) -> Floats:
        """Mean ratings, shape (n,); NaN where there are none."""
        return np.array([r.mean() if len(r) else np.nan for r in self.ratings], dtype=np.float64)

    @property
    def images(self) -> NDArray[np.str_]:
        """Image ids, shape (n,)."""
        return self.rows.frame["image_id"].to_numpy(dtype=np.str_)

    def take(self, index: Ints) -> Examples:
        """Some of the rows, and the preferences between them."""
        place = np.full(len(self), -1, dtype=np.intp)
        place[index] = np.arange(len(index))
        pairs = place[self.preferences]
        frame = self.rows.frame.iloc[index].reset_index(drop=True)
        return Examples(
            Rows(frame),
            tuple(self.ratings[i] for i in index),
            pairs[(pairs >= 0).all(axis=1)],
        )

    @classmethod
    def join(cls, parts: Sequence[Examples]) -> Examples:
        """Several sets as one."""
        starts = np.cumsum([0, *(len(p) for p in parts)])
        return cls(
            Rows(pd.concat([p.rows.frame for p in parts], ignore_index=True)),
            tuple(r for p in parts for r in p.ratings),
            np.concatenate(
                [p.preferences + start for p, start in zip(parts, starts, strict=False)]
            ).astype(np.intp),
        )

    def rated(self, *, varied: bool = True) -> Examples:
        """The rows that were rated.

        Args:
            varied: whether their ratings must differ, as there is nothing to learn else.

        Raises:
            InputError: where none was, or all ratings are equal.
        """
        found = self.take(np.flatnonzero([len(r) > 0 for r in self.ratings]))
        if not len(found):
            what = "train on" if varied else "choose by"
            raise InputError(f"no row with a rating is left to {what}; choose other data or rows")
        if varied and len({float(v) for v in found.values}) == 1:
            raise InputError(
                f"all {len(found)} captions to train on have the same rating; there is nothing to learn"
            )
        return found


def agreement(predicted: Floats, examples: Examples, coefficient: Coefficient) -> float:
    """How predictions agree with ratings: each rating a data point for tau_c, their means for spearman.

    Args:
        predicted: shape (n,).
        examples: n rows with ratings.

    Returns:
        the coefficient; NaN where either side is constant.
    """
    if coefficient == "spearman":
        if np.ptp(predicted) == 0 or np.ptp(examples.values) == 0:
            return float("nan")
        return float(scipy.stats.spearmanr(predicted, examples.values).statistic)
    repeated = np.repeat(predicted, [len(r) for r in examples.ratings])
    found = scipy.stats.kendalltau(repeated, np.concatenate(examples.ratings), variant="c")
    return float(found.statistic)


class Model(ABC):
    """A trained rater."""

    @abstractmethod
    def predict(self, rows: Rows) -> Floats:
        """Scores of shape (len(rows),); whatever the batches and the order, a row has the same."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write what `Recipe.load` reads: safetensors, text and JSON alone."""


@dataclass(frozen=True)
class Recipe(ABC):
    """How a rater is made: its fields are the options, and all of them are on the rater's card."""

    #: What rows must bring, as a metric's: "references", "images", or neither.
    needs: ClassVar[frozenset[str]] = frozenset()
    #: The options that say where features come from, which may lie elsewhere when it is used.
    sources: ClassVar[tuple[str, ...]] = ()

    if TYPE_CHECKING:
        name: ClassVar[str]

    @abstractmethod
    def fit(self, train: Examples, validation: Examples, session: Session) -> Model:
        """Train.

        Args:
            train: what to learn from.
            validation: what to choose by: of other images.
            session: the seed, and the loop that can be stopped and gone on with.

        Raises:
            InputError: where the examples lack what is needed.
        """

    @abstractmethod
    def load(self, folder: Path) -> Model:
        """What `Model.save` wrote.

        Raises:
            InputError: where a file is missing, damaged, or of another architecture.
        """

    @property
    def options(self) -> dict[str, Any]:
        """All fields, by name."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    def check(self, *names: str, low: float, high: float = math.inf, open_: bool = False) -> None:
        """That options lie between two numbers; `open_` leaves the lower one out.

        Raises:
            InputError: with the first that does not, or that is empty.
        """
        for name in names:
            given = getattr(self, name)
            values: tuple[float, ...] = given if isinstance(given, tuple) else (given,)
            wrong = [v for v in values if not low <= v < high or (open_ and v == low)]
            if wrong or not values:
                least = f"more than {low:g}" if open_ else f"{low:g} or more"
                most = f" and less than {high:g}" if high < math.inf else ""
                said = f"is {wrong[0]:g}" if wrong else "is empty"
                raise InputError(f"rater.{name} {said}; {least}{most} is expected")

    @property
    def signature(self) -> str:
        """What beside the options and the examples a training depends on: features and their makers."""
        return ""


_RECIPES: dict[str, type[Recipe]] = {}
RecipeClass = TypeVar("RecipeClass", bound=type[Recipe])


def recipe(name: str) -> Callable[[RecipeClass], RecipeClass]:
    """Register a recipe under a name."""

    def decorate(cls: RecipeClass) -> RecipeClass:
        if name in _RECIPES:
            raise ValueError(f"rater {name} is registered twice")
        _RECIPES[name] = cls
        cls.name = name
        return cls

    return decorate


def recipes() -> list[str]:
    """The registered recipes, sorted."""
    import_all((__package__ or "").rpartition(".")[0])
    return sorted(_RECIPES)


def make(name: str, options: Mapping[str, Any]) -> Recipe:
    """A recipe with options; what is left out has its default.

    Raises:
        InputError: on an unknown name or option, or a value of another type.
    """
    if name not in recipes():
        raise unknown("rater", name, recipes())
    cls = _RECIPES[name]
    hints = typing.get_type_hints(cls)
    fields = {f.name for f in dataclasses.fields(cls)}
    values: dict[str, Any] = {}
    for key, value in options.items():
        if key not in fields:
            raise unknown(f"option of rater {name}", key, fields)
        values[key] = _typed(value, hints[key], f"rater.{key}")
    return cls(**values)


def _typed(value: Any, hint: Any, where: str) -> Any:
    """A value as its field's annotation asks for it; a list becomes a tuple.

    Raises:
        InputError: where it is of another type.
    """
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        values: Any = value if isinstance(value, list | tuple) else [value]
        return tuple(_typed(v, inner[0], where) for v in values)
    if origin is Literal:
        if value not in inner:
            raise unknown(f"value of {where}", str(value), [str(i) for i in inner])
        return value
    kinds = inner or (hint,)
    if value is None and type(None) in kinds:
        return None
    if isinstance(value, bool):
        if bool in kinds:
            return value
    elif isinstance(value, int | float) and float in kinds:
        return float(value)
    elif type(value) in kinds:
        return value
    wanted = " or ".join(getattr(k, "__name__", str(k)) for k in kinds)
    raise InputError(f"{where} is {value!r}, not {wanted}")
