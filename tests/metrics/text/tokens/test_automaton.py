"""Patterns as an automaton: the places where matches end, worked by hand, and the rule that counts."""

from __future__ import annotations

import pytest

from captau.metrics.text.tokens import automaton
from captau.metrics.text.tokens.automaton import Grammar, Machine


def machine_of(*patterns: str) -> Machine:
    grammar = Grammar()
    return Machine(grammar, [grammar.add(pattern) for pattern in patterns])


@pytest.mark.parametrize(
    ("pattern", "text", "ends"),
    [
        ("ab", "abab", [2]),
        ("ab", "aB", [2]),
        ("a{3}", "aaaaa", [3]),
        ("a{2,4}", "aaaaa", [2, 3, 4]),
        ("a{1,2}b", "aab", [3]),
        ("a{1,2}b", "aaab", []),
        ("a?", "aa", [1]),
        ("a?b", "ab", [2]),
        ("a?b", "b", [1]),
        ("a*b", "aaab", [4]),
        ("a*b", "b", [1]),
        ("a+", "aaa", [1, 2, 3]),
        ("a+b", "b", []),
        ("(ab|c)+", "abcab", [2, 3, 5]),
        ("(a|ab|b)", "ab", [1, 2]),
        ("a(b|)c", "ac", [2]),
        ("a(b|)c", "abc", [3]),
        ("[abx-z]+", "abyw", [1, 2, 3]),
        ("[a-cb-e]", "e", [1]),
        ("[a-cb-e]", "f", []),
        ("[^a-c]", "d", [1]),
        ("[^a-c]", "b", []),
        # A class has what it names alone; a letter outside has both cases, and what Java takes for the same letter.
        ("[k]", "K", []),
        ("k", "\u212a", [1]),
        ("s", "\u017f", [1]),
        ("i", "\u0131", [1]),
        ("\\.", ".", [1]),
        ("\\.", "x", []),
        ("\\t", "\t", [1]),
        ("\\u0041", "A", [1]),
        ("\\u0041", "a", []),
        ("[\\u0041-\\u0043\\]]+", "AC]D", [1, 2, 3]),
        ("5", "5", [1]),
    ],
)
def test_where_matches_end(pattern: str, text: str, ends: list[int]) -> None:
    assert machine_of(pattern).ends(text, 0, len(text)) == ends
    shifted = [end + 2 for end in ends]
    assert machine_of(pattern).ends(f"__{text}", 2, len(text) + 2) == shifted
    last = max((end for end in ends if end < len(text)), default=0)
    assert max(machine_of(pattern).ends(text, 0, len(text) - 1), default=0) == last


@pytest.mark.parametrize("pattern", ["a)", "a|b)c"])
def test_a_pattern_that_is_not_understood(pattern: str) -> None:
    place = pattern.index(")")
    with pytest.raises(ValueError, match=f"not understood from character {place} on"):
        machine_of(pattern)


def test_the_longest_match_and_of_equal_ones_the_first_pattern() -> None:
    machine = machine_of("ab", "[ab]+", "a", "c")
    for text, begin, expected in (
        ("ab", 0, (2, 0)),
        ("aba", 0, (3, 1)),
        ("a", 0, (1, 1)),
        ("xc", 1, (2, 3)),
        ("x", 0, (0, -1)),
        ("", 0, (0, -1)),
        ("bbx" + "a" * 200, 3, (203, 1)),
    ):
        assert machine.longest(text, begin, set()) == expected


def test_what_leads_nowhere_is_looked_up_only_once() -> None:
    """A match of b needs a c far ahead, which never comes: the ends at each stride are remembered."""
    machine = machine_of("b", "b+c")
    text, dead_ends = "b" * 300, set[tuple[int, int]]()
    assert machine.longest(text, 0, dead_ends) == (1, 0)
    assert {place for _, place in dead_ends} == {64, 128, 192, 256, 300}
    assert machine.longest(text, 1, dead_ends) == (2, 0)
    assert {place for _, place in dead_ends} == {64, 128, 192, 256, 300}
    assert machine.longest(text + "c", 0, set()) == (301, 1)


def test_characters_that_no_pattern_tells_apart_are_of_one_kind() -> None:
    grammar = Grammar()
    for pattern in ("[a-c]", "[b-d]"):
        grammar.add(pattern)
    assert [sorted(grammar.kind(char)) for char in "abcdx"] == [[0], [0, 1], [0, 1], [1], []]
    assert grammar.kind("b") is grammar.kind("c")
    first, last = grammar.add("ab")
    assert grammar.add("c", last)[0] == last != first


@pytest.mark.parametrize(
    ("pattern", "members"),
    [
        # Ranges that overlap, touch, lie inside others or follow them, in any order of writing.
        ("[a-bm-zn-o]", "abmnopqrstuvwxyz"),
        ("[n-om-za-b]", "abmnopqrstuvwxyz"),
        ("[a-cd-f]", "abcdef"),
        ("[a-ce-f]", "abcef"),
        ("[a-fb-c]", "abcdef"),
        ("[a-cb-dx]", "abcdx"),
        ("[\\u0061-\\u0063z]", "abcz"),
        ("[\\u2019-\\u201b]", "\u2019\u201a\u201b"),
        ("[\\-\\^a]", "-^a"),
        ("\\^", "^"),
        ("\\u2019", "\u2019"),
        ("[{hyphen}x]", "-_x\u058a\u2010\u2011"),
        ("[^\\u0000-\\u0079\\u007b-\\uffff]", "z"),
    ],
)
def test_the_characters_of_a_class(pattern: str, members: str) -> None:
    machine = machine_of(pattern)
    characters = [
        *map(chr, range(128)),
        *"\u0249\u058a\u2010\u2011\u2012\u2018\u2019\u201a\u201b\u201c",
    ]
    found = [char for char in characters if machine.ends(char, 0, 1)]
    assert "".join(sorted(found)) == "".join(sorted(members))


def test_a_state_forgets_characters_before_it_has_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(automaton, "_MAX_STATE_CHARACTERS", 3)
    start = machine_of("[a-d]").start
    sizes: list[int] = []
    for char in "abxcdaab":
        state = start[char]
        sizes.append(len(start))
        assert (state is None) == (char == "x")
    assert sizes == [1, 2, 3, 1, 2, 3, 3, 1]
    assert start["c"] is start["d"], "characters of one kind lead to one state"
    assert start["c"].rule == 0
    assert start.rule == -1


def test_a_place_before_the_end_of_a_match_is_no_dead_end() -> None:
    machine, text, dead_ends = machine_of("b+c"), "b" * 100 + "c", set[tuple[int, int]]()
    for begin in (0, 1, 63, 64, 99):
        assert machine.longest(text, begin, dead_ends) == (101, 0)
        assert {place for _, place in dead_ends} == {101}
    assert machine.longest(text, 100, dead_ends) == (100, -1)
