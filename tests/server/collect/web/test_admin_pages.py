"""The admin of a study through HTTP: password, sessions, exclusion and deletion."""

from __future__ import annotations

import asyncio
import io
import json
import re
import zipfile
from html import escape

import pytest
from sqlalchemy import select

from captau.server.collect import rater_figures
from captau.server.collect.simulated_browser import Browser, join_study
from captau.server.collect.store.tables import site_settings
from captau.server.collect.web import admin_pages
from tests.server.challenge.visitors import quick_passwords
from tests.server.collect.conftest import make_site, serve_site
from tests.server.collect.visitors import finish_tutorial, load_rows, open_unit_id, sign_in_admin
from tests.server.conftest import stop_seconds


def test_the_admin_chooses_a_password_once_and_signs_in_with_it(serve_small):
    site, url = serve_small()
    admin = Browser(url)
    assert "No password is set" in admin.get("/admin/login").text
    page = admin.get(f"/admin/setup?code={site.setup_code}")
    refused = admin.post("/admin/setup", {**page.hidden, "password": "short", "again": "short"})
    assert refused.status == 400
    sign_in_admin(site, url)
    assert "Sign in" in Browser(url).get(f"/admin/setup?code={site.setup_code}").heading
    stored = site.store.database.run_blocking(
        lambda c: c.execute(
            select(site_settings.c.value).where(site_settings.c.key == "password")
        ).scalar_one()
    )
    assert stored.startswith("$argon2id$")
    second = Browser(url)
    page = second.get("/admin/login")
    assert second.post("/admin/login", {**page.hidden, "password": "wrong"}).status == 403
    assert second.raw("GET", "/admin")[0] == 303
    page = second.get("/admin/login")
    dashboard = second.post("/admin/login", {**page.hidden, "password": "correct horse battery"})
    assert dashboard.heading == "Dashboard"
    signed_out = second.post("/admin/logout", second.get("/admin").hidden)
    assert signed_out.heading != "Dashboard"
    assert second.raw("GET", "/admin")[0] == 303


def test_signing_out_and_a_new_password_end_the_admin_s_sessions(tmp_path, monkeypatch):
    site = make_site(tmp_path, "good_bad")
    with serve_site(site) as url:
        first = sign_in_admin(site, url)
        second = Browser(url)
        page = second.get("/admin/login")
        second.post("/admin/login", {**page.hidden, "password": "correct horse battery"})
        old_cookies = dict(first.cookies)
        assert second.get("/admin").heading == "Dashboard"
        first.post("/admin/logout", first.get("/admin").hidden)
        first.cookies = old_cookies  # copied before
        assert first.raw("GET", "/admin")[0] == 303
        assert second.raw("GET", "/admin")[0] == 303
        page = second.get("/admin/login")
        second.post("/admin/login", {**page.hidden, "password": "correct horse battery"})
    # The same password handed over again ends nothing, nor does a restart; another one does.
    for password, status in (
        (None, 200),
        ("correct horse battery", 200),
        ("another one altogether", 303),
    ):
        if password:
            monkeypatch.setenv("CAPTAU_ADMIN_PASSWORD", password)
        with serve_site(make_site(tmp_path)) as url:
            browser = Browser(url)
            browser.cookies = dict(second.cookies)
            assert browser.raw("GET", "/admin")[0] == status


def test_invitations_name_their_raters_and_those_that_nobody_used(serve_small):
    site, url = serve_small("thumb", participants="invitation", ratings=2)
    admin = sign_in_admin(site, url)
    token = admin.get("/admin").hidden["token"]
    links = {}
    for note, many in (("Ann", 1), ("<Ben>", 1), ("", 3)):
        page = admin.post("/admin/invitations", {"token": token, "many": many, "note": note})
        links[note] = re.findall(r"http://\S+(/i/[\w-]+)", page.text)
        assert page.heading == f"{many} invitation{'s' if many > 1 else ''}" + (
            f": {escape(note)}" if note else ""
        )

    join_study(url, path=links["Ann"][0])
    text = admin.get("/admin").text
    assert "5 made, 1 used. Not used yet:" in text
    assert re.findall(r"<li>(.*?)\s*<form", text) == ["without a note (3 links)", "&lt;Ben&gt;"]
    (code,) = (site.store.rater_code(row["id"]) for row in load_rows(site)["raters"])
    assert re.search(rf"<td>{code}</td><td>Ann</td>", text)
    assert "invite: 1 link<" in text
    assert "invite: 3 links" in text
    # Five dimensions: the page says whose agreement it shows.
    assert "By ratings of <b>total</b>." in text


