"""The metric `rater`: a trained rater's scores, name, signature, training images and damaged folders; and calibrations."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from captau.datasets.errors import InputError
from captau.metrics.base import UnavailableError
from captau.metrics.learned.common.examples import Examples
from captau.metrics.learned.rater import (
    ALL,
    CALIBRATION_FILE,
    CARD_FILE,
    Calibration,
    Curve,
    RaterCard,
    RaterMetric,
    find_rater_folder,
    list_rater_folders,
)
from captau.metrics.neural.models import MODEL_LOCK, hash_of
from captau.metrics.registry import metric
from captau.metrics.rows import Rows
from tests.conftest import says
from tests.metrics.learned.word_counter import WordCounter, word_counter

__all__ = ["word_counter"]  # the fixture
pytestmark = pytest.mark.usefixtures("word_counter")


@pytest.fixture
def folder(tmp_path) -> Path:
    folder = tmp_path / "run" / "seed-0"
    folder.mkdir(parents=True)
    WordCounter(2.0).save(folder)
    RaterCard("words", {"factor": 2.0}, 0, ("a.jpg", "b.jpg"), "f", {}).write(folder)
    return folder


ROWS = [{"image_id": "a.jpg", "caption": "a dog"}, {"image_id": "c.jpg", "caption": "one dog runs"}]


def test_a_rater_scores_as_its_model_does(folder):
    for path in (folder, folder.parent):  # the run's folder will do where it has one rater
        assert metric(f"rater(path='{path}')").score(ROWS).tolist() == [4.0, 6.0]


def test_a_given_name_is_the_spec_in_results(folder):
    assert metric(f"rater(path='{folder}',name=Mine)").spec == "Mine"
    spec = metric(f"rater(path='{folder}')").spec
    assert metric(spec) == metric(f"rater(path='{folder}')")


def test_the_signature_changes_with_the_weights(folder):
    rater = metric(f"rater(path='{folder}')")
    before = rater.signature
    (folder / "training.csv").write_text("stage\n")  # beside the rater, and no part of it
    assert rater.signature == before
    WordCounter(3.0).save(folder)
    assert rater.signature != before


def test_training_images_are_refused_or_marked(folder):
    rater = metric(f"rater(path='{folder}')")
    assert rater.training_overlap_note(["c.jpg", "d.jpg"]) is None
    with says(
        "was trained on, or chosen by, 1 of the 2 images", "protocol.split=test", "seen=mark"
    ):
        rater.training_overlap_note(["b.jpg", "c.jpg", "c.jpg"])
    marked = metric(f"rater(path='{folder}',seen=mark)")
    assert "1 of the 2 images" in (marked.training_overlap_note(["b.jpg", "c.jpg"]) or "")


def test_a_folder_without_one_whole_rater_is_refused(folder, tmp_path):
    with says("is not a folder", "captau train"):
        metric("rater(path=/nowhere/at/all)").score(ROWS)
    empty = tmp_path / "empty"
    empty.mkdir()
    with says(CARD_FILE, "if the training was stopped"):
        metric(f"rater(path='{empty}')").score(ROWS)
    other = folder.parent / "seed-1"
    other.mkdir()
    (other / CARD_FILE).write_bytes((folder / CARD_FILE).read_bytes())
    with says("several raters", "seed-0, seed-1"):
        find_rater_folder(folder.parent)
    for text in ("{", "[]", '{"format": 2}', '{"format": 2, "images": 3}'):
        (folder / CARD_FILE).write_text(text)
        with says(str(folder / CARD_FILE), "not the card of a rater"):
            metric(f"rater(path='{folder}')").score(ROWS)
    whole = {
        "format": 2,
        "rater": "words",
        "options": {},
        "seed": 0,
        "fingerprint": "",
        "about": {},
    }
    for images in ("a.jpg", [1]):
        (folder / CARD_FILE).write_text(json.dumps({**whole, "images": images}))
        with says("not the card of a rater"):
            metric(f"rater(path='{folder}')").score(ROWS)


@pytest.mark.parametrize(("number", "age"), [(1, "former"), (99, "later")])
def test_a_folder_of_another_version_is_refused_with_its_name_and_a_remedy(folder, number, age):
    (folder / CARD_FILE).write_text(json.dumps({"format": number}))
    with says(
        f"{folder}: a rater of a {age} version of captau", "train it again with captau train"
    ):
        metric(f"rater(path='{folder}')").score(ROWS)


def test_a_source_that_the_recipe_lacks_is_refused(folder):
    with says("images=x.npz", "its sources are: texts"):
        metric(f"rater(path='{folder}',images=x.npz)").score(ROWS)


NO_PAIRS = np.empty((0, 2), dtype=np.intp)


def examples_of(datasets: list[str], ratings: list[list[float]]) -> Examples:
    frame = pd.DataFrame({"caption": ["a"] * len(datasets), "dataset": datasets})
    return Examples(Rows(frame), tuple(np.array(r, dtype=float) for r in ratings), NO_PAIRS)


def test_a_curve_by_hand():
    """Ratings that fall are pooled: 0.2 | 0.6, 0.4 | 0.9 becomes 0.2, 0.5, 0.5, 0.9."""
    ratings = np.array([0.2, 0.6, 0.4, 0.9])
    curve = Curve.fit(
        np.array([0.1, 0.2, 0.3, 0.4]), ratings, np.array([0.0, 1.0, 0.0, 1.0]), np.ones(4)
    )
    assert curve.ratings == pytest.approx((0.2, 0.5, 0.5, 0.9))
    assert curve.good == pytest.approx((0.0, 0.5, 0.5, 1.0))
    assert curve.threshold(0.5) == pytest.approx(0.2)
    assert curve.threshold(0.9) == pytest.approx(0.4)
    assert np.isnan(Curve((0.1,), (0.5,), (0.4,)).threshold(0.9))


def test_each_dataset_has_a_curve_and_counts_the_same_in_that_of_all():
    """A caption is good where most of its ratings are half of the scale or more."""
    examples = examples_of(
        ["one", "two", "two", "three"], [[0.0, 0.0, 1.0], [1.0, 1.0, 0.0], [1.0], []]
    )
    calibration = Calibration.fit(examples, np.array([0.5, 0.5, 0.5, 0.5]))
    assert set(calibration.curves) == {"one", "two", ALL}
    assert set(calibration.curves["one"].good) == {0.0}
    assert set(calibration.curves["two"].good) == {1.0}
    # The mean over equal scores, the one caption of the first counting as much as the two of the second.
    assert all(0 <= probability <= 1 for probability in calibration.curves[ALL].good)
    assert calibration.curve_of("two") == calibration.curves["two"]
    assert calibration.curve_of("three") == calibration.curves[ALL]
    assert Calibration.fit(examples.take(np.array([3])), np.zeros(1)).curve_of("three") is None


def test_curves_rise_and_are_read_back(tmp_path):
    rng = np.random.default_rng(0)
    scores = rng.random(500)
    examples = examples_of(
        ["d"] * 500, [[float(np.clip(s + rng.normal() / 4, 0, 1))] for s in scores]
    )
    calibration = Calibration.fit(examples, scores)
    curve = calibration.curves["d"]
    for values in (curve.scores, curve.ratings, curve.good):
        assert (np.diff(values) >= 0).all()
    assert np.interp(0.5, curve.scores, curve.ratings) == pytest.approx(0.5, abs=0.1)
    calibration.write(tmp_path)
    assert Calibration.read(tmp_path) == calibration
    (tmp_path / CALIBRATION_FILE).write_text('{"curves": {"d": 3}}')
    with says(CALIBRATION_FILE, "damaged", "train the rater again"):
        Calibration.read(tmp_path)
    (tmp_path / CALIBRATION_FILE).unlink()
    assert Calibration.read(tmp_path) is None


def test_reliability_by_hand():
    """Five captions, one a fifth; the curve of all expects half of the score as a rating, and the score as the chance to be good."""
    examples = examples_of(["d"] * 6, [[0.3], [0.1], [0.9], [0.5], [1.0], []])
    curve = Curve((0.0, 1.0), (0.0, 0.5), (0.0, 1.0))
    rows = Calibration({ALL: curve}).measure_reliability(
        examples, np.array([0.4, 0.2, 1.0, 0.6, 0.8, 0.5])
    )
    assert [row["score"] for row in rows] == [0.2, 0.4, 0.6, 0.8, 1.0]
    assert [row["expected_rating"] for row in rows] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])
    assert [row["rating"] for row in rows] == [0.1, 0.3, 0.5, 1.0, 0.9]
    assert [row["expected_good"] for row in rows] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert [row["good"] for row in rows] == [0.0, 0.0, 1.0, 1.0, 1.0]
    assert [row["n_items"] for row in rows] == [1] * 5
    assert Calibration({}).measure_reliability(examples, np.zeros(6)) == []


# In full


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (((0.1,), (0.1, 0.2), (0.1,)), "a curve's rows are of unequal lengths"),
        (((0.1, 0.2), (0.1, 0.2), (0.1,)), "a curve's rows are of unequal lengths"),
        (((), (), ()), "a curve falls, or is no row of numbers"),
        (((0.1, 0.0), (0.1, 0.2), (0.1, 0.2)), "a curve falls, or is no row of numbers"),
        (((0.1, 0.2), (0.1, 0.2), (0.2, 0.1)), "a curve falls, or is no row of numbers"),
        (((0.1, 0.2), (0.1, np.inf), (0.1, 0.2)), "a curve falls, or is no row of numbers"),
    ],
)
def test_curves_that_are_none(columns, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        Curve(*columns)


def test_curves_by_weights_and_groups():
    """250 captions are 100 points, the first 50 of three; a point is its captions' weighted mean."""
    n = 250
    scores = np.arange(n, dtype=float)[::-1]
    ratings = scores / 500
    is_good = (scores >= 125).astype(float)
    weights = np.where(np.arange(n) % 2, 3.0, 1.0)
    curve = Curve.fit(scores, ratings, is_good, weights)
    groups = np.array_split(np.arange(n), 100)  # by score, which is also their order
    assert [len(g) for g in groups[49:51]] == [3, 2]
    of_score = weights[::-1]
    expected = [float(np.average(g, weights=of_score[g])) for g in groups]
    assert curve.scores == pytest.approx(expected)
    assert curve.ratings == pytest.approx([e / 500 for e in expected])
    assert curve.good == pytest.approx([np.average(g >= 125, weights=of_score[g]) for g in groups])
    assert Curve((0.2, 0.4), (0.1, 0.3), (0.5, 0.7)).expect(np.array([0.1, 0.3, 0.9]))[
        0
    ].tolist() == (pytest.approx([0.1, 0.2, 0.3]))
    ratings, good = Curve((0.2, 0.4), (0.1, 0.3), (0.5, 0.7)).expect(np.array([0.25]))
    assert (ratings.tolist(), good.tolist()) == ([pytest.approx(0.15)], [pytest.approx(0.55)])


