"""PASCAL-50S: the reader on small files in the format at hand, and on the real one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat

from captau.datasets.reading.source_files import sha256
from captau.datasets.schema import CaptionSet, split_of
from captau.datasets.sources.pascal50s import (
    ALL_REFERENCES,
    CARD,
    CATEGORIES,
    PAIRS,
    VOTES,
    load_pascal50s,
    load_pascal50s_votes,
    read_all_references,
)
from tests.conftest import says


def pair(image: str, first: str, second: str, label: int) -> dict[str, Any]:
    return {
        "image": f"VOC2012/JPEGImages/{image}",
        "captions": [first, second],
        "label": label,
        "references": [f"{image} one", f"{image} two"],
    }


def table() -> dict[str, Any]:
    """A caption of x.jpg stands in two pairs; the same words about y.jpg are another item."""
    return {
        "HI": [pair("x.jpg", "a dog", "a tram", 1)],
        "HC": [pair("x.jpg", "a dog", "the dog", 0), pair("y.jpg", "a dog", "a cat", 1)],
        "MM": [],
        "HM": [pair("y.jpg", "a cat", "a cat", 0)],
    }


def write(root: Path, content: bytes | Any) -> Path:
    path = root / PAIRS.path
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def test_every_field(tmp_path: Path) -> None:
    write(tmp_path, table())
    made = load_pascal50s(tmp_path)
    items = made.items
    told = list(zip(items["image_id"], items["caption"], strict=True))
    # In the order of CATEGORIES, whatever the file's is.
    assert told == [
        ("x.jpg", "a dog"),
        ("x.jpg", "the dog"),
        ("y.jpg", "a dog"),
        ("y.jpg", "a cat"),
        ("x.jpg", "a tram"),
    ]
    assert items["references"].tolist() == [(f"{i} one", f"{i} two") for i, _ in told]
    assert items["system"].tolist() == items["image"].tolist() == [None] * 5
    assert items["split"].tolist() == [split_of(i) for i in items["image_id"]]
    dog, the_dog, y_dog, y_cat, tram = items["item_id"]
    assert made.preferences.to_numpy().tolist() == [
        ["HC-0000", dog, the_dog, "HC", "people", 1.0, "a"],
        ["HC-0001", y_dog, y_cat, "HC", "people", -1.0, "b"],
        ["HI-0000", dog, tram, "HI", "people", -1.0, "b"],
        ["HM-0000", y_cat, y_cat, "HM", "people", 1.0, "a"],
    ]
    assert made.ratings.empty
    assert made.dimensions == ()
    assert made.card is CARD


def test_other_references_make_another_item(tmp_path: Path) -> None:
    content = table()
    content["HI"][0]["references"] = ["another draw"]
    write(tmp_path, content)
    made = load_pascal50s(tmp_path)
    assert len(made.items) == 6
    assert made.items["item_id"].nunique() == 6


def altered(key: str, value: Any) -> dict[str, Any]:
    content = table()
    content["HC"][1][key] = value
    return content


def lacking(key: str) -> dict[str, Any]:
    content = table()
    del content["HC"][1][key]
    return content


FAULTS = {
    **{
        f"no {category}": ({k: v for k, v in table().items() if k != category}, [f"'{category}'"])
        for category in CATEGORIES
    },
    "a list": ([], [": an object is expected, not list"]),
    "category an object": ({**table(), "HC": {}}, ["'HC' is {}, not list"]),
    "pair a text": ({**table(), "HC": ["x"]}, ["HC[0]: an object is expected, not str"]),
    **{
        f"pair without {k}": (lacking(k), [f"HC[1]: '{k}' is missing"])
        for k in ("image", "captions", "label", "references")
    },
    "image a number": (altered("image", 3), ["HC[1]: 'image' is 3, not str"]),
    "captions a text": (altered("captions", "ab"), ["HC[1]: 'captions' is 'ab', not list"]),
    "caption null": (altered("captions", ["a", None]), ["HC[1]: 'captions' holds None"]),
    "one caption": (altered("captions", ["a"]), ["HC[1]: two captions and a label of 0 or 1"]),
    "three captions": (altered("captions", ["a", "b", "c"]), ["HC[1]: two captions"]),
    "label 2": (altered("label", 2), ["HC[1]: two captions and a label of 0 or 1"]),
    "label -1": (altered("label", -1), ["HC[1]: two captions and a label of 0 or 1"]),
    "label 0.0": (altered("label", 0.0), ["HC[1]: 'label' is 0.0, not int"]),
    "label true": (altered("label", True), ["HC[1]: 'label' is True, not int"]),
    "reference a number": (altered("references", [1]), ["HC[1]: 'references' holds 1"]),
    "truncated": (json.dumps(table(), indent=1)[:-9].encode(), ["not valid JSON", "truncated"]),
    "not UTF-8": (b'{"HC":\n\n"caf\xe9"}', [":3: not UTF-8 text"]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_name_file_and_place(fault: str, tmp_path: Path) -> None:
    content, parts = FAULTS[fault]
    path = write(tmp_path, content)
    with says(f"{path}:", *parts):
        load_pascal50s(tmp_path)


def test_faults_in_the_whole(tmp_path: Path) -> None:
    write(tmp_path, altered("references", []))
    with says("dataset pascal50s: item 'y.jpg:", "has no references"):
        load_pascal50s(tmp_path)
    write(tmp_path, {category: [] for category in CATEGORIES})
    with says("dataset pascal50s: it has no items"):
        load_pascal50s(tmp_path)


# The real file. Golden: the facts that data/README.md states, and rows as the file prints them.


@pytest.fixture(scope="module")
def real(data_root: Path) -> CaptionSet:
    return load_pascal50s(data_root)


def test_real_counts(real: CaptionSet) -> None:
    preferences = real.preferences
    assert CARD.expected == {
        "images": real.items["image_id"].nunique(),
        "preferences": len(preferences),
    }
    assert CARD.expected == {"images": 1000, "preferences": 4000}
    categories = preferences["dimension"].value_counts(sort=False).to_dict()
    assert categories == dict.fromkeys(CATEGORIES, 1000)
    assert set(preferences["winner"]) == {"a", "b"}
    assert real.items["references"].map(len).eq(5).all()
    images = real.items.set_index("item_id")["image_id"]
    assert preferences["item_a"].map(images).eq(preferences["item_b"].map(images)).all()


def test_the_real_file_is_of_the_cards_revision(data_root: Path) -> None:
    assert sha256(data_root / PAIRS.path) == PAIRS.sha256


def test_real_rows(real: CaptionSet) -> None:
    caption = real.items.set_index("item_id")["caption"]
    row = real.preferences.set_index("pair_id").loc["HI-0000"]
    assert caption[row["item_a"]] == (
        "A large, rusted white ship is docked in brown waters just offshore."
    )
    assert caption[row["item_b"]] == "photo of a television screen showing a movie"
    assert row["winner"] == "a"
    first = real.items.iloc[0]
    assert first["image_id"] == "2008_005747.jpg"
    assert first["caption"] == "The front drivers side headlights of a blue Corvette."
    assert first["references"][4] == "The headlights are surrounded by chrome."


# The 11 votes a pair, and all references: small MATLAB files in the shape of the released ones.


def cells(*texts: str) -> np.ndarray:
    array = np.empty((1, len(texts)), dtype=object)
    array[0, :] = texts
    return array


def structs(*rows: dict[str, Any]) -> np.ndarray:
    array = np.empty((1, len(rows)), dtype=[(name, object) for name in rows[0]])
    for number, row in enumerate(rows):
        array[0, number] = tuple(row.values())
    return array


def votes_of(*votes: int) -> dict[str, Any]:
    return {"result": np.array([votes], dtype=np.int16)}


def vote_table() -> dict[str, Any]:
    """Two pairs of x.jpg, one of y.jpg; of people's captions two are among the references."""
    pairs = [
        {"name": "x.jpg", "sent1": " a dog  runs", "sent2": "a tram"},
        {"name": "x.jpg", "sent1": "a dog runs", "sent2": "the dog"},
        {"name": "y.jpg", "sent1": "a cat", "sent2": "one cat"},
    ]
    return {
        "new_input": structs(*pairs),
        "category": np.array([[2, 1, 4]], dtype=np.uint8),
        "result": structs(votes_of(1, 1, -1), votes_of(-1, -1), votes_of(-1, 1, -1)),
    }


