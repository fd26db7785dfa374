"""JSON as files hold it: what no encoding can hold, numbers without end, keys that stand twice."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from captau.datasets.caption_texts import replace_surrogates
from captau.datasets.errors import InputError
from captau.datasets.reading import json_files, json_source
from captau.datasets.reading.json_files import (
    field,
    rating,
    read_json,
    read_json_entries,
    read_json_lines,
    read_text,
    texts,
)
from captau.datasets.reading.json_source import STDIN, JsonSource
from captau.datasets.reading.source_files import sha256
from captau.datasets.reading.table import read_table
from captau.datasets.schema import Scale, make_items
from tests.conftest import AWKWARD, give_stdin, says

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


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(AWKWARD),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def pieces(path: Path) -> list[tuple[str, int, Any]]:
    return list(JsonSource(path).read())


def pieces_of(content: bytes) -> list[tuple[str, int, Any]]:
    """Return the pieces of a file "f" with this content."""
    return list(JsonSource(Path("f"), content).read())


@pytest.fixture
def read_in_steps(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return a function that says how many bytes of a file are read at a time."""
    return lambda n_bytes: monkeypatch.setattr(json_source, "_CHUNK", n_bytes)


@pytest.fixture
def allow_entries(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that bounds the bytes of an entry, or the lists and objects in it."""

    def allow(*, n_bytes: int | None = None, n_containers: int | None = None) -> None:
        for module in (json_files, json_source):
            if n_bytes is not None:
                monkeypatch.setattr(module, "MAX_ENTRY_BYTES", n_bytes)
            if n_containers is not None:
                monkeypatch.setattr(module, "MAX_CONTAINERS", n_containers)

    return allow


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
)
def test_pieces_are_the_whole(
    table: Any, chunk: int, indent: int | None, escaped: bool, tmp_path: Path
) -> None:
    """Cut anywhere: within a character, a number, an escape, `-Infinity`."""
    text = json.dumps(table, indent=indent, ensure_ascii=escaped)
    path = tmp_path / "c.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_source, "_CHUNK", chunk)
        found = pieces(path)
    if isinstance(table, list):
        assert repr([value for _, _, value in found]) == repr(table)
        assert {kind for kind, _, _ in found} <= {"entry"}
    else:
        members = dict(value for kind, _, value in found if kind == "member")
        for kind, _, value in found:
            if kind == "list":
                members[value] = []
            elif kind == "element":
                members[value[0]].append(value[1])
        assert repr({key: members[key] for key in table}) == repr(table)
    lines = text.split("\n")
    for kind, line, value in found:
        if kind == "member" and indent is not None:
            assert lines[line - 1].strip().startswith(json.dumps(value[0], ensure_ascii=escaped))


def test_lines_of_entries(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text('[\n\n1,\n{"a":\n2}, 3]\n')
    assert pieces(path) == [("entry", 3, 1), ("entry", 4, {"a": 2}), ("entry", 5, 3)]
    path.write_text('{"info": 1,\n"some": [{},\n {"a": 5}],\n "x": []}')
    assert pieces(path) == [
        ("member", 1, ("info", 1)),
        ("list", 2, "some"),
        ("element", 2, ("some", {})),
        ("element", 3, ("some", {"a": 5})),
        ("member", 4, ("x", [])),
    ]


def test_a_long_file_is_not_held_whole(tmp_path: Path) -> None:
    """Of a file of 24 MB less than half is in memory at any time."""
    path = tmp_path / "c.json"
    entry = json.dumps({"image_id": 1, "caption": "a dog runs " * 300})
    path.write_text("[" + ",\n".join([entry] * 7000) + "]")
    tracemalloc.start()
    try:
        n_entries = sum(1 for _ in JsonSource(path).read())
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert n_entries == 7000
    assert most_bytes < path.stat().st_size / 2


PIECE_FAULTS = {
    "cut": ('[{"a": 1},\n{"a', ":2: not valid JSON (Unterminated string"),
    "cut within a word": ("[tr", ":1: not valid JSON (Expecting value)"),
    "cut after a comma": ("[1,\n", ":2: not valid JSON (Expecting value)"),
    "open": ("[1\n", ":2: not valid JSON (Expecting ']' delimiter)"),
    "no colon": ('{"a" 1}', ":1: not valid JSON (Expecting ':' delimiter)"),
    "no key": ("{1: 2}", ":1: not valid JSON (Expecting property name"),
    "a comma too few": ("[1\n 2]", ":2: not valid JSON (Expecting ']' delimiter)"),
    "more behind": ("[1]\n\n2", ":3: not valid JSON (Extra data)"),
    "inside": ('[1,\n{"a":\n b}]', ":3: not valid JSON (Expecting value)"),
    "twice": ('{"a": 1,\n"a": 2}', ":2: 'a' appears twice in one object"),
    "twice inside": ('[1,\n{"b": 1, "b": 2}]', ":2: 'b' appears twice in one object"),
    "deep": ("[" + "[" * 100_000, ":1: nested too deeply"),
    "digits": ("[1,\n" + "9" * 5000 + "]", ":2: a number of more than 4300 digits"),
    "empty": ("", ":1: not valid JSON (nothing is in it)"),
    "blank": (" \n\n", ":3: not valid JSON (nothing is in it)"),
}


@pytest.mark.parametrize("fault", PIECE_FAULTS)
@pytest.mark.parametrize("chunk", [3, 1 << 20])
def test_faults(
    fault: str, chunk: int, tmp_path: Path, read_in_steps: Callable[[int], None]
) -> None:
    read_in_steps(chunk)
    path = tmp_path / "c.json"
    path.write_text(PIECE_FAULTS[fault][0])
    with says(f"{path}{PIECE_FAULTS[fault][1]}"):
        pieces(path)


@pytest.mark.parametrize("head", [b'{"a": "', b'{"a": "b",', b"", b'[{"image_id": 1'])
@pytest.mark.parametrize("name", ["bomb.json.gz", "bomb.jsonl.gz"])
def test_a_bomb_is_told_before_it_is_unpacked(
    head: bytes,
    name: str,
    tmp_path: Path,
    allow_entries: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Twenty times the longest entry; at most two of it are unpacked."""
    allow_entries(n_bytes=1 << 20)
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
    assert pieces(path) == [("entry", 1, "a")]


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
    give_stdin(monkeypatch, content)
    source = JsonSource(STDIN)
    assert source.name == "standard input"
    for _ in range(2):
        assert [value for _, _, value in source.read()] == [1, 2]
    path = tmp_path / "same"
    path.write_bytes(content)
    assert source.sha256 == sha256(path) == JsonSource(path).sha256


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="this system has no /dev/fd")
def test_what_a_shell_pipes_into_a_name_is_read_more_than_once():
    """`captau score <(jq … mine.json) refs.json` gives the name of a pipe, whose text comes once."""
    receiving, sending = os.pipe()
    content = gzip.compress(b"[1, 2]")
    os.write(sending, content)
    os.close(sending)
    source = JsonSource(Path(f"/dev/fd/{receiving}"))
    for _ in range(2):
        assert [value for _, _, value in source.read()] == [1, 2]
    assert source.sha256 == hashlib.sha256(content).hexdigest()
    os.close(receiving)


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="this system has no /dev/fd")
def test_a_table_is_not_read_from_a_pipe():
    receiving, sending = os.pipe()
    os.close(sending)
    with says(f"/dev/fd/{receiving}: is a pipe, which can be read once; write it into a file"):
        read_table(Path(f"/dev/fd/{receiving}"))
    os.close(receiving)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="this system has no /dev/zero")
