"""The rating game: Algorithm 1 by hand, and laws that every path through the states obeys."""

from __future__ import annotations

from statistics import pvariance

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captau.server.collect.forms.course import OutOfTurnError, TooEarlyError
from captau.server.collect.forms.game_rules import (
    LEVELS,
    GameState,
    OpenPair,
    Rules,
    answer,
    consensus,
    score,
    serve,
    start,
)

RULES = Rules(wait=3.0, tutorial=2, pairs=4, points=3)


@pytest.mark.parametrize(
    ("rating", "previous", "points"),
    [
        # n = 3, σ² = 0: v = 1 + 1/3; d = 0, 3/4, 3/2, 9/4, 3.
        (3, (3, 3), 2),
        (4, (3, 3), 0),
        (5, (3, 3), -1),
        (1, (4, 4), -2),
        (1, (5, 5), -2),
        # n = 3, σ² = 4 = V_max, r = 3: v = 1 + (1 + 2) / 3 = 2; d = 1/2 is no longer below .5.
        (4, (1, 5), 0),
        (5, (1, 5), -1),
        # n = 3, r = round(1.5) = 2 (a half goes up), σ² = 1/4: v = 1 + (1 + 1/8) / 3 = 1.375; d = .727.
        (1, (1, 2), 0),
        # n = 5, σ² = 4, r = 3: v = 1 + (1 + 4) / 5 = 2.
        (4, (1, 5, 1, 5), 0),
        # n = 2, σ² = 0: v = 3/2; d = 2/3, 4/3, 2.
        (2, (1,), 0),
        (3, (1,), -1),
        (4, (1,), -2),
    ],
)
def test_scores_match_algorithm_1_worked_by_hand(rating, previous, points):
    assert score(rating, previous) == points


@given(st.integers(1, 5), st.lists(st.integers(1, 5), min_size=1, max_size=9))
def test_scores_are_never_one_and_highest_at_the_consensus(rating, previous):
    r = consensus(previous)
    assert r in LEVELS
    assert -2 <= score(rating, previous) <= score(r, previous) == 2
    # v is at most 1 + (1 + n - 1) / n = 2 at V_max, hence one level off has d >= 1/2: it is worth no point.
    assert pvariance(previous) <= 4
    assert rating == r or score(rating, previous) <= 0


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["serve", "answer", "answer", "wrong key", "early", "no level"]),
        st.integers(1, 5),
        st.lists(st.integers(1, 5), min_size=1, max_size=5),
    ),
    max_size=120,
)


@given(EVENTS, st.sampled_from([RULES, Rules(0.0, 0, 3, 4), Rules(1.5, 1, 1, -2)]))
def test_no_path_wins_unearned_points_or_skips_the_wait(events, rules):
    state, now, serial = start(rules), 100.0, 0
    board, phases = 0, [state.phase]
    for event, rating, previous in events:
        key = state.open.key if state.open else "none"
        if event == "serve":
            serial += 1
            if state.open is None:
                state = serve(state, str(serial), now)
            else:
                with pytest.raises(OutOfTurnError):
                    serve(state, str(serial), now)
            continue
        if event == "answer":
            now += rules.wait
        time = now - 1e-6 if event == "early" and state.open and rules.wait else now
        is_early = bool(state.open) and time < state.open.at + rules.wait
        sent_key = "another" if event == "wrong key" else key
        level = 6 if event == "no level" else rating
        before = state
        if state.open is None or sent_key != key or level not in LEVELS:
            with pytest.raises(OutOfTurnError):
                answer(state, sent_key, level, time, previous, rules)
            assert state == before
            continue
        if is_early:
            with pytest.raises(TooEarlyError):
                answer(state, sent_key, level, time, previous, rules)
            assert state == before
            continue
        state, outcome = answer(state, sent_key, level, time, previous, rules)
        assert state.open is None
        assert outcome.score == score(level, previous)
        assert outcome.phase == before.phase
        # The board moves by this answer's score, in the game alone; failing the trial clears it.
        if outcome.turn == "trial_failed":
            board = 0
            assert before.phase_points + outcome.score < rules.points
        elif before.phase in ("trial", "playing"):
            board += outcome.score
        assert state.points == board
        if state.phase != before.phase:
            phases.append(state.phase)
            allowed = {
                ("tutorial", "trial"),
                ("trial", "playing"),
                ("trial", "probation"),
                ("probation", "playing"),
            }
            assert (before.phase, state.phase) in allowed
            needed = rules.tutorial if before.phase == "tutorial" else rules.pairs
            assert before.done + 1 == needed
        if state.phase == "playing" and before.phase in ("trial", "probation"):
            assert before.phase_points + outcome.score >= rules.points
        # An answer counts once.
        with pytest.raises(OutOfTurnError):
            answer(state, sent_key, level, time + 10, previous, rules)
    assert phases.count("trial") <= 1


@given(st.lists(st.integers(1, 5), min_size=1), st.lists(st.integers(1, 5), min_size=1))
def test_an_open_pair_does_not_reveal_its_ratings(ratings, other_ratings):
    # Ratings come in with an answer alone: the states before it are equal whatever they are.
    state = serve(GameState(phase="playing"), "k", 0.0)
    assert state == GameState(phase="playing", open=OpenPair("k", 0.0))
    for previous in (ratings, other_ratings):
        with pytest.raises(TooEarlyError) as error:
            answer(state, "k", 3, 1.0, previous, RULES)
        assert str(error.value) == "Please look at the picture for 2.0 s more."


def test_the_last_failed_attempt_at_probation_ends_the_game():
    rules = Rules(wait=3.0, tutorial=0, pairs=1, points=2, attempts=2)
    state, turns = start(rules), []
    for _ in range(3):
        state, outcome = answer(serve(state, "k", 0), "k", 1, 3, [5, 5], rules)
        turns.append(outcome.turn)
    assert turns == ["trial_failed", "again", "out"]
    assert (state.phase, state.points, state.attempt) == ("out", 0, 2)
    # The last attempt may be the one that succeeds.
    state = GameState(phase="probation", attempt=2)
    state, outcome = answer(serve(state, "k", 0), "k", 5, 3, [5, 5], rules)
    assert (outcome.turn, state.phase) == ("probation_passed", "playing")


def test_probation_repeats_until_it_is_passed():
    state = GameState(phase="trial")
    for turn_of in range(4):  # the worst ratings there are
        state, outcome = answer(serve(state, "k", 0), "k", 1, 3, [5, 5], RULES)
        assert (outcome.turn == "trial_failed") == (turn_of == 3)
    assert (state.phase, state.points, state.attempt) == ("probation", 0, 1)
    for _ in range(4):
        state, outcome = answer(serve(state, "k", 0), "k", 1, 3, [5, 5], RULES)
    assert (outcome.turn, state.phase, state.attempt) == ("again", "probation", 2)
    for _ in range(4):
        state, outcome = answer(serve(state, "k", 0), "k", 5, 3, [5, 5], RULES)
    assert (outcome.turn, state.phase, state.points) == ("probation_passed", "playing", 0)
    state, outcome = answer(serve(state, "k", 0), "k", 5, 3, [5, 5], RULES)
    assert state.points == 2
