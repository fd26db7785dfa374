"""How many items have which mean rating, by group: counted by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from captau.benchmarks.evaluation.evaluation_set import EvaluationSet
from captau.benchmarks.evaluation.people.rating_distributions import (
    DISTRIBUTION_COLUMNS,
    RatingDistribution,
    group_items,
    rating_distributions,
)
from captau.benchmarks.scoring.catalog import usual_protocol
from captau.benchmarks.scoring.protocol import Protocol
from captau.datasets.schema import CaptionSet, Card, Scale, make_items
from tests.conftest import says


def ratings(*rows: tuple[str, str, float]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=pd.Index(["item_id", "dimension", "value"]))


def test_items_are_counted_at_the_level_of_their_mean_by_group() -> None:
    table = ratings(
        *(("a", "x", 1), ("a", "x", 3), ("b", "x", 3), ("c", "x", 1), ("b", "y", 0)),
        *(("d", "x", 3), ("d", "y", 1)),
    )
    groups = pd.Series({"c": "two", "a": "one", "b": "one", "d": "two"})
    scales = {"x": Scale(1, 3, 1.0), "y": Scale(0, 1, 1.0)}
    found = rating_distributions("mine", table, scales, groups)
    assert [(d.dimension, d.group, d.counts, d.n_items) for d in found] == [
        ("x", "two", {1.0: 1, 2.0: 0, 3.0: 1}, 2),
        ("x", "one", {1.0: 0, 2.0: 1, 3.0: 1}, 2),
        ("y", "two", {0.0: 0, 1.0: 1}, 1),
        ("y", "one", {0.0: 1, 1.0: 0}, 1),
    ]
    rows = found[1].rows()
    assert [tuple(row) for row in rows] == [DISTRIBUTION_COLUMNS] * 3
    assert rows[1] == {
        "dataset": "mine", "dimension": "x", "group": "one", "level": 2.0, "n_items": 1,
        "share": 0.5,
    }  # fmt: skip


def test_a_group_without_ratings_has_shares_of_zero() -> None:
    empty = RatingDistribution("mine", "x", "", Scale(0, 1, 1.0), {0.0: 0, 1.0: 0})
    assert empty.n_items == 0
    assert [row["share"] for row in empty.rows()] == [0.0, 0.0]
    one = RatingDistribution("mine", "x", "", Scale(0, 1, 1.0), {0.0: 1, 1.0: 3})
    assert [row["share"] for row in one.rows()] == [0.25, 0.75]


@pytest.mark.parametrize(
    ("values", "scale", "expected"),
    [
        ([2.0, 3.5], Scale(-10, 10), (2.0, 4.0)),
        ([2.5, 3.0], Scale(-10, 10), (2.0, 3.0)),
        ([0.1, 0.6], Scale(0, 2, 0.5), (0.0, 1.0)),
        ([0.5, 1.0], Scale(0, 2, 0.5), (0.5, 1.0)),
        ([3.0, 3.0], Scale(-10, 10), (-10.0, 10.0)),
        ([-2.0, 1.0], Scale(-10, 10, 2.0), (-2.0, 2.0)),
    ],
)
def test_a_total_has_the_part_of_its_scale_that_means_reach(
    values: list[float], scale: Scale, expected: tuple[float, float]
) -> None:
    table = ratings(*((f"i{n}", "t", value) for n, value in enumerate(values)))
    groups = pd.Series("", index=["i0", "i1"])
    (of_total,) = rating_distributions("mine", table, {"t": scale}, groups, ["t"])
    assert (of_total.scale.low, of_total.scale.high, of_total.scale.step) == (
        *expected,
        scale.step,
    )
    (whole,) = rating_distributions("mine", table, {"t": scale}, groups)
    assert whole.scale == scale


def selection(systems: list[Any], **changes: Any) -> EvaluationSet:
    n = len(systems)
    items = make_items(
        [f"i{k}" for k in range(n)], ["a dog"] * n, [("a",)] * n, systems=systems,
        splits=["train", "test"] * (n // 2),
    )  # fmt: skip
    table = pd.DataFrame(
        {"item_id": items["item_id"], "dimension": "x", "rater": "r", "value": np.arange(n) / n}
    )
    card = Card(*("made", "Made", "1", "none", "none", "none"), scales={"x": Scale(0, 1)})
    protocol = Protocol.resolve("made", usual_protocol("thumb"), {"dimension": ["x"], **changes})
    return EvaluationSet.select(CaptionSet(items, ratings=table, card=card), protocol)


def test_items_are_grouped_as_asked() -> None:
    chosen = selection(["Human", "a", "b", "HUMAN"])
    expected = {
        "dataset": ["", "", "", ""],
        "split": ["train", "test", "train", "test"],
        "system": ["Human", "a", "b", "HUMAN"],
        "human": ["human", "machines", "machines", "human"],
    }
    for by, groups in expected.items():
        found = group_items(chosen, by)
        assert found.tolist() == groups
        assert found.index.tolist() == chosen.items["item_id"].tolist()


def test_groups_of_systems_need_systems() -> None:
    with says("dataset made: by=human needs a system called human; there are a, b"):
        group_items(selection(["a", "b", "a", "b"]), "human")
    for by in ("human", "system"):
        with says(f"dataset made: by={by} needs the system of every item"):
            group_items(selection(["human", None, "a", "b"]), by)
