"""The score store as many share it: a folder or an object store, writers that are killed, no answer.

The object store is moto's server on this machine.
"""

from __future__ import annotations

import datetime
import io
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from captau.benchmarks.cli.main import main
from captau.benchmarks.scoring import score_store as store_module
from captau.benchmarks.scoring.score_store import Locations, ScoreStore, open_score_location
from tests.conftest import says

IDS = pd.Series([f"item {n}" for n in range(3000)])

#: Writes and reads scores of a few keys until it is killed; whatever it reads must be what belongs there.
WRITER = """
import sys
from pathlib import Path
import numpy as np, pandas as pd
from captau.benchmarks.scoring.score_store import Locations, ScoreStore, open_score_location
store = ScoreStore(Path(sys.argv[1]), open_score_location(sys.argv[2]))
ids = pd.Series([f"item {n}" for n in range(3000)])
number = int(sys.argv[3])
while True:
    number += 1
    key = number % 5
    path = store.path("toy", "m", str(key))
    found = store.get(path, ids)
    assert found is None or (found.scores == key + np.arange(3000.0)).all()
    store.put(path, ids, key + np.arange(3000.0))
    print(number, flush=True)
"""


@pytest.fixture(scope="module")
def object_server():
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


def reach(monkeypatch, address):
    from s3fs import S3FileSystem

    S3FileSystem.clear_instance_cache()
    for name, value in {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    return S3FileSystem()


@pytest.fixture
def bucket(object_server, monkeypatch, tmp_path_factory):
    system = reach(monkeypatch, object_server)
    name = f"bucket-{time.monotonic_ns()}"
    system.mkdir(name)
    return f"s3://{name}/scores"


def test_scores_are_kept_in_an_object_store(bucket, tmp_path):
    scores = np.array([np.nan, 0.1 + 0.2, -0.0, np.inf])
    first = ScoreStore(tmp_path, open_score_location(bucket))
    path = first.path("toy", "m", "key")
    assert str(path).startswith(f"{bucket}/toy/m-")
    assert not path.is_file()
    assert first.get(path, IDS[:4]) is None
    first.put(path, IDS[:4], scores, ["seen"])
    again = ScoreStore(tmp_path, open_score_location(bucket))
    assert path.is_file()
    found = again.get(path, IDS[:4])
    assert found.scores.tobytes() == scores.tobytes()
    assert again.get(path, IDS[3::-1]) is None
    assert found.remarks == ["seen"]
    assert not list(tmp_path.rglob("*.parquet"))


@pytest.mark.parametrize("how", ["cut", "a byte within"])
def test_a_damaged_object_is_computed_anew(bucket, tmp_path, how):
    store = ScoreStore(tmp_path, open_score_location(bucket))
    path = store.path("toy", "m", "key")
    store.put(path, IDS, np.arange(3000.0))
    whole = path.read_bytes()
    # Within a column's page, which its checksum alone tells.
    page = pq.ParquetFile(io.BytesIO(whole)).metadata.row_group(0).column(1)
    at = (page.dictionary_page_offset or page.data_page_offset) + page.total_compressed_size - 9
    damaged = {
        "cut": whole[:-9],
        "a byte within": whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :],
    }
    path.write_bytes(damaged[how])
    assert store.get(path, IDS) is None
    store.put(path, IDS, np.arange(3000.0))
    assert (store.get(path, IDS).scores == np.arange(3000.0)).all()


def test_ids_of_several_tables_put_together_are_found_again(tmp_path):
    """Their texts lie in several pieces of memory, as the pairs of `captau probe` do."""
    ids = pd.concat([IDS[:1000], IDS[1000:]], ignore_index=True)
    store = ScoreStore(tmp_path)
    path = store.path("toy", "m", "key")
    store.put(path, ids, np.arange(3000.0))
    found = store.get(path, ids)
    assert found is not None
    assert (found.scores == np.arange(3000.0)).all()


@pytest.mark.parametrize("place", ["folder", pytest.param("bucket", marks=pytest.mark.cluster)])
def test_writers_that_are_killed_leave_the_store_sound(place, tmp_path, request):
    where = str(tmp_path / "shared") if place == "folder" else request.getfixturevalue("bucket")
    words = [sys.executable, "-c", WRITER, str(tmp_path), where]
    writers = [
        subprocess.Popen([*words, str(n)], stdout=subprocess.PIPE, text=True) for n in range(3)
    ]
    for turn, writer in enumerate(writers):
        for _ in range(5 + 4 * turn):
            assert writer.stdout.readline(), "it fell over by itself"
        writer.send_signal(signal.SIGKILL)
    for writer in writers:
        assert writer.wait() == -signal.SIGKILL
        writer.stdout.close()
    store = ScoreStore(tmp_path, open_score_location(where))
    for key in range(5):
        found = store.get(store.path("toy", "m", str(key)), IDS)
        assert found is not None
        assert (found.scores == key + np.arange(3000.0)).all()
    assert (store.hits, store.misses) == (5, 0)


