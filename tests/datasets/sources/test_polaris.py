"""Polaris and Nebula: small files in the Hub's layout, in every format, give one set."""

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from captau.benchmarks.commands.bench import bench
from captau.datasets.registry import load
from tests.conftest import raises_exactly, says

# One pair is judged twice. The human caption has other references, as it is one of them itself.
ROWS = [
    {"img": "x.jpg", "cand": "a  dog", "refs": ["dogs", "it's a dog"], "human_score": 0.25},
    {"img": "x.jpg", "cand": "a  dog", "refs": ["dogs", "it's a dog"], "human_score": 0.1},
    {"img": "x.jpg", "cand": "dogs", "refs": ["it's a dog"], "human_score": 1.0},
    {"img": "y.jpg", "cand": "a cat", "refs": ["cats"], "human_score": 0.0},
]
SPLITS = ("train", "validation", "test")


def write(folder: Path, split: str, layout: str, rows: list[dict[str, Any]] = ROWS) -> Path:
    """A split as the Hub has it (Parquet with the images in it), or in another format."""
    folder.mkdir(exist_ok=True, parents=True)
    if layout == "csv":
        path = folder / f"{folder.name}_{'val' if split == 'validation' else split}.csv"
        with path.open("w", newline="", encoding="utf-8-sig") as stream:
            writer = csv.writer(stream)
            writer.writerow(["imgid", "mt", "refs", "score"])
            writer.writerows([r["img"], r["cand"], repr(r["refs"]), r["human_score"]] for r in rows)
    elif layout == "jsonl":
        path = folder / f"{split}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        (folder / "data").mkdir(exist_ok=True)
        path = folder / "data" / f"{split}-00000-of-00001.parquet"
        image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
        table = pa.table(
            {
                "refs": pa.array([r["refs"] for r in rows], pa.list_(pa.string())),
                "cand": [r["cand"] for r in rows],
                "img": pa.array([{"bytes": b"jpeg", "path": r["img"]} for r in rows], image),
                "human_score": pa.array([r["human_score"] for r in rows], pa.float32()),
            }
        )
        pq.write_table(table, path)
    return path


@pytest.mark.parametrize("name", ["polaris", "nebula"])
@pytest.mark.parametrize("layout", ["csv", "jsonl", "parquet"])
def test_every_field(name: str, layout: str, tmp_path: Path) -> None:
    for k, split in enumerate(SPLITS):
        rows = [{**row, "img": f"{k}{row['img']}"} for row in ROWS]
        write(tmp_path / name, split, layout, rows)
    found = load(name, tmp_path)
    items, ratings = found.items, found.ratings
    assert items["image_id"].tolist() == [f"{k}{i}.jpg" for k in range(3) for i in "xxy"]
    assert items["caption"].tolist() == ["a dog", "dogs", "a cat"] * 3
    assert items["references"].tolist() == [("dogs", "it's a dog"), ("it's a dog",), ("cats",)] * 3
    assert items["split"].tolist() == [s for s in SPLITS for _ in range(3)]
    assert ratings["value"].tolist() == [0.25, 0.1, 1.0, 0.0] * 3
    assert ratings["rater"].tolist() == ["rating_1", "rating_2", "rating_1", "rating_1"] * 3


def test_one_split_will_do(tmp_path: Path) -> None:
    for layout in ("csv", "jsonl", "parquet"):
        write(tmp_path / layout / "polaris", "test", layout)
    digests = {load("polaris", tmp_path / f).digest for f in ("csv", "jsonl", "parquet")}
    assert len(digests) == 1


def test_without_names_the_references_name_the_image(tmp_path: Path) -> None:
    rows = [{k: v for k, v in row.items() if k != "img"} for row in ROWS]
    write(tmp_path / "polaris", "test", "jsonl", rows)
    ids = load("polaris", tmp_path).items["image_id"]
    assert ids.nunique() == 3
    digest = hashlib.blake2s(b"dogs\0it's a dog", digest_size=8).hexdigest()
    assert ids[0] == f"references-{digest}"
    assert len(digest) == 16


def test_an_image_without_a_name_beside_others(tmp_path: Path) -> None:
    """Of a name the last part counts; an empty one or a number is none."""
    names = ["a/b/x.jpg", "", 7, None]
    rows = [
        {**row, "img": name, "cand": str(k)}
        for k, (row, name) in enumerate(zip(ROWS, names, strict=True))
    ]
    write(tmp_path / "polaris", "test", "jsonl", rows)
    ids = load("polaris", tmp_path).items["image_id"].tolist()
    assert ids[0] == "x.jpg"
    assert [i.partition("-")[0] for i in ids[1:]] == ["references"] * 3
    assert len(set(ids)) == 4


