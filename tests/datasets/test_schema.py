"""`CaptionSet`: what it refuses and in which words, that it does not change, and its ids."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import captau
from captau.datasets.errors import InputError, unknown
from captau.datasets.preferences import PREFERENCE_COLUMNS
from captau.datasets.schema import (
    ITEM_COLUMNS,
    RATING_COLUMNS,
    SPLIT_BOUNDS,
    CaptionSet,
    CaptionSetBuilder,
    Card,
    Scale,
    item_ids,
    make_items,
    split_of,
)
from tests.conftest import says

CARD = Card(
    name="toy",
    title="Toy",
    revision="1",
    licence="CC0-1.0",
    citation="@misc{toy}",
    homepage="https://example.org",
    scales={"fluency": Scale(-1, 0), "overall": Scale(1, 4, 1), "unused": Scale(0, 1)},
)
Frames = dict[str, pd.DataFrame]


def frames() -> Frames:
    """Three captions of two images, each rated by two, and two pairs."""
    items = make_items(["1", "1", "2"], ["a dog", "a cat", "a cow"], [("r", "s"), ("r",), ("t",)])
    a, b, c = items["item_id"]
    ratings = [(i, "overall", f"r{k}", float(1 + k)) for i in (a, b, c) for k in (0, 1)]
    ratings.append((a, "fluency", "r0", -0.25))
    pairs = [
        ("p0", a, b, "X", "r0", 1.0),
        ("p0", a, b, "X", "r1", -2.0),
        ("p1", b, a, "Y", "r0", 0),
    ]
    return {
        "items": items,
        "ratings": pd.DataFrame(ratings, columns=list(RATING_COLUMNS)),
        "preferences": pd.DataFrame(pairs, columns=list(PREFERENCE_COLUMNS)),
    }


def caption_set(given: Frames, card: Card = CARD) -> CaptionSet:
    return CaptionSet(given["items"], given.get("ratings"), given.get("preferences"), card=card)


A = frames()["items"]["item_id"][0]


def put(frame: str, row: int, column: str, value: Any) -> Callable[[Frames], None]:
    def change(given: Frames) -> None:
        column_ = given[frame][column].astype(object)
        column_.iloc[row] = value
        given[frame] = given[frame].assign(**{column: column_})

    return change


def repeat(frame: str, row: int) -> Callable[[Frames], None]:
    def change(given: Frames) -> None:
        given[frame] = pd.concat([given[frame], given[frame].iloc[[row]]])

    return change


def without(frame: str, column: str) -> Callable[[Frames], None]:
    def change(given: Frames) -> None:
        given[frame] = given[frame].drop(columns=column)

    return change


def double(frame: str, column: str) -> Callable[[Frames], None]:
    def change(given: Frames) -> None:
        given[frame] = pd.concat([given[frame], given[frame][[column]]], axis=1)

    return change


def old_preferences(given: Frames) -> None:
    columns = ["pair_id", "item_a", "item_b", "category", "winner"]
    a, b, _ = given["items"]["item_id"]
    given["preferences"] = pd.DataFrame([("p0", a, b, "X", "a")], columns=columns)


def empty(given: Frames) -> None:
    given["items"] = given["items"].iloc[:0]


FAULTS = {
    "no items": (empty, ["no items"]),
    "duplicate item": (repeat("items", 0), [f"duplicate item '{A}'", "1 in all"]),
    **{
        f"{c} twice in items": (double("items", c), ["items have", c, "twice"])
        for c in ITEM_COLUMNS
    },
    "value twice": (double("ratings", "value"), ["ratings have the column value twice"]),
    **{f"items without {c}": (without("items", c), ["items lack", c]) for c in ITEM_COLUMNS},
    **{f"ratings without {c}": (without("ratings", c), ["ratings", c]) for c in RATING_COLUMNS},
    **{
        f"preferences without {c}": (without("preferences", c), ["preferences lack", c])
        for c in PREFERENCE_COLUMNS
    },
    "caption NaN": (put("items", 1, "caption", float("nan")), ["row 1", "caption is nan"]),
    "image id a number": (put("items", 2, "image_id", 7), ["row 2: image_id is 7, not a text"]),
    "item id None": (put("items", 0, "item_id", None), ["row 0: item_id is None"]),
    "no references": (put("items", 0, "references", ()), [f"'{A}' has no references"]),
    "references a list": (put("items", 0, "references", ["r"]), [f"'{A}'", "['r'], not texts"]),
    "a reference NaN": (put("items", 0, "references", (np.nan,)), [f"'{A}'", "not texts"]),
    "rating of a stranger": (put("ratings", 0, "item_id", "x:1"), ["rating", "'x:1'", "no"]),
    "unknown dimension": (put("ratings", 0, "dimension", "wit"), ["dimension 'wit'", "no scale"]),
    "no dimension": (put("ratings", 0, "dimension", None), ["dimension", "no scale"]),
    **{
        f"rating {shown}": (
            put("ratings", 1, "value", value),
            [f"item '{A}', rater 'r1'", f"rating {shown} is not", "1 to 4 in steps of 1"],
        )
        for value, shown in [
            (float("nan"), "NaN"),
            (float("inf"), "inf"),
            (0.0, "0"),
            (5, "5"),
            (2.5, "2.5"),
            (None, "None"),
            ("good", "'good'"),
        ]
    },
    "a rating without end": (put("ratings", 1, "value", 10**400), ["a rating is too large"]),
    "off a scale without steps": (put("ratings", 6, "value", 0.5), ["fluency", "0.5", "-1 to 0"]),
    "a rater twice": (repeat("ratings", 3), ["rater 'r1'", "twice on overall"]),
    **{
        f"strength {strength!r}": (
            put("preferences", 2, "strength", strength),
            [f"pair 'p1': strength is {shown}, not a number", "positive prefers a"],
        )
        for strength, shown in [(None, "None"), ("a", "'a'"), (float("nan"), "nan")]
    },
    "columns of 0.1": (old_preferences, ["lack the column", "upgrade_preferences", "`category`"]),
    "no rater": (put("preferences", 1, "rater", None), ["'p0'", "rater is None, not a text"]),
    "no preferred dimension": (put("preferences", 1, "dimension", 3), ["'p0'", "dimension is 3"]),
    "stranger first": (put("preferences", 0, "item_a", "x:2"), ["preference", "'x:2'"]),
    "stranger second": (put("preferences", 0, "item_b", "x:3"), ["preference", "'x:3'"]),
    "two pairs of one id": (put("preferences", 2, "pair_id", "p0"), ["'p0'", "two pairs of items"]),
    "judged twice": (
        put("preferences", 1, "rater", "r0"),
        ["rater 'r0'", "judged pair 'p0' twice on X"],
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_named_in_a_line(fault: str) -> None:
    change, parts = FAULTS[fault]
    given = frames()
    change(given)
    with says("dataset toy: ", *parts):
        caption_set(given)


def test_a_whole_set() -> None:
    given = frames()
    made = caption_set(given)
    assert tuple(made.items.columns) == ITEM_COLUMNS
    assert tuple(made.ratings.columns) == RATING_COLUMNS
    assert tuple(made.preferences.columns) == (*PREFERENCE_COLUMNS, "winner")
    assert made.preferences["winner"].tolist() == ["a", "b", "tie"]
    for name in given:
        # Its texts are Python's, which pandas passes over quickly.
        found = getattr(made, name)[list(given[name])]
        pd.testing.assert_frame_equal(found, given[name], check_dtype=False)
        assert not any(dtype == "string" for dtype in found.dtypes)
    assert made.dimensions == ("fluency", "overall"), "the card's order, rated ones alone"
    assert (made.name, made.card) == ("toy", CARD)
    assert repr(made) == "CaptionSet('toy', images=2, items=3, ratings=7, preferences=3)"


def test_ratings_and_preferences_may_be_left_out() -> None:
    made = caption_set({"items": frames()["items"]})
    assert made.ratings.empty
    assert made.preferences.empty
    assert tuple(made.ratings.columns) == RATING_COLUMNS
    assert made.dimensions == ()


def test_a_card_may_say_that_there_are_no_references() -> None:
    given = frames()
    put("items", 0, "references", ())(given)
    made = caption_set(given, dataclasses.replace(CARD, has_references=False))
    assert made.items["references"][0] == ()


def test_other_columns_and_the_index_are_left_behind() -> None:
    given = frames()
    plain = caption_set(given)
    given["items"] = given["items"].assign(extra=1)[["extra", *ITEM_COLUMNS[::-1]]]
    given["items"].index = pd.Index([7, 7, 9])
    made = caption_set(given)
    pd.testing.assert_frame_equal(made.items, plain.items)
    assert made.digest == plain.digest


@pytest.mark.parametrize("frame", ["items", "ratings", "preferences"])
def test_a_set_does_not_change(frame: str) -> None:
    given = frames()
    made = caption_set(given)
    before = getattr(made, frame).copy(deep=True)
    digest = made.digest
    for shown in (getattr(made, frame), given[frame]):
        column = shown.columns[1]
        shown.loc[0, column] = "changed"
        shown[column] = "changed"
        shown["new"] = 1
    pd.testing.assert_frame_equal(getattr(made, frame), before)
    assert made.digest == digest == caption_set(frames()).digest
    with pytest.raises(AttributeError):
        setattr(made, frame, before)


def test_values_that_a_caller_holds_are_read_only() -> None:
    values = caption_set(frames()).ratings["value"].to_numpy()
    with pytest.raises(ValueError, match="read-only"):
        values[0] = 4.0


CHANGES = {
    "caption": put("items", 0, "caption", "a Dog"),
    "reference": put("items", 0, "references", ("r", "s ")),
    "references in another order": put("items", 0, "references", ("s", "r")),
    "system": put("items", 0, "system", "model"),
    "split": put("items", 0, "split", "dev"),
    "rating": put("ratings", 0, "value", 3.0),
    "rater": put("ratings", 0, "rater", "r9"),
    "strength": put("preferences", 0, "strength", 2.0),
    "preferring rater": put("preferences", 0, "rater", "r9"),
    "preferred dimension": put("preferences", 0, "dimension", "Z"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_unequal_sets_have_unequal_digests(what: str) -> None:
    given = frames()
    CHANGES[what](given)
    assert caption_set(given).digest != caption_set(frames()).digest


def test_equal_sets_have_equal_digests() -> None:
    """Neither where the images lie nor the type that holds a rating makes another set."""
    given = frames()
    put("items", 0, "image", "/somewhere/1.jpg")(given)
    whole = given["ratings"][given["ratings"]["dimension"] == "overall"]
    given["ratings"] = whole.astype({"value": int})
    other = frames()
    other["ratings"] = whole
    assert caption_set(given).digest == caption_set(other).digest


texts = st.text(max_size=6)
rows = st.lists(st.tuples(texts, texts, st.none() | texts), min_size=1, max_size=8)


@settings(max_examples=100)
@given(rows=rows, data=st.data())
def test_item_ids_are_of_content_not_of_order(
    rows: list[tuple[str, str, str | None]], data: st.DataObject
) -> None:
    ids = item_ids(*map(list, zip(*rows, strict=True)))
    assert len(set(ids)) == len(rows), "distinct, even for equal rows"
    shuffled = data.draw(st.permutations(rows))
    again = item_ids(*map(list, zip(*shuffled, strict=True)))
    # Equal rows are told apart by a number, which follows their order among themselves.
    assert sorted(zip(rows, ids, strict=True), key=repr) == sorted(
        zip(shuffled, again, strict=True), key=repr
    )


def test_item_ids_literally() -> None:
    """Golden: Python's `hashlib.blake2s(text, digest_size=4)` of caption, or caption, NUL, system."""
    assert item_ids(["7.jpg"] * 4, ["a dog"] * 4, [None, "m", None, ""]) == [
        "7.jpg:0b255328",
        "7.jpg:6dfe69e7",
        "7.jpg:0b255328-2",
        "7.jpg:8ff835fd",
    ]


