"""Raters who ask at once get the same as those who ask one after the other."""

from __future__ import annotations

import asyncio
import random
import secrets
import threading
from collections import Counter

import pytest

from captau.server.collect.forms.course import NextUnit, OutOfTurnError
from captau.server.collect.store.assignment import UnitRow, find_next_of_pool
from captau.server.collect.store.study_database import Rater
from captau.server.collect.store.tables import serves
from captau.server.web.errors import NotFoundError
from tests.server.collect.conftest import make_site
from tests.server.collect.store.conftest import NOW, answer_all, load, run

RATERS = 8


async def run_concurrently(database, requests):
    """Run requests that queued while the database was busy; return their results."""
    has_begun, may_continue = threading.Event(), threading.Event()
    busy = asyncio.create_task(
        database.run(lambda c: has_begun.set() or (may_continue.wait() and None))
    )
    while not has_begun.is_set():
        await asyncio.sleep(0.001)
    tasks = [asyncio.create_task(a) for a in requests]
    await asyncio.sleep(0)  # each has queued its work
    may_continue.set()
    await busy
    return await asyncio.gather(*tasks, return_exceptions=True)


async def run_sequentially(database, requests):
    results = []
    for request in requests:
        results += await run_concurrently(database, [request])
    return results


def comparable(result):
    """Return the parts of an answer that are equal in two databases; keys are not."""
    if isinstance(result, Exception):
        return type(result), str(result)
    rater = result.rater.id, result.rater.points, result.rater.n_answers
    return (
        result.phase,
        rater,
        result.unit.id,
        result.values,
        result.feedback,
        result.is_repeat,
        result.differs,
    )


async def play(site, run_requests, rounds):
    """Let raters ask, answer and be excluded; return the assignments and feedback, in order."""
    store, rng, events = site.store, random.Random(5), []
    field = "overall" if store.form.name == "game" else "answer"
    level = {"overall": lambda: rng.randint(1, 5), "answer": lambda: rng.choice(["good", "bad"])}
    raters = [
        await store.participants.join(f"rater {k}" if store.study.nicknames else "", "", "")
        for k in range(RATERS)
    ]
    for k in range(rounds):
        if k in (4, 9):
            await store.participants.set_excluded(raters[1], "a test", excluded=k == 4)
        askers = rng.sample(raters, rng.randint(2, RATERS))
        units = await run_requests(
            store.database, [store.assignment.next_unit(r) for r in [*askers, 999]]
        )
        assert isinstance(units.pop(), NotFoundError)
        events += [
            (r, s.n_answers, None) if isinstance(s, Rater) else (r, s.phase, s.unit.id)
            for r, s in zip(askers, units, strict=True)
        ]
        answers, repeats = [], []
        for r, s in zip(askers, units, strict=True):
            if isinstance(s, Rater) or rng.random() < 0.2:
                continue
            answer = (r, s.key, [{field: level[field]()}])
            answers.append(answer)
            if rng.random() < 0.3:  # a button pressed twice, another answer, another's key
                other_values = [{field: "no"}]
                repeats += [
                    answer,
                    (r, s.key, other_values),
                    (raters[0] + raters[-1] - r, s.key, other_values),
                ]
        results = await run_requests(
            store.database, [store.answers.record(*a) for a in answers + repeats]
        )
        events += map(comparable, results)
    return events


@pytest.mark.parametrize("protocol", ["good_bad", "game"])
def test_concurrent_and_sequential_raters_get_the_same(tmp_path, protocol, monkeypatch):
    monkeypatch.setattr(secrets, "choice", lambda found: found[0])  # practice is drawn by lot
    events, rows = [], []
    for run_requests in (run_sequentially, run_concurrently):
        folder = tmp_path / run_requests.__name__
        folder.mkdir()
        site = make_site(folder, protocol, ratings=3)
        events.append(asyncio.run(play(site, run_requests, rounds=24)))
        rows.append(site.store.database.run_blocking(site.store.load_rows))
        site.store.database.close()
    sequential, concurrent = events
    assert sequential == concurrent
    phases = Counter(s[1] for s in sequential if len(s) == 3)
    if protocol == "game":
        assert phases["trial"] > 20
    else:
        assert phases["main"] >= 3 * 18
        assert None in {s[2] for s in sequential if len(s) == 3}  # some were through
    stored = [
        (
            [(u["id"], u["given"], u["last_served"]) for u in r["units"]],
            [(a["rater"], a["item"], a["phase"], a["value"], a["told"]) for a in r["answers"]],
            [(x["id"], x["points"], x["given"]) for x in r["raters"]],
        )
        for r in rows
    ]
    assert stored[0] == stored[1]


def test_concurrent_raters_are_assigned_evenly(tmp_path):
    store = make_site(tmp_path, "good_bad", ratings=3).store
    n_units = sum(u.pool == "main" for u in store.units.values())

    async def request_units(n_raters):
        raters = [await store.participants.join("", "", "") for _ in range(n_raters)]
        return await run_concurrently(
            store.database, [store.assignment.next_unit(r) for r in raters]
        )

    shown_units = asyncio.run(request_units(2 * n_units + 5))
    raters_by_unit = Counter(s.unit.id for s in shown_units)
    assert len(raters_by_unit) == n_units
    assert sorted(raters_by_unit.values()) == [2] * (n_units - 5) + [3] * 5
    # No more than `ratings` are at one; the rest are told that all is reserved.
    shown_units = asyncio.run(request_units(n_units))
    assert sum(isinstance(s, Rater) for s in shown_units) == 5
    store.database.close()


