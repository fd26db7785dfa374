"""Penn Treebank tokens by our own rules: worked by hand, laws, and the short cut's proof."""

from __future__ import annotations

import itertools
import re
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captau.metrics.text.tokens import penn, penn_rules, ptb
from captau.metrics.text.tokens.penn import lower
from tests.conftest import AWKWARD

#: Worked by hand after the Treebank's rules and the tokeniser's documented ways; a blank between tokens.
TOKENS = [
    ("A dog.", "a dog ."),
    # Contractions and possessives.
    ("don't can't won't cannot", "do n't ca n't wo n't can not"),
    ("it's the dogs' DOG'S they're I'd", "it 's the dogs ' dog 's they 're i 'd"),
    ("gonna gotta lemme gimme wanna gonnas", "gon na got ta lem me gim me wan na gonnas"),
    ("'tis 'twas d'ye o'clock y'all", "'t is 't was d'ye o'clock y' all"),
    ("MARIO'S O'Neill rock'n'roll", "mario 's o'neill rock 'n' roll"),
    # Abbreviations; behind some the sentence ends as well, the text's end being an end.
    ("Mr. Smith of Acme Inc. sold it", "mr. smith of acme inc. sold it"),
    ("dogs etc.", "dogs etc. ."),
    ("in Jan. It snowed", "in jan. . it snowed"),
    ("in the U.S. The dog", "in the u.s. . the dog"),
    ("and I. The dog", "and i . the dog"),
    ("No. 5 and no.", "no. 5 and no ."),
    ("Pty. Ltd", "pty. ltd"),
    # Numbers, dates, money, telephones.
    ("3,000.50 12:30 -5 1950s 2nd", "3,000.50 12:30 -5 1950s 2nd"),
    ("10/12/1999 1/2 ½ 3 1/2", "10/12/1999 1/2 1/2 3\u00a01/2"),
    ("$5 US$5 £5 5¢ €5 ¥5", "$ 5 us$ 5 # 5 5 cents $ 5 ¥ 5"),
    ("(617) 555-1212", "-lrb-617-rrb-\u00a0555-1212"),
    # The net.
    ("see http://a.b/c?d=1. www.x.com/yz", "see http://a.b/c?d=1 . www.x.com/yz"),
    ("x@y.org @user #tag #1", "x@y.org @user #tag # 1"),
    ("file.txt, b", "file.txt , b"),
    (":) :-( :D (^_^)", ":-rrb- :--lrb- :d -lrb-^_^-rrb-"),
    ("<b>dog</b> <a href='x y'>", "<b> dog </b> <a\u00a0href='x\u00a0y'>"),
    ("AT&amp;T R&D &lt;3 &quot;x&quot; a&nbsp;b", "at&t r&d < 3 `` x '' a b"),
    # Hyphens, dashes, dots, slashes, quotes, brackets.
    ("black-and-white pro-life and/or", "black-and-white pro-life and/or"),
    ("a -- b --- c ---- d ----- e – f", "a -- b -- c -- d ----- e -- f"),
    ("dogs... b . . . c …", "dogs ... b ... c ..."),
    ("\"dog\" 'dog' “dog” ‘dog’ «dog»", "`` dog '' ` dog ' `` dog '' ` dog ' `` dog ''"),
    ("(a) [b] {c} <d", "-lrb- a -rrb- -lsb- b -rsb- -lcb- c -rcb- < d"),
    ("dog.cat what?! a,b", "dog.cat what ?! a , b"),
    # Beyond ASCII. Characters that the tokeniser does not know are left out.
    ("so\u00adft \u00ad na\u00efve İstanbul", "soft - naïve i̇stanbul"),
    ("ΟΔΟΣ ΑΣ-Α Σ", "οδος ασ-α σ"),
    ("狗 🐕 dog\u200b \u0001x\ufeff e\u0301", "狗 dog x e\u0301"),
]


@pytest.mark.parametrize(("text", "tokens"), TOKENS)
def test_tokens_worked_by_hand(text, tokens):
    assert penn.tokens(text) == tokens.split(" ")


# Laws

