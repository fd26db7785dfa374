"""The web application of a study."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.staticfiles import StaticFiles
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException

from . import game
from .database import StoreError
from .protocols import FORMS, FormError
from .protocols.game import MEANINGS
from .protocols.thumb import FAULTS, INCLUSIVE, WORDY, normalised
from .security import ADMIN_AGE, RATER_AGE, Buckets, Guard, Session, Sessions
from .store import MissingError, RefusedError, Store
from .studies import Study

FOLDER = Path(__file__).parent


class TooManyError(Exception):
    """Somebody asks too often."""


class StrangerError(Exception):
    """Somebody who has not joined, or is not signed in; `where` is the page to do so."""

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self.where = where


@dataclass
class Site:
    """What every page needs.

    Attributes:
        store: the study in its database.
        base: the path under which a proxy shows the site, without a slash at its end.
        secure: whether it is shown by https.
        origin: scheme and host as the outside sees them; empty where nobody said.
        setup: what lets somebody set the admin's password, once.
    """

    store: Store
    base: str = ""
    secure: bool = False
    origin: str = ""
    setup: str = field(default_factory=lambda: secrets.token_urlsafe(16))

    def __post_init__(self) -> None:
        limits = self.study.limits
        self.sessions = Sessions(self.store.secret)
        self.joins = Buckets(limits.joins, limits.joins / 60)
        self.logins = Buckets(limits.logins, limits.logins / 600)
        self.requests = Buckets(limits.requests * 3, limits.requests)
        self._pages = Environment(
            loader=PackageLoader("captau.server", "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        shown: dict[str, Any] = {
            "study": self.study,
            "base": self.base,
            "meanings": MEANINGS,
            "faults": FAULTS,
            "inclusive": INCLUSIVE,
            "wordy": WORDY,
            "normalised": normalised,
        }
        self._pages.globals.update(shown)

    @property
    def study(self) -> Study:
        """The study."""
        return self.store.study

    def session(self, request: Request, *, admin: bool = False) -> Session | None:
        """A request's session, of a participant or of whoever runs the study."""
        cookie = request.cookies.get("captau_admin" if admin else "captau")
        found = self.sessions.read(cookie, ADMIN_AGE if admin else RATER_AGE)
        if found is None or found.admin != admin:
            return None
        # Signed in before everybody was signed out?
        past = admin and found.rater is not None and found.epoch != self.store.epoch
        return None if past else found

    def rater(self, request: Request) -> tuple[Session, int]:
        """Who asks.

        Raises:
            StrangerError: where that is no participant.
            TooManyError: where they ask too often.
        """
        session = self.session(request)
        if session is None or session.rater is None:
            raise StrangerError("/")
        if not self.requests.take(str(session.rater)):
            raise TooManyError
        return session, session.rater

    def page(
        self, name: str, session: Session | None = None, status: int = 200, **values: Any
    ) -> HTMLResponse:
        """A page; its forms carry the session's token."""
        token = self.sessions.token(session) if session else ""
        text = self._pages.get_template(name).render(token=token, **values)
        return HTMLResponse(text, status)

    def set(self, response: Response, session: Session) -> Response:
        """Give a browser its session."""
        response.set_cookie(
            "captau_admin" if session.admin else "captau",
            self.sessions.write(session),
            max_age=ADMIN_AGE if session.admin else RATER_AGE,
            path=f"{self.base}/admin" if session.admin else self.base or "/",
            httponly=True,
            samesite="strict" if session.admin else "lax",
            secure=self.secure,
        )
        return response

    def to(self, path: str) -> RedirectResponse:
        """Onwards, by GET."""
        return RedirectResponse(self.base + path, 303)

    async def form(self, request: Request, session: Session | None) -> Mapping[str, list[str]]:
        """The fields of a form of this session.

        Raises:
            RefusedError: where it is no form of this session's.
        """
        try:
            data = await request.form(max_files=0, max_fields=100)
        except HTTPException as error:
            raise RefusedError("That was no form of this site.") from error
        fields: dict[str, list[str]] = {}
        for name, value in data.multi_items():
            if isinstance(value, str):
                # A half of a surrogate pair is nothing that a database could hold, and NUL neither.
                clean = value.encode("utf-8", "replace").decode().replace("\0", "")
                fields.setdefault(name, []).append(clean)
        token = fields.pop("token", [""])[0]
        if session is None or not self.sessions.right(session, token):
            raise RefusedError(
                "This page was open for too long, or in another browser. Go back, reload, try again."
            )
        return fields


def address(request: Request) -> str:
    """Whence a request comes; behind a proxy, what the proxy says (uvicorn sees to it)."""
    return request.client.host if request.client else ""


def make_app(site: Site) -> FastAPI:
    """The application; it closes the database when it ends."""
    from . import admin, pages

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncGenerator[None]:
        del app
        yield
        site.store.database.close()

    app = FastAPI(
        title=site.study.title,
        description=f"{FORMS[site.study.protocol].name}: judgements of image captions",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=life,
        root_path="",
        redirect_slashes=False,  # it would send people to whatever host their request named
    )
    if site.base:

        @app.get(site.base)
        async def front() -> Response:
            return site.to("/")

    app.include_router(pages.routes(site), prefix=site.base)
    app.include_router(admin.routes(site), prefix=site.base)
    app.mount(f"{site.base}/static", StaticFiles(directory=FOLDER / "static"), "static")
    _faults(app, site)
    app.add_middleware(Guard, secure=site.secure)
    return app


def _faults(app: FastAPI, site: Site) -> None:
    """What goes wrong, as pages that say what to do."""

    def told(status: int, message: str, *, back: str = "/") -> Response:
        response = site.page("message.html", status=status, message=message, back=back)
        if status == 429:
            response.headers["retry-after"] = "5"
        return response

    @app.exception_handler(StrangerError)
    async def stranger(request: Request, error: StrangerError) -> Response:
        del request
        return site.to(error.where)

    @app.exception_handler(TooManyError)
    async def too_many(request: Request, error: TooManyError) -> Response:
        del request, error
        return told(429, "Too many at once. Wait a few seconds, then try again.", back="/rate")

    @app.exception_handler(MissingError)
    async def missing(request: Request, error: MissingError) -> Response:
        del request, error
        return told(404, "There is nothing here for you.")

    @app.exception_handler(RefusedError)
    async def refused(request: Request, error: RefusedError) -> Response:
        del request
        return told(400, str(error))

    @app.exception_handler(FormError)
    async def unfilled(request: Request, error: FormError) -> Response:
        del request
        return told(400, str(error), back="/rate")

    @app.exception_handler(game.RefusedError)
    async def not_now(request: Request, error: game.RefusedError) -> Response:
        del request
        return told(409, str(error), back="/rate")

    @app.exception_handler(StoreError)
    async def not_stored(request: Request, error: StoreError) -> Response:
        del request
        message = f"This could not be stored ({error}). Nothing before it is lost; try again later."
        return told(507, message, back="/rate")

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        del request, error
        return told(422, "That address, or form, is not as this site writes it.")

    @app.exception_handler(HTTPException)
    async def other(request: Request, error: HTTPException) -> Response:
        del request
        message = {404: "There is no such page.", 405: "This page is not asked for like that."}
        response = told(error.status_code, message.get(error.status_code, str(error.detail)))
        for name, value in (error.headers or {}).items():
            response.headers[name] = value
        return response