def test_a_device_is_no_file():
    """It would be read without end."""
    with says("/dev/zero: is a device, not a file"):
        read_text(Path("/dev/zero"))
    with says("/dev/zero: is a device, not a file"):
        sha256(Path("/dev/zero"))


@pytest.mark.parametrize(
    ("name", "text", "kinds"),
    [
        ("c.json", '{"a": 1}', ["member"]),
        ("c.json", '{"a": 1}\n', ["member"]),
        ("c.json", '\n {"a": 1} \n\n{"b": 2}\n', ["line", "line"]),
        ("c.json", '{"a": 1}\n{"b": 2}\n{"c":\n', ["line", "line"]),  # two tell
        ("c.json", '{"a":\n1}\n', ["member"]),
        ("c.jsonl", '{"a": 1}', ["line"]),
        ("c.NDJSON.gz", '{"a": 1}', ["line"]),
        ("c.json", "7", ["value"]),
        ("c.json", "", []),
    ],
)
def test_lines_of_objects_are_told_from_one_object(name, text, kinds, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    found = []
    with suppress(InputError):
        for kind, _, _ in JsonSource(path).read():
            found.append(kind)
    assert found == kinds


def test_a_file_of_one_packed_byte_is_no_gzip(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    for content in (b"7", b"\x1f"):
        path.write_bytes(content)
        if content == b"7":
            assert pieces(path) == [("value", 1, 7)]
        else:
            with says(f"{path}:1: not valid JSON"):
                pieces(path)


def test_the_bounds_of_lines_and_lists(
    tmp_path: Path, allow_entries: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c.jsonl"
    monkeypatch.setattr(json_files, "_MAX_BLANK_LINES", 2)
    path.write_text('\n\n{"a": 1}\n\n\n{"a": 2}\n')
    assert [n for n, _ in read_json_lines(path)] == [3, 6]
    path.write_text('{"a": 1}\n\n\n\n')
    with says(f"{path}:4: more than 2 blank lines; take them out"):
        list(read_json_lines(path))
    allow_entries(n_containers=3)
    path.write_text('{"a": [[]]}\n')
    assert list(read_json_lines(path)) == [(1, {"a": [[]]})]
    path.write_text('{"a": [[], {}]}\n')
    with says(f"{path}:1: more than 3 lists and objects; not a file of captions; get a new copy"):
        list(read_json_lines(path))
    allow_entries(n_bytes=2 << 20)
    path.write_text(json.dumps({"a": "x" * ((2 << 20) - 10)}) + "\n")  # with its line end as long
    assert [n for n, _ in read_json_lines(path)] == [1]
    path.write_text(json.dumps({"a": "x" * (2 << 20)}))
    with says(f"{path}:1: longer than 2 MB without an end; not a file of captions"):
        list(read_json_lines(path))


def test_entries_are_those_of_a_list(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text("[1, {}]")
    assert list(read_json_entries(path)) == [(f"{path}: entry 0", 1), (f"{path}: entry 1", {})]
    path.write_text("{}")
    with says(f"{path}: a list is expected, not dict"):
        list(read_json_entries(path))


@pytest.mark.parametrize(
    ("row", "kind", "message"),
    [
        ([], str, "f:3: an object is expected, not list"),
        ({}, str, "f:3: 'a' is missing"),
        ({"a": 1}, str, "f:3: 'a' is 1, not str"),
        ({"a": True}, int, "f:3: 'a' is True, not int"),
        ({"a": True}, float, "f:3: 'a' is True, not float"),
        ({"a": 1.5}, int, "f:3: 'a' is 1.5, not int"),
        ({"a": None}, (str, list), "f:3: 'a' is None, not str or list"),
    ],
)
def test_a_field_is_of_its_kind(row, kind, message) -> None:
    with says(message):
        field(row, "a", kind, "f:3")


def test_fields_ratings_and_texts_are_read() -> None:
    values = [(1, int), (1, float), (1.5, float), (True, bool), ("x", (int, str)), ([], list)]
    assert [field({"a": value}, "a", kind, "f") for value, kind in values] == [v for v, _ in values]
    assert rating({"a": 3}, "a", Scale(1, 5, 1), "f") == 3.0
    assert texts({"a": ["x", "y"]}, "a", "f") == ("x", "y")
    with says("f:3: 'a' is 3.5, not on the scale 1 to 5 in steps of 1"):
        rating({"a": 3.5}, "a", Scale(1, 5, 1), "f:3")
    with says("f:3: 'a' holds 1, not a text"):
        texts({"a": ["x", 1]}, "a", "f:3")


def test_messages_of_the_bounds() -> None:
    assert (
        str(json_files.entry_too_long("f:3"))
        == "f:3: longer than 128 MB without an end; not a file of captions"
    )
    assert str(json_files.too_many_containers("f:3")) == (
        "f:3: more than 5,000,000 lists and objects; not a file of captions; get a new copy"
    )
    half = "[" * 2_500_000
    assert not json_files.has_too_many_containers(half + "{" * 2_500_000)
    assert json_files.has_too_many_containers(half + "{" * 2_500_001)


def test_a_million_blank_lines_are_passed_over() -> None:
    lines = [b"\n"] * 1_000_000
    with says("f:1000001: more than 1,000,000 blank lines; take them out"):
        list(json_files.json_lines([*lines, b"\n"], "f"))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([b"{}", b"\xff"], "f:2: not UTF-8 text; save the file as UTF-8"),
        ([b"{}\n", b" \n", b"[]"], "f:3: an object is expected, not list"),
        ([b"{}", b"{\xef\xbb\xbf}"], "f:2: not valid JSON ("),
        (
            [b"{}", b'{"a":}'],
            "f:2: not valid JSON (Expecting value); the file may be truncated, get a",
        ),
    ],
)
def test_faults_of_json_lines_from_any_stream(lines: list[bytes], message: str) -> None:
    with says(message):
        list(json_files.json_lines(lines, "f"))


def test_json_lines_end_at_line_feeds_alone() -> None:
    text = '\ufeff{"a": "x\u2028y"}\r\n\n{"b": 1}'
    assert list(json_files.json_lines(io.BytesIO(text.encode()), "f")) == [
        (1, {"a": "x\u2028y"}),
        (3, {"b": 1}),
    ]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('{"a": 1,\n"a": 1}', 0, "f: 'a' appears twice in one object; keep one of them"),
        ('{"b": 1, "a": 1, "a": 2}', 4, "f:4: 'a' appears twice in one object; keep one of them"),
        ("[" * 100_000, 0, "f: nested too deeply; get a new copy of the file"),
        ("[" * 100_000, 4, "f:4: nested too deeply; get a new copy of the file"),
        ("[1,\n2", 0, "f:2: not valid JSON (Expecting ',' delimiter); the file may be truncated, get a new copy"),
        ("[1,\n2", 4, "f:4: not valid JSON (Expecting ',' delimiter); the file may be truncated, get a new copy"),
        ("\n" + "9" * 4301, 0, "f:2: a number of more than 4300 digits"),
        ("9" * 4301 + "\n", 0, "f:1: a number of more than 4300 digits"),
        ("\n" + "9" * 4301, 4, "f:4: a number of more than 4300 digits"),
    ],
)  # fmt: skip
def test_faults_of_parsed_json_have_their_line(text: str, line: int, message: str) -> None:
    with pytest.raises(InputError) as caught:
        json_files.parsed(text, "f", line)
    assert str(caught.value) == message