def test_items_with_systems_and_images() -> None:
    items = make_items(
        ["1", "1"], ["a", "a"], [("r",), ("r",)], systems=["x", "y"], images=["1.jpg", None]
    )
    assert items["item_id"].nunique() == 2
    assert items["system"].tolist() == ["x", "y"]
    assert items["image"].tolist() == ["1.jpg", None]
    assert items["split"].tolist() == [split_of("1")] * 2
    assert make_items(["1"], ["a"], [("r",)], splits=["dev"])["split"].tolist() == ["dev"]


@pytest.mark.parametrize(
    ("image_ids", "captions", "references"),
    [
        (["1", "1"], ["a dog", "a cat"], [["a dog", "a pet"], ["a dog", "a pet"]]),
        (np.array(["1", "1"]), np.array(["a dog", "a cat"]), [("a dog", "a pet")] * 2),
    ],
)
def test_items_of_lists_and_of_arrays_are_those_of_tuples(image_ids, captions, references):
    """A dataset of one's own (docs/plugins.md) gives references as lists, or columns as arrays."""
    items = make_items(image_ids, captions, references)

    same_items = make_items(["1", "1"], ["a dog", "a cat"], [("a dog", "a pet")] * 2)
    assert items["references"].tolist() == [("a dog", "a pet")] * 2
    assert CaptionSet(items, card=CARD).digest == CaptionSet(same_items, card=CARD).digest


