"""Accounts, teams and the admin's decisions without pages: the rows and the log as they are written."""

from __future__ import annotations

import asyncio
import hashlib
import re

import pytest
from sqlalchemy import insert, update

from captau.server.challenge import accounts as accounts_module
from captau.server.challenge import members, tables
from captau.server.challenge.audit_log import read_audit, write_audit
from captau.server.challenge.members import MAX_MEMBERS, hash_code, make_code
from captau.server.challenge.submissions import SubmissionState
from captau.server.web.errors import NotFoundError, RefusedError
from captau.server.web.passwords import is_password
from tests.server.challenge.visitors import PASSWORD, load_table, make_site, quick_passwords
from tests.server.conftest import NOW

__all__ = ["quick_passwords"]


@pytest.fixture
def site(tmp_path, clock):
    opened = make_site(tmp_path)
    yield opened
    opened.store.database.close()


def run(awaitable):
    return asyncio.run(awaitable)


def refuse(awaitable):
    with pytest.raises(RefusedError) as raised:
        run(awaitable)
    return str(raised.value)


def sign_up(site, name, team="", code=""):
    return run(site.accounts.sign_up(name, PASSWORD, PASSWORD, team, code))


def log_of(site):
    """Return the log: account, action, target and reason of each entry."""
    return [
        (r["account"], r["action"], r["what"], r["why"]) for r in load_table(site, tables.audit)
    ]


def test_an_account_has_a_team_and_eight_codes(site):
    member, codes = sign_up(site, "  Ann   B ", "")
    assert member == members.Member(1, "Ann B", 1, "Ann B", 0)
    assert len(set(codes)) == 8
    (row,) = load_table(site, tables.accounts)
    assert is_password(row.pop("password"), PASSWORD)
    assert row == {
        "id": 1,
        "name": "Ann B",
        "name_key": "ann b",
        "team": 1,
        "joined_at": NOW,
        "epoch": 0,
        "blocked_at": None,
    }
    (team,) = load_table(site, tables.teams)
    fields = {"id": 1, "name": "Ann B", "name_key": "ann b", "invitation": None, "created_at": NOW}
    assert team == fields
    assert [
        (r["account"], r["hash"], r["used_at"]) for r in load_table(site, tables.recoveries)
    ] == [(1, hashlib.sha256(code.encode()).hexdigest(), None) for code in codes]
    assert sign_up(site, "Bob", " The  Reds ")[0] == members.Member(2, "Bob", 2, "The Reds", 0)
    taken, team_taken = (f"That {n} is taken. Choose another." for n in ("name", "team name"))
    rule = "has up to 32 letters, digits and blanks, and begins with a letter or digit."
    for fields, message in (
        (("ann b", ""), taken),
        (("Cid", "the reds"), team_taken),
        (("Cid", "Ann B"), team_taken),
        (("", ""), f"Your name {rule}"),
        (("x" * 33, ""), f"Your name {rule}"),
        (("Cid", "-"), f"A team's name {rule}"),
        (("Adm1n", ""), "That name looks like the admin's. Choose another."),
        (("Cid", "ADMIN"), "That name looks like the admin's. Choose another."),
    ):
        assert (
            refuse(site.accounts.sign_up(fields[0], PASSWORD, PASSWORD, fields[1], "")) == message
        )
    assert log_of(site) == [(1, "sign up", "team 1", ""), (2, "sign up", "team 2", "")]
    assert [a["name"] for a in run(site.accounts.list_all())] == ["Ann B", "Bob"]
    assert [(t["name"], t["members"], t["submissions"]) for t in run(site.teams.list_all())] == [
        ("Ann B", 1, 0),
        ("The Reds", 1, 0),
    ]


def test_codes_are_of_letters_that_are_not_mistaken_and_are_typed_in_any_case():
    codes = {make_code() for _ in range(200)}
    assert len(codes) == 200
    assert all(re.fullmatch(r"([a-hjkmnp-z2-9]{5}-){3}[a-hjkmnp-z2-9]{5}", code) for code in codes)
    assert len(set("".join(codes))) == len(members._LETTERS) + 1
    assert hash_code(" ABcd-2 ") == hash_code("abcd-2") == hashlib.sha256(b"abcd-2").hexdigest()


