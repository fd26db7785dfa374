"""The JSON interface for programs: challenges, submissions by token, and their scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi import Path as PathParameter
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from fastapi.routing import APIRoute

from ...storage.database import BusyError, StoreError
from ...web.errors import NotFoundError, RefusedError, TooManyRequestsError
from ...web.visitors import client_address
from ..definition import Challenge
from ..members import Account
from ..site import Site
from ..submission_files import ENDINGS, store_upload, submit_upload
from ..submissions import Submission
from .dependencies import CurrentChallenge, CurrentSite
from .submission_pages import download_item_scores, shown_scores

SubmissionKey = Annotated[str, PathParameter(pattern=r"^[0-9a-f]{1,32}$")]

#: The body of a submission, for the interface's description.
_FILE_BODY = {
    "requestBody": {
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    }
}


class InvalidTokenError(Exception):
    """A request without a valid token."""


_BEARER = {"www-authenticate": "Bearer"}
_RETRY = {"retry-after": "5"}
#: The status, the message and the headers of each error; `{}` is the error's own text.
_ERRORS: dict[type[Exception], tuple[int, str, dict[str, str]]] = {
    InvalidTokenError: (401, "{}", _BEARER),
    NotFoundError: (
        404,
        "the site shows you nothing of this name; check the challenge, or the id of the submission",
        {},
    ),
    RefusedError: (409, "{}", {}),
    RequestValidationError: (422, "the request has an invalid or missing parameter", {}),
    TooManyRequestsError: (429, "too many at once; wait a few seconds", _RETRY),
    BusyError: (503, "the database is busy; wait a few seconds", _RETRY),
    StoreError: (507, "this could not be stored ({}); try again later", {}),
}


class JsonErrorRoute(APIRoute):
    """A route that returns errors as JSON."""

    def get_route_handler(self) -> Callable[[Request], Any]:
        """Return the handler of requests, with errors converted."""
        handle = super().get_route_handler()

        async def handle_errors(request: Request) -> Response:
            try:
                return await handle(request)
            except tuple(_ERRORS) as error:
                kind = next(kind for kind in _ERRORS if isinstance(error, kind))
                status, message, headers = _ERRORS[kind]
                return JSONResponse({"error": message.format(error)}, status, headers)

        return handle_errors


async def limit_requests(request: Request, site: CurrentSite) -> None:
    """Count a request of the client's address, with or without a token.

    Raises:
        TooManyRequestsError: if it sends too many.
    """
    if not site.requests.take(f"address {client_address(request)}"):
        raise TooManyRequestsError


router = APIRouter(
    prefix="/api",
    route_class=JsonErrorRoute,
    default_response_class=JSONResponse,
    dependencies=[Depends(limit_requests)],
)


async def authenticate(request: Request, site: CurrentSite) -> Account:
    """Return the account of the request's token.

    Raises:
        InvalidTokenError: if there is no valid token.
    """
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise InvalidTokenError("a token is needed: Authorization: Bearer TOKEN")

    account = await site.tokens.find_account(token.strip())
    if account is None:
        raise InvalidTokenError(
            "the site does not know this token, or it was revoked; make one on your account page"
        )

    return account


TokenAccount = Annotated[Account, Depends(authenticate)]


@router.get("/challenges")
async def list_challenges(site: CurrentSite) -> Any:
    """Return all challenges of the site."""
    now = site.store.clock()
    return {"challenges": [describe_challenge(c, now) for c in site.challenges.values()]}


@router.get("/challenges/{name}")
async def show_challenge(site: CurrentSite, challenge: CurrentChallenge) -> Any:
    """Return a challenge: what is submitted, when, how often."""
    return describe_challenge(challenge, site.store.clock())


@router.get("/challenges/{name}/items", response_class=FileResponse)
async def list_items(site: CurrentSite, challenge: CurrentChallenge) -> Any:
    """Return the items that a submission must caption or score, as JSON lines."""
    path = site.store.item_list(challenge)
    return FileResponse(path, media_type="application/x-ndjson", filename=path.name)


@router.post("/challenges/{name}/submissions", status_code=201, openapi_extra=_FILE_BODY)
async def submit(
    request: Request,
    site: CurrentSite,
    account: TokenAccount,
    challenge: CurrentChallenge,
    file: Annotated[str, Query(max_length=200)],
    system: Annotated[str, Query(max_length=200)] = "",
    note: Annotated[str, Query(max_length=4000)] = "",
) -> Any:
    """Submit a file, the request's body; its state is `received` until it is checked."""
    # Tested before the body is read, which may be long.
    await site.store.check_acceptance(challenge, account)
    upload = await store_upload(site.store, challenge, file, request.stream())
    await submit_upload(site.store, challenge, account, upload, system=system, note=note)

    return describe_submission(await site.store.load_submission(upload.key), site)


@router.get("/submissions")
async def list_submissions(site: CurrentSite, account: TokenAccount) -> Any:
    """Return the submissions of the token's team, newest first."""
    submissions = await site.queries.team_submissions(account.team)
    return {"submissions": [describe_submission(s, site) for s in submissions]}


@router.get("/submissions/{key}")
async def show_submission(site: CurrentSite, account: TokenAccount, key: SubmissionKey) -> Any:
    """Return a submission of the token's team: its state, faults and scores."""
    submission = await site.store.load_submission(key)
    if submission.team != account.team:
        raise NotFoundError

    return describe_submission(submission, site)


@router.get("/submissions/{key}/items.csv", response_class=Response)
async def download_items(site: CurrentSite, account: TokenAccount, key: SubmissionKey) -> Response:
    """Return the score of each caption, to its team, where the challenge shows it."""
    return await download_item_scores(site, key, account)


def describe_challenge(challenge: Challenge, now: float) -> dict[str, Any]:
    """Return the public fields of a challenge; times in seconds since 1970."""
    open_phase = challenge.open_phase(now)
    return {
        "name": challenge.name,
        "title": challenge.title,
        "kind": challenge.kind,
        "phases": [asdict(phase) for phase in challenge.phases],
        "open": None if open_phase is None else open_phase.name,
        "files": list(ENDINGS[challenge.kind]),
        "megabytes": challenge.limits.megabytes,
        "references": [references.name for references in challenge.reference_sets],
        "rank_by": challenge.rank_by,
        "per_item": challenge.per_item,
    }


#: The fields of `Submission` that its team sees under the same name.
_SUBMISSION_FIELDS = (
    "challenge",
    "phase",
    "system",
    "note",
    "file",
    "sha256",
    "bytes",
    "received_at",
    "state",
    "faults",
    "n_faults",
    "summary",
    "counts",
    "progress",
    "step",
    "reason",
)


def describe_submission(submission: Submission, site: Site) -> dict[str, Any]:
    """Return the fields of a submission that its team sees."""
    return {
        "id": submission.key,
        "url": f"{site.address.origin}{site.base}/submissions/{submission.key}",
        "team": submission.team_name,
        "done": submission.is_done,
        **{name: getattr(submission, name) for name in _SUBMISSION_FIELDS},
        "scores": shown_scores(site, submission),
        "run": submission.result.run if submission.result else None,
    }
