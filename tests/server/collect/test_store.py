"""What many ask for at once is what they would get one after the other."""

from __future__ import annotations

import asyncio
import random
import secrets
import threading
from collections import Counter

import pytest

from captau.server.collect.forms.errors import OutOfTurnError
from captau.server.collect.store import assignment
from captau.server.collect.store.records import Rater
from captau.server.web.errors import NotFoundError
from tests.server.collect.conftest import make_site

RATERS = 8


async def at_once(database, asked):
    """What all get who ask while the database is at something else: one batch of work."""
    begun, go_on = threading.Event(), threading.Event()
    busy = asyncio.create_task(database.run(lambda c: begun.set() or (go_on.wait() and None)))
    while not begun.is_set():
        await asyncio.sleep(0.001)
    tasks = [asyncio.create_task(a) for a in asked]
    await asyncio.sleep(0)  # each has queued its work
    go_on.set()
    await busy
    return await asyncio.gather(*tasks, return_exceptions=True)


async def one_by_one(database, asked):
    found = []
    for each in asked:
        found += await at_once(database, [each])
    return found


def said(found):
    """What of an answer has to be the same in two databases, whose keys are not."""
    if isinstance(found, Exception):
        return type(found), str(found)
    rater = found.rater.id, found.rater.points, found.rater.n_answers
    return (
        found.phase,
        rater,
        found.unit.id,
        found.values,
        found.feedback,
        found.is_repeat,
        found.differs,
    )


async def played(site, way, rounds):
    """Some ask, some of them answer, some are left out: what was chosen and told, in order."""
    store, rng, seen = site.store, random.Random(5), []
    field = "overall" if store.form.name == "game" else "answer"
    level = {"overall": lambda: rng.randint(1, 5), "answer": lambda: rng.choice(["good", "bad"])}
    raters = [
        await store.participants.join(f"rater {k}" if store.study.nicknames else "", "", "")
        for k in range(RATERS)
    ]
    for k in range(rounds):
        if k in (4, 9):
            await store.participants.set_excluded(raters[1], "a test", excluded=k == 4)
        asking = rng.sample(raters, rng.randint(2, RATERS))
        shown = await way(store.database, [store.assignment.next_unit(r) for r in [*asking, 999]])
        assert isinstance(shown.pop(), NotFoundError)
        seen += [
            (r, s.n_answers, None) if isinstance(s, Rater) else (r, s.phase, s.unit.id)
            for r, s in zip(asking, shown, strict=True)
        ]
        answering, wrong = [], []
        for r, s in zip(asking, shown, strict=True):
            if isinstance(s, Rater) or rng.random() < 0.2:
                continue
            given = (r, s.key, [{field: level[field]()}])
            answering.append(given)
            if rng.random() < 0.3:  # a button pressed twice, another answer, another's key
                other = [{field: "no"}]
                wrong += [given, (r, s.key, other), (raters[0] + raters[-1] - r, s.key, other)]
        found = await way(store.database, [store.answers.record(*a) for a in answering + wrong])
        seen += map(said, found)
    return seen


def same_either_way(folder, protocol, databases, monkeypatch):
    """The same play on two databases, one by one and at once."""
    monkeypatch.setattr(secrets, "choice", lambda found: found[0])  # practice is drawn by lot
    seen, rows = [], []
    for name, way, database in zip(("one", "all"), (one_by_one, at_once), databases, strict=True):
        (folder / name).mkdir()
        site = make_site(folder / name, protocol, database=database, ratings=3)
        seen.append(asyncio.run(played(site, way, rounds=24)))
        rows.append(site.store.database.run_blocking(site.store.load_rows))
        site.store.database.close()
    one, every = seen
    assert one == every
    phases = Counter(s[1] for s in one if len(s) == 3)
    if protocol == "game":
        assert phases["trial"] > 20
    else:
        assert phases["main"] >= 3 * 18
        assert None in {s[2] for s in one if len(s) == 3}  # some were through
    kept = [
        (
            [(u["id"], u["given"], u["last_served"]) for u in r["units"]],
            [(a["rater"], a["item"], a["phase"], a["value"], a["told"]) for a in r["answers"]],
            [(x["id"], x["points"], x["given"]) for x in r["raters"]],
        )
        for r in rows
    ]
    assert kept[0] == kept[1]


