"""The grammar's sets of characters, beside Python's tables of Unicode, and the writing of patterns."""

from __future__ import annotations

import unicodedata

from captau.metrics.text.tokens import penn_rules
from captau.metrics.text.tokens.automaton import _named_set

PLANE = [*map(chr, range(0x10000))]


def members(name: str) -> set[str]:
    return {char for char in PLANE if char in _named_set(name)}


def characters(table: str) -> set[str]:
    """Read a table of ranges anew."""
    ranges = (part.split("-") for part in table.split())
    return {chr(c) for part in ranges for c in range(int(part[0], 16), int(part[-1], 16) + 1)}


def test_digits_are_ten_from_each_zero():
    zeros = {chr(int(zero, 16)) for zero in penn_rules.ZEROS.split()}
    expected = {
        char
        for char in PLANE
        if (value := unicodedata.decimal(char, -1)) >= 0 and chr(ord(char) - value) in zeros
    }
    assert members("digit") == expected
    assert len(expected) == 10 * len(zeros)


def test_capitals_are_the_letters_in_upper_case():
    """Numerals and letters in circles have cases too; Cherokee had none in Unicode 6."""
    capitals = {char for char in characters(penn_rules.LETTERS) if char.isupper()}
    capitals -= {chr(c) for c in range(0x13A0, 0x13F5)}
    capitals |= {chr(c) for c in [*range(0x2160, 0x2170), *range(0x24B6, 0x24D0)]}
    assert members("upper") == capitals
    assert penn_rules._upper() == penn_rules.SETS["upper"]
    assert penn_rules._upper().endswith(r"\\u2160-\\u216f\\u24b6-\\u24cf".replace("\\\\", "\\"))
    assert {"A", "Z", "É", "Ω", "Ａ"} < capitals
    assert {"a", "Ꭰ", "Ᏼ", "\u2170", "\u24d0"}.isdisjoint(members("upper"))


def test_sets_are_their_tables():
    assert members("letter") == characters(penn_rules.LETTERS)
    assert members("mark") == characters(penn_rules.MARKS) | {"\u00ad"}
    assert members("sign") == characters(penn_rules.SIGNS)
    assert members("hyphen") == set("-_\u058a\u2010\u2011")
    assert members("space") == {" ", "\t", "\xa0", "\u3000", *map(chr, range(0x2000, 0x200B))}


def test_tables_and_lists_are_written_as_patterns():
    assert penn_rules._class("41-5a aa\n ff21-ff3a") == r"\u0041-\u005a\u00aa\uff21-\uff3a"
    assert penn_rules._list_words("\n Mr Ed\\.D\n  vs ") == ["Mr", "Ed\\.D", "vs"]
    assert penn_rules._any(["a", "bc", "d"]) == "(a|bc|d)"
