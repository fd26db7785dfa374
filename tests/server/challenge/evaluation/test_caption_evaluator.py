"""Evaluation of captions: the same bootstrap replicates whatever a submission's order."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from captau.server.challenge.definition_file import read_challenges
from captau.server.challenge.evaluation import make_evaluator
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