def reference_table() -> dict[str, Any]:
    images = [
        {"image": "x.jpg", "sent": cells("a dog runs", "Dogs run. ", "the dog", "a brown dog")},
        {"image": "y.jpg", "sent": cells("cats", "a white cat")},
    ]
    return {"refs": structs(*images)}


def write_votes(root: Path, votes: dict[str, Any], references: dict[str, Any]) -> None:
    (root / "pascal50s_votes").mkdir(exist_ok=True)
    savemat(root / VOTES.path, votes)
    savemat(root / ALL_REFERENCES.path, references)


def test_votes_and_all_references(tmp_path: Path) -> None:
    """A pair's own captions are none of its references; a vote of 1 is for the first caption."""
    write_votes(tmp_path, vote_table(), reference_table())
    made = load_pascal50s_votes(tmp_path)
    items = made.items.set_index("item_id")
    told = [
        (
            *(row["pair_id"], row["dimension"], row["rater"], row["winner"]),
            items.loc[row["item_a"], "caption"],
            items.loc[row["item_b"], "references"],
        )
        for row in made.preferences.to_dict("records")
    ]
    of_tram = ("Dogs run.", "the dog", "a brown dog")
    of_dogs = ("Dogs run.", "a brown dog")
    of_cats = ("cats", "a white cat")
    assert told == [
        ("HI-0000", "HI", "vote_1", "a", "a dog runs", of_tram),
        ("HI-0000", "HI", "vote_2", "a", "a dog runs", of_tram),
        ("HI-0000", "HI", "vote_3", "b", "a dog runs", of_tram),
        ("HC-0001", "HC", "vote_1", "b", "a dog runs", of_dogs),
        ("HC-0001", "HC", "vote_2", "b", "a dog runs", of_dogs),
        ("MM-0002", "MM", "vote_1", "b", "a cat", of_cats),
        ("MM-0002", "MM", "vote_2", "a", "a cat", of_cats),
        ("MM-0002", "MM", "vote_3", "b", "a cat", of_cats),
    ]
    assert made.ratings.empty


