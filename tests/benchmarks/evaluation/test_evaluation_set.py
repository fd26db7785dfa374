"""Selected judgements by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from captau.benchmarks.evaluation.evaluation_set import EvaluationSet, order_by_content
from captau.benchmarks.scoring.protocol import Protocol
from captau.datasets.preferences import make_preferences
from captau.datasets.schema import CaptionSet, Card, Scale, make_items
from tests.conftest import says

SYSTEMS = {"x1": "X", "x2": "X", "y1": "Y", "y2": "Y", "none": None}


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        # X always stands first, though people prefer either.
        ([("x1", "y1", 1), ("x2", "y2", -1)], True),
        ([("x1", "y1", 1), ("y2", "x2", 1)], True),
        ([("x1", "y1", 0.5), ("y2", "x2", 2), ("x1", "y2", 0)], True),
        ([("x1", "y1", -0.5), ("y2", "x2", -2)], True),
        ([("x1", "y1", 0.5), ("y2", "x2", -0.5)], False),
        ([("x1", "x2", 1), ("x2", "x1", -1)], False),
        ([("none", "none", 1), ("none", "none", -1)], False),
        ([("none", "y1", 1), ("none", "y1", -1)], False),
        ([("x1", "y1", 0), ("y1", "x1", 0)], False),
    ],
)
def test_the_order_of_pairs_may_say_whose_captions_they_are(pairs, expected):
    selected = SimpleNamespace(
        preferences=pd.DataFrame(pairs, columns=["item_a", "item_b", "strength"]),
        keys=pd.DataFrame({"system": SYSTEMS}),
    )
    assert EvaluationSet.order_is_source.func(selected) == expected


def made(
    ratings: Any = (),
    pairs: Any = (),
    texts: Any = ("c", "a", "b"),
    images: Any = None,
    **changes: Any,
) -> EvaluationSet:
    """Captions of images "0", "1" …; a rating is caption, dimension and value, a pair two captions and a strength."""
    optional = changes.pop("optional", None)
    images = images or [str(n) for n in range(len(texts))]
    items = make_items(
        images,
        list(texts),
        [("r",)] * len(texts),
        systems=list("XYZXYZ")[: len(texts)],
        optional=optional,
    )
    ids = items["item_id"].tolist()
    rows = [(ids[n], dimension, f"r{k}", value) for k, (n, dimension, value) in enumerate(ratings)]
    frame = pd.DataFrame(rows, columns=pd.Index(["item_id", "dimension", "rater", "value"]))
    preferences = [(f"p{k}", ids[a], ids[b], d, x) for k, (a, b, d, x) in enumerate(pairs)]
    scales = {d: Scale(0, 9) for d in dict.fromkeys(d for _, d, _ in ratings)}
    card = Card(*("made", "Made", "1", "", "", ""), scales=scales, faults=changes.pop("faults", ()))
    captions = CaptionSet(items, frame, make_preferences(preferences), card=card)
    return EvaluationSet.select(captions, Protocol.resolve("made", {}, changes))


RATED = [(1, "x", 3.0), (0, "x", 2.0), (0, "x", 1.0), (2, "y", 0.0)]


def test_points_are_in_the_order_of_items_and_values_and_faults_count_negative() -> None:
    plain, faulty = made(RATED), made(RATED, faults=("x", "y"))
    ids = plain.items["item_id"].tolist()
    assert plain.points("x")[["item_id", "value"]].to_numpy().tolist() == [
        [ids[0], 1.0],
        [ids[0], 2.0],
        [ids[1], 3.0],
    ]
    assert plain.points("x").index.tolist() == [0, 1, 2]
    assert faulty.points("x")["value"].tolist() == [-1.0, -2.0, -3.0]
    (zero,) = faulty.points("y")["value"]
    assert math.copysign(1, zero) == 1
    assert plain.image_of(plain.points("x")).tolist() == ["0", "0", "1"]
    assert plain.n_images == 2


def test_a_further_dimension_has_the_points_that_are_given() -> None:
    selection = made(RATED)
    points = pd.DataFrame({"item_id": selection.items["item_id"][:1], "value": [5.0]})
    one = selection.with_dimension("sum", points)
    two = one.with_dimension("x", points)
    assert one.protocol.dimension == ("x", "y", "sum")
    assert two.protocol.dimension == ("x", "y", "sum")
    assert one.points("sum") is points
    assert (two.points("x") is points, two.points("sum") is points) == (True, True)
    assert len(one.points("x")) == 3
    assert selection.protocol.dimension == ("x", "y")


@pytest.mark.parametrize(
    ("undefined", "scores", "ratings", "image", "n_dropped"),
    [
        ("drop", [4.0, 4.0], [1.0, 2.0], [0, 0], 1),
        ("nan", [4.0, 4.0, math.nan], [1.0, 2.0, 3.0], [0, 0, 1], 0),
    ],
)
def test_points_without_a_score_are_left_out_where_the_protocol_says_so(
    undefined: str, scores: list[float], ratings: list[float], image: list[int], n_dropped: int
) -> None:
    selection = made(RATED, undefined=undefined)
    by_item = pd.Series([4.0, math.nan, 1.0], index=selection.items["item_id"])
    found = selection.data_points(by_item, selection.points("x"))
    np.testing.assert_equal(found.scores, scores)
    assert found.ratings.tolist() == ratings
    assert found.image.tolist() == image
    assert found.n_dropped == n_dropped
    assert found.n_items == len(set(image))
    assert found.keys["image_id"].tolist() == [str(n) for n in image]
    assert found.keys["system"].tolist() == ["XY"[n] for n in image]
    assert found.reason is not None


def test_items_are_ordered_by_texts_judgements_and_scores() -> None:
    """Images by their captions: "a" before "b" before "c"; equal captions by ratings, and then by scores."""
    assert made(RATED).in_order().items["caption"].tolist() == ["a", "b", "c"]
    same = made([(0, "x", 3.0), (1, "x", 1.0), (2, "x", 2.0)], texts=("a", "a", "a"))
    assert same.in_order().items["image_id"].tolist() == ["1", "2", "0"]
    assert same.in_order().items.index.tolist() == [0, 1, 2]
    unrated = made(
        texts=("a", "a", "a"),
        pairs=[(0, 1, "fit", 2.0), (2, 1, "fit", -1.0)],
        ratings=[(1, "x", 1.0)],
    )
    # Ranks: image 0 has 2 ("a"), image 2 has -1; image 1 has -2, 1 and its rating.
    assert unrated.in_order().items["image_id"].tolist() == ["1", "2", "0"]
    scored = made(
        texts=("a", "a", "a"), ratings=[(n, "x", 1.0) for n in range(3)], systems=["X", "Y", "Z"]
    )
    scores = [np.array([0.5, math.nan, 0.25])]
    assert scored.in_order(scores).items["image_id"].tolist() == ["1", "2", "0"]
    assert scored.in_order().items["system"].tolist() == ["X", "Y", "Z"]


def test_items_of_an_image_stay_together() -> None:
    items = pd.DataFrame({"image_id": ["1", "2", "1", "2"], "n": [0, 1, 2, 3]})
    found = order_by_content(items, [("d",), ("b",), ("a",), ("c",)])
    assert found["n"].tolist() == [2, 0, 1, 3]
    assert found.index.tolist() == [0, 1, 2, 3]


def test_coefficients_are_told_apart_by_what_they_are_of() -> None:
    chosen = made(
        RATED, coefficients=["auroc", "tau_b", "accuracy", "pearson"], pairs=[(0, 1, "fit", 1.0)]
    )
    assert chosen.rating_coefficients == ["auroc", "tau_b", "pearson"]
    assert chosen.measured_coefficients == ("auroc", "tau_b", "pearson", "tau_c", "spearman")
    assert chosen.detection_coefficients == ["auroc"]
    assert chosen.preference_coefficients == ("accuracy",)
    assert chosen.graded_coefficients == ["tau_b", "pearson"]
    assert chosen.uses_preferences
    pairs = made(pairs=[(0, 1, "fit", 1.0)], coefficients=["accuracy"])
    assert pairs.measured_coefficients == ()
    assert not made(RATED, coefficients=["tau_b"]).uses_preferences
    assert not chosen.has_words


def test_images_are_counted_on_the_dimension_that_has_most() -> None:
    pairs = [(0, 1, "fit", 1.0), (1, 2, "fit", 1.0), (2, 0, "fit", 1.0)]
    both = ["tau_b", "accuracy"]
    assert made(RATED, pairs=pairs, coefficients=both).n_images == 3
    assert made(RATED, pairs=pairs, coefficients=["tau_b"]).n_images == 2
    assert made(RATED, pairs=pairs[:1], coefficients=["accuracy"]).n_images == 1
    assert made(RATED, optional={"cluster": ["u", "u", "v"]}).n_images == 1


def test_preferences_are_of_selected_items_and_named_dimensions() -> None:
    pairs = [(0, 1, "fit", 1.0), (1, 2, "fit", 1.0), (0, 1, "style", -1.0)]
    coefficients = ["tau_b", "accuracy"]
    everything = made(RATED, pairs=pairs, coefficients=coefficients)
    assert everything.preferences["pair_id"].tolist() == ["p0", "p1", "p2"]
    some = made(RATED, pairs=pairs, coefficients=coefficients, systems=["X", "Y"])
    assert some.preferences["pair_id"].tolist() == ["p0", "p2"]
    named = made(RATED, pairs=pairs, coefficients=coefficients, dimension=["x", "style"])
    assert named.preferences["pair_id"].tolist() == ["p2"]
    assert named.protocol.dimension == ("x",)


def test_people_have_ceilings_on_pairs_with_two_single_answers() -> None:
    pairs = [(0, 1, "fit", 1.0), (0, 1, "fit", 1.0)]
    chosen: dict[str, Any] = {"coefficients": ["accuracy"], "pairs": pairs}
    found = made(**chosen).pair_ceilings
    assert {name: c.values.tolist() for name, c in found.items()} == {
        "ceiling_one_vs_one": [1.0, 1.0],
        "ceiling_oracle": [1.0, 1.0],
    }
    assert made(**{**chosen, "pairs": pairs[:1]}).pair_ceilings == {}
    alone = made(**chosen)
    combined = replace(alone, protocol=replace(alone.protocol, ratings="mean"))
    assert combined.pair_ceilings == {}
    assert made(RATED, coefficients=["tau_b"], pairs=pairs).pair_ceilings == {}


def test_what_has_nothing_to_correlate_is_refused_with_a_remedy() -> None:
    pairs = [(0, 1, "fit", 1.0)]
    made(RATED, coefficients=["tau_b"]).require_coefficients()
    made(pairs=pairs, coefficients=["accuracy"]).require_coefficients()
    graded = [(0, 1, "fit", 1.0), (0, 2, "fit", 2.0)]
    made(pairs=graded, coefficients=["tau_b"]).require_coefficients()
    with says(
        "dataset made: it has preferences and no ratings; add accuracy to protocol.coefficients"
    ):
        made(pairs=pairs, coefficients=["tau_b"]).require_coefficients()
    with says("dataset made: no ratings here"):
        made(pairs=pairs, coefficients=["accuracy"]).require_ratings("no ratings here")
    made(RATED, coefficients=["accuracy"]).require_ratings("no ratings here")
    none = made(RATED, pairs=pairs, dimension=["fit"])
    with says("dataset made: protocol.dimension is empty; name at least one of x,y"):
        none.require_ratings("no ratings here")


def test_clusters_do_not_go_with_coefficients_by_image() -> None:
    made(RATED, level="by_image")
    with says(
        "dataset made: protocol.level=by_image does not go with clusters; leave out the column of clusters, or set "
        "another level"
    ):
        made(RATED, level="by_image", optional={"cluster": ["u", "u", "v"]})
