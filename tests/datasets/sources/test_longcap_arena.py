"""LongCap-Arena: small files of our own in the shapes of the Hub and of the authors' CSV files."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from captau.datasets.registry import load
from tests.conftest import says

ROWS = [
    {"file_name": "a.jpg", "refs": ["A dog.", "It runs."], "cand": "A  dog runs.", "score": 0.75},
    {"file_name": "b.jpg", "refs": ["A cat."], "cand": "A cat.", "score": 0.25},
]


def write_parquet(path: Path, rows: list[dict[str, Any]] = ROWS) -> Path:
    """A split with its images in it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    pictures = pa.array([{"bytes": b"jpeg", "path": "x"} for _ in rows], image)
    table = {name: [row[name] for row in rows] for name in ROWS[0]}
    pq.write_table(pa.table({**table, "image": pictures}), path)
    return path


@pytest.mark.parametrize(
    "name",
    ["default/{split}/0000.parquet", "data/{split}-00000-of-00001.parquet", "{split}.parquet"],
)
def test_parts_and_dimensions_of_longcap_arena(name: str, tmp_path: Path) -> None:
    """The same captions are one item with a rating a dimension; each part is a split."""
    folder = tmp_path / "longcap_arena"
    write_parquet(folder / name.format(split="dci_val.desc"))
    write_parquet(folder / name.format(split="dci_val.flu"))
    in_b = [row | {"file_name": f"b_{row['file_name']}"} for row in ROWS]
    write_parquet(folder / name.format(split="dci_test.rel"), in_b)
    caption_set = load("longcap_arena", tmp_path)
    items = caption_set.items
    assert items["image_id"].tolist() == ["a.jpg", "b.jpg", "b_a.jpg", "b_b.jpg"]
    assert items["caption"].tolist() == ["A dog runs.", "A cat."] * 2
    assert items["references"].tolist() == [("A dog.", "It runs."), ("A cat.",)] * 2
    assert items["split"].tolist() == ["test_a"] * 2 + ["test_b"] * 2
    ratings = caption_set.ratings
    assert ratings["dimension"].value_counts().to_dict() == {
        "descriptiveness": 2,
        "fluency": 2,
        "relevance": 2,
    }
    first, second, third, fourth = items["item_id"]
    assert ratings.to_numpy().tolist() == [
        [first, "descriptiveness", "rating_1", 0.75],
        [second, "descriptiveness", "rating_1", 0.25],
        [first, "fluency", "rating_1", 0.75],
        [second, "fluency", "rating_1", 0.25],
        [third, "relevance", "rating_1", 0.75],
        [fourth, "relevance", "rating_1", 0.25],
    ]


def test_csv_files_of_longcap_arena_give_the_same(tmp_path: Path) -> None:
    write_parquet(tmp_path / "parquet" / "longcap_arena" / "dci_test.rel.parquet")
    path = tmp_path / "csv" / "longcap_arena" / "rel_dci_test.csv"
    path.parent.mkdir(parents=True)
    with path.open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["imgid", "mt", "refs", "score"])
        rows.writerows([r["file_name"], r["cand"], repr(r["refs"]), r["score"]] for r in ROWS)
    digests = {load("longcap_arena", tmp_path / kind).digest for kind in ("parquet", "csv")}
    assert len(digests) == 1


def test_a_part_that_is_not_there_is_named(tmp_path: Path) -> None:
    write_parquet(tmp_path / "longcap_arena" / "dci_val.desc.parquet")
    assert load("longcap_arena", tmp_path).missing_splits == ("test_b",)


def test_a_score_off_the_scale_names_file_and_row(tmp_path: Path) -> None:
    path = tmp_path / "longcap_arena" / "dci_val.desc.parquet"
    write_parquet(path, [ROWS[0] | {"score": 9.0}])
    with says(f"{path}: row 1: score is 9.0, not on the scale 0 to 5"):
        load("longcap_arena", tmp_path)