def test_a_store_that_no_longer_answers_is_done_without(bucket, tmp_path, monkeypatch, caplog):
    """What was put is kept, the run goes on, and its scores lie on this machine."""
    store = ScoreStore(tmp_path, open_score_location(bucket))
    before = store.path("toy", "m", "before")
    store.put(before, IDS, np.arange(3000.0))

    def hang(*_, **__):
        raise TimeoutError("Read timeout on endpoint URL")

    with monkeypatch.context() as patch:
        patch.setattr(before.system, "pipe_file", hang)
        for key in ("one", "two"):
            store.put(store.path("toy", "m", key), IDS, np.arange(3000.0))
    (line,) = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert line.startswith(f"{bucket}/toy/m-")
    assert "cannot be reached (no answer within 30 s); what is there is kept" in line
    assert len(list((tmp_path / "scores" / "toy").glob("m-*.parquet"))) == 2
    again = ScoreStore(tmp_path, open_score_location(bucket))
    assert again.get(before, IDS) is not None


@pytest.mark.cluster
def test_a_store_that_times_out_is_one_line_and_soon(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(store_module, "PATIENCE", 0.3)
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        reach(monkeypatch, f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(SystemExit) as ended:
            main(["bench", "metrics=[rouge_1]", "cache.scores=s3://bucket/scores"])
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(
        "captau: cache.scores=s3://bucket/scores cannot be written (no answer within 0.3 s)"
    )
    assert not list(tmp_path.rglob("run.json"))


def test_places_that_are_none(object_server, monkeypatch, tmp_path):
    assert open_score_location("~/scores") == Path("~/scores").expanduser()
    reach(monkeypatch, object_server)
    with says("cache.scores=s3://no-such-bucket/x cannot be written", "bucket"):
        open_score_location("s3://no-such-bucket/x")
    with says("cache.scores=nothing://x"):
        open_score_location("nothing://x")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with says("pip install 'captau[remote]'"):
        open_score_location("s3://bucket/x")


def test_two_runs_share_an_object_store(bucket, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CAPTAU_CACHE", os.environ["CAPTAU_CACHE"])
    computed: list[int] = []
    for run in ("one", "two"):
        words = ["bench", "metrics=[rouge_1]", "statistics.interval=none", "ceilings=false"]
        with pytest.raises(SystemExit) as ended:
            main([*words, f"cache.scores={bucket}", f"cache.root={run}.cache", f"output_dir={run}"])
        assert ended.value.code == 0, capsys.readouterr().err
        computed.append(json.loads(Path(run, "run.json").read_text())["scores_computed"])
    assert computed[0] > computed[1] == 0
    assert Path("one/correlations.csv").read_bytes() == Path("two/correlations.csv").read_bytes()


@pytest.fixture
def memory_bucket():
    """A store of this process's memory, empty before and after."""
    from fsspec.implementations.memory import MemoryFileSystem

    MemoryFileSystem.store.clear()
    yield "memory://bucket/scores"
    MemoryFileSystem.store.clear()


def test_a_location_is_tried_before_anything_is_scored(memory_bucket, monkeypatch):
    location = open_score_location(memory_bucket)
    assert (str(location), location.path, location.seconds) == (memory_bucket, "/bucket/scores", 30)
    assert (location / "captau-store").read_bytes() == b"captau's scores\n"
    with pytest.raises(FileNotFoundError):
        (location / "nothing").read_bytes()
    words = f"cache.scores={memory_bucket} cannot be written"
    for error, reason in (
        (ValueError("two\n  lines"), "two lines"),
        (KeyError(), "KeyError"),
        (TimeoutError("x"), "no answer within 30 s"),
        (OSError(28, "No space left on device"), "[Errno 28] No space left on device"),
        (FileNotFoundError(2, "no such bucket"), "no such bucket"),
    ):

        def fail(*_, raised=error):
            raise raised

        monkeypatch.setattr(location.system, "pipe_file", fail)
        with says(f"{words} ({reason}); is it right, and reachable?"):
            open_score_location(memory_bucket)


def test_scores_and_remarks_in_a_store_and_in_a_folder(memory_bucket, tmp_path):
    scores = np.array([np.nan, 0.1 + 0.2, -0.0, np.inf])
    for place, path_of_key in (
        (open_score_location(memory_bucket), f"{memory_bucket}/toy/"),
        (tmp_path / "shared", f"{tmp_path}/shared/toy/"),
        (None, f"{tmp_path}/scores/toy/"),
    ):
        store = ScoreStore(tmp_path, place)
        path = store.path("toy", "m(a=1,b=/x y)", "key")
        # The first 24 digits of the SHA-256 of "key", as sha256sum prints them.
        assert str(path) == f"{path_of_key}m_a_1_b_x_y_-2c70e12b7a0646f92279f427.parquet"
        assert store.get(path, IDS[:4]) is None
        store.put(path, IDS[:4], scores, ["seen", "é"])
        found = store.get(path, IDS[:4])
        assert found.scores.tobytes() == scores.tobytes()
        assert found.remarks == ["seen", "é"]
        assert store.get(path, IDS[3::-1]) is None
        assert store.get(path, IDS[:3]) is None
        assert (store.hits, store.misses) == (1, 3)
        bare = store.path("toy", "m", "other")
        store.put(bare, IDS[:4], scores)
        assert store.get(bare, IDS[:4]).remarks == []
    long = ScoreStore(tmp_path).path("toy", "m" * 100, "key")
    assert long.name == "m" * 60 + "-2c70e12b7a0646f92279f427.parquet"


def test_nothing_is_stored_nowhere(tmp_path):
    store = ScoreStore(None, tmp_path)
    assert store.path("toy", "m", "key") is None
    store.put(None, IDS[:1], np.zeros(1))
    assert store.get(None, IDS[:1]) is None
    assert (store.hits, store.misses) == (0, 1)
    assert not list(tmp_path.iterdir())


def test_a_file_of_another_make_is_computed_anew(tmp_path):
    store = ScoreStore(tmp_path)
    path = store.path("toy", "m", "key")
    path.parent.mkdir(parents=True)
    pd.DataFrame({"item_id": IDS[:2], "value": [1.0, 2.0]}).to_parquet(path)
    assert store.get(path, IDS[:2]) is None
    for ids in ([1, 2], [datetime.date(2026, 1, 1)] * 2, [{"id": 1}] * 2):
        pq.write_table(pa.table({"item_id": ids, "score": [1.0, 2.0]}), path)
        assert store.get(path, IDS[:2]) is None
    path.write_bytes(b"PAR1")
    assert store.get(path, IDS[:2]) is None
    store.put(path, IDS[:2], np.array([1.0, 2.0]))
    assert store.get(path, IDS[:2]).scores.tolist() == [1.0, 2.0]


def test_a_store_that_fails_is_named_once(memory_bucket, tmp_path, caplog, monkeypatch):
    store = ScoreStore(tmp_path, open_score_location(memory_bucket))
    paths = [store.path("toy", "m", key) for key in ("one", "two")]

    def fail(*_):
        raise OSError("gone")

    monkeypatch.setattr(store.scores.system, "cat_file", fail)
    monkeypatch.setattr(store.scores.system, "pipe_file", fail)
    assert store.get(paths[0], IDS[:2]) is None
    store.put(paths[1], IDS[:2], np.array([1.0, 2.0]))
    line = "cannot be reached (gone); what is there is kept, and this run's scores lie in"
    assert caplog.messages == [f"{paths[0]} {line} {tmp_path}"]
    later = store.path("toy", "m", "two")
    assert later == tmp_path / "scores" / "toy" / paths[1].path.rpartition("/")[2]
    assert store.get(later, IDS[:2]).scores.tolist() == [1.0, 2.0]
    caplog.clear()
    (tmp_path / "scores" / "plain").write_text("a file where a folder should be")
    for key in ("one", "two"):
        store.put(tmp_path / "scores" / "plain" / key, IDS[:2], np.zeros(2))
    folder = tmp_path / "scores" / "plain"
    assert caplog.messages == [
        f"scores are not kept for the next run: {folder} cannot be written (File exists); set cache.root=DIR"
    ]
    assert store.path("toy", "m", "three") is None


def test_locations(tmp_path, monkeypatch, memory_bucket):
    assert Locations(use_cache=False, cache_scores="nothing://x").store().root is None
    assert Locations(cache_root=tmp_path).store().root == tmp_path
    assert Locations(cache_root=tmp_path).store().scores is None
    shared = Locations(cache_root=tmp_path, cache_scores=str(tmp_path / "x")).store()
    assert (shared.root, shared.scores) == (tmp_path, tmp_path / "x")
    assert str(Locations(cache_scores=memory_bucket).store().scores) == memory_bucket
    asked = []
    monkeypatch.setattr(
        store_module, "load", lambda *words, **options: asked.append((*words, options))
    )
    locations = Locations(data_root=tmp_path, file_options={"path": "a.csv"}, loaded={"mine": 3})
    assert locations.load("mine") == 3
    locations.load("demo")
    locations.load("file")
    own = tmp_path / "dataset" / "ours.yaml"
    own.parent.mkdir()
    own.write_text("file: {path: ../b.csv, scales: {}}")
    monkeypatch.setenv("CAPTAU_CONFIG_DIR", str(tmp_path))
    locations.load("ours")
    path = own.parent / ".." / "b.csv"
    assert asked == [
        ("demo", tmp_path, {}),
        ("file", tmp_path, {"path": "a.csv"}),
        ("file", tmp_path, {"path": path, "name": "ours", "scales": {}}),
    ]