def test_invitations_that_nobody_used_can_be_withdrawn(serve_small):
    site, url = serve_small("thumb", participants="invitation", ratings=2)
    admin = sign_in_admin(site, url)
    token = admin.get("/admin").hidden["token"]
    made = admin.post("/admin/invitations", {"token": token, "many": 3, "note": "Ann"})
    first, second, _ = re.findall(r"http://\S+(/i/[\w-]+)", made.text)
    join_study(url, path=first)

    withdrawal = {"token": token, "note": "Ann"}
    page = admin.post("/admin/invitations/withdraw", withdrawal)
    assert "1 made, 1 used." in page.text
    assert "withdraw: 2 links" in page.text
    assert "No invitation has this link." in Browser(url).get(second).text
    assert admin.post("/admin/invitations/withdraw", withdrawal).status == 404, "hers is used"
    assert len(load_rows(site)["raters"]) == 1
    assert admin.post("/admin/invitations/withdraw", {"note": "Ann"}).status == 400, (
        "a token is needed"
    )


def test_exclusion_can_be_undone_and_deletion_cannot(serve_small):
    site, url = serve_small(game={"points": -100})
    ann, bob = finish_tutorial(url, "Ann"), finish_tutorial(url, "Bob")
    for browser in (ann, bob):
        for _ in range(4):
            browser.post("/rate", {**browser.get("/rate").hidden, "rating": 2})
    admin = sign_in_admin(site, url)
    token = admin.get("/admin").hidden["token"]
    number = next(r["id"] for r in load_rows(site)["raters"] if r["nickname"] == "Bob")
    code = site.store.rater_code(number)

    def count_answers():
        return sum(u["given"] for u in load_rows(site)["units"])

    assert count_answers() == 8
    assert admin.post(f"/admin/raters/{number}/exclude", {"token": token}).status == 400
    reason = {"token": token, "why": "asleep"}
    page = admin.post(f"/admin/raters/{number}/exclude", reason)
    assert f"exclude {code}: asleep" in page.text
    assert count_answers() == 4
    assert "Bob" not in ann.get("/board").text
    page = admin.post(f"/admin/raters/{number}/include", {**reason, "why": "awake"})
    assert f"include {code}: awake" in page.text
    assert count_answers() == 8
    assert admin.post(f"/admin/raters/{number}/delete", reason).status == 400
    page = admin.post(f"/admin/raters/{number}/delete", {**reason, "sure": "yes"})
    assert f"delete {code}: asleep" in page.text
    assert count_answers() == 4
    tables = load_rows(site)
    assert [r["nickname"] for r in tables["raters"]] == ["Ann"]
    assert number not in {a["rater"] for a in tables["answers"]}
    # Whose session it was is a stranger now, and the number is nobody else's.
    assert "Before you begin" in bob.get("/rate").text
    join_study(url, "Cid")
    assert number not in {r["id"] for r in load_rows(site)["raters"]}
    assert ann.post(f"/admin/raters/{number}/delete", reason).status == 200  # the page to sign in


