"""Answers that count, the dataset that they make, and figures of raters, worked by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest

from captau.server.collect.forms.ab import AbForm
from captau.server.collect.forms.game import GameForm
from captau.server.collect.forms.good_bad import GoodBadForm
from captau.server.collect.forms.thumb import ThumbForm
from captau.server.collect.items.units import Stage
from captau.server.collect.rater_figures import (
    RaterAnswers,
    RaterFigures,
    collect_answers,
    compute_figures,
    compute_pearson,
    compute_rater_figures,
    make_caption_set,
    measure_agreement,
)
from tests.server.collect.forms.answers import make_unit


def make_store(form, *units):
    """Return a store of units; raters go by their number."""
    items = {item.id: (unit, item) for unit in units for item in unit.items}
    return SimpleNamespace(
        form=form,
        units={unit.id: unit for unit in units},
        items_by_id=lambda: items,
        rater_code=lambda number: f"code {number}",
        study=SimpleNamespace(name="small", title="A small study"),
    )


def make_rows(answers, raters=(1, 2, 3), excluded=()):
    """Return a study's rows of answers: rater, item, value, phase and seconds."""
    return {
        "raters": [{"id": r, "excluded_at": 5.0 if r in excluded else None} for r in raters],
        "answers": [
            dict(zip(("rater", "item", "value", "phase", "seconds"), answer, strict=True))
            for answer in answers
        ],
    }


def test_answers_of_the_excluded_and_to_practice_or_attention_items_do_not_count():
    unit, pair = make_unit(1, "one", "two"), make_unit(4, "a", "b")
    practice, attention = (
        replace(make_unit(k, "known"), pool=pool) for k, pool in ((2, "tutorial"), (3, "attention"))
    )
    store = make_store(GameForm(), unit, practice, attention)
    answers = [
        (1, 20, {"overall": 5}, "tutorial", 1.0),
        (1, 10, {"overall": 4}, "trial", 2.0),
        (2, 10, {"overall": 3}, "playing", 3.0),
        (3, 10, {"overall": 1}, "playing", 3.0),
        (1, 30, {"overall": 2}, "attention", 1.0),
        (1, 11, {"overall": 2}, "playing", 4.0),
    ]
    counted = collect_answers(store, make_rows(answers, excluded=(3,)))
    assert [(a.item.id, a.rater, a.value, a.seconds, a.stage) for a in counted.answers] == [
        (10, "code 1", {"overall": 4}, 2.0, ""),
        (10, "code 2", {"overall": 3}, 3.0, ""),
        (11, "code 1", {"overall": 2}, 4.0, ""),
    ]
    assert {a.unit for a in counted.answers} == {unit}
    assert (counted.settled, counted.left_out) == ({}, {"excluded_raters": 1})
    assert counted.units == (unit, practice, attention)
    # Of a preference, the half that is stored with the first caption.
    rows = make_rows([(1, 40, {"overall": 1}, "main", 2.0), (1, 41, {"overall": -1}, "main", 2.0)])
    (counted,) = collect_answers(make_store(AbForm(), pair), rows).answers
    assert counted.value == {"overall": 1}


def test_what_another_annotator_checked_is_settled_and_stages_are_named():
    stages = (Stage("main"), Stage("check"), Stage("fluency"))
    unit = make_unit(1, "one", "two", stages=stages)
    first, second, third = ({"precision": k} for k in (1, 2, 3))
    answers = [
        (1, 10, first, "main", 9.0),
        (1, 11, first, "main", 9.0),
        (2, 10, second, "check", 8.0),
        (3, 10, {**third, "only": "fluency"}, "fluency", 7.0),
    ]
    store = make_store(ThumbForm(), unit)
    counted = collect_answers(store, make_rows(answers))
    assert [a.stage for a in counted.answers] == ["score", "score", "check", "fluency"]
    assert counted.settled == {10: third}
    counted = collect_answers(store, make_rows(answers, excluded=(3,)))
    assert (counted.settled, counted.left_out) == ({10: second}, {"excluded_raters": 1})
    assert collect_answers(store, make_rows(answers[:2])).settled == {}


