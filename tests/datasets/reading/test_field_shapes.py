"""Captions and references in the shapes of the field's files and tools, of captions of our own: each says the same.

The shapes are those of COCO, pycocoevalcap, nocaps, VizWiz, MSR-VTT, Karpathy's splits, Flickr30k, TextCaps, Clotho, wandb and
pandas, as public files and their code have them.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from captau.datasets.reading.caption_files import read_candidates, read_references, read_systems
from captau.datasets.reading.table import Columns
from tests.conftest import says
from tests.field_files import (
    ANNOTATIONS,
    CAPTIONS,
    COCO,
    REFERENCES,
    RESULTS,
    ROWS,
    file_name,
    write,
)

FRAME = pd.DataFrame(RESULTS)
EXPECTED = {str(i): caption for i, caption in CAPTIONS.items()}
EXPECTED_REFERENCES = {str(i): texts for i, texts in REFERENCES.items()}


def cells(rows: list[list[Any]], delimiter: str = ",") -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return text.getvalue()


def in_a_row(rows: list[Any]) -> str:
    return "\n".join(json.dumps(row, indent=1) for row in rows)


CANDIDATES: dict[str, Any] = {
    "results": RESULTS,
    "pycocoevalcap": {i: [{"caption": c, "image_id": i}] for i, c in CAPTIONS.items()},
    "pycocoevalcap without ids": {i: [{"caption": c}] for i, c in CAPTIONS.items()},
    "lists of one": {i: [caption] for i, caption in CAPTIONS.items()},
    "objects of texts in each row": [
        {**row, "caption": [{"text": row["caption"]}]} for row in RESULTS
    ],
    "a list in each row": [{**row, "caption": [row["caption"]]} for row in RESULTS],
    "wrapped": {"results": RESULTS},
    "wrapped beside texts": {"model": "mine", "config": {"beam": 3}, "n": 6, "outputs": RESULTS},
    "wrapped in annotations": {"info": {}, "annotations": RESULTS},
    "pretty objects": in_a_row(RESULTS),
    "lists in a row": json.dumps(RESULTS[:3]) + "\n" + json.dumps(RESULTS[3:]),
    "pandas": FRAME.to_json(),
    "pandas, columns": FRAME.to_json(orient="columns"),
    "pandas, index": FRAME.to_json(orient="index"),
    "pandas, index of images": FRAME.set_index("image_id").to_json(orient="index"),
    "pandas, split": FRAME.to_json(orient="split"),
    "pandas, records": FRAME.to_json(orient="records"),
    "pandas, lines": FRAME.to_json(orient="records", lines=True),
    "pandas, table": FRAME.to_json(orient="table", index=False),
    "lists of columns": FRAME.to_dict("list"),
    "wandb": {"columns": ["image_id", "caption"], "data": FRAME.to_numpy().tolist()},
    "floats": [{**row, "image_id": float(row["image_id"])} for row in RESULTS],
    "CSV": FRAME.to_csv(index=False),
    "CSV with semicolons": FRAME.to_csv(index=False, sep=";"),
    "TSV": FRAME.to_csv(index=False, sep="\t"),
    "other names": FRAME.set_axis(["file_name", "caption_predicted"], axis=1).to_csv(index=False),
    "predictions": FRAME.set_axis(["image", "prediction"], axis=1).to_csv(index=False),
}


def zipped(content: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("__MACOSX/._c", "x")
        archive.writestr("captions", content)
    return packed.getvalue()


@pytest.mark.parametrize("shape", ["results", "pandas, lines", "CSV", "TSV", "pandas"])
def test_utf_16_and_zip_of_each_kind(shape: str, tmp_path: Path) -> None:
    """As Excel writes "Unicode text", and as people send files."""
    text = write(tmp_path / "c", CANDIDATES[shape]).read_text(encoding="utf-8")
    wide = text.encode("utf-16")
    for content in (wide, zipped(text.encode()), zipped(wide), gzip.compress(wide)):
        for name in ("c.json", "c.csv", "c.txt", "c.zip"):
            assert read_candidates(write(tmp_path / name, content)).captions == EXPECTED


def test_flickr30k_of_kaggle_has_bars_and_blanks(tmp_path: Path) -> None:
    lines = ["image_name| comment_number| comment"]
    for image_id, texts in REFERENCES.items():
        lines += [f"{image_id}| {n}| {text}" for n, text in enumerate(texts)]
    for name in ("results.csv", "r.txt", "r.json"):
        path = write(tmp_path / name, "\n".join(lines))
        assert read_references(path).texts == EXPECTED_REFERENCES


def test_totals_beside_captions_are_named(tmp_path: Path) -> None:
    path = write(tmp_path / "c.json", {"7": "a dog", "overall": {"CIDEr": 1.5}})
    with says("'overall' is {'CIDEr': 1.5}, no caption; take it out, or name", "columns.rows=KEY"):
        read_candidates(path)
    write(path, {"epoch": 3, "captions": {"7": "a dog"}})
    with says("'epoch' is 3, no caption; take it out, or name", "columns.rows=KEY"):
        read_candidates(path)
    columns = Columns(rows="captions")
    assert read_candidates(path, columns=columns).captions == {"7": "a dog"}


@pytest.mark.parametrize("name", ["c.json", "c.csv", "c.txt", "c.dat", "c"])
@pytest.mark.parametrize("shape", CANDIDATES)
def test_candidates_of_each_shape(shape: str, name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, CANDIDATES[shape])
    assert read_candidates(path).captions == EXPECTED


REFERENCE_FILES: dict[str, Any] = {
    "COCO": COCO,
    "COCO without the rest": {"annotations": ANNOTATIONS},
    "a list of annotations": ANNOTATIONS,
    "lines of annotations": in_a_row(ANNOTATIONS).replace("\n ", " ").replace("\n}", "}"),
    "an object": REFERENCES,
    "rows": ROWS,
    "wrapped rows": {"data": ROWS},
    "pycocoevalcap": {
        i: [{"caption": t, "image_id": i, "id": 1} for t in texts]
        for i, texts in REFERENCES.items()
    },
    "objects of texts": {i: [{"raw": t} for t in texts] for i, texts in REFERENCES.items()},
    "MSR-VTT": {
        "info": {"contributor": "us"},
        "videos": [
            {"video_id": str(i), "id": n, "split": "test"} for n, i in enumerate(REFERENCES)
        ],
        "sentences": [
            {"caption": a["caption"], "video_id": str(a["image_id"]), "sen_id": a["id"]}
            for a in ANNOTATIONS
        ],
    },
    "Karpathy's COCO": {
        "dataset": "coco",
        "images": [
            {
                "filepath": "val2014",
                "sentids": [1, 2, 3],
                "filename": file_name(i),
                "imgid": number,
                "split": "test",
                "sentences": [{"tokens": t.split(), "raw": t} for t in texts],
                "cocoid": i,
            }
            for number, (i, texts) in enumerate(REFERENCES.items())
        ],
    },
    "TextCaps": {
        "dataset_type": "val",
        "data": [
            {"image_id": str(i), "caption_str": text, "reference_strs": list(texts)}
            for i, texts in REFERENCES.items()
            for text in texts
        ],
    },
    "tokens": "".join(
        f"{i}#{n}\t{text}\n" for i, texts in REFERENCES.items() for n, text in enumerate(texts)
    ),
    "Clotho": cells(
        [
            ["file_name", "caption_1", "caption_2", "caption_3"],
            *([i, *texts] for i, texts in REFERENCES.items()),
        ]
    ),
    "BLIP": [{"image": str(i), "caption": list(texts)} for i, texts in REFERENCES.items()],
    "a row each": cells(
        [["image", "caption"], *([a["image_id"], a["caption"]] for a in ANNOTATIONS)]
    ),
    "wandb": {
        "columns": ["image_id", "caption", "refs"],
        "data": [[i, "x", list(texts)] for i, texts in REFERENCES.items()],
    },
}


@pytest.mark.parametrize("name", ["r.json", "r.csv", "r.token", "r.txt"])
@pytest.mark.parametrize("shape", REFERENCE_FILES)
def test_references_of_each_shape(shape: str, name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, REFERENCE_FILES[shape])
    assert read_references(path).texts == EXPECTED_REFERENCES


def test_columns_name_what_is_not_known(tmp_path: Path) -> None:
    path = write(tmp_path / "c.json", {"run": {"out": [{"key": 7, "words": "a dog"}]}})
    columns = Columns(image_id="key", caption="words", rows="run.out")
    assert read_candidates(path, columns=columns).captions == {"7": "a dog"}
    with says("columns.rows=runs names no list; there are: run"):
        read_candidates(path, columns=Columns(rows="runs"))

    path = write(
        tmp_path / "r.csv", "image_id,human_a,human_b,note\n7,a dog,,x\n8,a cat,two cats,x\n"
    )
    columns = Columns(references="human_*")
    expected = {"7": ("a dog",), "8": ("a cat", "two cats")}
    assert read_references(path, columns=columns).texts == expected


@pytest.mark.parametrize("read", [read_candidates, read_references])
def test_rows_without_names_say_what_to_write(read, tmp_path: Path) -> None:
    path = write(tmp_path / "c.json", FRAME.to_json(orient="values"))
    with says("entry 0: a list, whose elements have no names; write objects with image_id and"):
        read(path)


def test_ids_of_floats_in_parquet_are_whole_numbers(tmp_path: Path) -> None:
    """Pandas makes floats of a column of numbers that had a gap once."""
    path = tmp_path / "c.parquet"
    FRAME.assign(image_id=FRAME["image_id"].astype(float)).to_parquet(path)
    assert read_candidates(path).captions == {str(i): text for i, text in CAPTIONS.items()}


def test_lists_in_parquet_are_read_as_in_json(tmp_path: Path) -> None:
    path = tmp_path / "c.parquet"
    FRAME.assign(caption=[[text] for text in FRAME["caption"]]).to_parquet(path)
    assert read_candidates(path).captions == EXPECTED

    lists = {
        "caption": [list(texts) for texts in REFERENCES.values()],
        "references": [[{"caption": t} for t in texts] for texts in REFERENCES.values()],
    }
    for name, column in lists.items():
        pd.DataFrame({"image_id": list(REFERENCES), name: column}).to_parquet(path)
        assert read_references(path).texts == EXPECTED_REFERENCES


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("c.csv", "image_id,caption\n7,a dog\n8,\n"),
        ("c.json", '[{"image_id": 7, "caption": "a dog"}, {"image_id": 8, "caption": null}]'),
        ("c.json", '[{"image_id": 7, "caption": "a dog"}, {"image_id": 8, "caption": NaN}]'),
        ("c.json", '[{"image_id": 7, "caption": "a dog"}, {"image_id": 8, "caption": [null]}]'),
        ("c.json", '{"7": "a dog", "8": null}'),
        ("c.jsonl", '{"image": 7, "pred": "a dog"}\n{"image": 8, "pred": null}\n'),
    ],
)
def test_a_caption_that_is_null_is_an_empty_cell(name: str, content: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, content)
    assert read_candidates(path).captions == {"7": "a dog", "8": ""}
    (fault,) = read_candidates(path).find_faults()
    assert "empty" in str(fault)


def test_references_that_are_null_are_empty_cells(tmp_path: Path) -> None:
    rows = [{"image_id": 7, "caption": "a dog"}, {"image_id": 7, "caption": None}]
    for content in (rows, [{"image_id": 7, "references": ["a dog", None]}]):
        assert read_references(write(tmp_path / "r.json", content)).texts == {"7": ("a dog", "")}


def test_an_error_repeats_a_part_of_a_line_that_names_no_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "c.csv", f"391895,{'a man ' * 100}\n7,a dog\n")
    with says(
        "c.csv:1: the first line has no names of columns, but '391895'; write a line above it"
    ):
        read_candidates(path)
    path = write(tmp_path / "c.csv", f"number,{'man' * 100}\n")
    with says(
        "no column 'image_id'; it has number, manman", "…; image_id and caption are expected"
    ):
        read_candidates(path)


def test_a_column_of_candidates_alone_is_none_of_the_references(tmp_path: Path) -> None:
    """Both files have `id`: an image's in the references, a line's in the candidates."""
    rows = [{"id": 1, "doc": {"image": 7}, "caption": "a dog"}]
    columns = Columns(image_id="id", candidate_id="doc.image")
    candidates = read_candidates(write(tmp_path / "c.json", rows), columns=columns)
    assert candidates.captions == {"7": "a dog"}

    references = write(tmp_path / "r.json", [{"id": 7, "references": ["a dog"]}])
    assert read_references(references, columns=columns).texts == {"7": ("a dog",)}


def test_an_object_whose_lists_hold_no_captions_says_what_to_write(tmp_path: Path) -> None:
    path = write(tmp_path / "c.json", {"info": "x", "items": [{"key": 7, "words": "a dog"}]})
    with says("no captions are found in its lists; columns.rows=KEY names the list", "items, info"):
        read_candidates(path)


def test_a_karpathy_file_is_read_by_split(tmp_path: Path) -> None:
    images = [
        {"filename": f"{n}.jpg", "split": split, "sentences": [{"raw": f"dog {n}"}]}
        for n, split in enumerate(["train", "val", "test"])
    ]
    path = write(tmp_path / "r.json", {"images": images, "dataset": "flickr8k"})
    assert [*read_references(path).texts] == ["0.jpg", "1.jpg", "2.jpg"]
    assert read_references(path, split="test").texts == {"2.jpg": ("dog 2",)}
    with says("no image is of split=dev; its splits: test, train, val"):
        read_references(path, split="dev")


def test_swapped_files_are_named(tmp_path: Path) -> None:
    with says("COCO annotations are references: candidates= and references= may be swapped"):
        read_candidates(write(tmp_path / "r.json", COCO))


def test_systems_are_named_in_json_as_in_csv(tmp_path: Path) -> None:
    rows = [{**row, "system": name} for name in ("a", "b") for row in RESULTS]
    for name, content in (("c.json", rows), ("c.csv", pd.DataFrame(rows).to_csv(index=False))):
        systems = read_systems(write(tmp_path / name, content))
        assert {s: file.captions for s, file in systems.items()} == {"a": EXPECTED, "b": EXPECTED}


def test_columns_of_other_names_are_told(tmp_path: Path) -> None:
    path = write(tmp_path / "c.csv", CANDIDATES["other names"])
    expected = ("In c.csv, image_id is 'file_name', caption is 'caption_predicted'.",)
    assert read_candidates(path).notes == expected


VIZWIZ_FLAGS = ("is_rejected", "is_precanned")


def with_void(flag: str, image_id: int = 391895, **changes: Any) -> dict[str, Any]:
    """Annotations of VizWiz's shape with one more reference, which is flagged."""
    kept = [dict.fromkeys(VIZWIZ_FLAGS, False) | row for row in ANNOTATIONS]
    void = {"image_id": image_id, "id": 99, "caption": "Quality issues are too severe."}
    return {"images": [], "annotations": [*kept, {**void, flag: True, **changes}]}


