"""Evaluation of captions: the same bootstrap replicates whatever a submission's order."""

from __future__ import annotations

import json
import random
import zipfile
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from captau.server.challenge.definition_file import read_challenges
from captau.server.challenge.evaluation import caption_evaluator, make_evaluator
from tests.conftest import says
from tests.server.challenge.conftest import REFERENCES, captions_json, write_challenge


@pytest.mark.parametrize("order", ["references", "reversed", "shuffled"])
def test_replicates_are_of_the_same_samples_of_images_in_any_order(tmp_path, order):
    """So that any two submissions can be compared; source: the references' own order."""
    (challenge,) = read_challenges(str(write_challenge(tmp_path)))
    evaluator = make_evaluator(challenge)
    captions = {i: r[k % 2][3 * (k % 5) :] for k, (i, r) in enumerate(REFERENCES.items())}
    rows = json.loads(captions_json(**captions))
    assert [row["image_id"] for row in rows] == list(evaluator.image_ids)
    reordered = list(rows)
    if order == "reversed":
        reordered.reverse()
    elif order == "shuffled":
        random.Random(2).shuffle(reordered)
    evaluations = []
    for submission in (rows, reordered):
        (tmp_path / "captions.json").write_text(json.dumps(submission))
        shares = []
        evaluation = evaluator.evaluate(
            tmp_path, lambda share, step, shares=shares: shares.append(share)
        )
        evaluations.append(evaluation)
        assert shares == sorted(shares)
        assert shares[-1] == 0.99  # all announced steps were taken
    first, second = evaluations
    assert list(first.replicates) == list(second.replicates)
    assert len(first.replicates) == 4
    for key, values in first.replicates.items():
        assert len(np.unique(values)) > 10
        np.testing.assert_allclose(second.replicates[key], values, rtol=1e-13)
    assert [r["value"] for r in second.scores] == pytest.approx([r["value"] for r in first.scores])
    items = second.items.set_index("image_id").loc[first.items["image_id"]]
    for column in first.items.columns.drop("image_id"):
        assert items[column].tolist() == pytest.approx(first.items[column].tolist(), nan_ok=True)


def test_additional_captions_of_people_score_as_a_submission_of_them_would(tmp_path):
    """Chen et al. 2015, section 4.1: one more caption an image, against all references of each set."""
    human = {
        "human": ["each", "human.json"],
        "references": [{"name": "c2", "file": "references.json"}],
    }
    (tmp_path / "human.json").write_text(captions_json())
    (challenge,) = read_challenges(str(write_challenge(tmp_path, **human)))
    evaluator = make_evaluator(challenge)
    evaluator.check_challenge()
    rows = evaluator.score_human_captions()
    by_people = {
        name: [row for row in rows if row["people"] == name]
        for name in (
            "captions held out, against the others (1 in c2)",
            "additional captions, against all references",
        )
    }
    assert [len(part) for part in by_people.values()] == [2, 2]
    (tmp_path / "captions.json").write_text(captions_json())
    submitted = evaluator.evaluate(tmp_path, lambda share, step: None)
    additional = by_people["additional captions, against all references"]
    assert [
        {k: v for k, v in row.items() if k != "people"} for row in additional
    ] == submitted.scores


def test_additional_captions_are_of_every_image(tmp_path):
    rows = json.loads(captions_json())[1:]
    (tmp_path / "human.json").write_text(json.dumps(rows))
    (challenge,) = read_challenges(str(write_challenge(tmp_path, human="human.json")))
    with says(
        "small_captions.yaml", "human.json: 1 of the 12 images have no caption", "'img00.png'"
    ):
        make_evaluator(challenge).check_challenge()


#: Two sets of the validation images and two of the test images, as COCO's c5 and c40.
SPLIT_SETS = [
    {"name": name, "file": f"{name}.json", "split": split}
    for split in ("val2014", "test2014")
    for name in (f"{split}_c2", f"{split}_c1")
]


def write_split_challenge(folder, **changes):
    """Write a challenge whose first five images are of the validation set, the others of the test set."""
    images = list(REFERENCES)
    for split, of_split in (("val2014", images[:5]), ("test2014", images[5:])):
        for k, some in ((2, of_split), (1, of_split[:4])):
            texts = {image: REFERENCES[image][:k] for image in some}
            (folder / f"{split}_c{k}.json").write_text(json.dumps(texts))
    (challenge,) = read_challenges(
        str(write_challenge(folder, **{"references": SPLIT_SETS, **changes}))
    )
    return challenge


def zip_splits(folder, **rows_by_split):
    """Write an upload with results on each split, and return the check's folder."""
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / "upload.zip", "w") as archive:
        for split, rows in rows_by_split.items():
            archive.writestr(f"captions_{split}_mine_results.json", json.dumps(rows))
    return folder


