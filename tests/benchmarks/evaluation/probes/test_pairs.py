"""Pairs of captions and faulty ones, and the items that metrics score: worked by hand."""

from __future__ import annotations

import pandas as pd
import pytest

from captau.benchmarks.evaluation.probes import pairs as module
from captau.benchmarks.evaluation.probes.pairs import (
    PAIR_COLUMNS,
    items_of_references,
    make_probe_pairs,
)
from captau.datasets.schema import make_items
from tests.conftest import says

TEXTS = {
    "1": ["A dog is asleep on grass.", "Some dog on a lawn.", "a DOG is asleep on grass"],
    "2": ["A train is at a station.", "The train waits.", "Train"],
}


def items() -> pd.DataFrame:
    ids = [image for image, texts in TEXTS.items() for _ in texts]
    captions = [text for texts in TEXTS.values() for text in texts]
    return make_items(ids, captions, [tuple(TEXTS[image]) for image in ids])


def test_each_reference_is_a_caption_once_and_leaves_its_own_references() -> None:
    table = items_of_references({"1": ("a", "b", "c"), "2": ("d",), "3": ("e", "f")})
    assert table[["image_id", "caption", "references"]].to_numpy().tolist() == [
        ["1", "a", ("b", "c")],
        ["1", "b", ("a", "c")],
        ["1", "c", ("a", "b")],
        ["3", "e", ("f",)],
        ["3", "f", ("e",)],
    ]
    with says("no image has two references; one of them is the caption, so give two an image"):
        items_of_references({"1": ("a",), "2": ()})


def test_pairs_have_the_faulty_caption_and_references_without_copies() -> None:
    probes = make_probe_pairs(items(), ["twice", "half"], 100, 0)
    table = probes.pairs
    assert tuple(table.columns) == PAIR_COLUMNS
    assert table["fault"].tolist() == ["twice"] * 6 + ["half"] * 4
    ids = dict(zip(items()["item_id"], items()["caption"], strict=True))
    for row in table.to_dict("records"):
        caption = ids[row["item_id"]]
        assert row["caption"] == caption
        assert row["pair_id"] == f"{row['item_id']}|{row['fault']}"
        words = caption.split()
        half = " ".join(words[: len(words) // 2])
        expected = f"{caption} {caption}" if row["fault"] == "twice" else half
        assert row["faulty_caption"] == expected
        copies = 2 if "asleep" in caption else 1
        assert len(row["references"]) == 3 - copies
        assert set(row["references"]) <= set(TEXTS[row["image_id"]]) - {caption}
    # Each image gives a first caption before any gives a second one.
    images = table["image_id"].tolist()[:6]
    assert all(set(images[i : i + 2]) == {"1", "2"} for i in (0, 2, 4))
    assert probes.notes == {"twice": "", "half": "captions left out: 2 of 6 (2 too short)"}


def test_no_more_pairs_are_made_than_asked_for() -> None:
    for n_pairs in (1, 2, 6):
        probes = make_probe_pairs(items(), ["twice", "empty"], n_pairs, 0)
        assert probes.pairs["fault"].tolist() == ["twice"] * n_pairs + ["empty"] * n_pairs
        assert probes.notes == {"twice": "", "empty": ""}


def test_captions_to_score_are_the_originals_once_and_all_faulty_ones() -> None:
    probes = make_probe_pairs(items(), ["twice", "empty"], 2, 0)
    scored, table = probes.items, probes.pairs
    assert scored["item_id"].tolist() == [*table["item_id"][:2], *table["pair_id"]]
    assert scored.index.tolist() == list(range(2 + 4))
    assert scored["caption"].tolist() == [*table["caption"][:2], *table["faulty_caption"]]
    images = [*table["image_id"][:2], *table["image_id"]]
    assert scored["image_id"].tolist() == images
    assert scored["references"].tolist() == [*table["references"][:2], *table["references"]]
    assert scored["system"].isna().all()
    assert (scored["weight"] == 1).all()


def test_another_reference_takes_the_one_that_its_pair_leaves_out() -> None:
    probes = make_probe_pairs(items(), ["other_reference"], 100, 0)
    table = probes.pairs
    assert len(table) == 3  # those of image 1 have one reference alone, or two that say the same
    for row in table.to_dict("records"):
        assert row["faulty_caption"] in TEXTS[row["image_id"]]
        assert row["faulty_caption"] not in (row["caption"], *row["references"])
        assert row["item_id"] == f"{row['pair_id']}|original"
    assert probes.notes["other_reference"] == (
        "captions left out: 3 of 6 (3 with one reference alone)"
    )


def test_a_caption_of_another_image_is_of_another_image() -> None:
    table = make_probe_pairs(items(), ["other_image"], 100, 3).pairs
    assert len(table) == 6
    for image, text in zip(table["image_id"], table["faulty_caption"], strict=True):
        assert text in TEXTS[{"1": "2", "2": "1"}[image]]
    alone = items()[items()["image_id"] == "1"]
    probes = make_probe_pairs(alone, ["other_image"], 100, 0)
    assert probes.pairs.empty
    assert tuple(probes.pairs.columns) == PAIR_COLUMNS
    assert probes.notes["other_image"] == (
        "captions left out: 3 of 3 (3 that the change leaves as they are)"
    )


def test_a_fault_draws_the_same_whatever_the_others_are() -> None:
    alone = make_probe_pairs(items(), ["shuffled"], 3, 5).pairs
    among = make_probe_pairs(items()[::-1], ["empty", "shuffled", "other_image"], 3, 5).pairs
    among = among[among["fault"] == "shuffled"].reset_index(drop=True)
    columns = ["caption", "faulty_caption"]
    pd.testing.assert_frame_equal(alone[columns], among[columns])
    other = make_probe_pairs(items(), ["shuffled"], 3, 6).pairs
    assert not alone[columns].equals(other[columns])


def test_captions_of_another_language_have_no_english_faults() -> None:
    table = make_items(["1"], ["ein Hund schläft"], [("Hund auf Rasen",)])
    probes = make_probe_pairs(table, ["negation", "twice"], 5, 0)
    assert probes.notes == {"negation": "needs English captions", "twice": ""}
    assert probes.pairs["fault"].tolist() == ["twice"]


@pytest.mark.parametrize(("n_english", "is_english"), [(0, False), (1, True)])
def test_one_caption_of_five_in_english_makes_all_english(n_english: int, is_english: bool) -> None:
    captions = ["the dog"] * n_english + ["Hund"] * (5 - n_english)
    assert module.english_words().is_english(captions) is is_english


def test_captions_without_other_references_make_no_probes() -> None:
    table = make_items(["1", "2", "3"], ["A dog.", "...", "A cat."], [("a dog",), ("b",), ()])
    with says("no caption has a reference that differs from it; probes need one"):
        make_probe_pairs(table, ["twice"], 5, 0)


def test_captions_that_are_mostly_references_of_other_images_are_said_so() -> None:
    """By hand: two of three captions are the reference of another image, one of two are not most."""
    items = make_items(
        ["a", "b", "c"],
        ["two dogs run on grass", "a man rides a horse", "a red bus stands"],
        [["a man rides a horse"], ["two dogs run on grass"], ["a bus by the road"]],
    )
    notes = make_probe_pairs(items, ["other_image", "half"], 10, 0).notes
    assert notes["other_image"].startswith(
        "2 of the 3 captions are references of other images themselves"
    )
    assert "references of other images" not in notes["half"]
    few = items[items["image_id"] != "a"]
    assert (
        "references of other images"
        not in make_probe_pairs(few, ["other_image"], 10, 0).notes["other_image"]
    )
