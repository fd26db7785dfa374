"""METEOR aligned in a process of its own: the same scores as without, also where that process is killed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from captau.metrics.text.meteor import aligner_process

CODE = """
import os, signal, sys
from captau.metrics.text.meteor import aligner_process, metric

rows = [("a dog runs", ("the dogs ran", "a cat")), ("two cars", ("one automobile", "cars"))]
def scores():
    return [metric.meteor_scores(s).tolist() for s in metric.best_statistics(*zip(*rows))]

alone = scores()
aligner_process.start_ahead()
(process,) = aligner_process._unused
if sys.argv[1] == "killed":
    os.kill(process.pid, signal.SIGKILL)
metric._aligner_process.cache_clear()
metric._aligner.cache_clear()
assert scores() == alone and len(alone[0]) == 2
assert metric._aligner_process(metric.ENGLISH) is process
print(metric._aligner.cache_info().currsize)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no process is forked")
@pytest.mark.parametrize(("fate", "n_own_aligners"), [("alive", "0"), ("killed", "1")])
def test_a_process_aligns_as_captau_itself_does(fate, n_own_aligners):
    done = subprocess.run(
        [sys.executable, "-c", CODE, fate], capture_output=True, text=True, check=False
    )
    assert (done.stdout.strip(), done.stderr) == (n_own_aligners, "")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no process is forked")
@pytest.mark.parametrize(
    "fault",
    [
        "os.fork = lambda: (_ for _ in ()).throw(BlockingIOError(11, 'no more processes'))",
        "sys.modules['numba'] = None",
        "sys.modules['llvmlite'] = None",
    ],
)
def test_a_process_that_cannot_start_or_load_says_nothing(fault):
    """Captau computes METEOR by itself then, or says that it is not installed."""
    code = f"""
import os, sys
{fault}
from captau.metrics.text.meteor import aligner_process
aligner_process.start_ahead()
if process := aligner_process.take_started():
    process._connection.close()
    os.waitpid(process.pid, 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("platform", "n_threads", "n_cores", "n_started"),
    [("linux", 1, 2, 1), ("linux", 1, 1, 0), ("linux", 2, 2, 0), ("darwin", 1, 2, 0)],
)
def test_one_process_starts_where_forking_is_safe_and_a_core_is_free(
    platform, n_threads, n_cores, n_started, monkeypatch
):
    monkeypatch.setattr(aligner_process, "_unused", [])
    monkeypatch.setattr(aligner_process, "AlignerProcess", object)
    monkeypatch.setattr(aligner_process, "count_cores", lambda: n_cores)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr("threading.active_count", lambda: n_threads)
    aligner_process.start_ahead()
    aligner_process.start_ahead()
    assert len(aligner_process._unused) == n_started
    assert (aligner_process.take_started() is not None) == bool(n_started)
    assert aligner_process.take_started() is None
