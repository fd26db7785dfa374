"""Rows of shards in tables: how many at a time, how long their texts may be, and what a sample's row is."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from captau.datasets.reading import shard_rows
from captau.datasets.reading.shard_files import Shard, stat_shard
from captau.datasets.reading.shard_rows import (
    SCHEMA,
    check_size,
    count_text_bytes,
    join_tables,
    missing_column,
    read_rows,
    tables_of_rows,
)
from captau.datasets.reading.table import Columns
from captau.datasets.reading.tar_samples import read_samples
from tests.benchmarks.large.large_sets import put
from tests.conftest import says

COLUMNS = Columns()


def test_bytes_of_texts_are_those_of_utf_8() -> None:
    assert count_text_bytes([]) == 0
    assert count_text_bytes(["abc", "é", "狗", ""]) == 3 + 2 + 3


def test_texts_may_have_as_many_bytes_as_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    check_size("s", 0, 1, shard_rows.MOST_BYTES)
    with says(
        "s: the texts of rows 1,000 to 1,999 have more than 512 MB, the most that is read at a time; not a file of "
        "captions"
    ):
        check_size("s", 1000, 1000, shard_rows.MOST_BYTES + 1)
    rows: list[Any] = [("1", "a" * 1_000, None), ("2", "b", ("c" * 999,)), ("3", "d" * 1_000, None)]
    for limit, size, message in (
        (3_100, 3, ""),
        (2_900, 3, "rows 0 to 2"),
        (2_100, 2, ""),
        (1_900, 2, "rows 0 to 1"),
        (900, 1, "rows 0 to 0"),
    ):
        monkeypatch.setattr(shard_rows, "MOST_BYTES", limit)
        tables = join_tables(tables_of_rows(rows), "s", size)
        if message:
            with says(f"s: the texts of {message} have more than"):
                list(tables)
        else:
            assert sum(map(len, tables)) == 3


@pytest.mark.parametrize(("size", "sizes"), [(1, [1, 1, 1]), (2, [2, 1]), (3, [3]), (4, [3])])
def test_rows_are_numbered_through_tables_of_a_size(size: int, sizes: list[int]) -> None:
    rows: list[Any] = [("1", "a", None), ("2", "b", ("c", "d")), ("3", "e", ())]
    images = ["x", "y", "z"]
    tables = list(join_tables(tables_of_rows(rows), "s", size))
    assert [len(table) for table in tables] == sizes
    assert {table.schema for table in tables} == {SCHEMA}
    assert pa.concat_tables(tables).to_pylist() == [
        {"row": 0, "image_id": "1", "caption": "a", "references": None},
        {"row": 1, "image_id": "2", "caption": "b", "references": ["c", "d"]},
        {"row": 2, "image_id": "3", "caption": "e", "references": []},
    ]
    taken: list[str] = []

    def with_images() -> Any:
        for row, image in zip(rows, images, strict=True):
            taken.append(image)
            yield row

    tables = list(join_tables(tables_of_rows(with_images(), taken), "s", size))
    assert [image for table in tables for image in table.column("image").to_pylist()] == images
    assert taken == []
    assert list(join_tables(tables_of_rows([]), "s", 2)) == []


def parquet(folder: Path, columns: dict[str, Any], **options: int) -> tuple[Path, Shard]:
    path = folder / "a.parquet"
    pq.write_table(pa.table(columns), path, **options)
    return path, Shard(str(path), "parquet", 0, "")


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 8])
def test_tables_of_parquet_span_row_groups(size: int, tmp_path: Path) -> None:
    columns = {"image_id": list(range(7)), "caption": list("abcdefg")}
    path, shard = parquet(tmp_path, columns, row_group_size=3)
    tables = list(read_rows(path, shard, COLUMNS, size))
    assert [len(table) for table in tables] == [
        *[size] * (7 // size),
        *([7 % size] if 7 % size else []),
    ]
    table = pa.concat_tables(tables)
    assert table.column("row").to_pylist() == list(range(7))
    assert table.column("image_id").to_pylist() == list("0123456")
    assert table.column("caption").to_pylist() == list("abcdefg")
    assert table.column("references").null_count == 7


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"image_id": ["1"]},
            "no column 'caption'; there are: image_id; columns.caption=NAME names another",
        ),
        (
            {"image_id": ["1", "2"], "caption": ["a", None]},
            "row 1: 'caption' is null; fill it or leave the row out",
        ),
        ({"image_id": ["1"], "caption": [1.5]}, "'caption' is double, not text; write it as text"),
        ({"image_id": [1.5], "caption": ["a"]}, "'image_id' is double, not text; write it as text"),
        (
            {"image_id": ["1"], "caption": ["a"], "references": ["b"]},
            "'references' is string, not a list of texts; write it as one",
        ),
        (
            {"image_id": ["1"], "caption": ["a"], "references": [["b", None]]},
            "'references' holds a null; fill it or leave it out",
        ),
    ],
)
def test_columns_of_another_kind_are_named(
    columns: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path, shard = parquet(tmp_path, columns)
    with says(f"{path}: {message}"):
        list(read_rows(path, shard, COLUMNS, 10))


def test_a_missing_column_of_no_columns_is_named() -> None:
    error = missing_column("s", "caption", "text", [])
    assert str(error) == "s: no column 'text'; there are: none; columns.caption=NAME names another"


def write_text(folder: Path, name: str, text: str) -> tuple[Path, Shard]:
    path = folder / name
    path.write_bytes(text.encode())
    return path, stat_shard(str(path))


def test_a_csv_table_has_texts_and_lists(tmp_path: Path) -> None:
    """An id of digits keeps its zeros; a cell in quotes may have commas and lines."""
    cells = [
        ["image_id", "other", "caption", "references"],
        ["007", "1.5", '"a dog, and\na ""cat"""', '"[""a dog"", ""a cat""]"'],
        ["é", "x", "a bird", "a bird ||| two birds"],
        ["", "", "", ""],
    ]
    path, shard = write_text(tmp_path, "a.csv", "".join(f"{','.join(row)}\n" for row in cells))
    (table,) = read_rows(path, shard, COLUMNS, 10)
    caption = 'a dog, and\na "cat"'
    assert table.to_pylist() == [
        {"row": 0, "image_id": "007", "caption": caption, "references": ["a dog", "a cat"]},
        {"row": 1, "image_id": "é", "caption": "a bird", "references": ["a bird", "two birds"]},
        {"row": 2, "image_id": "", "caption": "", "references": None},
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "image_id,words\n1,a\n",
            "no column 'caption'; there are: image_id, words; columns.caption=",
        ),
        (
            "image_id,caption\n1,a,b\n",
            "corrupt (CSV parse error: Row #2: Expected 2 columns, got 3: 1,a,b); get",
        ),
        ("image_id,caption,references\n1,a,{'b'}\n", "row 0: references is "),
    ],
)
def test_faults_of_a_csv_table_are_named(text: str, message: str, tmp_path: Path) -> None:
    path, shard = write_text(tmp_path, "a.csv", text)
    with says(f"{path}: {message}"):
        list(read_rows(path, shard, COLUMNS, 10))


