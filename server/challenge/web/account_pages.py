"""The account page of a member: password, recovery codes, tokens and team."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from fastapi import Path as PathParameter

from ...web.errors import RefusedError, TooManyRequestsError
from ...web.forms import RowNumber, client_address, field_value, form_schema
from ...web.passwords import PASSWORD_LENGTH
from ...web.sessions import Session
from ..site import SignedIn, Site
from .dependencies import CurrentMember, CurrentSite, SentForm, read_password
from .sign_in_pages import limit_sign_in, needs_passwords

router = APIRouter(default_response_class=Response)

_ACCOUNT_FORM = form_schema("token", "old", "password", "again", "label")
_TEAM_FORM = form_schema("token", "name", "code")


@router.get("/account")
async def show_account(site: CurrentSite, visitor: CurrentMember) -> Response:
    """Show team, password, recovery codes and tokens."""
    return await _render_account(site, visitor)


@router.post("/account/password", openapi_extra=_ACCOUNT_FORM, dependencies=needs_passwords)
async def change_password(request: Request, site: CurrentSite, form: SentForm) -> Response:
    """Set another password; all other sessions end."""
    limit_sign_in(site, request, form.member.name)
    passwords = [read_password(form.fields, name) for name in ("old", "password", "again")]
    try:
        member = await site.accounts.change_password(form.member, *passwords)
    except RefusedError as error:
        return await _render_account(site, form.visitor, error)
    return site.begin_session(member, site.redirect("/account"))


@router.post("/account/codes", openapi_extra=_ACCOUNT_FORM, dependencies=needs_passwords)
async def renew_recovery_codes(request: Request, site: CurrentSite, form: SentForm) -> Response:
    """Replace the recovery codes and show the new ones once."""
    limit_sign_in(site, request, form.member.name)
    try:
        password = read_password(form.fields, "old")
        codes = await site.accounts.renew_recovery_codes(form.member, password)
    except RefusedError as error:
        return await _render_account(site, form.visitor, error)
    return site.render_for("recovery_codes.html", form.visitor, codes=codes, is_new_account=False)


@router.post("/account/signout", openapi_extra=_ACCOUNT_FORM)
async def sign_out_everywhere(site: CurrentSite, form: SentForm) -> Response:
    """End all sessions."""
    await site.accounts.sign_out_everywhere(form.member)
    return site.set_session(site.redirect("/signin"), Session.new())


@router.post("/account/tokens", openapi_extra=_ACCOUNT_FORM)
async def create_token(site: CurrentSite, form: SentForm) -> Response:
    """Create a token for programs and show it once."""
    try:
        token = await site.tokens.create(form.member, field_value(form.fields, "label"))
    except RefusedError as error:
        return await _render_account(site, form.visitor, error)
    return await _render_account(site, form.visitor, new_token=token)


@router.post("/account/tokens/{token}/revoke", openapi_extra=_ACCOUNT_FORM)
async def revoke_token(site: CurrentSite, form: SentForm, token: RowNumber) -> Response:
    """End a token."""
    await site.tokens.revoke(form.member, token)
    return site.redirect("/account")


@router.post("/team/invite", openapi_extra=_TEAM_FORM)
async def invite(site: CurrentSite, form: SentForm) -> Response:
    """Create an invitation code and show it once."""
    code = await site.teams.create_invitation(form.member)
    return await _render_account(site, form.visitor, new_invitation=code)


@router.post("/team/{act}", openapi_extra=_TEAM_FORM)
async def change_team(
    request: Request,
    site: CurrentSite,
    form: SentForm,
    act: Annotated[str, PathParameter(pattern="^(rename|join|leave)$")],
) -> Response:
    """Rename the team, join another, or leave for a new one."""
    if not site.joins.take(client_address(request)):  # so that nobody guesses codes
        raise TooManyRequestsError
    try:
        if act == "rename":
            await site.teams.rename(form.member, field_value(form.fields, "name"))
        elif act == "join":
            await site.teams.join(form.member, field_value(form.fields, "code")[:100])
        else:
            await site.teams.leave(form.member, field_value(form.fields, "name"))
    except RefusedError as error:
        return await _render_account(site, form.visitor, error)
    return site.redirect("/account")


async def _render_account(
    site: Site, visitor: SignedIn, error: RefusedError | None = None, **values: Any
) -> Response:
    """Return the account page, with an error or a new token or invitation."""
    member = visitor.member
    return site.render_for(
        "account.html",
        visitor,
        200 if error is None else 400,
        error="" if error is None else str(error),
        new_token=values.get("new_token", ""),
        new_invitation=values.get("new_invitation", ""),
        has_password=await site.accounts.has_password(member),
        n_recovery_codes=await site.accounts.count_recovery_codes(member),
        tokens=await site.tokens.list_active(member),
        team_members=await site.teams.list_members(member.team),
        password_length=PASSWORD_LENGTH,
    )