def test_pooled_points_count_by_their_weights():
    """0.6 of weight 3 before 0.2 of weight 1 is 0.5 for both."""
    curve = Curve.fit(
        np.array([0.1, 0.2]), np.array([0.6, 0.2]), np.array([1.0, 0.0]), np.array([3.0, 1.0])
    )
    assert curve.ratings == pytest.approx((0.5, 0.5))
    assert curve.good == pytest.approx((0.75, 0.75))


def test_each_dataset_counts_the_same_by_hand():
    """One caption of the first, rated 0.2 at score 1; three of the second, rated 0.5 at score 0 on average."""
    examples = examples_of(["one", "two", "two", "two"], [[0.2], [0.4], [0.5], [0.6]])
    calibration = Calibration.fit(examples, np.array([1.0, 0.0, 0.1, 0.2]))
    assert list(calibration.curves) == ["one", "two", "all"]
    assert calibration.curves["one"] == Curve((1.0,), (0.2,), (0.0,))
    two = calibration.curves["two"]
    assert two.scores == pytest.approx((0.0, 0.1, 0.2))
    assert two.ratings == pytest.approx((0.4, 0.5, 0.6))
    assert two.good == pytest.approx((0, 1, 1))
    # Of weight 1/3 each and 1 that falls: (0.6 / 3 + 0.2) / (4/3) = 0.3, (0.5 / 3 + 0.4) / (5/3) = 0.34, and so on.
    pooled = (0.4 / 3 + 0.5 / 3 + 0.6 / 3 + 0.2) / 2
    assert calibration.curves["all"].ratings == pytest.approx((pooled,) * 4)
    assert calibration.curves["all"].good[0] == 0
    assert calibration.curves["all"].good[1:] == pytest.approx((2 / 3 / (5 / 3),) * 3)


