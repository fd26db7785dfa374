"""Columns and notes of results: the note of a number that was not computed is read back as it was written."""

from __future__ import annotations

import json
import math
import platform
import re
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from captau.benchmarks.runs.results import (
    RunClock,
    add_run_file,
    describe_environment,
    digest_of_record,
    find_missing_reason,
    missing_note,
    table_files,
    tables_as_csv,
    to_json,
)
from captau.benchmarks.runs.tables import ResultTable, Row
from captau.metrics.base import Unavailability


@given(st.text(min_size=1))
def test_the_reason_of_a_number_that_was_not_computed_is_found(reason: str) -> None:
    assert find_missing_reason(missing_note(reason)) == reason


@pytest.mark.parametrize("note", ["", "undefined: all scores are equal", "bleu_4"])
def test_other_notes_name_no_missing_number(note: str) -> None:
    assert find_missing_reason(note) == ""


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        (Unavailability("needs x", "get it"), "needs x; get it"),
        (Unavailability("needs x"), "needs x"),
    ],
)
def test_a_reason_is_its_problem_and_its_remedy(reason: Unavailability, text: str) -> None:
    assert str(reason) == text
    assert Unavailability(**reason.record()) == reason
    assert missing_note(reason) == f"missing: {text}"


def test_json_has_null_for_what_is_no_number_at_any_depth() -> None:
    nested = {"a": [math.inf, (1.5, math.nan)], "b": {"c": -math.inf, "d": "é"}, "e": Path("f")}
    assert to_json(nested).decode() == (
        '{\n  "a": [\n    null,\n    [\n      1.5,\n      null\n    ]\n  ],\n'
        '  "b": {\n    "c": null,\n    "d": "é"\n  },\n  "e": "f"\n}\n'
    )


def test_tables_are_joined_into_one_file_of_each_form() -> None:
    tables = [ResultTable(title, "m", ["v"], [Row("a", ["1"])]) for title in ("T", "U")]
    files = table_files(iter(tables))
    assert list(files) == ["table.md", "table.tex"]
    cells = "| m | v |\n|:--|--:|\n| a | 1 |"
    assert files["table.md"].decode() == f"**T**\n\n{cells}\n\n**U**\n\n{cells}\n"
    assert files["table.tex"].decode().count("\\begin{table}") == 2
    # One table a file, with the mark by which Excel knows UTF-8.
    content = b"\xef\xbb\xbfm,v\na,1\n"
    assert tables_as_csv(tables) == {"table.csv": content, "table_2.csv": content}


def test_the_run_file_comes_last_with_the_digests_of_the_others() -> None:
    """SHA-256 of "abc", FIPS 180-2, appendix B.1."""
    files = add_run_file({"a.csv": b"abc"}, {"command": "x"})
    assert list(files) == ["a.csv", "run.json"]
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    record = json.loads(files["run.json"])
    assert record.pop("digest") == digest_of_record(record)
    assert record == {"command": "x", "files": {"a.csv": digest}}
    assert digest_of_record(record) != digest_of_record({**record, "command": "y"})


def test_a_clock_and_the_environment_describe_a_run() -> None:
    record = RunClock().record()
    assert 0 <= record["seconds"] < 60
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", record["started"])
    described = describe_environment()
    assert list(described) == ["format", "versions", "platform"]
    assert described["versions"]["captau"] == version("captau")
    assert described["versions"]["numpy"] == np.__version__
    assert list(described["platform"]) == ["python", "system", "machine"]
    assert described["platform"]["python"] == platform.python_version()
