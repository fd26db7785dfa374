"""Rows, notes and warnings of metrics that cannot be computed, of made-up metrics."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest

from captau.benchmarks.runs.tables import MISSING, ResultTable
from captau.benchmarks.scoring.protocol import Protocol
from captau.benchmarks.scoring.unavailable_metrics import (
    add_unavailable_rows,
    describe_reasons,
    find_need,
    find_unavailable,
    make_unavailable_rows,
    split_available,
    warn_unavailable,
)
from captau.datasets.errors import Lack, LackingError
from captau.datasets.registry import load
from captau.metrics.base import Metric, Unavailability, UnavailableError
from captau.metrics.registry import metric


@dataclass(frozen=True)
class Toy(Metric):
    """A metric that lacks what it is told to, for items or for a dataset."""

    called: str
    lacks: str = ""
    of_dataset: str = ""

    @property
    def name(self):
        return self.called

    @property
    def spec(self):
        return self.called

    def compute(self, rows):
        return np.zeros(len(rows))

    def check_rows(self, rows):
        if self.lacks:
            raise UnavailableError(self.called, self.lacks, "get it")

    def check_dataset(self, rows):
        if self.of_dataset:
            raise UnavailableError(self.called, self.of_dataset)


HERE, THERE = Toy("a"), Toy("b", of_dataset="was trained on them")
NO_X, NO_X_2, NO_Y = Toy("c", "needs x"), Toy("d", "needs x"), Toy("e", "needs y")
X, Y = Unavailability("needs x", "get it"), Unavailability("needs y", "get it")
ITEMS = pd.DataFrame({"caption": ["a"], "references": [("a",)]})


def test_which_metrics_lack_something():
    everything = [NO_Y, HERE, NO_X, THERE]
    assert list(find_unavailable(everything, ITEMS).items()) == [(NO_Y, Y), (NO_X, X)]
    trained = Unavailability("was trained on them")
    of_several = find_unavailable(everything, ITEMS, is_one_of_several=True)
    assert list(of_several.items()) == [(NO_Y, Y), (NO_X, X), (THERE, trained)]
    assert find_unavailable([], ITEMS) == {}
    assert find_unavailable([NO_X], ITEMS, needs_one=False) == {NO_X: X}


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ([NO_X], "metric c needs x; get it"),
        ([NO_X, NO_X_2], "none of the metrics can be computed: c,d: needs x; get it"),
        (
            [NO_X, NO_Y, NO_X_2],
            "none of the metrics can be computed: c,d: needs x; get it. e: needs y; get it",
        ),
    ],
)
def test_nothing_is_left(metrics, message):
    with pytest.raises(LackingError) as caught:
        find_unavailable(metrics, ITEMS)
    assert (str(caught.value), caught.value.lack) == (message, Lack.METRICS)


def test_metrics_that_were_named_are_not_left_out():
    """A metric of a suite alone is left out where it lacks something; one that was named fails later."""
    demo, protocol = load("demo"), Protocol(dimension=("overall",), coefficients=("tau_c",))
    metrics = [HERE, NO_X, NO_Y]

    def split(*names):
        return split_available(metrics, frozenset(names), protocol, demo)

    assert split() == (metrics, {})
    assert split("c") == ([HERE, NO_Y], {NO_X: X})
    assert split("a", "c", "e") == ([HERE], {NO_X: X, NO_Y: Y})
    assert split_available([NO_X, HERE], frozenset("c"), protocol, demo) == ([HERE], {NO_X: X})
    with pytest.raises(LackingError, match="metric c needs x; get it"):
        split_available([NO_X], frozenset("c"), protocol, demo)


def test_reasons_as_texts():
    reasons = {NO_X: X, NO_Y: Unavailability("needs y")}
    assert describe_reasons(reasons) == {"c": "needs x; get it", "e": "needs y"}
    none_have = ", which these captions do not have"
    assert find_need(f"needs references{none_have}; name others") == "references"
    assert find_need(f"needs images{none_have}") == "images"
    assert find_need("needs images, and row 1 has none") == ""
    assert find_need(f"wants images{none_have}") == ""


def test_a_row_for_each_missing_metric_dimension_and_coefficient():
    columns = [("overall", "tau_c"), ("wit", "tau_b")]
    rows = make_unavailable_rows("demo", "usual", columns, {NO_X: X, NO_Y: Y})
    assert rows.to_csv(index=False) == (
        "dataset,protocol,dimension,metric,coefficient,value,n_items,n_ratings,ci_low,ci_high,p_value,note\n"
        "demo,usual,overall,c,tau_c,,0,0,,,,missing: needs x; get it\n"
        "demo,usual,wit,c,tau_b,,0,0,,,,missing: needs x; get it\n"
        "demo,usual,overall,e,tau_c,,0,0,,,,missing: needs y; get it\n"
        "demo,usual,wit,e,tau_b,,0,0,,,,missing: needs y; get it\n"
    )


def test_rows_below_the_metrics_and_notes_below_the_others():
    cider = metric("cider")
    rows = [("a", ["1", "2"]), ("CIDEr", ["3", "4"]), ("length", ["5", "6"])]
    table = ResultTable("t", "metric", ["x", "y"], rows, notes=["first"])
    remarks = {"a": ["Cut short.", "odd"], "cider": ["Cut short."], "c": ["never"]}
    missing = {NO_X: X, NO_Y: Y, NO_X_2: X}
    assert add_unavailable_rows(table, [HERE, cider], remarks, missing) == replace(
        table,
        rows=[
            *rows[:2],
            *(("c", [MISSING, MISSING]), ("e", [MISSING, MISSING]), ("d", [MISSING, MISSING])),
            rows[2],
        ],
        notes=[
            *("first", "a, CIDEr: Cut short.", "a: odd."),
            *("c, d: missing: needs x; get it.", "e: missing: needs y; get it."),
        ],
    )
    assert add_unavailable_rows(table, [HERE, cider], {}, {}) == table


def test_one_warning_for_each_reason(caplog):
    with caplog.at_level(logging.WARNING):
        warn_unavailable([{NO_Y: Y, NO_X: X}, {NO_X_2: X, NO_X: X}, {}])
    assert caplog.messages == ["left out e: needs y; get it", "left out c,d: needs x; get it"]
