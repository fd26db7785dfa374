"""JSON in pieces: the same as JSON in one, whatever the pieces, and faults with their lines."""

from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from captau.datasets.reading import json_files, streams
from captau.datasets.reading.source_files import sha256
from captau.datasets.reading.streams import STDIN, JsonSource
from tests.conftest import AWKWARD, says

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(AWKWARD),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def pieces(path: Path) -> list[tuple[str, int, Any]]:
    return list(JsonSource(path).read())


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    table=st.lists(VALUES, max_size=4) | st.dictionaries(st.text(), VALUES, max_size=4),
    chunk=st.integers(1, 40),
    indent=st.sampled_from([None, 1]),
    escaped=st.booleans(),
    whole=st.sampled_from([0, 1 << 24]),
)
def test_pieces_are_the_whole(
    table: Any, chunk: int, indent: int | None, escaped: bool, whole: int, tmp_path: Path
) -> None:
    """Cut anywhere: within a character, a number, an escape, `-Infinity`; or parsed as a whole."""
    text = json.dumps(table, indent=indent, ensure_ascii=escaped)
    path = tmp_path / "c.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    before = streams._CHUNK, streams._WHOLE
    streams._CHUNK, streams._WHOLE = chunk, whole
    try:
        found = pieces(path)
    finally:
        streams._CHUNK, streams._WHOLE = before
    if isinstance(table, list):
        assert repr([value for _, _, value in found]) == repr(table)
        assert {kind for kind, _, _ in found} <= {"entry"}
    else:
        members = dict(value for kind, _, value in found if kind == "member")
        inside = [value for kind, _, value in found if kind == "annotation"]
        if any(kind == "annotations" for kind, _, _ in found):
            members["annotations"] = inside
        assert repr({key: members[key] for key in table}) == repr(table)
    lines = text.split("\n")
    for kind, line, value in found:
        if kind == "member" and indent is not None:
            assert lines[line - 1].strip().startswith(json.dumps(value[0], ensure_ascii=escaped))


