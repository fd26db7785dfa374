"""PTB tokens: each text's own, whatever stands beside it, and the same whoever makes them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import unicodedata

import pytest

from captau.metrics.registry import metric
from captau.metrics.rows import Rows
from captau.metrics.text.tokens import ptb
from tests.conftest import AWKWARD, WITH_JAVA

#: Worked by hand: Penn Treebank rules, lower case, without pycocoevalcap's punctuation.
TOKENS = [
    ("", ""),
    ("   ", ""),
    ("...", ""),
    ("A dog.", "a dog"),
    ("A man, a plan: a canal!", "a man a plan a canal"),
    ("don't can't it's the dog's", "do n't ca n't it 's the dog 's"),
    ("cannot gonna", "can not gon na"),
    ("$5.50 (five) [dollars]", "$ 5.50 -lrb- five -rrb- -lsb- dollars -rsb-"),
    ('a "Pub" sign', "a pub sign"),
    ("black-and-white dog -- running", "black-and-white dog running"),
    ("Two\ttabs\u00a0and  blanks ", "two tabs and blanks"),
    (
        "Ein Mädchen läuft über die Straße – schnell!",
        "ein mädchen läuft über die straße schnell",
    ),
    ("İstanbul ISTANBUL", "i̇stanbul istanbul"),
    ("狗 собака كلب", "狗 собака كلب"),
    ("🐕 dog in the 🏞️ park 👩‍👩‍👧", "dog in the park"),
    ("A DOG RUNS ||| ACROSS", "a dog runs | | | across"),
]


BOTH = pytest.mark.parametrize("backend", ["captau", WITH_JAVA])


@BOTH
def test_tokens(backend):
    made = ptb.tokenize((text for text, _ in TOKENS), backend)
    assert made == [tokens for _, tokens in TOKENS]


@pytest.fixture
def forgetful(monkeypatch):
    """Nothing is known from before, and nothing learned here is kept."""
    monkeypatch.setattr(ptb, "_caches", {})


def test_brackets_stay():
    # The tokeniser writes them in capitals on pycocoevalcap's list, yet `-lowerCase` comes first,
    # so pycocoevalcap never removes them; published numbers rest on that.
    assert "-LRB-" in ptb.PUNCTUATION
    assert ptb.tokenize(["a (red) dog"]) == ["a -lrb- red -rrb- dog"]


@BOTH
def test_order_repetition_and_no_texts_at_all(backend):
    assert ptb.tokenize([], backend) == []
    assert ptb.tokenize((t for t in ["B b", "A a", "B b"]), backend) == ["b b", "a a", "b b"]


def test_without_java(monkeypatch):
    """Our own needs none: not for tokens, not for the signature, not for scores."""
    monkeypatch.setenv("CAPTAU_JAVA", "/nowhere")
    assert ptb.tokenize(["Java? Not here."]) == ["java not here"]
    assert ptb.tokenize(["狗跑"], "zh") == ["狗 跑"]
    cider = metric("cider")
    assert cider.programs == ()
    assert "java" not in cider.signature
    rows = [{"caption": "a dog", "references": ["a dog"]}, {"caption": "a", "references": ["b"]}]
    assert cider.score(rows)[0] > 0


@pytest.mark.java
def test_backends_do_not_share_tokens(forgetful, monkeypatch):
    rows = Rows.from_items([{"caption": "A dog", "references": ["a cat", "A dog"]}])
    monkeypatch.setattr(ptb, "_run_java", lambda lines: [f"java's {line}" for line in lines])
    assert ptb.tokenize_rows(rows) == (["a dog"], [("a cat", "a dog")])
    theirs = (["java's A dog"], [("java's a cat", "java's A dog")])
    assert ptb.tokenize_rows(rows, "pycocoevalcap") == theirs
    assert ptb.tokenize_rows(rows, "captau") is ptb.tokenize_rows(rows)


def test_texts_are_tokenised_once(forgetful, monkeypatch):
    lines: list[str] = []
    real = ptb._tokenize_new
    monkeypatch.setattr(ptb, "_tokenize_new", lambda t, name: (lines.extend(t), real(t, name))[1])
    monkeypatch.setattr(ptb, "_pinned_tokens", {})
    ptb.pin_tokens(["a dog"])
    for texts in (["a dog", "a cat"], ["a cat", "a bird"]):
        assert ptb.tokenize(texts) == texts
    assert lines == ["a dog", "a cat", "a bird"]


def test_memory_is_bounded(forgetful, monkeypatch):
    monkeypatch.setattr(ptb, "_CACHE_CHARACTERS", 100)
    for start in range(0, 100, 20):
        texts = [f"dog {i}" for i in range(start, start + 20)]
        assert ptb.tokenize(texts * 2) == texts * 2
        assert sum(len(t) for m in ptb._caches.values() for t in m.tokens) <= 100


@pytest.mark.java
def test_no_text_shifts_another(forgetful):
    known = [f"known {i}" for i in range(len(AWKWARD) + 1)]
    mixed = [t for pair in zip(known, AWKWARD, strict=False) for t in pair] + known[-1:]
    together = ptb._run_java([ptb._LINE_ENDS.sub(" ", t) for t in mixed])
    assert together[::2] == known
    assert together == ptb.tokenize(mixed, "pycocoevalcap")
    for text, tokens in zip(AWKWARD, together[1::2], strict=True):
        ptb._caches.clear()
        assert ptb.tokenize([text], "pycocoevalcap") == [tokens]


@pytest.mark.java
def test_nothing_left_open_reaches_the_next_text():
    """A tag's quote, or a face that JFlex reads up to the next "<", would run over the line's end."""
    opens = ["a <b c=' d", 'a <b c=" d', "=.[^x=", "a <b c='d' e=\""]
    closes = ["'> e", '"> e', "<>] e", "it's", '"<']
    texts = [t for left in opens for right in closes for t in (left, right)]
    assert ptb._run_java(texts) == list(map(ptb.tokenize_by_rules, texts))


@pytest.mark.java
def test_no_white_space_or_control_character_ends_a_line(forgetful):
    kinds = {"Cc", "Cf", "Zl", "Zp", "Zs"}
    odd = [chr(c) for c in range(0x10000) if unicodedata.category(chr(c)) in kinds]
    assert {"\r", "\v", "\f", "\x1c", "\x85", "\u2028", "\u2029", "\ufeff"} <= set(odd)
    texts = [t for i, c in enumerate(odd) for t in (f"a{c}b {c} c{c}", f"known {i}")]
    tokens = ptb.tokenize(texts, "pycocoevalcap")
    assert tokens == ptb.tokenize(texts)
    assert tokens[1::2] == texts[1::2]
    for ends in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029":
        assert tokens[2 * odd.index(ends)] == "a b c"


@pytest.mark.java
def test_an_unforeseen_line_end_costs_time_alone(forgetful, monkeypatch):
    expected = ptb.tokenize(AWKWARD, "pycocoevalcap")
    ptb._caches.clear()
    monkeypatch.setattr(ptb, "_LINE_ENDS", re.compile("(?!)"))
    assert ptb.tokenize(AWKWARD, "pycocoevalcap") == expected
    assert ptb.tokenize(["a\nb", "c"], "pycocoevalcap") == ["a b", "c"]


@pytest.mark.java
def test_tokens_do_not_depend_on_the_next_text():
    """The tokeniser reads ahead over the line's end: before a figure "No." keeps its full stop."""
    endings = ["Nintendo Wii U.", "a ha t.", "a wall of art.", "No.", "p.", "Acme Inc.", "U.S."]
    alone = ptb.tokenize(endings)
    for after in ["5 dogs", "Two dogs", "two dogs", "The dogs", "", ".", '"dogs"', "1/2"]:
        texts = [t for ending in endings for t in (ending, after)]
        assert ptb._run_java(texts)[::2] == alone, after
    # Parity: what pycocoevalcap makes of them before a caption that begins with "A".
    assert alone[:4] == ["nintendo wii u", "a ha t", "a wall of art", "no"]


