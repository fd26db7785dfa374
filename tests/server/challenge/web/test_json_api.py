"""The JSON interface: who may ask what, and what each answer contains."""

from __future__ import annotations

import hashlib
import json
import time
from types import SimpleNamespace

import pytest
import requests

from captau.datasets.errors import InputError
from captau.server.challenge.client import ChallengeClient, print_outcome
from captau.server.challenge.submissions import SubmissionStore
from captau.server.storage.database import BusyError, StoreError
from captau.server.web.errors import NotFoundError, RefusedError, TooManyRequestsError
from captau.server.web.visitors import RateLimiter
from tests.conftest import says
from tests.server.challenge.conftest import (
    CAPTIONS,
    REFERENCES,
    captions_json,
    create_account,
    make_manual_worker,
    make_site,
    scores_csv,
    serve_site,
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Serve a site whose worker runs in this process, with tokens of two members and another team."""
    folder = tmp_path_factory.mktemp("site")
    opened = make_site(folder)
    opened.workers = None
    database = opened.store.database
    with serve_site(opened) as url:
        member, team = create_account(database, "member")
        mate, _ = create_account(database, "mate", team)
        rival, _ = create_account(database, "rival")
        work = make_manual_worker(folder, opened)
        people = {"member": member, "mate": mate, "rival": rival}
        yield SimpleNamespace(url=url, opened=opened, work=work, **people)


def bearer(token):
    return {"authorization": f"Bearer {token}"}


def post(site, token, text, challenge="small_captions", **parameters):
    return requests.post(
        f"{site.url}/api/challenges/{challenge}/submissions",
        params={"file": "a.json", **parameters},
        data=text.encode(),
        headers=bearer(token),
        timeout=30,
    )


def get(site, path, token=None):
    headers = bearer(token) if token else {}
    return requests.get(f"{site.url}/api/{path}", headers=headers, timeout=30)


def read_lines(response):
    return [json.loads(line) for line in response.iter_lines()]


def test_challenges_are_described_without_private_data(site):
    challenges = get(site, "challenges").json()["challenges"]
    phase = dict.fromkeys(("begins", "ends", "per_day", "in_all"))
    shared = {"phases": [{"name": "all", **phase}], "open": "all", "megabytes": 32}
    assert challenges == [
        {
            **{"name": "small_captions", "title": "Small captions", "kind": "captions"},
            **shared,
            "files": [".json", ".jsonl", ".ndjson", ".zip"],
            **{"references": ["c2", "c1"], "rank_by": "cider", "per_item": False},
        },
        {
            **{"name": "small_metrics", "title": "Small metrics", "kind": "metrics"},
            **shared,
            "files": [".csv", ".tsv", ".jsonl", ".ndjson", ".parquet"],
            **{"references": [], "rank_by": "pearson overall", "per_item": False},
        },
    ]
    assert get(site, "challenges/small_metrics").json() == challenges[1]
    assert get(site, "challenges/other").status_code == 404
    items = read_lines(get(site, "challenges/small_captions/items"))
    assert items == [{"image_id": i} for i in REFERENCES]
    items = read_lines(get(site, "challenges/small_metrics/items"))
    assert [(i["image_id"], i["caption"]) for i in items] == CAPTIONS
    assert set(items[0]) == {"item_id", "image_id", "caption"}


def test_a_submission_is_followed_to_its_scores(site):
    client = ChallengeClient(site.url, site.member)
    response = post(site, site.member, captions_json(), system="mine", note="layer 9")
    assert response.status_code == 201
    received = response.json()
    key = received["id"]
    text = captions_json().encode()
    assert received.pop("received_at") == pytest.approx(time.time(), abs=60)
    assert received == {
        **{"id": key, "url": f"{site.opened.address.origin}/submissions/{key}"},
        **{"team": "member", "challenge": "small_captions", "phase": "all", "system": "mine"},
        **{"note": "layer 9", "file": "a.json", "sha256": hashlib.sha256(text).hexdigest()},
        **{"bytes": len(text), "state": "received", "done": False, "counts": False},
        **{"faults": [], "n_faults": 0, "progress": 0.0, "scores": None, "run": None},
        **dict.fromkeys(("summary", "step", "reason"), ""),
    }
    second = post(site, site.member, captions_json())
    assert (second.status_code, "still being checked" in second.json()["error"]) == (409, True)
    site.work()
    scored = client.submission(key)
    changes = {name: value for name, value in scored.items() if received.get(name, 0) != value}
    assert changes.pop("received_at")
    assert [row["value"] for row in changes.pop("scores")] == [0.833, 2.575, 0.833, 3.75]
    assert changes.pop("run")["metrics"] == ["rouge_l", "cider"]
    assert changes == {
        **{"state": "scored", "done": True, "counts": True, "progress": 1.0},
        "summary": "a.json: valid: 12 captions",
    }
    assert [(r["references"], r["metric"], r["n"]) for r in scored["scores"]] == [
        ("c2", "rouge_l", 12),
        ("c2", "cider", 12),
        ("c1", "rouge_l", 5),
        ("c1", "cider", 5),
    ]
    assert "rouge_l" in scored["run"]["signatures"]
    # The whole team sees it, and nobody else.
    assert get(site, f"submissions/{key}", site.mate).json() == scored
    assert get(site, f"submissions/{key}", site.rival).status_code == 404
    assert get(site, f"submissions/{key}").status_code == 401
    assert get(site, "submissions", site.rival).json() == {"submissions": []}
    assert get(site, "submissions", site.mate).json()["submissions"][0] == scored
    theirs = post(site, site.rival, captions_json(**{"img00.png": ""})).json()["id"]
    assert get(site, f"submissions/{theirs}", site.member).status_code == 404
    assert get(site, f"submissions/{theirs}", site.rival).status_code == 200
    site.work()


def test_all_faults_of_an_invalid_submission_are_listed(site, capsys):
    text = captions_json(**{"img00.png": "", "other.png": "x"})
    key = post(site, site.member, text).json()["id"]
    site.work()
    submission = ChallengeClient(site.url, site.member).submission(key)
    fields = (submission["state"], submission["n_faults"], submission["counts"])
    assert fields == ("invalid", 2, False)
    assert print_outcome(submission) == 2
    printed = capsys.readouterr()
    assert "captau: a.json:1: unknown image 'other.png'" in printed.err
    assert printed.out.startswith("a.json: not valid: 2 faults")


def test_scores_of_a_metric_are_correlated(site, capsys):
    key = post(site, site.rival, scores_csv(), "small_metrics", file="mine.csv").json()["id"]
    site.work()
    submission = ChallengeClient(site.url, site.rival).submission(key)
    assert [r["metric"] for r in submission["scores"]] == ["tau_b overall", "pearson overall"]
    assert print_outcome(submission) == 0
    assert "pearson overall" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, 401), ({"authorization": "Bearer nobody"}, 401), ({"authorization": "Basic x"}, 401)],
)
def test_submissions_without_a_valid_token_are_refused(site, headers, status):
    url = f"{site.url}/api/challenges/small_captions/submissions?file=a.json"
    response = requests.post(url, data=b"[]", headers=headers, timeout=30)
    assert response.status_code == status
    assert response.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    ("error", "status", "message", "retry_after"),
    [
        (
            NotFoundError(),
            404,
            "the site shows you nothing of this name; check the challenge, or the id of the submission",
            None,
        ),
        (RefusedError("not today"), 409, "not today", None),
        (TooManyRequestsError(), 429, "too many at once; wait a few seconds", "5"),
        (BusyError("locked"), 503, "the database is busy; wait a few seconds", "5"),
        (StoreError("full"), 507, "this could not be stored (full); try again later", None),
    ],
)
def test_errors_are_json_with_their_status(site, monkeypatch, error, status, message, retry_after):
    def fail(*_):
        raise error

    monkeypatch.setattr(SubmissionStore, "get_challenge", fail)
    response = get(site, "challenges/small_captions")
    assert (response.status_code, response.json()) == (status, {"error": message})
    assert response.headers.get("retry-after") == retry_after


def test_reading_without_a_token_has_a_limit(site, monkeypatch):
    monkeypatch.setattr(site.opened, "requests", RateLimiter(3, 1e-6))
    statuses = [
        requests.get(f"{site.url}/api/{page}", timeout=30).status_code
        for page in ("challenges", "challenges/small_captions", "challenges", "challenges")
    ]
    assert statuses == [200, 200, 200, 429]


def test_invalid_requests_are_refused_with_a_message(site):
    assert post(site, site.member, "x", file="a.exe").status_code == 409
    assert post(site, site.member, "x", challenge="other").status_code == 404
    assert post(site, site.member, "x", file="a" * 201).status_code == 422
    too_large = post(site, site.member, " " * (33 << 20))  # more than limits.megabytes
    assert too_large.status_code == 413
    assert too_large.text.startswith("At most 32 MB are taken")
    assert post(site, site.member, "[]").status_code == 201
    site.work()


def test_the_client_reports_errors(site, tmp_path):
    path = tmp_path / "a.json"
    with says("a.json: No such file"):
        ChallengeClient(site.url, site.member).submit(path, "small_captions")
    path.write_text("[]")
    with says("the site shows you nothing of this name"):
        ChallengeClient(site.url, site.member).submit(path, "other")
    with says("the site does not know this token, or it was revoked"):
        ChallengeClient(site.url, "nobody").submit(path, "small_captions")
    path.write_text(" " * (33 << 20))
    with says(f"{path}: 34,603,008 bytes, more than {site.url} takes (At most 32 MB are taken.)"):
        ChallengeClient(site.url, site.member).submit(path, "small_captions")
    path.write_text("[]")
    with says("127.0.0.1:1"):
        ChallengeClient("http://127.0.0.1:1", "x").submit(path, "small_captions")
    with pytest.raises(InputError, match="this is not an answer of captau serve"):
        ChallengeClient(f"{site.url}/static/captau.css#", "x").submit(path, "small_captions")
