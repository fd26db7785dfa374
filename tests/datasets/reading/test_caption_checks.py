"""The list of checks of captions and references, on texts alone."""

from __future__ import annotations

import pytest

from captau.datasets.reading.caption_checks import check_captions, check_references
from captau.datasets.reading.suspected_faults import PlacedText
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
        ("[BLOCKED]", "failed"),
        ("Content blocked", "failed"),
        ("Your request was rejected by our safety system", "failed"),
        ("The response was filtered by Azure OpenAI's content management policy.", "failed"),
        ("timeout", "failed"),
        ("SAFETY", "failed"),
        ("429", "number"),
        ("404 Not Found", "failed"),
        ("500: Internal Server Error", "failed"),
        ("I don't know", "failed"),
        ("Sorry, something went wrong", "failed"),
        ("I'm sorry, but I can't help", "failed"),
        ("Sorry", "failed"),
        ("skipped", "failed"),
        ("#NAME?", "missing"),
        ("#DIV/0!", "missing"),
        ("None.", "missing"),
        ("unanswerable", "missing"),
        ("[unknown]", "missing"),
        ("12", "number"),
        ("-0.5", "number"),
        ("a man ri@@ des a mo@@ tor", "tokens"),
        ("UNK", "tokens"),
        ("a man on a UNK", "tokens"),
        ("<unk>", "tokens"),
        ("[object Object]", "printed"),
        ("Question: what is it? Answer: a man", "turns"),
        ("Human: describe it\nAssistant: a man", "turns"),
        ("a cafe\u0301", "decomposed"),
        ("\uff41 man", "wide"),
        ("a mo\u200btor", "invisible"),
        ("a man a man a man a man a man", "loop"),
        ("a dog and a dog and a dog and a dog", "loop"),
        ("a cat is on a mat. a cat is on a mat. a cat is on a mat.", "loop"),
        ("the the the the the the the", "loop"),
        ("a street with a sign sign sign sign sign on it", "loop"),
        ("一个男人一个男人一个男人一个男人", "loop"),
        ("Answer: The key of a test", "turns"),
        ("Response: people on a beach", "turns"),
        ("This request violates our content policy", "failed"),
        ("It was flagged by the content filter", "failed"),
        ("content_policy_violation", "failed"),
        ("Sorry for the inconvenience.", "failed"),
        ("Sorry for the inconvenience caused by this", "failed"),
        ("a man ride ##s a bike", "tokens"),
        ("a man on a motor ##cycle", "tokens"),
        ("sorry I cannot describe this", "failed"),
        ("startseq a man rides endseq", "tokens"),
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
        "Sorry sign on the door",
        "Sorry, we are closed, says a sign",
        "I am sorry written on a cake",
        "Question: mark on a wall",
        "System: a poster",
        "A timeout in a game",
        "404 error sign",
        "500 rooms in a hotel",
        "a person named Unk",
        "a clock showing 12:30",
        "the building in the early ####s",
        "A sign that reads ASSISTANT: 5",
        "a café",
        "クルマＴシャツ",
        "404: a painting of a number",
        "the output is blocked by a wall",
        "a road blocked by snow",
        "Answer: key of a test",
        "a poster about content policy",
        "a slide on content filters and policies",
        "Sorry for the inconvenience sign",
        "fashion of the ##s",
        "a car from the early ##s on a street",
        "a very, very, very, very tall tower",
        "left, right, left, right, left, right",
        "a man and a dog and a man and a cat and a man and a cow",
        "New York, New York, New York: a sign",
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


@pytest.mark.parametrize("separator", [" ||| ", "; ", " / ", "\n", ". ", ", "])
def test_captions_that_were_joined_have_their_sign_too(separator: str) -> None:
    joined = {i: f"{text}{separator}{REFERENCES[i][0]}" for i, text in CAPTIONS.items()}
    (finding,) = check_captions(placed(joined))
    assert finding.code == "glued"
    assert finding.summary.startswith("6 of 6 captions hold ")
    assert finding.summary.endswith("; keep one caption of each image.")


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
        ("', '", "quotes"),
        (". ", "a full stop"),
        (", ", "a comma"),
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


def test_of_two_signs_as_frequent_the_first_in_the_text_is_named() -> None:
    for first, second in (("--", "~"), ("~", "--")):
        texts = {i: f"a man {first} a rider {second} on a road {i}" for i in CAPTIONS}
        (finding,) = check_references(placed(texts))
        assert f"6 of 6 references hold '{first}'" in finding.summary


def test_a_description_of_many_sentences_is_not_joined() -> None:
    """Its later sentences begin with what was named before, and its signs are many."""
    prose = "A man rides a motorbike. The road is wet. He wears a helmet."
    texts = {i: f"{prose} {text}" for i, text in CAPTIONS.items()}
    assert check_references(placed(texts)) == []
    long = {i: f"{prose} " * 8 + f"It is dark; {text}" for i, text in CAPTIONS.items()}
    assert "glued" not in {finding.code for finding in check_captions(placed(long))}


def test_signs_of_another_script_are_no_separators() -> None:
    hindi = {i: f"एक आदमी सड़क पर {text}" for i, text in CAPTIONS.items()}
    chinese = {i: f"一个人在路上，骑着摩托车。{i}" for i in CAPTIONS}
    for texts in (hindi, chinese):
        assert check_references(placed(texts)) == []
        assert "glued" not in {finding.code for finding in check_captions(placed(texts))}


def test_turns_that_captions_may_have_are_named_where_half_have_them() -> None:
    texts = {i: f"Output: {text}" for i, text in CAPTIONS.items()}
    (finding,) = check_captions(placed(texts))
    assert (finding.code, len(finding.lines)) == ("turns", 6)


def test_references_of_one_word_each_are_named() -> None:
    words = [PlacedText("r.json", "1", word) for word in CAPTIONS[391895].split()]
    (finding,) = check_references(words)
    assert finding.code == "one_word"
    assert check_references(words[:5]) == []


def test_a_plain_caption_may_be_its_image_id() -> None:
    """Most checks do not look at three words without a sign; an image's file may be called so."""
    texts = [PlacedText("c.json", "photos/a dog runs.jpg", "a dog runs"), *placed(CAPTIONS)]
    assert [finding.code for finding in check_captions(texts)] == ["image_id"]


def test_what_one_check_names_is_not_named_twice() -> None:
    ids = [PlacedText("c.json", str(i), str(i)) for i in CAPTIONS]
    assert [finding.code for finding in check_captions(ids)] == ["image_id"]
    chat = {i: f"USER: describe it.\nASSISTANT: {text}" for i, text in CAPTIONS.items()}
    assert [f.code for f in check_captions(placed(chat))] == ["turns", "same_words"]


def test_paragraphs_and_quotes_join_nothing() -> None:
    prose = "The light is soft. A fence stands behind.\n\nOverall, the scene is calm. It is early."
    for form in ("{} in spring. " + prose, "un homme « {} »", "{}, a dog and a cat"):
        texts = {i: form.format(text) for i, text in CAPTIONS.items()}
        assert "glued" not in {finding.code for finding in check_captions(placed(texts))}
        assert "glued" not in {finding.code for finding in check_references(placed(texts))}
