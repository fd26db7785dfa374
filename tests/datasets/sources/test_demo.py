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
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": "1"},
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
        ("AB", ("below",), 4 / 9),
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


@pytest.mark.parametrize(
    ("things", "relations", "value"),
    [
        ("ABC", ("left", "above"), 1.0),
        ("ABCB", ("left", "above", "below"), 1.0),
        # Likenesses 1, 1, 0.4; the first relation is worth 1, the second 0.4; coverage 2.4 / 3.
        ("ABc", ("left", "above"), (3.8 / 5) ** 2 * (0.6 + 0.4 * 0.8)),
        # The second relation does not hold: 0.
        ("ABC", ("left", "below"), (4 / 5) ** 2),
        # The first thing is like none: 0, 1, 1, 0, 1; coverage 2 / 3.
        ("xBC", ("left", "above"), (3 / 5) ** 2 * (0.6 + 0.4 * 2 / 3)),
    ],
)
def test_the_rule_of_three_things(things: str, relations: tuple[str, ...], value: float) -> None:
    a = demo.Placed("red", "circle", "small", 0.2, 0.5)
    b = demo.Placed("blue", "square", "large", 0.8, 0.5)
    c = demo.Placed("green", "star", "large", 0.8, 0.9)
    named = {"A": a, "B": b, "C": c, "c": demo.Thing("pink", "star", "small")}
    named["x"] = demo.Thing("pink", "hexagon", "small")
    claims = demo.Claims(tuple(named[t] for t in things), relations)
    assert demo.quality(claims, demo.Scene("s.png", (a, b, c))) == pytest.approx(value)


@pytest.mark.parametrize(
    ("dx", "dy", "held"),
    [
        (0.25, 0.0, ["left"]),
        (-0.25, 0.0, ["right"]),
        (0.0, 0.25, ["above"]),
        (0.0, -0.25, ["below"]),
        (0.2, -0.2, []),
        (-0.2, 0.2, []),
        (0.25, 0.25, ["left", "above"]),
    ],
)
def test_a_relation_holds_where_objects_are_clear_apart(
    dx: float, dy: float, held: list[str]
) -> None:
    first = demo.Placed("red", "circle", "small", 0.0, 0.0)
    second = demo.Placed("blue", "square", "small", dx, dy)
    assert [r for r in demo.RELATIONS if demo.holds(first, r, second)] == held


def test_revision_1_is_always_the_same(data: CaptionSet) -> None:
    """Every number that users have printed of the demo rests on it; a change needs a new revision."""
    demo.scenes.cache_clear()
    demo.candidates.cache_clear()
    made = demo.load_demo(Path("nowhere"))
    assert made.digest == "577d9f063243c8653f82beef156f7addd4377951ef392d5a1183fc64b73d15ac"
    first = demo.scenes()[0].objects
    assert [(o.colour, o.shape, o.size) for o in first] == [
        ("green", "star", "large"),
        ("yellow", "circle", "small"),
        ("orange", "diamond", "medium"),
    ]
    places = [(0.464206846, 0.191264677), (0.127064396, 0.819737761), (0.164102419, 0.509415157)]
    assert [(o.x, o.y) for o in first] == [pytest.approx(place, abs=1e-8) for place in places]
    # The exact caption is right in all, and the terse one in its thing, of three: 4 x (0.6 + 0.4 / 3) + 1.
    wanted = [5.0, 1 + 4 * (0.6 + 0.4 / 3), 3.125568, 3.56, 1 + 4 * 0.138666667, 1.0]
    assert demo.rule()[:6] == pytest.approx(wanted)


