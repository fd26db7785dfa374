"""The web application of a site of challenges."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse

from ...web import admin_signin
from ...web.admin_account import AdminAccount
from ...web.application import build_application
from ...web.errors import SignInRequiredError, TooManyRequestsError
from ...web.forms import client_address
from ...web.public_address import PublicAddress
from ...web.rate_limits import RateLimiter
from ...web.request_guard import MAX_BODY_BYTES
from ...web.sessions import Session
from ...web.site import WebSite
from ..accounts.accounts import Accounts, Member
from ..definition_file import Challenge, Limits
from ..leaderboard.board_view import Views, half, shown, when
from ..moderation import Records
from ..submission_store import Store, write_audit
from ..workers.worker import Workers


class Site(WebSite):
    """What every page of a site needs.

    Args:
        store: the challenges in their database.
        workers: who checks and evaluates; None where nobody does.
        title: of the site.
        address: as for `WebSite`.

    Attributes:
        limits: what one address or account may ask for: of several challenges the most.
        requests: counts what an account, or an address without one, asks for.
        joins: counts new accounts of an address.
        names: counts tries to sign in by a name, from wherever.
        accounts, records, views: what pages ask, and show.
    """

    def __init__(
        self,
        store: Store,
        workers: Workers | None = None,
        title: str = "",
        address: PublicAddress | None = None,
    ) -> None:
        every = [c.limits for c in store.challenges.values()]
        self.limits = Limits(
            joins=max(one.joins for one in every),
            logins=max(one.logins for one in every),
            requests=max(one.requests for one in every),
        )
        first = next(iter(store.challenges.values()))
        named = title or (first.title if len(every) == 1 else "Challenges")
        keeper = AdminAccount(store.database)
        known = {"title": named, "shown": shown, "half": half, "when": when}
        super().__init__(
            "captau.server.challenge",
            keeper,
            store.secret,
            address or PublicAddress(),
            self.limits.logins,
            known,
        )
        self.store, self.workers, self.title = store, workers, named
        self.joins = RateLimiter(self.limits.joins, self.limits.joins / 60)
        self.requests = RateLimiter(self.limits.requests * 3, self.limits.requests)
        self.names = RateLimiter(10 * self.limits.logins, self.limits.logins / 60)
        self.accounts = Accounts(store.database, store.clock)
        self.records = Records(store)
        self.views = Views(store, self.records)

    @property
    def challenges(self) -> Mapping[str, Challenge]:
        """By name."""
        return self.store.challenges

    async def onlooker(self, request: Request) -> tuple[Session | None, Member | None]:
        """Who asks, if they are signed in.

        Raises:
            TooManyRequestsError: where they ask too often.
        """
        session = self.read_session(request)
        number = session.member if session else None
        if not self.requests.take(client_address(request) if number is None else str(number)):
            raise TooManyRequestsError
        if session is None or number is None:
            return session, None
        member = await self.accounts.get(number)
        # Signed in before everybody was signed out?
        if member is None or member.epoch != session.epoch:
            return None, None
        return session, member

    async def member(self, request: Request) -> tuple[Session, Member]:
        """Who is signed in.

        Raises:
            SignInRequiredError: where nobody is.
            TooManyRequestsError: where they ask too often.
        """
        session, member = await self.onlooker(request)
        if session is None or member is None:
            here = request.url.path.removeprefix(self.base) + f"?{request.url.query}".rstrip("?")
            back = f"?{urlencode({'to': here})}" if request.method == "GET" else ""
            raise SignInRequiredError(f"/signin{back}")
        return session, member

    async def log_admin_action(self, action: str, detail: str) -> None:
        """Take down what was done with the admin's password."""
        now = self.store.clock()
        await self.store.database.run(
            lambda c: write_audit(c, now, None, action, "dashboard", detail)
        )

    def show(
        self,
        name: str,
        session: Session | None,
        member: Member | None,
        status: int = 200,
        **values: Any,
    ) -> HTMLResponse:
        """A page of those who take part."""
        return self.render(name, session, status, me=member, **values)


def make_app(site: Site) -> FastAPI:
    """The application; it ends the workers and closes the database when it ends."""
    from . import admin_pages as admin
    from . import challenge_pages as pages
    from . import json_api as api

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncGenerator[None]:
        del app
        if site.workers is not None:
            site.workers.start()
        yield
        if site.workers is not None:
            site.workers.stop()
        site.store.database.close()

    routers = (api.routes(site), pages.routes(site), admin.routes(site), admin_signin.router)
    return build_application(site, routers, life, body_limit=most_bytes(site), title=site.title)


def most_bytes(site: Site) -> Callable[[str], int]:
    """The most bytes of a body, by path: where submissions go, what the challenge takes."""
    most = {
        f"{site.base}/{way}/{c.name}/submissions": (c.limits.megabytes << 20) + MAX_BODY_BYTES
        for c in site.challenges.values()
        for way in ("api/challenges", "challenges")
    }
    return lambda path: most.get(path, MAX_BODY_BYTES)
