"""The admin's forms of a study at their bounds, its downloads, and the limits of its visitors."""

from __future__ import annotations

import asyncio
import io
import re
import zipfile
from types import SimpleNamespace

import pytest

from captau.benchmarks.options.sites import CollectOptions
from captau.server.collect.web.rater_pages import image_response
from captau.server.collect.web.site import open_site
from captau.server.web import visitors
from captau.server.web.errors import NotFoundError
from tests.server.challenge.visitors import quick_passwords
from tests.server.collect.conftest import make_site, write_study
from tests.server.collect.visitors import load_rows, sign_in_admin

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


def test_an_image_is_kept_a_day_and_is_what_its_content_says(tmp_path):
    make_site(tmp_path, "good_bad").store.database.close()
    (tmp_path / "x.jpg").write_bytes((tmp_path / "p0.png").read_bytes())
    response = image_response(str(tmp_path / "x.jpg"))
    assert response.media_type == "image/png"
    assert response.headers["cache-control"] == "private, max-age=86400, immutable"
    (tmp_path / "y.png").write_text("no image")
    for name in ("y.png", "none.png"):
        with pytest.raises(NotFoundError):
            image_response(str(tmp_path / name))


def test_the_limits_of_a_study_are_those_of_its_file(tmp_path, monkeypatch):
    """Joins a minute, requests a second and thrice as many at once, attempts to sign in in ten minutes."""
    clock = [0.0]
    monkeypatch.setattr(visitors, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    site = make_site(tmp_path, "good_bad", limits={"joins": 3, "logins": 6, "requests": 5})

    def take(limiter):
        return sum(limiter.take("somebody") for _ in range(50))

    for limiter, at_once, seconds, later in (
        (site.join_limiter, 3, 40, 2),
        (site.request_limiter, 15, 1, 5),
        (site.sign_in_limiter, 6, 200, 2),
    ):
        taken = [take(limiter)]
        clock[0] += seconds + 1e-6
        assert [*taken, take(limiter)] == [at_once, later]
    site.store.database.close()
    # Simulated raters have none, and wait as long as they are told to.
    path = write_study(tmp_path, "game", name="other")
    options = CollectOptions(study=str(path), database=str(tmp_path / "other.sqlite3"))
    site = open_site(options, wait=2.5)
    limits = site.study.limits
    assert (limits.joins, limits.logins, limits.requests) == (1_000_000,) * 3
    assert site.study.form.course.wait == 2.5
    assert site.base == ""
    site.store.database.close()
