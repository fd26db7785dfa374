"""Leaderboards: places, ranks, filters and files, worked by hand or against `captau score`'s own tests."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace
from urllib.parse import parse_qsl

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from captau.benchmarks.scoring.corpus_scores import SystemPanel
from captau.benchmarks.statistics.bootstrap import StatisticsOptions, resample
from captau.benchmarks.statistics.intervals import correct_p_values, rank_clusters
from captau.benchmarks.statistics.significance import PreparedMetric, compare_metrics
from captau.server.challenge.definition import Phase
from captau.server.challenge.leaderboard.board import (
    Board,
    BoardEntry,
    BoardRow,
    Score,
    ScoreColumn,
    default_column,
    make_columns,
    read_scores,
    round_scores,
)
from captau.server.challenge.leaderboard.leaderboards import Filters, read_board_request
from captau.server.challenge.leaderboard.ranking import (
    rank_entries,
    rank_submissions,
    select_entries,
)
from captau.server.web.errors import RefusedError
from tests.server.challenge.conftest import make_site

CIDER = ScoreColumn("cider@c5", "cider", "c5", "CIDEr", 100, 1, True)
LOSS = ScoreColumn("loss", "loss", "", "Loss", 1, 3, False)
NAN = float("nan")


def entry(number, team, value, at=0.0, system="one", key="cider@c5"):
    score = Score(value=value, low=value - 0.01, high=value + 0.01, half_width=0.01)
    return BoardEntry(number, team, f"team {team}", system, "test", at, {key: score})


HUMAN_SCORE = Score(value=0.85, low=0.84, high=0.86, half_width=0.01)
HUMAN = BoardEntry(None, None, "people", "", "", 0.0, {"cider@c5": HUMAN_SCORE})


def numbers(entries):
    return [entry.number for entry in entries]


def test_equal_scores_share_a_place_and_human_or_undefined_ones_have_none():
    entries = [entry(1, 1, 0.5), entry(2, 2, 0.9), entry(3, 3, 0.5), entry(4, 4, NAN), HUMAN]
    rows = rank_entries(entries, CIDER, {2: 1, 1: 2, 3: 2})
    assert [(r.entry.number, r.place, r.rank) for r in rows] == [
        (2, 1, 1),
        (None, None, None),
        (1, 2, 2),
        (3, 2, 2),
        (4, None, None),
    ]
    is_reversed = rank_entries(entries, CIDER, {}, is_reversed=True)
    assert [r.entry.number for r in is_reversed] == [4, 3, 1, None, 2]
    assert [r.place for r in is_reversed] == [None, 2, 2, None, 1]


def test_lower_scores_are_better_where_the_metric_says_so():
    entries = [entry(1, 1, 0.5, key="loss"), entry(2, 2, 0.9, key="loss")]
    assert [r.entry.number for r in rank_entries(entries, LOSS, {})] == [1, 2]
    better = entry(3, 2, 0.1, key="loss")
    assert numbers(select_entries([*entries, better], LOSS, "best")) == [1, 3]


def test_a_higher_coefficient_is_better_and_leads_the_board(tmp_path):
    site = make_site(tmp_path, ("metrics",))
    challenge = replace(site.store.get_challenge("small_metrics"), rank_by="pearson overall")
    columns = make_columns(challenge)
    assert [(c.key, c.higher_is_better) for c in columns] == [
        ("pearson overall", True),
        ("tau_b overall", True),
    ]
    assert default_column(challenge, columns) == columns[0]
    site.store.database.close()


def test_the_best_the_latest_or_all_of_a_team_s_submissions_are_selected():
    entries = [entry(1, 1, 0.7, 10), entry(2, 1, 0.4, 20), entry(3, 2, NAN, 5), HUMAN]
    assert numbers(select_entries(entries, CIDER, "best")) == [1, 3, None]
    assert numbers(select_entries(entries, CIDER, "latest")) == [2, 3, None]
    assert numbers(select_entries(entries, CIDER, "all")) == [1, 2, 3, None]
    # Of equals the first one stands, in whatever order they are listed.
    equals = [entry(5, 1, 0.4, 9), entry(4, 1, 0.4, 8)]
    assert numbers(select_entries(equals, CIDER, "best")) == [4]


def test_filters_accept_a_team_or_a_period_and_always_human_captions():
    entries = [entry(1, 1, 0.7, 10), entry(2, 2, 0.4, 20), HUMAN]

    def accepted(**fields):
        return [e.number for e in entries if Filters(**fields).accepts(e)]

    assert accepted() == [1, 2, None]
    assert accepted(team=2) == [2, None]
    assert accepted(since=10, until=20) == [1, None]


def test_an_address_describes_a_leaderboard(tmp_path):
    phases = [
        Phase(name, begins, begins + 10, None, None) for name, begins in (("a", 0), ("b", 20))
    ]
    site = make_site(tmp_path, ("captions",))
    challenge = replace(site.store.get_challenge("small_captions"), phases=tuple(phases))
    columns = make_columns(challenge)
    assert [(c.key, c.heading) for c in columns] == [
        *(("cider@c2", "CIDEr, c2"), ("cider@c1", "CIDEr, c1")),
        *(("rouge_l@c2", "ROUGE-L, c2"), ("rouge_l@c1", "ROUGE-L, c1")),
    ]

    def read(now=0.0, **parameters):
        return read_board_request(challenge, columns, parameters, now)

    # The open phase, between two the last that began, and before all the last.
    assert [read(now).phase for now in (-1.0, 5.0, 15.0, 25.0, 35.0)] == [*"baabb"]
    assert read().query_string() == "phase=a&sort=cider%40c2&which=best"
    assert read().filters == Filters(None, -math.inf, math.inf)
    days = {"since": "1970-01-02", "until": "1970-01-03"}
    request = read(phase="all", sort="rouge_l@c1", turn="yes", which="latest", team="12", **days)
    assert request.filters == Filters(12, 86_400.0, 3 * 86_400.0)
    assert request.query_string(team="") == (
        "phase=all&sort=rouge_l%40c1&turn=yes&which=latest&since=1970-01-02&until=1970-01-03"
    )
    assert request == read(**dict(parse_qsl(request.query_string())))
    assert read(which="all").selection == "all"
    assert read(which="each", team="1²").filters.team is None
    with pytest.raises(RefusedError, match="“1970-13-01” is not a day; write it as 2026-11-21"):
        _ = read(since="1970-13-01").filters
    site.store.database.close()


def test_ranks_are_those_of_captau_score():
    """Each submission resampled alone, as the server does: the p-values of all resampled together."""
    rng = np.random.default_rng(0)
    values = {f"{k}": rng.normal(k // 2 * 0.2, 1, 300) for k in range(6)}
    pooled = {
        name: {"m": lambda weights, x=x: x @ weights / weights.sum(0)} for name, x in values.items()
    }
    panel = SystemPanel.from_resamplers(pooled, ("m",), 300)
    all_images = np.ones(300, dtype=bool)
    prepared = {name: PreparedMetric.prepare(panel, name, all_images) for name in values}
    options = StatisticsOptions()
    statistics = [p.statistic for p in prepared.values()]
    jointly = resample(statistics, 300, options.replicates)
    by_name = dict(zip(values, jointly, strict=True))
    pairs = compare_metrics(panel, panel.metrics, prepared, by_name, options)
    p_values = correct_p_values([pair.result.p_value for pair in pairs], "bh")
    p_by_pair = {
        frozenset((pair.metric_a, pair.metric_b)): p_value
        for pair, p_value in zip(pairs, p_values, strict=True)
    }
    means = {name: float(x.mean()) for name, x in values.items()}
    expected = rank_clusters(means, p_by_pair, 0.05)
    replicates = {
        int(n): resample([prepared[n].statistic], 300, options.replicates)[0][0] for n in values
    }
    ranks = rank_submissions({int(n): mean for n, mean in means.items()}, replicates)
    assert ranks == {int(n): rank for n, rank in expected.items()}
    assert 1 < len(set(ranks.values())) < 6
    # The same with the opposite sign, where lower is better.
    negated = {int(n): -mean for n, mean in means.items()}
    assert rank_submissions(negated, replicates, higher_is_better=False) == ranks


@given(st.lists(st.one_of(st.floats(0, 1), st.just(NAN)), max_size=8))
def test_ranks_increase_from_one_with_the_places(values):
    rng = np.random.default_rng(1)
    replicates = {n: v + rng.normal(0, 0.1, 50) for n, v in enumerate(values)}
    ranks = rank_submissions(dict(enumerate(values)), replicates)
    defined = [n for n, v in enumerate(values) if not math.isnan(v)]
    assert sorted(ranks) == defined
    ordered = [ranks[n] for n in sorted(defined, key=lambda n: -values[n])]
    assert ordered == sorted(ordered)
    assert set(ordered) == set(range(1, len(set(ordered)) + 1))


def test_a_submission_without_replicates_has_no_rank():
    assert rank_submissions({1: 0.5, 2: 0.6}, {1: np.zeros(10)}) == {1: 1}
    undefined = np.full(10, NAN)  # no difference can be tested, so neither is level with the other
    assert rank_submissions({1: 0.5, 2: 0.6}, {1: undefined, 2: undefined}) == {}


def test_csv_and_json_agree_and_have_no_more_digits_than_shown():
    rows = [
        BoardRow(entry(7, 1, 0.123456789, 1_700_000_000, system="=1+1"), 1, 1),
        BoardRow(entry(8, 2, NAN, 1_700_000_000), None, None),
        BoardRow(HUMAN),
    ]
    rounded_rows = [
        replace(row, entry=replace(row.entry, scores=round_scores(row.entry.scores, [CIDER])))
        for row in rows
    ]
    board = Board("demo", [CIDER], CIDER, rounded_rows, {"cider": "cider|v1"})
    header = "place,rank,team,system,submission,phase,at,cider@c5,cider@c5_low,cider@c5_high"
    at = "2023-11-14T22:13:20Z"
    assert board.to_csv().splitlines() == [
        header,
        f"1,1,team 1,'=1+1,,test,{at},0.123,0.113,0.133",
        f",,team 2,one,,test,{at},,,",
        ",,people,,,,,0.85,0.84,0.86",
    ]
    lines = list(csv.DictReader(io.StringIO(board.to_csv())))
    assert [line["cider@c5"] for line in lines] == ["0.123", "", "0.85"]
    assert (lines[0]["cider@c5_low"], lines[0]["at"]) == ("0.113", "2023-11-14T22:13:20Z")
    assert lines[0]["system"] == "'=1+1"  # no spreadsheet computes it
    table = json.loads(board.to_json())
    row = table["rows"][1]
    fields = {"place": None, "rank": None, "team": "team 2", "system": "one", "submission": None}
    undefined = {"cider@c5": dict.fromkeys(("value", "low", "high"))}
    assert row == {**fields, "phase": "test", "at": at, "human": False, "scores": undefined}
    assert {key: table[key] for key in table if key != "rows"} == {
        **{"challenge": "demo", "ranked_by": "cider@c5", "alpha": 0.05, "correction": "bh"},
        **{"signatures": {"cider": "cider|v1"}, "signatures_differ": False},
    }
    assert [r["scores"]["cider@c5"]["value"] for r in table["rows"]] == [0.123, None, 0.85]
    assert [r["human"] for r in table["rows"]] == [False, False, True]
    assert "0.1234" not in board.to_csv() + board.to_json()
    exact = json.loads(Board("demo", [CIDER], CIDER, rows).to_json())
    assert exact["rows"][0]["scores"]["cider@c5"]["value"] == pytest.approx(0.123456789, abs=0)


def test_scores_of_a_result_are_read_by_column():
    scores = read_scores(
        [
            {"references": "c5", "metric": "cider", "value": 0.5, "ci_low": 0.4, "ci_high": 0.6},
            {"references": "", "metric": "bleu_1", "value": None, "ci_low": None, "ci_high": None},
        ]
    )
    cider = scores["cider@c5"]
    assert (cider.value, cider.low, cider.high) == (0.5, 0.4, 0.6)
    assert cider.half_width == pytest.approx(0.1, abs=1e-15)
    assert math.isnan(scores["bleu_1"].value)


def test_half_the_width_of_an_interval_is_rounded_by_itself():
    """By hand: (0.5247 - 0.4784) / 2 is 0.02315, and that of the rounded bounds 0.0235, which a table prints as 2.4."""
    row = {"references": "c5", "metric": "cider", "value": 0.5, "ci_low": 0.4784, "ci_high": 0.5247}
    rounded = read_scores([row])["cider@c5"].round(3)
    assert (rounded.low, rounded.high) == (0.478, 0.525)
    assert rounded.half_width == 0.023
