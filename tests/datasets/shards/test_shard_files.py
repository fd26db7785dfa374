"""Calls to an object store by a stand-in: how long they may take, what is listed, and what errors say."""

from __future__ import annotations

import bz2
import gzip
import lzma
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pyarrow as pa
import pytest

from captau.datasets.shards import shard_files
from captau.datasets.shards.shard_files import (
    RemotePath,
    Shard,
    call_in_time,
    find_shards,
    is_url,
    kind_of,
    local_copy,
    open_file_system,
    open_unpacked,
    plain_name,
    reporting_store_errors,
    stat_shard,
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
        ("b/f", ["b/f/2.tar", "b/f/10.tar", "b/f/a.jsonl"]),
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
            find_shards([f"s3://{url}"])
    else:
        found = find_shards([f"s3://{url}"])
        assert [shard.path for shard in found] == [f"s3://{name}" for name in expected]
        assert [shard.size for shard in found] == [len(name) for name in expected]
    assert store.asked == ["cache"]


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

    monkeypatch.setattr(shard_files, "call_in_time", call)
    return asked


def test_a_path_in_a_store_does_what_a_path_does(calls, monkeypatch, tmp_path):
    bucket, opened = Bucket(one=1, two=2), []
    monkeypatch.setattr(
        shard_files, "open_file_system", lambda url: opened.append(url) or (bucket, "b/f/")
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
    monkeypatch.setattr(shard_files, "open_file_system", lambda url: (bucket, "b"))
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


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("a.parquet", "parquet"),
        ("A.PQ", "parquet"),
        ("a.jsonl", "lines"),
        ("a.ndjson.lz4", "lines"),
        ("a.tar.zst", "tar"),
        ("a.json.gz", "json"),
        ("a.json.zst", None),
        ("a.csv", None),
        ("parquet", None),
    ],
)
def test_the_kind_of_a_shard_is_told_by_its_ending(path, kind):
    assert kind_of(path) == kind


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("s3://b/x.jsonl.zst", "x.jsonl"),
        ("b/A.TAR.XZ", "A.TAR"),
        ("a.tar.lz4", "a.tar"),
        ("a.tar.bz2", "a.tar"),
        ("a.jsonl.gz", "a.jsonl.gz"),
        ("a.parquet", "a.parquet"),
        ("a/b/", "b"),
    ],
)
def test_kept_rows_are_packed_by_gzip_alone(path, name):
    assert plain_name(path) == name


@pytest.fixture
def folder(tmp_path):
    for name in (
        "p-10.tar",
        "p-9.tar",
        "p-9a.tar",
        "p.tar",
        "_x.tar",
        ".y.tar",
        "notes.md",
        "b.jsonl",
    ):
        (tmp_path / name).write_text(name)
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "c.jsonl.gz").write_text("c")
    return tmp_path


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        ([""], ["b.jsonl", "p-9.tar", "p-9a.tar", "p-10.tar", "p.tar"]),
        (["p-*.tar"], ["p-9.tar", "p-9a.tar", "p-10.tar"]),
        (["p-10.tar", "p-*.tar"], ["p-10.tar", "p-9.tar", "p-9a.tar"]),
        (["**/*.gz"], ["more/c.jsonl.gz"]),
    ],
)
def test_shards_of_a_folder_are_listed_once_in_natural_order(paths, names, folder):
    found = find_shards([str(folder / path) for path in paths])
    assert [shard.path for shard in found] == [str(folder / name) for name in names]
    stat = (folder / names[0]).stat()
    kind = "lines" if "jsonl" in names[0] else "tar"
    assert found[0] == Shard(str(folder / names[0]), kind, stat.st_size, str(stat.st_mtime_ns))


