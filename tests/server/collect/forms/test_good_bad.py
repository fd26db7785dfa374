"""Good, bad or skip: the paper's answers."""

from __future__ import annotations

from captau.server.collect.forms.good_bad import GoodBadForm


def test_the_answers_are_those_of_the_paper():
    """Levinboim et al. 2021, section 3.2: YES, NO, or skip."""
    assert [level.name for level in GoodBadForm().wording.dimensions[0].levels] == ["Yes", "No"]