def rated_rows(*, joins_equal: bool) -> CaptionSet:
    """Sixty captions in a table of one rating a row, by three raters."""
    builder = CaptionSetBuilder(joins_equal=joins_equal)
    for row in range(180):
        item = builder.add_item(f"{row // 3}.jpg", f"a caption of image {row // 3}", ("a dog",))
        builder.rate(item, "overall", f"rater_{row % 3}", 1.0 + row % 4)
    return builder.build(CARD)


def test_a_builder_is_told_whether_equal_items_are_one() -> None:
    """Worked by hand: 180 rows are 60 items of three ratings, or 180 items of one."""
    joined, apart = rated_rows(joins_equal=True), rated_rows(joins_equal=False)
    assert (len(joined.items), set(joined.ratings.groupby("item_id").size())) == (60, {3})
    assert (len(apart.items), set(apart.ratings.groupby("item_id").size())) == (180, {1})
    with pytest.raises(TypeError, match="joins_equal"):
        CaptionSetBuilder()  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize(
    ("scale", "legal", "illegal", "shown"),
    [
        (Scale(1, 4, 1), [1, 2, 3, 4], [0, 5, 1.5, 0.999], "1 to 4 in steps of 1"),
        (Scale(0, 1), [0, 0.3, 1, 1e-12], [-0.1, 1.1], "0 to 1"),
        (Scale(0, 1, 1 / 3), [0, 1 / 3, 2 / 3, 1], [0.5, 0.34], "0 to 1 in steps of 0.333333"),
        (Scale(-1, 1, 0.1), [-1, -0.7, 0.30000000000000004], [0.05], "-1 to 1 in steps of 0.1"),
    ],
)
def test_scales(scale: Scale, legal: list[float], illegal: list[float], shown: str) -> None:
    assert scale.fits(np.array(legal, dtype=float)).all()
    assert not scale.fits(np.array([*illegal, np.nan, np.inf, -np.inf])).any()
    assert scale.fits(np.array([])).shape == (0,)
    assert str(scale) == shown


