"""Rows of submissions: each step once, limits as the challenge says, changed challenges refused."""

from __future__ import annotations

import asyncio
import json

import pytest
from sqlalchemy import func, select, update

from captau.server.challenge.intake import uploads as intake
from captau.server.challenge.migrations import FOLDER
from captau.server.challenge.submission_store import Store, found_in
from captau.server.challenge.tables import challenges, results, submissions
from captau.server.challenge.workers import worker
from captau.server.storage.database import Database, StoreError
from captau.server.web.errors import RefusedError
from tests.conftest import says
from tests.server.challenge.conftest import (
    REFERENCES,
    by_hand,
    captions,
    make_site,
    new_account,
    write_challenge,
)

RESULT = {"seconds": 1.0, "digest": "d", "scores": [], "run": {}}


@pytest.fixture
def site(tmp_path):
    opened = make_site(tmp_path)
    yield opened
    opened.store.database.close()


def account_of(site, name="somebody", team=None):
    token, _ = new_account(site.store.database, name, team)
    return asyncio.run(site.store.by_token(token))


def sent(site, account, text=None, challenge="small_captions"):
    """A submission's number."""
    chosen = site.store.challenge(challenge)

    async def body():
        yield (captions() if text is None else text).encode()

    async def whole():
        taken = await intake.take(site.store, chosen, "a.json", body())
        return await intake.receive(site.store, chosen, account, taken, "", " a note ")

    return asyncio.run(whole())


def row(site, number):
    return site.store.database.run_blocking(lambda c: found_in(c, submissions.c.id == number)[0])


def valid(site, number, worker="w"):
    """Check it, as a worker does."""
    store = site.store

    def work(c):
        store.claim(c, number, worker, "received")
        store.checked(c, number, worker, [], 0, "valid")

    store.database.run_blocking(work)


def test_each_step_is_taken_once(site):
    store, do = site.store, site.store.database.run_blocking
    number = sent(site, account_of(site))
    assert do(store.waiting) == {"received": [number], "queued": []}
    assert row(site, number).system == "a"
    assert row(site, number).note == "a note"
    assert do(lambda c: store.claim(c, number, "one", "received")).key == row(site, number).key
    assert do(lambda c: store.claim(c, number, "two", "received")) is None
    do(lambda c: store.checked(c, number, "two", ["x"], 1, "x"))  # who has not claimed it
    assert row(site, number).state == "received"
    do(lambda c: store.checked(c, number, "one", [], 0, "valid"))
    assert do(store.waiting) == {"received": [], "queued": [number]}
    assert do(lambda c: store.claim(c, number, "one", "queued")).state == "running"
    assert do(lambda c: store.claim(c, number, "two", "queued")) is None
    do(lambda c: store.advance(c, number, "two", 0.9, "x"))
    do(lambda c: store.advance(c, number, "one", 0.5, "cider"))
    assert (row(site, number).progress, row(site, number).step) == (0.5, "cider")
    # Given to somebody else, the first one's result is nobody's.
    assert do(lambda c: store.give_up(c, "one", "it died")) == [number]
    assert do(lambda c: store.claim(c, number, "three", "queued")).attempts == 2
    assert not do(lambda c: store.finish(c, number, "one", RESULT))
    assert do(lambda c: store.finish(c, number, "three", RESULT))
    assert not do(lambda c: store.finish(c, number, "three", RESULT))
    assert do(lambda c: c.execute(select(func.count()).select_from(results)).scalar_one()) == 1
    assert row(site, number).state == "scored"
    assert row(site, number).result.scores == []


