"""The computed ratings that pairs of the rating game start with."""

from __future__ import annotations

import json

import numpy as np
import pytest

from captau.metrics.learned.rater import RaterMetric
from captau.server.collect.study import read_study
from tests.conftest import says
from tests.server.collect.conftest import CAPTIONS, make_site, write_study


def levels_by_caption(path):
    units = read_study(str(path)).units
    return {u.items[0].caption: u.fixed for u in units if u.pool == "main"}


def write_scores(folder, scores, name="scores.csv"):
    """Write a score file by image and caption, which a study's rows have to name."""
    lines = [json.dumps({"image_id": i, "caption": c, "score": scores[c]}) for i, c, _ in CAPTIONS]
    path = folder / name.replace(".csv", ".jsonl")
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_scores_without_a_scale_are_cut_into_fifths(tmp_path):
    scores = {c: k / 100 for k, (_, c, _) in enumerate(CAPTIONS)}
    path = write_scores(tmp_path, scores)
    study = write_study(tmp_path, game={"cold_start": [f"file(name=mine,path={path})"]})
    levels = levels_by_caption(study)
    # By hand: 18 scores in ascending order; the k-th is level 1 + floor(5 (k + 1/2) / 18).
    assert levels == {c: (1 + 5 * (2 * k + 1) // 36,) * 2 for k, (_, c, _) in enumerate(CAPTIONS)}


def test_scores_on_a_scale_keep_it(tmp_path):
    """Predictions on 1 to 5 are rounded, a half up; on 0 to 1 they are stretched first."""
    ratings = {c: 1 + (k % 9) / 2 for k, (_, c, _) in enumerate(CAPTIONS)}
    shares = {c: (rating - 1) / 4 + 0.01 for c, rating in ratings.items()}
    first = write_scores(tmp_path, ratings, "ratings.csv")
    second = write_scores(tmp_path, shares, "shares.csv")
    cold_start = [
        {"metric": f"file(name=first,path={first})", "low": 1, "high": 5},
        {"metric": f"file(name=second,path={second})", "low": 0, "high": 1},
    ]
    levels = levels_by_caption(write_study(tmp_path, game={"cold_start": cold_start}))
    by_rating = {1: 1, 1.5: 2, 2: 2, 2.5: 3, 3: 3, 3.5: 4, 4: 4, 4.5: 5, 5: 5}
    assert levels == {c: (by_rating[r], by_rating[r]) for c, r in ratings.items()}


def stand_in_for_raters(monkeypatch, compute):
    """Let every rater, trained or not, score captions by a function, on a scale from 1 to 5."""
    changes = {
        "rating_scale": (1.0, 5.0),
        "needs": frozenset(),
        "check_rows": lambda self, rows: None,
        "compute": compute,
    }
    for name, value in changes.items():
        monkeypatch.setattr(RaterMetric, name, value)


def test_a_rater_keeps_the_scale_that_it_was_trained_on(tmp_path, monkeypatch):
    """Good captions alone: none of them is in the worst fifth of its scale."""
    stand_in_for_raters(monkeypatch, lambda self, rows: np.full(len(rows), 4.4))
    study = write_study(tmp_path, game={"cold_start": ["rater(path=trained)"]})
    assert set(levels_by_caption(study).values()) == {(4, 4)}


def test_a_metric_sees_captions_and_references_and_no_rating(tmp_path, monkeypatch):
    """The columns that docs/new_metric.md names, whatever else a study's items have."""
    seen = []

    def compute(self, rows):
        seen.append(rows.frame)
        return np.full(len(rows), 3.0)

    stand_in_for_raters(monkeypatch, compute)
    levels_by_caption(write_study(tmp_path, game={"cold_start": ["rater(path=trained)"]}))
    columns = {"item_id", "image_id", "image", "caption", "references", "system"}
    assert [set(frame.columns) - columns for frame in seen] == [set()]


def test_a_restart_computes_nothing_again(tmp_path):
    """The ratings that pairs start with come from the database: the file of scores may be gone."""
    path = write_scores(tmp_path, {c: k / 100 for k, (_, c, _) in enumerate(CAPTIONS)})
    write_study(tmp_path, game={"cold_start": [f"file(name=mine,path={path})"]})
    site = make_site(tmp_path)
    first = {unit.id: unit.fixed for unit in site.store.units.values()}
    site.store.database.close()
    path.unlink()
    site = make_site(tmp_path)
    assert {unit.id: unit.fixed for unit in site.store.units.values()} == first
    site.store.database.close()


def test_embeddings_are_looked_up_by_image_and_caption(tmp_path):
    rng = np.random.default_rng(0)
    image_ids = sorted({i for i, _, _ in CAPTIONS})
    captions = [c for _, c, _ in CAPTIONS]
    np.savez(
        tmp_path / "images.npz", image_id=image_ids, embedding=rng.normal(size=(len(image_ids), 4))
    )
    np.savez(tmp_path / "texts.npz", caption=captions, embedding=rng.normal(size=(18, 4)))
    spec = f"vse_cosine(images={tmp_path}/images.npz,texts={tmp_path}/texts.npz)"
    levels = levels_by_caption(write_study(tmp_path, game={"cold_start": [spec]}))
    assert {level for pair in levels.values() for level in pair} == {1, 2, 3, 4, 5}


def test_a_study_without_references_says_what_to_choose(tmp_path):
    path = write_study(tmp_path, game={"cold_start": ["rouge_l"]})
    rows = [{"image": i, "caption": c} for i, c, _ in CAPTIONS]
    (tmp_path / "captions.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with says(
        f"{path}:",
        "game.cold_start: rouge_l needs references, and 18 of 18 items have none",
        "clipscore",
        "rater(path=FOLDER)",
    ):
        read_study(str(path))


@pytest.mark.parametrize(
    ("cold_start", "parts"),
    [
        ("meteor", ["one or two metrics", "ratings"]),
        ([], ["one or two metrics"]),
        (["rouge_l", "cider", "bleu_4"], ["one or two metrics"]),
        (["text"], ["text is a suite"]),
        ([{"metric": "rouge_l", "low": 1, "high": 1}], ["low: 0, high: 1"]),
        ([{"metric": "rouge_l", "low": 5, "high": 1}], ["low: 0, high: 1"]),
        ([{"metric": "rouge_l"}], ["low: 0, high: 1"]),
        ("ratings", ["not every item comes with ratings"]),
    ],
)
def test_faults_of_the_cold_start_are_reported(tmp_path, cold_start, parts):
    path = write_study(tmp_path, game={"cold_start": cold_start})
    with says(f"{path}:", "game.cold_start", *parts):
        read_study(str(path))