@pytest.mark.parametrize("flag", VIZWIZ_FLAGS)
def test_references_that_their_file_flags_as_void_are_left_out(flag: str, tmp_path: Path) -> None:
    path = write(tmp_path / "r.json", with_void(flag))
    found = read_references(path)
    assert found.texts == EXPECTED_REFERENCES
    assert found.notes == (
        f"1 reference is left out, which r.json flags as void ({flag}: 1); flagged=keep keeps them.",
    )
    kept = read_references(path, keep_flagged=True)
    assert kept.texts["391895"] == (*REFERENCES[391895], "Quality issues are too severe.")
    assert kept.notes == ()


def test_an_image_of_void_references_alone_is_left_out_and_counted(captau, tmp_path: Path) -> None:
    references = write(tmp_path / "r.json", with_void("is_precanned", image_id=7))
    candidates = write(tmp_path / "c.json", [*RESULTS, {"image_id": 7, "caption": "a blur"}])
    files = (f"candidates={candidates}", f"references={references}", "metrics=cider")
    more = ("statistics.interval=none", "trust=null")
    status, out, _ = captau("score", *files, *more)
    assert status == 0
    assert "| CIDEr | 158.8 |" in out
    note = "1 reference is left out, which r.json flags as void (is_precanned: 1), and with them 1 image that has no other"
    assert note in out
    assert "| CIDEr | 158.8 |" not in captau("score", *files, *more, "flagged=keep")[1]

    for n_images, flagged in ((6, "drop"), (7, "keep")):
        df = tmp_path / f"{flagged}.json"
        assert captau("score", files[1], f"save_df={df}", f"flagged={flagged}")[0] == 0
        assert json.loads(df.read_text())["documents"] == n_images


@pytest.mark.parametrize(
    "names",
    [
        ("caption", "caption_2", "caption_3"),
        ("reference", "reference_2", "reference_3"),
        ("caption", "caption.1", "caption.2"),  # as pandas writes equal heads
    ],
)
def test_the_first_of_numbered_columns_may_have_no_number(
    names: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "refs.csv"
    path.write_text(f"image_id,{','.join(names)}\n7,a,b,c\n")
    assert read_references(path).texts == {"7": ("a", "b", "c")}


def test_beside_a_first_number_the_plain_name_is_the_other_side_s(tmp_path: Path) -> None:
    path = tmp_path / "both.csv"
    path.write_text("image_id,caption,caption_1,caption_2\n7,mine,a,b\n")
    assert read_references(path).texts == {"7": ("a", "b")}