def test_computed_ratings_are_refreshed_while_the_game_runs(serve_small, tmp_path):
    site, url = serve_small(game={"points": -100})
    player = finish_tutorial(url, "Ann")
    first = player.post("/rate", {**player.get("/rate").hidden, "rating": 3})
    rows = load_rows(site)
    before = {u["id"]: u["fixed"] for u in rows["units"]}
    path = tmp_path / "study.yaml"
    text = path.read_text(encoding="utf-8")
    ratings = {unit.id: 1 + unit.id % 5 for unit in site.store.units.values()}
    scores = [
        {"image_id": u.image_id, "caption": u.items[0].caption, "score": ratings[u.id]}
        for u in site.store.units.values()
    ]
    file = tmp_path / "scores.jsonl"
    file.write_text("\n".join(map(json.dumps, scores)), encoding="utf-8")
    metric = f'{{metric: "file(name=model,path={file})", low: 1, high: 5}}'
    path.write_text(text.replace("- rouge_l", f"- {metric}"), encoding="utf-8")
    admin = sign_in_admin(site, url)
    page = admin.post("/admin/starting-ratings", admin.get("/admin").hidden)
    main = {u.id for u in site.store.units.values() if u.pool == "main"}
    n_changed = sum(before[i] != [ratings[i]] * 2 for i in main)
    assert f"starting ratings: {n_changed} units have other ones" in page.text
    for row in load_rows(site)["units"]:
        fixed = [ratings[row["id"]]] * 2 if row["id"] in main else before[row["id"]]
        assert row["fixed"] == fixed == list(site.store.units[row["id"]].fixed)
    # Points stay; the next pair is compared with the new ratings.
    assert load_rows(site)["raters"][0]["points"] == first.score
    page = player.get("/rate")
    rating = ratings[open_unit_id(site)]
    feedback = player.post("/rate", {**page.hidden, "rating": rating})
    assert (feedback.consensus, feedback.score) == (rating, 2)
    # Other rules or items are another study.
    path.write_text(text.replace("points: -100", "points: -99"), encoding="utf-8")
    refused = admin.post("/admin/starting-ratings", admin.get("/admin").hidden)
    assert (refused.status, "other items or rules" in refused.text) == (400, True)
    path.write_text(text.replace("- rouge_l", "- rouge_9"), encoding="utf-8")
    refused = admin.post("/admin/starting-ratings", admin.get("/admin").hidden)
    assert (refused.status, "game.cold_start" in refused.text) == (400, True)
    assert Browser(url).post("/admin/starting-ratings", {}).heading != "Dashboard"


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ([], []),
        ([59], [("1970-01-01 00:00", 1)]),
        ([30, 60, 61, 239], [(f"1970-01-01 00:0{k}", n) for k, n in enumerate((1, 2, 0, 1))]),
        # 48 minutes take bars of five, 40 days of a day, and 1,440 days of 30 days.
        ([0, 48 * 60 - 1], [("1970-01-01 00:00", 1), 46, ("1970-01-01 00:47", 1)]),
        ([0, 48 * 60], [("1970-01-01 00:00", 1), 8, ("1970-01-01 00:45", 1)]),
        ([0, 47 * 300], [("1970-01-01 00:00", 1), 46, ("1970-01-01 03:55", 1)]),
        ([0, 47 * 900], [("1970-01-01 00:00", 1), 46, ("1970-01-01 11:45", 1)]),
        ([0, 47 * 3600], [("1970-01-01 00:00", 1), 46, ("1970-01-02 23:00", 1)]),
        ([0, 47 * 6 * 3600], [("1970-01-01 00:00", 1), 46, ("1970-01-12 18:00", 1)]),
        ([0, 47 * 7 * 86_400], [("1970-01-01 00:00", 1), 46, ("1970-11-26 00:00", 1)]),
        ([0, 40 * 86_400], [("1970-01-01 00:00", 1), 39, ("1970-02-10 00:00", 1)]),
        ([0, 1440 * 86_400], [("1970-01-01 00:00", 1), 47, ("1973-12-11 00:00", 1)]),
    ],
)
def test_answers_are_counted_in_bars_of_a_span_that_makes_few_of_them(seconds, expected):
    bars = admin_pages._answers_over_time(seconds)
    if len(expected) == 3 and isinstance(expected[1], int):
        assert [bars[0], len(bars) - 2, bars[-1]] == expected
        assert not any(count for _, count in bars[1:-1])
    else:
        assert bars == expected


