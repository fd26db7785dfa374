"""The addresses of signing in by OpenID Connect: to the provider, and back."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import RedirectResponse

from .errors import NotFoundError, TooManyRequestsError
from .forms import client_address, local_path
from .oidc import OidcProvider
from .public_address import visible_origin
from .sessions import Session
from .site import WebSite, current_site

CurrentSite = Annotated[WebSite, Depends(current_site)]
Field = Annotated[str | None, Query(max_length=4000)]

router = APIRouter(prefix="/signin/oidc", default_response_class=Response)


@router.get("")
async def begin(request: Request, site: CurrentSite, to: Field = None) -> Response:
    """Send the visitor to the provider; `to` is the page to go on to."""
    provider = _provider(request, site)
    session = site.read_session(request)
    if session is None or session.member is not None:
        session = Session.new()
    back = f"{visible_origin(site.address, request)}{site.base}{router.prefix}/back"
    address = client_address(request)
    url = await asyncio.to_thread(provider.begin, address, session, local_path(to or "/"), back)
    return site.set_session(RedirectResponse(url, 303), session)


@router.get("/back")
async def come_back(
    request: Request, site: CurrentSite, state: Field = None, code: Field = None, iss: Field = None
) -> Response:
    """Sign in the visitor whom the provider sent back."""
    provider = _provider(request, site)
    fields = {"state": state, "code": code, "iss": iss}
    answer = {name: value for name, value in fields.items() if value is not None}
    identity, page = await asyncio.to_thread(provider.finish, site.read_session(request), answer)
    return await site.admit(request, identity, page)


def _provider(request: Request, site: WebSite) -> OidcProvider:
    """Return the site's provider, after counting an attempt."""
    if site.provider is None:
        raise NotFoundError
    if not site.provider_limiter.take(client_address(request)):
        raise TooManyRequestsError
    return site.provider
