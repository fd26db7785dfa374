"""Writing what arrives: whole or not at all, and in turn with other runs."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from filelock import FileLock

from captau.datasets.download.writing import arriving, locked, write
from captau.datasets.errors import InputError


def test_another_run_is_waited_for_and_named_once(tmp_path: Path) -> None:
    root = tmp_path / "data"
    root.mkdir()
    is_held, may_go, notes = threading.Event(), threading.Event(), list[str]()

    def hold() -> None:
        with FileLock(root / ".captau.lock"):
            is_held.set()
            may_go.wait(10)

    def note(text: str) -> None:
        notes.append(text)
        may_go.set()

    thread = threading.Thread(target=hold)
    thread.start()
    assert is_held.wait(10)
    with locked(root, note):
        assert notes == [f"another captau is writing to {root}; waiting for it"]
    thread.join()
    with locked(root, notes.append):  # nobody else is there
        assert len(notes) == 1


def test_a_file_has_its_name_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "new" / "file.txt"
    with arriving(target) as temporary:
        write([b"a", b"bc"], temporary)
        assert not target.exists()
    assert target.read_bytes() == b"abc"
    with pytest.raises(ZeroDivisionError), arriving(target) as temporary:
        write((b"half" if n else bytes(1 // n) for n in (1, 0)), temporary)
    assert target.read_bytes() == b"abc"
    assert [path.name for path in target.parent.iterdir()] == ["file.txt"]


def test_a_folder_that_cannot_be_made_is_told_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file/data"), locked(tmp_path / "file" / "data"):
        pass
