"""The demo dataset: its captions and references are checked against the scenes as texts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import combinations, pairwise
from pathlib import Path

import pandas as pd
import pytest

from captau.datasets.errors import InputError
from captau.datasets.schema import ITEM_COLUMNS, CaptionSet
from captau.datasets.sources import demo

NAMES = {**{s: s for s in demo.SHAPES}, **{demo.EVERYDAY.get(s, s): s for s in demo.SHAPES}}
NOUN = re.compile(rf"({'|'.join(demo.COLOURS)}) ({'|'.join(NAMES)})\b")
RELATION = re.compile(r"\b(left|right) of\b|\b(above|over|below|under)\b")
MEANING = {"over": "above", "under": "below"}
SCENES = {scene.image_id: scene for scene in demo.scenes()}


@pytest.fixture(scope="module")
def data() -> CaptionSet:
    return demo.load_demo(Path("nowhere"))


@pytest.fixture(scope="module")
def means(data: CaptionSet) -> pd.Series:
    """The mean rating of each item, in the items' order."""
    return data.ratings.groupby("item_id")["value"].mean().loc[data.items["item_id"]]


@pytest.fixture(scope="module")
def rule(data: CaptionSet) -> dict[str, float]:
    """What the rule makes of each item."""
    values = [demo.quality(c.claims, c.scene) for c in demo.candidates()]
    return dict(zip(data.items["item_id"], values, strict=True))


def relations_in(text: str, scene: demo.Scene) -> list[tuple[str, bool]]:
    """The relations a text states between objects of the scene, and whether each holds."""
    there = {(o.colour, o.shape): o for o in scene.objects}
    found: list[tuple[str, bool]] = []
    for one, other in pairwise(NOUN.finditer(text.lower())):
        stated = RELATION.search(text, one.end(), other.start())
        a, b = (there.get((noun[1], NAMES[noun[2]])) for noun in (one, other))
        if stated and a and b:
            word = stated[1] or MEANING.get(stated[2], stated[2])
            found.append((word, demo.holds(a, word, b)))
    return found


def captions_of(data: CaptionSet, system: str) -> list[tuple[demo.Scene, str]]:
    items = data.items[data.items["system"] == system]
    return [(SCENES[i], c) for i, c in zip(items["image_id"], items["caption"], strict=True)]


def test_counts_are_those_of_the_card(data: CaptionSet) -> None:
    assert demo.CARD.expected == {
        "images": data.items["image_id"].nunique(),
        "items": len(data.items),
        "ratings": len(data.ratings),
        "preferences": len(data.preferences),
    }
    assert tuple(data.items.columns) == ITEM_COLUMNS
    assert all(Path(str(image)).is_file() for image in data.items["image"])
    assert set(data.items["system"]) == set(demo.SYSTEMS)
    assert data.items["references"].map(len).eq(5).all()
    assert data.preferences["dimension"].value_counts().to_dict() == dict.fromkeys(demo.PAIRS, 60)


def test_the_card_says_that_it_is_synthetic() -> None:
    assert demo.CARD.synthetic
    assert not demo.CARD.sources


def test_two_loads_are_equal(data: CaptionSet) -> None:
    demo.scenes.cache_clear()
    demo.candidates.cache_clear()
    again = demo.load_demo(Path("elsewhere"))
    assert again.digest == data.digest
    pd.testing.assert_frame_equal(again.items, data.items)


def test_another_process_loads_the_same(data: CaptionSet) -> None:
    program = (
        "import sys; from pathlib import Path; from captau.datasets.sources.demo import load_demo; "
        "print(load_demo(Path()).digest, 'PIL' in sys.modules)"
    )
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.split() == [data.digest, "False"]


def test_systems_are_ordered_by_how_right_they_are(data: CaptionSet, means: pd.Series) -> None:
    of = means.groupby(data.items["system"].to_numpy()).mean()
    wrong = of[[s for s in demo.SYSTEMS if s.startswith("wrong")]]
    assert of["exact"] > of["terse"] > wrong.max()
    assert wrong.min() > of["unrelated"]


def test_ratings_follow_the_rule_with_noise(
    data: CaptionSet, means: pd.Series, rule: dict[str, float]
) -> None:
    expected = pd.Series(rule).loc[means.index]
    assert 0.8 < means.corr(expected) < 0.99
    values = data.ratings["value"].to_numpy(dtype=float)
    assert demo.CARD.scales["overall"].fits(values).all()
    assert set(values) == {1, 2, 3, 4, 5}
    by_rater = data.ratings.pivot_table(index="item_id", columns="rater", values="value")
    assert by_rater.shape == (360, 3)
    agreement = by_rater.corr().to_numpy()
    assert agreement.min() > 0.5, "raters see the same captions"
    assert by_rater.mean().nunique() == 3, "each has a bias of their own"


@pytest.mark.parametrize(
    ("things", "relations", "value"),
    [
        ("AB", ("left",), 1.0),
        ("AB", ("above",), 4 / 9),
        ("BA", ("right",), 1.0),
        ("A", (), 0.8),
        ("aB", ("left",), 0.6**2 * 0.88),
        ("xx", ("left",), 0.0),
    ],
)
def test_the_rule(things: str, relations: tuple[str, ...], value: float) -> None:
    a = demo.Placed("red", "circle", "small", 0.2, 0.5)
    b = demo.Placed("blue", "square", "large", 0.8, 0.5)
    named = {"A": a, "B": b}
    named["a"] = demo.Placed("green", "circle", "small", 0.2, 0.5)
    named["x"] = demo.Placed("pink", "star", "small", 0.2, 0.5)
    claims = demo.Claims(tuple(named[t] for t in things), relations)
    assert demo.quality(claims, demo.Scene("s.png", (a, b))) == pytest.approx(value)


