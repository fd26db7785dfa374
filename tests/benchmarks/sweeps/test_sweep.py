"""Sweeps: each launcher, jobs that fail or die, folders that are claimed, and jobs that run again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from captau.benchmarks.sweeps import jobs
from captau.benchmarks.sweeps.folder_claim import FolderClaim
from captau.benchmarks.sweeps.jobs import read_sweep
from tests.benchmarks.sweeps.slurm import stand_in

pytestmark = pytest.mark.cluster

#: Cheap: no intervals, no ceilings.
CHEAP = ("statistics.interval=none", "ceilings=false")

#: A metric that kills the process it runs in, and one that waits until it may go on.
METRICS = """
import os, signal, time
from pathlib import Path

def deadly(items):
    os.kill(os.getpid(), signal.SIGKILL)

def patient(items):
    Path("begun").touch()
    while not Path("go").exists():
        time.sleep(0.05)
    return items["caption"].str.len().astype(float)

def broken(items):
    raise ZeroDivisionError
"""


@pytest.fixture
def captau(captau, tmp_path, monkeypatch):
    """Return the program in a folder with metrics of its own."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_metrics.py").write_text(METRICS, encoding="utf-8")
    monkeypatch.delitem(sys.modules, "own_metrics", raising=False)
    return captau


def states(folder):
    sweep = read_sweep(Path(folder))
    return [sweep.outcome(number).state for number in range(len(sweep.jobs))]


def write_times(folder):
    return [(folder / "sweep" / n / "correlations.csv").stat().st_mtime_ns for n in "02"]


def start_time(folder, number):
    return json.loads((Path(folder) / str(number) / "job.json").read_text())["started"]


def test_a_job_that_fails_leaves_the_others_alone_and_is_run_again_alone(captau, tmp_path):
    (tmp_path / "mine.csv").write_text("item_id,score\n")
    words = ("bench", "-m", 'metrics=[rouge_1],["file(path=mine.csv,name=Mine)"],[rouge_2]', *CHEAP)
    status, out, err = captau(*words, "output_dir=sweep")
    assert status == 2
    assert states("sweep") == ["done", "failed", "done"]
    assert err.startswith('captau: job 1 (metrics=["file(path=mine.csv,name=Mine)"]): mine.csv')
    assert err.count("\n") == 1
    assert "3 jobs: 2 done, 1 failed" in out
    before = write_times(tmp_path)
    path = tmp_path / "sweep" / "2" / "job.json"  # as another version would have left it
    path.write_text(json.dumps({**json.loads(path.read_text()), "captau": "0.0"}))

    items = __import__("captau").load("demo").items
    items.assign(score=1.0)[["item_id", "score"]].to_csv("mine.csv", index=False)
    status, out, err = captau(*words, "output_dir=sweep")
    assert (status, err) == (0, "")
    assert states("sweep") == ["done"] * 3
    after = write_times(tmp_path)
    assert before[0] == after[0], "what was done is not done again"
    assert before[1] < after[1], "but for what another version did"


def test_a_fault_of_captaus_is_stored_with_its_traceback(captau):
    status, _, err = captau(
        "bench", "-m", 'metrics=["python(own_metrics:broken)"],[rouge_1]', *CHEAP, "output_dir=s"
    )
    record = json.loads(Path("s/0/job.json").read_text())
    assert record["state"] == "failed"
    assert status == record["status"]
    assert "ZeroDivisionError" in err
    assert err.count("\n") == 1
    assert states("s") == ["failed", "done"]


def test_a_job_leaves_no_variable_behind_for_the_next(captau, monkeypatch):
    monkeypatch.delenv("CAPTAU_JAVA", raising=False)
    cache = os.environ["CAPTAU_CACHE"]
    assert captau("bench", "-m", "metrics=[rouge_1],[rouge_2]", *CHEAP, "cache.root=own")[0] == 0
    assert os.environ["CAPTAU_CACHE"] == cache


def test_a_folder_belongs_to_one_sweep(captau):
    assert captau("bench", "-m", "metrics=[rouge_1],[rouge_2]", *CHEAP, "output_dir=sweep")[0] == 0
    status, _, err = captau("bench", "-m", "metrics=[rouge_1],[rouge_l]", "output_dir=sweep")
    assert status == 2
    assert "sweep is the folder of another sweep, of 2 jobs of captau bench; set output_dir" in err
    with FolderClaim(Path("sweep")):
        status, _, err = captau("bench", "-m", "metrics=[rouge_1],[rouge_2]", "output_dir=sweep")
    assert status == 2
    assert f"is in use by process {os.getpid()} on" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["hydra/launcher=nope"], "unknown hydra/launcher 'nope'"),
        (["hydra/sweeper=nope"], "unknown hydra/sweeper 'nope'"),
        (["hydra/launcher=slurm"], "hydra/launcher=slurm: Could not detect"),
        (["hydra/launcher=ray", "hydra.launcher.address=127.0.0.1:1"], "cannot be reached"),
        (["hydra.mode=MULTIRUN"], "hydra.mode cannot be set"),
        (["statistics.replicates=1,two"], "a whole number is expected"),
    ],
)
def test_a_sweep_that_cannot_start_leaves_nothing(captau, tmp_path, words, message):
    status, _, err = captau("bench", "-m", "metrics=[rouge_1],[rouge_2]", "output_dir=s", *words)
    assert status == 2
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("launcher", "extra"), [("joblib", "sweeps"), ("slurm", "sweeps"), ("ray", "ray")]
)
def test_a_missing_extra_is_one_line(captau, monkeypatch, launcher, extra):
    monkeypatch.setattr(jobs, "find_spec", lambda _: None)
    status, _, err = captau("bench", "-m", f"hydra/launcher={launcher}", "metrics=[rouge_1]")
    assert status == 2
    assert err.startswith(f"captau: hydra/launcher={launcher} needs ")
    assert err.endswith(f"pip install 'captau[{extra}]'\n")


