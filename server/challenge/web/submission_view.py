"""The scores of a submission as pages and programs see them: with the digits that the challenge shows."""

from __future__ import annotations

from typing import Any

from ..leaderboard.board import Score, read_scores, round_scores
from ..leaderboard.columns import DEFAULT_DECIMALS, ScoreColumn, column_key, default_column
from ..site import Site, format_score
from ..submissions import Submission


def submission_values(site: Site, submission: Submission) -> dict[str, Any]:
    """Return a submission's template values: its scores by metric, reference sets side by side."""
    challenge = site.store.get_challenge(submission.challenge)
    columns = site.leaderboards.columns[challenge.name]
    result = submission.result
    scores = round_scores(read_scores(result.scores) if result else {}, columns)
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
    return [
        row
        | {
            part: round(row[part], decimals.get(column_key(row), DEFAULT_DECIMALS))
            for part in ("value", "ci_low", "ci_high")
            if row[part] is not None
        }
        for row in rows
    ]


def ranking_score(site: Site, submission: Submission) -> tuple[str, str]:
    """Return the score that ranks a submission, and its name; both empty if there is none."""
    challenge = site.challenges.get(submission.challenge)
    if submission.result is None or challenge is None:
        return "", ""
    column = default_column(challenge, site.leaderboards.columns[challenge.name])
    score = read_scores(submission.result.scores).get(column.key)
    return ("", "") if score is None else (format_score(score.value, column), column.heading)
