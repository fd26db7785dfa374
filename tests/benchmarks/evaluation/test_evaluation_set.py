"""Selected judgements by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pandas as pd
import pytest

from captau.benchmarks.evaluation.evaluation_set import EvaluationSet

SYSTEMS = {"x1": "X", "x2": "X", "y1": "Y", "y2": "Y", "none": None}


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        # X always stands first, though people prefer either.
        ([("x1", "y1", 1), ("x2", "y2", -1)], True),
        ([("x1", "y1", 1), ("y2", "x2", 1)], True),
        ([("x1", "y1", 0.5), ("y2", "x2", 2), ("x1", "y2", 0)], True),
        ([("x1", "y1", -0.5), ("y2", "x2", -2)], True),
        ([("x1", "y1", 0.5), ("y2", "x2", -0.5)], False),
        ([("x1", "x2", 1), ("x2", "x1", -1)], False),
        ([("none", "none", 1), ("none", "none", -1)], False),
        ([("none", "y1", 1), ("none", "y1", -1)], False),
        ([("x1", "y1", 0), ("y1", "x1", 0)], False),
    ],
)
def test_the_order_of_pairs_may_say_whose_captions_they_are(pairs, expected):
    selected = SimpleNamespace(
        preferences=pd.DataFrame(pairs, columns=["item_a", "item_b", "strength"]),
        keys=pd.DataFrame({"system": SYSTEMS}),
    )
    assert EvaluationSet.order_is_source.func(selected) == expected
