"""Tier 2: our PTB tokens equal those of Stanford's PTBTokenizer, and our grammar the jar's.

JFlex made the jar's lexer from a grammar: tables of states, which the class file has as strings. They are
read here, without Java, and walked beside our automaton: whatever the text, both must have the same
matches. The tokens that are written for them are compared with the Java program's output.
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
from captau.metrics.text.tokens import automaton, penn, penn_rules, ptb
from tests.conftest import AWKWARD

LEXER = "edu/stanford/nlp/process/PTBLexer.class"
#: The state that the jar's lexer begins a token in, as PTBTokenizer sets it up.
START = 2
#: The jar's actions on a match, by the number of the case in its generated code, as our actions.
#: 0 is no match; 1, 5, 7 and 23 write nothing, which is no match in ours if they take one character;
#: 5 is a line's end, and 33 only happens at the end of the input, where no text ever is.
ACTIONS = {
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
#: Actions of rules whose follower varies in length: the jar finds the token's end with a second lexer,
#: which begins in this state.
END_LEXERS = {30: 3, 40: 5, 47: 7, 44: 9, 49: 11, 24: 13, 43: 15, 41: 16}


def read_constants(data: bytes) -> dict[str, str]:
    """Read the string constants of a Java class, by field (JVM specification, chapter 4)."""
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
    constants = dict[str, str]()
    for _ in range(fields):
        _, name, _, attributes = struct.unpack_from(">4H", data, at)
        at += 8
        for _ in range(attributes):
            kind, size = struct.unpack_from(">HI", data, at)
            if pool[kind] == b"ConstantValue":
                text = pool.get(pool.get(struct.unpack_from(">H", data, at + 6)[0]))
                if isinstance(text, bytes):
                    raw = text.replace(b"\xc0\x80", b"\x00")
                    constants[pool[name].decode()] = raw.decode("utf-8", "surrogatepass")
            at += 6 + size
    return constants


def unpack(packed: str) -> list[int]:
    """Unpack JFlex's run lengths: pairs of a count and a value."""
    return [
        ord(value)
        for count, value in zip(packed[::2], packed[1::2], strict=True)
        for _ in range(ord(count))
    ]


class JarAutomaton:
    """The jar's automaton; -1 is the state from which nothing matches."""

    def __init__(self) -> None:
        with zipfile.ZipFile(
            pycocoevalcap_file("tokenizer", "stanford-corenlp-3.4.1.jar")
        ) as archive:
            text = read_constants(archive.read(LEXER))
        self.kinds = unpack(text["ZZ_CMAP_PACKED"])
        self.actions = unpack(text["ZZ_ACTION_PACKED_0"])
        self.attributes = unpack(text["ZZ_ATTRIBUTE_PACKED_0"])
        rows = text["ZZ_ROWMAP_PACKED_0"]
        self.rows = [ord(a) << 16 | ord(b) for a, b in zip(rows[::2], rows[1::2], strict=True)]
        moves = sorted(
            (k for k in text if k.startswith("ZZ_TRANS_PACKED")), key=lambda k: (len(k), k)
        )
        self.moves = [value - 1 for key in moves for value in unpack(text[key])]

    def next_state(self, state: int, char: str) -> int:
        return -1 if state < 0 else self.moves[self.rows[state] + self.kinds[ord(char)]]

    def is_end(self, state: int) -> bool:
        return state >= 0 and bool(self.attributes[state] & 1)

    def action(self, state: int) -> int:
        return self.actions[state] if self.is_end(state) else 0


@pytest.fixture(scope="module")
def jar() -> JarAutomaton:
    return JarAutomaton()


@pytest.fixture(scope="module")
def alphabet(jar) -> list[str]:
    """Return a character for each pair of the jar's kind and ours, which stands for all of that pair."""
    kind = penn.lexer().machine.grammar.kind
    return list({(jar.kinds[c], kind(chr(c))): chr(c) for c in range(0x10000)}.values())


