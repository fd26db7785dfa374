"""The columns of shards, by the names that small files may have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from captau.datasets.reading.caption_files import read_candidates
from captau.datasets.reading.shard_files import stat_shard
from captau.datasets.reading.shard_rows import CorruptError, describe_columns, read_rows
from captau.datasets.reading.table import USUAL_COLUMNS, Columns
from tests.conftest import says
from tests.field_files import CAPTIONS, REFERENCES

EXPECTED = {str(i): caption for i, caption in CAPTIONS.items()}


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    frame = pd.DataFrame(rows)
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    elif path.suffix == ".csv":
        frame.map(lambda v: json.dumps(v) if isinstance(v, list) else v).to_csv(path, index=False)
    else:
        frame.to_json(path, orient="records", lines=True)
    return path


def rename(image: str, caption: str, references: str = "references") -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for i, text in CAPTIONS.items():
        rows.append({image: i, caption: text, references: list(REFERENCES[i])})
    return rows


def read_shard(path: Path, columns: Columns = USUAL_COLUMNS) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for table in read_rows(path, stat_shard(str(path)), columns, size=4):
        rows += table.to_pylist()
    return rows


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
@pytest.mark.parametrize(
    ("image", "caption", "references"),
    [
        ("image", "prediction", "refs"),
        ("file_name", "generated_caption", "captions"),
        ("video_id", "response", "gts"),
        ("Image ID", "Caption", "References"),
    ],
)
def test_columns_are_found_by_the_names_of_small_files(
    ending: str, image: str, caption: str, references: str, tmp_path: Path
) -> None:
    path = write_rows(tmp_path / f"c.{ending}", rename(image, caption, references))
    rows = read_shard(path)
    assert {row["image_id"]: row["caption"] for row in rows} == EXPECTED
    assert [tuple(row["references"]) for row in rows] == list(REFERENCES.values())
    assert read_candidates(path).captions == EXPECTED
    notes = describe_columns(path, stat_shard(str(path)), USUAL_COLUMNS)
    assert f"image_id is '{image}'" in notes[0] or image == "Image ID"
    assert f"references is '{references}'" in notes[0]


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_beside_a_prediction_the_caption_is_not_read(ending: str, tmp_path: Path) -> None:
    rows = [{**row, "caption": "a reference"} for row in rename("image_id", "prediction")]
    path = write_rows(tmp_path / f"c.{ending}", rows)
    assert {row["image_id"]: row["caption"] for row in read_shard(path)} == EXPECTED
    notes = describe_columns(path, stat_shard(str(path)), USUAL_COLUMNS)
    assert "'caption' is not read (candidates.columns.caption= names a column)" in " ".join(notes)

    given = Columns(candidate_caption="caption")
    assert {row["caption"] for row in read_shard(path, given)} == {"a reference"}


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_a_number_is_no_caption(ending: str, tmp_path: Path) -> None:
    rows = [{**row, "pred": 0.5} for row in rename("image_id", "caption")]
    path = write_rows(tmp_path / f"c.{ending}", rows)
    assert {row["image_id"]: row["caption"] for row in read_shard(path)} == EXPECTED


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_a_column_that_the_user_names_has_to_be_there(ending: str, tmp_path: Path) -> None:
    path = write_rows(tmp_path / f"c.{ending}", rename("image_id", "caption"))
    with says("no column 'text'"):
        read_shard(path, Columns(caption="text"))


def test_conversations_are_captions_of_large_sets_too(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = []
    for i, text in CAPTIONS.items():
        rows.append({"id": str(i), "messages": [{"role": "assistant", "content": text}]})
    path = write_rows(tmp_path / "c.jsonl", rows)
    assert {row["image_id"]: row["caption"] for row in read_shard(path)} == EXPECTED


def test_nul_bytes_in_csv_are_a_fault_as_in_small_files(tmp_path: Path) -> None:
    path = tmp_path / "c.csv"
    path.write_bytes(b"image_id,caption\n1,a dog\n2,a \0cat\n")
    with says(f"{path}:3: NUL bytes"):
        read_candidates(path)
    with pytest.raises(CorruptError, match="NUL bytes on line 3, which text has none of"):
        read_shard(path)
