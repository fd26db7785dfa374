"""The usual way through a study and the game's: the tasks, and the feedback on each answer."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from captau.datasets.schema import Scale
from captau.server.collect.forms.course import (
    Course,
    NextUnit,
    OutOfTurnError,
    RaterProgress,
    SubmittedAnswer,
    TooEarlyError,
)
from captau.server.collect.forms.game import (
    ColdStart,
    GameCourse,
    GameFields,
    rank_in_fifths,
    round_to_levels,
)
from captau.server.collect.forms.game_rules import Rules
from tests.conftest import says
from tests.server.collect.conftest import read_fields

RULES = Rules(wait=3.0, tutorial=1, pairs=2, points=3, attempts=2)
BEGUN = {"phase": "tutorial", "done": 0, "phase_points": 0, "points": 0, "attempt": 0, "open": None}


def test_the_usual_way_has_no_practice_and_no_feedback():
    course, progress = Course(), RaterProgress({}, 0)
    assert course.begin() == progress
    assert course.next_task({}) == NextUnit("main", "main", 0, False, True)
    state = {"a": 1}
    assert course.start_unit(state, NextUnit(), "k", 1.0) is state
    answer = SubmittedAnswer("k", "main", None, {}, 0.0, 1.0)
    assert course.respond(answer, progress, ()) == (None, progress)
    assert (course.describe(progress), course.has_points, course.wait) == ({}, False, 0.0)


def test_the_game_s_tasks_are_of_its_phases():
    course = GameCourse(RULES)
    assert (course.begin(), course.wait, course.has_points) == (RaterProgress(BEGUN, 0), 3.0, True)
    tasks = [
        course.next_task({"phase": p, "attempt": 2})
        for p in ("tutorial", "trial", "probation", "playing", "out")
    ]
    assert tasks == [
        NextUnit("tutorial", "tutorial", 0, False, True),
        NextUnit("trial", "main", 0, False, False),
        NextUnit("probation", "probation", 2, True, True),
        NextUnit("playing", "main", 0, False, True),
        None,
    ]
    described = [
        course.describe(RaterProgress({"phase": "probation", "attempt": attempt}, 7))
        for attempt in (0, 2)
    ]
    assert described == [
        {"points": 7, "phase": "probation"},
        {"points": 7, "phase": "probation (2)"},
    ]


def answer(key, phase, rating, fixed, *, is_rated, at=10.0):
    unit = SimpleNamespace(fixed=fixed, is_rated=is_rated)
    return SubmittedAnswer(key, phase, unit, {"overall": rating}, at - 5.0, at)


def test_an_answer_moves_the_player_on_and_attention_items_do_not():
    """Against 3 and 3 a 3 wins two points; ratings of others take the places of computed ones."""
    course = GameCourse(RULES)
    opened = course.start_unit(BEGUN, NextUnit("tutorial"), "k", 5.0)
    assert opened == {**BEGUN, "open": {"key": "k", "at": 5.0}}
    assert course.start_unit(BEGUN, NextUnit("attention"), "k", 5.0) is BEGUN
    told, progress = course.respond(
        answer("k", "tutorial", 3, (3, 3), is_rated=False), RaterProgress(opened, 0), (1.0,)
    )
    outcome = {"phase": "tutorial", "rating": 3, "consensus": 3, "mean": 3.0, "score": 2}
    assert told == {**outcome, "turn": "tutorial_done"}
    assert progress == RaterProgress({**BEGUN, "phase": "trial"}, 0)
    for others, mean in (((), 3.0), ((5.0,), 4.0), ((5.0, 1.0), 3.0), ((5.0, 1.0, 3.0), 3.0)):
        opened = course.start_unit({**BEGUN, "phase": "playing", "points": 4}, NextUnit(), "k", 5.0)
        told, progress = course.respond(
            answer("k", "playing", 3, (3, 3), is_rated=True), RaterProgress(opened, 4), others
        )
        assert (told["mean"], progress.points) == (mean, 4 + told["score"])
    before = RaterProgress({**BEGUN, "phase": "playing"}, 4)
    told, progress = course.respond(answer("a", "attention", 5, (5,), is_rated=False), before, ())
    assert (told["score"], told["consensus"], progress) == (0, 5, before)
    with pytest.raises(OutOfTurnError, match="This pair is not waiting for a rating"):
        course.respond(answer("x", "playing", 5, (5,), is_rated=True), RaterProgress(opened, 0), ())
    with pytest.raises(TooEarlyError) as raised:
        course.respond(
            answer("k", "playing", 5, (5,), is_rated=True, at=7.75), RaterProgress(opened, 0), ()
        )
    assert str(raised.value) == "Please look at the picture for 0.2 s more."


@pytest.mark.parametrize(
    ("text", "metrics"),
    [
        ("{}", (("rouge_l", None), ("cider", None))),
        ("cold_start: ratings", ()),
        ("cold_start: [bleu_1]", (("bleu_1", None),)),
        ("cold_start: [{metric: m, low: 0, high: 1.5}, x]", (("m", Scale(0, 1.5)), ("x", None))),
    ],
)
def test_the_sources_of_computed_ratings(text, metrics):
    assert read_fields(GameFields, text).cold_start == ColdStart(metrics)


@pytest.mark.parametrize(
    "entry",
    [
        *("{metric: m, low: true, high: 2}", "{metric: m, low: 0, high: true}"),
        *("{metric: m, low: 1, high: 1}", "{metric: 3, low: 0, high: 1}", "3"),
        *("{metric: m, low: a, high: b}", "{metric: m, low: 0, high: 1, step: 1}"),
    ],
)
def test_a_metric_with_a_scale_has_two_numbers_in_order(entry):
    with says("study.yaml", "cold_start", "a metric, or {metric: …, low: 0, high: 1}, is expected"):
        read_fields(GameFields, f"cold_start: [{entry}]")


def test_scores_become_levels():
    """Halves go up, and what is beyond the ends is at them; equal scores get equal fifths."""
    scale = Scale(0, 1)
    scores = np.array([-1.0, 0.0, 0.124, 0.125, 0.374, 0.375, 0.874, 0.875, 2.0])
    assert round_to_levels(scale, scores).tolist() == [1, 1, 1, 2, 2, 3, 4, 5, 5]
    assert rank_in_fifths(np.array([0.1, 0.2, 0.3, 0.4, 0.5])).tolist() == [1, 2, 3, 4, 5]
    assert rank_in_fifths(np.array([5.0, 5.0, 1.0])).tolist() == [4, 4, 1]
    assert rank_in_fifths(np.array([7.0] * 3)).tolist() == [3, 3, 3]