def test_equal_names_need_not_be_one_object(data: CaptionSet, monkeypatch) -> None:
    """As where claims are read from a text; only the content of a name counts."""
    demo.scenes()
    demo.candidates.cache_clear()
    for name in ("SYSTEMS", "COLOURS"):
        monkeypatch.setattr(demo, name, tuple("".join(list(x)) for x in getattr(demo, name)))
    monkeypatch.setattr(demo, "SHAPES", {"".join(list(k)): n for k, n in demo.SHAPES.items()})
    assert demo.load_demo(Path("nowhere")).digest == data.digest
    demo.candidates.cache_clear()
    first, second = (
        demo.Placed(*text.split(), x, 0.5)
        for text, x in (("red circle small", 0.2), ("blue square medium", 0.8))
    )
    claims = demo.Claims(
        tuple(demo.Thing(*x.split()) for x in ("red circle small", "blue square medium")), ("left",)
    )
    assert demo.quality(claims, demo.Scene("s.png", (first, second))) == 1.0
    style = demo.Style("{}", " is {} ", article="".join(list("an"))[:1], sized=True)
    assert style.write(claims) == "a small red circle is to the left of a blue square"


def test_further_scenes_are_always_the_same() -> None:
    demo.further.cache_clear()
    scene, captions = demo.further(0)
    assert scene.image_id == "further_00000.png"
    assert [(o.colour, o.shape, o.size) for o in scene.objects] == [
        ("red", "diamond", "medium"),
        ("purple", "triangle", "medium"),
    ]
    assert captions == (
        "red rhombus left of purple triangle",
        "On a white background there are two shapes: a red rhombus and a purple triangle.",
        "The purple triangle can be seen to the right of the red diamond.",
        "A red rhombus sits over a purple triangle.",
        "A picture with a red diamond and a purple triangle.",
        "an image of a red diamond above a purple triangle",
        "the drawing shows a purple triangle located below a red diamond",
        "a red diamond is to the left of a purple triangle",
        "there is a purple triangle here",
        "a drawing of a purple triangle",
    )
    assert demo.further(7)[0].image_id == "further_00007.png"


THINGS = (demo.Thing("red", "circle", "small"), demo.Thing("orange", "square", "medium"))
LAST = demo.Thing("black", "diamond", "large")


@pytest.mark.parametrize(
    ("style", "claims", "text"),
    [
        (
            demo.Style("{}", " is {} "),
            demo.Claims(THINGS, ("left",)),
            "a red circle is to the left of an orange square",
        ),
        (
            demo.Style("see {}.", " is {} ", ", {} ", sized=True, everyday=True, backwards=True),
            demo.Claims((*THINGS, LAST), ("left", "above")),
            "See a big black rhombus is under an orange square, right of a tiny red disc.",
        ),
        (
            demo.Style("{count}: {}", article="the", sized=True),
            demo.Claims((*THINGS, LAST), ("left", "above")),
            "three: the small red circle, the orange square and the large black diamond",
        ),
        (demo.Style("{count}: {}", article=""), demo.Claims(THINGS[:1]), "one: red circle"),
        (demo.Style("{}", article=""), demo.Claims(THINGS[1:]), "orange square"),
        (
            demo.Style("{count}: {}"),
            demo.Claims(THINGS, ("left",)),
            "two: a red circle and an orange square",
        ),
    ],
)
def test_claims_in_words(style: demo.Style, claims: demo.Claims, text: str) -> None:
    assert style.write(claims) == text


#: Corners of what has a radius of 25 pixels around (100, 100), clockwise from the top, worked by hand.
HALF, NEAR = 12.5, 25 * 3**0.5 / 2


def test_pictures_need_a_folder_that_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without one the captions are there all the same."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("CAPTAU_CACHE", str(tmp_path))
    assert demo.pictures() == tmp_path / "demo" / "1"
    assert demo.pictures() == tmp_path / "demo" / "1"
    monkeypatch.setenv("CAPTAU_CACHE", str(tmp_path / "file"))
    assert demo.pictures() is None
    assert set(demo.load_demo(tmp_path).items["image"]) == {None}


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
    monkeypatch.setenv("CAPTAU_CACHE", str(tmp_path))
    folder = tmp_path / "demo" / "1"
    folder.mkdir(parents=True)
    first, second, *_ = sorted(SCENES)
    (folder / first).write_bytes(b"mine")
    assert demo.pictures() == folder
    assert sorted(path.name for path in folder.iterdir()) == sorted(SCENES)
    assert (folder / first).read_bytes() == b"mine"
    assert (folder / second).read_bytes().startswith(b"\x89PNG")
