"""Kinds, names and choices of an archive's members: by hand."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile

import pytest

from captau.datasets.download import archives
from captau.datasets.download.archives import (
    Archive,
    choose,
    find_member_kind,
    open_zip,
    stays_inside,
)
from tests.conftest import says


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
    assert find_member_kind(info) == kind


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
    assert stays_inside(name) is stays


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


def pack(path, names):
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name in names:
                archive.writestr(name, name.encode())
    else:
        with tarfile.open(path, "w") as archive:
            for name in names:
                member = tarfile.TarInfo(name)
                member.size = len(name)
                archive.addfile(member, io.BytesIO(name.encode()))


@pytest.mark.parametrize("ending", ["zip", "tar"])
def test_as_many_files_as_the_limit_are_read_and_no_more(tmp_path, monkeypatch, ending):
    monkeypatch.setattr(archives, "MAX_MEMBERS", 2)
    monkeypatch.setattr(archives, "_CHUNK", 2)
    two, three = tmp_path / f"two.{ending}", tmp_path / f"three.{ending}"
    pack(two, ["a", "dir/bcd"])
    pack(three, ["a", "b", "c"])
    with Archive(two) as archive:
        assert archive.names == ["a", "dir/bcd"]
        assert list(archive.chunks("dir/bcd")) == [b"di", b"r/", b"bc", b"d"]
    with says(f"{three}: more than 2 files in it"):
        Archive(three)


def test_a_directory_of_as_many_bytes_as_the_limit_is_read():
    """A directory has 46 bytes and the name for each member."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("a", b"x" * 100)
    with open_zip(io.BytesIO(content.getvalue()), most_bytes=47) as archive:
        assert archive.read("a") == b"x" * 100
    message = "its directory has 47 bytes, where 46 at most are read"
    with (
        pytest.raises(zipfile.BadZipFile, match=message),
        open_zip(io.BytesIO(content.getvalue()), most_bytes=46),
    ):
        pass
