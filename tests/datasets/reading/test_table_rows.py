"""Rows of tables as other programs write them: what stands above the names, quotes in TSV, frames, sheets of Excel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from captau.datasets.reading.caption_files import read_candidates, read_references
from captau.datasets.reading.file_kinds import find_kind
from captau.datasets.reading.table import read_table
from tests.conftest import says
from tests.field_files import CAPTIONS, REFERENCES, RESULTS, write

FRAME = pd.DataFrame(RESULTS)
TABLE = FRAME.to_csv(index=False)
EXPECTED = {str(i): caption for i, caption in CAPTIONS.items()}


@pytest.mark.parametrize(
    "content",
    [
        "sep=;\n" + FRAME.to_csv(index=False, sep=";"),
        "sep=,\r\n" + TABLE,
        '"sep=,"\n' + TABLE,
        "sep=\t\n" + FRAME.to_csv(index=False, sep="\t"),
        "# made by a script, today\n# in a hurry\n" + TABLE,
        "# tabs\n" + FRAME.to_csv(index=False, sep="\t"),
        "#" + TABLE,
        "\ufeff\ufeff" + TABLE,
        TABLE.replace("\n", ",,\n"),
        TABLE + ",\n,\n",
        FRAME.to_csv(index=False, sep="\t").replace("\n", "\r"),
        TABLE.replace("\n", "\r"),
        "| image_id | caption |\n|---:|:---|\n"
        + "".join(f"| {i} | {caption} |\n" for i, caption in CAPTIONS.items()),
    ],
)
@pytest.mark.parametrize("name", ["c.csv", "c.txt"])
def test_what_stands_around_a_table_is_no_row(content: str, name: str, tmp_path: Path) -> None:
    assert read_candidates(write(tmp_path / name, content)).captions == EXPECTED


def test_lines_keep_their_numbers_below_comments(tmp_path: Path) -> None:
    path = write(tmp_path / "c.csv", "# one\n# two\nimage_id,caption\n1,a dog\n1,a cat\n")
    with says(f"{path}:5: a second caption for image '1', whose first is on line 4"):
        read_candidates(path)


def test_a_comment_within_a_table_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "c.csv", f"{TABLE}# the end\n")
    with says(f"{path}:8: 1 cells, where the first line names 2", "is a comment, take it out"):
        read_candidates(path)


def test_lists_that_pandas_quotes_in_tsv(tmp_path: Path) -> None:
    """pandas doubles the quotes of a cell that has some; a cell without doubled quotes is as it stands."""
    rows = [{"image_id": i, "references": list(texts)} for i, texts in REFERENCES.items()]
    frame = pd.DataFrame(rows)
    frame["references"] = frame["references"].map(pd.io.json.ujson_dumps)
    path = tmp_path / "r.tsv"
    frame.to_csv(path, sep="\t", index=False)
    assert '"[""a man' in path.read_text()
    expected = {str(i): texts for i, texts in REFERENCES.items()}
    assert read_references(path).texts == expected
    path = write(tmp_path / "c.tsv", 'image_id\tcaption\n1\t"a dog"\n2\ta "dog" and a ""\n')
    assert read_candidates(path).captions == {"1": '"a dog"', "2": 'a "dog" and a ""'}


def write_sheets(path: Path, sheets: dict[str, pd.DataFrame], hidden: str = "") -> Path:
    openpyxl = pytest.importorskip("openpyxl")
    with pd.ExcelWriter(path, engine="openpyxl") as writer:
        for name, frame in sheets.items():
            frame.to_excel(writer, sheet_name=name, index=False)
    if hidden:
        book = openpyxl.load_workbook(path)
        book[hidden].sheet_state = "hidden"
        book.active = len(book.sheetnames) - 1
        book.save(path)
    return path


def test_the_first_sheet_with_rows_is_read_and_others_are_named(tmp_path: Path) -> None:
    other = FRAME.assign(caption="another")
    path = write_sheets(tmp_path / "c.xlsx", {"mine": FRAME, "old": other})
    candidates = read_candidates(path)
    assert candidates.captions == EXPECTED
    assert candidates.notes == ("Of c.xlsx, the sheet 'mine' is read, and not 'old'.",)

    path = write_sheets(tmp_path / "c.xlsx", {"none": pd.DataFrame(), "mine": FRAME})
    candidates = read_candidates(path)
    assert (candidates.captions, candidates.notes) == (EXPECTED, ())

    path = write_sheets(tmp_path / "c.xlsx", {"old": other, "mine": FRAME}, hidden="old")
    candidates = read_candidates(path)
    assert candidates.captions == EXPECTED
    assert candidates.notes == ("Of c.xlsx, the sheet 'mine' is read, and not 'old' (hidden).",)

    info = pd.DataFrame([{"model": "m"}])
    path = write_sheets(tmp_path / "c.xlsx", {"info": info, "mine": FRAME})
    with says("no column 'image_id'; it has model", "the sheet 'info' is read, and not 'mine'"):
        read_candidates(path)


def test_excel_is_known_by_its_content(tmp_path: Path) -> None:
    path = write_sheets(tmp_path / "c.xlsx", {"mine": FRAME}).rename(tmp_path / "c.csv")
    assert read_candidates(path).captions == EXPECTED
    for name in ("c.xlsx", "c.parquet"):
        assert read_candidates(write(tmp_path / name, TABLE)).captions == EXPECTED


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"(lp0\n(dp1\nVimage_id\n", "it is a pickle, which could run code and is not read"),
        (b"]q\x00(}q\x01", "it is a pickle"),
        (b"<?xml version='1.0'?><a/>", "it is an XML file; write the data as CSV or JSON"),
        (b"\n<table border='1'>", "it is a table of HTML; write the data as CSV or JSON"),
    ],
)
def test_files_of_other_programs_are_named(content: Any, said: str, tmp_path: Path) -> None:
    path = write(tmp_path / "c.json", content)
    with says(f"{path}: ", said):
        find_kind(path)


def test_a_column_without_a_name_may_stand_twice(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "a,b,,\n1,2,,\n")
    assert read_table(path).column("b") == ["2"]
    path = write(tmp_path / "t.csv", "a,a\n1,2\n")
    with says("the column 'a' appears twice"):
        read_table(path)


def test_names_that_stand_twice_and_commas_without_quotes_are_named(tmp_path: Path) -> None:
    path = write(tmp_path / "c.csv", FRAME[:3].to_csv(index=False) + FRAME[3:].to_csv(index=False))
    with says(f"{path}:5: the names of the columns once more; take the line out"):
        read_candidates(path)
    path = write(tmp_path / "c.csv", "image_id,caption\n1,a dog, running\n")
    with says(f"{path}:2: 3 cells, where", "or a text with a delimiter in it has no quotes"):
        read_candidates(path)
    path = write(tmp_path / "c.csv", 'image_id,caption\n1,"a \\"dog\\", running"\n')
    with says(f"{path}:2: not valid CSV", "quotes within a cell are doubled"):
        read_candidates(path)
