"""Options and files of recipes, and captioned images, in full: conversions, cards, splits and every refusal."""

from __future__ import annotations

import json
from typing import Literal

import numpy as np
import pandas as pd
import pytest

from captau.datasets.sources import demo
from captau.metrics.learned.common import recipe as module
from captau.metrics.learned.common.captioned_images import (
    load_captioned_images,
    short_image_id,
)
from captau.metrics.learned.common.examples import Examples
from captau.metrics.learned.common.recipe import make_recipe, recipe_names, register_recipe
from captau.metrics.learned.common.training import TrainingSession
from captau.metrics.learned.common.weight_files import (
    load_tensors,
    save_tensors,
)
from captau.metrics.rows import Rows
from tests.conftest import raises_exactly

# Options


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        (3, int, 3),
        (3, float, 3.0),
        (0.5, float, 0.5),
        (True, bool, True),
        (None, str | None, None),
        ("a", str | None, "a"),
        (False, bool | None, False),
        ("b", Literal["a", "b"], "b"),
        ([1, 2.5], tuple[float, ...], (1.0, 2.5)),
        ((1,), tuple[float, ...], (1.0,)),
        (4, tuple[int, ...], (4,)),
        ([], tuple[int, ...], ()),
        (["a"], tuple[Literal["a", "b"], ...], ("a",)),
        (["a"], tuple[str, ...] | None, ("a",)),
        ("a", tuple[str, ...] | None, ("a",)),
        (None, tuple[str, ...] | None, None),
    ],
)
def test_options_are_converted_as_their_annotations_say(value, hint, expected):
    found = module.convert_option(value, hint, "x")
    assert found == expected
    assert type(found) is type(expected)
    if isinstance(expected, tuple):
        assert [*map(type, found)] == [*map(type, expected)]


@pytest.mark.parametrize(
    ("value", "hint", "message"),
    [
        (True, int, "x is True, not int"),
        (True, float, "x is True, not float"),
        (0.5, int, "x is 0.5, not int"),
        ("1", float, "x is '1', not float"),
        (None, int, "x is None, not int"),
        (1, str | None, "x is 1, not str or NoneType"),
        ([1, "b"], tuple[int, ...], "x is 'b', not int"),
        ([1], tuple[str, ...] | None, "x is 1, not str"),
        (None, tuple[int, ...], "x is None, not int"),
    ],
)
def test_options_of_another_type_are_raises_exactly(value, hint, message):
    with raises_exactly(message):
        module.convert_option(value, hint, "x")


def test_recipes_by_name():
    assert recipe_names() == ["icr", "qe", "umic"]
    with raises_exactly("unknown value of rater.select 'x': known: last, spearman, tau_c"):
        make_recipe("icr", {"images": "a", "texts": "b", "select": "x"})
    with pytest.raises(ValueError, match=r"^rater icr is registered twice$"):
        register_recipe("icr")(dict)

    class Mine:
        pass

    assert register_recipe("mine")(Mine) is Mine
    assert (Mine.name, module._RECIPES.pop("mine")) == ("mine", Mine)


# Files


@pytest.mark.neural
def test_tensors_and_their_card_are_written_and_read(tmp_path):
    import torch
    from safetensors import safe_open

    path = tmp_path / "a" / "b" / "x.safetensors"
    matrix = torch.arange(6.0, requires_grad=True).reshape(2, 3)
    save_tensors(path, {"m": matrix.T, "n": torch.tensor([1])}, {"z": "1", "format": "3"})
    with safe_open(path, framework="pt") as file:
        assert file.metadata() == {"card": '{"format": "3", "z": "1"}'}
    for keys, file_format in (((), ""), (("z",), "3")):
        tensors, card = load_tensors(path, keys, file_format=file_format)
        assert card == {"format": "3", "z": "1"}
        assert {k: v.tolist() for k, v in tensors.items()} == {
            "m": [[0, 3], [1, 4], [2, 5]],
            "n": [1],
        }
    for keys in (("z", "a", "b"), ["a"]):
        with raises_exactly(f"{path}: its metadata lack a; train it again or get a new copy"):
            load_tensors(path, keys)
    version = "train it again with captau train, or use the version that trained it"
    with raises_exactly(
        f"{path}: a rater of another version of captau (format 3, here 4); {version}"
    ):
        load_tensors(path, file_format="4")
    save_tensors(path, {"n": torch.tensor([1])}, {})
    with raises_exactly(
        f"{path}: a rater of another version of captau (format unknown, here 4); {version}"
    ):
        load_tensors(path, file_format="4")
    path.write_bytes(b"x" * 99)
    with raises_exactly(
        f"{path}: not a safetensors file, or damaged; train it again or get a new copy"
    ):
        load_tensors(path)
    path.unlink()
    with raises_exactly(f"{path}: cannot be read (No such file or directory)"):
        load_tensors(path)


