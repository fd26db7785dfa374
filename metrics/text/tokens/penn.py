"""Penn Treebank tokens in Python: what Stanford's PTBTokenizer (CoreNLP 3.4.1) prints for a text.

The grammar is in `penn_rules.py`. Its patterns become one automaton, whose states are made when a
text first needs them, so that a text is read in time linear in its length. It reads UTF-16 units, as
Java does. How equality with the Java program was established stands in `docs/tokenizer.md`.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Sequence
from functools import cache

from .lower import lower
from .penn_rules import CONTRACTED, ENDING, LEADING, NUMBERED, PARTS, RULES, SETS

#: Builds automaton states for a part of a pattern, from a given state; returns its last state.
_Piece = Callable[[int], int]

_REPEAT = re.compile(r"\{(\d+)(?:,(\d+))?\}")
_CLASS = re.compile(r"\[\^?(?:\\u[0-9a-f]{4}|\\.|[^\]\\])*\]")
_NAME = re.compile(r"\{([a-z_]+)\}")
_CHAR = re.compile(r"\\u[0-9a-f]{4}|\\.|.")
# JFlex takes what Java's upper and lower case lead to for the same letter.
_CASES = {"s": "sS\u017f", "k": "kK\u212a", "i": "iI\u0130\u0131"}

# So many characters a state remembers: all that people write, not all there are.
_KEPT = 8192
# Each time so many characters have been read, it is looked up whether the rest is known to be vain.
_STRIDE = 64


class Grammar:
    """States and moves of all patterns: `moves[q]` are (set, next state), `jumps[q]` cost nothing."""

    def __init__(self) -> None:
        self.moves: list[list[tuple[int, int]]] = []
        self.jumps: list[list[int]] = []
        self._sets: dict[str, int] = {}
        self._tests: list[re.Pattern[str]] = []
        self._parts: dict[str, _Piece] = {}
        self._kinds: dict[str, frozenset[int]] = {}
        self._known: dict[frozenset[int], frozenset[int]] = {}

    def add(self, pattern: str, start: int | None = None) -> tuple[int, int]:
        """Add a pattern, behind a state where one is given; returns its first and last state."""
        first = self._state() if start is None else start
        return first, self._parse(pattern)(first)

    def kind(self, char: str) -> frozenset[int]:
        """The sets that hold a character; equal for all characters that no pattern tells apart."""
        if char not in self._kinds:
            held = frozenset(i for i, test in enumerate(self._tests) if test.match(char))
            self._kinds[char] = self._known.setdefault(held, held)
        return self._kinds[char]

    def _state(self) -> int:
        self.moves.append([])
        self.jumps.append([])
        return len(self.moves) - 1

    def _parse(self, pattern: str) -> _Piece:
        piece, end = self._either(pattern, 0)
        if end != len(pattern):
            raise ValueError(f"{pattern}: not understood from character {end} on")
        return piece

    def _either(self, pattern: str, i: int) -> tuple[_Piece, int]:
        options: list[_Piece] = []
        while True:
            pieces: list[_Piece] = []
            while i < len(pattern) and pattern[i] not in "|)":
                piece, i = self._atom(pattern, i)
                piece, i = self._repeated(piece, pattern, i)
                pieces.append(piece)
            options.append(_sequence(pieces))
            if pattern[i : i + 1] != "|":
                break
            i += 1

        def build(start: int) -> int:
            end = self._state()
            for option in options:
                first = self._state()
                self.jumps[start].append(first)
                self.jumps[option(first)].append(end)
            return end

        return (options[0] if len(options) == 1 else build), i

    def _atom(self, pattern: str, i: int) -> tuple[_Piece, int]:
        if pattern[i] == "(":
            piece, i = self._either(pattern, i + 1)
            return piece, i + 1
        if name := _NAME.match(pattern, i):
            if name[1] not in self._parts:
                self._parts[name[1]] = self._parse(PARTS[name[1]])
            return self._parts[name[1]], name.end()
        if characters := _CLASS.match(pattern, i):
            return self._set(characters[0]), characters.end()
        char = _CHAR.match(pattern, i)
        if char is None:
            raise ValueError(f"{pattern}: not understood from character {i} on")
        if char[0].isalpha():
            low = char[0].lower()
            return self._set(f"[{_CASES.get(low, low + low.upper())}]"), char.end()
        return self._set(char[0] if char[0].startswith("\\") else f"[{char[0]}]"), char.end()

    def _repeated(self, piece: _Piece, pattern: str, i: int) -> tuple[_Piece, int]:
        least, most = 1, 1
        if counts := _REPEAT.match(pattern, i):
            least, most, i = int(counts[1]), int(counts[2] or counts[1]), counts.end()
        elif pattern[i : i + 1] in ("?", "*", "+"):
            least, most, i = int(pattern[i] == "+"), int(pattern[i] == "?"), i + 1

        def build(start: int) -> int:
            for _ in range(least):
                start = piece(start)
            end = self._state()
            self.jumps[start].append(end)
            for _ in range(most - least):
                start = piece(start)
                self.jumps[start].append(end)
            if not most:
                self.jumps[piece(end)].append(end)
            return end

        return (piece if (least, most) == (1, 1) else build), i

    def _set(self, characters: str) -> _Piece:
        if characters not in self._sets:
            self._sets[characters] = len(self._tests)
            inside = _NAME.sub(lambda name: SETS[name[1]], characters)
            self._tests.append(re.compile(inside))
        index = self._sets[characters]

        def build(start: int) -> int:
            end = self._state()
            self.moves[start].append((index, end))
            return end

        return build


def _sequence(pieces: Sequence[_Piece]) -> _Piece:
    def build(start: int) -> int:
        for piece in pieces:
            start = piece(start)
        return start

    return pieces[0] if len(pieces) == 1 else build


class State(dict[str, "State | None"]):
    """What may match so far; under a character what may match after it, or None.

    Attributes:
        rule: the first of the patterns that match up to here; -1 where none does.
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
            self._by_kind[kind] = self._machine.after(self._items, kind)
        if len(self) == _KEPT:
            self.clear()
        state = self[char] = self._by_kind[kind]
        return state


