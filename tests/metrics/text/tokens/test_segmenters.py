"""Tokenisers of other languages: worked by hand, and equal to sacreBLEU's (Post 2018) and pycocoevalcap's scores."""

from __future__ import annotations

import math

import numpy as np
import pytest
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.rouge.rouge import Rouge
from sacrebleu.metrics.bleu import BLEU

import captau
from captau.metrics.registry import metric
from captau.metrics.text.document_frequencies import DocumentFrequencies, document_frequencies
from captau.metrics.text.tokens.ptb import tokenize
from tests.conftest import AWKWARD, WITH_JAVA, says

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
        "captau.metrics.text.tokens.segmenters.find_spec", lambda name: name == present or None
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
    with says("its n-grams are of tokenize=zh", "captau score save_df=FILE tokenize=ptb"):
        metric(f"cider(df={path})").score(CHINESE)
    document_frequencies(references).write(path)
    with says("its n-grams are of tokenize=ptb", "captau score save_df=FILE tokenize=char"):
        captau.reward(f"cider(df={path},tokenize=char)", {0: ["狗"]})


def test_a_reward_scores_as_its_metric():
    references = {i: list(row["references"]) for i, row in enumerate(CHINESE)}
    captions = [row["caption"] for row in CHINESE]
    for spec in ("bleu_4(tokenize=zh)", "meteor(tokenize=zh)", "cider(tokenize=char)"):
        expected = metric(spec).score(CHINESE)
        np.testing.assert_allclose(captau.reward(spec, references)(captions, [0, 1, 2]), expected)
    assert not math.isclose(expected[0], 0)