def test_other_references_make_another_item(tmp_path: Path) -> None:
    write(tmp_path / "polaris", "test", "jsonl", [ROWS[0], {**ROWS[0], "refs": ["dogs"]}, ROWS[0]])
    made = load("polaris", tmp_path)
    assert made.items["references"].tolist() == [("dogs", "it's a dog"), ("dogs",)]
    first, second = made.items["item_id"]
    assert made.ratings.to_numpy().tolist() == [
        [first, "overall", "rating_1", 0.25],
        [second, "overall", "rating_1", 0.25],
        [first, "overall", "rating_2", 0.25],
    ]


def test_a_split_may_have_many_parts(tmp_path: Path) -> None:
    (tmp_path / "polaris").mkdir()
    for k in range(257):
        path = tmp_path / "polaris" / f"train-{k:05d}-of-00257.jsonl"
        path.write_text(json.dumps({**ROWS[0], "img": f"{k}.jpg"}))
    ids = load("polaris", tmp_path).items["image_id"].tolist()
    assert ids == [f"{k}.jpg" for k in range(257)]


def test_no_split_names_the_first_file(tmp_path: Path) -> None:
    with says("dataset polaris: the file", "polaris/polaris_train.csv does not exist"):
        load("polaris", tmp_path)


def test_photographs_are_named_where_they_are(tmp_path: Path) -> None:
    folder = tmp_path / "polaris" / "images"
    folder.mkdir(parents=True)
    write(tmp_path / "polaris", "test", "csv")
    images = load("polaris", tmp_path).items["image"].tolist()
    assert images == [str(folder / name) for name in ("x.jpg", "x.jpg", "y.jpg")]


def test_every_part_has_to_be_there(tmp_path: Path) -> None:
    path = write(tmp_path / "polaris", "train", "parquet")
    parts = [path.with_name(f"train-0000{k}-of-00002.parquet") for k in range(2)]
    path.rename(parts[0])
    with raises_exactly(f"{parts[0]}: one of 2 parts, of which 1 are there; get the others"):
        load("polaris", tmp_path)
    parts[1].write_bytes(parts[0].read_bytes())
    assert len(load("polaris", tmp_path).ratings) == 8
    one = parts[0].rename(path)
    parts[1].rename(path.with_name("train-00001-of-00001.parquet"))
    with raises_exactly(f"{one}: one of 1 parts, of which 2 are there; get the others"):
        load("polaris", tmp_path)


FAULTS = {
    "off scale": ({"human_score": 1.5}, ":3: human_score is 1.5, not on the scale 0 to 1"),
    "no number": ({"human_score": "x"}, ":3: human_score is 'x', not a number"),
    "no references": ({"refs": []}, ":3: no references in refs"),
    "references a number": ({"refs": 5}, ":3: refs is 5, not a list of texts"),
    "no caption": ({"cand": None}, ":3: cand is None, not a text"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_name_file_and_line(fault: str, tmp_path: Path) -> None:
    change, part = FAULTS[fault]
    path = write(tmp_path / "polaris", "test", "jsonl", [*ROWS[:2], {**ROWS[2], **change}])
    with says(f"{path}{part}"):
        load("polaris", tmp_path)


def test_another_schema(tmp_path: Path) -> None:
    path = tmp_path / "nebula" / "test.parquet"
    path.parent.mkdir()
    pq.write_table(pa.table({"refs": [["a"]], "text": ["b"]}), path)
    with says(f"{path}: no column 'cand'; it has refs, text"):
        load("nebula", tmp_path)
    pq.write_table(pa.table({"refs": [1], "mt": ["b"], "score": [0.5]}), path)
    with says(f"{path}: row 1: refs is 1, not a list of texts"):
        load("nebula", tmp_path)
    path.write_bytes(path.read_bytes()[:-9])
    with says(f"{path}: not a complete Parquet file"):
        load("nebula", tmp_path)


def test_nebula_as_expert_publishes_it(data_root: Path) -> None:
    """The file that `captau data fetch` gets: counts and τ_c (BLEU-1, BLEU-4, ROUGE-L, METEOR, CIDEr) of its README."""
    metrics = ["bleu_1", "bleu_4", "rouge_l", "meteor", "cider"]
    table = bench("nebula", metrics, data_root=data_root).correlations
    values = table[table["coefficient"] == "tau_c"]["value"]
    assert [round(100 * value, 1) for value in values] == [40.4, 43.5, 42.6, 46.8, 48.1]
    assert set(table["n_ratings"]) == {3298}
