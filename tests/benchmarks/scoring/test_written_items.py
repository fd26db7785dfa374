"""Items of a caption set as a user writes them with pandas: they come back as the same references and scores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from captau.datasets.reading.caption_files import read_references
from captau.datasets.reading.table import read_table
from captau.datasets.registry import load
from captau.datasets.schema import ITEM_COLUMNS
from captau.metrics.registry import metric
from tests.conftest import says


def demo_references() -> dict[str, tuple[str, ...]]:
    items = load("demo").items
    return dict(zip(items["image_id"], items["references"], strict=True))


ITEM_FILES: dict[str, Callable[[pd.DataFrame, Path], object]] = {
    "r.csv": lambda items, path: items.to_csv(path, index=False),
    "r.tsv": lambda items, path: items.to_csv(path, sep="\t", index=False),
    "r.parquet": lambda items, path: items.to_parquet(path),
    "r.json": lambda items, path: items.to_json(path, orient="records"),
    "r.jsonl": lambda items, path: items.to_json(path, orient="records", lines=True),
}


@pytest.mark.parametrize("name", ITEM_FILES)
@pytest.mark.parametrize("columns", [["image_id", "references"], list(ITEM_COLUMNS)], ids=len)
def test_the_items_of_a_caption_set_come_back_as_the_same_references(
    name: str, columns: list[str], tmp_path: Path
) -> None:
    """Each image stands in as many rows as it has captions."""
    path = tmp_path / name
    ITEM_FILES[name](load("demo").items[columns], path)
    assert read_references(path).texts == demo_references()
    if columns != ["image_id", "references"]:
        table = read_table(path)
        assert table.references("references") == load("demo").items["references"].tolist()


def test_references_as_pandas_reads_them_back_give_the_same_scores(tmp_path: Path) -> None:
    items = load("demo").items
    items.to_csv(tmp_path / "items.csv", index=False)
    scores = [
        metric("bleu_4").score(frame) for frame in (items, pd.read_csv(tmp_path / "items.csv"))
    ]
    np.testing.assert_array_equal(*scores)
    assert scores[0].mean() > 0


def test_what_numpy_prints_is_refused_with_its_line(tmp_path: Path) -> None:
    items = load("demo").items[["image_id", "references"]]
    items.assign(references=items["references"].map(np.array)).to_csv(tmp_path / "r.csv")
    with says("r.csv:2: references is \"['", "write a JSON list"):
        read_references(tmp_path / "r.csv")


def test_a_list_in_the_column_of_single_references_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("image_id,caption\n1,\"['a dog' 'a cat']\"\n")
    with says("r.csv:2: caption is \"['a dog' 'a cat']\"", "write a JSON list"):
        read_references(tmp_path / "r.csv")
