"""Scores of a user's captions: worked by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from captau.benchmarks.evaluation.caption_scores import CaptionScores, keep_captions
from captau.benchmarks.evaluation.reliability import (
    OUTSIDE,
    MetricReliability,
    Reliability,
)
from captau.benchmarks.scoring.corpus_scores import SystemScores
from captau.benchmarks.statistics.bootstrap import Interval
from captau.benchmarks.statistics.remarks import Note, remark
from captau.datasets.schema import ITEM_COLUMNS, make_items
from tests.conftest import says

NAN = math.nan


def scores_of(
    system: str, references: str, images: str, scores: dict[str, list[float]], **fields: Any
) -> SystemScores:
    items = make_items(
        list(images), [f"{system} of {image}" for image in images], [("r",)] * len(images)
    )
    columns = {spec: np.array(values) for spec, values in scores.items()}
    corpus = fields.pop("corpus", {spec: float(np.mean(v)) for spec, v in columns.items()})
    return SystemScores(system, references, items, columns, corpus, {}, {}, **fields)


ONE = scores_of("A", "r", "12", {"m": [0.5, 1.0], "n": [0.25, 0.75]})
OTHER = scores_of("B", "r", "12", {"m": [0.0, 1.0], "n": [NAN, 0.5]})
LARGER = scores_of("A", "r5", "123", {"m": [1.0, 2.0, 3.0], "n": [1.0, 1.0, 1.0]})
OTHER_LARGER = scores_of("B", "r5", "23", {"m": [4.0, 5.0], "n": [NAN, NAN]})


def test_corpus_scores_stand_below_system_and_references_where_there_are_several() -> None:
    found = CaptionScores([ONE], MetricReliability())
    assert (found.has_several_systems, found.has_several_references) == (False, False)
    assert found.corpus == {"m": 0.75, "n": 0.5}
    assert found.undefined == {}
    two = CaptionScores([ONE, OTHER], MetricReliability())
    assert (two.has_several_systems, two.has_several_references) == (True, False)
    assert two.corpus == {
        "A": {"m": 0.75, "n": 0.5},
        "B": {"m": 0.5, "n": pytest.approx(NAN, nan_ok=True)},
    }
    reason = "undefined: 1 of 2 captions have no finite score"
    assert two.undefined == {"A r": {}, "B r": {"n": reason}}
    assert CaptionScores([OTHER], MetricReliability()).undefined == {"n": reason}
    sets = CaptionScores([ONE, LARGER], MetricReliability())
    assert (sets.has_several_systems, sets.has_several_references) == (False, True)
    assert sets.corpus == {"r": {"m": 0.75, "n": 0.5}, "r5": {"m": 2.0, "n": 1.0}}
    four = CaptionScores([ONE, LARGER, OTHER], MetricReliability()).corpus
    assert {system: list(branch) for system, branch in four.items()} == {
        "A": ["r", "r5"],
        "B": ["r"],
    }


def test_rows_of_corpus_scores_have_the_agreement_of_their_metric() -> None:
    few = remark(Note.OTHER_RATERS)
    intervals = {"m": Interval(low=0.5, high=1.0), "n": Interval(remarks=(few,))}
    scored = scores_of("A", "r", "12", {s: [0.5, 1.0] for s in "mno"}, intervals=intervals)
    reliability = MetricReliability({"m": Reliability("tau_c", 0.25, "d", "s")}, {"n": "long (d)"})
    rows = CaptionScores([scored, OTHER], reliability).corpus_rows
    blank = "-"
    assert rows.astype(object).where(rows.notna(), blank).to_numpy().tolist() == [
        ["A", "r", "m", 0.75, 0.5, 1.0, 2, 0.25, "tau_c", "d", "s", ""],
        [*("A", "r", "n", 0.75, blank, blank, 2, blank), "", "", "", f"{Interval(remarks=(few,)).note}; agreement: {OUTSIDE}: your captions long (d)"],
        ["A", "r", "o", 0.75, blank, blank, 2, blank, "", "", "", ""],
        ["B", "r", "m", 0.5, blank, blank, 2, 0.25, "tau_c", "d", "s", ""],
        [*("B", "r", "n", blank, blank, blank, 2, blank), "", "", "", f"undefined: 1 of 2 captions have no finite score; agreement: {OUTSIDE}: your captions long (d)"],
    ]  # fmt: skip
    assert list(rows.columns) == [
        *("system", "references", "metric", "score", "ci_low", "ci_high", "n_images"),
        *("agreement", "agreement_coefficient", "agreement_on", "agreement_source", "note"),
    ]


def test_captions_are_joined_with_system_and_set() -> None:
    items = CaptionScores([ONE, OTHER_LARGER], MetricReliability()).items
    assert list(items.columns) == ["dataset", *ITEM_COLUMNS]
    assert items.index.tolist() == [0, 1, 2, 3]
    assert items[["dataset", "system", "caption"]].to_numpy().tolist() == [
        ["r", "A", "A of 1"],
        ["r", "A", "A of 2"],
        ["r5", "B", "B of 2"],
        ["r5", "B", "B of 3"],
    ]


def rows_of(frame: pd.DataFrame) -> list[list[Any]]:
    table = frame.drop(columns="item_id").astype(object)
    return table.where(table.notna(), None).to_numpy().tolist()


def test_scores_are_columns_and_those_of_several_sets_bear_their_names() -> None:
    one = CaptionScores([ONE], MetricReliability()).frame
    assert list(one.columns) == ["item_id", "image_id", "m", "n"]
    assert one["item_id"].tolist() == ONE.items["item_id"].tolist()
    assert rows_of(one) == [["1", 0.5, 0.25], ["2", 1.0, 0.75]]
    systems = [
        SystemScores(
            s.system, s.references, s.items.assign(system=s.system), s.scores, s.corpus, {}, {}
        )
        for s in (ONE, LARGER, OTHER, OTHER_LARGER)
    ]
    two = CaptionScores(systems[::2], MetricReliability()).frame
    assert list(two.columns) == ["item_id", "image_id", "system", "m", "n"]
    assert two.index.tolist() == [0, 1, 2, 3]
    assert rows_of(two) == [
        ["1", "A", 0.5, 0.25],
        ["2", "A", 1.0, 0.75],
        ["1", "B", 0.0, None],
        ["2", "B", 1.0, 0.5],
    ]
    four = CaptionScores(systems, MetricReliability()).frame
    assert list(four.columns) == [
        *("item_id", "image_id", "system", "m@r", "n@r", "m@r5", "n@r5"),
    ]
    assert rows_of(four) == [
        ["1", "A", 0.5, 0.25, 1.0, 1.0],
        ["2", "A", 1.0, 0.75, 2.0, 1.0],
        ["1", "B", 0.0, None, None, None],
        ["2", "B", 1.0, 0.5, 4.0, None],
        ["3", "A", None, None, 3.0, 1.0],
        ["3", "B", None, None, 5.0, None],
    ]


def test_captions_with_at_least_the_threshold_are_kept() -> None:
    scored = scores_of("A", "", ["12", "x1", "٣", "4"], {"m": [0.5, 1.0, 0.75, 0.25]})  # type: ignore
    captions = {"12": "a man", "x1": "two dogs", "٣": "as given", "4": "a cat"}
    assert keep_captions(scored, captions, "m", 0.5) == [
        {"image_id": 12, "caption": "a man"},
        {"image_id": "x1", "caption": "two dogs"},
        {"image_id": 3, "caption": "as given"},
    ]
    assert keep_captions(scored, captions, "m", 1.5) == []
    with says("keep.metric=n: it cannot be computed here"):
        keep_captions(scored, captions, "n", 0.5)
    with says("keep.metric=n: image '1' has no score"):
        keep_captions(OTHER, captions, "n", 0.5)