@pytest.mark.parametrize(
    ("ratings", "is_good"),
    [
        ([0.5], 1.0),
        ([0.49], 0.0),
        ([0.5 - 1e-10], 1.0),
        ([1.0, 0.0], 0.0),
        ([0.5, 0.6, 0.1], 1.0),
        ([0.1, 0.6, 0.1], 0.0),
    ],
)
def test_a_caption_is_good_where_most_ratings_are_half_of_the_scale(ratings, is_good):
    curve = Calibration.fit(examples_of(["d"], [ratings]), np.zeros(1)).curves["d"]
    assert curve.good == (is_good,)


def test_reliability_by_fifths():
    """Of seven captions the first two fifths have two; the seventh is not rated."""
    examples = examples_of(["d"] * 8, [[0.1], [], [0.2], [0.3], [0.4], [0.6], [0.7], [0.9]])
    curve = Curve((0.0, 1.0), (0.0, 0.5), (0.0, 1.0))
    scores = np.array([0.1, 0.9, 0.3, 0.2, 0.4, 0.5, 0.7, 0.6])
    rows = Calibration({ALL: curve}).measure_reliability(examples, scores)
    expected = [
        (0.15, 0.2, 0, 2),
        (0.35, 0.3, 0, 2),
        (0.5, 0.6, 1, 1),
        (0.6, 0.9, 1, 1),
        (0.7, 0.7, 1, 1),
    ]
    assert rows == [
        {
            "score": pytest.approx(score),
            "rating": pytest.approx(rating),
            "good": good,
            "expected_rating": pytest.approx(score / 2),
            "expected_good": pytest.approx(score),
            "n_items": n,
        }
        for score, rating, good, n in expected
    ]
    few = Calibration({ALL: curve}).measure_reliability(examples.take(np.arange(3)), scores[:3])
    assert [row["n_items"] for row in few] == [1, 1]
    unrated = examples.take(np.array([1]))
    assert Calibration({ALL: curve}).measure_reliability(unrated, np.zeros(1)) == []


