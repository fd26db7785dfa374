"""Columns that a narrow terminal spares: by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from captau.benchmarks.evaluation.correlation_tables import _spare_columns


def test_narrow_terminals_leave_out_the_last_coefficients_first() -> None:
    columns = [
        SimpleNamespace(dimension=dimension, coefficient=coefficient, content=content)
        for dimension in ("p", "x", "a")
        for coefficient in ("tau_c", "pearson", "accuracy")
        for content in ("value", "interval")
    ]
    spare = _spare_columns(cast(Any, columns), ("p", "tau_c"))
    assert spare == ((4, 5, 10, 11, 16, 17), (2, 3, 8, 9, 14, 15), (7, 13), (12,), (6,))
