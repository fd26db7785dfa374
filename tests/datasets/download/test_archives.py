"""Kinds, names and choices of an archive's members: by hand."""

from __future__ import annotations

import stat
import zipfile

import pytest

from captau.datasets.download.archives import _kind, _stays_inside, choose


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
