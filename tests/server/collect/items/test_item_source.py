"""The captions of a study: sources in given shares, mismatched ones, and filters by known ratings."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from captau.datasets.reading.yaml_fields import YamlFields
from captau.server.collect.forms import FORMS
from captau.server.collect.items.item_pool import ItemPool
from captau.server.collect.items.item_source import read_items
from captau.server.collect.study import read_study
from tests.conftest import says
from tests.server.collect.conftest import write_study

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


def filter_unanimous(dataset, rating, root=None):
    source = YamlFields.parse(
        f"{{dataset: {dataset}, leave_out_unanimous: {rating}}}", "study.yaml"
    )
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
    practice = pool.take_unanimous("probation", 5, [1], YamlFields.parse("{}", "study.yaml"))
    assert [set(unit.fixed) for unit in practice] == [{1}] * 5