def test_results_on_two_splits_are_each_scored_against_their_own_references(tmp_path):
    """Chen et al. 2015, sections 3 and 5: one zip, both sets, c5 and c40; source: a challenge of each split alone."""
    evaluator = make_evaluator(write_split_challenge(tmp_path))
    evaluator.check_challenge()
    items = list(evaluator.list_items())
    assert [item["split"] for item in items] == ["val2014"] * 5 + ["test2014"] * 7
    rows = json.loads(captions_json())
    by_split = {"val2014": rows[:5], "test2014": rows[5:]}
    upload = zip_splits(tmp_path / "both", **by_split)
    verdict = evaluator.check_submission(upload, "both.zip")
    assert verdict.summary == "both.zip: valid: 5 captions on val2014 and 7 captions on test2014"
    together = evaluator.evaluate(upload, lambda share, step: None)
    assert [(s["references"], s["n"]) for s in together.scores] == [
        (name, n)
        for name, n in zip([s["name"] for s in SPLIT_SETS], (5, 4, 7, 4), strict=True)
        for _ in range(2)
    ]
    alone = []
    for split, of_split in by_split.items():
        sets = [
            {k: v for k, v in s.items() if k != "split"} for s in SPLIT_SETS if s["split"] == split
        ]
        single = make_evaluator(write_split_challenge(tmp_path, references=sets))
        (tmp_path / "captions.json").write_text(json.dumps(of_split))
        alone += single.evaluate(tmp_path, lambda share, step: None).scores
    assert together.scores == alone


def test_faults_of_results_on_two_splits(tmp_path):
    evaluator = make_evaluator(write_split_challenge(tmp_path))
    rows = json.loads(captions_json())
    expected = "a zip of captions_val2014_ALG_results.json and captions_test2014_ALG_results.json is expected"
    one = zip_splits(tmp_path / "one", test2014=rows[5:])
    assert evaluator.check_submission(one, "a.zip").faults == [
        f"a.zip: results on test2014; {expected}"
    ]
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "upload.json").write_text(json.dumps(rows))
    assert evaluator.check_submission(tmp_path / "bare", "a.json").faults == [
        f"a.json: results on no split that its name says; {expected}"
    ]
    swapped = zip_splits(tmp_path / "swapped", val2014=rows[:4], test2014=rows[4:])
    assert evaluator.check_submission(swapped, "a.zip").faults == [
        "a.zip: captions_val2014_mine_results.json: no caption of image 'img04.png'",
        "a.zip: captions_test2014_mine_results.json:1: unknown image 'img04.png'",
    ]


def test_a_submission_with_captions_in_two_columns_is_refused(tmp_path):
    evaluator = make_evaluator(write_split_challenge(tmp_path))
    rows = json.loads(captions_json())
    with_both = [{**row, "prediction": f"{row['caption']} again"} for row in rows]
    upload = zip_splits(tmp_path / "both", val2014=with_both[:5], test2014=rows[5:])
    assert evaluator.check_submission(upload, "a.zip").faults == [
        "a.zip: captions_val2014_mine_results.json: its rows have 'prediction' and 'caption', and one caption an image is "
        "scored; keep one of them"
    ]


def test_additional_captions_of_people_may_be_of_one_split(tmp_path):
    """Chen et al. 2015, section 2: one more caption of each test image."""
    rows = json.loads(captions_json())
    (tmp_path / "human.json").write_text(json.dumps(rows[5:]))
    evaluator = make_evaluator(write_split_challenge(tmp_path, human="human.json"))
    evaluator.check_challenge()
    sets = [row["references"] for row in evaluator.score_human_captions()]
    assert sets == ["test2014_c2"] * 2 + ["test2014_c1"] * 2
    (tmp_path / "human.json").write_text(json.dumps(rows[6:]))
    evaluator = make_evaluator(write_split_challenge(tmp_path, human="human.json"))
    with says("human.json: 1 of the 7 images have no caption", "'img05.png'"):
        evaluator.check_challenge()


def test_an_image_is_in_one_split(tmp_path):
    challenge = write_split_challenge(tmp_path)
    (tmp_path / "val2014_c1.json").write_text(json.dumps({"img07.png": ["a ring"]}))
    with says(
        "small_captions.yaml", "image 'img07.png' has references in both splits, val2014 and"
    ):
        make_evaluator(challenge).check_challenge()


def test_the_first_references_of_a_dataset_are_those_of_each_image(monkeypatch):
    rows = [("1", ("a", "b", "c")), ("2", ("d", "e")), ("1", ("a", "b", "x")), ("3", ())]
    items = pd.DataFrame(rows, columns=["image_id", "references"])
    monkeypatch.setattr(caption_evaluator, "load", lambda name, root: SimpleNamespace(items=items))
    reference_set = SimpleNamespace(file=None, dataset="mine", k=2, name="two")
    loaded = caption_evaluator.load_references(reference_set, None)
    assert loaded.texts == {"1": ("a", "b"), "2": ("d", "e"), "3": ()}
    reference_set.k = None
    with says("dataset mine: rows of image '1' have different references; name a file of them"):
        caption_evaluator.load_references(reference_set, None)
