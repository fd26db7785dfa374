"""Arrow files, and folders that hold one table in parts, as Hugging Face's `save_to_disk` and its Hub write them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from captau.datasets.reading.caption_files import read_candidates, read_references
from captau.datasets.reading.json_source import JsonSource
from captau.datasets.reading.table import read_table
from captau.datasets.reading.table_folders import holds_table
from tests.conftest import says
from tests.field_files import CAPTIONS, CIDER, COCO, REFERENCES, write

TABLE = pa.table({"image_id": list(CAPTIONS), "caption": list(CAPTIONS.values())})
REFERENCE_TABLE = pa.table(
    {"image_id": list(REFERENCES), "captions": [list(texts) for texts in REFERENCES.values()]}
)
EXPECTED = {str(i): caption for i, caption in CAPTIONS.items()}
EXPECTED_REFERENCES = {str(i): texts for i, texts in REFERENCES.items()}


def write_stream(path: Path, table: pa.Table) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    return path


def write_file(path: Path, table: pa.Table) -> Path:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    return path


def save_to_disk(folder: Path, tables: Sequence[pa.Table]) -> Path:
    """Write what `datasets.Dataset.save_to_disk` writes: streams, and their names in an order of its own."""
    names = [f"data-{n:05d}-of-{len(tables):05d}.arrow" for n in range(len(tables))]
    for name, table in zip(names, tables, strict=True):
        write_stream(folder / name, table)
    state = {"_data_files": [{"filename": name} for name in names], "_split": None}
    write(folder / "state.json", state)
    write(folder / "dataset_info.json", {"features": {"image_id": {"dtype": "int64"}}})
    return folder


def write_parquet(path: Path, table: pa.Table) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
    return path


@pytest.mark.parametrize("write_arrow", [write_stream, write_file])
def test_an_arrow_file_is_known_by_its_first_bytes(write_arrow: Any, tmp_path: Path) -> None:
    for name in ("c.arrow", "c.feather", "c.json", "c"):
        assert read_candidates(write_arrow(tmp_path / name, TABLE)).captions == EXPECTED
    references = write_arrow(tmp_path / "r.arrow", REFERENCE_TABLE)
    assert read_references(references).texts == EXPECTED_REFERENCES


@pytest.mark.parametrize("write_arrow", [write_stream, write_file])
def test_an_arrow_file_that_ends_early_is_damaged(write_arrow: Any, tmp_path: Path) -> None:
    path = write_arrow(tmp_path / "c.arrow", TABLE)
    path.write_bytes(path.read_bytes()[:-200])
    with says("c.arrow: not a complete Arrow file", "get a new copy"):
        read_candidates(path)


def test_structs_and_small_floats_of_arrow_are_those_of_parquet(tmp_path: Path) -> None:
    images = pa.array([{"bytes": b"", "path": "7.jpg"}])
    table = pa.table({"image": images, "score": pa.array([0.1], pa.float32())})
    tables = [
        read_table(write_stream(tmp_path / "t.arrow", table)),
        read_table(write_parquet(tmp_path / "t.parquet", table)),
    ]
    for read in tables:
        assert read.names == ("image.bytes", "image.path", "score")
        assert read.column("image.path") == ["7.jpg"]
        assert read.column("score") == [0.1]


def test_a_saved_data_set_is_read_in_the_order_of_its_parts(tmp_path: Path) -> None:
    folder = save_to_disk(tmp_path / "mine", [TABLE.slice(0, 2), TABLE.slice(2)])
    captions = read_candidates(folder).captions
    assert captions == EXPECTED
    assert list(captions) == list(EXPECTED)

    (folder / "data-00001-of-00002.arrow").unlink()
    with says("data-00001-of-00002.arrow: it does not exist, and state.json names it"):
        read_candidates(folder)


def test_a_name_in_a_state_leads_out_of_no_folder(tmp_path: Path) -> None:
    write_stream(tmp_path / "other.arrow", TABLE)
    folder = save_to_disk(tmp_path / "mine", [TABLE])
    write(folder / "state.json", {"_data_files": [{"filename": "../other.arrow"}]})
    with says("state.json: it names no files of data"):
        read_candidates(folder)


def test_splits_of_a_saved_dictionary_are_read_together_or_one_of_them(tmp_path: Path) -> None:
    folder = tmp_path / "sets"
    save_to_disk(folder / "test", [REFERENCE_TABLE.slice(0, 2)])
    save_to_disk(folder / "validation", [REFERENCE_TABLE.slice(2)])
    write(folder / "dataset_dict.json", {"splits": ["test", "validation"]})
    assert read_references(folder).texts == EXPECTED_REFERENCES
    first_two = dict(list(EXPECTED_REFERENCES.items())[:2])
    assert read_references(folder, split="test").texts == first_two


@pytest.mark.parametrize(
    "names",
    [
        ("data/test-00000-of-00002.parquet", "data/test-00001-of-00002.parquet"),
        ("data/test-00000-of-00002-abcdef01.parquet", "data/test-00001-of-00002-9a.parquet"),
        ("default/test/0000.parquet", "default/test/0001.parquet"),
        ("data/test.parquet", "data/train.parquet"),
    ],
)
def test_a_clone_of_the_hub_is_one_table(names: tuple[str, str], tmp_path: Path) -> None:
    write(tmp_path / "README.md", "# Captions")
    write_parquet(tmp_path / ".cache" / "other.parquet", TABLE)
    for name, rows in zip(names, (TABLE.slice(0, 2), TABLE.slice(2)), strict=True):
        write_parquet(tmp_path / name, rows)
    assert holds_table(tmp_path)
    assert read_candidates(tmp_path).captions == EXPECTED


@pytest.mark.parametrize(
    "names",
    [
        ("part-0.parquet", "part-1.parquet"),
        ("part.0.parquet", "part.1.parquet"),
        ("part-00000-0a1b-c000.snappy.parquet", "part-00001-0a1b-c000.snappy.parquet"),
    ],
)
def test_parts_that_a_program_wrote_are_one_table_of_references(
    names: tuple[str, str], tmp_path: Path
) -> None:
    """Arrow, Dask and Spark name the parts of what they write; of candidates such a folder is one of shards."""
    rows = [{"image_id": i, "references": list(texts)} for i, texts in EXPECTED_REFERENCES.items()]
    for name, part in zip(names, (rows[:1], rows[1:]), strict=True):
        write_parquet(tmp_path / name, pa.Table.from_pylist(part))
    write(tmp_path / "_SUCCESS", "")
    assert read_references(tmp_path).texts == EXPECTED_REFERENCES
    assert not holds_table(tmp_path)


def test_files_that_are_no_parts_are_refused(tmp_path: Path) -> None:
    for name in ("data/mine.parquet", "data/theirs.parquet"):
        write_parquet(tmp_path / name, TABLE)
    with says("it holds several tables, such as data/mine.parquet and data/theirs.parquet"):
        read_candidates(tmp_path)


def test_parts_of_several_configurations_are_refused(tmp_path: Path) -> None:
    for name in ("a/test/0000.parquet", "b/test/0000.parquet"):
        write_parquet(tmp_path / name, TABLE)
    with says("it holds several tables, in a/test, b/test; name one of these folders"):
        read_candidates(tmp_path)


def test_a_folder_without_tables_says_what_it_holds(tmp_path: Path) -> None:
    write(tmp_path / "captions.txt", "a dog")
    with says("a folder without a table in parts", "it holds captions.txt"):
        read_references(tmp_path)


def test_parts_with_other_columns_are_refused(tmp_path: Path) -> None:
    write_parquet(tmp_path / "data/test-00000-of-00002.parquet", TABLE)
    write_parquet(tmp_path / "data/test-00001-of-00002.parquet", REFERENCE_TABLE)
    with says("its columns are image_id, captions, and those of"):
        read_candidates(tmp_path)


def test_a_folder_s_digest_is_that_of_its_parts(tmp_path: Path) -> None:
    one = save_to_disk(tmp_path / "one", [TABLE])
    two = save_to_disk(tmp_path / "two", [TABLE])
    other = save_to_disk(tmp_path / "other", [TABLE.slice(1)])
    assert JsonSource(one).sha256 == JsonSource(two).sha256
    assert JsonSource(one).sha256 != JsonSource(other).sha256


def test_saved_data_sets_are_scored(captau: Any, tmp_path: Path) -> None:
    candidates = save_to_disk(tmp_path / "mine", [TABLE])
    references = save_to_disk(tmp_path / "theirs", [REFERENCE_TABLE])
    status, out, err = captau(
        "score", f"candidates={candidates}", f"references={references}", "metrics=cider"
    )
    assert status == 0, err
    assert f"| CIDEr | {CIDER} |" in out


def test_a_saved_data_set_is_no_set_of_shards(captau: Any, tmp_path: Path) -> None:
    candidates = save_to_disk(tmp_path / "mine", [TABLE])
    references = write(tmp_path / "r.json", COCO)
    status, _, err = captau(
        "score", f"candidates={candidates}", f"references={references}", "engine=local"
    )
    assert status == 2
    assert "Arrow files of save_to_disk are no shards of a large set; leave out engine=" in err


def test_a_saved_data_set_is_validated(captau: Any, tmp_path: Path) -> None:
    candidates = save_to_disk(tmp_path / "mine", [TABLE])
    references = save_to_disk(tmp_path / "theirs", [REFERENCE_TABLE])
    status, out, err = captau("validate", candidates, f"references={references}")
    assert (status, err) == (0, "")
    assert f"{candidates}: valid: 6 captions" in out

    (tmp_path / "empty").mkdir()
    status, _, err = captau("validate", tmp_path / "empty")
    assert status == 2
    assert "it is a folder without a table; name a file" in err


def test_references_of_a_large_set_may_be_a_saved_data_set(captau: Any, tmp_path: Path) -> None:
    candidates = write_parquet(tmp_path / "shards" / "0.parquet", TABLE).parent
    references = save_to_disk(tmp_path / "theirs", [REFERENCE_TABLE])
    words = (f"candidates={candidates}", f"references={references}", "metrics=cider", "workers=0")
    status, out, err = captau("score", *words)
    assert status == 0, err
    assert f"| CIDEr | {CIDER} |" in out
