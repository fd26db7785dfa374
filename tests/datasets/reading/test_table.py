"""Tables in every format: the same columns from each, and each way in which one can be broken."""

from __future__ import annotations

import csv
import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from captau.datasets.reading.table import (
    USUAL_COLUMNS,
    Columns,
    JudgementColumns,
    name_raters,
    open_parquet,
    read_table,
)
from captau.datasets.schema import Card, Scale
from tests.conftest import says

ROWS = [
    {"image": "a.jpg", "text": 'a dog, "big"\nand brown', "score": 1.5, "refs": ["x", "y ||| z"]},
    {"image": "b.jpg", "text": "un café ☕", "score": 2.0, "refs": ["w"]},
]
FORMATS = ["csv", "json", "jsonl", "parquet"]


def write(rows: list[dict[str, Any]], path: Path) -> Path:
    """Rows in the format that the path's ending says; lists become JSON in a cell of CSV."""
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        text = io.StringIO()
        writer = csv.DictWriter(text, list(rows[0]))
        writer.writeheader()
        for row in rows:
            cells = {k: json.dumps(v) if isinstance(v, list) else v for k, v in row.items()}
            writer.writerow(cells)
        path.write_text(text.getvalue(), newline="")
    return path


@pytest.mark.parametrize("ending", FORMATS)
def test_every_format_holds_the_same(ending: str, tmp_path: Path) -> None:
    table = read_table(write(ROWS, tmp_path / f"t.{ending}"))
    assert table.names == ("image", "text", "score", "refs")
    assert len(table) == 2
    assert table.texts("text") == [row["text"] for row in ROWS]
    assert table.floats("score", Scale(1, 2)) == [1.5, 2.0]
    assert table.references("refs") == [("x", "y ||| z"), ("w",)]
    assert table.first_of("none", "score", "text") == "score"
    assert table.first_of("none") is None


def test_places(tmp_path: Path) -> None:
    """A line is the one that a row begins in; a row of Parquet is counted from 1."""
    found = {e: read_table(write(ROWS, tmp_path / f"t.{e}")).places[1] for e in FORMATS}
    assert found == {
        "csv": f"{tmp_path}/t.csv:4",
        "json": f"{tmp_path}/t.json: entry 1",
        "jsonl": f"{tmp_path}/t.jsonl:2",
        "parquet": f"{tmp_path}/t.parquet: row 2",
    }


@pytest.mark.parametrize("text", ["\ufeffa,b\n1,2\n\n", "a,b\r\n1,2\r\n", "a, b\n1,2"])
def test_a_byte_order_mark_and_line_ends_are_legal(text: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode())
    table = read_table(path)
    assert (table.names, table.texts("b")) == (("a", "b"), ["2"])
    path = tmp_path / "t.tsv"
    path.write_bytes(text.replace(",", "\t").encode())
    table = read_table(path)
    assert (table.names, table.texts("b")) == (("a", "b"), ["2"])


def test_quotes_mean_nothing_in_tsv(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    path.write_text('a\tb\n"x\ty"\n')
    assert read_table(path).texts("a") == ['"x']


def test_objects_are_read_by_what_is_in_them(tmp_path: Path) -> None:
    """So that a struct of an image's bytes and its path costs the path alone."""
    rows = [{"img": {"bytes": b"x" * 9, "path": "a.jpg"}}, {"img": None}]
    table = read_table(write(rows, tmp_path / "t.parquet"))
    assert table.names == ("img.bytes", "img.path")
    assert table.column("img.path") == ["a.jpg", None]
    table = read_table(write([{"img": {"path": "a.jpg"}}], tmp_path / "t.jsonl"))
    assert table.column("img.path") == ["a.jpg"]


def test_a_number_of_32_bits_is_what_it_was_written_as(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"v": pa.array([0.1, None], pa.float32())}), path)
    assert read_table(path).column("v") == [0.1, None]


