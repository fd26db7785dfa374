"""Shards that are found by path, glob, folder and URL, here and in a stand-in for an object store."""

from __future__ import annotations

from pathlib import Path

import pytest

from captau.datasets.reading import shard_files
from captau.datasets.reading.shard_files import (
    Shard,
    find_shards,
    kind_of,
    local_copy,
    name_of_copy,
    stat_shard,
)
from tests.conftest import says


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


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("a.parquet", "parquet"),
        ("A.PQ", "parquet"),
        ("a.jsonl", "lines"),
        ("a.ndjson.lz4", "lines"),
        ("a.tar.zst", "tar"),
        ("a.json.gz", "json"),
        ("a.json.zst", "json"),
        ("a.csv", "csv"),
        ("a.CSV.gz", "csv"),
        ("a.parquet.gz", None),
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
    assert name_of_copy(path) == name


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
            "empty: no shards there; Parquet (.parquet), JSON lines (.jsonl, .jsonl.gz), CSV (.csv, .csv.gz) or tar (.tar, .tar.gz) is expected",
        ),
        ("texts", "texts: no shards there, but a text file for each caption; write all into one"),
        ("*.zip", "*.zip: no shards there; "),
        ("none.tar", "none.tar: cannot be read (No such file or directory)"),
        ("notes.md", "notes.md: its ending tells no kind; Parquet (.parquet), JSON lines"),
        ("none", "none: its ending tells no kind; "),
    ],
)
def test_where_there_are_no_shards_the_place_is_named(path, message, folder):
    (folder / "empty").mkdir()
    (folder / "texts").mkdir()
    (folder / "texts" / "1.txt").write_text("a dog")
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


def test_a_shard_behind_a_url_is_copied_while_it_is_read(monkeypatch, tmp_path):
    calls = []
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