def test_a_calibration_s_file_in_full(tmp_path):
    calibration = Calibration({"d": Curve((0.5,), (0.25,), (1.0,))})
    calibration.write(tmp_path)
    path = tmp_path / "calibration.json"
    assert path.read_text() == (
        '{\n "good": 0.5,\n "curves": {\n  "d": {\n   "scores": [\n    0.5\n   ],\n   "ratings": [\n    0.25\n'
        '   ],\n   "good": [\n    1.0\n   ]\n  }\n }\n}'
    )
    assert Calibration.read(tmp_path) == calibration
    for text, reason in (
        ("[]", "list indices must be integers or slices, not str"),
        ('{"curves": 1}', "'int' object has no attribute 'items'"),
        ('{"x": 1}', "'curves'"),
        (
            '{"curves": {"d": {"scores": [1], "ratings": [1], "good": [1, 2]}}}',
            "a curve's rows are of unequal lengths",
        ),
    ):
        path.write_text(text)
        with says(f"{path}: damaged ({reason}); train the rater again"):
            Calibration.read(tmp_path)


def test_the_card_s_file_in_full(tmp_path):
    card = RaterCard("words", {"factor": 2.0}, 3, ("é.jpg",), "f", {"path": Path("x")})
    card.write(tmp_path)
    path = tmp_path / "rater.json"
    assert path.read_text(encoding="utf-8") == (
        '{\n "format": 2,\n "rater": "words",\n "options": {\n  "factor": 2.0\n },\n "seed": 3,\n "images": [\n'
        '  "é.jpg"\n ],\n "fingerprint": "f",\n "about": {\n  "path": "x"\n }\n}'
    )
    assert RaterCard.read(tmp_path) == RaterCard(
        "words", {"factor": 2.0}, 3, ("é.jpg",), "f", {"path": "x"}
    )
    table = json.loads(path.read_text(encoding="utf-8"))
    for number, age in ((1, "former"), (3, "later")):
        path.write_text(json.dumps({**table, "format": number}))
        with says(
            f"{tmp_path}: a rater of a {age} version of captau (format {number}, here 2); train it again with "
            f"captau train, or use the version that trained it"
        ):
            RaterCard.read(tmp_path)
    for change in ({"options": []}, {"about": []}, {"images": "a"}, {"images": ["a", 1]}, {"x": 1}):
        path.write_text(json.dumps({**table, **change}))
        with says(f"{path}: not the card of a rater, or damaged"):
            RaterCard.read(tmp_path)
    path.unlink()
    with says(f"{path}: cannot be read (No such file or directory)"):
        RaterCard.read(tmp_path)


