"""An evaluation that exceeds its limit of memory or time ends, its team learns why, and the worker continues."""

from __future__ import annotations

import pytest

from captau.datasets.errors import InputError
from captau.server.challenge import worker as worker_module
from captau.server.challenge.client import ChallengeClient
from captau.server.challenge.evaluation.caption_evaluator import CaptionEvaluator
from captau.server.challenge.submissions import load_status
from captau.server.challenge.tables import SCHEMA
from captau.server.challenge.worker import Worker, explain_failure
from captau.server.challenge.worker_pool import WorkKind
from captau.server.storage.database import Database
from tests.server.challenge.conftest import (
    captions_json,
    create_account,
    make_manual_worker,
    make_site,
    serve_options,
    write_challenge,
)

#: A metric that does what a caption says.
OBEDIENT_METRIC = """
import time

import numpy as np


def obedient(items):
    captions = set(items["caption"])
    if "take much memory" in captions:
        np.ones(250_000_000)  # 2 GB
    if "take long" in captions:
        time.sleep(3600)
    return [0.5] * len(items)
"""


def test_human_captions_are_scored_before_the_first_submission_and_once(tmp_path, monkeypatch):
    """Of an image's two references the last is held out: of six words, all but the first are the other's."""
    write_challenge(
        tmp_path,
        human="last",
        metrics=["rouge_l"],
        references=[{"name": "c2", "file": "references.json"}],
    )
    site = make_site(tmp_path)
    challenge = site.store.get_challenge("small_captions")
    make_manual_worker(tmp_path, site)
    scores = site.store.database.run_blocking(lambda c: load_status(c, challenge)).human_scores
    assert [(row["metric"], row["n"], row["note"]) for row in scores] == [
        ("rouge_l", 12, "against 1 others")
    ]
    assert scores[0]["value"] == pytest.approx(5 / 6)
    monkeypatch.setattr(CaptionEvaluator, "score_human_captions", None)  # is not called again
    make_manual_worker(tmp_path, site)
    site.store.database.close()


def test_a_failure_is_told_with_whether_another_attempt_may_help():
    """A lack of memory or an error of captau may pass; what the submission or a metric is at fault for does not."""
    without_memory = ValueError("shape")
    without_memory.__cause__ = MemoryError()
    evaluate = WorkKind.EVALUATE
    assert explain_failure(without_memory, evaluate) == ("it took more memory than is given", False)
    assert explain_failure(KeyError("x"), evaluate) == ("something went wrong here", False)
    assert explain_failure(InputError("x"), WorkKind.CHECK) == ("it could not be read", True)
    reason, is_final = explain_failure(InputError("x"), evaluate)
    assert (reason.startswith("the metrics could not be computed"), is_final) == (True, True)


@pytest.mark.kill
def test_memory_and_time_are_bounded(tmp_path, start_serve):
    (tmp_path / "obedient.py").write_text(OBEDIENT_METRIC)
    path = write_challenge(
        tmp_path,
        metrics=["python(obedient:obedient)"],
        statistics={"interval": "none"},
        limits={"memory": 1500, "seconds": 8, "attempts": 2},
    )
    words = [f"challenge={path}", "database=site.sqlite3"]
    server = start_serve(*words, PYTHONPATH=str(tmp_path))
    database = Database(tmp_path / "site.sqlite3", SCHEMA, guest=True)
    client = ChallengeClient(server.url, create_account(database)[0])

    def evaluate(order):
        file = tmp_path / "a.json"
        file.write_text(captions_json(**{"img07.png": order}))
        return client.wait(client.submit(file, "small_captions")["id"])

    assert evaluate("be good")["state"] == "scored", server.output
    worker_pids = set(server.worker_pids)
    submission = evaluate("take much memory")
    assert (submission["state"], submission["reason"]) == (
        "failed",
        "it took more memory than is given; it was tried 2 times",
    ), server.output
    assert submission["scores"] is None
    # The same process continues: it has released the memory.
    assert set(server.worker_pids) == worker_pids
    assert evaluate("be good again")["state"] == "scored", server.output
    submission = evaluate("take long")
    assert (submission["state"], submission["reason"]) == (
        "failed",
        "evaluating it took too long; it was tried 2 times",
    ), server.output
    submission = evaluate("be good once more")
    assert submission["state"] == "scored", server.output
    assert len(set(server.worker_pids) - worker_pids) == 1  # a new worker replaced it
    assert {row["value"] for row in submission["scores"]} == {0.5}
    database.close()


def test_an_error_is_told_by_its_type_and_innermost_lines_alone():
    def deep(n):
        if not n:
            raise KeyError("a private reference")
        deep(n - 1)

    with pytest.raises(KeyError) as raised:
        deep(4)
    first = deep.__code__.co_firstlineno
    places = [first + 2, first + 3, first + 3]
    lines = " < ".join(f"test_worker.py:{line}" for line in places)
    assert worker_module.locate_error(raised.value) == f"KeyError at {lines}"


def test_of_several_challenges_the_largest_memory_holds(tmp_path):
    for kind, memory in (("captions", 1500), ("metrics", 2000)):
        write_challenge(tmp_path, kind, limits={"memory": memory})
    site = make_site(tmp_path)
    setup = {**vars(serve_options(tmp_path)), "kind": "check", "name": "w"}
    assert Worker(setup)._memory == 2000 << 20
    site.store.database.close()
