"""A challenge site: its store, accounts, leaderboards and workers, as its pages use them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from fastapi import Request, Response
from fastapi.responses import HTMLResponse

from ...benchmarks.runs.tables import format_number
from ..texts import format_time
from ..web.errors import SignInRequiredError, TooManyRequestsError
from ..web.passwords import AdminAccount
from ..web.sessions import EndedSessions, Session
from ..web.site import PublicAddress, WebSite
from ..web.visitors import RateLimiter, client_address
from .accounts import Accounts, ApiTokens
from .audit_log import write_audit
from .definition import Challenge
from .leaderboard.board import Score, ScoreColumn
from .leaderboard.leaderboards import Leaderboards
from .members import Member, Teams
from .moderation import Moderation
from .submissions import Queries, SubmissionStore
from .worker_pool import WorkerPool


@dataclass(frozen=True)
class Visitor:
    """The sender of a request.

    Attributes:
        session: None without a cookie of this site.
        member: None if they are not signed in.
    """

    session: Session | None
    member: Member | None

    @property
    def team(self) -> int | None:
        """Return the visitor's team, if they are signed in."""
        return self.member.team if self.member else None


@dataclass(frozen=True)
class SignedIn:
    """The sender of a request who is signed in."""

    session: Session
    member: Member


class Site(WebSite):
    """A challenge site.

    Args:
        store: the challenges with their submissions.
        workers: check and evaluate; None if nobody does.
        title: of the site; empty for that of its challenge, or "captau" where there are several.
        address: the site as visitors see it.

    Attributes:
        requests: counts the requests of an account, or of an address without one.
        joins: counts the new accounts of an address.
        names: counts the sign-in attempts with a name, from any address.
    """

    def __init__(
        self,
        store: SubmissionStore,
        workers: WorkerPool | None = None,
        title: str = "",
        address: PublicAddress | None = None,
    ) -> None:
        limits = [challenge.limits for challenge in store.challenges.values()]
        # Of several challenges the highest limits hold.
        joins = max(limit.joins for limit in limits)
        requests = max(limit.requests for limit in limits)
        sign_ins = max(limit.logins for limit in limits)

        if not title:
            titles = [challenge.title for challenge in store.challenges.values()]
            title = titles[0] if len(titles) == 1 else "captau"
        self.title = title
        template_values = {
            "title": self.title,
            "format_score": format_score,
            "format_half_width": format_half_width,
            "format_time": format_time,
            "clock_warning": store.clock.warning,
        }
        super().__init__(
            package="captau.server.challenge",
            admin_account=AdminAccount(store.database),
            secret=store.secret,
            address=address or PublicAddress(),
            sign_ins=sign_ins,
            template_globals=template_values,
        )

        self.store = store
        self.workers = workers
        # Joins are counted by the minute, requests by the second, and sign-in attempts by ten minutes. Requests of three
        # seconds may come at once.
        self.joins = RateLimiter(burst=joins, rate=joins / 60)
        self.requests = RateLimiter(burst=3 * requests, rate=requests)
        # With one name, ten addresses together may sign in as often as each of them may.
        self.names = RateLimiter(burst=10 * sign_ins, rate=sign_ins / 60)

        self.ended_sessions = EndedSessions(store.database)
        self.accounts = Accounts(store.database, store.clock)
        self.teams = Teams(store.database, store.clock)
        self.tokens = ApiTokens(store.database, store.clock)
        self.queries = Queries(store)
        self.moderation = Moderation(store)
        self.leaderboards = Leaderboards(store, self.queries)

    @property
    def challenges(self) -> Mapping[str, Challenge]:
        """Return the challenges by name."""
        return self.store.challenges

    async def identify(self, request: Request) -> Visitor:
        """Return the sender of a request; raise `TooManyRequestsError` if they send too many."""
        session = self.read_session(request)
        if session is not None and session in self.ended_sessions:
            session = None

        account_id = session.member if session else None
        # Counted before the account is looked up, which costs a query.
        client = client_address(request) if account_id is None else str(account_id)
        if not self.requests.take(client):
            raise TooManyRequestsError

        if session is None or account_id is None:
            return Visitor(session, None)

        member = await self.accounts.find(account_id)
        if member is None or member.epoch != session.epoch:  # all sessions were ended since
            return Visitor(None, None)

        return Visitor(session, member)

    async def require_member(self, request: Request) -> SignedIn:
        """Return the sender of a request, who must be signed in.

        Raises:
            SignInRequiredError: if they are not; it leads to the sign-in page and back.
            TooManyRequestsError: if they send too many requests.
        """
        visitor = await self.identify(request)
        if visitor.session is None or visitor.member is None:
            query = ""
            # Visitors come back to pages alone: a form cannot be sent again after signing in.
            if request.method == "GET":
                page = request.url.path.removeprefix(self.base)
                if request.url.query:
                    # Question marks at the end say nothing.
                    page += f"?{request.url.query}".rstrip("?")
                query = f"?{urlencode({'to': page})}"
            raise SignInRequiredError(f"/signin{query}")

        return SignedIn(visitor.session, visitor.member)

    def begin_session(self, member: Member, response: Response) -> Response:
        """Return the response with a new session of a member."""
        return self.set_session(response, Session.new(member.id, epoch=member.epoch))

    async def log_admin_action(self, action: str, detail: str) -> None:
        """Record an action of the admin in the log."""
        now = self.store.clock()
        await self.store.database.run(
            lambda c: write_audit(c, now, None, action, "dashboard", detail)
        )

    def render_for(
        self, template: str, visitor: Visitor | SignedIn, status: int = 200, **variables: object
    ) -> HTMLResponse:
        """Return a page for a visitor; its forms carry the token of the visitor's session."""
        return self.render(template, visitor.session, status, member=visitor.member, **variables)


def format_score(value: float, column: ScoreColumn) -> str:
    """Return a score as tables print it."""
    return format_number(value, column.scale, column.decimals)


def format_half_width(score: Score, column: ScoreColumn) -> str:
    """Return half the width of a score's interval, as tables print it."""
    return format_number(score.half_width, column.scale, column.decimals)
