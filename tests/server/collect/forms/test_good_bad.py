"""Good, bad or skip, and the finer form: the paper's answers."""

from __future__ import annotations

from captau.server.collect.forms import wording
from captau.server.collect.forms.good_bad import GoodBadForm
from captau.server.collect.forms.levels import ExtrinsicForm


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
