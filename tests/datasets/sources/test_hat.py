"""HAT: small files of our own in the release's shape, and the figures of the real one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from captau.benchmarks.commands.bench import bench
from captau.datasets.registry import load
from captau.datasets.sources.hat import CAPTIONS
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
    assert caption_set.ratings["value"].tolist() == [1, 0]


FAULTS = {
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
    assert table["value"].tolist() == [1.0, 1.0, 1.0]


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
