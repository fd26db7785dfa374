"""`engine=ray`: the scores of `engine=local`, and errors of clusters."""

from __future__ import annotations

import json
import socket
import subprocess
import sys

import numpy as np
import pytest
import ray

from captau.benchmarks.large.pools import open_pool
from tests.benchmarks.large.large_sets import METRICS, command, rows_of, score, scores_in, write
from tests.benchmarks.large.test_run import KILLER, check_equal
from tests.conftest import says

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def address():
    """Yield the address of a Ray of two nodes, each of one CPU and with processes of its own."""
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": 100_000_000, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=node)
    try:
        cluster.add_node(**node)
        cluster.wait_for_nodes()
        yield cluster.address
    finally:
        cluster.shutdown()


@pytest.fixture(scope="module")
def cluster(address):
    """Join the cluster with this process."""
    with open_pool("ray", None, address):
        yield


@pytest.fixture(scope="module")
def rows():
    return rows_of(60)


#: A metric that waits until both nodes are at work on it.
BOTH_NODES = """
import pathlib, time
import ray

def score(items):
    seen = pathlib.Path("nodes")
    seen.mkdir(exist_ok=True)
    (seen / ray.get_runtime_context().get_node_id()).touch()
    end = time.monotonic() + 120
    while len(list(seen.iterdir())) < 2 and time.monotonic() < end:
        time.sleep(0.05)
    return items["caption"].str.len().astype(float)
"""


def test_two_nodes_give_the_scores_of_one_process(rows, tmp_path, monkeypatch, cluster):
    (tmp_path / "both_nodes.py").write_text(BOTH_NODES)
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "set" / "a.parquet", rows[:25])
    write(tmp_path / "set" / "b.parquet", rows[25:])
    metrics = [*METRICS, "python(both_nodes:score)"]
    score("set", "out", metrics, engine="ray", workers=2, rows=20)
    assert len(list((tmp_path / "nodes").iterdir())) == 2
    score("set", "local", metrics, rows=20)
    check_equal(tmp_path / "local", tmp_path / "out")
    for path in (tmp_path / "local").rglob("*"):
        name = path.relative_to(tmp_path / "local")
        if path.is_file() and path.name != "run.json":
            assert (tmp_path / "out" / name).read_bytes() == path.read_bytes(), name
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert (record["engine"], record["workers"]) == ("ray", 2)
    assert record["costs"]["worker_rss"] > 0


def test_a_worker_that_dies_on_a_cluster_ends_the_run_which_goes_on_when_started_again(
    rows, tmp_path, monkeypatch, cluster
):
    (tmp_path / "killer.py").write_text(KILLER)
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "set" / "a.parquet", rows[:25])
    write(tmp_path / "set" / "b.parquet", rows[25:])
    metrics = [*METRICS, "python(killer:score)"]
    with says("a worker died", "finished shards are kept", "start the same command again"):
        score("set", "out", metrics, engine="ray", workers=2)
    assert (tmp_path / "killed").exists()
    score("set", "out", metrics, engine="ray", workers=2)
    costs = json.loads((tmp_path / "out" / "run.json").read_text())["costs"]["stages"]
    assert costs["count"] | {"tasks": 0, "again": 2} == costs["count"]
    score("set", "local", metrics)
    check_equal(tmp_path / "local", tmp_path / "out")


def test_a_ray_of_this_machine_is_started_and_ended(rows, tmp_path):
    """In a process of its own, as this one has joined a cluster."""
    path = write(tmp_path / "set.jsonl", rows)
    words = ["score", f"candidates={path}", "engine=ray", "workers=2", "metrics=[bleu_1,cider]"]
    code = f"from captau.benchmarks.cli.main import main; main({[*words, 'output_dir=out']!r})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert (record["engine"], record["workers"]) == ("ray", 2)


def test_a_process_of_ray_scores_by_a_model_as_this_process_does(
    rows, tmp_path, weights, monkeypatch, cluster
):
    """Without a GPU each node has one process for it, with all its cores; text metrics stand beside it."""
    write(tmp_path / "set.jsonl", rows)
    metrics = ["bleu_1", "sentence_cosine"]
    score(tmp_path / "set.jsonl", tmp_path / "out", metrics, engine="ray", workers=None, rows=20)
    score(tmp_path / "set.jsonl", tmp_path / "local", metrics, rows=20)
    ours, theirs = scores_in(tmp_path / "out"), scores_in(tmp_path / "local")
    for name in ours.columns[3:]:
        np.testing.assert_allclose(ours[name], theirs[name], atol=1e-6)
    assert (tmp_path / "out" / "scores").is_dir()


def test_bad_input_of_a_task_is_one_line(rows, tmp_path, cluster):
    write(tmp_path / "set.jsonl", [{"image_id": "1", "caption": "a dog"}])
    with says("set.jsonl: row 0: no references"):
        score(tmp_path / "set.jsonl", tmp_path / "out", engine="ray")


@pytest.fixture
def not_connected(monkeypatch):
    """Let Ray say that it is connected to no cluster, as it does when a command begins."""
    monkeypatch.setattr(ray, "is_initialized", lambda: False)


@pytest.mark.parametrize("address", ["127.0.0.1:9", "no-such-host.invalid:6379"])
def test_a_cluster_that_cannot_be_reached_is_one_line(
    address, rows, tmp_path, capsys, not_connected
):
    path = write(tmp_path / "set.jsonl", rows)
    words = [f"candidates={path}", "engine=ray", f"ray.address={address}"]
    assert command("score", *words, f"output_dir={tmp_path / 'out'}") == 2
    message = capsys.readouterr().err
    assert f"ray.address={address}: no cluster can be reached there" in message
    assert "ray start --head" in message


def test_a_cluster_that_needs_a_token_is_one_line(
    rows, tmp_path, capsys, not_connected, monkeypatch
):
    """Somebody listens, and answers nobody who comes without it."""

    def refuse(**_: object) -> None:
        raise ray.exceptions.RayError("no authentication token was found")

    monkeypatch.setattr(ray, "init", refuse)
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path / "set.jsonl", rows)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        words = ("score", "engine=ray", f"ray.address={address}", f"candidates={path}")
        assert command(*words, f"output_dir={tmp_path / 'out'}") == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert "no authentication token was found; if it was begun with RAY_AUTH_MODE=token" in message


def test_a_missing_ray_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)  # an import of it fails
    with says("ray is not installed", "captau[ray]"):
        open_pool("ray", None, None).__enter__()
