"""Penn Treebank tokens by our own rules: worked by hand, laws, and the short cut's proof."""

from __future__ import annotations

import itertools
import re
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captau.metrics.text.tokens import penn, penn_rules, ptb
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
    ("a -- b --- c ----- d – e", "a -- b -- c ----- d -- e"),
    ("dogs... b . . . c …", "dogs ... b ... c ..."),
    ("\"dog\" 'dog' “dog” ‘dog’ «dog»", "`` dog '' ` dog ' `` dog '' ` dog ' `` dog ''"),
    ("(a) [b] {c} <d", "-lrb- a -rrb- -lsb- b -rsb- -lcb- c -rcb- < d"),
    ("dog.cat what?! a,b", "dog.cat what ?! a , b"),
    # Beyond ASCII. What the tokeniser does not know is left out.
    ("so\u00adft \u00ad na\u00efve İstanbul", "soft - naïve i̇stanbul"),
    ("ΟΔΟΣ ΑΣ-Α Σ", "οδος ασ-α σ"),
    ("狗 🐕 dog\u200b \u0001x\ufeff e\u0301", "狗 dog x e\u0301"),
]


@pytest.mark.parametrize(("text", "tokens"), TOKENS)
def test_tokens(text, tokens):
    assert penn.tokens(text) == tokens.split(" ")


# Laws

#: The first text makes the automaton's states, which takes longer than all others.
patient = settings(deadline=None)

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


@patient
@given(texts)
def test_a_token_holds_no_blank_and_no_line_end(text):
    for token in penn.tokens(ptb._LINE_ENDS.sub(" ", text)):
        assert token
        assert not set(token) & set(" \n\r")


@patient
@given(texts)
def test_tokens_are_no_longer_than_the_text_allows(text):
    # The widest: "…" is "...", "¢" is "cents", brackets are five; full stops may be told twice.
    assert sum(map(len, penn.tokens(ptb._LINE_ENDS.sub(" ", text)))) <= 6 * len(text)


@patient
@given(texts, texts)
def test_a_blank_parts_what_no_rule_joins(first, second):
    """Behind a word without a full stop, figures or marks, a new text begins."""
    before = penn.tokens(ptb._LINE_ENDS.sub(" ", first) + " , dog")
    text = ptb._LINE_ENDS.sub(" ", second).lstrip()
    both = penn.tokens(ptb._LINE_ENDS.sub(" ", first) + " , dog " + text)
    if "<" not in first and "[^x=" not in first:  # a tag may hold anything
        assert both == before + penn.tokens(text)


@patient
@given(st.one_of(texts, plain_texts))
def test_both_paths_are_one(text):
    words = penn.plain_words(text)
    assert words is None or words == ptb.tokenize_by_rules(text)


@patient
@given(plain_texts)
def test_plain_tokens_stay_as_they_are(text):
    """Tokenising the tokens of a plain text anew changes nothing, but that figures may join."""
    words = penn.plain_words(text)
    if words is not None and "'s" not in words:
        assert penn.plain_words(words) in (words, None)
        assert re.search("[0-9] [0-9]", words) or ptb.tokenize_by_rules(words) == words


@pytest.mark.parametrize("text", AWKWARD)
def test_both_paths_are_one_on_awkward_texts(text):
    assert ptb.tokenize([text]) == [ptb.tokenize_by_rules(text)]


def test_ordinary_captions_take_the_short_cut():
    for text in ["A dog's ball, red and 5 cm wide: it bounces.", "Two black-and-white dogs .", ""]:
        assert penn.plain_words(text) is not None
    for text in ["I cannot", "Mr. Dog", "a t.", "5 000", "it's the dogs'", "a . . . b", "é"]:
        assert penn.plain_words(text) is None


# The short cut's proof. A plain text is read letter by letter beside the rules' automaton, from each
# place where a token of it may begin: whatever text follows, the rules' longest match must be that
# very token, or the word one that `penn._NOT_PLAIN` turns away.

#: Where a plain text may go on, as `penn._PLAIN` allows: from a place, by a kind of character, to a
#: place. W in a word, H behind its hyphen, A behind its apostrophe, S behind 's, N in figures, M behind
#: a mark, F behind a last full stop, B behind blanks, C behind figures and blanks; then the line "A".
ONWARD = {
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
#: By the token's first character: the places that belong to it, where it may begin, what is written.
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


def onward(place: str) -> list[tuple[str, str]]:
    if place in "LT":
        return list(ONWARD[place].items())
    return [(c, ONWARD[place][kind]) for c, kind in KINDS.items() if kind in ONWARD[place]]


@pytest.mark.parametrize("first", BEGINNINGS)
def test_the_short_cut_is_safe(first):
    lexer = penn.lexer()
    inside, begins, written = BEGINNINGS[first]
    prefixes = {word[:n] for word in penn._NOT_PLAIN for n in range(len(word) + 1)}
    # Of each text: how much of it is the token; where the plain text stands; the rules' state; the
    # word as blanks part it, as long as it may be one to turn away, then whether it is; and whether
    # the longest match so far is the token.
    todo = [
        ("", 0, place, lexer.whole.start, "" if place == "B" else None, True) for place in begins
    ]
    seen, turned_away = set(), set()
    for text, length, place, state, word, good in todo:
        for char, after in onward(place):
            if not text and KINDS.get(char) != first:
                continue
            own = not text or (length == len(text) and after in inside)
            size = length + own
            state_after = None if state is None else state[char]
            right = good and not own
            if state_after is not None and state_after.rule >= 0:
                end = len(text) + 1
                if state_after.rule in lexer.parts:
                    end = lexer._own_end(text + char, 0, end, state_after.rule)
                right = end == size and penn_rules.RULES[state_after.rule][2] in written
            told = word
            if isinstance(word, str) and after in "BCFL":
                told = word in penn._NOT_PLAIN
                if told and not right:
                    turned_away.add(word)
            elif isinstance(word, str):
                told = word + char.lower() if word + char.lower() in prefixes else None
            if after == "E" or (state_after is None and not isinstance(told, str)):
                # Nothing more can match.
                assert right or told is True, text + char
            elif (key := (id(state_after), after, own, told, right)) not in seen:
                seen.add(key)
                todo.append((text + char, size, after, state_after, told, right))
    assert bool(turned_away) == (first in "as")


def test_the_short_cuts_places_are_its_patterns():
    """`ONWARD` allows the texts that `penn._PLAIN` does, tried on all short ones."""
    some = "as0-'., "
    for size in range(7):
        for text in map("".join, itertools.product(some, repeat=size)):
            place = "B"
            for char in text + "\n":
                place = ONWARD[place].get(char, "")
                if not place:
                    break
            assert bool(place) == bool(penn._PLAIN.fullmatch(text)), text