@settings(max_examples=100)
@given(
    low=st.integers(-20, 20),
    steps=st.integers(1, 40),
    step=st.sampled_from([0.1, 0.25, 0.5, 1.0, 1 / 3]),
    k=st.integers(-60, 60),
)
def test_a_scale_holds_its_steps_and_nothing_between(
    low: int, steps: int, step: float, k: int
) -> None:
    scale = Scale(low, low + steps * step, step)
    on, between = scale.fits(np.array([low + k * step, low + (k + 0.5) * step]))
    assert on == (0 <= k <= steps)
    assert not between


def test_unknown_names_the_nearest_first() -> None:
    message = str(unknown("metric", "blue_4", ["bleu_4", "rouge_l", "bleu_1"]))
    assert message.startswith("unknown metric 'blue_4': did you mean bleu_4 or bleu_1? known: ")
    many = [f"bleu_{n}" for n in range(20)]
    message = str(unknown("metric", "blue_4", many))
    assert message.startswith("unknown metric 'blue_4': did you mean bleu_4 or ")
    assert message.endswith("?"), "a long list is left out beside near names"
    message = str(unknown("metric", "CIDEr-D", ["bleu_4", "cider", "rouge_l"]))
    assert message.startswith("unknown metric 'CIDEr-D': did you mean cider?")
    assert str(unknown("metric", "zzz", [])) == "unknown metric 'zzz': known: none"
    assert str(unknown("metric", "", ["a"])) == "unknown metric '': known: a"


