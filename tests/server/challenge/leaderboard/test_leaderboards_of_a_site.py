"""Leaderboards built from the rows of a database: who stands where, for whom, and by which digits."""

from __future__ import annotations

import asyncio
import math

import numpy as np
import pytest
from sqlalchemy import insert

from captau.server.challenge import tables
from captau.server.challenge.leaderboard.ranking import RankCache
from captau.server.challenge.submission_files import write_replicates
from captau.server.challenge.submissions import save_human_scores
from captau.server.web.errors import RefusedError
from tests.server.challenge.conftest import create_account
from tests.server.challenge.visitors import make_site, quick_passwords, write_challenge

__all__ = ["quick_passwords"]

NOW = 1_800_000_000.0
DAY = 86_400.0
COLUMNS = [f"{metric}@{name}" for metric in ("cider", "rouge_l") for name in ("c2", "c5")]


@pytest.fixture
def site(tmp_path, clock):
    phases = [{"name": "dev", "to": "2027-01-01"}, {"name": "test"}]
    opened = make_site(tmp_path, write_challenge(tmp_path, phases=phases))
    for name in ("Reds", "Blues"):
        create_account(opened.store.database, name)
    yield opened
    opened.store.database.close()


def add(site, key, team, value, phase="test", at=NOW, standing="", signature="s"):
    """Add a scored submission whose replicates are within a ten-thousandth of its score."""
    row = {
        **{"key": key, "challenge": "small", "phase": phase, "team": team, "account": team},
        **{"system": f"system {key}", "note": "", "file": "a.json", "sha256": "", "bytes": 2},
        **{"received_at": at, "state": "scored", "faults": [], "n_faults": 0, "summary": ""},
        **{"counts": True, "attempts": 1, "progress": 1.0, "step": "", "reason": ""},
        **{"standing": standing, "standing_why": ""},
    }
    sets = [column.split("@") for column in COLUMNS]
    values = {"value": value, "ci_low": value - 0.01, "ci_high": value + 0.01, "n": 6, "note": ""}
    scores = [{"metric": metric, "references": name, **values} for metric, name in sets]
    run = {"signatures": {"cider": signature}}
    result = {"made_at": NOW, "seconds": 1.0, "digest": "d", "scores": scores, "run": run}

    def write(c):
        number = c.execute(insert(tables.submissions).values(row)).inserted_primary_key[0]
        c.execute(insert(tables.results).values(submission=number, **result))

    site.store.database.run_blocking(write)
    (site.store.folder / key).mkdir()
    noise = 1e-4 * np.random.default_rng(len(key)).random(50)
    replicates = {(name, metric): value + noise for metric, name in sets}
    write_replicates(site.store.folder / key, replicates)


def build(site, viewer=None, *, is_admin=False, **parameters):
    challenge = site.store.get_challenge("small")
    request = site.leaderboards.read_request(challenge, parameters)
    return asyncio.run(site.leaderboards.build(challenge, request, viewer, is_admin=is_admin))


def rows_of(visible):
    return [
        (r.place, r.rank, r.entry.key or r.entry.name, r.entry.is_own) for r in visible.board.rows
    ]


def test_each_team_has_its_best_and_sees_its_own_until_publication(site):
    add(site, "a", 1, 0.5)
    add(site, "b", 2, 0.9)
    add(site, "c", 1, 0.7, at=NOW + 1)
    assert rows_of(build(site)) == []
    assert rows_of(build(site, 1)) == [(1, 1, "c", True)]
    assert rows_of(build(site, is_admin=True)) == [(1, 1, "b", False), (2, 2, "c", False)]
    challenge = site.store.get_challenge("small")
    asyncio.run(site.moderation.change_challenge(challenge, "publish", "done"))
    visible = build(site, 2, which="all")
    assert rows_of(visible) == [(1, 1, "b", True), (2, 2, "c", False), (3, 3, "a", False)]
    assert (visible.teams, visible.is_published) == ([("Blues", 2), ("Reds", 1)], True)
    assert rows_of(build(site, which="all", turn="yes"))[0][:3] == (3, 3, "a")
    assert rows_of(build(site, which="latest")) == [(1, 1, "b", False), (2, 2, "c", False)]
    # Filters leave out rows, and places stay.
    assert rows_of(build(site, which="all", team="1")) == [
        (2, 2, "c", False),
        (3, 3, "a", False),
    ]
    assert rows_of(build(site, since="2027-01-16")) == []
    assert len(rows_of(build(site, since="2027-01-15", until="2027-01-15"))) == 2
    with pytest.raises(RefusedError):
        build(site, since="yesterday")


