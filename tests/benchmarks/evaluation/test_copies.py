"""Candidates among their own references, in the numbers and tables of a run."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import captau
from captau.benchmarks.evaluation.evaluation_set import EvaluationSet
from captau.benchmarks.evaluation.wording import copies_note
from captau.benchmarks.reporting.run_results import Results
from captau.benchmarks.scoring.catalog import usual_protocol
from captau.benchmarks.scoring.protocol import Protocol
from captau.datasets.caption_texts import OwnReferences
from captau.datasets.schema import CaptionSet

#: Shaped like Composite: people's own captions among those of models, and rated far better. BLEU-1's precision of the
#: copies is 1; of the others 2/3 ("a dog sits"), 1/3 ("a cat lies") and 0.
ROWS = [
    ("1", "A dog runs.", 5, ["a dog runs", "the hound races off"]),
    ("2", "a child plays", 5, ["a child plays", "the kid has fun"]),
    ("1", "a dog sits", 1, ["a dog runs", "the hound races off"]),
    ("2", "a cat lies", 2, ["a child plays", "the kid has fun"]),
    ("3", "two red cars", 3, ["some men talk", "people chat"]),
]


@pytest.fixture
def ratings_file(tmp_path: Path) -> Path:
    columns = ["image", "caption", "value", "references"]
    path = tmp_path / "composite.json"
    pd.DataFrame(ROWS, columns=columns).to_json(path, orient="records")
    return path


def bench(path: Path, metric: str = "bleu_1", **protocol: Any) -> Results:
    changes = {"coefficients": ["tau_b"], **protocol}
    options = {"path": str(path), "references": "references"}
    return captau.bench("file", metric, protocol=changes, file=options, ceilings=False)


def tau_b(results: Results) -> pd.DataFrame:
    return results.correlations[results.correlations["coefficient"] == "tau_b"]


def test_copies_make_a_bad_metric_look_good(ratings_file: Path) -> None:
    """Golden, worked: scores 1, 1, 2/3, 1/3, 0 against ratings 5, 5, 1, 2, 3.

    With the copies C = 6, D = 3 and one pair is tied on both sides: 3 / 9. Without them C = 0, D = 3.
    """
    values = {
        policy: tau_b(bench(ratings_file, own_references=policy))["value"].item()
        for policy in ("keep", "drop")
    }
    assert values == {"keep": pytest.approx(1 / 3), "drop": pytest.approx(-1)}


def test_leave_out_scores_a_copy_against_the_other_references(ratings_file: Path) -> None:
    """Golden, worked: "A dog runs." shares no word with "the hound races off"."""
    results = bench(ratings_file, own_references="leave_out")
    assert results.scores["score"].tolist() == pytest.approx([0, 0, 2 / 3, 1 / 3, 0], abs=1e-8)
    assert tau_b(results)["n_items"].item() == 5


def test_leave_out_image_scores_all_captions_of_the_image_without_it(ratings_file: Path) -> None:
    """Golden, worked: "a dog sits" shares no word with "the hound races off", "a cat lies" none with "the kid has fun"."""
    results = bench(ratings_file, own_references="leave_out_image")
    assert results.scores["score"].tolist() == pytest.approx([0, 0, 0, 0, 0], abs=1e-8)
    assert tau_b(results)["n_items"].item() == 5


def test_a_single_copy_is_counted_in_the_singular() -> None:
    marks = np.array([True, False, False])
    copies = OwnReferences(marks, marks, marks, [("a dog",)] * 3)
    assert (
        copies.count() == "1 of 3 captions repeats one of its image's references, 1 of them exactly"
    )


@pytest.mark.parametrize(
    ("policy", "note"),
    [
        (
            "keep",
            "2 of 5 captions repeat one of their image's references, 1 of them exactly (mean overall 5.00, of the "
            "others 2.00): protocol.own_references=drop leaves them out, leave_out scores them without that "
            "reference.",
        ),
        (
            "drop",
            "2 of 5 captions repeat one of their image's references, 1 of them exactly (mean overall 5.00, of the "
            "others 2.00), and are left out: protocol.own_references=keep counts them.",
        ),
        (
            "leave_out",
            "2 of 5 captions repeat one of their image's references, 1 of them exactly (mean overall 5.00, of the "
            "others 2.00), and are scored without it: protocol.own_references=keep scores them with it.",
        ),
        (
            "leave_out_image",
            "2 of 5 captions repeat one of their image's references, 1 of them exactly (mean overall 5.00, of the "
            "others 2.00), and all captions of these images are scored without it: protocol.own_references=keep "
            "scores them with it.",
        ),
    ],
)
def test_the_table_says_how_many_copies_there_are(
    ratings_file: Path, policy: str, note: str
) -> None:
    results = bench(ratings_file, own_references=policy)
    assert note in results.tables[0].notes
    assert results.run["protocols"]["file"]["own_references"] == policy


def test_a_table_without_copies_says_nothing(ratings_file: Path) -> None:
    table = pd.read_json(ratings_file)
    table[2:].to_json(ratings_file, orient="records")
    assert not any("references (" in note for note in bench(ratings_file).tables[0].notes)


def test_a_pair_with_a_copy_is_left_out_with_it() -> None:
    """In the demo no caption is a copy; where a caption becomes a reference of its own, its pairs go with it."""
    demo = captau.load("demo")
    copied = demo.preferences["item_a"].iloc[0]
    items = demo.items
    references = [
        (caption, *refs) if item_id == copied else refs
        for item_id, caption, refs in zip(
            items["item_id"], items["caption"], items["references"], strict=True
        )
    ]
    items["references"] = pd.Series(references, dtype=object)
    changed = CaptionSet(items, demo.ratings, demo.preferences, card=demo.card)
    protocol = Protocol.resolve("demo", usual_protocol("demo"), {"own_references": "drop"})
    selection = EvaluationSet.select(changed, protocol)
    pairs = demo.preferences
    has_copy = (pairs["item_a"] == copied) | (pairs["item_b"] == copied)
    assert len(selection.items) == len(items) - 1
    assert len(selection.preferences) == len(pairs) - has_copy.sum() < len(pairs)
    decided = pairs[has_copy & (pairs["winner"] != "tie")]
    n_preferred = int(((decided["item_a"] == copied) == (decided["winner"] == "a")).sum())
    words = f"preferred in {n_preferred} of {len(decided)} pairs with a caption that repeats none"
    assert words in copies_note(selection)


def test_scores_are_stored_by_what_becomes_of_copies(ratings_file: Path, tmp_path: Path) -> None:
    def scores(policy: str) -> list[float]:
        results = captau.bench(
            "file",
            "bleu_1",
            protocol={"own_references": policy, "coefficients": ["tau_b"]},
            file={"path": str(ratings_file), "references": "references"},
            ceilings=False,
            cache_root=tmp_path / "cache",
        )
        return results.scores["score"].tolist()

    first = {policy: scores(policy) for policy in ("keep", "drop", "leave_out")}
    assert {policy: scores(policy) for policy in first} == first
    assert len(set(map(tuple, first.values()))) == 3
    assert not any(math.isnan(score) for column in first.values() for score in column)
