"""A form with only what the docstring of `forms/form.py` says that every form has, from the page to the exports."""

from __future__ import annotations

import io
from dataclasses import dataclass, field

import pandas as pd
import pytest

from captau.server.collect.export import EXPORT_FORMATS, export_files
from captau.server.collect.forms import FORMS
from captau.server.collect.forms.form import Form
from captau.server.collect.forms.study_fields import StudyFields
from captau.server.collect.forms.wording import Dimension, Level, Wording
from captau.server.collect.simulated_browser import join_study
from captau.server.web.visitors import field_value
from tests.server.collect.visitors import load_rows, sign_in_admin

WORDING = Wording(
    "Is it about the picture?",
    dimensions=(Dimension("about", "Your answer", (Level(1, "Yes"), Level(0, "No"))),),
)


@dataclass(frozen=True)
class AboutForm(Form):
    """Whether a caption is about the picture; the page is that of `good_bad`."""

    name = "about"
    template = "forms/good_bad.html"

    wording: Wording = field(default=WORDING, kw_only=True)

    def read_answer(self, fields, n_captions):
        return [{"answer": field_value(fields, "answer")}] * n_captions

    def ratings(self, value):
        return {"about": float(value["answer"] == "good")}

    def simulate_answer(self, level, captions, rng):
        return {"answer": "good" if level(captions[0]) > 2 else "bad"}


def test_a_new_form_has_pages_attention_items_a_dashboard_and_all_exports(serve_small, monkeypatch):
    monkeypatch.setitem(FORMS, AboutForm.name, AboutForm)
    known = {"image": "p0.png", "caption": "not at all this", "accepted": 0}
    site, url = serve_small("about", attention=[known], attention_every=3, per_rater=6)
    browser = join_study(url)
    while "key" in (page := browser.get("/rate")).hidden:
        answer = "bad" if page.captions == ["not at all this"] else "good"
        browser.post("/rate", {**page.hidden, "answer": answer})
    files = {name: export_files(site.store, load_rows(site), name) for name in EXPORT_FORMATS}
    ratings = pd.read_csv(io.BytesIO(files["captau"]["ratings.csv"]))
    assert ratings["value"].tolist() == [1] * 6
    assert files["paper"]["ratings.csv"] == files["captau"]["ratings.csv"]
    participants = pd.read_csv(io.BytesIO(files["participants"]["participants.csv"]))
    assert participants[["answers", "known"]].to_numpy().tolist() == [[6, "1/1"]]
    assert len(pd.read_csv(io.BytesIO(files["log"]["log.csv"]))) == 7
    assert "6 of 54 answers" in sign_in_admin(site, url).get("/admin").text


def test_what_a_form_has_that_says_nothing_else():
    form = AboutForm()
    assert (form.totals, form.study_model, form.default_ratings) == ((), StudyFields, 3)
    assert (form.unit_noun, form.main_dimension, form.wording.has_free_dimensions) == (
        *("captions", "about"),
        False,
    )
    rule = form.stability
    assert (rule.min_ratings, rule.published, rule.source, rule.estimate(3)) == (1, {}, "", 3)
    assert {name: f.template for name, f in FORMS.items()} == {
        name: f"forms/{'levels' if name in ('extrinsic', 'four') else name}.html" for name in FORMS
    }


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1, 5, [1, 2, 3, 4, 5]),
        (0, 1, [0, 0, 1, 1, 1]),
        (1, 2, [1, 1, 2, 2, 2]),
        (0, 3, [0, 1, 2, 2, 3]),
        (1, 4, [1, 2, 3, 3, 4]),
        (-1, 1, [-1, 0, 0, 1, 1]),
    ],
)
def test_a_level_of_five_has_the_same_place_on_scales_of_one_size(
    low: int, high: int, expected: list[int]
) -> None:
    """Worked by hand: 0 to 3 has the places 0, 0.75, 1.5, 2.25 and 3; halves go up on every scale."""
    dimension = Dimension("d", "?", tuple(map(Level, range(low, high + 1))))
    assert [dimension.from_five(level) for level in range(1, 6)] == expected