#: The first text makes the automaton's states, which takes longer than all others.
no_deadline = settings(deadline=None)

FRAGMENTS = """
A a dog cannot Mr. etc. U.S. The No. 5 1/2 $5 ' 's n't " ( ) :) . ... - -- & &amp; < > <b> @ # / , ; ? !
x@y.z www.x.com é Σ \xad 🐕 狗 \u200b gonna 555 1212
"""
fragments = st.sampled_from([*FRAGMENTS.split(), "\u00a0"])
texts = st.lists(st.one_of(fragments, st.text(max_size=3)), max_size=12).flatmap(
    lambda parts: st.sampled_from(["", " "]).map(lambda glue: glue.join(parts))
)
plain_texts = st.from_regex(
    re.compile(r"( ?([A-Za-z]{1,6}(-[a-z]{1,5})?('s)?|[0-9]{1,5}|gonna|Mr|vs)[,.;:!?]?){0,8}"),
    fullmatch=True,
)


def in_one_line(text):
    """Return a text with blanks in place of line ends, as it reaches the tokeniser."""
    return ptb.LINE_ENDS.sub(" ", text)


@no_deadline
@given(texts)
def test_a_token_has_no_blank_and_no_line_end(text):
    for token in penn.tokens(in_one_line(text)):
        assert token
        assert not set(token) & set(" \n\r")


@no_deadline
@given(texts)
def test_tokens_are_no_longer_than_the_text_allows(text):
    # The widest: "…" is "...", "¢" is "cents", brackets are five; a full stop may be written twice.
    assert sum(map(len, penn.tokens(in_one_line(text)))) <= 6 * len(text)


@no_deadline
@given(texts, texts)
def test_a_blank_separates_texts_that_no_rule_joins(first, second):
    """Behind a word without a full stop, figures or marks, a new text begins."""
    before = penn.tokens(in_one_line(first) + " , dog")
    text = in_one_line(second).lstrip()
    both = penn.tokens(in_one_line(first) + " , dog " + text)
    if "<" not in first and "[^x=" not in first:  # a tag may hold anything
        assert both == before + penn.tokens(text)


@no_deadline
@given(st.one_of(texts, plain_texts))
def test_the_short_cut_equals_the_rules(text):
    words = penn.plain_words(text)
    assert words is None or words == ptb.tokenize_by_rules(text)


@no_deadline
@given(plain_texts)
def test_plain_tokens_are_tokenised_to_themselves(text):
    """Tokenising the tokens of a plain text anew changes nothing, but that figures may join."""
    words = penn.plain_words(text)
    if words is not None and "'s" not in words:
        assert penn.plain_words(words) in (words, None)
        assert re.search("[0-9] [0-9]", words) or ptb.tokenize_by_rules(words) == words


@pytest.mark.parametrize("text", AWKWARD)
def test_the_short_cut_equals_the_rules_on_awkward_texts(text):
    assert ptb.tokenize([text]) == [ptb.tokenize_by_rules(text)]


def test_ordinary_captions_take_the_short_cut():
    for text in ["A dog's ball, red and 5 cm wide: it bounces.", "Two black-and-white dogs .", ""]:
        assert penn.plain_words(text) is not None
    for text in ["I cannot", "Mr. Dog", "a t.", "5 000", "it's the dogs'", "a . . . b", "é"]:
        assert penn.plain_words(text) is None


def test_the_short_cut_remembers_neither_long_words_nor_ever_more_words(monkeypatch):
    """A caption of 100,000 letters stays no longer in memory than its caller keeps it."""
    remembered = penn.PieceWords()
    monkeypatch.setattr(penn, "_words_of_piece", remembered)
    monkeypatch.setattr(penn, "_MAX_PIECES", 3)
    long_words = ["a" * 100_000, "é" * 100_000]
    assert [penn.plain_words(word) for word in long_words] == [long_words[0], None]
    assert not remembered
    assert penn.plain_words("one two three four five") == "one two three four five"
    assert len(remembered) <= 3


# The short cut's proof. A plain text is read letter by letter beside the rules' automaton, from each
# place where a token of it may begin: whatever text follows, the rules' longest match must be that
# very token, or the word is in `penn.NOT_PLAIN`.

