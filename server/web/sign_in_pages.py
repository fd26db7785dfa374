"""Pages on which the admin signs in."""

from __future__ import annotations

import asyncio
import hmac
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from .errors import NotFoundError, RefusedError, TooManyRequestsError
from .passwords import PASSWORD_LENGTH, check_password, hash_new_password
from .sessions import Session
from .site import WebSite, current_site
from .visitors import client_address, field_value, form_schema

CurrentSite = Annotated[WebSite, Depends(current_site)]
_FORM = form_schema("token", "password", "again", "code")

admin_router = APIRouter(prefix="/admin", default_response_class=Response)


@admin_router.get("/login")
async def show_sign_in(request: Request, site: CurrentSite) -> Response:
    """Ask for the password."""
    session = site.unsigned_session(request, admin=True)
    has_password = await site.admin_account.load_password_hash() is not None
    return site.set_session(_render(site, session, has_password=has_password), session)


@admin_router.post("/login", openapi_extra=_FORM)
async def sign_in(request: Request, site: CurrentSite) -> Response:
    """Sign in by password."""
    session = site.unsigned_session(request, admin=True)
    fields = await site.read_form(request, session)
    _count_attempt(request, site)

    hashed = await site.admin_account.load_password_hash()
    password = field_value(fields, "password")

    is_right = hashed is not None and await check_password(hashed, password)
    action = "sign in" if is_right else "failed sign in"
    await site.log_admin_action(action, f"from {client_address(request)}")
    if not is_right:
        return _render(site, session, 403, fault="That is not the password.")

    return _enter(site)


@admin_router.get("/setup")
async def show_setup(request: Request, site: CurrentSite, code: str = "") -> Response:
    """Ask for the first password, from whoever has the link that the server printed."""
    _count_attempt(request, site)
    # The link still stands where the server printed it; once there is a password, it leads to where that is asked for.
    if await site.admin_account.load_password_hash() is not None:
        return site.redirect("/admin")
    if not _is_setup_code(site, code):
        raise NotFoundError

    session = site.unsigned_session(request, admin=True)
    return site.set_session(_render(site, session, setup_code=code), session)


@admin_router.post("/setup", openapi_extra=_FORM)
async def set_first_password(request: Request, site: CurrentSite) -> Response:
    """Set the first password."""
    session = site.unsigned_session(request, admin=True)
    fields = await site.read_form(request, session)
    _count_attempt(request, site)

    code = field_value(fields, "code")
    if not _is_setup_code(site, code):
        raise NotFoundError

    try:
        hashed = await hash_new_password(
            field_value(fields, "password"), field_value(fields, "again")
        )
    except RefusedError as error:
        return _render(site, session, 400, fault=str(error), setup_code=code)
    # Two people may have the link; the first one's password counts.
    if not await asyncio.to_thread(site.admin_account.set_password, hashed, replace=False):
        fault = "Somebody has chosen a password already; sign in with it."
        return _render(site, session, 409, fault=fault)

    await site.log_admin_action("password", f"from {client_address(request)}")
    return _enter(site)


@admin_router.post("/logout", openapi_extra=_FORM)
async def sign_out(request: Request, site: CurrentSite) -> Response:
    """Sign out, in every browser."""
    await site.read_form(request, site.require_admin(request))
    await asyncio.to_thread(site.admin_account.end_sessions)
    await site.log_admin_action("sign out", "everywhere")
    return site.set_session(site.redirect("/admin/login"), Session.new(admin=True))


def _count_attempt(request: Request, site: WebSite) -> None:
    # Of the admin alone: members behind the same address who fail to sign in lock nobody else out.
    if not site.sign_in_limiter.take(f"admin {client_address(request)}"):
        raise TooManyRequestsError


def _is_setup_code(site: WebSite, code: str) -> bool:
    return hmac.compare_digest(code.encode("utf-8", "replace"), site.setup_code.encode())


def _enter(site: WebSite) -> Response:
    """Lead the admin, now signed in, to the dashboard."""
    session = Session.new(1, admin=True, epoch=site.admin_account.epoch)
    return site.set_session(site.redirect("/admin"), session)


def _render(
    site: WebSite,
    session: Session,
    status: int = 200,
    *,
    fault: str = "",
    has_password: bool = True,
    setup_code: str = "",
) -> Response:
    return site.render(
        "admin_signin.html",
        session,
        status,
        fault=fault,
        has_password=has_password,
        setup_code=setup_code,
        min_length=PASSWORD_LENGTH,
    )
