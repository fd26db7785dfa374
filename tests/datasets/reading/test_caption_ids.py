"""Image ids that captions and references write in two ways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from captau.datasets.reading.caption_files import read_candidates, read_references
from captau.datasets.reading.caption_ids import match_image_ids
from tests.conftest import says
from tests.field_files import CAPTIONS, COCO, REFERENCES, file_name, with_ids, write

EXPECTED = {str(i): caption for i, caption in CAPTIONS.items()}


def match(folder: Path, candidates: Any, references: Any) -> tuple[dict[str, str], list[str]]:
    systems = {"": read_candidates(write(folder / "c.json", candidates))}
    sets = {"r": read_references(write(folder / "r.json", references))}
    matched, notes = match_image_ids(systems, sets)
    return matched[""].captions, notes


RULES = {
    "blanks": (lambda i: f" {i} ", "their ids without the blanks and quotes around them"),
    "zeros": (lambda i: f"{i:012}", "their ids as numbers"),
    "a decimal point": (lambda i: f"{i}.0", "their ids as numbers"),
    "digits in groups": (lambda i: f"{i:,}", "their ids as numbers"),
    "a spreadsheet's form": (lambda i: f"{i:.5E}", "their ids as numbers"),
    "COCO's names": (file_name, "the numbers in COCO's file names"),
    "COCO's names without endings": (
        lambda i: file_name(i)[:-4],
        "the numbers in COCO's file names",
    ),
    "names of 2017": (lambda i: f"{i:012}.jpg", "the numbers in COCO's file names"),
    "paths": (lambda i: f"val2014/{file_name(i)}", "the numbers in COCO's file names"),
    "an ending": (lambda i: f"{i}.jpg", "the names of their files, without folders and endings"),
    "a stored feature": (
        lambda i: f"{i}.npy",
        "the names of their files, without folders and endings",
    ),
    "an address with a query": (
        lambda i: f"https://example.org/{i:012}.jpg?size=1&v=2",
        "the numbers in COCO's file names",
    ),
    "the number of a caption": (
        lambda i: f"{i}.jpg#0",
        "the names of their files, without folders and endings",
    ),
    "upper case": (lambda i: file_name(i).upper(), "the numbers in COCO's file names"),
    "quotes": (lambda i: f"'{i}'", "their ids without the blanks and quotes around them"),
    "a word before": (lambda i: f"image_{i}", "the numbers at the end of their ids"),
    "a tensor": (lambda i: f"tensor({i})", "the numbers at the end of their ids"),
    "a folder": (lambda i: f"/data/images/{i}", "the names of their files, without folders"),
}


@pytest.mark.parametrize("rule", RULES)
def test_ids_match_by_a_rule(rule: str, tmp_path: Path) -> None:
    change, words = RULES[rule]
    captions, notes = match(tmp_path, with_ids(change), REFERENCES)
    assert captions == EXPECTED
    (note,) = notes
    assert note.startswith(f"The images of c.json and of the references match by {words}")
    assert f"such as '{change(391895)}' and '391895'." in note


def test_accents_match_in_both_forms_of_unicode(tmp_path: Path) -> None:
    """Names of files on a Mac have their accents as characters of their own."""
    references = {f"caf\u00e9 {i}": list(texts) for i, texts in REFERENCES.items()}
    captions, notes = match(tmp_path, with_ids(lambda i: f"cafe\u0301 {i}"), references)
    assert captions == {f"caf\u00e9 {i}": caption for i, caption in CAPTIONS.items()}
    assert "match by their ids with accents as parts of letters (Unicode's form NFC)" in notes[0]


def test_a_number_that_lost_digits_is_no_other(tmp_path: Path) -> None:
    with says("it does not match by any rule; use one kind of id"):
        match(tmp_path, {"3.9E+05": "a dog"}, {"391895": ["a dog"], "391896": ["a cat"]})


def test_the_references_may_be_those_with_paths(tmp_path: Path) -> None:
    references = {f"val2014/{file_name(i)}": list(texts) for i, texts in REFERENCES.items()}
    captions, notes = match(tmp_path, EXPECTED, references)
    assert list(captions) == list(references)
    assert len(notes) == 1


@pytest.mark.parametrize("key", ["file_name", "open_images_id"])
def test_ids_match_by_other_names_in_the_references(key: str, tmp_path: Path) -> None:
    """nocaps has both; an id of Open Images is none of COCO's."""
    names = {i: f"00{number}ea20870" for number, i in enumerate(REFERENCES)}
    images = [{"id": i, key: names[i], "license": 0} for i in REFERENCES]
    captions, notes = match(tmp_path, with_ids(names.get), {**COCO, "images": images})
    assert captions == EXPECTED
    assert f"match by the references' '{key}', such as '000ea20870' and '391895'." in notes[0]


