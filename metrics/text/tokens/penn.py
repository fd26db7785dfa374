"""Penn Treebank tokens in Python, as Stanford's PTBTokenizer (CoreNLP 3.4.1) prints them.

The grammar is in `penn_rules`, where the syntax of patterns is described. `Grammar` and `Machine` make one automaton of
them, whose states are made when a text first needs them: a text is read in time linear in its length. Texts are read in
UTF-16 units, as in Java. `docs/tokenizer.md` describes the evidence that the tokens equal the Java program's.

Lower case is Java 25's (`String.toLowerCase(Locale.ENGLISH)`). It differs from Python's in one letter: the small form of a
capital sigma that ends its word. Unicode looks for the next letter with a case; Java looks no further than its
`BreakIterator` says that the word reaches. The letters of Unicode 16, Java 25's, are added for older versions of Python.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cache

from .penn_rules import CONTRACTED, ENDING, LEADING, NUMBERED, PARTS, RULES, SETS

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
        moves: by state, pairs of a character set and the next state.
        jumps: by state, the next states that need no character.
    """

    def __init__(self) -> None:
        self.moves: list[list[tuple[int, int]]] = []
        self.jumps: list[list[int]] = []
        self._sets: dict[str, int] = {}
        self._set_tests: list[Callable[[str], bool]] = []
        self._parts: dict[str, _Builder] = {}
        self._kinds: dict[str, frozenset[int]] = {}
        self._distinct_kinds: dict[frozenset[int], frozenset[int]] = {}

    def add(self, pattern: str, start: int | None = None) -> tuple[int, int]:
        """Add a pattern, by default behind a new state; return its first and last state."""
        first = self._add_state() if start is None else start
        return first, self._parse(pattern)(first)

    def kind(self, char: str) -> frozenset[int]:
        """Return the sets that have a character; equal for characters that no pattern tells apart."""
        if char not in self._kinds:
            sets = frozenset(i for i, is_in_set in enumerate(self._set_tests) if is_in_set(char))
            self._kinds[char] = self._distinct_kinds.setdefault(sets, sets)
        return self._kinds[char]

    def _add_state(self) -> int:
        self.moves.append([])
        self.jumps.append([])
        return len(self.moves) - 1

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

        def build(start: int) -> int:
            end = self._add_state()
            for option in options:
                first = self._add_state()
                self.jumps[start].append(first)
                self.jumps[option(first)].append(end)
            return end

        return (options[0] if len(options) == 1 else build), i

    def _parse_atom(self, pattern: str, i: int) -> tuple[_Builder, int]:
        if pattern[i] == "(":
            builder, i = self._parse_alternatives(pattern, i + 1)
            return builder, i + 1
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
            return self._set_builder(f"[{_CASES.get(letter, letter + letter.upper())}]"), char.end()
        return self._set_builder(
            char[0] if char[0].startswith("\\") else f"[{char[0]}]"
        ), char.end()

    def _parse_repeat(self, builder: _Builder, pattern: str, i: int) -> tuple[_Builder, int]:
        at_least, at_most = 1, 1  # at_most is 0 if there is no limit
        if counts := _REPEAT.match(pattern, i):
            at_least, at_most, i = int(counts[1]), int(counts[2] or counts[1]), counts.end()
        elif pattern[i : i + 1] in ("?", "*", "+"):
            at_least, at_most, i = int(pattern[i] == "+"), int(pattern[i] == "?"), i + 1

        def build(start: int) -> int:
            for _ in range(at_least):
                start = builder(start)
            end = self._add_state()
            self.jumps[start].append(end)
            for _ in range(at_most - at_least):
                start = builder(start)
                self.jumps[start].append(end)
            if not at_most:
                self.jumps[builder(end)].append(end)
            return end

        return (builder if (at_least, at_most) == (1, 1) else build), i

    def _set_builder(self, characters: str) -> _Builder:
        if characters not in self._sets:
            self._sets[characters] = len(self._set_tests)
            self._set_tests.append(_make_set_test(characters))
        index = self._sets[characters]

        def build(start: int) -> int:
            end = self._add_state()
            self.moves[start].append((index, end))
            return end

        return build


def _make_set_test(characters: str) -> Callable[[str], bool]:
    """Return the test whether a character is in a class, whose named sets are read once for all classes."""
    is_class = characters.startswith("[")  # else it is a character with a backslash before
    is_negated = characters.startswith("[^")
    named = [_named_set(name) for name in _NAME.findall(characters)] if is_class else []
    rest = _NAME.sub("", characters[1 + is_negated : -1]) if is_class else characters
    sets = [*named, _CharacterSet(rest)]
    return lambda char: any(char in s for s in sets) != is_negated


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

    return builders[0] if len(builders) == 1 else build


