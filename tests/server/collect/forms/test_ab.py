"""Preferences between two captions of an image: pairs, sides, answers and their table."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from captau.datasets.registry import load
from captau.datasets.schema import Scale
from captau.server.collect.export import export_files
from captau.server.collect.forms.ab import AbForm, KnownCaptionPair
from captau.server.collect.forms.form import FormError
from captau.server.collect.forms.wording import Dimension, Level
from captau.server.collect.rerun_stability import compare_runs
from captau.server.collect.simulated_browser import join_study
from captau.server.collect.study import read_study
from tests.conftest import says
from tests.server.collect.conftest import CAPTIONS, read_fields, write_study
from tests.server.collect.forms.answers import answer, gather, make_unit
from tests.server.collect.visitors import load_rows, sign_in_admin

PAIRS = """image,caption_a,caption_b,system_a,system_b,references
p0.png,a red square,a square,exact,terse,a reference
p1.png,a blue square,a wrong circle,exact,wrong,another reference
"""


def write_pairs(folder, text=PAIRS, **changes):
    path = write_study(folder, "ab", items={"file": "pairs.csv"}, **changes)
    (folder / "pairs.csv").write_text(text, encoding="utf-8")
    return path


def read_preferences(site):
    files = export_files(site.store, load_rows(site), "captau")
    return pd.read_csv(io.BytesIO(files["preferences.csv"]))


def test_all_different_captions_of_an_image_are_paired(tmp_path):
    units = read_study(str(write_study(tmp_path, "ab"))).units
    assert len(units) == 6 * 3  # each of 6 images has 3 captions
    assert all(len({i.caption for i in unit.items}) == 2 for unit in units)
    assert all(i.image_id == unit.image_id for unit in units for i in unit.items)
    # A metric that prefers the first caption knows nothing: every system is first, and second, somewhere.
    for place in (0, 1):
        assert len({unit.items[place].system for unit in units}) == 3


def test_captions_that_look_equal_are_not_paired(tmp_path, caplog):
    path = write_study(tmp_path, "ab")
    rows = (tmp_path / "captions.jsonl").read_text(encoding="utf-8").splitlines()
    copy = {**json.loads(rows[0]), "caption": "a  square number 0", "system": "other"}
    (tmp_path / "captions.jsonl").write_text("\n".join([*rows[:2], json.dumps(copy)]))
    pairs = {frozenset(i.caption for i in u.items) for u in read_study(str(path)).units}
    assert pairs == {
        frozenset((CAPTIONS[0][1], CAPTIONS[1][1])),
        frozenset((CAPTIONS[1][1], "a  square number 0")),
    }
    assert "left out 1 pair of equal captions, in which there is nothing to compare" in caplog.text


def test_the_table_of_preferences_does_not_depend_on_the_sides(serve_small, tmp_path):
    """Whatever side it was shown on, the preferred caption is the preferred one of the table."""
    write_pairs(tmp_path, ratings=12)
    site, url = serve_small()
    sides = set()
    for _ in range(12):
        browser = join_study(url)
        while "key" in (page := browser.get("/rate")).hidden:
            is_a_first = page.captions[0] in ("a red square", "a blue square")
            sides.add(is_a_first)
            browser.post("/rate", {**page.hidden, "preference_1": 1 if is_a_first else -1})
    assert sides == {True, False}  # chance misses a side once in 2^23 runs
    table = read_preferences(site)
    assert list(table) == [
        *("image", "caption_a", "caption_b", "winner", "dimension", "rater"),
        *("system_a", "system_b", "references", "seconds"),
    ]
    assert set(table["winner"]) == {"a"}
    assert set(table["caption_a"]) == {"a red square", "a blue square"}
    assert set(table["system_a"]) == {"exact"}
    assert set(table["references"]) == {'["a reference"]', '["another reference"]'}
    assert len(table) == 24
    assert table["rater"].nunique() == 12


QUESTIONS = {"precision": "Which is righter?", "recall": "Which says more?"}
GRADES = {1: "{} is a little better", 2: "{} is much better", 0: "Equally good"}
DIMENSIONS = [
    {
        "name": name,
        "question": question,
        "levels": [{"value": v, "text": t} for v, t in GRADES.items()],
    }
    for name, question in QUESTIONS.items()
]


def test_graded_answers_on_two_dimensions_are_exported_as_strengths(serve_small, tmp_path):
    write_pairs(tmp_path, ratings=1, dimensions=DIMENSIONS)
    site, url = serve_small()
    browser = join_study(url)
    page = browser.get("/rate")
    for text in (*QUESTIONS.values(), "A is a little better", "B is much better", "Equally good"):
        assert text in page.text
    refused = browser.post("/rate", {**page.hidden, "preference_1": 2})
    assert (refused.status, "Which says more?" in refused.text) == (400, True)
    assert browser.post("/rate", {**page.hidden, "preference_1": 3}).status == 400
    is_a_first = page.captions[0] in ("a red square", "a blue square")
    browser.post(
        "/rate", {**page.hidden, "preference_1": 2 if is_a_first else -2, "preference_2": 0}
    )
    table = read_preferences(site)
    assert dict(zip(table["dimension"], table["strength"], strict=True)) == {
        "precision": 2,
        "recall": 0,
    }
    file = tmp_path / "preferences.csv"
    file.write_bytes(export_files(site.store, load_rows(site), "paper")["preferences.csv"])
    preferences = load("file", path=file).preferences
    assert dict(zip(preferences["dimension"], preferences["strength"], strict=True)) == {
        "precision": 2,
        "recall": 0,
    }


ONLY_BETTER = [{"name": "overall", "levels": [{"value": 1, "text": "{} is better"}]}]


def test_without_ties_one_caption_has_to_be_preferred(serve_small, tmp_path):
    write_pairs(tmp_path, dimensions=ONLY_BETTER)
    _, url = serve_small()
    browser = join_study(url)
    page = browser.get("/rate")
    assert "Equally good" not in page.text
    assert browser.post("/rate", {**page.hidden, "preference_1": 0}).status == 400


def test_a_pair_of_equal_captions_is_refused_with_file_and_line(tmp_path):
    path = write_pairs(tmp_path, PAIRS + "p2.png,a dog, a  dog ,x,y,r\n")
    with says(f"{tmp_path / 'pairs.csv'}:4: ", "caption_a and caption_b are equal", "leave"):
        read_study(str(path))


def test_a_pair_that_is_listed_twice_is_refused_with_both_lines(tmp_path):
    image, a, b, *rest = PAIRS.splitlines()[1].split(",")
    reversed_row = ",".join([image, b, a, *rest])
    path = write_pairs(tmp_path, f"{PAIRS.rstrip()}\n{reversed_row}\n")
    with says("this pair stands at ", f"{tmp_path / 'pairs.csv'}:2 already", "leave one"):
        read_study(str(path))


def test_levels_from_0_or_1_on_are_strengths(tmp_path):
    for values in ([1], [1, 0], [1, 2], [2, 0, 1], [1, 2, 3, 4, 5]):
        rows = [{"value": v, "text": "{} is better" if v else "equal"} for v in values]
        path = write_pairs(tmp_path, dimensions=[{"name": "overall", "levels": rows}])
        form = read_study(str(path)).form
        assert form.scales == {"overall": Scale(-max(values), max(values), 1)}
        rules = {"dimensions": ["overall"], "levels": [max(values)], "ties": [0 in values]}
        assert form.digest_rules() == rules


def test_simulated_raters_prefer_the_caption_of_the_higher_level(tmp_path):
    opinions = {"good": 5, "fair": 4, "poor": 1}
    for values, differences in (([1, 2], (2, 1, -2)), ([0, 1], (1, 1, -1))):
        rows = [{"value": v, "text": "{} is better" if v else "equal"} for v in values]
        dimensions = [{"name": "overall", "levels": rows}, {"name": "style", "levels": rows}]
        form = read_study(str(write_pairs(tmp_path, dimensions=dimensions))).form
        rng = np.random.default_rng(0)

        def simulate(*captions, form=form, rng=rng):
            answer = form.simulate_answer(opinions.__getitem__, captions, rng)
            assert list(answer) == ["preference_1", "preference_2"]
            return answer["preference_1"]

        pairs = (("good", "poor"), ("good", "fair"), ("poor", "good"))
        assert tuple(simulate(*pair) for pair in pairs) == differences
        equal = {simulate("fair", "fair") for _ in range(20)}
        assert equal == ({0} if 0 in values else {-1, 1})


@pytest.mark.parametrize(
    ("levels", "parts"),
    [
        ({1: "A is better"}, ["dimensions[1].levels", "1 has to have {}"]),
        ({0: "{} or {}", 1: "{}!"}, ["0 has to have no {}"]),
        ({0: "Neither"}, ["their values are 0; 1 to 5"]),
        ({1: "{}!", 3: "{}!!"}, ["their values are 1, 3"]),
        ({-1: "{}!", 0: "same", 1: "{}!!"}, ["their values are -1, 0, 1"]),
        (dict.fromkeys(range(1, 7), "{}!"), ["1 to 5 at most"]),
    ],
)
def test_levels_that_are_no_strengths_are_reported(tmp_path, levels, parts):
    rows = [{"value": value, "text": text} for value, text in levels.items()]
    path = write_pairs(tmp_path, dimensions=[{"name": "overall", "levels": rows}])
    with says(f"{path}:", *parts):
        read_study(str(path))


#: A pair whose caption_a is right, shown after every answer.
KNOWN = {"image": "p0.png", "caption_a": "a blue picture", "caption_b": "a cat", "accepted": "a"}


def test_pairs_with_known_answers_come_in_between_and_are_no_part_of_the_table(
    serve_small, tmp_path
):
    """Two raters: one prefers the right caption wherever it stands, the other the wrong one."""
    write_pairs(tmp_path, attention=[KNOWN], attention_every=1, ratings=2)
    site, url = serve_small()
    for prefers_right in (True, False):
        browser = join_study(url)
        shown = []
        while "key" in (page := browser.get("/rate")).hidden:
            is_known = KNOWN["caption_a"] in page.captions
            shown.append(is_known)
            is_right_first = page.captions[0] == KNOWN["caption_a"]
            strength = 1 if is_right_first == prefers_right else -1
            browser.post("/rate", {**page.hidden, "preference_1": strength if is_known else 0})
        assert shown == [False, True, False]
    table = read_preferences(site)
    assert set(table["image"]) == {"p0.png", "p1.png"}
    participants = export_files(site.store, load_rows(site), "participants")["participants.csv"]
    participants = pd.read_csv(io.BytesIO(participants))
    assert participants["known"].tolist() == ["1/1", "0/1"]
    assert participants["answers"].tolist() == [2, 2]
    dashboard = sign_in_admin(site, url).get("/admin").text
    assert "4 of 4 answers" in dashboard
    assert "the highest bar is 4." in dashboard or "at most 4 in one bar" in dashboard


def test_a_pair_with_a_known_answer_is_not_judged_as_well(tmp_path):
    first = dict(
        zip(("image", "caption_a", "caption_b"), PAIRS.splitlines()[1].split(","), strict=False)
    )
    units = read_study(
        str(write_pairs(tmp_path, attention=[{**first, "accepted": ["a", "tie"]}]))
    ).units
    assert [(unit.pool, unit.image_id, unit.fixed) for unit in units] == [
        ("attention", "p0.png", (1, 0)),
        ("main", "p1.png", ()),
    ]


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"accepted": "left"}, "accepted: left; a, b or tie is expected"),
        ({"accepted": []}, "a, b or tie is expected"),
        ({"caption_b": " a  blue picture"}, "caption_b: it is equal to caption_a"),
        ({"image": "none.png"}, "no image 'none.png'"),
        ({"caption": "x"}, "unknown"),
    ],
)
def test_faults_of_known_pairs_are_reported(tmp_path, changes, part):
    path = write_pairs(tmp_path, attention=[{**KNOWN, **changes}])
    with says(f"{path}:", part):
        read_study(str(path))


def test_a_re_run_of_pairs_is_compared_by_mean_strengths(tmp_path):
    """By hand: strengths of two pairs 2, 1 and 0, -2, then 1 and 0; of the width 4: 1/8 and -1/4."""
    rows = {"first": [("p0", 2), ("p0", 1), ("p1", 0), ("p1", -2)], "again": [("p0", 1), ("p1", 0)]}
    for name, answers in rows.items():
        folder = tmp_path / name
        folder.mkdir()
        lines = [
            f"{i}.png,a red square,a square,{v},overall,r{k}" for k, (i, v) in enumerate(answers)
        ]
        header = "image,caption_a,caption_b,strength,dimension,rater"
        (folder / "preferences.csv").write_text("\n".join([header, *lines]) + "\n")
        (folder / "preferences.yaml").write_text(
            "scales:\n  overall: {low: -2, high: 2, step: 1}\n"
        )
        record = {"command": "collect export", "form": "captau", "protocol": "ab", "study": "s"}
        (folder / "run.json").write_text(json.dumps(record))
    comparison = compare_runs([tmp_path / "first", tmp_path / "again"])
    measures = comparison.frames["stability.csv"]
    values = measures.set_index("measure")["value"]
    assert values["mean"] == pytest.approx((1 / 8 - 1 / 4) / 2)
    assert set(measures["n_items"]) == {2}


def test_another_form_asks_for_a_column_of_captions(tmp_path):
    path = write_study(tmp_path, "four", items={"file": "pairs.csv"})
    (tmp_path / "pairs.csv").write_text(PAIRS, encoding="utf-8")
    with says("no column 'caption'"):
        read_study(str(path))


def make_form(**levels_by_dimension):
    """Return the form with the dimensions of these levels, asked for as `Is it ...?`."""
    dimensions = tuple(
        Dimension(name, f"Is it {name}?", tuple(Level(v, text="{}" if v else "=") for v in values))
        for name, values in levels_by_dimension.items()
    )
    return AbForm(wording=replace(AbForm().wording, dimensions=dimensions))


def test_an_answer_is_stored_with_both_captions_by_opposite_strengths():
    form = make_form(overall=(2, 1, 0), style=(1,))
    assert form.choices(form.wording.dimensions[0]) == [
        *((2, "A"), (1, "A"), (0, "="), (-1, "B"), (-2, "B")),
    ]
    assert form.choices(form.wording.dimensions[1]) == [(1, "A"), (-1, "B")]
    values = form.read_answer({"preference_1": ["2"], "preference_2": ["-1"]}, 2)
    assert values == [{"overall": 2, "style": -1}, {"overall": -2, "style": 1}]
    assert form.ratings(values[0]) == {"overall": 2.0, "style": -1.0}
    for fields, asked in (
        ({"preference_1": ["3"], "preference_2": ["1"]}, "overall"),
        ({"preference_1": ["1"], "preference_2": ["0"]}, "style"),
        ({"preference_1": ["1"]}, "style"),
    ):
        with pytest.raises(FormError) as raised:
            form.read_answer(fields, 2)
        assert str(raised.value) == f"Choose one of the answers. Is it {asked}?"
    assert form.digest_rules() == {
        "dimensions": ["overall", "style"],
        "levels": [2, 1],
        "ties": [True, False],
    }


@pytest.mark.parametrize(
    ("fixed", "right", "levels"),
    [
        ((1,), [1, 2], [5, 1]),
        ((-1,), [-1, -2], [1, 5]),
        ((0,), [0], [3, 3]),
        ((1, 0), [0, 1, 2], [5, 1]),
        ((), [], []),
    ],
)
def test_a_known_winner_is_right_by_whatever_strength(fixed, right, levels):
    form = make_form(overall=(2, 1, 0))
    unit = make_unit(1, "one", "two", fixed=fixed)
    found = [v for v in range(-2, 3) if form.is_known_answer(unit, {"overall": v})]
    assert (sorted(found), form.known_levels(unit)) == (sorted(right), levels)


def test_preferences_are_a_row_a_dimension_with_strengths_only_where_there_are_grades():
    first, second = make_unit(1, "one", "two"), make_unit(2, ("three", None), "four")
    second = replace(second, items=(second.items[0], replace(second.items[1], references=("b",))))
    answers = gather(
        answer(first, {"overall": 2, "style": -1}, seconds=2.04),
        answer(second, {"overall": 0, "style": 1}, "r2"),
    )
    files = make_form(overall=(2, 1, 0), style=(1,)).captau_files(answers)
    assert {name: content.decode() for name, content in files.items()} == {
        "preferences.csv": (
            "image,caption_a,caption_b,strength,dimension,rater,references,seconds\n"
            'p0.png,one,two,2,overall,r1,"[""a ref""]",2.0\n'
            'p0.png,one,two,-1,style,r1,"[""a ref""]",2.0\n'
            'p0.png,three,four,0,overall,r2,"[""a ref"", ""b""]",1.0\n'
            'p0.png,three,four,1,style,r2,"[""a ref"", ""b""]",1.0\n'
        ),
        "preferences.yaml": (
            "scales:\n  overall: {low: -2, high: 2, step: 1}\n  style: {low: -1, high: 1, step: 1}\n"
        ),
    }
    first = replace(first, items=tuple(replace(item, references=()) for item in first.items))
    answers = gather(*(answer(first, {"overall": v}, f"r{v}") for v in (1, 0, -1)))
    assert AbForm().captau_files(answers)["preferences.csv"].decode() == (
        "image,caption_a,caption_b,winner,dimension,rater,system_a,system_b,seconds\n"
        "p0.png,one,two,a,overall,r1,sys,sys,1.0\n"
        "p0.png,one,two,tie,overall,r0,sys,sys,1.0\n"
        "p0.png,one,two,b,overall,r-1,sys,sys,1.0\n"
    )


def read_pair(accepted):
    text = f"{{accepted: {accepted}, image: p0.png, caption_a: one, caption_b: two}}"
    return read_fields(KnownCaptionPair, text)


@pytest.mark.parametrize(
    ("accepted", "signs"),
    [
        ("a", [1]),
        ("b", [-1]),
        ("tie", [0]),
        ("[b, tie]", [-1, 0]),
        ("[tie, a, b]", [0, 1, -1]),
    ],
)
def test_winners_that_are_accepted_have_signs(accepted, signs):
    assert read_pair(accepted).accepted == signs


@pytest.mark.parametrize("accepted", ["c", "[a, c]", "[]"])
def test_a_winner_that_is_none_is_named(accepted):
    with says("study.yaml:1: accepted"):
        read_pair(accepted)
