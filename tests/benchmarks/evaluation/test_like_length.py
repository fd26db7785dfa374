"""Accuracies on pairs of like length: worked by hand on made-up pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import captau
from tests.conftest import run_captau

#: Words of both captions, and the winner; the first five pairs are one word apart, the others nine.
PAIRS = [
    *[(2, 3, "a"), (3, 2, "a"), (2, 3, "b"), (3, 2, "b"), (2, 3, "a")],
    *[(1, 10, "b")] * 9,
    (10, 1, "b"),
]


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """A table of pairs, an image each."""
    rows = [
        (f"{n}.jpg", " ".join(["a"] * a), " ".join(["b"] * b), winner, "a a a a a")
        for n, (a, b, winner) in enumerate(PAIRS)
    ]
    columns = pd.Index(["image", "caption_a", "caption_b", "winner", "references"])
    pd.DataFrame(rows, columns=columns).to_csv(tmp_path / "pairs.csv", index=False)
    return tmp_path / "pairs.csv"


def test_length_helps_little_in_pairs_of_like_length(pairs: Path, tmp_path: Path) -> None:
    """Of all 15 pairs the longer caption wins in the second, the third and nine more; of the first five in two."""
    out = tmp_path / "run"
    words = ["dataset=file", f"file.path={pairs}", "metrics=bleu_1", f"output_dir={out}"]
    assert run_captau("bench", *words) == 0
    records = pd.read_csv(out / "length.csv").to_dict("records")
    rows: dict[str, dict[Any, Any]] = {str(row["metric"]): row for row in records}
    longer = rows["floor_length"]
    assert longer["value"] == pytest.approx(11 / 15)
    assert longer["like_length"] == pytest.approx(2 / 5)
    assert longer["ci_low"] < 2 / 5 < longer["ci_high"]
    assert longer["longer"] == 1
    assert longer["note"] == "1 words apart: 5 answers about pairs of 5 images"
    # BLEU-1 knows the words of a alone, which win three of the first five, and no pair of the others.
    assert rows["bleu_1"]["like_length"] == pytest.approx(3 / 5)
    assert rows["bleu_1"]["value"] == pytest.approx(3 / 15)
    table = (out / "table.md").read_text()
    assert "accuracy on pairs of like length" in table


def test_there_is_none_without_preferences_or_where_all_pairs_differ_alike(tmp_path: Path) -> None:
    rows = [(f"{n}.jpg", "a b", "a b c", "ab"[n % 2], "a") for n in range(6)]
    columns = pd.Index(["image", "caption_a", "caption_b", "winner", "references"])
    pd.DataFrame(rows, columns=columns).to_csv(tmp_path / "pairs.csv", index=False)
    results = captau.bench("file", ["bleu_1"], file={"path": str(tmp_path / "pairs.csv")})
    assert "length.csv" not in results.frames
    ratings = captau.bench("demo", ["bleu_1"], protocol={"coefficients": ["tau_c"]})
    assert "length.csv" not in ratings.frames