def test_ratings_make_a_dataset():
    first, second = make_unit(1, ("one", None)), make_unit(2, "two", image="p1.png")
    store = make_store(GoodBadForm(), first, second)
    rows = make_rows(
        [
            (2, 20, {"answer": "bad"}, "main", 1.0),
            (1, 10, {"answer": "good"}, "main", 1.0),
            (3, 10, {"answer": "skip"}, "main", 1.0),
            (1, 20, {"answer": "good"}, "main", 1.0),
        ]
    )
    dataset = make_caption_set(store, collect_answers(store, rows))
    items = dataset.items
    columns = ["image_id", "caption", "references", "system", "image"]
    assert items[columns].to_numpy().tolist() == [
        ["p1.png", "two", ("a ref",), "sys", "/x/p1.png"],
        ["p0.png", "one", ("a ref",), None, "/x/p0.png"],
    ]
    ids = items["item_id"].tolist()
    ratings = dataset.ratings[["item_id", "dimension", "rater", "value"]].to_numpy().tolist()
    assert ratings == [
        [ids[0], "good", "code 2", 0.0],
        [ids[1], "good", "code 1", 1.0],
        [ids[0], "good", "code 1", 1.0],
    ]
    card = dataset.card
    assert (card.name, card.title, card.has_references) == ("small", "A small study", False)
    assert (card.scales, card.totals) == (GoodBadForm().scales, ())
    empty = make_rows([(1, 10, {"answer": "skip"}, "main", 1.0)])
    assert make_caption_set(store, collect_answers(store, empty)) is None
    assert measure_agreement(store, empty) == {}


def test_the_agreement_on_pairs_does_not_depend_on_which_caption_is_the_first():
    """Strengths 1, 1 and -1, -1 of one order are 1, 1 and 1, 1 of another; all measures are those of both orders."""
    units = [make_unit(k, "a", "b", image=f"p{k}.png") for k in (1, 2, 3)]
    store = make_store(AbForm(), *units)

    def measure(*strengths):
        answers = []
        for unit, by_rater in zip(units, strengths, strict=True):
            for rater, strength in enumerate(by_rater, 1):
                answers.append((rater, unit.items[0].id, {"overall": strength}, "main", 1.0))
        return measure_agreement(store, make_rows(answers))

    measures = measure((1, 1), (-1, -1), (1, -1))
    value, note = measures["Krippendorff's α, nominal"]
    # Of both orders there are six of each sign: four of six pairs agree, of two raters 6/11 would not by chance.
    assert value == pytest.approx(1 - (1 / 3) / (6 / 11))
    assert note == ""
    assert measures["equal ratings"][0] == pytest.approx(2 / 3)

    turned = measure((-1, -1), (-1, -1), (-1, 1))
    for label, (value, note) in measures.items():
        assert turned[label] == (pytest.approx(value, nan_ok=True), note)

    _, note = measure((1, 1), (-1, -1), (1,))["equal ratings"]
    assert note == "items left out, with fewer than 2 ratings: 1"


def figures_of(ratings, others=(), attention=(), seconds=()):
    """Return the figures of rater 1 who rated items 1, 2 …, each of which rater 2 gave another rating."""
    answers = RaterAnswers(list(enumerate(ratings, 1)), list(seconds), list(attention))
    by_item = {k: [(1, own)] for k, own in enumerate(ratings, 1) if own is not None}
    for k, rating in enumerate(others, 1):
        by_item.setdefault(k, []).append((2, rating))
    return compute_figures(1, answers, by_item)


def test_figures_of_a_rater():
    """Distances 1, 0 and 2; of 1, 2, 5 and 2, 2, 3 the deviations are (-5, -2, 7) / 3 and (-1, -1, 2) / 3."""
    nothing = RaterFigures(0, None, None, None, None, 0, 0, 0, ())
    assert figures_of(()) == nothing
    figures = figures_of((1, 2, 5, None, None, 5), (2, 2, 3, 4), (True, False, True), (9, 1, 4, 2))
    assert figures == RaterFigures(
        **{"n_answers": 6, "seconds": 3.0, "distance": 1.0, "uniform_share": 2 / 6},
        **{"correlation": pytest.approx(21 / (78 * 6) ** 0.5), "longest_run": 2},
        **{"n_attention": 3, "n_attention_right": 2, "notes": ()},
    )
    # The others' ratings of an item count by their mean, without one's own.
    by_item = {1: [(1, 5.0), (2, 1.0), (3, 2.0)]}
    assert compute_figures(1, RaterAnswers([(1, 5.0)]), by_item).distance == 3.5


SAME, MISSED = "nearly always the same answer", "missed most known answers"
LITTLE = "little agreement with the rest"


