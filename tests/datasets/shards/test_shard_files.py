"""Calls to an object store by a stand-in: how long they may take, what is listed, and what errors say."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from captau.datasets.shards import shard_files
from captau.datasets.shards.shard_files import call_in_time, reporting_store_errors
from tests.conftest import says


@pytest.fixture
def patience(monkeypatch):
    """How long each call might have taken."""
    asked = []

    class Answer:
        def set_result(self, result):
            self.found = result

        def set_exception(self, error):
            raise error

        def result(self, seconds):
            asked.append(seconds)
            return self.found

    class Thread:
        def __init__(self, target, daemon):
            assert daemon
            self.start = target

    monkeypatch.setattr(shard_files, "Future", Answer)
    monkeypatch.setattr(shard_files, "threading", SimpleNamespace(Thread=Thread))
    return asked


@pytest.mark.parametrize(
    ("words", "size", "seconds", "expected"),
    [
        ("", 0, None, shard_files._SECONDS),
        ("7", 0, None, 7),
        ("7", shard_files._SLOWEST, None, 8),
        ("7", 3 * shard_files._SLOWEST, None, 10),
        ("7", shard_files._SLOWEST, 2.5, 2.5),
        ("7", 5, 0, 0),
    ],
)
def test_a_call_has_the_stores_time_and_that_of_its_bytes(
    words, size, seconds, expected, patience, monkeypatch
):
    monkeypatch.setenv("CAPTAU_STORE_SECONDS", words)
    assert call_in_time(lambda: "answer", size, seconds) == "answer"
    assert patience == [expected]


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


class Store:
    """A bucket of these files; a name's length is its size."""

    def __init__(self, *names):
        self.names, self.asked = names, []

    def invalidate_cache(self):
        self.asked.append("cache")

    def info(self, name):
        if name not in self.names:
            raise FileNotFoundError(name)
        return {"name": name, "type": "file", "size": len(name), "ETag": "e"}

    def isdir(self, name):
        return any(known.startswith(f"{name}/") for known in self.names)

    def ls(self, name, *, detail):
        assert detail
        folder = {"name": f"{name}/more.tar", "type": "directory"}
        return [folder, *(self.info(n) for n in self.names if n.startswith(f"{name}/"))]

    def glob(self, pattern, *, detail):
        assert detail
        return {n: self.info(n) for n in self.names if n.endswith(pattern.rpartition("*")[2])}

    def unstrip_protocol(self, name):
        return f"s3://{name}"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("b/f", ["b/f/a.jsonl", "b/f/2.tar", "b/f/10.tar"]),
        ("b/f/10.tar", ["b/f/10.tar"]),
        ("b/f/*.jsonl", ["b/f/a.jsonl"]),
        ("b/f/*.json", "s3://b/f/*.json: no shards there; "),
        ("b/g", "s3://b/g: no shards there; "),
        ("b/h", "s3://b/h: is not there"),
        ("b/f/*.md", "b/f/notes.md: its ending tells no kind; "),
    ],
)
def test_shards_of_a_store_are_listed_in_natural_order(url, expected, monkeypatch):
    names = (
        "b/f/10.tar",
        "b/f/2.tar",
        "b/f/notes.md",
        "b/f/_hidden.tar",
        "b/f/a.jsonl",
        "b/g/x.md",
    )
    store = Store(*names)
    monkeypatch.setattr(
        shard_files, "open_file_system", lambda url: (store, url.removeprefix("s3://"))
    )
    if isinstance(expected, str):
        with says(expected):
            shard_files._remote(f"s3://{url}")
    else:
        found = shard_files._remote(f"s3://{url}")
        assert [shard.path for shard in found] == [f"s3://{name}" for name in expected]
        assert [shard.size for shard in found] == [len(name) for name in expected]
    assert store.asked == ["cache"]


@pytest.mark.parametrize(
    ("info", "stamp"),
    [
        ({}, ""),
        ({"ETag": None, "etag": "x", "created": 3}, "x"),
        ({"ETag": "e", "mtime": 2.0}, "e"),
        ({"mtime": 2.5}, "2.5"),
        ({"created": datetime(1970, 1, 1, 0, 1, tzinfo=UTC)}, "60.0"),
    ],
)
def test_a_shard_is_stamped_by_the_first_that_the_store_says(info, stamp):
    found = shard_files._shard("s3://b/a.tar", "tar", {"size": "12", **info})
    assert found == shard_files.Shard("s3://b/a.tar", "tar", 12, stamp)


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
