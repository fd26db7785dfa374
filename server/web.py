"""What the sites share: pages, sessions, forms, and what goes wrong as pages that say what to do."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi import Path as InPath
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.staticfiles import StaticFiles
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from .database import StoreError
from .keeper import Keeper
from .security import ADMIN_AGE, MEMBER_AGE, MOST_BYTES, Buckets, Guard, Session, Sessions

#: Scripts, styles and the icon of every site.
STATIC = Path(__file__).parent / "static"
#: A path below this site, that no browser takes for another site's address ("//host", "/\\host").
_OWN_PAGE = re.compile(r"/(?:[\x21-\x2e\x30-\x5b\x5d-\x7e][\x21-\x5b\x5d-\x7e]{0,1000})?")
#: A row's number in an address.
Number = Annotated[int, InPath(ge=1, le=2**31 - 1)]


class RefusedError(Exception):
    """Something that a person asked for is not to be had; the message says why."""


class MissingError(Exception):
    """There is no such thing, or it is somebody else's, which is not told apart."""


class TooManyError(Exception):
    """Somebody asks too often."""


class StrangerError(Exception):
    """Somebody who has not joined, or is not signed in; `where` is the page to do so."""

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self.where = where


class Web:
    """A site's pages, sessions and forms.

    Args:
        package: whose `templates/` are looked up before the shared ones.
        keeper: whoever runs it.
        secret: what sessions and forms are signed with.
        outside: as the outside sees it: the path under which a proxy shows the site, without a slash at
            its end; whether by https; scheme and host, empty where nobody said.
        logins: how many may try to sign in from one address in ten minutes.
        shown: what every page may name; `title` is needed.

    Attributes:
        setup: what lets somebody set the admin's password, once.
    """

    def __init__(
        self,
        package: str,
        keeper: Keeper,
        secret: bytes,
        outside: tuple[str, bool, str],
        logins: int,
        shown: Mapping[str, Any],
    ) -> None:
        self.keeper = keeper
        self.base, self.secure, self.origin = outside
        self.setup = secrets.token_urlsafe(16)
        self.sessions = Sessions(secret)
        self.logins = Buckets(logins, logins / 600)
        self._pages = Environment(
            loader=ChoiceLoader([PackageLoader(package), PackageLoader("captau.server")]),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        known: dict[str, Any] = {"base": self.base, **shown}
        self._pages.globals.update(known)

    def session(self, request: Request, *, admin: bool = False) -> Session | None:
        """A request's session, of a member or of whoever runs the site."""
        cookie = request.cookies.get("captau_admin" if admin else "captau")
        found = self.sessions.read(cookie, ADMIN_AGE if admin else MEMBER_AGE)
        if found is None or found.admin != admin:
            return None
        # Signed in before everybody was signed out?
        past = admin and found.member is not None and found.epoch != self.keeper.epoch
        return None if past else found

    def admin(self, request: Request) -> Session:
        """The session of whoever runs the site.

        Raises:
            StrangerError: where nobody is signed in.
        """
        session = self.session(request, admin=True)
        if session is None or not session.member:
            raise StrangerError("/admin/login")
        return session

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
            max_age=ADMIN_AGE if session.admin else MEMBER_AGE,
            path=f"{self.base}/admin" if session.admin else self.base or "/",
            httponly=True,
            samesite="strict" if session.admin else "lax",
            secure=self.secure,
        )
        return response

    def to(self, path: str) -> RedirectResponse:
        """Onwards, by GET."""
        return RedirectResponse(self.base + path, 303)

    async def note(self, action: str, why: str) -> None:
        """Take down what was done with the admin's password; a site without a log does not.

        Args:
            action: such as `sign in`.
            why: what is known of it, such as whence it came.
        """
        del action, why

    async def form(self, request: Request, session: Session | None) -> Mapping[str, list[str]]:
        """The fields of a form of this session.

        Raises:
            RefusedError: where it is no form of this session's.
        """
        fields, _ = await self.form_and_file(request, session, files=0)
        return fields

    async def form_and_file(
        self, request: Request, session: Session | None, *, files: int = 1
    ) -> tuple[Mapping[str, list[str]], UploadFile | None]:
        """The fields of a form of this session, and the file that came with them.

        Raises:
            RefusedError: where it is no form of this session's.
            StoreError: where the disk takes no more of a file.
        """
        try:
            data = await request.form(max_files=files, max_fields=100)
        except HTTPException as error:
            raise RefusedError("That was no form of this site.") from error
        except OSError as error:
            raise StoreError(error.strerror or type(error).__name__) from error
        fields: dict[str, list[str]] = {}
        file: UploadFile | None = None
        for name, value in data.multi_items():
            if isinstance(value, str):
                # A half of a surrogate pair is nothing that a database could hold, and NUL neither.
                clean = value.encode("utf-8", "replace").decode().replace("\0", "")
                fields.setdefault(name, []).append(clean)
            else:
                file = value
        token = fields.pop("token", [""])[0]
        if session is None or not self.sessions.right(session, token):
            raise RefusedError(
                "This page was open for too long, or in another browser. Go back, reload, try again."
            )
        return fields, file


