"""Which rows a rater learns from, is chosen by and is tested on, design by design: worked by hand."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

from captau.benchmarks.evaluation.training.training_designs import (
    TrainingCorpus,
    TrainingJob,
    TrainingPlan,
    plan_jobs,
)
from captau.benchmarks.scoring.protocol import Protocol
from captau.datasets.preferences import make_preferences
from captau.datasets.schema import CaptionSet, Card, Scale, make_items, split_of
from tests.conftest import says

#: Images by split, each with two captions and a reference of its own.
SPLITS = {"t1": "train", "t2": "train", "v": "validation", "e1": "test", "e2": "test"}


def corpus(
    name: str,
    splits: dict[str, str] | None = None,
    references: dict[str, str] | None = None,
    **changes: Any,
) -> TrainingCorpus:
    """Captions "n of IMAGE", rated 1 to 4 in turn, whose reference is "An IMAGE." or another."""
    splits = splits or SPLITS
    ids = [image for image in splits for _ in "12"]
    items = make_items(
        ids,
        [f"{n} of {image}" for image in splits for n in "12"],
        [((references or {}).get(image, f"An {image}."),) for image in ids],
        splits=[splits[image] for image in ids],
    )
    ratings = pd.DataFrame(
        {
            "item_id": items["item_id"],
            "dimension": "overall",
            "rater": "r",
            "value": [1.0 + n % 4 for n in range(len(ids))],
        }
    )
    card = Card(name, name, "1", "", "", "", scales={"overall": Scale(1, 5)})
    protocol = Protocol.resolve("made", {}, changes)
    return TrainingCorpus.prepare(CaptionSet(items, ratings, card=card), protocol, None)


def plan(design: str, **changes: Any) -> TrainingPlan:
    recipe = cast(Any, SimpleNamespace(name="icr"))
    return replace(TrainingPlan(recipe, design, (0,), 2), **changes)


def jobs(design: str, *corpora: TrainingCorpus, **changes: Any) -> list[TrainingJob]:
    return plan_jobs(plan(design, **changes), {c.name: c for c in corpora})


def sides(job: TrainingJob, *corpora: TrainingCorpus) -> list[list[str]]:
    """The captions that are trained on, chosen by, and tested in each corpus."""
    tested = [c.items["caption"][job.test[c.name]].tolist() for c in corpora if c.name in job.test]
    return [list(job.train.rows.captions), list(job.validation.rows.captions), *tested]


def test_a_split_gives_one_training_a_seed_of_all_datasets() -> None:
    one, two = corpus("one"), corpus("two", {"a": "train", "b": "validation", "c": "test"})
    found = jobs("split", one, two, seeds=(3, 7))
    assert [(job.name, job.label, job.seed, job.n_dropped) for job in found] == [
        ("seed-3", "icr seed 3", 3, 0),
        ("seed-7", "icr seed 7", 7, 0),
    ]
    for job in found:
        assert sides(job, one, two) == [
            ["1 of t1", "2 of t1", "1 of t2", "2 of t2", "1 of a", "2 of a"],
            ["1 of v", "2 of v", "1 of b", "2 of b"],
            ["1 of e1", "2 of e1", "1 of e2", "2 of e2"],
            ["1 of c", "2 of c"],
        ]
        assert job.test_image_ids == {"e1", "e2", "c"}


def test_transfer_trains_on_each_dataset_and_tests_on_all() -> None:
    """The tests of two datasets may share images."""
    one, two = corpus("one"), corpus("two")
    found = jobs("transfer", one, two)
    assert [(job.name, job.label, job.seed) for job in found] == [
        ("one-seed-0", "icr on one", 0),
        ("two-seed-0", "icr on two", 0),
    ]
    tested = ["1 of e1", "2 of e1", "1 of e2", "2 of e2"]
    for job, name in zip(found, ("one", "two"), strict=True):
        train = ["1 of t1", "2 of t1", "1 of t2", "2 of t2"]
        assert sides(job, one, two) == [train, ["1 of v", "2 of v"], tested, tested]
        assert set(job.train.rows.frame["dataset"]) == {name}
        assert set(job.validation.rows.frame["dataset"]) == {name}


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"v": "train", "w": "validation", "x": "test"}, "in training and in validation (1 "),
        ({"e2": "train", "e1": "train", "w": "validation", "x": "test"}, "in training and in test"),
        ({"a": "train", "t2": "validation", "x": "test"}, "in training and in validation (1 "),
        ({"a": "train", "e2": "validation", "x": "test"}, "in validation and in test (one) (1 "),
        ({"a": "train", "w": "validation", "v": "test"}, "in validation and in test (two) (1 "),
    ],
)
def test_an_image_on_two_sides_is_named(other: dict[str, str], said: str) -> None:
    shared = sorted(set(other) & set(SPLITS))
    with says(
        f"image '{shared[0]}' is {said}",
        f"({len(shared)} images are); the datasets' splits differ: choose design=leave_one_out, "
        "which drops such rows, or other datasets",
    ):
        jobs("split", corpus("one"), corpus("two", other))


def test_folds_are_drawn_by_seed_and_number() -> None:
    """Ten images in 3 folds of 4, 3 and 3; of the others a fifth, of 6 and of 7 images one, chooses the epoch."""
    images = {f"p{n}": "train" for n in range(10)}
    one = corpus("one", images)
    found = jobs("folds", one, seeds=(0, 5), folds=3)
    order = one.items["image_id"].drop_duplicates().tolist()
    n = 0
    for seed in (0, 5):
        fold = np.random.default_rng([seed, 3]).permutation(10) % 3
        for index in range(3):
            job = found[n]
            n += 1
            assert (job.name, job.label, job.seed, job.n_dropped) == (
                f"seed-{seed}-fold-{index + 1}",
                f"icr seed {seed}",
                seed,
                0,
            )
            tested = [image for image, k in zip(order, fold, strict=True) if k == index]
            others = [image for image in order if image not in tested]
            (chosen_by,) = np.random.default_rng([seed, 3, index]).permutation(others)[:1]
            train, validation, test = sides(job, one)
            assert test == [f"{n} of {image}" for image in tested for n in "12"]
            assert validation == [f"{n} of {chosen_by}" for n in "12"]
            assert train == [
                f"{n} of {image}" for image in others if image != chosen_by for n in "12"
            ]
    assert len(found) == n


def test_strict_folds_leave_out_who_lent_a_tested_caption() -> None:
    """The first caption of a is b's reference, but for case and full stop; b's second is its own."""
    references = {"b": "1 OF a.", "c": "2 of c"}
    images = dict.fromkeys("abcd", "train")
    one = corpus("one", images, references)
    for name in ("strict", "strict_control"):
        dropped: dict[str, int] = {}
        for job in jobs("folds", one, **{name: True}):
            train, validation, test = sides(job, one)
            tested = {text[-1] for text in test}
            learnt = {text[-1] for text in train + validation}
            lent = {"b"} & (set("abcd") - tested) if "a" in tested else set[str]()
            assert job.n_dropped == 2 * len(lent)
            assert len(learnt) == 2 - len(lent)
            if name == "strict":
                assert learnt == set("abcd") - tested - lent
            else:
                others = [i for i in one.items["image_id"].drop_duplicates() if i not in tested]
                rng = np.random.default_rng([0, 2, int(job.name[-1]) - 1, 1])
                random = set(rng.choice(others, size=len(lent), replace=False).tolist())
                assert learnt == set(others) - random
            dropped[job.name] = job.n_dropped
        assert sorted(dropped.values()) in ([0, 0], [0, 2])


def test_a_caption_borrowed_from_another_fold_is_seen() -> None:
    """In one of these seeds the two images are in different folds."""
    one = corpus("one", dict.fromkeys("abcd", "train"), {"b": "1 of a"})
    dropped = [job.n_dropped for job in jobs("folds", one, strict=True, seeds=tuple(range(8)))]
    assert set(dropped) == {0, 2}
    assert [job.n_dropped for job in jobs("folds", one, seeds=tuple(range(8)))] == [0] * 16


def test_folds_need_two_images_each() -> None:
    one = corpus("one", dict.fromkeys("abcd", "train"))
    assert len(jobs("folds", one)) == 2
    with says("dataset one: 4 images are too few for 3 folds"):
        jobs("folds", one, folds=3)
    with says("design=folds takes one dataset at a time; name one"):
        jobs("folds", one, corpus("two"))


def test_leave_one_out_learns_from_the_other_datasets_without_shared_images() -> None:
    """two and three share t1 with one; x of two and one's e1 have a reference in common."""
    one = corpus("one", references={"e1": "A hat."})
    two = corpus(
        "two",
        {"x": "train", "y": "test", "z": "validation", "t1": "train"},
        {"x": "a HAT"},
    )
    three = corpus("three", {"k": "train", "t1": "validation"})
    first, second, third = jobs("leave_one_out", one, two, three)
    assert [(j.name, j.label, j.n_dropped) for j in (first, second, third)] == [
        ("without-one-seed-0", "icr", 6),
        ("without-two-seed-0", "icr", 6),
        ("without-three-seed-0", "icr", 4),
    ]
    assert sides(first, one, two) == [
        ["1 of y", "2 of y", "1 of k", "2 of k"],
        ["1 of z", "2 of z"],
        one.items["caption"].tolist(),
    ]
    assert sides(second, two) == [
        ["1 of e2", "2 of e2", "1 of t2", "2 of t2", "1 of k", "2 of k"],
        ["1 of v", "2 of v"],
        two.items["caption"].tolist(),
    ]
    assert set(sides(third, three)[0]) == {f"{n} of {i}" for n in "12" for i in ("x", "y", "t2", "e1", "e2")}  # fmt: skip
    assert sides(third, three)[1:] == [
        ["1 of v", "2 of v", "1 of z", "2 of z"],
        three.items["caption"].tolist(),
    ]
    with says("design=leave_one_out needs two datasets at least: dataset=a,b"):
        jobs("leave_one_out", one)