def test_recipes_of_cards(folder):
    card = RaterCard.read(folder)
    assert card.make_recipe(texts=None, images=None).options == {"factor": 2.0, "texts": "words"}
    assert card.make_recipe(texts="x.npz").options == {"factor": 2.0, "texts": "x.npz"}
    with says("rater words: images=y; its sources are: texts"):
        card.make_recipe(texts="x", images="y")
    with says("rater combination: model=y; its sources are: none"):
        RaterCard("combination", {"metrics": ["bleu_1"]}, 0, (), "", {}).make_recipe(model="y")
    with says(
        "rater icr: its card lacks options (Icr.__init__() missing 1 required positional argument"
    ):
        RaterCard("icr", {"images": "demo"}, 0, (), "", {}).make_recipe()


def test_folders_of_raters(folder, tmp_path):
    run = folder.parent
    assert list_rater_folders(folder) == list_rater_folders(run) == [folder]
    for number in (6, 5, 4, 3, 2, 1):
        other = run / f"seed-{number}"
        other.mkdir()
        (other / CARD_FILE).touch()
    assert list_rater_folders(run) == [run / f"seed-{k}" for k in range(7)]
    with says(f"{run}: several raters lie in it; name one: seed-0, seed-1, seed-2, seed-3, seed-4"):
        find_rater_folder(run)
    with says(
        f"{tmp_path}: no rater.json in it; if the training was stopped, start the same captau train again"
    ):
        list_rater_folders(tmp_path)
    with pytest.raises(UnavailableError) as error:
        list_rater_folders(tmp_path / "nothing")
    assert str(error.value) == (f"rater {tmp_path}/nothing is not a folder; captau train makes one")


def test_the_metric_s_fields_and_what_it_depends_on(folder):
    rater = RaterMetric(str(folder))
    assert (rater.name, rater.seen) == ("rater", "refuse")
    assert {rater.images, rater.texts, rater.labels, rater.regions, rater.model} == {None}
    assert RaterMetric.depends_only_on_content is False
    assert RaterMetric.lock is MODEL_LOCK
    assert rater.spec == f"rater(path={folder})"
    assert rater.rating_scale == (1.0, 5.0)
    assert rater.needs == frozenset()
    for name in ("training.csv", "run.json", "calibration.json", "README.md", ".hidden"):
        (folder / name).write_text("x")
    (folder / "more").mkdir()
    files = [folder / "model.json", folder / "rater.json"]
    assert rater.programs == (f"weights:{hash_of(files)}", "features:")
    with says(f"{folder}/calibration.json: damaged"):
        rater.calibration  # noqa: B018
    (folder / "calibration.json").unlink()
    assert rater.calibration is None
    nowhere = RaterMetric(str(folder / "nowhere"))
    assert (nowhere.needs, nowhere.programs) == (frozenset(), ("weights:missing",))
    with pytest.raises(InputError):
        nowhere.check_rows(Rows.from_items(ROWS))
    assert RaterMetric(str(folder), name="mine").spec == "mine"


def test_the_overlap_with_training_in_full(folder):
    rater = RaterMetric(str(folder))
    with pytest.raises(UnavailableError) as error:
        rater.training_overlap_note(["b.jpg", "c.jpg", "a.jpg", "b.jpg"])
    assert str(error.value) == (
        f"metric {rater.spec} was trained on, or chosen by, 2 of the 3 images; protocol.split=test leaves out the "
        f"images of design=split's training, and rater(path=…,seen=mark) keeps and marks them"
    )
    marked = RaterMetric(str(folder), seen="mark")
    assert marked.training_overlap_note(["a.jpg", *map(str, range(1000))]) == (
        "was trained on, or chosen by, 1 of the 1,001 images"
    )
    with pytest.raises(UnavailableError):
        rater.check_dataset(Rows.from_items(ROWS))
    assert marked.check_dataset(Rows.from_items(ROWS)) is None


def test_a_changed_rater_is_read_again(folder):
    rater = metric(f"rater(path='{folder}')")
    assert rater.score(ROWS).tolist() == [4.0, 6.0]
    WordCounter(3.0).save(folder)
    assert rater.score(ROWS).tolist() == [4.0, 6.0]  # whoever changes weights writes the card last
    card = RaterCard.read(folder)
    card.write(folder)
    assert rater.score(ROWS).tolist() == [6.0, 9.0]
