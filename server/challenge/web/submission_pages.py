"""The pages of submissions: a team's list, a submission's verdict and scores, its progress and files."""

from __future__ import annotations

import asyncio
from typing import Any

import pandas as pd
from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse

from ...web.errors import NotFoundError
from ..leaderboard.board import (
    DEFAULT_DECIMALS,
    Score,
    ScoreColumn,
    column_key,
    default_column,
    read_scores,
    round_scores,
)
from ..members import Account
from ..site import Site, format_score
from ..submissions import Submission, SubmissionState
from .dependencies import CurrentMember, CurrentSite, CurrentVisitor, SubmissionKey

router = APIRouter(prefix="/submissions", default_response_class=Response)

#: The number of captions whose scores a page shows; the file has all.
_MAX_SHOWN_ITEMS = 100


@router.get("")
async def list_team_submissions(site: CurrentSite, visitor: CurrentMember) -> Response:
    """Show the submissions of the visitor's team."""
    submissions = await site.queries.team_submissions(visitor.member.team)
    rows: list[tuple[Submission, str, str]] = []
    for submission in submissions:
        score, score_name = ranking_score(site, submission)
        rows.append((submission, score, score_name))
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
        # A submission that an admin hid or disqualified has a standing.
        is_visible = status.is_published and is_scored and not submission.standing
        if not is_visible:
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


def submission_values(site: Site, submission: Submission) -> dict[str, Any]:
    """Return a submission's template values: its scores by metric, reference sets side by side."""
    challenge = site.store.get_challenge(submission.challenge)
    columns = site.leaderboards.columns[challenge.name]
    result = submission.result
    exact_scores = read_scores(result.scores) if result else {}
    scores = round_scores(exact_scores, columns)

    scores_by_label: dict[str, list[tuple[ScoreColumn, Score | None]]] = {}
    for column in columns:
        scores_by_label.setdefault(column.label, []).append((column, scores.get(column.key)))

    return {
        "challenge": challenge,
        "submission": submission,
        "scores_by_label": scores_by_label,
        "reference_sets": list(dict.fromkeys(column.references for column in columns)),
        "run": result.run if result else {},
    }


def shown_scores(site: Site, submission: Submission) -> list[dict[str, Any]] | None:
    """Return the rows of a submission's result with the digits that are shown; None if there are none."""
    if submission.result is None:
        return None

    rows = submission.result.scores
    if site.store.get_challenge(submission.challenge).exact:
        return rows

    columns = site.leaderboards.columns[submission.challenge]
    decimals = {column.key: column.shown_decimals for column in columns}
    rounded_rows: list[dict[str, Any]] = []
    for row in rows:
        n_decimals = decimals.get(column_key(row), DEFAULT_DECIMALS)
        rounded = dict(row)
        for part in ("value", "ci_low", "ci_high"):
            if row[part] is not None:
                rounded[part] = round(row[part], n_decimals)
        rounded_rows.append(rounded)

    return rounded_rows


def ranking_score(site: Site, submission: Submission) -> tuple[str, str]:
    """Return the score that ranks a submission, and its name; both empty if there is none."""
    challenge = site.challenges.get(submission.challenge)
    if submission.result is None or challenge is None:
        return "", ""

    column = default_column(challenge, site.leaderboards.columns[challenge.name])
    score = read_scores(submission.result.scores).get(column.key)
    if score is None:
        return "", ""

    return format_score(score.value, column), column.heading


async def download_item_scores(site: Site, key: str, account: Account) -> Response:
    """Return the score of each caption of a submission as CSV.

    Raises:
        NotFoundError: if it is another team's, the challenge does not show these scores, or there are none.
    """
    submission = await site.store.load_submission(key)
    if submission.team != account.team:
        raise NotFoundError
    items = await load_item_scores(site, submission)
    if items is None:
        raise NotFoundError

    return make_download(items.to_csv(index=False, lineterminator="\n"), f"{key}.csv")


async def load_item_scores(site: Site, submission: Submission) -> pd.DataFrame | None:
    """Return the score of each caption; None unless it is scored and the challenge shows these scores."""
    is_shown = site.store.get_challenge(submission.challenge).per_item
    if not is_shown or submission.state != SubmissionState.SCORED:
        return None

    path = site.store.file_of(submission.key, "items.parquet")
    try:
        return await asyncio.to_thread(pd.read_parquet, path)
    except OSError as error:
        raise NotFoundError from error


def make_download(text: str, name: str) -> Response:
    """Return a file to download; the ending of its name says what it is."""
    media_type = "text/csv; charset=utf-8" if name.endswith(".csv") else "application/json"
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(text, media_type=media_type, headers=headers)