def test_one_training_on_everything_is_tested_on_nothing() -> None:
    one, two = corpus("one"), corpus("two", {"a": "train"})
    (job,) = jobs("all", one, two)
    assert (job.name, job.label, job.seed, job.test) == ("seed-0", "icr", 0, {})
    assert sides(job, one, two) == [[*one.items["caption"], *two.items["caption"]], []]
    assert job.test_image_ids == frozenset()


def test_rows_of_a_split_are_those_of_the_data() -> None:
    one = corpus("one")
    assert one.items["image_id"][one.rows_of("validation")].tolist() == ["v", "v"]
    with says("dataset one: no row has the split 'dev'"):
        one.rows_of("dev")
    with says(
        "dataset one: protocol.split=train: with this design captau train divides the images by itself; "
        "leave the option out, or choose design=folds or leave_one_out"
    ):
        corpus("one", split="train").rows_of("train")


def test_a_shared_split_is_that_of_every_image() -> None:
    shared = {image: split_of(image) for image in "abcdefgh"}
    assert corpus("one", shared).has_shared_split
    other = {"train": "test", "validation": "test", "test": "train"}
    assert not corpus("one", {**shared, "h": other[shared["h"]]}).has_shared_split


def rated_on(*dimensions: str, chosen: str | None = None, target: str | None = None) -> Any:
    """The examples of three captions, of which the first is rated 2 on the first dimension, 3 on the next …"""
    items = make_items(["1", "1", "2"], ["a", "b", "c"], [("r",)] * 3)
    ids = items["item_id"].tolist()
    ratings = pd.DataFrame(
        [
            (ids[0], d, r, n + x)
            for n, d in enumerate(dimensions, 2)
            for r, x in (("s", 1), ("r", 0))
        ],
        columns=pd.Index(["item_id", "dimension", "rater", "value"]),
    )
    winners = [(0, 1, "a"), (0, 1, "tie"), (1, 0, "a"), (0, 1, "b")]
    pairs = [(f"p{n}", ids[a], ids[b], "fit", w) for n, (a, b, w) in enumerate(winners)]
    scales = {d: Scale(0, 10) for d in dimensions}
    card = Card("made", "Made", "1", "", "", "", scales=scales)
    captions = CaptionSet(items, ratings, preferences=make_preferences(pairs), card=card)
    protocol = Protocol.resolve("made", {}, {"dimension": chosen} if chosen else {})
    return TrainingCorpus.prepare(captions, protocol, target).examples


