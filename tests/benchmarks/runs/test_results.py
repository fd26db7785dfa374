"""Columns and notes of results: the note of a number that was not computed is read back as it was written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captau.benchmarks.runs.results import missing_note, parse_missing_note
from captau.metrics.base import Unavailability

TEXT = st.text(st.characters(exclude_characters=";"), min_size=1)


@given(TEXT, st.text())
def test_a_missing_note_is_read_back_as_problem_and_remedy(problem: str, remedy: str) -> None:
    reason = Unavailability(problem, remedy)
    assert parse_missing_note(missing_note(reason)) == reason


@given(st.text(min_size=1), st.text())
def test_a_problem_with_semicolons_keeps_its_text_in_one_part(problem: str, remedy: str) -> None:
    reason = parse_missing_note(missing_note(Unavailability(problem, remedy)))
    assert reason == Unavailability(problem.replace("; ", ", "), remedy)


@pytest.mark.parametrize("note", ["", "undefined: all scores are equal", "bleu_4"])
def test_other_notes_name_no_missing_number(note: str) -> None:
    assert parse_missing_note(note) is None