def test_numbers_and_containers_within_the_bounds_are_parsed(allow_entries) -> None:
    assert json_files.parsed("9" * 4300, "f") == int("9" * 4300)
    assert json_files.parsed(r'["\uD83D\uDE00", "\ud800"]', "f") == ["\U0001f600", "\ufffd"]
    allow_entries(n_containers=2)
    assert json_files.parsed("[{}]", "f") == [{}]
    with says("f: more than 2 lists and objects; not a file of captions; get a new copy"):
        json_files.parsed("[[], 1, {}]", "f")


def test_a_text_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(b"\xef\xbb\xbfa\r\nb")
    assert read_text(path) == "a\r\nb"
    for content, line in ((b"\xff\n", 1), (b"\n\xff\n", 2), (b"a\n\nb\xff", 3)):
        path.write_bytes(content)
        with says(f"{path}:{line}: not UTF-8 text; save the file as UTF-8"):
            read_text(path)
    for read in (read_text, read_json, lambda path: list(read_json_lines(path)), pieces):
        with says(f"{tmp_path}: cannot be read (Is a directory)"):
            read(tmp_path)
        with says(f"{tmp_path}/none: cannot be read (No such file or directory)"):
            read(tmp_path / "none")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("7", [("value", 1, 7)]),
        ("\n\n -1.5e3 \n", [("value", 3, -1500.0)]),
        ('"a"', [("value", 1, "a")]),
        ("[]", []),
        (" [\n] ", []),
        ("{}", []),
        ("[[1],\n {}]", [("entry", 1, [1]), ("entry", 2, {})]),
        ('{"annotations": 1}', [("member", 1, ("annotations", 1))]),
        ('{"annotations": {"a": 1}}', [("member", 1, ("annotations", {"a": 1}))]),
        ('{"b":\n[]\n,"a"\n:\n[1]}', [("member", 1, ("b", [])), ("member", 3, ("a", [1]))]),
        ('{"a": [1, {}]}', [("member", 1, ("a", [1, {}]))]),
        ('{"a": [ \n{}\n, 1 ]}', [("list", 1, "a"), ("element", 2, ("a", {})), ("element", 3, ("a", 1))]),
        ("[1, 2]\n[3]", [("entry", 1, 1), ("entry", 1, 2), ("entry", 2, 3)]),
        ('{\n"a": 1\n}\n{"a":\n2}\n', [("line", 1, {"a": 1}), ("line", 4, {"a": 2})]),
        ("[1\n,\n2\n,3]", [("entry", 1, 1), ("entry", 3, 2), ("entry", 4, 3)]),
        ("[NaN, -Infinity]", None),
        ('["caf\u00e9\n"]', "f:1: not valid JSON (Invalid control character at); the file may be"),
        ("[1] x", "f:1: not valid JSON (Extra data); the file may be truncated, get a new copy"),
        ("[1,]", "f:1: not valid JSON: there is a comma too many before ']'; delete it"),
        ("\n[1 2]", "f:2: not valid JSON (Expecting ']' delimiter)"),
        ("[1}", "f:1: not valid JSON (Expecting ']' delimiter)"),
        ('{"a": 1]', "f:1: not valid JSON (Expecting '}' delimiter)"),
        ('{"a"; 1}', "f:1: not valid JSON (Expecting ':' delimiter)"),
        ('{"a"= 1}', "f:1: not valid JSON (Expecting ':' delimiter)"),
        ('{"a"- 1}', "f:1: not valid JSON (Expecting ':' delimiter)"),
        ('{"a": 1,\n\n7: 1}', "f:3: not valid JSON (Expecting property name enclosed in double quotes)"),
        ('{"a": 1,\n"b": 2, "a": 1}', "f:2: 'a' appears twice in one object; keep one of them"),
        ('{"annotations": [{},\n 2}', "f:2: not valid JSON (Expecting ']' delimiter)"),
        ('\n["a\n', "f:2: not valid JSON (Invalid control character at)"),
        ("[\n\n", "f:3: not valid JSON (Expecting value)"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
def test_pieces_of_json(
    text: str, found: Any, chunk: int, read_in_steps: Callable[[int], None]
) -> None:
    read_in_steps(chunk)
    if isinstance(found, str):
        with says(found):
            pieces_of(text.encode())
    elif found is None:
        assert repr(pieces_of(text.encode())) == "[('entry', 1, nan), ('entry', 1, -inf)]"
    else:
        assert pieces_of(text.encode()) == found


@pytest.mark.parametrize("chunk", [1, 5, 1 << 20])
def test_the_line_of_what_is_not_utf8(chunk: int, read_in_steps: Callable[[int], None]) -> None:
    read_in_steps(chunk)
    for content, line in ((b"\xff", 1), (b'["a",\n\n"b\xff"]', 3), (b'[1,\n"\xc3\n"]', 2)):
        with says(f"f:{line}: not UTF-8 text; save the file as UTF-8"):
            pieces_of(content)


def test_an_entry_is_bounded_in_bytes_and_containers(
    read_in_steps: Callable[[int], None], allow_entries: Callable[..., None]
) -> None:
    """Of an entry those are counted that were read since the last value, so in steps of what is read."""
    read_in_steps(1)

    def read(text: str) -> list[Any]:
        return [value for _, _, value in pieces_of(text.encode())]

    # A list's entries may hold more together than one alone; a value is told by 16 characters behind it.
    allow_entries(n_containers=3)
    blank = " " * 60
    assert read(f"[[[]],{blank}[{{}}],{blank}[[]]]") == [[[]], [{}], [[]]]
    assert read("[[{}]]") == [[{}]]
    with says("f:1: more than 3 lists and objects; not a file of captions; get a new copy"):
        read("[[{}, {}]]")
    with says("f:2: more than 3 lists and objects"):
        read(f"[1,\n{blank}[[[[]]]]]")
    allow_entries(n_bytes=140)
    assert read('["' + "x" * 136 + '"]') == ["x" * 136]
    with says("f:1: longer than 0 MB without an end; not a file of captions"):
        read('["' + "x" * 137 + '"]')
    assert read(f"[1,{blank}2,{blank}3,{blank}4]") == [1, 2, 3, 4]


@pytest.mark.parametrize(("extra", "kind"), [(0, "line"), (1, None)])
def test_a_line_of_json_lines_is_told_up_to_a_mebibyte(extra, kind, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    long = '{"a": "' + "x" * ((1 << 20) - 9 + extra) + '"}'
    assert len(long) == (1 << 20) + extra
    path.write_text(long + '\n{"a": 1}\n')
    if kind:
        assert [piece[0] for piece in pieces(path)] == ["line", "line"]
    else:
        with says(f"{path}:2: not valid JSON (Extra data)"):
            pieces(path)


def test_content_in_memory_is_read_more_than_once(tmp_path: Path) -> None:
    for content in (b"[1]", gzip.compress(b"[1]", mtime=0)):
        source = JsonSource(Path("it"), content)
        assert (source.name, source.is_file) == ("it", False)
        assert [list(source.read()) for _ in range(2)] == [[("entry", 1, 1)]] * 2
        assert source.sha256 == hashlib.sha256(content).hexdigest() == source.sha256
    assert JsonSource(tmp_path).is_file
    assert not JsonSource(STDIN).is_file
    with says("it: not a complete gzip file (", "; get a new copy"):
        list(JsonSource(Path("it"), gzip.compress(b"[1]")[:-3]).read())


def test_a_file_is_closed_when_it_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "c.json"
    path.write_text("[1, 2]")
    opened: list[Any] = []
    before = Path.open

    def watched(self: Path, *args: Any) -> Any:
        opened.append(before(self, *args))
        return opened[-1]

    monkeypatch.setattr(Path, "open", watched)
    assert pieces(path) == [("entry", 1, 1), ("entry", 1, 2)]
    assert [stream.closed for stream in opened] == [True]


def test_a_rating_is_shown_as_people_write_it() -> None:
    scale = Scale(0, 1)
    assert [rating({"a": v}, "a", scale, "f") for v in (0, 1, 0.5)] == [0.0, 1.0, 0.5]
    assert type(rating({"a": 1}, "a", scale, "f")) is float
    for value, message in {
        1.5: "f: 'a' is 1.5, not on the scale 0 to 1",
        2: "f: 'a' is 2, not on the scale 0 to 1",
        10**400: "f: 'a' is too large, not on the scale 0 to 1",
        True: "f: 'a' is True, not float",
        "x": "f: 'a' is 'x', not float",
    }.items():
        with pytest.raises(InputError) as caught:
            rating({"a": value}, "a", scale, "f")
        assert str(caught.value) == message


def test_a_field_is_one_of_its_kinds() -> None:
    for value, kind in [(True, (bool, int)), (1, (str, float)), (1.0, (int, float)), (2, (int,))]:
        assert field({"a": value}, "a", kind, "f") is value
    for value, kind, message in [
        (True, (int, float), "f: 'a' is True, not int or float"),
        (1, bool, "f: 'a' is 1, not bool"),
        (1, (str, bool), "f: 'a' is 1, not str or bool"),
        (None, dict, "f: 'a' is None, not dict"),
    ]:
        with pytest.raises(InputError) as caught:
            field({"a": value}, "a", kind, "f")
        assert str(caught.value) == message
    with says("f: 'a' is 'x', not list"):
        texts({"a": "x"}, "a", "f")
    assert texts({"a": []}, "a", "f") == ()
