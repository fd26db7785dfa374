"""Errors that a site answers with a page, each with its own HTTP status; see `application`."""

from __future__ import annotations


class RefusedError(Exception):
    """A request that cannot be granted; the message tells the visitor why (400)."""


class NotFoundError(Exception):
    """A request for something that does not exist, or belongs to somebody else (404)."""


class TooManyRequestsError(Exception):
    """A visitor who sends more requests than the site allows (429)."""


class SignInRequiredError(Exception):
    """A visitor who has not joined or is not signed in; `page` is where they do so (303)."""

    def __init__(self, page: str) -> None:
        super().__init__(page)
        self.page = page
