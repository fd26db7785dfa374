"""How whoever runs a site signs in: by a password, chosen through a link that the server printed."""

from __future__ import annotations

import asyncio
import hmac

from fastapi import APIRouter, Request, Response

from .security import PASSWORD_LENGTH, Session, hash_password, right_password
from .web import MissingError, TooManyError, Web, address, form_of, one

_FORM = form_of("token", "password", "again", "code")


def routes(web: Web) -> APIRouter:
    """The routes of signing in and out, under `/admin`."""
    router = APIRouter(prefix="/admin", default_response_class=Response)
    keeper = web.keeper

    def asking(request: Request) -> Session:
        """A session to sign in by, which is not signed in yet."""
        found = web.session(request, admin=True)
        return found if found and not found.member else Session.new(admin=True)

    @router.get("/login")
    async def login(request: Request) -> Response:
        """The password is asked for."""
        session = asking(request)
        ready = await keeper.password() is not None
        return web.set(
            web.page("login.html", session, fault="", ready=ready, setup="", length=0), session
        )

    @router.post("/login", openapi_extra=_FORM)
    async def sign_in(request: Request) -> Response:
        """Sign in."""
        session = asking(request)
        fields = await web.form(request, session)
        if not web.logins.take(address(request)):
            raise TooManyError
        hashed = await keeper.password()
        password = one(fields, "password")[:200]
        right = hashed is not None and await asyncio.to_thread(right_password, hashed, password)
        await web.note("sign in" if right else "failed sign in", f"from {address(request)}")
        if not right:
            fault = "That is not the password."
            return web.page("login.html", session, 403, fault=fault, ready=True, setup="", length=0)
        return web.set(web.to("/admin"), Session.new(1, admin=True, epoch=keeper.epoch))

    @router.get("/setup")
    async def setup(request: Request, code: str = "") -> Response:
        """The first password is chosen, by whoever has the link that the server printed."""
        if not web.logins.take(address(request)):
            raise TooManyError
        if not _same(code, web.setup) or await keeper.password() is not None:
            raise MissingError
        session = asking(request)
        page = web.page(
            "login.html", session, fault="", ready=True, setup=code, length=PASSWORD_LENGTH
        )
        return web.set(page, session)

    @router.post("/setup", openapi_extra=_FORM)
    async def choose(request: Request) -> Response:
        """The first password is set."""
        session = asking(request)
        fields = await web.form(request, session)
        if not web.logins.take(address(request)):
            raise TooManyError
        code = one(fields, "code")
        if not _same(code, web.setup):
            raise MissingError
        password = one(fields, "password")
        fault = ""
        if not PASSWORD_LENGTH <= len(password) <= 200:
            fault = f"Take at least {PASSWORD_LENGTH} characters."
        elif password != one(fields, "again"):
            fault = "The two are not the same."
        if fault:
            return web.page(
                "login.html", session, 400, fault=fault, ready=True, setup=code, length=10
            )
        hashed = await asyncio.to_thread(hash_password, password)
        if not await asyncio.to_thread(keeper.set_password, hashed, replace=False):
            raise MissingError
        await web.note("password", f"from {address(request)}")
        return web.set(web.to("/admin"), Session.new(1, admin=True, epoch=keeper.epoch))

    @router.post("/logout", openapi_extra=_FORM)
    async def sign_out(request: Request) -> Response:
        """Sign out, wherever else somebody is signed in too."""
        await web.form(request, web.admin(request))
        await asyncio.to_thread(keeper.sign_out)
        await web.note("sign out", "everywhere")
        return web.set(web.to("/admin/login"), Session.new(admin=True))

    return router


def _same(one_: str, other: str) -> bool:
    return hmac.compare_digest(one_.encode("utf-8", "replace"), other.encode())
