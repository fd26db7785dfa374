"""THumB's collection through HTTP: one annotator scores a page of captions, others check and modify it."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import pandas as pd
import pytest
import yaml

from captau.datasets.registry import load
from captau.server.collect.export import export_files
from captau.server.collect.forms.form import FormError
from captau.server.collect.forms.thumb import FLUENCY_PROBLEMS, ThumbForm, ThumbStudy
from captau.server.collect.rater_figures import collect_answers, compute_rater_figures
from captau.server.collect.simulated_browser import Browser, join_study
from captau.server.collect.study import read_study
from tests.conftest import raises_exactly, says
from tests.server.collect.conftest import write_study
from tests.server.collect.forms.answers import answer, gather, make_unit
from tests.server.collect.visitors import load_rows, sign_in_admin


def fill_in(page, **changes):
    """Return the fields of a page whose captions all get P 4 and R 3, but for changes."""
    n_captions = len(page.captions)
    levels = {f"precision_{k}": 4 for k in range(1, n_captions + 1)}
    levels |= {f"recall_{k}": 3 for k in range(1, n_captions + 1)}
    return {**page.hidden, **levels, **changes}


def checked_values(page):
    """Return the values of the checked fields of a page, by field."""
    import re

    inputs = re.findall(r"<input type=\"(?:radio|checkbox)\"[^>]*? checked[^>]*>", page.text)
    fields = {}
    for text in inputs:
        name, value = re.search(r'name="(\w+)" value="(\w+)"', text).groups()
        fields.setdefault(name, []).append(value)
    return fields


def test_the_first_annotator_scores_all_captions_and_the_second_modifies(serve_small, tmp_path):
    site, url = serve_small("thumb", items={"limit": 1})
    first, second = join_study(url), join_study(url)
    page = first.get("/rate")
    assert len(page.captions) == 3  # all of the image, none with its system
    assert all(c.endswith(".") for c in page.captions)
    assert "sys-" not in page.text
    assert "No double penalties" in page.text
    # Nobody checks what is being scored.
    waiting = second.get("/rate").text
    assert "Others are answering the rest" in waiting
    assert "There may be more for you in 10 minutes." in waiting
    assert first.post("/rate", {**page.hidden, "precision_1": 5}).status == 400
    faults = {"fault_2": ["grammar", "broken"], "tenths_broken_2": 15, "wordy_3": "yes"}
    first.post("/rate", fill_in(page, precision_1=2, inclusive_3=20, **faults))
    assert "you have finished" in first.get("/rate").text  # nobody checks their own scores
    check = second.get("/rate")
    assert "Another annotator has scored these captions" in check.text
    by_caption = {caption: k for k, caption in enumerate(check.captions, start=1)}
    places = [by_caption[caption] for caption in page.captions]
    checked = checked_values(check)
    assert [checked[f"precision_{k}"] for k in places] == [["2"], ["4"], ["4"]]
    assert checked[f"fault_{places[1]}"] == ["grammar", "broken"]
    assert f'name="tenths_broken_{places[1]}"' in check.text
    assert '<option value="15" selected>' in check.text
    assert checked[f"wordy_{places[2]}"] == ["yes"]
    assert checked[f"inclusive_{places[2]}"] == ["20"]
    second.post("/rate", fill_in(check, **{f"recall_{places[0]}": 5}))
    # Both states stand in the export; the last one is the caption's.
    rows = load_rows(site)
    assert [a["phase"] for a in rows["answers"]] == ["main"] * 3 + ["check"] * 3
    files = export_files(site.store, rows, "captau")
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    ratings = pd.read_csv(tmp_path / "ratings.csv")
    caption = page.captions[0].rstrip(".")
    caption_ratings = ratings[ratings["caption"].str.capitalize() == caption.capitalize()]
    states = caption_ratings[caption_ratings["dimension"].isin(["precision", "recall"])].pivot(
        index="rater", columns="dimension", values="value"
    )
    assert sorted(map(tuple, states.to_numpy())) == [(2, 3), (4, 5)]
    assert ratings["stage"].value_counts().to_dict() == {"score": 18, "check": 18}
    settled = pd.read_csv(tmp_path / "settled.csv")
    assert len(settled) == 3 * 6
    assert "seconds" not in settled  # several raters settled them
    assert "seconds" in ratings
    assert set(settled[settled["dimension"] == "recall"]["value"]) == {3, 5}
    scales = yaml.safe_load((tmp_path / "settled.yaml").read_text())["scales"]
    assert scales["precision"] == {"low": 1, "high": 5, "step": 1}
    assert set(load("file", path=tmp_path / "settled.csv").ratings["dimension"]) == set(scales)
    assert load("file", path=tmp_path / "settled.csv").card.totals == ("total",)
    lines = export_files(site.store, rows, "paper")["mscoco_THumB-1.0.jsonl"].decode().splitlines()
    assert sorted(json.loads(line)["human_score"] for line in lines) == [3.5, 3.5, 4.5]


def test_a_third_annotator_checks_and_another_person_judges_fluency_alone(serve_small):
    site, url = serve_small("thumb", ratings=3, thumb={"fluency_check": True}, items={"limit": 1})
    annotators = [join_study(url) for _ in range(5)]
    for k, browser in enumerate(annotators[:3]):
        page = browser.get("/rate")
        browser.post("/rate", fill_in(page, precision_1=1 + k))
    page = annotators[3].get("/rate")
    assert "Check the fluency alone" in page.text
    assert 'type="radio"' not in page.text  # precision, recall and remarks on looks stand
    annotators[3].post("/rate", {**page.hidden, "fault_1": "casing"})
    assert "the study has all its answers" in annotators[4].get("/rate").text
    rows = load_rows(site)
    phases = [a["phase"] for a in rows["answers"][::3]]
    assert phases == ["main", "check", "check", "fluency"]
    ratings = pd.read_csv(
        pd.io.common.BytesIO(export_files(site.store, rows, "captau")["ratings.csv"])
    )
    by_rater = ratings.groupby("rater", sort=False)["dimension"].agg(set)
    assert [len(dimensions) for dimensions in by_rater] == [6, 6, 6, 1]
    final = collect_answers(site.store, rows).settled
    assert sorted(len(value["faults"]) for value in final.values()) == [0, 0, 1]
    assert {value["recall"] for value in final.values()} == {3}


def invite(admin, note):
    page = admin.post(
        "/admin/invitations",
        {"token": admin.get("/admin").hidden["token"], "note": note, "many": 1},
    )
    return page.status, page.text.partition("/i/")[2].partition("\n")[0]


def test_named_annotators_get_their_images_in_their_turn(serve_small):
    groups = [
        {"first": "Ann", "second": "Ben", "images": ["p0.png", "p1.png"]},
        {"first": "Ben", "second": "Cleo", "third": "Ann", "fluency": "Dora"},
    ]
    study = {"participants": "invitation", "ratings": None, "thumb": {"annotators": groups}}
    site, url = serve_small("thumb", **study)
    admin = sign_in_admin(site, url)
    assert invite(admin, "Eve") == (400, "")
    browsers = {}
    for name in ("Ann", "Ben", "Cleo", "Dora"):
        status, token = invite(admin, name)
        assert status == 200
        browsers[name] = Browser(url)
        page = browsers[name].get(f"/i/{token}")
        assert browsers[name].post("/join", {**page.hidden, "consent": "yes"}).status == 200
    turns = []
    while True:
        n_before = len(turns)
        for name, browser in browsers.items():
            page = browser.get("/rate")
            if "key" in page.hidden:
                browser.post("/rate", fill_in(page))
                answer = load_rows(site)["answers"][-1]
                unit, _ = site.store.items_by_id()[answer["item"]]
                turns.append((unit.image_id, name, answer["phase"]))
        if len(turns) == n_before:
            break
    by_image = {}
    for image, name, phase in turns:
        by_image.setdefault(image, []).append((name, phase))
    for image, stages in by_image.items():
        if image in ("p0.png", "p1.png"):
            assert stages == [("Ann", "main"), ("Ben", "check")]
        else:
            assert stages == [
                ("Ben", "main"),
                ("Cleo", "check"),
                ("Ann", "check"),
                ("Dora", "fluency"),
            ]
    assert len(by_image) == 6
    assert "20 of 20 answers (100.0 %)" in admin.get("/admin").text
    assert "its note is their name: Ann, Ben" in admin.get("/admin").text


def test_who_comes_too_late_checks_what_another_annotator_left(serve_small, clock):
    """After ten minutes a page is somebody else's; a late answer does not overwrite theirs unseen."""
    site, url = serve_small("thumb", items={"limit": 1})
    slow, quick = join_study(url), join_study(url)
    page = slow.get("/rate")
    clock[0] += 601
    quick.post("/rate", fill_in(quick.get("/rate"), precision_1=1, precision_2=1, precision_3=1))
    late = slow.post("/rate", fill_in(page))
    assert late.status == 400
    assert "Another annotator was quicker" in late.text
    assert checked_values(late)["precision_1"] == ["1"]
    slow.post("/rate", fill_in(late, precision_1=2, precision_2=2, precision_3=2))
    rows = load_rows(site)
    assert [a["phase"] for a in rows["answers"][::3]] == ["main", "check"]
    settled = collect_answers(site.store, rows).settled.values()
    assert {value["precision"] for value in settled} == {2}


