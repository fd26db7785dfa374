"""The base class of both sites: its address, pages, sessions and forms."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from fastapi import Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from python_multipart.exceptions import FormParserError
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from ...datasets.errors import InputError
from ..storage.database import StoreError
from ..texts import ENGLISH, Language
from .errors import RefusedError, SignInRequiredError
from .passwords import AdminAccount
from .sessions import ADMIN_AGE, MEMBER_AGE, Session, Sessions
from .visitors import RateLimiter


@dataclass(frozen=True)
class PublicAddress:
    """Parts of the address under which visitors see a site.

    Attributes:
        base: the path under which a proxy shows the site, without a slash at its end.
        secure: whether it is served by https.
        origin: scheme and host; empty if `url=` was not set.
    """

    base: str = ""
    secure: bool = False
    origin: str = ""


def parse_public_address(url: str | None) -> PublicAddress:
    """Read the option `url=`.

    Raises:
        InputError: if it is no http or https address.
    """
    parts = urlsplit(url or "")
    if url and (parts.scheme not in ("http", "https") or not parts.netloc):
        raise InputError(f"url={url}: http://… or https://… is expected")

    origin = f"{parts.scheme}://{parts.netloc}" if parts.netloc else ""
    return PublicAddress(
        base=parts.path.rstrip("/"),
        secure=parts.scheme == "https",
        origin=origin,
    )


def visible_origin(address: PublicAddress, request: Request) -> str:
    """Return scheme and host for links that people copy: those of `url=`, else of the port that was asked.

    The header `Host` is whatever a visitor writes, and is not used.
    """
    if address.origin:
        return address.origin

    host, port = request.scope["server"]
    bracketed = f"[{host}]" if ":" in host else host
    return f"{request.scope['scheme']}://{bracketed}:{port}"


class WebSite:
    """A site's pages, sessions and forms; the routers of each site receive a subclass.

    Args:
        package: its `templates/` are looked up before the shared ones.
        admin_account: the admin's password and sessions.
        secret: signs sessions and forms.
        address: the site as visitors see it.
        sign_ins: the attempts to sign in that an address has in ten minutes.
        template_globals: variables and functions for every template; `title` is needed.
        language: of the pages, if their templates ask for translations.

    Attributes:
        setup_code: lets its holder choose the admin's password, once.
    """

    def __init__(
        self,
        package: str,
        admin_account: AdminAccount,
        secret: bytes,
        address: PublicAddress,
        sign_ins: int,
        template_globals: Mapping[str, Any],
        language: Language = ENGLISH,
    ) -> None:
        self.admin_account = admin_account
        self.address = address
        self.base = address.base
        self.setup_code = secrets.token_urlsafe(16)
        self.sessions = Sessions(secret)
        self.sign_in_limiter = RateLimiter(sign_ins, sign_ins / 600)
        self._templates = Environment(
            loader=ChoiceLoader([PackageLoader(package), PackageLoader("captau.server.web")]),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self.translate = language.translate
        shared: dict[str, Any] = {
            "base": self.base,
            "lang": language.code,
            "_": self.translate,
            **template_globals,
        }
        self._templates.globals.update(shared)

    def read_session(self, request: Request, *, admin: bool = False) -> Session | None:
        """Return a request's session, of a member or of the admin; None if it has none."""
        cookie = request.cookies.get("captau_admin" if admin else "captau")
        session = self.sessions.read(cookie, ADMIN_AGE if admin else MEMBER_AGE)
        if session is None or session.admin != admin:
            return None

        is_signed_in = session.member is not None
        # Signing out ends the admin's sessions in every browser.
        if admin and is_signed_in and session.epoch != self.admin_account.epoch:
            return None

        return session

    def unsigned_session(self, request: Request, *, admin: bool = False) -> Session:
        """Return the request's session if nobody signed in with it, else a new one."""
        session = self.read_session(request, admin=admin)
        if session is None or session.member:
            return Session.new(admin=admin)

        return session

    def require_admin(self, request: Request) -> Session:
        """Return the admin's session.

        Raises:
            SignInRequiredError: if the admin is not signed in.
        """
        session = self.read_session(request, admin=True)
        if session is None or not session.member:
            raise SignInRequiredError("/admin/login")

        return session

    def render(
        self, template: str, session: Session | None = None, status: int = 200, **variables: Any
    ) -> HTMLResponse:
        """Render a page; its forms carry the session's token."""
        token = self.sessions.token(session) if session else ""
        text = self._templates.get_template(template).render(token=token, **variables)
        return HTMLResponse(text, status)

    def set_session(self, response: Response, session: Session) -> Response:
        """Add the cookie of a session to a response, and return it."""
        response.set_cookie(
            "captau_admin" if session.admin else "captau",
            self.sessions.write(session),
            max_age=ADMIN_AGE if session.admin else MEMBER_AGE,
            # The admin's cookie goes to the admin's pages alone.
            path=f"{self.base}/admin" if session.admin else self.base or "/",
            httponly=True,
            # A link from elsewhere, as a crowd platform's, finds a member signed in.
            samesite="strict" if session.admin else "lax",
            secure=self.address.secure,
        )
        return response

    def redirect(self, path: str) -> RedirectResponse:
        """Send the browser to a page of this site, by GET."""
        return RedirectResponse(self.base + path, 303)

    async def log_admin_action(self, action: str, detail: str) -> None:
        """Record an action of the admin; a site without such a log does nothing.

        Args:
            action: such as `sign in`.
            detail: such as the address that it came from.
        """

    async def read_form(self, request: Request, session: Session | None) -> Mapping[str, list[str]]:
        """Return the values of a form by field.

        Raises:
            RefusedError: if the form was not written for this session.
        """
        fields, _ = await self.read_form_and_file(request, session, files=0)
        return fields

    async def read_form_and_file(
        self, request: Request, session: Session | None, *, files: int = 1
    ) -> tuple[Mapping[str, list[str]], UploadFile | None]:
        """Return the values of a form by field, and the uploaded file.

        Raises:
            RefusedError: if the form was not written for this session.
            StoreError: if the disk is full.
        """
        try:
            data = await request.form(max_files=files, max_fields=1000)
        except (HTTPException, FormParserError) as error:  # the second before Starlette 1.7
            raise RefusedError("This form does not belong to this site.") from error
        except OSError as error:
            raise StoreError(error.strerror or type(error).__name__) from error

        fields: dict[str, list[str]] = {}
        file: UploadFile | None = None
        for name, value in data.multi_items():
            if isinstance(value, str):
                # No database stores half of a surrogate pair, or NUL.
                text = value.encode("utf-8", "replace").decode().replace("\0", "")
                fields.setdefault(name, []).append(text)
            else:
                file = value

        token = fields.pop("token", [""])[0]
        if session is None or not self.sessions.is_token_of(session, token):
            raise RefusedError(
                "This page was open for too long, or in another browser. Go back, reload the page and try again."
            )

        return fields, file


async def current_site(request: Request) -> WebSite:
    """Return the site of a request, for routers that declare it with `Depends`."""
    return request.app.state.site
