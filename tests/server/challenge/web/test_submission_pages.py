"""Submissions through HTTP: from the upload to scores or faults, and the limits of a team."""

from __future__ import annotations

import csv
import io
import json
from datetime import date

from captau.server.challenge import tables
from captau.server.challenge.submission_lifecycle import SubmissionLifecycle
from tests.server.challenge.visitors import (
    IMAGES,
    begin_evaluation,
    finish_evaluation,
    load_table,
    multipart,
    quick_passwords,
    record_verdict,
    score,
    serve_small,
    sign_up,
    submission_key,
    valid_captions,
    write_challenge,
)

__all__ = ["quick_passwords", "serve_small"]

SUBMIT_PAGE = "/challenges/small/submit"


def test_a_submission_from_its_upload_to_its_scores(serve_small):
    site, url = serve_small()
    lifecycle = SubmissionLifecycle(site.store)
    ann = sign_up(url, "Ann", team="Reds")
    assert "<b>2</b> left today" in ann.get(SUBMIT_PAGE).text
    content = valid_captions()
    response = ann.upload("small", "my results.json", content, system="mine <1>", note="a try")
    key = submission_key(response)
    page = ann.get(f"/submissions/{key}")
    assert page.heading == "mine &lt;1&gt;"
    assert "It is being checked." in page.text
    assert ann.get(SUBMIT_PAGE).text.count("<b>2</b> left today") == 1
    record_verdict(site, key)
    assert "waiting for its turn" in ann.get(f"/submissions/{key}").text
    assert "<b>1</b> left today" in ann.get(SUBMIT_PAGE).text
    number = begin_evaluation(site, key)
    lifecycle.record_progress(number, "w", 0.25, "cider")
    progress = json.loads(ann.raw("GET", f"/submissions/{key}/state")[2])
    assert progress == {"state": "running", "progress": 0.25, "step": "cider", "done": False}
    assert 'value="0.250"' in ann.get(f"/submissions/{key}").text
    # Its worker ends; another one scores it.
    lifecycle.give_up("w", "it was ended")
    begin_evaluation(site, key, "v")
    finish_evaluation(site, key, 0.423456789, "v")
    page = ann.get(f"/submissions/{key}")
    assert page.text.count(">42.3<") == 4  # two metrics by two reference sets side by side
    assert '<th scope="col" class="number">c2</th>' in page.text
    assert "cider|backend:x" in page.text
    # Neither pages nor programs get more digits than tables print.
    assert "42.345" not in page.text
    bearer = {"authorization": f"Bearer {ann.create_token()}"}
    submission = json.loads(ann.raw("GET", f"/api/submissions/{key}", **bearer)[2])
    values = {(r["value"], r["ci_low"], r["ci_high"]) for r in submission["scores"]}
    assert values == {(0.423, 0.411, 0.436)}
    stored = load_table(site, tables.results)[0]["scores"]
    assert {r["value"] for r in stored} == {0.423456789}
    submissions_page = ann.get("/submissions").text
    assert f'href="/submissions/{key}"' in submissions_page
    assert "42.3 <small>CIDEr, c2</small>" in submissions_page


def test_an_invalid_submission_shows_all_faults_and_does_not_count(serve_small):
    site, url = serve_small()
    ann = sign_up(url, "Ann")
    key = submission_key(ann.upload("small", "r.json", b"[]"))
    faults = [f"r.json: no caption of image '{i}' <b>" for i in IMAGES]
    record_verdict(site, key, faults)
    page = ann.get(f"/submissions/{key}")
    assert "Not valid: 6 faults" in page.text
    assert page.text.count("no caption of image &#39;p") == 6
    assert "<b>&#39;" not in page.text
    assert "<b>2</b> left today" in ann.get(SUBMIT_PAGE).text
    assert json.loads(ann.raw("GET", f"/submissions/{key}/state")[2])["done"]


