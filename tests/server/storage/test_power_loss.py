"""After a power failure both sites have all that they acknowledged: of each file only what was stored on the disk is left.

The calls of a site at work are recorded. At each instant the disk holds of a file what it held when it was last stored
(`fsync`); of a name that was made, renamed or removed either the state of the folder when that was last stored, or the
latest, as a journal may have written it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.failing_calls import Call, Watch, run_function
from tests.server.challenge import visitors as challenge
from tests.server.collect import conftest as collect
from tests.server.storage import watched_sites

#: Beside the instants after each acknowledgement, every so many calls.
STRIDE = 9


@dataclass
class File:
    """A file: its content, and what of that is on the disk."""

    content: bytearray = field(default_factory=bytearray)
    stored: bytes = b""


@dataclass
class Folder:
    """A folder: its names, and those that are on the disk."""

    names: dict[str, File | Folder] = field(default_factory=dict)
    stored: dict[str, File | Folder] = field(default_factory=dict)

    def find(self, path: str) -> File | Folder:
        """Return what a path names."""
        found: File | Folder = self
        for part in Path(path).parts:
            assert isinstance(found, Folder)
            found = found.names[part]
        return found

    def apply(self, call: Call) -> None:
        """Change names and contents as a call did."""
        if call.name in ("write", "truncate", "fsync"):
            self._change(self.find(call.path), call)
            return

        path = Path(call.path)
        parent = self.find(str(path.parent))
        assert isinstance(parent, Folder)
        if call.name == "create":
            parent.names[path.name] = File()
        elif call.name == "mkdir":
            parent.names[path.name] = Folder()
        elif call.name in ("unlink", "rmdir"):
            del parent.names[path.name]
        elif call.name == "rename":
            target = self.find(str(Path(call.target).parent))
            assert isinstance(target, Folder)
            target.names[Path(call.target).name] = parent.names.pop(path.name)

    def _change(self, found: File | Folder, call: Call) -> None:
        if isinstance(found, Folder):
            found.stored = dict(found.names)
        elif call.name == "fsync":
            found.stored = bytes(found.content)
        elif call.name == "truncate":
            found.content = found.content[: call.offset].ljust(call.offset, b"\0")
        else:
            end = call.offset + len(call.content)
            found.content = found.content.ljust(call.offset, b"\0")
            found.content[call.offset : end] = call.content

    def write(self, path: Path, *, has_latest_names: bool) -> None:
        """Write what a power failure leaves to a new folder."""
        path.mkdir(mode=0o700)
        for name, found in (self.names if has_latest_names else self.stored).items():
            if isinstance(found, Folder):
                found.write(path / name, has_latest_names=has_latest_names)
            else:
                (path / name).touch(0o600)
                (path / name).write_bytes(found.stored)


def write_study(folder: Path) -> None:
    collect.write_study(folder, "good_bad", ratings=20)


SITES = {
    "collect": (write_study, watched_sites.answer_study, watched_sites.find_lost_answers),
    "serve": (
        challenge.write_challenge,
        watched_sites.submit_to_challenge,
        watched_sites.find_lost_submissions,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("site", SITES)
def test_a_site_has_what_it_acknowledged_after_a_power_failure(site, tmp_path):
    write_files, work, find_lost = SITES[site]
    files, watched = tmp_path / "files", tmp_path / "watched"
    files.mkdir()
    watched.mkdir(mode=0o700)
    write_files(files)
    outcome = run_function(work, (watched, files), Watch(watched, records=True))
    assert outcome.status == 0, outcome.stderr
    n_marks = len(watched_sites.marks_of(outcome))
    assert n_marks >= 2 * 3, outcome.calls

    disk = Folder()
    marks: list[str] = []
    n_opened = 0
    for number, call in enumerate(outcome.calls):
        if call.name == "mark":
            marks.append(call.path)
        else:
            disk.apply(call)
        if call.name != "mark" and number % STRIDE:
            continue

        for has_latest_names in (False, True):
            left = tmp_path / f"left-{number}-{has_latest_names}"
            disk.write(left, has_latest_names=has_latest_names)
            where = (number, str(call), has_latest_names)
            assert find_lost(left, files, marks) == [], where
            n_opened += 1
    assert len(marks) == n_marks
    assert n_opened > 2 * n_marks
