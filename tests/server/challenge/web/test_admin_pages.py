"""The admin's pages through HTTP: decisions on submissions, challenges and teams, and their log."""

from __future__ import annotations

import re

from captau.server.challenge import tables
from captau.server.challenge.submission_lifecycle import SubmissionLifecycle
from captau.server.challenge.web import admin_pages
from tests.server.challenge.visitors import (
    Visitor,
    begin_evaluation,
    load_submission,
    load_table,
    quick_passwords,
    read_board,
    read_tables,
    record_verdict,
    score,
    score_three_teams,
    serve_small,
    sign_up,
    sign_up_admin,
    submission_key,
    valid_captions,
)

__all__ = ["quick_passwords", "serve_small"]

BOARD = "/challenges/small/board"


def test_hidden_and_disqualified_submissions_leave_the_leaderboard(serve_small):
    site, url = serve_small(visibility={"leaderboard": "public"})
    teams = score_three_teams(site, url)
    keys = {row["system"]: row["key"] for row in load_table(site, tables.submissions)}
    admin, stranger = sign_up_admin(site, url), Visitor(url)
    key = keys["Reds 1"]
    submission_page = f"/admin/submissions/{key}"
    assert admin.get(submission_page).heading == "Reds 1"
    assert admin.send(f"{submission_page}/hidden", page="/admin").status == 400
    admin.send(f"{submission_page}/hidden", page="/admin", why="a <test>")
    systems = [row[2] for row in read_board(stranger.get(BOARD).text)]
    assert systems == ["Blues 0", "Reds 0", "Greens 0"]
    assert stranger.get(f"/submissions/{key}").status == 404
    assert "Hidden: a &lt;test&gt;" in teams["Reds"].get(f"/submissions/{key}").text
    admin.send(f"{submission_page}/disqualified", page="/admin", why="two accounts")
    page = stranger.get(BOARD)
    assert "Reds 1" not in str(read_board(page.text))
    assert "<s>Reds 1</s> of Reds: two accounts" in page.text
    admin.send(f"{submission_page}/reinstate", page="/admin", why="cleared")
    assert read_board(stranger.get(BOARD).text)[0][2] == "Reds 1"
    dashboard = admin.get("/admin").text
    for action in ("hidden", "disqualified", "reinstate"):
        assert f"<td>admin</td><td>{action}</td><td>submission {key}</td>" in dashboard
    missing_page = f"/admin/submissions/{'0' * 16}/hidden"
    assert admin.send(missing_page, page="/admin", why="x").status == 404


def test_the_dashboard_lists_all_that_the_site_holds(serve_small, clock, monkeypatch):
    site, url = serve_small(phases=[{"name": "test", "to": "2030-01-01", "per_day": 2}])
    teams = score_three_teams(site, url)
    sign_up(url, "Cid", code=teams["Reds"].create_invitation())
    submission_key(teams["Blues"].upload("small", "r.json", b"[]"))
    admin = sign_up_admin(site, url)
    admin.send("/admin/accounts/3/block", page="/admin", why="two <accounts>")
    page = admin.get("/admin").text
    at, scored = "2027-01-15 08:00", ("small", "test", "2027-01-15 08:00", "scored", "1")
    assert read_tables(page) == [
        ("system", "team", "challenge", "phase", "sent (UTC)", "state", "attempts", "score"),
        ("r", "Blues", "small", "test", at, "being checked", "0", ""),
        ("Greens 0", "Greens", *scored, "20.0 CIDEr, c2"),
        ("Blues 0", "Blues", *scored, "79.9 CIDEr, c2"),
        ("Reds 1", "Reds", *scored, "80.0 CIDEr, c2"),
        ("Reds 0", "Reds", *scored, "60.0 CIDEr, c2"),
        ("team", "members", "submissions", "founded (UTC)", "limits"),
        ("Reds", "2", "2", at, "Reset Reset small"),
        ("Blues", "1", "2", at, "Reset Reset small"),
        ("Greens", "1", "1", at, "Reset Reset small"),
        ("name", "team", "joined (UTC)", "action"),
        ("of Reds", "Reds", at, "Block"),
        ("of Blues", "Blues", at, "Block"),
        ("of Greens", "Greens", at, "Unblock"),
        ("Cid", "Reds", at, "Block"),
        ("when (UTC)", "who", "action", "object", "why"),
        (at, "admin", "block", "account 3", "two &lt;accounts&gt;"),
        (at, "admin", "password", "dashboard", "from 127.0.0.1"),
        (at, "Cid", "sign up", "team 1", ""),
        (at, "of Reds", "invite", "team 1", ""),
        (at, "of Greens", "sign up", "team 3", ""),
        (at, "of Blues", "sign up", "team 2", ""),
        (at, "of Reds", "sign up", "team 1", ""),
    ]
    text = " ".join(re.sub("<[^>]+>", " ", page).split())
    assert "test to 2030-01-01 00:00 UTC, 2 a day open The leaderboard is private ." in text
    assert "1 received, 0 invalid, 0 queued, 0 running, 4 scored, 0 failed Publish Freeze" in text
    monkeypatch.setattr(admin_pages, "_MAX_ROWS", 2)
    few = admin.get("/admin").text
    assert "These are the last 2 of 5 submissions." in few
    assert len(read_tables(few)) == len(read_tables(page)) - 3 - 5
    # A member's own list has the same scores, the newest first.
    assert read_tables(teams["Reds"].get("/submissions").text)[1:] == [
        (name, "scored", f"{value} CIDEr, c2", "small", "test", at)
        for name, value in (("Reds 1", "80.0"), ("Reds 0", "60.0"))
    ]


