"""The leaderboards as visitors see them, as pages and files."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from ..leaderboard.board import ALPHA
from .dependencies import BoardFormat, CurrentChallenge, CurrentSite, CurrentVisitor
from .downloads import download_board

router = APIRouter(prefix="/challenges/{name}", default_response_class=Response)


@router.get("/board")
async def show_leaderboard(
    request: Request, site: CurrentSite, visitor: CurrentVisitor, challenge: CurrentChallenge
) -> Response:
    """Show the leaderboard that the address describes."""
    board_request = site.leaderboards.read_request(challenge, request.query_params)
    page = f"/challenges/{challenge.name}/board"
    return site.render_for(
        "leaderboard.html",
        visitor,
        challenge=challenge,
        request=board_request,
        visible=await site.leaderboards.build(challenge, board_request, visitor.team),
        alpha=ALPHA,
        board_page=page,
        current_page=f"{page}?{board_request.query_string()}",
    )


@router.get("/board.{form}")
async def download_leaderboard(
    request: Request,
    site: CurrentSite,
    visitor: CurrentVisitor,
    challenge: CurrentChallenge,
    file_format: BoardFormat,
) -> Response:
    """Return the same leaderboard as CSV or JSON."""
    return await download_board(request, site, challenge, file_format, visitor.team)
