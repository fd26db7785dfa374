"""YAML as plain data: the line of every value, what is refused with its line, and the bounds of size and depth."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from captau.datasets.errors import InputError
from captau.datasets.reading import yaml_document
from captau.datasets.reading.yaml_document import YamlDocument
from tests.conftest import says


def document(text: str) -> YamlDocument:
    return YamlDocument(text, "f.yaml")


def test_every_value_has_a_line_and_a_name() -> None:
    read = document("\na: 1\nb:\n- {c: 2}\n-\n- c: x\n")
    assert read.plain == {"a": 1, "b": [{"c": 2}, None, {"c": "x"}]}
    assert read.location == "f.yaml:2"
    assert read.location_of("b") == "f.yaml:3: b"
    assert [read.location_of("b", k, "c") for k in range(3)] == [
        *("f.yaml:4: b[1].c", "f.yaml:5: b[2].c", "f.yaml:6: b[3].c")
    ]
    # Of a value that is missing it is the line of what should hold it.
    assert (read.line_of("b", 9), read.location_of("x", "y")) == ("f.yaml:3", "f.yaml:2: x.y")
    assert list(document("1: a").plain) == ["1"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a:\n  b: 1\n  b: 2", "f.yaml:3: a.b appears twice; keep one of them"),
        ("a:\n- {b: 1}\n- {b: 1, b: 2}", "f.yaml:3: a[2].b appears twice; keep one of them"),
        ("a: 1\n\na: 2", "f.yaml:3: a appears twice; keep one of them"),
        ("a: !!int x", "f.yaml:1: a: "),
        ("\na: b: c", "f.yaml:2: mapping values are not allowed here"),
        ("a: 'b\nc", "f.yaml:2: found unexpected end of stream"),
        ("a: *x", "f.yaml:1: found undefined alias 'x'"),
        ("a: 1\n---\nb: 1", "f.yaml:2: but found another document"),
        ("a: [b\n", "f.yaml:2: expected ',' or ']', but got '<stream end>'"),
        ("\na: \x07", "f.yaml:2: YAML does not allow the character U+0007; take it out"),
        ("\x7f", "f.yaml:1: YAML does not allow the character U+007F; take it out"),
        ("a: 2027-02-30", "f.yaml:1: a: day is out of range for month"),
    ],
)
def test_what_is_no_yaml_is_named_with_its_line(text: str, message: str) -> None:
    with says(message):
        document(text)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(), x, max_size=3),
        max_leaves=9,
    )
)
def test_any_yaml_is_read_or_reported(value: object) -> None:
    text = yaml.safe_dump({"a": value, "b": {"c": value}}, allow_unicode=True)
    message = "f.yaml:"
    try:
        read = document(text).plain
        assert read["a"] == read["b"]["c"]
    except InputError as error:  # such as a character that YAML does not allow
        message = str(error)
    assert message.startswith("f.yaml:")


def test_a_text_is_bounded_in_depth_values_and_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    assert document("a: " + "[" * 49 + "]" * 49).plain
    with says("f.yaml:1: nested too deeply, or recursive"):
        document("a: " + "[" * 50 + "1" + "]" * 50)
    monkeypatch.setattr(yaml_document, "MAX_NODES", 6)
    # With the mapping, the key and the list.
    assert document("a: [1, 2, 3]").plain == {"a": [1, 2, 3]}
    with says("f.yaml:2: too many values"):
        document("a: [1, 2, 3,\n4]")
    with says("too many values"):  # each alias counts
        document("a: &x [1]\nb: *x")
    monkeypatch.setattr(yaml_document, "MAX_CHARACTERS", 4)
    assert document("a: 1").plain == {"a": 1}
    with says("f.yaml:1: more than 4 characters"):
        document("a: 12")


def test_a_file_is_read_with_or_without_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert YamlDocument.read(path).plain == {"a": 1}
    path.write_bytes(b"a: \xff\n")
    with says(f"{path}: not UTF-8 text; save it as UTF-8"):
        YamlDocument.read(path)
    with says(f"{tmp_path / 'none.yaml'}: No such file or directory"):
        YamlDocument.read(tmp_path / "none.yaml")
    path.write_bytes(b"")
    assert YamlDocument.read(path).plain == {}


def test_depth_is_bounded_at_fifty_in_lists_and_mappings() -> None:
    for opening, closing, n in (*"[]", 50), ("{a: ", "}", 49):  # whose keys and values lie deeper
        assert list(document("a: " + opening * n + closing * n).plain) == ["a"]
        with says("f.yaml:2: nested too deeply, or recursive"):
            document("a: " + opening * 49 + "\n" + opening * (n - 48) + closing * (n + 1))
    with says("f.yaml:1: nested too deeply, or recursive"):
        document("&a [*a]")


def test_values_are_bounded_at_a_hundred_thousand_with_those_that_aliases_repeat() -> None:
    """A list of 369 lists of 270 numbers each is 1 + 369 x 271 = 100,000 values."""
    text = "- &x [" + ", ".join("1" * 270) + "]\n" + "- *x\n" * 368
    assert len(document(text).plain) == 369
    with says("f.yaml:370: too many values"):
        document(text + "- 1\n")
    with says("f.yaml:1: more than 2,000,000 characters"):
        document(" " * 2_000_001)


def test_values_are_counted_as_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_document, "MAX_NODES", 3)
    assert document("[1,\n2]").plain == [1, 2]
    with says("f.yaml:3: too many values"):
        document("[1,\n2,\n3,\n4")  # which is not closed
    assert document("").plain == {}
