"""What programs ask for: submissions by token, and what became of them, as JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi import Path as InPath
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from fastapi.routing import APIRoute

from ...storage.database import StoreError
from ...web.errors import NotFoundError, RefusedError, TooManyRequestsError
from ...web.forms import client_address
from ..definition_file import Challenge, Phase
from ..intake import uploads as intake
from ..submission_store import Account, Submission
from ..workers.worker import listing
from .app import Site
from .challenge_pages import items_response

Key = Annotated[str, InPath(pattern=r"^[0-9a-f]{1,32}$")]
Name = Annotated[str, InPath(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]

#: What a body is, for whoever reads the interface's description.
_BYTES = {
    "requestBody": {
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    }
}


class UnknownError(Exception):
    """No token, or none that holds."""


class _Told(APIRoute):
    """A route that says as JSON what went wrong."""

    def get_route_handler(self) -> Callable[[Request], Any]:
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            try:
                return await handle(request)
            except UnknownError:
                return _error(401, "a token is needed: Authorization: Bearer TOKEN", bearer=True)
            except NotFoundError:
                return _error(404, "there is no such thing, or it is somebody else's")
            except RefusedError as error:
                return _error(409, str(error))
            except RequestValidationError:
                return _error(422, "this is not asked for like that")
            except TooManyRequestsError:
                return _error(429, "too many at once; wait a few seconds")
            except StoreError as error:
                return _error(507, f"this could not be stored ({error}); try again later")

        return handled


def _error(status: int, text: str, *, bearer: bool = False) -> Response:
    headers = {"www-authenticate": "Bearer"} if bearer else {}
    if status == 429:
        headers["retry-after"] = "5"
    return JSONResponse({"error": text}, status, headers)


def routes(site: Site) -> APIRouter:
    """The routes under `/api`."""
    router = APIRouter(prefix="/api", route_class=_Told, default_response_class=JSONResponse)
    store = site.store

    async def who(request: Request) -> Account:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not token.strip():
            raise UnknownError
        if not site.requests.take(f"address {client_address(request)}"):
            raise TooManyRequestsError
        account = await store.by_token(token.strip())
        if account is None:
            raise UnknownError
        return account

    @router.get("/challenges")
    async def challenges(request: Request) -> Any:
        """All challenges of the site."""
        del request
        now = store.clock()
        return {"challenges": [told_challenge(c, now) for c in site.challenges.values()]}

    @router.get("/challenges/{name}")
    async def challenge(name: Name) -> Any:
        """A challenge: what is submitted, when, how often."""
        return told_challenge(store.challenge(name), store.clock())

    @router.get("/challenges/{name}/items", response_class=FileResponse)
    async def items(name: Name) -> Any:
        """What a submission has to have a caption or score of, as JSON lines."""
        path = listing(store, store.challenge(name))
        if not path.exists():
            raise RefusedError("this is being prepared; ask again in a few seconds")
        return FileResponse(path, media_type="application/x-ndjson", filename=path.name)

    @router.post("/challenges/{name}/submissions", status_code=201, openapi_extra=_BYTES)
    async def submit(
        request: Request,
        name: Name,
        file: Annotated[str, Query(max_length=200)],
        system: Annotated[str, Query(max_length=200)] = "",
        note: Annotated[str, Query(max_length=4000)] = "",
    ) -> Any:
        """Submit a file, the request's body; its state is `received` until it is checked."""
        account = await who(request)
        chosen = store.challenge(name)
        # Before the body is read, which may be long.
        await store.database.run(lambda c: store.may_submit(c, chosen, account))
        sent = await intake.take(store, chosen, file, request.stream())
        number = await intake.receive(store, chosen, account, sent, system, note)
        if site.workers is not None:
            await asyncio.to_thread(site.workers.wake, "check", number)
        return told(await store.submission(sent.key), site)

    @router.get("/submissions")
    async def ours(request: Request) -> Any:
        """The submissions of one's team, newest first."""
        account = await who(request)
        found = await site.records.of_team(account.team)
        return {"submissions": [told(one, site) for one in found]}

    @router.get("/submissions/{key}")
    async def state(request: Request, key: Key) -> Any:
        """What became of a submission of one's team: its state, faults, scores."""
        account = await who(request)
        found = await store.submission(key)
        if found.team != account.team:
            raise NotFoundError
        return told(found, site)

    @router.get("/submissions/{key}/items.csv", response_class=Response)
    async def scores_of_items(request: Request, key: Key) -> Response:
        """The score of each caption, to its team, where the challenge allows it."""
        return await items_response(store, key, await who(request))

    return router


def told_challenge(one: Challenge, now: float) -> dict[str, Any]:
    """A challenge as everybody may know it."""
    open_now = one.phase(now)
    return {
        "name": one.name,
        "title": one.title,
        "kind": one.kind,
        "phases": [told_phase(p) for p in one.phases],
        "open": None if open_now is None else open_now.name,
        "files": list(intake.ENDINGS[one.kind]),
        "megabytes": one.limits.megabytes,
        "references": [r.name for r in one.references],
        "rank_by": one.rank_by,
        "per_item": one.per_item,
    }


def told_phase(one: Phase) -> dict[str, Any]:
    """A phase; times in seconds since 1970."""
    return vars(one)


def told(one: Submission, site: Site) -> dict[str, Any]:
    """A submission as its team may know it."""
    found: dict[str, Any] = {
        "id": one.key,
        "url": f"{site.address.origin}{site.base}/submissions/{one.key}",
        "challenge": one.challenge,
        "phase": one.phase,
        "team": one.team_name,
        "system": one.system,
        "note": one.note,
        "file": one.file,
        "sha256": one.sha256,
        "bytes": one.bytes,
        "received_at": one.received_at,
        "state": one.state,
        "done": one.done,
        "faults": one.faults,
        "n_faults": one.n_faults,
        "summary": one.summary,
        "counts": one.counts,
        "progress": one.progress,
        "step": one.step,
        "reason": one.reason,
        "scores": None,
        "run": None,
    }
    if one.result is not None:
        found |= {"scores": site.views.scores(one), "run": one.result.run}
    return found
