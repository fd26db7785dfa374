"""A run of several datasets writes each as it is done: what is done outlives SIGKILL, and a repeat completes it."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pandas as pd
import pytest

pytestmark = pytest.mark.kill

RATINGS = "image,caption,value,system\na,one,1,x\na,two three,2,y\nb,four,2,x\nb,five six,3,y\n"
#: A metric that waits for ever on the second dataset, unless the file `go` is there.
SLOW = """
import time
from pathlib import Path

def score(items):
    while "five six" in set(items["caption"]) and not Path("go").exists():
        time.sleep(0.1)
    return items["caption"].str.len()
"""


@pytest.mark.parametrize("command", ["bench", "rank"])
def test_a_killed_run_keeps_the_datasets_that_are_done(command, captau, tmp_path):
    (tmp_path / "ratings.csv").write_text(RATINGS)
    (tmp_path / "slow.py").write_text(SLOW)
    words = [
        *(command, "dataset=demo,file", "file.path=ratings.csv", "metrics=python(slow:score)"),
        *("statistics.interval=none", "output_dir=out"),
    ]
    code = f"from captau.benchmarks.cli.main import main; main({words!r})"
    process = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path)
    record = tmp_path / "out" / "run.json"
    end = time.monotonic() + 240
    while not record.exists() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    process.kill()
    process.wait()
    table = "correlations.csv" if command == "bench" else "systems.csv"
    assert json.loads(record.read_text())["unfinished"] == ["file"]
    done = pd.read_csv(tmp_path / "out" / table)
    assert set(done["dataset"]) == {"demo"}
    if command == "bench":
        status, out, err = captau("table", "run=out")
        assert status == 0
        assert "Demo" in out
        assert err.count("out is unfinished: file is missing") == 1
    (tmp_path / "go").touch()
    assert captau(command, "run=out", "output_dir=out")[0] == 0
    assert "unfinished" not in json.loads(record.read_text())
    rows = pd.read_csv(tmp_path / "out" / table)
    assert set(rows["dataset"]) == {"demo", "file"}
    pd.testing.assert_frame_equal(rows[rows["dataset"] == "demo"], done)
