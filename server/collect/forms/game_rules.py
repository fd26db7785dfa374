"""Rules of the rating game (Scott et al. 2023, sections 3.1 and 3.2), apart from web and database.

A player's way is a chain of immutable states: `serve` hands out a pair, `answer` takes its rating. Times and
keys are handed in and nothing is drawn at random, so that every path can be tested. Ratings of others come in
only with an answer, hence no state can betray them before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, pvariance
from typing import Literal

from .course import OutOfTurnError, TooEarlyError

Phase = Literal["tutorial", "trial", "probation", "playing", "out"]
#: The change that an answer brought about.
Turn = Literal[
    "", "tutorial_done", "trial_passed", "trial_failed", "probation_passed", "again", "out"
]

LEVELS = (1, 2, 3, 4, 5)
MAX_VARIANCE = 4.0
#: Algorithm 1: the score of a distance below each limit, and of all others.
_SCORES_BY_LIMIT = ((0.25, 2), (0.5, 1), (1.0, 0), (1.75, -1))
_LOWEST_SCORE = -2


@dataclass(frozen=True)
class Rules:
    """Rules that a study may change; the paper's numbers are the defaults.

    Attributes:
        wait: the seconds from showing a pair until its rating is accepted.
        tutorial: the pairs of the tutorial; 0 for none.
        pairs, points: the first `pairs` pairs have to bring `points`, in the game and in probation.
        attempts: the attempts at probation; None for as many as it takes.
    """

    wait: float = 3.0
    tutorial: int = 10
    pairs: int = 20
    points: int = 25
    attempts: int | None = None


@dataclass(frozen=True)
class OpenPair:
    """A pair that waits for its rating: its key, which counts once, and when it was shown."""

    key: str
    at: float


@dataclass(frozen=True)
class GameState:
    """A player's state.

    Attributes:
        phase: the part of the game.
        done: the answers given in this phase and attempt.
        phase_points: the points won in this phase and attempt.
        points: the score on the board, which tutorial and probation do not change.
        attempt: how often probation has begun.
        open: the pair that waits for a rating.
    """

    phase: Phase = "tutorial"
    done: int = 0
    phase_points: int = 0
    points: int = 0
    attempt: int = 0
    open: OpenPair | None = None


@dataclass(frozen=True)
class RatingOutcome:
    """Feedback that a player gets after a rating, and no sooner."""

    phase: Phase
    rating: int
    consensus: int
    mean: float
    score: int
    turn: Turn


def start(rules: Rules) -> GameState:
    """Return a new player's state."""
    return GameState(phase="tutorial" if rules.tutorial else "trial")


def consensus(previous: Sequence[float]) -> int:
    """Return the rounded mean of the previous ratings; a half is rounded up."""
    return math.floor(fmean(previous) + 0.5)


def score(rating: int, previous: Sequence[float]) -> int:
    """Return the score of a rating against the previous ones (Algorithm 1).

    v = 1 + (1 + (n - 1) σ² / V_max) / n and d = |x - r| / v, with n counting this rating, σ² the
    (population) variance of the previous ones, and r their consensus; d < .25, .5, 1, 1.75 are worth
    2, 1, 0, -1, and the rest -2. With whole ratings nothing is worth 1: v is at most 2, so that a
    distance of 1 has a d of 0.5 or more.

    Args:
        rating: x.
        previous: the earlier ratings of the pair, at least one.
    """
    n = len(previous) + 1
    v = 1 + (1 + (n - 1) * pvariance(previous) / MAX_VARIANCE) / n
    d = abs(rating - consensus(previous)) / v
    for limit, points in _SCORES_BY_LIMIT:
        if d < limit:
            return points

    return _LOWEST_SCORE


def serve(state: GameState, key: str, now: float) -> GameState:
    """Return the state with a pair shown.

    Raises:
        OutOfTurnError: if a pair waits already.
    """
    if state.open is not None:
        raise OutOfTurnError("A pair is waiting for its rating.")

    return replace(state, open=OpenPair(key, now))


def answer(
    state: GameState, key: str, rating: int, now: float, previous: Sequence[float], rules: Rules
) -> tuple[GameState, RatingOutcome]:
    """Return the state after a rating, and its feedback.

    Args:
        state: with a pair open.
        key: the pair that is rated.
        rating: one of `LEVELS`.
        now: seconds, on the clock of `OpenPair.at`.
        previous: the pair's ratings so far.
        rules: the study's.

    Raises:
        TooEarlyError: if the wait is not over.
        OutOfTurnError: if another pair waits, or none, or the rating is not a level.
    """
    if state.open is None or state.open.key != key:
        raise OutOfTurnError("This pair is not waiting for a rating.")
    if rating not in LEVELS:
        raise OutOfTurnError(f"A rating is one of {', '.join(map(str, LEVELS))}.")
    seconds_left = state.open.at + rules.wait - now
    if seconds_left > 0:
        raise TooEarlyError(seconds_left)

    points = score(rating, previous)
    answered = replace(
        state, open=None, done=state.done + 1, phase_points=state.phase_points + points
    )
    state_after, turn = _advance(answered, points, rules)
    outcome = RatingOutcome(
        phase=state.phase,
        rating=rating,
        consensus=consensus(previous),
        mean=fmean(previous),
        score=points,
        turn=turn,
    )

    return state_after, outcome


def _advance(state: GameState, points: int, rules: Rules) -> tuple[GameState, Turn]:
    """Move on to the next phase if this one is over."""
    next_phase = replace(state, done=0, phase_points=0)
    has_passed = state.phase_points >= rules.points

    if state.phase == "tutorial":
        if state.done < rules.tutorial:
            return state, ""
        return replace(next_phase, phase="trial"), "tutorial_done"

    if state.phase == "probation":
        if state.done < rules.pairs:
            return state, ""
        if has_passed:
            return replace(next_phase, phase="playing"), "probation_passed"
        if rules.attempts is not None and state.attempt >= rules.attempts:
            return replace(next_phase, phase="out"), "out"
        return replace(next_phase, attempt=state.attempt + 1), "again"

    # In the trial and in the game answers count on the board, in tutorial and probation they do not.
    state = replace(state, points=state.points + points)
    if state.phase == "playing" or state.done < rules.pairs:
        return state, ""

    if has_passed:
        # The answers of the trial go on counting as the game's.
        return replace(state, phase="playing"), "trial_passed"

    # Whoever fails the trial begins on the board anew.
    failed = replace(next_phase, phase="probation", points=0, attempt=state.attempt + 1)
    return failed, "trial_failed"
