"""Kept rows of a shard are copied with bounded memory, and how much is read at a time does not change them."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from captau.datasets.shards import kept_rows
from captau.datasets.shards.kept_rows import copy_kept_rows
from tests.benchmarks.large.large_sets import put

N_ROWS = 300
TEXTS = [f"text {i} " * (1 + i % 50) for i in range(N_ROWS)]
COLUMNS = {
    "texts": pa.array(TEXTS),
    "repeated texts": pa.array([None, "a" * 1_000, "b"] * 100),
    "categories": pa.array(TEXTS).dictionary_encode(),
    "views": pa.array(TEXTS, pa.string_view()),
    "bytes": pa.array([text.encode() for text in TEXTS], pa.large_binary()),
    "lists": pa.array([None, [], [None, "a" * 1_000]] * 100),
    "structures": pa.array([{"a": [b"x" * 1_000], "b": 1}, None, {"a": [], "b": None}] * 100),
    "maps": pa.array([[("a" * 1_000, "b")], None, []] * 100, pa.map_(pa.string(), pa.string())),
    "numbers": pa.array([1.5, None, -1.0] * 100),
}
IS_KEPT = [i % 3 != 1 and i // 60 != 2 for i in range(N_ROWS)]


def filter_parquet(column: str, folder: Path, row_group_size: int = 70) -> pq.ParquetFile:
    """Copy the kept rows of a shard that has a column among the others."""
    shard, target = folder / "a.parquet", folder / "kept.parquet"
    table = pa.table({"image_id": range(N_ROWS), column: COLUMNS[column]})
    pq.write_table(table, shard, row_group_size=row_group_size)
    copy_kept_rows(shard, "a.parquet", "parquet", IS_KEPT, target)
    copy = pq.ParquetFile(target)
    expected = [row for row, is_kept in zip(table.to_pylist(), IS_KEPT, strict=True) if is_kept]
    assert copy.schema_arrow == table.schema
    assert copy.read().to_pylist() == expected
    return copy


@pytest.mark.parametrize("column", COLUMNS)
def test_the_number_of_rows_that_are_read_at_a_time_changes_no_byte_of_a_copy(
    column: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_rows, "_GROUP_ROWS", 128)
    contents: set[bytes] = set()
    for n_rows in (128, 32, 1):
        monkeypatch.setattr(kept_rows, "_COPIED_ROWS", n_rows)
        filter_parquet(column, tmp_path)
        contents.add((tmp_path / "kept.parquet").read_bytes())
    assert len(contents) == 1


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("row_group_size", [7, N_ROWS])
def test_row_groups_of_a_copy_have_fewer_rows_where_rows_are_long(
    column: str, row_group_size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The columns with texts have more than 50 kB, and a row group of more rows than one has 8 kB at most."""
    monkeypatch.setattr(kept_rows, "_GROUP_BYTES", 1 << 13)
    monkeypatch.setattr(kept_rows, "_COPIED_ROWS", 4)
    metadata = filter_parquet(column, tmp_path, row_group_size).metadata
    if column != "numbers":
        assert metadata.num_row_groups >= 5


@pytest.mark.parametrize("most_bytes", [10, 1 << 26])
def test_a_long_sample_of_a_tar_waits_in_a_file_and_is_copied_as_it_is(
    most_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_rows, "_SAMPLE_BYTES", most_bytes)
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for key, content in (("a", b"a" * 20), ("b", b"b"), ("no caption", b"c"), ("d", b"d" * 9)):
            put(archive, f"{key}.mp4", content)
            if key != "no caption":
                put(archive, f"{key}.txt", content.upper())
    copy_kept_rows(tmp_path / "a.tar", "a.tar", "tar", [True, False, True], tmp_path / "b.tar")
    with tarfile.open(tmp_path / "b.tar") as archive:
        contents = {m.name: archive.extractfile(m).read() for m in archive}  # pyright: ignore
    assert contents == {
        "a.mp4": b"a" * 20,
        "a.txt": b"A" * 20,
        "d.mp4": b"d" * 9,
        "d.txt": b"D" * 9,
    }
    assert {path.name for path in tmp_path.iterdir()} == {"a.tar", "b.tar"}
