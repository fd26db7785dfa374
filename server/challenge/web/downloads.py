"""Leaderboards and scores of captions as files to download."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pandas as pd
from fastapi import Response

from ...web.errors import NotFoundError
from ..accounts.account import Account
from ..leaderboard.board import Board
from ..submission_store import SubmissionStore
from ..submissions import Submission, SubmissionState

_CSV, _JSON = "text/csv; charset=utf-8", "application/json"


def download_board(board: Board, file_format: str) -> Response:
    """Return a leaderboard as a file, `csv` or `json`."""
    if file_format == "csv":
        return _download(board.to_csv(), f"{board.challenge}.csv", _CSV)
    return _download(board.to_json(), f"{board.challenge}.json", _JSON)


async def download_item_scores(store: SubmissionStore, key: str, account: Account) -> Response:
    """Return the score of each caption of a submission as CSV.

    Raises:
        NotFoundError: if it is another team's, the challenge does not show these scores, or there are none.
    """
    submission = await store.load_submission(key)
    if submission.team != account.team:
        raise NotFoundError
    items = await load_item_scores(store, submission)
    if items is None:
        raise NotFoundError
    text = items.to_csv(index=False, lineterminator="\n")
    return _download(text, f"{key}.csv", _CSV)


async def load_item_scores(store: SubmissionStore, submission: Submission) -> pd.DataFrame | None:
    """Return the score of each caption; None unless it is scored and the challenge shows these scores.

    Raises:
        NotFoundError: if the file was removed.
    """
    is_shown = store.get_challenge(submission.challenge).per_item
    if not is_shown or submission.state != SubmissionState.SCORED:
        return None
    return await asyncio.to_thread(_read_parquet, store.file_of(submission.key, "items.parquet"))


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(path)
    except OSError as error:
        raise NotFoundError from error


def _download(text: str, name: str, media_type: str) -> Response:
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(text, media_type=media_type, headers=headers)