def test_who_comes_after_all_others_checks_once_more(serve_small, clock):
    site, url = serve_small("thumb", ratings=2, items={"limit": 1})
    slow, *others = (join_study(url) for _ in range(3))
    slow.get("/rate")
    clock[0] += 601
    for browser in others:
        lowest = {f"precision_{k}": 1 for k in range(1, 4)}
        browser.post("/rate", fill_in(browser.get("/rate"), **lowest))
    page = slow.get("/rate")
    assert page.status == 200
    assert checked_values(page)["precision_1"] == ["1"]
    slow.post("/rate", fill_in(page))
    phases = [a["phase"] for a in load_rows(site)["answers"][::3]]
    assert phases == ["main", "check", "check"]


def test_an_excluded_annotator_s_scores_are_not_what_others_check(serve_small):
    site, url = serve_small("thumb", items={"limit": 1})
    annotators = [join_study(url) for _ in range(3)]
    annotators[0].post("/rate", fill_in(annotators[0].get("/rate")))
    asyncio.run(site.store.participants.set_excluded(1, "not careful", excluded=True))
    page = annotators[1].get("/rate")
    assert "Another annotator has scored" not in page.text
    annotators[1].post("/rate", fill_in(page, precision_1=1, precision_2=1, precision_3=1))
    assert checked_values(annotators[2].get("/rate"))["precision_1"] == ["1"]
    assert not collect_answers(site.store, load_rows(site)).settled  # nobody has checked it yet