def test_places_are_by_shown_digits_but_for_the_admin(site):
    """0.50012 and 0.50031 are 0.500 both."""
    add(site, "a", 1, 0.50012)
    add(site, "b", 2, 0.50031)
    assert rows_of(build(site, is_admin=True)) == [(1, 1, "b", False), (2, 2, "a", False)]
    challenge = site.store.get_challenge("small")
    asyncio.run(site.moderation.change_challenge(challenge, "publish", "done"))
    visible = build(site)
    assert rows_of(visible) == [(1, 1, "a", False), (1, 1, "b", False)]
    scores = visible.board.rows[0].entry.scores
    assert [(s.value, s.low, s.high) for s in scores.values()] == [(0.5, 0.49, 0.51)] * 4
    exact = build(site, is_admin=True).board.rows[0].entry.scores
    assert exact["cider@c2"].value == 0.50031


def test_phases_disqualified_submissions_signatures_and_people(site):
    add(site, "a", 1, 0.5, "dev", NOW - 60 * DAY, signature="old")
    add(site, "b", 2, 0.9, standing="disqualified")
    add(site, "c", 1, 0.7, standing="hidden")
    add(site, "d", 2, 0.6)
    challenge = site.store.get_challenge("small")
    people = [
        {"metric": "cider", "references": "c2", "value": 0.65, "ci_low": None, "ci_high": None}
        | {"people": "held out", "note": ""}
    ]
    site.store.database.run_blocking(lambda c: save_human_scores(c, challenge, people))
    asyncio.run(site.moderation.change_challenge(challenge, "publish", "done"))
    visible = build(site)
    assert rows_of(visible) == [(None, None, "people", False), (1, 1, "d", False)]
    entry = visible.board.rows[0].entry
    assert (entry.system, entry.is_human, entry.scores["cider@c2"].value) == (
        "held out",
        True,
        0.65,
    )
    assert math.isnan(entry.scores["cider@c2"].low)
    assert [s.key for s in visible.disqualified] == ["b"]
    assert (visible.board.signatures, visible.board.signatures_differ) == ({"cider": "s"}, False)
    assert [r[2] for r in rows_of(build(site, phase="dev"))] == ["people", "a"]
    every = build(site, phase="all")
    assert [r[2] for r in rows_of(every)] == ["people", "d", "a"]
    assert (every.board.signatures, every.board.signatures_differ) == ({"cider": "s"}, True)
    assert [r[2] for r in rows_of(build(site, is_admin=True))] == ["c", "people", "d"]
    board = every.board
    assert (board.challenge, board.ranked_by.key) == ("small", "cider@c2")
    assert [column.key for column in board.columns] == COLUMNS
    assert build(site, sort="rouge_l@c5").board.ranked_by.key == "rouge_l@c5"


def test_without_replicates_there_are_places_and_no_ranks(site):
    add(site, "a", 1, 0.5)
    add(site, "b", 2, 0.9)
    (site.store.folder / "b" / "drawn.parquet").unlink()
    assert rows_of(build(site, is_admin=True)) == [(1, None, "b", False), (2, 1, "a", False)]
    column = site.leaderboards.columns["small"][0]
    assert RankCache(site.store).rank(column, []) == {}


def test_an_empty_leaderboard_has_no_signatures(site):
    visible = build(site, is_admin=True)
    assert (rows_of(visible), visible.teams, visible.disqualified) == ([], [], [])
    assert (visible.board.signatures, visible.board.signatures_differ) == ({}, False)
