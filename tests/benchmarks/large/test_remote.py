"""Shards and results behind URLs: fsspec's memory, and a local S3-compatible server."""

from __future__ import annotations

import json
import socket
import threading

import fsspec
import pytest

from captau.benchmarks.large.run_folder import ResultFolder
from tests.benchmarks.large.large_sets import command, rows_of, score, write
from tests.conftest import says

pytestmark = pytest.mark.cluster


METRICS = ["bleu_4", "cider"]


@pytest.fixture(scope="module")
def rows():
    return rows_of(40)


def test_shards_and_results_may_lie_in_fsspecs_memory(rows, tmp_path):
    memory = fsspec.filesystem("memory")
    for name, part in (("a.jsonl.gz", rows[:20]), ("b.jsonl.gz", rows[20:])):
        memory.pipe_file(f"/set/{name}", write(tmp_path / name, part).read_bytes())
    memory.pipe_file("/set/_SUCCESS", b"")
    scores = score("memory://set", tmp_path / "out", METRICS, rows=9)
    local = score([tmp_path / "a.jsonl.gz", tmp_path / "b.jsonl.gz"], tmp_path / "local", METRICS)
    assert scores.corpus == pytest.approx(local.corpus, rel=1e-12)
    second = score("memory://set/*.gz", "memory://out", METRICS, work=tmp_path / "work", rows=9)
    assert second.corpus == pytest.approx(local.corpus, rel=1e-12)
    folder = ResultFolder("memory://out")
    assert json.loads(folder.read("corpus.json")) == second.corpus
    assert folder.list_names("scores") == ["000000.parquet", "000001.parquet"]
    assert (
        "nothing to do"
        in score(
            "memory://set/*.gz", "memory://out", METRICS, work=tmp_path / "work", rows=9
        ).summary
    )
    with says("memory://set/none.parquet", "is not there"):
        score("memory://set/none.parquet", tmp_path / "none", METRICS)
    with says("memory://set/*.parquet", "no shards there"):
        score("memory://set/*.parquet", tmp_path / "none", METRICS)


def test_an_unknown_protocol_is_named(tmp_path):
    with says("nowhere://x/a.parquet", "nowhere"):
        score("nowhere://x/a.parquet", tmp_path / "out", METRICS)


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    """Start a server of moto's, and yield its address, with its keys in the environment."""
    from moto import server

    thread = server.ThreadedMotoServer(port=0, verbose=False)
    thread.start()
    host, port = thread.get_host_and_port()
    patch = pytest.MonkeyPatch()
    for key, value in {
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        patch.setenv(key, value)
    yield f"http://{host}:{port}"
    patch.undo()
    thread.stop()


@pytest.fixture
def use_endpoint(monkeypatch):
    """Yield a function that points s3fs to an endpoint, with short timeouts."""
    import s3fs

    def point(endpoint: str) -> None:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        options = {"connect_timeout": 1, "read_timeout": 1, "retries": {"max_attempts": 0}}
        monkeypatch.setitem(fsspec.config.conf, "s3", {"config_kwargs": options})
        monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
        s3fs.S3FileSystem.clear_instance_cache()

    yield point
    s3fs.S3FileSystem.clear_instance_cache()


def test_shards_and_results_may_lie_in_an_object_store(rows, tmp_path, s3, use_endpoint):
    use_endpoint(s3)
    system = fsspec.filesystem("s3")
    system.mkdir("bucket")
    for name, part in (("a.parquet", rows[:20]), ("b.parquet", rows[20:])):
        system.put_file(str(write(tmp_path / name, part)), f"bucket/set/{name}")
    scores = score(
        "s3://bucket/set/*.parquet", "s3://bucket/out", METRICS, work=tmp_path / "work", rows=9
    )
    local = score([tmp_path / "a.parquet", tmp_path / "b.parquet"], tmp_path / "local", METRICS)
    assert scores.corpus == pytest.approx(local.corpus, rel=1e-12)
    assert json.loads(system.cat_file("bucket/out/manifest.json"))["rows"] == 40
    output = tmp_path / "filtered"
    words = ["keep.run=s3://bucket/out", "keep.metric=cider", "keep.above=0.5", "workers=0"]
    assert command("score", *words, f"output_dir={output}") == 0
    assert sorted(p.name for p in (output / "kept").iterdir()) == [
        "000000-a.parquet",
        "000001-b.parquet",
    ]


def test_a_silent_store_ends_the_run(rows, tmp_path, use_endpoint, s3, monkeypatch):
    """The store takes the connection and sends nothing."""
    silent = socket.create_server(("127.0.0.1", 0))
    connections: list[socket.socket] = []

    def hold() -> None:
        while True:
            try:
                connections.append(silent.accept()[0])
            except OSError:
                return

    threading.Thread(target=hold, daemon=True).start()
    try:
        monkeypatch.setenv("CAPTAU_STORE_SECONDS", "3")
        use_endpoint(f"http://127.0.0.1:{silent.getsockname()[1]}")
        with says("s3://bucket/set/a.parquet: cannot be reached", "what is done is kept"):
            score("s3://bucket/set/a.parquet", tmp_path / "out", METRICS)
        path = write(tmp_path / "a.jsonl", rows)
        with says("s3://bucket/out", "cannot be reached"):
            score(path, "s3://bucket/out", METRICS, work=tmp_path / "work")
    finally:
        silent.close()
        for connection in connections:
            connection.close()


def test_a_store_that_nobody_serves_ends_the_run(tmp_path, use_endpoint, s3):
    use_endpoint("http://127.0.0.1:9")
    with says("s3://bucket/a.parquet: cannot be reached"):
        score("s3://bucket/a.parquet", tmp_path / "out", METRICS)