def form_of(*names: str) -> dict[str, Any]:
    """What the forms of some pages hold, for whoever reads the interface's description."""
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
    content = {"application/x-www-form-urlencoded": {"schema": schema}}
    return {"requestBody": {"content": content}}


def one(fields: Mapping[str, Sequence[str]], name: str) -> str:
    """The one value of a field; empty where there is none."""
    values = fields.get(name, ())
    return values[0].strip() if len(values) == 1 else ""


def address(request: Request) -> str:
    """Whence a request comes; behind a proxy, what the proxy says (uvicorn sees to it)."""
    return request.client.host if request.client else ""


def onward(path: str) -> str:
    """Where somebody goes on who came to sign in: a page of this site, or its first one.

    Args:
        path: as an address or a form gave it, which anybody may have written.
    """
    return path if _OWN_PAGE.fullmatch(path) else "/"


def told(web: Web, status: int, message: str, *, back: str = "/") -> Response:
    """A page that says what went wrong, and a link onwards."""
    response = web.page("message.html", status=status, message=message, back=back)
    if status == 429:
        response.headers["retry-after"] = "5"
    return response


def application(
    web: Web,
    routers: Iterable[APIRouter],
    life: Callable[[FastAPI], AbstractAsyncContextManager[None]],
    *,
    title: str,
    description: str = "",
    home: str = "/",
    most: Callable[[str], int] = lambda _: MOST_BYTES,
) -> FastAPI:
    """A site's application: its routes, static files, and what goes wrong as pages.

    Args:
        web: its pages.
        routers: its routes.
        life: what begins and ends with it.
        title: what it is called, in the interface's description too.
        description: of the interface.
        home: the page where somebody who was stopped goes on.
        most: as of `Guard`.
    """
    app = FastAPI(
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=life,
        root_path="",
        redirect_slashes=False,  # it would send people to whatever host their request named
        title=title,
        description=description,
    )
    for router in routers:
        app.include_router(router, prefix=web.base)
    if web.base:

        @app.get(web.base)
        async def front() -> Response:
            return web.to("/")

    app.mount(f"{web.base}/static", StaticFiles(directory=STATIC), "static")

    @app.exception_handler(StrangerError)
    async def stranger(request: Request, error: StrangerError) -> Response:
        del request
        return web.to(error.where)

    @app.exception_handler(TooManyError)
    async def too_many(request: Request, error: TooManyError) -> Response:
        del request, error
        return told(web, 429, "Too many at once. Wait a few seconds, then try again.", back=home)

    @app.exception_handler(MissingError)
    async def missing(request: Request, error: MissingError) -> Response:
        del request, error
        return told(web, 404, "There is nothing here for you.")

    @app.exception_handler(RefusedError)
    async def refused(request: Request, error: RefusedError) -> Response:
        del request
        return told(web, 400, str(error))

    @app.exception_handler(StoreError)
    async def not_stored(request: Request, error: StoreError) -> Response:
        del request
        message = f"This could not be stored ({error}). Nothing before it is lost; try again later."
        return told(web, 507, message, back=home)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        del request, error
        return told(web, 422, "That address, or form, is not as this site writes it.")

    @app.exception_handler(HTTPException)
    async def other(request: Request, error: HTTPException) -> Response:
        del request
        message = {404: "There is no such page.", 405: "This page is not asked for like that."}
        response = told(web, error.status_code, message.get(error.status_code, str(error.detail)))
        for name, value in (error.headers or {}).items():
            response.headers[name] = value
        return response

    app.add_middleware(Guard, secure=web.secure, most=most)
    return app
