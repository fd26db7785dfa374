"""The rating game of Scott et al. 2023, sections 3.1 and 3.2, apart from web and database.

A player's way is a chain of immutable states. `serve` hands out a pair, `answer` takes its rating.
Neither looks at a clock or draws lots: time and keys are handed in, so that every path can be tested.
What others rated comes in only with an answer, hence no state can betray it before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, pvariance
from typing import Literal

Phase = Literal["tutorial", "trial", "probation", "playing", "out"]
#: What an answer brought about.
Turn = Literal[
    "", "tutorial_done", "trial_passed", "trial_failed", "probation_passed", "again", "out"
]

LEVELS = (1, 2, 3, 4, 5)
V_MAX = 4.0
#: Algorithm 1: a distance below the first number is worth the second.
_THRESHOLDS = ((0.25, 2), (0.5, 1), (1.0, 0), (1.75, -1))
_WORST = -2


class RefusedError(Exception):
    """The game does not take this; the state stays as it was."""


class TooEarlyError(RefusedError):
    """The rating came before the wait was over.

    Attributes:
        left: how many seconds are left.
    """

    def __init__(self, left: float) -> None:
        super().__init__(f"Please look at the picture for {left:.1f} s more.")
        self.left = left


@dataclass(frozen=True)
class Rules:
    """What a study may change; the paper's numbers are the defaults.

    Attributes:
        wait: seconds from a pair's serving to the first moment its rating is taken.
        tutorial: how many pairs the tutorial has; 0 for none.
        pairs, points: the first `pairs` pairs have to bring `points`, in the game and on probation.
        attempts: how often probation may be tried; None for as often as it takes.
    """

    wait: float = 3.0
    tutorial: int = 10
    pairs: int = 20
    points: int = 25
    attempts: int | None = None


@dataclass(frozen=True)
class Served:
    """A pair that waits for its rating: its key, which counts once, and when it was shown."""

    key: str
    at: float


@dataclass(frozen=True)
class State:
    """Where a player is.

    Attributes:
        phase: what is played.
        done: answers given in this phase, and attempt.
        phase_points: points won in this phase, and attempt.
        points: the score on the board, which tutorial and probation leave alone.
        attempt: how often probation began.
        open: the pair that waits; at most one.
    """

    phase: Phase = "tutorial"
    done: int = 0
    phase_points: int = 0
    points: int = 0
    attempt: int = 0
    open: Served | None = None


@dataclass(frozen=True)
class Outcome:
    """What a player is told after a rating, and no sooner."""

    phase: Phase
    rating: int
    consensus: int
    mean: float
    score: int
    turn: Turn


def start(rules: Rules) -> State:
    """A new player's state."""
    return State(phase="tutorial" if rules.tutorial else "trial")


def consensus(previous: Sequence[float]) -> int:
    """The rounded average of the previous ratings; a half is rounded up."""
    return math.floor(fmean(previous) + 0.5)


def score(rating: int, previous: Sequence[float]) -> int:
    """Algorithm 1: what a rating is worth against the previous ones.

    v = 1 + (1 + (n - 1) σ² / V_max) / n and d = |x - r| / v, with n counting this rating, σ² the
    (population) variance of the previous ones, and r their consensus; d < .25, .5, 1, 1.75 are worth
    2, 1, 0, -1, and the rest -2.

    Args:
        rating: x.
        previous: the earlier ratings of the pair, at least one.
    """
    n = len(previous) + 1
    v = 1 + (1 + (n - 1) * pvariance(previous) / V_MAX) / n
    d = abs(rating - consensus(previous)) / v
    return next((worth for limit, worth in _THRESHOLDS if d < limit), _WORST)


def serve(state: State, key: str, now: float) -> State:
    """The state with a pair shown.

    Raises:
        RefusedError: where one waits already.
    """
    if state.open is not None:
        raise RefusedError("A pair is waiting for its rating.")
    return replace(state, open=Served(key, now))


def answer(
    state: State, key: str, rating: int, now: float, previous: Sequence[float], rules: Rules
) -> tuple[State, Outcome]:
    """The state after a rating, and what the player is told.

    Args:
        state: with a pair open.
        key: of the pair that is rated.
        rating: one of `LEVELS`.
        now: seconds, on the clock of `Served.at`.
        previous: the pair's ratings so far.
        rules: the study's.

    Raises:
        TooEarlyError: before the wait is over.
        RefusedError: where another pair waits, or none, or the rating is none.
    """
    if state.open is None or state.open.key != key:
        raise RefusedError("This pair is not waiting for a rating.")
    if rating not in LEVELS:
        raise RefusedError(f"A rating is one of {', '.join(map(str, LEVELS))}.")
    if (left := state.open.at + rules.wait - now) > 0:
        raise TooEarlyError(left)
    won = score(rating, previous)
    after, turn = _turn(
        replace(state, open=None, done=state.done + 1, phase_points=state.phase_points + won),
        won,
        rules,
    )
    told = Outcome(state.phase, rating, consensus(previous), fmean(previous), won, turn)
    return after, told


def _turn(state: State, won: int, rules: Rules) -> tuple[State, Turn]:
    """Move on to the next phase where this one is through."""
    fresh = replace(state, done=0, phase_points=0)
    enough = state.phase_points >= rules.points
    if state.phase == "tutorial":
        if state.done < rules.tutorial:
            return state, ""
        return replace(fresh, phase="trial"), "tutorial_done"
    if state.phase == "probation":
        if state.done < rules.pairs:
            return state, ""
        if enough:
            return replace(fresh, phase="playing"), "probation_passed"
        if rules.attempts is not None and state.attempt >= rules.attempts:
            return replace(fresh, phase="out"), "out"
        return replace(fresh, attempt=state.attempt + 1), "again"
    state = replace(state, points=state.points + won)
    if state.phase == "playing" or state.done < rules.pairs:
        return state, ""
    if enough:
        return replace(state, phase="playing"), "trial_passed"
    return replace(fresh, phase="probation", points=0, attempt=state.attempt + 1), "trial_failed"
