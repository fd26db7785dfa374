"""The captions of a study: sources in given shares, mismatched ones, and filters by known ratings."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from captau.server.collect.forms import FORMS
from captau.server.collect.forms.game import GameFields
from captau.server.collect.items.item_pool import ItemPool
from captau.server.collect.items.item_source import caption_items, pair_items, read_items
from captau.server.collect.study import read_study
from tests.conftest import says
from tests.server.collect.conftest import read_study_fields, write_study

SHARES = {"human": 0.25, "first": 0.5, "mismatched": 0.25}


def write_mixed_study(folder, *, limit=8, mismatched_from="human", shares=SHARES, seed=0):
    """Write a study of 6 images with captions by `human`, `first` and `second`."""
    items = {"limit": limit, "shares": shares, "mismatched_from": mismatched_from, "seed": seed}
    items = {k: v for k, v in items.items() if v is not None}
    path = write_study(folder, "good_bad", items=items)
    rows = [
        {"image": f"p{k}.png", "caption": f"{system} says {k}", "system": system}
        for k in range(6)
        for system in ("human", "first", "second")
    ]
    (folder / "captions.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def main_items(path):
    return [u.items[0] for u in read_study(str(path)).units if u.pool == "main"]


def test_sources_are_mixed_in_their_shares_over_as_many_images_as_there_are(tmp_path):
    """As CocoG: most images get one caption, some two (Scott et al. 2023, section 3.3)."""
    items = main_items(write_mixed_study(tmp_path))
    assert Counter(item.system for item in items) == {"human": 2, "first": 4, "mismatched": 2}
    assert sorted(Counter(item.image_id for item in items).values()) == [1, 1, 1, 1, 2, 2]
    for item in items:
        number = item.image_id.removeprefix("p").removesuffix(".png")
        is_own = item.caption.endswith(f"says {number}")
        assert is_own == (item.system != "mismatched")
        assert item.system != "mismatched" or item.caption.startswith("human")


def test_a_seed_draws_the_same_mixture_again(tmp_path):
    def pairs(seed):
        items = main_items(write_mixed_study(tmp_path, seed=seed))
        return {(i.image_id, i.caption, i.item_id) for i in items}

    assert pairs(1) == pairs(1)
    assert pairs(1) != pairs(2)


def test_what_rounding_leaves_over_goes_to_the_largest_remainder(tmp_path):
    shares = {"human": 1, "first": 1, "second": 1}  # weights: thirds of 7 are 2.33 each
    items = main_items(write_mixed_study(tmp_path, limit=7, shares=shares, mismatched_from=None))
    assert sorted(Counter(item.system for item in items).values()) == [2, 2, 3]


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"limit": None}, ["items.limit", "this field is required"]),
        ({"mismatched_from": None}, ["items.mismatched_from", "name both"]),
        ({"shares": {"human": 1}}, ["items.mismatched_from", "name both, or neither"]),
        ({"shares": {}, "mismatched_from": None}, ["items.shares", "a number for each system"]),
        ({"shares": {**SHARES, "third": 1}}, ["items.shares", "unknown system 'third'"]),
        ({"shares": {**SHARES, "first": -1}}, ["items.shares.first", "-1"]),
        ({"limit": 16}, ["items.shares.first: 8 of items.limit=16", "6 are there"]),
    ],
)
def test_faults_of_shares_are_reported(tmp_path, changes, parts):
    path = write_mixed_study(tmp_path, **changes)
    with says(f"{path}:", *parts):
        read_study(str(path))


def test_a_table_has_no_ratings_to_filter_by(tmp_path):
    path = write_study(tmp_path, "good_bad", items={"leave_out_unanimous": 1})
    with says(f"{path}:", "items.leave_out_unanimous", "without ratings"):
        read_study(str(path))


def read_items_fields(**items):
    return read_study_fields(FORMS["good_bad"], items=items).items


def filter_unanimous(dataset, rating, root=None):
    source = read_items_fields(dataset=dataset, leave_out_unanimous=rating)
    frame, images = read_items(source, Path(), root, FORMS["good_bad"].read_table)
    return frame, ItemPool(frame, images)


def test_pairs_that_all_experts_rated_1_are_left_out(data_root):
    """Scott et al. 2023, section 3.3: 2,350 pairs are held out, 3,472 stay; 158 of these are in no dataset of ours."""
    frame, pool = filter_unanimous("flickr8k_expert", 1, data_root)
    assert len(frame) - len(pool.remaining()) == 2350
    assert len(pool.remaining()) == 3472 - 158


def test_what_is_left_out_may_still_be_practised_on():
    frame, pool = filter_unanimous("demo", 1)
    is_unanimous = (frame["min"] == 1) & (frame["max"] == 1)
    assert is_unanimous.sum() > 5
    assert len(pool.remaining()) == (~is_unanimous).sum()
    practice = pool.take_unanimous("probation", 5, [1], GameFields())
    assert [set(unit.fixed) for unit in practice] == [{1}] * 5


def read_file(folder, text, table_reader=pair_items, **fields):
    """Return the rows of a study's items whose table has a text."""
    (folder / "items.csv").write_text(text)
    for name in ("p0.png", "p1.png"):
        (folder / name).touch()
    source = read_items_fields(file="items.csv", **fields)
    frame, images = read_items(source, folder, None, table_reader)
    columns = ["image_id", "image", "caption", "references", "system", *({"pair"} & set(frame))]
    return frame[columns].to_numpy().tolist(), images


