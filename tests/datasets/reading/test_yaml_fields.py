"""The fields of a YAML file: what each reader of a field takes, and what it says of anything else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from captau.datasets.reading import yaml_document
from captau.datasets.reading.yaml_document import YamlDocument
from captau.datasets.reading.yaml_fields import YamlFields, read_yaml_fields
from tests.conftest import says

TEXT = """\
name: café
year: 2026
share: 0.5
yes_or_no: true
nothing:
words: [one, two]
days: 2027-01-31
moment: 2027-01-31 12:00:00+02:00
inner:
  low: 1
  texts: {a: x, b: "2"}
rows:
  - {k: 1}
  - {k: 2}
"""


def fields(text: str = TEXT) -> YamlFields:
    return YamlFields.parse(text, "f.yaml")


def test_each_reader_takes_its_kind() -> None:
    top = fields()
    assert (
        top.names
        == tuple(top)
        == (
            *("name", "year", "share", "yes_or_no", "nothing", "words", "days", "moment"),
            *("inner", "rows"),
        )
    )
    assert ("name" in top, "low" in top) == (True, False)
    assert (top.text("name"), top.text("year"), top.text("none", "-")) == ("café", "2026", "-")
    assert (top.optional("name"), top.optional("nothing"), top.optional("none")) == (
        "café",
        None,
        None,
    )
    assert top.choice("none", ("a", "b"), "b") == "b"
    assert top.number("share", None, 0.5, 0.5) == 0.5
    assert top.number("none", 3, 0, 5) == 3.0
    assert (top.optional_number("year"), top.optional_number("nothing")) == (2026.0, None)
    assert (top.count("year", None, 2026, 2026), top.count("none", 4, 4)) == (2026, 4)
    assert top.optional_count("none") is None
    assert (top.flag("yes_or_no", False), top.flag("none", True)) == (True, True)
    assert (top.texts("words"), top.texts("none", ("z",))) == (("one", "two"), ("z",))
    assert (top.levels("year", 0, 3000), fields("a: [1, 3]").levels("a", 1, 3)) == ((2026,), (1, 3))
    # 31 January 2027 is day 20,849 since 1970; noon two hours east of UTC is 10 o'clock.
    assert top.time("days") == 20_849 * 86_400
    assert top.time("moment") == 20_849 * 86_400 + 36_000
    assert top.time("none") is None
    inner = top.section("inner")
    assert (inner.count("low", None, 1), inner.location) == (1, "f.yaml:10")
    assert inner.section("texts").all_texts() == {"a": "x", "b": "2"}
    assert [row.count("k", None, 1, 2) for row in top.sections("rows")] == [1, 2]
    assert [row.location for row in top.sections("rows")] == ["f.yaml:13", "f.yaml:14"]
    assert list(top.sections("none")) == []
    assert [top.is_list(name) for name in ("rows", "name", "none")] == [True, False, False]
    assert top.plain_data("inner") == {"low": 1, "texts": {"a": "x", "b": "2"}}
    assert (top.plain_data("nothing"), top.plain_data("none")) == (None, None)
    top.reject_unknown()
    assert top.location_of("rows") == "f.yaml:12: rows"
    assert inner.location_of("none") == "f.yaml:10: inner.none"


@pytest.mark.parametrize(
    ("text", "read", "message"),
    [
        ("a: true", lambda f: f.text("a"), "f.yaml:1: a: True is not a text"),
        ("\na: xy", lambda f: f.text("a", None, 1), "f.yaml:2: a: 2 characters; at most 1 are expected"),
        ('a: "b\\u202e"', lambda f: f.text("a"), "a: the character U+202E is not shown; take it out"),
        ("b: 1", lambda f: f.text("a"), "f.yaml:1: a: this field is required"),
        ("a:", lambda f: f.text("a"), "f.yaml:1: a: this field is required"),
        ("a: c", lambda f: f.choice("a", ("b",)), "unknown a 'c'"),
        ("a: 2", lambda f: f.number("a", None, 0, 1.5), "a: 2 is not a number from 0 to 1.5"),
        ("a: true", lambda f: f.number("a", None, 0, 5), "a: True is not a number from 0 to 5"),
        ("a: -2e9", lambda f: f.optional_number("a"), "is not a number from -1e+09 to 1e+09"),
        ("a: 1.0", lambda f: f.count("a", None, 1), "a: 1.0 is not a whole number from 1 to 1000000"),
        ("a: 1000001", lambda f: f.count("a", None, 1), "a: 1000001 is not a whole number"),
        ("a: 0", lambda f: f.optional_count("a"), "a: 0 is not a whole number from 1 to"),
        ("a: 1", lambda f: f.flag("a", True), "a: 1 is neither true nor false"),
        ("a: [b, 1]", lambda f: f.texts("a"), "a: a list of texts is expected"),
        ("a: b", lambda f: f.texts("a"), "a: a list of texts is expected"),
        ("a: [1, 4]", lambda f: f.levels("a", 1, 3), "a: [1, 4]: whole numbers from 1 to 3"),
        ("a: []", lambda f: f.levels("a", 1, 3), "a: []: whole numbers from 1 to 3"),
        ("a: 12", lambda f: f.time("a"), "a: 12 is not a time; 2027-01-31 or"),
        ("a: {}", lambda f: list(f.sections("a")), "a: a list is expected: lines that begin with"),
        ("a: [1]", lambda f: list(f.sections("a")), "f.yaml:1: a[1]: fields are expected"),
        ("a: [1]", lambda f: f.section("a"), "f.yaml:1: a: fields are expected"),
        ("a:\n  b: 1\n  b: 2", lambda f: f.section("a"), "f.yaml:3: a.b appears twice"),
        ("a: {b: 1}", lambda f: (f.section("a"), f.reject_unknown()), "a.b: unknown field 'b'"),
        ("b: 1", lambda f: f.reject_unknown(), "f.yaml:1: b: unknown field 'b'"),
        ("a: !!int x", lambda f: f.plain_data("a"), "f.yaml:1: a: "),
        ("\n- 1", lambda f: f, "f.yaml:2: the file: fields are expected"),
        ("\na: b: c", lambda f: f, "f.yaml:2: mapping values are not allowed here"),
        ("a: 'b\nc", lambda f: f, "f.yaml:2: found unexpected end of stream"),
        ("a: *x", lambda f: f, "f.yaml:1: found undefined alias 'x'"),
        ("a: 1\n---\nb: 1", lambda f: f, "f.yaml:2: but found another document"),
        ("\na: \x07", lambda f: f, "f.yaml:2: YAML does not allow the character U+0007; take it out"),
        ("\x7f", lambda f: f, "f.yaml:1: YAML does not allow the character U+007F; take it out"),
        (f"a: {'x' * 20_001}", lambda f: f.text("a"), "f.yaml:1: a: 20,001 characters; at most 20,000 are expected"),
        ("a: -1000000001", lambda f: f.optional_number("a"), "a: -1000000001 is not a number from -1e+09 to 1e+09"),
        ("a: 1000000001", lambda f: f.optional_number("a"), "a: 1000000001 is not a number from -1e+09 to 1e+09"),
        ("a: 1.6", lambda f: f.number("a", None, 0, 1.5), "a: 1.6 is not a number from 0 to 1.5"),
        ("a: -1", lambda f: f.number("a", None, 0, 1.5), "a: -1 is not a number from 0 to 1.5"),
        ("a: x", lambda f: f.number("a", None, 0, 1.5), "a: 'x' is not a number from 0 to 1.5"),
        ("b: 1", lambda f: f.number("a", None, 0, 1.5), "f.yaml:1: a: this field is required"),
        ("a: true", lambda f: f.count("a", None, 0), "a: True is not a whole number from 0 to 1000000"),
        ("a: 1000001", lambda f: f.optional_count("a"), "a: 1000001 is not a whole number from 1 to 1000000"),
        ("a: 2", lambda f: f.count("a", None, 3, 4), "a: 2 is not a whole number from 3 to 4"),
        ("a: 5", lambda f: f.count("a", None, 3, 4), "a: 5 is not a whole number from 3 to 4"),
        ("a: {b: 1}", lambda f: f.texts("a"), "f.yaml:1: a: a list of texts is expected"),
        ("a: true", lambda f: f.levels("a", 0, 3), "a: True: whole numbers from 0 to 3 are expected"),
        ("a: x", lambda f: f.time("a"), "f.yaml:1: a: 'x' is not a time; 2027-01-31 or 2027-01-31 12:00:00 is expected"),
        ("a: x", lambda f: list(f.sections("a")), "f.yaml:1: a: a list is expected: lines that begin with '- '"),
        ("a:\n- {b: 1}\n- {b: 1, b: 2}", lambda f: list(f.sections("a")), "f.yaml:3: a[2].b appears twice; keep one of them"),
        ("a: 1\n\na: 2", lambda f: f, "f.yaml:3: a appears twice; keep one of them"),
        ("a:\n  b: 1\nc: {}", lambda f: f.section("a").text("c"), "f.yaml:2: a.c: this field is required"),
        ("a: {b: {c: 1}}", lambda f: (f.section("a").section("b"), f.reject_unknown()), "a.b.c: unknown field 'c'"),
        ("a: 1\nb: 2", lambda f: (f.text("a"), f.reject_unknown()), "f.yaml:2: b: unknown field 'b': known: a"),
        ("a: [b\n", lambda f: f, "f.yaml:2: expected ',' or ']', but got '<stream end>'"),
        ("x: 1\na: \x07", lambda f: f, "f.yaml:2: YAML does not allow the character U+0007; take it out"),
    ],
)  # fmt: skip
def test_what_is_not_expected_is_named(text: str, read: Any, message: str) -> None:
    with says(message):
        read(fields(text))


def test_a_text_is_bounded_in_depth_values_and_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    deep = "a: " + "[" * 49 + "]" * 49
    assert fields(deep).plain_data("a")
    with says("f.yaml:1: nested too deeply, or recursive"):
        fields("a: " + "[" * 50 + "1" + "]" * 50)
    monkeypatch.setattr(yaml_document, "MAX_NODES", 6)
    assert fields("a: [1, 2, 3]").plain_data("a") == [
        1,
        2,
        3,
    ]  # with the mapping, the key and the list
    with says("f.yaml:2: too many values"):
        fields("a: [1, 2, 3,\n4]")
    with says("too many values"):  # each alias counts
        fields("a: &x [1]\nb: *x")
    monkeypatch.setattr(yaml_document, "MAX_CHARACTERS", 4)
    assert fields("a: 1").names == ("a",)
    with says("f.yaml:1: more than 4 characters"):
        fields("a: 12")


def test_a_file_is_read_with_or_without_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert read_yaml_fields(path).names == ("a",)
    path.write_bytes(b"a: \xff\n")
    with says(f"{path}: not UTF-8 text; save it as UTF-8"):
        read_yaml_fields(path)
    with says(f"{tmp_path / 'none.yaml'}: No such file or directory"):
        read_yaml_fields(tmp_path / "none.yaml")
    path.write_bytes(b"")
    assert read_yaml_fields(path).names == ()


def test_values_at_the_bounds_are_read() -> None:
    assert fields(f"a: {'x' * 20_000}").text("a") == "x" * 20_000
    assert [fields(f"a: {n}").optional_number("a") for n in ("-1000000000", "1.0e+9", "0.5")] == [
        *(-1e9, 1e9, 0.5)
    ]
    assert [fields(f"a: {n}").count("a", None, 0) for n in (0, 1_000_000)] == [0, 1_000_000]
    assert [fields(f"a: {n}").optional_count("a") for n in (1, 1_000_000)] == [1, 1_000_000]
    assert fields("a: 1.5").text("a") == "1.5"
    assert (fields("a: []").texts("a", ("z",)), fields("b:").texts("b")) == ((), ())
    assert fields("a: []").plain_data("a") == []
    assert fields("a: {b: 1, c: x}").section("a").all_texts() == {"b": "1", "c": "x"}
    assert fields("a: 2027-01-31T12:00:00").time("a") == 20_849 * 86_400 + 43_200
    assert fields("a: '2027-01-31 12:00:00-01:00'").time("a") == 20_849 * 86_400 + 46_800
    assert fields("a: null\nb: ''").optional("b") == ""
    assert fields("1: a").names == ("1",)
    section = fields("a: {b: 1}").section("none")
    assert (section.names, section.location) == ((), "f.yaml:1")
    assert section.location_of("x") == "f.yaml:1: none.x"
    assert fields("a:").section("a").names == ()
    rows = list(fields("\na:\n- {b: 1}\n-\n- b: 2").sections("a"))
    assert [row.location_of("b") for row in rows] == [
        *("f.yaml:3: a[1].b", "f.yaml:4: a[2].b", "f.yaml:5: a[3].b")
    ]


def test_depth_is_bounded_at_fifty_in_lists_and_mappings() -> None:
    for opening, closing, n in (*"[]", 50), ("{a: ", "}", 49):  # whose keys and values lie deeper
        assert fields("a: " + opening * n + closing * n).names == ("a",)
        with says("f.yaml:2: nested too deeply, or recursive"):
            fields("a: " + opening * 49 + "\n" + opening * (n - 48) + closing * (n + 1))
    with says("f.yaml:1: nested too deeply, or recursive"):
        fields("&a [*a]")


def test_values_are_bounded_at_a_hundred_thousand_with_those_that_aliases_repeat() -> None:
    """A list of 369 lists of 270 numbers each is 1 + 369 x 271 = 100,000 values."""
    text = "- &x [" + ", ".join("1" * 270) + "]\n" + "- *x\n" * 368
    assert len(YamlDocument(text, "f.yaml").plain) == 369
    with says("f.yaml:370: too many values"):
        fields(text + "- 1\n")
    with says("f.yaml:1: more than 2,000,000 characters"):
        fields(" " * 2_000_001)


def test_values_are_counted_as_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_document, "MAX_NODES", 3)
    assert YamlDocument("[1,\n2]", "f.yaml").plain == [1, 2]
    with says("f.yaml:3: too many values"):
        YamlDocument("[1,\n2,\n3,\n4", "f.yaml")  # which is not closed
    assert YamlDocument("", "f.yaml").plain == {}
