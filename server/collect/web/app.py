"""The web application of a study."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from ...web.application import build_application, message_handler
from ..forms.course import OutOfTurnError
from ..forms.form import FormError
from . import admin_pages, rater_pages
from .site import StudySite

#: The groups of pages, each with its router.
_PAGE_GROUPS = (rater_pages, admin_pages)


def make_app(site: StudySite) -> FastAPI:
    """Build the application of a study; it closes the database when it ends."""

    @asynccontextmanager
    async def close_at_end(app: FastAPI) -> AsyncGenerator[None]:
        yield
        site.store.database.close()

    app = build_application(
        site,
        [group.router for group in _PAGE_GROUPS],
        close_at_end,
        home="/rate",
        title=site.study.title,
        description=f"{site.study.form.name}: judgements of image captions",
    )
    app.add_exception_handler(FormError, message_handler(site, 400, back="/rate"))
    app.add_exception_handler(OutOfTurnError, message_handler(site, 409, back="/rate"))
    return app
