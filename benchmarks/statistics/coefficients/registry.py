"""The registry of coefficients: a module of this folder, or of another package, puts `@register` over its class.

Modules of other packages are those that the entry-point group `captau.coefficients` names.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from functools import cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ....datasets.errors import unknown
from ....datasets.plugins import import_plugins
from ..weighted_pairs import Floats
from .coefficient import Coefficient, CoefficientValue, RatingCoefficient

_COEFFICIENTS: dict[str, Coefficient] = {}

AnyCoefficient = TypeVar("AnyCoefficient", bound=Coefficient)


def register(cls: type[AnyCoefficient]) -> type[AnyCoefficient]:
    """Register a class of coefficients under its name.

    Raises:
        ValueError: where the name is taken.
    """
    if cls.name in _COEFFICIENTS:
        raise ValueError(f"coefficient {cls.name} is registered twice")
    _COEFFICIENTS[cls.name] = cls()
    return cls


@cache
def _import_modules() -> None:
    """Import this folder's modules, and those of other packages, so that they register their classes."""
    folder = importlib.import_module(__package__ or "")
    for module in pkgutil.iter_modules(folder.__path__, f"{folder.__name__}."):
        importlib.import_module(module.name)
    import_plugins("captau.coefficients")


def list_coefficients() -> list[Coefficient]:
    """List the registered coefficients, in the order in which the field prints them."""
    _import_modules()
    return sorted(_COEFFICIENTS.values(), key=lambda coefficient: coefficient.order)


def coefficient_names() -> list[str]:
    """List the names of the registered coefficients, in the order of `list_coefficients`."""
    return [coefficient.name for coefficient in list_coefficients()]


def find_coefficient(name: str) -> Coefficient:
    """Return the coefficient of a name.

    Raises:
        InputError: where there is none.
    """
    _import_modules()
    if name not in _COEFFICIENTS:
        raise unknown("coefficient", name, _COEFFICIENTS)
    return _COEFFICIENTS[name]


def are_of_preferences(names: Iterable[str]) -> NDArray[np.bool_]:
    """Say of each of a table's coefficients whether it is of preferences, shape (n_names,)."""
    return np.array([find_coefficient(name).is_of_preferences for name in names], dtype=bool)


def correlate(scores: Floats, ratings: Floats, coefficient: str) -> CoefficientValue:
    """Correlate scores with ratings, over all points; see `RatingCoefficient.value`.

    Args:
        scores, ratings: shape (n_points,), paired.
        coefficient: the name of a coefficient of ratings.

    Returns:
        The coefficient, with its p-value of "no association" where it has one; NaN with a reason where there are
        fewer than two points, a score or rating is NaN, either side is constant, or there is no value.

    Raises:
        ValueError: on a coefficient of something else, or on unequal lengths.
        InputError: on an unknown coefficient.
    """
    found = find_coefficient(coefficient)
    if not isinstance(found, RatingCoefficient):
        raise ValueError(f"coefficient {coefficient} is not of scores and ratings")
    return found.value(scores, ratings)