@pytest.mark.parametrize(
    ("ratings", "others", "attention", "notes"),
    [
        ([1] * 9 + [2], (), (), (SAME,)),
        ([1] * 8 + [2] * 2, (), (), ()),
        ([1] * 9, (), (), ()),
        ([1] * 10, (), (), (SAME,)),
        ([1], (), (False,), (MISSED,)),
        ([1], (), (True, False), ()),
        ([1], (), (True, False, False), (MISSED,)),
        ([1, 2] * 5, [2, 1] * 5, (), (LITTLE,)),
        ([1, 2] * 5, [2, 1] * 4 + [2], (), ()),  # nine are rated by others
        ([1, 2] * 5, [1, 2] * 5, (), ()),
        # Of ten, six agree and four do not: r is 0.2.
        ([1, 1, 1, 1, 1, 2, 2, 2, 2, 2], [1, 1, 1, 2, 2, 1, 1, 2, 2, 2], (), ()),
        ([1] * 10, [1, 2] * 5, (False,), (SAME, MISSED)),
    ],
)
def test_raters_are_pointed_out_for_a_reason(ratings, others, attention, notes):
    assert figures_of(ratings, others, attention).notes == notes


def test_a_correlation_needs_three_pairs_that_differ():
    assert compute_pearson([1, 2], [1, 2]) is None
    assert compute_pearson([1, 2, 3], [2, 4, 6]) == pytest.approx(1.0)
    assert compute_pearson([1, 2, 3], [2, 2, 2]) is None
    assert compute_pearson([], []) is None


def test_every_rater_has_figures_of_the_main_dimension():
    unit = make_unit(1, "one", "two")
    attention = replace(make_unit(3, "known"), pool="attention", fixed=(1, 2))
    practice = replace(make_unit(2, "known"), pool="tutorial")
    store = make_store(GameForm(), unit, practice, attention)
    answers = [
        (1, 20, {"overall": 5}, "tutorial", 99.0),
        (1, 10, {"overall": 5}, "playing", 4.0),
        (1, 30, {"overall": 2}, "attention", 99.0),
        (1, 30, {"overall": 3}, "attention", 99.0),
        (2, 10, {"overall": 2}, "playing", 6.0),
        (2, 11, {"overall": 2}, "playing", 8.0),
        (3, 10, {"overall": 1}, "playing", 1.0),
    ]
    figures = compute_rater_figures(store, make_rows(answers, (1, 2, 3, 4), excluded=(3,)))
    assert figures == {
        1: RaterFigures(1, 4.0, 3.0, None, 1.0, 1, 2, 1, ()),
        2: RaterFigures(2, 7.0, 3.0, None, 1.0, 2, 0, 0, ()),
        # Whom the excluded rater is far from is told, but not the other way round.
        3: RaterFigures(1, 1.0, 2.5, None, 1.0, 1, 0, 0, ()),
        4: RaterFigures(0, None, None, None, None, 0, 0, 0, ()),
    }


def test_the_dashboard_has_the_measures_of_agreement_with_their_notes():
    """Two raters of four captions who agree on three of them, and one who rated one caption as they do.

    Of six good and three bad answers one pair differs: α is 1 - (2 / 9) / (2 · 6 · 3 / (9 · 8)).
    """
    units = [make_unit(k, f"caption {k}") for k in range(1, 5)]
    store = make_store(GoodBadForm(), *units)
    values = {1: ("good", "good", "bad", "bad"), 2: ("good", "good", "bad", "good"), 3: ("good",)}
    answers = [
        (rater, 10 * k, {"answer": value}, "main", 1.0)
        for rater, given in values.items()
        for k, value in enumerate(given, 1)
    ]
    left_out = "items left out, with fewer than 3 ratings: 3"
    equal = math.nan, f"undefined: all scores are equal; {left_out}"
    agreement = measure_agreement(store, make_rows(answers))
    expected = {
        **{f"virtual rater {r}, τ_c": equal for r in ("X against Y and Z", "Y against X and Z")},
        "virtual rater Z against X and Y, τ_c": equal,
        "Kendall's W": (math.nan, f"undefined: every rater gives all items one rating; {left_out}"),
        "Fleiss' κ": (math.nan, f"undefined: all ratings are equal; {left_out}"),
        **{
            f"Krippendorff's α, {scale}": (5 / 9, "")
            for scale in ("nominal", "ordinal", "interval")
        },
        "equal ratings": (0.75, ""),
    }
    assert {name: note for name, (_, note) in agreement.items()} == {
        name: note for name, (_, note) in expected.items()
    }
    for name, (value, _) in expected.items():
        assert agreement[name][0] == pytest.approx(value, nan_ok=True), name
