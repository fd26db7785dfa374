"""Errors that a form raises about an answer; the message tells the rater what to do."""

from __future__ import annotations


class FormError(Exception):
    """An answer that is incomplete or invalid."""


class OutOfTurnError(Exception):
    """An answer that the form does not accept now; nothing was changed."""


class TooEarlyError(OutOfTurnError):
    """An answer that came before the wait was over."""

    #: The message, for translation.
    MESSAGE = "Please look at the picture for %(seconds)s s more."

    def __init__(self, seconds_left: float) -> None:
        self.seconds_left = f"{seconds_left:.1f}"
        super().__init__(self.MESSAGE % {"seconds": self.seconds_left})