def test_lines_of_entries(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text('[\n\n1,\n{"a":\n2}, 3]\n')
    assert pieces(path) == [("entry", 3, 1), ("entry", 4, {"a": 2}), ("entry", 5, 3)]
    path.write_text('{"info": 1,\n"annotations": [4,\n 5],\n "x": []}')
    assert pieces(path) == [
        ("member", 1, ("info", 1)),
        ("annotations", 2, None),
        ("annotation", 2, 4),
        ("annotation", 3, 5),
        ("member", 4, ("x", [])),
    ]


def test_a_long_file_is_not_held_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in memory is a few chunks, however long the file."""
    path = tmp_path / "c.json"
    entry = json.dumps({"image_id": 1, "caption": "a dog runs " * 9})
    path.write_text("[" + ",\n".join([entry] * 4000) + "]")
    held: list[int] = []
    more = streams._JsonText._more

    def watched(self: streams._JsonText) -> None:
        more(self)
        held.append(len(self._text))

    monkeypatch.setattr(streams._JsonText, "_more", watched)
    monkeypatch.setattr(streams, "_CHUNK", 4096)
    assert sum(1 for _ in JsonSource(path).read()) == 4000
    assert max(held) <= 2 * 4096
    assert path.stat().st_size > 100 * 4096


FAULTS = {
    "cut": ('[{"a": 1},\n{"a', ":2: not valid JSON (Unterminated string"),
    "cut within a word": ("[tr", ":1: not valid JSON (Expecting value)"),
    "cut after a comma": ("[1,\n", ":2: not valid JSON (Expecting value)"),
    "open": ("[1\n", ":2: not valid JSON (Expecting ']' delimiter)"),
    "no colon": ('{"a" 1}', ":1: not valid JSON (Expecting ':' delimiter)"),
    "no key": ("{1: 2}", ":1: not valid JSON (Expecting property name"),
    "a comma too few": ("[1\n 2]", ":2: not valid JSON (Expecting ']' delimiter)"),
    "more behind": ("[1]\n\n[2]", ":3: not valid JSON (Extra data)"),
    "inside": ('[1,\n{"a":\n b}]', ":3: not valid JSON (Expecting value)"),
    "twice": ('{"a": 1,\n"a": 2}', ":2: 'a' appears twice in one object"),
    "twice inside": ('[1,\n{"b": 1, "b": 2}]', ":2: 'b' appears twice in one object"),
    "deep": ("[" + "[" * 100_000, ":1: nested too deeply"),
    "digits": ("[1,\n" + "9" * 5000 + "]", ":2: a number of more than 4300 digits"),
    "empty": ("", ":1: not valid JSON (nothing is in it)"),
    "blank": (" \n\n", ":3: not valid JSON (nothing is in it)"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("chunk", [3, 1 << 20])
def test_faults(fault: str, chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_CHUNK", chunk)
    path = tmp_path / "c.json"
    path.write_text(FAULTS[fault][0])
    with says(f"{path}{FAULTS[fault][1]}"):
        pieces(path)


def test_a_fault_early_in_a_long_file_is_found_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c.json"
    path.write_text("[1, nothing" + " " * 100_000 + "]")
    monkeypatch.setattr(streams, "_CHUNK", 100)
    text = streams._JsonText(io.BytesIO(path.read_bytes()), "it")
    with says("it:1: not valid JSON"):
        list(text.pieces())
    assert text._stream.tell() < 1000


@pytest.mark.parametrize("head", [b'{"a": "', b'{"a": "b",', b"", b'[{"image_id": 1'])
@pytest.mark.parametrize("name", ["bomb.json.gz", "bomb.jsonl.gz"])
def test_a_bomb_is_told_before_it_is_unpacked(
    head: bytes, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty times the longest entry; at most two of it are unpacked."""
    monkeypatch.setattr(json_files, "MAX_ENTRY_BYTES", 1 << 20)
    path = tmp_path / name
    with gzip.open(path, "wb") as stream:
        stream.write(head + b" " * (20 << 20))
    unpacked: list[int] = []
    read = gzip.GzipFile.read

    def count(self: gzip.GzipFile, size: int | None = -1) -> bytes:
        data = read(self, size)
        unpacked.append(len(data))
        return data

    monkeypatch.setattr(gzip.GzipFile, "read", count)
    with says(f"{path}:1: longer than 1 MB without an end"):
        list(JsonSource(path).read())
    assert sum(unpacked) < 4 << 20


def test_byte_order_mark_gzip_and_encoding(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_bytes(b'\xef\xbb\xbf["caf\xc3\xa9"]')
    assert pieces(path) == [("entry", 1, "café")]
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\n{"a": 2}\n')
    assert pieces(path) == [("line", 1, {"a": 1}), ("line", 2, {"a": 2})]
    packed = tmp_path / "c.jsonl.gz"
    packed.write_bytes(gzip.compress(b'\n{"a": 1}\n' * 300))
    assert [line for _, line, _ in pieces(packed)] == list(range(2, 602, 2))
    packed.write_bytes(packed.read_bytes()[:-9])
    with says(f"{packed}: not a complete gzip file", "get a new copy"):
        pieces(packed)
    packed.write_bytes(b"\x1f\x8bnothing of the kind")
    with says(f"{packed}: not a complete gzip file"):
        pieces(packed)
    path.write_bytes(b'["a",\n"caf\xe9"]')
    with says(f"{path}:2: not UTF-8 text"):
        pieces(path)
    path.write_bytes('["a"]'.encode("utf-16"))
    with says(f"{path}:1: not UTF-8 text; save the file as UTF-8"):
        pieces(path)


def test_a_line_that_is_half_a_character(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_bytes(b'["\xc3')
    with says(f"{path}:1: not UTF-8 text"):
        pieces(path)


@pytest.mark.parametrize(
    "content", [b"[1, 2]", gzip.compress(b"[1, 2]", mtime=0)], ids=["plain", "gzip"]
)
def test_standard_input_is_read_more_than_once(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    source = JsonSource(STDIN)
    assert source.name == "standard input"
    for _ in range(2):
        assert [value for _, _, value in source.read()] == [1, 2]
    path = tmp_path / "same"
    path.write_bytes(content)
    assert source.sha256 == sha256(path) == JsonSource(path).sha256
