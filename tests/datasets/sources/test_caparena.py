"""CapArena: small files of our own in the shape that its authors' code reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from captau.datasets.registry import load
from captau.datasets.sources.caparena import BATTLES
from tests.conftest import says

BATTLE = {
    "img": "test_1.jpg",
    "source1": "A",
    "source2": "human",
    "caption1": "A dog.",
    "caption2": "A brown  dog.",
    "winner": "human",
    "cluster": 1,
    "in-400": True,
}


def write(root: Path, rows: Any) -> Path:
    path = root / BATTLES.path
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(rows))
    return path


def test_every_field_of_caparena(tmp_path: Path) -> None:
    """A caption that stands in two battles is one item."""
    other = {"source2": "B", "caption2": "A cat.", "winner": "equal"}
    write(tmp_path, [BATTLE, BATTLE | other, BATTLE | {"winner": "A"}])
    caption_set = load("caparena", tmp_path)
    items = caption_set.items
    assert items["caption"].tolist() == ["A dog.", "A brown dog.", "A cat."]
    assert items["system"].tolist() == ["A", "human", "B"]
    assert set(items["image_id"]) == {"test_1.jpg"}
    first, human, other = items["item_id"]
    assert caption_set.preferences.to_numpy().tolist() == [
        ["battle-0000", first, human, "overall", "people", -1.0, "b"],
        ["battle-0001", first, other, "overall", "people", 0.0, "tie"],
        ["battle-0002", first, human, "overall", "people", 1.0, "a"],
    ]


def test_systems_may_stand_in_any_order(tmp_path: Path) -> None:
    write(tmp_path, [BATTLE | {"source1": "z", "source2": "B", "winner": "B"}])
    assert load("caparena", tmp_path).items["system"].tolist() == ["z", "B"]


def test_the_reference_of_each_battle_is_read(tmp_path: Path) -> None:
    """Equal captions of a system are one item, as their reference is the image's."""
    other = {"source2": "B", "caption2": "A cat.", "winner": "equal"}
    rows = [{**row, "ref": "A  dog sits."} for row in (BATTLE, BATTLE | other)]
    write(tmp_path, rows)
    caption_set = load("caparena", tmp_path)
    assert caption_set.card.has_references
    assert caption_set.items["references"].tolist() == [("A dog sits.",)] * 3
    for missing in ({}, {"ref": None}, {"ref": " "}):
        write(tmp_path, [rows[0], BATTLE | {"img": "test_2.jpg"} | missing])
        partly = load("caparena", tmp_path)
        assert not partly.card.has_references
        assert partly.items["references"].tolist() == [("A dog sits.",)] * 2 + [()] * 2


def test_battles_without_a_verdict_are_left_out_and_counted(tmp_path: Path) -> None:
    """A system may be called as no verdict is; then it wins."""
    winners = ["skip", "human", "bad", "skip"]
    write(tmp_path, [BATTLE | {"winner": winner} for winner in winners])
    caption_set = load("caparena", tmp_path)
    assert caption_set.preferences["pair_id"].tolist() == ["battle-0001"]
    assert caption_set.card.remarks == (
        "3 of 4 battles have no verdict and are left out (winner 'bad' 1, 'skip' 2).",
    )

    write(tmp_path, [BATTLE | {"source2": "skip", "winner": "skip"}])
    named = load("caparena", tmp_path)
    assert named.preferences["winner"].tolist() == ["b"]
    assert named.card.remarks == ()

    path = write(tmp_path, [BATTLE | {"winner": "bad"}])
    with says(f"{path}: no battle has a verdict"):
        load("caparena", tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"winner": "C"}, "'winner' is 'C', neither 'A' nor 'human' nor equal, bad or skip"),
        ({"source1": "human"}, "'human' meets itself"),
        ({"img": 5}, "'img' is 5, not str"),
        ({"ref": 5}, "'ref' is 5, not str"),
    ],
)
def test_faults_of_caparena_name_file_and_entry(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = write(tmp_path, [BATTLE, BATTLE | change])
    with says(f"{path}: entry 1: ", message):
        load("caparena", tmp_path)
