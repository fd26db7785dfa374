"""Baselines' YAML as plain data: values, the line of each, and every error in whole; worked by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from captau.benchmarks.regression.yaml_tree import YamlTree, parse_scalar
from captau.datasets.errors import InputError
from tests.conftest import raises_exactly

TEXT = """\
a: 1
b:
  c: [x, "2", 3]
  d: {e: null, f: 2.5}
g: true
big: 1%s
odd: {1: 2}
n: -1
nan: NaN
"""


@pytest.fixture
def tree(tmp_path: Path) -> YamlTree:
    path = tmp_path / "t.yaml"
    path.write_text(TEXT % ("0" * 302), encoding="utf-8")
    return YamlTree(path)


@pytest.mark.parametrize(
    ("word", "value"),
    [("1", 1), ("1.5", 1.5), ("null", None), ("true", True), ("yes", "yes"), ("a", "a"), ("", "")],
)
def test_a_word_without_quotes_is_read_as_in_json(word: str, value: Any) -> None:
    assert parse_scalar(word) == value
    assert type(parse_scalar(word)) is type(value)


def test_values_and_the_line_of_each(tree: YamlTree) -> None:
    assert tree.plain["b"] == {"c": ["x", "2", 3], "d": {"e": None, "f": 2.5}}
    assert tree.lines == {
        **{(): 1, ("a",): 1, ("b",): 2, ("b", "c"): 3, ("b", "d"): 4},
        **{("b", "c", str(i)): 3 for i in range(3)},
        **{("b", "d", "e"): 4, ("b", "d", "f"): 4, ("g",): 5, ("big",): 6},
        **{("odd",): 7, ("odd", "1"): 7, ("n",): 8, ("nan",): 9},
    }
    assert tree.get("a", kind=int) == 1
    assert (tree.get("a", kind=float), type(tree.get("a", kind=float))) == (1.0, float)
    assert tree.get("b", "d", "e", kind=(str, type(None))) is None
    assert tree.get("g", kind=bool) is True
    assert tree.get("g", kind=object) is True
    assert tree.get("big", kind=float) == math.inf  # 10^302 is above 2^1000
    assert (tree.number("a"), tree.number("b", "d", "f")) == (1.0, 2.5)
    assert math.isnan(tree.number("b", "d", "e"))
    assert tree.count("a") == 1
    assert tree.keys() == ["a", "b", "g", "big", "odd", "n", "nan"]
    assert tree.keys("b", expected_keys=("d", "c")) == ["c", "d"]


def test_a_number_below_the_largest_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(f"a: {2**999}\nb: 0", encoding="utf-8")
    assert YamlTree(path).get("a", kind=float) == 2.0**999
    assert YamlTree(path).count("b") == 0


@pytest.mark.parametrize(
    ("ask", "line", "problem"),
    [
        (lambda t: t.get("x", kind=int), 1, "'x' is missing"),
        (lambda t: t.get("b", "x", kind=int), 2, "'x' is missing"),
        (lambda t: t.get("a", "x", kind=int), 1, "a has no keys"),
        (lambda t: t.get("b", "c", "x", kind=int), 3, "b.c has no keys"),
        (lambda t: t.get("b", "d", "f", kind=int), 4, "f is 2.5, not int"),
        (lambda t: t.get("g", kind=int), 5, "g is True, not int"),
        (lambda t: t.get("g", kind=(str, type(None))), 5, "g is True, not str or null"),
        (lambda t: t.get("a", kind=bool), 1, "a is 1, not bool"),
        (lambda t: t.keys("b", expected_keys=("c",)), 4, "unknown key 'd': known: c"),
        (lambda t: t.keys("b", expected_keys=("c", "d", "e")), 2, "'e' is missing"),
        (lambda t: t.count("n"), 8, "n is -1; a whole number from 0 on is expected"),
        (lambda t: t.number("nan"), 9, "nan is NaN; write null for what is undefined"),
        (lambda t: t.texts("b", "c"), 3, "c holds 3, not a text"),
        (lambda t: t.choice("a", choices=("x",)), 1, "a is 1, not str"),
    ],
)  # fmt: skip
def test_errors_name_the_line(tree: YamlTree, ask: Any, line: int, problem: str) -> None:
    with raises_exactly(
        f"{tree.path}:{line}: not a valid baseline ({problem}); mend the line, or take the file anew from version control"
    ):
        ask(tree)


def test_an_error_below_what_there_is_stands_at_the_nearest_line(tree: YamlTree) -> None:
    assert str(tree.fail(("b", "d", "no", "no"), "p")).startswith(
        f"{tree.path}:4: not a valid baseline (p);"
    )


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("a: 1\na: 2", 2, "'a' appears twice"),
        ("a: &x [1]\nb: *x", 1, "an alias of YAML, which baselines do not have"),
        ("a: 1\n[b]: 2", 2, "a key that is not a text"),
    ],
)
def test_what_a_baseline_does_not_have_is_refused(
    tmp_path: Path, text: str, line: int, problem: str | None
) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as raised:
        YamlTree(path)
    assert str(raised.value).startswith(f"{path}:{line}: not a valid baseline ({problem});")


def test_texts_choices_and_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text("a: [x, y]\nb: x", encoding="utf-8")
    tree = YamlTree(path)
    assert tree.texts("a") == ("x", "y")
    assert tree.choice("b", choices=("y", "x")) == "x"
    with pytest.raises(InputError, match=r"t\.yaml:2: .*unknown b 'x': known: y, z"):
        tree.choice("b", choices=("y", "z"))
    path.write_text("", encoding="utf-8")
    assert YamlTree(path).plain == {}
    path.write_text(f"a: {'x' * 61}\nb: {'x' * 58}", encoding="utf-8")
    with pytest.raises(InputError) as raised:
        YamlTree(path).get("a", kind=int)
    assert f"a is '{'x' * 59}…, not int" in str(raised.value)
    with pytest.raises(InputError) as raised:
        YamlTree(path).get("b", kind=int)
    assert f"b is '{'x' * 58}', not int" in str(raised.value)