def test_after_all_tries_it_has_failed_with_a_reason(site):
    store, do = site.store, site.store.database.run_blocking
    account = account_of(site)
    number = sent(site, account)
    valid(site, number)
    for attempt in range(3):
        assert do(lambda c: store.claim(c, number, "w", "queued"))
        again = do(lambda c: store.give_up(c, "w", "it took more memory than is given"))
        assert again == ([number] if attempt < 2 else [])
    assert row(site, number).state == "failed"
    told = "it took more memory than is given; it was tried 3 times"
    assert row(site, number).reason == told
    # One that another try would not help fails at once; one that cannot be checked is not valid.
    other = sent(site, account)
    valid(site, other)
    do(lambda c: store.claim(c, other, "w", "queued"))
    assert do(lambda c: store.give_up(c, "w", "no", final=True)) == []
    assert row(site, other).reason == "no"
    last = sent(site, account)
    for _ in range(3):
        do(lambda c: store.claim(c, last, "w", "received"))
        do(lambda c: store.give_up(c, "w", "it was too much"))
    assert (row(site, last).state, row(site, last).faults) == ("invalid", ["it was too much"])
    assert not row(site, last).counts


def test_a_server_that_was_killed_is_no_ones_attempt(tmp_path, site):
    store, do = site.store, site.store.database.run_blocking
    number = sent(site, account_of(site))
    valid(site, number)
    do(lambda c: store.claim(c, number, "w", "queued"))
    store.database.close()
    again = make_site(tmp_path)
    assert (row(again, number).state, row(again, number).attempts) == ("queued", 0)
    assert not again.store.database.run_blocking(lambda c: store.finish(c, number, "w", RESULT))
    assert again.store.database.run_blocking(again.store.waiting)["queued"] == [number]
    again.store.database.close()


@pytest.fixture
def limited(tmp_path):
    phases = [{"name": "one", "per_day": 2, "in_all": 3}]
    write_challenge(tmp_path, phases=phases)
    opened = make_site(tmp_path)
    yield opened
    opened.store.database.close()


def test_only_valid_ones_count_against_the_limits(limited):
    store, do = limited.store, limited.store.database.run_blocking
    first = account_of(limited)
    mate = account_of(limited, "mate", first.team)
    for _ in range(3):  # not valid: as often as one likes
        number = sent(limited, first, "[]")
        do(lambda c, n=number: store.claim(c, n, "w", "received"))
        do(lambda c, n=number: store.checked(c, n, "w", ["wrong"], 1, "x"))
    valid(limited, sent(limited, first))
    # Both of the team at once, where one is left: both are taken, and one is too many once checked.
    ours, theirs = sent(limited, first), sent(limited, mate)
    valid(limited, ours)
    valid(limited, theirs)
    assert [row(limited, n).state for n in (ours, theirs)] == ["queued", "invalid"]
    assert "limit" in row(limited, theirs).faults[0]
    with pytest.raises(RefusedError, match="2 submissions on a day in the phase one"):
        sent(limited, mate)
    yesterday = store.clock() - 86_400
    do(lambda c: c.execute(update(submissions).values(received_at=yesterday)) and None)
    valid(limited, sent(limited, mate))
    with pytest.raises(RefusedError, match="3 submissions in all in the phase one"):
        sent(limited, first)
    # Into another team somebody takes along what was theirs.
    loner = account_of(limited, "loner")
    assert store.database.run_blocking(
        lambda c: store.left(c, store.challenge("small_captions"), phase_of(limited), loner)
    ) == store_left(2, 3)


def test_what_is_checked_past_midnight_counts_on_the_day_it_was_sent(limited):
    store, do = limited.store, limited.store.database.run_blocking
    first = account_of(limited)
    mates = [account_of(limited, name, first.team) for name in ("mate", "other")]
    numbers = [sent(limited, one) for one in (first, *mates)]
    yesterday = store.clock() - 86_400
    do(lambda c: c.execute(update(submissions).values(received_at=yesterday)) and None)
    for number in numbers:
        valid(limited, number)
    assert [row(limited, n).state for n in numbers] == ["queued", "queued", "invalid"]
    valid(limited, sent(limited, first))  # and takes nothing from today


def phase_of(site):
    return site.store.challenge("small_captions").phases[0]


def store_left(today, in_all):
    from captau.server.challenge.submission_store import Left

    return Left(today, in_all)