@pytest.mark.parametrize(
    ("names", "cells", "systems"),
    [
        ("", "", (None, None)),
        (",system_a", ",s", ("s", None)),
        (",system_a,system_b", ",s,", ("s", None)),
        (",system_a,system_b", ",s,t", ("s", "t")),
    ],
)
def test_both_captions_of_a_listed_pair_are_items(tmp_path, names, cells, systems):
    head = f"image,caption_a,caption_b,references{names}\n"
    rows, images = read_file(
        tmp_path, f"{head}p0.png,one,two,a ref{cells}\np1.png,three,one,b ref{cells}\n"
    )
    first, second = (str(tmp_path.resolve() / name) for name in ("p0.png", "p1.png"))
    a, b = systems
    assert (rows, images) == (
        [
            ["p0.png", first, "one", ("a ref",), a, 0],
            ["p1.png", second, "three", ("b ref",), a, 1],
            ["p0.png", first, "two", ("a ref",), b, 0],
            ["p1.png", second, "one", ("b ref",), b, 1],
        ],
        None,
    )


def test_faults_of_listed_pairs_are_named_by_their_lines(tmp_path):
    head = "image,caption_a,caption_b\n"
    with says("items.csv:2", "caption_a and caption_b are equal, 'one  x'; leave this pair out"):
        read_file(tmp_path, f"{head}p0.png,one  x,one x\n")
    twice = "this pair stands at", "items.csv:2 already, in one order or the other"
    with says("items.csv:4", *twice):
        read_file(tmp_path, f"{head}p0.png,one,two\np1.png,one,two\np0.png,two,one\n")


def test_systems_and_images_of_a_study_are_chosen(tmp_path):
    def read_captions(table, images):
        return caption_items(table, images, table.filled("caption"))

    text = "image,caption,system\np0.png,one,s\np1.png,two,t\np0.png,three,\n"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "p0.png").touch()
    rows, images = read_file(tmp_path, text, read_captions, systems=["s", "t"], images="other")
    assert images == (tmp_path / "other").resolve()
    assert rows == [
        ["p0.png", str(images / "p0.png"), "one", (), "s"],
        ["p1.png", None, "two", (), "t"],
    ]
    for fields, parts in (
        ({"systems": ["u"]}, ["systems", "unknown system 'u'"]),
        ({"images": "none"}, ["images", "none is not a folder"]),
        ({"dataset": "demo"}, ["items: either dataset or file is needed"]),
    ):
        with says("study.yaml", *parts):
            read_file(tmp_path, text, read_captions, **fields)
    with says("items.csv:2", "'../x.png' lies outside of"):
        (tmp_path / "x.png").touch()
        (tmp_path / "in").mkdir()
        read_file(tmp_path / "in", "image,caption\n../x.png,one\n", read_captions)


def test_items_that_everybody_rated_so_are_left_out():
    frame, pool = filter_unanimous("demo", 2)
    expected = [(low, high) == (2, 2) for low, high in zip(frame["min"], frame["max"], strict=True)]
    assert frame["is_left_out"].tolist() == expected
    assert len(pool.remaining()) == expected.count(False)