def test_thumb_has_attention_items_by_their_precision(serve_small):
    item = {"image": "p0.png", "caption": "not at all this", "accepted": [1, 2]}
    site, url = serve_small("thumb", attention=[item], attention_every=1)
    browser = join_study(url)
    for _ in range(2):
        browser.post("/rate", fill_in(browser.get("/rate")))
    assert [a["phase"] for a in load_rows(site)["answers"]] == ["main"] * 3 + ["attention"]
    (figures,) = compute_rater_figures(site.store, load_rows(site)).values()
    assert (figures.n_attention, figures.n_attention_right) == (1, 0)


@pytest.mark.parametrize(
    ("groups", "changes", "parts"),
    [
        (
            [{"first": "Ann", "second": "Ben"}, {"first": "Ann", "second": "Ann"}],
            {},
            [":18: thumb.annotators[2].second: 'Ann' has another turn", "somebody else"],
        ),
        ([{"first": "Ann", "second": "ann"}], {}, ["'ann' has another turn"]),
        ([{"first": "Ann"}], {}, ["thumb.annotators[1].second: this field is required"]),
        ([], {}, ["thumb.annotators: at least one group"]),
        (
            [{"first": "Ann", "second": "Ben"}],
            {"participants": "open"},
            ["annotators need invitation"],
        ),
        ([{"first": "Ann", "second": "Ben"}], {"ratings": 2}, ["ratings: thumb.annotators says"]),
        (
            [{"first": "Ann", "second": "Ben", "images": ["p0.png"]}],
            {},
            ["no group has the image", "without images"],
        ),
        (
            [{"first": "Ann", "second": "Ben", "images": ["p9.png"]}],
            {},
            ["unknown image 'p9.png'"],
        ),
        (
            [{"first": "Ann", "second": "Ben"}],
            {"thumb": {"native_speakers": ["Cleo"]}},
            ["thumb.annotators[1].fluency: nobody of Ann, Ben is a native speaker"],
        ),
        (
            [{"first": "Ann", "second": "Ben"}],
            {"thumb": {"fluency_check": True}},
            ["thumb.fluency_check: name who does it"],
        ),
    ],
)
def test_faults_of_annotators_are_reported_with_file_and_line(tmp_path, groups, changes, parts):
    section = {"annotators": groups, **changes.get("thumb", {})}
    study = {"participants": "invitation", "ratings": None, **changes, "thumb": section}
    path = write_study(tmp_path, "thumb", **study)
    with says(str(path), *parts):
        read_study(str(path))