#: The moves that `penn.plain_words` allows: from a place, by a kind of character, to a place. W is in a word,
#: H behind its hyphen, A behind its apostrophe, S behind 's, N in figures, M behind a mark, F behind a
#: last full stop, B behind blanks, C behind figures and blanks; L, T and E are the line "A" that follows.
MOVES = {
    "W": {"a": "W", "s": "W", "-": "H", "'": "A", ".": "M", ",": "M", " ": "B", "\n": "L"},
    "H": {"a": "W", "s": "W"},
    "A": {"s": "S"},
    "S": {".": "M", ",": "M", " ": "B", "\n": "L"},
    "N": {"0": "N", ".": "M", ",": "M", " ": "C", "\n": "L"},
    "M": {" ": "B", "\n": "L"},
    "F": {" ": "F", "\n": "L"},
    "B": {"a": "W", "s": "W", "0": "N", ".": "F", ",": "M", " ": "B", "\n": "L"},
    "C": {"a": "W", "s": "W", ".": "F", ",": "M", " ": "C", "\n": "L"},
    "L": {"A": "T"},
    "T": {"\n": "E"},
    "E": {},
}
#: By the token's first character: the places that belong to it, where it may begin, and its actions.
BEGINNINGS = {
    "a": ("WH", "B", {"keep", "soft", "ampersand"}),
    "s": ("WH", "B", {"keep", "soft", "ampersand"}),
    "0": ("N", "B", {"keep", "soft"}),
    "'": ("AS", "W", {"close"}),
    ".": ("", "WSNBC", {"keep"}),
    ",": ("", "WSNBC", {"keep"}),
}
KINDS = dict.fromkeys(string.ascii_letters, "a") | dict.fromkeys(string.digits, "0")
KINDS |= dict.fromkeys(",;:!?", ",") | {c: c for c in "s-'. \n"}
#: White space of all kinds; where a line ends within a text, a blank stands before the rules read it.
BLANKS = [c for c in map(chr, range(0x11000)) if c.isspace() and not ptb.LINE_ENDS.match(c)]
KINDS |= dict.fromkeys(BLANKS, " ")


def moves_from(place: str) -> list[tuple[str, str]]:
    """List the characters that may follow, each with its place."""
    if place in "LT":
        return list(MOVES[place].items())
    return [(c, MOVES[place][kind]) for c, kind in KINDS.items() if kind in MOVES[place]]


@pytest.mark.parametrize("first", BEGINNINGS)
def test_the_rules_agree_with_the_short_cut_on_every_plain_text(first):
    lexer = penn.lexer()
    inside, begins, actions = BEGINNINGS[first]
    prefixes = {word[:n] for word in penn.NOT_PLAIN for n in range(len(word) + 1)}
    # For each text: the length of the token, the place in the plain text, the rules' state, the word up
    # to here as long as it may be in NOT_PLAIN, then whether it is, and whether the longest match
    # so far is the token.
    pending = [
        ("", 0, place, lexer.machine.start, "" if place == "B" else None, True) for place in begins
    ]
    visited, excluded_words = set(), set()
    for text, length, place, state, word, was_match in pending:
        for char, next_place in moves_from(place):
            if not text and KINDS.get(char) != first:
                continue
            is_in_token = not text or (length == len(text) and next_place in inside)
            next_length = length + is_in_token
            next_state = None if state is None else state[char]
            is_match = was_match and not is_in_token
            if next_state is not None and next_state.rule >= 0:
                end = len(text) + 1
                if next_state.rule in lexer.parts:
                    end = lexer.find_token_end(text + char, 0, end, next_state.rule)
                action = penn_rules.RULES[next_state.rule][2]
                is_match = end == next_length and action in actions
            next_word = word
            if isinstance(word, str) and next_place in "BCFL":
                next_word = word in penn.NOT_PLAIN
                if next_word and not is_match:
                    excluded_words.add(word)
            elif isinstance(word, str):
                next_word = word + char.lower() if word + char.lower() in prefixes else None
            key = (id(next_state), next_place, is_in_token, next_word, is_match)
            if next_place == "E" or (next_state is None and not isinstance(next_word, str)):
                # Nothing more can match.
                assert is_match or next_word is True, text + char
            elif key not in visited:
                visited.add(key)
                pending.append(
                    (text + char, next_length, next_place, next_state, next_word, is_match)
                )
    assert bool(excluded_words) == (first in "as")


