"""The wording of a study's file: what it may word anew, what is the form's own, and each fault."""

from __future__ import annotations

from dataclasses import replace

import pytest

from captau.server.collect.forms import FORMS
from captau.server.collect.forms.ab import AbForm
from captau.server.collect.forms.game import GameForm
from captau.server.collect.forms.levels import ExtrinsicForm, FourForm
from captau.server.collect.forms.references import ReferencesForm
from captau.server.collect.forms.wording import Dimension, Level, Wording, load_wording
from captau.server.texts import ENGLISH, Language
from tests.conftest import says
from tests.server.collect.conftest import read_study_fields


def read(form, language=ENGLISH, **fields):
    return form.read_wording(read_study_fields(form, **fields), language)


def levels(*values):
    return [{"value": v, "text": f"level {v}"} for v in values]


LEVELS = tuple(Level(v, text=f"level {v}") for v in (1, 2))


def test_dimensions_are_free_only_where_the_form_says_so():
    assert not load_wording("good_bad").has_free_dimensions
    assert load_wording("four", has_free_dimensions=True).has_free_dimensions
    assert {name: form().wording.has_free_dimensions for name, form in FORMS.items()} == {
        **{"game": False, "good_bad": False, "extrinsic": True, "thumb": False, "four": True},
        **{"ab": True, "references": False},
    }


def test_what_a_study_leaves_out_is_the_form_s_own():
    assert read(FourForm) == FourForm().wording
    wording = read(
        FourForm,
        question="Well?",
        instructions=" Look. \n",
        dimensions=[{"name": "overall", "note": "n"}],
    )
    own = FourForm().wording.dimensions[0]
    assert wording == replace(
        FourForm().wording,
        question="Well?",
        instructions="Look.",
        dimensions=(replace(own, note="n"),),
    )
    # A new dimension is asked for by its name, and has the levels of the form's only one.
    wording = read(
        FourForm,
        dimensions=[{"name": "style"}, {"name": "sense", "levels": levels(1, 2), "question": "?"}],
    )
    assert wording.dimensions == (
        Dimension("style", "style", own.levels),
        Dimension("sense", "?", LEVELS),
    )


def test_dimensions_that_are_not_free_are_only_worded_anew():
    rows = [{"value": v, "text": f"level {v}"} for v in (5, 4, 3, 2, 1)]
    wording = read(
        GameForm, dimensions=[{"name": "overall", "levels": rows, "question": "q" * 500}]
    )
    (dimension,) = wording.dimensions
    assert (dimension.question, [level.value for level in dimension.levels]) == (
        "q" * 500,
        [5, 4, 3, 2, 1],
    )
    assert (dimension.has_texts, dimension.level(4)) == (True, Level(4, text="level 4"))
    assert not FourForm().wording.dimensions[0].has_texts


@pytest.mark.parametrize(
    ("form", "dimensions", "fault"),
    [
        (GameForm, [{"name": "style"}], "dimensions[1].name: unknown dimension 'style': known: overall"),
        (FourForm, [{"name": "a"}, {"name": "a"}], "dimensions[2].name: 'a' is asked for twice; keep one"),
        (FourForm, [], "dimensions: at least one is needed"),
        (ReferencesForm, [{"name": "a"}], "dimensions: this protocol has none; leave it out"),
        (ExtrinsicForm, [{"name": "a"}], "dimensions[1].levels: they are needed, each with value and text"),
        (FourForm, [{"name": "a", "levels": levels(1)}], "levels: their values are 1; two or more whole numbers"),
        (FourForm, [{"name": "a", "levels": levels(1, 3)}], "levels: their values are 1, 3; two or more"),
        (FourForm, [{"name": "a", "levels": levels(1, 1, 2)}], "levels: their values are 1, 1, 2; two or more"),
        (GameForm, [{"name": "overall", "levels": levels(1, 2)}], "they are 1 to 2 in steps of 1; 1 to 5"),
        (FourForm, [{"name": "a", "levels": [{"value": 1, "text": " "}]}], "it is empty; say what the level means"),
        (FourForm, [{"name": "a", "levels": levels(1, 101)}], "101"),
        (FourForm, [{"name": "a", "levels": levels(-101, 1)}], "-101"),
        (FourForm, [{"name": "a" * 65}], "dimensions[1].name"),
        (FourForm, [{"name": "a", "question": "q" * 501}], "dimensions[1].question"),
        (FourForm, [{"name": "a", "note": "n" * 2001}], "dimensions[1].note"),
        (FourForm, [{"name": "a", "levels": [{"value": 1, "text": "t" * 2001}]}], "text"),
        (FourForm, [{"name": "a", "levels": [{"value": 1, "text": "t", "name": "n" * 101}]}], "name"),
        (FourForm, [{"name": "a", "colour": "red"}], "colour"),
    ],
)  # fmt: skip
def test_faults_of_dimensions_are_named(form, dimensions, fault):
    with says("study.yaml", fault):
        read(form, dimensions=dimensions)


def test_the_longest_texts_and_the_last_numbers_are_taken():
    rows = [{"value": v, "text": "t" * 2000, "name": "n" * 100} for v in (-100, -99)]
    fields = {"name": "a" * 64, "question": "q" * 500, "note": "n" * 2000, "levels": rows}
    (dimension,) = read(FourForm, dimensions=[fields], question="q" * 500).dimensions
    assert dimension.levels == tuple(Level(v, "n" * 100, "t" * 2000) for v in (-100, -99))
    (dimension,) = read(FourForm, dimensions=[{"name": "a", "levels": levels(99, 100)}]).dimensions
    assert dimension.scale.high == 100
    with says("question"):
        read(FourForm, question="q" * 501)


def test_every_text_of_a_wording_is_translated():
    german = Language(
        "de", {"q": "Q", "one": "EINS", "two": "ZWEI", "t": "T", "n": "N", "a note": "NOTIZ"}
    )
    dimension = Dimension("d", "q", (Level(1, "n", "t"),), "a note")
    wording = Wording("q", "one\n\ntwo\n\nthree", (dimension,), has_free_dimensions=True)
    assert wording.translated(german) == Wording(
        *(
            "Q",
            "EINS\n\nZWEI\n\nthree",
            (Dimension("d", "Q", (Level(1, "N", "T"),), "NOTIZ"),),
            german,
        ),
        has_free_dimensions=True,
    )
    assert (
        read(AbForm, Language("de", {"Equally good": "Gleich"})).dimensions[0].levels[1].text
        == "Gleich"
    )