@pytest.mark.parametrize(
    ("dimensions", "chosen", "target", "rating"),
    [
        (("fit",), None, None, 0.2),
        (("fit", "overall"), None, None, 0.3),
        (("total", "style"), None, None, 0.2),
        (("fit", "style"), "style", None, 0.3),
        (("fit", "overall"), None, "fit", 0.2),
    ],
)
def test_the_learnt_dimension_is_the_only_one_the_overall_one_or_the_named_one(
    dimensions: tuple[str, ...], chosen: str | None, target: str | None, rating: float
) -> None:
    examples = rated_on(*dimensions, chosen=chosen, target=target)
    by_caption = dict(zip(examples.rows.captions, examples.ratings, strict=True))
    assert by_caption["a"].tolist() == pytest.approx([rating, rating + 0.1])
    assert [by_caption[text].tolist() for text in "bc"] == [[], []]
    assert set(examples.rows.frame["dataset"]) == {"made"}


@pytest.mark.parametrize(
    ("dimensions", "target"),
    [(("fit", "style"), None), (("overall", "total"), None), (("fit", "style"), "colour")],
)
def test_a_dimension_that_is_not_clear_is_asked_for(
    dimensions: tuple[str, ...], target: str | None
) -> None:
    problem = "name the dimension to learn:"
    if target is not None:
        problem = f"it has no ratings of '{target}';"
    with says(f"dataset made: {problem} target={'|'.join(dimensions)}"):
        rated_on(*dimensions, target=target)


def test_preferences_alone_are_examples_of_winners_and_losers() -> None:
    """Of four answers about a and b, a wins one and b two, once in each place; the tie is no example."""
    examples = rated_on()
    assert [rating.tolist() for rating in examples.ratings] == [[], [], []]
    texts = list(examples.rows.captions)
    pairs = [(texts[a], texts[b]) for a, b in examples.preferences.tolist()]
    assert sorted(pairs) == [("a", "b"), ("b", "a"), ("b", "a")]
    rows = examples.preferences.tolist()
    assert rows == sorted(rows)
    assert examples.preferences.dtype == np.intp
