"""Shares of noticed faults, their intervals, tables and sentences: worked by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

from captau.benchmarks.evaluation.probes.noticed import (
    PROBE_COLUMNS,
    example_table,
    find_noticed,
    is_weak,
    measure_probes,
    probe_cell,
    probe_tables,
    weakest_sentences,
)
from captau.benchmarks.runs.tables import MISSING
from captau.benchmarks.statistics.bootstrap import StatisticsOptions
from captau.benchmarks.statistics.preferences import wilson_interval
from captau.metrics.base import Metric
from captau.metrics.registry import metric
from tests.benchmarks.printed import lines_of

NONE = StatisticsOptions(interval="none")


def stand_in(
    spec: str,
    *,
    higher_is_better: bool = True,
    bounds: tuple[float | None, float | None] = (None, None),
) -> Metric:
    made = SimpleNamespace(spec=spec, higher_is_better=higher_is_better, bounds=bounds)
    return cast(Metric, made)


def test_a_fault_is_noticed_where_the_faulty_caption_is_worse() -> None:
    """Original against faulty, on a scale of 2; scores that differ by a millionth of the scale are equal."""
    inf, nan = math.inf, math.nan
    table = [
        (0.5, 0.4, 1.0),
        (0.4, 0.5, 0.0),
        (0.5, 0.5, 0.5),
        (2.0, 2.0 - 1.9e-6, 0.5),
        (2.0, 2.0 - 2.1e-6, 1.0),
        (-2.0 - 2.1e-6, -2.0, 0.0),
        (-1.0, -3.0 + 4e-6, 1.0),
        (inf, inf, 0.5),
        (inf, 1.0, 1.0),
        (-inf, 1.0, 0.0),
        (nan, 0.5, nan),
        (0.5, nan, nan),
        (0.0, 0.0, 0.5),
        (4e-16, 3e-16, 0.5),  # BLEU's smallest constants, which stand for 0
        (1.9e-6, 0.0, 0.5),
        (2.1e-6, 0.0, 1.0),
    ]
    pairs = pd.DataFrame(
        {
            "item_id": [f"o{n}" for n in range(len(table))],
            "pair_id": [f"f{n}" for n in range(len(table))],
        },
        index=range(5, 5 + len(table)),
    )
    ids = [*pairs["item_id"], *pairs["pair_id"]]
    scores = pd.Series([row[0] for row in table] + [row[1] for row in table], index=ids)
    metrics = [
        stand_in("up", bounds=(0.0, 2.0)),
        stand_in("down", higher_is_better=False, bounds=(-1.0, 1.0)),
    ]
    noticed = find_noticed(pairs, {"up": scores, "down": scores}, metrics)
    expected = np.array([row[2] for row in table])
    assert noticed.index.equals(pairs.index)
    np.testing.assert_array_equal(noticed["up"], expected)
    np.testing.assert_array_equal(noticed["down"], 1 - expected)


def test_the_scale_of_a_metric_without_bounds_is_from_its_least_to_its_greatest_score() -> None:
    """From -4000 to 0 a millionth is 0.004; scores that are infinite do not count."""
    ids = ["a", "b", "c", "d", "e", "f"]
    scores = pd.Series([-4000.0, -4000.0039, 0.0, -0.0041, math.inf, 5.0], index=ids)
    scores["f"] = -10.0
    pairs = pd.DataFrame({"item_id": ["a", "c", "e"], "pair_id": ["b", "d", "f"]})
    noticed = find_noticed(pairs, {"m": scores}, [stand_in("m")])
    assert noticed["m"].tolist() == [0.5, 1.0, 1.0]
    nothing = pd.Series([math.nan, math.nan], index=["a", "b"])
    assert find_noticed(pairs[:1], {"m": nothing}, [stand_in("m")])["m"].isna().all()


def made_pairs(faults: list[str], images: list[str]) -> pd.DataFrame:
    return pd.DataFrame({"fault": faults, "image_id": images})


def test_shares_are_counted_by_fault_and_metric() -> None:
    pairs = made_pairs(["half", "object", "half", "half"], ["1", "1", "2", "2"])
    noticed = pd.DataFrame({"b": [1.0, 0.0, 0.5, math.nan], "a": [1.0, math.nan, 1.0, 0.0]})
    rows = measure_probes(pairs, noticed, {"object": "made", "half": "", "empty": "why"}, NONE)
    assert [tuple(row) for row in rows] == [PROBE_COLUMNS] * 6
    assert [(r["metric"], r["fault"], r["n_pairs"], r["note"]) for r in rows] == [
        ("b", "object", 1, "made"),
        ("b", "half", 2, "pairs left out for want of a score: 1"),
        ("b", "empty", 0, "no pairs; why"),
        ("a", "object", 0, "no pairs; pairs left out for want of a score: 1; made"),
        ("a", "half", 3, ""),
        ("a", "empty", 0, "no pairs; why"),
    ]
    np.testing.assert_allclose(
        [r["value"] for r in rows], [0.0, 0.75, math.nan, math.nan, 2 / 3, math.nan]
    )
    assert all(math.isnan(r[end]) for r in rows for end in ("ci_low", "ci_high"))


def measure(values: list[float], images: list[str], **options: Any) -> dict[str, Any]:
    pairs = made_pairs(["half"] * len(values), images)
    statistics = StatisticsOptions(interval="percentile", replicates=200, **options)
    (row,) = measure_probes(pairs, pd.DataFrame({"m": values}), {"half": ""}, statistics)
    return row


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_pairs_that_all_come_out_alike_have_wilsons_interval_of_images(share: float) -> None:
    row = measure([share] * 5, ["1", "1", "2", "3", "3"])
    assert (row["ci_low"], row["ci_high"]) == wilson_interval(share, 3, 0.95)
    row = measure([share] * 5, ["1", "1", "2", "3", "3"], level=0.8)
    assert (row["ci_low"], row["ci_high"]) == wilson_interval(share, 3, 0.8)


def test_pairs_that_are_all_ties_have_no_spread() -> None:
    row = measure([0.5] * 4, ["1", "1", "2", "2"])
    assert (row["value"], row["ci_low"], row["ci_high"]) == (0.5, 0.5, 0.5)


def test_one_image_alone_has_no_interval() -> None:
    row = measure([1.0, 0.0], ["1", "1"])
    assert row["value"] == 0.5
    assert math.isnan(row["ci_low"])
    assert "1" in row["note"]


def test_two_images_have_the_interval_of_their_resamples() -> None:
    """Resamples of an image with one pair of three noticed and one with one of one: 1/3, 1/2 or 1."""
    row = measure([1.0, 0.0, 0.0, 1.0], ["1", "1", "1", "2"])
    assert row["value"] == 0.5
    assert (row["ci_low"], row["ci_high"]) == pytest.approx((1 / 3, 1.0))


def row_of(fault: str, value: float, low: float = math.nan, metric: str = "m") -> dict[str, Any]:
    return {
        "metric": metric,
        "fault": fault,
        "value": value,
        "ci_low": low,
        "ci_high": math.nan,
        "n_pairs": 1234,
        "note": "",
    }


@pytest.mark.parametrize(
    ("fault", "value", "low", "cell"),
    [
        ("object", 0.7, math.nan, "70"),
        ("object", 0.69, math.nan, "69!"),
        ("object", 0.9, 0.7, "90"),
        ("object", 0.9, 0.69, "90!"),
        ("case", 0.9, 0.5, "90"),
        ("case", 0.9, 0.51, "90!"),
        ("case", 0.1, math.nan, "10"),
    ],
)
def test_a_weak_spot_has_an_exclamation_mark(
    fault: str, value: float, low: float, cell: str
) -> None:
    assert probe_cell(row_of(fault, value, low)).text == cell
    assert is_weak(row_of(fault, value, low)) == cell.endswith("!")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (1.0, "notices every negation"),
        (1 - 1e-12, "notices every negation"),
        (0.996, "misses one negation out of 250"),
        (0.994, "misses one negation out of 167"),
        (0.9, "misses one negation out of ten"),
        (0.91, "misses one negation out of 11"),
        (2 / 3, "misses one negation out of three"),
        (0.5, "misses one negation out of two"),
        (0.49, "notices only one negation out of two"),
        (0.25, "notices only one negation out of four"),
        (0.006, "notices only one negation out of 167"),
        (0.003, "notices only one negation out of 333"),
        (0.0, "notices no negation"),
    ],
)
def test_a_share_is_said_in_words(value: float, words: str) -> None:
    rows = pd.DataFrame([row_of("negation", value), row_of("object", math.nan)])
    assert weakest_sentences(rows, {"m": "M"}) == f"M {words}."


def test_a_tie_alone_is_no_fault_that_is_noticed() -> None:
    """One tie of 1,000 pairs counts half a pair: the metric notices none, and not "one out of 2,000"."""
    for value, words in ((0.5 / 1000, "notices no"), (1 / 1000, "notices only one")):
        rows = pd.DataFrame([row_of("negation", value) | {"n_pairs": 1000}])
        assert weakest_sentences(rows, {"m": "M"}).startswith(f"M {words} negation")


def test_the_three_weakest_metrics_are_named_with_what_they_miss_most() -> None:
    rows = [
        *(
            row_of("object", v, metric=m)
            for m, v in zip("abcd", (0.5, 0.0, 0.75, 0.8), strict=True)
        ),
        *(row_of("half", v, metric=m) for m, v in zip("abcd", (0.2, 1.0, 1.0, 0.9), strict=True)),
        *(row_of("case", 0.0, metric=m) for m in "abcd"),
    ]
    assert weakest_sentences(pd.DataFrame(rows), {m: m.upper() for m in "abcd"}) == (
        "B notices no swapped object. A notices only one caption cut in half out of five. "
        "C misses one swapped object out of four."
    )


def test_tables_have_a_row_a_metric_and_a_column_a_fault() -> None:
    metrics = [metric("rouge_l"), metric("bleu_1")]
    rows = [
        row_of("object", 0.75, metric="rouge_l"),
        row_of("half", 0.25, metric="rouge_l") | {"n_pairs": 7, "note": "short"},
        row_of("case", 0.9, 0.6, metric="rouge_l"),
        row_of("object", 0.5, metric="bleu_1"),
        row_of("half", 1.0, metric="bleu_1") | {"n_pairs": 7, "note": "short"},
        row_of("case", 0.4, 0.3, metric="bleu_1"),
    ]
    first, second, third = probe_tables(pd.DataFrame(rows), metrics, "demo", 0.9)
    assert first.title == "demo: one thing in the caption changed"
    assert second.title == "demo: another text in its place"
    assert third.title == "demo: controls, after which a caption should not lose"
    assert list(first.heads) == ["object"]
    assert lines_of(first) == [("ROUGE-L", ["75"]), ("BLEU-1", ["50!"]), ("pairs", ["1,234"])]
    assert lines_of(second) == [("ROUGE-L", ["25!"]), ("BLEU-1", ["100"]), ("pairs", ["7"])]
    assert lines_of(third) == [("ROUGE-L", ["90!"]), ("BLEU-1", ["40"]), ("pairs", ["1,234"])]
    assert (first.notes, first.verdict, second.notes) == ([], "", [])
    assert third.notes == [
        "The share of pairs, ×100, in which the changed caption scores lower; ties count ½.",
        "! a fault whose 90 % interval reaches below 70, or a control after which a caption loses more often than not.",
        "half: short.",
    ]
    assert third.verdict == (
        "ROUGE-L notices only one caption cut in half out of four. BLEU-1 misses one swapped object out of two."
    )


def test_the_example_is_the_pair_that_most_metrics_miss() -> None:
    metrics = [metric("rouge_l"), metric("bleu_1")]
    pairs = pd.DataFrame(
        {
            "fault": ["half", "half", "half", "empty", "twice"],
            "caption": [" a ", "b", "c", "d", "e"],
            "faulty_caption": ["A", "B ", "C", "", "E"],
        },
        index=[3, 1, 4, 0, 2],
    )
    noticed = pd.DataFrame(
        {"rouge_l": [0.5, 0, 0, 1, math.nan], "bleu_1": [0.5, 1, 0, 0.5, math.nan]},
        index=pairs.index,
    )
    table = example_table(pairs, noticed, metrics)
    assert lines_of(table) == [
        ("half", ["c", "C", "ROUGE-L, BLEU-1"]),
        ("empty", ["d", "", MISSING]),
        ("twice", ["e", "E", MISSING]),
    ]
    assert table.title == "an example of each change: the pair that the most metrics miss"
    assert (table.corner, list(table.heads)) == (
        "fault",
        ["caption", "with the fault", "scored higher by"],
    )
    assert table.is_detail
    assert not table.numeric
