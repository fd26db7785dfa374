"""Parts of downloads by hand: permission, ranges, waits, kinds of archive members and what cannot be fetched."""

from __future__ import annotations

import stat
import zipfile
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from captau.datasets.download import fetch as fetching
from captau.datasets.download.archives import _kind, _stays_inside, choose
from captau.datasets.download.permission import LIMIT, LargeDownload, is_allowed, may_download
from captau.datasets.schema import SourceFile
from tests.datasets.download.test_fetch import card


@pytest.mark.parametrize(
    ("words", "name", "allowed"),
    [
        ("", "", False),
        ("0", "", False),
        ("1", "", True),
        ("TRUE", "x", True),
        ("yes", "", True),
        ("x", "", False),
        ("x", "x", True),
        ("x,y", "y", True),
        ("x", "y", False),
        ("x,1", "y", True),
        ("X", "x", True),
    ],
)
def test_the_environment_allows_all_downloads_or_those_it_names(words, name, allowed, monkeypatch):
    monkeypatch.setenv("CAPTAU_DOWNLOAD", words)
    assert may_download(name) is allowed
    assert is_allowed(LargeDownload(name, "", "", LIMIT)) is True
    assert is_allowed(LargeDownload(name, "", "", LIMIT + 1)) is allowed


def test_without_the_variable_nothing_large_is_allowed(monkeypatch):
    monkeypatch.delenv("CAPTAU_DOWNLOAD", raising=False)
    assert may_download() is False
    assert may_download("x") is False


@pytest.mark.parametrize(
    ("status", "headers", "expected"),
    [
        (200, {"Content-Length": "12"}, (0, 12)),
        (200, {}, (0, 0)),
        (200, {"Content-Length": "-1"}, (0, 0)),
        (206, {"Content-Range": "bytes 5-11/12"}, (5, 12)),
        (206, {"Content-Range": "bytes 0-11/*"}, (0, 0)),
        (206, {}, (-1, 0)),
        (416, {"Content-Range": "bytes */12"}, (-1, 12)),
    ],
)
def test_where_an_answer_starts_and_how_long_the_file_is(status, headers, expected):
    answer = SimpleNamespace(status_code=status, headers=headers)
    assert fetching._range(answer) == expected


@pytest.mark.parametrize(
    ("attributes", "name", "kind"),
    [
        (0, "a", "file"),
        (0o644 << 16, "a", "file"),
        ((stat.S_IFREG | 0o600) << 16, "a", "file"),
        ((stat.S_IFREG | 0o600) << 16 | 0x8000, "a", "file"),
        ((stat.S_IFLNK | 0o777) << 16, "a", "link"),
        ((stat.S_IFIFO | 0o777) << 16, "a", "link"),
        ((stat.S_IFDIR | 0o755) << 16, "a/", "folder"),
        (0, "a/", "folder"),
    ],
)
def test_kinds_of_members_are_what_unix_says(attributes, name, kind):
    info = zipfile.ZipInfo(name)
    info.external_attr = attributes
    assert _kind(info) == kind


@pytest.mark.parametrize(
    ("name", "stays"),
    [
        ("a/b", True),
        ("a..b", True),
        ("/a", False),
        ("a/../b", False),
        ("..", False),
        ("C:a", False),
        ("\\a", False),
        ("a\\..\\b", False),
    ],
)
def test_names_that_stay_inside(name, stays):
    assert _stays_inside(name) is stays


@pytest.mark.parametrize(
    ("name", "names", "chosen"),
    [
        ("a", ["b/a", "a"], "a"),
        ("a", ["b/a", "ba"], "b/a"),
        ("a", ["b/a", "c/a"], None),
        ("a", ["ba"], None),
        ("a", [], None),
    ],
)
def test_a_member_is_chosen_by_its_end_where_that_is_one(name, names, chosen):
    assert choose(name, names) == chosen


