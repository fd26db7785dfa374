"""Units of items: captions of an image together, numbers, and the practice that is taken out of the items."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from captau.server.collect.forms.game import GameFields, TutorialPair
from captau.server.collect.items.item_pool import (
    CaptionPairFields,
    ItemPool,
    PairFields,
    check_images,
)
from captau.server.collect.items.item_source import SourceShares, mismatch_captions, take_spread
from captau.server.collect.items.units import (
    StudyItem,
    StudyUnit,
    number_units,
    unit_of_item,
    units_of_images,
)
from tests.conftest import says
from tests.server.collect.conftest import read_fields

NAN = float("nan")


def item(number, image="p0", system="s", caption=None, **fields):
    text = f"caption {number}" if caption is None else caption
    return StudyItem(f"i{number}", image, f"/x/{image}", text, ("r",), system, "", **fields)


def test_captions_of_an_image_stand_together_in_units_of_a_size():
    items = [item(0), item(1, "p1"), item(2), item(3), item(4, "p1")]

    def groups(*size):
        units = units_of_images(items, *size)
        assert all(u.pool == "main" and u.image == f"/x/{u.image_id}" for u in units)
        return [(u.image_id, [i.item_id for i in u.items]) for u in units]

    assert groups() == [("p0", ["i0", "i2", "i3"]), ("p1", ["i1", "i4"])]
    assert groups(2) == [("p0", ["i0", "i2"]), ("p0", ["i3"]), ("p1", ["i1", "i4"])]
    assert groups(1) == [
        (i.image_id, [i.item_id]) for i in [*items[:1], *items[2:4], items[1], items[4]]
    ]


def test_units_and_items_are_numbered_from_one():
    first, second = units_of_images([item(0), item(1, "p1"), item(2)])
    units = number_units([first, second])
    assert [(u.id, [i.id for i in u.items]) for u in units] == [(1, [1, 2]), (2, [3])]
    practice = unit_of_item("tutorial", item(5), [4, 5], "because")
    assert practice == StudyUnit("tutorial", "p0", "/x/p0", (item(5),), (4, 5), "because")
    assert (practice.is_rated, first.is_rated) == (False, True)


def make_pool(*ratings, images=None):
    """Return a pool of items, each with the least, greatest and mean of its ratings and their number."""
    rows = [
        {
            **{"item_id": f"i{k}", "image_id": f"p{k}", "image": None if k == 1 else f"/x/p{k}"},
            **{"caption": f"caption {k}", "references": ("r",), "system": None if k == 1 else "s"},
            **{"split": "", "min": low, "max": high, "mean": (low + high) / 2, "size": size},
        }
        for k, (low, high, size) in enumerate(ratings)
    ]
    return ItemPool(pd.DataFrame(rows), images)


FIELDS = GameFields()


def test_unanimous_items_are_taken_by_turn_of_their_levels():
    """Items 0, 3 and 4 have two equal ratings or more; of item 2 there is one, and item 1 is disputed."""
    ratings = (5, 5, 2), (4, 5, 3), (5, 5, 1), (1, 1, 3), (5, 5, 2), (NAN, NAN, NAN)
    for n, taken in (
        (0, []),
        (1, [(3, 1, 3)]),
        (2, [(3, 1, 3), (0, 5, 2)]),
        (9, [(3, 1, 3), (0, 5, 2), (4, 5, 2)]),
    ):
        pool = make_pool(*ratings)
        units = pool.take_unanimous("probation", n, (1, 2, 5), FIELDS)
        assert [(u.pool, u.image_id, u.fixed) for u in units] == [
            ("probation", f"p{row}", (level,) * size) for row, level, size in taken
        ]
        left = [i.item_id for i in pool.remaining()]
        assert left == [f"i{k}" for k in range(6) if k not in {row for row, _, _ in taken}]
        assert pool.take_unanimous("probation", 9, (3,), FIELDS) == []
    items = {i.item_id: i for i in make_pool(*ratings).remaining()}
    assert items["i1"] == StudyItem("i1", "p1", "", "caption 1", ("r",), None, "", 4.5)
    assert (items["i0"].mean_rating, items["i5"].mean_rating) == (5.0, None)


def test_listed_pairs_are_no_longer_rated_whoever_wrote_them():
    frame = pd.DataFrame(
        [
            {
                **{"item_id": f"i{k}", "image_id": "p0", "image": "/x/p0", "caption": caption},
                **{"references": (), "system": system, "split": ""},
            }
            for k, (caption, system) in enumerate((("a", "s"), ("a", "t"), ("b", "s")))
        ]
    )
    pool = ItemPool(frame, None)
    pair = {"image": "p0", "caption": "a"}
    unit = pool.listed_unit("tutorial", read_fields(PairFields, **pair, explanation="so"), [3])
    assert (unit.pool, unit.items[0].item_id, unit.fixed, unit.explanation) == (
        "tutorial",
        "i1",
        (3,),
        "so",
    )
    assert [i.item_id for i in pool.remaining()] == ["i2"]
    unit = pool.listed_unit("attention", read_fields(PairFields, image="p0", caption="new"), [1, 2])
    assert (unit.image, unit.items[0].caption, unit.items[0].system, unit.fixed) == (
        "/x/p0",
        "new",
        None,
        (1, 2),
    )
    assert len(pool.remaining()) == 1
    pair = pool.listed_pair(
        "attention", read_fields(CaptionPairFields, image="p0", caption_a="x", caption_b="y"), [1]
    )
    assert ([i.caption for i in pair.items], pair.image, pair.fixed) == (["x", "y"], "/x/p0", (1,))
    for fields, fault in (
        ({"image": "p9", "caption": "a"}, "image: no image 'p9' among the items"),
        ({"image": "p0", "caption": "a", "x": 1}, "x"),
    ):
        with says("study.yaml", fault):
            pool.listed_unit("attention", read_fields(PairFields, **fields), [1])
    with says("explanation"):
        read_fields(TutorialPair, image="p0", caption="a", ratings=3)
    with says("caption_b: it is equal to caption_a; choose another caption"):
        pool.listed_pair(
            "attention",
            read_fields(CaptionPairFields, image="p0", caption_a="x  y", caption_b="x y"),
            [1],
        )
    with says("probation: the items come without ratings; list the pairs, each with its ratings"):
        pool.take_unanimous("probation", 1, (1,), FIELDS)


def test_every_unit_needs_an_image_that_browsers_show(tmp_path):
    def unit(name):
        return StudyUnit("main", name, str(tmp_path / name) if name else "", ())

    for name in ("a.png", "b.bmp"):
        Image.new("RGB", (4, 3)).save(tmp_path / name)
    (tmp_path / "c.png").write_text("no image")
    check_images([unit("a.png"), unit("a.png")], "study.yaml:1")
    without = replace(unit(""), image_id="p7")
    for units, fault in (
        ([unit("a.png"), without, without], "study.yaml:1: 2 of 3 items have no image file, 'p7' for one; items.images=FOLDER"),
        ([unit("b.bmp")], "b.bmp: BMP images are not shown by browsers; save it as PNG"),
        ([unit("c.png")], "c.png: no image that can be read; replace it or leave its items out"),
        ([unit("d.png")], "d.png: No such file or directory; replace it or leave its items out"),
    ):  # fmt: skip
        with says(fault):
            check_images(units, "study.yaml:1")


class InOrder:
    """Draws that change no order."""

    def permutation(self, n):
        return np.arange(n)


@pytest.mark.parametrize(
    ("shares", "n", "counts"),
    [
        ({"a": 0.5, "b": 0.5}, 4, {"a": 2, "b": 2}),
        ({"a": 0.5, "b": 0.3, "c": 0.2}, 9, {"a": 4, "b": 3, "c": 2}),  # 4.5, 2.7, 1.8
        ({"a": 0.6, "b": 0.4}, 1, {"a": 1, "b": 0}),
        ({"a": 0.1, "b": 0.9}, 10, {"a": 1, "b": 9}),
        ({"a": 0.29, "b": 0.71}, 100, {"a": 29, "b": 71}),  # 28.999999999999996 in floats
    ],
)
def test_what_rounding_leaves_goes_to_the_largest_remainders(shares, n, counts):
    assert SourceShares(shares, n, "")._counts() == counts


def test_captions_are_taken_of_as_many_images_as_there_are():
    items = [item(0, "p0"), item(1, "p0"), item(2, "p1"), item(3, "p2"), item(4, "p1")]
    counts = Counter({"p2": 1})
    assert [i.item_id for i in take_spread(items, 4, counts)] == ["i0", "i2", "i1", "i3"]
    assert counts == {"p0": 2, "p1": 1, "p2": 2}
    assert take_spread(items, 0, counts) == []


def test_mismatched_captions_are_another_image_s_and_equal_to_none_of_its_own():
    items = [item(k, f"p{k}", caption=f"c{k % 3}", mean_rating=3.0) for k in range(4)]
    found = mismatch_captions([*items, item(9, "p0", caption="x")], items[:3], InOrder())
    # p0 gets the first caption that is not its own, and so on; after all three they are drawn anew.
    assert [(i.image_id, i.caption, i.system, i.mean_rating) for i in found] == [
        *(("p0", "c1", "mismatched", None), ("p1", "c0", "mismatched", None)),
        ("p3", "c2", "mismatched", None),
    ]
    assert len({i.item_id for i in found}) == 3
    assert mismatch_captions([items[0]], [items[0]], InOrder()) == []