def test_who_signs_in_and_who_fails_is_logged(site, clock):
    ann, _ = sign_up(site, "Ann")
    sign_in = site.accounts.sign_in
    assert run(sign_in(" ANN ", PASSWORD, "a1")) == ann
    assert run(sign_in("Ann", "another one", "a2")) is None
    assert run(sign_in("Nobody", PASSWORD, "a3")) is None
    run(site.moderation.set_blocked(1, "two accounts", is_blocked=True))
    blocked = "This account is blocked. Ask the people who run the site."
    assert refuse(sign_in("Ann", PASSWORD, "a4")) == blocked
    assert run(site.accounts.find(1)) is None
    with pytest.raises(NotFoundError):
        run(site.moderation.set_blocked(2, "nobody", is_blocked=True))
    run(site.moderation.set_blocked(1, "cleared", is_blocked=False))
    member = run(sign_in("Ann", PASSWORD, "a5"))
    assert member.epoch == 2  # both ended the sessions
    assert log_of(site)[1:] == [
        (1, "sign in", "account 1", ""),
        (None, "failed sign in", "account 1", "from a2"),
        (None, "failed sign in", "no account", "from a3"),
        (None, "block", "account 1", "two accounts"),
        (None, "failed sign in", "account 1", "from a4"),
        (None, "unblock", "account 1", "cleared"),
        (1, "sign in", "account 1", ""),
    ]


def test_passwords_and_codes_are_replaced_and_sessions_end(site):
    ann, codes = sign_up(site, "Ann")
    bob, _ = sign_up(site, "Bob")
    accounts, new = site.accounts, "another password"
    wrong = "That is not your password."
    assert refuse(accounts.change_password(ann, "wrong", new, new)) == wrong
    assert (
        refuse(accounts.change_password(ann, PASSWORD, new, "x"))
        == "The two passwords are not the same."
    )
    for length in (9, 201):
        text = "x" * length
        assert refuse(accounts.change_password(ann, PASSWORD, text, text)) == (
            "A password has 10 to 200 characters."
        )
    tokens = [run(site.tokens.create(account, "")) for account in (ann, bob)]
    member = run(accounts.change_password(ann, PASSWORD, new, new))
    # Whoever knew the password may have made a token.
    assert [run(site.tokens.find_account(token)) is None for token in tokens] == [True, False]
    assert (member.epoch, run(accounts.sign_in("Ann", new, ""))) == (1, member)
    assert run(accounts.count_recovery_codes(member)) == 8
    recover = accounts.recover
    token = run(site.tokens.create(member, "a program"))
    assert run(recover("ANN", f" {codes[3].upper()} ", PASSWORD, PASSWORD, "a1")).epoch == 2
    assert run(site.tokens.find_account(token)) is None
    assert run(recover("Ann", codes[3], PASSWORD, PASSWORD, "a2")) is None
    assert run(recover("Nobody", codes[4], PASSWORD, PASSWORD, "a3")) is None
    assert run(accounts.count_recovery_codes(member)) == 7
    assert refuse(accounts.renew_recovery_codes(member, new)) == wrong
    renewed = run(accounts.renew_recovery_codes(member, PASSWORD))
    assert (len(renewed), run(accounts.count_recovery_codes(member))) == (8, 8)
    assert run(recover("Ann", codes[4], PASSWORD, PASSWORD, "a4")) is None
    run(accounts.sign_out_everywhere(member))
    assert run(accounts.find(1)).epoch == 3
    used = [row["used_at"] for row in load_table(site, tables.recoveries)]
    assert used == [NOW] * 8 + [None] * 16
    assert log_of(site)[2:] == [
        (1, "new token", "token 1", ""),
        (2, "new token", "token 2", ""),
        (1, "password", "account 1", ""),
        (1, "sign in", "account 1", ""),
        (1, "new token", "token 3", "a program"),
        (1, "recover", "account 1", ""),
        (None, "failed recover", "account 1", "from a2"),
        (None, "failed recover", "no account", "from a3"),
        (1, "new codes", "account 1", ""),
        (None, "failed recover", "account 1", "from a4"),
        (1, "sign out", "account 1", "everywhere"),
    ]