def test_one_at_a_time_and_when_it_is_open(tmp_path, site):
    account = account_of(site)
    number = sent(site, account)
    with pytest.raises(RefusedError, match="still being checked"):
        sent(site, account)
    valid(site, number)
    site.store.database.run_blocking(
        lambda c: c.execute(update(challenges).values(frozen_at=1.0)) and None
    )
    with pytest.raises(RefusedError, match="takes no submissions for the moment"):
        sent(site, account)
    folders = [p for p in (tmp_path / "kept").iterdir() if p.is_dir()]
    assert len(folders) == 1  # nothing is left of what was refused
    site.store.database.close()
    write_challenge(tmp_path, phases=[{"name": "past", "to": "2020-01-01"}])
    again = make_site(tmp_path)
    with pytest.raises(RefusedError, match="No phase of Small captions"):
        sent(again, account)
    again.store.database.close()


def test_changed_references_are_refused_or_all_is_scored_anew(tmp_path, site):
    store, do = site.store, site.store.database.run_blocking
    number = sent(site, account_of(site))
    valid(site, number)
    do(lambda c: store.claim(c, number, "w", "queued"))
    do(lambda c: store.finish(c, number, "w", RESULT))
    store.database.close()
    write_challenge(tmp_path, title="Another title", intro="Another intro.")
    make_site(tmp_path).store.database.close()  # texts may change
    write_challenge(tmp_path, metrics=["rouge_l"])
    with says("small_captions", "not those it was begun with", "rescore=true"):
        make_site(tmp_path)
    again = make_site(tmp_path, rescore=True)
    assert row(again, number).state == "received"
    assert row(again, number).result is None
    again.store.database.close()
    make_site(tmp_path).store.database.close()


def test_after_a_change_no_submission_is_scored_on_fewer_images(tmp_path):
    """Each is checked against the new references; limits that it was within before are no matter."""
    write_challenge(tmp_path, phases=[{"name": "one", "per_day": 1}])
    site = make_site(tmp_path, ["captions"])
    account = account_of(site)
    numbers = [sent(site, account)]
    by_hand(tmp_path, site)()
    challenge = site.store.challenge("small_captions")
    asyncio.run(site.records.forgive(challenge, account.team, "a fault of ours"))
    numbers.append(sent(site, account, captions(**{"new.png": "a new one"})))
    by_hand(tmp_path, site)()
    assert [row(site, n).state for n in numbers] == ["scored", "invalid"]
    numbers.append(sent(site, account))
    by_hand(tmp_path, site)()
    states = []
    for k, more in enumerate(({}, {"new.png": ["a new one"]})):
        site.store.database.close()
        changed = {**REFERENCES, "img00.png": [f"another {k}"], **more}
        (tmp_path / "references.json").write_text(json.dumps(changed))
        site = make_site(tmp_path, rescore=True)
        by_hand(tmp_path, site)()
        states.append([(row(site, n).state, row(site, n).counts) for n in numbers])
    left = [("scored", False), ("invalid", False), ("scored", True)]
    assert states == [left, [("invalid", False)] * 3]
    assert "no caption of image 'new.png'" in row(site, numbers[0]).faults[0]
    site.store.database.close()


def test_what_waits_in_a_challenge_that_is_gone_goes_on_waiting(tmp_path, site):
    account = account_of(site)
    waits, done = sent(site, account), sent(site, account_of(site, "mate", account.team))
    valid(site, waits)
    valid(site, done)
    do = site.store.database.run_blocking
    do(lambda c: site.store.claim(c, done, "w", "queued"))
    do(lambda c: site.store.finish(c, done, "w", RESULT))
    site.store.database.close()
    (tmp_path / "small_captions.yaml").rename(tmp_path / "gone")
    without = make_site(tmp_path)
    assert without.store.database.run_blocking(without.store.waiting) == {
        "received": [],
        "queued": [],
    }
    assert asyncio.run(without.records.of_team(account.team)) == []
    without.store.database.close()
    (tmp_path / "gone").rename(tmp_path / "small_captions.yaml")
    again = make_site(tmp_path)
    assert again.store.database.run_blocking(again.store.waiting)["queued"] == [waits]
    again.store.database.close()


