"""Which column of a file is the system's caption, and which are references, where both sides stand in one file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from captau.datasets.reading.caption_files import read_candidates, read_references
from captau.datasets.reading.table import Columns
from tests.conftest import says
from tests.field_files import CAPTIONS, REFERENCES, write

EXPECTED = {str(i): caption for i, caption in CAPTIONS.items()}
LISTS = {str(i): texts for i, texts in REFERENCES.items()}
FIRST = {str(i): texts[:1] for i, texts in REFERENCES.items()}


def write_excel(frame: pd.DataFrame, path: Path) -> None:
    pytest.importorskip("openpyxl")
    frame.to_excel(path, index=False)


WRITERS: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    "json": lambda frame, path: frame.to_json(path, orient="records"),
    "jsonl": lambda frame, path: frame.to_json(path, orient="records", lines=True),
    "csv": lambda frame, path: frame.to_csv(path, index=False),
    "tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    "parquet": lambda frame, path: frame.to_parquet(path),
    "xlsx": write_excel,
}


def file_of(path: Path, ending: str, rows: list[dict[str, Any]]) -> Path:
    """Write rows in one of the formats."""
    target = path / f"f.{ending}"
    WRITERS[ending](pd.DataFrame(rows), target)
    return target


@pytest.mark.parametrize("ending", WRITERS)
@pytest.mark.parametrize("name", ["prediction", "pred", "generated_caption", "hypothesis"])
def test_a_systems_captions_are_read_beside_captions(
    name: str, ending: str, tmp_path: Path
) -> None:
    rows = [{"image_id": i, "caption": REFERENCES[i][0], name: CAPTIONS[i]} for i in CAPTIONS]
    path = file_of(tmp_path, ending, rows)
    candidates = read_candidates(path)
    assert candidates.captions == EXPECTED
    assert candidates.notes == (
        f"In f.{ending}, caption is '{name}'.",
        f"In f.{ending}, 'caption' is not read (candidates.columns.caption= names a column).",
    )
    assert read_references(path).texts == FIRST

    other = read_candidates(path, columns=Columns(candidate_caption="caption"))
    assert other.captions == {i: texts[0] for i, texts in LISTS.items()}


@pytest.mark.parametrize("ending", WRITERS)
@pytest.mark.parametrize(
    ("system", "opposite"),
    [
        ("pred", "gt"),
        ("prediction", "reference"),
        ("prediction", "ground_truth"),
        ("caption", "gt"),
        ("output", "label"),
        ("pred", "answer"),
        ("text", "references"),
        ("generated_caption", "caption"),
    ],
)
@pytest.mark.parametrize("is_list", [True, False])
def test_both_sides_of_one_file(
    system: str, opposite: str, is_list: bool, ending: str, tmp_path: Path
) -> None:
    """References are never a system's own captions, which would score 1000."""
    rows = []
    for i, texts in REFERENCES.items():
        value = list(texts) if is_list else texts[0]
        rows.append({"image_id": i, system: CAPTIONS[i], opposite: value})
    path = file_of(tmp_path, ending, rows)
    assert read_candidates(path).captions == EXPECTED
    assert read_references(path).texts == (LISTS if is_list else FIRST)


def test_a_systems_captions_alone_are_no_references(tmp_path: Path) -> None:
    path = write(tmp_path / "c.json", [{"image_id": 1, "prediction": "a dog"}])
    with says(f"{path}:1: entry 0: 'references' is missing; columns.references=KEY"):
        read_references(path)
    path = write(tmp_path / "c.csv", "image_id,prediction\n1,a dog\n")
    with says(f"{path}: no column 'caption'; it has image_id, prediction"):
        read_references(path)


def test_a_number_beside_the_caption_is_no_caption(tmp_path: Path) -> None:
    for row in ({"prediction": 0.5}, {"prediction": "0.5"}, {"response": "yes"}):
        rows = [{"image_id": 1, "caption": "a dog", **row}]
        assert read_candidates(write(tmp_path / "c.json", rows)).captions == {"1": "a dog"}
        path = file_of(tmp_path, "csv", rows)
        assert read_candidates(path).captions == {"1": "a dog"}


def test_a_row_without_the_systems_caption_does_not_fall_back_on_the_reference(
    tmp_path: Path,
) -> None:
    rows = [
        {"image_id": 1, "caption": "a dog", "pred": "a cat"},
        {"image_id": 2, "caption": "a dog", "pred": None},
    ]
    path = write(tmp_path / "c.json", rows)
    assert read_candidates(path).captions == {"1": "a cat", "2": ""}
    del rows[1]["pred"]
    path = write(tmp_path / "c.json", rows)
    with says("entry 1: 'caption' is missing", "there are: image_id, caption"):
        read_candidates(path)


@pytest.mark.parametrize("ending", WRITERS)
def test_lists_beside_one_reference_are_named(ending: str, tmp_path: Path) -> None:
    rows = [
        {"image_id": i, "caption": texts[0], "other_captions": list(texts[1:])}
        for i, texts in REFERENCES.items()
    ]
    path = file_of(tmp_path, ending, rows)
    references = read_references(path)
    assert references.texts == FIRST
    assert references.notes == (
        f"In f.{ending}, 'other_captions' is not read (columns.references= names a column).",
    )

    rows = [
        {"image_id": i, "caption": texts[0], "all_captions": list(texts)}
        for i, texts in REFERENCES.items()
    ]
    assert read_references(file_of(tmp_path, ending, rows)).texts == LISTS


