"""`OutputFolder`: fresh folders, all files or none, and nothing left behind."""

from __future__ import annotations

import errno
import json
import logging
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from captau.benchmarks.runs import output_folder
from captau.benchmarks.runs import output_folder as output
from captau.benchmarks.runs.output_folder import (
    OutputFolder,
    check_writable,
    find_run,
    hold_lock,
    is_process_alive,
    list_runs,
    write_file,
)
from captau.datasets.errors import InputError
from tests.benchmarks.runs.made_folders import make_run
from tests.conftest import says


def there(root: Path) -> dict[str, bytes | None]:
    """Everything below a folder: content of files, None of folders."""
    return {
        str(p.relative_to(root)): None if p.is_dir() else p.read_bytes()
        for p in sorted(root.rglob("*"))
    }


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder of the test's own, at one and the same second."""

    class Clock:
        @staticmethod
        def now(zone: object) -> datetime:
            assert zone is UTC
            return datetime(2024, 2, 3, 4, 5, 6, tzinfo=UTC)

    monkeypatch.setattr(output, "datetime", Clock)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_fresh_folders(here: Path) -> None:
    names = []
    for command in ("bench", "bench", "reproduce", "bench"):
        with OutputFolder(None, command) as folder:
            folder.write({"a": b"1"})
        assert folder.path.parent == Path("results/runs")
        names.append(folder.path.name)
    stamp = "20240203-040506"
    assert names == [f"{stamp}-bench", f"{stamp}-bench-2", f"{stamp}-reproduce", f"{stamp}-bench-3"]
    assert there(here)[f"results/runs/{stamp}-bench-3/a"] == b"1"


