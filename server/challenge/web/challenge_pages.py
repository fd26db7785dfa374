"""The pages of challenges: the list, a challenge's page, its form of submission and its leaderboard."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse
from starlette.datastructures import UploadFile

from ...web.errors import RefusedError
from ...web.site import visible_origin
from ...web.visitors import field_value
from ..definition import Challenge
from ..leaderboard.board import ALPHA, Board
from ..site import SignedIn, Site
from ..submission_files import ENDINGS, store_upload, submit_upload
from .dependencies import BoardFormat, CurrentChallenge, CurrentMember, CurrentSite, CurrentVisitor
from .submission_pages import make_download

router = APIRouter(default_response_class=Response)

_TEXT = {"type": "string"}
_UPLOAD_SCHEMA = {
    "type": "object",
    "properties": {
        "token": _TEXT,
        "system": _TEXT,
        "note": _TEXT,
        "file": {**_TEXT, "format": "binary"},
    },
}
_UPLOAD_FORM = {"requestBody": {"content": {"multipart/form-data": {"schema": _UPLOAD_SCHEMA}}}}


@router.get("/")
async def list_challenges(site: CurrentSite, visitor: CurrentVisitor) -> Response:
    """Show all challenges of the site."""
    now = site.store.clock()
    member = visitor.member

    challenges: list[dict[str, Any]] = []
    for challenge in site.challenges.values():
        values = {
            "definition": challenge,
            "open_phase": challenge.open_phase(now),
            "allowance": await site.queries.allowance(challenge, member) if member else None,
            "status": await site.queries.challenge_status(challenge),
        }
        challenges.append(values)

    return site.render_for("challenges.html", visitor, challenges=challenges)


@router.get("/challenges/{name}")
async def show_challenge(
    request: Request, site: CurrentSite, visitor: CurrentVisitor, challenge: CurrentChallenge
) -> Response:
    """Show what a challenge asks, when, and how to take part."""
    origin = visible_origin(site.address, request)
    member = visitor.member
    return site.render_for(
        "challenge.html",
        visitor,
        challenge=challenge,
        open_phase=challenge.open_phase(site.store.clock()),
        allowance=await site.queries.allowance(challenge, member) if member else None,
        challenge_status=await site.queries.challenge_status(challenge),
        columns=site.leaderboards.columns[challenge.name],
        endings=ENDINGS[challenge.kind],
        site_url=f"{origin}{site.base}",
        current_page=f"/challenges/{challenge.name}",
    )


@router.get("/challenges/{name}/submit")
async def show_submit_form(
    site: CurrentSite, visitor: CurrentMember, challenge: CurrentChallenge
) -> Response:
    """Show the form of submission."""
    return await _render_submit_form(site, visitor, challenge)


@router.post("/challenges/{name}/submissions", openapi_extra=_UPLOAD_FORM)
async def submit(
    request: Request, site: CurrentSite, visitor: CurrentMember, challenge: CurrentChallenge
) -> Response:
    """Take a submission; it is on the disk before it is acknowledged."""
    fields, file = await site.read_form_and_file(request, visitor.session)
    try:
        if file is None or not file.filename:
            raise RefusedError("Choose a file.")
        upload = await store_upload(site.store, challenge, file.filename, _read_pieces(file))
        await submit_upload(
            site.store,
            challenge,
            visitor.member,
            upload,
            system=field_value(fields, "system"),
            note=field_value(fields, "note"),
        )
    except RefusedError as error:
        return await _render_submit_form(site, visitor, challenge, str(error), 400)
    finally:
        if file is not None:
            await file.close()

    return site.redirect(f"/submissions/{upload.key}")


async def _render_submit_form(
    site: Site, visitor: SignedIn, challenge: Challenge, error: str = "", status: int = 200
) -> Response:
    return site.render_for(
        "submit.html",
        visitor,
        status,
        challenge=challenge,
        open_phase=challenge.open_phase(site.store.clock()),
        allowance=await site.queries.allowance(challenge, visitor.member),
        endings=ENDINGS[challenge.kind],
        error=error,
    )


#: The bytes of an upload that are held in memory at a time.
_PIECE_BYTES = 1 << 20


async def _read_pieces(file: UploadFile) -> AsyncIterator[bytes]:
    piece = await file.read(_PIECE_BYTES)
    while piece:
        yield piece
        piece = await file.read(_PIECE_BYTES)


@router.get("/challenges/{name}/board")
async def show_leaderboard(
    request: Request, site: CurrentSite, visitor: CurrentVisitor, challenge: CurrentChallenge
) -> Response:
    """Show the leaderboard that the address describes."""
    boards = site.leaderboards
    board_request = boards.read_request(challenge, request.query_params)
    page = f"/challenges/{challenge.name}/board"

    async def render() -> bytes:
        response = site.render_for(
            "leaderboard.html",
            visitor,
            challenge=challenge,
            request=board_request,
            visible=await boards.build(challenge, board_request, visitor.team),
            alpha=ALPHA,
            board_page=page,
            current_page=f"{page}?{board_request.query_string()}",
        )
        return bytes(response.body)

    # A member's page has their names, and the token of their session.
    reader = None
    if visitor.session is not None and visitor.member is not None:
        reader = (visitor.session.name, visitor.member)
    key = (challenge.name, board_request, reader)
    revision = partial(site.queries.board_revision, challenge)

    return HTMLResponse(await boards.pages.get(key, revision, render))


@router.get("/challenges/{name}/board.{form}")
async def download_leaderboard(
    request: Request,
    site: CurrentSite,
    visitor: CurrentVisitor,
    challenge: CurrentChallenge,
    file_format: BoardFormat,
) -> Response:
    """Return the same leaderboard as CSV or JSON."""
    board_request = site.leaderboards.read_request(challenge, request.query_params)
    visible = await site.leaderboards.build(challenge, board_request, visitor.team)
    return download_board(visible.board, file_format)


def download_board(board: Board, file_format: str) -> Response:
    """Return a leaderboard as a file, `csv` or `json`."""
    text = board.to_csv() if file_format == "csv" else board.to_json()
    return make_download(text, f"{board.challenge}.{file_format}")