def test_lines_that_arrow_refuses_are_read_by_the_rules_of_small_files(tmp_path: Path) -> None:
    """Arrow reads what stands before them, in steps of 1 MB; half a character becomes U+FFFD, as in a small file."""
    long_text = "a" * 2_000_000
    lines = ['{"image_id": "a", "caption": "b"}\n'] * 40_000
    lines += ['{"image_id": 7, "caption": "\\ud800", "references": ["c"]}\n']
    lines += [f'{{"image_id": "d", "caption": "{long_text}"}}\n']
    path, shard = write_text(tmp_path, "a.jsonl", "".join(lines))
    table = pa.concat_tables(read_rows(path, shard, COLUMNS, 1_000))
    assert table["row"].to_pylist() == list(range(40_002))
    assert table.slice(39_999).to_pylist() == [
        {"row": 39_999, "image_id": "a", "caption": "b", "references": None},
        {"row": 40_000, "image_id": "7", "caption": "\ufffd", "references": ["c"]},
        {"row": 40_001, "image_id": "d", "caption": long_text, "references": None},
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"image_id": "1"}', "3: no column 'caption'; there are: image_id; columns.caption=NAME"),
        ('{"image_id": "1", "caption": null}', "3: 'caption' is None, not str"),
        ('{"image_id": "1", "caption": "a', "3: "),
        ('{"image_id": "1", "image_id": "2", "caption": "a"}', "3: "),
        ("[1]", "3: an object is expected, not list"),
    ],
)
def test_a_fault_of_json_lines_is_named_by_its_line(
    line: str, message: str, tmp_path: Path
) -> None:
    first = '{"image_id": "2020-01-01", "caption": "a"}\n\n'
    path, shard = write_text(tmp_path, "a.jsonl", first + line)
    with says(message):
        list(read_rows(path, shard, COLUMNS, 10))