def test_daily_limits_hold_for_a_team_and_for_members_who_leave_it(serve_small):
    site, url = serve_small()
    ann = sign_up(url, "Ann", team="Reds")

    def upload(visitor, name):
        return visitor.upload("small", name, valid_captions())

    for n in range(2):
        score(site, submission_key(upload(ann, f"{n}.json")))
    status, _, body = upload(ann, "3.json")
    assert (status, b"has made its 2 submissions on a day" in body) == (400, True)
    bob = sign_up(url, "Bob", code=ann.create_invitation())
    assert upload(bob, "4.json")[0] == 400
    # A new team does not reset the limits of Ann, who used them up; Bob has submitted nothing.
    ann.send("/team/leave", name="Reds again")
    assert upload(ann, "5.json")[0] == 400
    bob.send("/team/leave", name="Blues")
    assert upload(bob, "6.json")[0] == 303
    # Submissions stay with the old team.
    assert "0.json" not in ann.get("/submissions").text


def test_invalid_uploads_are_refused(serve_small):
    site, url = serve_small(limits={"megabytes": 1})
    ann = sign_up(url, "Ann")
    for name, content, message in (
        ("r.exe", valid_captions(), b"the name of the file must end in .json"),
        ("", valid_captions(), b"Choose a file."),
        (None, b"", b"Choose a file."),
    ):
        status, _, body = ann.upload("small", name, content)
        assert (status, message in body) == (400, True), (name, body[-500:])
    status, _, body = ann.upload("small", "big.json", b"[" + b" " * (1 << 20) + b"]")
    assert (status, b"larger than 1 MB" in body) == (400, True)
    assert ann.upload("small", "huge.json", b" " * (2 << 20))[0] == 413
    # Two files, and a body that is no form.
    token = ann.token(SUBMIT_PAGE)
    form, content_type = multipart({"token": token}, "a.json", valid_captions())
    path, headers = "/challenges/small/submissions", {"content-type": content_type}
    two_files = form.replace(b"--x--\r\n", b"") + form
    assert ann.raw("POST", path, two_files, **headers)[0] == 400
    assert ann.raw("POST", path, b"--y", **headers)[0] == 400
    assert ann.upload("nowhere", "r.json", valid_captions(), token=token)[0] == 404
    assert not load_table(site, tables.submissions)
    assert [p for p in site.store.folder.iterdir() if p.is_dir()] == []


def test_a_closed_phase_takes_no_submissions(serve_small):
    past = {"name": "past", "from": date(2020, 1, 1), "to": date(2020, 2, 1)}
    _, url = serve_small(phases=[past])
    ann = sign_up(url, "Ann")
    assert "no phase is open" in ann.get("/").text
    assert "from 2020-01-01 00:00 to 2020-02-01 00:00 UTC" in ann.get("/challenges/small").text
    assert "No phase takes submissions now." in ann.get(SUBMIT_PAGE).text
    status, _, body = ann.upload("small", "r.json", valid_captions())
    message = b"No phase of The small challenge takes submissions now."
    assert (status, message in body) == (400, True)


def test_scores_of_single_captions_are_shown_only_if_the_challenge_says_so(serve_small, tmp_path):
    without = write_challenge(tmp_path, "without")
    with_items = write_challenge(tmp_path, "with", visibility={"per_item": True})
    site, url = serve_small(without, with_items)
    ann, bob = sign_up(url, "Ann"), sign_up(url, "Bob")
    ann_bearer, bob_bearer = (
        {"authorization": f"Bearer {visitor.create_token()}"} for visitor in (ann, bob)
    )
    missing = (
        404,
        b'{"error":"the site shows you nothing of this name; check the challenge, or the id of the submission"}',
    )
    for name, is_shown in (("without", False), ("with", True)):
        key = submission_key(ann.upload(name, "r.json", valid_captions()))
        path = f"/submissions/{key}/items.csv"
        assert ann.raw("GET", path)[0] == 404  # it is not scored yet
        score(site, key)
        assert ("Each caption" in ann.get(f"/submissions/{key}").text) == is_shown
        status, _, body = ann.raw("GET", path)
        assert status == (200 if is_shown else 404)
        assert bob.raw("GET", path)[0] == 404
        # Programs get the same by a token.
        expected = (200, body) if is_shown else missing
        assert ann.raw("GET", f"/api{path}", **ann_bearer)[::2] == expected
        assert ann.raw("GET", f"/api{path}", **bob_bearer)[::2] == missing
        assert ann.raw("GET", f"/api{path}")[0] == 401
    rows = list(csv.DictReader(io.StringIO(body.decode())))
    assert [row["image_id"] for row in rows] == IMAGES
    assert set(rows[0]) == {"image_id", "cider@c2", "cider@c5", "rouge_l@c2", "rouge_l@c5"}