class Machine:
    """Patterns as one automaton: its states are made when a text first leads there.

    Args:
        grammar: what holds the patterns.
        patterns: of each, in order of precedence, its first and its last state.
    """

    def __init__(self, grammar: Grammar, patterns: Sequence[tuple[int, int]]) -> None:
        self.grammar = grammar
        self._rules = {last: rule for rule, (_, last) in enumerate(patterns)}
        self._reached: dict[int, frozenset[int]] = {}
        self._states: dict[frozenset[int], State] = {}
        self.start = self._state([first for first, _ in patterns])

    def longest(self, text: str, begin: int, vain: set[tuple[int, int]]) -> tuple[int, int]:
        """The end of the longest match that begins at `begin`, and its rule; -1 where there is none.

        `vain` collects the states at places of this text from which no further match was found.
        With it the time is linear in the text, however far each token looks ahead.
        """
        state: State | None = self.start
        end, rule, place = begin, -1, begin
        passed: list[tuple[int, int]] = []
        while place < len(text):
            stop = (place // _STRIDE + 1) * _STRIDE
            for place, char in enumerate(text[place:stop], place + 1):  # noqa: B020
                state = state[char]
                if state is None:
                    break
                if state.rule >= 0:
                    end, rule = place, state.rule
            if state is None or (id(state), place) in vain:
                break
            passed.append((id(state), place))
        vain.update(step for step in passed if step[1] >= end)
        return end, rule

    def ends(self, text: str, begin: int, stop: int) -> list[int]:
        """All places up to `stop` where a match that begins at `begin` ends."""
        state: State | None = self.start
        found: list[int] = []
        for place in range(begin, stop):
            state = state[text[place]]
            if state is None:
                break
            if state.rule >= 0:
                found.append(place + 1)
        return found

    def after(self, items: frozenset[int], kind: frozenset[int]) -> State | None:
        """The state that a character of this kind leads to."""
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
        """What a state reaches without a character, as far as it leads on or ends a pattern."""
        if root not in self._reached:
            seen, todo = {root}, [root]
            while todo:
                new = [q for q in self.grammar.jumps[todo.pop()] if q not in seen]
                seen.update(new)
                todo += new
            self._reached[root] = frozenset(
                q for q in seen if self.grammar.moves[q] or q in self._rules
            )
        return self._reached[root]


class Lexer:
    """All rules: what matches, how much of it is the token, and what is written for it."""

    def __init__(self) -> None:
        grammar = Grammar()
        whole: list[tuple[int, int]] = []
        #: For a rule with a follower: the token's own automaton, and the follower's.
        self.parts: dict[int, tuple[Machine, Machine]] = {}
        for rule, (pattern, follower, _) in enumerate(RULES):
            first, last = grammar.add(pattern)
            if follower:
                alone = [grammar.add(part) for part in (pattern, follower)]
                self.parts[rule] = Machine(grammar, alone[:1]), Machine(grammar, alone[1:])
                last = grammar.add(follower, last)[1]
            whole.append((first, last))
        self.whole = Machine(grammar, whole)

    def tokens(self, text: str, stop: int) -> list[str]:
        """The tokens that begin before `stop`, as they are written, before lower case."""
        found: list[str] = []
        vain: set[tuple[int, int]] = set()
        place = 0
        while place < stop:
            end, rule = self.whole.longest(text, place, vain)
            if rule < 0:  # white space, or what the tokeniser knows nothing of
                place += 1
                continue
            if rule in self.parts:
                end = self._own_end(text, place, end, rule)
            token, back = _written(RULES[rule][2], text[place:end])
            if token:
                found.append(token)
            place = end - back
        return found

    def _own_end(self, text: str, begin: int, end: int, rule: int) -> int:
        """Where the token ends and its follower begins: as late as can be."""
        token, follower = self.parts[rule]
        places = token.ends(text, begin, end)
        return next(p for p in reversed(places) if end in follower.ends(text, p, end))


@cache
def lexer() -> Lexer:
    """The one lexer, made when it is first needed."""
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


def _written(how: str, match: str) -> tuple[str, int]:
    """The token that is written for a match, and how many characters are read once more."""
    match how:
        case "soft":  # a soft hyphen only shows where a line may break
            return match.replace("\u00ad", "") or "-", 0
        case "cut2" | "cut3":
            back = int(how[-1])
            return match[:-back], back
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
            return how.removeprefix("="), 0


# Words with hyphens within and 's behind, figures, blanks; one mark behind a word or by itself, a full
# stop by itself at the end alone. Of all rules only those for such tokens match there ...
_WORD = "[A-Za-z]++(?:-[A-Za-z]++)*+(?:'s)?+"
_FIGURES = "[0-9]++(?! +[0-9])"
_MARKS = ",.;:!?"
_PLAIN = re.compile(
    rf" *+(?:(?:(?:{_WORD}|{_FIGURES})[{_MARKS}]?+|[,;:!?])(?: ++|\Z))*+(?:\. *+)?+"
)
# ... except for these, and for abbreviations and single letters before a full stop.
_NOT_PLAIN = frozenset(
    [word + mark for word in ["cannot", *CONTRACTED] for mark in ["", *_MARKS]]
    + [re.sub(r"[\[\]]", "", w).lower() + "." for w in [*ENDING, *LEADING, *NUMBERED]]
    + [letter + "." for letter in "abcdefghijklmnopqrstuvwxyz"]
)
_NO_MARKS = str.maketrans("", "", _MARKS)


def plain_words(text: str) -> str | None:
    """The tokens of a plain text without punctuation, joined by blanks; None where it is not plain.

    A short cut for most captions, equal to what `tokens` and pycocoevalcap's removal give.
    """
    if not _PLAIN.fullmatch(text):
        return None
    text = text.lower()
    if not _NOT_PLAIN.isdisjoint(text.split()):
        return None
    return " ".join(text.replace("'s", " 's").translate(_NO_MARKS).split())


def tokens(text: str) -> list[str]:
    """The tokens of one text, in lower case, as Stanford's PTBTokenizer prints them.

    Args:
        text: a caption without line ends. It is read as if a line "A" followed, for the tokeniser
            looks ahead over the line's end.
    """
    if not text.isascii():
        # As UTF-8 with replacement and Java's UTF-16 make of it.
        units = array("H", text.encode("utf-8", "replace").decode().encode("utf-16-le"))
        text = "".join(map(chr, units)) if len(units) > len(text) else text
    found = lexer().tokens(f"{text}\nA\n", len(text))
    return [token.lower() if token.isascii() else lower(_joined(token)) for token in found]


def _joined(token: str) -> str:
    """UTF-16 units as characters."""
    return token.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
