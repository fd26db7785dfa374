"""Faults of JSON that people's files have are named as what they are, with their line."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from captau.datasets.reading.caption_files import read_candidates, read_references
from captau.datasets.reading.json_faults import describe_beginning
from captau.datasets.reading.json_files import read_json
from captau.datasets.reading.table import Columns
from tests.conftest import says
from tests.field_files import write

ROW = '{"image_id": 7, "caption": "a dog"}'


@pytest.mark.parametrize("name", ["c.json", "c.jsonl", "c.txt"])
@pytest.mark.parametrize(
    ("content", "line", "char"),
    [
        (f"[{ROW},]", 1, "]"),
        (f"[\n{ROW},\n\n]\n", 2, "]"),
        ('{\n"7": "a dog",\n"8": "a cat",\n}', 3, "}"),
        ('[\n{"image_id": 7, "caption": "a dog",}\n]', 2, "}"),
    ],
)
def test_a_comma_before_the_end_is_named(
    content: str, line: int, char: str, name: str, tmp_path: Path
) -> None:
    path = write(tmp_path / name, content)
    words = f"{path}:{line}: not valid JSON: there is a comma too many before '{char}'; delete it"
    with says(words):
        read_candidates(path)
    with says(words):
        read_json(path)


@pytest.mark.parametrize("name", ["c.json", "c.jsonl"])
def test_commas_between_json_lines_are_named(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, f"{ROW},\n{ROW.replace('7', '8')},\n")
    with says(f"{path}:1: not valid JSON: there is a comma too many after", "JSON lines have no"):
        read_candidates(path)


@pytest.mark.parametrize(
    "content",
    [
        repr([{"image_id": 7, "caption": "a man's dog"}]),
        repr({"7": "a dog"}),
        '[{"image_id": 7, "caption": None}]',
        repr([None]),
        repr([{7: True}]).replace("7", '"7"'),
    ],
)
def test_what_python_prints_is_named(content: str, tmp_path: Path) -> None:
    for name in ("c.json", "c.jsonl", "c.txt"):
        path = write(tmp_path / name, content)
        with says(f"{path}:1: not JSON but what Python prints of a list or an object", "json.dump"):
            read_candidates(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (f"```json\n[{ROW}]\n```", "not valid JSON but a block of Markdown (```)"),
        (f"Here is the JSON:\n```json\n[{ROW}]\n```", "a block of Markdown (```)"),
        ("- image_id: 7\n  caption: a dog\n", "it looks like YAML, which is not read"),
        ("---\n7: a dog\n", "it looks like YAML"),
        ("7: a dog\n8: a cat\n", "it looks like YAML"),
        (f"// made by me\n[{ROW}]", "it begins with a comment, which JSON has none of"),
        (
            f"INFO: loading\n[{ROW}]",
            "not valid JSON: 1 line of text stands above it, such as of a log",
        ),
        (
            f"[INFO] loading\nnow\n[\n{ROW}]",
            "2 lines of text stand above it, such as of a log; take them",
        ),
        (f"Loaded 3 {{}}\n{ROW}", "1 line of text stands above it, such"),
        ("n a dog\n", "it begins with 'n a dog', as no list and no object does"),
        ("a dog\na cat\n", "it begins with 'a dog', as no list and no object does; write JSON, or"),
        (f"[{ROW},\n// a comment\n{ROW}]", "there is a comment, which JSON has none of"),
        ('[{image_id: 7, "caption": "a"}]', "a key has no quotes; write it in double quotes"),
        ('"[{\\"image_id\\": 7}]"', "it is JSON that was written as a text of JSON"),
    ],
)
def test_what_is_no_json_is_named(content: str, said: str, tmp_path: Path) -> None:
    for name in ("c.json", "c.txt"):
        with says(said):
            read_candidates(write(tmp_path / name, content))


def test_a_table_where_json_is_needed_is_called_one() -> None:
    for line in ("image_id,caption", '"caption";"image_id"', "image\tcaption\tsystem"):
        said = describe_beginning(f"{line}\n1,a dog\n")
        assert said.startswith(f"not valid JSON but a table, whose first line is '{line}'; write")
    for line in ("caption", "a caption, and a dog", "a,b"):
        assert describe_beginning(line).startswith("not valid JSON: it begins with")


def test_lines_may_end_as_on_old_macs(tmp_path: Path) -> None:
    rows = [ROW, ROW.replace("7", "8")]
    for name in ("c.json", "c.jsonl"):
        path = write(tmp_path / name, "\r".join(rows))
        assert read_candidates(path).captions == {"7": "a dog", "8": "a dog"}


def test_files_that_are_packed_twice_are_named(tmp_path: Path) -> None:
    packed = gzip.compress(gzip.compress(f"[{ROW}]".encode()))
    path = write(tmp_path / "c.json.gz", packed)
    with says(f"{path}: it is packed twice, in it is a gzip file; unpack it once"):
        read_candidates(path)


@pytest.mark.parametrize("tail", ["\0\0\0", "\x1a"])
def test_control_characters_behind_the_end_are_named(tail: str, tmp_path: Path) -> None:
    path = write(tmp_path / "c.json", f"[{ROW}]{tail}")
    with says(f"{path}:1: not valid JSON: there is a control character, "):
        read_candidates(path)


def test_marks_of_files_one_behind_the_other_are_no_text(tmp_path: Path) -> None:
    rows = [ROW, ROW.replace("7", "8")]
    for content in (f"\ufeff\ufeff[{','.join(rows)}]", "".join(f"\ufeff{r}\n" for r in rows)):
        for name in ("c.json", "c.jsonl"):
            assert len(read_candidates(write(tmp_path / name, content)).captions) == 2


def test_lists_of_both_sides_without_images_are_named(tmp_path: Path) -> None:
    sides = {"predictions": ["a dog", "a cat"], "references": [["a dog"], ["two cats"]]}
    for read in (read_candidates, read_references):
        with says("'predictions' and 'references' are no image ids; write a list of objects with"):
            read(write(tmp_path / "c.json", sides))
    gts_res = {"gts": {"7": ["a cow", "cows"]}, "res": {"7": ["a dog"]}}
    path = write(tmp_path / "c.json", gts_res)
    columns = Columns(rows="gts", candidate_rows="res")
    assert read_candidates(path, columns=columns).captions == {"7": "a dog"}
    assert read_references(path, columns=columns).texts == {"7": ("a cow", "cows")}