def test_ids_that_match_stay_without_a_note(tmp_path: Path) -> None:
    assert match(tmp_path, EXPECTED, COCO) == (EXPECTED, [])
    two = {"1": "a dog", "01": "a cat"}
    assert match(tmp_path, two, {"1": ["a"], "01": ["b"]}) == (two, [])


def test_a_part_of_the_images_matches_if_all_of_one_side_do(tmp_path: Path) -> None:
    captions, _ = match(tmp_path, with_ids(lambda i: f"{i:012}")[:4], REFERENCES)
    assert captions == {i: EXPECTED[i] for i in list(EXPECTED)[:4]}


def test_where_some_match_the_error_names_the_rule_and_the_counts(tmp_path: Path) -> None:
    rows = [*with_ids(lambda i: f"{i:012}")[:5], {"image_id": "other", "caption": "a dog"}]
    with says(
        "image '000000391895' has no references in",
        "where an image is '391895'; by their ids as numbers, without leading zeros and '.0', 5 of 6 images would match",
    ):
        match(tmp_path, rows, REFERENCES)


@pytest.mark.parametrize(
    ("candidates", "references"),
    [
        ({"001": "a", "0001": "b"}, {"1": ["a"], "2": ["b"]}),
        ({"a/1.jpg": "a", "b/1.jpg": "b"}, {"1": ["a"], "2": ["b"]}),
        ({"1.jpg": "a", "2.jpg": "b"}, {"x/1.jpg": ["a"], "y/1.jpg": ["b"], "2.png": ["c"]}),
    ],
)
def test_ids_that_would_become_one_do_not_match(candidates, references, tmp_path: Path) -> None:
    with says("has no references in", "where an image is '"):
        match(tmp_path, candidates, references)


def test_nothing_in_common_shows_an_id_of_each_side(tmp_path: Path) -> None:
    with says("image 'x' has no references in", "is '391895'; it does not match by any"):
        match(tmp_path, {"x": "a dog"}, COCO)


def test_names_match_whatever_their_case_and_their_form_of_unicode(tmp_path: Path) -> None:
    """A Mac writes é as e and an accent."""
    candidates = {"data/CAFE\u0301 1.JPG": "a dog", "data/cafe\u0301 2.jpg": "a cat"}
    references = {"caf\u00e9 1.jpg": ["a"], "caf\u00e9 2.jpg": ["b"]}
    captions, _ = match(tmp_path, candidates, references)
    assert captions == {"caf\u00e9 1.jpg": "a dog", "caf\u00e9 2.jpg": "a cat"}


def test_numbers_behind_other_words_are_no_match(tmp_path: Path) -> None:
    """cat_1 and dog_1 are two images, where neither side has plain numbers."""
    with says("image 'cat_1' has no references in", "where an image is 'dog_1'; none of the 2"):
        match(tmp_path, {"cat_1": "a", "cat_2": "b"}, {"dog_1": ["a"], "dog_2": ["b"]})


def test_references_numbered_behind_the_image_are_its_references(tmp_path: Path) -> None:
    rows = [
        {"image": f"{i}.jpg#{number}", "caption": text}
        for i, texts in REFERENCES.items()
        for number, text in enumerate(texts)
    ]
    references = read_references(write(tmp_path / "r.json", rows))
    assert references.texts == {f"{i}.jpg": texts for i, texts in REFERENCES.items()}


def test_names_of_files_come_before_ids_that_look_like_them(tmp_path: Path) -> None:
    """References whose ids are 1 to 3, and whose files have these numbers in another order."""
    names = ["1.jpg", "3.jpg", "2.jpg"]
    texts = ["a red dog", "two blue cats", "an old green boat"]
    references = {
        "images": [{"id": k, "file_name": name} for k, name in enumerate(names, 1)],
        "annotations": [{"image_id": k, "caption": text} for k, text in enumerate(texts, 1)],
    }
    for folder in ("", "images/"):
        rows = [
            {"image_id": f"{folder}{n}", "caption": t} for n, t in zip(names, texts, strict=True)
        ]
        captions, _ = match(tmp_path, rows, references)
        assert captions == dict(zip("123", texts, strict=True))

    # Without their endings, names and ids say different things, and nobody can tell which is meant.
    rows = [{"image_id": n.replace("jpg", "png"), "caption": n} for n in names]
    with says("in two ways", "write the references' ids"):
        match(tmp_path, rows, references)
