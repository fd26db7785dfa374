"""Tier 2: our PTB tokens are those of Stanford's PTBTokenizer, and our grammar is the jar's own.

JFlex made the jar's lexer from a grammar: tables of states, in the class file as strings. They are
read here, without Java, and walked beside our automaton: whatever the text, both must know the same
matches. What is written for a match, and all around it, is held against the Java program's output.
"""

from __future__ import annotations

import importlib.util
import struct
import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from captau.metrics.text.java import pycocoevalcap_file
from captau.metrics.text.tokens import penn, penn_rules, ptb
from tests.conftest import AWKWARD

LEXER = "edu/stanford/nlp/process/PTBLexer.class"
#: The state that the jar's lexer begins a token in, as PTBTokenizer sets it up.
START = 2
#: What the jar does on a match, by the number of the case in its generated code, and our word for it.
#: 0 is no match; 1, 5, 7 and 23 write nothing, which to ours is no match where they take one character;
#: 5 is a line's end, and 33 happens at the end of the input alone, where a text never stands.
WRITTEN = {
    0: {None}, 1: {None}, 2: {"=<"}, 3: {"keep"}, 4: {"hyphens"}, 5: {None}, 6: {"soft"},
    7: {None, "="}, 8: {"close"}, 9: {"keep"}, 10: {"=>"}, 11: {"=--"}, 12: {"soft"},
    13: {"=..."}, 14: {"fraction"}, 15: {"currency"}, 16: {"bracket"}, 17: {"bracket"},
    18: {"bracket"}, 19: {"keep"}, 20: {"bracket"}, 21: {"bracket"}, 22: {"bracket"},
    23: {None}, 24: {"keep /"}, 25: {"keep /"}, 26: {"open /"}, 27: {"blank"}, 28: {"face"},
    29: {"soft"}, 30: {"soft /"}, 31: {"keep"}, 32: {"soft /"}, 33: {None, "keep"},
    34: {"face /"}, 35: {"open /"}, 36: {"close /"}, 37: {"ampersand"}, 39: {"blank"},
    40: {"soft /"}, 41: {"keep /"}, 42: {"cut2"}, 43: {"keep /"}, 44: {"keep /"}, 45: {"keep"},
    46: {"soft /"}, 47: {"acronym /"}, 48: {"keep /"}, 49: {"sentence /"}, 50: {"cut3"},
    51: {"ampersand /"}, 52: {"keep"}, 53: {"keep /"}, 54: {"phone"},
}  # fmt: skip
#: Where the length of the follower varies, the jar finds the token's end with a lexer of its own,
#: which begins in this state; and the same case.
OWN_END = {30: 3, 40: 5, 47: 7, 44: 9, 49: 11, 24: 13, 43: 15, 41: 16}


def constants(data: bytes) -> dict[str, str]:
    """The string constants of a Java class, by field (JVM specification, chapter 4)."""
    at, pool = 10, dict[int, bytes | int]()
    index, count = 1, struct.unpack_from(">H", data, 8)[0]
    sizes = {3: 5, 4: 5, 5: 9, 6: 9, 7: 3, 8: 3, 9: 5, 10: 5, 11: 5, 12: 5, 15: 4, 16: 3, 18: 5}
    while index < count:
        tag, size = data[at], struct.unpack_from(">H", data, at + 1)[0]
        if tag == 1:
            pool[index] = data[at + 3 : at + 3 + size]
            at += 3 + size
        else:
            if tag == 8:
                pool[index] = size
            at += sizes[tag]
        index += 2 if tag in (5, 6) else 1
    interfaces = struct.unpack_from(">H", data, at + 6)[0]
    at += 8 + 2 * interfaces
    fields, at = struct.unpack_from(">H", data, at)[0], at + 2
    found = dict[str, str]()
    for _ in range(fields):
        _, name, _, attributes = struct.unpack_from(">4H", data, at)
        at += 8
        for _ in range(attributes):
            kind, size = struct.unpack_from(">HI", data, at)
            if pool[kind] == b"ConstantValue":
                text = pool.get(pool.get(struct.unpack_from(">H", data, at + 6)[0]))
                if isinstance(text, bytes):
                    raw = text.replace(b"\xc0\x80", b"\x00")
                    found[pool[name].decode()] = raw.decode("utf-8", "surrogatepass")
            at += 6 + size
    return found


def unpacked(packed: str) -> list[int]:
    """JFlex's run lengths: how often, and what."""
    return [
        ord(value)
        for count, value in zip(packed[::2], packed[1::2], strict=True)
        for _ in range(ord(count))
    ]