def test_thumb_needs_two_annotators(tmp_path):
    path = write_study(tmp_path, "thumb", ratings=1)
    with says(f"{path}:", "ratings: 1; thumb has two annotators at least"):
        read_study(str(path))


def test_the_totals_of_captions_are_shown_while_they_are_filled_in():
    """(5 + 4) / 2; one that lacks a level; (3 + 4) / 2 less 1.5, 0.5 and 2."""
    fields = {
        **{"inclusive_1": ["0"], "precision_1": ["5"], "recall_1": ["4"]},
        **{"inclusive_2": ["0"], "precision_2": ["5"]},
        **{"inclusive_3": ["20"], "precision_3": ["3"], "recall_3": ["4"], "wordy_3": ["yes"]},
        **{"fault_3": ["broken"], "tenths_broken_3": ["15"]},
        **{
            "precision_4": ["3"],
            "recall_4": ["4"],
            "inclusive_5": ["0"],
        },  # the fourth is not shown
    }
    assert ThumbForm().describe_fields(fields) == "Totals: 4.5; –; -0.5"
    assert ThumbForm().describe_fields({}) == "Totals: "


def test_penalties_are_at_most_five_points_and_fluency_alone_rates_nothing_else():
    faults = {"broken": 20, "awkward": 5, "ambiguity": 5, "duplication": 5, "misleading": 5}
    value = {"precision": 5, "recall": 5, "wordy": False, "inclusive": 5}
    ratings = ThumbForm().ratings({**value, "faults": {**faults, "punctuation": 20}})
    assert (ratings["fluency"], ratings["total"]) == (-5.0, -0.5)
    only = ThumbForm().ratings({**value, "faults": faults, "only": "fluency"})
    assert only == {"fluency": -4.0}
    fields = {"precision_1": ["5"], "recall_1": ["4"]}
    (read,) = ThumbForm().read_answer(fields, 1)
    usual = {"precision": 5, "recall": 4, "faults": {}, "wordy": False, "inclusive": 0}
    assert read == usual
    (read,) = ThumbForm().read_answer({**fields, "stage": ["fluency"]}, 1)
    assert read == {**usual, "only": "fluency"}


def test_a_simulated_annotator_finds_a_fault_of_grammar_in_one_of_ten():
    draws = iter((0.1, 0.09))
    rng = SimpleNamespace(random=lambda: next(draws))
    level = {"good": 5, "fair": 3}.__getitem__
    assert ThumbForm().simulate_answer(level, ["good", "fair"], rng) == {
        **{"precision_1": 5, "recall_1": 5, "precision_2": 3, "recall_2": 3},
        "fault_2": ["grammar"],
    }


def test_the_release_has_the_last_states_of_checked_captions():
    unit = make_unit(4, "a bus stops .", ("two", None), "three", image="COCO_7.jpg")
    first = {"precision": 5, "recall": 4, "faults": {"grammar": 1}, "wordy": True, "inclusive": 5}
    second = {"precision": 4, "recall": 4, "faults": {}, "wordy": False, "inclusive": 0}
    answers = [answer(unit, second, k=k) for k in (0, 1, 2)]
    files = ThumbForm().paper_files(gather(*answers, settled={40: first, 41: second}))
    rows = [json.loads(line) for line in files["mscoco_THumB-1.0.jsonl"].decode().splitlines()]
    place = {"seg_id": "COCO_7.jpg", "set_id": 4, "image": "COCO_7.jpg"}
    assert rows == [
        {
            **{"SYS": "sys", "hyp": "A bus stops.", **place, "P": 5.0, "R": 4.0},
            **{"Fl": -0.1, "Inc": -0.5, "Con": -0.5, "human_score": 3.4},
        },
        {
            **{"SYS": "unknown", "hyp": "Two.", **place, "P": 4.0, "R": 4.0},
            **{"Fl": 0.0, "Inc": 0.0, "Con": 0.0, "human_score": 4.0},
        },
    ]
    references = files["mscoco_references.json"].decode()
    assert references == '{"seg_id": "COCO_7.jpg", "refs": ["a ref"]}\n'


