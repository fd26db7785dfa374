"""Which large downloads the environment allows."""

from __future__ import annotations

import pytest

from captau.datasets.download.permission import LIMIT, LargeDownload, is_allowed, may_download


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
