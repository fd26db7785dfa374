"""PTB tokens: each text's own, whatever stands beside it, and the same whoever makes them; tokens of other languages."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import unicodedata

import numpy as np
import pytest
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.rouge.rouge import Rouge
from sacrebleu.metrics.bleu import BLEU

import captau
from captau.metrics.registry import metric
from captau.metrics.text.cider import DocumentFrequencies, document_frequencies
from captau.metrics.text.tokens import ptb
from captau.metrics.text.tokens.ptb import tokenize
from tests.conftest import AWKWARD, WITH_JAVA, says

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


def test_memory_is_bounded(no_known_tokens, monkeypatch):
    monkeypatch.setattr(ptb, "_CACHE_CHARACTERS", 100)
    for start in range(0, 100, 20):
        texts = [f"dog {i}" for i in range(start, start + 20)]
        assert ptb.tokenize(texts * 2) == texts * 2
        assert sum(len(t) for m in ptb._caches.values() for t in m.tokens) <= 100


@pytest.mark.java
def test_no_text_shifts_another(no_known_tokens):
    known = [f"known {i}" for i in range(len(AWKWARD) + 1)]
    mixed = [t for pair in zip(known, AWKWARD, strict=False) for t in pair] + known[-1:]
    together = ptb.tokenize(mixed, "pycocoevalcap")
    assert together[::2] == known
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
def test_no_white_space_or_control_character_ends_a_line(no_known_tokens):
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


CHINESE = [
    {"caption": "一只狗在公园里跑", "references": ("一只狗在公园里", "狗在草地上奔跑。")},
    {"caption": "两只猫睡在沙发上", "references": ("两只猫", "沙发上有两只猫在睡觉。")},
    {"caption": "A男人 rides 自行车", "references": ("一个男人骑自行车", "男人在骑车")},
]
JAPANESE = [
    {"caption": "犬が草の上を走っている。", "references": ("茶色い犬が草の上を走る。",)},
    {"caption": "猫が二匹いる", "references": ("二匹の猫がソファで寝ている",)},
]
GERMAN = [
    {"caption": "Ein Hund läuft über Gras.", "references": ("Ein brauner Hund rennt über Gras!",)},
    {"caption": "Zwei Katzen", "references": ("Zwei Katzen schlafen", "Katzen auf dem Sofa")},
]
TEXTS = [*AWKWARD, *(t for row in CHINESE for t in (row["caption"], *row["references"]))]


def test_words_worked_by_hand():
    assert tokenize(["一只 Dog在跑。"], "zh") == ["一 只 dog 在 跑 。"]
    assert tokenize(["Ein Hund, schnell!"], "intl") == ["ein hund , schnell !"]
    assert tokenize(["Hunde"], "char") == ["h u n d e"]
    assert tokenize(["", " \n"], "char") == ["", ""]


@pytest.mark.parametrize("name", ["intl", "zh", "char"])
def test_tokens_are_sacrebleus_in_lower_case(name):
    tokenizer = BLEU(tokenize=name, lowercase=True)
    expected = [tokenizer._preprocess_segment(" ".join(text.split())).split() for text in TEXTS]
    assert [
        line.split() for line in tokenize([" ".join(t.split()) for t in TEXTS], name)
    ] == expected


def test_japanese_words_are_mecabs():
    pytest.importorskip("MeCab")
    pytest.importorskip("ipadic")
    # Worked by hand: 7 of 10 words are the reference's, which has as many.
    assert tokenize([JAPANESE[0]["caption"]], "ja") == ["犬 が 草 の 上 を 走っ て いる 。"]
    assert metric("bleu_1(tokenize=ja)").score(JAPANESE)[0] == pytest.approx(0.7)
    assert "mecab-python3:" in metric("bleu_1(tokenize=ja)").signature


@pytest.mark.parametrize("present", ["neither", "MeCab", "ipadic"])
def test_japanese_without_mecab_is_refused_in_a_line(monkeypatch, present):
    monkeypatch.setattr(
        "captau.metrics.text.tokens.ptb.find_spec", lambda name: name == present or None
    )
    remedy = 'needs MeCab, which finds words; pip install "sacrebleu[ja]"'
    with says(f"metric rouge_l(tokenize=ja) {remedy}"):
        metric("rouge_l(tokenize=ja)").score(JAPANESE)
    with says(f"metric sacrebleu(tokenize=ja-mecab) {remedy}"):
        metric("sacrebleu(tokenize=ja-mecab)").score(JAPANESE)


def test_chinese_captions_no_longer_score_0():
    # Worked by hand: 7 of 8 characters, 6 of 7 pairs, 5 of 6 triples, 4 of 5 fours; no reference is longer than 8.
    bleu = (7 / 8 * 6 / 7 * 5 / 6 * 4 / 5) ** (1 / 4)
    row = [{"caption": "一只狗在公园里跑", "references": ["一只狗在公园里"]}]
    assert metric("bleu_4").score(row)[0] < 1e-6
    assert metric("bleu_4(tokenize=zh)").score(row)[0] == pytest.approx(bleu)
    # The longest common subsequence has all 7 characters of the reference, 7 of 8 of the caption.
    precision, recall = 7 / 8, 1.0
    rouge = (1 + 1.2**2) * precision * recall / (recall + 1.2**2 * precision)
    assert metric("rouge_l(tokenize=zh)").score(row)[0] == pytest.approx(rouge)
    assert (metric("cider(tokenize=zh)").score(CHINESE) > 0).all()
    # METEOR's language-independent parameters α 0.75, β 1.4, γ 0.7: one chunk of 7 matches.
    mean = 1 / (0.25 / precision + 0.75 / recall)
    expected = mean * (1 - 0.7 * (1 / 7) ** 1.4)
    assert metric("meteor(tokenize=zh)").score(row)[0] == pytest.approx(expected)


@pytest.mark.parametrize("backend", ["captau", WITH_JAVA])
@pytest.mark.parametrize(
    ("name", "rows"), [("zh", CHINESE), ("char", CHINESE), ("char", JAPANESE), ("intl", GERMAN)]
)
def test_scores_are_pycocoevalcaps_on_the_same_tokens(name, rows, backend):
    tokenizer = BLEU(tokenize=name, lowercase=True)

    def tokens(text: str) -> str:
        return " ".join(tokenizer._preprocess_segment(text).split())

    references = {i: [tokens(r) for r in row["references"]] for i, row in enumerate(rows)}
    candidates = {i: [tokens(row["caption"])] for i, row in enumerate(rows)}
    bleu = Bleu(4).compute_score(references, candidates, verbose=0)
    for n in range(4):
        ours = metric(f"bleu_{n + 1}(tokenize={name})")
        np.testing.assert_allclose(ours.score(rows), bleu[1][n], rtol=1e-12)
        assert ours.corpus_score(rows) == pytest.approx(bleu[0][n], rel=1e-12)
    for spec, scorer in (("rouge_l", Rouge()), ("cider", Cider())):
        expected = scorer.compute_score(references, candidates)[1]
        scores = metric(f"{spec}(tokenize={name},backend={backend})").score(rows)
        np.testing.assert_allclose(scores, expected, rtol=1e-12)


def test_a_corpus_has_the_bleu_of_sacrebleu():
    # With a match of every length nothing is smoothed, and both pool counts.
    references = [[row["references"][k] for row in CHINESE] for k in range(2)]
    scorer = BLEU(tokenize="zh", lowercase=True)
    expected = scorer.corpus_score([row["caption"] for row in CHINESE], references).score
    ours = metric("bleu_4(tokenize=zh)").corpus_score(CHINESE)
    assert 100 * ours == pytest.approx(expected, rel=1e-6)  # pycocoevalcap's constants


def test_the_default_stays_out_of_the_signature_and_another_tokeniser_is_in_it():
    for name in ("bleu_4", "rouge_l", "cider", "meteor"):
        assert "tokenize" not in metric(name).signature
        assert metric(f"{name}(tokenize=ptb)").signature == metric(name).signature
        signature = metric(f"{name}(tokenize=zh)").signature
        assert "|tokenize:zh|" in signature
        assert "|sacrebleu:" in signature
    assert (
        metric("cider(plain)").variant == "plain"
    )  # a value without a name is still the first parameter's


@pytest.mark.parametrize(
    ("tokenize_name", "text", "is_unknown"),
    [
        ("ptb", "一只狗在公园里跑", True),
        ("zh", "一只狗在公园里跑", False),
        ("zh", "公園を犬が走っています", True),
        ("ja", "公園を犬が走っています", False),
        ("intl", "สุนัขวิ่งอยู่ในสวนสาธารณะ", True),
        ("char", "สุนัขวิ่งอยู่ในสวนสาธารณะ", False),
    ],
)
def test_texts_whose_words_a_tokeniser_cannot_find(tokenize_name, text, is_unknown):
    assert metric(f"cider(tokenize={tokenize_name})").cannot_segment(text) == is_unknown


def test_document_frequencies_are_of_the_same_tokeniser(tmp_path):
    path = tmp_path / "df.json"
    references = [row["references"] for row in CHINESE]
    document_frequencies(references, "zh").write(path)
    assert DocumentFrequencies.read(path).tokenize == "zh"
    scores = metric("cider(tokenize=zh)").score(CHINESE)
    saved = metric(f"cider(df={path},tokenize=zh)")
    np.testing.assert_array_equal(saved.score(CHINESE), scores)
    reward = captau.reward(saved, {i: list(r) for i, r in enumerate(references)})
    np.testing.assert_allclose(reward([row["caption"] for row in CHINESE], [0, 1, 2]), scores)
    with says("it was made with tokenize=zh", "captau score save_df=FILE tokenize=ptb"):
        metric(f"cider(df={path})").score(CHINESE)
    document_frequencies(references).write(path)
    with says("it was made with tokenize=ptb", "captau score save_df=FILE tokenize=char"):
        captau.reward(f"cider(df={path},tokenize=char)", {0: ["狗"]})


def test_a_reward_scores_as_its_metric():
    references = {i: list(row["references"]) for i, row in enumerate(CHINESE)}
    captions = [row["caption"] for row in CHINESE]
    for spec in ("bleu_4(tokenize=zh)", "meteor(tokenize=zh)", "cider(tokenize=char)"):
        expected = metric(spec).score(CHINESE)
        np.testing.assert_allclose(captau.reward(spec, references)(captions, [0, 1, 2]), expected)
    assert not math.isclose(expected[0], 0)


@pytest.mark.parametrize(
    ("text", "tokenizer", "expected"),
    [
        ("A dog runs", "ptb", False),
        ("狗在公园里跑步", "ptb", True),
        ("狗在公园里跑步", "zh", False),
        ("狗在公园里跑步", "ja", False),
        ("狗在公园里跑步", "char", False),
        ("犬が公園を走っている", "zh", True),
        ("犬が公園を走っている", "ja-mecab", False),
        ("犬が公園を走っている", "intl", True),
    ],
)
def test_scripts_that_a_tokeniser_cannot_cut(text, tokenizer, expected):
    assert ptb.cannot_segment(text, tokenizer) is expected


def test_an_unknown_tokeniser_is_an_error():
    with says("unknown tokeniser 'xx': known: char, intl, ja, ptb, zh"):
        ptb.segmenter("xx")