@pytest.mark.parametrize(
    "names",
    [
        ("Image ID", "Caption"),
        ("imageId", "caption"),
        ("IMAGE_ID", "CAPTION"),
        ("image_path", "text"),
    ],
)
@pytest.mark.parametrize("ending", ["json", "csv"])
def test_names_in_any_case_and_spelling(
    names: tuple[str, str], ending: str, tmp_path: Path
) -> None:
    rows = [dict(zip(names, (str(i), caption), strict=True)) for i, caption in CAPTIONS.items()]
    candidates = read_candidates(file_of(tmp_path, ending, rows))
    assert candidates.captions == EXPECTED
    assert names[0] in candidates.notes[0]


def test_answers_of_llava_are_captions(tmp_path: Path) -> None:
    rows = [
        {"question_id": i, "prompt": "Describe it.", "text": c, "answer_id": "x", "model_id": "m"}
        for i, c in CAPTIONS.items()
    ]
    assert read_candidates(file_of(tmp_path, "jsonl", rows)).captions == EXPECTED


@pytest.mark.parametrize("ending", WRITERS)
def test_bars_and_lists_in_a_column_of_captions_are_references(ending: str, tmp_path: Path) -> None:
    for form in (" ||| ".join, lambda texts: json.dumps(list(texts)), lambda texts: str(texts)):
        rows = [{"image_id": i, "caption": form(texts)} for i, texts in REFERENCES.items()]
        assert read_references(file_of(tmp_path, ending, rows)).texts == LISTS


@pytest.mark.parametrize("ending", WRITERS)
def test_null_among_references_is_the_same_in_every_format(ending: str, tmp_path: Path) -> None:
    rows = [{"image_id": i, "references": [*texts, None]} for i, texts in REFERENCES.items()]
    references = read_references(file_of(tmp_path, ending, rows))
    assert references.texts == {i: (*texts, "") for i, texts in LISTS.items()}
    (finding,) = references.find_faults()
    assert finding.summary.startswith("6 of 24 references are empty, punctuation apart, such as")


def test_lists_by_number_are_references(tmp_path: Path) -> None:
    numbered = {i: dict(enumerate(texts)) for i, texts in REFERENCES.items()}
    assert read_references(write(tmp_path / "r.json", numbered)).texts == LISTS


def test_words_in_place_of_a_caption_are_named(tmp_path: Path) -> None:
    words = {str(i): caption.split() for i, caption in CAPTIONS.items()}
    with says("'caption' is 9 texts", "these are the words of a text, join them with blanks"):
        read_candidates(write(tmp_path / "c.json", words))
    n_best = {str(i): [caption, "a dog runs"] for i, caption in CAPTIONS.items()}
    with says("'caption' is 2 texts", "where one is expected; keep one, unless candidates= and"):
        read_candidates(write(tmp_path / "c.json", n_best))
    (finding,) = read_references(write(tmp_path / "r.json", words)).find_faults()
    assert finding.summary.startswith("51 of 51 references are one word, as if captions had been")


def test_rows_and_captions_of_the_candidates_alone(tmp_path: Path) -> None:
    """Another key of the references' own is not looked for in the candidates."""
    rows = {"run": {"out": [{"image_id": 1, "words": "a dog"}]}}
    path = write(tmp_path / "c.json", rows)
    columns = Columns(candidate_rows="run.out", candidate_caption="words")
    assert read_candidates(path, columns=columns).captions == {"1": "a dog"}
    path = write(tmp_path / "r.json", [{"image_id": 1, "caption": "a cat"}])
    assert read_references(path, columns=columns).texts == {"1": ("a cat",)}


def test_a_named_list_of_no_objects_is_refused(tmp_path: Path) -> None:
    """So are the rows of a table of wandb's, whose columns are named beside them."""
    columns = Columns(rows="data")
    path = write(tmp_path / "c.json", {"columns": ["image_id", "caption"], "data": [[1, "a dog"]]})
    for read in (read_candidates, read_references):
        with says("c.json: row 0: a list, whose elements have no names"):
            read(path, columns=columns)

    path = write(tmp_path / "w.json", {"data": ["a dog"]})
    with says("w.json: row 0: an object is expected, not str"):
        read_candidates(path, columns=columns)


@pytest.mark.parametrize("ending", WRITERS)
def test_judgements_of_pairs_are_named(ending: str, tmp_path: Path) -> None:
    """Such a table is for captau bench; `score` reads its captions, or says what the columns are."""
    said = "look like judgements of pairs, which captau bench dataset=file file.path=FILE reads"
    rows = [
        {"image_id": i, "caption": CAPTIONS[i], "win": 3, "lose": 1, "reference": texts[0]}
        for i, texts in REFERENCES.items()
    ]
    path = file_of(tmp_path, ending, rows)
    assert read_candidates(path).notes == (f"In f.{ending}, 'win' and 'lose' {said}.",)
    assert f"In f.{ending}, 'win' and 'lose' {said}." in read_references(path).notes

    rows = [{"image_id": i, "chosen": c, "rejected": "a cat"} for i, c in CAPTIONS.items()]
    path = file_of(tmp_path, ending, rows)
    for read in (read_candidates, read_references):
        with says(f"'chosen' and 'rejected' {said}"):
            read(path)


def test_bars_in_one_caption_of_json_are_its_own(tmp_path: Path) -> None:
    """As pycocoevalcap reads them; where every caption of the file has them, they are between captions."""
    rows = [{"image_id": 1, "caption": "a ||| b"}, {"image_id": 1, "caption": "c"}]
    assert read_references(write(tmp_path / "r.json", rows)).texts == {"1": ("a ||| b", "c")}
    assert read_references(write(tmp_path / "r.json", rows[:1])).texts == {"1": ("a", "b")}
