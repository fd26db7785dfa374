"""No reference and no rating is in any answer, page, error or log, whatever is sent and whatever fails."""

from __future__ import annotations

import json
import re
import time

import pytest
import requests

from captau.server.challenge.client import ChallengeClient
from captau.server.challenge.tables import SCHEMA
from captau.server.storage.database import Database
from tests.server.challenge.conftest import (
    captions_json,
    create_account,
    private_texts,
    scores_csv,
    write_challenge,
)

#: A metric whose error quotes its input.
LEAKY_METRIC = """
def quoting(items):
    if len(items) > 2:
        raise ValueError(f"cannot score {items['references'].tolist()}")
    return [0.0] * len(items)
"""


@pytest.mark.slow
def test_references_and_ratings_are_in_no_output(tmp_path, start_serve):
    (tmp_path / "leaky.py").write_text(LEAKY_METRIC)
    no_interval = {"interval": "none"}
    for kind in ("captions", "metrics"):
        write_challenge(tmp_path, kind, statistics=no_interval)
    metrics = ["python(leaky:quoting)"]
    write_challenge(tmp_path, name="leaky", metrics=metrics, statistics=no_interval)
    words = [f"challenge={tmp_path}", "database=site.sqlite3"]
    server = start_serve(*words, PYTHONPATH=str(tmp_path))
    database = Database(tmp_path / "site.sqlite3", SCHEMA, guest=True)
    token, _ = create_account(database)
    client = ChallengeClient(server.url, token)
    outputs = []
    broken = json.loads(captions_json())
    broken[1]["caption"] = "zqalpha"
    for name, challenge, text, state in (
        ("good.json", "small_captions", captions_json(), "scored"),
        ("half.json", "small_captions", json.dumps(broken[1:]), "invalid"),
        ("not.json", "small_captions", "{", "invalid"),
        ("good.csv", "small_metrics", scores_csv(), "scored"),
        ("half.csv", "small_metrics", scores_csv()[:300], "invalid"),
        ("fails.json", "leaky", captions_json(), "failed"),
    ):
        (tmp_path / name).write_text(text)
        key = client.submit(tmp_path / name, challenge)["id"]
        while not (submission := client.submission(key))["done"]:
            outputs.append(json.dumps(submission))
            time.sleep(0.05)
        outputs.append(json.dumps(submission))
        assert submission["state"] == state, server.output
    reason = "the metrics could not be computed; ask whoever runs the challenge"
    assert submission["reason"] == reason
    database.close()
    outputs.append(server.output)
    assert "captau: submission 6: InputError at " in server.output

    # Follow all links that can be reached without signing in, and by the token.
    headers = {"authorization": f"Bearer {token}"}
    names = ("small_captions", "small_metrics", "leaky")
    queue = ["/", "/api/challenges", "/api/submissions", "/admin", "/nothing"]
    queue += [f"/api/challenges/{name}{page}" for name in names for page in ("", "/items")]
    visited = set()
    while queue:
        path = queue.pop()
        if path in visited or len(visited) > 150:
            continue
        visited.add(path)
        response = requests.get(f"{server.url}{path}", headers=headers, timeout=30)
        outputs.append(response.text + str(response.headers))
        queue += re.findall(r'(?:href|src|action)="(/[^"#]*)"', response.text)
    assert len(visited) > 10
    text = "\n".join(outputs)
    assert "img00.png" in text  # public data
    # "zqalpha" above is our own caption, and no reference.
    assert [private for private in private_texts() if private in text] == []