def test_samples_of_a_tar_have_the_parts_that_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        for name in ("a.jpg", "a.TXT", "no.jpg", "f/b.x", "f/b.json", "._b.txt"):
            put(archive, name, name.encode())
    found = [(s.key, s.endings, s.parts) for s in read_samples(path, "a.tar", images=False)]
    assert found == [
        ("a", {"jpg", "txt"}, {"txt": b"a.TXT"}),
        ("f/b", {"x", "json"}, {"json": b"f/b.json"}),
    ]
    with_images = [s.parts for s in read_samples(path, "a.tar", images=True)]
    assert with_images == [{"jpg": b"a.jpg", "txt": b"a.TXT"}, {"json": b"f/b.json"}]


@pytest.mark.parametrize(
    ("members", "row"),
    [
        ({"txt": b"\n a \n"}, ("k", " a ", None)),
        ({"caption": "\ufeffé".encode()}, ("k", "é", None)),
        ({"json": b'{"caption": "a", "references": ["b"]}'}, ("k", "a", ["b"])),
        ({"json": b'{"caption": "a", "image_id": 7}'}, ("7", "a", None)),
        ({"json": b'{"caption": "a"}', "txt": b"a"}, ("k", "a", None)),
        ({"json": b"{}", "txt": b"a"}, ("k", "a", None)),
        ({"json": b'{"caption": "b"}', "txt": b"a"}, "has two captions, one in .txt; keep one"),
        ({"txt": b"a", "caption": b"b"}, "has two captions, one in .caption; keep one"),
        ({"json": b"[]"}, "its .json holds no object"),
        ({"txt": b"\xff"}, "not UTF-8 text; save it as UTF-8"),
    ],
)
def test_a_sample_is_a_row(members: dict[str, bytes], row: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        for ending, content in members.items():
            put(archive, f"k.{ending}", content)
    tables = read_rows(path, Shard("a.tar", "tar", 0, ""), COLUMNS, 5)
    if isinstance(row, str):
        with says(f"a.tar: sample 'k': {row}"):
            list(tables)
    else:
        (table,) = tables
        (found,) = table.to_pylist()
        assert tuple(found.values()) == (0, *row)


def test_images_of_samples_are_numbered_files(tmp_path: Path) -> None:
    path, folder = tmp_path / "a.tar", tmp_path / "images"
    folder.mkdir()
    with tarfile.open(path, "w") as archive:
        for key, ending in (("../x", "PNG"), ("y", "jpeg")):
            put(archive, f"{key}.{ending}", key.encode())
            put(archive, f"{key}.txt", b"a")
    tables = list(read_rows(path, Shard("a.tar", "tar", 0, ""), COLUMNS, 1, folder))
    paths = [table.column("image").to_pylist() for table in tables]
    assert paths == [[str(folder / "0.png")], [str(folder / "1.jpeg")]]
    assert (folder / "0.png").read_bytes() == b"../x"
    with tarfile.open(path, "w") as archive:
        put(archive, "z.txt", b"a")
    with says("a.tar: sample 'z' has no image; metrics asked for need it"):
        list(read_rows(path, Shard("a.tar", "tar", 0, ""), COLUMNS, 1, folder))