@pytest.mark.parametrize("protocol", ["good_bad", "game"])
@pytest.mark.parametrize("most", [1, 400])
def test_at_once_or_one_by_one_is_the_same(tmp_path, protocol, most, monkeypatch):
    monkeypatch.setattr(assignment, "_FIRST_SEARCH", most)
    same_either_way(tmp_path, protocol, [None, None], monkeypatch)


def test_many_who_ask_at_once_are_spread_evenly(tmp_path):
    store = make_site(tmp_path, "good_bad", ratings=3).store
    units = sum(u.pool == "main" for u in store.units.values())

    async def ask(many):
        raters = [await store.participants.join("", "", "") for _ in range(many)]
        return await at_once(store.database, [store.assignment.next_unit(r) for r in raters])

    found = asyncio.run(ask(2 * units + 5))
    at = Counter(s.unit.id for s in found)
    assert len(at) == units
    assert sorted(at.values()) == [2] * (units - 5) + [3] * 5
    # No more than `ratings` are at one; the rest are told that all is reserved.
    found = asyncio.run(ask(units))
    assert sum(isinstance(s, Rater) for s in found) == 5
    store.database.close()


def test_nobody_is_kept_waiting_by_who_is_left_out(tmp_path):
    store = make_site(tmp_path, "good_bad", ratings=1, items={"limit": 3}).store

    async def ask():
        raters = [await store.participants.join("", "", "") for _ in range(5)]
        await store.participants.set_excluded(raters[0], "a test", excluded=True)
        return await at_once(store.database, [store.assignment.next_unit(r) for r in raters])

    found = [None if isinstance(s, Rater) else s.unit.id for s in asyncio.run(ask())]
    assert found == [1, 2, 3, 1, None]
    store.database.close()


def test_ratings_that_come_at_once_are_told_of_one_another(tmp_path):
    changes = {"game": {"tutorial_pairs": 0, "tutorial": []}, "items": {"limit": 3}}
    store = make_site(tmp_path, "game", **changes).store

    async def play():
        raters = [await store.participants.join(f"r{k}", "", "") for k in range(6)]
        shown = await at_once(store.database, [store.assignment.next_unit(r) for r in raters])
        asked = zip(raters, shown, (5, 4, 1, 1, 2, 3), strict=True)
        return await at_once(
            store.database, [store.answers.record(r, s.key, [{"overall": n}]) for r, s, n in asked]
        )

    found = asyncio.run(play())
    for first, second in zip(found[:3], found[3:], strict=True):
        assert first.unit == second.unit
        assert first.feedback["mean"] == sum(first.unit.fixed) / 2
        # The first one's has taken a computed rating's place.
        assert second.feedback["mean"] == (first.feedback["rating"] + first.unit.fixed[1]) / 2
    store.database.close()


def test_who_is_too_early_holds_up_nobody(tmp_path):
    store = make_site(tmp_path, "game", game={"wait": 1000, "tutorial_pairs": 2}).store

    async def play():
        raters = [await store.participants.join(f"r{k}", "", "") for k in range(3)]
        shown = await at_once(store.database, [store.assignment.next_unit(r) for r in raters])
        values, clock = [{"overall": 4}], store.clock
        store.clock = lambda: clock() + 1000
        first = await store.answers.record(raters[0], shown[0].key, values)
        store.clock = clock
        asked = [(raters[1], shown[1]), (raters[0], shown[0]), (raters[2], shown[2])]
        return first, await at_once(
            store.database, [store.answers.record(r, s.key, values) for r, s in asked]
        )

    first, found = asyncio.run(play())
    assert not first.is_repeat
    assert [isinstance(f, OutOfTurnError) for f in found] == [True, False, True]
    assert found[1].is_repeat
    store.database.close()