def without(table: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key != name}


VOTE_FAULTS = {
    "no pairs": (without(vote_table(), "new_input"), ["no variable 'new_input'"]),
    "no votes": (without(vote_table(), "result"), ["no variable 'result'"]),
    "fewer categories": (
        {**vote_table(), "category": np.array([[2, 1]])},
        ["3 pairs, 2 categories and 3 results are not as many of each"],
    ),
    "category 5": (
        {**vote_table(), "category": np.array([[2, 5, 4]])},
        ["pair 1: its category is 5; a number from 1 to 4 is expected"],
    ),
    "vote 0": (
        {**vote_table(), "result": structs(votes_of(1), votes_of(0), votes_of(1))},
        ["pair 1: a vote is 0; 1 (the first caption) or -1 is expected"],
    ),
    "an unknown image": (
        {
            **vote_table(),
            "new_input": structs(
                *({"name": "z.jpg", "sent1": "a", "sent2": "b"} for _ in range(3))
            ),
        },
        ["pair 0: pascal50s_votes/pascal50S.mat has no references of its image 'z.jpg'"],
    ),
    "no second caption": (
        {**vote_table(), "new_input": structs(*({"name": "x.jpg", "sent1": "a"} for _ in "abc"))},
        ["pair 0: no field 'sent2'"],
    ),
    "a number for a caption": (
        {
            **vote_table(),
            "new_input": structs(*({"name": "x.jpg", "sent1": 3, "sent2": "b"} for _ in "abc")),
        },
        ["pair 0: a text is expected, not"],
    ),
}


@pytest.mark.parametrize("fault", VOTE_FAULTS)
def test_faults_of_votes_name_file_and_place(fault: str, tmp_path: Path) -> None:
    votes, parts = VOTE_FAULTS[fault]
    write_votes(tmp_path, votes, reference_table())
    with says(f"{tmp_path / VOTES.path}: ", *parts):
        load_pascal50s_votes(tmp_path)


@pytest.mark.parametrize("content", [b"", b"no MATLAB file at all", None])
def test_what_is_no_matlab_file_is_one_line(content: bytes | None, tmp_path: Path) -> None:
    write_votes(tmp_path, vote_table(), reference_table())
    path = tmp_path / VOTES.path
    path.write_bytes(path.read_bytes()[:700] if content is None else content)
    with says(f"{path}: ", "download it anew"):
        load_pascal50s_votes(tmp_path)


def test_real_votes(data_root: Path) -> None:
    """Golden: data/README.md; 1,000 pairs a category, and 11 votes for all but six pairs, which have 10."""
    made = load_pascal50s_votes(data_root)
    assert len(read_all_references(data_root / ALL_REFERENCES.path)) == 1000
    counts = made.preferences.groupby(["dimension", "pair_id"]).size()
    assert counts.groupby("dimension").size().to_dict() == dict.fromkeys(CATEGORIES, 1000)
    assert counts.value_counts().to_dict() == {11: 3994, 10: 6}
    assert made.items["image_id"].nunique() == 1000
    assert made.items["references"].map(len).between(47, 50).all()
