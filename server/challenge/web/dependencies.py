"""Dependencies of the routes: the site, the visitor, the challenge of the address, a form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from fastapi import Path as PathParameter

from ...web.errors import RefusedError
from ...web.sessions import Session
from ...web.site import current_site
from ...web.visitors import field_value
from ..definition import Challenge
from ..site import SignedIn, Site, Visitor

#: The name of a challenge and the key of a submission in an address.
ChallengeName = Annotated[str, PathParameter(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
SubmissionKey = Annotated[str, PathParameter(pattern=r"^[0-9a-f]{16}$")]
#: The ending of a leaderboard's file.
BoardFormat = Annotated[str, PathParameter(alias="form", pattern="^(csv|json)$")]

FormFields = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class MemberForm(SignedIn):
    """A form, and the signed-in member who sent it."""

    fields: FormFields


@dataclass(frozen=True)
class AdminForm:
    """A form that the admin sent, with the reason for the decision."""

    fields: FormFields
    why: str


CurrentSite = Annotated[Site, Depends(current_site)]


async def get_visitor(request: Request, site: CurrentSite) -> Visitor:
    """Return the sender of the request."""
    return await site.identify(request)


async def get_signed_in(request: Request, site: CurrentSite) -> SignedIn:
    """Return the sender of the request, who must be signed in."""
    return await site.require_member(request)


CurrentVisitor = Annotated[Visitor, Depends(get_visitor)]
CurrentMember = Annotated[SignedIn, Depends(get_signed_in)]


async def get_challenge(site: CurrentSite, name: ChallengeName) -> Challenge:
    """Return the challenge of the address."""
    return site.store.get_challenge(name)


CurrentChallenge = Annotated[Challenge, Depends(get_challenge)]


async def read_member_form(
    request: Request, site: CurrentSite, visitor: CurrentMember
) -> MemberForm:
    """Return the form of a signed-in member's session."""
    fields = await site.read_form(request, visitor.session)
    return MemberForm(visitor.session, visitor.member, fields)


SentForm = Annotated[MemberForm, Depends(read_member_form)]


async def get_admin(request: Request, site: CurrentSite) -> Session:
    """Return the admin's session."""
    return site.require_admin(request)


AdminSession = Annotated[Session, Depends(get_admin)]


async def read_admin_form(request: Request, site: CurrentSite, session: AdminSession) -> AdminForm:
    """Return the form of an admin's decision; raise `RefusedError` if it gives no reason."""
    fields = await site.read_form(request, session)
    why = field_value(fields, "why")[:500]
    if not why:
        raise RefusedError("Give a reason; it is recorded.")

    return AdminForm(fields, why)


Decision = Annotated[AdminForm, Depends(read_admin_form)]


def read_password(fields: FormFields, name: str) -> str:
    """Return a password as it was typed, blanks included; empty unless there is exactly one."""
    values = fields.get(name, ())
    return values[0][:1000] if len(values) == 1 else ""
