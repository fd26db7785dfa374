"""Evaluation of metrics' scores: correlations, replicates of each, and the items, on a small challenge."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from captau.benchmarks.scoring.submission_archive import Faults
from captau.datasets.errors import InputError
from captau.server.challenge.definition_file import read_challenges
from captau.server.challenge.evaluation import make_evaluator, metric_evaluator
from captau.server.challenge.evaluation.evaluator import ReportedProgress, make_score_row
from tests.server.challenge.conftest import CAPTIONS, RATINGS, scores_csv, write_challenge


def make(folder, **changes):
    (challenge,) = read_challenges(str(write_challenge(folder, "metrics", **changes)))
    return make_evaluator(challenge)


def evaluate(evaluator, folder, text, name="upload.csv"):
    (folder / name).write_text(text)
    progress = []
    evaluation = evaluator.evaluate(folder, lambda *step: progress.append(step))
    return evaluation, progress


def test_scores_that_are_the_ratings_correlate_perfectly(tmp_path):
    frame = pd.DataFrame(CAPTIONS, columns=["image_id", "caption"]).assign(score=RATINGS)
    evaluation, progress = evaluate(make(tmp_path), tmp_path, frame.to_csv(index=False))
    row = {"references": "", "value": 1.0, "ci_low": 1.0, "ci_high": 1.0, "n": 24, "note": ""}
    assert [
        {**score, **{k: pytest.approx(v) for k, v in row.items() if isinstance(v, float)}}
        for score in evaluation.scores
    ] == [{**row, "metric": name} for name in ("tau_b overall", "pearson overall")]
    assert set(evaluation.replicates) == {("", "tau_b overall"), ("", "pearson overall")}
    for values in evaluation.replicates.values():
        assert values == pytest.approx(np.ones(50))
    items = evaluation.items
    assert list(items.columns) == ["item_id", "image_id", "score"]
    assert items["image_id"].tolist() == [image for image, _ in CAPTIONS]
    assert items["score"].tolist() == RATINGS
    run = evaluation.run
    assert (run["kind"], run["dataset"]) == ("metrics", make(tmp_path).caption_set.card.title)
    assert run["statistics"]["replicates"] == 50
    assert run["protocol"]["coefficients"] == ("tau_b", "pearson")
    shares = [share for share, _ in progress]
    assert progress[:3] == [(0.0, "reading"), (0.0, "submitted"), (0.3 * 0.99, "")]
    assert progress[3] == (0.3, "intervals")
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(0.3 + 0.7 * 0.99)


def test_replicates_do_not_depend_on_the_order_of_the_scores(tmp_path):
    evaluator = make(tmp_path)
    first, _ = evaluate(evaluator, tmp_path, scores_csv())
    lines = scores_csv().splitlines()
    second, _ = evaluate(evaluator, tmp_path, "\n".join([lines[0], *lines[:0:-1]]))
    assert first.scores == second.scores
    for key, values in first.replicates.items():
        assert values.tolist() == second.replicates[key].tolist()
        assert len(np.unique(values)) > 10


def test_without_intervals_there_are_no_replicates(tmp_path):
    evaluation, _ = evaluate(
        make(tmp_path, statistics={"interval": "none"}), tmp_path, scores_csv()
    )
    assert evaluation.replicates == {}
    assert [(s["ci_low"], s["ci_high"]) for s in evaluation.scores] == [(None, None)] * 2


def test_a_panel_that_cannot_be_resampled_does_not_stop_the_others(tmp_path, monkeypatch):
    """Of three panels the first has nothing to compare, and the second one image."""

    class Panel:
        def __init__(self, name, n_images, points):
            self.n_images, self.points, self.keys = n_images, points, [(name, "tau_b")]

        def comparable_points(self, metric):
            assert metric == "submitted"
            return self.points

        def statistic(self, metric, points):
            return lambda weights: np.zeros((1, weights.shape[1]))

    points = np.ones(3, dtype=bool)
    panels = [Panel("a", 3, None), Panel("b", 1, points), Panel("c", 2, points)]
    monkeypatch.setattr(metric_evaluator, "build_panels", lambda selection, oriented: panels)
    evaluation, _ = evaluate(make(tmp_path), tmp_path, scores_csv())
    assert {key: len(values) for key, values in evaluation.replicates.items()} == {
        ("", "tau_b c"): 50
    }


def test_items_are_listed_with_references_where_the_challenge_shows_them(tmp_path):
    listed = list(make(tmp_path).list_items())
    assert [(row["image_id"], row["caption"]) for row in listed] == CAPTIONS
    assert {tuple(row) for row in listed} == {("item_id", "image_id", "caption")}
    shown = make(tmp_path, visibility={"references": True}).list_items()
    assert {tuple(row) for row in shown} == {("item_id", "image_id", "caption", "references")}


def test_a_file_of_scores_is_checked(tmp_path, monkeypatch):
    evaluator, path = make(tmp_path), tmp_path / "upload.csv"

    def fail(*_):
        raise InputError(f"{path}: not complete")

    def check(text):
        path.write_text(text)
        return evaluator.check_submission(tmp_path, "mine.csv")

    verdict = check(scores_csv())
    assert (verdict.faults, verdict.n_faults, verdict.summary) == (
        *([], 0, "mine.csv: valid: 24 scores"),
    )
    verdict = check("")
    assert (verdict.n_faults, len(verdict.faults)) == (1, 1)
    assert verdict.summary == "mine.csv: not valid: 1 fault; 0 scores"
    with monkeypatch.context() as patch:  # as of a Parquet file whose pages are broken
        patch.setattr(metric_evaluator, "check_scores", fail)
        verdict = check("x")
    assert (verdict.faults, verdict.summary) == (
        ["mine.csv: not complete"],
        "mine.csv: not valid: 1 fault; no scores",
    )
    frame = pd.DataFrame(CAPTIONS, columns=["image_id", "caption"]).assign(score=1.0)
    verdict = check(frame.assign(score="x").to_csv(index=False))
    assert (verdict.n_faults, len(verdict.faults)) == (24, 24)
    assert verdict.summary.startswith("mine.csv: not valid: 24 faults; ")
    limited = make(tmp_path, limits={"faults": 2})
    verdict = limited.check_submission(tmp_path, "mine.csv")
    assert (verdict.n_faults, len(verdict.faults)) == (24, 2)
    assert verdict.summary.startswith("mine.csv: not valid: 24 faults, the first 2 listed; ")


def test_progress_is_a_share_of_the_steps_and_never_whole():
    told = []
    progress = ReportedProgress(2, lambda *step: told.append(step))
    with progress.step("score: cider"):
        pass
    progress.add_steps(2, "more")
    for _ in range(4):
        progress.advance()
    assert told == [(0.0, "cider"), (0.5, ""), (0.5, ""), (0.75, ""), (0.99, ""), (0.99, "")]
    told.clear()
    ReportedProgress(0, lambda *step: told.append(step)).advance()
    assert told == [(0.99, "")]


def test_a_row_of_scores_has_none_for_what_is_undefined():
    row = make_score_row("c5", "cider", (0.5, float("nan"), float("inf")), 7, "a note")
    assert row == {
        **{"references": "c5", "metric": "cider", "value": 0.5, "ci_low": None, "ci_high": None},
        **{"n": 7, "note": "a note"},
    }
    faults = Faults(3)
    assert (faults.limit, faults.count) == (3, 0)
