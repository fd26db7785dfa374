"""`engine=ray`: the numbers of `engine=local`, and what goes wrong with clusters."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from captau.benchmarks.large.engines import Ray
from tests.benchmarks.large_sets import METRICS, command, rows_of, score, scores_in, write
from tests.benchmarks.test_large import equal_to
from tests.conftest import says

ray = pytest.importorskip("ray", reason="captau[ray] is not installed")
pytest.importorskip("ray.data")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A Ray of two CPUs on this machine, in which all tests of this module run."""
    with Ray(2, None):
        yield


@pytest.fixture(scope="module")
def rows():
    return rows_of(60)


def test_the_same_numbers_though_a_worker_dies(rows, tmp_path, monkeypatch, cluster):
    (tmp_path / "dies.py").write_text(
        "import os, pathlib, signal\n"
        "def score(items):\n"
        "    flag = pathlib.Path('killed')\n"
        "    if not flag.exists():\n"
        "        flag.touch()\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return [float(len(c)) for c in items['caption']]\n"
    )
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "set" / "a.parquet", rows[:25])
    write(tmp_path / "set" / "b.parquet", rows[25:])
    metrics = [*METRICS, "python(dies:score)"]
    score("set", "out", metrics, engine="ray", workers=2, rows=20)
    assert (tmp_path / "killed").exists()
    score("set", "local", metrics, rows=9)
    equal_to(tmp_path / "local", tmp_path / "out")
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert record["engine"] == "ray"
    assert record["costs"]["worker_rss"] > 0


def test_a_model_in_an_actor(rows, tmp_path, weights, monkeypatch, cluster):
    """It is loaded in one process that does all parts; text metrics stand beside it."""
    write(tmp_path / "set.jsonl", rows)
    metrics = ["bleu_1", "sentence_cosine"]
    score(tmp_path / "set.jsonl", tmp_path / "out", metrics, engine="ray", workers=1, rows=20)
    score(tmp_path / "set.jsonl", tmp_path / "local", metrics, rows=20)
    ours, theirs = scores_in(tmp_path / "out"), scores_in(tmp_path / "local")
    for name in ours.columns[3:]:
        np.testing.assert_allclose(ours[name], theirs[name], atol=1e-6)
    assert (tmp_path / "out" / "scores").is_dir()


def test_a_fault_in_a_task_is_a_line(rows, tmp_path, cluster):
    write(tmp_path / "set.jsonl", [{"image_id": "1", "caption": "a dog"}])
    with says("set.jsonl: row 0: no references"):
        score(tmp_path / "set.jsonl", tmp_path / "out", engine="ray")


@pytest.mark.parametrize("address", ["127.0.0.1:9", "no-such-host.invalid:6379"])
def test_a_cluster_that_cannot_be_reached(address, rows, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    path = write(tmp_path / "set.jsonl", rows)
    words = [f"candidates={path}", "engine=ray", f"ray.address={address}"]
    assert command("score", *words, f"output_dir={tmp_path / 'out'}") == 2
    said = capsys.readouterr().err
    assert f"ray.address={address}: no cluster can be reached there" in said
    assert "ray start --head" in said


def test_ray_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)  # an import of it fails
    with says("ray is not installed", "captau[ray]"):
        Ray(None, None)