def test_a_worker_s_clock_is_not_before_the_server_s(tmp_path, site):
    """Where the machine's clock was put back, a submission would seem to be evaluated for a day."""
    number, ahead = sent(site, account_of(site)), site.store.clock() + 86_400
    do = site.store.database.run_blocking
    do(lambda c: c.execute(update(submissions).values(received_at=ahead)) and None)
    site.store.database.close()
    server = make_site(tmp_path).store
    database = Database(str(tmp_path / "site.sqlite3"), FOLDER, "captau serve", guest=True)
    guest = Store(database, list(server.challenges.values()), server.folder, guest=True)
    database.run_blocking(lambda c: guest.claim(c, number, "w", "received"))
    assert not server.database.run_blocking(lambda c: server.too_long(c, "w"))
    database.close()
    server.database.close()


def test_people_of_another_choice_are_not_shown(tmp_path):
    write_challenge(tmp_path, human="last")
    site = make_site(tmp_path, ["captions"])
    name, rows = "small_captions", [{"metric": "cider", "references": "c2", "value": 1.0}]
    site.store.database.run_blocking(lambda c: site.store.set_human(c, name, rows))
    state = asyncio.run(site.records.state(site.challenges[name]))
    assert [row["value"] for row in state.human] == [1.0]
    site.store.database.close()
    for human in ("none", "each"):
        write_challenge(tmp_path, human=human)
        site = make_site(tmp_path)
        assert not asyncio.run(site.records.state(site.challenges[name])).human
        assert site.store.database.run_blocking(lambda c, s=site.store: s.human(c, name)) is None
        site.store.database.close()


def test_a_folder_of_somebody_s_own_files_is_left_alone(tmp_path):
    theirs = tmp_path / "birds" / "pictures"
    theirs.mkdir(parents=True)
    with says("birds", "a folder of their own"):
        make_site(tmp_path, files=str(theirs.parent))
    assert list(theirs.parent.iterdir()) == [theirs]


def test_only_what_was_never_acknowledged_is_removed(tmp_path, site):
    number = sent(site, account_of(site))
    site.store.database.close()
    kept = tmp_path / "kept"
    for name in ("notes", "0123456789abcdef"):
        (kept / name).mkdir()
    make_site(tmp_path).store.database.close()
    found = {path.name for path in kept.iterdir() if path.is_dir()}
    again = make_site(tmp_path)
    assert found == {"notes", row(again, number).key}
    again.store.database.close()


def test_a_folder_of_another_site_is_left_alone(tmp_path, site):
    number = sent(site, account_of(site))
    with says("holds another site's files"):
        make_site(tmp_path, database=str(tmp_path / "other.sqlite3"))
    assert (tmp_path / "kept" / row(site, number).key / "upload.json").exists()


def test_a_worker_whose_database_takes_nothing_ends(tmp_path, site, monkeypatch):
    """So that the server lets go of what it had begun; else that would wait until it took too long."""
    account = account_of(site)
    work = by_hand(tmp_path, site)
    number = sent(site, account)

    class EndedError(BaseException):
        pass

    def ended(status):
        raise EndedError(status)

    def full(*_, **__):
        raise StoreError("database or disk is full")

    monkeypatch.setattr(worker.os, "_exit", ended)
    for step in ("checked", "give_up"):
        monkeypatch.setattr(Store, step, full)
    with pytest.raises(EndedError, match="2"):
        work()
    monkeypatch.undo()
    again = site.store.database.run_blocking(
        lambda c: site.store.give_up(c, "by-hand-check", "it ended")
    )
    assert (again, row(site, number).state) == ([number], "received")


def test_who_looks_after_workers_goes_on_and_says_once_what_is_wrong(site, monkeypatch, capsys):
    looks = []

    def look_at(*_):
        looks.append(1)
        if len(looks) > 5:
            site.workers._stop.set()
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(worker, "_LOOK", 0.001)
    monkeypatch.setattr(site.workers, "_look_at", look_at)
    site.workers._look_after()
    assert len(looks) == 6
    assert capsys.readouterr().err == "captau: workers: [Errno 24] Too many open files\n"
