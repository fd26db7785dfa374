"""HAT: small files of our own in the release's shape, and the figures of the real one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from captau.benchmarks.commands.bench import bench
from captau.benchmarks.evaluation.judged_pairs import ORDER_NOTE
from captau.datasets.registry import load
from captau.datasets.sources.aloha import CAPTIONS, PAIRS
from tests.conftest import says

ROW = {
    "sample_id": "one",
    "caption": "A dog on a sofa.",
    "grounding": [["A", False], ["dog", False], ["on", True], ["a", True], ["sofa.", True]],
    "contains_hallucination": True,
    "image_path": "COCO_val2014_000000000042.jpg",
    "references": ["A dog runs.", "Dogs outside."],
    "is_machine_generated": True,
}
RIGHT = {
    **ROW,
    "caption": "A dog.",
    "grounding": [["A", False], ["dog.", False]],
    "contains_hallucination": False,
}


def write(root: Path, rows: Any) -> Path:
    path = root / CAPTIONS.path
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(rows))
    return path


def test_every_field_of_hat(tmp_path: Path) -> None:
    write(tmp_path, [ROW, RIGHT])
    caption_set = load("hat", tmp_path)
    assert caption_set.items["image_id"].tolist() == ["42", "42"]
    assert caption_set.items["caption"].tolist() == ["A dog on a sofa.", "A dog."]
    assert caption_set.items["references"].tolist() == [("A dog runs.", "Dogs outside.")] * 2
    first, second = caption_set.items["item_id"]
    assert caption_set.ratings.to_numpy().tolist() == [
        [first, "hallucination", "release", 1.0],
        [second, "hallucination", "release", 0.0],
    ]
    assert caption_set.words.to_numpy().tolist() == [
        *([first, k, w, "hallucination", int(x)] for k, (w, x) in enumerate(ROW["grounding"])),
        [second, 0, "A", "hallucination", 0],
        [second, 1, "dog.", "hallucination", 0],
    ]


FAULTS = {
    **{
        f"grounding {entry!r}": (
            [{**RIGHT, "grounding": [["A", False], entry]}],
            f": entry 0: 'grounding' holds {entry!r}, not a word and true or false",
        )
        for entry in (["dog.", 1], ["dog."], [True, "dog."], ["dog.", True, True], "dog.", 5)
    },
    "words of another caption": ([{**RIGHT, "grounding": [["A", False]]}], "'grounding': "),
    "no list": ({}, "a list is expected, not dict"),
    "no label": ([{**ROW, "contains_hallucination": 1}], "'contains_hallucination' is 1, not bool"),
    "no references": ([{**ROW, "references": "a dog"}], "'references' is 'a dog', not list"),
    "no caption": ([ROW, {}], "entry 1: 'image_path' is missing"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_hat_name_file_and_entry(fault: str, tmp_path: Path) -> None:
    rows, part = FAULTS[fault]
    path = write(tmp_path, rows)
    with says(str(path), part):
        load("hat", tmp_path)


def test_a_caption_that_scores_high_hides_its_hallucination(tmp_path: Path) -> None:
    """The wrong caption has the lower BLEU-1 of two: both coefficients of finding faults are 1, and so is τ."""
    write(tmp_path, [ROW, {**RIGHT, "image_path": "43.jpg"}])
    protocol = {"coefficients": ["average_precision", "auroc", "tau_b"]}
    table = bench("hat", "bleu_1", protocol=protocol, data_root=tmp_path).correlations
    values = table.set_index("coefficient")["value"]
    assert values[protocol["coefficients"]].tolist() == [1.0, 1.0, 1.0]


@pytest.fixture(scope="module")
def detection(data_root: Path) -> dict[tuple[str, str], float]:
    metrics = ["bleu_1", "bleu_4", "rouge_l", "meteor", "cider"]
    table = bench("hat", metrics, data_root=data_root).correlations
    return table.set_index(["coefficient", "metric"])["value"].to_dict()


def test_the_real_file_of_hat(data_root: Path) -> None:
    """Counts of the README beside the file: 400 rows, 135 hallucinated."""
    ratings = load("hat", data_root).ratings["value"]
    assert (len(ratings), ratings.sum()) == (400, 135)


@pytest.mark.parametrize(
    ("coefficient", "figures"),
    [
        ("average_precision", [51.5, 53.9, 53.0, 52.0, 48.3]),
        ("auroc", [70.1, 67.8, 70.0, 69.3, 67.4]),
    ],
)
def test_detection_on_hat_is_as_computed_independently(
    detection: dict[tuple[str, str], float], coefficient: str, figures: list[float]
) -> None:
    """BLEU-1, BLEU-4, ROUGE-L, METEOR, CIDEr, from the README beside the file."""
    values = [value for (name, _), value in detection.items() if name == coefficient]
    assert [round(100 * value, 1) for value in values] == figures


PAIR_ROW = {
    "image_path": "one.jpg",
    "references": ["A dog runs.", "Dogs outside."],
    "baseline": "A dog runs. ",
    "foil": "A cat  runs.",
    "replacement": ["dog", "cat"],
    "domain": "in-domain",
}


def write_pairs(root: Path, rows: Any) -> Path:
    path = root / PAIRS.path
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(rows))
    return path


def test_every_field_of_nocaps_foil(tmp_path: Path) -> None:
    write_pairs(tmp_path, [PAIR_ROW, PAIR_ROW | {"image_path": "two.jpg", "domain": "out-domain"}])
    caption_set = load("nocaps_foil", tmp_path)
    assert caption_set.items["caption"].tolist() == ["A dog runs.", "A cat runs."] * 2
    assert caption_set.items["references"].tolist() == [("A dog runs.", "Dogs outside.")] * 4
    assert caption_set.ratings["value"].tolist() == [0, 1, 0, 1]
    ids = caption_set.items["item_id"].tolist()
    assert caption_set.ratings.iloc[:, :3].to_numpy().tolist() == [
        [item, "hallucination", "release"] for item in ids
    ]
    assert caption_set.preferences.to_numpy().tolist() == [
        ["pair-0000", *ids[:2], "in-domain", "people", 1.0, "a"],
        ["pair-0001", *ids[2:], "out-domain", "people", 1.0, "a"],
    ]
    assert caption_set.items["image_id"].tolist() == ["one.jpg", "one.jpg", "two.jpg", "two.jpg"]


def test_the_right_caption_may_come_first_in_the_alphabet(tmp_path: Path) -> None:
    write_pairs(tmp_path, [PAIR_ROW | {"baseline": "A cat.", "foil": "A dog."}])
    assert load("nocaps_foil", tmp_path).items["caption"].tolist() == ["A cat.", "A dog."]


def test_pairs_and_detection(tmp_path: Path) -> None:
    """BLEU-1 scores the right caption 1 and the foiled one 2/3, in every pair."""
    write_pairs(tmp_path, [PAIR_ROW, PAIR_ROW | {"image_path": "two.jpg"}])
    results = bench("nocaps_foil", "bleu_1", data_root=tmp_path)
    table = results.correlations
    # The original stands first in every pair, so that the first caption says nothing.
    assert "floor_length" in set(table["metric"])
    assert "floor_position" not in set(table["metric"])
    assert ORDER_NOTE in results.tables[0].notes
    table = table[table["metric"] == "bleu_1"].set_index("coefficient")["value"]
    assert table[["average_precision", "auroc", "accuracy"]].tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([PAIR_ROW | {"foil": "A dog runs."}], "entry 0: 'baseline' and 'foil' are one caption"),
        (
            [PAIR_ROW, PAIR_ROW | {"domain": "far"}],
            "entry 1: 'domain' is 'far', none of in-domain, ",
        ),
        ([{**PAIR_ROW, "references": "x"}], "'references' is 'x', not list"),
        ({}, "a list is expected, not dict"),
    ],
)
def test_faults_of_nocaps_foil_name_file_and_entry(rows: Any, message: str, tmp_path: Path) -> None:
    path = write_pairs(tmp_path, rows)
    with says(str(path), message):
        load("nocaps_foil", tmp_path)
