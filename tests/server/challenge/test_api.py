"""The JSON interface: who may ask what, and what each answer says."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import requests

from captau.datasets.errors import InputError
from captau.server.challenge.client import Client, report
from tests.conftest import says
from tests.server.challenge.conftest import (
    CAPTIONS,
    REFERENCES,
    by_hand,
    captions,
    make_site,
    new_account,
    running,
    scores,
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A site that works by hand: its address, two teams' tokens, and the hand."""
    folder = tmp_path_factory.mktemp("site")
    opened = make_site(folder)
    opened.workers = None
    database = opened.store.database
    with running(opened) as url:
        ours, team = new_account(database, "ours")
        mate, _ = new_account(database, "mate", team)
        theirs, _ = new_account(database, "theirs")
        yield SimpleNamespace(
            url=url,
            api=f"{url}/api",
            site=opened,
            ours=ours,
            mate=mate,
            theirs=theirs,
            work=by_hand(folder, opened),
        )


def bearer(token):
    return {"authorization": f"Bearer {token}"}


def post(site, token, text, challenge="small_captions", **given):
    return requests.post(
        f"{site.api}/challenges/{challenge}/submissions",
        params={"file": "a.json", **given},
        data=text.encode(),
        headers=bearer(token),
        timeout=30,
    )


def get(site, path, token=None):
    headers = bearer(token) if token else {}
    return requests.get(f"{site.api}/{path}", headers=headers, timeout=30)


def test_challenges_are_told_without_what_is_private(site):
    found = get(site, "challenges").json()["challenges"]
    assert [c["name"] for c in found] == ["small_captions", "small_metrics"]
    assert found[0]["references"] == ["c2", "c1"]
    assert found[0]["open"] == "all"
    assert get(site, "challenges/small_metrics").json() == found[1]
    assert get(site, "challenges/other").status_code == 404
    items = [json.loads(x) for x in get(site, "challenges/small_captions/items").iter_lines()]
    assert items == [{"image_id": i} for i in REFERENCES]
    items = [json.loads(x) for x in get(site, "challenges/small_metrics/items").iter_lines()]
    assert [(i["image_id"], i["caption"]) for i in items] == CAPTIONS
    assert set(items[0]) == {"item_id", "image_id", "caption"}


def test_a_submission_is_followed_to_its_scores(site):
    client = Client(site.url, site.ours)
    sent = post(site, site.ours, captions(), system="mine", note="layer 9")
    assert sent.status_code == 201
    told = sent.json()
    assert (told["state"], told["system"], told["note"]) == ("received", "mine", "layer 9")
    again = post(site, site.ours, captions())
    assert (again.status_code, "still being checked" in again.json()["error"]) == (409, True)
    site.work()
    found = client.submission(told["id"])
    assert found["state"] == "scored"
    assert found["counts"]
    assert [(r["references"], r["metric"], r["n"]) for r in found["scores"]] == [
        ("c2", "rouge_l", 12),
        ("c2", "cider", 12),
        ("c1", "rouge_l", 5),
        ("c1", "cider", 5),
    ]
    assert "rouge_l" in found["run"]["signatures"]
    # All of the team see it, and nobody else.
    assert get(site, f"submissions/{told['id']}", site.mate).json() == found
    assert get(site, f"submissions/{told['id']}", site.theirs).status_code == 404
    assert get(site, f"submissions/{told['id']}").status_code == 401
    assert get(site, "submissions", site.theirs).json() == {"submissions": []}
    assert get(site, "submissions", site.mate).json()["submissions"][0] == found


def test_what_is_wrong_is_listed(site, capsys):
    sent = post(site, site.ours, captions(**{"img00.png": "", "other.png": "x"})).json()
    site.work()
    found = Client(site.url, site.ours).submission(sent["id"])
    assert (found["state"], found["n_faults"], found["counts"]) == ("invalid", 2, False)
    assert report(found) == 2
    said = capsys.readouterr()
    assert "captau: a.json: entry 12: unknown image 'other.png'" in said.err
    assert said.out.startswith("a.json: not valid: 2 faults")


def test_scores_of_a_metric(site, capsys):
    sent = post(site, site.theirs, scores(), "small_metrics", file="mine.csv").json()
    site.work()
    found = Client(site.url, site.theirs).submission(sent["id"])
    assert [r["metric"] for r in found["scores"]] == ["tau_b overall", "pearson overall"]
    assert report(found) == 0
    assert "pearson overall" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, 401), ({"authorization": "Bearer nobody"}, 401), ({"authorization": "Basic x"}, 401)],
)
def test_without_a_token_nothing_is_taken(site, headers, status):
    where = f"{site.api}/challenges/small_captions/submissions?file=a.json"
    answer = requests.post(where, data=b"[]", headers=headers, timeout=30)
    assert answer.status_code == status
    assert answer.headers["www-authenticate"] == "Bearer"


def test_what_is_not_taken_is_said(site):
    assert post(site, site.ours, "x", file="a.exe").status_code == 409
    assert post(site, site.ours, "x", challenge="other").status_code == 404
    assert post(site, site.ours, "x", file="a" * 201).status_code == 422
    big = post(site, site.ours, " " * (33 << 20))  # more than limits.megabytes
    assert big.status_code == 413
    assert big.text.startswith("At most 32,832 kB are taken")
    assert post(site, site.ours, "[]").status_code == 201
    site.work()


def test_the_client_says_what_is_wrong(site, tmp_path):
    path = tmp_path / "a.json"
    with says("a.json: No such file"):
        Client(site.url, site.ours).submit(path, "small_captions")
    path.write_text("[]")
    with says("there is no such thing"):
        Client(site.url, site.ours).submit(path, "other")
    with says("a token is needed"):
        Client(site.url, "nobody").submit(path, "small_captions")
    with says("127.0.0.1:1"):
        Client("http://127.0.0.1:1", "x").submit(path, "small_captions")
    with pytest.raises(InputError, match="no answer of captau serve"):
        Client(f"{site.url}/static/captau.css#", "x").submit(path, "small_captions")