# Captioned images


def examples(image_ids, references=None):
    frame = pd.DataFrame({"image_id": image_ids, "caption": "a"})
    if references is not None:
        frame["references"] = references
    ratings = tuple(np.empty(0) for _ in image_ids)
    return Examples(Rows(frame), ratings, np.empty((0, 2), dtype=np.intp))


NOBODY = examples([])


def test_references_are_those_of_each_images_first_row():
    train = examples(["a", "b", "a", "c"], [("x", "y"), ("z",), ("no",), ()])
    validation = examples(["d"], [("v",)])
    session = TrainingSession(0)
    assert load_captioned_images("references", train, validation, session) == (
        {"a": ("x", "y"), "b": ("z",)},
        {"d": ("v",)},
    )
    assert session.extra_image_ids == set()
    with raises_exactly("no image has references to learn from; name a file of captions"):
        load_captioned_images("references", train, examples(["d"], [()]), session)


def test_every_tenth_scene_of_the_demo_is_for_validation(make_scenes):
    make_scenes(21)
    sides = load_captioned_images("demo", NOBODY, NOBODY, TrainingSession(0))
    expected = [[n for n in range(21) if n not in (0, 10, 20)], [0, 10, 20]]
    for side, numbers in zip(sides, expected, strict=True):
        scenes = [demo.further(n) for n in numbers]
        assert list(side.items()) == [(scene.image_id, captions) for scene, captions in scenes]


@pytest.mark.parametrize(("n", "cut"), [(2, 1), (14, 1), (16, 2), (25, 2), (35, 4)])
def test_a_tenth_of_a_files_images_is_for_validation(n, cut, tmp_path):
    ids = [f"i{k:02d}" for k in range(n)]
    path = tmp_path / "c.csv"
    pd.DataFrame({"image_id": [*ids[::-1], ids[0]], "caption": [*ids[::-1], "more"]}).to_csv(path)
    session = TrainingSession(6)
    train, validation = load_captioned_images(str(path), NOBODY, NOBODY, session)
    order = [str(i) for i in TrainingSession(6).rng("captioned").permutation(ids)]
    captions = {i: (i,) for i in ids} | {ids[0]: (ids[0], "more")}
    assert list(validation.items()) == [(i, captions[i]) for i in sorted(order[:cut])]
    assert list(train.items()) == [(i, captions[i]) for i in sorted(order[cut:])]
    assert session.extra_image_ids == set(ids)


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_files_of_captions_that_cannot_be_used(tmp_path):
    path = tmp_path / "c.csv"
    with raises_exactly(
        f"{path}: no such file of captions; a file, references or demo is expected"
    ):
        load_captioned_images(str(path), NOBODY, NOBODY, TrainingSession(0))
    for columns, missing in (("caption,x", "image_id"), ("image_id,x", "caption")):
        write(path, f"{columns}\na,b\n")
        with raises_exactly(f"{path}: no column {missing}; image_id and caption are needed"):
            load_captioned_images(str(path), NOBODY, NOBODY, TrainingSession(0))
    write(path, "image_id,caption\na,x\na,y\nb,z\nc,u\n")
    for validation, tested in ((["b"], ["c"]), (["b", "c", "d"], [])):
        session = TrainingSession(0, test_image_ids=tested)
        with raises_exactly(f"{path}: 1 captioned images to train on; at least two are needed"):
            load_captioned_images(str(path), NOBODY, examples(validation), session)
        assert session.extra_image_ids == set()
    sides = load_captioned_images(str(path), NOBODY, examples(["c"]), TrainingSession(0))
    assert [*sides[0].items(), *sides[1].items()] in (
        [("a", ("x", "y")), ("b", ("z",))],
        [("b", ("z",)), ("a", ("x", "y"))],
    )