@BOTH
def test_a_lone_surrogate_is_no_fault(backend):
    assert ptb.tokenize(["a \ud800 dog", "a cat"], backend) == ["a dog", "a cat"]


@pytest.mark.java
def test_tokens_survive_a_locale_without_letters():
    """Under LC_ALL=C a pipe of Java's would turn ä into a question mark."""
    code = (
        "from captau.metrics.text.tokens.ptb import tokenize\n"
        "texts = ['Ein M\\xe4dchen \\u2028 l\\xe4uft', '\\u72d7 \\U0001f415 dog']\n"
        "print(ascii(tokenize(texts, 'pycocoevalcap')))"
    )
    environment = {**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == r"['ein m\xe4dchen l\xe4uft', '\u72d7 dog']"


def test_punctuation_is_the_list_of_the_paper():
    """Chen et al. 2015, footnote 1, in the tokeniser's spelling of quotes, dash and dots."""
    printed = [
        "“",
        "”",
        "‘",
        "’",
        "-LRB-",
        "-RRB-",
        "-LCB-",
        "-RCB-",
        ".",
        "?",
        "!",
        ",",
        ":",
        "-",
        "–",
        "…",
        ";",
    ]
    spelt = {"“": "``", "”": "''", "‘": "`", "’": "'", "–": "--", "…": "..."}
    assert {spelt.get(mark, mark) for mark in printed} == ptb.PUNCTUATION
