"""Captions judged by levels: answers, simulated ones, and the papers' files, worked by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from captau.server.collect.forms.form import FormError
from captau.server.collect.forms.game import GameForm
from captau.server.collect.forms.levels import ExtrinsicForm, FourForm
from captau.server.collect.forms.wording import Dimension, Level
from tests.server.collect.forms.answers import answer, gather, make_unit

NO_DRAWS = np.random.default_rng(0)


def test_each_caption_needs_a_level_of_each_dimension():
    form = FourForm()
    fields = {"overall_1": ["5"], "overall_2": ["1"]}
    assert form.read_answer(fields, 2) == [{"overall": 5}, {"overall": 1}]
    assert form.ratings({"overall": 5}) == {"overall": 5.0}
    question = "Overall, from 1 (worst) to 5 (best)"
    for n_captions, fields, place in (
        (2, {"overall_1": ["5"]}, "Caption 2: "),
        (2, {"overall_1": ["6"], "overall_2": ["1"]}, "Caption 1: "),
        (1, {"overall_1": ["0"]}, ""),
    ):
        with pytest.raises(FormError) as raised:
            form.read_answer(fields, n_captions)
        assert str(raised.value) == f"{place}Choose one of 1, 2, 3, 4, 5: {question}"


def test_simulated_raters_fill_in_every_dimension_of_every_caption():
    level = {"good": 5, "fair": 3, "poor": 1}.__getitem__
    assert FourForm().simulate_answer(level, ["poor", "good"], NO_DRAWS) == {
        "overall_1": 1,
        "overall_2": 5,
    }
    # Three of five is halfway between no and yes, and goes up.
    assert ExtrinsicForm().simulate_answer(level, ["fair", "poor"], NO_DRAWS) == {
        **{"correct_1": 1, "helpful_1": 1, "fluent_1": 1},
        **{"correct_2": 0, "helpful_2": 0, "fluent_2": 0},
    }
    assert GameForm().simulate_answer(level, ["poor"], NO_DRAWS) == {"rating": 1}


def test_captions_of_an_image_are_shown_in_fours():
    items = [make_unit(k, f"caption {k}", image=f"p{k // 6}.png").items[0] for k in range(11)]
    groups = [[item.caption for item in unit.items] for unit in FourForm().group_items(items)]
    numbers = [(0, 1, 2, 3), (4, 5), (6, 7, 8, 9), (10,)]
    assert groups == [[f"caption {k}" for k in group] for group in numbers]


def test_ext_good_captions_are_correct_and_helpful_to_more_than_half():
    """Levinboim et al. 2021, section 6.2."""
    units = [make_unit(1, "one"), make_unit(2, ("two", None))]
    yes_no = ((1, 1, 0), (1, 0, 0)), ((1, 1, 1), (1, 1, 1), (0, 0, 1))
    answers = gather(
        *(
            answer(unit, dict(zip(("correct", "helpful", "fluent"), levels, strict=True)))
            for unit, rows in zip(units, yes_no, strict=True)
            for levels in rows
        )
    )
    assert ExtrinsicForm().paper_files(answers) == {
        "caption_ext.csv": (
            b"image,caption,system,ratings,correct,helpful,fluent,ext_good\n"
            b"p0.png,one,sys,2,1,0.5,0,0\n"
            b"p0.png,two,,3,0.666667,0.666667,1,1\n"
        )
    }
    # A study that asks something else has shares alone; the lowest level may be any number.
    clear = Dimension("clear", "Is it clear?", (Level(2), Level(3), Level(4)))
    form = ExtrinsicForm(wording=replace(ExtrinsicForm().wording, dimensions=(clear,)))
    answers = gather(*(answer(units[0], {"clear": level}) for level in (2, 2, 3, 4)))
    assert form.paper_files(answers) == {
        "caption_ext.csv": b"image,caption,system,ratings,clear\np0.png,one,sys,4,0.5\n"
    }


def test_capeval1k_has_means_on_a_scale_of_0_to_1():
    """4 and 5 are 3/4 and 1 of the way from 1 to 5."""
    unit = make_unit(1, "one", ("two", None))
    unit = replace(unit, items=(unit.items[0], replace(unit.items[1], references=("é", "b"))))
    answers = gather(
        answer(unit, {"overall": 4}),
        answer(unit, {"overall": 1}, k=1),
        answer(unit, {"overall": 5}, "r2"),
    )
    text = (
        "image,caption,references,system,ratings,value\n"
        'p0.png,one,"[""a ref""]",sys,2,0.875\n'
        'p0.png,two,"[""é"", ""b""]",,1,0.0\n'
    )
    form = FourForm()
    assert form.paper_files(answers)["capeval.csv"].decode() == text
    # Of several dimensions it is the first.
    clear = Dimension("clear", "Is it clear?", (Level(2), Level(3)))
    both = replace(form.wording, dimensions=(*form.wording.dimensions, clear))
    assert FourForm(wording=both).paper_files(answers)["capeval.csv"].decode() == text


def test_a_form_waits_only_if_its_course_does():
    assert GameForm().with_wait(7.5).course.wait == 7.5
    form = FourForm()
    assert form.with_wait(7.5) is form
    assert form.course.wait == 0.0
    assert (GameForm().course.has_points, form.course.has_points) == (True, False)


def test_only_the_form_of_four_shows_references_and_both_leave_a_study_its_dimensions():
    assert (ExtrinsicForm.shows_references, FourForm.shows_references) == (False, True)
    assert all(form().wording.has_free_dimensions for form in (ExtrinsicForm, FourForm))
    assert (ExtrinsicForm.unit_noun, FourForm.unit_noun) == ("captions", "images")


def test_a_study_of_correct_and_helpful_alone_has_ext_good_captions():
    """One rater is more than half of one; a share of one half is not."""
    form, (unit, other) = ExtrinsicForm(), (make_unit(1, "one"), make_unit(2, "two"))
    form = ExtrinsicForm(wording=replace(form.wording, dimensions=form.wording.dimensions[:2]))
    answers = gather(
        answer(unit, {"correct": 1, "helpful": 1}),
        answer(other, {"correct": 1, "helpful": 1}),
        answer(other, {"correct": 1, "helpful": 0}, "r2"),
    )
    assert form.paper_files(answers)["caption_ext.csv"].decode().splitlines()[1:] == [
        "p0.png,one,sys,1,1,1,1",
        "p0.png,two,sys,2,1,0.5,0",
    ]
