"""The headline of a dataset: the dimension and coefficient that stand for it where there is room for one number."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from ..statistics.coefficients.coefficient import find_coefficient
from ..statistics.preferences import MEAN_DIMENSION

#: What `captau table coefficients=` takes for each dataset's headline, and for all coefficients of the protocols.
HEADLINE, ALL = "headline", "all"


def find_headline(
    columns: Iterable[tuple[str, str]], coefficients: Sequence[str], dimension: str = ""
) -> tuple[str, str]:
    """Return the dimension and coefficient that stand for a dataset.

    It is the first of the protocol's coefficients that was measured; of a coefficient of preferences the mean of the
    dimensions, and of others the dimension that papers quote, else the first.

    Args:
        columns: the dimension and coefficient of everything that was measured, at least one.
        coefficients: those of the protocol, in its order.
        dimension: the `headline` of the dataset's card.
    """
    dimensions_by_coefficient: dict[str, list[str]] = {}
    for measured_dimension, name in columns:
        dimensions_by_coefficient.setdefault(name, []).append(measured_dimension)

    # A protocol may name coefficients that the dataset has no ratings for.
    measured = [name for name in coefficients if name in dimensions_by_coefficient]
    coefficient = [*measured, *dimensions_by_coefficient][0]
    dimensions = dimensions_by_coefficient[coefficient]
    quoted = MEAN_DIMENSION if find_coefficient(coefficient).is_of_preferences else dimension
    return (quoted if quoted in dimensions else dimensions[0]), coefficient


def sort_by_headline(values: Mapping[str, float], order: Mapping[str, float]) -> list[str]:
    """Return metrics from the best to the worst; undefined ones stand last, and equal ones in the field's order.

    Args:
        values: each metric's coefficient.
        order: each metric's place in the field's order.
    """

    def key(metric: str) -> tuple[float, float]:
        value = values[metric]
        return (math.inf if math.isnan(value) else -value), order[metric]

    return sorted(values, key=key)