BROKEN = {
    "empty": ("t.csv", b"", ["t.csv: it is empty"]),
    "ragged": ("t.csv", b"a,b\n1,2\n3\n", [":3: 1 cells", "names 2 columns", "truncated"]),
    "a cell too many": ("t.csv", b"a,b\n1,2\n3,4,5\n", [":3: 3 cells", "names 2 columns"]),
    "an open quote": ("t.csv", b'a,b\n1,2\n3,"4\n', [":3: not valid CSV", "truncated"]),
    "a column twice": ("t.csv", b"a,a\n1,2\n", ["'a' appears twice"]),
    "not UTF-8": ("t.csv", b"a,b\n1,2\ncaf\xe9,3\n", [":3: not UTF-8"]),
    "short TSV": ("t.tsv", b"a\tb\n1\n", [":2: 1 cells"]),
    "no object": ("t.jsonl", b'{"a": 1}\n[2]\n', [":2: an object is expected, not list"]),
    "no object in JSON": ("t.json", b'[{"a": 1}, 2]', ["entry 1: an object is expected, not int"]),
    "cut JSON lines": ("t.jsonl", b'{"a": 1}\n{"a":', [":2: not valid JSON", "truncated"]),
    "a key twice": ("t.jsonl", b'{"a": 1}\n{"a": 1, "a": 2}', [":2: 'a' appears twice"]),
    "many digits": ("t.json", b'[{"a":\n' + b"9" * 5000 + b"}]", [":2: a number of more than"]),
    "another ending": ("t.ods", b"", ["t.ods:1: not valid JSON (nothing is in it)"]),
    "no Parquet": ("t.parquet", b"PAR1 or so", ["not a complete Parquet file", "truncated"]),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_what_is_broken_is_named_by_its_place(fault: str, tmp_path: Path) -> None:
    name, content, parts = BROKEN[fault]
    (tmp_path / name).write_bytes(content)
    with says(str(tmp_path / name), *parts):
        read_table(tmp_path / name)


def test_equal_texts_of_parquet_are_in_memory_once(tmp_path: Path) -> None:
    """A small file may hold a long text in each of many rows."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"caption": ["a dog", None, "a dog"]}), path)
    first, empty, second = read_table(path).column("caption")
    assert (first, empty, second) == ("a dog", None, "a dog")
    assert first is second


def test_lists_in_several_row_groups_of_parquet_are_read(tmp_path: Path) -> None:
    """Arrow reads texts in lists as dictionaries of one row group at a time alone."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"refs": [["x", "y"], ["z"], ["x"]]}), path, row_group_size=1)
    assert read_table(path).references("refs") == [("x", "y"), ("z",), ("x",)]


def test_parquet_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": pa.array([b"caf\xe9"], pa.binary()).view(pa.string())}), path)
    with says(f"{path}: not a complete Parquet file"):
        read_table(path).texts("a")


def test_a_missing_file(tmp_path: Path) -> None:
    for ending in FORMATS:
        with says(f"{tmp_path}/t.{ending}", "No such file" if ending == "parquet" else "cannot be"):
            read_table(tmp_path / f"t.{ending}")


def test_parquet_cut_at_any_byte(tmp_path: Path) -> None:
    whole = write(ROWS, tmp_path / "t.parquet").read_bytes()
    for end in range(0, len(whole), 97):
        (tmp_path / "t.parquet").write_bytes(whole[:end])
        with says("not a complete Parquet file"):
            read_table(tmp_path / "t.parquet")


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        (3.0, ["score is 3.0, not on the scale 1 to 2"]),
        (None, ["score is None, not a number"]),
        ("much", ["score is 'much', not a number"]),
        (True, ["score is True, not a number"]),
        (float("nan"), ["score is nan, not a number"]),
        ([1], ["score is [1], not a number"]),
        pytest.param(10**400, ["score is 1000", "not on the scale 1 to 2"], id="without end"),
    ],
)
def test_values(value: Any, parts: list[str], tmp_path: Path) -> None:
    path = write([ROWS[0], {**ROWS[1], "score": value}], tmp_path / "t.json")
    with says(f"{path}: entry 1: ", *parts):
        read_table(path).floats("score", Scale(1, 2))