class Jar:
    """The jar's automaton; -1 is the state from which nothing matches."""

    def __init__(self) -> None:
        with zipfile.ZipFile(
            pycocoevalcap_file("tokenizer", "stanford-corenlp-3.4.1.jar")
        ) as archive:
            text = constants(archive.read(LEXER))
        self.kinds = unpacked(text["ZZ_CMAP_PACKED"])
        self.actions = unpacked(text["ZZ_ACTION_PACKED_0"])
        self.attributes = unpacked(text["ZZ_ATTRIBUTE_PACKED_0"])
        rows = text["ZZ_ROWMAP_PACKED_0"]
        self.rows = [ord(a) << 16 | ord(b) for a, b in zip(rows[::2], rows[1::2], strict=True)]
        moves = sorted(
            (k for k in text if k.startswith("ZZ_TRANS_PACKED")), key=lambda k: (len(k), k)
        )
        self.moves = [value - 1 for key in moves for value in unpacked(text[key])]

    def after(self, state: int, char: str) -> int:
        return -1 if state < 0 else self.moves[self.rows[state] + self.kinds[ord(char)]]

    def ends(self, state: int) -> bool:
        return state >= 0 and bool(self.attributes[state] & 1)

    def action(self, state: int) -> int:
        return self.actions[state] if self.ends(state) else 0


@pytest.fixture(scope="module")
def theirs() -> Jar:
    return Jar()


@pytest.fixture(scope="module")
def alphabet(theirs) -> list[str]:
    """A character for each pair of their kind and ours: what neither automaton tells apart."""
    kind = penn.lexer().whole.grammar.kind
    return list({(theirs.kinds[c], kind(chr(c))): chr(c) for c in range(0x10000)}.values())


def walk(
    begin: penn.State, theirs: Jar, start: int, alphabet: list[str]
) -> Iterator[tuple[str, penn.State | None, int]]:
    """Each pair of states that some text leads to, with such a text, of one character and of more."""
    todo: list[tuple[str, penn.State | None, int]] = [("", begin, start)]
    seen = set[tuple[int, int, bool]]()
    for text, state, other in todo:
        yield text, state, other
        for char in alphabet:
            ours = None if state is None else state[char]
            pair = ours, theirs.after(other, char)
            key = id(ours), pair[1], bool(text)
            if pair != (None, -1) and key not in seen:
                seen.add(key)
                todo.append((text + char, *pair))


def test_the_tables_are_read(theirs):
    # JFlex's own figures for this lexer: states, and kinds of characters.
    assert len(theirs.kinds) == 65536
    assert len(theirs.actions) == len(theirs.attributes) == len(theirs.rows) == 4058
    assert max(theirs.rows) + max(theirs.kinds) + 1 == len(theirs.moves) == 472250


def test_the_grammar_is_the_jars(theirs, alphabet):
    """After any text, both end the same matches. Every action of the jar is met on the way."""
    met = set[int]()
    for text, state, other in walk(penn.lexer().whole.start, theirs, START, alphabet):
        how = None
        if state is not None and state.rule >= 0:
            _, follower, written = penn_rules.RULES[state.rule]
            how = f"{written} /" if follower else written
        action = theirs.action(other)
        assert how in WRITTEN[action], (text, how, action)
        assert how is not None or action in (0, 5, 33) or len(text) == 1, (text, action)
        met.add(action)
    assert met == set(WRITTEN)


def test_tokens_end_where_the_jars_do(theirs, alphabet):
    """For a follower of varying length: each token pattern is the jar's own."""
    rules = dict[int, set[int]]()
    for _, state, other in walk(penn.lexer().whole.start, theirs, START, alphabet):
        if theirs.action(other) in OWN_END:
            rules.setdefault(theirs.action(other), set()).add(state.rule)
    assert set(rules) == set(OWN_END)
    for action, numbers in rules.items():
        for number in numbers:
            token = penn.lexer().parts[number][0]
            for text, state, other in walk(token.start, theirs, OWN_END[action], alphabet):
                ours = state is not None and state.rule >= 0
                assert ours == theirs.ends(other), (text, penn_rules.RULES[number])


@pytest.fixture(scope="module")
def script():
    """`scripts/check_tokenizer.py`, which makes the awkward texts."""
    path = Path(__file__).parents[2] / "scripts" / "check_tokenizer.py"
    spec = importlib.util.spec_from_file_location("check_tokenizer", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_made_up_texts_are_tokenised_as_by_java(script):
    texts = [*AWKWARD, *script.FRAGMENTS, *islice(script.fuzz(20), 5000)]
    total, found, _ = script.differing(texts)
    assert total > 4500
    assert found == []


def test_the_comparison_sees_a_difference(script, monkeypatch):
    monkeypatch.setattr(ptb, "_caches", {})
    monkeypatch.setattr(ptb, "_words", lambda line: line)
    assert script.differing(["A dog", "a cat"])[:2] == (2, [("A dog", "A dog", "a dog")])


@pytest.mark.parametrize("name", ["flickr8k_expert", "thumb", "capeval1k", "pascal50s"])
def test_captions_are_tokenised_as_by_java(name, data_root, script):
    texts = dict.fromkeys(script.captions(name, data_root))
    total, found, _ = script.differing(list(texts)[::5])
    assert total > 400
    assert found == []
