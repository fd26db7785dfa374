"""An evaluation in more memory or time than is given ends, its team is told, and the worker goes on."""

from __future__ import annotations

from captau.server.challenge.client import Client
from captau.server.challenge.migrations import FOLDER
from captau.server.storage.database import Database
from tests.server.challenge.conftest import captions, new_account, write_challenge

#: A metric that does what a caption says.
OBEDIENT = """
import time

import numpy as np


def obedient(items):
    said = set(items["caption"])
    if "take much memory" in said:
        np.ones(250_000_000)  # 2 GB
    if "take long" in said:
        time.sleep(3600)
    return [0.5] * len(items)
"""


def test_memory_and_time_are_bounded(tmp_path, served):
    (tmp_path / "obedient.py").write_text(OBEDIENT)
    path = write_challenge(
        tmp_path,
        metrics=["python(obedient:obedient)"],
        statistics={"interval": "none"},
        limits={"memory": 1500, "seconds": 3, "attempts": 2},
    )
    words = [f"challenge={path}", "database=site.sqlite3"]
    server = served(*words, PYTHONPATH=str(tmp_path))
    database = Database(str(tmp_path / "site.sqlite3"), FOLDER, "captau serve", guest=True)
    client = Client(server.url, new_account(database)[0])

    def sent(order):
        text = tmp_path / "a.json"
        text.write_text(captions(**{"img07.png": order}))
        return client.wait(client.submit(text, "small_captions")["id"])

    assert sent("be good")["state"] == "scored", server.said
    evaluating = set(server.children)
    found = sent("take much memory")
    assert (found["state"], found["reason"]) == (
        "failed",
        "it took more memory than is given; it was tried 2 times",
    ), server.said
    assert found["scores"] is None
    # The same process goes on: it has let go of what it had taken.
    assert set(server.children) == evaluating
    assert sent("be good again")["state"] == "scored", server.said
    found = sent("take long")
    assert (found["state"], found["reason"]) == (
        "failed",
        "evaluating it took too long; it was tried 2 times",
    ), server.said
    assert len(set(server.children) - evaluating) == 1  # another took its place
    found = sent("be good once more")
    assert found["state"] == "scored", server.said
    assert {row["value"] for row in found["scores"]} == {0.5}
    database.close()
