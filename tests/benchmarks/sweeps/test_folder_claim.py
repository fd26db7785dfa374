"""Claims of a folder by hand: who holds it, when a claim is stale, and which number comes next."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from captau.benchmarks.sweeps import folder_claim
from captau.benchmarks.sweeps.folder_claim import (
    STALE,
    FolderClaim,
    FolderInUseError,
    claim_holder,
    machine_name,
)

NOW = 1_000_000.0


@pytest.fixture
def clock(monkeypatch):
    """The folder's clock stands still; no process of another machine is looked for."""
    monkeypatch.setattr(folder_claim, "_now", lambda folder: NOW)
    monkeypatch.setattr(folder_claim, "is_process_alive", lambda process: process == 7)


def claim(folder, number, text, age):
    path = folder / f".claim.{number}"
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    os.utime(path, (NOW - age, NOW - age))
    return path


HERE, THERE = "here", "node1 pid:[1]"


@pytest.mark.parametrize(
    ("text", "age", "holder"),
    [
        ("", 0, "another process"),
        ("{", STALE - 1, "another process"),
        ("{", STALE, None),
        ('{"place": "x"}', 0, "another process"),
        ('{"place": "x", "process": "y"}', 0, "another process"),
        ("[]", STALE + 1, None),
        ({"place": THERE, "process": 3}, STALE - 1, "process 3 on node1"),
        ({"place": THERE, "process": 3}, STALE, None),
        ({"place": HERE, "process": 3}, 0, None),
        ({"place": HERE, "process": 7}, 0, "process 7 on here"),
        ({"place": HERE, "process": 7}, STALE + 1, None),
    ],
)
def test_a_claim_is_held_while_it_is_renewed_and_its_process_lives(
    text, age, holder, tmp_path, clock, monkeypatch
):
    monkeypatch.setattr(folder_claim, "machine_name", lambda: HERE)
    assert claim_holder(tmp_path) is None
    path = claim(tmp_path, 4, text, age)
    assert claim_holder(tmp_path) == holder
    if holder:
        with pytest.raises(FolderInUseError) as error, FolderClaim(tmp_path):
            pass
        assert str(error.value) == f"{tmp_path} is in use by {holder}"
        assert [p.name for p in tmp_path.iterdir()] == [".claim.4"]
    else:
        with FolderClaim(tmp_path):
            assert [p.name for p in tmp_path.iterdir()] == [".claim.5"]
        assert list(tmp_path.iterdir()) == []
        assert not path.exists()


def test_claims_are_numbered_from_1_and_other_names_are_none(tmp_path):
    (tmp_path / ".claim.x").write_text("")
    with FolderClaim(tmp_path):
        record = json.loads((tmp_path / ".claim.1").read_text())
        assert record == {"place": machine_name(), "process": os.getpid()}
        assert claim_holder(tmp_path).startswith(f"process {os.getpid()} on ")
    assert [p.name for p in tmp_path.iterdir()] == [".claim.x"]


def test_a_claim_that_another_made_meanwhile_is_respected(tmp_path, clock, monkeypatch):
    monkeypatch.setattr(folder_claim, "claim_holder", lambda folder: None)
    claim(tmp_path, 1, {"place": THERE, "process": 3}, 0)
    with pytest.raises(FolderInUseError, match="process 3 on node1"), FolderClaim(tmp_path):
        pass
    assert [p.name for p in tmp_path.iterdir()] == [".claim.1"]
    monkeypatch.setattr(folder_claim, "_claims", lambda folder: {})
    with pytest.raises(FolderInUseError, match="in use by another process"), FolderClaim(tmp_path):
        pass


def test_a_claim_is_renewed_by_a_thread_that_ends_with_the_process(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_claim, "BEAT", 0.005)
    before = set(threading.enumerate())
    one = FolderClaim(tmp_path)
    with one:
        (thread,) = set(threading.enumerate()) - before
        assert thread.daemon
        path = tmp_path / ".claim.1"

        def is_renewed():
            os.utime(path, (1, 1))
            end = time.monotonic() + 5
            while path.stat().st_mtime == 1 and time.monotonic() < end:
                time.sleep(0.002)
            return path.stat().st_mtime > 1

        assert is_renewed()
        # The folder cannot be reached for a while; the thread goes on.
        hidden = path.rename(tmp_path / "hidden")
        time.sleep(0.03)
        hidden.rename(path)
        assert is_renewed()
    thread.join(5)
    assert not thread.is_alive()


def test_a_claim_is_held_by_one(tmp_path):
    with FolderClaim(tmp_path):
        assert claim_holder(tmp_path).startswith(f"process {os.getpid()} on ")
        with pytest.raises(FolderInUseError, match="is in use by process"), FolderClaim(tmp_path):
            pass
    assert claim_holder(tmp_path) is None
    assert not list(tmp_path.iterdir())


def test_of_many_at_once_one_gets_the_claim(tmp_path):
    inside, peak, lock = 0, 0, threading.Lock()
    claimants = []

    def take(n):
        nonlocal inside, peak
        try:
            with FolderClaim(tmp_path):
                with lock:
                    inside += 1
                    peak = max(peak, inside)
                    claimants.append(n)
                time.sleep(0.002)
                with lock:
                    inside -= 1
        except FolderInUseError:
            pass

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(take, range(300)))
    assert peak == 1
    assert claimants


@pytest.mark.parametrize("dead", ["process", "beat"])
def test_a_dead_holders_claim_is_overtaken(tmp_path, monkeypatch, dead):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    holder = {"place": machine_name(), "process": gone.pid}
    if dead == "beat":
        holder = {"place": "another machine", "process": os.getpid()}
    path = tmp_path / ".claim.4"
    path.write_text(json.dumps(holder))
    if dead == "beat":
        assert claim_holder(tmp_path) == f"process {os.getpid()} on another"
        old = time.time() - STALE - 1
        os.utime(path, (old, old))
    assert claim_holder(tmp_path) is None
    with FolderClaim(tmp_path):
        assert [p.name for p in tmp_path.iterdir()] == [".claim.5"]


def test_a_holder_is_known_to_live_by_its_beat(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_claim, "BEAT", 0.02)
    with FolderClaim(tmp_path):
        path = tmp_path / ".claim.1"
        os.utime(path, (0, 0))
        for _ in range(3000):
            if path.stat().st_mtime > 0:
                break
            time.sleep(0.02)
        assert claim_holder(tmp_path)


def test_a_claim_that_is_let_go_of_meanwhile_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_claim, "_claims", lambda folder: {3: tmp_path / ".claim.3"})
    assert claim_holder(tmp_path) is None
    with FolderClaim(tmp_path):
        assert [p.name for p in tmp_path.iterdir()] == [".claim.4"]


def test_a_folder_that_is_emptied_meanwhile_is_let_go_of(tmp_path):
    with FolderClaim(tmp_path):
        (tmp_path / ".claim.1").unlink()
    assert list(tmp_path.iterdir()) == []


def test_the_clock_of_a_folder_that_cannot_be_written_is_the_machines(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_claim.time, "time", lambda: NOW)
    claim(tmp_path, 1, {"place": THERE, "process": 3}, STALE - 1)
    assert claim_holder(tmp_path) is None  # by the file system's clock, years later

    def refuse(**_):
        raise PermissionError

    monkeypatch.setattr(folder_claim.tempfile, "TemporaryFile", refuse)
    assert claim_holder(tmp_path) == "process 3 on node1"


def test_a_holder_renews_its_claim_often_enough():
    """A dozen times before it counts as gone."""
    assert (folder_claim.BEAT, STALE) == (10.0, 120.0)