def walk(
    begin: automaton.State, jar: JarAutomaton, start: int, alphabet: list[str]
) -> Iterator[tuple[str, automaton.State | None, int]]:
    """Yield each pair of states that a text leads to, with such a text, of one character and of more."""
    pending: list[tuple[str, automaton.State | None, int]] = [("", begin, start)]
    visited = set[tuple[int, int, bool]]()
    for text, state, jar_state in pending:
        yield text, state, jar_state
        for char in alphabet:
            own_state = None if state is None else state[char]
            pair = own_state, jar.next_state(jar_state, char)
            key = id(own_state), pair[1], bool(text)
            if pair != (None, -1) and key not in visited:
                visited.add(key)
                pending.append((text + char, *pair))


@pytest.mark.slow
def test_the_jars_tables_are_read_whole(jar):
    # JFlex's own figures for this lexer: states, and kinds of characters.
    assert len(jar.kinds) == 65536
    assert len(jar.actions) == len(jar.attributes) == len(jar.rows) == 4058
    assert max(jar.rows) + max(jar.kinds) + 1 == len(jar.moves) == 472250


@pytest.mark.slow
def test_the_grammar_equals_the_jars(jar, alphabet):
    """After any text, both end the same matches; every action of the jar occurs."""
    actions_met = set[int]()
    for text, state, jar_state in walk(penn.lexer().machine.start, jar, START, alphabet):
        own_action = None
        if state is not None and state.rule >= 0:
            _, follower, written = penn_rules.RULES[state.rule]
            own_action = f"{written} /" if follower else written
        action = jar.action(jar_state)
        assert own_action in ACTIONS[action], (text, own_action, action)
        assert own_action is not None or action in (0, 5, 33) or len(text) == 1, (text, action)
        actions_met.add(action)
    assert actions_met == set(ACTIONS)


@pytest.mark.slow
def test_tokens_before_a_follower_end_as_the_jars(jar, alphabet):
    """If the follower varies in length, each token pattern equals the jar's."""
    rules = dict[int, set[int]]()
    for _, state, jar_state in walk(penn.lexer().machine.start, jar, START, alphabet):
        if jar.action(jar_state) in END_LEXERS:
            rules.setdefault(jar.action(jar_state), set()).add(state.rule)
    assert set(rules) == set(END_LEXERS)
    for action, numbers in rules.items():
        for number in numbers:
            token = penn.lexer().parts[number][0]
            for text, state, jar_state in walk(token.start, jar, END_LEXERS[action], alphabet):
                is_end = state is not None and state.rule >= 0
                assert is_end == jar.is_end(jar_state), (text, penn_rules.RULES[number])


@pytest.fixture(scope="module")
def script():
    """Import `scripts/checks/check_tokenizer.py`, which makes the awkward texts."""
    path = Path(__file__).parents[2] / "scripts" / "checks" / "check_tokenizer.py"
    spec = importlib.util.spec_from_file_location("check_tokenizer", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.java
def test_made_up_texts_are_tokenised_as_by_java(script):
    texts = [*AWKWARD, *script.FRAGMENTS, *islice(script.fuzz(20), 5000)]
    total, differences, _ = script.compare(texts)
    assert total > 4500
    assert differences == []


@pytest.mark.java
def test_the_comparison_sees_a_difference(script, no_known_tokens, monkeypatch):
    monkeypatch.setattr(ptb, "_tokenize_text", lambda text: text)
    assert script.compare(["A dog", "a cat"])[:2] == (2, [("A dog", "A dog", "a dog")])


@pytest.mark.parametrize("name", ["flickr8k_expert", "thumb", "capeval1k", "pascal50s"])
def test_captions_are_tokenised_as_by_java(name, data_root, script):
    texts = dict.fromkeys(script.captions(name, data_root))
    total, differences, _ = script.compare(list(texts)[::5])
    assert total > 400
    assert differences == []
