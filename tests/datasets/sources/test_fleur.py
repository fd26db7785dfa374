"""FLEUR's own score files: the reader on small files of our own making, and on the real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from captau.datasets.registry import card, load
from captau.datasets.sources.fleur import FILES, ScoredImage, read_scores
from captau.metrics.external import metric
from tests.conftest import raises_exactly, says

ALONE = """image file : Flickr8k_Dataset/1.jpg
caption : A dog : running .
model score : 0.5
our score : 0.44

image file : Flickr8k_Dataset/2.jpg
caption : A cat .
model score : 1.0
our score : 0.9
"""
PAIR = """image file : VOC2012/JPEGImages/1.jpg
label : 1

caption : A dog.
model score : 0.9
our score : 0.79

caption : A cat.
model score : 0.9
our score : 0.80

true count : 1
tie count : 0
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for part, source in FILES.items():
        path = tmp_path / source.path
        path.parent.mkdir(exist_ok=True)
        path.write_text(PAIR if part.startswith("pascal") else ALONE, encoding="utf-8")
    return tmp_path


def test_every_caption_has_the_number_that_was_said_and_the_smoothed_one(root: Path) -> None:
    fleur = load("fleur", root)
    items = fleur.items.merge(fleur.ratings, on="item_id")
    first = items[items["system"] == "flickr8k_expert"]
    assert list(zip(first["caption"], first["dimension"], first["value"], strict=True)) == [
        ("A dog : running .", "raw", 0.5),
        ("A dog : running .", "smoothed", 0.44),
        ("A cat .", "raw", 1.0),
        ("A cat .", "smoothed", 0.9),
    ]
    assert set(fleur.ratings["rater"]) == {"FLEUR"}
    pairs = fleur.items[fleur.items["image_id"] == "1.jpg"].groupby("system")["item_id"].agg(list)
    assert fleur.preferences.to_numpy().tolist() == [
        [f"{k}-0000", *pairs[f"pascal_{k}"], k, "people", -1.0, "b"]
        for k in ("HC", "HI", "HM", "MM")
    ]
    assert "not people" in card("fleur").title


def test_a_file_of_theirs_is_a_metric(tmp_path: Path) -> None:
    """By image and caption, smoothed unless the raw number is asked for; other files of text are tables as before."""
    path = tmp_path / "fleur_flickr8k_expert.txt"
    path.write_text(f"flickr8k dataset\n\n{ALONE}", encoding="utf-8")
    rows = [
        {"image_id": "2.jpg", "caption": "A cat ."},
        {"image_id": "1.jpg", "caption": "A dog : running ."},
    ]
    smoothed = metric(f"file(path={path},source=FLEUR)")
    assert smoothed.score(rows).tolist() == [0.9, 0.44]
    assert smoothed.is_published
    raw = metric(f"file(path={path},score_column=model score)")
    assert raw.score(rows).tolist() == [1.0, 0.5]
    with says("no score for 3 A cat . (1 of 1 items lack one)"):
        smoothed.score([{"image_id": "3.jpg", "caption": "A cat ."}])

    table = tmp_path / "scores.txt"
    table.write_text("image,caption,score\n2.jpg,A cat .,7\n", encoding="utf-8")
    assert metric(f"file(path={table})").score(rows[:1]).tolist() == [7]


def test_blocks_of_every_kind(tmp_path: Path) -> None:
    """Both ends of the scale, COCO's number, and a pair between captions alone."""
    path = tmp_path / "scores.txt"
    name = "image file : val2014/COCO_val2014_000000000042.jpg \n"
    score = "caption :  A  dog.\nmodel score : 0\nour score : 1\n"
    path.write_text(f"{name}{score}{PAIR.replace('label : 1', 'label : 0')}{name}{score}")
    alone = ScoredImage("42", None, ["A dog."], [0.0], [1.0])
    pair = ScoredImage("1.jpg", 0, ["A dog.", "A cat."], [0.9, 0.9], [0.79, 0.8])
    assert read_scores(path) == [alone, pair, alone]


