"""Errors that a form raises about an answer; the message tells the rater what to do."""

from __future__ import annotations


class FormError(Exception):
    """An answer that is incomplete or invalid."""


class OutOfTurnError(Exception):
    """An answer that the form does not accept now; nothing was changed."""


class TooEarlyError(OutOfTurnError):
    """An answer that came before the wait was over."""

    def __init__(self, seconds_left: float) -> None:
        super().__init__(f"Please look at the picture for {seconds_left:.1f} s more.")