def test_columns_of_another_kind(tmp_path: Path) -> None:
    table = read_table(write([{"a": 7, "b": [1], "c": "[", "d": [], "e": ""}], tmp_path / "t.json"))
    assert table.texts("a") == ["7"]
    with says("t.json: no column 'z'; it has a, b, c, d, e; do this"):
        table.column("z", "; do this")
    with says("entry 0: b is [1], not a text"):
        table.texts("b")
    with says("entry 0: e is empty"):
        table.filled("e")
    for name, reason in {
        "a": "a is 7, not a list of texts",
        "b": "b holds 1, not a text",
        "c": "c is '[', from which captions cannot be told apart",
    }.items():
        with says(f"entry 0: {reason}"):
            table.references(name)
    for name in "de":
        with says(f"entry 0: no references in {name}"):
            table.references(name)


# One row a rating, to items.

CARD = Card("toy", "Toy", "1", "", "", "", scales={"overall": Scale(0, 5)}, has_references=False)


def judged(**changes: Any) -> JudgementColumns:
    columns: dict[str, Any] = {
        "places": ["f:2", "f:3", "f:4", "f:5"],
        "image_ids": ["a", "a", "a", "b"],
        "captions": ["dog", "cat", "dog", "dog"],
        "values": [1, 2, 3, 4],
    }
    return JudgementColumns(**(columns | changes))


def test_rows_become_items() -> None:
    made = judged().caption_set(CARD)
    assert made.items[["image_id", "caption"]].to_numpy().tolist() == [
        ["a", "dog"],
        ["a", "cat"],
        ["b", "dog"],
    ]
    one, two, three = made.items["item_id"]
    assert made.ratings.to_numpy().tolist() == [
        [one, "overall", "rating_1", 1.0],
        [two, "overall", "rating_1", 2.0],
        [one, "overall", "rating_2", 3.0],
        [three, "overall", "rating_1", 4.0],
    ]
    assert len(judged(systems=["A", "A", "B", "A"]).caption_set(CARD).items) == 4


def test_a_rater_rates_once() -> None:
    assert len(judged(raters=["r", "r", "s", "r"]).caption_set(CARD).ratings) == 4
    with says("f:4: rater 'r' already rated this caption in f:2"):
        judged(raters=["r", "s", "r", "r"]).caption_set(CARD)


def test_an_item_has_one_set_of_references_and_one_split() -> None:
    references = [("x",), ("x",), ("y",), ("x",)]
    with says("f:4: references differs from f:2"):
        judged(references=references).caption_set(CARD)
    assert len(judged(references=references, apart=True).caption_set(CARD).items) == 4
    with says("f:4: split differs from f:2"):
        judged(splits=["train", "train", "test", "test"]).caption_set(CARD)


