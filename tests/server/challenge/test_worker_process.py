"""A worker's process and the pool that looks after it, with a shell's commands in place of workers."""

from __future__ import annotations

import json
import subprocess
import time

import pytest

from captau.server.challenge import worker_pool
from captau.server.challenge.worker_pool import WorkerPool, WorkerProcess, WorkKind
from tests.server.conftest import stop_seconds


@pytest.fixture
def shell(monkeypatch):
    """Return a function that sets what the shell does in place of a worker."""
    start = subprocess.Popen

    def do(command):
        def run(_, **options):
            return start(["sh", "-c", command], **options)

        monkeypatch.setattr(worker_pool.subprocess, "Popen", run)

    return do


@pytest.fixture
def frequent_looks(monkeypatch):
    """Let the pool look after its workers a hundred times a second."""
    monkeypatch.setattr(worker_pool, "_LOOK_INTERVAL", 0.01)


class Lifecycle:
    """Notes which workers' submissions are given up and why."""

    def __init__(self, is_overdue=False):
        self.reasons = {}
        self.overdue = is_overdue
        self.is_empty = False

    def has_unfinished(self):
        return not self.is_empty

    def is_overdue(self, name):
        return self.overdue

    def give_up(self, name, reason):
        self.reasons[name] = reason


def test_a_process_gets_its_setup_and_tells_how_it_ended(shell, tmp_path):
    worker = WorkerProcess(WorkKind.CHECK, {"database": "x"})
    assert (worker.is_alive, worker.is_started, worker.exit_text) == (False, False, "status 0")
    shell(f"head -1 >{tmp_path}/setup; exit 3")
    worker.start()
    assert worker.is_started
    worker._process.wait()
    setup = json.loads((tmp_path / "setup").read_text())
    assert setup == {"database": "x", "kind": "check", "name": worker.name}
    assert (worker.is_alive, worker.exit_text) == (False, "status 3")
    shell("exec sleep 60")
    worker.start()
    assert worker.is_alive
    assert worker.name != setup["name"]
    worker.kill()
    assert (worker.is_alive, worker.exit_text) == (False, "signal 9")


def test_a_process_that_ends_soon_pauses_longer(shell, monkeypatch):
    """No pause after a long life; then 0.2 seconds, and twice as long each time, up to 30."""
    now = stop_seconds(monkeypatch, worker_pool, 1000.0)
    shell("exit 0")
    worker = WorkerProcess(WorkKind.EVALUATE, {})
    assert worker.may_restart
    worker.start()
    pauses = []
    for _ in range(9):
        now[0] += 1e-6
        worker.start()
        started = now[0]
        for pause in (0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0):
            now[0] = started + pause - 1e-3
            if not worker.may_restart:
                now[0] = started + pause + 1e-3
                if worker.may_restart:
                    pauses.append(pause)
        now[0] = started
    assert pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0]
    now[0] += 11
    worker.start()
    now[0] += 1e-3
    assert worker.may_restart


@pytest.mark.parametrize(
    ("command", "is_overdue", "reasons"),
    [
        ("exit 3", False, {"the process that was at work on it ended (status 3)"}),
        ("exec sleep 60", True, {"checking it took too long", "evaluating it took too long"}),
    ],
)
def test_the_pool_gives_up_what_an_ended_or_slow_worker_had_begun(
    shell, frequent_looks, command, is_overdue, reasons
):
    shell(command)
    lifecycle = Lifecycle(is_overdue)
    pool = WorkerPool(lifecycle, {}, n_evaluating=2)
    kinds = [worker.kind for worker in pool._workers]
    assert kinds == [WorkKind.CHECK, WorkKind.EVALUATE, WorkKind.EVALUATE]
    pool.start()
    deadline = time.monotonic() + 20
    while len(lifecycle.reasons) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    pool.stop()
    assert set(lifecycle.reasons.values()) == reasons
    assert not any(worker.is_alive for worker in pool._workers)


def test_no_worker_starts_without_submissions_unless_people_are_to_be_scored(shell, frequent_looks):
    shell("exec sleep 60")
    for starts_at_once in (False, True):
        lifecycle = Lifecycle()
        lifecycle.is_empty = True
        pool = WorkerPool(lifecycle, {}, starts_at_once=starts_at_once)
        pool.start()
        time.sleep(0.2)
        assert [worker.is_alive for worker in pool._workers] == [starts_at_once] * 2
        pool.stop()
