"""A user's own captions and references in each of the forms they may have."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from captau.benchmarks.commands.score import ScoreResults, run
from captau.benchmarks.options.score import ScoreOptions, files_of
from captau.benchmarks.scoring.catalog import resolve_metrics
from captau.benchmarks.scoring.score_store import Locations
from captau.datasets.reading.caption_files import read_candidates, read_references
from captau.datasets.reading.table import Columns
from captau.metrics.base import Metric
from captau.metrics.rows import Rows
from tests.benchmarks.printed import lines_of
from tests.conftest import says

CAPTIONS = {"42": "a dog runs on the grass", "7": "two cats", "1000": "a\u2028red bus"}
REFERENCES = {
    "42": ("the dog runs", "a brown dog on grass"),
    "7": ("two cats sleep",),
    "1000": ("a red bus", "one bus", "the bus is red"),
    "5": ("nobody's",),
}


def cells(rows: list[dict[str, Any]], delimiter: str = ",") -> str:
    """Rows as CSV with columns in another order, and one that is ignored."""
    text = io.StringIO()
    names = ["id", *reversed(rows[0])]
    writer = csv.DictWriter(text, names, delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    writer.writerows({"id": "x", **row} for row in rows)
    return text.getvalue()


def lines(rows: list[Any]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


# Each form with a file name: of text, and of what makes an image id (COCO's are numbers).
def candidates_as(form: str, key: Any, captions: dict[str, str] = CAPTIONS) -> tuple[str, str]:
    rows = [{"image_id": key(i), "caption": c} for i, c in captions.items()]
    return {
        "results": ("c.json", json.dumps(rows)),
        "results, a line each": ("c.json", json.dumps(rows).replace("}, ", "},\n")),
        "results, indented": ("c.json", json.dumps(rows, indent=2)),
        "dict": ("c.json", json.dumps(captions)),
        "dict, indented": ("c.json", json.dumps(captions, indent=2)),
        "lines": ("c.jsonl", lines(rows)),
        "ndjson": ("c.ndjson", lines(rows)),
        "lines, named .json": ("c.json", lines(rows)),
        "CSV": ("c.csv", cells(rows)),
        "CSV as spreadsheets write it": ("c.CSV", "\ufeff" + cells(rows).replace("\n", "\r\n")),
        "TSV": ("c.tsv", cells(rows, "\t")),
        "lines with blank ones": ("c.txt", "\n\n" + lines(rows).replace("\n", "\r\n\r\n")),
    }[form]


CANDIDATES = [
    "results",
    "results, a line each",
    "results, indented",
    "dict",
    "dict, indented",
    "lines",
    "ndjson",
    "lines, named .json",
    "lines with blank ones",
    "CSV",
    "CSV as spreadsheets write it",
    "TSV",
]


def references_as(
    form: str, key: Any, references: dict[str, tuple[str, ...]] = REFERENCES
) -> tuple[str, str]:
    rows = [{"image_id": key(i), "references": refs} for i, refs in references.items()]
    # COCO's annotations come in no order; those of an image stay in theirs.
    each = [
        {"id": 10 * k, "image_id": key(i), "caption": refs[k]}
        for k in range(3)
        for i, refs in references.items()
        if k < len(refs)
    ]
    coco = {"info": {}, "images": [{"id": key(i)} for i in references], "annotations": each}
    return {
        "annotations": ("r.json", json.dumps(coco)),
        "annotations, indented": ("r.json", json.dumps(coco, indent=1)),
        "dict": ("r.json", json.dumps(references)),
        "lines": ("r.jsonl", lines(rows)),
        "lines, named .json": ("r.json", lines(rows)),
        "CSV, a row each": (
            "r.csv",
            cells([{k: a[k] for k in ("image_id", "caption")} for a in each]),
        ),
        "CSV, joined": (
            "r.csv",
            cells([{**row, "references": " ||| ".join(row["references"])} for row in rows]),
        ),
    }[form]


def write(folder: Path, named: tuple[str, str]) -> Path:
    path = folder / named[0]
    path.write_text(named[1], encoding="utf-8")
    return path


@pytest.mark.parametrize("key", [int, str])
@pytest.mark.parametrize("form", CANDIDATES)
def test_candidates(form: str, key: Any, tmp_path: Path) -> None:
    path = write(tmp_path, candidates_as(form, key))
    found = read_candidates(path)
    assert found.captions == CAPTIONS
    assert list(found.captions) == list(CAPTIONS), "in the file's order"
    lines = path.read_text(encoding="utf-8").split("\n")
    for image_id, line in found.lines.items():
        assert image_id in "".join(lines[line - 1 : line + 1])
        assert found.locate(image_id) == f"{path}:{line}: image '{image_id}'"


@pytest.mark.parametrize("key", [int, str])
@pytest.mark.parametrize(
    "form",
    [
        *("annotations", "annotations, indented", "dict", "lines", "lines, named .json"),
        *("CSV, a row each", "CSV, joined"),
    ],
)
def test_references(form: str, key: Any, tmp_path: Path) -> None:
    assert read_references(write(tmp_path, references_as(form, key))).texts == REFERENCES


@pytest.mark.parametrize("key", [int, str])
@pytest.mark.parametrize("name", ["one.json", "one.jsonl"])
def test_one_image(name: str, key: Any, tmp_path: Path) -> None:
    """JSON lines of one line are an object; that object is no caption of an image 'image_id'."""
    path = tmp_path / name
    path.write_text(lines([{"image_id": key("7"), "caption": "two cats"}]))
    assert read_candidates(path).captions == {"7": "two cats"}
    path.write_text(lines([{"image_id": key("7"), "references": ["two cats sleep"]}]))
    assert read_references(path).texts == {"7": ("two cats sleep",)}


def config_of(
    candidates: Any, references: Any, specs: Any, images: Path | None = None, **options: Any
) -> ScoreOptions:
    """Options of a run; files as `candidates=` and `references=` take them."""
    options.setdefault("partial", True)  # REFERENCES has an image without a caption
    return ScoreOptions(
        candidates=files_of(_typed(candidates), "candidates"),
        references=files_of(_typed(references), "references") if references else (),
        images=images,
        metrics=resolve_metrics(specs),
        **options,
    )


def _typed(files: Any) -> Any:
    return [str(f) for f in files] if isinstance(files, list) else str(files)


def scored(candidates: Any, references: Any, specs: Any, **options: Any) -> ScoreResults:
    return run(config_of(candidates, references, specs, **options))


def test_equal_scores_whichever_form(tmp_path: Path) -> None:
    specs = ["rouge_1", "bleu_2", "cider"]
    first: ScoreResults | None = None
    for number, (theirs, ours) in enumerate(
        [
            (candidates_as(form, key), references_as(other, kind))
            for form, other in [
                ("results", "annotations"),
                ("dict", "dict"),
                ("lines", "lines"),
                ("lines", "annotations"),
                ("dict", "lines"),
                ("CSV", "CSV, a row each"),
            ]
            for key, kind in [(int, int), (str, int), (int, str)]
        ]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        found = scored(write(folder, theirs), write(folder, ours), specs)
        first = first or found
        assert found.caption_scores.corpus == first.caption_scores.corpus
        assert found.caption_scores.frame.equals(first.caption_scores.frame)
    assert first is not None
    assert list(first.caption_scores.corpus) == specs
    assert first.caption_scores.frame["image_id"].tolist() == list(CAPTIONS)
    assert list(first.caption_scores.frame.columns) == ["item_id", "image_id", *specs]
    # "a dog runs on the grass": 3 of "the dog runs" and 4 of "a brown dog on grass", of 3 + 5 words.
    assert first.caption_scores.frame["rouge_1"][0] == pytest.approx(7 / 8)
    assert first.caption_scores.corpus["rouge_1"] == pytest.approx(
        np.mean(first.caption_scores.frame["rouge_1"])
    )


TWO = '{"image_id": 1, "caption": "a"}\n{"image_id": "1", "caption": "b"}\n'
CANDIDATE_FAULTS = {
    "two in results": (
        "c.json",
        json.dumps([json.loads(s) for s in TWO.splitlines()]),
        [":1: entry 1: a second caption for image '1', whose first is on line 1"],
    ),
    "two in lines": (
        "c.jsonl",
        TWO,
        [":2: a second caption for image '1', whose first is on line 1"],
    ),
    "two in a dict": ("c.json", '{"1": "a", "2": "b", "1": "c"}', ["'1' appears twice"]),
    "truncated results": ("c.json", '[{"image_id": 1,\n"caption": "a', [":2: not valid JSON"]),
    "truncated line": ("c.jsonl", TWO[:32] + '{"image_id": 2, "cap', [":2: not valid JSON"]),
    "a bad line": ("c.jsonl", '{"image_id": 1, "caption": "a"}\n\nb\n', [":3: not valid JSON"]),
    "a bad line, named .json": (
        "c.json",
        '{"image_id": 1, "caption": "a"}\nb\n',
        [":2: not valid"],
    ),
    "a list of numbers": ("c.jsonl", "[1]\n", [":1: entry 0: an object is expected, not int"]),
    "a line without a caption": ("c.jsonl", '{"image_id": 1}\n', [":1: 'caption' is missing"]),
    "a line without an image": (
        "c.jsonl",
        '{"caption": "a"}\n',
        ["c.jsonl:1: 'image_id' is missing; columns.image_id=KEY names another key"],
    ),
    "an entry without a caption": (
        "c.json",
        '[{"image_id": 1}]',
        ["entry 0: 'caption' is missing; columns.caption=KEY names another key"],
    ),
    "an entry that is a text": ("c.json", '["a"]', ["entry 0: an object is expected, not str"]),
    "image null": (
        "c.json",
        '[{"image_id": null, "caption": "a"}]',
        ["entry 0: 'image_id' is None"],
    ),
    "image true": (
        "c.json",
        '[{"image_id": true, "caption": "a"}]',
        ["entry 0: 'image_id' is True"],
    ),
    "image 1.5": (
        "c.json",
        '[{"image_id": 1.5, "caption": "a"}]',
        ["'image_id' is 1.5, not str or int"],
    ),
    "two captions": (
        "c.json",
        '{"1": ["a", "b"]}',
        [
            "image '1': 'caption' is 2 texts, ['a', 'b'], where one is expected; these are the letters"
        ],
    ),
    "a number": ("c.json", "3", ["COCO results, an object", "JSON lines or a table are expected"]),
    "two in two lists": (
        "c.json",
        '{"mine": [{"image_id": 1, "caption": "a"}], "base": [{"image_id": 1, "caption": "b"}]}',
        [
            ":1: base 0: a second caption for image '1', whose first is on line 1; the file's lists are read as one, and "
            "columns.candidate_rows=base reads that list alone"
        ],
    ),
    "two in two systems' lists": (
        "c.json",
        '{"a": [{"image_id": 1, "model": "x", "caption": "a"}], "b": [{"image_id": 1, "model": "y", "caption": "b"}]}',
        ["columns.candidate_rows=b reads that list alone, or, if 'model' names systems, call it"],
    ),
    "two of an image's list": (
        "c.json",
        '{"1": [{"caption": "a"}], "2": [{"caption": "b"}, {"caption": "c"}]}',
        [":1: 2 1: a second caption for image '2', whose first is on line 1; keep one per image"],
    ),
    "no text among annotations": (
        "c.json",
        '{"images": [{"id": 1}], "annotations": [{"image_id": 1, "caption": 3}]}',
        [":1: annotation 0: 'caption' is 3, not str"],
    ),
    "two in CSV": (
        "c.csv",
        "image_id,caption\n1,a\n1,b\n",
        [":3: a second caption for image '1', whose first is on line 2; keep one"],
    ),
    "two of a system": (
        "c.csv",
        "image_id,system,caption\n1,x,a\n1,x,b\n",
        [":3: a second caption for image '1'"],
    ),
    "two of a model": (
        "c.csv",
        "image_id,Model,caption\n1,x,a\n1,y,b\n",
        [
            ":3: a second caption",
            "; keep one per image, or, if 'Model' names systems, call it 'system'",
        ],
    ),
    "two of a model in JSON": (
        "c.json",
        '[{"image_id": 1, "model": "x", "caption": "a"}, {"image_id": 1, "model": "y", "caption": "b"}]',
        ["; keep one per image, or, if 'model' names systems, call it 'system'"],
    ),
    "several systems": ("c.csv", "image_id,system,caption\n1,x,a\n1,y,b\n", ["of 2 systems"]),
    "CSV without captions": (
        "c.csv",
        "image_id,words\n1,a\n",
        ["no column 'caption'", "has image_id, words; image_id and caption are expected"],
    ),
    "CSV without images": ("c.csv", "caption\na\n", ["no column 'image_id'; it has caption"]),
    "a comma without quotes": (
        "c.csv",
        "image_id,caption\n1,a, b\n",
        [":2: 3 cells, where the first line names 2"],
    ),
    "an open quote": ("c.csv", 'image_id,caption\n1,"a\n', [":2: not valid CSV"]),
    "an empty image": ("c.csv", "image_id,caption\n ,a\n", [":2: image_id is empty"]),
    "an empty system": ("c.csv", "image_id,system,caption\n1,,a\n", [":2: system is empty"]),
    "a header alone": ("c.csv", "image_id,caption\n", ["it contains no captions"]),
    "empty CSV": ("c.csv", "", ["it is empty; a line with the names of the columns is expected"]),
    "empty": ("c.json", "", [":1: not valid JSON"]),
    "empty lines": ("c.jsonl", "\n\n", ["it contains no captions"]),
    "empty list": ("c.json", "[]", ["it contains no captions"]),
    "empty object": ("c.json", "{}", ["it contains no captions"]),
}


@pytest.mark.parametrize("fault", CANDIDATE_FAULTS)
def test_faults_in_candidates(fault: str, tmp_path: Path) -> None:
    name, text, parts = CANDIDATE_FAULTS[fault]
    path = write(tmp_path, (name, text))
    with says(str(path), *parts):
        read_candidates(path)


REFERENCE_FAULTS = {
    "two lines": (
        "r.jsonl",
        '{"image_id": 1, "references": ["a"]}\n{"image_id": "1", "references": ["b"]}\n',
        [":2: image '1' has other references in an earlier row; keep one list"],
    ),
    "twice in a dict": ("r.json", '{"1": ["a"], "1": ["b"]}', ["'1' appears twice"]),
    "a list": (
        "r.json",
        '["a"]',
        ["COCO annotations, an object", "JSON lines of objects with", "or a table are expected"],
    ),
    "an empty list": ("r.json", "[]", [": it contains no references"]),
    "no annotations": (
        "r.json",
        '{"info": {}, "annotations": []}',
        [": it contains no references"],
    ),
    "a text for a list": ("r.json", '{"1": "a"}', ["image '1': 'references' is 'a', not list"]),
    "a number for a text": (
        "r.json",
        '{"1": ["a", 2]}',
        ["image '1': references holds 2, not a text"],
    ),
    "a line without": ("r.jsonl", '{"image_id": 1}\n', [":1: 'references' is missing"]),
    "a bad line": ("r.jsonl", '{"image_id": 1, "references": []}\nx', [":2: not valid JSON"]),
    "annotation without image": (
        "r.json",
        '{"annotations": [{"image_id": 1, "caption": "a"}, {"caption": "a"}]}',
        ["annotation 1: 'image_id' is missing"],
    ),
    "annotation without caption": (
        "r.json",
        '{"annotations": [{"image_id": 1}]}',
        ["annotation 0: 'caption' is missing"],
    ),
    "truncated": ("r.json", '{"annotations": [\n{"image_id": 1, ', [":2: not valid JSON"]),
    "empty": ("r.json", "", [":1: not valid JSON"]),
}


def pack(content: bytes, ending: str) -> bytes:
    """Return content as files of an ending hold it."""
    if ending in (".zst", ".lz4"):
        codec = {".zst": "zstd", ".lz4": "lz4"}[ending]
        return pa.compress(content, codec=codec, asbytes=True)
    packers = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
    return packers.get(ending, bytes)(content)


PACKED = [
    *(f"c.jsonl{packing}" for packing in (".gz", ".bz2", ".xz", ".zst", ".lz4")),
    *(
        f"c.{kind}{packing}"
        for kind in ("json", "csv", "tsv")
        for packing in ("", ".gz", ".bz2", ".zst")
    ),
]
#: A file of each kind that holds rows; of the packings of text, two stand for the others in the quick tier.
ENDINGS = ["c.jsonl", *PACKED, "c.parquet", "c.pq", "c.xlsx"]
QUICK_ENDINGS = ["c.csv", "c.parquet"]


def write_rows(folder: Path, name: str, rows: list[dict[str, Any]]) -> Path:
    """Write rows as a file of the kind that its name says."""
    path = folder / name
    kind, *packing = name.removeprefix("c.").split(".")
    if kind in ("parquet", "pq"):
        pd.DataFrame(rows).to_parquet(path)
    elif kind == "xlsx":
        pd.DataFrame(rows).to_excel(path, index=False)
    else:
        text = {
            "json": json.dumps(rows),
            "jsonl": lines(rows),
            "csv": cells(rows),
            "tsv": cells(rows, "\t"),
        }[kind]
        path.write_bytes(pack(text.encode(), f".{packing[0]}" if packing else ""))
    return path


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in QUICK_ENDINGS else pytest.mark.slow)
        for name in ENDINGS
    ],
)
def test_the_same_rows_are_checked_alike_in_a_file_of_every_ending(
    name: str, tmp_path: Path, captau: Any
) -> None:
    """The scores are those of an object image id → caption; the checks of each file are the same."""
    references = {i: refs for i, refs in REFERENCES.items() if i in CAPTIONS}
    write(tmp_path, ("r.json", json.dumps(references)))
    plain = write(tmp_path, ("plain.json", json.dumps(CAPTIONS)))
    captions = [{"image_id": i, "caption": c} for i, c in CAPTIONS.items()]
    words = (
        "score",
        "references=r.json",
        "metrics=cider,bleu_1",
        "trust=null",
        "stdout=corpus.json",
    )

    def scores(candidates: str) -> dict[str, Any]:
        status, printed, fault = captau(*words, f"candidates={candidates}")
        assert status == 0, fault
        return json.loads(printed)

    of_plain = scores("plain.json")
    write_rows(tmp_path, name, captions)
    assert scores(name) == of_plain
    assert scores(f"plain.json,{name}") == {"plain": of_plain, "c": of_plain}

    systems = [{**row, "system": s} for s in ("a", "b") for row in captions]
    write_rows(tmp_path, name, systems)
    assert scores(name) == {"a": of_plain, "b": of_plain}

    write_rows(tmp_path, name, captions[:2])
    status, _, fault = captau(*words, f"candidates={name}")
    assert status == 2
    assert f"{name}: 1 of the 3 images of r.json have no caption, such as '1000'" in fault

    write_rows(tmp_path, name, [*captions, {"image_id": "7", "caption": "another"}])
    status, _, fault = captau(*words, f"candidates={name}")
    assert status == 2
    assert "a second caption for image '7', whose first is on" in fault
    assert plain.is_file()


def test_a_second_caption_in_parquet_is_told_by_its_row(tmp_path: Path) -> None:
    rows = [{"image_id": str(i), "caption": "a dog"} for i in (1, 2, 1)]
    path = write_rows(tmp_path, "c.parquet", rows)
    with says(f"{path}: row 3: a second caption for image '1', whose first is on row 1; keep one"):
        read_candidates(path)


@pytest.mark.parametrize("name", [name for name in PACKED if name.count(".") == 2])
def test_a_packed_file_that_is_cut_short_is_named(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [{"image_id": i, "caption": str(rng.integers(1 << 60))} for i in range(2000)]
    path = write_rows(tmp_path, name, rows)
    path.write_bytes(path.read_bytes()[:-900])
    with says(f"{path}: not a complete ", " file (", "; get a new copy"):
        read_candidates(path)


@pytest.mark.parametrize(
    ("system", "message"),
    [
        (None, ":1: image '1' names no system, and others do; name it in 'system', or leave"),
        (" ", ":1: system is empty"),
        (1.5, ":1: 'system'"),
    ],
)
def test_every_row_names_its_system_or_none_does(system: Any, message: str, tmp_path: Path) -> None:
    rows = [
        {"image_id": 1, "caption": "a", "system": system},
        {"image_id": 2, "caption": "b", "system": "x"},
    ]
    path = write(tmp_path, ("c.jsonl", lines(rows)))
    with says(f"{path}{message}"):
        read_candidates(path)


def test_the_systems_of_a_csv_file_are_compared(tmp_path: Path) -> None:
    rows = [
        {"image_id": i, "system": s, "caption": c} for s in ("a", "b") for i, c in CAPTIONS.items()
    ]
    both = write(tmp_path, ("both.csv", cells(rows)))
    references = write(tmp_path, references_as("dict", str))
    found = scored(both, references, "rouge_1")
    assert [system.system for system in found.caption_scores.systems] == ["a", "b"]
    assert found.differences is not None
    a_as_well = write(tmp_path, ("a.json", json.dumps(CAPTIONS)))
    for files in ([both, f"x={both}"], [both, a_as_well], [a_as_well, both]):
        with says("a second system is called 'a'; rename one"):
            scored(files, references, "rouge_1")
    with says("keep.metric= keeps captions of one system; there are a, b"):
        scored(both, references, "rouge_1", keep=("rouge_1", 0.5))


@pytest.mark.parametrize("fault", REFERENCE_FAULTS)
def test_faults_in_references(fault: str, tmp_path: Path) -> None:
    name, text, parts = REFERENCE_FAULTS[fault]
    path = write(tmp_path, (name, text))
    with says(str(path), *parts):
        read_references(path)


@pytest.mark.parametrize("read", [read_candidates, read_references])
@pytest.mark.parametrize("name", ["f.json", "f.jsonl"])
def test_files_that_cannot_be_read(read: Any, name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with says(f"{path}: cannot be read (No such file or directory)"):
        read(path)
    path.mkdir()
    with says(f"{path}: it is a folder without a table in parts"):
        read(path)
    path.rmdir()
    path.write_bytes(b'\n{"image_id": 1, "caption": "caf\xe9"}')
    with says(f"{path}:2: not UTF-8 text"):
        read(path)


@pytest.mark.parametrize("left", ["absent", "empty"])
@pytest.mark.parametrize(
    ("form", "place"),
    [("results", ":1: "), ("results, a line each", ":2: "), ("dict", ":1: "), ("lines", ":2: ")],
)
def test_a_candidate_without_references(form: str, place: str, left: str, tmp_path: Path) -> None:
    candidates = write(tmp_path, candidates_as(form, int))
    kept = {i: r for i, r in REFERENCES.items() if i != "7"} | (
        {"7": ()} if left == "empty" else {}
    )
    references = write(tmp_path, references_as("dict", str, kept))
    with says(f"{candidates}{place}image '7' has no references in {references} (1 of 3 images has"):
        scored(candidates, references, "rouge_1", partial=False)
    # With partial=true, what both sides have is scored.
    found = scored(candidates, references, "rouge_1")
    assert found.caption_scores.frame["image_id"].tolist() == ["42", "1000"]


def test_a_metric_that_needs_references_says_so(tmp_path: Path) -> None:
    candidates = write(tmp_path, candidates_as("dict", str))
    with says("metric rouge_1 needs references; give references=FILE"):
        scored(candidates, None, "rouge_1")


def test_files_of_a_run(tmp_path: Path) -> None:
    candidates = write(tmp_path, candidates_as("lines", int))
    references = write(tmp_path, references_as("annotations", int))
    found = scored(candidates, references, ["rouge_1", "rouge_2"])
    files = found.files()
    assert [*files] == [
        *("corpus.csv", "scores.csv", "items.parquet", "corpus.json", "table.md", "table.tex"),
        "run.json",
    ]
    assert json.loads(files["corpus.json"]) == found.caption_scores.corpus
    told = json.loads(files["run.json"])
    assert (told["command"], told["candidates"]) == ("score", str(candidates))
    assert list(told["signatures"]) == ["rouge_1", "rouge_2"]
    assert len(files["scores.csv"].splitlines()) == 1 + len(CAPTIONS)
    assert [label for label, _ in lines_of(found.tables[0])] == ["ROUGE-1", "ROUGE-2"]


def test_what_a_run_rests_on_and_the_store(tmp_path: Path) -> None:
    candidates = write(tmp_path, candidates_as("lines", int))
    references = write(tmp_path, references_as("annotations", int))
    where = Locations(cache_root=tmp_path / "cache")
    chosen = resolve_metrics(["rouge_1", "cider"])
    config = config_of(
        candidates, references, list(chosen), locations=where, configuration={"metrics": "x"}
    )
    first, again = run(config), run(config)
    told = first.run
    assert told["config"] == {"metrics": "x"}
    assert set(told["data"]) == {str(candidates), str(references)}
    assert told["started"]
    assert told["seconds"] > 0
    counts = [(r.run["scores_computed"], r.run["scores_read_back"]) for r in (first, again)]
    assert counts == [(2, 0), (0, 2)]
    assert again.caption_scores.corpus == first.caption_scores.corpus
    assert again.caption_scores.frame.equals(first.caption_scores.frame)
    candidates.write_text(candidates.read_text().replace("two cats", "one cat"))
    assert run(config).run["scores_computed"] == 2, "other content has another key"


def test_undefined_is_null_with_a_reason_and_scales_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nothing.py").write_text(
        "def nan(items):\n    return [float('nan')] * len(items)\n"
    )
    monkeypatch.chdir(tmp_path)
    candidates = write(tmp_path, candidates_as("lines", int))
    references = write(tmp_path, references_as("annotations", int))
    found = scored(candidates, references, ["rouge_1", "python(nothing:nan)"])
    files = found.files()
    assert None in json.loads(files["corpus.json"]).values()
    assert b"NaN" not in files["corpus.json"] + files["run.json"]
    (reason,) = json.loads(files["run.json"])["undefined"].values()
    assert reason == "undefined: 3 of 3 captions have no finite score"
    assert found.tables[0].notes[0].startswith("3 captions. Scores ×100, but for ")
    assert "nan" in found.tables[0].notes[0]
    assert any(reason in note for note in found.tables[0].notes)
    alone = scored(candidates, references, "rouge_1")
    assert alone.tables[0].notes[0] == "3 captions. Scores ×100."


SEEN: list[str | None] = []


@dataclass(frozen=True)
class Seen(Metric):
    """A metric of images: it remembers where they are."""

    needs: ClassVar[frozenset[str]] = frozenset({"images"})

    @property
    def name(self) -> str:
        return "seen"

    def compute(self, rows: Rows) -> np.ndarray:
        SEEN.extend(rows.images)
        return np.arange(len(rows), dtype=float)


def test_images_are_found_by_name_or_stem(tmp_path: Path) -> None:
    candidates = write(tmp_path, ("c.json", '{"7": "two cats", "x.png": "a bus"}'))
    folder = tmp_path / "images"
    config = config_of(candidates, None, [Seen()], folder)
    with says(f"images={folder} is not a folder"):
        run(config)
    folder.mkdir()
    (folder / "7.jpg").touch()
    with says(f"{candidates}:1: image 'x.png' has no file in {folder}"):
        run(config)
    (folder / "x.png").touch()
    found = run(config)
    assert SEEN[:2] == [str(folder / "7.jpg"), str(folder / "x.png")]
    assert found.caption_scores.frame["seen"].tolist() == [0.0, 1.0]


def lmms_sample(number: int, caption: Any, **changes: Any) -> dict[str, Any]:
    """A line as lmms-eval writes it for coco_cap, made up."""
    pred = {
        "answer": [f"reference {number}", "another"],
        "pred": caption,
        "image_id": number,
        "id": 5,
    }
    return {
        "doc_id": number,
        "target": "reference",
        "filtered_resps": [caption],
        "doc_hash": "0",
        "coco_Bleu_4": pred,
        "coco_CIDEr": pred,
    } | changes


@pytest.mark.parametrize("n_lines", [1, 3])
@pytest.mark.parametrize("wrap", [str, lambda text: [text]], ids=["text", "list of one"])
def test_lmms_evals_samples_are_candidates_and_references(
    n_lines: int, wrap: Any, tmp_path
) -> None:
    path = tmp_path / "samples_coco.jsonl"
    path.write_text(
        "".join(f"{json.dumps(lmms_sample(i, wrap(f'caption {i}')))}\n" for i in range(n_lines))
    )
    assert read_candidates(path).captions == {str(i): f"caption {i}" for i in range(n_lines)}
    assert read_references(path).texts == {
        str(i): (f"reference {i}", "another") for i in range(n_lines)
    }


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        (lmms_sample(1, ["a", "b"]), ":2: 'caption' is 2 texts, ['a', 'b'], where one is expected"),
        ({"doc_id": 1, "filtered_resps": ["a"]}, ":2: 'image_id' is missing"),
        # Not a line of lmms-eval's, whatever stands in it.
        ({"doc_id": 1, "x": {"image_id": 1, "pred": "a"}}, ":2: 'image_id' is missing"),
        ({**lmms_sample(1, "a"), "image_id": 5}, ":2: 'caption' is missing"),
    ],
)
def test_a_sample_without_one_caption_names_its_line(sample: Any, message: str, tmp_path) -> None:
    path = tmp_path / "samples.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in (lmms_sample(0, "x"), sample)))
    with says(f"{path}{message}"):
        read_candidates(path)


VLMEVALKIT = [
    ["index", "question", "answer", "prediction"],
    ["0", "?", "['a dog', 'a pup']", 'a "dog" runs'],
    ["7", "?", "['a cat']", "a cat\nsits"],
]


def write_workbook(path: Path) -> None:
    workbook = pytest.importorskip("openpyxl").Workbook()
    for row in [VLMEVALKIT[0], *([int(row[0]), *row[1:]] for row in VLMEVALKIT[1:])]:
        workbook.active.append(row)
    workbook.save(path)


@pytest.mark.parametrize("ending", ["csv", "tsv", "xlsx"])
def test_vlmevalkits_tables_are_candidates_and_references(tmp_path, ending) -> None:
    """VLMEvalKit (`vlmeval/smp/file.py`) writes Excel, or text of which every cell is in quotes; `index` is a number."""
    path = tmp_path / f"model_COCO_VAL.{ending}"
    if ending == "xlsx":
        write_workbook(path)
    else:
        with path.open("w", newline="", encoding="utf-8") as stream:
            delimiter = "\t" if ending == "tsv" else ","
            csv.writer(stream, delimiter=delimiter, quoting=csv.QUOTE_ALL).writerows(VLMEVALKIT)
    assert read_candidates(path).captions == {"0": 'a "dog" runs', "7": "a cat\nsits"}
    assert read_references(path).texts == {"0": ("a dog", "a pup"), "7": ("a cat",)}


def test_an_excel_file_names_its_remedies(tmp_path, monkeypatch) -> None:
    path = tmp_path / "c.xlsx"
    write_workbook(path)
    path.write_bytes(path.read_bytes()[:-30])
    with says(f"{path}: not a complete Excel file"):
        read_candidates(path)
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with says(f"{path}: Excel files need openpyxl: pip install openpyxl, or save the file as CSV"):
        read_candidates(path)


NESTED = Columns("doc.id", "response.choices.message.content", "doc.meta.refs")


def nested(number: int, caption: Any) -> dict[str, Any]:
    """A line of an API's answers: the caption stands in a list of one object."""
    meta = {"refs": [f"reference {number}", "another"]}
    answer = {"choices": [{"message": {"content": caption}}]}
    return {"doc": {"id": number, "meta": meta}, "response": answer}


