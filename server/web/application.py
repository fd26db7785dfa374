"""The FastAPI application of a site: routers, static files, and errors as pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from ..storage.database import StoreError
from . import admin_signin, oidc_pages
from .errors import (
    NotFoundError,
    ProviderDownError,
    RefusedError,
    SignInRequiredError,
    TooManyRequestsError,
)
from .request_guard import MAX_BODY_BYTES, RequestGuard
from .site import WebSite

#: Scripts, styles and the icon of every site.
STATIC_FOLDER = Path(__file__).parent / "static"


def message_page(site: WebSite, status: int, message: str, *, back: str = "/") -> Response:
    """Render a page that tells what went wrong, with a link to go on."""
    response = site.render("message.html", status=status, message=message, back=back)
    if status == 429:
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
    shared_routers = [admin_signin.router, *([oidc_pages.router] if site.provider else [])]
    for router in (*routers, *shared_routers):
        app.include_router(router, prefix=site.base)
    if site.base:

        @app.get(site.base)
        async def front() -> Response:
            return site.redirect("/")

    app.mount(f"{site.base}/static", StaticFiles(directory=STATIC_FOLDER), "static")
    for error_type, handler in _error_handlers(site, home).items():
        app.add_exception_handler(error_type, handler)
    app.add_middleware(RequestGuard, secure=site.address.secure, body_limit=body_limit)
    return app


def message_handler(
    site: WebSite, status: int, message: Callable[[Any], str], *, back: str = "/"
) -> Callable[[Request, Any], Awaitable[Response]]:
    """Return an exception handler that shows a message for an error."""

    async def handle(request: Request, error: Any) -> Response:
        del request
        return message_page(site, status, message(error), back=back)

    return handle


def _error_handlers(
    site: WebSite, home: str
) -> dict[type[Exception], Callable[[Request, Any], Awaitable[Response]]]:
    async def redirect_to_sign_in(request: Request, error: SignInRequiredError) -> Response:
        del request
        return site.redirect(error.page)

    async def http_error(request: Request, error: HTTPException) -> Response:
        del request
        messages = {404: "There is no such page.", 405: "This page is not asked for like that."}
        message = messages.get(error.status_code, str(error.detail))
        response = message_page(site, error.status_code, message)
        for name, value in (error.headers or {}).items():
            response.headers[name] = value
        return response

    too_many = "Too many at once. Wait a few seconds, then try again."
    invalid = "That address, or form, is not as this site writes it."
    return {
        SignInRequiredError: redirect_to_sign_in,
        HTTPException: http_error,
        RefusedError: message_handler(site, 400, str),
        NotFoundError: message_handler(site, 404, lambda _: "There is nothing here for you."),
        ProviderDownError: message_handler(site, 503, str),
        RequestValidationError: message_handler(site, 422, lambda _: invalid),
        TooManyRequestsError: message_handler(site, 429, lambda _: too_many, back=home),
        StoreError: message_handler(
            site,
            507,
            lambda error: (
                f"This could not be stored ({error}). Nothing before it is lost; try again later."
            ),
            back=home,
        ),
    }
