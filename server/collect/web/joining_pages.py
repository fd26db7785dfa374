"""Pages on which people join a study, by consent, invitation or a crowd platform's link."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from ...person_names import NAME_RULE, collapse_blanks, is_valid_name
from ...web.errors import RefusedError, TooManyRequestsError
from ...web.forms import client_address, field_value, form_schema
from ...web.sessions import Session
from .path_types import Key
from .site import CurrentSite, StudySite

_FORM = form_schema("token", "consent", "nickname", "worker", "invitation")

router = APIRouter(default_response_class=Response)


def landing_page(
    site: StudySite, session: Session | None, status: int = 200, **variables: Any
) -> Response:
    """Render the page that introduces the study and asks for consent."""
    session = session or Session.new()
    defaults = {"fault": "", "worker": "", "invitation": "", "nickname": ""}
    defaults["identity"] = session.identity
    page = site.render("landing.html", session, status, **{**defaults, **variables})
    return site.set_session(page, session)


@router.get("/")
async def show_landing(request: Request, site: CurrentSite) -> Response:
    """Introduce the study; participants go on to rate."""
    session = site.read_session(request)
    worker = request.query_params.get(site.study.worker_parameter, "")[:200]
    if (
        session is not None
        and session.member is not None
        and await site.store.participants.is_participant(session.member, worker)
    ):
        return site.redirect("/rate")
    anonymous = session if session and session.member is None else None
    return landing_page(site, anonymous, worker=worker)


@router.get("/i/{token}")
async def open_invitation(request: Request, token: Key, site: CurrentSite) -> Response:
    """Let the holder of a personal link join, or come back from another device."""
    if not site.join_limiter.take(client_address(request)):
        raise TooManyRequestsError
    rater_id = await site.store.participants.find_invited(token)
    if rater_id is not None:
        return site.set_session(site.redirect("/rate"), Session.new(rater_id))
    return landing_page(site, None, invitation=token)


@router.post("/join", openapi_extra=_FORM)
async def join(request: Request, site: CurrentSite) -> Response:
    """Join the study."""
    session = site.read_session(request)
    if session is not None and session.member is not None:
        return site.redirect("/rate")
    fields = await site.read_form(request, session)
    nickname = collapse_blanks(field_value(fields, "nickname"))
    worker, token = field_value(fields, "worker")[:200], field_value(fields, "invitation")[:64]
    variables = {"nickname": nickname[:64], "worker": worker, "invitation": token}
    fault, identity = "", session.identity if session else ""
    if identity:  # who may have joined in another browser since this one signed them in
        rater_id = await site.store.participants.find_identity(identity)
        if rater_id is not None:
            return site.set_session(site.redirect("/rate"), Session.new(rater_id))
    if site.provider and site.provider.is_only and not identity:
        fault = "Sign in to take part."
    elif field_value(fields, "consent") != "yes":
        fault = "Tick the box to take part."
    elif nickname and not (site.study.nicknames and is_valid_name(nickname)):
        fault = f"A nickname has {NAME_RULE}."
    if fault:
        return landing_page(site, session, 400, fault=fault, **variables)
    if not site.join_limiter.take(client_address(request)):
        raise TooManyRequestsError
    try:
        rater_id = await site.store.participants.join(nickname, worker, token, identity)
    except RefusedError as error:
        return landing_page(site, session, 400, fault=str(error), **variables)
    return site.set_session(site.redirect("/rate"), Session.new(rater_id))


@router.get("/health")
async def check_health(
    site: CurrentSite, check: Annotated[str, Query(max_length=20)] = ""
) -> Response:
    """Answer if the database does; for monitoring."""
    del check
    await site.admin_account.load_password_hash()
    return Response("ok\n", media_type="text/plain")
