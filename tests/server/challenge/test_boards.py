"""Leaderboards: places, ranks, filters and downloads, worked by hand or against `captau score`'s own tests."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from captau.server.challenge.leaderboard.board import (
    Board,
    Column,
    Entry,
    Filters,
    Row,
    Score,
    chosen,
    clusters_of,
    entry_scores,
    ranked,
    rounded,
)

CIDER = Column("cider@c5", "cider", "c5", "CIDEr", 100, 1, True)
LOSS = Column("loss", "loss", "", "Loss", 1, 3, False)
NAN = float("nan")


def entry(number, team, value, at=0.0, system="one", key="cider@c5"):
    score = Score(value, value - 0.01, value + 0.01)
    return Entry(number, team, f"team {team}", system, "test", at, {key: score})


PEOPLE = Entry(None, None, "people", "", "", 0.0, {"cider@c5": Score(0.85, 0.84, 0.86)})


def test_places_ties_people_and_what_is_undefined():
    entries = [entry(1, 1, 0.5), entry(2, 2, 0.9), entry(3, 3, 0.5), entry(4, 4, NAN), PEOPLE]
    rows = ranked(entries, CIDER, {2: 1, 1: 2, 3: 2})
    assert [(r.entry.number, r.place, r.cluster) for r in rows] == [
        (2, 1, 1),
        (None, None, None),
        (1, 2, 2),
        (3, 2, 2),
        (4, None, None),
    ]
    turned = ranked(entries, CIDER, {}, turned=True)
    assert [r.entry.number for r in turned] == [4, 3, 1, None, 2]
    assert [r.place for r in turned] == [None, 2, 2, None, 1]


def test_less_is_better_where_the_metric_says_so():
    entries = [entry(1, 1, 0.5, key="loss"), entry(2, 2, 0.9, key="loss")]
    assert [r.entry.number for r in ranked(entries, LOSS, {})] == [1, 2]
    assert [e.number for e in chosen([*entries, entry(3, 2, 0.1, key="loss")], LOSS, "best")] == [
        1,
        3,
    ]


def test_which_of_a_team_s_submissions():
    entries = [entry(1, 1, 0.7, 10), entry(2, 1, 0.4, 20), entry(3, 2, NAN, 5), PEOPLE]
    assert [e.number for e in chosen(entries, CIDER, "best")] == [1, 3, None]
    assert [e.number for e in chosen(entries, CIDER, "latest")] == [2, 3, None]
    assert [e.number for e in chosen(entries, CIDER, "all")] == [1, 2, 3, None]
    # Of equals the first one stands, however they come in.
    equals = [entry(5, 1, 0.4, 9), entry(4, 1, 0.4, 8)]
    assert [e.number for e in chosen(equals, CIDER, "best")] == [4]


def test_filters():
    entries = [entry(1, 1, 0.7, 10), entry(2, 2, 0.4, 20), PEOPLE]

    def shown(**wanted):
        return [e.number for e in entries if Filters(**wanted).take(e)]

    assert shown() == [1, 2, None]
    assert shown(team=2) == [2, None]
    assert shown(since=10, until=20) == [1, None]


def test_clusters_are_those_of_captau_score():
    """Each submission drawn on its own, as the server does: the p-values of all drawn together."""
    from captau.benchmarks.scoring.system_comparison import SystemPanel
    from captau.benchmarks.statistics.bootstrap import StatisticsOptions, resample
    from captau.benchmarks.statistics.significance import (
        PreparedMetric,
        compare_metrics,
        correct_p_values,
        rank_clusters,
    )

    rng = np.random.default_rng(0)
    values = {f"{k}": rng.normal(k // 2 * 0.2, 1, 300) for k in range(6)}
    pooled = {
        name: {"m": lambda weights, x=x: x @ weights / weights.sum(0)} for name, x in values.items()
    }
    panel = SystemPanel.of(pooled, ("m",), 300)
    everything = np.ones(300, dtype=bool)
    prepared = {name: PreparedMetric.prepare(panel, name, everything) for name in values}
    options = StatisticsOptions()
    together = dict(
        zip(
            values,
            resample([p.statistic for p in prepared.values()], 300, options.replicates),
            strict=True,
        )
    )
    found = compare_metrics(panel, panel.metrics, prepared, together, options)
    p = correct_p_values([d.result.p_value for d in found], "bh")
    expected = rank_clusters(
        {n: float(x.mean()) for n, x in values.items()},
        {frozenset((d.metric_a, d.metric_b)): one for d, one in zip(found, p, strict=True)},
        0.05,
    )
    alone = {
        int(n): resample([prepared[n].statistic], 300, options.replicates)[0][0] for n in values
    }
    ranks = clusters_of({int(n): float(x.mean()) for n, x in values.items()}, alone)
    assert ranks == {int(n): rank for n, rank in expected.items()}
    assert 1 < len(set(ranks.values())) < 6
    # Turned round, where less is better: the last are first.
    lower = clusters_of({n: -float(values[str(n)].mean()) for n in alone}, alone, higher=False)
    assert lower == ranks


@given(st.lists(st.one_of(st.floats(0, 1), st.just(NAN)), max_size=8))
def test_ranks_go_up_from_one_with_the_places(values):
    rng = np.random.default_rng(1)
    drawn = {n: v + rng.normal(0, 0.1, 50) for n, v in enumerate(values)}
    ranks = clusters_of(dict(enumerate(values)), drawn)
    known = [n for n, v in enumerate(values) if not math.isnan(v)]
    assert sorted(ranks) == known
    ordered = [ranks[n] for n in sorted(known, key=lambda n: -values[n])]
    assert ordered == sorted(ordered)
    assert set(ordered) == set(range(1, len(set(ordered)) + 1))


def test_without_drawn_scores_there_is_no_rank():
    assert clusters_of({1: 0.5, 2: 0.6}, {1: np.zeros(10)}) == {1: 1}
    gone = np.full(10, NAN)  # nothing that could be tested: no difference is significant
    assert clusters_of({1: 0.5, 2: 0.6}, {1: gone, 2: gone}) == {1: 1, 2: 1}


def test_csv_and_json_say_the_same_and_no_more_digits_than_told():
    rows = [
        Row(entry(7, 1, 0.123456789, 1_700_000_000, system="=1+1"), 1, 1),
        Row(entry(8, 2, NAN, 1_700_000_000), None, None),
        Row(PEOPLE),
    ]
    few = [
        replace(row, entry=replace(row.entry, scores=rounded(row.entry.scores, [CIDER])))
        for row in rows
    ]
    board = Board("demo", [CIDER], CIDER, few, {"cider": "cider|v1"})
    read = list(csv.DictReader(io.StringIO(board.csv())))
    assert [r["cider@c5"] for r in read] == ["0.123", "", "0.85"]
    assert (read[0]["cider@c5_low"], read[0]["at"]) == ("0.113", "2023-11-14T22:13:20Z")
    assert read[0]["system"] == "'=1+1"  # no spreadsheet computes it
    told = json.loads(board.json())
    assert told["signatures"] == {"cider": "cider|v1"}
    assert [r["scores"]["cider@c5"]["value"] for r in told["rows"]] == [0.123, None, 0.85]
    assert [r["human"] for r in told["rows"]] == [False, False, True]
    assert "0.1234" not in board.csv() + board.json()
    exact = json.loads(Board("demo", [CIDER], CIDER, rows).json())
    assert exact["rows"][0]["scores"]["cider@c5"]["value"] == pytest.approx(0.123456789, abs=0)


def test_scores_of_a_result():
    found = entry_scores(
        [
            {"references": "c5", "metric": "cider", "value": 0.5, "ci_low": 0.4, "ci_high": 0.6},
            {"references": "", "metric": "bleu_1", "value": None, "ci_low": None, "ci_high": None},
        ]
    )
    assert found["cider@c5"] == Score(0.5, 0.4, 0.6)
    assert math.isnan(found["bleu_1"].value)
