"""The pages of signing up, signing in and recovering an account, and the account page of a member."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from fastapi import Path as PathParameter

from ....datasets.caption_texts import collapse_blanks
from ...texts import name_key
from ...web.errors import RefusedError, TooManyRequestsError
from ...web.passwords import PASSWORD_LENGTH
from ...web.sessions import Session
from ...web.visitors import RowNumber, client_address, field_value, form_schema, local_path
from ..site import SignedIn, Site, Visitor
from .dependencies import CurrentMember, CurrentSite, CurrentVisitor, SentForm, read_password

router = APIRouter(default_response_class=Response)

_FORM = form_schema("token", "name", "password", "again", "team", "code", "to")
_TOKEN_FORM = form_schema("token")


def limit_sign_in(site: Site, request: Request, name: str) -> None:
    """Count an attempt to sign in; an account has one limit however its name is spelt.

    Raises:
        TooManyRequestsError: if there were too many from the client's address or with the name.
    """
    is_allowed = site.sign_in_limiter.take(client_address(request))
    # Whoever has many addresses may guess one account's password no faster.
    if not is_allowed or not site.names.take(name_key(collapse_blanks(name))):
        raise TooManyRequestsError


@router.get("/signup")
async def show_sign_up(request: Request, site: CurrentSite, visitor: CurrentVisitor) -> Response:
    """Show the form of a new account."""
    if visitor.member:
        return site.redirect("/submissions")

    return _render_form(site, request, "up")


@router.post("/signup", openapi_extra=_FORM)
async def sign_up(request: Request, site: CurrentSite) -> Response:
    """Create an account and show its recovery codes once."""
    fields = await site.read_form(request, site.unsigned_session(request))
    values: dict[str, str] = {}
    for name in ("name", "team", "code"):
        values[name] = field_value(fields, name)[:100]

    if not site.joins.take(client_address(request)):
        raise TooManyRequestsError

    try:
        member, codes = await site.accounts.sign_up(
            name=values["name"],
            password=read_password(fields, "password"),
            repeated=read_password(fields, "again"),
            team_name=values["team"],
            invitation=values["code"],
        )
    except RefusedError as error:
        return _render_form(site, request, "up", 400, str(error), **values)

    session = Session.new(member.id, epoch=member.epoch)
    visitor = Visitor(session, member)
    page = site.render_for("recovery_codes.html", visitor, codes=codes, is_new_account=True)
    return site.set_session(page, session)


@router.get("/signin")
async def show_sign_in(
    request: Request, site: CurrentSite, visitor: CurrentVisitor, to: str = ""
) -> Response:
    """Show the form of name and password; `to` is the page to go on to."""
    page = local_path(to)
    if visitor.member:
        return site.redirect(page)

    return _render_form(site, request, "in", to=page)


@router.post("/signin", openapi_extra=_FORM)
async def sign_in(request: Request, site: CurrentSite) -> Response:
    """Sign in and go on to the page that the visitor came from."""
    fields = await site.read_form(request, site.unsigned_session(request))
    name = field_value(fields, "name")[:100]
    to = local_path(field_value(fields, "to"))
    limit_sign_in(site, request, name)

    error_text = "No account has that name and password."
    try:
        password = read_password(fields, "password")
        member = await site.accounts.sign_in(name, password, client_address(request))
    except RefusedError as error:
        member = None
        error_text = str(error)
    if member is None:
        return _render_form(site, request, "in", 403, error_text, name=name, to=to)

    return site.begin_session(member, site.redirect(to))


@router.get("/recover")
async def show_recovery(request: Request, site: CurrentSite, visitor: CurrentVisitor) -> Response:
    """Show the form of a recovery code."""
    if visitor.member:
        return site.redirect("/submissions")

    return _render_form(site, request, "recover")


@router.post("/recover", openapi_extra=_FORM)
async def recover(request: Request, site: CurrentSite) -> Response:
    """Set a new password by a recovery code."""
    fields = await site.read_form(request, site.unsigned_session(request))
    name = field_value(fields, "name")[:100]
    limit_sign_in(site, request, name)

    try:
        member = await site.accounts.recover(
            name=name,
            code=field_value(fields, "code")[:100],
            password=read_password(fields, "password"),
            repeated=read_password(fields, "again"),
            address=client_address(request),
        )
    except RefusedError as error:
        return _render_form(site, request, "recover", 400, str(error), name=name)
    if member is None:
        error_text = "That is no recovery code of that account, or it was used."
        return _render_form(site, request, "recover", 403, error_text, name=name)

    return site.begin_session(member, site.redirect("/account"))


@router.post("/signout", openapi_extra=_TOKEN_FORM)
async def sign_out(site: CurrentSite, form: SentForm) -> Response:
    """End this session; a copy of its cookie opens nothing any more."""
    await site.ended_sessions.add(form.session)
    return site.set_session(site.redirect("/"), Session.new())


def _render_form(
    site: Site, request: Request, kind: str, status: int = 200, error: str = "", **values: str
) -> Response:
    """Return the form `in`, `up` or `recover`, with the values that were typed."""
    session = site.unsigned_session(request)
    page = site.render_for(
        "sign_in.html",
        Visitor(session, None),
        status,
        kind=kind,
        error=error,
        values={"name": "", "team": "", "code": "", "to": "/", **values},
        password_length=PASSWORD_LENGTH,
    )

    return site.set_session(page, session)


_ACCOUNT_FORM = form_schema("token", "old", "password", "again", "label")
_TEAM_FORM = form_schema("token", "name", "code")


@router.get("/account")
async def show_account(site: CurrentSite, visitor: CurrentMember) -> Response:
    """Show team, password, recovery codes and tokens."""
    return await _render_account(site, visitor)


@router.post("/account/password", openapi_extra=_ACCOUNT_FORM)
async def change_password(request: Request, site: CurrentSite, form: SentForm) -> Response:
    """Set another password; all other sessions and all tokens end."""
    limit_sign_in(site, request, form.member.name)

    try:
        member = await site.accounts.change_password(
            form.member,
            current=read_password(form.fields, "old"),
            password=read_password(form.fields, "password"),
            repeated=read_password(form.fields, "again"),
        )
    except RefusedError as error:
        return await _render_account(site, form, error)

    return site.begin_session(member, site.redirect("/account"))


@router.post("/account/codes", openapi_extra=_ACCOUNT_FORM)
async def renew_recovery_codes(request: Request, site: CurrentSite, form: SentForm) -> Response:
    """Replace the recovery codes and show the new ones once."""
    limit_sign_in(site, request, form.member.name)

    try:
        password = read_password(form.fields, "old")
        codes = await site.accounts.renew_recovery_codes(form.member, password)
    except RefusedError as error:
        return await _render_account(site, form, error)

    return site.render_for("recovery_codes.html", form, codes=codes, is_new_account=False)


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
        return await _render_account(site, form, error)
    return await _render_account(site, form, new_token=token)


@router.post("/account/tokens/{token}/revoke", openapi_extra=_ACCOUNT_FORM)
async def revoke_token(site: CurrentSite, form: SentForm, token: RowNumber) -> Response:
    """End a token."""
    await site.tokens.revoke(form.member, token)
    return site.redirect("/account")


@router.post("/team/invite", openapi_extra=_TEAM_FORM)
async def invite(site: CurrentSite, form: SentForm) -> Response:
    """Create an invitation code and show it once."""
    code = await site.teams.create_invitation(form.member)
    return await _render_account(site, form, new_invitation=code)


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
        return await _render_account(site, form, error)

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
        n_recovery_codes=await site.accounts.count_recovery_codes(member),
        tokens=await site.tokens.list_active(member),
        team_members=await site.teams.list_members(member.team),
        password_length=PASSWORD_LENGTH,
    )
