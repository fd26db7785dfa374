"""Candidates among their own references, in the numbers and tables of a run."""

from __future__ import annotations

import json
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
from captau.conf import CONFIG_DIR
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
    assert copies.count() == "1 of 3 captions repeats one of its image's references exactly"


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


#: Shaped like SugarCrepe, whose better caption is a reference: beside it BLEU-1 is 1. Of three words the first pair's
#: captions share one ("the") with the other reference, and the second pair's one ("a") and two ("a child").
PAIRS = [
    {
        "image": "1",
        "caption_a": "The hound races.",
        "caption_b": "the hound sleeps",
        "winner": "a",
        "references": ["the hound races", "the dog runs"],
    },
    {
        "image": "2",
        "caption_a": "a kid plays",
        "caption_b": "a child sleeps",
        "winner": "a",
        "references": ["a kid plays", "a child laughs"],
    },
]


def bench_pairs(folder: Path, pairs: list[dict[str, Any]], **protocol: Any) -> Results:
    path = folder / "pairs.json"
    path.write_text(json.dumps(pairs))
    return captau.bench("file", "bleu_1", protocol=protocol, file={"path": str(path)})


def accuracy(results: Results) -> float:
    rows = results.correlations
    rows = rows[(rows["metric"] == "bleu_1") & (rows["dimension"] == "overall")]
    return rows["value"].item()


def test_a_reference_that_is_one_of_a_pair_is_left_out_for_both_as_a_rule(tmp_path: Path) -> None:
    """Golden, worked: BLEU-1 without that reference is 1/3 and 1/3 in the first pair, a tie, and 1/3 and 2/3 in the second.

    So half of the first pair is right and nothing of the second, 0.25; with it both first captions have 1, and win.
    """
    usual = bench_pairs(tmp_path, PAIRS)
    assert usual.scores["score"].tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 3, 2 / 3], abs=1e-8)
    assert accuracy(usual) == 0.25
    assert set(usual.correlations["protocol"]) == {"usual"}
    assert usual.run["protocols"]["file"]["own_references"] == "leave_out_pair"
    assert (
        "2 of 4 captions repeat one of their image's references, 1 of them exactly (preferred in 2 of 2 pairs with a "
        "caption that repeats none), and both captions of their pairs are scored without it: "
        "protocol.own_references=keep scores them with it."
    ) in usual.tables[0].notes

    kept = bench_pairs(tmp_path, PAIRS, own_references="keep")
    assert accuracy(kept) == 1
    assert set(kept.correlations["protocol"]) == {"usual own_references=keep"}
    assert (
        "2 of 4 captions repeat one of their image's references, 1 of them exactly (preferred in 2 of 2 pairs with a "
        "caption that repeats none): protocol.own_references=drop leaves them out, leave_out_pair scores both captions "
        "of their pairs without that reference."
    ) in kept.tables[0].notes


def test_pairs_without_a_copy_keep_their_references(tmp_path: Path) -> None:
    plain = [{**pair, "references": ["a cat sits", "the cat lies"]} for pair in PAIRS]
    results = bench_pairs(tmp_path, plain)
    assert results.run["protocols"]["file"]["own_references"] == "keep"
    assert not any("own_references" in note for note in results.tables[0].notes)


def test_a_pair_that_has_no_other_reference_is_left_out_and_counted(tmp_path: Path) -> None:
    """Of a file in which no pair has another reference, all are kept; the note says what that means."""
    single = {**PAIRS[0], "references": ["the hound races"]}
    results = bench_pairs(tmp_path, [single, PAIRS[1]])
    assert accuracy(results) == 0
    assert any(
        "scored without it; 1 pair is left out that has no other: protocol." in note
        for note in results.tables[0].notes
    )

    results = bench_pairs(tmp_path, [single])
    assert results.run["protocols"]["file"]["own_references"] == "keep"
    assert accuracy(results) == 1