def test_penalties_are_those_of_table_6_and_an_annotator_may_choose_between_some():
    """Kasai et al. 2022, section 2.1 and Table 6: easily mended faults take 0.1 off, ambiguity 0.5, broken sentences 0.5 and more."""
    assert {problem.name: problem.tenths for problem in FLUENCY_PROBLEMS} == {
        **dict.fromkeys(("spelling", "grammar", "casing", "hyphen", "wording"), (1,)),
        "punctuation": (2,),
        **dict.fromkeys(("misleading", "duplication", "ambiguity"), (5,)),
        "awkward": (1, 2, 3, 4, 5),
        "broken": (5, 10, 15, 20),
    }
    variables = ThumbForm().template_variables()
    assert (variables["inclusive_penalties"], variables["wordy_penalty"]) == ((0, 5, 20), 5)
    assert variables["fluency_problems"] is FLUENCY_PROBLEMS


def test_a_form_that_nothing_is_said_of_has_two_annotators_and_no_check_of_fluency():
    form = ThumbForm()
    assert (form.groups, form.n_annotators, form.has_fluency_check) == ((), 2, False)
    assert (form.name, form.default_ratings, form.unit_noun) == ("thumb", 2, "images")
    assert (form.totals, form.study_model, form.main_dimension) == (
        ("total",),
        ThumbStudy,
        "total",
    )
    # The total is at best 5, and at worst 1 less 5 for fluency, 0.5 for wordiness … as the release has them.
    assert {name: (s.low, s.high, s.step) for name, s in form.scales.items()} == {
        **dict.fromkeys(("precision", "recall"), (1, 5, 1)),
        **dict.fromkeys(("fluency", "inclusive", "conciseness"), (-5, 0, None)),
        "total": (-9.0, 5.0, None),
    }


@pytest.mark.parametrize(
    ("n_captions", "fields", "fault"),
    [
        (1, {"precision_1": ["6"]}, "Choose one of 1, 2, 3, 4, 5: Precision: is what it says right?"),
        (2, {"precision_1": ["5"], "recall_1": ["0"]}, "Caption 1: Choose one of 1, 2, 3, 4, 5: Recall: does it say what matters?"),
        (2, {"precision_1": ["5"], "recall_1": ["5"]}, "Caption 2: Choose one of 1, 2, 3, 4, 5: Precision: is what it says right?"),
        (1, {"fault_1": ["punctuation"], "tenths_punctuation_1": ["1"]}, "Choose how much “punctuation that takes thought to mend” takes off."),
        (1, {"fault_1": ["broken"], "tenths_broken_1": ["25"]}, "Choose how much “broken sentence” takes off."),
        (1, {"fault_1": ["grammar", "style"]}, "Choose fluency problems from the list."),
        (1, {"inclusive_1": ["10"]}, "Choose how much the language about people takes off."),
    ],
)  # fmt: skip
def test_faults_of_an_answer_in_whole(n_captions, fields, fault):
    with raises_exactly(fault, FormError):
        ThumbForm().read_answer(fields, n_captions)


def test_the_lightest_penalty_is_taken_where_none_is_chosen():
    fields = {
        "precision_1": ["5"],
        "recall_1": ["1"],
        "wordy_1": ["yes"],
        "inclusive_1": ["5", "0"],
    }
    fields |= {"fault_1": ["broken", "awkward", "casing"], "tenths_awkward_1": ["3", "1"]}
    (value,) = ThumbForm().read_answer(fields, 1)
    assert value == {
        **{"precision": 5, "recall": 1, "wordy": True, "inclusive": 5},
        "faults": {"casing": 1, "awkward": 3, "broken": 5},
    }
    assert ThumbForm().ratings(value) == {
        **{"precision": 5.0, "recall": 1.0, "fluency": -0.9, "inclusive": -0.5},
        **{"conciseness": -0.5, "total": 1.1},
    }
