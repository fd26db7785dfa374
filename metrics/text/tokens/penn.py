"""Penn Treebank tokens in Python, as Stanford's PTBTokenizer (CoreNLP 3.4.1) prints them.

The grammar is in `penn_rules`, the automaton that reads it in `automaton`. Texts are read in UTF-16 units, as in Java. `docs/tokenizer.md` describes the evidence that the tokens equal the Java program's.

Lower case is Java 25's (`String.toLowerCase(Locale.ENGLISH)`). It differs from Python's in one letter: the small form of a
capital sigma that ends its word. Unicode looks for the next letter with a case; Java looks no further than its
`BreakIterator` says that the word reaches. The letters of Unicode 16, Java 25's, are added for older versions of Python.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from functools import cache

from .automaton import Grammar, Machine
from .penn_rules import CONTRACTED, ENDING, LEADING, NUMBERED, RULES

# Characters that Java treats as cased beside upper, lower and title case letters.
_CASED = re.compile(
    "[\u02b0-\u02b8\u02c0\u02c1\u02e0-\u02e4\u0345\u037a\u1d2c-\u1d61\u2160-\u217f\u24b6-\u24e9]"
)
# Capitals of Unicode 16, and their small letters.
_NEW_CASES = {
    0x1C89: 0x1C8A,
    0xA7CB: 0x264,
    0xA7CC: 0xA7CD,
    0xA7DA: 0xA7DB,
    0xA7DC: 0x19B,
} | {capital: capital + 0x20 for capital in range(0x10D50, 0x10D66)}
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
    if "Σ" in text:
        text = _with_small_sigmas(text)
    return text.lower().translate(_NEW_CASES)


def _with_small_sigmas(text: str) -> str:
    kinds: list[tuple[int, str]] = []
    for i, char in enumerate(text):
        if kind := _kind(char):
            kinds.append((i, kind))

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
            # The last letter of several; a capital sigma by itself stays in the middle form.
            is_last = i == cased[-1] and i != cased[0]
            characters[i] = "ς" if is_last else "σ"


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
                # Apart from each other, to find where the token ends and what follows begins.
                token = grammar.add(pattern)
                follow = grammar.add(follower)
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
                end = self.find_token_end(text, position, end, rule)
            token, n_reread = _write_token(RULES[rule][2], text[position:end])
            if token:
                tokens.append(token)
            position = end - n_reread

        return tokens

    def find_token_end(self, text: str, begin: int, end: int, rule: int) -> int:
        """Return the latest place at which the token may end and its follower begin."""
        token, follower = self.parts[rule]
        places = token.ends(text, begin, end)
        return next(stop for stop in reversed(places) if end in follower.ends(text, stop, end))


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
NOT_PLAIN = frozenset(
    [word + mark for word in ("cannot", *CONTRACTED) for mark in ("", *_MARKS)]
    + [re.sub(r"[\[\]]", "", word).lower() + "." for word in (*ENDING, *LEADING, *NUMBERED)]
    + [letter + "." for letter in "abcdefghijklmnopqrstuvwxyz"]
)
_FIGURES_SIDE_BY_SIDE = re.compile(r"[0-9]\s+[0-9]")
_NO_MARKS = str.maketrans("", "", _MARKS)
#: Stands for the words of a piece that is not plain, and is found in the joined words: no word has a line end.
NO_WORDS = "\n"
# The most pieces of texts whose words are remembered, and the most characters of such a piece.
_MAX_PIECES = 100_000
_MAX_CHARACTERS = 100


class PieceWords(dict[str, str]):
    """The words of pieces of plain texts between blanks; `NO_WORDS` for a piece that is not plain."""

    def __missing__(self, piece: str) -> str:
        lowered = piece.lower()
        is_plain = _PLAIN_PIECE.fullmatch(piece) and lowered not in NOT_PLAIN
        words = lowered.replace("'s", " 's").translate(_NO_MARKS) if is_plain else NO_WORDS

        if len(piece) <= _MAX_CHARACTERS:
            if len(self) >= _MAX_PIECES:
                self.clear()
            self[piece] = words
        return words


_words_of_piece = PieceWords()


def plain_words(text: str) -> str | None:
    """Return the tokens of a plain text without punctuation, joined by blanks; None for other texts.

    This short cut serves most captions, and gives what `tokens` and pycocoevalcap's removal of punctuation do. White space of
    every kind counts as a blank, so that line ends need not be replaced first, as they are for `tokens`.
    """
    pieces = text.split()
    if pieces and pieces[-1] == ".":
        pieces.pop()

    # A mark by itself has no words.
    words = " ".join(filter(None, map(_words_of_piece.__getitem__, pieces)))
    if NO_WORDS in words or _FIGURES_SIDE_BY_SIDE.search(text):
        return None
    return words


def tokens(text: str) -> list[str]:
    """Return the tokens of one text, in lower case, as Stanford's PTBTokenizer prints them.

    Args:
        text: a caption without line ends. It is read as if a line "A" followed, since the tokeniser
            looks ahead over the line's end.
    """
    if not text.isascii():
        # As it comes out of UTF-8 with replacement and Java's UTF-16.
        units = array("H", text.encode("utf-8", "replace").decode().encode("utf-16-le"))
        text = "".join(map(chr, units))

    lowered: list[str] = []
    for token in lexer().tokens(f"{text}\nA\n", len(text)):
        lowered.append(token.lower() if token.isascii() else lower(_join_units(token)))
    return lowered


def _join_units(token: str) -> str:
    """Join UTF-16 units to characters."""
    return token.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
