"""nocaps-FOIL: small files of our own in the release's shape."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from captau.benchmarks.commands.bench import bench
from captau.datasets.registry import load
from captau.datasets.sources.nocaps_foil import PAIRS
from tests.conftest import says

ROW = {
    "image_path": "one.jpg",
    "references": ["A dog runs.", "Dogs outside."],
    "baseline": "A dog runs. ",
    "foil": "A cat  runs.",
    "replacement": ["dog", "cat"],
    "domain": "in-domain",
}


def write(root: Path, rows: Any) -> Path:
    path = root / PAIRS.path
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(rows))
    return path


def test_every_field_of_nocaps_foil(tmp_path: Path) -> None:
    write(tmp_path, [ROW, ROW | {"image_path": "two.jpg", "domain": "out-domain"}])
    caption_set = load("nocaps_foil", tmp_path)
    assert caption_set.items["caption"].tolist() == ["A dog runs.", "A cat runs."] * 2
    assert caption_set.items["references"].tolist() == [("A dog runs.", "Dogs outside.")] * 4
    assert caption_set.ratings["value"].tolist() == [0, 1, 0, 1]
    assert caption_set.preferences["winner"].tolist() == ["a", "a"]
    assert caption_set.preferences["dimension"].tolist() == ["in-domain", "out-domain"]


def test_pairs_and_detection(tmp_path: Path) -> None:
    """BLEU-1 scores the right caption 1 and the foiled one 2/3, in every pair."""
    write(tmp_path, [ROW, ROW | {"image_path": "two.jpg"}])
    table = bench("nocaps_foil", "bleu_1", data_root=tmp_path).correlations
    table = table[table["metric"] == "bleu_1"]
    assert table["coefficient"].tolist() == ["average_precision", "auroc", "accuracy", "accuracy"]
    assert table["value"].tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([ROW | {"foil": "A dog runs."}], "entry 0: 'baseline' and 'foil' are one caption"),
        ([ROW, ROW | {"domain": "far"}], "entry 1: 'domain' is 'far', none of in-domain, "),
        ([{**ROW, "references": "x"}], "'references' is 'x', not list"),
        ({}, "a list is expected, not dict"),
    ],
)
def test_faults_of_nocaps_foil_name_file_and_entry(rows: Any, message: str, tmp_path: Path) -> None:
    path = write(tmp_path, rows)
    with says(str(path), message):
        load("nocaps_foil", tmp_path)