def test_shards_of_one_name_stay_together(tmp_path):
    names = ["a-2.tar", "a-10.tar", "z-1.tar", "z-01.tar", "z-3.tar"]
    for name in names:
        (tmp_path / name).touch()
    assert [Path(shard.path).name for shard in find_shards([str(tmp_path)])] == [
        *("a-2.tar", "a-10.tar", "z-01.tar", "z-1.tar", "z-3.tar")
    ]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (
            "empty",
            "empty: no shards there; Parquet (.parquet), JSON lines (.jsonl, .jsonl.gz, .jsonl.zst) or tar (.tar, .tar.gz) is expected",
        ),
        ("*.zip", "*.zip: no shards there; "),
        ("none.tar", "none.tar: cannot be read (No such file or directory)"),
        ("notes.md", "notes.md: its ending tells no kind; Parquet (.parquet), JSON lines"),
        ("none", "none: its ending tells no kind; "),
    ],
)
def test_where_there_are_no_shards_the_place_is_named(path, message, folder):
    (folder / "empty").mkdir()
    with says(f"{folder}/{message}"):
        find_shards([str(folder / path)])


def test_a_name_with_brackets_is_no_pattern_where_it_is_there(tmp_path):
    for name in ("a[1].tar", "a1.tar"):
        (tmp_path / name).write_text("")
    (found,) = find_shards([str(tmp_path / "a[1].tar")])
    assert found.path == str(tmp_path / "a[1].tar")


class OneFile(Store):
    """A store of one file with a content and a tag."""

    content, tag = b"content", "e"

    def info(self, name):
        return {"name": name, "type": "file", "size": len(self.content), "ETag": self.tag}

    def get_file(self, inside, path):
        self.asked.append((inside, path))
        Path(path).write_bytes(self.content)


def test_a_shard_behind_a_url_is_copied_while_it_is_read(monkeypatch, tmp_path, calls):
    store = OneFile("b/a.tar")
    monkeypatch.setattr(
        shard_files, "open_file_system", lambda url: (store, url.removeprefix("s3://"))
    )
    monkeypatch.setattr(
        shard_files, "call_in_time", lambda call, size=0: calls.append(size) or call()
    )
    shard = stat_shard("s3://b/a.tar")
    assert shard == Shard("s3://b/a.tar", "tar", 7, "e")
    assert store.asked == ["cache"]
    with local_copy(shard, tmp_path) as path:
        assert path.read_bytes() == b"content"
        assert path.parent == tmp_path
        assert path.name.startswith(".")
        assert len(path.name) == len(".0123456789abcdef.copy")
        assert path.suffix == ".copy"
    assert list(tmp_path.iterdir()) == []
    assert calls == [0, 7, 0, 0]
    changed = (
        "s3://b/a.tar: changed since the run began; put it back, or score into another output_dir="
    )
    with says(changed), local_copy(shard, tmp_path):
        store.tag = "f"
    assert list(tmp_path.iterdir()) == []
    with says(changed), local_copy(shard, tmp_path):
        raise AssertionError
    assert list(tmp_path.iterdir()) == []
    with says("s3://b/a.md: its ending tells no kind; "):
        stat_shard("s3://b/a.md")


def test_a_shard_of_this_machine_is_read_where_it_lies(tmp_path):
    path = tmp_path / "a.tar"
    path.write_bytes(b"x")
    shard = stat_shard(str(path))
    with local_copy(shard, tmp_path) as found:
        assert found == path
    with says(f"{path}: changed since the run began"), local_copy(shard, tmp_path):
        path.write_bytes(b"xy")
    assert path.read_bytes() == b"xy"


@pytest.mark.parametrize("packing", ["", ".gz", ".bz2", ".xz", ".zst", ".lz4"])
def test_packed_files_are_unpacked_as_their_names_say(packing, tmp_path):
    content = b"one\ntwo\n" * 1000
    path = tmp_path / "file"
    if packing in (".zst", ".lz4"):
        with pa.CompressedOutputStream(
            str(path), {".zst": "zstd", ".lz4": "lz4"}[packing]
        ) as stream:
            stream.write(content)
    else:
        pack = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}[
            packing
        ]
        path.write_bytes(pack(content))
    with open_unpacked(path, f"A.JSONL{packing.upper()}") as stream:
        assert stream.readline() == b"one\n"
        assert stream.read() == content[4:]
    path.write_bytes(b"")
    if packing:
        with pytest.raises(EOFError, match=r"^it is empty$"), open_unpacked(path, f"a{packing}"):
            pass
    else:
        with open_unpacked(path, "a.jsonl") as stream:
            assert stream.read() == b""
