"""Scripts of texts, and texts without blanks between words."""

from __future__ import annotations

import pytest

from captau.datasets.writing_systems import find_script, is_unsegmented, letter_script
from tests.conftest import AWKWARD

# A black dog runs on the grass.
CHINESE, CUT_CHINESE = "一只黑色的狗在草地上奔跑。", "一 只 黑色 的 狗 在 草地 上 奔跑 。"
JAPANESE, CUT_JAPANESE = "黒い犬が草の上を走っている", "黒い 犬 が 草 の 上 を 走って いる"
THAI, CUT_THAI = "หมาดำวิ่งบนหญ้าสีเขียว", "หมา ดำ วิ่ง บน หญ้า สี เขียว"


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("a dog", "latin"),
        ("ein schönes Mädchen", "latin"),
        ("e\N{COMBINING ACUTE ACCENT}", "latin"),
        (CHINESE, "han"),
        (JAPANESE, "kana"),
        ("スケートボード", "kana"),
        (THAI, "thai"),
        ("чёрная собака", "cyrillic"),
        ("काला कुत्ता", "devanagari"),
        ("검은 개", "hangul"),
        ("a dog named 狗", "latin"),
        ("12:30 🐕", ""),
        ("", ""),
    ],
)
def test_the_script_of_a_text_is_that_of_most_of_its_letters(text: str, script: str) -> None:
    assert find_script([text]) == script
    assert find_script([text, ""]) == script


def test_digits_signs_and_accents_are_of_no_script() -> None:
    for character in "1½²-\N{COMBINING ACUTE ACCENT}\N{VARIATION SELECTOR-16}🐕":
        assert letter_script(character) == ""


@pytest.mark.parametrize(
    "text", [CHINESE, JAPANESE, THAI, "两个人在看 iPhone 手机里的照片", "ខ្មែររត់លើស្មៅបៃតង"]
)
def test_texts_without_blanks_between_words_are_unsegmented(text: str) -> None:
    assert is_unsegmented(text)


@pytest.mark.parametrize(
    "text",
    [
        *AWKWARD,
        CUT_CHINESE,
        CUT_JAPANESE,
        CUT_THAI,
        "狗",
        "黑狗",
        "스케이트보드를 타는 남자",
        "काला कुत्ता दौड़ता है",
    ],
)
def test_texts_with_blanks_between_words_are_segmented(text: str) -> None:
    assert not is_unsegmented(text)