CAPTION = "image file : 1.jpg\ncaption : a\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *(
            (f"{CAPTION}{key} : {value}\n", f":3: '{key}' is '{value}', not {expected}")
            for key, value, expected in (
                ("our score", "1.01", "a number from 0 to 1"),
                ("model score", "-0.01", "a number from 0 to 1"),
                ("label", "-1", "0 or 1"),
                ("label", "2", "0 or 1"),
            )
        ),
        *(
            (f"{CAPTION}{f'{key} : 1{chr(10)}' * 2}", ":4: a score without a caption of its own")
            for key in ("our score", "model score")
        ),
        *(
            (f"{CAPTION}{text}", f": image '1.jpg' has not {n} with both scores")
            for text, n in (
                ("our score : 1\n", "1 captions"),
                ("model score : 1\n", "1 captions"),
                ("model score : 1\nour score : 1\n" + "caption : b\n", "1 captions"),
                ("model score : 1\nour score : 1\nlabel : 0\n", "2 captions"),
                (
                    "model score : 1\nour score : 1\ncaption : b\nmodel score : 1\nour score : 1\n",
                    "1 captions",
                ),
                (
                    "label : 0\ncaption : b\ncaption : c\n"
                    + "our score : 1\nmodel score : 1\n" * 3,
                    "2 captions",
                ),
            )
        ),
    ],
)
def test_faults_of_a_block_are_said_in_full(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "scores.txt"
    path.write_text(text)
    ending = "; get a new copy of the file" if " is '" in message else "; get a new copy"
    with raises_exactly(f"{path}{message}{'' if 'of its own' in message else ending}"):
        read_scores(path)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ("no scores",)),
        ("our score : 1\n", (":1:", "'our score' before any 'image file'")),
        ("image file : 1.jpg\nour score : 1\n", (":2:", "a score without a caption")),
        ("image file : 1.jpg\ncaption : a\nour score : high\n", (":3:", "'high', not a number")),
        ("image file : 1.jpg\ncaption : a\nour score : nan\n", (":3:", "'nan', not a number")),
        ("image file : 1.jpg\nlabel : 7\n", (":2:", "'label' is '7', not 0 or 1")),
        ("image file : 1.jpg\ncaption : a\nour score : 1\n", ("'1.jpg'", "get a new copy")),
        (PAIR[: PAIR.index("caption : A cat")], ("'1.jpg'", "has not 2 captions")),
    ],
)
def test_a_damaged_file_is_told_with_its_line(
    text: str, parts: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "fleur.txt"
    path.write_text(text, encoding="utf-8")
    with says(str(path), *parts):
        read_scores(path)


def test_the_real_files_hold_what_the_card_says(data_root: Path) -> None:
    fleur = load("fleur", data_root)
    assert {
        "images": fleur.items["image_id"].nunique(),
        "items": len(fleur.items),
        "ratings": len(fleur.ratings),
        "preferences": len(fleur.preferences),
    } == dict(card("fleur").expected)


def test_the_labels_differ_from_those_of_pascal50s_in_35_pairs(data_root: Path) -> None:
    """docs/reproduction.md; the pairs of both files are in one order, category by category."""
    of_files = load("fleur", data_root)
    of_json = load("pascal50s", data_root)
    differing: dict[str, int] = {}
    for category in ("HC", "HI", "HM", "MM"):
        both: list[list[bool]] = []
        for captions in (of_files, of_json):
            preferences = captions.preferences
            of_category = preferences[preferences["dimension"] == category]
            both.append((of_category["strength"] > 0).tolist())
        first, second = both
        assert len(first) == len(second) == 1000
        differing[category] = sum(a != b for a, b in zip(first, second, strict=True))
    assert differing == {"HC": 18, "HI": 0, "HM": 1, "MM": 16}