def test_the_moves_of_the_proof_allow_the_short_cuts_texts():
    """`MOVES` allows the texts that `penn.plain_words` does, tried on all short ones."""
    for size in range(7):
        for text in map("".join, itertools.product("as0-'., ", repeat=size)):
            place = "B"
            for char in text + "\n":
                place = MOVES[place].get(char, "")
                if not place:
                    break
            is_allowed = bool(place) and penn.NOT_PLAIN.isdisjoint(text.split())
            assert is_allowed == (penn.plain_words(text) is not None), text


#: Worked by hand from the rules of Java's BreakIterator: a small sigma is final if a letter with a
#: case is before it in its word and none behind.
SIGMAS = [
    ("ΟΔΟΣ", "οδος"),
    ("ΣΑΣ", "σας"),
    ("Σ", "σ"),
    ("ΑΣ-Α", "ασ-α"),  # a hyphen stands within the word
    ("ΑΣ,Α", "ας,α"),
    ("ΑΣ/ΣΑΣ", "ας/σας"),
    ("ΑΣ--Α", "ας--α"),  # two marks in a row end it
    ("ΑΣ5Α", "ασ5α"),
    ("5Σ", "5σ"),
    ("Α5Σ", "α5ς"),
    ("ΑΣ\u0345", "ασ\u0345"),  # an iota below has a case
    ("ΑΣ\u0301", "ας\u0301"),
    ("ΑΣ漢Α", "ας漢α"),
    ("ΑΣ\x01Α", "ας\x01α"),  # a control character ends it, a soft hyphen is overlooked
    ("ΑΣ\xadΑ", "ασ\xadα"),
    ("Α𝒜Σ", "α𝒜σ"),  # behind the second plane Java sees the word end
    ("𝒜Σ", "𝒜ς"),
]


@pytest.mark.parametrize(("text", "expected"), SIGMAS)
def test_sigmas_worked_by_hand(text, expected):
    assert lower(text) == expected


def test_letters_of_unicode_16_are_known():
    # Unicode 16's own table: UnicodeData.txt, simple lower case mapping.
    assert lower("\u1c89\ua7cb\ua7da\U00010d50") == "\u1c8a\u0264\ua7db\U00010d70"
    assert lower("\ua7cc\ua7dc\U00010d65") == "\ua7cd\u019b\U00010d85"


@given(st.text(st.characters(max_codepoint=0x1C00)).filter(lambda text: "Σ" not in text))
def test_text_without_sigmas_is_lowered_as_in_python(text):
    assert lower(text) == text.lower()


@given(st.lists(st.text("ΑΒΣαβς", min_size=1)).map(" ".join))
def test_greek_words_are_lowered_as_in_python(text):
    assert lower(text) == text.lower()


def test_the_capitals_of_unicode_16_have_their_small_letters():
    """The Garay letters, U+10D50 to U+10D65, as the Unicode standard lists them, and their neighbours."""
    letters = "".join(map(chr, range(0x10D4F, 0x10D67)))
    small = "".join(map(chr, range(0x10D70, 0x10D86)))
    assert lower(letters) == f"\U00010d4f{small}\U00010d66"
    assert lower("\u1c88\u1c89\ua7ca\ua7cb\ua7cc\ua7da\ua7dc") == (
        "\u1c88\u1c8a\ua7ca\u0264\ua7cd\ua7db\u019b"
    )


def test_half_characters_are_read_as_question_marks():
    """As they leave Python for Java, whatever else the text has."""
    assert penn.tokens("a\ud800b") == ["a?b"]
    assert penn.tokens("🐕 a\ud800b") == ["a?b"]
    assert penn.tokens("é \udc00") == ["é", "?"]
