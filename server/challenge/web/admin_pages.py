"""The pages of whoever runs the site: what is public, what stands, who takes part, what was done."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Annotated

from fastapi import APIRouter, Request, Response
from fastapi import Path as InPath

from ...web.errors import RefusedError
from ...web.forms import RowNumber, field_value, form_schema
from ...web.sessions import Session
from ..leaderboard.board import ALPHA
from ..submission_store import STATES
from .app import Site
from .challenge_pages import Key, Name, board_response

_FORM = form_schema("token", "why", "challenge")
#: How many submissions and entries of the log a page shows.
_MOST = 200


def routes(site: Site) -> APIRouter:
    """The admin's routes."""
    router = APIRouter(prefix="/admin", default_response_class=Response)
    store, records, people, views = site.store, site.records, site.accounts, site.views

    async def reason(request: Request) -> tuple[Session, dict[str, list[str]], str]:
        """A form, and the reason that it gives.

        Raises:
            RefusedError: where it gives none.
        """
        session = site.require_admin(request)
        fields = dict(await site.read_form(request, session))
        why = field_value(fields, "why")[:500]
        if not why:
            raise RefusedError("Say why; it is written down.")
        return session, fields, why

    @router.get("")
    async def dashboard(request: Request) -> Response:
        """How it goes."""
        session = site.require_admin(request)
        found = await records.everything()
        challenges = [
            {
                "one": challenge,
                "open": challenge.phase(store.clock()),
                "state": await records.state(challenge),
                "counts": Counter(s.state for s in found if s.challenge == challenge.name),
            }
            for challenge in store.challenges.values()
        ]
        everybody = await people.everybody()
        return site.render(
            "admin.html",
            session,
            challenges=challenges,
            states=STATES,
            found=found[:_MOST],
            n_found=len(found),
            told=views.told,
            everybody=everybody,
            teams=await records.teams(),
            log=await people.audited(_MOST),
            names={a["id"]: a["name"] for a in everybody},
        )

    @router.get("/challenges/{name}/board")
    async def board(request: Request, name: Name) -> Response:
        """A leaderboard with all that is on it, hidden submissions too."""
        session = site.require_admin(request)
        challenge = store.challenge(name)
        asked = views.asked(challenge, request.query_params)
        seen = await views.board(challenge, asked, None, all_=True)
        return site.render(
            "admin_board.html",
            session,
            one=challenge,
            asked=asked,
            seen=seen,
            board=seen.board,
            alpha=ALPHA,
            home=f"/admin/challenges/{name}/board",
        )

    @router.get("/challenges/{name}/board.{form}")
    async def board_file(
        request: Request, name: Name, form: Annotated[str, InPath(pattern="^(csv|json)$")]
    ) -> Response:
        """The same as a file, with all digits."""
        site.require_admin(request)
        challenge = store.challenge(name)
        asked = views.asked(challenge, request.query_params)
        return board_response((await views.board(challenge, asked, None, all_=True)).board, form)

    @router.post("/challenges/{name}/{act}", openapi_extra=_FORM)
    async def decide(
        request: Request,
        name: Name,
        act: Annotated[str, InPath(pattern="^(publish|unpublish|freeze|unfreeze)$")],
    ) -> Response:
        """Who sees a leaderboard, and whether submissions are taken."""
        _, _, why = await reason(request)
        challenge = store.challenge(name)
        if act.endswith("publish"):
            await records.publish(challenge, why, on=act == "publish")
        else:
            await records.freeze(challenge, why, on=act == "freeze")
        return site.redirect("/admin")

    @router.get("/submissions/{key}")
    async def submission(request: Request, key: Key) -> Response:
        """A submission, and what may be said of it."""
        session = site.require_admin(request)
        sub = await store.submission(key)
        challenge = store.challenge(sub.challenge)
        return site.render("admin_submission.html", session, **views.submission(challenge, sub))

    @router.post("/submissions/{key}/{act}", openapi_extra=_FORM)
    async def stand(
        request: Request,
        key: Key,
        act: Annotated[str, InPath(pattern="^(hidden|disqualified|reinstate|requeue)$")],
    ) -> Response:
        """Hide a submission, disqualify it, take that back, or evaluate once more what failed."""
        _, _, why = await reason(request)
        if act == "requeue":
            number = await records.requeue(key, why)
            if site.workers is not None:
                await asyncio.to_thread(site.workers.wake, "evaluate", number)
        else:
            await records.stand(key, "" if act == "reinstate" else act, why)
        return site.redirect(f"/admin/submissions/{key}")

    @router.post("/teams/{number}/forgive", openapi_extra=_FORM)
    async def forgive(request: Request, number: RowNumber) -> Response:
        """Let a team's submissions so far count no more against its limits."""
        _, fields, why = await reason(request)
        await records.forgive(store.challenge(field_value(fields, "challenge")), number, why)
        return site.redirect("/admin")

    @router.post("/accounts/{number}/{act}", openapi_extra=_FORM)
    async def block(
        request: Request,
        number: RowNumber,
        act: Annotated[str, InPath(pattern="^(block|unblock)$")],
    ) -> Response:
        """Block an account, or let it in again."""
        _, _, why = await reason(request)
        await people.block(number, why, shut=act == "block")
        return site.redirect("/admin")

    return router
