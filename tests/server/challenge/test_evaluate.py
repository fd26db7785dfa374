"""What an evaluation gives: the same drawn scores whatever a submission's order."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from captau.server.challenge.definition_file import read_challenges
from captau.server.challenge.evaluation.evaluator import Prepared
from tests.server.challenge.conftest import REFERENCES, captions, write_challenge


@pytest.mark.parametrize("order", ["references", "reversed", "shuffled"])
def test_drawn_scores_are_of_the_same_images_in_any_order(tmp_path, order):
    """So any two submissions are compared on the same samples; source: the references' own order."""
    (challenge,) = read_challenges(str(write_challenge(tmp_path)))
    prepared, found = Prepared(challenge), []
    said = {i: r[k % 2][3 * (k % 5) :] for k, (i, r) in enumerate(REFERENCES.items())}
    rows = json.loads(captions(**said))
    assert [row["image_id"] for row in rows] == list(prepared.images)
    mixed = list(rows)
    if order == "reversed":
        mixed.reverse()
    elif order == "shuffled":
        random.Random(2).shuffle(mixed)
    for some in (rows, mixed):
        path = tmp_path / "captions.json"
        path.write_text(json.dumps(some))
        told = []
        found.append(prepared.evaluate(path, lambda share, step, told=told: told.append(share)))
        assert told == sorted(told)
        assert told[-1] == 0.99  # all that was announced was done
    first, second = found
    assert list(first.drawn) == list(second.drawn)
    assert len(first.drawn) == 4
    for key, values in first.drawn.items():
        assert len(np.unique(values)) > 10
        np.testing.assert_allclose(second.drawn[key], values, rtol=1e-13)
    assert [r["value"] for r in second.scores] == pytest.approx([r["value"] for r in first.scores])
    kept = second.items.set_index("image_id").loc[first.items["image_id"]]
    for column in first.items.columns.drop("image_id"):
        assert kept[column].tolist() == pytest.approx(first.items[column].tolist(), nan_ok=True)
