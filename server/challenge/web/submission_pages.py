"""The pages of submissions: a team's list, a submission's verdict and scores, its progress."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse

from ...web.errors import NotFoundError
from ..submissions import SubmissionState
from .dependencies import CurrentMember, CurrentSite, CurrentVisitor, SubmissionKey
from .downloads import download_item_scores, load_item_scores
from .submission_view import ranking_score, submission_values

router = APIRouter(prefix="/submissions", default_response_class=Response)

#: The number of captions whose scores a page shows; the file has all.
_MAX_SHOWN_ITEMS = 100


@router.get("")
async def list_team_submissions(site: CurrentSite, visitor: CurrentMember) -> Response:
    """Show the submissions of the visitor's team."""
    submissions = await site.queries.team_submissions(visitor.member.team)
    rows = [(submission, *ranking_score(site, submission)) for submission in submissions]
    return site.render_for("submissions.html", visitor, rows=rows)


@router.get("/{key}")
async def show_submission(
    site: CurrentSite, visitor: CurrentVisitor, key: SubmissionKey
) -> Response:
    """Show a submission: to its team all of it, to others its scores on a published leaderboard."""
    submission = await site.store.load_submission(key)
    challenge = site.store.get_challenge(submission.challenge)
    is_own = visitor.member is not None and submission.team == visitor.member.team
    if not is_own:
        status = await site.queries.challenge_status(challenge)
        is_scored = submission.state == SubmissionState.SCORED
        if not (status.is_published and is_scored) or submission.standing:
            raise NotFoundError
    items = await load_item_scores(site, submission) if is_own else None
    item_rows: list[dict[Any, Any]] = [] if items is None else items.to_dict("records")
    return site.render_for(
        "submission.html",
        visitor,
        **submission_values(site, submission),
        is_own=is_own,
        items=item_rows[:_MAX_SHOWN_ITEMS],
        n_items=len(item_rows),
        current_page=f"/submissions/{key}",
    )


@router.get("/{key}/state")
async def show_progress(
    site: CurrentSite, visitor: CurrentMember, key: SubmissionKey
) -> JSONResponse:
    """Return the progress of a submission, for the page that waits."""
    submission = await site.store.load_submission(key)
    if submission.team != visitor.member.team:
        raise NotFoundError
    return JSONResponse(
        {
            "state": submission.state,
            "progress": round(submission.progress, 3),
            "step": submission.step,
            "done": submission.is_done,
        }
    )


@router.get("/{key}/items.csv")
async def download_items(site: CurrentSite, visitor: CurrentMember, key: SubmissionKey) -> Response:
    """Return the score of each caption, to its team, where the challenge shows it."""
    return await download_item_scores(site, key, visitor.member)