class State(dict[str, "State | None"]):
    """A state: under each character the next state, or None if nothing can match any more.

    Attributes:
        rule: the first of the patterns that match up to here; -1 if none does.
    """

    def __init__(self, machine: Machine, items: frozenset[int], rule: int) -> None:
        super().__init__()
        self.rule = rule
        self._machine = machine
        self._items = items
        self._by_kind: dict[frozenset[int], State | None] = {}

    def __missing__(self, char: str) -> State | None:
        kind = self._machine.grammar.kind(char)
        if kind not in self._by_kind:
            self._by_kind[kind] = self._machine.next_state(self._items, kind)
        if len(self) == _MAX_STATE_CHARACTERS:
            self.clear()
        state = self[char] = self._by_kind[kind]
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
        end, rule, position = begin, -1, begin
        steps: list[tuple[int, int]] = []
        while position < len(text):
            stop = (position // _STRIDE + 1) * _STRIDE
            for position, char in enumerate(text[position:stop], position + 1):  # noqa: B020
                state = state[char]
                if state is None:
                    break
                if state.rule >= 0:
                    end, rule = position, state.rule
            if state is None or (id(state), position) in dead_ends:
                break
            steps.append((id(state), position))
        dead_ends.update(step for step in steps if step[1] >= end)
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

    def next_state(self, items: frozenset[int], kind: frozenset[int]) -> State | None:
        """Return the state that a character of this kind leads to."""
        moves = self.grammar.moves
        targets = [target for q in items for index, target in moves[q] if index in kind]
        return self._state(targets) if targets else None

    def _state(self, roots: Sequence[int]) -> State:
        items = frozenset[int]().union(*map(self._reach, roots))
        if items not in self._states:
            rule = min((self._rules[q] for q in items if q in self._rules), default=-1)
            self._states[items] = State(self, items, rule)
        return self._states[items]

    def _reach(self, root: int) -> frozenset[int]:
        """Return the states that need no character and lead on or end a pattern."""
        if root not in self._reachable:
            reached, pending = {root}, [root]
            while pending:
                new = [q for q in self.grammar.jumps[pending.pop()] if q not in reached]
                reached.update(new)
                pending += new
            self._reachable[root] = frozenset(
                q for q in reached if self.grammar.moves[q] or q in self._rules
            )
        return self._reachable[root]


# Characters that Java treats as cased beside upper, lower and title case letters.
_CASED = re.compile(
    "[\u02b0-\u02b8\u02c0\u02c1\u02e0-\u02e4\u0345\u037a\u1d2c-\u1d61\u2160-\u217f\u24b6-\u24e9]"
)
# Capitals of Unicode 16, and their small letters.
_NEW_CASES = {
    **{0x1C89: 0x1C8A, 0xA7CB: 0x264, 0xA7CC: 0xA7CD, 0xA7DA: 0xA7DB, 0xA7DC: 0x19B},
    **{capital: capital + 0x20 for capital in range(0x10D50, 0x10D66)},
}
_NEW_LETTERS = "".join(map(chr, [*_NEW_CASES, *_NEW_CASES.values()]))
_KANA_AND_KANJI = re.compile(
    "[\u3005\u3041-\u3094\u3099-\u309e\u30a1-\u30fe\u4e00-\u9fa5\uf900-\ufa2d]"
)

# Java's words, one letter a kind of character: L letters, N numbers, E characters that enclose or stand
# above the one before, D dandas; m stands within words, c within numbers, b within both; p and the full
# stop (f) stand before numbers, o behind. Any other character is a word by itself.
_LETTERS = "(?:LE*)+(?:[mbf](?:LE*)+)*D?"
_NUMBER = "(?:NE*)+(?:[bfc](?:NE*)+)*"
_WORD = re.compile(
    f"(?:{_LETTERS}(?:{_NUMBER}{_LETTERS})*|[pf]?(?:{_NUMBER}{_LETTERS})+)(?:{_NUMBER}o?)?"
    f"|[pf]?{_NUMBER}o?|.E*"
)


def lower(text: str) -> str:
    """Return a text in lower case, as Java does."""
    return (_with_small_sigmas(text) if "Σ" in text else text).lower().translate(_NEW_CASES)


def _with_small_sigmas(text: str) -> str:
    kinds = [(i, _kind(char)) for i, char in enumerate(text) if _kind(char)]
    characters = list(text)
    for word in _WORD.finditer("".join(kind for _, kind in kinds)):
        cased: list[int] = []
        for i, _ in kinds[word.start() : word.end()]:
            if _has_case(text[i]):
                cased.append(i)
            # Java ends a word behind a character beyond the first plane, unless it begins the text.
            if i and text[i] > "\uffff":
                _replace_sigmas(characters, cased)
                cased = []
        _replace_sigmas(characters, cased)
    return "".join(characters)


def _replace_sigmas(characters: list[str], cased: list[int]) -> None:
    """Replace the capital sigmas of one word, given the places of its letters with a case."""
    for i in cased:
        if characters[i] == "Σ":
            characters[i] = "ς" if i == cased[-1] != cased[0] else "σ"


@cache
def _has_case(char: str) -> bool:
    if char in _NEW_LETTERS or _CASED.match(char):
        return True
    return unicodedata.category(char) in ("Lu", "Ll", "Lt")


def _kind(char: str) -> str:
    """Return the letter of `_WORD` for a character; "" for characters that Java overlooks."""
    if char in "\"'":
        return "b"
    if char in ".,\u066b#":
        return {".": "f", "#": "p"}.get(char, "c")
    if char in "%&\u00a2\u066a\u2030\u2031":
        return "o"
    if char in _NEW_LETTERS:
        return "L"
    if char in "\u0964\u0965":
        return "D"
    category = unicodedata.category(char)
    if char in "\u00ad\u2027" or category in ("Pd", "Pc"):
        return "m"
    if category == "Cf":
        return ""
    if category in ("Mn", "Me"):
        return "E"
    if category[0] == "N":
        return "N"
    if category == "Sc":
        return "p"
    if (category[0] == "L" or category == "Mc") and not _KANA_AND_KANJI.match(char):
        return "L"
    return "x"


class Lexer:
    """All rules of the grammar as automata.

    Attributes:
        machine: the automaton of all rules, each with its follower.
        parts: for a rule with a follower, the automata of the token and of the follower.
    """

    def __init__(self) -> None:
        grammar = Grammar()
        patterns: list[tuple[int, int]] = []
        self.parts: dict[int, tuple[Machine, Machine]] = {}
        for rule, (pattern, follower, _) in enumerate(RULES):
            first, last = grammar.add(pattern)
            if follower:
                token, follow = grammar.add(pattern), grammar.add(follower)
                self.parts[rule] = Machine(grammar, [token]), Machine(grammar, [follow])
                last = grammar.add(follower, last)[1]
            patterns.append((first, last))
        self.machine = Machine(grammar, patterns)

    def tokens(self, text: str, stop: int) -> list[str]:
        """Return the tokens that begin before `stop`, as they are written before lower case."""
        tokens: list[str] = []
        dead_ends: set[tuple[int, int]] = set()
        position = 0
        while position < stop:
            end, rule = self.machine.longest(text, position, dead_ends)
            if rule < 0:  # white space, or a character that the tokeniser does not know
                position += 1
                continue
            if rule in self.parts:
                end = self._token_end(text, position, end, rule)
            token, n_reread = _write_token(RULES[rule][2], text[position:end])
            if token:
                tokens.append(token)
            position = end - n_reread
        return tokens

    def _token_end(self, text: str, begin: int, end: int, rule: int) -> int:
        """Return the latest place at which the token may end and its follower begin."""
        token, follower = self.parts[rule]
        places = token.ends(text, begin, end)
        return next(p for p in reversed(places) if end in follower.ends(text, p, end))


@cache
def lexer() -> Lexer:
    """Return the lexer, which is made once."""
    return Lexer()


_BRACKETS = {"(": "-LRB-", ")": "-RRB-", "{": "-LCB-", "}": "-RCB-", "[": "-LSB-", "]": "-RSB-"}
_ROUND = str.maketrans({c: _BRACKETS[c] for c in "()"})
_FRACTIONS = {"¼": "1/4", "½": "1/2", "¾": "3/4", "⅓": "1/3", "⅔": "2/3"}
_CURRENCIES = {"¢": "cents", "£": "#", "¤": "$", "€": "$", "\u20a0": "$", "\u0080": "$"}
_QUOTES = str.maketrans(
    dict.fromkeys("\u0091\u2018\u201b\u2039", "`")
    | dict.fromkeys("\u0092\u2019\u203a", "'")
    | dict.fromkeys("\u0093\u201c\u00ab", "``")
    | dict.fromkeys("\u0094\u201d\u00bb", "''")
)


def _write_token(action: str, match: str) -> tuple[str, int]:
    """Return the token that is written for a match, and the number of characters to read again."""
    match action:
        case "soft":  # a soft hyphen only shows where a line may break
            return match.replace("\u00ad", "") or "-", 0
        case "cut2" | "cut3":
            n_reread = int(action[-1])
            return match[:-n_reread], n_reread
        case "acronym":  # "U.S. The" gives "U.S." and "."; "I. The" gives "I" and "."
            return match[:-1] if len(match) == 2 else match, 1
        case "sentence":  # the full stop of "Inc." ends the sentence as well
            return match, 1
        case "blank":
            return match.replace(" ", "\u00a0"), 0
        case "phone":
            return match.replace(" ", "\u00a0").translate(_ROUND), 0
        case "face":
            return match.translate(_ROUND), 0
        case "bracket":
            return _BRACKETS[match], 0
        case "ampersand":
            return re.sub("&amp;", "&", match, flags=re.IGNORECASE), 0
        case "open":
            return match.replace("&quot;", "``").replace('"', "``").replace("'", "`"), 0
        case "close":
            plain = match.replace("&apos;", "'").replace("&quot;", "''").replace('"', "''")
            return plain.translate(_QUOTES), 0
        case "hyphens":
            return "--" if len(match) in (3, 4) else match, 0
        case "currency":
            return _CURRENCIES.get(match, match), 0
        case "fraction":
            return _FRACTIONS.get(match, match), 0
        case "keep":
            return match, 0
        case _:
            return action.removeprefix("="), 0


# Words with hyphens inside and 's behind, figures, blanks; one mark behind a word or by itself, a full
# stop by itself only at the end. There only the rules for such tokens match ...
# (No group is possessive: before 3.11.5, Python's re goes on from a wrong place where such a group fails.)
_MARKS = ",.;:!?"
_PLAIN_PIECE = re.compile(rf"(?:[A-Za-z]++(?:-[A-Za-z]++)*(?:'s)?|[0-9]++)[{_MARKS}]?+|[,;:!?]?")
# ... except for these, for abbreviations and single letters before a full stop, and for figures side by side.
_NOT_PLAIN = frozenset(
    [word + mark for word in ["cannot", *CONTRACTED] for mark in ["", *_MARKS]]
    + [re.sub(r"[\[\]]", "", w).lower() + "." for w in [*ENDING, *LEADING, *NUMBERED]]
    + [letter + "." for letter in "abcdefghijklmnopqrstuvwxyz"]
)
_FIGURES_SIDE_BY_SIDE = re.compile("[0-9] +[0-9]")
_NO_MARKS = str.maketrans("", "", _MARKS)
# The most pieces of texts whose words are remembered, and the most characters of such a piece.
_MAX_PIECES, _MAX_CHARACTERS = 100_000, 100


class _PieceWords(dict[str, "str | None"]):
    """The words of pieces of plain texts between blanks; None for a piece that is not plain."""

    def __missing__(self, piece: str) -> str | None:
        lowered = piece.lower()
        is_plain = _PLAIN_PIECE.fullmatch(piece) and lowered not in _NOT_PLAIN
        words = lowered.replace("'s", " 's").translate(_NO_MARKS) if is_plain else None
        if len(piece) <= _MAX_CHARACTERS:
            if len(self) >= _MAX_PIECES:
                self.clear()
            self[piece] = words
        return words


_words_of_piece = _PieceWords()


def plain_words(text: str) -> str | None:
    """Return the tokens of a plain text without punctuation, joined by blanks; None for other texts.

    This short cut serves most captions, and equals `tokens` and pycocoevalcap's removal.
    """
    pieces = text.rstrip(" ").split(" ")
    if pieces[-1] == ".":
        pieces.pop()
    words = [*map(_words_of_piece.__getitem__, pieces)]
    if None in words or _FIGURES_SIDE_BY_SIDE.search(text):
        return None
    return " ".join(filter(None, words))


def tokens(text: str) -> list[str]:
    """Return the tokens of one text, in lower case, as Stanford's PTBTokenizer prints them.

    Args:
        text: a caption without line ends. It is read as if a line "A" followed, since the tokeniser
            looks ahead over the line's end.
    """
    if not text.isascii():
        # As it comes out of UTF-8 with replacement and Java's UTF-16.
        units = array("H", text.encode("utf-8", "replace").decode().encode("utf-16-le"))
        text = "".join(map(chr, units)) if len(units) > len(text) else text
    raw_tokens = lexer().tokens(f"{text}\nA\n", len(text))
    return [t.lower() if t.isascii() else lower(_join_units(t)) for t in raw_tokens]


def _join_units(token: str) -> str:
    """Join UTF-16 units to characters."""
    return token.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