def test_limits_are_reset_for_a_team(serve_small):
    site, url = serve_small()
    ann, admin = sign_up(url, "Ann", team="Reds"), sign_up_admin(site, url)
    for _ in range(2):
        score(site, submission_key(ann.upload("small", "r.json", valid_captions())))
    assert ann.upload("small", "r.json", valid_captions())[0] == 400
    (team,) = load_table(site, tables.teams)

    def reset(team_id, challenge, why):
        path = f"/admin/teams/{team_id}/forgive"
        return admin.send(path, page="/admin", why=why, challenge=challenge).status

    assert reset(team["id"], "small", "a fault of ours") == 200
    allowance = "<b>2</b> left today and <b>3</b> left in this phase"
    assert allowance in ann.get("/challenges/small").text
    assert ann.upload("small", "r.json", valid_captions())[0] == 303
    assert reset(99, "small", "x") == 404
    assert reset(1, "none", "x") == 404


def test_a_frozen_challenge_takes_no_submissions(serve_small):
    site, url = serve_small()
    ann, admin = sign_up(url, "Ann"), sign_up_admin(site, url)
    key = submission_key(ann.upload("small", "r.json", valid_captions()))
    admin.send("/admin/challenges/small/freeze", page="/admin", why="moving")
    assert "No submissions are taken for the moment." in ann.get("/challenges/small").text
    record_verdict(site, key)
    status, _, body = ann.upload("small", "r.json", valid_captions())
    assert (status, b"takes no submissions for the moment" in body) == (400, True)
    admin.send("/admin/challenges/small/unfreeze", page="/admin", why="moved")
    assert ann.upload("small", "r.json", valid_captions())[0] == 303


def test_only_a_failed_submission_is_evaluated_again(serve_small):
    site, url = serve_small()
    ann, admin = sign_up(url, "Ann"), sign_up_admin(site, url)
    key = submission_key(ann.upload("small", "r.json", valid_captions()))
    record_verdict(site, key)
    begin_evaluation(site, key)
    reason = "the metrics could not be computed"
    SubmissionLifecycle(site.store).give_up("w", reason, is_final=True)
    page = ann.get(f"/submissions/{key}")
    assert f"It could not be scored: {reason}" in page.text
    path = f"/admin/submissions/{key}/requeue"
    assert admin.send(path, page="/admin", why="mended").status == 200
    submission = load_submission(site, key)
    assert (submission.state, submission.progress, submission.finished_at) == ("queued", 0, None)
    refused = admin.send(path, page="/admin", why="twice")
    assert (refused.status, "Only a failed submission" in refused.text) == (400, True)


def test_the_dashboard_is_for_the_admin_only(serve_small):
    site, url = serve_small(visibility={"leaderboard": "public"})
    ann = sign_up(url, "Ann")
    key = submission_key(ann.upload("small", "r.json", valid_captions()))
    score(site, key)
    for path in ("/admin", f"/admin{BOARD}", f"/admin{BOARD}.csv", f"/admin/submissions/{key}"):
        assert ann.raw("GET", path)[1]["location"] == "/admin/login"
    admin = sign_up_admin(site, url)
    # The admin's files have all digits; a team's pages those that tables print.
    assert b"0.487654322" in admin.raw("GET", f"/admin{BOARD}.csv")[2]
    for path in ("/admin/challenges/small/publish", f"/admin/submissions/{key}/hidden"):
        page = ann.post(path, {"token": ann.token(), "why": "x"})
        assert page.heading == "Sign in to the dashboard"
    refused = admin.send("/admin/challenges/small/unpublish", page="/admin", why="x")
    assert "file makes it public" in refused.text
    assert load_submission(site, key).standing == ""