@pytest.fixture
def short_folder():
    """Yield a folder whose name leaves room for that of a socket."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.mark.parametrize(
    ("launcher", "options"),
    [
        ("joblib", ["hydra.launcher.n_jobs=2"]),
        ("submitit_local", []),
        ("slurm", ["hydra.launcher.partition=some", "hydra.launcher.timeout_min=7"]),
        ("ray", ["hydra.launcher.max_retries=0"]),
    ],
)
def test_a_launcher_outlives_a_job_whose_process_is_killed(
    captau, tmp_path, monkeypatch, launcher, options, short_folder
):
    """The other jobs' numbers are those of a run by itself; a cluster that is gone does not matter."""
    monkeypatch.setenv("RAY_TMPDIR", str(short_folder))
    (short_folder / "ray").mkdir()
    (short_folder / "ray" / "ray_current_cluster").write_text("127.0.0.1:1")
    slurm = stand_in(tmp_path / "slurm")
    # submitit waits so long for a dead job's result, which a network file system may show late.
    monkeypatch.setattr("submitit.Job._results_timeout_s", 1)
    if launcher == "slurm":
        monkeypatch.setenv("PATH", str(slurm), prepend=os.pathsep)
    status, out, err = captau(
        *("bench", "-m", f"hydra/launcher={launcher}", *options, "output_dir=sweep", *CHEAP),
        'metrics=["python(own_metrics:deadly)"],[rouge_1]',
    )
    assert status == 1, err
    assert "2 jobs: 1 done, 1 failed" in out
    (line,) = [line for line in err.splitlines() if line.startswith("captau: ")]
    assert line.startswith('captau: job 0 (metrics=["python(own_metrics:deadly)"]): its process ')
    assert states("sweep") == ["failed", "done"]
    assert "ROUGE-1" in (tmp_path / "sweep" / "1" / "output.txt").read_text(encoding="utf-8")
    assert captau("bench", "metrics=[rouge_1]", *CHEAP, "output_dir=alone")[0] == 0
    assert (
        Path("sweep/1/correlations.csv").read_bytes() == Path("alone/correlations.csv").read_bytes()
    )
    if launcher == "slurm":
        (script,) = (slurm / "jobs").glob("*.sh")
        lines = set(script.read_text(encoding="utf-8").splitlines())
        assert lines > {
            *("#SBATCH --array=0-1%2", "#SBATCH --partition=some", "#SBATCH --time=7"),
            *("#SBATCH --cpus-per-task=2", "#SBATCH --mem=8GB"),
        }


def test_a_killed_sweep_goes_on_where_it_stopped(captau, tmp_path):
    words = ["bench", "-m", 'metrics=[rouge_1],["python(own_metrics:patient)"],[rouge_2]', *CHEAP]
    words.append("output_dir=sweep")
    script = "from captau.benchmarks.cli.main import main; main()"
    running = subprocess.Popen(
        [sys.executable, "-c", script, *words],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.DEVNULL,
    )
    while not (tmp_path / "begun").exists():
        assert running.poll() is None
        time.sleep(0.05)
    assert states("sweep") == ["done", "running", "waiting"]
    status, _, err = captau(*words)
    assert status == 2, "two sweeps at once"
    assert f"is in use by process {running.pid}" in err
    running.send_signal(signal.SIGKILL)
    running.wait()
    assert states("sweep") == ["done", "killed", "waiting"]
    first = start_time("sweep", 0)
    (tmp_path / "go").touch()
    time.sleep(1.1)
    assert captau(*words)[0] == 0
    assert states("sweep") == ["done"] * 3
    assert start_time("sweep", 0) == first < start_time("sweep", 1)


def test_a_value_that_is_named_twice_is_one_job(captau):
    """Otherwise `Sweep.arguments` would not name the jobs that there are, and none could be run again."""
    words = ("bench", "-m", "metrics=[rouge_1],[rouge_2],[rouge_1]", *CHEAP, "output_dir=sweep")
    assert "2 jobs: 2 done" in captau(*words)[1]
    Path("sweep/1/job.json").unlink()
    status, out, _ = captau("table", "sweep=sweep", "rerun=true")
    assert (status, "2 jobs: 2 done" in out) == (0, True)
