"""The web application of a study."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response

from ..web import admin_signin
from ..web.admin_account import AdminAccount
from ..web.application import build_application, message_page
from ..web.errors import SignInRequiredError, TooManyRequestsError
from ..web.public_address import PublicAddress
from ..web.rate_limits import RateLimiter
from ..web.sessions import Session
from ..web.site import WebSite
from . import game
from .protocols import FORMS, FormError
from .protocols.game import MEANINGS
from .protocols.thumb import FAULTS, INCLUSIVE, WORDY, normalised
from .store import Store
from .studies import Study


class Site(WebSite):
    """What every page of a study needs.

    Args:
        store: the study in its database.
        address: as for `WebSite`.
    """

    def __init__(self, store: Store, address: PublicAddress | None = None) -> None:
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
        keeper = AdminAccount(store.database)
        super().__init__(
            "captau.server.collect",
            keeper,
            store.secret,
            address or PublicAddress(),
            limits.logins,
            shown,
        )
        self.store = store
        self.joins = RateLimiter(limits.joins, limits.joins / 60)
        self.requests = RateLimiter(limits.requests * 3, limits.requests)

    @property
    def study(self) -> Study:
        """The study."""
        return self.store.study

    def rater(self, request: Request) -> tuple[Session, int]:
        """Who asks.

        Raises:
            SignInRequiredError: where that is no participant.
            TooManyRequestsError: where they ask too often.
        """
        session = self.read_session(request)
        if session is None or session.member is None:
            raise SignInRequiredError("/")
        if not self.requests.take(str(session.member)):
            raise TooManyRequestsError
        return session, session.member


def make_app(site: Site) -> FastAPI:
    """The application; it closes the database when it ends."""
    from . import admin, pages

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncGenerator[None]:
        del app
        yield
        site.store.database.close()

    routers = (pages.routes(site), admin.routes(site), admin_signin.router)
    described = f"{FORMS[site.study.protocol].name}: judgements of image captions"
    app = build_application(
        site, routers, life, home="/rate", title=site.study.title, description=described
    )
    _faults(app, site)
    return app


def _faults(app: FastAPI, site: Site) -> None:
    """What goes wrong in a study alone, as pages that say what to do."""

    @app.exception_handler(FormError)
    async def unfilled(request: Request, error: FormError) -> Response:
        del request
        return message_page(site, 400, str(error), back="/rate")

    @app.exception_handler(game.RefusedError)
    async def not_now(request: Request, error: game.RefusedError) -> Response:
        del request
        return message_page(site, 409, str(error), back="/rate")
