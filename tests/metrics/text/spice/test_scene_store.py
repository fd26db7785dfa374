"""Parsed captions are kept whatever happens: two processes, a kill, a damaged file, no room."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from captau.metrics.text.spice.scene_store import Failure, SceneStore

SCENES = {
    "a dog runs": [["dog", "run"], ["dog"]],
    "": [],
    'a \u2028 🐕 "it\'s" \x00 end': [["🐕"]],
    "too long": Failure("it took longer than 1 s", "1 s, 4 GB"),
}
#: Writes a caption a time, and says so after each.
WRITER = """
import sys
from pathlib import Path
from captau.metrics.text.spice.scene_store import SceneStore
store = SceneStore(Path(sys.argv[1]))
for i in range(int(sys.argv[3])):
    store.put({f"{sys.argv[2]} {i}": [[str(i)]]})
    print(i, flush=True)
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "new" / "scenes.sqlite"


def writer(path, name: str, count: int) -> subprocess.Popen:
    command = [sys.executable, "-c", WRITER, str(path), name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_what_is_put_comes_back(path):
    SceneStore(path).put(SCENES)
    assert SceneStore(path).get([*SCENES, "never seen"]) == SCENES


def test_more_captions_than_a_statement_takes(path):
    many = {f"caption {i}": [[str(i)]] for i in range(40_000)}
    store = SceneStore(path)
    store.put(many)
    assert store.get(list(many)) == many


def test_a_caption_that_failed_may_be_parsed_after_all(path):
    store = SceneStore(path)
    store.put({"a dog": Failure("x", "1 s")})
    store.put({"a dog": [["dog"]]})
    assert store.get(["a dog"]) == {"a dog": [["dog"]]}


def test_two_processes_write_at_once(path):
    both = [writer(path, name, 60) for name in "ab"]
    said = [process.communicate(timeout=60) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    wanted = [f"{name} {i}" for name in "ab" for i in range(60)]
    assert set(SceneStore(path).get(wanted)) == set(wanted)


def test_a_kill_loses_nothing_that_was_kept(path):
    process = writer(path, "a", 100_000)
    said = [process.stdout.readline() for _ in range(20)]
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert said[-1] == "19\n"
    wanted = [f"a {i}" for i in range(20)]
    store = SceneStore(path)
    assert set(store.get(wanted)) == set(wanted)
    store.put({"after": []})
    assert store.get(["after"]) == {"after": []}


@pytest.mark.parametrize(
    "content", [b"this is no database" * 100, b"SQLite format 3\0" + b"x" * 5000]
)
def test_a_damaged_file_is_set_aside(path, content, capsys):
    path.parent.mkdir()
    path.write_bytes(content)
    store = SceneStore(path)
    assert store.get(["a dog runs"]) == {}
    said = capsys.readouterr().err
    assert "begun anew" in said
    assert said.count("\n") == 1
    store.put(SCENES)
    assert store.get(list(SCENES)) == SCENES
    assert path.with_suffix(".damaged").read_bytes() == content


def test_damaged_tuples_are_set_aside(path, capsys):
    SceneStore(path).put(SCENES)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE scenes SET tuples = '[[' WHERE caption = 'a dog runs'")
    connection.close()
    assert "a dog runs" not in SceneStore(path).get(["a dog runs"])
    assert "begun anew" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_costs_no_run(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    store = SceneStore(tmp_path / "file" / "scenes.sqlite")
    assert store.get(["a dog"]) == {}
    store.put(SCENES)
    said = capsys.readouterr().err
    assert "is not kept for the next run" in said
    assert said.count("\n") == 1, "told once"


def test_another_process_that_writes_for_long_is_waited_for(path, monkeypatch, capsys):
    from captau.metrics.text.spice import scene_store as spice_store

    store = SceneStore(path)
    store.put(SCENES)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    monkeypatch.setattr(spice_store, "_PATIENCE", 0.2)
    began = time.monotonic()
    assert store.get(["a dog runs"]) == {}
    assert time.monotonic() - began > 0.2
    assert "locked" in capsys.readouterr().err
    connection.close()
    assert SceneStore(path).get(["a dog runs"]) == {"a dog runs": [["dog", "run"], ["dog"]]}
