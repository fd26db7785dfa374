"""Parsed captions are kept despite two processes, a kill, a damaged file or a full disk."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from unittest.mock import Mock

import pytest

from captau.metrics.text.spice.jar_process import ParseFailure, SceneStore

SCENES = {
    "a dog runs": [["dog", "run"], ["dog"]],
    "": [],
    'a \u2028 🐕 "it\'s" \x00 end': [["🐕"]],
    "too long": ParseFailure("it took longer than 1 s", "1 s, 4 GB"),
}
#: Writes one caption at a time, and prints its number afterwards.
WRITER = """
import sys
from pathlib import Path
from captau.metrics.text.spice.jar_process import SceneStore
store = SceneStore(Path(sys.argv[1]))
for i in range(int(sys.argv[3])):
    store.put({f"{sys.argv[2]} {i}": [[str(i)]]})
    print(i, flush=True)
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "new" / "scenes.sqlite"


def start_writer(path, name: str, count: int) -> subprocess.Popen:
    command = [sys.executable, "-c", WRITER, str(path), name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_stored_scenes_are_read_back(path):
    SceneStore(path).put(SCENES)
    assert SceneStore(path).get([*SCENES, "never seen"]) == SCENES


def test_more_captions_than_a_statement_takes(path):
    many = {f"caption {i}": [[str(i)]] for i in range(40_000)}
    store = SceneStore(path)
    store.put(many)
    assert store.get(list(many)) == many


def test_a_caption_that_failed_may_be_parsed_after_all(path):
    store = SceneStore(path)
    store.put({"a dog": ParseFailure("x", "1 s")})
    store.put({"a dog": [["dog"]]})
    assert store.get(["a dog"]) == {"a dog": [["dog"]]}


def test_two_processes_write_at_once(path):
    processes = [start_writer(path, name, 60) for name in "ab"]
    outputs = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    captions = [f"{name} {i}" for name in "ab" for i in range(60)]
    assert set(SceneStore(path).get(captions)) == set(captions)


def test_a_kill_loses_no_stored_caption(path):
    process = start_writer(path, "a", 100_000)
    lines = [process.stdout.readline() for _ in range(20)]
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert lines[-1] == "19\n"
    captions = [f"a {i}" for i in range(20)]
    store = SceneStore(path)
    assert set(store.get(captions)) == set(captions)
    store.put({"after": []})
    assert store.get(["after"]) == {"after": []}


@pytest.mark.parametrize(
    "content", [b"this is no database" * 100, b"SQLite format 3\0" + b"x" * 5000]
)
def test_a_damaged_file_is_renamed_and_begun_anew(path, content, caplog):
    path.parent.mkdir()
    path.write_bytes(content)
    store = SceneStore(path)
    assert store.get(["a dog runs"]) == {}
    (message,) = caplog.messages
    assert "renamed to scenes.damaged, and a new one begun" in message
    store.put(SCENES)
    assert store.get(list(SCENES)) == SCENES
    assert path.with_suffix(".damaged").read_bytes() == content


def test_a_file_with_damaged_tuples_is_begun_anew(path, caplog):
    SceneStore(path).put(SCENES)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE scenes SET tuples = '[[' WHERE caption = 'a dog runs'")
    connection.close()
    assert "a dog runs" not in SceneStore(path).get(["a dog runs"])
    assert "a new one begun" in caplog.text


def test_a_file_that_cannot_be_written_costs_no_run(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    store = SceneStore(tmp_path / "file" / "scenes.sqlite")
    assert store.get(["a dog"]) == {}
    store.put(SCENES)
    (message,) = caplog.messages
    assert "are not kept for the next run" in message


def test_a_long_writing_process_is_waited_for(path, monkeypatch, caplog):
    from captau.metrics.text.spice import jar_process as spice_store

    store = SceneStore(path)
    store.put(SCENES)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    monkeypatch.setattr(spice_store, "_PATIENCE", 0.2)
    start = time.monotonic()
    assert store.get(["a dog runs"]) == {}
    assert time.monotonic() - start > 0.2
    assert "locked" in caplog.text
    connection.close()
    assert SceneStore(path).get(["a dog runs"]) == {"a dog runs": [["dog", "run"], ["dog"]]}


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 7, 9])
def test_captions_are_asked_for_in_batches(n, path, monkeypatch):
    monkeypatch.setattr("captau.metrics.text.spice.jar_process._BATCH", 3)
    many = {f"é {i}": [[str(i), "ü"]] for i in range(n)}
    store = SceneStore(path)
    store.put(many)
    store.put({"beside": []})
    assert store.get(list(many)) == many
    assert store.path == path


def test_nothing_to_store_makes_no_file(path):
    store = SceneStore(path)
    store.put({})
    assert not path.parent.exists()
    assert store.get([]) == {}


def test_a_damaged_file_that_cannot_be_renamed_is_left_alone(path, caplog, monkeypatch):
    SceneStore(path).put(SCENES)
    path.write_bytes(b"no database " * 100)
    store = SceneStore(path)
    with monkeypatch.context() as patched:
        patched.setattr(type(path), "replace", Mock(side_effect=OSError("busy")))
        store.put({"a": []})
    assert store.path is None
    (message,) = caplog.messages
    assert message == f"{path}: file is not a database; delete it"
    assert store.get(["a"]) == {}


def test_a_store_that_cannot_be_opened_says_so_once(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    store = SceneStore(tmp_path / "file" / "scenes.sqlite")
    store.put(SCENES)
    store.put(SCENES)
    assert store.path is None
    (message,) = caplog.messages
    assert message.startswith(f"{tmp_path / 'file' / 'scenes.sqlite'}: ")
    assert message.endswith("; parsed captions are not kept for the next run; set CAPTAU_CACHE=DIR")
