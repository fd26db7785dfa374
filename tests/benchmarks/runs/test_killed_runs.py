"""A killed run loses nothing: run again, it gives the same bytes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import lend_tables

pytestmark = pytest.mark.kill

CSVS = ("correlations.csv", "table.csv")


def start(folder, cache, data_root=None):
    if not cache.exists():
        lend_tables(cache)
    arguments = ["bench", f"output_dir={folder}", f"cache.root={cache}"]
    # METEOR's Java is a child that has to go with its run.
    arguments += ['metrics=[text,"meteor(backend=pycocoevalcap)"]']
    if data_root:
        arguments += ["dataset=[demo,capeval1k]", f"data.root={data_root}"]
    code = f"from captau.benchmarks.cli.main import main; main({arguments!r})"
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        # A shell starts what it puts into the background deaf to SIGINT, and that is inherited.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def children_of(pid):
    try:
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    began = time.monotonic()
    process = start(folder / "out", folder / "cache")
    _, err = process.communicate()
    assert process.returncode == 0, err.decode()
    return folder / "out", time.monotonic() - began


@pytest.mark.parametrize("share", [0.3, 0.7, 0.95])
def test_sigkill_then_again_gives_equal_bytes(whole, tmp_path, share):
    expected, seconds = whole
    process = start(tmp_path / "out", tmp_path / "cache")
    time.sleep(seconds * share)
    children = children_of(process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stderr.close()
    again = start(tmp_path / "out", tmp_path / "cache")
    _, err = again.communicate()
    assert again.returncode == 0, err.decode()
    for name in CSVS:
        assert (tmp_path / "out" / name).read_bytes() == (expected / name).read_bytes()
    left = {path.name for path in (tmp_path / "out").glob(".*")} - {".hydra"}
    assert not left, "temporaries of the killed run are gone"
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in children) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists()], "Java went with its run"


def test_two_runs_at_once_into_one_cache_and_folder(whole, tmp_path):
    expected, _ = whole
    processes = [start(tmp_path / "out", tmp_path / "cache") for _ in range(2)]
    for process in processes:
        _, err = process.communicate()
        assert process.returncode == 0, err.decode()
    for name in CSVS:
        assert (tmp_path / "out" / name).read_bytes() == (expected / name).read_bytes()


def test_sigint_is_one_line(tmp_path):
    process = start(tmp_path / "out", tmp_path / "cache")
    while not children_of(process.pid):  # METEOR's Java is loading: the run is well under way
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert err.decode().strip().splitlines() == ["captau: stopped; what was scored is kept"]
    assert not (tmp_path / "out").exists()
