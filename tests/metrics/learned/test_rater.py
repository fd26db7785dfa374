"""The metric `rater`: a trained rater's scores, name, signature, training images and damaged folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from captau.datasets.errors import InputError
from captau.metrics.base import UnavailableError
from captau.metrics.learned.rater import (
    CARD_FILE,
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


# In full


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
    with says("the rater 'captau' was removed in captau 0.2.0"):
        RaterCard("captau", {"learns_from": "ratings"}, 0, (), "", {}).make_recipe()
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
    assert {rater.images, rater.texts, rater.labels, rater.regions} == {None}
    assert RaterMetric.depends_only_on_content is False
    assert RaterMetric.lock is MODEL_LOCK
    assert rater.spec == f"rater(path={folder})"
    assert rater.rating_scale == (1.0, 5.0)
    assert rater.needs == frozenset()
    for name in ("training.csv", "run.json", "README.md", ".hidden"):
        (folder / name).write_text("x")
    (folder / "more").mkdir()
    files = [folder / "model.json", folder / "rater.json"]
    assert rater.programs == (f"weights:{hash_of(files)}", "features:")
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
