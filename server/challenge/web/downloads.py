"""Files to download: leaderboards and scores of captions."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pandas as pd
from fastapi import Request, Response

from ...web.errors import NotFoundError
from ..accounts.account import Account
from ..definition import Challenge
from ..site import Site
from ..submissions import Submission, SubmissionState


async def download_board(
    request: Request,
    site: Site,
    challenge: Challenge,
    file_format: str,
    team: int | None,
    *,
    is_admin: bool = False,
) -> Response:
    """Return the leaderboard of an address as a file, `csv` or `json`; see `Leaderboards.build`."""
    board_request = site.leaderboards.read_request(challenge, request.query_params)
    visible = await site.leaderboards.build(challenge, board_request, team, is_admin=is_admin)
    text = visible.board.to_csv() if file_format == "csv" else visible.board.to_json()
    return _download(text, f"{challenge.name}.{file_format}")


async def download_item_scores(site: Site, key: str, account: Account) -> Response:
    """Return the score of each caption of a submission as CSV.

    Raises:
        NotFoundError: if it is another team's, the challenge does not show these scores, or there are none.
    """
    submission = await site.store.load_submission(key)
    items = await load_item_scores(site, submission) if submission.team == account.team else None
    if items is None:
        raise NotFoundError
    return _download(items.to_csv(index=False, lineterminator="\n"), f"{key}.csv")


async def load_item_scores(site: Site, submission: Submission) -> pd.DataFrame | None:
    """Return the score of each caption; None unless it is scored and the challenge shows these scores."""
    is_shown = site.store.get_challenge(submission.challenge).per_item
    if not is_shown or submission.state != SubmissionState.SCORED:
        return None
    path = site.store.file_of(submission.key, "items.parquet")
    return await asyncio.to_thread(_read_parquet, path)


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(path)
    except OSError as error:
        raise NotFoundError from error


def _download(text: str, name: str) -> Response:
    media_type = "text/csv; charset=utf-8" if name.endswith(".csv") else "application/json"
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(text, media_type=media_type, headers=headers)