def test_a_team_is_joined_by_its_last_code_and_an_empty_one_gives_its_name_back(site):
    ann, _ = sign_up(site, "Ann", "Reds")
    bob, _ = sign_up(site, "Bob", "Blues")
    teams = site.teams
    old, code = (run(teams.create_invitation(ann)) for _ in range(2))
    invalid = "That invitation code is not valid (any more). Ask for a new one."
    for unknown in (old, "", "x"):
        assert refuse(teams.join(bob, unknown)) == invalid
    assert refuse(teams.join(ann, code)) == "You are in that team."
    run(teams.join(bob, code))
    assert [t["name"] for t in run(teams.list_all())] == ["Reds"]
    assert run(teams.list_members(1)) == ["Ann", "Bob"]
    cid, _ = sign_up(site, "Cid", code=code)
    assert (cid.team, cid.team_name) == (1, "Reds")
    run(teams.leave(bob, " Blues "))  # whose code is void then
    assert [run(teams.list_members(team)) for team in (1, 2, 3)] == [["Ann", "Cid"], [], ["Bob"]]
    assert refuse(site.accounts.sign_up("Dan", PASSWORD, PASSWORD, "", code)) == invalid
    assert refuse(teams.rename(bob, "REDS")) == "That team name is taken. Choose another."
    run(teams.rename(bob, "BLUES"))
    run(teams.rename(ann, "The  Reds"))
    rows = load_table(site, tables.teams)
    assert [(r["id"], r["name"], r["name_key"], r["invitation"]) for r in rows] == [
        (1, "The Reds", "the reds", None),
        (3, "BLUES", "blues", None),
    ]
    assert log_of(site)[2:] == [
        *[(1, "invite", "team 1", "")] * 2,
        *((2, "leave team", "team 2", ""), (2, "join team", "team 1", "")),
        (3, "sign up", "team 1", ""),
        *((2, "leave team", "team 1", ""), (2, "join team", "team 3", "")),
        *((2, "rename team", "team 3", "BLUES"), (1, "rename team", "team 1", "The Reds")),
    ]


def test_a_team_has_fifty_members_and_no_more(site):
    ann, _ = sign_up(site, "Ann", "Reds")
    code = run(site.teams.create_invitation(ann))
    rows = [
        {
            "name": f"m{k}",
            "name_key": f"m{k}",
            "password": "",
            "team": 1,
            "joined_at": 1.0,
            "epoch": 0,
        }
        for k in range(MAX_MEMBERS - 2)
    ]
    site.store.database.run_blocking(lambda c: c.execute(insert(tables.accounts), rows) and None)
    assert sign_up(site, "The fiftieth", code=code)[0].team == 1
    full = "A team has at most 50 members."
    assert refuse(site.accounts.sign_up("One more", PASSWORD, PASSWORD, "", code)) == full


def test_a_token_is_for_an_account_until_it_is_revoked(site, clock):
    ann, _ = sign_up(site, "Ann")
    bob, _ = sign_up(site, "Bob")
    tokens = site.tokens
    token = run(tokens.create(ann, "l" * 65))
    assert re.fullmatch(r"captau_[\w-]{32}", token)
    assert run(tokens.find_account(token)) == members.Account(1, "Ann", 1, "Ann")
    assert run(tokens.find_account("captau_x")) is None

    def used_at(seconds):
        clock[0] = NOW + seconds
        run(tokens.find_account(token))
        return load_table(site, tables.tokens)[0]["used_at"] - NOW

    assert [used_at(seconds) for seconds in (60.0, 60.5, 120.5, 121.0)] == [0.0, 60.5, 60.5, 121.0]
    clock[0] = NOW + 200
    (active,) = run(tokens.list_active(ann))
    assert active == {"id": 1, "label": "l" * 64, "created_at": NOW, "used_at": NOW + 121.0}
    with pytest.raises(NotFoundError):
        run(tokens.revoke(bob, 1))
    run(site.moderation.set_blocked(1, "x", is_blocked=True))
    assert run(tokens.find_account(token)) is None
    run(site.moderation.set_blocked(1, "x", is_blocked=False))
    run(tokens.revoke(ann, 1))
    assert run(tokens.find_account(token)) is None
    with pytest.raises(NotFoundError):
        run(tokens.revoke(ann, 1))
    (row,) = load_table(site, tables.tokens)
    assert (row["revoked_at"], run(tokens.list_active(ann))) == (NOW + 200, [])
    for _ in range(20):
        run(tokens.create(ann, "one"))
    limit = "You can have at most 20 tokens. Revoke one first."
    assert refuse(tokens.create(ann, "one too many")) == limit
    run(tokens.create(bob, ""))
    assert accounts_module.MAX_TOKENS == len(run(tokens.list_active(ann))) == 20
    assert [t["id"] for t in run(tokens.list_active(ann))] == list(range(2, 22))
    assert log_of(site)[2] == (1, "new token", "token 1", "l" * 64)
    assert log_of(site)[5] == (1, "revoke token", "token 1", "")


