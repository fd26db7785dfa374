"""Good, bad or skip, and the finer form: the paper's answers and files."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from captau.server.collect.forms import wording
from captau.server.collect.forms.form import FormError
from captau.server.collect.forms.good_bad import GoodBadForm
from captau.server.collect.forms.levels import ExtrinsicForm
from captau.server.collect.forms.wording import DimensionFields, Level
from tests.conftest import says
from tests.server.collect.forms.answers import answer, gather, make_unit


def test_the_answers_are_those_of_the_paper():
    """Levinboim et al. 2021, section 3.2: YES, NO, or skip."""
    assert [level.name for level in GoodBadForm().wording.dimensions[0].levels] == ["Yes", "No"]
    wording._own_texts.cache_clear()
    assert wording.load_wording("good_bad") == GoodBadForm().wording


def test_the_finer_form_asks_yes_or_no_at_the_thresholds_of_the_paper():
    """Levinboim et al. 2021, section 6.2: Ext-Good counts “at least partially-correct” and “at least somewhat-useful”."""
    correct, helpful, fluent = ExtrinsicForm().wording.dimensions
    assert "at least partially correct" in correct.question
    assert "at least somewhat useful" in helpful.question
    for dimension in (correct, helpful, fluent):
        assert [(level.name, level.value) for level in dimension.levels] == [("Yes", 1), ("No", 0)]


def test_an_answer_is_good_bad_or_skip_and_a_skip_is_no_rating():
    form = GoodBadForm()
    answers = [form.read_answer({"answer": [text]}, 1)[0] for text in ("good", "bad", "skip")]
    assert [form.ratings(value) for value in answers] == [{"good": 1.0}, {"good": 0.0}, {}]
    for fields in ({}, {"answer": ["fair"]}, {"answer": ["good", "bad"]}):
        with pytest.raises(FormError, match="Choose one of the answers"):
            form.read_answer(fields, 1)


def test_a_study_may_word_the_two_levels_anew_and_has_no_others():
    fields, default = DimensionFields(name="good"), GoodBadForm().wording.dimensions[0]
    GoodBadForm.check_levels(fields, [Level(0, text="no"), Level(1, text="yes")], default)
    with says("they are 1 to 2 in steps of 1; 0 to 1 in steps of 1 are expected"):
        GoodBadForm.check_levels(fields, [Level(1), Level(2)], default)


@pytest.mark.parametrize(
    ("level", "draw", "chosen"),
    [(5, 0.029, "skip"), (5, 0.03, "good"), (3, 0.5, "good"), (2, 0.5, "bad"), (1, 0.5, "bad")],
)
def test_a_simulated_rater_skips_three_of_a_hundred(level, draw, chosen):
    rng = SimpleNamespace(random=lambda: draw)
    fields = GoodBadForm().simulate_answer(lambda caption: level, ["a caption"], rng)
    assert fields == {"answer": chosen}


def answer_often(unit, good=0, bad=0, skip=0):
    counts = {"good": good, "bad": bad, "skip": skip}
    values = [value for value, count in counts.items() for _ in range(count)]
    return [answer(unit, {"answer": v}, f"r{k}") for k, v in enumerate(values)]


def test_pairs_that_many_skip_or_few_answer_are_left_out():
    """Caption-Quality drops pairs of more than two skips, and its reader those of fewer than eight answers."""
    skipped, rare, enough = (make_unit(k, f"caption {k}") for k in (1, 2, 3))
    answers = gather(
        *answer_often(skipped, good=8, skip=3),
        *answer_often(rare, good=4, bad=3, skip=2),
        *answer_often(enough, good=5, bad=3, skip=2),
        left_out={"excluded_raters": 1},
    )
    for for_paper, units, few in (
        (False, {rare, enough}, {}),
        (True, {enough}, {"pairs_of_fewer_than_8_answers": 1}),
    ):
        selected = GoodBadForm().select_answers(answers, for_paper=for_paper)
        assert {a.unit for a in selected.answers} == units
        counts = {"excluded_raters": 1, "pairs_of_more_than_2_skips": 1}
        assert selected.left_out == {**counts, **few}


META = (
    "Index\tAuthor\tAuthorProfileURL\tIMAGE_KEY\tLicense\tOriginalLandingURL\tOriginalMD5\tOriginalSize\t"
    "OriginalURL\tRotation\tSubset\tThumbnail300KURL\tTitle\n"
)
COLUMNS = (
    "Index\tIMAGE_KEY\tCAPTION_PRED\tCOUNT_RATINGS\tCOUNT_GOOD_RATINGS\tROUNDED_AVG_USER_RATING"
)


@pytest.mark.parametrize("system", ["one", None])
def test_the_paper_s_files_have_a_row_a_pair_and_the_images_of_each_fold(system):
    """2 of 3 is 5/8 and 1 of 2 is 4/8, rounded to eighths; skips count nowhere."""
    splits = ("validation", "validation", "train", "", "test")
    images = ("p0.png", "p0.png", "p1.png", "p2.png", "p0.png")
    units = []
    for k, (split, image) in enumerate(zip(splits, images, strict=True), start=1):
        unit = make_unit(k, (f"caption\n {k}", system if k == 5 else "sys"), image=image)
        units.append(replace(unit, items=(replace(unit.items[0], split=split),)))
    answers = gather(
        *answer_often(units[0], good=2, bad=1, skip=2),
        *answer_often(units[1], good=1, bad=1),
        *answer_often(units[2], bad=1),
        *answer_often(units[3], good=1),
        *answer_often(units[4], good=3),
    )
    files = GoodBadForm().paper_files(answers)
    model, sys, own = ("\tMODEL", "\tsys", "\tone") if system else ("", "", "")
    meta = "{}\t\t\t{}\t\t\t\t\t{}\t\t\t\t\n".format
    assert {name: content.decode() for name, content in files.items()} == {
        f"OID-rated-image-captions.v1.{name}": text
        for name, text in {
            "train.tsv": f"{COLUMNS}{model}\n0\tp1.png\tcaption 3\t1.0\t0.0\t0.0{sys}\n",
            "dev.tsv": (
                f"{COLUMNS}{model}\n0\tp0.png\tcaption 1\t3.0\t2.0\t0.625{sys}\n"
                f"1\tp0.png\tcaption 2\t2.0\t1.0\t0.5{sys}\n"
            ),
            "test.tsv": (
                f"{COLUMNS}{model}\n0\tp2.png\tcaption 4\t1.0\t1.0\t1.0{sys}\n"
                f"1\tp0.png\tcaption 5\t3.0\t3.0\t1.0{own}\n"
            ),
            "train.tsv.meta": META + meta(0, "p1.png", "p1.png"),
            "dev.tsv.meta": META + meta(0, "p0.png", "p0.png"),
            "test.tsv.meta": META + meta(0, "p2.png", "p2.png") + meta(1, "p0.png", "p0.png"),
        }.items()
    }


def test_a_study_of_this_form_is_compared_with_the_paper_s_figures():
    """Levinboim et al. 2021, section 3.3."""
    rule = GoodBadForm.stability
    assert (rule.min_ratings, GoodBadForm.default_ratings) == (8, 10)
    assert rule.published == {"mean": 0.015, "std": 0.212, "within_0.25": 0.85}
