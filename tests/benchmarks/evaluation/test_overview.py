"""Columns that an overview of datasets spares: by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

from captau.benchmarks.evaluation.overview import DatasetsOverview


def test_columns_without_numbers_are_left_out_first_and_then_the_last() -> None:
    def column(dataset: str, value: float) -> SimpleNamespace:
        return SimpleNamespace(dataset=dataset, value=lambda _: value)

    overview = SimpleNamespace(
        columns=[
            *(column("in", 0.1), column("in", math.nan), column("out", 0.2), column("in", 0.3)),
            *(column("out", math.nan), column("out", 0.0)),
        ],
        joint=SimpleNamespace(datasets=["in"]),
        styles={"m": None},
    )
    assert DatasetsOverview._spare_columns(cast(Any, overview)) == [4, 1, 5, 2, 3]