def test_texts_of_a_parquet_file_are_dictionaries_but_for_those_of_lists(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": ["x"], "b": [["x"]], "n": [1]}), path)
    kinds = {field.name: str(field.type) for field in open_parquet(path).schema_arrow}
    assert [name for name, kind in kinds.items() if "dictionary" in kind] == ["a"]


def test_tsv_whose_names_are_all_in_quotes_is_quoted(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    path.write_text('"a"\t"b"\n"x\ty"\t"say ""no"""\n')
    table = read_table(path)
    assert (table.texts("a"), table.texts("b")) == (["x\ty"], ['say "no"'])
    path.write_text('"a"\tb\n"x"\ty\n')
    assert read_table(path).texts('"a"') == ['"x"']


def test_rows_of_excel_are_texts_with_their_numbers(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["a", "b"], [1, None], [None, None], ["x", 2.5]):
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    table = read_table(tmp_path / "t.xlsx")
    assert (table.texts("a"), table.texts("b")) == (["1", "x"], ["", "2.5"])
    assert table.places == [f"{tmp_path}/t.xlsx:2", f"{tmp_path}/t.xlsx:4"]
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    with says("t.xlsx: not a complete Excel file", "get a new copy"):
        read_table(tmp_path / "t.xlsx")


def test_texts_are_filled_and_whole_numbers_are_texts(tmp_path: Path) -> None:
    table = read_table(write([{"a": 7, "b": " "}, {"a": "x", "b": "y"}], tmp_path / "t.json"))
    assert table.texts("a") == table.filled("a") == ["7", "x"]
    with says("entry 0: b is empty"):
        table.filled("b")
    assert table.texts("b") == [" ", "y"]
    table = read_table(write([{"a": "x"}, {"a": True}], tmp_path / "t.json"))
    with says("entry 1: a is True, not a text"):
        table.texts("a")
    assert read_table(write([{"a": "1e3"}, {"a": -2}], tmp_path / "t.json")).floats("a", None) == [
        1000.0,
        -2.0,
    ]


def test_items_have_the_columns_of_their_first_rows() -> None:
    columns: dict[str, Any] = {
        **{"references": [("x",), ("y",), ("x",), ("z",)], "systems": ["A", "A", "A", "B"]},
        **{"splits": ["s", "t", "s", "u"], "images": ["1.png", "2.png", "3.png", None]},
        **{"clusters": ["k", "l", "k", "m"], "dimensions": ["fit", "fit", "style", "fit"]},
        "raters": ["r", "r", "r", "r"],
    }
    card = replace(CARD, scales=dict.fromkeys(("fit", "style"), Scale(0, 5)))
    made = judged(**columns).caption_set(card)
    kept = ["image_id", "caption", "references", "system", "split", "image", "cluster"]
    assert made.items[kept].to_numpy().tolist() == [
        ["a", "dog", ("x",), "A", "s", "1.png", "k"],
        ["a", "cat", ("y",), "A", "t", "2.png", "l"],
        ["b", "dog", ("z",), "B", "u", None, "m"],
    ]
    assert made.ratings["dimension"].tolist() == ["fit", "fit", "style", "fit"]
    with says("f:4: cluster differs from f:2, which has the same image and caption"):
        judged(clusters=["k", "l", "n", "m"]).caption_set(CARD)


def test_the_first_bad_number_is_named(tmp_path: Path) -> None:
    table = read_table(write([{"a": 1}, {"a": "x"}, {"a": 9}, {"a": "y"}], tmp_path / "t.json"))
    for scale in (None, Scale(1, 2)):
        with says(f"{tmp_path}/t.json: entry 1: a is 'x', not a number"):
            table.floats("a", scale)
    infinite = read_table(write([{"a": float("inf")}], tmp_path / "t.json"))
    with says("entry 0: a is inf, not a number"):
        infinite.floats("a", None)
    with says("entry 0: a is inf, not on the scale 1 to 2"):
        infinite.floats("a", Scale(1, 2))


def test_the_first_empty_text_is_named(tmp_path: Path) -> None:
    table = read_table(write([{"a": "x"}, {"a": " "}, {"a": ""}], tmp_path / "t.json"))
    with says("entry 1: a is empty"):
        table.filled("a")


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.json", "t.jsonl", "t.txt", "t", "t.xyz"])
@pytest.mark.parametrize(
    "content",
    [
        "a,b\n1,x\n",
        "a\tb\n1\tx\n",
        "a;b\n1;x\n",
        '[{"a": "1", "b": "x"}]',
        '{"a": "1", "b": "x"}\n',
        '{\n"a": "1", "b": "x"\n}\n{"a": "2",\n"b": "y"}\n',
        '{"name": "mine", "rows": [{"a": "1", "b": "x"}]}',
        '{"columns": ["a", "b"], "data": [["1", "x"]]}',
        '{"a": {"0": "1"}, "b": {"0": "x"}}',
        '{"a": ["1"], "b": ["x"]}',
    ],
)
def test_a_table_is_known_by_its_content(name: str, content: str, tmp_path: Path) -> None:
    if name == "t.jsonl" and "\n" not in content and content.startswith("{"):
        pytest.skip("each line of such a file is a row")
    path = tmp_path / name
    path.write_text(content)
    table = read_table(path)
    assert (table.texts("a")[0], table.texts("b")[0]) == ("1", "x")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x80\x04\x95pickled", "a pickle, which could run code and is not read; write"),
        (b"PK\x03\x04 zipped", "a zip archive; unpack it, and name the file in it"),
        (b"\x89PNG\r\n", "a PNG image, not a text; name the file of captions"),
        (b"\xff\xd8\xff\xe0", "a JPEG image, not a text; name the file of captions"),
        (b"ORC\n\0\1", "an ORC file; write it as Parquet"),
        (b"FEA1\0\0", "a Feather file of the first version; write it as Parquet"),
        (b"\xff\xff\xff\xff\x10\0", "not a complete Arrow file"),
        (
            b"a.json".ljust(257, b"\0") + b"ustar\0",
            "a tar archive; unpack it, and name the file in it",
        ),
        (b"\x89HDF\r\n\x1a\n", "an HDF5 file; write the data as JSON or Parquet"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "a pointer of Git LFS, not the file"),
        (b"<!DOCTYPE html><html>", "a web page; download the file itself"),
    ],
)
@pytest.mark.parametrize("name", ["t.csv", "t.json"])
def test_what_is_no_table_is_named_for_what_it_is(name, content, words, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with says(f"{path}: ", words):
        read_table(path)


def test_nul_bytes_at_the_end_are_a_fault(tmp_path: Path) -> None:
    """A crash while a file is written may leave its last block full of them; the rows before it are not all."""
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n1,x\n2" + b"\0" * 50)
    with says(f"{path}:3: NUL bytes, which text has none of; the file is damaged"):
        read_table(path)


def test_a_list_at_the_top_is_json_alone(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text('\n [{"a": 1}]')
    table = read_table(tmp_path / "t.json")
    assert (table.column("a"), table.places) == ([1], [f"{tmp_path}/t.json: entry 0"])
    (tmp_path / "t.json").write_text('{"a": 1}\n\n{"b": 2}')
    table = read_table(tmp_path / "t.json")
    assert (table.names, table.column("a"), table.column("b")) == (("a", "b"), [1, None], [None, 2])
    assert table.places == [f"{tmp_path}/t.json:1", f"{tmp_path}/t.json:3"]
    (tmp_path / "t.json").write_text("[]")
    table = read_table(tmp_path / "t.json")
    with says("t.json: no column 'a'; it has none"):
        table.column("a")


def test_lines_of_csv_are_those_where_rows_begin(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('a,b\n\n"x\ny",1\n2,3\n')
    assert read_table(path).places == [f"{path}:3", f"{path}:5"]
    for text, line in (('"a\n', 1), ('a\n\n"b\nc', 3), ('a\n"b" c\n', 2)):
        path.write_text(text)
        with says(f"{path}:{line}: not valid CSV (", "); a quote is not closed, or the file is"):
            read_table(path)
    path.write_text("")
    message = "it is empty; a line with the names of the columns is expected"
    with says(f"{path}: {message}"):
        read_table(path)
    path = tmp_path / "t.tsv"
    path.write_text("a\tb\n\nx\ty\n")
    assert read_table(path).places == [f"{path}:3"]


def test_a_table_may_have_many_columns(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    names = [f"c{i}" for i in range(300)]
    path.write_text("\n".join([",".join(names), ",".join(map(str, range(300)))]))
    table = read_table(path)
    assert (table.names, table.texts("c299")) == (tuple(names), ["299"])
    with says(f"{path}: the column 'c1' appears twice; keep one of them"):
        path.write_text("c0, c1,c1 \n1,2,3\n")
        read_table(path)


def test_the_first_sheet_of_excel_is_read_with_the_values_of_its_formulas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["a"])
    book.active.append(["=1+1"])  # whose value Excel would store beside it
    book.active.append([7])
    book.create_sheet("more").append(["b"])
    book.save(tmp_path / "t.xlsx")
    table = read_table(tmp_path / "t.xlsx")
    assert (table.names, table.texts("a"), table.places) == (
        ("a",),
        ["7"],
        [f"{tmp_path}/t.xlsx:3"],
    )
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with says(
        f"{tmp_path}/t.xlsx: Excel files need openpyxl: pip install openpyxl, or save the file as CSV"
    ):
        read_table(tmp_path / "t.xlsx")


def test_a_page_of_parquet_with_another_checksum_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(
        pa.table({"a": ["a dog", "a cat"]}),
        path,
        **{"compression": "none", "use_dictionary": False, "write_page_checksum": True},
    )
    path.write_bytes(path.read_bytes().replace(b"a dog", b"a cog"))
    with says(f"{path}: not a complete Parquet file (", "; it may be truncated; get a new copy"):
        read_table(path).texts("a")


def test_columns_of_parquet_are_read_by_their_kind(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    table = pa.table(
        {
            "s": pa.array([{"a": "x", "b": 1}, None]),
            "h": pa.array([np.float16(0.1), None], pa.float16()),
            "d": pa.array([0.1, 0.25]),
            "t": ["y", None],
            "f": [True, None],
            "z": pa.array([b"12", None], pa.binary(2)),
        }
    )
    pq.write_table(table, path)
    found = read_table(path)
    assert found.names == ("s.a", "s.b", "h", "d", "t", "f", "z")
    columns = {name: found.column(name) for name in found.names}
    assert columns == {
        **{"s.a": ["x", None], "s.b": [1, None], "d": [0.1, 0.25], "t": ["y", None]},
        **{"f": [True, None], "z": [b"12", None]},
        "h": [0.1, None],  # 0.0999755859375 in 16 bits
    }
    assert found.places == [f"{path}: row 1", f"{path}: row 2"]


def test_the_usual_names_of_columns() -> None:
    assert Columns("image_id", "caption", "references") == USUAL_COLUMNS
    assert Columns(caption="text") == Columns("image_id", "text", "references") != USUAL_COLUMNS


def test_references_of_a_table_are_parsed_once_for_equal_cells(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"r": "x ||| y"}, {"r": "x ||| y"}, {"r": ["z"]}]
    table = read_table(write(rows, tmp_path / "t.json"))
    found = table.references("r")
    assert found == [("x", "y"), ("x", "y"), ("z",)]
    assert found[0] is found[1]
    table = read_table(write([{"r": "x"}, {"r": " "}], tmp_path / "t.json"))
    with says(f"{tmp_path}/t.json: entry 1: no references in r; at least one is needed"):
        table.references("r")
    with says("t.json: no column 'q'; it has r; do this"):
        table.references("q", "; do this")


def test_rows_without_raters_are_numbered_by_item_and_dimension() -> None:
    subjects, dimensions = [0, 0, 1, 0, 0], ["a", "a", "a", "b", "a"]
    places = [f"f:{n}" for n in range(5)]
    assert name_raters(None, subjects, dimensions, places) == [
        *("rating_1", "rating_2", "rating_1", "rating_1", "rating_3")
    ]
    raters = ["r", "s", "r", "r", "s"]
    assert name_raters(raters[:4], subjects[:4], dimensions[:4], places) == raters[:4]
    with says("f:4: rater 's' already rated this caption in f:1; keep one of the ratings"):
        name_raters(raters, subjects, dimensions, places)
