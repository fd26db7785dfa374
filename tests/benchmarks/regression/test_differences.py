"""How far a number has changed, and names of all metrics: worked by hand."""

from __future__ import annotations

import math

import pytest

from captau.benchmarks.regression.differences import (
    Difference,
    _distance,
    make_difference_table,
)


@pytest.mark.parametrize(
    ("old", "new", "distance"),
    [
        (2.0, 5.0, 3.0),
        (5.0, 2.0, 3.0),
        (-1.0, 1.0, 2.0),
        (math.nan, 1.0, math.inf),
        (1.0, math.nan, math.inf),
    ],
)
def test_what_is_undefined_on_one_side_is_farthest(old: float, new: float, distance: float) -> None:
    assert _distance(old, new) == distance


@pytest.mark.parametrize(
    ("n_metrics", "n_of_difference", "words"),
    [(3, 3, "m0, m1, m2"), (4, 4, "all 4"), (4, 3, "m0, m1, m2"), (1, 1, "m0")],
)
def test_a_difference_of_all_metrics_says_how_many(
    n_metrics: int, n_of_difference: int, words: str
) -> None:
    metrics = [f"m{n}" for n in range(n_metrics)]
    difference = Difference(
        **{
            **dict.fromkeys(Difference.__dataclass_fields__, ""),
            "part": "scores",
            "metrics": tuple(metrics[:n_of_difference]),
            "subject": "captions",
            "before": "1",
            "now": "2",
            "change": "+1",
            "cause": "version",
        }
    )
    table = make_difference_table("t", [difference], metrics, ("before", "now"))
    assert table.rows == [("scores", [words, "captions", "1", "2", "+1", "version"])]
    assert (table.title, table.corner) == ("t", "part")
    assert table.columns == ["metric", "what", "before", "now", "by", "likely cause"]
