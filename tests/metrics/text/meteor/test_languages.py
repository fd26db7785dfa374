"""METEOR in other languages than English: by hand from its jar's parameters, and equal to its Java program."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from captau.metrics.registry import metric
from captau.metrics.text.meteor.index import load_index
from captau.metrics.text.meteor.languages import ENGLISH, LANGUAGES, Setting
from tests.conftest import says

#: By language, captions and references that share words, stems and function words.
ROWS = {
    "cs": [("Pes běží po trávě.", "Hnědý pes běží na trávě a štěká."), ("dvě kočky", "kočky spí")],
    "de": [
        ("Ein brauner Hund läuft über die Wiese.", "Der braune Hund lief auf den Wiesen."),
        ("zwei Katzen", "eine Katze schläft auf dem Sofa"),
    ],
    "es": [
        ("Un perro marrón corre por la hierba.", "El perro marrón corría en las hierbas verdes."),
        ("dos gatos duermen", "dos gatas están dormidas en un sofá"),
    ],
    "fr": [
        ("Un chien brun court dans l'herbe.", "Des chiens bruns couraient dans les herbes."),
        ("deux chats dorment", "deux chattes dorment sur un canapé"),
    ],
    "ru": [
        ("Коричневая собака бежит по траве.", "Собаки бежали по зелёной траве и лаяли."),
        ("две кошки", "кошка спит на диване"),
    ],
    "other": [("犬が草の上を走る", "犬 が 草 を 走る"), ("a dog runs", "the dogs run")],
}


def rows(language: str) -> list[dict[str, object]]:
    pairs = ROWS[language]
    return [{"caption": c, "references": [r, pairs[0][1]]} for c, r in pairs]


def test_french_worked_by_hand():
    # α 0.9, β 1.4, γ 0.6, δ 0.65, a stem weighs 0.2: "le" matches as a function word, "chien" as a stem of "chiens",
    # in one chunk of two words.
    row = {"caption": "le chien", "references": ["le chiens dort"]}
    matched = 0.65 * 0.2 + 0.35
    precision, recall = matched / (0.65 + 0.35), matched / (2 * 0.65 + 0.35)
    mean = 1 / (0.1 / precision + 0.9 / recall)
    expected = mean * (1 - 0.6 * (1 / 2) ** 1.4)
    assert metric("meteor(tokenize=intl,language=fr)").score([row])[0] == pytest.approx(expected)


def test_languages_without_a_stemmer_match_equal_words_alone():
    row = {"caption": "chiens", "references": ["chien"]}
    for language in ("cs", "other"):
        assert metric(f"meteor(tokenize=intl,language={language})").score([row]) == [0]
    assert metric("meteor(tokenize=intl,language=fr)").score([row]) > 0


def test_ptb_words_are_english():
    with says("metric meteor(language=fr): tokenize=ptb", "add tokenize=intl"):
        metric("meteor(language=fr)")


def test_each_language_has_its_function_words():
    sizes = {code: len(load_index(language.name).function) for code, language in LANGUAGES.items()}
    assert min(size for code, size in sizes.items() if code != "other") > 40
    assert sizes["other"] == 0
    assert "les" in load_index("french").function


@pytest.fixture
def paraphrases(tmp_path):
    """A file of French paraphrases in METEOR's format: a probability, a phrase, its paraphrase."""
    path = tmp_path / "paraphrase-fr.gz"
    pairs = [("canapé", "sofa"), ("dort profondément", "dort")]
    path.write_bytes(gzip.compress("".join(f"0.1\n{a}\n{b}\n" for a, b in pairs).encode()))
    return path


def test_paraphrases_come_from_a_file_of_the_users(paraphrases):
    row = [{"caption": "canapé", "references": ["sofa"]}]
    assert metric("meteor(tokenize=intl,language=fr)").score(row) == [0]
    scorer = metric(f"meteor(tokenize=intl,language=fr,paraphrases={paraphrases})")
    # Worked by hand: a paraphrase weighs 0.4, and texts that match as a whole have no penalty.
    assert scorer.score(row)[0] == pytest.approx(0.4)
    assert "paraphrases:sha256-" in scorer.signature
    with says("nowhere.gz: cannot be read"):
        _ = metric("meteor(tokenize=intl,paraphrases=nowhere.gz)").signature
    damaged = paraphrases.with_name("damaged.gz")
    damaged.write_bytes(b"no gzip")
    with says("damaged.gz is damaged"):
        metric(f"meteor(tokenize=intl,language=fr,paraphrases={damaged})").score(row)


@pytest.mark.java
@pytest.mark.parametrize("language", [*ROWS, "en"])
def test_scores_are_the_java_programs(language, paraphrases):
    items = rows("fr" if language == "en" else language)
    items.append({"caption": "canapé", "references": ["sofa"]})
    specs = [f"tokenize=intl,language={language}", f"tokenize=char,language={language}"]
    if language != "en":
        specs[0] += f",paraphrases={paraphrases}"
    for spec in specs:
        ours, java = metric(f"meteor({spec})"), metric(f"meteor({spec},backend=pycocoevalcap)")
        np.testing.assert_array_equal(ours.score(items), java.score(items))
        assert ours.corpus_score(items) == java.corpus_score(items)


def test_the_parameters_of_languages_are_the_jars():
    """METEOR 1.5's documentation and its jar: α, β, γ, δ, and the weights of the four kinds of matches."""
    parameters = {
        "en": ("english", 0.85, 0.2, 0.6, 0.75, (1.0, 0.6, 0.8, 0.6)),
        "cs": ("czech", 0.95, 0.2, 0.6, 0.8, (1.0, 0.0, 0.0, 0.4)),
        "de": ("german", 0.95, 1.0, 0.55, 0.55, (1.0, 0.8, 0.0, 0.2)),
        "es": ("spanish", 0.65, 1.3, 0.5, 0.8, (1.0, 0.8, 0.0, 0.6)),
        "fr": ("french", 0.9, 1.4, 0.6, 0.65, (1.0, 0.2, 0.0, 0.4)),
        "ru": ("russian", 0.75, 1.4, 0.7, 0.5, (1.0, 0.5, 0.0, 0.5)),
        "other": ("other", 0.75, 1.4, 0.7, 0.5, (1.0, 0.0, 0.0, 0.0)),
    }
    assert {
        code: tuple(vars(language).values()) for code, language in LANGUAGES.items()
    } == parameters


@pytest.mark.parametrize(
    ("code", "is_normalised", "path", "options"),
    [
        ("en", True, None, "-l en -norm"),
        ("en", False, None, "-l en"),
        ("en", True, "x.gz", "-l en -norm -a x.gz"),
        ("cs", False, None, "-l czech -m exact"),
        ("cs", False, "x.gz", "-l czech -a x.gz -m exact|paraphrase"),
        ("de", True, None, "-l german -norm -m exact|stem"),
        ("fr", False, "x.gz", "-l french -a x.gz -m exact|stem|paraphrase"),
        ("other", False, None, "-l other -m exact"),
    ],
)
def test_the_options_of_the_java_program(code, is_normalised, path, options):
    setting = Setting(LANGUAGES[code], is_normalised, path and Path(path))
    assert setting.jar_options == tuple(word.replace("|", " ") for word in options.split())


def test_the_setting_of_the_coco_server():
    assert Setting(LANGUAGES["en"], True, None) == ENGLISH
