"""Every page has the security headers, shows no private texts, and links to this site only."""

from __future__ import annotations

import re

import pytest

from captau.server.challenge import tables
from captau.server.challenge.leaderboard.board import Score, ScoreColumn
from captau.server.challenge.site import format_half_width, format_score, format_time
from captau.server.web.site import PublicAddress
from tests.server.challenge.visitors import (
    Visitor,
    load_table,
    make_site,
    quick_passwords,
    record_verdict,
    score,
    score_three_teams,
    serve_small,
    sign_up,
    sign_up_admin,
    submission_key,
    valid_captions,
    write_challenge,
)

__all__ = ["quick_passwords", "serve_small"]


def test_no_page_shows_references_and_all_have_the_headers(serve_small):
    site, url = serve_small(visibility={"leaderboard": "public", "per_item": True})
    score_three_teams(site, url)
    ann, admin = sign_up(url, "Ann"), sign_up_admin(site, url)
    scored_key = submission_key(ann.upload("small", "r.json", valid_captions()))
    score(site, scored_key)
    invalid_key = submission_key(ann.upload("small", "r.json", b"[]"))
    record_verdict(site, invalid_key, ["r.json: it contains no captions"])
    endings = ("", "/state", "/items.csv")
    board = "/challenges/small/board"
    paths = [
        *("/", "/signup", "/signin", "/recover", "/account", "/submissions", "/nowhere"),
        *("/challenges/small", "/challenges/small/submit", "/challenges/none"),
        *(f"{board}{ending}?which=all" for ending in ("", ".csv", ".json")),
        *(f"/submissions/{k}{e}" for k in (scored_key, invalid_key) for e in endings),
    ]
    admin_paths = ["/admin", f"/admin{board}", f"/admin/submissions/{scored_key}"]
    for visitor, visited_paths in ((ann, paths), (admin, admin_paths)):
        for path in visited_paths:
            status, headers, body = visitor.raw("GET", path)
            assert status < 500
            assert b"zyxreference" not in body, path
            assert b"zyxsecret" not in body, path
            assert "default-src 'none'" in headers["content-security-policy"]
            assert headers["cache-control"] == "no-store"
            if headers.get("content-type", "").startswith("text/html"):
                assert not re.search(rb"<script(?![^>]*src=)|\son\w+=|style=", body), path
            assert visitor.raw("HEAD", path)[::2] == (status, b"")


def test_a_site_without_a_public_address_does_not_repeat_the_host_header(serve_small):
    _, url = serve_small()
    _, _, body = Visitor(url).raw("GET", "/challenges/small", host="evil.example")
    assert b"evil.example" not in body
    assert f"url={url}".encode() in body


def test_a_site_below_a_path_ignores_the_host_header(serve_small):
    _, url = serve_small(address=PublicAddress("/lab", True, "https://lab.example"))
    visitor = Visitor(url)
    status, headers, body = visitor.raw("GET", "/lab/signup", host="evil.example")
    assert status == 200
    assert "path=/lab" in headers["set-cookie"].lower()
    assert "secure" in headers["set-cookie"].lower()
    for link in re.findall(rb'(?:href|action|src)="([^"]*)"', body):
        assert link.startswith((b"/lab/", b"#")), link
    _, _, body = visitor.raw("GET", "/lab/challenges/small", host="evil.example")
    assert b"url=https://lab.example/lab" in body
    assert b"evil.example" not in body


@pytest.mark.parametrize("days", [-3, 3])
def test_a_machine_s_clock_that_is_set_anew_gives_no_second_day_and_ends_no_phase(
    serve_small, machine_clock, days
):
    site, url = serve_small(phases=[{"name": "test", "per_day": 1, "to": "2099-01-01"}])
    ann, now = sign_up(url, "Ann"), machine_clock[0]
    record_verdict(site, submission_key(ann.upload("small", "r.json", valid_captions())))
    machine_clock[0] += 86_400 * days
    bob = sign_up(url, "Bob")
    record_verdict(site, submission_key(bob.upload("small", "r.json", valid_captions())))
    for member in (ann, bob):
        assert "Sign out" in member.get("/account").text
        status, _, body = member.upload("small", "r.json", valid_captions())
        assert (status, b"1 submissions on a day" in body) == (400, True)
    times = [row["received_at"] for row in load_table(site, tables.submissions)]
    assert now <= times[0] <= times[1] < now + 600


def test_of_several_challenges_the_highest_limits_hold(tmp_path, limit_clock):
    limits = {"a": {"joins": 3, "logins": 4, "requests": 2}}
    limits["b"] = {"joins": 2, "logins": 6, "requests": 5}
    paths = [write_challenge(tmp_path, name, limits=limits[name]) for name in limits]
    site = make_site(tmp_path, *paths)
    assert site.title == "captau"
    # The attempts at once, and those of the seconds after them.
    for limiter, at_once, seconds, later in (
        (site.joins, 3, 40, 2),  # a minute
        (site.requests, 15, 1, 5),  # a second, and those of three at once
        (site.sign_in_limiter, 6, 200, 2),  # in ten minutes
        (site.names, 60, 20, 2),  # as many a minute from all addresses
    ):
        allowed = [sum(limiter.take("somebody") for _ in range(100))]
        limit_clock[0] += seconds + 1e-6
        allowed.append(sum(limiter.take("somebody") for _ in range(100)))
        assert allowed == [at_once, later]
        assert limiter.take("somebody else")
    site.store.database.close()
    named = make_site(tmp_path, *paths, title="Lab")
    assert named.title == "Lab"
    named.store.database.close()


def test_times_and_half_widths_are_printed_as_in_tables():
    assert (format_time(None), format_time(0.0)) == ("", "1970-01-01 00:00")
    assert format_time(1_800_000_059.9) == "2027-01-15 08:00"
    column = ScoreColumn("cider@c5", "cider", "c5", "CIDEr", 100, 1, True)
    score = Score(value=0.52345, low=0.5, high=0.5234567, half_width=0.01172835)
    assert format_score(0.52345, column) == "52.3"
    assert format_half_width(score, column) == "1.2"


def test_a_site_of_one_challenge_has_its_title_unless_another_is_given(tmp_path):
    path = write_challenge(tmp_path, "small")
    site = make_site(tmp_path, path)
    assert site.title == "The small challenge"
    assert (
        "<strong>The small challenge</strong>"
        in site.render("message.html", message="x", back="/").body.decode()
    )
    site.store.database.close()
    assert make_site(tmp_path, path, title="Ours").title == "Ours"