@pytest.mark.parametrize(
    ("also", "names"),
    [
        ((), "a.json"),
        (("y/b.csv",), "a.json or b.csv"),
        (("y/b.csv", "c.csv"), "a.json or b.csv or c.csv"),
        (("y/b.csv", "c.csv", "z/a.json"), "a.json or b.csv or c.csv"),
        (("y/b.csv", "c.csv", "d.csv"), "a.json or b.csv or c.csv or the like"),
    ],
)
def test_what_has_to_be_fetched_by_hand_is_named_by_its_forms(also, names, monkeypatch):
    monkeypatch.setattr(fetching, "way_to_get", lambda card, source: f"see {source.url}")
    source = SourceFile("x/a.json", "one", also=also)
    other, third = SourceFile("k.json", "two"), SourceFile("m.json", "one")
    found = fetching._by_hand(card(source), [source, other, third])
    assert found == (
        f"{names}, m.json cannot be fetched: see one; k.json cannot be fetched: see two"
    )


def test_members_of_one_archive_are_downloaded_together():
    one = SourceFile("a", "", downloads=("u",), member="a")
    two, plain = replace(one, path="b", member="b"), SourceFile("c", "", downloads=("u",))
    other = replace(one, path="d", downloads=("v",))
    assert fetching._group_by_address([one, plain, two, other]) == [[one, two], [plain], [other]]


def download(root, sources, notes):
    how = fetching.RetryLimits(tries=7, backoff=1.5)
    return fetching._FileDownload(root, sources, None, how, lambda *_: None, notes.append)


def test_each_address_that_fails_is_noted(tmp_path, monkeypatch):
    notes = []
    one = download(tmp_path, [SourceFile("x/a", "", downloads=("u", "v"))], notes)

    def fail(self, url):
        raise fetching._MirrorError(f"no {url}")

    monkeypatch.setattr(fetching._FileDownload, "_from", fail)
    with pytest.raises(fetching._MirrorError, match=r"^u: no u; v: no v$"):
        one.run()
    assert notes == ["u: no u", "v: no v"]
    assert one.part == tmp_path / "x" / "a.part"
    member = SourceFile("x/a", "", downloads=("https://h/f.zip?x=1",), member="a")
    two = download(tmp_path, [member, replace(member, path="b", sha256="0")], notes)
    assert two.part == tmp_path / "x" / "f.zip.part"
    assert two.name == "x/a, b"
    assert two.is_checked is False
    assert download(tmp_path, [replace(member, git_blob="0")], notes).is_checked is True


def test_waits_double_up_to_a_minute_and_a_byte_more_begins_anew(tmp_path, monkeypatch):
    """The connection breaks each time; the fifth answer brings a byte, after which waiting begins anew."""
    waits, asked = [], []
    one = download(tmp_path, [SourceFile("a", "", sha256="0", downloads=("u",))], [])

    answer = SimpleNamespace(status_code=200, headers={"Content-Length": "9"})

    def receive(self, response, start, total):
        asked.append((start, total))
        if len(asked) == 5:
            self.part.write_bytes(b"x")
        return False

    monkeypatch.setattr(
        fetching._FileDownload, "_ask", lambda self, url, offset: nullcontext(answer)
    )
    monkeypatch.setattr(fetching._FileDownload, "_receive", receive)
    monkeypatch.setattr(fetching.time, "sleep", waits.append)
    with pytest.raises(fetching._MirrorError, match=r"^the connection keeps breaking, at 1 bytes$"):
        one._download("u")
    # 1.5 · 2, · 4, · 8, · 16; then · 1, and again up to · 64, a minute at most.
    assert waits == [3, 6, 12, 24, 1.5, 3, 6, 12, 24, 48, 60, 60]
    assert set(asked) == {(0, 9)}


def test_a_part_that_is_not_there_has_no_length_and_nothing_to_discard(tmp_path):
    path = Path(tmp_path) / "a.part"
    assert fetching._length(path) == 0
    fetching._discard(path)
    path.write_bytes(b"abc")
    assert fetching._length(path) == 3
    fetching._discard(path)
    assert not path.exists()
