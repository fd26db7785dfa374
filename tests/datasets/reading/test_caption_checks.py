"""The list of checks of captions and references, on texts alone."""

from __future__ import annotations

import pytest

from captau.datasets.reading.caption_checks import PlacedText, check_captions, check_references
from tests.field_files import CAPTIONS, REFERENCES

FIRST = CAPTIONS[391895]


def placed(texts: dict[int, str]) -> list[PlacedText]:
    return [PlacedText("c.json:1", str(image_id), text) for image_id, text in texts.items()]


@pytest.mark.parametrize(
    ("caption", "code"),
    [
        ("[no caption]", "missing"),
        ("(none)", "missing"),
        ("TODO", "missing"),
        ("Unable to process image", "failed"),
        ("HTTP 503 Service Unavailable", "failed"),
        ("CUDA out of memory. Tried to allocate 2.00 GiB", "failed"),
        ("Too Many Requests", "failed"),
        ("There is no image provided.", "failed"),
        ("I don't see an image attached.", "failed"),
        ("Please provide an image", "failed"),
        ("Image not found", "failed"),
        ("I apologize, but I cannot", "failed"),
        ("Je suis désolé, je ne peux pas", "failed"),
        ("Es tut mir leid, ich kann das nicht", "failed"),
        ("Lo siento, no puedo", "failed"),
        ("申し訳ありません", "failed"),
        ("죄송합니다", "failed"),
        ("Answer: a man", "turns"),
        ("user\nDescribe it\nassistant\na man", "turns"),
        ("a man <0x0A>", "tokens"),
        ("<grounding> a man", "tokens"),
        ("<box>(1,2)</box> a man", "tokens"),
        ("1. a man", "markdown"),
        ("\\boxed{a man}", "latex"),
        ("$a man$", "latex"),
        ("50\\% of a cake", "latex"),
        ("b'a man'", "printed"),
        ("a man\x00", "control"),
        ("\x1b[0ma man", "control"),
        ("a cafÃ©", "wrong_code"),
        ("a manâ€™s hat", "wrong_code"),
    ],
)
def test_a_caption_has_a_fault(caption: str, code: str) -> None:
    assert [finding.code for finding in check_captions(placed({**CAPTIONS, 391895: caption}))] == [
        code
    ]


@pytest.mark.parametrize(
    "caption",
    [
        "a man in a cafe with a 3 < 4 shirt",
        "a sign that says 50% off for $5 and $6",
        "a NÃO sign",
        "a hotel of 500 rooms that is not found on a map",
        "the image of a saint on a wall",
        "a woman is sorry for her dog",
        "a person unable to open a box of memory cards",
        "two cats... and a dog",
        "a 1920 . 1930 car",
    ],
)
def test_a_usual_caption_has_none(caption: str) -> None:
    assert check_captions(placed({**CAPTIONS, 391895: caption})) == []


def test_captions_that_were_cut_are_named() -> None:
    """Three of the six are longer than 36 characters."""
    (finding,) = check_captions(placed({i: text[:36] for i, text in CAPTIONS.items()}))
    assert finding.code == "cut"
    assert finding.summary.startswith(
        "3 of 6 captions are 36 characters long, the most of any caption, as if they were cut"
    )
    (finding,) = check_captions(
        placed({i: f"{text[: 20 + n]}..." for n, (i, text) in enumerate(CAPTIONS.items())})
    )
    assert finding.summary.startswith("6 of 6 captions are cut, as they end in '...'")


def test_a_prompt_before_each_caption_is_named() -> None:
    prompted = {i: f"Describe the scene briefly. {text}" for i, text in CAPTIONS.items()}
    (finding,) = check_captions(placed(prompted))
    assert finding.summary.startswith("All 6 captions begin with the same words, such as 'Describe")


@pytest.mark.parametrize(
    ("separator", "shown"),
    [
        (" / ", "'/'"),
        ("||", "'||'"),
        ("[SEP]", "'[SEP]'"),
        ("\\n", "'\\n'"),
        ("\u2028", "a line end"),
        ("；", "';'"),
        (" -- ", "'--'"),
        (" $$ ", "'$$'"),
        ("</s>", "'</s>'"),
        ("<br>", "'<br>'"),
        (" • ", "'•'"),
        ("、", "'、'"),
        ('", "', "quotes"),
    ],
)
def test_references_that_were_joined_have_their_sign(separator: str, shown: str) -> None:
    joined = {i: separator.join(texts) for i, texts in REFERENCES.items()}
    assert check_references(placed(joined))[0].summary.startswith(
        f"6 of 6 references hold {shown},"
    )


def test_references_that_are_numbered_are_joined() -> None:
    for form in ("{}. {}", "{}) {}", "({}) {}", "{}: {}"):
        joined = {
            i: " ".join(form.format(n, text) for n, text in enumerate(texts, start=1))
            for i, texts in REFERENCES.items()
        }
        assert check_references(placed(joined))[0].code == "glued"


def test_a_rare_sign_in_some_references_is_that_sign() -> None:
    texts = {i: REFERENCES[i][0] for i in REFERENCES}
    assert check_references(placed({**texts, 391895: "a man -- a rider -- on a road"})) == []