def test_what_people_say_of_pairs_does_not_hang_on_their_references(tmp_path: Path) -> None:
    """`rank` and `agree` keep each caption one item, and pairs without another reference, unless the rule is typed."""
    systems = {"system_a": "human", "system_b": "model"}
    pairs = [{**pair, **systems, "references": pair["references"][:1]} for pair in PAIRS]
    pairs += [{**pairs[0], "caption_b": "the hound barks", "references": PAIRS[0]["references"]}]
    path = tmp_path / "pairs.json"
    path.write_text(json.dumps(pairs))
    file = {"path": str(path)}

    ranked = captau.rank("file", "bleu_1", file=file)
    assert ranked.run["protocols"]["file"]["own_references"] == "keep"
    assert ranked.frames["wins.csv"][["wins_a", "wins_b", "ties"]].to_numpy().tolist() == [
        [3, 0, 0]
    ]

    typed = captau.rank("file", "bleu_1", protocol={"own_references": "leave_out_pair"}, file=file)
    assert typed.run["protocols"]["file"]["own_references"] == "leave_out_pair"
    assert typed.frames["wins.csv"][["wins_a", "wins_b", "ties"]].to_numpy().tolist() == [[1, 0, 0]]


def test_a_stored_set_of_pairs_says_itself_what_is_usual(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "conf" / "dataset"
    folder.mkdir(parents=True)
    (folder / "pairs.json").write_text(json.dumps(PAIRS))
    monkeypatch.setenv(CONFIG_DIR, str(tmp_path / "conf"))
    for chosen, expected in (("", 0.25), ("protocol: {own_references: keep}\n", 1)):
        (folder / "mine.yaml").write_text(f"file: {{path: pairs.json}}\n{chosen}")
        assert accuracy(captau.bench("mine", "bleu_1")) == expected


def write_sugarcrepe(data_root: Path, folder: Path) -> Path:
    """Write SugarCrepe's pairs of Karpathy's test images as a table of one's own; the better caption is a reference."""
    references = json.loads((data_root / "coco/karpathy_test_references.json").read_text())
    rows: list[dict[str, Any]] = []
    for path in sorted((data_root / "sugarcrepe").glob("*.json")):
        for entry in json.loads(path.read_text()).values():
            image = str(int(Path(entry["filename"]).stem))
            if image in references:
                row = {"image": image, "references": references[image], "dimension": path.stem}
                row |= {"caption_a": entry["caption"], "caption_b": entry["negative_caption"]}
                rows.append({**row, "winner": "a"})
    assert len(rows) == 852
    written = folder / "sugarcrepe.json"
    written.write_text(json.dumps(rows))
    return written


def mean_accuracies(path: Path, metrics: list[str], **protocol: Any) -> dict[str, float]:
    statistics = {"interval": "none"}
    results = captau.bench(
        "file", metrics, file={"path": str(path)}, protocol=protocol, statistics=statistics
    )
    rows = results.correlations
    rows = rows[(rows["dimension"] == "mean") & rows["metric"].isin(metrics)]
    return dict(zip(rows["metric"], (100 * rows["value"]).round(1), strict=True))


def test_sugarcrepes_pairs_are_judged_without_the_source(data_root: Path, tmp_path: Path) -> None:
    """Golden, of data/README.md: the mean over the seven kinds; with that reference CIDEr always prefers the source."""
    path = write_sugarcrepe(data_root, tmp_path)
    metrics = ["cider", "bleu_4", "bleu_1"]
    assert mean_accuracies(path, metrics) == {"cider": 88.1, "bleu_4": 78.6, "bleu_1": 73.8}
    assert mean_accuracies(path, ["cider"], own_references="keep") == {"cider": 100.0}
    assert mean_accuracies(path, ["cider"], own_references="leave_out") == {"cider": 8.4}


@pytest.mark.dev
def test_sugarcrepes_pairs_by_meteor(data_root: Path, tmp_path: Path) -> None:
    """Golden, as above, of the metric that the extra `[coco]` brings."""
    assert mean_accuracies(write_sugarcrepe(data_root, tmp_path), ["meteor"]) == {"meteor": 76.3}
