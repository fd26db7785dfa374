"""Small files that hold very much are refused in a line, before what they hold is in memory."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from captau.benchmarks.commands.validate import validate
from captau.benchmarks.options.validate import ValidateOptions
from captau.datasets.download import archives
from captau.datasets.download.archives import Archive, is_archive
from captau.datasets.reading import shard_rows
from captau.datasets.reading.json_files import (
    MAX_CONTAINERS,
    read_json,
    read_json_lines,
)
from captau.datasets.reading.json_source import JsonSource
from captau.datasets.reading.shard_files import Shard, kind_of
from captau.datasets.reading.shard_rows import read_rows
from captau.datasets.reading.table import Columns
from captau.datasets.reading.tar_samples import list_members, open_tar, read_samples
from captau.datasets.reading.yaml_document import YamlDocument
from tests.benchmarks.large.large_sets import write
from tests.conftest import says

LISTS = "[" + "[]," * (MAX_CONTAINERS + 1_000_000) + "[]]"
ROW = '{"image_id": "a", "caption": %s}'


@pytest.mark.parametrize(
    "content",
    [
        LISTS,
        pytest.param(f"[{ROW % LISTS}]", marks=pytest.mark.slow),
        pytest.param(f'{{"a": {LISTS}}}', marks=pytest.mark.slow),
    ],
    ids=["lists", "row", "object"],
)
def test_json_of_millions_of_lists_is_not_parsed(content: str, tmp_path: Path) -> None:
    path = tmp_path / "bomb.json"
    path.write_text(content)
    with says("bomb.json", "more than 5,000,000 lists and objects", "get a new copy"):
        read_json(path)
    verdict = validate(ValidateOptions(file=path, kind="captions"))
    if content == LISTS:
        # Its entries are read one after another; after so many faults nobody reads on.
        assert "bomb.json:1: entry 0: a list, whose elements have no names" in verdict.faults[0]
        assert verdict.n_faults == 100_001
    else:
        assert "more than 5,000,000 lists and objects" in verdict.faults[0]
        # The first entry is refused.
        with says("bomb.json:1", "more than 5,000,000 lists and objects"):
            list(JsonSource(path).read())
    lines = tmp_path / "bomb.jsonl"
    lines.write_text(ROW % LISTS)
    with says("bomb.jsonl:1", "more than 5,000,000 lists and objects"):
        list(read_json_lines(lines))


def test_blank_lines_without_an_end_are_not_all_read(tmp_path: Path) -> None:
    """Two megabytes of gzip hold two thousand million of them."""
    path = tmp_path / "blank.jsonl.gz"
    path.write_bytes(gzip.compress(b"\n" * 1_000_002))
    with says("blank.jsonl.gz:1000001", "more than 1,000,000 blank lines"):
        list(JsonSource(path).read())


@pytest.mark.slow
def test_aliases_and_lists_of_yaml_are_counted_before_they_are_followed() -> None:
    laughs = "a0: &a0 [x, x]\n" + "".join(
        f"a{k + 1}: &a{k + 1} [*a{k}, *a{k}]\n" for k in range(40)
    )
    lists = "[" + "[]," * 200_000 + "[]]"
    for text, problem in (
        (laughs, "too many values"),
        (lists, "too many values"),
        ("#" * 3_000_000, "more than 2,000,000 characters"),
    ):
        with says(problem):
            YamlDocument(text, "bomb.yaml")


def zip_with_directory(n_bytes: int) -> bytes:
    """Return a zip with a directory of some bytes."""
    return b"\0" * n_bytes + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 9, 9, n_bytes, 0, 0)


def test_a_zip_with_a_million_members_is_not_listed(tmp_path: Path) -> None:
    path = tmp_path / "bomb.zip"
    path.write_bytes(zip_with_directory(58_000_000))
    with says("bomb.zip", "its directory has 58,000,000 bytes, where 16,777,216 at most are read"):
        Archive(path)
    path.write_bytes(zip_with_directory(2_000_000))
    verdict = validate(ValidateOptions(file=path))
    assert "its directory has 2,000,000 bytes, where 1,048,576 at most" in verdict.faults[0]


def test_a_tar_of_too_many_members_is_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bomb.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for number in range(12):
            archive.addfile(tarfile.TarInfo(f"{number}.txt"))
    assert len(Archive(path).names) == 12
    monkeypatch.setattr(archives, "MAX_MEMBERS", 11)
    with says("bomb.tar.gz: more than 11 files in it; unpack those that are needed"):
        Archive(path)


@pytest.mark.parametrize("kind", [b"L", b"K", b"x", b"g"])
def test_a_name_of_gigabytes_in_a_tar_is_not_read(kind: bytes, tmp_path: Path) -> None:
    header = tarfile.TarInfo("bomb")
    header.type, header.size = kind, 2 << 30
    path = tmp_path / "00.tar"
    path.write_bytes(header.tobuf(tarfile.GNU_FORMAT) + b"a" * 2048)
    assert is_archive(path)
    with says("00.tar", "a name of 2,147,483,648 bytes", "get a new copy"):
        Archive(path)
    with pytest.raises(tarfile.ReadError, match="a name of 2,147,483,648 bytes"):
        list(read_samples(path, "00.tar", images=False))


def test_members_that_were_read_are_forgotten() -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as target:
        for number in range(100):
            target.addfile(tarfile.TarInfo(f"{number}.txt"))
    stream.seek(0)
    with open_tar(stream) as archive:
        counts = [len(archive.members) for _ in list_members(archive, "a.tar")]
    assert counts == [0] * 100


@pytest.mark.parametrize("column", ["image_id", "caption", "references"])
def test_a_long_text_in_each_row_of_a_parquet_shard_is_not_repeated_in_memory(
    column: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of four row groups has the text once; 256 rows are read at a time until 1,000 are there.

    The bound is a 64th of the usual one, and so is the text.
    """
    monkeypatch.setattr(shard_rows, "MOST_BYTES", shard_rows.MOST_BYTES // 64)
    texts = ["a" * (1_000_000 // 64)] * 1_500
    columns = {"image_id": ["1"] * 1_500, "caption": ["a"] * 1_500, "references": [["a"]] * 1_500}
    columns[column] = [[text] for text in texts] if column == "references" else texts
    path = tmp_path / "bomb.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=400)
    assert path.stat().st_size < 100_000
    with says("bomb.parquet: the texts of rows 0 to 767 have more than 8 MB, the most that is"):
        list(read_rows(path, Shard("bomb.parquet", "parquet", 0, ""), Columns(), 1_000))


@pytest.mark.parametrize(
    "ending", ["parquet", "jsonl", "jsonl.gz", "jsonl.zst", "csv", "tar", "tar.gz"]
)
@pytest.mark.parametrize("column", ["caption", "references"])
def test_the_texts_that_are_read_at_a_time_are_bounded_in_each_kind_of_shard(
    column: str, ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each text has 0.4 MB, so that two rows have less than the bound of 1 MB, and three have more."""
    monkeypatch.setattr(shard_rows, "MOST_BYTES", 1 << 20)
    rows = [{"image_id": str(i), "caption": "a", "references": ["a"]} for i in range(7)]
    for number, row in enumerate(rows):
        text = f"{number}" + "é" * 200_000
        row[column] = [text] if column == "references" else text
    path = write(tmp_path / f"long.{ending}", rows)
    shard = Shard(path.name, kind_of(path.name) or "", 0, "")
    tables = list(read_rows(path, shard, Columns(), 2))
    assert [len(table) for table in tables] == [2, 2, 2, 1]
    with says(f"long.{ending}: the texts of rows 0 to 2 have more than 1 MB"):
        list(read_rows(path, shard, Columns(), 3))
