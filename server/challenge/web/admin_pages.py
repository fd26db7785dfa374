"""The admin's pages: the dashboard, leaderboards with all submissions, and decisions."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from fastapi import Path as PathParameter

from ...web.visitors import RowNumber, field_value, form_schema
from ..audit_log import read_audit
from ..leaderboard.board import ALPHA
from ..submissions import SubmissionState
from .challenge_pages import download_board
from .dependencies import (
    AdminSession,
    BoardFormat,
    CurrentChallenge,
    CurrentSite,
    Decision,
    SubmissionKey,
)
from .submission_pages import ranking_score, submission_values

router = APIRouter(prefix="/admin", default_response_class=Response)

_FORM = form_schema("token", "why", "challenge")
#: The most submissions and log entries on the dashboard.
_MAX_ROWS = 200


@router.get("")
async def show_dashboard(site: CurrentSite, session: AdminSession) -> Response:
    """Show challenges, submissions, teams, accounts and the log."""
    submissions = await site.queries.all_submissions()
    now = site.store.clock()
    challenges: list[dict[str, Any]] = []
    for challenge in site.challenges.values():
        states: list[str] = []
        for submission in submissions:
            if submission.challenge == challenge.name:
                states.append(submission.state)
        values = {
            "definition": challenge,
            "open_phase": challenge.open_phase(now),
            "status": await site.queries.challenge_status(challenge),
            "counts": Counter(states),
        }
        challenges.append(values)

    rows: list[tuple[Any, ...]] = []
    for submission in submissions[:_MAX_ROWS]:
        score, heading = ranking_score(site, submission)
        rows.append((submission, score, heading))

    accounts = await site.accounts.list_all()

    return site.render(
        "admin.html",
        session,
        challenges=challenges,
        states=list(SubmissionState),
        rows=rows,
        n_submissions=len(submissions),
        accounts=accounts,
        account_names={account["id"]: account["name"] for account in accounts},
        teams=await site.teams.list_all(),
        log=await site.store.database.run(lambda c: read_audit(c, _MAX_ROWS)),
    )


@router.get("/challenges/{name}/board")
async def show_leaderboard(
    request: Request, site: CurrentSite, session: AdminSession, challenge: CurrentChallenge
) -> Response:
    """Show a leaderboard with all submissions, hidden ones included."""
    board_request = site.leaderboards.read_request(challenge, request.query_params)

    return site.render(
        "admin_leaderboard.html",
        session,
        challenge=challenge,
        request=board_request,
        visible=await site.leaderboards.build(challenge, board_request, team=None, is_admin=True),
        alpha=ALPHA,
        board_page=f"/admin/challenges/{challenge.name}/board",
    )


@router.get("/challenges/{name}/board.{form}")
async def download_leaderboard(
    request: Request,
    site: CurrentSite,
    session: AdminSession,
    challenge: CurrentChallenge,
    file_format: BoardFormat,
) -> Response:
    """Return the same leaderboard as a file with all digits."""
    board_request = site.leaderboards.read_request(challenge, request.query_params)
    visible = await site.leaderboards.build(challenge, board_request, team=None, is_admin=True)

    return download_board(visible.board, file_format)


@router.post("/challenges/{name}/{act}", openapi_extra=_FORM)
async def change_challenge(
    site: CurrentSite,
    decision: Decision,
    challenge: CurrentChallenge,
    act: Annotated[str, PathParameter(pattern="^(publish|unpublish|freeze|unfreeze)$")],
) -> Response:
    """Publish or unpublish a leaderboard; stop or resume accepting submissions."""
    await site.moderation.change_challenge(challenge, act, decision.why)
    return site.redirect("/admin")


@router.get("/submissions/{key}")
async def show_submission(site: CurrentSite, session: AdminSession, key: SubmissionKey) -> Response:
    """Show a submission with the decisions on it."""
    submission = await site.store.load_submission(key)
    return site.render("admin_submission.html", session, **submission_values(site, submission))


@router.post("/submissions/{key}/{act}", openapi_extra=_FORM)
async def change_submission(
    site: CurrentSite,
    decision: Decision,
    key: SubmissionKey,
    act: Annotated[str, PathParameter(pattern="^(hidden|disqualified|reinstate|requeue)$")],
) -> Response:
    """Hide, disqualify or reinstate a submission, or evaluate a failed one again."""
    if act == "requeue":
        await site.moderation.requeue(key, decision.why)
    else:
        standing = "" if act == "reinstate" else act
        await site.moderation.set_standing(key, standing, decision.why)

    return site.redirect(f"/admin/submissions/{key}")


@router.post("/teams/{number}/forgive", openapi_extra=_FORM)
async def reset_limits(site: CurrentSite, decision: Decision, number: RowNumber) -> Response:
    """Stop counting a team's previous submissions against its limits."""
    challenge = site.store.get_challenge(field_value(decision.fields, "challenge"))
    await site.moderation.reset_limits(challenge, number, decision.why)
    return site.redirect("/admin")


@router.post("/accounts/{number}/{act}", openapi_extra=_FORM)
async def change_account(
    site: CurrentSite,
    decision: Decision,
    number: RowNumber,
    act: Annotated[str, PathParameter(pattern="^(block|unblock)$")],
) -> Response:
    """Block or unblock an account."""
    await site.moderation.set_blocked(number, decision.why, is_blocked=act == "block")
    return site.redirect("/admin")
