"""Patterns as one automaton whose states are made when a text first needs them.

A text is read in time linear in its length. `penn` builds its lexer from `Grammar` and `Machine`; the syntax of
patterns is described in `penn_rules`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cache

from .penn_rules import PARTS, SETS

#: Builds automaton states for a piece of a pattern, behind a state; returns its last state.
_Builder = Callable[[int], int]


_REPEAT = re.compile(r"\{(\d+)(?:,(\d+))?\}")
_CLASS = re.compile(r"\[\^?(?:\\u[0-9a-f]{4}|\\.|[^\]\\])*\]")
_NAME = re.compile(r"\{([a-z_]+)\}")
_CHAR = re.compile(r"\\u[0-9a-f]{4}|\\.|.")
_RANGE = re.compile(rf"({_CHAR.pattern})(?:-({_CHAR.pattern}))?")


_CONTROLS = {r"\t": "\t", r"\n": "\n", r"\r": "\r", r"\f": "\f"}


# JFlex takes letters that Java's upper or lower case lead to for the same letter.
_CASES = {"s": "sS\u017f", "k": "kK\u212a", "i": "iI\u0130\u0131"}


# The most characters that a state remembers: all that people write, not all that Unicode has.
_MAX_STATE_CHARACTERS = 8192


# After this many characters `longest` looks up whether the rest is known to lead to no further match.
_STRIDE = 64


class Grammar:
    """States and moves of all patterns.

    Attributes:
        moves: by state, pairs of a character set and the next state; most states have none and are absent.
        jumps: by state, the next states that need no character; many states have none and are absent.
    """

    def __init__(self) -> None:
        self.moves: dict[int, list[tuple[int, int]]] = {}
        self.jumps: dict[int, list[int]] = {}
        self._n_states = 0
        self._sets: dict[str, int] = {}
        self._set_tests: list[Callable[[str], bool]] = []
        self._parts: dict[str, _Builder] = {}
        self._kinds: dict[str, frozenset[int]] = {}
        self._distinct_kinds: dict[frozenset[int], frozenset[int]] = {}

    def add(self, pattern: str, start: int | None = None) -> tuple[int, int]:
        """Add a pattern, by default behind a new state; return its first and last state."""
        first = self._add_state() if start is None else start
        build = self._parse(pattern)
        return first, build(first)

    def kind(self, char: str) -> frozenset[int]:
        """Return the sets that have a character; equal for characters that no pattern tells apart."""
        if char not in self._kinds:
            sets = frozenset(
                index for index, is_in_set in enumerate(self._set_tests) if is_in_set(char)
            )
            # Equal sets are one object, whose hash `State` computes once for all such characters.
            self._kinds[char] = self._distinct_kinds.setdefault(sets, sets)
        return self._kinds[char]

    def _add_state(self) -> int:
        self._n_states += 1
        return self._n_states - 1

    def _add_jump(self, state: int, target: int) -> None:
        self.jumps.setdefault(state, []).append(target)

    def _parse(self, pattern: str) -> _Builder:
        builder, end = self._parse_alternatives(pattern, 0)
        if end != len(pattern):
            raise ValueError(f"{pattern}: not understood from character {end} on")
        return builder

    def _parse_alternatives(self, pattern: str, i: int) -> tuple[_Builder, int]:
        options: list[_Builder] = []
        while True:
            sequence: list[_Builder] = []
            while i < len(pattern) and pattern[i] not in "|)":
                builder, i = self._parse_atom(pattern, i)
                builder, i = self._parse_repeat(builder, pattern, i)
                sequence.append(builder)

            options.append(_chain(sequence))
            if pattern[i : i + 1] != "|":
                break
            i += 1

        if len(options) == 1:
            return options[0], i

        def build(start: int) -> int:
            end = self._add_state()
            for option in options:
                self._add_jump(option(start), end)
            return end

        return build, i

    def _parse_atom(self, pattern: str, i: int) -> tuple[_Builder, int]:
        if pattern[i] == "(":
            builder, i = self._parse_alternatives(pattern, i + 1)
            return builder, i + 1  # behind the closing bracket

        if name := _NAME.match(pattern, i):
            if name[1] not in self._parts:
                self._parts[name[1]] = self._parse(PARTS[name[1]])
            return self._parts[name[1]], name.end()

        if characters := _CLASS.match(pattern, i):
            return self._set_builder(characters[0]), characters.end()

        char = _CHAR.match(pattern, i)
        if char is None:
            raise ValueError(f"{pattern}: not understood from character {i} on")

        if char[0].isalpha():
            letter = char[0].lower()
            both_cases = _CASES.get(letter, letter + letter.upper())
            return self._set_builder(f"[{both_cases}]"), char.end()

        return self._set_builder(f"[{char[0]}]"), char.end()

    def _parse_repeat(self, builder: _Builder, pattern: str, i: int) -> tuple[_Builder, int]:
        # No limit is an `at_most` of 0.
        if counts := _REPEAT.match(pattern, i):
            at_least = int(counts[1])
            at_most = int(counts[2] or counts[1])
            i = counts.end()
        elif pattern[i : i + 1] in ("?", "*", "+"):
            at_least = int(pattern[i] == "+")
            at_most = int(pattern[i] == "?")
            i += 1
        else:
            return builder, i

        def build(start: int) -> int:
            for _ in range(at_least):
                start = builder(start)

            end = self._add_state()
            self._add_jump(start, end)
            for _ in range(at_most - at_least):
                start = builder(start)
                self._add_jump(start, end)

            if not at_most:
                self._add_jump(builder(end), end)
            return end

        return build, i

    def _set_builder(self, characters: str) -> _Builder:
        if characters not in self._sets:
            self._sets[characters] = len(self._set_tests)
            self._set_tests.append(_make_set_test(characters))

        index = self._sets[characters]

        def build(start: int) -> int:
            end = self._add_state()
            self.moves.setdefault(start, []).append((index, end))
            return end

        return build


def _make_set_test(characters: str) -> Callable[[str], bool]:
    """Return the test whether a character is in a class, whose named sets are read once for all classes."""
    is_negated = characters.startswith("[^")
    named = [_named_set(name) for name in _NAME.findall(characters)]
    first = 2 if is_negated else 1
    unnamed = _CharacterSet(_NAME.sub("", characters[first:-1]))
    sets = [*named, unnamed]
    return lambda char: any(char in characters_of for characters_of in sets) != is_negated


class _CharacterSet:
    """Characters and ranges of them, as they are written in a class."""

    def __init__(self, characters: str) -> None:
        ranges = sorted((_code(a), _code(b or a)) for a, b in _RANGE.findall(characters))
        self._bounds: list[int] = []  # in turns the first of a range and the one behind its last
        for first, last in ranges:
            if self._bounds and first <= self._bounds[-1]:
                self._bounds[-1] = max(self._bounds[-1], last + 1)
            else:
                self._bounds += [first, last + 1]

    def __contains__(self, char: str) -> bool:
        return bisect_right(self._bounds, ord(char)) % 2 == 1


def _code(char: str) -> int:
    """Return the number of a character as `_CHAR` matches it."""
    if len(char) > 2:  # \u and four digits
        return int(char[2:], 16)
    return ord(_CONTROLS.get(char, char[-1]))


@cache
def _named_set(name: str) -> _CharacterSet:
    return _CharacterSet(SETS[name])


def _chain(builders: Sequence[_Builder]) -> _Builder:
    def build(start: int) -> int:
        for builder in builders:
            start = builder(start)
        return start

    return build


class State(dict[str, "State | None"]):
    """A state: under each character the next state, or None if nothing can match any more.

    Attributes:
        rule: the first of the patterns that match up to here; -1 if none does.
    """

    def __init__(self, machine: Machine, items: frozenset[int], rule: int) -> None:
        super().__init__()
        self.rule = rule
        self._machine = machine
        moves = machine.grammar.moves
        self._moves = [move for item in items for move in moves.get(item, ())]
        self._by_kind: dict[frozenset[int], State | None] = {}

    def __missing__(self, char: str) -> State | None:
        kind = self._machine.grammar.kind(char)
        if kind not in self._by_kind:
            self._by_kind[kind] = self._machine.next_state(self._moves, kind)

        # Hostile texts do not fill the memory: what is forgotten is looked up again by kind.
        if len(self) == _MAX_STATE_CHARACTERS:
            self.clear()

        state = self._by_kind[kind]
        self[char] = state
        return state


class Machine:
    """Patterns as one automaton.

    Args:
        grammar: the grammar that has the patterns.
        patterns: the first and the last state of each pattern, in order of precedence.
    """

    def __init__(self, grammar: Grammar, patterns: Sequence[tuple[int, int]]) -> None:
        self.grammar = grammar
        self._rules = {last: rule for rule, (_, last) in enumerate(patterns)}
        self._reachable: dict[int, frozenset[int]] = {}
        self._states: dict[frozenset[int], State] = {}
        self.start = self._state([first for first, _ in patterns])

    def longest(self, text: str, begin: int, dead_ends: set[tuple[int, int]]) -> tuple[int, int]:
        """Return the end of the longest match that begins at `begin`, and its rule, -1 for none.

        Args:
            dead_ends: collects the states at places of this text that lead to no further match. It makes
                the time linear in the text, however far each token looks ahead.
        """
        state: State | None = self.start
        end = begin
        rule = -1
        position = begin
        steps: list[tuple[int, int]] = []

        while position < len(text):
            stop = (position // _STRIDE + 1) * _STRIDE
            for position, char in enumerate(text[position:stop], position + 1):  # noqa: B020
                state = state[char]
                if state is None:
                    break
                if state.rule >= 0:
                    end = position
                    rule = state.rule

            if state is None or (id(state), position) in dead_ends:
                break
            steps.append((id(state), position))

        # Up to `end` the steps did lead to a match; those behind it led to none.
        dead_ends.update((state_id, position) for state_id, position in steps if position >= end)

        return end, rule

    def ends(self, text: str, begin: int, stop: int) -> list[int]:
        """Return all places up to `stop` where a match that begins at `begin` ends."""
        state: State | None = self.start
        ends: list[int] = []
        for position in range(begin, stop):
            state = state[text[position]]
            if state is None:
                break
            if state.rule >= 0:
                ends.append(position + 1)

        return ends

    def next_state(self, moves: Sequence[tuple[int, int]], kind: frozenset[int]) -> State | None:
        """Return the state that a character of this kind leads to by some moves of the grammar."""
        targets = [target for index, target in moves if index in kind]
        return self._state(targets) if targets else None

    def _state(self, roots: Sequence[int]) -> State:
        items = frozenset[int]().union(*map(self._reach, roots))
        if items not in self._states:
            rules = [self._rules[state] for state in items if state in self._rules]
            rule = min(rules, default=-1)
            self._states[items] = State(self, items, rule)
        return self._states[items]

    def _reach(self, root: int) -> frozenset[int]:
        """Return the states that need no character and lead on or end a pattern."""
        if root not in self._reachable:
            reached = {root}
            pending = [root]
            while pending:
                jumps = self.grammar.jumps.get(pending.pop(), ())
                new = [state for state in jumps if state not in reached]
                reached.update(new)
                pending += new

            # States that only jump on add nothing to what a state can do.
            self._reachable[root] = frozenset(
                state for state in reached if state in self.grammar.moves or state in self._rules
            )

        return self._reachable[root]
