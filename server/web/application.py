"""The FastAPI application of a site: routers, static files, errors as pages, and a guard around all requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..storage.database import BusyError, StoreError
from .errors import (
    NotFoundError,
    RefusedError,
    SignInRequiredError,
    TooManyRequestsError,
)
from .sign_in_pages import admin_router
from .site import PublicAddress, WebSite

#: The most bytes of a request's body where a site takes no files.
MAX_BODY_BYTES = 64 * 1024
#: The most bytes of a request's address and headers.
MAX_HEAD_BYTES = 32 * 1024
#: The most bytes of an oversized body that are read nonetheless: a client that is still sending when the
#: connection closes would not see the answer, and a proxy would answer 502. `nginx.conf` lets so many through.
_MAX_DRAINED_BYTES = 64 << 20
#: From so many bytes on, a limit is told in megabytes.
_LARGE_BODY_BYTES = 10 << 20

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'; "
        "connect-src 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


class RequestGuard:
    """Middleware that adds headers to every response, and refuses bodies beyond a limit and forms of other sites.

    Args:
        app: the application inside.
        address: the site as visitors see it; where it is served by https, browsers are told to stay there.
        body_limit: gives the most bytes of a body by path.
        make_page: makes a page of a message, for browsers; without it they get the text, as programs do.
    """

    def __init__(
        self,
        app: ASGIApp,
        address: PublicAddress,
        body_limit: Callable[[str], int] = lambda _: MAX_BODY_BYTES,
        make_page: Callable[[str], bytes] | None = None,
    ) -> None:
        self._app = app
        self._body_limit = body_limit
        self._make_page = make_page
        self._host = urlsplit(address.origin).netloc
        headers = dict(HEADERS)
        if address.secure:
            headers["strict-transport-security"] = "max-age=31536000"
        self._headers = [(k.encode(), v.encode()) for k, v in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own_names = {name.lower() for name, _ in message["headers"]}
                # Only scripts and styles are the same for everybody.
                caching = b"max-age=3600" if "/static/" in scope["path"] else b"no-store"
                defaults = [*self._headers, (b"cache-control", caching)]
                missing = [header for header in defaults if header[0] not in own_names]
                message["headers"] = [*message["headers"], *missing]
            await send(message)

        refusal = self._find_refusal(scope)
        if refusal is not None:
            await _send_text(send_with_headers, *refusal)
            return

        await self._answer_within_limit(scope, receive, send_with_headers)

    def _find_refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Return the status and the text for a request that is refused whatever its body is; None for others."""
        # The server bounds a head that arrives in pieces, and not one that arrives at once.
        if _head_bytes(scope) > MAX_HEAD_BYTES:
            return (
                431,
                f"An address and headers of at most {MAX_HEAD_BYTES // 1024} kB are taken.\n",
            )
        if _is_foreign(scope, self._host):
            return 403, "This form was sent from another site. Open it here, and send it again.\n"
        return None

    async def _answer_within_limit(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the application answer, unless the body exceeds the limit."""
        limit = self._body_limit(scope["path"])
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if not length.isdigit() or int(length) > limit:
            await send_too_large(receive, send, limit, make_page=self._page_maker(scope))
            return

        n_received = 0
        is_too_large = False
        has_begun = False
        is_read = False

        async def receive_bounded() -> Message:
            nonlocal n_received, is_too_large, is_read
            message = await receive()
            is_read = not message.get("more_body", False)
            n_received += len(message.get("body", b""))
            if n_received > limit:
                is_too_large = True
                # To the application it looks as if the client had gone, so that it reads no more.
                return {"type": "http.disconnect"}
            return message

        async def send_unless_too_large(message: Message) -> None:
            nonlocal has_begun
            # What the application says of a client that has gone is dropped; 413 is sent below.
            if is_too_large and not has_begun:
                return
            has_begun = True
            await send(message)

        if scope["method"] == "HEAD":  # the server leaves out the body
            scope = {**scope, "method": "GET"}

        try:
            await self._app(scope, receive_bounded, send_unless_too_large)
        except asyncio.CancelledError:
            # The server cancels what is still at work when the site stops; that is no error for its log.
            if not has_begun:
                text = "The site is being stopped. Try again in a minute.\n"
                await _send_text(send, 503, text)
            return
        except Exception:
            # An application that saw its client go may fail for that; 413 is sent below.
            if not is_too_large:
                if not has_begun:
                    text = "Something went wrong here. Go back, try again.\n"
                    await _send_text(send, 500, text)
                raise  # for the server's log

        if is_too_large and not has_begun:
            make_page = self._page_maker(scope)
            await send_too_large(receive, send, limit, is_read=is_read, make_page=make_page)

    def _page_maker(self, scope: Scope) -> Callable[[str], bytes] | None:
        """Return what makes a page of a message where a browser asks for one."""
        accepted = dict(scope["headers"]).get(b"accept", b"")
        return self._make_page if b"text/html" in accepted else None


def _head_bytes(scope: Scope) -> int:
    """Return the bytes of a request's address and headers."""
    n_bytes = len(scope.get("raw_path") or b"") + len(scope.get("query_string", b""))
    for name, value in scope["headers"]:
        n_bytes += len(name) + len(value)

    return n_bytes


def _is_foreign(scope: Scope, public_host: str) -> bool:
    """Tell whether a page of another site had a browser send this request, unless it only reads.

    Newer browsers say so themselves where the site has https; others name the page's origin.
    """
    headers = {name: value.decode("latin-1") for name, value in scope["headers"]}

    if scope["method"] in ("GET", "HEAD", "OPTIONS"):
        return False

    relation = headers.get(b"sec-fetch-site")
    if relation:
        return relation not in ("same-origin", "none")

    origin = headers.get(b"origin")
    # An origin without a host, such as `null`, is no host of this site, also where the public one is not known.
    hosts = (headers.get(b"host"), public_host or None)
    # Programs name no origin, and no page of another site can use their cookies.
    return origin is not None and urlsplit(origin).netloc not in hosts


async def send_too_large(
    receive: Receive,
    send: Send,
    limit: int,
    *,
    is_read: bool = False,
    make_page: Callable[[str], bytes] | None = None,
) -> None:
    """Refuse a body after reading what is on its way; after its end a server has nothing more to receive."""
    n_received = 0
    while not is_read and n_received < _MAX_DRAINED_BYTES:
        message = await receive()
        n_received += len(message.get("body", b""))
        is_read = not message.get("more_body", False)

    # Files have their limit in whole megabytes; what a form holds beside one is not counted there.
    most = f"{limit >> 20:,} MB" if limit >= _LARGE_BODY_BYTES else f"{limit // 1024:,} kB"
    text = f"At most {most} are taken."
    if make_page is None:
        await _send_text(send, 413, f"{text}\n")
    else:
        await _send_body(send, 413, make_page(text), b"text/html; charset=utf-8")


async def _send_text(send: Send, status: int, text: str) -> None:
    await _send_body(send, status, text.encode(), b"text/plain; charset=utf-8")


async def _send_body(send: Send, status: int, body: bytes, content_type: bytes) -> None:
    headers = [(b"content-type", content_type), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


#: Scripts, styles and the icon of every site.
STATIC_FOLDER = Path(__file__).parent / "static"


def message_page(site: WebSite, status: int, message: str, *, back: str = "/") -> Response:
    """Render a page that tells what went wrong, with a link to go on."""
    response = site.render("message.html", status=status, message=message, back=back)
    if status in (429, 503):
        response.headers["retry-after"] = "5"

    return response


def build_application(
    site: WebSite,
    routers: Iterable[APIRouter],
    lifespan: Callable[[FastAPI], AbstractAsyncContextManager[None]],
    *,
    title: str,
    description: str = "",
    home: str = "/",
    body_limit: Callable[[str], int] = lambda _: MAX_BODY_BYTES,
) -> FastAPI:
    """Build a site's application.

    Args:
        site: its pages.
        routers: its routes, beside those of signing in that every site has.
        lifespan: starts and ends with the application.
        title, description: of the interface, for its OpenAPI document.
        home: the page that error pages lead on to.
        body_limit: as for `RequestGuard`.
    """
    app = FastAPI(
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=lifespan,
        root_path="",
        redirect_slashes=False,  # it would send people to whatever host their request named
        title=title,
        description=description,
    )
    app.state.site = site

    for router in (*routers, admin_router):
        app.include_router(router, prefix=site.base)
    if site.base:

        @app.get(site.base)
        async def front() -> Response:
            return site.redirect("/")

    app.mount(f"{site.base}/static", StaticFiles(directory=STATIC_FOLDER), "static")
    for error_type, handler in make_error_handlers(site, home).items():
        app.add_exception_handler(error_type, handler)

    def make_page(message: str) -> bytes:
        return bytes(message_page(site, 413, message, back=home).body)

    app.add_middleware(
        RequestGuard, address=site.address, body_limit=body_limit, make_page=make_page
    )
    return app


def message_handler(
    site: WebSite, status: int, message: str = "%(error)s", *, back: str = "/"
) -> Callable[[Request, Any], Awaitable[Response]]:
    """Return an exception handler that shows a message, in which `%(error)s` is the error's own text."""

    async def handle(request: Request, error: Any) -> Response:
        return message_page(site, status, site.translate(message, error=error), back=back)

    return handle


def make_error_handlers(
    site: WebSite, home: str
) -> dict[type[Exception], Callable[[Request, Any], Awaitable[Response]]]:
    """Return what answers each type of error: a page with a link to `home`, or the way to sign in."""

    async def redirect_to_sign_in(request: Request, error: SignInRequiredError) -> Response:
        return site.redirect(error.page)

    async def http_error(request: Request, error: HTTPException) -> Response:
        messages = {404: "There is no such page.", 405: "This page is not asked for like that."}
        message = messages.get(error.status_code, str(error.detail))
        response = message_page(site, error.status_code, message)
        response.headers.update(error.headers or {})
        return response

    too_many = "Too many at once. Wait a few seconds, then try again."
    invalid = "That address, or form, is not as this site writes it."
    busy = "The database is busy. Wait a few seconds, then try again."
    unstored = "This could not be stored (%(error)s). Nothing before it is lost; try again later."
    return {
        SignInRequiredError: redirect_to_sign_in,
        HTTPException: http_error,
        RefusedError: message_handler(site, 400),
        NotFoundError: message_handler(
            site, 404, "There is no such page, or it is not yours to see."
        ),
        RequestValidationError: message_handler(site, 422, invalid),
        TooManyRequestsError: message_handler(site, 429, too_many, back=home),
        BusyError: message_handler(site, 503, busy, back=home),
        StoreError: message_handler(site, 507, unstored, back=home),
    }
