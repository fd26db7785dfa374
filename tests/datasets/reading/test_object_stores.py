"""Calls to an object store by a stand-in: how long they may take, and what errors say."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace

import pytest

from captau.datasets.reading import object_stores
from captau.datasets.reading.object_stores import (
    RemotePath,
    call_in_time,
    is_url,
    open_file_system,
    reporting_store_errors,
)
from tests.conftest import says


def test_errors_of_a_store_are_one_line():
    errors = {
        FileNotFoundError("x"): "s3://b: is not there",
        ValueError(
            "a\n b"
        ): "s3://b: cannot be reached (ValueError: a b); what is done is kept: start the",
        OSError(): "s3://b: cannot be reached (OSError: no answer in time); what is done is kept",
        ValueError("x" * 201): f"cannot be reached (ValueError: {'x' * 200});",
    }
    for error, message in errors.items():
        with says(message), reporting_store_errors("s3://b"):
            raise error


def test_a_store_that_is_silent_is_given_up_with_a_remedy(monkeypatch):
    monkeypatch.setenv("CAPTAU_STORE_SECONDS", "0.01")
    over = threading.Event()
    with pytest.raises(TimeoutError) as error:
        call_in_time(over.wait)
    over.set()
    assert str(error.value) == "no answer in 0.01 s; CAPTAU_STORE_SECONDS= sets another patience"

    def fail():
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match=r"^its own$"):
        call_in_time(fail)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            ImportError("Install s3fs"),
            "s3://b/x: Install s3fs; for s3:// pip install 'captau[remote]'",
        ),
        (ValueError("no such protocol"), "s3://b/x: no such protocol"),
    ],
)
def test_a_store_without_its_client_says_what_to_install(error, message, monkeypatch):
    def refuse(url):
        assert url == "s3://b/x"
        raise error

    fsspec = ModuleType("fsspec")
    fsspec.core = SimpleNamespace(url_to_fs=refuse)
    monkeypatch.setitem(sys.modules, "fsspec", fsspec)
    with says(message):
        open_file_system("s3://b/x")
    fsspec.core = SimpleNamespace(url_to_fs=lambda url: ("a system", url))
    assert open_file_system("s3://b/x") == ("a system", "s3://b/x")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with says("s3://b/x: fsspec is not installed: pip install 'captau[remote]'"):
        open_file_system("s3://b/x")


class Bucket:
    """Files by path; notes what it is asked."""

    def __init__(self, **files):
        self.files, self.asked = files, []

    def __getattr__(self, name):
        def answer(*arguments):
            self.asked.append((name, *arguments))
            return {"exists": 1, "size": "7", "cat_file": b"abc", "isdir": self.files}.get(name)

        return answer

    def ls(self, path, detail):
        self.asked.append(("ls", path, detail))
        return [f"{path}/{name}" for name in self.files]


@pytest.fixture
def calls(monkeypatch):
    """What each call to a store may take."""
    asked = []

    def call(method, size, seconds):
        asked.append((size, seconds))
        return method()

    monkeypatch.setattr(object_stores, "call_in_time", call)
    return asked


def test_a_path_in_a_store_does_what_a_path_does(calls, monkeypatch, tmp_path):
    bucket, opened = Bucket(one=1, two=2), []
    monkeypatch.setattr(
        object_stores, "open_file_system", lambda url: opened.append(url) or (bucket, "b/f/")
    )
    path = RemotePath("s3://b/f/", seconds=2.5)
    assert (str(path), path.path, opened) == ("s3://b/f", "b/f", ["s3://b/f/"])
    below = path / "x"
    assert (str(below), below.path, below.seconds) == ("s3://b/f/x", "b/f/x", 2.5)
    assert str(path) == "s3://b/f"
    source = tmp_path / "source"
    source.write_bytes(b"12345")
    assert below.exists() is True
    assert below.is_file() is True
    assert below.size() == 7
    assert below.read_bytes(9) == b"abc"
    assert below.read_bytes() == b"abc"
    below.write_bytes(b"1234")
    below.copy_from(source)
    below.unlink()
    assert path.list_names() == ["one", "two"]
    assert bucket.asked == [
        *[("exists", "b/f/x")] * 2,
        ("size", "b/f/x"),
        *[("cat_file", "b/f/x")] * 2,
        ("pipe_file", "b/f/x", b"1234"),
        ("put_file", str(source), "b/f/x"),
        ("rm_file", "b/f/x"),
        ("isdir", "b/f"),
        ("ls", "b/f", False),
    ]
    sizes = [0, 0, 0, 9, 0, 4, 5, 0, 0, 0]
    assert calls == [(size, 2.5) for size in sizes]
    bucket.files = {}
    assert path.list_names() == []


def test_a_file_that_cannot_be_looked_for_is_none_where_errors_are_those_of_files(
    calls, monkeypatch
):
    @contextmanager
    def as_files(url):
        yield
        raise OSError(url)

    @contextmanager
    def as_others(url):
        yield
        raise KeyError(url)

    bucket = Bucket()
    monkeypatch.setattr(object_stores, "open_file_system", lambda url: (bucket, "b"))
    path = RemotePath("s3://b")
    path.reporting = as_files
    assert path.is_file() is False
    path.reporting = as_others
    with pytest.raises(KeyError):
        path.is_file()


@pytest.mark.parametrize(
    ("path", "is_there"),
    [
        ("s3://b", True),
        ("https://a", True),
        ("a/b", False),
        ("C://x", False),
        ("x://a", False),
        ("ab://", True),
    ],
)
def test_a_url_begins_with_a_scheme(path, is_there):
    assert is_url(path) is is_there
