"""No reference and no rating in any answer, page, error or log, whatever is sent and whatever fails."""

from __future__ import annotations

import json
import re
import time

import requests

from captau.server.challenge.client import Client
from captau.server.challenge.migrations import FOLDER
from captau.server.storage.database import Database
from tests.server.challenge.conftest import captions, new_account, scores, write_challenge
from tests.server.challenge.test_intake import secrets

#: A metric that quotes what it was given when it fails.
LEAKY = """
def quoting(items):
    if len(items) > 2:
        raise ValueError(f"cannot score {items['references'].tolist()}")
    return [0.0] * len(items)
"""


def test_references_and_ratings_are_told_nowhere(tmp_path, served):
    (tmp_path / "leaky.py").write_text(LEAKY)
    for kind in ("captions", "metrics"):
        write_challenge(tmp_path, kind, statistics={"interval": "none"})
    write_challenge(
        tmp_path,
        name="leaky",
        metrics=["python(leaky:quoting)"],
        statistics={"interval": "none"},
    )
    server = served(f"challenge={tmp_path}", "database=site.sqlite3", PYTHONPATH=str(tmp_path))
    database = Database(str(tmp_path / "site.sqlite3"), FOLDER, "captau serve", guest=True)
    token, _ = new_account(database)
    client = Client(server.url, token)
    said = []
    broken = json.loads(captions())
    broken[1]["caption"] = "zqalpha"
    for name, kind, text in (
        ("good.json", "small_captions", captions()),
        ("half.json", "small_captions", json.dumps(broken[1:])),
        ("not.json", "small_captions", "{"),
        ("good.csv", "small_metrics", scores()),
        ("half.csv", "small_metrics", scores()[:300]),
        ("fails.json", "leaky", captions()),
    ):
        (tmp_path / name).write_text(text)
        sent = client.submit(tmp_path / name, kind)
        while not (found := client.submission(sent["id"]))["done"]:
            said.append(json.dumps(found))
            time.sleep(0.05)
        said.append(json.dumps(found))
        wanted = {"good": "scored", "fail": "failed"}.get(name[:4], "invalid")
        assert found["state"] == wanted, server.said
    assert found["reason"] == "the metrics could not be computed; ask whoever runs the challenge"
    database.close()
    said.append(server.said)
    assert "captau: submission 6: InputError at " in server.said

    # Every page and answer that can be reached without signing in, and by the token.
    headers = {"authorization": f"Bearer {token}"}
    seen, waiting = set(), ["/", "/api/challenges", "/api/submissions", "/admin", "/nothing"]
    names = ("small_captions", "small_metrics", "leaky")
    waiting += [f"/api/challenges/{n}{more}" for n in names for more in ("", "/items")]
    while waiting:
        path = waiting.pop()
        if path in seen or len(seen) > 150:
            continue
        seen.add(path)
        answer = requests.get(f"{server.url}{path}", headers=headers, timeout=30)
        said.append(answer.text + str(answer.headers))
        waiting += re.findall(r'(?:href|src|action)="(/[^"#]*)"', answer.text)
    assert len(seen) > 10
    every = "\n".join(said)
    assert "img00.png" in every  # what is public is there
    # Our own caption above is no leak, and no reference.
    leaked = [word for word in secrets() if word in every]
    assert leaked == []
