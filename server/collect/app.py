"""The web application of a study."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response

from .. import signin
from ..keeper import Keeper
from ..security import Buckets, Session
from ..web import StrangerError, TooManyError, Web, application, told
from . import game
from .protocols import FORMS, FormError
from .protocols.game import MEANINGS
from .protocols.thumb import FAULTS, INCLUSIVE, WORDY, normalised
from .store import Store
from .studies import Study


class Site(Web):
    """What every page of a study needs.

    Args:
        store: the study in its database.
        outside: as of `Web`.
    """

    def __init__(self, store: Store, outside: tuple[str, bool, str] = ("", False, "")) -> None:
        limits = store.study.limits
        shown = {
            "title": store.study.title,
            "study": store.study,
            "meanings": MEANINGS,
            "faults": FAULTS,
            "inclusive": INCLUSIVE,
            "wordy": WORDY,
            "normalised": normalised,
        }
        keeper = Keeper(store.database)
        super().__init__(
            "captau.server.collect", keeper, store.secret, outside, limits.logins, shown
        )
        self.store = store
        self.joins = Buckets(limits.joins, limits.joins / 60)
        self.requests = Buckets(limits.requests * 3, limits.requests)

    @property
    def study(self) -> Study:
        """The study."""
        return self.store.study

    def rater(self, request: Request) -> tuple[Session, int]:
        """Who asks.

        Raises:
            StrangerError: where that is no participant.
            TooManyError: where they ask too often.
        """
        session = self.session(request)
        if session is None or session.member is None:
            raise StrangerError("/")
        if not self.requests.take(str(session.member)):
            raise TooManyError
        return session, session.member


def make_app(site: Site) -> FastAPI:
    """The application; it closes the database when it ends."""
    from . import admin, pages

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncGenerator[None]:
        del app
        yield
        site.store.database.close()

    routers = (pages.routes(site), admin.routes(site), signin.routes(site))
    described = f"{FORMS[site.study.protocol].name}: judgements of image captions"
    app = application(
        site, routers, life, home="/rate", title=site.study.title, description=described
    )
    _faults(app, site)
    return app


def _faults(app: FastAPI, site: Site) -> None:
    """What goes wrong in a study alone, as pages that say what to do."""

    @app.exception_handler(FormError)
    async def unfilled(request: Request, error: FormError) -> Response:
        del request
        return told(site, 400, str(error), back="/rate")

    @app.exception_handler(game.RefusedError)
    async def not_now(request: Request, error: game.RefusedError) -> Response:
        del request
        return told(site, 409, str(error), back="/rate")