def test_a_quicker_run_takes_the_name(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.exists
    taken = Path("results/runs/20240203-040506-bench")
    taken.mkdir(parents=True)
    monkeypatch.setattr(Path, "exists", lambda p: False if p == taken else real(p))
    assert OutputFolder(None, "bench").path.name == "20240203-040506-bench-2"


@pytest.mark.parametrize("folder", [None, "new", "deep/er/new"])
def test_a_run_that_writes_nothing_leaves_nothing(here: Path, folder: str | None) -> None:
    made = OutputFolder(folder, "bench")
    assert made.path.is_dir()
    with pytest.raises(RuntimeError), made:
        raise RuntimeError
    assert there(here) == {}


def test_folders_that_were_there_stay(here: Path) -> None:
    (here / "deep").mkdir()
    (here / "old").mkdir()
    for folder in ("deep/new", "old"):
        with OutputFolder(folder, "bench"):
            pass
    assert there(here) == {"deep": None, "old": None}


def test_files_are_written_and_replaced(here: Path) -> None:
    for content in (b"1", b"22"):
        with OutputFolder("out", "bench") as folder:
            folder.write({"a.csv": content, "run.json": b"{}"})
        assert there(here) == {"out": None, "out/a.csv": content, "out/run.json": b"{}"}


def test_home_is_understood(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(here))
    assert OutputFolder("~/out", "bench").path == here / "out"


@pytest.mark.parametrize("folder", ["file", "file/below", "/proc/self/captau", "/dev/null/x"])
def test_a_folder_that_cannot_be_written(here: Path, folder: str) -> None:
    """A file in the way, or a file system that takes none: this stops root too."""
    (here / "file").write_bytes(b"kept")
    with says(f"output folder {folder} cannot be written (", "output_dir=DIR"):
        OutputFolder(folder, "bench")
    assert there(here) == {"file": b"kept"}


def test_a_fresh_folder_that_cannot_be_made(here: Path) -> None:
    (here / "results").write_bytes(b"kept")
    with says("output folder results/runs cannot be written (", "output_dir=DIR"):
        OutputFolder(None, "bench")
    assert there(here) == {"results": b"kept"}


def test_a_folder_that_takes_no_files_is_found_out_at_once(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a read-only folder: it can be made or is there, and no file can be made in it."""

    def touch(_: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "touch", touch)
    with says("output folder deep/new cannot be written (Permission denied)"):
        OutputFolder("deep/new", "bench")
    with says("output folder results/runs cannot be written (Permission denied)"):
        OutputFolder(None, "bench")
    assert there(here) == {}


FILES = {"a.csv": b"new", "b.md": b"new", "run.json": b"new"}


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("at", [1, 2, 3])
@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()]
)
def test_a_write_that_fails_changes_nothing(
    fresh: bool, at: int, error: BaseException, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not fresh:
        (here / "out").mkdir()
        (here / "out" / "a.csv").write_bytes(b"old")
    before = there(here)
    synced = []

    def fsync(handle: int) -> None:
        synced.append(handle)
        if len(synced) == at:
            raise error

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises((InputError, KeyboardInterrupt)) as caught, OutputFolder("out", "b") as made:
        made.write(FILES)
    assert len(synced) == at
    assert there(here) == before
    if isinstance(error, OSError):
        assert str(caught.value) == (
            "out: cannot be written (No space left on device); make room or set output_dir=DIR"
        )
    else:
        assert caught.value is error


def test_a_folder_in_a_files_place_changes_nothing(here: Path) -> None:
    (here / "out" / "run.json").mkdir(parents=True)
    (here / "out" / "a.csv").write_bytes(b"old")
    before = there(here)
    with says("out: cannot be written (run.json is a folder)"), OutputFolder("out", "b") as made:
        made.write(FILES)
    assert there(here) == before


def test_files_take_their_places_in_order(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """run.json comes last, so its presence says that all are there."""
    real, places = Path.replace, []

    def replace(path: Path, target: Path) -> Path:
        assert len(list(Path("out").glob(".*.tmp"))) == 3 - len(places), "all were whole before"
        places.append(target.name)
        return real(path, target)

    monkeypatch.setattr(Path, "replace", replace)
    OutputFolder("out", "bench").write(FILES)
    assert places == ["a.csv", "b.md", "run.json"]


def test_what_a_killed_run_left_is_swept(here: Path) -> None:
    """Temporaries of a process that is no more go; those of one that runs, and other files, stay."""
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    folder = here / "out"
    folder.mkdir()
    alive = os.getppid()
    kept = [f".a.csv.{alive}.tmp", f".probe.{alive}.tmp", ".x.tmp", "a.1.tmp", ".gitignore"]
    for name in (f".a.csv.{dead.pid}.tmp", f".probe.{dead.pid}.tmp", *kept):
        (folder / name).touch()
    OutputFolder("out", "bench").write({"a.csv": b""})
    assert {p.name for p in folder.iterdir()} == {*kept, "a.csv"}


def record(command: str, *names: str) -> bytes:
    return json.dumps({"command": command, "files": dict.fromkeys(names, "digest")}).encode()


def test_an_earlier_runs_files_go(here: Path) -> None:
    """And nothing else does: neither files of other names, nor any where no run was."""
    (here / "out").mkdir()
    (here / "out" / "mine.csv").write_bytes(b"mine")
    for command, names in (
        ("bench", ("correlations.csv", "ranks.csv")),
        ("score", ("corpus.csv",)),
        ("plugin", ("own.csv", "figure.svg")),
        ("agree", ("agreement.csv",)),
    ):
        files = dict.fromkeys(names, b"") | {"run.json": record(command, *names)}
        OutputFolder("out", command).write(files)
        assert set(there(here / "out")) == {*files, "mine.csv"}
    (here / "out" / "report.html").touch()
    (here / "out" / "plots").mkdir()
    (here / "out" / "plots" / "forest.svg").touch()
    OutputFolder("out", "bench").write({"run.json": record("bench")})
    assert set(there(here / "out")) == {"run.json", "mine.csv"}
    # What went was kept with its run.
    assert {"run.json", "report.html", "plots/forest.svg"} < set(there(here / "out-earlier-4"))
    (here / "own").mkdir()
    (here / "own" / "scores.csv").write_bytes(b"mine")
    OutputFolder("own", "bench").write({"table.md": b""})
    assert (here / "own" / "scores.csv").read_bytes() == b"mine"


def test_the_files_of_a_run_that_names_none_go(here: Path) -> None:
    """As captau 0.1 wrote the runs of some commands."""
    (here / "out").mkdir()
    for name in ("systems.csv", "systems.svg", "table.md", "mine.csv"):
        (here / "out" / name).touch()
    (here / "out" / "run.json").write_text('{"command": "rank"}')
    OutputFolder("out", "bench").write({"run.json": record("bench")})
    assert set(there(here / "out")) == {"run.json", "mine.csv"}


@pytest.mark.parametrize("name", ["../mine.csv", "sub/mine.csv", "..", "", 5])
def test_an_edited_record_removes_nothing_elsewhere(here: Path, name: object) -> None:
    (here / "out" / "sub").mkdir(parents=True)
    for path in ("mine.csv", "out/sub/mine.csv", "out/table.md"):
        (here / path).touch()
    names = f'{{"{name}": "digest", "table.md": "digest"}}' if isinstance(name, str) else "[5]"
    (here / "out" / "run.json").write_text(f'{{"command": "bench", "files": {names}}}')
    OutputFolder("out", "bench").write({"run.json": record("bench")})
    assert set(there(here)) > {"mine.csv", "out/sub/mine.csv", "out/table.md"}


@pytest.mark.parametrize("at", range(1, 8))
@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()])
def test_a_rename_that_fails_leaves_the_earlier_run(
    at: int, error: BaseException, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three renames move the earlier run aside, three give new files their names, one of which no run had."""
    old = {"a.csv": b"old", "b.md": b"old", "run.json": record("bench", "a.csv", "b.md")}
    OutputFolder("out", "bench").write(old)
    (here / "out" / "mine.csv").write_bytes(b"mine")
    before = there(here)
    new = {"a.csv": b"new", "c.md": b"new", "run.json": record("score", "a.csv", "c.md")}
    real, n_renames = Path.replace, 0

    def replace(path: Path, target: Path) -> Path:
        nonlocal n_renames
        n_renames += 1
        if n_renames == at:
            raise error
        return real(path, target)

    monkeypatch.setattr(Path, "replace", replace)
    if at > 6:
        OutputFolder("out", "score").write(new)
        assert there(here / "out") == {**new, "mine.csv": b"mine"}
        return
    with pytest.raises((InputError, KeyboardInterrupt)):
        OutputFolder("out", "score").write(new)
    assert there(here) == before


def test_an_earlier_run_with_other_options_is_kept_beside_the_new_one(
    here: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def run(dataset: str) -> dict[str, bytes]:
        config = {"command": "bench", "config": {"dataset": dataset}, "files": {"table.md": ""}}
        return {"table.md": dataset.encode(), "run.json": json.dumps(config).encode()}

    OutputFolder("out", "bench").write(run("thumb"))
    OutputFolder("out", "bench").write(run("thumb"))  # the same again
    assert [path.name for path in here.iterdir()] == ["out"]
    assert caplog.text == ""

    OutputFolder("out", "bench").write(run("nebula"))
    assert there(here / "out") == run("nebula")
    assert there(here / "out-earlier") == run("thumb")
    assert "the earlier run in out is kept in out-earlier" in caplog.text

    OutputFolder("out", "bench").write(run("demo"))
    assert there(here / "out-earlier-2") == run("nebula")


def test_a_run_that_a_kill_left_aside_is_kept(here: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    aside = here / "out" / f".earlier.{dead.pid}.tmp"
    aside.mkdir(parents=True)
    (aside / "run.json").write_bytes(record("bench"))
    OutputFolder("out", "bench").write({"run.json": record("bench")})
    assert there(here / "out-earlier") == {"run.json": record("bench")}
    assert list(there(here / "out")) == ["run.json"]


def test_a_named_pipe_is_written_to_and_stays_one(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    output.check_writable(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE) as reader:
        output.write_file(pipe, b"a report")
        assert reader.communicate(timeout=60)[0] == b"a report"
    assert pipe.is_fifo()
    assert os.listdir(tmp_path) == ["pipe"]  # noqa: PTH208


def test_the_last_run_is_the_newest_finished_one(
    here: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert list_runs() == []
    with says("there is no finished run in results/runs; name one with run=DIR"):
        find_run("last")
    with says("the option run=… is needed; see --help"):
        find_run("")
    for number, name in enumerate(("c", "a", "b", "d")):
        folder = make_run({}, folder=f"results/runs/{name}")
        os.utime(folder / "run.json", ns=(0, (5, 7, 7, 1)[number]))
    Path("results/runs/unfinished").mkdir()
    folders = [Path("results/runs") / name for name in "bacd"]
    assert list_runs() == folders
    with caplog.at_level(logging.INFO):
        assert find_run("last") == folders[0]
    assert caplog.messages == ["run=results/runs/b"]
    assert find_run("./last") == Path("last")
    assert find_run("~/x") == Path("~/x").expanduser()


def test_where_a_file_can_be_written(here: Path) -> None:
    check_writable(Path("new/deep/a.csv"))
    assert list(here.iterdir()) == []
    Path("folder").mkdir()
    remedy = "make room or name another file"
    with says(f"{here / 'folder'}: cannot be written (it is a folder); {remedy}"):
        check_writable(Path("folder"))
    Path("a.csv").write_text("x")
    with says(f"{here / 'a.csv' / 'b'}: cannot be written (Not a directory); {remedy}"):
        check_writable(Path("a.csv/b"))
    check_writable(Path("a.csv"))
    assert Path("a.csv").read_text() == "x"
    check_writable(Path("folder/sub/a.csv"))
    assert sorted(p.name for p in here.rglob("*")) == ["a.csv", "folder"]


def test_a_file_is_written_whole_and_a_link_stays_one(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_file(Path("new/deep/a.csv"), b"one")
    Path("link").symlink_to("new/deep/a.csv")
    write_file(Path("link"), b"two")
    assert Path("link").is_symlink()
    assert Path("new/deep/a.csv").read_bytes() == b"two"
    dead = f".a.csv.{2**22 + 1}.tmp"  # no process of Linux has this number
    others = [f".b.csv.{2**22 + 1}.tmp", f".a.csv.{os.getppid()}.tmp", ".axcsv.1.tmp"]
    for name in (dead, *others):
        Path("new/deep", name).touch()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        with says("cannot be written (No space left on device); make room or name another file"):
            write_file(Path("new/deep/a.csv"), b"three")
    assert Path("new/deep/a.csv").read_bytes() == b"two"
    assert {p.name for p in Path("new/deep").iterdir()} == {"a.csv", *others}
    monkeypatch.setattr(output_folder, "write", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_file(Path("new/deep/a.csv"), b"three")


def test_which_processes_live() -> None:
    """The first process of a system is somebody else's, unless root asks."""
    assert is_process_alive(os.getpid())
    assert is_process_alive(1)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert not is_process_alive(ended.pid)


def test_a_lock_keeps_others_out_and_leaves_no_file(tmp_path: Path) -> None:
    lock = tmp_path / ".lock"
    with hold_lock(lock, "another run is here"):
        assert lock.exists()
        with says("another run is here"), hold_lock(lock, "another run is here"):
            raise AssertionError
    assert list(tmp_path.iterdir()) == []

    with pytest.raises(KeyError), hold_lock(lock, "another run is here"):
        raise KeyError
    with hold_lock(lock, "another run is here"):
        pass
