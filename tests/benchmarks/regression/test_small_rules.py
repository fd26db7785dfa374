"""What counts as a change, how many decimals matter, and names of all metrics: worked by hand."""

from __future__ import annotations

import math

import pytest

from captau.benchmarks.regression.baseline_file import decimals_of, moved
from captau.benchmarks.regression.differences import (
    Difference,
    _distance,
    make_difference_table,
)

NAN = math.nan


@pytest.mark.parametrize(
    ("before", "now", "reach", "has_moved"),
    [
        (0.5, 0.5, 0.0, False),
        (0.5, 0.75, 0.25, False),
        (0.75, 0.5, 0.25, False),
        (0.5, 0.76, 0.25, True),
        (-0.5, 0.5, 0.25, True),
        (NAN, NAN, 1.0, False),
        (NAN, 0.5, 1.0, True),
        (0.5, NAN, 1.0, True),
        (math.inf, math.inf, 0.0, False),
        (math.inf, -math.inf, 1.0, True),
    ],
)
def test_a_number_has_moved_beyond_its_reach(
    before: float, now: float, reach: float, has_moved: bool
) -> None:
    assert moved(before, now, reach) is has_moved


@pytest.mark.parametrize(
    ("tolerance", "decimals"), [(1.0, 1), (0.1, 2), (0.01, 3), (0.02, 3), (1e-6, 7)]
)
def test_one_decimal_more_than_the_tolerance_has_matters(tolerance: float, decimals: int) -> None:
    assert decimals_of(tolerance) == decimals


@pytest.mark.parametrize(
    ("old", "new", "distance"),
    [
        (2.0, 5.0, 3.0),
        (5.0, 2.0, 3.0),
        (-1.0, 1.0, 2.0),
        (NAN, 1.0, math.inf),
        (1.0, NAN, math.inf),
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