def test_a_message_is_one_line_whatever_it_quotes() -> None:
    assert str(InputError("no file a\nb\r\nc")) == "no file a\\nb\\r\\nc"


def test_an_error_is_a_line_that_a_terminal_can_print() -> None:
    text = str(InputError("a\x1b[31mb\x9b\u202ec\ud800\r\nd\te\u2028\u200b\ufeff"))
    assert text == r"a\x1b[31mb\x9b\u202ec\ud800\r\nd" + "\te" + r"\u2028\u200b\ufeff"


@pytest.mark.parametrize("cell", ["x" * 100_000, "x " * 50_000])
def test_an_error_leaves_out_the_middle_of_a_long_cell(cell: str) -> None:
    text = str(InputError(f"ratings.csv:7: '{cell}' is not a number; mend the line"))
    assert len(text) < 3000
    assert text.startswith("ratings.csv:7: 'x")
    assert text.endswith("is not a number; mend the line")


# Written down once: another digest is another split, and no result could be compared any more.
DIGESTS = {
    "demo": "3a9ab5df37634c94",
    "flickr8k_expert": "49dae8b0d0728ad8",
    "thumb": "6a54fc3728672e9b",
    "capeval1k": "60914545702b9f64",
    "pascal50s": "cdec9197c84a34a1",
}


def digest(image_ids):
    """Of "id split" lines, sorted."""
    lines = sorted(f"{i} {split_of(i)}" for i in set(image_ids))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def test_made_up_ids_have_the_split_that_was_written_down():
    ids = [str(n) for n in range(1000)] + [f"{n}.jpg" for n in range(1000)]
    assert digest(ids) == "4394fa1ae40b2847"
    assert [split_of(i) for i in ("391895", "1056338697_4f7d7ce270.jpg")] == ["train", "train"]


def test_shares_are_64_16_20():
    counts = Counter(split_of(f"image {n}") for n in range(20_000))
    assert counts["train"] / 20_000 == pytest.approx(0.64, abs=0.01)
    assert counts["validation"] / 20_000 == pytest.approx(0.16, abs=0.01)
    assert counts["test"] / 20_000 == pytest.approx(0.20, abs=0.01)


@given(st.text())
def test_every_id_has_one_split(image_id):
    assert split_of(image_id) == split_of(image_id)
    assert split_of(image_id) in dict(SPLIT_BOUNDS)


@pytest.mark.parametrize("name", ["demo", "flickr8k_expert", "thumb", "capeval1k", "pascal50s"])
def test_a_dataset_has_the_split_that_was_written_down(name, request):
    root = None if name == "demo" else request.getfixturevalue("data_root")
    items = captau.load(name, root).items
    assert digest(items["image_id"]) == DIGESTS[name]
    assert list(items["split"]) == [split_of(i) for i in items["image_id"]]
    assert items.groupby("image_id")["split"].nunique().max() == 1