@pytest.mark.parametrize("form", ["lines", "list"])
def test_keys_of_nested_objects(tmp_path, form) -> None:
    rows = [nested(1, "a dog"), nested(2, ["a cat"])]
    path = tmp_path / "answers.json"
    path.write_text(lines(rows) if form == "lines" else json.dumps(rows))
    assert read_candidates(path, columns=NESTED).captions == {"1": "a dog", "2": "a cat"}
    assert read_references(path, columns=NESTED).texts == {
        "1": ("reference 1", "another"),
        "2": ("reference 2", "another"),
    }


def test_files_with_the_usual_names_are_read_beside_named_columns(tmp_path) -> None:
    """One command names the columns of all its files, of which another may be COCO's or a table."""
    (tmp_path / "r.csv").write_text("image_id,caption\n1,a dog\n")
    (tmp_path / "c.csv").write_text("key,pred,caption\n1,mine,theirs\n")
    annotations = {"images": [], "annotations": [{"image_id": 1, "caption": "a dog"}]}
    (tmp_path / "coco.json").write_text(json.dumps(annotations))
    (tmp_path / "r.jsonl").write_text('{"image_id": 1, "references": ["a dog"]}\n')
    columns = Columns("key", "pred", "refs")
    assert read_candidates(tmp_path / "c.csv", columns=columns).captions == {"1": "mine"}
    for name in ("r.csv", "coco.json", "r.jsonl"):
        assert read_references(tmp_path / name, columns=columns).texts == {"1": ("a dog",)}


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (
            Columns("doc.idd", "c"),
            "columns.image_id=doc.idd: 'idd' is not there; what is there: id, meta",
        ),
        (
            Columns("doc.id.x", "c"),
            "columns.image_id=doc.id.x: 'x' is not there; what is there: nothing",
        ),
        (
            Columns("doc.id", "caption"),
            "'caption' is missing; columns.caption=KEY names another key; there are: doc, response",
        ),
        (Columns("doc.id", "doc.meta"), "'caption' is {'refs': "),
    ],
)
def test_a_key_that_is_not_there(tmp_path, columns, said) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text(lines([nested(1, "a dog")]))
    with says(f"{path}:1: ", said):
        read_candidates(path, columns=columns)


@pytest.mark.parametrize("command", ["score", "probe", "check"])
def test_commands_take_columns(captau, tmp_path, command) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text(lines([nested(i, f"reference {i}") for i in range(12)]))
    columns = [f"columns.{name}={key}" for name, key in vars(NESTED).items()]
    against = [f"against={path}"] if command == "check" else [f"output_dir={tmp_path / 'out'}"]
    arguments = [f"candidates={path}", f"references={path}", "metrics=bleu_1", *against, *columns]
    assert captau(command, *arguments)[0] == 0