SIDES = "train, training, restval, validation, val, dev, test"


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        ("train train val val", None),
        ("Training RESTVAL dev Validation", None),
        (
            "train train val test",
            "{}: the column split leaves 1 images of validation; at least two are needed",
        ),
        (
            "train val dev test",
            "{}: the column split leaves 1 images of train; at least two are needed",
        ),
        ("train test test test", "{}: 1 captioned images to train on; at least two are needed"),
        ("train train val eval", "{}:6: split is 'eval'; one of " + SIDES + " is expected"),
    ],
)
def test_a_column_says_the_sides(splits, message, tmp_path):
    rows = [
        f"{i},c{i},{split}" for i, split in zip("aabcd", ("train", *splits.split()), strict=True)
    ]
    if splits.startswith("T"):
        rows[0] = "a,ca,restval"
    path = tmp_path / "c.csv"
    write(path, "\n".join(["image_id,caption,split", *rows]))
    session = TrainingSession(0)
    if message is None:
        assert load_captioned_images(str(path), NOBODY, NOBODY, session) == (
            {"a": ("ca", "ca"), "b": ("cb",)},
            {"c": ("cc",), "d": ("cd",)},
        )
        assert session.extra_image_ids == set("abcd")
    else:
        with raises_exactly(message.format(path)):
            load_captioned_images(str(path), NOBODY, NOBODY, session)


def test_an_image_is_on_one_side(tmp_path):
    path = tmp_path / "c.jsonl"
    rows = [("b", "dev"), ("a", "train"), ("a", "restval"), ("b", "test")]
    write(path, "\n".join(json.dumps({"image_id": i, "caption": "x", "split": s}) for i, s in rows))
    with raises_exactly(f"{path}:4: image 'b' is in test, and on an earlier row in validation"):
        load_captioned_images(str(path), NOBODY, NOBODY, TrainingSession(0))


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("COCO_val2014_000000060623.jpg", "60623"),
        ("folder/coco_train2014_000000000030.npz", "30"),
        ("flickr8k_3482974845_db4f", "3482974845_db4f.jpg"),
        ("A.jpg", "A.jpg"),
        ("60623", "60623"),
    ],
)
def test_long_names_of_images_are_shortened(image, expected):
    assert short_image_id(image) == expected


def test_subsets_and_unions_in_full():
    frame = pd.DataFrame({"image_id": [1, 2, 3], "caption": list("abc")}, index=[7, 8, 9])
    ratings = tuple(np.array(r, float) for r in ([0.5], [], [1, 0]))
    whole = Examples(Rows(frame), ratings, np.array([[0, 2], [1, 0]]))
    assert whole.image_ids.tolist() == ["1", "2", "3"]
    part = whole.take(np.array([2, 0]))
    assert part.rows.frame.to_dict("split") == {
        "index": [0, 1],
        "columns": ["image_id", "caption"],
        "data": [[3, "c"], [1, "a"]],
    }
    assert [r.tolist() for r in part.ratings] == [[1, 0], [0.5]]
    assert part.preferences.tolist() == [[1, 0]]
    joined = Examples.join([part, whole])
    assert joined.rows.frame["caption"].tolist() == list("caabc")
    assert list(joined.rows.frame.index) == [0, 1, 2, 3, 4]
    assert [r.tolist() for r in joined.ratings] == [[1, 0], [0.5], [0.5], [], [1, 0]]
    assert joined.preferences.tolist() == [[1, 0], [2, 4], [3, 2]]
    assert joined.preferences.dtype == np.intp
    np.testing.assert_equal(joined.mean_ratings, [0.5, 0.5, 0.5, np.nan, 0.5])
    assert joined.has_rating.tolist() == [True, True, True, False, True]
