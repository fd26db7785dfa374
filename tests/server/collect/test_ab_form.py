"""Preferences between two captions of an image: pairs, sides, answers and their table."""

from __future__ import annotations

import io
import json

import pandas as pd
import pytest

from captau.datasets.registry import load
from captau.server.collect.export.export_files import export_files
from captau.server.collect.simulation.browser import join_study
from captau.server.collect.study.study_file import read_study
from tests.conftest import says
from tests.server.collect.conftest import CAPTIONS, write_study
from tests.server.collect.visitors import load_rows

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


def test_captions_that_look_equal_are_not_paired(tmp_path):
    path = write_study(tmp_path, "ab")
    rows = (tmp_path / "captions.jsonl").read_text(encoding="utf-8").splitlines()
    copy = {**json.loads(rows[0]), "caption": "a  square number 0", "system": "other"}
    (tmp_path / "captions.jsonl").write_text("\n".join([*rows[:2], json.dumps(copy)]))
    pairs = {frozenset(i.caption for i in u.items) for u in read_study(str(path)).units}
    assert pairs == {
        frozenset((CAPTIONS[0][1], CAPTIONS[1][1])),
        frozenset((CAPTIONS[1][1], "a  square number 0")),
    }


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


def test_graded_answers_on_two_dimensions_are_exported_as_strengths(serve_small, tmp_path):
    questions = {"precision": "Which is righter?", "recall": "Which says more?"}
    levels = ["{} is a little better", "{} is much better"]
    write_pairs(tmp_path, ratings=1, ab={"dimensions": questions, "levels": levels})
    site, url = serve_small()
    browser = join_study(url)
    page = browser.get("/rate")
    for text in (*questions.values(), "A is a little better", "B is much better", "Equally good"):
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
    file.write_bytes(export_files(site.store, load_rows(site), "captau")["preferences.csv"])
    preferences = load("file", path=file).preferences
    assert dict(zip(preferences["dimension"], preferences["strength"], strict=True)) == {
        "precision": 2,
        "recall": 0,
    }


def test_without_ties_one_caption_has_to_be_preferred(serve_small, tmp_path):
    write_pairs(tmp_path, ab={"ties": False})
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


@pytest.mark.parametrize(
    ("section", "parts"),
    [
        ({"levels": []}, ["ab.levels", "from 1 to 5 texts"]),
        ({"levels": ["better"]}, ["ab.levels", "{}"]),
        ({"dimensions": ["overall"]}, ["ab.dimensions", "fields are expected"]),
        ({"ties": False, "equal": "Same"}, ["ab.equal", "leave it out"]),
        ({"grades": 3}, ["ab.grades", "unknown"]),
    ],
)
def test_faults_of_the_section_ab_are_reported(tmp_path, section, parts):
    path = write_pairs(tmp_path, ab=section)
    with says(f"{path}:", *parts):
        read_study(str(path))


def test_a_dimension_that_stands_twice_is_reported(tmp_path):
    path = write_pairs(tmp_path, ab={"dimensions": {"overall": "Which?"}})
    text = path.read_text(encoding="utf-8")
    line = "    overall: Which?\n"
    path.write_text(text.replace(line, line + line), encoding="utf-8")
    with says(f"{path}:", "ab.dimensions.overall stands there twice"):
        read_study(str(path))


def test_another_form_asks_for_a_column_of_captions(tmp_path):
    path = write_study(tmp_path, "four", items={"file": "pairs.csv"})
    (tmp_path / "pairs.csv").write_text(PAIRS, encoding="utf-8")
    with says("no column 'caption'"):
        read_study(str(path))
