"""Kept rows of a shard are copied with bounded memory, and how much is read at a time does not change them."""

from __future__ import annotations

import gzip
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from captau.datasets.reading import kept_rows
from captau.datasets.reading.kept_rows import copy_kept_rows
from tests.benchmarks.large.large_sets import put
from tests.conftest import says

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
        monkeypatch.setattr(kept_rows, "STEP_ROWS", n_rows)
        filter_parquet(column, tmp_path)
        contents.add((tmp_path / "kept.parquet").read_bytes())
    assert len(contents) == 1


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


def numbers(folder: Path, n_rows: int, **options: int) -> Path:
    path = folder / "a.parquet"
    pq.write_table(pa.table({"n": pa.array(range(n_rows), pa.int64())}), path, **options)
    return path


def group_sizes(path: Path) -> list[int]:
    metadata = pq.read_metadata(path)
    return [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)]


def test_a_row_group_is_of_as_many_rows_as_are_read_for_it(tmp_path: Path) -> None:
    """Of 70,000 rows the first 65,536 make one; of these every second is kept."""
    path = numbers(tmp_path, 70_000)
    copy_kept_rows(
        path, "a.parquet", "parquet", [n % 2 == 0 for n in range(70_000)], tmp_path / "b"
    )
    assert group_sizes(tmp_path / "b") == [32_768, 2_232]
    assert pq.read_table(tmp_path / "b")["n"].to_pylist() == list(range(0, 70_000, 2))


def test_a_row_group_has_no_more_bytes_than_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = numbers(tmp_path, 60)
    monkeypatch.setattr(kept_rows, "STEP_ROWS", 10)
    with pq.ParquetFile(path) as file:
        (size,) = {batch.get_total_buffer_size() for batch in file.iter_batches(10)}
    for limit, groups in ((2 * size, [20] * 3), (2 * size - 1, [10] * 6), (5 * size, [50, 10])):
        monkeypatch.setattr(kept_rows, "_GROUP_BYTES", limit)
        copy_kept_rows(path, "a.parquet", "parquet", [True] * 60, tmp_path / "b")
        assert group_sizes(tmp_path / "b") == groups


def test_row_groups_of_categories_stay_apart(tmp_path: Path) -> None:
    """Other columns' are joined."""
    table = pa.table({"c": pa.array(["a", "b", "c", "d", "e"]).dictionary_encode()})
    for columns, groups in ((table, [2, 2, 1]), (pa.table({"n": range(5)}), [5])):
        pq.write_table(columns, tmp_path / "a.parquet", row_group_size=2)
        copy_kept_rows(tmp_path / "a.parquet", "a.parquet", "parquet", [True] * 5, tmp_path / "b")
        assert group_sizes(tmp_path / "b") == groups


def test_kept_lines_are_as_they_were_and_packed_as_the_name_says(tmp_path: Path) -> None:
    """Empty lines are no rows; the last has an end. The bytes of a packed file name no time and no file."""
    lines = b'{"a": 1}\n\n{"a":  2}\r\n  \n{"a": 3}'
    for packing, pack, unpack in (("", bytes, bytes), (".gz", gzip.compress, gzip.decompress)):
        source, target = tmp_path / "source", tmp_path / "target"
        source.write_bytes(pack(lines))
        for is_kept, kept in (
            ([True, False, True], b'{"a": 1}\n{"a": 3}\n'),
            ([False, True, False], b'{"a":  2}\r\n'),
        ):
            copy_kept_rows(source, f"A.JSONL{packing.upper()}", "lines", is_kept, target)
            content = target.read_bytes()
            assert unpack(content) == kept
            if packing:
                assert content[3:8] == b"\0" * 5
        for wrong in ([True] * 2, [True] * 4):
            with pytest.raises(ValueError, match="argument 2"):
                copy_kept_rows(source, f"a.jsonl{packing}", "lines", wrong, target)


def test_samples_of_another_number_than_were_scored_are_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for key in "abc":
            put(archive, f"{key}.txt", key.encode())
            put(archive, f"{key}.jpg", b"1")
    with says("a.tar: 3 samples, where 4 were scored"):
        copy_kept_rows(tmp_path / "a.tar", "a.tar", "tar", [True] * 4, tmp_path / "b.tar")
    assert not (tmp_path / "b.tar").exists()
    copy_kept_rows(tmp_path / "a.tar", "a.tar", "tar", [False, False, True], tmp_path / "b.tar.gz")
    with tarfile.open(tmp_path / "b.tar.gz", "r:") as archive:
        assert archive.getnames() == ["c.txt", "c.jpg"]


def test_kept_rows_of_a_csv_table_are_as_they_were(tmp_path):
    """A row goes on over a line's end inside quotes; an empty line outside them is no row."""
    rows = [b'1,"a ""dog""\n\n, runs"\n', b"2,a cat\r\n", b"\n", b'3,"two\nmen"']
    for name, packing in (("a.csv", bytes), ("a.csv.gz", gzip.compress)):
        (tmp_path / name).write_bytes(packing(b"".join([b"image_id,caption\n", *rows])))
        copy_kept_rows(tmp_path / name, name, "csv", [True, False, True], tmp_path / "copy")
        content = (tmp_path / "copy").read_bytes()
        content = gzip.decompress(content) if packing is not bytes else content
        assert content == b"".join([b"image_id,caption\n", rows[0], rows[3], b"\n"])
