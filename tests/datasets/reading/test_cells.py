"""References and numbers in cells: each way in which programs write several texts, and what only looks like it."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from captau.datasets.errors import InputError
from captau.datasets.reading.cells import parse_number, parse_references
from tests.conftest import says

CAPTIONS = ("a dog", 'it\'s a "cat", is it', "y ||| z [two] (three)", "çà\\")


@pytest.mark.parametrize(
    ("cell", "wanted"),
    [
        ("one ||| two|||three ", ("one", "two", "three")),
        ('["a", "b ||| c"]', ("a", "b ||| c")),
        ("['a', \"it's\"]", ("a", "it's")),
        ("('a', 'b')", ("a", "b")),
        ("('a',)", ("a",)),
        ("['a',\n 'b']", ("a", "b")),
        ("", ()),
        ("[]", ()),
        ("()", ()),
        (" ||| ", ()),
        (r'["\ud800", "\ud83d\ude00"]', ("\ufffd", "\U0001f600")),
        (r"['\ud800', '\ud83d\ude00']", ("\ufffd", "\U0001f600")),
        # Captions with brackets and quotes.
        ("[dog] on a mat", ("[dog] on a mat",)),
        ("(left) a dog", ("(left) a dog",)),
        ("(a dog)", ("(a dog)",)),
        ("a dog [left]", ("a dog [left]",)),
        ('("Stop" sign) at a corner', ('("Stop" sign) at a corner',)),
        ("('Tis the season) a tree", ("('Tis the season) a tree",)),
        ('"Stop" sign (it says "halt")', ('"Stop" sign (it says "halt")',)),
        ("a sign that reads ['a']", ("a sign that reads ['a']",)),
        ("<unk> a dog", ("<unk> a dog",)),
        ('"Stop" ((it says "halt")', ('"Stop" ((it says "halt")',)),
        ('"Stop" it says "halt"', ('"Stop" it says "halt"',)),
        ("a', 'b']", ("a', 'b']",)),
        ("dog) 'a'", ("dog) 'a'",)),
        ("array dog", ("array dog",)),
        ("a[1]", ("a[1]",)),
        ("a dog\n", ("a dog",)),
        ("|||", ()),
        ("a|||b", ("a", "b")),
        ("[] a dog", ("[] a dog",)),
        (np.array(["a", "b"]), ("a", "b")),
        (pd.Series(["a"], index=[7]), ("a",)),
        (("a",), ("a",)),
        ([], ()),
        ("dogs (two) run\n", ("dogs (two) run",)),
        ("two\nlines ||| b", ("two\nlines", "b")),
        (["a\nb", "[a]"], ("a\nb", "[a]")),
    ],
)
def test_references_in_one_cell(cell: Any, wanted: tuple[str, ...]) -> None:
    assert parse_references(cell, "t.csv:2") == wanted


@pytest.mark.parametrize(
    "cell",
    [
        str(np.array(["a dog", "a cat"])),
        str(np.array(["a dog " * 9, "a cat"])),  # over two lines
        repr(np.array(["a dog", "a cat"])),
        repr([np.str_("a dog"), np.str_("a cat")]),
        repr((np.str_("a dog"), np.str_("a cat"))),
        "{'a dog', 'a cat'}",
        repr(frozenset({"a dog"})),
        repr(set()),
        repr({"a": "a dog"}.values()),
        repr(pd.Index(["a dog"])),
        "<generator object <genexpr> at 0x0>",
        repr((("a dog", "a cat"),)),
        repr([["a dog"]]),
        repr([b"a dog"]),
        "('a dog')",
        "('a dog' 'a cat')",
        "['a dog'; 'a cat']",
        "[a dog, a cat]",
        "{a dog}",
        "['a dog', 'a c",
        "('a dog', 'a c",
        "[a dog",
        "[",
        "dog', 'a cat']"[3:],
        "'a cat')",
        '"(\'a dog\', ""it\'s"")"',  # as pandas quotes a tuple in TSV
        "a dog\na cat",
        "a dog ||| ['a cat'",
        "[" * 100_000,
        ["['a dog' 'a cat']"],  # a print within a list
        ["('a dog', 'a cat')"],
    ],
)
def test_what_only_looks_like_a_list_is_refused(cell: Any) -> None:
    with says("t.csv:2: references is ", "write a JSON list", "' ||| ' between them"):
        parse_references(cell, "t.csv:2")


@pytest.mark.parametrize("cell", [{"a dog"}, {"a dog": 1}, (t for t in "ab"), None, math.nan, 7])
def test_what_is_no_list_is_refused(cell: Any) -> None:
    with says("t.csv:2: references is ", "not a list of texts"):
        parse_references(cell, "t.csv:2")


@pytest.mark.parametrize(
    "cell", ["[1, 2]", "[true]", '[["a dog"]]', ["a dog", 7], [["a dog"]], (7,)]
)
def test_a_list_of_other_things_is_refused(cell: Any) -> None:
    with says("t.csv:2: references holds ", "not a text"):
        parse_references(cell, "t.csv:2")


@pytest.mark.parametrize(
    "cell",
    [
        '["a dog", null]',
        "['a dog', None]",
        "('a dog', nan)",
        ["a dog", None],
        ("a dog", float("nan")),
    ],
)
def test_null_among_references_is_an_empty_one_in_every_form(cell: Any) -> None:
    assert parse_references(cell, "t.csv:2") == ("a dog", "")


@pytest.mark.parametrize(
    ("cell", "advice"),
    [
        ([["two", "dogs"]], "not a text; these are the words of a text, join them with blanks"),
        ([["a", "t"]], "not a text; these are the letters of a text, join them"),
    ],
)
def test_words_and_letters_in_place_of_a_reference_are_named(cell: Any, advice: str) -> None:
    with says("t.csv:2: references holds ", advice):
        parse_references(cell, "t.csv:2")


@pytest.mark.parametrize("make", [list, tuple, np.array, pd.Series, repr, lambda t: repr(list(t))])
def test_every_list_of_texts_keeps_its_texts(make: Any) -> None:
    references = parse_references(make(CAPTIONS), "t.csv:2")
    assert references == CAPTIONS
    assert set(map(type, references)) == {str}


@pytest.mark.parametrize(
    ("cell", "number"),
    [("3", 3), (" -0.5\t", -0.5), ("+.5", 0.5), ("5.", 5), ("1e-3", 1e-3), ("1E+2", 100), (4, 4)],
)
def test_a_number(cell: Any, number: float) -> None:
    assert parse_number(cell) == number


@pytest.mark.parametrize(
    "cell",
    [
        *["1_0", "1e1_0", "0x1", "٣", "infinity", "-inf", "nan", "1,5", "1e", ".", "-", "２"],
        "",
        "1 0",
        "3\u00a0",
        b"3",
        True,
        None,
    ],
)
def test_what_is_no_number(cell: Any) -> None:
    """Python's `float` takes the first five, and a digit of any script."""
    assert math.isnan(parse_number(cell))


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (7, "c is 7, not a list of texts"),
        (["a", 7, None], "c holds 7, not a text"),
        ("[" + "1" * 80 + "]", f"c holds {'1' * 80}, not a text"),
        ("[" + "1" * 81 + "]", f"c holds {'1' * 80}…, not a text"),
        (
            "[a",
            "c is '[a', from which captions cannot be told apart; write a JSON list, "
            '["a dog", "a cat"], or captions with \' ||| \' between them',
        ),
        ("[" + "a" * 90, f"c is '[{'a' * 78}…, from which captions cannot be told apart; write a"),
    ],
)
def test_a_refused_cell_is_quoted_up_to_eighty_characters(cell: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_references(cell, "t.csv:2", "c")
    assert str(caught.value).startswith(f"t.csv:2: {message}")


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        *((0, 0), (-7, -7), (1.5, 1.5), (Decimal("0.25"), 0.25), (10**400, math.inf), ("-0", 0)),
        *((math.inf, math.inf), ("12.50", 12.5), ("1.e1", 10), (".5e-1", 0.05), ("\t 7 ", 7)),
        *(("007", 7), ("-1E+2", -100), (np.float64(0.5), 0.5)),
    ],
)
def test_a_number_is_taken_as_it_is(cell: Any, number: float) -> None:
    assert parse_number(cell) == number
    assert type(parse_number(cell)) is float
