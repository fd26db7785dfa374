"""Submissions without pages: rows as they are received, limits at their last moments, and who sees what."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import insert, update

from captau.benchmarks.commands.validate import Verdict
from captau.server.challenge import tables
from captau.server.challenge.submission_lifecycle import SubmissionLifecycle
from captau.server.challenge.submissions import (
    Allowance,
    SubmissionState,
    finite_or_none,
    save_human_scores,
)
from captau.server.web.errors import NotFoundError, RefusedError
from tests.server.challenge.conftest import create_account
from tests.server.challenge.visitors import (
    load_submission,
    load_table,
    make_site,
    quick_passwords,
    write_challenge,
)
from tests.server.conftest import NOW

__all__ = ["quick_passwords"]

MIDNIGHT = NOW - 8 * 3600
UPLOAD = {"system": "s", "note": "n", "file": "a.json", "sha256": "h", "bytes": 2}


@pytest.fixture
def site(tmp_path, clock):
    opened = make_site(tmp_path, write_challenge(tmp_path, limits={"uploads": 4, "attempts": 2}))
    yield opened
    opened.store.database.close()


def run(awaitable):
    return asyncio.run(awaitable)


def account_of(site, name="ann", team=None):
    token, _ = create_account(site.store.database, name, team)
    return run(site.tokens.find_account(token))


def add(site, account, key):
    challenge = site.store.get_challenge("small")
    return run(site.store.add_submission(challenge, account, {**UPLOAD, "key": key}))


def change(site, key, **values):
    statement = update(tables.submissions).where(tables.submissions.c.key == key).values(values)
    site.store.database.run_blocking(lambda c: c.execute(statement) and None)


def refusal(site, account):
    """Return why a submission of an account is refused now; empty if it is not."""
    try:
        run(site.store.check_acceptance(site.store.get_challenge("small"), account))
    except RefusedError as error:
        return str(error)
    return ""


def test_a_submission_is_a_row_that_waits(site):
    ann = account_of(site)
    assert add(site, ann, "a") == 1
    (row,) = load_table(site, tables.submissions)
    assert row == {
        **{"id": 1, "key": "a", "challenge": "small", "phase": "test", "team": 1, "account": 1},
        **{**UPLOAD, "received_at": NOW, "state": "received", "faults": [], "counts": False},
        **{"progress": 0.0, "n_faults": 0, "attempts": 0},
        **dict.fromkeys(("checked_at", "worker", "started_at", "finished_at")),
        **dict.fromkeys(("summary", "step", "reason", "standing", "standing_why"), ""),
    }
    waits = "Your last submission is still being checked; wait for its verdict."
    assert refusal(site, ann) == waits
    assert refusal(site, account_of(site, "bob", 1)) == ""
    with pytest.raises(NotFoundError):
        run(site.store.load_submission("b"))
    with pytest.raises(NotFoundError):
        site.store.get_challenge("other")


def test_each_step_writes_its_columns(site, clock):
    add(site, account_of(site), "a")
    lifecycle = SubmissionLifecycle(site.store)

    def columns(*names):
        (row,) = load_table(site, tables.submissions)
        return tuple(row[name] for name in names)

    held = ("state", "worker", "attempts", "started_at", "progress", "step")
    verdict = (
        "state",
        "counts",
        "worker",
        "attempts",
        "checked_at",
        "faults",
        "n_faults",
        "summary",
    )
    clock[0] = NOW + 1
    lifecycle.claim_next("w", "received")
    assert columns(*held) == ("received", "w", 1, NOW + 1, 0.0, "")
    lifecycle.give_up("w", "it ended")
    assert columns("state", "worker", "attempts") == ("received", None, 1)
    lifecycle.claim_next("w", "received")
    lifecycle.record_verdict(1, "w", Verdict([], 0, "valid"))
    assert columns(*verdict) == ("queued", True, None, 0, NOW + 1, [], 0, "valid")
    clock[0] = NOW + 2
    lifecycle.claim_next("w", "queued")
    lifecycle.record_progress(1, "w", 0.5, "s" * 65)
    assert columns(*held) == ("running", "w", 1, NOW + 2, 0.5, "s" * 64)
    lifecycle.give_up("w", "it ended")
    assert columns(*held) == ("queued", None, 1, NOW + 2, 0.0, "")
    lifecycle.claim_next("v", "queued")
    result = {"seconds": 1.5, "digest": "d", "scores": [{"metric": "x"}], "run": {"a": 1}}
    clock[0] = NOW + 3
    assert lifecycle.record_result(1, "v", result)
    ended = ("state", "worker", "finished_at", "progress", "step", "attempts")
    assert columns(*ended) == ("scored", None, NOW + 3, 1.0, "", 2)
    assert load_table(site, tables.results) == [
        {"id": 1, "submission": 1, "made_at": NOW + 3, **result}
    ]
    assert load_submission(site, "a").is_done


def test_what_cannot_be_checked_or_scored_after_all_attempts_says_why(site, clock):
    ann, lifecycle = account_of(site), SubmissionLifecycle(site.store)
    names = (
        "state",
        "counts",
        "checked_at",
        "faults",
        "n_faults",
        "summary",
        "reason",
        "finished_at",
    )

    def end(key, state, attempts, *, is_final=False):
        add(site, ann, key)
        change(site, key, state=state, counts=state != "received")
        for _ in range(attempts):
            lifecycle.claim_next("w", state)
            lifecycle.give_up("w", "no memory", is_final=is_final)
        row = load_table(site, tables.submissions)[-1]
        return tuple(row[name] for name in names)

    unchecked = "a.json: could not be checked"
    assert end("a", "received", 1)[0] == "received"
    change(site, "a", state="scored")
    assert end("b", "received", 2) == ("invalid", False, NOW, ["no memory"], 1, unchecked, "", None)
    tried = "no memory; it was tried 2 times"
    assert end("c", "queued", 2) == ("failed", True, None, [], 0, "", tried, NOW)
    assert end("d", "queued", 1, is_final=True)[6:] == ("no memory", NOW)
    assert [load_submission(site, key).is_done for key in "abcd"] == [True] * 4


def test_an_hour_of_uploads_ends_with_its_last_moment(site, clock):
    ann = account_of(site)
    for key in "abcd":
        add(site, ann, key)
        change(site, key, state="invalid")
    limit = "You have sent 4 files within the last hour; the limit is 4."
    assert refusal(site, ann) == limit
    found = []
    for clock[0] in (NOW + 3599.5, NOW + 3600.0):
        found.append(refusal(site, ann))
    assert found == [limit, ""]


def test_limits_of_a_team_are_counted_by_day_and_in_all(site, clock):
    """Two a day and three in all; a day is from midnight to midnight, in UTC."""
    ann = account_of(site)
    mate, rival = account_of(site, "mate", ann.team), account_of(site, "rival")
    challenge = site.store.get_challenge("small")

    def allowance(account):
        return run(site.queries.allowance(challenge, account))

    assert allowance(ann) == Allowance(2, 3)
    for key, at in (("a", MIDNIGHT - 0.5), ("b", MIDNIGHT), ("c", MIDNIGHT + 86_399.5)):
        add(site, ann, key)
        change(site, key, state="scored", received_at=at, counts=key != "c")
    assert allowance(mate) == Allowance(1, 1)
    assert allowance(rival) == Allowance(2, 3)
    assert refusal(site, mate) == ""
    change(site, "c", counts=True)
    assert (allowance(mate), allowance(mate).is_used_up) == (Allowance(0, 0), True)
    assert refusal(site, mate) == "Your team has made its 2 submissions on a day in the phase test."
    clock[0] = MIDNIGHT + 86_400
    assert allowance(mate) == Allowance(2, 0)
    assert refusal(site, mate) == "Your team has made its 3 submissions in all in the phase test."
    change(site, "a", phase="another")
    change(site, "b", team=rival.team)  # it counts for its sender's team and for its own
    assert (allowance(ann), allowance(rival)) == (Allowance(2, 1), Allowance(2, 2))
    assert (Allowance(1, 1).is_used_up, Allowance(None, None).is_used_up) == (False, False)
    assert Allowance(None, 0).is_used_up


def test_who_sees_which_submissions(site):
    ann, bob = account_of(site), account_of(site, "bob")
    challenge = site.store.get_challenge("small")
    earlier = insert(tables.challenges).values(name="earlier", digest="")
    site.store.database.run_blocking(lambda c: c.execute(earlier) and None)
    for key, account, values in (
        ("a", ann, {"state": "scored"}),
        ("b", bob, {"state": "scored"}),
        ("c", ann, {"state": "scored", "standing": "hidden"}),
        ("d", ann, {"state": "queued"}),
        ("e", bob, {"state": "scored", "standing": "disqualified"}),
        ("f", ann, {"state": "scored", "challenge": "earlier"}),  # the site has it no more
    ):
        add(site, account, key)
        change(site, key, **values)

    def keys(team, *, is_admin=False):
        visible = site.queries.leaderboard_submissions(challenge, team, is_admin=is_admin, known=())
        return "".join(submission.key for submission in run(visible)[1])

    assert [keys(None), keys(ann.team), keys(bob.team)] == ["", "a", "be"]
    assert keys(None, is_admin=True) == "abce"
    run(site.moderation.change_challenge(challenge, "publish", "done"))
    assert [keys(None), keys(ann.team)] == ["abe", "abe"]
    assert "".join(s.key for s in run(site.queries.team_submissions(ann.team))) == "dca"
    assert "".join(s.key for s in run(site.queries.all_submissions())) == "fedcba"
    assert run(site.queries.team_submissions(9)) == []


def test_a_leaderboard_s_revision_follows_what_changes_it(site, clock):
    challenge = site.store.get_challenge("small")

    def revision():
        return run(site.queries.board_revision(challenge))

    assert revision() == (None, 0, None, "None")
    ann = account_of(site)
    add(site, ann, "a")
    change(site, "a", state="scored", finished_at=NOW + 5)
    add(site, ann, "b")
    change(site, "b", state="failed", finished_at=NOW + 9)
    run(site.moderation.change_challenge(challenge, "freeze", "x"))
    assert revision() == (1, 1, NOW + 5, "None")
    site.store.database.run_blocking(lambda c: save_human_scores(c, challenge, [{"value": 1.0}]))
    assert revision() == (1, 1, NOW + 5, "[{'value': 1.0, 'held_out': 'none'}]")
    assert list(SubmissionState) == ["received", "invalid", "queued", "running", "scored", "failed"]


def test_numbers_for_json_are_finite():
    values = [finite_or_none(x) for x in (1, 0.5, float("nan"), float("inf"), None)]
    assert values == [1.0, 0.5, None, None, None]
