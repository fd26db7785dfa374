"""Models of YAML files: what each kind of field takes, what is said of anything else, and where a model stands."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import Field, RootModel

from captau.datasets.reading.yaml_document import YamlDocument
from captau.datasets.reading.yaml_model import (
    Flag,
    LongText,
    Number,
    YamlModel,
    number,
    one_of,
    validate,
    whole_number,
)
from tests.conftest import says


class Row(YamlModel):
    """An entry of a list."""

    k: Annotated[int, whole_number(1, 2)]


class Inner(YamlModel):
    """A section."""

    low: Annotated[float, number(0, 1.5)] = 0.5


class Everything(YamlModel):
    """A file with a field of each kind."""

    name: LongText
    kind: Annotated[str, one_of("kind", lambda: ("a", "b"))] = "a"
    n: Annotated[int, whole_number(1)] | None = None
    x: Number | None = None
    yes: Flag = False
    words: list[LongText] = Field(default_factory=list)
    inner: Inner = Field(default_factory=Inner)
    rows: list[Row] = Field(default_factory=list)
    by_name: dict[str, Inner] = Field(default_factory=dict)


class Texts(RootModel[dict[str, LongText]]):
    """A file of texts."""


def read(text: str, model: Any = Everything) -> Any:
    return validate(YamlDocument(text, "f.yaml"), model)


def test_each_kind_of_field_takes_its_values() -> None:
    text = "name: 2024\nkind: b\nn: 1000000\nx: -1.0e+9\nyes: true\nwords: [a, 1]\ninner: {low: 1}"
    everything = read(f"{text}\nrows: [{{k: 1}}, {{k: 2}}]\nby_name: {{1: {{low: 1.5}}}}")
    # A title such as 2024 is a number to YAML.
    assert (everything.name, everything.kind, everything.n, everything.x) == (
        *("2024", "b", 1_000_000, -1e9),
    )
    assert (everything.yes, everything.words, everything.inner.low) == (True, ["a", "1"], 1.0)
    assert [row.k for row in everything.rows] == [1, 2]
    assert everything.by_name["1"].low == 1.5
    assert read(f"name: {'x' * 20_000}").name == "x" * 20_000


def test_a_field_without_a_value_is_missing() -> None:
    everything = read("name: a\nkind:\nn:\nwords:\ninner:\nrows:\n")
    assert (everything.kind, everything.n, everything.words, everything.rows) == ("a", None, [], [])
    assert everything.inner.low == 0.5
    assert everything.model_fields_set == {"name", "n"}


def test_each_section_knows_where_it_stands() -> None:
    everything = read("name: a\nrows:\n- {k: 1}\n-\n  k: 2\nby_name:\n\n  b: {low: 1}")
    assert (everything.location, everything.rows[1].location) == ("f.yaml:1", "f.yaml:5")
    for error, message in (
        (everything.rows[1].error("k", "no"), "f.yaml:5: rows[2].k: no"),
        (everything.rows[0].error(None, "no"), "f.yaml:3: rows[1]: no"),
        (everything.by_name["b"].error("low", "no"), "f.yaml:8: by_name.b.low: no"),
        # A section that is missing stands where it should be.
        (everything.inner.error("low", "no"), "f.yaml:1: inner.low: no"),
        (Inner().error("low", "no"), "low: no"),
    ):
        assert str(error) == message
    # Each file's own, as another is read after it.
    assert read("\n\nname: a").inner.location == "f.yaml:3"
    assert everything.inner.location == "f.yaml:1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: true", "f.yaml:1: name: True: a text is expected"),
        ("name: {}", "f.yaml:1: name: {}: a text is expected"),
        ('name: "b\\u202e"', "name: the character U+202E is not shown; take it out"),
        ('name: "\\ud83d"', "name: the character U+D83D is not shown; take it out"),
        (f"\nname: {'x' * 20_001}", "f.yaml:2: name: 20,001 characters; at most 20,000 are expected"),
        ("kind: b", "f.yaml:1: name: this field is required"),
        ("name:", "f.yaml:1: name: this field is required"),
        ("", "f.yaml:1: name: this field is required"),
        ("kind: c", "f.yaml:1: kind: unknown kind 'c': known: a, b"),
        ("n: 1.0", "n: 1.0 is not a whole number from 1 to 1000000"),
        ("n: 0", "n: 0 is not a whole number from 1 to 1000000"),
        ("n: 1000001", "n: 1000001 is not a whole number from 1 to 1000000"),
        ("n: true", "n: True is not a whole number from 1 to 1000000"),
        ("n: [1]", "n: [1] is not a whole number from 1 to 1000000"),
        (f"n: {'x' * 99}", f"n: '{'x' * 59}… is not a whole number"),
        ("x: .nan", "x: nan: "),
        ("x: true", "x: True: a number is expected"),
        ("inner: {low: 1.6}", "inner.low: 1.6 is not a number from 0 to 1.5"),
        ("inner: {low: .nan}", "inner.low: nan is not a number from 0 to 1.5"),
        ("inner: {low: x}", "inner.low: 'x' is not a number from 0 to 1.5"),
        ("inner: {low: true}", "inner.low: True is not a number from 0 to 1.5"),
        ("yes: 1", "yes: 1: true or false is expected"),
        ("words: b", "words: 'b': a list, with lines that begin with '- ', is expected"),
        ("words: [a,\n{}]", "f.yaml:2: words[2]: {}: a text is expected"),
        ("inner: [1]", "f.yaml:1: inner: fields are expected"),
        ("rows: [1]", "f.yaml:1: rows[1]: fields are expected"),
        ("name: a\nrows:\n- k: 1\n- {}", "f.yaml:4: rows[2].k: this field is required"),
        ("by_name: [1]", "by_name: [1]: a mapping of fields is expected"),
        ("inner:\n  lo: 1", "f.yaml:2: inner.lo: unknown field 'lo': did you mean low?"),
        ("\n- 1", "f.yaml:2: the file: fields are expected"),
        ("kind: c\nname: 1\nn: x", "f.yaml:1: kind: "),
    ],
)  # fmt: skip
def test_what_is_not_expected_is_named(text: str, message: str) -> None:
    with says(message):
        read(text)


def test_a_file_may_be_a_mapping_of_texts() -> None:
    assert read("a b: c", Texts).root == {"a b": "c"}
    with says("f.yaml:2: b: [1]: a text is expected"):
        read("a: x\nb: [1]", Texts)
    with says("f.yaml:1: the file: [1]: a mapping of fields is expected"):
        read("[1]", Texts)