def test_agreement_is_measured_again_after_half_a_minute_or_when_it_expires(monkeypatch):
    now = stop_seconds(monkeypatch, rater_figures, 5.0)  # soon after the machine began
    measured = []

    def measure(store, rows):
        measured.append(now[0])
        return {"measure": (now[0], "")}

    monkeypatch.setattr(rater_figures, "measure_agreement", measure)
    cache = rater_figures.AgreementCache()

    def get(at):
        now[0] = at
        return asyncio.run(cache.get(None, None))["measure"][0]

    assert [get(at) for at in (5.0, 10.0, 35.0, 35.1)] == [5.0, 5.0, 5.0, 35.1]
    cache.expire()
    assert get(36.0) == 36.0
    assert measured == [5.0, 35.1, 36.0]


def test_other_forms_have_no_computed_ratings(serve_small):
    site, url = serve_small("good_bad")
    admin = sign_in_admin(site, url)
    page = admin.get("/admin")
    assert "Computed ratings" not in page.text
    assert admin.post("/admin/starting-ratings", page.hidden).status == 404


__all__ = ["quick_passwords"]


def test_one_to_five_hundred_invitations_are_made_at_a_time(serve_small):
    site, url = serve_small("good_bad", participants="invitation")
    admin = sign_in_admin(site, url)
    token = admin.get("/admin").hidden["token"]

    def invite(**fields):
        page = admin.post("/admin/invitations", {"token": token, **fields})
        return page.status, len(re.findall(rf"{url}/i/[\w-]{{22}}", page.text)), page.text

    assert [invite(many=many)[:2] for many in ("", 1, 2, 500)] == [(200, n) for n in (1, 1, 2, 500)]
    for many in (0, 501, 1_000_001, "-1", "1.5", "²", "٣"):
        status, n_links, text = invite(many=many)
        assert (status, n_links) == (400, 0)
        assert "You can make 1 to 500 invitations at a time." in text
    invite(note="n" * 201)
    notes = [row["note"] for row in load_rows(site)["invitations"]]
    assert notes == [""] * 504 + ["n" * 200]


def test_an_open_study_has_no_invitations_and_reasons_are_cut(serve_small):
    site, url = serve_small("good_bad")
    admin = sign_in_admin(site, url)
    token = admin.get("/admin").hidden["token"]
    page = admin.post("/admin/invitations", {"token": token})
    assert (page.status, "This study is open; it has no invitations." in page.text) == (400, True)
    asyncio.run(site.store.participants.join("", "", ""))
    asked = {"token": token, "why": "w" * 501}
    assert admin.post("/admin/raters/1/exclude", asked, follow=False).status == 303
    assert [event["why"] for event in load_rows(site)["events"]] == ["w" * 500]
    page = admin.post("/admin/raters/1/delete", {**asked, "sure": "no"})
    assert (page.status, "Tick the box; a deletion cannot be undone." in page.text) == (400, True)
    page = admin.post("/admin/raters/1/include", {"token": token, "why": " "})
    assert (page.status, "Give a reason; it is recorded." in page.text) == (400, True)
    assert admin.post("/admin/raters/1/other", asked).status == 422
    assert admin.post("/admin/raters/0/exclude", asked).status == 422
    assert admin.post("/admin/raters/2/exclude", asked).status == 404


def test_an_export_is_a_zip_that_is_named_in_ascii(serve_small):
    site, url = serve_small("good_bad", name="stüdie")
    admin = sign_in_admin(site, url)
    for form, names in (
        ("captau", ["ratings.csv", "ratings.yaml", "run.json"]),
        ("log", ["log.csv", "run.json"]),
    ):
        status, headers, content = admin.raw("GET", f"/admin/export/{form}")
        assert (status, headers["content-type"], headers["content-disposition"]) == (
            *(200, "application/zip", f'attachment; filename="st_die-{form}.zip"'),
        )
        assert zipfile.ZipFile(io.BytesIO(content)).namelist() == names
    assert admin.raw("GET", "/admin/export/other")[0] == 404
    assert admin.raw("GET", f"/admin/export/{'x' * 21}")[0] == 422