def test_references_are_true_and_differ(data: CaptionSet) -> None:
    stated = 0
    for image_id, group in data.items.groupby("image_id"):
        scene, references = SCENES[str(image_id)], group["references"].iloc[0]
        assert len({r.lower() for r in references}) == 5
        assert not set(references) & set(group["caption"])
        assert group["references"].map(lambda r, first=references: r == first).all()
        for reference in references:
            named = {(c, NAMES[s]) for c, s in NOUN.findall(reference.lower())}
            assert named == {(o.colour, o.shape) for o in scene.objects}, reference
            assert not re.search(r"\ba [aeiou]|\ban [^aeiou]|  |^ | $", reference), reference
            relations = relations_in(reference, scene)
            assert all(true for _, true in relations), reference
            stated += bool(relations)
    assert stated > 150


def test_right_captions_are_right(data: CaptionSet) -> None:
    for scene, caption in captions_of(data, "exact"):
        found = relations_in(caption, scene)
        assert len(found) == len(scene.objects) - 1, caption
        assert all(true for _, true in found), caption
    for scene, caption in captions_of(data, "terse"):
        (noun,) = NOUN.findall(caption)
        assert (noun[0], NAMES[noun[1]]) in {(o.colour, o.shape) for o in scene.objects}


def test_wrong_captions_are_wrong_in_what_they_say(data: CaptionSet) -> None:
    for scene, caption in captions_of(data, "wrong_relation"):
        assert [true for _, true in relations_in(caption, scene)].count(False) == 1, caption
    # system: how many named things have a colour, and a shape, that is not in the scene
    for system, colours, shapes in (("wrong_colour", 1, 0), ("wrong_object", 1, 1)):
        for scene, caption in captions_of(data, system):
            nouns = NOUN.findall(caption)
            there = {o.colour for o in scene.objects}, {NAMES[o.shape] for o in scene.objects}
            assert sum(c not in there[0] for c, _ in nouns) == colours, caption
            assert sum(NAMES[s] not in there[1] for _, s in nouns) == shapes, caption
    for scene, caption in captions_of(data, "unrelated"):
        named = {w for c, s in NOUN.findall(caption) for w in (c, NAMES[s])}
        assert named.isdisjoint({w for o in scene.objects for w in (o.colour, o.shape)}), caption


def test_winners_mostly_follow_the_rule(data: CaptionSet, rule: dict[str, float]) -> None:
    preferences = data.preferences
    assert set(preferences["winner"]) == {"a", "b"}
    lead = preferences["item_a"].map(rule) - preferences["item_b"].map(rule)
    agrees = (lead > 0) == (preferences["winner"] == "a")
    assert 0.8 < agrees.mean() < 1
    assert (agrees.groupby(preferences["dimension"]).mean() > 0.8).all()
    assert 0.4 < (preferences["winner"] == "a").mean() < 0.6, "the order gives nothing away"
    images = data.items.set_index("item_id")["image_id"]
    assert preferences["item_a"].map(images).tolist() == preferences["item_b"].map(images).tolist()


def test_pairs_are_of_the_systems_of_their_dimension(data: CaptionSet) -> None:
    systems = data.items.set_index("item_id")["system"]
    for row in data.preferences.itertuples():
        assert {systems[row.item_a], systems[row.item_b]} == set(demo.PAIRS[str(row.dimension)])


def test_objects_differ_and_do_not_overlap() -> None:
    for scene in demo.scenes():
        assert len(scene.objects) in (2, 3)
        for one, other in combinations(scene.objects, 2):
            assert one.colour != other.colour
            assert one.shape != other.shape
            apart = max(abs(one.x - other.x), abs(one.y - other.y))
            assert apart > demo.SIZES[one.size] + demo.SIZES[other.size]


@pytest.mark.parametrize("size", [64, 256])
def test_pictures_show_the_objects(size: int) -> None:
    from PIL.ImageColor import getrgb as colour

    for scene in demo.scenes():
        picture = demo.render(scene.image_id, size)
        assert picture.size == (size, size)
        assert picture.mode == "RGB"
        drawn = {c for _, c in picture.getcolors()}
        assert drawn == {colour("white"), *(colour(o.colour) for o in scene.objects)}
        for thing in scene.objects:
            assert picture.getpixel((thing.x * size, thing.y * size)) == colour(thing.colour)
            reach = demo.SIZES[thing.size] + 1.5 / size
            for dx, dy in ((-reach, 0), (reach, 0), (0, -reach), (0, reach)):
                x, y = (thing.x + dx) * size, (thing.y + dy) * size
                if min(x, y) >= 0 and max(x, y) < size:
                    assert picture.getpixel((x, y)) != colour(thing.colour)


def test_the_default_size() -> None:
    assert demo.render("demo_000.png").size == (256, 256)


def test_an_unknown_picture_is_named_with_near_ones() -> None:
    with pytest.raises(InputError, match=r"unknown demo image 'demo_1\.png': did you mean demo_0"):
        demo.render("demo_1.png")


def test_a_picture_is_drawn_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "cache_folder", lambda *_: tmp_path)
    first, second, *_ = sorted(SCENES)
    (tmp_path / first).write_bytes(b"mine")
    assert demo.pictures() == tmp_path
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(SCENES)
    assert (tmp_path / first).read_bytes() == b"mine"
    assert (tmp_path / second).read_bytes().startswith(b"\x89PNG")
