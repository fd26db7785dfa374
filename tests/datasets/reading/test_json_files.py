"""JSON as files hold it: what no encoding can hold, numbers without end, keys that stand twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captau.datasets.reading.json_files import rating, read_json, read_json_lines
from captau.datasets.schema import Scale, make_items, replace_surrogates
from tests.conftest import says

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=8)
HALF = "\ud800"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files") / "f.json"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (r"a\ud800b", "a\ufffdb"),
        (r"\uDC00", "\ufffd"),
        (r"\ud83d\ude00", "\U0001f600"),
        (r"\ud800\uD83D\uDE00\ude00", "\ufffd\U0001f600\ufffd"),
        (r"\ud800\ud800", "\ufffd\ufffd"),
        (r"\ud800\\ud800", r"�\ud800"),
        (r"\\\ud800\n", "\\\ufffd\n"),
        (r"\ud800\u0041", "\ufffdA"),
    ],
)
def test_half_of_a_surrogate_pair_becomes_a_replacement_character(written, meant, path) -> None:
    path.write_text(f'{{"{written}": ["{written}"]}}\n')
    assert read_json(path) == {meant: [meant]}
    assert list(read_json_lines(path)) == [(1, {meant: [meant]})]


@given(text=ANY_TEXT, ascii_=st.booleans())
def test_every_text_that_is_read_can_be_written(text: str, ascii_: bool, path: Path) -> None:
    escaped = ascii_ or any("\ud800" <= c <= "\udfff" for c in text)
    path.write_text(json.dumps([text], ensure_ascii=escaped), encoding="utf-8")
    assert read_json(path) == [replace_surrogates(text)]
    replace_surrogates(text).encode()
    make_items([text], [text], [(text, text)], systems=[text], splits=[text])


def test_items_of_half_a_pair() -> None:
    (item,) = make_items([HALF], [HALF], [(HALF,)], systems=[HALF], splits=[HALF]).to_dict(
        "records"
    )
    assert item.pop("item_id").startswith("\ufffd:")
    assert item.pop("image") is None
    assert item.pop("references") == ("\ufffd",)
    assert set(item.values()) == {"\ufffd"}


FAULTS: dict[str, tuple[str, list[str]]] = {
    "many digits": (f'{{"a": 1,\n"b": {"9" * 5000}}}', [":2: a number of more than 4300 digits"]),
    "half an escape": ('{"a": 1,\n"b": "\\ud8"}', [":2: not valid JSON"]),
    "no escape": ('{"a": 1,\n"b": "\\ud8zz"}', [":2: not valid JSON"]),
    "keys alike": ('{"\\ud800": 1, "\\ud801": 2}', [": '\ufffd' appears twice in one object"]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_in_json(fault: str, path: Path) -> None:
    text, parts = FAULTS[fault]
    path.write_text(text)
    with says(str(path), *parts):
        read_json(path)


LINE_FAULTS = {
    "a key twice": (
        '{"a": 1, "b": 2, "a": 1}',
        "'a' appears twice in one object; keep one of them",
    ),
    "within": ('{"a": [{"b": 2, "b": 1}]}', "'b' appears twice in one object; keep one of them"),
    "many digits": (f'{{"a": -{"9" * 5000}}}', "a number of more than 4300 digits"),
    "nested": ('{"a": ' + "[" * 100_000, "nested too deeply"),
    "cut": ('{"a": ', "not valid JSON"),
}


@pytest.mark.parametrize("fault", LINE_FAULTS)
def test_faults_in_json_lines(fault: str, path: Path) -> None:
    text, part = LINE_FAULTS[fault]
    path.write_text(f'{{"a": 1}}\n\n{text}\n')
    with says(f"{path}:3: {part}"):
        list(read_json_lines(path))


@pytest.mark.parametrize("value", [10**400, -(10**400), 1e999], ids=["int", "negative", "float"])
def test_a_rating_too_large_for_a_number(value: Any) -> None:
    with says("f:3: 'P' is ", "not on the scale 1 to 5"):
        rating({"P": value}, "P", Scale(1, 5), "f:3")
