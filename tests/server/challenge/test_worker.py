"""An evaluation that exceeds its limit of memory or time ends, its team learns why, and the worker continues."""

from __future__ import annotations

import os
import signal
import threading
from types import SimpleNamespace

import pytest

from captau.datasets.errors import InputError
from captau.server.challenge import worker as worker_module
from captau.server.challenge.client import ChallengeClient
from captau.server.challenge.evaluation.caption_evaluator import CaptionEvaluator
from captau.server.challenge.submissions import load_status
from captau.server.challenge.tables import SCHEMA
from captau.server.challenge.worker import Worker, _failure_reason
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
    assert _failure_reason(without_memory, evaluate) == ("it took more memory than is given", False)
    assert _failure_reason(KeyError("x"), evaluate) == ("something went wrong here", False)
    assert _failure_reason(InputError("x"), WorkKind.CHECK) == ("it could not be read", True)
    reason, is_final = _failure_reason(InputError("x"), evaluate)
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
    database = Database(str(tmp_path / "site.sqlite3"), SCHEMA, guest=True)
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


def make_worker(kind=WorkKind.EVALUATE, **fields):
    """Return a worker without a site, and what it is told to record."""
    made, recorded = Worker.__new__(Worker), []
    lifecycle = SimpleNamespace(record_progress=lambda *args: recorded.append(args))
    vars(made).update({"_kind": kind, "_name": "w", "_lifecycle": lifecycle, **fields})
    return made, recorded


def test_progress_is_recorded_each_half_second(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(worker_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    worker, recorded = make_worker()
    report = worker._make_reporter(7)
    for now[0] in (0.0, 0.25, 0.5, 0.75, 0.9, 1.0, 5.0):
        report(now[0] / 10, f"at {now[0]}")
    assert recorded == [(7, "w", t / 10, f"at {t}") for t in (0.0, 0.5, 1.0, 5.0)]


@pytest.mark.parametrize(("kind", "niceness"), [(WorkKind.CHECK, 10), (WorkKind.EVALUATE, 15)])
def test_a_worker_looks_each_fifth_of_a_second_and_ends_after_five_minutes(
    monkeypatch, kind, niceness
):
    """Two submissions wait: at once, and after a minute without work."""
    now, done, steps = [1000.0], [], []

    def sleep(seconds):
        steps.append(seconds)
        now[0] += seconds

    def work():
        is_there = (now[0] == 1000.0 and not done) or (now[0] > 1060.0 and len(done) == 1)
        if is_there:
            done.append(now[0])
        return is_there

    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=sleep)
    monkeypatch.setattr(worker_module, "time", clock)
    limits, worker = [], make_worker(kind, _memory=5)[0]
    monkeypatch.setattr(worker_module, "_limit_resources", lambda *args: limits.append(args))
    worker.work, worker.warm_up = work, lambda: limits.append("warm")
    worker.run()
    assert (limits, set(steps), len(done)) == ([(5, niceness), "warm"], {0.2}, 2)
    assert now[0] - done[1] == pytest.approx(300.0, abs=0.21)


def test_memory_and_priority_are_limited_where_the_system_can(monkeypatch):
    resource, calls = pytest.importorskip("resource"), []
    monkeypatch.setattr(os, "nice", lambda number: calls.append(number))
    monkeypatch.setattr(resource, "setrlimit", lambda *args: calls.append(args))
    worker_module._limit_resources(3 << 20, 15)
    assert calls == [15, (resource.RLIMIT_DATA, (3_145_728, 3_145_728))]
    for error in (OSError, ValueError):

        def fail(*_, error=error):
            raise error

        monkeypatch.setattr(resource, "setrlimit", fail)
        worker_module._limit_resources(1, 1)


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
    assert worker_module._locate(raised.value) == f"KeyError at {lines}"


def test_a_lack_of_memory_is_found_among_the_causes():
    outer, inner = ValueError(), KeyError()
    outer.__cause__ = inner
    is_memory_error = worker_module._is_memory_error
    assert not is_memory_error(outer)
    inner.__cause__ = MemoryError()
    assert [is_memory_error(e) for e in (outer, inner, MemoryError(), None)] == [True] * 3 + [False]


@pytest.mark.parametrize("fails", [False, True])
def test_a_worker_s_process_reads_its_setup_and_ends_with_the_server(monkeypatch, caplog, fails):
    is_closed, ended, setups = threading.Event(), threading.Event(), []

    class Stdin:
        def readline(self):
            return b'{"kind": "check"}\n'

        def read(self):
            is_closed.wait(20)

    class Stub:
        def __init__(self, setup):
            setups.append(setup)

        def run(self):
            is_closed.set()
            assert ended.wait(20)
            if fails:
                raise KeyError("a private reference")

    kills = []
    monkeypatch.setattr(worker_module.sys, "stdin", SimpleNamespace(buffer=Stdin()))
    monkeypatch.setattr(worker_module, "Worker", Stub)
    monkeypatch.setattr(
        worker_module,
        "os",
        SimpleNamespace(kill=lambda *a: (kills.append(a), ended.set()), getpid=lambda: 12),
    )
    if fails:
        with pytest.raises(SystemExit) as raised:
            worker_module.main()
        assert raised.value.code == 2
        (message,) = caplog.messages
        assert message.startswith("a worker ended: KeyError at test_worker.py:")
    else:
        worker_module.main()
    assert (setups, kills) == ([{"kind": "check"}], [(12, signal.SIGTERM)])


def test_of_several_challenges_the_largest_memory_holds(tmp_path):
    for kind, memory in (("captions", 1500), ("metrics", 2000)):
        write_challenge(tmp_path, kind, limits={"memory": memory})
    site = make_site(tmp_path)
    setup = {**vars(serve_options(tmp_path)), "kind": "check", "name": "w"}
    assert Worker(setup)._memory == 2000 << 20
    site.store.database.close()