def test_excluded_raters_reserve_nothing(tmp_path):
    store = make_site(tmp_path, "good_bad", ratings=1, items={"limit": 3}).store

    async def request_units():
        raters = [await store.participants.join("", "", "") for _ in range(5)]
        await store.participants.set_excluded(raters[0], "a test", excluded=True)
        return await run_concurrently(
            store.database, [store.assignment.next_unit(r) for r in raters]
        )

    unit_ids = [None if isinstance(s, Rater) else s.unit.id for s in asyncio.run(request_units())]
    assert unit_ids == [1, 2, 3, 1, None]
    store.database.close()


def test_concurrent_ratings_count_for_each_other_s_feedback(tmp_path):
    changes = {"game": {"tutorial_pairs": 0, "tutorial": []}, "items": {"limit": 3}}
    store = make_site(tmp_path, "game", **changes).store

    async def play():
        raters = [await store.participants.join(f"r{k}", "", "") for k in range(6)]
        units = await run_concurrently(
            store.database, [store.assignment.next_unit(r) for r in raters]
        )
        submissions = zip(raters, units, (5, 4, 1, 1, 2, 3), strict=True)
        return await run_concurrently(
            store.database,
            [store.answers.record(r, s.key, [{"overall": n}]) for r, s, n in submissions],
        )

    answers = asyncio.run(play())
    for earlier, later in zip(answers[::2], answers[1::2], strict=True):
        assert earlier.unit == later.unit
        assert earlier.feedback["mean"] == sum(earlier.unit.fixed) / 2
        # The first one's has taken a computed rating's place.
        assert later.feedback["mean"] == (earlier.feedback["rating"] + earlier.unit.fixed[1]) / 2
    store.database.close()


def test_an_early_answer_does_not_stop_others(tmp_path):
    store = make_site(tmp_path, "game", game={"wait": 1000, "tutorial_pairs": 2}).store

    async def play():
        raters = [await store.participants.join(f"r{k}", "", "") for k in range(3)]
        units = await run_concurrently(
            store.database, [store.assignment.next_unit(r) for r in raters]
        )
        values, clock = [{"overall": 4}], store.clock
        store.clock = lambda: clock() + 1000
        first = await store.answers.record(raters[0], units[0].key, values)
        store.clock = clock
        submissions = [(raters[1], units[1]), (raters[0], units[0]), (raters[2], units[2])]
        return first, await run_concurrently(
            store.database, [store.answers.record(r, s.key, values) for r, s in submissions]
        )

    first, results = asyncio.run(play())
    assert not first.is_repeat
    assert [isinstance(f, OutOfTurnError) for f in results] == [True, False, True]
    assert results[1].is_repeat
    store.database.close()


def test_second_answers_come_before_first_ones_then_the_fewest_then_those_shown_longest_ago():
    rows = [
        UnitRow(*row)
        for row in (
            *((2, 0, 0, 1, 0), (0, 5, 0, 2, 0), (0, 4, 9, 3, 0), (1, 9, 9, 4, 0)),
            *((0, 9, 0, 5, 1), (3, 0, 0, 6, 0), (0, 4, 8, 7, 0), (1, 0, 0, 8, 1), (0, 4, 8, 6, 0)),
        )
    ]
    order = [row.unit_id for row in sorted(rows, key=lambda row: row.priority)]
    assert order == [5, 4, 6, 7, 3, 2, 1, 8, 6]


def test_raters_are_shown_what_the_fewest_have_answered(open_store):
    """Of three captions, the first rater answers two; the second is asked for second answers of them first."""
    store = open_store(items={"limit": 3}, ratings=2)
    for _ in range(3):
        run(store.participants.join("", "", ""))
    answer_all(store, 1, 2)
    shown = []
    for _ in range(3):
        unit = run(store.assignment.next_unit(2))
        assert run(store.assignment.next_unit(2)).key == unit.key  # the same until they answer
        shown.append(unit.unit.id)
        run(store.answers.record(2, unit.key, [{"answer": "bad"}]))
    first = [row["unit"] for row in load(store, serves) if row["rater"] == 1]
    assert sorted(shown[:2]) == sorted(first)
    assert len(set(shown)) == 3
    third = run(store.assignment.next_unit(3))
    assert third.unit.id == shown[2]  # the others have two answers
    rows = [
        (row["rater"], row["phase"], row["attempt"], row["served_at"])
        for row in load(store, serves)
    ]
    assert rows == [(rater, "main", 0, NOW) for rater in (1, 1, 2, 2, 2, 3)]


def test_a_shuffled_pool_is_drawn_from_and_another_goes_in_its_order(open_store, monkeypatch):
    store = open_store("game")
    run(store.participants.join("", "", ""))
    monkeypatch.setattr(secrets, "choice", lambda unit_ids: unit_ids[-1])

    def pick(**fields):
        return store.database.run_blocking(lambda c: find_next_of_pool(c, 1, NextUnit(**fields)))

    ids = sorted(unit.id for unit in store.units.values() if unit.pool == "probation")
    assert len(ids) == 4
    assert pick(phase="probation", pool="probation", is_shuffled=True) in (ids[-1], ids[0])
    ordered = pick(phase="probation", pool="probation")
    assert ordered != pick(phase="probation", pool="probation", is_shuffled=True)
    assert pick(phase="x", pool="nothing") is None