def add_submissions(site, *rows):
    """Add submissions of account 1 to the database: key, team and further columns."""
    usual = {
        **{"challenge": "small", "phase": "test", "account": 1, "system": "s", "note": ""},
        **{"file": "a.json", "sha256": "", "bytes": 2, "received_at": NOW, "state": "scored"},
        **{"faults": [], "n_faults": 0, "summary": "", "counts": True, "attempts": 2},
        **{"progress": 0.5, "step": "", "reason": "", "standing": "", "standing_why": ""},
    }
    values = [{**usual, "key": key, "team": team, **changes} for key, team, changes in rows]
    for value in values:
        statement = insert(tables.submissions).values(value)
        site.store.database.run_blocking(lambda c, s=statement: c.execute(s) and None)


def columns_of(site, *names):
    return [tuple(row[name] for name in names) for row in load_table(site, tables.submissions)]


def test_decisions_on_submissions_are_theirs_alone_and_logged(site, clock):
    sign_up(site, "Ann")
    sign_up(site, "Bob")
    failed = {"state": "failed", "reason": "x", "finished_at": NOW}
    add_submissions(site, ("a", 1, {}), ("b", 2, failed), ("c", 1, {"state": "running"}))
    moderation = site.moderation
    run(moderation.set_standing("a", "hidden", "a test"))
    assert columns_of(site, "standing", "standing_why") == [
        ("hidden", "a test"),
        ("", ""),
        ("", ""),
    ]
    run(moderation.set_standing("a", "", "cleared"))
    assert columns_of(site, "standing", "standing_why") == [("", "")] * 3
    with pytest.raises(NotFoundError):
        run(moderation.set_standing("d", "hidden", "x"))
    challenge = site.store.get_challenge("small")
    run(moderation.reset_limits(challenge, 1, "a fault of ours"))
    assert columns_of(site, "counts") == [(False,), (True,), (False,)]
    for team in (0, 3):
        with pytest.raises(NotFoundError):
            run(moderation.reset_limits(challenge, team, "x"))
    refused = "Only a failed submission can be evaluated again."
    assert [refuse(moderation.requeue(key, "x")) for key in ("a", "c", "d")] == [refused] * 3
    run(moderation.requeue("b", "more memory"))
    names = ("state", "reason", "attempts", "progress", "finished_at")
    assert columns_of(site, *names)[1] == (SubmissionState.QUEUED, "", 0, 0.0, None)
    assert log_of(site)[2:] == [
        (None, "hidden", "submission a", "a test"),
        (None, "reinstate", "submission a", "cleared"),
        (None, "forgive", "team 1 in small", "a fault of ours"),
        (None, "requeue", "submission b", "more memory"),
    ]


def test_a_challenge_is_published_and_frozen(site):
    challenge = site.store.get_challenge("small")

    def status():
        found = run(site.queries.challenge_status(challenge))
        (row,) = load_table(site, tables.challenges)
        return found.is_published, found.is_frozen, row["published_at"], row["frozen_at"]

    assert status() == (False, False, None, None)
    run(site.moderation.change_challenge(challenge, "publish", "done"))
    run(site.moderation.change_challenge(challenge, "freeze", "a fault"))
    assert status() == (True, True, NOW, NOW)
    run(site.moderation.change_challenge(challenge, "unfreeze", "mended"))
    assert status() == (True, False, NOW, None)
    run(site.moderation.change_challenge(challenge, "unpublish", "too early"))
    assert status() == (False, False, None, None)
    assert log_of(site) == [
        (None, "publish", "small", "done"),
        (None, "freeze", "small", "a fault"),
        (None, "unfreeze", "small", "mended"),
        (None, "unpublish", "small", "too early"),
    ]


def test_the_log_is_read_from_its_end_and_reasons_are_cut(site):
    def write(c):
        for k in range(5):
            write_audit(c, 10.0 + k, k or None, f"action {k}", "target", "w" * 501)
        return read_audit(c, 2)

    entries = site.store.database.run_blocking(write)
    assert entries == [
        {"id": k + 1, "at": 10.0 + k, "account": k, "action": f"action {k}", "what": "target"}
        | {"why": "w" * 500}
        for k in (4, 3)
    ]


def test_a_member_who_moved_moves_on_from_the_present_team(site):
    """Pages of two browsers name the team of when they were asked for."""
    ann, _ = sign_up(site, "Ann", "Reds")
    change = update(tables.accounts).where(tables.accounts.c.id == 1).values(team=2)
    sign_up(site, "Bob", "Blues")
    site.store.database.run_blocking(lambda c: c.execute(change) and None)
    run(site.teams.rename(ann, "Greens"))
    assert [t["name"] for t in run(site.teams.list_all())] == ["Reds", "Greens"]
    run(site.teams.create_invitation(ann))
    invited = [row["id"] for row in load_table(site, tables.teams) if row["invitation"]]
    assert invited == [2]
